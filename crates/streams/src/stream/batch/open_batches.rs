//! Open batches by id, each with its time to live.

use super::in_flight::BatchPermit;
use hashbrown::HashMap;
use myelin_store::Timestamp;

/// Batches that are open, and until when.
///
/// Perf: messages of one batch come in runs, so the place that was found last is tried before the
/// map.
pub(super) struct OpenBatches<T> {
    places: Vec<Option<OpenBatch<T>>>,
    free: Vec<usize>,
    by_id: HashMap<Box<[u8]>, usize, foldhash::fast::RandomState>,
    last: usize,
    /// How many were ever opened.
    opened: u64,
    timeout: i64,
    /// No deadline is earlier. Deadlines move with every message, and this does not.
    earliest: Timestamp,
}

/// A batch that may be gone when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchHandle {
    at: usize,
    number: u64,
}

struct OpenBatch<T> {
    id: Box<[u8]>,
    number: u64,
    deadline: Timestamp,
    content: T,
    _permit: BatchPermit,
}

impl<T> OpenBatches<T> {
    pub(super) fn new(timeout: i64) -> Self {
        let (places, free, by_id) = (Vec::new(), Vec::new(), HashMap::default());
        Self { places, free, by_id, last: 0, opened: 0, timeout, earliest: Timestamp::MAX }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn find(&mut self, id: &[u8]) -> Option<usize> {
        if let Some(Some(open)) = self.places.get(self.last)
            && *open.id == *id
        {
            return Some(self.last);
        }
        self.last = *self.by_id.get(id)?;
        Some(self.last)
    }

    /// The caller has looked: there is none with this id.
    pub(super) fn insert(&mut self, id: &[u8], content: T, permit: BatchPermit, now: Timestamp) -> usize {
        let deadline = now.saturating_add(self.timeout);
        self.earliest = self.earliest.min(deadline);
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.opened += 1;
        debug_assert!(self.places[at].is_none(), "a place that is free has no batch");
        self.places[at] =
            Some(OpenBatch { id: id.into(), number: self.opened, deadline, content, _permit: permit });
        let before = self.by_id.insert(id.into(), at);
        debug_assert!(before.is_none(), "a batch was opened twice");
        self.last = at;
        self.check();
        at
    }

    pub(super) fn get(&mut self, at: usize) -> &mut T {
        &mut self.open(at).content
    }

    pub(super) fn handle(&mut self, at: usize) -> BatchHandle {
        BatchHandle { at, number: self.open(at).number }
    }

    /// The place of a batch, if it is still open.
    pub(super) fn place(&self, handle: BatchHandle) -> Option<usize> {
        let open = self.places.get(handle.at)?.as_ref()?;
        (open.number == handle.number).then_some(handle.at)
    }

    /// Moves the deadline: a message came.
    pub(super) fn touch(&mut self, at: usize, now: Timestamp) {
        self.open(at).deadline = now.saturating_add(self.timeout);
    }

    /// Takes the deadline away.
    pub(super) fn keep(&mut self, at: usize) {
        self.open(at).deadline = Timestamp::MAX;
    }

    pub(super) fn remove(&mut self, at: usize) -> T {
        let open = self.places[at].take().expect("places that are handed out are filled");
        let known = self.by_id.remove(&open.id);
        debug_assert_eq!(known, Some(at), "a batch is known by its id for as long as it is open");
        self.free.push(at);
        self.check();
        if self.by_id.is_empty() {
            self.earliest = Timestamp::MAX;
        }
        open.content
    }

    pub(super) fn clear(&mut self) {
        drop(self.drain());
    }

    /// Takes all out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        let anew = Self { opened: self.opened, ..Self::new(self.timeout) };
        std::mem::replace(self, anew).places.into_iter().flatten().map(|open| open.content)
    }

