//! How long a leader waits for its group, from one entry to another.

use myelin_stdx::histogram::Latencies;
use myelin_store::Timestamp;
use std::sync::Arc;

/// Watch over one entry at a time.
///
/// Perf: the last one of those that are proposed together, and no other until it is committed: a
/// few comparisons for each turn of the stream, whatever that has decided.
#[derive(Debug)]
pub(super) struct CommitWait {
    /// The entry, and when it was proposed.
    watched: Option<(u64, Timestamp)>,
    /// Counts how long those took that were watched, of all groups of the server.
    counts: Arc<Latencies>,
}

impl CommitWait {
    pub(super) fn new(counts: Arc<Latencies>) -> Self {
        Self { watched: None, counts }
    }

    /// This member, which leads, has proposed everything up to `proposed`.
    pub(super) fn look(&mut self, (proposed, committed): (u64, u64), now: Timestamp) {
        if let Some((_, since)) = self.watched.take_if(|(index, _)| *index <= committed) {
            self.counts.add(now.saturating_sub(since).max(0).unsigned_abs());
        }
        if self.watched.is_none() && proposed > committed {
            self.watched = Some((proposed, now));
        }
    }

    /// This member leads no more: what it waited for is for another one to say.
    pub(super) fn forget(&mut self) {
        self.watched = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_is_watched_until_it_is_committed() {
        let counts = Arc::new(Latencies::default());
        let mut wait = CommitWait::new(Arc::clone(&counts));
        let seen = || (counts.counts().counts.iter().sum::<u64>(), counts.counts().sum);
        wait.look((3, 3), 10);
        assert_eq!(wait.watched, None, "all is committed");
        wait.look((5, 3), 20);
        wait.look((9, 4), 30);
        assert_eq!(seen(), (0, 0), "the fifth is not");
        wait.look((9, 5), 35);
        assert_eq!(seen(), (1, 15));
        wait.look((9, 9), 50);
        assert_eq!(seen(), (2, 30), "the ninth was watched from then on");
        wait.look((10, 9), 60);
        wait.forget();
        wait.look((10, 10), 90);
        assert_eq!(seen(), (2, 30), "another one leads");
    }
}
