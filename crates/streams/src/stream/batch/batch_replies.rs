//! Replies to the publishers of batches, byte for byte as the reference has them.

use crate::stream::reply::PublishReplies;
use myelin_jsapi::ApiError;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::io::Write;

/// Renders the replies of one stream into whatever buffer goes out.
pub struct BatchReplies {
    replies: PublishReplies,
    /// Whether the stream is configured to acknowledge nothing.
    pub no_ack: bool,
    buffer: Vec<u8>,
}

impl BatchReplies {
    /// An empty `domain` is none.
    #[must_use]
    pub fn new(stream: &str, domain: &str, no_ack: bool) -> Self {
        Self { replies: PublishReplies::new(stream, domain), no_ack, buffer: Vec::new() }
    }

    /// A message is held back: an empty acknowledgement.
    pub(super) fn held(&mut self, reply: &[u8], out: &mut MessageBuf) {
        self.buffer.clear();
        self.send(reply, out);
    }

    /// A batch is stored: `seq` is its last message's, `count` what the batch had.
    pub fn committed(&mut self, reply: &[u8], seq: u64, id: &[u8], count: u64, out: &mut MessageBuf) {
        self.batch_ack(reply, seq, "", id, count, out);
    }

    /// All of a batch was its first message, and `seq` is where that had been stored before.
    ///
    /// Compat: there is a blank behind the colon.
    pub(super) fn duplicate(&mut self, reply: &[u8], seq: u64, id: &[u8], count: u64, out: &mut MessageBuf) {
        self.batch_ack(reply, seq, ",\"duplicate\": true", id, count, out);
    }

    fn batch_ack(&mut self, reply: &[u8], seq: u64, more: &str, id: &[u8], count: u64, out: &mut MessageBuf) {
        self.buffer.clear();
        self.buffer.extend_from_slice(self.replies.prefix());
        self.write(format_args!("{seq}{more},\"batch\":"));
        go_quote(id, &mut self.buffer);
        self.write(format_args!(",\"count\":{count}}}"));
        self.send(reply, out);
    }

    /// A message was refused.
    pub(super) fn refused(&mut self, reply: &[u8], error: &ApiError, out: &mut MessageBuf) {
        if !reply.is_empty() {
            self.replies.refused(reply, error, out);
        }
    }

    /// Everything up to `seq` was received, and the next of these comes `messages` later.
    pub(super) fn flow(&mut self, reply: &[u8], seq: u64, messages: u16, out: &mut MessageBuf) {
        self.buffer.clear();
        self.write(format_args!("{{\"type\":\"ack\",\"seq\":{seq},\"msgs\":{messages}}}"));
        self.send(reply, out);
    }

    /// `expected` was next, and `seq` came.
    pub(super) fn gap(&mut self, reply: &[u8], expected: u64, seq: u64, out: &mut MessageBuf) {
        self.buffer.clear();
        self.write(format_args!("{{\"type\":\"gap\",\"last_seq\":{expected},\"seq\":{seq}}}"));
        self.send(reply, out);
    }

    /// A message in the midst of a fast batch was refused.
    pub(super) fn fast_error(&mut self, reply: &[u8], seq: u64, error: &ApiError, out: &mut MessageBuf) {
        self.buffer.clear();
        self.write(format_args!("{{\"type\":\"err\",\"seq\":{seq},\"error\":"));
        self.buffer.extend(error.json());
        self.buffer.push(b'}');
        self.send(reply, out);
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.buffer.write_fmt(text).expect("a vector takes all");
    }

    fn send(&self, reply: &[u8], out: &mut MessageBuf) {
        if !reply.is_empty() {
            out.push(MessageRef { subject: reply, payload: &self.buffer, ..MessageRef::default() });
        }
    }
}

/// Appends a batch's id.
///
/// Compat: the reference quotes it in Go's manner (`%q`), which is not JSON for ids that have
/// unprintable characters.
fn go_quote(id: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in id.utf8_chunks() {
        for c in chunk.valid().chars() {
            go_char(c, out);
        }
        for byte in chunk.invalid() {
            out.write_fmt(format_args!("\\x{byte:02x}")).expect("a vector takes all");
        }
    }
    out.push(b'"');
}

