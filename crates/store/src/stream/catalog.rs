//! What a stream holds: subjects, sequences, totals, and in which segment everything lies.
//!
//! The one structure that writer and readers share, behind one lock. All changes of a stream's content end up in
//! `append`, `remove`, `trim`, `truncate` or `skip` here, whether a publisher asked for them or recovery replays them;
//! so live operation and replay cannot disagree. Knows no limits and writes nothing.
//!
//! Invariant: every sequence in `first_seq..=last_seq` is either a stored message or in `deleted`.

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::Storage;
use crate::index::{Deleted, Expiry, SubjectId, SubjectIndex};
use crate::segment::Totals;
use crate::{Seq, Timestamp};

use super::ReadError;
use super::place::{Form, Place, Segment, Times};
use super::remove::MAX_SEQ;
use super::slots_cache::SlotsCache;
use super::table::{Rows, Table};

/// Lifetimes of messages that are gone may be so many, and as many as there are messages twice.
const EXPIRY_SLACK: u64 = 1024;
/// Messages removed otherwise than from the front that are remembered by their sequences.
const REMEMBERED: usize = 512;

/// See the module.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) index: SubjectIndex,
    /// Sequences above `first_seq` without a message.
    pub(crate) deleted: Deleted,
    /// Messages with a lifetime of their own; may name messages that are gone.
    pub(crate) expiry: Expiry,
    /// Where a pass that drops those from it goes on.
    pruning: Option<(Timestamp, Seq)>,
    pub(crate) totals: Totals,
    /// Visible segments, oldest first. The last is the active one.
    pub(crate) places: Vec<Place>,
    /// The table of the active segment.
    pub(crate) rows: Rows,
    /// Segments without visible messages, whose files maintenance may remove once a manifest says so.
    pub(crate) dead: Vec<Arc<Segment>>,
    /// False in memory, where they are gone at once.
    pub(crate) keeps_dead: bool,
    /// Messages that no limit of age concerns.
    pub(crate) lasting: BTreeSet<Seq>,
    /// From the first message up to here `lasting` has all messages: a start for whoever looks for another one.
    pub(crate) lasting_until: AtomicU64,
    /// What the active segment's footer will say: removed sequences (in no order) and lifetimes of its messages.
    pub(crate) deleted_here: Vec<RangeInclusive<Seq>>,
    pub(crate) expiries_here: Vec<(Seq, Timestamp)>,
    pub(crate) removals: Arc<AtomicU64>,
    /// Counts messages that were removed otherwise than from the front.
    pub(crate) interior: u64,
    /// The last of them, the newest at the end, for those who keep lists of messages.
    pub(crate) taken_out: VecDeque<Seq>,
    /// Counts how often a segment came to show less at its end than its file holds.
    pub(crate) truncations: Arc<AtomicU64>,
    /// Counts how often the index was replaced; older ones stay while a segment waits to be sealed with their numbers.
    pub(crate) index_epoch: u64,
    retired: Vec<(u64, SubjectIndex)>,
    /// Closed segments that are not sealed yet.
    pub(crate) unsealed: usize,
    /// Whether there may be segments in files whose table was made of their entries, and stays.
    pub(super) has_walked: bool,
    /// Whether there may be a segment in memory of which most was removed.
    pub(super) has_sparse: bool,
    index_seed: u64,
    head: Head,
    slots: Arc<SlotsCache>,
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

/// A message that was entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) subject: SubjectId,
    /// The subject's last message before it, and what that counts, where this is known without a table.
    pub(crate) before: Option<(Seq, u32)>,
}

/// A message that is to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    /// What it counts.
    pub(crate) size: u32,
    /// The next one of its subject.
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

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Messages.
    pub messages: u64,
    /// Their stored bytes.
    pub bytes: u64,
}

/// The table of the first segment, kept for a stream that trims its head with every message.
#[derive(Debug, Default)]
struct Head {
    table: Option<(u64, Table<'static>)>,
    /// Whether it was of use since the last tidying.
    is_used: bool,
    /// Stream-wide numbers of a sealed table's subjects, as far as they were looked up.
    subjects: Vec<Option<SubjectId>>,
}

/// A row of a segment's table.
struct Row<'a> {
    segment: &'a Arc<Segment>,
    table: Table<'a>,
    index: usize,
}

