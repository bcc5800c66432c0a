//! Requests of a client that speaks MQTT 5 and waits for answers with correlation data.
//!
//! NATS services answer to a reply subject and know no correlation data, so a request with both a
//! response topic and correlation data goes out with an inbox of the server's in place of the
//! response topic. What comes to the inbox goes to the requester alone, on its response topic and
//! with its data.

use myelin_mqtt::headers::RESPONSE_INBOX;
use myelin_stdx::sync::lock;
use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Mutex, OnceLock};

/// Name of the subscription to the inbox. A filter has no subject with a blank in it.
pub(crate) const INBOX_SID: &[u8] = b" responses";

/// Requests whose answers are awaited, at most; and their bytes.
const MOST: usize = 1024;
const MOST_BYTES: usize = 128 * 1024;

/// Requests of one client.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Beginning of the client's inbox, from its first request on.
    inbox: OnceLock<Box<[u8]>>,
    waiting: Mutex<RequestRing>,
}

#[derive(Debug, Default)]
struct RequestRing {
    /// Number of the oldest request that is kept.
    first: u64,
    requests: VecDeque<AwaitedRequest>,
    bytes: usize,
}

/// Whatever an answer needs in order to be one in MQTT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwaitedRequest {
    /// The subject that stands for the response topic.
    pub(crate) subject: Box<[u8]>,
    /// Data by which the requester knows its request.
    pub(crate) correlation: Box<[u8]>,
}

impl AwaitedRequest {
    fn cost(&self) -> usize {
        size_of::<Self>() + self.subject.len() + self.correlation.len()
    }
}

impl Requests {
    /// The pattern of the inbox, whose name `name` makes if there is none yet.
    pub(crate) fn pattern(&self, name: impl FnOnce() -> String) -> Vec<u8> {
        let inbox = self.inbox.get_or_init(|| format!("{RESPONSE_INBOX}{}.", name()).into_bytes().into());
        [inbox, &b"*"[..]].concat()
    }

    /// Keeps a request, in place of the oldest where there are too many, and appends the subject
    /// for its answers. False: it is too large to be kept.
    pub(crate) fn keep(&self, request: AwaitedRequest, reply: &mut Vec<u8>) -> bool {
        let (Some(inbox), cost) = (self.inbox.get(), request.cost()) else { return false };
        if cost > MOST_BYTES {
            return false;
        }
        let mut waiting = lock(&self.waiting);
        while waiting.requests.len() == MOST || waiting.bytes + cost > MOST_BYTES {
            let Some(oldest) = waiting.requests.pop_front() else { break };
            waiting.bytes -= oldest.cost();
            waiting.first += 1;
        }
        let number = waiting.first + waiting.requests.len() as u64;
        waiting.bytes += cost;
        waiting.requests.push_back(request);
        reply.extend_from_slice(inbox);
        // Writing into memory cannot fail.
        let _ = write!(reply, "{number}");
        true
    }

    /// The request that an answer to `subject` is for.
    pub(crate) fn answered(&self, subject: &[u8]) -> Option<AwaitedRequest> {
        let number = subject.strip_prefix(&**self.inbox.get()?)?;
        let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
        let waiting = lock(&self.waiting);
        let at = usize::try_from(number.checked_sub(waiting.first)?).ok()?;
        waiting.requests.get(at).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(subject: &str, size: usize) -> AwaitedRequest {
        AwaitedRequest { subject: subject.as_bytes().into(), correlation: vec![7; size].into() }
    }

    #[test]
    fn answers_find_their_requests_as_long_as_there_is_room() {
        let requests = Requests::default();
        let mut reply = Vec::new();
        assert!(!requests.keep(request("a", 1), &mut reply), "there is no inbox");
        assert_eq!(requests.pattern(|| "me".to_owned()), b"_INBOX.mqtt5.me.*");
        assert_eq!(requests.pattern(|| "other".to_owned()), b"_INBOX.mqtt5.me.*");
        assert!(requests.keep(request("a", 1), &mut reply));
        assert_eq!(reply, b"_INBOX.mqtt5.me.0");
        assert_eq!(requests.answered(&reply), Some(request("a", 1)));
        for other in ["_INBOX.mqtt5.me.1", "_INBOX.mqtt5.me.x", "_INBOX.mqtt5.me.", "_INBOX.me.0", ""] {
            assert_eq!(requests.answered(other.as_bytes()), None);
        }
        for _ in 0..MOST {
            assert!(requests.keep(request("b", 1), &mut Vec::new()));
        }
        assert_eq!(requests.answered(&reply), None);
        let mut last = Vec::new();
        assert!(requests.keep(request("c", MOST_BYTES / 2), &mut last));
        assert!(requests.keep(request("d", MOST_BYTES / 2), &mut Vec::new()));
        assert_eq!(requests.answered(&last), None);
        assert!(!requests.keep(request("e", MOST_BYTES), &mut last));
    }
}
