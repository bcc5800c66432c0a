//! Batches in the log that are not released: kept as decided, and done to the catalog when they are
//! released.
//!
//! The catalog itself is what is released, and nothing else: whoever reads it sees that. Batches
//! that wait are listed here, in the order of the log, and a batch that is taken back has left
//! nothing anywhere else. What the stream will be behind them, on which the next decision is made,
//! is counted beside the catalog: the messages that come, in a small catalog of their own, and
//! which of the released ones go. [`Decided`](super::Decided) shows both as one.
//!
//! Nothing of this exists while everything is released, as always in a stream whose messages are
//! released when they are appended.
//!
//! Perf: each release counts anew what still waits; that is little, unless very many batches wait
//! and are released one by one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::config::Storage;
use crate::index::SubjectState;
use crate::ranges::Ranges;
use crate::record::{Control, Entry};
use crate::{Seq, Timestamp};

use super::super::active::{Active, Closed, SegmentOrigin};
use super::super::errors::ReadError;
use super::super::release::Entered;
use super::super::segment_view::{Form, Segment};
use super::super::table_cache::TableCache;
use super::{Catalog, Fate, NewRow, Removed, size_of};

/// One thing that a batch says, in the form in which it is kept.
#[derive(Clone, Debug)]
pub(in crate::stream) enum Planned {
    Message(PlannedMessage),
    Delete(Ranges),
    Trim(Seq),
    Skip(Seq, Timestamp),
    /// Bytes go that were counted for messages which damage has taken.
    LostBytes(u64),
    /// The oldest message of a subject when all that the batch takes has gone.
    ///
    /// Perf: it was looked up for the decision, and the next one would look for it again, in all
    /// messages between.
    First(Box<[u8]>, Seq),
    /// A segment begins.
    Begin(NextSegment),
}

/// A message that was appended.
#[derive(Clone, Debug)]
pub(in crate::stream) struct PlannedMessage {
    pub(in crate::stream) seq: Seq,
    pub(in crate::stream) timestamp: Timestamp,
    pub(in crate::stream) expires: Option<Timestamp>,
    pub(in crate::stream) subject: Box<[u8]>,
    pub(in crate::stream) offset: u64,
    pub(in crate::stream) size: u64,
}

/// A segment that begins behind what is in the one before.
#[derive(Clone, Debug)]
pub(crate) struct NextSegment {
    pub(crate) segment: Arc<Segment>,
    /// The one before it, with the last index of the group's log that stands in it; `None` if it
    /// gets no footer, or is not there.
    pub(crate) closed: Option<(Active, SegmentOrigin, u64)>,
}

/// A batch that waits for its release.
#[derive(Debug, Default)]
pub(in crate::stream) struct PlannedBatch {
    /// Its index in the log of the group; 0 without one.
    pub(in crate::stream) index: u64,
    pub(in crate::stream) plans: Vec<Planned>,
}

/// Tables that are not in memory, to be read before the lock is taken under which they are needed:
/// readers wait for that.
#[derive(Debug)]
pub(crate) struct TablesToRead {
    cache: Arc<TableCache>,
    segments: Vec<Arc<Segment>>,
}

/// Batches that wait, and what they will have done.
#[derive(Debug)]
pub(super) struct Unreleased {
    pub(super) batches: VecDeque<PlannedBatch>,
    /// How many messages these have.
    messages: usize,
    /// Messages of these batches, less those that they take away again.
    pub(super) tail: Catalog,
    /// Released messages that go, unless all do.
    pub(super) going: BTreeMap<Seq, u64>,
    /// How many of them have each subject, and their bytes.
    pub(super) going_of: BTreeMap<Box<[u8]>, u64>,
    going_bytes: u64,
    /// Whether all released messages go.
    pub(super) goes_empty: bool,
    /// The first released message that stays; behind the last one if none does.
    pub(super) head: Seq,
    /// Lifetimes that have been looked at, of released messages that go.
    ended: Vec<(Timestamp, Seq)>,
}

