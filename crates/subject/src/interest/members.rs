//! The members that share a subject and a queue name: a dense list that finds its members by id.

use hashbrown::HashTable;

use super::hashing::{Hashing, shrink};
use super::member::{Member, Sought};

/// Up to this length a list is searched from end to end.
const SEARCHED: usize = 16;

/// A list of members with insertion and removal in constant time, whatever its length.
pub(super) struct Members<M> {
    list: Vec<M>,
    /// Where in `list` each member is, found by its id. Empty while the list is short.
    places: HashTable<u32>,
}

impl<M: Member> Members<M> {
    pub(super) fn new() -> Self {
        Self { list: Vec::new(), places: HashTable::new() }
    }

    pub(super) fn as_slice(&self) -> &[M] {
        &self.list
    }

    pub(super) fn push(&mut self, m: M, hashing: &Hashing) {
        self.list.push(m);
        if !self.places.is_empty() {
            self.note(self.list.len() - 1, hashing);
        } else if self.list.len() > SEARCHED {
            (0..self.list.len()).for_each(|at| self.note(at, hashing));
        }
    }

    pub(super) fn find(&self, sought: &impl Sought<M>, hashing: &Hashing) -> Option<&M> {
        if self.places.is_empty() {
            return self.list.iter().find(|m| sought.is(m));
        }
        let hash = hashing.number(sought.id());
        let at = self.places.find(hash, |&at| sought.is(&self.list[at as usize]))?;
        Some(&self.list[*at as usize])
    }

    pub(super) fn remove(&mut self, m: &M, hashing: &Hashing) -> bool {
        let Some(at) = self.take_place(m, hashing) else { return false };
        self.list.swap_remove(at);
        self.shrink(hashing);
        true
    }

    /// Where `m` is. What is last in the list is noted there instead, to be swapped in by the
    /// caller.
    fn take_place(&mut self, m: &M, hashing: &Hashing) -> Option<usize> {
        if self.places.is_empty() {
            return self.list.iter().position(|other| other.same(m));
        }
        let list = &self.list;
        let hash = |m: &M| hashing.number(m.id());
        let entry = self.places.find_entry(hash(m), |&at| list[at as usize].same(m)).ok()?;
        let (at, _) = entry.remove();
        let last = list.len() - 1;
        if let Some(place) = self.places.find_mut(hash(&list[last]), |&at| at as usize == last) {
            *place = at;
        }
        Some(at as usize)
    }

    /// Notes where the member at `at` is.
    fn note(&mut self, at: usize, hashing: &Hashing) {
        let list = &self.list;
        let hash = |at: usize| hashing.number(list[at].id());
        let place = u32::try_from(at).expect("memory ends long before four billion subscriptions");
        self.places.insert_unique(hash(at), place, |&at| hash(at as usize));
    }

    /// Gives memory back once most of it is unused, so rarely that it costs nothing per removal.
    fn shrink(&mut self, hashing: &Hashing) {
        if self.list.len() <= SEARCHED / 2 {
            self.places = HashTable::new();
        }
        if self.list.capacity() > 4 * SEARCHED && self.list.len() < self.list.capacity() / 8 {
            self.list.shrink_to(self.list.len() * 2);
        }
        let list = &self.list;
        shrink(&mut self.places, |&at| hashing.number(list[at as usize].id()));
    }
}
