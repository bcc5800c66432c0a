//! Ends of messages: by the stream's limit of age, or by a lifetime of their own.
//!
//! Works in slices: one call removes a bounded number of messages as one batch. That a message has
//! ended is an entry like any removal, so replay needs no clock.

use std::borrow::Cow;
use std::sync::Arc;

use crate::config::Storage;
use crate::index::SubjectId;
use crate::ranges::Ranges;
use crate::record::{self, Control, Entry, EntryBatch, LogEntry, Message, canonical};
use crate::{Seq, Timestamp};

use super::catalog::{Catalog, Decided, NewRow, Planned, PlannedBatch, Removed, size_of};
use super::decided_entry::EntryForm;
use super::errors::StoreError;
use super::reader;
use super::release::Entered;
use super::segment_view::SegmentView;
use super::wait::Wait;
use super::{Active, Stream};

/// Marker for a subject whose last message has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The header block of the message that is stored in its place.
    pub headers: Vec<u8>,
    /// When the marker itself ends.
    pub expires: Option<Timestamp>,
}

/// Decides where markers are left.
pub trait Markers {
    /// The marker for a subject whose last message is `last` and ends now; `None` leaves nothing
    /// (for instance, when `last` is a marker itself).
    fn marker(&self, last: &Message<'_>) -> Option<Marker>;
}

/// Result of a slice of expiry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Messages that were removed, in sum.
    pub removed: Removed,
    /// Markers that were stored.
    pub markers: u64,
    /// Whether more is due now.
    pub more: bool,
    /// When to come again, if nothing is appended meanwhile.
    pub next: Option<Timestamp>,
}

/// A subject and what is left there.
type Marked = (Box<[u8]>, Marker);

/// A message that has ended, and the marker for its subject.
struct EndedMessage {
    seq: Seq,
    marker: Option<Marked>,
}

impl Stream {
    /// Removes up to `limit` messages that have ended by `now`.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed.
    pub fn expire(
        &mut self,
        now: Timestamp,
        limit: usize,
        markers: Option<&dyn Markers>,
    ) -> Result<Expired, StoreError> {
        self.check()?;
        let (due, mut more) = self.due(now, limit)?;
        if due.is_empty() {
            // All that was looked at had been removed before: there may be more behind it.
            let next = self.next_expiry()?;
            more |= next.is_some_and(|at| at <= now);
            return Ok(Expired { more, next, ..Expired::default() });
        }
        let ended = match self.with_markers(due, markers) {
            Ok(ended) => ended,
            Err((due, error)) => {
                self.put_back(&due, now);
                return Err(error);
            }
        };
        if let Err(error) = self.make_room_for_removal(room_for(&ended) + self.room_for_log_entry(), now) {
            self.put_back(&ended.iter().map(|one| one.seq).collect::<Vec<_>>(), now);
            return Err(error);
        }
        let (removed, markers) = self.end_messages(&ended, now)?;
        let next = self.next_expiry()?;
        more |= next.is_some_and(|at| at <= now);
        Ok(Expired { removed, markers, more, next })
    }

    /// Removes what has ended by a follower's clock, and no entry says so: planted bug 118.
    #[cfg(planted)]
    pub fn expire_unsaid(&mut self, now: Timestamp) {
        let due = self.due(now, 100).map(|(due, _)| due).unwrap_or_default();
        let mut catalog = self.shared.catalog_mut();
        if let Ok(decided) = catalog.decide_removal(&due) {
            let _ = catalog.remove_all(&decided);
        }
    }

    /// Gives a message a lifetime that its entry does not have. It is not written down: whoever
    /// opens the stream again says it again.
    pub fn note_lifetime(&mut self, seq: Seq, at: Timestamp) {
        self.shared.catalog_mut().restore_expiry(seq, at);
    }

