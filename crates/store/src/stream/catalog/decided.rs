//! A stream as it will be once everything in its log is released: what a leader decides on.
//!
//! While nothing waits this is the catalog, at the price of a branch. Else messages that wait come
//! from the small catalog that holds them, and released ones that go are left out.

use std::ops::ControlFlow;

use crate::Seq;
use crate::index::{SubjectId, SubjectState};
use crate::segment::Totals;

use super::super::errors::ReadError;
use super::super::lookup::{self, Filter};
use super::unreleased::Unreleased;
use super::{Catalog, Leaving, Located};

/// Bit of the number of a subject that only messages which wait have.
const WAITING: SubjectId = 1 << 31;

/// The catalog behind everything that is in the log.
#[derive(Clone, Copy, Debug)]
pub(in crate::stream) struct Decided<'a> {
    catalog: &'a Catalog,
    unreleased: Option<&'a Unreleased>,
}

impl Catalog {
    /// The stream behind everything that is in its log, released or not.
    #[inline]
    pub(in crate::stream) fn decided(&self) -> Decided<'_> {
        Decided { catalog: self, unreleased: self.unreleased.as_deref() }
    }

    /// The last sequence in the table of the segment that grows, behind everything that is in the
    /// log; 0 without one.
    pub(crate) fn last_row_decided(&self) -> Seq {
        self.decided().waiting().unwrap_or(self).last_row()
    }

    /// The sequence that the next message gets that is appended.
    #[inline]
    pub(crate) fn next_decided(&self) -> Seq {
        self.decided().next_seq()
    }
}

impl<'a> Decided<'a> {
    /// Whether nothing waits: then it is the catalog.
    #[inline]
    pub(in crate::stream) fn is_released(self) -> bool {
        self.unreleased.is_none()
    }

