//! Index of what the consumers of one stream want: by subject.
//!
//! Each message that is published to a stream with interest, and each that may go, asks who wants
//! it. Of many consumers with filters most do not.

use myelin_jsapi::consumer::config::AckPolicy;
use myelin_store::consumer::ConsumerId;
use myelin_store::{Filter, Seq};
use myelin_subject::{Interest, Matched, Subscribed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Want of one consumer.
pub(super) struct Want {
    pub(super) id: ConsumerId,
    pub(super) is_stored: bool,
    pub(super) filter: Filter,
    pub(super) acks: AckPolicy,
    /// Whether another stream copies by it.
    pub(super) is_copying: bool,
    /// Sequence behind which the consumer was begun anew; stays for whoever goes back.
    pub(super) passed: Seq,
}

/// Whether a consumer is stored, and its number there.
type WantKey = (bool, ConsumerId);

/// Wants of all consumers of a stream, found by subject. Who is asked first is the same on each
/// run: it decides how many are asked.
pub(super) struct WantIndex {
    all: BTreeMap<WantKey, Arc<Want>>,
    /// Wants without a filter.
    unfiltered: BTreeMap<WantKey, Arc<Want>>,
    /// The others, by each of their patterns; those of one pattern in the order of their keys.
    by_pattern: BTreeMap<Arc<Pattern>, Vec<Arc<Want>>>,
    /// The patterns, by the subjects that they match.
    patterns: Interest<Arc<Pattern>>,
}

/// Pattern of a filter.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pattern(Box<[u8]>);

impl Subscribed for Pattern {
    fn subject(&self) -> &[u8] {
        &self.0
    }

    fn queue(&self) -> Option<&[u8]> {
        None
    }
}

impl Want {
    fn key(&self) -> WantKey {
        (self.is_stored, self.id)
    }

    fn patterns(&self) -> impl Iterator<Item = Pattern> {
        let (one, many) = match &self.filter {
            Filter::All => (None, &[][..]),
            Filter::Subject(subject) => (Some(subject), &[][..]),
            Filter::Patterns(patterns) => (None, patterns.as_slice()),
        };
        one.into_iter().chain(many).map(|pattern| Pattern(pattern.as_slice().into()))
    }
}

impl WantIndex {
    /// A consumer wants this, and nothing else that it wanted.
    pub(super) fn set(&mut self, want: Want) {
        self.remove(want.key());
        let (key, want) = (want.key(), Arc::new(want));
        self.all.insert(key, Arc::clone(&want));
        if want.filter.is_all() {
            self.unfiltered.insert(key, Arc::clone(&want));
        }
        for pattern in want.patterns() {
            let pattern = Arc::new(pattern);
            let patterns = &self.patterns;
            let wants = self.by_pattern.entry(pattern).or_insert_with_key(|pattern| {
                patterns.insert(Arc::clone(pattern));
                Vec::with_capacity(1)
            });
            if let Err(at) = wants.binary_search_by_key(&key, |want| want.key()) {
                wants.insert(at, Arc::clone(&want));
            }
        }
    }

    /// A consumer is no more.
    pub(super) fn remove(&mut self, key: WantKey) {
        let Some(want) = self.all.remove(&key) else { return };
        self.unfiltered.remove(&key);
        for pattern in want.patterns() {
            let Some(wants) = self.by_pattern.get_mut(&pattern) else { continue };
            if let Ok(at) = wants.binary_search_by_key(&key, |want| want.key()) {
                wants.remove(at);
            }
            if wants.is_empty()
                && let Some((member, _)) = self.by_pattern.remove_entry(&pattern)
            {
                self.patterns.remove(&member);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a want is the first of all.
    pub(super) fn is_first(&self, want: &Want) -> bool {
        self.all.first_key_value().is_some_and(|(key, _)| *key == want.key())
    }

    /// Whether any of those who want this subject is as `is_it` says. Others are not asked, and
    /// none behind the first one.
    pub(super) fn any(&self, subject: &[u8], is_it: &mut dyn FnMut(&Want) -> bool) -> bool {
        if self.unfiltered.values().any(|want| is_it(want)) {
            return true;
        }
        if self.by_pattern.is_empty() {
            return false;
        }
        let mut matched = Matched::new();
        self.patterns.collect(subject, &mut matched);
        matched.plain.sort_unstable();
        let wants = matched.plain.iter().filter_map(|pattern| self.by_pattern.get(pattern));
        wants.flatten().any(|want| is_it(want))
    }
}

impl Default for WantIndex {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            unfiltered: BTreeMap::new(),
            by_pattern: BTreeMap::new(),
            patterns: Interest::narrow(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn want(id: u64, filter: Filter) -> Want {
        let id = ConsumerId(id);
        Want { id, is_stored: true, filter, acks: AckPolicy::Explicit, is_copying: false, passed: 0 }
    }

    /// Consumers that are asked about a subject, in their order.
    fn asked(index: &WantIndex, subject: &str) -> Vec<u64> {
        let mut asked = Vec::new();
        let found = index.any(subject.as_bytes(), &mut |want| {
            asked.push(want.id.0);
            false
        });
        assert!(!found);
        asked
    }

    /// Numbers below `end`, the same on each run.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % end
        }
    }

    #[test]
    fn whoever_wants_a_subject_is_asked_and_nobody_else() {
        let patterns = ["a", "b", "a.b", "a.*", "*.b", "a.>", ">", "*", "a.b.c", "*.*.c", "b.>"];
        let subjects = ["a", "b", "c", "a.b", "a.c", "c.b", "a.b.c", "b.b.c", "c.c.c", "b.a"];
        let mut dice = Dice(1);
        let (mut index, mut twin) = (WantIndex::default(), BTreeMap::new());
        for _ in 0..2000 {
            let id = dice.roll(12) as u64;
            if dice.roll(3) == 0 {
                index.remove((true, ConsumerId(id)));
                twin.remove(&id);
            } else {
                let count = dice.roll(4);
                let filters: BTreeSet<_> = (0..count).map(|_| patterns[dice.roll(patterns.len())]).collect();
                let filter = || Filter::any(filters.iter().map(|one| one.as_bytes().to_vec()).collect());
                index.set(want(id, filter()));
                twin.insert(id, filter());
            }
            for subject in subjects {
                let expected: Vec<_> = twin
                    .iter()
                    .filter(|(_, filter)| filter.accepts(subject.as_bytes()))
                    .map(|(id, _)| *id)
                    .collect();
                let mut found = asked(&index, subject);
                found.sort_unstable();
                // Twice where two of its filters overlap.
                found.dedup();
                assert_eq!(found, expected, "{subject}");
            }
            assert_eq!(index.is_empty(), twin.is_empty());
        }
        (0..12).for_each(|id| index.remove((true, ConsumerId(id))));
        assert!(index.by_pattern.is_empty() && index.unfiltered.is_empty() && index.patterns.is_empty());
    }

    #[test]
    fn they_are_asked_in_one_order_and_none_behind_the_first_that_says_yes() {
        let mut index = WantIndex::default();
        let filters = [&b"a.*"[..], b"a.b", b">", b"*.b", b"a.b", b">"];
        for (at, filter) in filters.iter().enumerate() {
            index.set(want(at as u64, Filter::new(filter)));
        }
        assert_eq!(asked(&index, "a.b"), [2, 5, 3, 0, 1, 4]);
        let mut looks = 0;
        assert!(index.any(b"a.b", &mut |want| {
            looks += 1;
            want.id.0 == 3
        }));
        assert_eq!(looks, 3);
    }
}
