//! Replies to publishers, byte for byte as the reference has them.
//!
//! Perf: an acknowledgement is the stream's prefix, a number and a brace, put together in a buffer
//! that is kept.

use myelin_store::Seq;
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use myelin_jsapi::ApiError;
use myelin_wire::encode;

/// Renders the replies of one stream.
pub(super) struct PublishReplies {
    /// `{"stream":"S","seq":`, with the domain if there is one.
    prefix: Vec<u8>,
    /// `,"stream":"S","seq":0}`.
    error_end: Vec<u8>,
    buffer: Vec<u8>,
    /// Total of a counter, in its acknowledgement.
    total: Vec<u8>,
}

impl PublishReplies {
    pub(super) fn new(stream: &str, domain: &str) -> Self {
        let mut prefix = b"{\"stream\":".to_vec();
        prefix.extend(quoted(stream));
        if !domain.is_empty() {
            prefix.extend_from_slice(b",\"domain\":");
            prefix.extend(quoted(domain));
        }
        prefix.extend_from_slice(b",\"seq\":");
        Self { prefix, error_end: error_end(stream), buffer: Vec::new(), total: Vec::new() }
    }

    /// How every acknowledgement begins, up to the sequence.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The message was stored.
    pub(super) fn stored(&mut self, reply: &[u8], seq: Seq, out: &mut MessageBuf) {
        self.ack(reply, seq, b"}", out);
    }

    /// The message of a counter was stored, with this payload: an object with the total.
    pub(super) fn counted(&mut self, reply: &[u8], seq: Seq, payload: &[u8], out: &mut MessageBuf) {
        let mut end = std::mem::take(&mut self.total);
        end.clear();
        end.push(b',');
        end.extend_from_slice(payload.strip_prefix(b"{").unwrap_or(b"\"val\":\"\"}"));
        self.ack(reply, seq, &end, out);
        self.total = end;
    }

    /// The message had been stored before.
    ///
    /// Compat: the reference has a blank behind the colon.
    pub(super) fn duplicate(&mut self, reply: &[u8], seq: Seq, out: &mut MessageBuf) {
        self.ack(reply, seq, b",\"duplicate\": true}", out);
    }

    fn ack(&mut self, reply: &[u8], seq: Seq, end: &[u8], out: &mut MessageBuf) {
        self.buffer.clear();
        self.buffer.extend_from_slice(&self.prefix);
        encode::number(&mut self.buffer, seq);
        self.buffer.extend_from_slice(end);
        out.push(MessageRef { subject: reply, payload: &self.buffer, ..MessageRef::default() });
    }

    /// The message was refused.
    pub(super) fn refused(&mut self, reply: &[u8], error: &ApiError, out: &mut MessageBuf) {
        self.buffer.clear();
        write_error(error, &self.error_end, &mut self.buffer);
        out.push(MessageRef { subject: reply, payload: &self.buffer, ..MessageRef::default() });
    }

    /// Whether this says that a message is stored. Republished messages have headers.
    pub(super) fn is_ack(&self, msg: &MessageRef<'_>) -> bool {
        msg.headers.is_empty() && msg.payload.starts_with(&self.prefix)
    }

    /// Whether this says that a message was not taken.
    pub(super) fn is_refusal(&self, msg: &MessageRef<'_>) -> bool {
        msg.headers.is_empty() && msg.payload.ends_with(&self.error_end)
    }
}

/// Tells the publisher of a message that an overloaded stream did not look at it.
pub fn refuse_overload(stream: &str, reply: &[u8], out: &mut MessageBuf) {
    let mut payload = Vec::new();
    write_error(&ApiError::STREAM_TOO_MANY_REQUESTS, &error_end(stream), &mut payload);
    let headers = b"NATS/1.0 429 Too Many Requests\r\n\r\n";
    out.push(MessageRef { subject: reply, headers, payload: &payload, ..MessageRef::default() });
}

fn write_error(error: &ApiError, end: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":");
    out.extend(error.json());
    out.extend_from_slice(end);
}

fn error_end(stream: &str) -> Vec<u8> {
    let mut end = b",\"stream\":".to_vec();
    end.extend(myelin_wire::json::compact(&stream));
    end.extend_from_slice(b",\"seq\":0}");
    end
}

/// Compat: names in acknowledgements have other escapes in the reference than those in errors.
fn quoted(name: &str) -> Vec<u8> {
    serde_json::to_vec(name).expect("a text is always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(tell: impl FnOnce(&mut PublishReplies, &mut MessageBuf)) -> String {
        let (mut replies, mut out) = (PublishReplies::new("S", ""), MessageBuf::default());
        tell(&mut replies, &mut out);
        let msg = out.get(0).expect("a reply was given");
        assert_eq!((msg.subject, msg.reply, msg.headers), (&b"in.box"[..], &b""[..], &b""[..]));
        String::from_utf8(msg.payload.to_vec()).unwrap()
    }

    #[test]
    fn acknowledgements_have_the_bytes_that_clients_know() {
        let stored = payload(|replies, out| replies.stored(b"in.box", 1, out));
        assert_eq!(stored, r#"{"stream":"S","seq":1}"#);
        let duplicate = payload(|replies, out| replies.duplicate(b"in.box", u64::MAX, out));
        assert_eq!(duplicate, r#"{"stream":"S","seq":18446744073709551615,"duplicate": true}"#);
    }

    #[test]
    fn a_domain_stands_in_acknowledgements_only() {
        let (mut replies, mut out) = (PublishReplies::new("S", "hub"), MessageBuf::default());
        replies.stored(b"r", 10, &mut out);
        replies.refused(b"r", &ApiError::STREAM_SEALED, &mut out);
        let refs: Vec<_> = out.iter().collect();
        assert_eq!(refs[0].payload, br#"{"stream":"S","domain":"hub","seq":10}"#);
        assert!(refs[1].payload.ends_with(br#"},"stream":"S","seq":0}"#));
        assert!(replies.is_ack(&refs[0]) && !replies.is_ack(&refs[1]));
    }

    #[test]
    fn errors_are_escaped_as_the_reference_does() {
        let error = ApiError::stream_rollup_failed("rollup value invalid: \"<a&b>\"\u{1}");
        let refused = payload(|replies, out| replies.refused(b"in.box", &error, out));
        let expected = r#"{"error":{"code":500,"err_code":10111,"description":"rollup value invalid: \"\u003ca\u0026b\u003e\"\u0001"},"stream":"S","seq":0}"#;
        assert_eq!(refused, expected);
    }
}
