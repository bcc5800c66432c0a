//! Catalog of a stream's messages: subjects, sequences, totals, and in which segment everything
//! lies.
//!
//! The one structure that writer and readers share, behind one lock. All changes of a stream's
//! content end up in `append`, `remove`, `trim`, `truncate` or `skip` here, whether a publisher
//! asked for them or recovery replays them; so live operation and replay cannot disagree. Knows no
//! limits and writes nothing.
//!
//! Invariant: every sequence in `first_seq..=last_seq` is either a stored message or in `deleted`.
//! Only this folder can break it: everybody else reads through `read`, and changes through the
//! methods here. Its parts, each of which can be read alone: `segments`, `subjects`, `removed`,
//! `lifetimes`, `footer`, `head`, `lost_messages`.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::config::Storage;
use crate::index::{Deleted, SubjectId, SubjectState};
use crate::segment::Totals;
use crate::{Seq, Timestamp};

use super::ReadError;
use super::active::Closed;
use super::remove::MAX_SEQ;
use super::segment_view::{Form, Segment, SegmentView};
use super::table::{Rows, Table};
use super::table_cache::TableCache;

mod batch;
mod close;
mod decided;
mod follow;
mod footer;
mod head;
mod lifetimes;
mod lost;
mod lost_messages;
mod merge;
mod read;
mod rebuild;
mod removed;
mod segments;
mod subjects;
mod tidy;
mod truncate;
mod unreleased;

pub(in crate::stream) use decided::Decided;
pub(crate) use follow::Fate;
pub(in crate::stream) use follow::WARM;
use footer::FooterChanges;
use head::HeadTable;
use lifetimes::Lifetimes;
use lost_messages::LostMessages;
use removed::RemovedMessages;
use segments::Segments;
use subjects::Subjects;
pub(crate) use unreleased::NextSegment;
use unreleased::Unreleased;
pub(in crate::stream) use unreleased::{Planned, PlannedBatch, PlannedMessage};

/// Catalog of the messages of one stream. Its parts can be changed in this folder only.
#[derive(Debug)]
pub(crate) struct Catalog {
    totals: Totals,
    segments: Segments,
    subjects: Subjects,
    removed: RemovedMessages,
    lifetimes: Lifetimes,
    footer: FooterChanges,
    head: HeadTable,
    lost: LostMessages,
    /// Batches that are in the log and not released; `None` if there are none.
    unreleased: Option<Box<Unreleased>>,
    /// Lifetimes that have been looked at, for the batch that says so: of a group only.
    ended: Vec<(Timestamp, Seq)>,
    /// Segments that were closed, for the stream to seal them.
    closed: Vec<Closed>,
}

/// A message about to be entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRow<'a> {
    pub(crate) seq: Seq,
    pub(crate) timestamp: Timestamp,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) subject: &'a [u8],
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// A message that is to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    /// Bytes that it counts.
    pub(crate) size: u32,
    /// Sequence of the next message of its subject.
    pub(crate) next: Option<Seq>,
}

/// A message found by its sequence.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) segment: Arc<Segment>,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// A sequence and the subject of its message.
pub(crate) type Named = (Seq, Box<[u8]>);

/// Messages that were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Messages.
    pub messages: u64,
    /// Their stored bytes.
    pub bytes: u64,
}

/// A row of a segment's table.
struct TableRow<'a> {
    segment: &'a Arc<Segment>,
    table: Table<'a>,
    index: usize,
}

impl TableRow<'_> {
    fn located(&self) -> Located {
        let (offset, size) = (self.table.offset(self.index), self.table.size(self.index));
        Located { segment: Arc::clone(self.segment), offset, size }
    }
}