impl Planned {
    /// Plan of a record whose entry begins at `offset`. `None` for one that changes no catalog.
    pub(in crate::stream) fn of(
        entry: &Entry<'_>,
        offset: u64,
        timestamp: Timestamp,
        storage: Storage,
    ) -> Option<Self> {
        Some(match entry {
            Entry::Message(message) => Self::Message(PlannedMessage {
                seq: message.seq,
                timestamp: message.timestamp,
                expires: message.expires,
                subject: Box::from(message.subject),
                offset,
                size: size_of(storage, message.subject, message.headers, message.payload),
            }),
            Entry::Erased { seq } => Self::Skip(*seq, timestamp),
            Entry::Control(control) => return Self::of_control(control, timestamp),
        })
    }

    /// Plan of a control.
    pub(in crate::stream) fn of_control(control: &Control<'_>, timestamp: Timestamp) -> Option<Self> {
        match control {
            Control::Delete(ranges) => Some(Self::Delete(ranges.clone().into_owned())),
            Control::Trim { first } => Some(Self::Trim(*first)),
            Control::Skip { last } => Some(Self::Skip(*last, timestamp)),
            Control::Truncate { .. }
            | Control::Durable { .. }
            | Control::Term { .. }
            | Control::LogEntry(_)
            | Control::Consumer(_)
            | Control::Config(_)
            | Control::Note(_)
            | Control::TakenBack { .. } => None,
        }
    }
}

impl PlannedMessage {
    fn row(&self) -> NewRow<'_> {
        let Self { seq, timestamp, expires, ref subject, offset, size } = *self;
        NewRow { seq, timestamp, expires, subject, offset, size }
    }
}

impl TablesToRead {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Reads them. What cannot be read now is met again under the lock, and fails there.
    pub(crate) fn read(self) {
        for segment in self.segments {
            let _ = self.cache.load(&segment);
        }
    }
}

impl Unreleased {
    fn new(catalog: &Catalog) -> Self {
        let mut tail = Catalog::in_memory(catalog.subjects.seed(), catalog.next_seq());
        if let Some(view) = catalog.segments.views.last() {
            tail.begin_segment(Arc::clone(&view.segment));
        }
        Self {
            batches: VecDeque::new(),
            messages: 0,
            tail,
            going: BTreeMap::new(),
            going_of: BTreeMap::new(),
            going_bytes: 0,
            goes_empty: catalog.totals.messages == 0,
            head: catalog.totals.first_seq,
            ended: Vec::new(),
        }
    }

    /// Messages and bytes of the released ones that stay.
    pub(super) fn staying(&self, catalog: &Catalog) -> (u64, u64) {
        if self.goes_empty {
            return (0, 0);
        }
        let messages = catalog.totals.messages.saturating_sub(self.going.len() as u64);
        let bytes = catalog.totals.bytes.saturating_sub(self.going_bytes);
        (messages, if messages == 0 { 0 } else { bytes })
    }

    /// Counts what is planned as done. Answers what goes by it.
    fn count(&mut self, catalog: &Catalog, plan: &Planned) -> Result<Removed, ReadError> {
        match plan {
            Planned::Message(message) => {
                self.messages += 1;
                self.tail.append(&message.row());
            }
            Planned::Delete(ranges) => return self.delete(catalog, ranges),
            Planned::Trim(first) => return self.trim(catalog, *first),
            Planned::Skip(last, time) => self.tail.skip_at(*last, *time),
            Planned::LostBytes(bytes) => self.going_bytes += bytes,
            Planned::First(..) => {}
            Planned::Begin(next) => {
                let _ = self.tail.begin_segment(Arc::clone(&next.segment));
                self.tail.forget_footer_changes();
            }
        }
        Ok(Removed::default())
    }

    fn delete(&mut self, catalog: &Catalog, ranges: &Ranges) -> Result<Removed, ReadError> {
        let mut removed = Removed::default();
        let last = if self.goes_empty { 0 } else { catalog.totals.last_seq };
        for range in ranges.iter() {
            let mut seq = catalog.removed.deleted.next_live((*range.start()).max(self.head));
            while seq <= last.min(*range.end()) {
                removed.add(self.go(catalog, seq)?);
                seq = catalog.removed.deleted.next_live(seq + 1);
            }
            let before = self.tail.totals;
            self.tail.remove_range(*range.start(), *range.end())?;
            removed.add(before.less(&self.tail.totals));
        }
        self.find_head(catalog);
        Ok(removed)
    }

