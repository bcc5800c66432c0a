//! Direct get: requests as they come from the broker.
//!
//! Budget: a request that names a sequence or a subject and finds its message in memory or the page
//! cache takes one look-up, one read and two copies; nothing is allocated but what the body's text
//! needs.

use myelin_store::Wait;
use myelin_wire::header;
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::Readable;
use super::answer::{self, HeaderBuf, push_status};
use super::sliced_answer::{AnswerProgress, SlicedAnswer, read_single};
use myelin_jsapi::get_request::GetRequest;

/// The level of the API that this server speaks.
const API_LEVEL: i64 = 5;
/// Dots before the subject in `$JS.API.DIRECT.GET.<stream>.<subject>`.
const DOTS_BEFORE_KEY: usize = 5;

/// Answers direct gets. One for each shard: it keeps the buffers.
#[derive(Debug, Default)]
pub struct Requests {
    request: GetRequest,
    buffers: Buffers,
}

/// Buffers that are kept between messages.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The bytes of a message as they are stored.
    pub(super) stored: Vec<u8>,
    pub(super) header_buf: HeaderBuf,
}

impl Requests {
    /// Answers a request to `$JS.API.DIRECT.GET.<stream>` or
    /// `$JS.API.DIRECT.GET.<stream>.<subject>`, whichever the message's subject is. What is more
    /// than one message, or would wait, is given back to be gone on with.
    pub fn ask(
        &mut self,
        stream: &Readable,
        msg: &MessageRef<'_>,
        out: &mut MessageBuf,
    ) -> Option<SlicedAnswer> {
        if msg.reply.is_empty() {
            return None;
        }
        let Self { request, buffers } = self;
        if let Err(status) = accept(request, msg) {
            push_status(out, msg.reply, status);
            return None;
        }
        if request.is_single()
            && read_single(stream, request, msg.reply, Wait::Forbidden, buffers, out) == AnswerProgress::Done
        {
            return None;
        }
        Some(SlicedAnswer::new(stream.clone(), std::mem::take(request), msg.reply))
    }
}

/// Reads and checks a request; the error is its answer.
fn accept(request: &mut GetRequest, msg: &MessageRef<'_>) -> Result<(), &'static [u8]> {
    if is_too_high(header::get(msg.headers, b"Nats-Required-Api-Level")) {
        return Err(answer::REQUIRED_API_LEVEL);
    }
    let key = key_of(msg.subject);
    if msg.payload.is_empty() {
        request.clear();
        if key.is_none() {
            return Err(answer::EMPTY_REQUEST);
        }
    } else {
        request.read(msg.payload).map_err(|_| answer::MALFORMED_REQUEST)?;
    }
    let Some(key) = key else { return check(request) };
    if key.is_empty() || request.is_bad_by_subject() {
        return Err(answer::BAD_REQUEST);
    }
    request.last_for.extend_from_slice(key);
    Ok(())
}

fn check(request: &GetRequest) -> Result<(), &'static [u8]> {
    if request.is_empty() {
        Err(answer::EMPTY_REQUEST)
    } else if request.is_bad_direct() {
        Err(answer::BAD_REQUEST)
    } else {
        Ok(())
    }
}

/// Whether a request demands more than there is, or something that is no number.
pub(crate) fn is_too_high(level: Option<&[u8]>) -> bool {
    let Some(level) = level.filter(|level| !level.is_empty()) else { return false };
    let number = std::str::from_utf8(level).ok().and_then(|level| level.parse::<i64>().ok());
    number.is_none_or(|level| level > API_LEVEL)
}

/// The subject within the subject of a request; the API may be that of a domain,
/// `$JS.<domain>.API`.
fn key_of(subject: &[u8]) -> Option<&[u8]> {
    let dots = DOTS_BEFORE_KEY + usize::from(!subject.starts_with(b"$JS.API."));
    subject.splitn(dots + 1, |byte| *byte == b'.').nth(dots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_all_behind_the_stream() {
        assert_eq!(key_of(b"$JS.API.DIRECT.GET.S"), None);
        assert_eq!(key_of(b"$JS.API.DIRECT.GET.S."), Some(&b""[..]));
        assert_eq!(key_of(b"$JS.hub.API.DIRECT.GET.S"), None);
        assert_eq!(key_of(b"$JS.hub.API.DIRECT.GET.S.a.b"), Some(&b"a.b"[..]));
        assert_eq!(key_of(b"$JS.API.DIRECT.GET.S.$KV.b.k"), Some(&b"$KV.b.k"[..]));
    }

    #[test]
    fn levels_that_are_no_numbers_are_too_high() {
        for (level, expected) in
            [("5", false), ("6", true), ("x", true), ("", false), ("-1", false), ("+5", false)]
        {
            assert_eq!(is_too_high(Some(level.as_bytes())), expected, "{level}");
        }
        assert!(!is_too_high(None));
    }
}