impl Catalog {
    pub(crate) fn new(index_seed: u64, slots: Arc<TableCache>, first_seq: Seq) -> Self {
        let first_seq = first_seq.clamp(1, MAX_SEQ);
        Self {
            totals: Totals { first_seq, last_seq: first_seq - 1, ..Totals::default() },
            segments: Segments::new(slots),
            subjects: Subjects::new(index_seed),
            removed: RemovedMessages::default(),
            lifetimes: Lifetimes::default(),
            footer: FooterChanges::default(),
            head: HeadTable::default(),
            lost: LostMessages::default(),
            unreleased: None,
            ended: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// An empty catalog of a stream in memory: segments without messages are gone at once.
    pub(crate) fn in_memory(index_seed: u64, first_seq: Seq) -> Self {
        let mut catalog = Self::new(index_seed, Arc::new(TableCache::new(0)), first_seq);
        catalog.segments.keeps_retired = false;
        catalog
    }

    /// Makes `segment` the active one; it holds what comes after `last_seq`. The one before is
    /// closed and its table returned.
    pub(crate) fn begin_segment(&mut self, segment: Arc<Segment>) -> Option<Arc<Rows>> {
        let closed = self.segments.close_active();
        self.hide_from(segment.first_seq);
        self.segments.push_active(segment);
        // The one before may show nothing any more, and the first is the one that holds the oldest
        // messages.
        self.segments.retire_below(self.totals.first_seq);
        closed
    }

    /// Makes the segment that holds the newest messages the active one, in another guise.
    pub(crate) fn replace_active(&mut self, segment: Arc<Segment>) {
        self.segments.active().segment = segment;
    }

    /// Adds a segment whose table is in its footer, and whose effects are applied by other means.
    pub(crate) fn add_sealed(&mut self, view: SegmentView) {
        self.hide_from(view.first_seq);
        self.segments.push_sealed(view);
    }

    /// After a truncation older segments may hold sequences that begin anew in the next one: those
    /// are not visible.
    fn hide_from(&mut self, first_seq: Seq) {
        self.segments.hide_from(first_seq, &self.removed.truncations);
    }

    /// Checks what must hold between two changes, at little cost.
    fn check(&self) {
        let Totals { messages, bytes, first_seq, last_seq, .. } = self.totals;
        debug_assert!(first_seq >= 1, "sequences begin with 1");
        debug_assert!(first_seq <= last_seq + 1, "the first sequence is at most the next one");
        debug_assert!(messages <= last_seq + 1 - first_seq, "a message has a sequence of its own");
        debug_assert!(messages > 0 || bytes == 0, "without messages there are no bytes");
        debug_assert!(
            messages > 0 || first_seq == last_seq + 1,
            "without messages the next one is the first"
        );
        debug_assert!(
            messages == 0 || !self.removed.deleted.contains(first_seq),
            "the first sequence has a message"
        );
        debug_assert!(
            self.lifetimes.never_expire.last().is_none_or(|seq| *seq <= last_seq),
            "a lifetime is that of a message"
        );
        debug_assert!(
            self.segments.views.last().is_none_or(|view| view.is_empty() || view.last_seq <= last_seq),
            "a segment shows what was given out"
        );
    }

    /// Checks the invariant at the head of this file: for changes that are rarer than appends.
    fn check_all(&self) {
        self.check();
        if self.may_have_lost() {
            // Deletions may be lost, too, and what comes later counts without the messages.
            return;
        }
        let Totals { messages, first_seq, last_seq, .. } = self.totals;
        debug_assert_eq!(
            messages + if messages == 0 { 0 } else { self.removed.deleted.count_in(first_seq..=last_seq) },
            last_seq + 1 - first_seq,
            "every sequence from the first to the last is a message or deleted"
        );
        self.segments.check();
    }

    /// The sequence that the next message gets.
    pub(crate) fn next_seq(&self) -> Seq {
        self.totals.last_seq + 1
    }

    /// Enters a message as the newest, into the active segment.
    pub(crate) fn append(&mut self, row: &NewRow<'_>) {
        let id = self.subjects.index.enter(row.subject);
        self.append_of(row, id);
    }

    /// As [`Catalog::append`], of a message whose subject was looked up.
    fn append_of(&mut self, row: &NewRow<'_>, id: SubjectId) {
        debug_assert!(row.seq > self.totals.last_seq, "sequences ascend");
        debug_assert!(self.subjects.index.text(id) == row.subject, "a message has the subject that it says");
        if row.seq > self.totals.last_seq + 1 && self.totals.messages > 0 {
            self.mark_deleted(self.totals.last_seq + 1..=row.seq - 1);
        }
        if self.totals.messages == 0 {
            self.totals.first_seq = row.seq;
            self.totals.first_timestamp = row.timestamp;
            self.removed.deleted = Deleted::new();
        }
        self.totals.messages += 1;
        self.totals.bytes += row.size;
        self.totals.last_seq = row.seq;
        self.totals.last_timestamp = row.timestamp;
        let size = u32::try_from(row.size).expect("messages are smaller than 4 GiB");
        self.subjects.index.appended(id, row.seq, size);
        if let Some(at) = row.expires {
            self.lifetimes.note(row.seq, at);
            self.footer.expiries.push((row.seq, at));
        }
        self.segments.append_row(row, size, id);
        self.check();
    }

    /// Index in [`Catalog::segments`] of the segment that shows `seq`.
    pub(crate) fn segment_of(&self, seq: Seq) -> Option<usize> {
        self.segments.find(seq)
    }

    /// Index of the first segment that shows something at or behind `seq`.
    pub(crate) fn segment_from(&self, seq: Seq) -> usize {
        self.segments.from(seq)
    }

    /// The table of the segment at `view`, from memory or its footer.
    pub(crate) fn table(&self, view: usize) -> Result<Table<'_>, ReadError> {
        self.segments.table(view)
    }

    /// Whether there is a message with this sequence.
    pub(crate) fn contains(&self, seq: Seq) -> bool {
        self.totals.messages > 0
            && (self.totals.first_seq..=self.totals.last_seq).contains(&seq)
            && !self.removed.deleted.contains(seq)
    }

    /// Finds a stored message. `None` if there is none with this sequence, or its record was lost
    /// to damage.
    pub(crate) fn locate(&self, seq: Seq) -> Result<Option<Located>, ReadError> {
        Ok(self.row_of(seq)?.map(|row| row.located()))
    }

    /// As [`Catalog::locate`], with its subject: one more look-up in the index.
    pub(crate) fn locate_named(&self, seq: Seq) -> Result<Option<(Located, SubjectId)>, ReadError> {
        let Some(row) = self.row_of(seq)? else { return Ok(None) };
        let subject = row.table.subject_in(row.index, &self.subjects.index);
        Ok(subject.map(|subject| (row.located(), subject)))
    }

    fn row_of(&self, seq: Seq) -> Result<Option<TableRow<'_>>, ReadError> {
        if !self.contains(seq) {
            return Ok(None);
        }
        let Some(at) = self.segments.find(seq) else { return Ok(None) };
        let table = self.table(at)?;
        let segment = &self.segments.views[at].segment;
        Ok(table.row_of(seq - segment.first_seq).map(|index| TableRow { segment, table, index }))
    }

