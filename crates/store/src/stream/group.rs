//! A stream whose log is the log of a group of replicas.
//!
//! Owns where the stream stands in that log: each batch is one entry of it, with an index, a term
//! and a chain (`docs/formats/segment.md`). Whoever leads decides as a stream without a group does,
//! and [`Stream::take_decided`] gives what the others need; they take it with
//! [`Stream::append_decided`], which evaluates nothing. Elections, networks and what is committed
//! are others' business: they tell.

use std::sync::Arc;

use crate::notes::Notes;
use crate::record::{self, Control, Entry, LogEntry, LogEntryKind, canonical};
use crate::{Seq, Timestamp};

use super::catalog::PlannedBatch;
use super::consumer_entries::ConsumerEntries;
use super::decided_entry::{DecidedEntry, EntryForm};
use super::errors::StoreError;
use super::group_append::{self, Record};
use super::group_log::{GroupLog, GroupPosition, LogTail};
use super::remove::{MAX_SEQ, NOT_NOW};
use super::segment_storage::CONTROL_ROOM;
use super::{Stream, roll};

/// Room that a disk has to have for another segment: its header, and what is allocated ahead.
const SEGMENT_ROOM: u64 = 64 << 10;
/// More records than an entry has that was decided on one buffer of messages.
const MANY_RECORDS: usize = 8192;

/// Entries that come to a follower within one turn, for which room is asked before it takes them.
#[derive(Debug, Default)]
pub struct ComingEntries {
    entries: Vec<DecidedEntry>,
    /// The most bytes that they take.
    most: u64,
}

impl Extend<DecidedEntry> for ComingEntries {
    fn extend<T: IntoIterator<Item = DecidedEntry>>(&mut self, entries: T) {
        for entry in entries {
            self.most += most_room_for(&entry);
            self.entries.push(entry);
        }
    }
}

impl Stream {
    /// Makes the stream's log the log of a group from here on: its next batch is the entry behind
    /// `position`. Begins a segment, whose version earlier versions of this program do not read.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed.
    pub fn join_group(&mut self, position: GroupPosition, now: Timestamp) -> Result<(), StoreError> {
        self.check()?;
        let group = GroupLog::new(LogTail::new(position), ConsumerEntries::default(), Notes::default());
        let before = self.group.replace(Box::new(group));
        let begun = if self.has_placeholder() { self.begin_first(now) } else { self.roll(now) };
        if begun.is_err() {
            self.group = before;
        }
        begun
    }

    /// Where the stream stands in the log of its group, if it has one.
    #[must_use]
    pub fn group(&self) -> Option<GroupPosition> {
        self.group.as_ref().map(|group| group.position())
    }

    /// Index of the first entry of the group's log that damage has taken and that is not known to
    /// be committed: no replica may count on what is behind it.
    #[must_use]
    pub fn first_missing_entry(&self) -> Option<u64> {
        self.group.as_ref().and_then(|group| group.tail.first_missing())
    }

    /// The log of the group is committed up to `index`, which is on enough replicas: what is up to
    /// there is released.
    pub fn committed(&mut self, index: u64) {
        let Some(group) = &mut self.group else { return };
        group.tail.commit(index);
        self.release_notes();
        self.shared.committed_to(index);
    }

    /// Has everything that is decided here from now on be decided in this term.
    pub fn lead(&mut self, term: u64) {
        if let Some(group) = &mut self.group {
            group.tail.lead(term);
        }
    }

    /// Entries that were decided here since the last call, in order: for the other replicas.
    pub fn take_decided(&mut self) -> Vec<DecidedEntry> {
        self.group.as_mut().map(|group| std::mem::take(&mut group.decided)).unwrap_or_default()
    }