    /// Takes out those that are not to stay.
    pub(super) fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        let is_out = |open: &Option<OpenBatch<T>>| open.as_ref().is_some_and(|open| !stays(&open.content));
        let out: Vec<usize> = (0..self.places.len()).filter(|&at| is_out(&self.places[at])).collect();
        out.into_iter().for_each(|at| drop(self.remove(at)));
    }

    /// When to ask for what is overdue; may be too early.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        (self.earliest < Timestamp::MAX).then_some(self.earliest)
    }

    /// Removes what had no message for too long and gives the ids, the longest overdue first.
    pub(super) fn remove_due(&mut self, now: Timestamp) -> Vec<Box<[u8]>> {
        if now < self.earliest {
            return Vec::new();
        }
        let open =
            self.places.iter().enumerate().filter_map(|(at, open)| Some((open.as_ref()?.deadline, at)));
        let (mut due, stay): (Vec<_>, Vec<_>) = open.partition(|(deadline, _)| *deadline <= now);
        self.earliest = stay.into_iter().map(|(deadline, _)| deadline).min().unwrap_or(Timestamp::MAX);
        debug_assert!(self.earliest > now, "what is overdue is removed");
        due.sort_unstable();
        due.into_iter().map(|(_, at)| self.remove_named(at)).collect()
    }

    fn remove_named(&mut self, at: usize) -> Box<[u8]> {
        let id = std::mem::take(&mut self.open(at).id);
        let known = self.by_id.remove(&id);
        debug_assert_eq!(known, Some(at), "a batch is known by its id for as long as it is open");
        self.places[at] = None;
        self.free.push(at);
        self.check();
        id
    }

    /// Checks the counts: each place is free or has a batch that is known by its id.
    fn check(&self) {
        debug_assert_eq!(
            self.by_id.len() + self.free.len(),
            self.places.len(),
            "each place of a batch is free or known by an id"
        );
        debug_assert!(self.by_id.len() as u64 <= self.opened, "what is open was opened");
    }

    fn open(&mut self, at: usize) -> &mut OpenBatch<T> {
        self.places[at].as_mut().expect("places that are handed out are filled")
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_flight::BatchPermits;
    use super::*;
    use std::sync::Arc;

    fn batches() -> (OpenBatches<u32>, Arc<BatchPermits>) {
        (OpenBatches::new(10), Arc::default())
    }

    fn put(
        batches: &mut OpenBatches<u32>,
        permits: &Arc<BatchPermits>,
        id: &str,
        content: u32,
        now: Timestamp,
    ) {
        batches.insert(id.as_bytes(), content, BatchPermits::take(permits, 9).unwrap(), now);
    }

    #[test]
    fn what_was_put_is_found_until_it_is_removed() {
        let (mut batches, permits) = batches();
        put(&mut batches, &permits, "a", 1, 0);
        put(&mut batches, &permits, "b", 2, 0);
        let (a, b) = (batches.find(b"a").unwrap(), batches.find(b"b").unwrap());
        let (first, second) = (batches.handle(a), batches.handle(b));
        assert_eq!((*batches.get(a), *batches.get(b), batches.find(b"c")), (1, 2, None));
        assert_eq!((batches.remove(a), batches.find(b"a"), batches.find(b"b")), (1, None, Some(b)));
        assert_eq!((batches.len(), permits.taken()), (1, 1));
        put(&mut batches, &permits, "c", 3, 0);
        assert_eq!(batches.find(b"c"), Some(a), "places are used again");
        assert_eq!(
            [batches.place(first), batches.place(second)],
            [None, Some(b)],
            "but not by those who were there"
        );
        batches.clear();
        put(&mut batches, &permits, "d", 4, 0);
        assert_eq!([batches.place(first), batches.place(second)], [None, None]);
        batches.clear();
        assert_eq!((batches.len(), permits.taken(), batches.next_due()), (0, 0, None));
    }

    #[test]
    fn what_gets_no_message_is_removed_when_it_is_due() {
        let (mut batches, permits) = batches();
        for (id, now) in [("a", 0), ("b", 2), ("c", 1)] {
            put(&mut batches, &permits, id, 0, now);
        }
        assert_eq!(batches.next_due(), Some(10));
        let a = batches.find(b"a").unwrap();
        batches.touch(a, 5);
        assert!(batches.remove_due(10).is_empty());
        assert_eq!(batches.next_due(), Some(11));
        assert_eq!(batches.remove_due(12), [b"c"[..].into(), b"b"[..].into()]);
        assert_eq!((batches.next_due(), permits.taken()), (Some(15), 1));
        batches.keep(a);
        assert!(batches.remove_due(Timestamp::MAX - 1).is_empty());
        assert_eq!((batches.next_due(), batches.find(b"a")), (None, Some(a)));
    }
}