    /// Whether a released message goes.
    fn goes(&self, seq: Seq) -> bool {
        self.goes_empty || seq < self.head || self.going.contains_key(&seq)
    }

    /// A released message goes, if it does not already.
    fn go(&mut self, catalog: &Catalog, seq: Seq) -> Result<Removed, ReadError> {
        if self.going.contains_key(&seq) {
            return Ok(Removed::default());
        }
        let found = catalog.locate_named(seq)?;
        let bytes = found.as_ref().map_or(0, |(located, _)| located.size);
        if let Some((_, subject)) = found {
            *self.going_of.entry(Box::from(catalog.index().text(subject))).or_insert(0) += 1;
        }
        self.going.insert(seq, bytes);
        self.going_bytes += bytes;
        Ok(Removed { messages: 1, bytes })
    }

    fn trim(&mut self, catalog: &Catalog, first: Seq) -> Result<Removed, ReadError> {
        let mut removed = Removed::default();
        if first > catalog.totals.last_seq {
            let (messages, bytes) = self.staying(catalog);
            removed.add(Removed { messages, bytes });
            self.go_empty(catalog);
        } else {
            while self.head < first && !self.goes_empty {
                removed.add(self.go(catalog, self.head)?);
                self.find_head(catalog);
            }
        }
        if first > self.tail.totals.first_seq {
            removed.add(self.tail.trim(first)?);
        }
        Ok(removed)
    }

    fn go_empty(&mut self, catalog: &Catalog) {
        self.goes_empty = true;
        self.going.clear();
        self.going_of.clear();
        self.going_bytes = 0;
        self.head = catalog.next_seq();
    }

    /// Moves the head to the first released message that stays.
    fn find_head(&mut self, catalog: &Catalog) {
        if self.goes_empty {
            return;
        }
        if self.going.len() as u64 >= catalog.totals.messages {
            self.go_empty(catalog);
            return;
        }
        self.head = catalog.removed.deleted.next_live(self.head);
        while self.going.contains_key(&self.head) {
            self.head = catalog.removed.deleted.next_live(self.head + 1);
        }
    }
}

impl crate::segment::Totals {
    /// Messages and bytes that went since.
    fn less(&self, since: &Self) -> Removed {
        Removed { messages: self.messages - since.messages, bytes: self.bytes.saturating_sub(since.bytes) }
    }
}

impl Catalog {
    /// Whether anything waits for its release.
    pub(crate) fn has_unreleased(&self) -> bool {
        self.unreleased.is_some()
    }

    /// How many messages wait for their release, those that go with it among them: each is memory.
    pub(crate) fn unreleased_messages(&self) -> usize {
        self.unreleased.as_ref().map_or(0, |unreleased| unreleased.messages)
    }

    /// Keeps a batch until it is released. Answers what will have gone then.
    ///
    /// # Errors
    /// A table cannot be read: the batch is kept, and nothing can be decided behind it.
    fn keep(&mut self, batch: PlannedBatch) -> Result<Removed, ReadError> {
        let mut unreleased = self.unreleased.take().unwrap_or_else(|| Box::new(Unreleased::new(self)));
        unreleased.ended.append(&mut self.ended);
        let mut removed = Ok(Removed::default());
        for plan in &batch.plans {
            removed = removed.and_then(|sum| {
                let more = unreleased.count(self, plan)?;
                Ok(Removed { messages: sum.messages + more.messages, bytes: sum.bytes + more.bytes })
            });
        }
        unreleased.batches.push_back(batch);
        self.unreleased = Some(unreleased);
        removed
    }

    /// Takes a batch in whose ticket was given out: keeps it, or does at once what it says. Answers
    /// what goes by it.
    ///
    /// # Errors
    /// As [`Catalog::keep`].
    pub(in crate::stream) fn put(
        &mut self,
        batch: PlannedBatch,
        entered: &Entered<'_>,
    ) -> Result<Removed, ReadError> {
        let removed = self.keep(batch)?;
        if let Entered::Passes(batch) = entered {
            let before = batch.unfollowed();
            self.release(before.saturating_add(1)).inspect_err(|_| batch.stop())?;
            batch.followed(before);
        }
        Ok(removed)
    }

