//! Progress of a follower towards its leader's log, since it has joined.

use myelin_store::Timestamp;

/// Nanoseconds from a first word of its leader until a follower has heard of all that it lacks.
const SETTLING: Timestamp = 1_000_000_000;

/// Nanoseconds after which a follower that has been current, and lacks what was committed then, is
/// behind.
const TOLERATED: Timestamp = 2_000_000_000;

/// Words of leaders of how far the log is committed.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    /// When the follower has heard of a leader first.
    heard: Option<Timestamp>,
    /// Index up to which leaders have said that the log is committed.
    wanted: u64,
    /// Index that was wanted when the follower had come to the mark before this one, and when that
    /// was.
    mark: (u64, Timestamp),
    /// Whether it has had all that was wanted.
    was_current: bool,
}

impl CatchUp {
    /// A leader says up to where the log is committed.
    pub(super) fn hear(&mut self, commit: u64, now: Timestamp) {
        self.heard.get_or_insert(now);
        self.wanted = self.wanted.max(commit);
    }

    /// A leader has said that with entries. What it says without any is no more than what it knows
    /// the follower to have, which knows the log to be committed up to `committed`.
    pub(super) fn hear_all(&mut self, commit: u64, committed: u64, now: Timestamp) {
        self.hear(commit, now);
        self.was_current |= committed >= self.wanted;
        if committed >= self.mark.0 {
            self.mark = (self.wanted, now);
        }
    }

    /// Index that a follower which knows its log to be committed up to `committed` has yet to
    /// reach to be current. `None`: it is, or is no more behind than load makes it.
    pub(super) fn lacks(&self, committed: u64, now: Timestamp) -> Option<u64> {
        let (mark, since) = self.mark;
        let is_late = !self.was_current || now - since >= TOLERATED;
        (committed < mark && is_late).then_some(self.wanted)
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

    #[test]
    fn a_follower_that_begins_behind_says_so_at_once() {
        let mut catch_up = CatchUp::default();
        assert_eq!(catch_up.lacks(3, 10), None, "it has heard of no leader");
        catch_up.hear(3, 15);
        assert_eq!(catch_up.lacks(3, 15), None, "a heartbeat tells nothing new");
        catch_up.hear_all(9, 3, 20);
        assert_eq!(catch_up.lacks(3, 20), Some(9));
        catch_up.hear_all(12, 8, 30);
        assert_eq!(catch_up.lacks(8, 30), Some(12));
        assert_eq!(catch_up.lacks(9, 30), None, "it has what the leader had at first");
    }

    #[test]
    fn load_makes_nobody_be_behind() {
        let mut catch_up = CatchUp::default();
        catch_up.hear_all(0, 0, 0);
        for step in 1..10_u64 {
            let now = i64::try_from(step).unwrap() * TOLERATED / 2;
            catch_up.hear_all(10 * step, 10 * step - 10, now);
            assert_eq!(catch_up.lacks(10 * step - 10, now), None, "it goes on");
        }
        assert_eq!(catch_up.lacks(80, 6 * TOLERATED), Some(90), "it has stopped");
        assert_eq!(catch_up.lacks(90, 6 * TOLERATED), None);
    }
}