fn go_char(c: char, out: &mut Vec<u8>) {
    let escape = match c {
        '"' | '\\' => c,
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{b}' => 'v',
        _ if is_printable(c) => {
            return out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        _ => {
            let code = c as u32;
            let escaped = match code {
                ..0x80 => out.write_fmt(format_args!("\\x{code:02x}")),
                0x80..0x1_0000 => out.write_fmt(format_args!("\\u{code:04x}")),
                0x1_0000.. => out.write_fmt(format_args!("\\U{code:08x}")),
            };
            return escaped.expect("a vector takes all");
        }
    };
    out.extend_from_slice(&[b'\\', escape as u8]);
}

/// Whether Rust shows a character as it is; behind another one, where it spares marks that combine.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    let mut bytes = [b'x'; 5];
    let end = 1 + c.encode_utf8(&mut bytes[1..]).len();
    std::str::from_utf8(&bytes[..end]).is_ok_and(|text| text.escape_debug().nth(1) == Some(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(domain: &str, tell: impl FnOnce(&mut BatchReplies, &mut MessageBuf)) -> String {
        let (mut replies, mut out) = (BatchReplies::new("S", domain, false), MessageBuf::default());
        tell(&mut replies, &mut out);
        let msg = out.get(0).expect("something was said");
        assert_eq!((msg.subject, msg.reply, msg.headers), (&b"r"[..], &b""[..], &b""[..]));
        String::from_utf8(msg.payload.to_vec()).unwrap()
    }

    #[test]
    fn a_commit_is_an_acknowledgement_with_more() {
        let plain = said("", |replies, out| replies.committed(b"r", 7, b"b", 3, out));
        assert_eq!(plain, r#"{"stream":"S","seq":7,"batch":"b","count":3}"#);
        let domain = said("hub", |replies, out| replies.committed(b"r", 7, b"b", 3, out));
        assert_eq!(domain, r#"{"stream":"S","domain":"hub","seq":7,"batch":"b","count":3}"#);
        let again = said("", |replies, out| replies.duplicate(b"r", 38, b"b", 1, out));
        assert_eq!(again, r#"{"stream":"S","seq":38,"duplicate": true,"batch":"b","count":1}"#);
    }

    #[test]
    fn errors_are_escaped_as_the_reference_does() {
        let error = ApiError { code: 500, err_code: 10111, description: "\"<a&b>\"\u{1}".into() };
        let refused = said("hub", |replies, out| replies.refused(b"r", &error, out));
        let body = r#""error":{"code":500,"err_code":10111,"description":"\"\u003ca\u0026b\u003e\"\u0001"}"#;
        assert_eq!(refused, format!(r#"{{{body},"stream":"S","seq":0}}"#));
        let fast = said("", |replies, out| replies.fast_error(b"r", 4, &error, out));
        assert_eq!(fast, format!(r#"{{"type":"err","seq":4,{body}}}"#));
    }

    /// The first two were seen on the reference; the others are Go's `strconv.Quote`.
    #[test]
    fn ids_are_quoted_in_the_manner_of_go() {
        let quoted = |id: &[u8]| {
            let mut out = Vec::new();
            go_quote(id, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(quoted("b\"\\\té".as_bytes()), r#""b\"\\\té""#);
        assert_eq!(quoted("a\u{1}\u{7f}\u{200b}\u{ad}".as_bytes()), r#""a\x01\x7f\u200b\u00ad""#);
        assert_eq!(quoted("'e\u{301}\u{a0}\u{e0001}".as_bytes()), "\"'e\u{301}\\u00a0\\U000e0001\"");
        assert_eq!(quoted(b"\xff\x0b"), r#""\xff\v""#);
    }

    #[test]
    fn nobody_is_told_without_a_reply_subject() {
        let (mut replies, mut out) = (BatchReplies::new("S", "", false), MessageBuf::default());
        replies.committed(b"", 1, b"b", 1, &mut out);
        assert!(out.is_empty());
    }
}
