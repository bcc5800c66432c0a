//! Progress of a follower towards its leader's log, since it has joined.

use myelin_store::Timestamp;

/// Nanoseconds from a first word of its leader until a follower has heard of all that it lacks.
const SETTLING: Timestamp = 1_000_000_000;

/// Words of leaders of how far the log is committed.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    /// When the follower has heard of a leader first.
    heard: Option<Timestamp>,
    /// Index up to which leaders have said that the log is committed.
    wanted: u64,
}

impl CatchUp {
    /// A leader says up to where the log is committed.
    pub(super) fn hear(&mut self, commit: u64, now: Timestamp) {
        self.heard.get_or_insert(now);
        self.wanted = self.wanted.max(commit);
    }

    /// Whether the follower, which knows its log to be committed up to there, has had all that its
    /// leader had.
    pub(super) fn is_over(&self, committed: u64, now: Timestamp) -> bool {
        self.heard.is_some_and(|since| now - since >= SETTLING) && committed >= self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_has_caught_up_when_it_has_what_it_has_heard_of_for_a_while() {
        let mut catch_up = CatchUp::default();
        assert!(!catch_up.is_over(7, SETTLING), "it has heard of no leader");
        catch_up.hear(0, 10);
        assert!(!catch_up.is_over(7, SETTLING), "more may be on its way");
        assert!(catch_up.is_over(7, SETTLING + 10));
        catch_up.hear(9, 20);
        catch_up.hear(8, 30);
        assert!(!catch_up.is_over(8, 2 * SETTLING) && catch_up.is_over(9, 2 * SETTLING));
    }
}