    /// Removes one message. Says what went; nothing if there was none. One whose record was lost to
    /// damage has no bytes.
    pub(crate) fn remove(&mut self, seq: Seq) -> Result<Removed, ReadError> {
        if !self.contains(seq) {
            return Ok(Removed::default());
        }
        Ok(match self.locate_named(seq)? {
            Some((found, subject)) => self.take_out(seq, found.size, Some(subject)),
            None => self.take_out(seq, 0, None),
        })
    }

    /// Bytes that a message counts.
    ///
    /// Perf: nothing else is looked up, and that lies anywhere: a key-value store removes an old
    /// value with every new one (`myelin bench store --rows 'limit-1-*'`).
    pub(in crate::stream) fn size_of(&self, seq: Seq) -> Result<Option<u64>, ReadError> {
        let Some(at) = self.segments.find(seq) else { return Ok(None) };
        let segment = &self.segments.views[at].segment;
        let delta = seq - segment.first_seq;
        if matches!(self.segments.views[at].form, Form::Sealed) {
            let Ok(delta) = u32::try_from(delta) else { return Ok(None) };
            return Ok(self.segments.slots.size_of(segment, delta)?.map(u64::from));
        }
        let table = self.table(at)?;
        Ok(table.row_of(delta).map(|row| table.size(row)))
    }

    /// Removes a message that is there.
    pub(super) fn take_out(&mut self, seq: Seq, bytes: u64, subject: Option<SubjectId>) -> Removed {
        if let Some(subject) = subject {
            self.subjects.index.removed(subject, seq);
        }
        debug_assert!(self.contains(seq), "a message is removed once");
        self.totals.messages -= 1;
        self.totals.bytes = self.totals.bytes.saturating_sub(bytes);
        self.forget_lost_bytes();
        if seq == self.totals.first_seq {
            self.advance_first(seq + 1);
        } else {
            self.removed.note_interior(seq);
            self.mark_deleted(seq..=seq);
            if let Some(at) = self.segments.find(seq) {
                self.segments.views[at].removed += 1;
                self.segments.has_sparse |=
                    !self.segments.keeps_retired && self.segments.views[at].is_mostly_removed();
            }
        }
        Removed { messages: 1, bytes }
    }

    /// A message of a segment that is missing goes without its bytes, which are not known. Without
    /// messages there are none.
    pub(super) fn forget_lost_bytes(&mut self) {
        if self.totals.messages == 0 {
            self.totals.bytes = 0;
        }
    }