    /// Appends an entry that was decided elsewhere, as it is: no limit, no clock and no random
    /// number is asked. `now` is when the file was written.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed: it has no group, the entry is not the
    /// next one, its chain or its records are not those of a leader ([`StoreError::NotNext`]), or
    /// the disk is full.
    pub fn append_decided(&mut self, decided: &DecidedEntry, now: Timestamp) -> Result<(), StoreError> {
        self.check()?;
        let (entry, records) = (&decided.entry, decided.records());
        let position = self.group().ok_or(StoreError::NotNext { expected: 0 })?;
        let expected = position.index + 1;
        if entry.index != expected
            || entry.commit >= entry.index
            || entry.chained(position.chain, records) != entry.chain
        {
            return Err(StoreError::NotNext { expected });
        }
        let records = canonical::read(records).ok_or(StoreError::NotNext { expected })?;
        if !self.is_in_order(&records) || !self.goes_on(entry, &records) {
            return Err(StoreError::NotNext { expected });
        }
        self.or_from_headroom(|stream| stream.reserve_room(room_for(&records), now))?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let offsets = self.encode_entry(entry, &records, now, &mut buffer);
        let written = self.write(&buffer, now);
        self.buffer = buffer;
        let end = written?;
        if let Some(group) = &mut self.group {
            group.tail.pass(entry);
            group.consumers.note_all(entry.index, records.iter().map(|(record, _)| record));
            records.iter().for_each(|(record, _)| group.notes.note(entry.index, record));
        }
        self.release_notes();
        let plans = group_append::plans(&records, &offsets, self.config.storage);
        let shared = Arc::clone(&self.shared);
        let mut catalog = shared.catalog_mut();
        let before = catalog.next_decided() - 1;
        let last = records.iter().fold(before, |last, (record, _)| last_behind(record, last));
        let entered = self.enter(&shared, end, last);
        let kept = catalog.put(PlannedBatch { index: entry.index, plans }, &entered);
        self.is_untidy = true;
        drop(catalog);
        self.entered(entered, kept).map(drop)
    }

    /// Sees to it that entries that were decided elsewhere find room, so that
    /// [`Stream::append_decided`] takes them: to be asked before anybody counts on that. With what
    /// is kept free on a full disk if need be, behind which what makes room has to come, too.
    /// Answers whether there was room without that.
    ///
    /// Perf: two comparisons and a lock for each message with entries, as long as there is room.
    ///
    /// # Errors
    /// The disk is full, or the stream has failed.
    pub fn make_room_to_follow(&mut self, coming: &ComingEntries) -> Result<bool, StoreError> {
        self.check()?;
        if self.room_to_follow(coming.most).is_ok() {
            return Ok(true);
        }
        let records = coming.entries.iter().filter_map(|entry| canonical::read(entry.records()));
        let bytes: u64 = records.map(|records| room_for(&records)).sum();
        self.or_from_headroom(|stream| stream.room_to_follow(bytes))?;
        Ok(self.has_headroom())
    }

    fn room_to_follow(&self, bytes: u64) -> Result<(), StoreError> {
        let Some(files) = self.segment_storage.files() else { return Ok(()) };
        if !self.has_placeholder() && self.active.file.end() + bytes <= self.segment_bytes() {
            return self.active.file.reserve(bytes).map(drop).map_err(StoreError::from_io);
        }
        // It is too early to begin a segment with them: they may be in the place of others.
        let free = files.store_env.headroom.free_bytes().map_err(StoreError::from_io)?;
        if free > bytes + SEGMENT_ROOM { Ok(()) } else { Err(StoreError::Full) }
    }

    /// Whether a disk that was full has room again for some time.
    pub fn regains_room(&self) -> bool {
        let is_spared = self.segment_storage.files().is_none_or(|files| files.store_env.headroom.is_spared());
        is_spared && (self.failure().is_some() || self.room_to_follow(SEGMENT_ROOM).is_ok())
    }

