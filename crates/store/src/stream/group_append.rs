//! New messages of a stream that leads a group: decided as ever, and written as one entry of the
//! group's log, or as several where one would be too long.
//!
//! All but the last of several say that the decision goes on (`MORE`, `docs/formats/segment.md`),
//! and have messages only: what goes for them stands in the last one. So a decision that is never
//! finished has brought nothing but messages, which its *abort* takes away: an entry like the last
//! part, by which none of the decision was ever there. The release position goes from the front of
//! a decision to its end.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::config::Storage;
use crate::record::{Control, Entry, EntryBatch, LogEntry, LogEntryKind, canonical};
use crate::{Seq, Timestamp};

use super::append::{first_plans, room_for};
use super::catalog::{Planned, PlannedBatch};
use super::decided_entry::EntryForm;
use super::decision::Decision;
use super::errors::StoreError;
use super::group::last_behind;
use super::group_log::GroupLog;
use super::new_message::NewMessage;
use super::release::Entered;
use super::remove::removal_behind_waiting;
use super::segment_storage::CONTROL_ROOM;
use super::{Active, Stream};

/// A record, and when it was decided.
pub(super) type Record<'a> = (Entry<'a>, Timestamp);

/// One entry of several that a decision makes.
struct Part {
    entry: LogEntry,
    records: Range<usize>,
    /// Where they stand in the file.
    offsets: Vec<u32>,
}

impl Stream {
    /// Bounds the records of one log entry: what is decided on more becomes several entries. Not
    /// written anywhere; 1 MiB without it.
    pub fn bound_entries(&mut self, bytes: usize) {
        if let Some(group) = &mut self.group {
            group.entry_bytes = bytes.max(1);
        }
    }