    /// Size and successor of a subject's message `seq`, found before it goes. `None` if no table
    /// has it.
    pub(crate) fn before_removal(
        &self,
        id: SubjectId,
        seq: Seq,
        last: Seq,
    ) -> Result<Option<Leaving>, ReadError> {
        let Some(at) = self.segments.find(seq) else { return Ok(None) };
        let table = self.table(at)?;
        let Some(row) = table.row_of(seq - self.segments.views[at].segment.first_seq) else {
            return Ok(None);
        };
        let Ok(size) = u32::try_from(table.size(row)) else { return Ok(None) };
        let next = self.next_of(id, (at, table.successor(row)), last)?;
        Ok(Some(Leaving { size, next }))
    }

    /// The first message of a subject at `row` of a place or behind it, not behind `last`.
    fn next_of(
        &self,
        id: SubjectId,
        (first, row): (usize, Option<usize>),
        last: Seq,
    ) -> Result<Option<Seq>, ReadError> {
        for at in first..self.segments.views.len() {
            let view = &self.segments.views[at];
            if view.first_seq > last {
                break;
            }
            let table = self.table(at)?;
            let base = view.segment.first_seq;
            let mut row = if at == first { row } else { table.first_of(id, &self.subjects.index) };
            while let Some(found) = row {
                let seq = base + u64::from(table.delta(found));
                if seq > view.last_seq {
                    break;
                }
                if seq >= view.first_seq && !self.removed.deleted.contains(seq) {
                    return Ok(Some(seq));
                }
                row = table.successor(found);
            }
        }
        Ok(None)
    }

    fn mark_deleted(&mut self, range: RangeInclusive<Seq>) {
        debug_assert!(!range.is_empty(), "a range of removed sequences has one");
        self.removed.insert(&range);
        self.lifetimes.forget(*range.start());
        self.footer.note_removed(range);
    }

    /// Moves the first sequence to the first message at or behind `from`.
    fn advance_first(&mut self, from: Seq) {
        self.set_first(self.first_from(from));
    }

    /// The first message at or behind `from`.
    fn first_from(&self, from: Seq) -> Seq {
        if self.totals.messages == 0 { self.next_seq() } else { self.removed.deleted.next_live(from) }
    }

    pub(super) fn set_first(&mut self, first: Seq) {
        debug_assert!(first <= self.next_seq(), "the first sequence is at most the next one");
        self.totals.first_seq = first;
        self.removed.first_moved(first);
        self.lifetimes.forget_below(first);
        self.segments.retire_below(first);
    }

    /// Removes all messages below `first`. A `first` behind the last sequence empties the stream
    /// and moves it on.
    pub(crate) fn trim(&mut self, first: Seq) -> Result<Removed, ReadError> {
        if first > self.totals.last_seq {
            return Ok(self.clear(first));
        }
        let removed = self.remove_heads(first)?;
        self.set_first(first.max(self.totals.first_seq));
        debug_assert!(self.totals.first_seq >= first, "nothing before it is left");
        self.check_all();
        Ok(removed)
    }

    /// Removes everything at once; the next message gets sequence `first` or what would have come
    /// anyway.
    pub(crate) fn clear(&mut self, first: Seq) -> Removed {
        let removed = Removed { messages: self.totals.messages, bytes: self.totals.bytes };
        self.replace_index();
        self.forget_lost();
        self.removed.clear();
        self.lifetimes.clear();
        // Their numbers of subjects mean nothing any more.
        self.segments.rows = Rows::default();
        let first = first.max(self.next_seq());
        self.totals = Totals {
            first_seq: first,
            last_seq: first - 1,
            last_timestamp: self.totals.last_timestamp,
            ..Totals::default()
        };
        self.segments.retire_below(first);
        debug_assert!(self.subjects.index.is_empty(), "without messages there are no subjects");
        self.check_all();
        removed
    }

    /// Drops what was removed before the first message: for recovery, which sets totals by itself.
    pub(crate) fn retire_emptied(&mut self) {
        self.segments.retire_below(self.totals.first_seq);
    }

    /// Sequences and subjects of the messages that the segment at `view` shows.
    pub(crate) fn messages_of(&self, view: usize) -> Result<Vec<Named>, ReadError> {
        let table = self.table(view)?;
        let SegmentView { segment, last_seq, .. } = &self.segments.views[view];
        let rows = (0..table.len()).map(|row| (segment.first_seq + u64::from(table.delta(row)), row));
        let rows = rows.filter(|&(seq, _)| seq <= *last_seq && self.contains(seq));
        Ok(rows
            .map(|(seq, row)| (seq, Box::from(table.text(table.subject(row), &self.subjects.index))))
            .collect())
    }

