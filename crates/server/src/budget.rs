//! Budget of a connection before it is authenticated: what it may make the server take in.
//!
//! One account for all that comes before: what a proxy says, the TLS handshake, the request for a
//! WebSocket, what its frames are inflated to, and CONNECT. Each stage has limits of its own
//! besides; this one holds for all of them together, so that nobody gets each stage's most one
//! after the other. What is let go again is not given back: a stranger has no business that takes
//! more.

use std::fmt;

/// Bytes, beside the longest control line: as many as the longest message of a TLS handshake, or
/// the longest header of a proxy.
const BUDGET: usize = 64 * 1024;

/// Bytes that a connection may still make the server take in before it is authenticated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StrangerBudget {
    left: usize,
}

/// More has come than a stranger may send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spent;

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too much before authentication")
    }
}

impl StrangerBudget {
    /// A full one, where control lines may be so long.
    pub(crate) fn new(max_control_line: usize) -> Self {
        Self { left: BUDGET.saturating_add(max_control_line) }
    }

    /// One of so many bytes.
    pub(crate) fn of(left: usize) -> Self {
        Self { left }
    }

    /// Takes what has come in.
    ///
    /// # Errors
    /// It is more than is left. Nothing is left then.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Spent> {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(Spent)
    }

    /// Bytes that may still come.
    pub(crate) fn left(&self) -> usize {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_does_not_come_back() {
        let mut budget = StrangerBudget::new(4096);
        assert_eq!(budget.left(), BUDGET + 4096);
        assert_eq!(budget.charge(BUDGET), Ok(()));
        assert_eq!(budget.charge(4096), Ok(()));
        assert_eq!(budget.charge(0), Ok(()));
        assert_eq!(budget.charge(1), Err(Spent));
        assert_eq!((budget.charge(0), budget.left()), (Ok(()), 0));
        assert_eq!(StrangerBudget::new(usize::MAX).left(), usize::MAX);
    }
}
