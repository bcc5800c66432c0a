//! An answer: a message to one of our inboxes, by what stands behind the inbox in its subject.

use crate::client_pool::inbox::Message;
use crate::error::BenchError;

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    /// The subject behind the inbox and its dot.
    pub(crate) tail: &'a [u8],
    /// Empty for MSG.
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// The answer that a message to this inbox is; what came to another subject is an error.
    pub(crate) fn of(message: &Message<'a>, inbox: &str) -> Result<Self, BenchError> {
        let tail = message.subject.strip_prefix(inbox.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        let Some(tail) = tail else {
            let subject = String::from_utf8_lossy(message.subject);
            return Err(BenchError::Protocol(format!("a message on {subject:?} instead of an answer")));
        };
        Ok(Self { tail, header: message.header, payload: message.payload })
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
    fn answers_come_to_the_inbox() {
        let message =
            Message { subject: b"_INBOX.x.00A.b", sid: 1, reply: b"", header: b"h", payload: b"hi" };
        let expected = Envelope { tail: b"00A.b", header: b"h", payload: b"hi" };
        assert_eq!(Envelope::of(&message, "_INBOX.x").unwrap(), expected);
        for other in ["_INBOX.y", "_INBOX.x.00A.b", "_INBOX"] {
            let is_other = Envelope::of(&message, other).is_err();
            assert!(is_other || other == "_INBOX", "{other}");
        }
    }

    #[test]
    fn numbers_are_taken_off() {
        let mut text = &b"12.3"[..];
        assert_eq!((number(&mut text), text), (Some(12), &b".3"[..]));
        assert_eq!(number(&mut text), None);
    }
}