    /// Whether records are such as a leader writes behind what is in the log: messages ascend, no
    /// sequence is out of bounds, and nothing cuts the stream by a sequence.
    fn is_in_order(&self, records: &[Record<'_>]) -> bool {
        let mut last = self.shared.catalog().next_decided() - 1;
        records.iter().all(|(record, _)| {
            let is_right = match record {
                Entry::Message(message) => message.seq > last && message.seq <= MAX_SEQ,
                Entry::Control(Control::Trim { first: seq } | Control::Skip { last: seq }) => *seq <= MAX_SEQ,
                Entry::Control(Control::Truncate { .. } | Control::TakenBack { .. })
                | Entry::Erased { .. } => false,
                Entry::Control(_) => true,
            };
            last = last_behind(record, last);
            is_right
        })
    }

    /// Whether an entry may come behind a decision that is not finished, or may be a part of one.
    fn goes_on(&self, entry: &LogEntry, records: &[Record<'_>]) -> bool {
        let is_abort = entry.kind == LogEntryKind::Abort;
        if entry.kind == LogEntryKind::Empty {
            // It finishes nothing.
            return records.is_empty() && entry.more == self.is_within_decision();
        }
        let is_part = entry.more && entry.kind == LogEntryKind::Normal;
        (!is_abort || self.is_unfinished())
            && (!entry.more || (is_part && records.iter().all(|(record, _)| group_append::brings(record))))
    }

    /// Writes controls as one entry of the group's log, if need be with what is kept free on a full
    /// disk. Answers with the index of the entry; `None` if there are no controls.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed: it has no group, or the disk is full.
    pub(super) fn propose_controls(
        &mut self,
        controls: &[Control<'_>],
        now: Timestamp,
    ) -> Result<Option<u64>, StoreError> {
        self.check()?;
        if self.group.is_none() {
            return Err(StoreError::NotNext { expected: 0 });
        }
        if controls.is_empty() {
            return Ok(None);
        }
        let bytes = controls.iter().map(|control| control.max_encoded_len() as u64).sum::<u64>();
        self.make_room_for_removal(2 * CONTROL_ROOM + bytes, now)?;
        self.log(controls, now, NOT_NOW)?;
        Ok(self.group().map(|position| position.index))
    }

    /// Bytes that the head of a batch takes, in a stream that has a group.
    pub(super) fn room_for_log_entry(&self) -> u64 {
        if self.group.is_some() { CONTROL_ROOM } else { 0 }
    }

    /// The head of the batch that says these controls, in a stream that has a group.
    pub(super) fn decide_controls(&mut self, controls: &[Control<'_>], now: Timestamp) -> Option<LogEntry> {
        let group = self.group.as_mut()?;
        let mut records = EntryForm::with_room(0);
        controls.iter().for_each(|control| canonical::write_control(control, now, records.end()));
        group.decide(records)
    }
}

/// The last sequence behind a record, where `last` was it before.
pub(super) fn last_behind(record: &Entry<'_>, last: Seq) -> Seq {
    match record {
        Entry::Message(message) => message.seq,
        Entry::Control(control) => roll::last_behind(control, last),
        Entry::Erased { .. } => last,
    }
}

/// The most bytes that an entry takes in a file, by its length in canonical form, unless it has
/// very many records.
fn most_room_for(entry: &DecidedEntry) -> u64 {
    let length = entry.records().len();
    let records = (length / canonical::RECORD_BYTES + 1).min(MANY_RECORDS);
    (length + records * record::MAX_OVERHEAD) as u64 + 2 * CONTROL_ROOM + record::HEAD_BYTES as u64
}

fn room_for(records: &[Record<'_>]) -> u64 {
    let sizes = records.iter().map(|(record, _)| match record {
        Entry::Message(message) => message.max_encoded_len(),
        Entry::Control(control) => control.max_encoded_len(),
        Entry::Erased { .. } => 0,
    });
    2 * CONTROL_ROOM + record::HEAD_BYTES as u64 + sizes.map(|size| size as u64).sum::<u64>()
}
