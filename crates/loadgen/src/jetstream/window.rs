//! How many requests of a client may be unanswered, and which are.
//!
//! Owns the slots: one per token modulo the size of the window. Every answer must find its slot
//! taken, so a second answer to one request, or an answer to none, is seen.

use crate::error::BenchError;
use crate::token;

/// A window is refilled when one part of this many is free, so that a client is not woken for every
/// message.
const LEAST_SHARE: usize = 8;

/// Unanswered requests of a client, up to a limit.
#[derive(Debug)]
pub(crate) struct Window {
    /// Note of each unanswered request, as it was given when the request was sent.
    slots: Vec<Option<u64>>,
    sent: u64,
    answered: u64,
}

impl Window {
    /// A window of this many requests, at least one.
    pub(crate) fn new(size: usize) -> Self {
        Self { slots: vec![None; size.max(1)], sent: 0, answered: 0 }
    }

    fn slot(&self, token: u64) -> usize {
        // The window is much smaller than the number of tokens, so the remainder survives that
        // those begin again.
        (token % token::TOKENS) as usize % self.slots.len()
    }

    /// Requests that may be sent; none until there are enough to be worth a call, and never more
    /// than `most`.
    pub(crate) fn room(&self, most: usize) -> usize {
        let size = self.slots.len();
        let room = size - (self.sent - self.answered) as usize;
        if room < size.div_ceil(LEAST_SHARE) {
            return 0;
        }
        (self.sent..).take(room.min(most)).take_while(|&token| self.slots[self.slot(token)].is_none()).count()
    }

    /// A request is sent, about which `note` will be of interest. Gives its token.
    pub(crate) fn send(&mut self, note: u64) -> u64 {
        let token = self.sent;
        let slot = self.slot(token);
        self.slots[slot] = Some(note);
        self.sent += 1;
        token
    }

    /// The note of the request that is answered on this subject.
    pub(crate) fn answer(&mut self, tail: &[u8]) -> Result<u64, BenchError> {
        let slot = token::read(tail).map(|token| self.slot(token));
        let Some(note) = slot.and_then(|slot| self.slots[slot].take()) else {
            let tail = String::from_utf8_lossy(tail);
            return Err(BenchError::Protocol(format!("{tail:?} was answered twice, or never asked")));
        };
        self.answered += 1;
        Ok(note)
    }

    /// Requests that have their answer.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Whether every request has its answer.
    pub(crate) fn is_settled(&self) -> bool {
        self.answered == self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_opens_in_the_order_of_its_slots() {
        let mut window = Window::new(2);
        assert_eq!((window.room(9), window.room(1)), (2, 1));
        assert_eq!((window.send(7), window.send(8)), (0, 1));
        assert_eq!(window.room(9), 0);
        assert_eq!(window.answer(b"000001").unwrap(), 8);
        assert_eq!(window.room(9), 0, "the slot of the third is not free yet");
        assert!(window.answer(b"000001").is_err() && window.answer(b"x").is_err());
        assert_eq!(window.answer(b"000000").unwrap(), 7);
        assert!(window.is_settled() && window.room(9) == 2 && window.answered() == 2);
    }

    #[test]
    fn a_large_window_is_refilled_in_parts() {
        let mut window = Window::new(64);
        (0..64).for_each(|note| assert_eq!(window.send(note), note));
        for answered in 0..8_u64 {
            assert_eq!(window.room(64), 0);
            let mut token = *b"......";
            token::write(&mut token, answered);
            window.answer(&token).unwrap();
        }
        assert_eq!(window.room(64), 8);
    }
}
