//! Deaths: deliveries of a message are over before anybody has acknowledged it, and it waits to be
//! moved elsewhere.
//!
//! A death lies in the count of the message's redeliveries, above all that are made: so it is
//! written, agreed to, imaged and forgotten with it, and a build that knows of no deaths reads a
//! message that was delivered too often.

/// Bits of a count that are no deliveries.
const TERMINATED: u64 = 1 << 62;
const EXHAUSTED: u64 = 1 << 61;

/// Why the deliveries of a message are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Delivered as often as it may be.
    Exhausted,
    /// A client has terminated it.
    Terminated,
}

impl Death {
    /// The count by which [`Delta::Delivered`](super::Delta::Delivered) says that a message has
    /// died after so many deliveries.
    #[must_use]
    pub fn count(self, deliveries: u64) -> u64 {
        let mark = if self == Self::Exhausted { EXHAUSTED } else { TERMINATED };
        mark | deliveries.clamp(1, EXHAUSTED - 1)
    }

    /// Whether a message with this count of [redeliveries](super::ConsumerState::redelivered) is
    /// dead.
    #[must_use]
    #[inline]
    pub fn read(redelivered: u64) -> Option<Self> {
        match redelivered {
            TERMINATED.. => Some(Self::Terminated),
            EXHAUSTED.. => Some(Self::Exhausted),
            _ => None,
        }
    }

    /// Deliveries beyond the first among this count of redeliveries, whether or not the message is
    /// dead.
    #[must_use]
    pub fn redeliveries(redelivered: u64) -> u64 {
        redelivered & (EXHAUSTED - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_read_from_the_count_that_tells_of_it() {
        for death in [Death::Exhausted, Death::Terminated] {
            for deliveries in [1, 2, 7] {
                let redelivered = death.count(deliveries) - 1;
                assert_eq!(Death::read(redelivered), Some(death));
                assert_eq!(Death::redeliveries(redelivered) + 1, deliveries);
            }
        }
        assert_eq!(Death::read(0), None);
        assert_eq!(Death::read(1 << 40), None);
    }
}