    /// Whether the log ends within a decision, whose leader is gone before it was finished.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.tail.is_unfinished())
    }

    /// Whether the last entry is a part of a decision that goes on with the next one.
    pub(super) fn is_within_decision(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.tail.is_within())
    }

    /// Aborts the decision that the log ends in, if it is not finished: whoever leads from now on
    /// does that first. Everything else that is decided here does it before, if nobody has.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed.
    pub fn abort_unfinished(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if myelin_stdx::planted::bug(134) {
            return Ok(());
        }
        self.check()?;
        let first = self.group.as_ref().and_then(|group| group.tail.first_unfinished());
        let Some(first) = first else { return Ok(()) };
        let catalog = self.shared.catalog();
        let (last_before, next) = (catalog.last_before(first), catalog.next_decided());
        let brought: Vec<Seq> = (last_before + 1..next).collect();
        let controls = removal_behind_waiting(catalog.decided(), &brought);
        drop(catalog);
        let room = controls.iter().map(|control| control.max_encoded_len() as u64).sum::<u64>();
        self.or_from_headroom(|stream| stream.reserve_room(room + 2 * CONTROL_ROOM, now))?;
        let records: Vec<Record<'_>> =
            controls.into_iter().map(|control| (Entry::Control(control), now)).collect();
        let abort = |group: &mut GroupLog, records| group.decide_as(LogEntryKind::Abort, false, records);
        let part = Part::decided(self.group.as_deref_mut(), abort, &records, 0..records.len());
        part.map_or(Ok(()), |part| self.log_parts(vec![part], &records, Vec::new(), now))
    }

    /// The most bytes that a batch of these messages takes.
    pub(super) fn room_in_group(&self, messages: &[NewMessage<'_>]) -> u64 {
        let Some(group) = &self.group else { return 0 };
        let bytes = room_for(messages, &self.config.limits);
        // Two entries that follow each other are longer than the bound.
        (2 + 2 * bytes / group.entry_bytes as u64) * CONTROL_ROOM
    }

    /// Writes what was decided, as entries of the group's log, and keeps it until it is committed.
    pub(super) fn append_in_group(
        &mut self,
        messages: &[NewMessage<'_>],
        now: Timestamp,
        decision: &Decision,
    ) -> Result<(), StoreError> {
        let records = records(messages, decision, now);
        let mut lasting = first_plans(messages, decision, &self.shared.catalog());
        lasting.extend((decision.lost_bytes > 0).then_some(Planned::LostBytes(decision.lost_bytes)));
        let mut parts = Vec::new();
        let entry_bytes = self.group.as_ref().map_or(usize::MAX, |group| group.entry_bytes);
        let mut rest = split(&records, entry_bytes).into_iter().peekable();
        while let Some(range) = rest.next() {
            let more = rest.peek().is_some();
            let decide = |group: &mut GroupLog, records| group.decide_as(LogEntryKind::Normal, more, records);
            parts.extend(Part::decided(self.group.as_deref_mut(), decide, &records, range));
        }
        let done = self.log_parts(parts, &records, lasting, now);
        self.is_untidy = done.is_ok() && self.shared.catalog_mut().tidy_after(messages.len());
        done
    }

    /// Writes parts of one decision, each a batch, and enters them; the last of them brings
    /// `lasting`, too.
    fn log_parts(
        &mut self,
        mut parts: Vec<Part>,
        records: &[Record<'_>],
        mut lasting: Vec<Planned>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if parts.is_empty() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        for part in &mut parts {
            part.offsets = self.encode_entry(&part.entry, &records[part.records.clone()], now, &mut buffer);
        }
        let written = self.write(&buffer, now);
        buffer.clear();
        buffer.shrink_to(super::append::SPARE_BYTES);
        self.buffer = buffer;
        written?;
        let storage = self.config.storage;
        let shared = Arc::clone(&self.shared);
        let mut catalog = shared.catalog_mut();
        let mut last = catalog.next_decided() - 1;
        let mut kept = Ok(());
        for Part { entry, records: range, offsets } in parts {
            let records = &records[range];
            let mut plans = plans(records, &offsets, storage);
            if !entry.more {
                plans.append(&mut lasting);
            }
            last = records.iter().fold(last, |last, (record, _)| last_behind(record, last));
            shared.release.proposed(entry.index, entry.more, last);
            let batch = PlannedBatch { index: entry.index, plans };
            kept = kept.and_then(|()| catalog.put(batch, &Entered::Waits).map(drop));
        }
        drop(catalog);
        self.entered(Entered::Waits, kept)
    }

    /// Adds the batch of a log entry to the buffer, whose bytes are to be appended to the file.
    /// Where its records will stand, in order.
    pub(super) fn encode_entry(
        &mut self,
        entry: &LogEntry,
        records: &[Record<'_>],
        now: Timestamp,
        buffer: &mut Vec<u8>,
    ) -> Vec<u32> {
        let Active { segment, file } = self.active.clone();
        let at = file.end() + buffer.len() as u64;
        let mut batch = EntryBatch::begin(buffer, at, &segment.context);
        batch.control(&Control::LogEntry(*entry), now);
        if let Some(durable) = self.take_durable_mark(super::append::DURABLE_STEP) {
            batch.control(&durable, now);
        }
        let encoded = records.iter().map(|(record, timestamp)| match record {
            Entry::Message(message) => batch.message(message),
            Entry::Control(control) => batch.control(control, *timestamp),
            Entry::Erased { .. } => unreachable!("an erased message has no canonical form"),
        });
        let offsets = encoded.collect();
        batch.finish();
        offsets
    }
}

impl Part {
    /// Makes these records the next entry of the log.
    fn decided(
        group: Option<&mut GroupLog>,
        decide: impl FnOnce(&mut GroupLog, EntryForm) -> LogEntry,
        all: &[Record<'_>],
        records: Range<usize>,
    ) -> Option<Self> {
        let entry = decide(group?, EntryForm::of_records(&all[records.clone()]));
        Some(Self { entry, records, offsets: Vec::new() })
    }
}

/// Decision on a batch, as records of the log.
fn records<'a>(messages: &[NewMessage<'a>], decision: &Decision, now: Timestamp) -> Vec<Record<'a>> {
    let mut records = Vec::with_capacity(decision.rows.len());
    let mut next = decision.next();
    for row in &decision.rows {
        let message = &messages[row.message as usize];
        if row.seq > next {
            records.push((Entry::Control(Control::Skip { last: row.seq - 1 }), message.timestamp));
        }
        records.push((Entry::Message(message.stored_as(row.seq)), message.timestamp));
        next = row.seq + 1;
    }
    if let Some(deleted) = &decision.deleted {
        records.push((Entry::Control(Control::Delete(Cow::Owned(deleted.clone()))), now));
    }
    if let Some(first) = decision.first {
        records.push((Entry::Control(Control::Trim { first }), now));
    }
    records
}

/// Parts of records that have at most so many bytes, unless one message alone has more. All but the
/// last have nothing but messages.
fn split(records: &[Record<'_>], most: usize) -> Vec<Range<usize>> {
    let (mut parts, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (at, (record, _)) in records.iter().enumerate() {
        let size = canonical::len(record);
        let brings = at > 0 && (brings(record) || brings_before(records, at));
        if brings && at > from && bytes + size > most {
            parts.push(from..at);
            (from, bytes) = (at, 0);
        }
        bytes += size;
    }
    parts.extend((from < records.len()).then_some(from..records.len()));
    parts
}

fn brings_before(records: &[Record<'_>], at: usize) -> bool {
    brings(&records[at - 1].0)
}

/// Plans of records for the release of their entry, where they stand at `offsets` in the file.
pub(super) fn plans(records: &[Record<'_>], offsets: &[u32], storage: Storage) -> Vec<Planned> {
    let plan = |((record, timestamp), offset): (&Record<'_>, &u32)| {
        Planned::of(record, u64::from(*offset), *timestamp, storage)
    };
    records.iter().zip(offsets).filter_map(plan).collect()
}

/// Whether a record takes nothing away, so that a part of a decision may have it.
pub(super) fn brings(record: &Entry<'_>) -> bool {
    matches!(record, Entry::Message(_) | Entry::Control(Control::Skip { .. }))
}
