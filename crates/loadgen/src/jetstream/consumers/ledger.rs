//! Which messages of a stream have been delivered: each exactly once, or the run has failed.
//!
//! Owns the proof for consumers whose messages are spread over several clients. Knows no sockets.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::BenchError;

/// One bit per sequence of a stream.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    seen: Vec<u64>,
    count: u64,
}

impl Ledger {
    /// Notes a delivery.
    pub(crate) fn mark(&mut self, sequence: u64) -> Result<(), BenchError> {
        let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
        if word >= self.seen.len() {
            self.seen.resize(word * 2 + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            return Err(BenchError::Lost(format!("message {sequence} was delivered twice")));
        }
        self.seen[word] |= bit;
        self.count += 1;
        Ok(())
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// How many messages there are to come in all, as soon as somebody knows.
#[derive(Debug)]
pub(crate) struct Expected(AtomicU64);

impl Expected {
    pub(crate) fn exactly(count: u64) -> Self {
        Self(AtomicU64::new(count))
    }

    /// Nobody knows yet.
    pub(crate) fn later() -> Self {
        Self::exactly(u64::MAX)
    }

    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::SeqCst);
    }

    /// Messages that are to come in all.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_once() {
        let mut ledger = Ledger::default();
        for sequence in [1, 64, 63, 1000, 2] {
            ledger.mark(sequence).unwrap();
        }
        assert_eq!(ledger.count(), 5);
        assert!(matches!(ledger.mark(63), Err(BenchError::Lost(_))));
    }
}