    /// Keeps what belongs to the last batch that waits.
    pub(in crate::stream) fn keep_on(&mut self, plan: Planned) -> Result<(), ReadError> {
        let Some(mut unreleased) = self.unreleased.take() else { return Ok(()) };
        let counted = unreleased.count(self, &plan);
        if let Some(last) = unreleased.batches.back_mut() {
            last.plans.push(plan);
        }
        self.unreleased = Some(unreleased);
        counted.map(drop)
    }

    /// Begins an entry of a group's log, which is known to be committed up to `commit`: batches up
    /// to there are released, and this one is to be kept if it is behind that.
    ///
    /// # Errors
    /// As [`Catalog::release`].
    pub(crate) fn begin_entry(&mut self, index: u64, commit: u64) -> Result<(), ReadError> {
        self.release_to(commit)?;
        if index > commit || self.has_unreleased() {
            self.keep(PlannedBatch { index, plans: Vec::new() })?;
        }
        Ok(())
    }

    /// Does what the batches up to `index` say.
    ///
    /// # Errors
    /// As [`Catalog::release`].
    pub(crate) fn release_to(&mut self, index: u64) -> Result<(), ReadError> {
        let Some(unreleased) = &self.unreleased else { return Ok(()) };
        let count = unreleased.batches.iter().take_while(|batch| batch.index <= index).count();
        self.release(count)
    }

    /// As [`Catalog::replay`], of an entry of the batch that waits last, if any waits.
    ///
    /// # Errors
    /// A table that the entry concerns cannot be read.
    pub(crate) fn replay_or_keep(
        &mut self,
        entry: &Entry<'_>,
        offset: u64,
        timestamp: Timestamp,
        storage: Storage,
    ) -> Result<Fate, ReadError> {
        let Some(unreleased) = &self.unreleased else {
            return self.replay(entry, offset, timestamp, storage);
        };
        if !unreleased.tail.takes(entry) {
            return Ok(Fate::PassedOver);
        }
        match Planned::of(entry, offset, timestamp, storage) {
            Some(plan) => self.keep_on(plan).map(|()| Fate::Applied),
            None => Ok(Fate::Applied),
        }
    }

    /// Passes over the sequences up to `last`, behind all that is in the log.
    pub(crate) fn pass_over(&mut self, last: Seq, time: Timestamp) {
        if self.has_unreleased() {
            // A plan to skip reads no table.
            let _ = self.keep_on(Planned::Skip(last, time));
        } else {
            self.skip_at(last, time);
        }
    }

    /// Tables of sealed segments that what the first `count` batches say is done with.
    pub(crate) fn tables_to_release(&self, count: usize) -> TablesToRead {
        let mut views = BTreeSet::new();
        let batches = self.unreleased.iter().flat_map(|unreleased| &unreleased.batches);
        for plan in batches.take(count).flat_map(|batch| &batch.plans) {
            match plan {
                Planned::Delete(ranges) => {
                    let ranges =
                        ranges.iter().map(|range| self.segments.between(*range.start(), *range.end()));
                    views.extend(ranges.flatten());
                }
                // Without messages none is looked at.
                Planned::Trim(first) if *first <= self.totals.last_seq => {
                    views.extend(self.segments.between(self.totals.first_seq, first.saturating_sub(1)));
                }
                _ => {}
            }
        }
        let slots = &self.segments.slots;
        let segments = views.into_iter().map(|at| &self.segments.views[at]);
        let sealed = segments.filter(|view| matches!(view.form, Form::Sealed)).map(|view| &view.segment);
        let unread = sealed.filter(|segment| slots.at_hand(segment).is_none()).cloned().collect();
        TablesToRead { cache: Arc::clone(slots), segments: unread }
    }

    /// Does what the first `count` batches say, which are released. Answers whether there is memory
    /// to give back.
    ///
    /// # Errors
    /// A table cannot be read, though it could when that was decided: part of it has happened.
    pub(crate) fn release(&mut self, count: usize) -> Result<(), ReadError> {
        if count == 0 {
            return Ok(());
        }
        let unreleased = self.unreleased.take().filter(|unreleased| count <= unreleased.batches.len());
        let Some(mut unreleased) = unreleased else {
            // A panic has taken them.
            return Err(ReadError::Io(std::io::Error::other("batches are released that are not known")));
        };
        let mut changes = 0;
        for batch in unreleased.batches.drain(..count.min(unreleased.batches.len())) {
            changes += batch.plans.len();
            for plan in batch.plans {
                self.follow_plan(plan)?;
            }
        }
        self.tidy_after(changes);
        self.count_anew(unreleased.batches, unreleased.ended)
    }

