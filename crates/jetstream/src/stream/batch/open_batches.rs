//! Open batches by id, each with its time to live.

use super::in_flight::BatchPermit;
use hashbrown::HashMap;
use myelin_store::Timestamp;

/// What is open, and until when.
///
/// Perf: messages of one batch come in runs, so the place that was found last is tried before the map.
pub(super) struct OpenBatches<T> {
    places: Vec<Option<Open<T>>>,
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
pub(super) struct Handle {
    at: usize,
    number: u64,
}

struct Open<T> {
    id: Box<[u8]>,
    number: u64,
    deadline: Timestamp,
    content: T,
    _seat: BatchPermit,
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
    pub(super) fn insert(&mut self, id: &[u8], content: T, seat: BatchPermit, now: Timestamp) -> usize {
        let deadline = now.saturating_add(self.timeout);
        self.earliest = self.earliest.min(deadline);
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.opened += 1;
        self.places[at] = Some(Open { id: id.into(), number: self.opened, deadline, content, _seat: seat });
        let before = self.by_id.insert(id.into(), at);
        debug_assert!(before.is_none(), "a batch was opened twice");
        self.last = at;
        at
    }

    pub(super) fn get(&mut self, at: usize) -> &mut T {
        &mut self.open(at).content
    }

    pub(super) fn handle(&mut self, at: usize) -> Handle {
        Handle { at, number: self.open(at).number }
    }

    /// The place of a batch, if it is still open.
    pub(super) fn place(&self, handle: Handle) -> Option<usize> {
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
        self.by_id.remove(&open.id);
        self.free.push(at);
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
        due.sort_unstable();
        due.into_iter().map(|(_, at)| self.remove_named(at)).collect()
    }

    fn remove_named(&mut self, at: usize) -> Box<[u8]> {
        let id = std::mem::take(&mut self.open(at).id);
        self.by_id.remove(&id);
        self.places[at] = None;
        self.free.push(at);
        id
    }

    fn open(&mut self, at: usize) -> &mut Open<T> {
        self.places[at].as_mut().expect("places that are handed out are filled")
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_flight::Seats;
    use super::*;
    use std::sync::Arc;

    fn shelf() -> (OpenBatches<u32>, Arc<Seats>) {
        (OpenBatches::new(10), Arc::default())
    }

    fn put(shelf: &mut OpenBatches<u32>, seats: &Arc<Seats>, id: &str, content: u32, now: Timestamp) {
        shelf.insert(id.as_bytes(), content, Seats::take(seats, 9).unwrap(), now);
    }

    #[test]
    fn what_was_put_is_found_until_it_is_removed() {
        let (mut shelf, seats) = shelf();
        put(&mut shelf, &seats, "a", 1, 0);
        put(&mut shelf, &seats, "b", 2, 0);
        let (a, b) = (shelf.find(b"a").unwrap(), shelf.find(b"b").unwrap());
        let (first, second) = (shelf.handle(a), shelf.handle(b));
        assert_eq!((*shelf.get(a), *shelf.get(b), shelf.find(b"c")), (1, 2, None));
        assert_eq!((shelf.remove(a), shelf.find(b"a"), shelf.find(b"b")), (1, None, Some(b)));
        assert_eq!((shelf.len(), seats.taken()), (1, 1));
        put(&mut shelf, &seats, "c", 3, 0);
        assert_eq!(shelf.find(b"c"), Some(a), "places are used again");
        assert_eq!(
            [shelf.place(first), shelf.place(second)],
            [None, Some(b)],
            "but not by those who were there"
        );
        shelf.clear();
        put(&mut shelf, &seats, "d", 4, 0);
        assert_eq!([shelf.place(first), shelf.place(second)], [None, None]);
        shelf.clear();
        assert_eq!((shelf.len(), seats.taken(), shelf.next_due()), (0, 0, None));
    }

    #[test]
    fn what_gets_no_message_is_removed_when_it_is_due() {
        let (mut shelf, seats) = shelf();
        for (id, now) in [("a", 0), ("b", 2), ("c", 1)] {
            put(&mut shelf, &seats, id, 0, now);
        }
        assert_eq!(shelf.next_due(), Some(10));
        let a = shelf.find(b"a").unwrap();
        shelf.touch(a, 5);
        assert!(shelf.remove_due(10).is_empty());
        assert_eq!(shelf.next_due(), Some(11));
        assert_eq!(shelf.remove_due(12), [b"c"[..].into(), b"b"[..].into()]);
        assert_eq!((shelf.next_due(), seats.taken()), (Some(15), 1));
        shelf.keep(a);
        assert!(shelf.remove_due(Timestamp::MAX - 1).is_empty());
        assert_eq!((shelf.next_due(), shelf.find(b"a")), (None, Some(a)));
    }
}
