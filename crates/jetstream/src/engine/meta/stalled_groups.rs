//! Groups of this server that lack a quorum.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Compat: a group without a quorum for so long is one that has lost it.
const QUORUM_LOST: Duration = Duration::from_secs(10);

/// Groups that lack a quorum, since when, and whether that was told.
#[derive(Default)]
pub(super) struct StalledGroups(BTreeMap<(String, String), (Instant, bool)>);

impl StalledGroups {
    /// Forgets groups that are not there any more: one of the same name later is another one.
    pub(super) fn keep_only(&mut self, is_there: impl Fn(&(String, String)) -> bool) {
        self.0.retain(|key, _| is_there(key));
    }

    /// Notes whether a group lacks a quorum now. Answers whether that is to be told.
    pub(super) fn note(&mut self, key: (String, String), lacks: bool, now: Instant) -> bool {
        if !lacks {
            self.0.remove(&key);
            return false;
        }
        let (since, is_told) = self.0.entry(key).or_insert((now, false));
        let is_due = now.saturating_duration_since(*since) >= QUORUM_LOST;
        is_due && !std::mem::replace(is_told, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_quorum_is_told_of_once_after_a_while() {
        let (mut stalled, began) = (StalledGroups::default(), Instant::now());
        let key = || ("$G".to_owned(), "S".to_owned());
        let mut note = |lacks, seconds| stalled.note(key(), lacks, began + Duration::from_secs(seconds));
        assert!(!note(true, 0) && !note(true, 9));
        assert!(note(true, 10) && !note(true, 30), "once");
        assert!(!note(false, 31) && !note(true, 32) && note(true, 42), "and again when it is lost again");
    }

    #[test]
    fn a_group_that_is_gone_is_forgotten() {
        let (mut stalled, began) = (StalledGroups::default(), Instant::now());
        let key = |stream: &str| ("$G".to_owned(), stream.to_owned());
        assert!(!stalled.note(key("S"), true, began) && !stalled.note(key("T"), true, began));
        stalled.keep_only(|(_, stream)| stream == "T");
        let later = began + Duration::from_secs(10);
        assert!(!stalled.note(key("S"), true, later), "it is another one, and has lost it just now");
        assert!(stalled.note(key("T"), true, later));
    }
}