    /// Forgets the batches from the index `first` on. Segments that were begun among them stay, and
    /// show nothing.
    ///
    /// # Errors
    /// As [`Catalog::release`].
    pub(crate) fn take_back(&mut self, first: u64) -> Result<(), ReadError> {
        let Some(unreleased) = self.unreleased.take() else { return Ok(()) };
        let Unreleased { mut batches, ended, .. } = *unreleased;
        let gone = batches.split_off(batches.partition_point(|batch| batch.index < first));
        for plan in gone.into_iter().flat_map(|batch| batch.plans) {
            let Planned::Begin(mut next) = plan else {
                if let Planned::Delete(ranges) = &plan
                    && myelin_stdx::planted::bug(106)
                    && ranges.iter().all(|range| *range.end() <= self.totals.last_seq)
                {
                    self.follow_plan(plan)?;
                }
                continue;
            };
            if let Some((_, _, last_index)) = &mut next.closed {
                *last_index = (*last_index).min(first - 1);
            }
            match batches.back_mut() {
                Some(last) => last.plans.push(Planned::Begin(next)),
                None => self.begin_next(next),
            }
        }
        self.count_anew(batches, Vec::new())?;
        // What was to go stays, and has its lifetime again.
        for (at, seq) in ended {
            if myelin_stdx::planted::bug(104) {
                continue;
            }
            match &mut self.unreleased {
                Some(waiting) if waiting.goes(seq) => waiting.ended.push((at, seq)),
                _ => self.restore_expiry(seq, at),
            }
        }
        Ok(())
    }

    /// Counts what these batches will have done.
    fn count_anew(
        &mut self,
        batches: VecDeque<PlannedBatch>,
        ended: Vec<(Timestamp, Seq)>,
    ) -> Result<(), ReadError> {
        if batches.is_empty() {
            return Ok(());
        }
        let mut unreleased = Box::new(Unreleased::new(self));
        let mut counted = Ok(());
        for plan in batches.iter().flat_map(|batch| &batch.plans) {
            counted = counted.and_then(|()| unreleased.count(self, plan).map(drop));
        }
        (unreleased.batches, unreleased.ended) = (batches, ended);
        // The others have gone.
        unreleased.ended.retain(|&(_, seq)| self.contains(seq));
        self.unreleased = Some(unreleased);
        counted
    }

    fn follow_plan(&mut self, plan: Planned) -> Result<(), ReadError> {
        match plan {
            Planned::Message(message) => self.append(&message.row()),
            Planned::Delete(ranges) => {
                for range in ranges.iter() {
                    self.remove_range(*range.start(), *range.end())?;
                }
            }
            Planned::Trim(first) => drop(self.trim(first)?),
            Planned::Skip(last, time) => self.skip_at(last, time),
            Planned::LostBytes(bytes) => self.totals.bytes = self.totals.bytes.saturating_sub(bytes),
            Planned::First(subject, first) => self.begin_subject(&subject, first),
            Planned::Begin(next) => self.begin_next(next),
        }
        Ok(())
    }

    /// Notes which message of a subject is the oldest, unless the same batch takes that one, too.
    fn begin_subject(&mut self, subject: &[u8], first: Seq) {
        let Some(id) = self.index().find(subject) else { return };
        let state = self.index().state(id);
        if state.count > 0 && self.contains(first) {
            self.correct_subject(id, SubjectState { first, first_exact: true, ..state });
        }
    }

    /// Begins a segment, now or when what is before it is released.
    pub(crate) fn begin_in_order(&mut self, next: NextSegment) -> Result<(), ReadError> {
        if self.has_unreleased() && !myelin_stdx::planted::bug(113) {
            return self.keep_on(Planned::Begin(next));
        }
        self.begin_next(next);
        Ok(())
    }

