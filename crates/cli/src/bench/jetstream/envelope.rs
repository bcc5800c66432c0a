//! A message to one of our inboxes, taken apart with as few looks as possible.
//!
//! Budget: one comparison of the known start, one pass over the numbers; no allocation. Whatever does not look like a
//! message to the inbox is left to `frame`, which knows all operations and says what is wrong.

/// Finds the messages to one inbox in what a server sends.
#[derive(Debug)]
pub(crate) struct Reader {
    /// `MSG `, the inbox and a dot.
    plain: Vec<u8>,
    /// The same for HMSG.
    headed: Vec<u8>,
}

/// A whole message to the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    /// The subject behind the inbox and its dot.
    pub(crate) tail: &'a [u8],
    /// Empty for MSG.
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// Bytes of the whole frame.
    pub(crate) length: usize,
}

impl Reader {
    pub(crate) fn new(inbox: &str) -> Self {
        let start = |verb: &str| format!("{verb} {inbox}.").into_bytes();
        Self { plain: start("MSG"), headed: start("HMSG") }
    }

    /// Whether these bytes are the start of a message to the inbox.
    pub(crate) fn begins(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(&self.plain) || bytes.starts_with(&self.headed)
    }

    /// The envelope at the start of these bytes; `None` if there is something else, or not yet all of it.
    pub(crate) fn read<'a>(&self, bytes: &'a [u8]) -> Option<Envelope<'a>> {
        let (rest, has_header) = match bytes.strip_prefix(&self.plain[..]) {
            Some(rest) => (rest, false),
            None => (bytes.strip_prefix(&self.headed[..])?, true),
        };
        let space = rest.iter().position(|&byte| byte == b' ')?;
        let (tail, rest) = rest.split_at(space);
        let mut rest = rest.strip_prefix(b" 1 ")?;
        let header_size = match has_header {
            true => {
                let size = number(&mut rest)?;
                rest = rest.strip_prefix(b" ")?;
                usize::try_from(size).ok()?
            }
            false => 0,
        };
        let size = usize::try_from(number(&mut rest)?).ok()?;
        let rest = rest.strip_prefix(b"\r\n")?;
        let (content, rest) = rest.split_at_checked(size)?;
        let rest = rest.strip_prefix(b"\r\n")?;
        let (header, payload) = content.split_at_checked(header_size)?;
        Some(Envelope { tail, header, payload, length: bytes.len() - rest.len() })
    }
}

/// Takes a decimal number off the start; `None` if there is none, or it is absurdly long.
pub(crate) fn number(bytes: &mut &[u8]) -> Option<u64> {
    let digits = bytes.iter().take(19).take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = bytes.split_at(digits);
    *bytes = rest;
    (digits > 0).then(|| number.iter().fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_messages_are_taken_apart() {
        let reader = Reader::new("_INBOX.x");
        let bytes = b"MSG _INBOX.x.00A.b 1 2\r\nhi\r\nPING\r\n";
        let expected = Envelope { tail: b"00A.b", header: b"", payload: b"hi", length: 28 };
        assert_eq!(reader.read(bytes), Some(expected));
        let bytes = b"HMSG _INBOX.x.7 1 12 15\r\nNATS/1.0\r\n\r\nabc\r\n";
        let expected =
            Envelope { tail: b"7", header: b"NATS/1.0\r\n\r\n", payload: b"abc", length: bytes.len() };
        assert_eq!(reader.read(bytes), Some(expected));
        for cut in 0..bytes.len() {
            assert_eq!(reader.read(&bytes[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn anything_else_is_left_alone() {
        let reader = Reader::new("_INBOX.x");
        for other in [
            &b"PING\r\n"[..],
            b"MSG _INBOX.y.1 1 0\r\n\r\n",
            b"MSG _INBOX.x.1 2 0\r\n\r\n",
            b"MSG _INBOX.x.1 1 re.ply 0\r\n\r\n",
            b"MSG _INBOX.x.1 1 99999999999999999999\r\n\r\n",
            b"MSG _INBOX.x.1 1 \r\n\r\n",
            b"HMSG _INBOX.x.1 1 5 2\r\nab\r\n",
            b"MSG _INBOX.x.1 1 2\r\nabcd",
        ] {
            assert_eq!(reader.read(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
