//! Rest of a member: a group in which nothing happens has no ticks and no heartbeats.
//!
//! Its leader says so when all have the same log, all of it committed, and all their servers
//! support it; who has just that log rests, too. Whatever comes for the group wakes it, and the
//! loss of a server that has a member wakes the others: they hear of it by the words between
//! servers.

use myelin_replica::frame::RestWord;

/// Ticks without work after which a leader rests: two seconds.
const IDLE_TICKS: u32 = 20;

/// Whether a member rests, and since when its leader has had nothing to do.
#[derive(Debug, Default)]
pub(super) struct Resting {
    idle_ticks: u32,
    /// Index of the last entry at the last tick.
    last: u64,
    /// Where the log ended when it began to rest.
    at: Option<RestWord>,
    /// Whether others are to be told that it rests.
    is_news: bool,
}

impl Resting {
    /// A tick has passed, after which the member, a leader, has something to do or not, and `last`
    /// is the last entry. Answers whether it has had nothing to do for long enough.
    pub(super) fn tick(&mut self, is_idle: bool, last: u64) -> bool {
        let is_idle = is_idle && last == std::mem::replace(&mut self.last, last);
        self.idle_ticks = if is_idle { self.idle_ticks + 1 } else { 0 };
        self.idle_ticks >= IDLE_TICKS
    }

    /// Rests from here on.
    pub(super) fn begin(&mut self, at: RestWord) {
        self.at = Some(at);
    }

    /// Rests from here on as the leader, which others are to be told.
    pub(super) fn begin_as_leader(&mut self, at: RestWord) {
        self.begin(at);
        self.is_news = true;
    }

    /// Whether others are to be told, for whoever does.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// Has something to do again. Answers whether it was at rest.
    pub(super) fn end(&mut self) -> bool {
        let was_under_way = self.at.take().is_some();
        if was_under_way {
            self.idle_ticks = 0;
        }
        was_under_way
    }

    /// Whether it rests.
    pub(super) fn is_under_way(&self) -> bool {
        self.at.is_some()
    }

    /// Whether it rests although its log goes on.
    pub(super) fn is_past(&self, index: u64) -> bool {
        self.at.is_some_and(|at| at.index != index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_rests_after_two_seconds_without_work() {
        let mut resting = Resting::default();
        assert!((0..IDLE_TICKS).all(|_| !resting.tick(true, 7)), "there was an entry in the first one");
        assert!(resting.tick(true, 7));
        assert!(!resting.tick(false, 7), "it begins anew");
        assert!((1..IDLE_TICKS).all(|_| !resting.tick(true, 7)));
        assert!(!resting.end(), "an answer of another member is no work");
        assert!(resting.tick(true, 7));
        resting.begin(RestWord { term: 1, index: 7, chain: 0 });
        assert!(resting.is_under_way() && !resting.is_past(7) && resting.is_past(8));
        assert!(resting.end() && !resting.end());
        assert!(!resting.tick(true, 7), "it begins anew");
    }
}