impl Row<'_> {
    fn located(&self) -> Located {
        let (offset, size) = (self.table.offset(self.index), self.table.size(self.index));
        Located { segment: Arc::clone(self.segment), offset, size }
    }
}

impl Catalog {
    pub(crate) fn new(index_seed: u64, slots: Arc<SlotsCache>, first_seq: Seq) -> Self {
        let first_seq = first_seq.clamp(1, MAX_SEQ);
        Self {
            index: SubjectIndex::new(index_seed),
            deleted: Deleted::new(),
            expiry: Expiry::new(),
            pruning: None,
            totals: Totals { first_seq, last_seq: first_seq - 1, ..Totals::default() },
            places: Vec::new(),
            rows: Rows::default(),
            dead: Vec::new(),
            keeps_dead: true,
            lasting: BTreeSet::new(),
            lasting_until: AtomicU64::new(0),
            deleted_here: Vec::new(),
            expiries_here: Vec::new(),
            removals: Arc::default(),
            interior: 0,
            taken_out: VecDeque::new(),
            truncations: Arc::default(),
            index_epoch: 0,
            retired: Vec::new(),
            unsealed: 0,
            has_walked: false,
            has_sparse: false,
            index_seed,
            head: Head::default(),
            slots,
        }
    }

    /// Makes `segment` the active one; it holds what comes after `last_seq`. The one before is closed and its table
    /// returned.
    pub(crate) fn begin_segment(&mut self, segment: Arc<Segment>) -> Option<Arc<Rows>> {
        let first_seq = segment.first_seq;
        let closed = self.close_active();
        self.hide_from(first_seq);
        let reached = self.places.last().map_or(Timestamp::MIN, |before| before.reached);
        self.places.push(Place {
            segment,
            first_seq,
            last_seq: first_seq - 1,
            times: Times::NONE,
            reached,
            form: Form::Active,
            removed: 0,
        });
        // The one before may show nothing any more, and the first is the one that holds the oldest messages.
        self.bury(self.totals.first_seq);
        closed
    }

    pub(super) fn close_active(&mut self) -> Option<Arc<Rows>> {
        let active = self.places.last_mut().filter(|place| matches!(place.form, Form::Active))?;
        let rows = Arc::new(std::mem::take(&mut self.rows));
        active.form = Form::Closed(Arc::clone(&rows));
        Some(rows)
    }

    /// Makes the segment that holds the newest messages the active one, in another guise.
    pub(crate) fn replace_active(&mut self, segment: Arc<Segment>) {
        let active = self.places.last_mut().expect("a stream has an active segment");
        active.segment = segment;
    }

    /// Adds a segment whose table is in its footer, and whose effects are applied by other means.
    pub(crate) fn add_sealed(&mut self, mut place: Place) {
        self.hide_from(place.first_seq);
        let before = self.places.last().map_or(Timestamp::MIN, |before| before.reached);
        place.reached = place.times.latest.max(before);
        self.places.push(place);
    }

    /// After a truncation older segments may hold sequences that begin anew in the next one: those are not visible.
    fn hide_from(&mut self, first_seq: Seq) {
        while let Some(place) = self.places.last_mut()
            && place.last_seq >= first_seq
        {
            self.truncations.fetch_add(1, Ordering::Release);
            place.last_seq = first_seq - 1;
            if !place.is_empty() {
                return;
            }
            let place = self.places.pop().expect("the list has a last place");
            if self.keeps_dead {
                self.dead.push(place.segment);
            }
        }
    }

    /// The sequence that the next message gets.
    pub(crate) fn next_seq(&self) -> Seq {
        self.totals.last_seq + 1
    }