    /// Forgets all subjects; their numbers mean something else from here on.
    pub(crate) fn replace_index(&mut self) {
        self.subjects.replace(self.segments.unsealed > 0);
        self.head = HeadTable::default();
    }

    /// Counts one closed segment less that needs numbers of subjects to stay what they are.
    pub(crate) fn sealed_one(&mut self) {
        assert!(self.segments.unsealed > 0, "a segment is sealed once, after it was closed");
        self.segments.unsealed -= 1;
        if self.segments.unsealed == 0 {
            self.subjects.forget_old();
        }
    }

    /// Removes the oldest message. The way of a stream at its limit: no search, one row of a table
    /// at hand. Whoever calls this calls [`Catalog::apply_head_removals`] before others see the
    /// catalog again.
    fn remove_head(&mut self) -> Result<Removed, ReadError> {
        let seq = self.totals.first_seq;
        let found = self.head_row(seq)?;
        debug_assert!(self.totals.messages > 0, "only a message is removed");
        self.totals.messages -= 1;
        let mut bytes = 0;
        // Of a record that was lost to damage there is nothing to count.
        if let Some((size, subject)) = found {
            self.subjects.index.removed(subject, seq);
            self.totals.bytes = self.totals.bytes.saturating_sub(size);
            bytes = size;
        }
        self.forget_lost_bytes();
        self.totals.first_seq = self.first_from(seq + 1);
        Ok(Removed { messages: 1, bytes })
    }

    /// Removes messages from the front until the first one is not before `first`. Readers hear of
    /// those that went also if the table of the next one cannot be read.
    fn remove_heads(&mut self, first: Seq) -> Result<Removed, ReadError> {
        let (mut removed, mut outcome) = (Removed::default(), Ok(()));
        while outcome.is_ok() && self.totals.messages > 0 && self.totals.first_seq < first {
            outcome = self.remove_head().map(|one| removed.add(one));
        }
        if removed.messages > 0 {
            self.apply_head_removals();
        }
        outcome.map(|()| removed)
    }

    /// Corrects what depends on the oldest message, once for many that were removed there.
    fn apply_head_removals(&mut self) {
        self.set_first(self.totals.first_seq);
        self.check_all();
    }

    /// Corrects what the index says of a subject whose ends are known better.
    fn correct_subject(&mut self, id: SubjectId, state: SubjectState) {
        debug_assert!(state.count > 0, "a subject without messages has no state");
        self.subjects.index.set(id, state);
    }

    /// Takes lifetimes that have ended, `limit` of them at most. Answers whether there are more.
    pub(crate) fn take_due(&mut self, now: Timestamp, limit: usize, due: &mut Vec<(Timestamp, Seq)>) -> bool {
        let before = due.len();
        let has_more = self.lifetimes.expiry.take_due(now, limit, due);
        debug_assert!(due.len() - before <= limit, "no more is taken than was asked for");
        debug_assert!(due[before..].iter().all(|&(at, _)| at <= now), "only what has ended is due");
        has_more
    }

    /// Enters a lifetime again whose message could not be removed.
    pub(crate) fn put_back_due(&mut self, seq: Seq, now: Timestamp) {
        self.lifetimes.expiry.insert(seq, now);
    }

    /// Moves the last sequence to `last` without messages.
    pub(crate) fn skip(&mut self, last: Seq) {
        if last <= self.totals.last_seq {
            return;
        }
        if self.totals.messages == 0 {
            self.totals.first_seq = last + 1;
            self.removed.deleted = Deleted::new();
        } else {
            self.mark_deleted(self.totals.last_seq + 1..=last);
        }
        self.totals.last_seq = last;
        debug_assert!(self.totals.first_seq <= self.next_seq(), "the first sequence is at most the next one");
        self.segments.skip(last);
        self.check();
    }

    /// Moves the last sequence to `last` for what came at this time and is not stored.
    pub(crate) fn skip_at(&mut self, last: Seq, time: Timestamp) {
        if last > self.totals.last_seq {
            self.skip(last);
            self.totals.last_timestamp = time.max(self.totals.last_timestamp);
        }
    }
}

/// Bytes that a message counts against `Limits::bytes`.
pub(crate) fn size_of(storage: Storage, subject: &[u8], headers: &[u8], payload: &[u8]) -> u64 {
    crate::record::stored_size(storage, subject.len(), headers.len(), payload.len())
}
