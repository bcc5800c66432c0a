//! Lines of calls and tasks: those that have a key, and behind them those that wait for it.

use super::keys::{CallKey, NeededKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A line for each key that somebody has. Everybody has a key that nobody before them has, or that
/// all before them share with them.
#[derive(Default)]
pub(super) struct CallLines(BTreeMap<CallKey, VecDeque<QueuedCall>>);

struct QueuedCall {
    number: u64,
    is_shared: bool,
}

/// How many at the front of a line have its key.
fn holders(line: &VecDeque<QueuedCall>) -> usize {
    let sharing = line.iter().take_while(|one| one.is_shared).count();
    sharing.max(1)
}

impl CallLines {
    /// The keys that somebody has.
    pub(super) fn keys(&self) -> impl Iterator<Item = &CallKey> {
        self.0.keys()
    }

    pub(super) fn contains(&self, key: &CallKey) -> bool {
        self.0.contains_key(key)
    }

    /// Whether somebody who comes now would have all of these.
    pub(super) fn are_free(&self, keys: &[NeededKey]) -> bool {
        keys.iter().all(|NeededKey { key, is_shared }| {
            self.0.get(key).is_none_or(|line| *is_shared && holders(line) == line.len() && line[0].is_shared)
        })
    }

    /// Enters the lines of all of these.
    pub(super) fn enter(&mut self, number: u64, keys: &[NeededKey]) {
        for NeededKey { key, is_shared } in keys {
            let queued = QueuedCall { number, is_shared: *is_shared };
            self.0.entry(key.clone()).or_default().push_back(queued);
        }
    }

    /// Whether somebody who is in the lines of these has all of them.
    pub(super) fn has_all(&self, number: u64, keys: &[NeededKey]) -> bool {
        keys.iter().all(|NeededKey { key, .. }| {
            self.0
                .get(key)
                .is_some_and(|line| line.iter().take(holders(line)).any(|one| one.number == number))
        })
    }

    /// Whoever has these is through. Answers who has one of them now and had it not before, in the
    /// order in which they came.
    pub(super) fn leave(&mut self, number: u64, keys: &[NeededKey]) -> BTreeSet<u64> {
        let mut next = BTreeSet::new();
        for NeededKey { key, .. } in keys {
            let Some(line) = self.0.get_mut(key) else { continue };
            let Some(at) = line.iter().position(|one| one.number == number) else { continue };
            let was_shared = line.remove(at).is_some_and(|one| one.is_shared);
            match line.front() {
                None => drop(self.0.remove(key)),
                // Those that it shared the key with.
                Some(first) if was_shared && first.is_shared => {}
                Some(_) => next.extend(line.iter().take(holders(line)).map(|one| one.number)),
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(is_shared: bool) -> Vec<NeededKey> {
        vec![NeededKey { key: ("$G".into(), "S".into()), is_shared }]
    }

    #[test]
    fn a_key_is_shared_until_somebody_wants_it_alone() {
        let mut lines = CallLines::default();
        assert!(lines.are_free(&key(true)) && lines.are_free(&key(false)));
        lines.enter(1, &key(true));
        assert!(lines.are_free(&key(true)) && !lines.are_free(&key(false)));
        lines.enter(2, &key(true));
        lines.enter(3, &key(false));
        assert!(!lines.are_free(&key(true)), "nobody overtakes");
        lines.enter(4, &key(true));
        lines.enter(5, &key(true));
        let has = |lines: &CallLines, number| lines.has_all(number, &key(true));
        assert_eq!([1, 2, 3, 4, 5].map(|number| has(&lines, number)), [true, true, false, false, false]);
        assert!(lines.leave(1, &key(true)).is_empty());
        assert_eq!(lines.leave(2, &key(true)), [3].into());
        assert_eq!(lines.leave(3, &key(false)), [4, 5].into());
        assert!(lines.leave(5, &key(true)).is_empty() && has(&lines, 4));
        assert!(lines.leave(4, &key(true)).is_empty() && !lines.contains(&key(true)[0].key));
    }
}