    /// Enters a message as the newest, into the active segment.
    pub(crate) fn append(&mut self, row: &NewRow<'_>) -> Appended {
        let id = self.index.enter(row.subject);
        if row.seq > self.totals.last_seq + 1 && self.totals.messages > 0 {
            self.mark_deleted(self.totals.last_seq + 1..=row.seq - 1);
        }
        if self.totals.messages == 0 {
            self.totals.first_seq = row.seq;
            self.totals.first_timestamp = row.timestamp;
            self.deleted = Deleted::new();
        }
        self.totals.messages += 1;
        self.totals.bytes += row.size;
        self.totals.last_seq = row.seq;
        self.totals.last_timestamp = row.timestamp;
        let size = u32::try_from(row.size).expect("messages are smaller than 4 GiB");
        let before = self.index.appended(id, row.seq, size);
        if let Some(at) = row.expires {
            self.note_expiry(row.seq, at);
            self.expiries_here.push((row.seq, at));
        }
        let active = self.places.last_mut().expect("a stream has an active segment");
        if self.rows.len() == 0 {
            active.times = Times::NONE;
        }
        active.times.add(row.timestamp);
        active.reached = active.reached.max(row.timestamp);
        active.last_seq = row.seq;
        // A batch is checked against these bounds before anything of it is entered.
        let delta = u32::try_from(row.seq - active.segment.first_seq).expect("segments span few sequences");
        let offset = u32::try_from(row.offset).expect("segments are smaller than 4 GiB");
        self.rows.push(delta, offset, size, id);
        Appended { subject: id, before }
    }

    /// Remembers that a message has a lifetime of its own.
    pub(crate) fn note_expiry(&mut self, seq: Seq, at: Timestamp) {
        if at == Timestamp::MAX {
            self.lasting.insert(seq);
        } else {
            self.expiry.insert(seq, at);
        }
    }

    /// Drops lifetimes of messages that are gone, if there are many: about `limit` are looked at. Answers whether there is
    /// more to do.
    pub(crate) fn prune_expiry(&mut self, limit: usize) -> bool {
        if !self.is_pruning() {
            return false;
        }
        let mut expiry = std::mem::take(&mut self.expiry);
        let from = self.pruning.unwrap_or((Timestamp::MIN, 0));
        self.pruning = expiry.retain_some(from, limit, |seq| self.contains(seq));
        self.expiry = expiry;
        self.pruning.is_some()
    }

    /// Whether a pass through lifetimes is due, or under way.
    pub(super) fn is_pruning(&self) -> bool {
        self.pruning.is_some() || self.expiry.len() as u64 > 2 * self.totals.messages + EXPIRY_SLACK
    }

    /// Index in `places` of the segment that shows `seq`.
    pub(crate) fn place_of(&self, seq: Seq) -> Option<usize> {
        let behind = self.places.partition_point(|place| place.first_seq <= seq);
        let at = behind.checked_sub(1)?;
        (seq <= self.places[at].last_seq).then_some(at)
    }

    /// The first segment that shows something at or behind `seq`.
    pub(crate) fn place_from(&self, seq: Seq) -> usize {
        self.places.partition_point(|place| place.last_seq < seq)
    }

