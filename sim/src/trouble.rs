//! Failures of the disk: those that are planned, and what a server may be short of because of them.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// In the default mode a loss of power takes what came in this time before it, at most.
pub(crate) const WINDOW: u64 = 100_000_000;

/// Failures of the disk that are planned, and those that were.
#[derive(Default)]
pub(crate) struct Trouble {
    /// The point of the disk that fails.
    pub(crate) planned: Option<u64>,
    /// Whether anything has failed since the last look at everything that found it well.
    pub(crate) has_failed: bool,
    /// A loss of power may take what was done since then, whatever was acknowledged.
    pub(crate) shaky_from: Option<u64>,
    /// Whether there may be no room.
    pub(crate) is_full: bool,
    /// How much longer what is written may wait for a slow disk.
    pub(crate) slow: u64,
    /// A file that cannot be read.
    pub(crate) unreadable: Option<PathBuf>,
    /// Whether one could not be read that can be now: requests which are not answered yet may have
    /// met it.
    pub(crate) was_unreadable: bool,
    /// Requests that nobody has to answer, because of a panic.
    pub(crate) excused: BTreeSet<u64>,
}

impl Trouble {
    /// Whether the server may be short of what it is owed.
    pub(crate) fn is_there(&self) -> bool {
        self.has_failed || self.unreadable.is_some()
    }

    /// Whether a request that is answered now may have met a failure.
    pub(crate) fn may_be_met(&self) -> bool {
        self.is_there() || self.was_unreadable
    }

    /// Whether nothing is planned, fails, or is slow.
    pub(crate) fn is_well(&self) -> bool {
        !self.is_there() && self.planned.is_none() && !self.is_full && self.slow == 0
    }

    /// Takes note of a failure that was planned. Answers whether it has just happened.
    pub(crate) fn struck(&mut self, points: u64, now: u64) -> bool {
        if self.planned.is_none_or(|point| points <= point) {
            return false;
        }
        self.planned = None;
        self.has_failed = true;
        self.shaky_from.get_or_insert(now.saturating_sub(WINDOW + self.slow));
        true
    }

    /// Everything is well, and durable by now, unless something has failed meanwhile.
    pub(crate) fn end(&mut self) {
        if self.planned.is_none() && !self.has_failed {
            *self = Self::default();
        }
    }

    /// A server starts that knows nothing of what was planned.
    pub(crate) fn restart(&mut self) {
        self.planned = None;
        self.unreadable = None;
        self.was_unreadable = false;
    }
}
