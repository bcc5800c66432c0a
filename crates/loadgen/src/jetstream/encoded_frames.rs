//! Frames that were encoded before the clock started, and which part of them is on its way.
//!
//! Owns the bytes and the places in them that change from one use to the next. Sends nothing: the
//! owner of the socket takes the unsent part and says how much of it went.

use std::ops::Range;

use crate::token;

/// Encoded messages.
#[derive(Debug, Default)]
pub(crate) struct EncodedFrames {
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
    /// Where its token is, if it has one.
    tokens: Vec<Option<usize>>,
    unsent: Range<usize>,
}

/// A message to be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingMessage<'a> {
    pub(crate) subject: &'a str,
    pub(crate) reply: Option<&'a str>,
    /// Header lines with their line ends, without the version and without the empty line behind
    /// them.
    pub(crate) headers: Option<&'a str>,
    pub(crate) payload: &'a [u8],
}

impl EncodedFrames {
    /// Adds a message. Its token is where `token::BLANK` stands first before the payload.
    pub(crate) fn push(&mut self, message: OutgoingMessage<'_>) {
        let OutgoingMessage { subject, reply, headers, payload } = message;
        let start = self.bytes.len();
        let reply = reply.map_or_else(String::new, |reply| format!("{reply} "));
        let head = match headers {
            None => format!("PUB {subject} {reply}{}\r\n", payload.len()),
            Some(lines) => {
                let header = format!("NATS/1.0\r\n{lines}\r\n");
                let whole = header.len() + payload.len();
                format!("HPUB {subject} {reply}{} {whole}\r\n{header}", header.len())
            }
        };
        self.tokens.push(head.find(token::BLANK).map(|place| start + place));
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(payload);
        self.bytes.extend_from_slice(b"\r\n");
        self.ends.push(self.bytes.len());
    }

    /// Messages on it.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Writes a token into a message that is not on its way.
    pub(crate) fn mark(&mut self, message: usize, number: u64) {
        if let Some(place) = self.tokens[message] {
            token::write(&mut self.bytes[place..], number);
        }
    }

    /// The bytes of a message, to change what has a fixed width.
    pub(crate) fn message_mut(&mut self, message: usize) -> &mut [u8] {
        let start = self.start(message);
        &mut self.bytes[start..self.ends[message]]
    }

    fn start(&self, message: usize) -> usize {
        message.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Stages messages to be sent next. All that was staged before must have gone.
    pub(crate) fn stage(&mut self, messages: Range<usize>) {
        debug_assert!(self.unsent.is_empty(), "a frame would be cut");
        self.unsent = self.start(messages.start)..self.start(messages.end);
    }

    /// Staged bytes that are still to be sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.unsent.clone()]
    }

    /// Counts staged bytes that have gone.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.unsent.start += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> EncodedFrames {
        let mut frames = EncodedFrames::default();
        let reply = format!("_INBOX.x.{}", token::BLANK);
        let plain = OutgoingMessage { subject: "a.b", reply: Some(&reply), headers: None, payload: b"hello" };
        frames.push(plain);
        frames.push(OutgoingMessage { headers: Some("K: ~~~~~~\r\n"), reply: None, ..plain });
        frames.push(OutgoingMessage { reply: None, payload: b"~~~~~~", ..plain });
        frames
    }

    #[test]
    fn frames_are_those_of_the_protocol() {
        let mut frames = frames();
        frames.stage(0..3);
        let expected = "PUB a.b _INBOX.x.~~~~~~ 5\r\nhello\r\nHPUB a.b 23 28\r\nNATS/1.0\r\nK: ~~~~~~\r\n\r\nhello\r\n\
            PUB a.b 6\r\n~~~~~~\r\n";
        assert_eq!(String::from_utf8_lossy(frames.unsent()), expected);
    }

    #[test]
    fn tokens_are_written_in_front_of_the_payload_only() {
        let mut frames = frames();
        (0..3).for_each(|message| frames.mark(message, 33));
        frames.stage(0..1);
        assert_eq!(frames.unsent(), b"PUB a.b _INBOX.x.000011 5\r\nhello\r\n");
        frames.advance(32);
        frames.advance(2);
        assert_eq!(frames.unsent(), b"");
        frames.stage(1..3);
        assert!(frames.unsent().ends_with(b"K: 000011\r\n\r\nhello\r\nPUB a.b 6\r\n~~~~~~\r\n"));
    }
}
