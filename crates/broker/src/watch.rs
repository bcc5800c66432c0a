//! Watches: who wants to know when interest in a subject may have changed.
//!
//! A wake-up too many does no harm, one too few would: a change is made first and the watches are
//! looked at after, while a new watch is entered first and the interest is looked at after
//! ([`Account::watch`](crate::Account::watch)).
//!
//! Budget: a change in an account without watches costs one relaxed load here. With some, a literal
//! subject is one look-up, and a pattern is compared with those watched subjects that begin as it
//! does up to its first wildcard: clients that subscribe to `_INBOX.<id>.*` see their own and no
//! other. Only patterns that begin with a wildcard are compared with all.

use myelin_stdx::sync::{read_lock, write_lock};
use myelin_subject::{has_wildcard, matches};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock, Weak};

/// A watched subject; dropping it ends the watch. What is being told at that moment may still
/// arrive.
pub struct Watch {
    subject: Box<[u8]>,
    number: usize,
    watches: Arc<dyn Watched>,
}

/// Watches of which one can end.
trait Watched: Send + Sync {
    fn remove(&self, watch: &Watch);
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watches.remove(self);
    }
}

/// All watches of an account. `W` is what watches.
pub(crate) struct Watches<W: ?Sized> {
    /// In the order of their subjects, so that those with one beginning stand together.
    by_subject: RwLock<WatchesBySubject<W>>,
    count: AtomicUsize,
    /// Watches that ever were.
    made: AtomicUsize,
}

type WatchesBySubject<W> = BTreeMap<Box<[u8]>, Vec<WatchEntry<W>>>;

struct WatchEntry<W: ?Sized> {
    number: usize,
    watcher: Weak<W>,
}

impl<W: ?Sized> Default for Watches<W> {
    fn default() -> Self {
        Self { by_subject: RwLock::default(), count: AtomicUsize::new(0), made: AtomicUsize::new(0) }
    }
}

// A panic under the lock leaves a map that is whole, hence it is taken also when it is poisoned.
impl<W: ?Sized + Send + Sync + 'static> Watches<W> {
    pub(crate) fn add(self: &Arc<Self>, subject: &[u8], watcher: Weak<W>) -> Watch {
        let number = self.made.fetch_add(1, Relaxed);
        let mut by_subject = write_lock(&self.by_subject);
        by_subject.entry(subject.into()).or_default().push(WatchEntry { number, watcher });
        self.count.fetch_add(1, Relaxed);
        Watch { subject: subject.into(), number, watches: Arc::clone(self) as Arc<dyn Watched> }
    }

    /// Tells whoever watches that somebody begins or ends to receive what matches `pattern`; the
    /// index knows already.
    #[inline]
    pub(crate) fn notify(&self, pattern: &[u8], tell: impl FnMut(Arc<W>)) {
        // Not too early: the index is changed by an atomic operation that acquires what whoever
        // watches has released.
        if self.count.load(Relaxed) > 0 {
            // Nobody is told under the lock: they may watch something else thereupon.
            self.who_watches(pattern).into_iter().for_each(tell);
        }
    }

    #[cold]
    fn who_watches(&self, pattern: &[u8]) -> Vec<Arc<W>> {
        let by_subject = read_lock(&self.by_subject);
        let mut found = Vec::new();
        let mut find =
            |entries: &Vec<WatchEntry<W>>| found.extend(entries.iter().filter_map(|e| e.watcher.upgrade()));
        if !has_wildcard(pattern) {
            by_subject.get(pattern).into_iter().for_each(find);
            return found;
        }
        let beginning = before_wildcard(pattern);
        for (subject, entries) in by_subject.range::<[u8], _>((Bound::Included(beginning), Bound::Unbounded))
        {
            if !subject.starts_with(beginning) {
                break;
            }
            if matches(pattern, subject) {
                find(entries);
            }
        }
        found
    }
}

impl<W: ?Sized + Send + Sync> Watched for Watches<W> {
    fn remove(&self, watch: &Watch) {
        let mut by_subject = write_lock(&self.by_subject);
        let Some(entries) = by_subject.get_mut(&watch.subject) else { return };
        if let Some(at) = entries.iter().position(|entry| entry.number == watch.number) {
            entries.swap_remove(at);
            self.count.fetch_sub(1, Relaxed);
        }
        if entries.is_empty() {
            by_subject.remove(&watch.subject);
        }
    }
}

/// Beginning of a pattern up to its first wildcard.
fn before_wildcard(pattern: &[u8]) -> &[u8] {
    let tokens = pattern.split(|byte| *byte == b'.').take_while(|token| !matches!(*token, b"*" | b">"));
    let len: usize = tokens.map(|token| token.len() + 1).sum();
    &pattern[..len.min(pattern.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Notes by its name that it was told.
    struct Told(&'static str, Arc<Mutex<Vec<&'static str>>>);

    fn tell(watches: &Watches<Told>, pattern: &str) {
        watches.notify(pattern.as_bytes(), |told| told.1.lock().unwrap().push(told.0));
    }

    #[test]
    fn a_change_is_told_to_those_whose_subject_the_pattern_matches() {
        let (watches, told) = (Arc::<Watches<Told>>::default(), Arc::default());
        let subjects = ["a", "a.b", "a.b.c", "a.bc", "a.c.c", "ab", "b.b.c", "$x.>y"];
        let watchers = subjects.map(|subject| Arc::new(Told(subject, Arc::clone(&told))));
        let held =
            watchers.each_ref().map(|watcher| watches.add(watcher.0.as_bytes(), Arc::downgrade(watcher)));
        let tells = |pattern: &str| {
            tell(&watches, pattern);
            let mut told = std::mem::take(&mut *told.lock().unwrap());
            told.sort_unstable();
            told
        };
        let patterns = [
            "a", "a.*", "a.>", "a.*.c", "*.b.c", ">", "a.b", "a.b.>", "*", "c", "c.>", "a.b*", "$x.>y",
            "$x.*",
        ];
        for pattern in patterns {
            let mut expected = subjects.to_vec();
            expected.retain(|subject| matches(pattern.as_bytes(), subject.as_bytes()));
            expected.sort_unstable();
            assert_eq!(tells(pattern), expected, "{pattern}");
        }
        drop(held);
        assert!(tells(">").is_empty());
        assert_eq!((watches.count.load(Relaxed), watches.by_subject.read().unwrap().len()), (0, 0));
    }

    #[test]
    fn one_of_two_watches_of_a_subject_ends_alone() {
        let (watches, told) = (Arc::<Watches<Told>>::default(), Arc::default());
        let [first, second] = ["first", "second"].map(|name| Arc::new(Told(name, Arc::clone(&told))));
        let watch = |watcher: &Arc<Told>| watches.add(b"a", Arc::downgrade(watcher));
        let (one, other) = (watch(&first), watch(&second));
        drop(one);
        tell(&watches, "a");
        assert_eq!(*told.lock().unwrap(), ["second"]);
        // Who is gone is not told, whether its watch has ended or not.
        drop(second);
        tell(&watches, "a");
        assert_eq!(told.lock().unwrap().len(), 1);
        drop(other);
    }

    #[test]
    fn a_pattern_begins_with_what_comes_before_its_first_wildcard() {
        let cases =
            [("a.b.*", "a.b."), ("a.>", "a."), (">", ""), ("*.a", ""), ("a*.*.b", "a*."), ("a.*.>", "a.")];
        for (pattern, beginning) in cases {
            assert_eq!(before_wildcard(pattern.as_bytes()), beginning.as_bytes(), "{pattern}");
        }
    }
}