    fn begin_next(&mut self, next: NextSegment) {
        if let Some((active, origin, last_index)) = next.closed {
            let closed = self.close_only(active);
            self.closed.push(Closed { origin, last_index, ..closed });
        }
        self.begin_segment(next.segment);
        // In files what has changed while no segment grew is for the footer of this one: a start
        // passes over sequences behind the last sealed segment.
        if !self.segments.keeps_retired {
            self.forget_footer_changes();
        }
    }

    /// Makes the last segment the active one, in another guise.
    ///
    /// # Errors
    /// A table cannot be read.
    pub(crate) fn replace_open(&mut self, segment: Arc<Segment>) -> Result<(), ReadError> {
        let Some(unreleased) = self.unreleased.take() else {
            self.replace_active(segment);
            return Ok(());
        };
        let Unreleased { mut batches, ended, .. } = *unreleased;
        let plans = batches.iter_mut().rev().flat_map(|batch| batch.plans.iter_mut().rev());
        let mut begins = plans.filter_map(|plan| match plan {
            Planned::Begin(next) => Some(next),
            _ => None,
        });
        match begins.next() {
            Some(last) => last.segment = segment,
            None => self.replace_active(segment),
        }
        self.count_anew(batches, ended)
    }

    /// Segments that another one follows, once what is before that is released.
    pub(crate) fn rolled(&self) -> Vec<Active> {
        let batches = self.unreleased.iter().flat_map(|unreleased| &unreleased.batches);
        let begins = batches.flat_map(|batch| &batch.plans).filter_map(|plan| match plan {
            Planned::Begin(next) => next.closed.as_ref(),
            _ => None,
        });
        begins.map(|(active, ..)| active.clone()).collect()
    }

    /// Segments that were closed since the last call, in order: to be sealed.
    pub(crate) fn take_closed(&mut self) -> Vec<Closed> {
        std::mem::take(&mut self.closed)
    }

    /// Whether there are any.
    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// As [`Catalog::take_due`], of messages that wait for their release.
    pub(in crate::stream) fn take_due_waiting(
        &mut self,
        now: Timestamp,
        limit: usize,
        due: &mut Vec<(Timestamp, Seq)>,
    ) -> bool {
        self.unreleased.as_mut().is_some_and(|unreleased| unreleased.tail.take_due(now, limit, due))
    }

    /// Notes lifetimes that have been taken off the list, of messages that go: they come back where
    /// that is taken back.
    pub(in crate::stream) fn note_ended(&mut self, ended: &[(Timestamp, Seq)]) {
        match &mut self.unreleased {
            Some(unreleased) => unreleased.ended.extend_from_slice(ended),
            None => self.ended = ended.to_vec(),
        }
    }

    /// How many lifetimes are noted that come back where a removal is taken back.
    #[cfg(test)]
    pub(in crate::stream) fn noted_lifetimes(&self) -> usize {
        self.unreleased.as_ref().map_or(0, |unreleased| unreleased.ended.len())
    }

    /// The last sequence before the log entry `first`, which is not released.
    pub(crate) fn last_before(&self, first: u64) -> Seq {
        let before = self.waiting().into_iter().take_while(|&(index, _)| index < first);
        before.last().map_or(self.totals.last_seq, |(_, last)| last)
    }

    /// Whether a segment begins behind the log entry `first`, or one after it.
    pub(crate) fn begins_from(&self, first: u64) -> bool {
        let batches = self.unreleased.iter().flat_map(|unreleased| &unreleased.batches);
        let gone = batches.filter(|batch| batch.index >= first).flat_map(|batch| &batch.plans);
        gone.into_iter().any(|plan| matches!(plan, Planned::Begin(_)))
    }

    /// Indexes of batches that wait, in order, each with the last sequence behind it.
    pub(crate) fn waiting(&self) -> Vec<(u64, Seq)> {
        let mut last = self.totals.last_seq;
        let batches = self.unreleased.iter().flat_map(|unreleased| &unreleased.batches);
        let ends = batches.map(|batch| {
            last = batch.plans.iter().fold(last, |last, plan| match plan {
                Planned::Message(message) => message.seq,
                Planned::Skip(seq, _) => last.max(*seq),
                Planned::Trim(first) if *first > last => *first - 1,
                _ => last,
            });
            (batch.index, last)
        });
        ends.collect()
    }
}
