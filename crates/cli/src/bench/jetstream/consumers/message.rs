//! A delivered message, and what its reply subject says about the delivery.
//!
//! Budget per message: one pass over the control line and one over the reply's numbers; no allocation. Whatever is not a
//! whole message is left to `frame`, which knows all operations and says what is wrong.

use crate::bench::error::BenchError;
use crate::bench::jetstream::envelope::number;

/// A whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) subject: &'a [u8],
    pub(crate) sid: u64,
    /// Empty without one.
    pub(crate) reply: &'a [u8],
    /// Empty for MSG.
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// Bytes of the whole frame.
    pub(crate) length: usize,
}

impl<'a> Message<'a> {
    /// The message at the start of these bytes; `None` if there is something else, or not yet all of it.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (line, has_header) = match bytes.strip_prefix(b"MSG ") {
            Some(line) => (line, false),
            None => (bytes.strip_prefix(b"HMSG ")?, true),
        };
        let end = line.iter().position(|&byte| byte == b'\r')?;
        let (mut line, rest) = (&line[..end], line[end..].strip_prefix(b"\r\n")?);
        let size = last_number(&mut line)?;
        let header_size = if has_header { last_number(&mut line)? } else { 0 };
        let subject = line.iter().position(|&byte| byte == b' ')?;
        let (subject, mut line) = (&line[..subject], &line[subject + 1..]);
        let sid = number(&mut line)?;
        let reply = if line.is_empty() { line } else { line.strip_prefix(b" ")? };
        let (content, rest) = rest.split_at_checked(size)?;
        let rest = rest.strip_prefix(b"\r\n")?;
        let (header, payload) = content.split_at_checked(header_size)?;
        Some(Self { subject, sid, reply, header, payload, length: bytes.len() - rest.len() })
    }

    /// The value of a header, if it has it.
    pub(crate) fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.header.split(|&byte| byte == b'\n').find_map(|line| {
            let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b": ")?;
            Some(value.strip_suffix(b"\r").unwrap_or(value))
        })
    }

    /// Whether it is a status with this number, as `404`.
    pub(crate) fn is_status(&self, code: &str) -> bool {
        self.header.strip_prefix(b"NATS/1.0 ").is_some_and(|rest| rest.starts_with(code.as_bytes()))
    }

    /// The error for a message that should not be there.
    pub(crate) fn unexpected(&self) -> BenchError {
        if self.is_status("503") {
            return BenchError::NoResponder;
        }
        let [reply, header] = [self.reply, self.header].map(String::from_utf8_lossy);
        let size = self.payload.len();
        BenchError::Lost(format!("a message of {size} bytes with the reply {reply:?} and header {header:?}"))
    }
}

/// Takes the number behind the last space, and the space, off the end.
fn last_number(line: &mut &[u8]) -> Option<usize> {
    let digits = line.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, mut text) = line.split_at(line.len() - digits);
    *line = rest.strip_suffix(b" ")?;
    number(&mut text).and_then(|number| usize::try_from(number).ok())
}

/// What the reply subject of a delivery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// How often this message has been delivered by now.
    pub(crate) times: u64,
    pub(crate) stream_sequence: u64,
    pub(crate) consumer_sequence: u64,
}

/// What all these reply subjects begin with, whether they name the domain and the account or not.
pub(crate) const ACK: &[u8] = b"$JS.ACK.";

impl Delivery {
    /// `None` for what is not the reply subject of a delivery. `start` is what those of this consumer begin with, for
    /// speed only.
    pub(crate) fn of(reply: &[u8], start: &[u8]) -> Option<Self> {
        let mut rest = match reply.strip_prefix(start) {
            Some(rest) => rest,
            None => Self::numbers(reply.strip_prefix(ACK)?)?,
        };
        let times = token(&mut rest)?;
        let stream_sequence = token(&mut rest)?;
        let consumer_sequence = token(&mut rest)?;
        Some(Self { times, stream_sequence, consumer_sequence })
    }

    /// What stands behind stream and consumer: behind two tokens, or four in the longer form.
    fn numbers(rest: &[u8]) -> Option<&[u8]> {
        let names = if rest.iter().filter(|&&byte| byte == b'.').count() > 7 { 4 } else { 2 };
        let mut rest = rest;
        for _ in 0..names {
            let dot = rest.iter().position(|&byte| byte == b'.')?;
            rest = &rest[dot + 1..];
        }
        Some(rest)
    }
}

/// Takes a number and the dot behind it off the start.
fn token(bytes: &mut &[u8]) -> Option<u64> {
    let number = number(bytes)?;
    *bytes = bytes.strip_prefix(b".")?;
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_messages_are_taken_apart() {
        let bytes = b"MSG a.b 12 re.ply 2\r\nhi\r\nPING\r\n";
        let expected =
            Message { subject: b"a.b", sid: 12, reply: b"re.ply", header: b"", payload: b"hi", length: 25 };
        assert_eq!(Message::read(bytes), Some(expected));
        let status = b"HMSG a 1 35 35\r\nNATS/1.0 100 Idle\r\nK: v w\r\nL: 7\r\n\r\n\r\n";
        let bytes = [&status[..12], b"41 41", &status[12 + 2..]].concat();
        assert_eq!(Message::read(&bytes), None, "sizes that are wrong");
        let header = b"NATS/1.0 100 Idle\r\nK: v w\r\nL: 7\r\n\r\n";
        let frame = [format!("HMSG a 1 {0} {0}\r\n", header.len()).as_bytes(), header, b"\r\n"].concat();
        let message = Message::read(&frame).unwrap();
        assert!(message.is_status("100") && !message.is_status("404") && message.payload.is_empty());
        assert_eq!(
            (message.reply, message.header("K"), message.header("M")),
            (&b""[..], Some(&b"v w"[..]), None)
        );
        assert_eq!(message.length, frame.len());
        for cut in 0..frame.len() {
            assert_eq!(Message::read(&frame[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn anything_else_is_left_alone() {
        for other in [
            &b"PING\r\n"[..],
            b"MSG a 1 2\r\nabcd",
            b"MSG a 1 x\r\n\r\n",
            b"MSG 1 0\r\n\r\n",
            b"HMSG a 1 5 2\r\nab\r\n",
        ] {
            assert_eq!(Message::read(other), None, "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn both_forms_of_replies_are_read() {
        let expected = Some(Delivery { times: 1, stream_sequence: 22, consumer_sequence: 333 });
        let tail = "1.22.333.1795181408000000000.4";
        for reply in [format!("$JS.ACK.S.C.{tail}"), format!("$JS.ACK._.HASH.S.C.{tail}.rand")] {
            for start in [&b"$JS.ACK.S.C."[..], b"$JS.ACK.S.D."] {
                assert_eq!(Delivery::of(reply.as_bytes(), start), expected, "{reply}");
            }
        }
        for other in ["$JS.FC.S.C.x", "", "$JS.ACK.S.C.1.2", "$JS.ACK.S.C.a.b.c.d.e"] {
            assert_eq!(Delivery::of(other.as_bytes(), b"$JS.ACK.S.C."), None, "{other}");
        }
    }
}