    /// The released part.
    #[inline]
    pub(in crate::stream) fn catalog(self) -> &'a Catalog {
        self.catalog
    }

    /// Messages that wait for their release.
    pub(in crate::stream) fn waiting(self) -> Option<&'a Catalog> {
        self.unreleased.map(|unreleased| &unreleased.tail)
    }

    #[inline]
    pub(in crate::stream) fn totals(self) -> Totals {
        let Some(unreleased) = self.unreleased else { return self.catalog.totals };
        let (messages, bytes) = unreleased.staying(self.catalog);
        let tail = unreleased.tail.totals;
        Totals {
            messages: messages + tail.messages,
            bytes: bytes + tail.bytes,
            first_seq: if messages > 0 { unreleased.head } else { tail.first_seq },
            last_seq: tail.last_seq,
            last_timestamp: self.catalog.totals.last_timestamp.max(tail.last_timestamp),
            ..self.catalog.totals
        }
    }

    #[inline]
    pub(in crate::stream) fn next_seq(self) -> Seq {
        self.unreleased.map_or(self.catalog.totals.last_seq, |unreleased| unreleased.tail.totals.last_seq) + 1
    }

    /// Distinct subjects.
    pub(in crate::stream) fn subjects(self) -> u64 {
        let all = self.catalog.index().len() as u64;
        let Some(Unreleased { tail, going_of, goes_empty, .. }) = self.unreleased else { return all };
        let mut new = 0;
        tail.index().for_each_matching(b">", None, &mut |_, text| {
            new += u64::from(self.released_count(text) == 0);
            ControlFlow::Continue(())
        });
        if *goes_empty {
            return new;
        }
        let gone = going_of.iter().filter(|&(text, &count)| {
            self.catalog.index().find(text).is_some_and(|id| self.catalog.index().state(id).count <= count)
        });
        all - gone.count() as u64 + new
    }

    /// Whether a released message stays.
    fn stays(self, seq: Seq) -> bool {
        self.unreleased.is_none_or(|unreleased| {
            !unreleased.goes_empty && seq >= unreleased.head && !unreleased.going.contains_key(&seq)
        })
    }

    #[inline]
    pub(in crate::stream) fn contains(self, seq: Seq) -> bool {
        match self.unreleased {
            None => self.catalog.contains(seq),
            Some(unreleased) => {
                unreleased.tail.contains(seq) || (self.catalog.contains(seq) && self.stays(seq))
            }
        }
    }

    /// Of both catalogs the one that has this message.
    #[inline]
    fn holder(self, seq: Seq) -> Option<&'a Catalog> {
        match self.unreleased {
            None => Some(self.catalog),
            Some(unreleased) if unreleased.tail.contains(seq) => Some(&unreleased.tail),
            Some(_) => (self.catalog.contains(seq) && self.stays(seq)).then_some(self.catalog),
        }
    }

    pub(in crate::stream) fn locate(self, seq: Seq) -> Result<Option<Located>, ReadError> {
        self.holder(seq).map_or(Ok(None), |catalog| catalog.locate(seq))
    }

    pub(in crate::stream) fn locate_named(self, seq: Seq) -> Result<Option<(Located, SubjectId)>, ReadError> {
        let Some(holder) = self.holder(seq) else { return Ok(None) };
        let found = holder.locate_named(seq)?;
        Ok(found.map(|(located, subject)| (located, self.number(holder, subject))))
    }

    /// The number by which a subject is known here, that one of both catalogs calls `id`.
    #[inline]
    fn number(self, of: &Catalog, id: SubjectId) -> SubjectId {
        if self.unreleased.is_none() || std::ptr::eq(of, self.catalog) {
            return id;
        }
        self.catalog.index().find(of.index().text(id)).unwrap_or(id | WAITING)
    }

    #[inline]
    pub(in crate::stream) fn hash(self, subject: &[u8]) -> u32 {
        self.catalog.index().hash(subject)
    }

    /// The number of a subject.
    #[inline]
    pub(in crate::stream) fn find_hashed(self, hash: u32, subject: &[u8]) -> Option<SubjectId> {
        let found = self.catalog.index().find_hashed(hash, subject);
        match self.unreleased {
            None => found,
            Some(unreleased) => {
                let waiting = || unreleased.tail.index().find(subject).map(|id| id | WAITING);
                found.or_else(waiting)
            }
        }
    }

    #[inline]
    pub(in crate::stream) fn text(self, id: SubjectId) -> &'a [u8] {
        match self.unreleased {
            Some(unreleased) if id & WAITING != 0 => unreleased.tail.index().text(id & !WAITING),
            _ => self.catalog.index().text(id),
        }
    }

    /// State of a subject, as far as it is known.
    #[inline]
    pub(in crate::stream) fn subject(self, id: SubjectId) -> SubjectState {
        match self.unreleased {
            None => self.catalog.index().state(id),
            Some(_) => self.subject_of(self.text(id)),
        }
    }

    fn subject_of(self, text: &[u8]) -> SubjectState {
        let state_in = |catalog: &Catalog| {
            let index = catalog.index();
            index.find(text).map(|id| index.state(id)).unwrap_or_default()
        };
        let waiting = self.waiting().map(state_in).unwrap_or_default();
        let released = self.released_count(text);
        if released == 0 {
            return waiting;
        }
        let state = state_in(self.catalog);
        let last = if waiting.count > 0 { waiting.last } else { state.last };
        SubjectState {
            count: released + waiting.count,
            first: state.first,
            last,
            first_exact: state.first_exact && self.stays(state.first),
            last_exact: false,
        }
    }

    /// How many released messages of a subject stay.
    fn released_count(self, text: &[u8]) -> u64 {
        let index = self.catalog.index();
        let count = index.find(text).map_or(0, |id| index.state(id).count);
        match self.unreleased {
            None => count,
            Some(unreleased) if unreleased.goes_empty => 0,
            Some(unreleased) => count.saturating_sub(unreleased.going_of.get(text).copied().unwrap_or(0)),
        }
    }

    /// Size of the last message of a subject, and its sequence, if that is known at once.
    #[inline]
    pub(in crate::stream) fn last_known(self, id: SubjectId) -> Option<(Seq, u32)> {
        if self.unreleased.is_none() { self.catalog.index().last_known(id) } else { None }
    }

    /// How many messages of a subject count and are not there.
    #[inline]
    pub(in crate::stream) fn lost_of(self, id: SubjectId) -> Result<u64, ReadError> {
        if id & WAITING != 0 { Ok(0) } else { self.catalog.lost_of(id) }
    }

    /// How many messages of a subject are there.
    pub(in crate::stream) fn live_of(self, text: &[u8]) -> Result<u64, ReadError> {
        let lost = self.catalog.index().find(text).map_or(Ok(0), |id| self.catalog.lost_of(id))?;
        Ok(self.subject_of(text).count.saturating_sub(lost))
    }

    #[inline]
    pub(in crate::stream) fn size_of(self, seq: Seq) -> Result<Option<u64>, ReadError> {
        self.holder(seq).map_or(Ok(None), |catalog| catalog.size_of(seq))
    }

    #[inline]
    pub(in crate::stream) fn before_removal(
        self,
        id: SubjectId,
        seq: Seq,
        last: Seq,
    ) -> Result<Option<Leaving>, ReadError> {
        let Some(unreleased) = self.unreleased else { return self.catalog.before_removal(id, seq, last) };
        if id & WAITING != 0 || unreleased.tail.contains(seq) {
            return Ok(None);
        }
        let leaving = self.catalog.before_removal(id, seq, last)?;
        // Which message comes behind one that goes, too, or behind the last one, is not looked for.
        Ok(leaving.filter(|leaving| leaving.next.is_some_and(|next| self.stays(next))))
    }

    #[inline]
    pub(in crate::stream) fn head_of(
        self,
        seq: Seq,
        with_subject: bool,
    ) -> Result<Option<(u64, Option<SubjectId>)>, ReadError> {
        let Some(holder) = self.holder(seq) else { return Ok(None) };
        let found = holder.head_of(seq, with_subject)?;
        Ok(found.map(|(size, subject)| (size, subject.map(|id| self.number(holder, id)))))
    }

    /// The first sequence, from `from` on, that is a message or comes next.
    #[inline]
    pub(in crate::stream) fn next_live(self, from: Seq) -> Seq {
        let Some(unreleased) = self.unreleased else { return self.catalog.removed.deleted.next_live(from) };
        let deleted = &self.catalog.removed.deleted;
        if !unreleased.goes_empty {
            let mut seq = deleted.next_live(from.max(unreleased.head));
            while unreleased.going.contains_key(&seq) {
                seq = deleted.next_live(seq + 1);
            }
            if seq <= self.catalog.totals.last_seq {
                return seq;
            }
        }
        let tail = &unreleased.tail;
        tail.removed.deleted.next_live(from.max(tail.totals.first_seq))
    }

    /// The first sequence behind a trim to `first`.
    pub(in crate::stream) fn first_behind(self, first: Seq) -> Seq {
        if first >= self.next_seq() { first } else { self.next_live(first) }
    }

    /// The first message of a subject from `from` to `to`.
    #[inline]
    pub(in crate::stream) fn next_of_subject(
        self,
        text: &[u8],
        from: Seq,
        to: Seq,
    ) -> Result<Option<Seq>, ReadError> {
        if self.unreleased.is_none() {
            return lookup::next_of_subject(self.catalog, text, from, to);
        }
        Ok(self.collect(&Filter::Subject(text.to_vec()), from, to, 1)?.pop())
    }

    /// Shows the messages from `from` to `to` that pass, oldest first, until the visitor has
    /// enough.
    pub(in crate::stream) fn visit(
        self,
        filter: &Filter,
        from: Seq,
        to: Seq,
        visitor: &mut dyn FnMut(Seq) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let Some(unreleased) = self.unreleased else {
            return lookup::visit(self.catalog, filter, from, to, visitor);
        };
        let mut has_enough = false;
        if !unreleased.goes_empty {
            lookup::visit(self.catalog, filter, from.max(unreleased.head), to, &mut |seq| {
                if unreleased.going.contains_key(&seq) {
                    return ControlFlow::Continue(());
                }
                let flow = visitor(seq);
                has_enough = flow.is_break();
                flow
            })?;
        }
        if has_enough { Ok(()) } else { lookup::visit(&unreleased.tail, filter, from, to, visitor) }
    }

    /// Up to `limit` messages from `from` to `to` that pass, oldest first.
    pub(in crate::stream) fn collect(
        self,
        filter: &Filter,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> Result<Vec<Seq>, ReadError> {
        if self.unreleased.is_none() {
            return lookup::collect(self.catalog, filter, from, to, limit);
        }
        let mut found = Vec::new();
        if limit > 0 {
            self.visit(filter, from, to, &mut |seq| {
                found.push(seq);
                if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(found)
    }

    /// How many messages pass; without those that were lost, if `is_live`.
    pub(in crate::stream) fn count(self, filter: &Filter, is_live: bool) -> Result<u64, ReadError> {
        if is_live {
            let mut live = 0;
            self.visit(filter, 0, Seq::MAX, &mut |_| {
                live += 1;
                ControlFlow::Continue(())
            })?;
            return Ok(live);
        }
        let Some(unreleased) = self.unreleased else { return Ok(lookup::count(self.catalog, filter)) };
        let waiting = lookup::count(&unreleased.tail, filter);
        if unreleased.goes_empty {
            return Ok(waiting);
        }
        let going = match filter {
            Filter::All => unreleased.going.len() as u64,
            Filter::Subject(text) => unreleased.going_of.get(text.as_slice()).copied().unwrap_or(0),
            Filter::Patterns(_) => {
                let of_these = unreleased.going_of.iter().filter(|(text, _)| filter.accepts(text));
                of_these.map(|(_, count)| count).sum()
            }
        };
        Ok(lookup::count(self.catalog, filter).saturating_sub(going) + waiting)
    }

    /// How many messages from `from` on pass.
    pub(in crate::stream) fn pending(self, filter: &Filter, from: Seq) -> Result<u64, ReadError> {
        let Some(unreleased) = self.unreleased else { return lookup::pending(self.catalog, filter, from) };
        if from <= self.totals().first_seq {
            return self.count(filter, false);
        }
        let waiting = lookup::pending(&unreleased.tail, filter, from)?;
        if unreleased.goes_empty {
            return Ok(waiting);
        }
        let mut going = 0;
        for (&seq, _) in unreleased.going.range(from..) {
            let passes = filter.is_all()
                || self
                    .catalog
                    .locate_named(seq)?
                    .is_some_and(|(_, subject)| filter.accepts(self.catalog.index().text(subject)));
            going += u64::from(passes);
        }
        Ok(lookup::pending(self.catalog, filter, from)?.saturating_sub(going) + waiting)
    }

    /// The last message of a subject.
    pub(in crate::stream) fn last_of(self, text: &[u8]) -> Result<Option<Seq>, ReadError> {
        if self.unreleased.is_some() {
            return self.last(&Filter::Subject(text.to_vec()));
        }
        self.catalog.index().find(text).map_or(Ok(None), |id| lookup::last_of(self.catalog, id))
    }

    /// The last message that passes.
    pub(in crate::stream) fn last(self, filter: &Filter) -> Result<Option<Seq>, ReadError> {
        let Some(unreleased) = self.unreleased else { return lookup::last(self.catalog, filter) };
        if let Some(seq) = lookup::last(&unreleased.tail, filter)? {
            return Ok(Some(seq));
        }
        let mut found = if unreleased.goes_empty { None } else { lookup::last(self.catalog, filter)? };
        while let Some(seq) = found.filter(|&seq| !self.stays(seq)) {
            found =
                if seq <= unreleased.head { None } else { lookup::previous(self.catalog, filter, seq - 1)? };
        }
        Ok(found)
    }

    /// How many messages a subject has. Where it cannot be read how many of them are lost to
    /// damage, these count.
    pub(in crate::stream) fn count_of(self, text: &[u8]) -> u64 {
        if self.unreleased.is_some() {
            return self.live_of(text).unwrap_or_else(|_| self.subject_of(text).count);
        }
        let Some(id) = self.catalog.index().find(text) else { return 0 };
        self.catalog.live_of(id).unwrap_or_else(|_| self.catalog.index().state(id).count)
    }

    /// Shows subjects whose messages are more than `max`, until the visitor has enough.
    pub(in crate::stream) fn each_above(self, max: u64, visitor: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) {
        let mut has_enough = false;
        let index = self.catalog.index();
        index.for_each_matching(b">", None, &mut |id, text| {
            let count =
                if self.unreleased.is_none() { index.state(id).count } else { self.subject_of(text).count };
            if count <= max {
                return ControlFlow::Continue(());
            }
            let flow = visitor(text);
            has_enough = flow.is_break();
            flow
        });
        let Some(unreleased) = self.unreleased.filter(|_| !has_enough) else { return };
        unreleased.tail.index().for_each_matching(b">", None, &mut |id, text| {
            let is_new = index.find(text).is_none();
            if is_new && unreleased.tail.index().state(id).count > max {
                visitor(text)
            } else {
                ControlFlow::Continue(())
            }
        });
    }

    /// Of the messages among `seqs`, ascending: how many of them are the oldest, and the first
    /// sequence behind these.
    pub(in crate::stream) fn split_front(self, seqs: &[Seq]) -> (usize, Seq) {
        let totals = self.totals();
        let (mut front, mut first) = (0, totals.first_seq);
        while seqs.get(front) == Some(&first) {
            front += 1;
            let is_all = front as u64 == totals.messages;
            first = if is_all { self.next_seq() } else { self.next_live(first + 1) };
        }
        (front, first)
    }
}
