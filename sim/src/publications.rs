//! Publications of a stream by their numbers, as a map in few pieces of memory: checks go through
//! all of them, thousands of times in a run.

use std::cell::Cell;
use std::ops::{Index, RangeFrom};

use crate::model::{MADE, Publication};

/// Entries behind the last one found that are tried before a search.
const NEAR: usize = 4;

/// Publications by their numbers. Almost all are added in the order of these: those of clients, and
/// those that schedules make, which have numbers of their own behind all others.
#[derive(Debug, Default)]
pub(crate) struct Publications {
    published: Rows,
    made: Rows,
    /// At least those that nobody may have removed.
    staying: Vec<u64>,
}

#[derive(Debug, Default)]
struct Rows {
    ids: Vec<u64>,
    ones: Vec<Publication>,
    /// Where the last one was found.
    found: Cell<usize>,
}

impl Rows {
    fn at(&self, id: u64) -> Option<usize> {
        let near = self.found.get();
        let end = self.ids.len().min(near + NEAR);
        let found = self.ids.get(near..end).and_then(|ids| ids.iter().position(|other| *other == id));
        let at = match found {
            Some(behind) => near + behind,
            None => self.ids.binary_search(&id).ok()?,
        };
        self.found.set(at);
        Some(at)
    }

    fn insert(&mut self, id: u64, one: Publication) {
        let at = self.ids.partition_point(|other| *other < id);
        if self.ids.get(at) == Some(&id) {
            self.ones[at] = one;
        } else {
            self.ids.insert(at, id);
            self.ones.insert(at, one);
        }
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (&u64, &Publication)> {
        self.ids.iter().zip(&self.ones)
    }

    fn range_mut(&mut self, from: u64) -> impl Iterator<Item = (&u64, &mut Publication)> {
        let at = self.ids.partition_point(|id| *id < from);
        self.ids[at..].iter().zip(&mut self.ones[at..])
    }

    fn retain(&mut self, stays: &mut impl FnMut(u64, &Publication) -> bool) {
        let mut ids = std::mem::take(&mut self.ids).into_iter();
        let kept = &mut self.ids;
        self.ones.retain(|one| {
            let id = ids.next().filter(|id| stays(*id, one));
            kept.extend(id);
            id.is_some()
        });
    }
}

impl Publications {
    fn rows(&self, id: u64) -> &Rows {
        if id & MADE == 0 { &self.published } else { &self.made }
    }

    fn rows_mut(&mut self, id: u64) -> &mut Rows {
        if id & MADE == 0 { &mut self.published } else { &mut self.made }
    }

    pub(crate) fn get(&self, id: &u64) -> Option<&Publication> {
        let rows = self.rows(*id);
        Some(&rows.ones[rows.at(*id)?])
    }

    pub(crate) fn get_mut(&mut self, id: &u64) -> Option<&mut Publication> {
        let rows = self.rows_mut(*id);
        let at = rows.at(*id)?;
        Some(&mut rows.ones[at])
    }

    pub(crate) fn insert(&mut self, id: u64, one: Publication) {
        if !one.may_go {
            self.staying.push(id);
        }
        self.rows_mut(id).insert(id, one);
    }

    pub(crate) fn len(&self) -> usize {
        self.published.ids.len() + self.made.ids.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// In the order of their numbers.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&u64, &Publication)> {
        self.published.iter().chain(self.made.iter())
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &Publication> {
        self.published.ones.iter().chain(&self.made.ones)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Publication> {
        self.published.ones.iter_mut().chain(&mut self.made.ones)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&u64, &mut Publication)> {
        self.range_mut(0..)
    }

    pub(crate) fn range_mut(
        &mut self,
        from: RangeFrom<u64>,
    ) -> impl Iterator<Item = (&u64, &mut Publication)> {
        self.published.range_mut(from.start).chain(self.made.range_mut(from.start))
    }

    pub(crate) fn retain(&mut self, mut stays: impl FnMut(u64, &Publication) -> bool) {
        self.published.retain(&mut stays);
        self.made.retain(&mut stays);
    }

    /// From here on somebody may have removed those of which `goes` says so.
    pub(crate) fn let_go(&mut self, goes: impl Fn(&Self, u64, &Publication) -> bool) {
        let mut staying = std::mem::take(&mut self.staying);
        staying.retain(|id| {
            let Some(one) = self.get(id).filter(|one| !one.may_go) else { return false };
            let goes = goes(self, *id, one);
            self.get_mut(id).into_iter().for_each(|one| one.may_go |= goes);
            !goes
        });
        self.staying = staying;
    }
}

impl Index<&u64> for Publications {
    type Output = Publication;

    fn index(&self, id: &u64) -> &Publication {
        self.get(id).expect("it was published")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(subject: &str) -> Publication {
        Publication::asked(subject.to_owned(), 0, 0, 0)
    }

    #[test]
    fn it_is_a_map() {
        let (mut ours, mut plain) = (Publications::default(), std::collections::BTreeMap::new());
        for id in [3, 5, MADE | 5, 9, 4, 12, MADE | 4, 20, 5] {
            ours.insert(id, one(&format!("{id}")));
            plain.insert(id, format!("{id}"));
        }
        for id in (0..30).flat_map(|id| [id, id | MADE]).chain([12, 3, 20, 4]) {
            assert_eq!(ours.get(&id).map(|one| &one.subject), plain.get(&id), "{id}");
            assert_eq!(ours.get_mut(&id).is_some(), plain.contains_key(&id), "{id}");
        }
        ours.retain(|id, _| id % 2 == 0);
        plain.retain(|id, _| id % 2 == 0);
        assert_eq!(ours.len(), plain.len());
        assert!(ours.iter().map(|(id, one)| (id, &one.subject)).eq(&plain));
        assert!(ours.values().rev().map(|one| &one.subject).eq(plain.values().rev()));
        for from in [0, 4, 5, 13, MADE, MADE | 5] {
            let behind = ours.range_mut(from..).map(|(id, one)| (*id, one.subject.clone()));
            assert!(behind.eq(plain.range(from..).map(|(id, subject)| (*id, subject.clone()))), "{from}");
        }
    }

    #[test]
    fn what_may_go_is_let_go_once() {
        let mut ours = Publications::default();
        ["a", "b", "a", "c"].iter().zip(1..).for_each(|(subject, id)| ours.insert(id, one(subject)));
        ours.insert(5, Publication { may_go: true, ..one("b") });
        ours.get_mut(&4).unwrap().may_go = true;
        ours.let_go(|_, id, one| one.subject == "a" && id != 3);
        let went = |ours: &Publications| {
            ours.iter().filter(|(_, one)| one.may_go).map(|(id, _)| *id).collect::<Vec<u64>>()
        };
        assert_eq!(went(&ours), vec![1, 4, 5]);
        ours.retain(|id, _| id != 2);
        ours.insert(6, one("b"));
        ours.let_go(|_, _, one| one.subject != "a");
        assert_eq!(went(&ours), vec![1, 4, 5, 6]);
        ours.let_go(|_, _, _| true);
        assert_eq!(went(&ours), vec![1, 3, 4, 5, 6]);
    }
}