    /// When the next message ends, as far as the stream knows: never too late, perhaps too early.
    ///
    /// # Errors
    /// The first message cannot be read.
    pub fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        let catalog = self.shared.catalog();
        let stream = catalog.decided();
        let waiting = stream.waiting();
        let own = catalog.next_deadline().into_iter().chain(waiting.and_then(Catalog::next_deadline)).min();
        let Some(age) = self.age() else { return Ok(own) };
        let mut by_age = first_aging(&catalog, stream, stream.totals().first_seq)?;
        if let Some(waiting) = waiting.filter(|_| by_age.is_none()) {
            by_age = first_aging(waiting, stream, 0)?;
        }
        let by_age = by_age.map(|(_, timestamp)| timestamp.saturating_add(age));
        Ok(own.into_iter().chain(by_age).min())
    }

    fn age(&self) -> Option<i64> {
        self.config.limits.age.map(|age| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Messages that have ended, ascending, and whether there may be more.
    fn due(&self, now: Timestamp, limit: usize) -> Result<(Vec<Seq>, bool), StoreError> {
        let mut due = Vec::new();
        let mut more = false;
        if let Some(age) = self.age() {
            let (catalog, limit_time) = (self.shared.catalog(), now.saturating_sub(age));
            let stream = catalog.decided();
            let mut met = aged(&catalog, stream, limit_time, limit, &mut due)?;
            if let (Aged::All, Some(waiting)) = (met, stream.waiting()) {
                met = aged(waiting, stream, limit_time, limit, &mut due)?;
            }
            more |= met == Aged::Enough;
        }
        let mut ended = Vec::new();
        if due.len() < limit {
            let mut catalog = self.shared.catalog_mut();
            more |= catalog.take_due(now, limit - due.len(), &mut ended);
            if self.group.is_some() {
                catalog.note_ended(&ended);
            }
            let left = limit.saturating_sub(due.len() + ended.len());
            more |= catalog.take_due_waiting(now, left, &mut ended);
            let stream = catalog.decided();
            due.extend(ended.iter().map(|&(_, seq)| seq).filter(|&seq| stream.contains(seq)));
        }
        due.sort_unstable();
        due.dedup();
        debug_assert!(due.len() <= limit, "a slice has no more messages than it may");
        Ok((due, more))
    }

    /// Makes messages due again that were taken from the list of lifetimes and could not be
    /// removed.
    fn put_back(&self, seqs: &[Seq], now: Timestamp) {
        let mut catalog = self.shared.catalog_mut();
        for &seq in seqs {
            catalog.put_back_due(seq, now);
        }
    }

    /// Asks for markers where the last message of a subject ends.
    fn with_markers(
        &self,
        due: Vec<Seq>,
        markers: Option<&dyn Markers>,
    ) -> Result<Vec<EndedMessage>, (Vec<Seq>, StoreError)> {
        let Some(markers) = markers else {
            return Ok(due.into_iter().map(|seq| EndedMessage { seq, marker: None }).collect());
        };
        let catalog = self.shared.catalog();
        let mut left = std::collections::HashMap::<SubjectId, u64>::new();
        let mut ended = Vec::with_capacity(due.len());
        let mut buffer = Vec::new();
        for &seq in &due {
            match self.marker_for(&catalog, seq, &mut left, markers, &mut buffer) {
                Ok(marker) => ended.push(EndedMessage { seq, marker }),
                Err(error) => return Err((due, error)),
            }
        }
        Ok(ended)
    }

    fn marker_for(
        &self,
        catalog: &Catalog,
        seq: Seq,
        left: &mut std::collections::HashMap<SubjectId, u64>,
        markers: &dyn Markers,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Marked>, StoreError> {
        let stream = catalog.decided();
        let Some((located, subject)) = stream.locate_named(seq)? else { return Ok(None) };
        let count = left.entry(subject).or_insert_with(|| stream.subject(subject).count);
        *count = count.saturating_sub(1);
        if *count > 0 {
            return Ok(None);
        }
        let last = reader::fetch(&self.shared, &located, seq, Wait::Allowed, buffer)?;
        Ok(markers.marker(&last).map(|marker| (Box::from(last.subject), marker)))
    }

    /// Writes that messages have ended, and what is left in their place, and does it.
    fn end_messages(&mut self, ended: &[EndedMessage], now: Timestamp) -> Result<(Removed, u64), StoreError> {
        let seqs: Vec<Seq> = ended.iter().map(|one| one.seq).collect();
        let catalog = self.shared.catalog();
        let is_behind_waiting = catalog.has_unreleased();
        let decided = catalog.decide_removal(if is_behind_waiting { &[] } else { &seqs });
        drop(catalog);
        let decided = decided.map_err(|error| self.fail(&error.to_string()))?;
        let gone = Ranges::from_unsorted(seqs);
        let mut markers = self.markers(ended, now);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let Active { segment, file } = self.active.clone();
        let gone = Control::Delete(Cow::Owned(gone));
        let entry = self.decide_ended(&gone, &markers, now);
        let mut batch = EntryBatch::begin(&mut buffer, file.end(), &segment.context);
        if let Some(entry) = entry {
            batch.control(&Control::LogEntry(entry), now);
        }
        batch.control(&gone, now);
        for (message, offset) in &mut markers {
            *offset = batch.message(message);
        }
        batch.finish();
        let written = self.write(&buffer, now);
        self.buffer = buffer;
        let end = written?;
        let storage = self.config.storage;
        let shared = Arc::clone(&self.shared);
        let mut catalog = shared.catalog_mut();
        let last = markers.last().map_or_else(|| catalog.next_decided() - 1, |(marker, _)| marker.seq);
        let entered = self.enter(&shared, end, last);
        let is_direct = matches!(entered, Entered::Passes(_)) && !is_behind_waiting;
        debug_assert!(!is_direct || !catalog.has_unreleased(), "what comes before is done before");
        let removed = if is_direct {
            let removed = catalog.remove_all(&decided);
            if removed.is_ok() {
                markers.iter().for_each(|marker| append_marker(&mut catalog, marker, storage));
            }
            removed
        } else {
            let marker = |(message, offset): &(Message<'_>, u32)| {
                Planned::of(&Entry::Message(*message), u64::from(*offset), now, storage)
            };
            let plans = Planned::of_control(&gone, now).into_iter().chain(markers.iter().filter_map(marker));
            catalog.put(PlannedBatch { index: self.index(), plans: plans.collect() }, &entered)
        };
        self.is_untidy |= removed.is_err() || catalog.tidy_after(ended.len());
        drop(catalog);
        let removed = self.entered(entered, removed)?;
        debug_assert!(removed.messages <= ended.len() as u64, "only what has ended is removed");
        let count = markers.len() as u64;
        Ok((removed, count))
    }

    /// The head of the batch, in a stream that has a group.
    fn decide_ended(
        &mut self,
        gone: &Control<'_>,
        markers: &[(Message<'_>, u32)],
        now: Timestamp,
    ) -> Option<LogEntry> {
        let group = self.group.as_mut()?;
        let mut records = EntryForm::with_room(0);
        canonical::write_control(gone, now, records.end());
        markers.iter().for_each(|(marker, _)| canonical::write_message(marker, records.end()));
        group.decide(records)
    }

    /// The markers that are stored, with their sequences. Those are no publisher's messages: no
    /// limit refuses them.
    fn markers<'m>(&self, ended: &'m [EndedMessage], now: Timestamp) -> Vec<(Message<'m>, u32)> {
        let next = self.shared.catalog().next_decided();
        let markers = ended.iter().filter_map(|one| one.marker.as_ref());
        let entry = |(seq, (subject, marker)): (Seq, &'m Marked)| Message {
            seq,
            timestamp: now,
            expires: marker.expires,
            subject,
            headers: &marker.headers,
            payload: &[],
        };
        (next..).zip(markers).map(|marker| (entry(marker), 0)).collect()
    }
}

/// Enters a marker whose entry begins at an offset.
fn append_marker(catalog: &mut Catalog, (message, offset): &(Message<'_>, u32), storage: Storage) {
    let Message { seq, timestamp, expires, subject, headers, payload } = *message;
    let size = size_of(storage, subject, headers, payload);
    catalog.append(&NewRow { seq, timestamp, expires, subject, offset: u64::from(*offset), size });
}

fn room_for(ended: &[EndedMessage]) -> u64 {
    let markers = ended.iter().filter_map(|one| one.marker.as_ref());
    let markers =
        markers.map(|(subject, marker)| record::max_message_len(subject.len(), marker.headers.len(), 0));
    (256 + 20 * ended.len() + markers.sum::<usize>()) as u64
}

/// Whether there may be more messages that have aged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aged {
    /// The next one has not.
    Next,
    /// There is no other one.
    All,
    /// Unknown: these are enough.
    Enough,
}

/// The first message at or behind `from` that the limit of age concerns and that does not go
/// already, and when it was accepted.
fn first_aging(
    catalog: &Catalog,
    stream: Decided<'_>,
    from: Seq,
) -> Result<Option<(Seq, Timestamp)>, StoreError> {
    let mut seq = catalog.next_aging(from);
    while !stream.is_released() && catalog.contains(seq) && !stream.contains(seq) {
        seq = catalog.next_aging(seq + 1);
    }
    let Some(located) = catalog.locate(seq)? else { return Ok(None) };
    let timestamp = reader::timestamp_at(&located.segment, located.offset, &mut Vec::new())?;
    Ok(Some((seq, timestamp)))
}

/// Messages accepted at or before `limit_time`, oldest first, until these are `limit`.
fn aged(
    catalog: &Catalog,
    stream: Decided<'_>,
    limit_time: Timestamp,
    limit: usize,
    due: &mut Vec<Seq>,
) -> Result<Aged, StoreError> {
    // What goes already at the front is not looked at again: with slow syncs that may be much.
    let mut from = catalog.totals().first_seq.max(stream.totals().first_seq);
    while let Some((seq, timestamp)) = first_aging(catalog, stream, from)? {
        if timestamp > limit_time {
            return Ok(Aged::Next);
        }
        if due.len() == limit {
            return Ok(Aged::Enough);
        }
        // A whole segment that has aged needs no look at each message.
        let view = catalog.segment_of(seq).map(|at| &catalog.segments()[at]);
        let has_aged = |view: &&SegmentView| {
            let times = view.times;
            let reached = if myelin_stdx::planted::bug(30) { times.earliest } else { times.latest };
            reached <= limit_time
        };
        let end = view.filter(has_aged).map_or(seq, |view| view.last_seq);
        let mut next = seq;
        while due.len() < limit {
            // A segment may show far more sequences than messages.
            next = catalog.deleted().next_live(next);
            if next > end {
                break;
            }
            if !catalog.never_expires(next) && catalog.contains(next) && stream.contains(next) {
                due.push(next);
            }
            next += 1;
        }
        from = next;
    }
    Ok(Aged::All)
}