    /// The table of the segment at `place`, from memory or its footer.
    pub(crate) fn table(&self, place: usize) -> Result<Table<'_>, ReadError> {
        let place = &self.places[place];
        match &place.form {
            Form::Active => Ok(Table::Growing(&self.rows)),
            Form::Closed(rows) => Ok(Table::Growing(rows)),
            Form::Sealed => self.slots.load(&place.segment).map(Table::Sealed),
        }
    }

    /// Where tables of sealed segments are kept.
    pub(super) fn slots(&self) -> &Arc<SlotsCache> {
        &self.slots
    }

    /// Whether there is a message with this sequence.
    pub(crate) fn contains(&self, seq: Seq) -> bool {
        self.totals.messages > 0
            && (self.totals.first_seq..=self.totals.last_seq).contains(&seq)
            && !self.deleted.contains(seq)
    }

    /// Finds a stored message. `None` if there is none with this sequence, or its record was lost to damage.
    pub(crate) fn locate(&self, seq: Seq) -> Result<Option<Located>, ReadError> {
        Ok(self.row_of(seq)?.map(|row| row.located()))
    }

    /// As [`Catalog::locate`], with its subject: one more look-up in the index.
    pub(crate) fn locate_named(&self, seq: Seq) -> Result<Option<(Located, SubjectId)>, ReadError> {
        let Some(row) = self.row_of(seq)? else { return Ok(None) };
        let subject = row.table.subject_in(row.index, &self.index);
        Ok(subject.map(|subject| (row.located(), subject)))
    }

    fn row_of(&self, seq: Seq) -> Result<Option<Row<'_>>, ReadError> {
        if !self.contains(seq) {
            return Ok(None);
        }
        let Some(at) = self.place_of(seq) else { return Ok(None) };
        let table = self.table(at)?;
        let segment = &self.places[at].segment;
        Ok(table.row_of(seq - segment.first_seq).map(|index| Row { segment, table, index }))
    }

    /// Removes one message. Says what went; nothing if there was none. One whose record was lost to damage has no bytes.
    pub(crate) fn remove(&mut self, seq: Seq) -> Result<Removed, ReadError> {
        if !self.contains(seq) {
            return Ok(Removed::default());
        }
        Ok(match self.locate_named(seq)? {
            Some((found, subject)) => self.take_out(seq, found.size, Some(subject)),
            None => self.take_out(seq, 0, None),
        })
    }

    /// As [`Catalog::remove`], of a message whose subject is known.
    ///
    /// Perf: nothing but its size is looked up, and that lies anywhere: a key-value store removes an old value with
    /// every new one (`myelin bench store --rows 'limit-1-*'`).
    pub(crate) fn remove_of(&mut self, subject: SubjectId, seq: Seq) -> Result<Removed, ReadError> {
        if !self.contains(seq) {
            return Ok(Removed::default());
        }
        let size = self.size_of(seq)?;
        Ok(self.take_out(seq, size.unwrap_or(0), Some(subject)))
    }

    /// Removes a message that is there and counts `size` bytes.
    pub(crate) fn remove_known(&mut self, subject: SubjectId, (seq, size): (Seq, u32)) -> Removed {
        debug_assert!(self.contains(seq), "it was said to be there");
        self.take_out(seq, u64::from(size), Some(subject))
    }

    fn size_of(&self, seq: Seq) -> Result<Option<u64>, ReadError> {
        let Some(at) = self.place_of(seq) else { return Ok(None) };
        let segment = &self.places[at].segment;
        let delta = seq - segment.first_seq;
        if matches!(self.places[at].form, Form::Sealed) {
            let Ok(delta) = u32::try_from(delta) else { return Ok(None) };
            return Ok(self.slots.size_of(segment, delta)?.map(u64::from));
        }
        let table = self.table(at)?;
        Ok(table.row_of(delta).map(|row| table.size(row)))
    }

    /// Removes a message that is there.
    pub(super) fn take_out(&mut self, seq: Seq, bytes: u64, subject: Option<SubjectId>) -> Removed {
        if let Some(subject) = subject {
            self.index.removed(subject, seq);
        }
        self.totals.messages -= 1;
        self.totals.bytes = self.totals.bytes.saturating_sub(bytes);
        self.forget_lost_bytes();
        if seq == self.totals.first_seq {
            self.advance_first(seq + 1);
        } else {
            self.interior += 1;
            if self.taken_out.len() == REMEMBERED {
                self.taken_out.pop_front();
            }
            self.taken_out.push_back(seq);
            self.mark_deleted(seq..=seq);
            if let Some(at) = self.place_of(seq) {
                self.places[at].removed += 1;
                self.has_sparse |= !self.keeps_dead && self.places[at].is_mostly_removed();
            }
        }
        Removed { messages: 1, bytes }
    }

    /// A message of a segment that is missing goes without its bytes, which are not known. Without messages there are none.
    pub(super) fn forget_lost_bytes(&mut self) {
        if self.totals.messages == 0 {
            self.totals.bytes = 0;
        }
    }

    /// What is to be known of a subject's message `seq` before it goes. `None` if no table has it.
    pub(crate) fn before_removal(
        &self,
        id: SubjectId,
        seq: Seq,
        last: Seq,
    ) -> Result<Option<Leaving>, ReadError> {
        let Some(at) = self.place_of(seq) else { return Ok(None) };
        let table = self.table(at)?;
        let Some(row) = table.row_of(seq - self.places[at].segment.first_seq) else { return Ok(None) };
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
        for at in first..self.places.len() {
            let place = &self.places[at];
            if place.first_seq > last {
                break;
            }
            let table = self.table(at)?;
            let base = place.segment.first_seq;
            let mut row = if at == first { row } else { table.first_of(id, &self.index) };
            while let Some(found) = row {
                let seq = base + u64::from(table.delta(found));
                if seq > place.last_seq {
                    break;
                }
                if seq >= place.first_seq && !self.deleted.contains(seq) {
                    return Ok(Some(seq));
                }
                row = table.successor(found);
            }
        }
        Ok(None)
    }

    fn mark_deleted(&mut self, range: RangeInclusive<Seq>) {
        self.removals.fetch_add(1, Ordering::Release);
        if range.start() == range.end() {
            self.deleted.insert(*range.start());
        } else {
            self.deleted.insert_range(range.clone());
        }
        if !self.lasting.is_empty() {
            self.lasting.remove(range.start());
        }
        match self.deleted_here.last_mut() {
            Some(last) if *last.end() + 1 == *range.start() => *last = *last.start()..=*range.end(),
            _ => self.deleted_here.push(range),
        }
    }

    /// Moves the first sequence to the first message at or behind `from`.
    fn advance_first(&mut self, from: Seq) {
        self.set_first(self.first_from(from));
    }

    /// The first message at or behind `from`.
    fn first_from(&self, from: Seq) -> Seq {
        if self.totals.messages == 0 { self.next_seq() } else { self.deleted.next_live(from) }
    }

    pub(super) fn set_first(&mut self, first: Seq) {
        self.removals.fetch_add(1, Ordering::Release);
        self.totals.first_seq = first;
        if !self.lasting.is_empty() {
            self.lasting = self.lasting.split_off(&first);
        }
        if !self.deleted.is_empty() {
            self.deleted.remove_below(first);
        }
        self.bury(first);
    }

    /// Drops segments whose messages all lie below `first` from the list. The active one stays.
    fn bury(&mut self, first: Seq) {
        let gone =
            self.places.iter().take_while(|p| p.last_seq < first && !matches!(p.form, Form::Active)).count();
        if gone > 0 {
            let gone = self.places.drain(..gone).map(|place| place.segment);
            if self.keeps_dead { self.dead.extend(gone) } else { drop(gone) }
        }
    }

    /// Removes all messages below `first`. A `first` behind the last sequence empties the stream and moves it on.
    pub(crate) fn trim(&mut self, first: Seq) -> Result<Removed, ReadError> {
        if first > self.totals.last_seq {
            return Ok(self.clear(first));
        }
        let mut removed = Removed::default();
        while self.totals.messages > 0 && self.totals.first_seq < first {
            let one = self.remove_head()?;
            removed.messages += one.messages;
            removed.bytes += one.bytes;
        }
        self.set_first(first.max(self.totals.first_seq));
        Ok(removed)
    }

    /// Removes everything at once; the next message gets sequence `first` or what would have come anyway.
    pub(crate) fn clear(&mut self, first: Seq) -> Removed {
        let removed = Removed { messages: self.totals.messages, bytes: self.totals.bytes };
        self.replace_index();
        self.deleted = Deleted::new();
        self.expiry = Expiry::new();
        self.lasting.clear();
        self.removals.fetch_add(1, Ordering::Release);
        // Their numbers of subjects mean nothing any more.
        self.rows = Rows::default();
        let first = first.max(self.next_seq());
        self.totals = Totals {
            first_seq: first,
            last_seq: first - 1,
            last_timestamp: self.totals.last_timestamp,
            ..Totals::default()
        };
        self.bury(first);
        removed
    }

    /// Drops what was removed before the first message: for recovery, which sets totals by itself.
    pub(crate) fn bury_dead(&mut self) {
        self.bury(self.totals.first_seq);
    }

    /// Sequences and subjects of the messages that the segment at `place` shows.
    pub(crate) fn messages_of(&self, place: usize) -> Result<Vec<Named>, ReadError> {
        let table = self.table(place)?;
        let Place { segment, last_seq, .. } = &self.places[place];
        let rows = (0..table.len()).map(|row| (segment.first_seq + u64::from(table.delta(row)), row));
        let rows = rows.filter(|&(seq, _)| seq <= *last_seq && self.contains(seq));
        Ok(rows.map(|(seq, row)| (seq, Box::from(table.text(table.subject(row), &self.index)))).collect())
    }

    /// Forgets all subjects; their numbers mean something else from here on.
    pub(crate) fn replace_index(&mut self) {
        let old = std::mem::replace(&mut self.index, SubjectIndex::new(self.index_seed));
        if self.unsealed > 0 {
            self.retired.push((self.index_epoch, old));
        }
        self.index_epoch += 1;
        self.head = Head::default();
    }

    /// The index whose numbers a table used that was closed at `epoch`.
    pub(crate) fn index_at(&self, epoch: u64) -> &SubjectIndex {
        self.retired.iter().find(|(at, _)| *at == epoch).map_or(&self.index, |(_, index)| index)
    }

    /// One closed segment less needs numbers of subjects to stay what they are.
    pub(crate) fn sealed_one(&mut self) {
        self.unsealed -= 1;
        if self.unsealed == 0 {
            self.retired.clear();
        }
    }

    /// Removes the oldest message. The way of a stream at its limit: no search, one row of a table at hand. Whoever
    /// calls this calls [`Catalog::settle_head`] before others see the catalog again.
    pub(crate) fn remove_head(&mut self) -> Result<Removed, ReadError> {
        let seq = self.totals.first_seq;
        let found = self.head_row(seq)?;
        self.totals.messages -= 1;
        let mut bytes = 0;
        // Of a record that was lost to damage there is nothing to count.
        if let Some((size, subject)) = found {
            self.index.removed(subject, seq);
            self.totals.bytes = self.totals.bytes.saturating_sub(size);
            bytes = size;
        }
        self.forget_lost_bytes();
        self.totals.first_seq = self.first_from(seq + 1);
        Ok(Removed { messages: 1, bytes })
    }

    /// What follows from removed oldest messages, once for many of them.
    pub(crate) fn settle_head(&mut self) {
        self.set_first(self.totals.first_seq);
    }

    fn head_row(&mut self, seq: Seq) -> Result<Option<(u64, SubjectId)>, ReadError> {
        if self.places.first().is_some_and(|place| place.last_seq < seq) {
            self.bury(seq);
        }
        // Segments that were closed without a message may stand before it.
        let Some(at) = self.place_of(seq) else { return Ok(None) };
        let place = &self.places[at];
        let first = place.segment.first_seq;
        if matches!(place.form, Form::Active) {
            let Some(row) = Table::Growing(&self.rows).row_of(seq - first) else { return Ok(None) };
            return Ok(Some((u64::from(self.rows.sizes[row]), self.rows.subjects[row])));
        }
        self.load_head(at)?;
        self.head.is_used = true;
        let Some((_, table)) = &self.head.table else { return Ok(None) };
        let Some(row) = table.row_of(seq - first) else { return Ok(None) };
        let size = table.size(row);
        let number = table.subject(row);
        let subject = match table {
            Table::Sealed(slots) => {
                let known = &mut self.head.subjects[number as usize];
                match known {
                    Some(id) => Some(*id),
                    None => {
                        *known = self.index.find(slots.dictionary().text(number));
                        *known
                    }
                }
            }
            _ => Some(number),
        };
        Ok(subject.map(|id| (size, id)))
    }

    fn load_head(&mut self, at: usize) -> Result<(), ReadError> {
        let place = &self.places[at];
        let no = place.segment.no.0;
        let sealed = matches!(place.form, Form::Sealed);
        if let Some((at, table)) = &self.head.table
            && *at == no
            && sealed == matches!(table, Table::Sealed(_))
        {
            return Ok(());
        }
        let table: Table<'static> = match &place.form {
            Form::Active => return Ok(()),
            Form::Closed(rows) => Table::Closed(Arc::clone(rows)),
            Form::Sealed => Table::Sealed(self.slots.load(&place.segment)?),
        };
        self.head.subjects.clear();
        if let Table::Sealed(slots) = &table {
            self.head.subjects.resize(slots.dictionary().len(), None);
        }
        self.head.table = Some((no, table));
        Ok(())
    }

    /// Lets go of the table of the first segment if nobody trimmed since the last call.
    pub(crate) fn rest_head(&mut self) {
        if !std::mem::take(&mut self.head.is_used) {
            self.forget_head();
        }
    }

    pub(super) fn has_head(&self) -> bool {
        self.head.table.is_some()
    }

    /// The table of the first segment was replaced.
    pub(crate) fn forget_head(&mut self) {
        self.head = Head::default();
    }

    /// Moves the last sequence to `last` without messages.
    pub(crate) fn skip(&mut self, last: Seq) {
        if last <= self.totals.last_seq {
            return;
        }
        if self.totals.messages == 0 {
            self.totals.first_seq = last + 1;
            self.deleted = Deleted::new();
        } else {
            self.mark_deleted(self.totals.last_seq + 1..=last);
        }
        self.totals.last_seq = last;
        if let Some(active) = self.places.last_mut() {
            active.last_seq = last;
        }
    }

    /// The same for what came at this time and is not stored.
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
