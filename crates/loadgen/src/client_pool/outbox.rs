//! Bytes that one connection is going to send.
//!
//! Two ways to fill it: append frames, which are forgotten once they are gone, or load a tape of
//! encoded frames and stage parts of it again and again without copying. Short control lines wait
//! for the end of a staged part. Owns the bytes; sends nothing.

use std::ops::Range;

/// Unsent frames of a connection, or a tape with its staged part, and control lines behind either.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    unsent: Range<usize>,
    is_tape: bool,
    control: Vec<u8>,
}

impl Outbox {
    /// Where frames are appended.
    pub(crate) fn frames(&mut self) -> OutboxFrames<'_> {
        debug_assert!(!self.is_tape, "frames would be written over a tape");
        if self.unsent.is_empty() {
            self.bytes.clear();
            self.unsent = 0..0;
        }
        OutboxFrames(self)
    }

    /// Loads frames that are staged in parts.
    pub(crate) fn load_tape(&mut self, bytes: Vec<u8>) {
        *self = Self { bytes, unsent: 0..0, is_tape: true, control: std::mem::take(&mut self.control) };
    }

    /// This part of the tape is sent next.
    pub(crate) fn stage(&mut self, part: Range<usize>) {
        debug_assert!(self.is_tape && self.unsent.is_empty());
        self.unsent = part;
    }

    /// A line that may stand between any two frames, such as a PONG.
    pub(crate) fn control(&mut self, line: &[u8]) {
        self.control.extend_from_slice(line);
    }

    /// Bytes to send next; empty when all have gone.
    pub(crate) fn unsent(&self) -> &[u8] {
        match self.unsent.is_empty() {
            false => &self.bytes[self.unsent.clone()],
            true => &self.control,
        }
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.unsent().is_empty()
    }

    /// This much of `unsent` has gone.
    pub(crate) fn advance(&mut self, count: usize) {
        match self.unsent.is_empty() {
            false => self.unsent.start += count,
            true => drop(self.control.drain(..count)),
        }
    }
}

/// The end of an outbox; what was written is to be sent when this goes.
pub(crate) struct OutboxFrames<'a>(&'a mut Outbox);

impl std::ops::Deref for OutboxFrames<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0.bytes
    }
}

impl std::ops::DerefMut for OutboxFrames<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0.bytes
    }
}

impl Drop for OutboxFrames<'_> {
    fn drop(&mut self) {
        self.0.unsent.end = self.0.bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(out: &mut Outbox) -> Vec<u8> {
        let mut sent = Vec::new();
        while !out.is_empty() {
            sent.push(out.unsent()[0]);
            out.advance(1);
        }
        sent
    }

    #[test]
    fn frames_are_appended_while_others_are_on_their_way() {
        let mut out = Outbox::default();
        out.frames().extend_from_slice(b"one");
        out.advance(2);
        out.control(b"P");
        out.frames().extend_from_slice(b"two");
        assert_eq!(all(&mut out), b"etwoP");
        out.frames().extend_from_slice(b"x");
        assert_eq!(all(&mut out), b"x");
        assert_eq!(out.bytes.len(), 1, "what has gone is forgotten");
    }

    #[test]
    fn a_tape_is_sent_in_parts_with_control_lines_between() {
        let mut out = Outbox::default();
        out.load_tape(b"abcd".to_vec());
        assert!(out.is_empty());
        out.stage(0..2);
        out.control(b"P");
        assert_eq!(all(&mut out), b"abP");
        out.stage(0..4);
        assert_eq!(all(&mut out), b"abcd");
    }
}
