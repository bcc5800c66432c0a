//! Ends of messages: by the stream's limit of age, or by a lifetime of their own.
//!
//! Works in slices: one call removes a bounded number of messages as one batch. That a message has
//! ended is an entry like any removal, so replay needs no clock.

use std::borrow::Cow;

use crate::index::SubjectId;
use crate::ranges::Ranges;
use crate::record::{self, Control, EntryBatch, Message};
use crate::{Seq, Timestamp};

use super::append::NewMessage;
use super::catalog::{Catalog, NewRow, Removed, size_of};
use super::errors::StoreError;
use super::reader::{self, Wait};
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
        if let Err(error) = self.make_room_for_removal(room_for(&ended), now) {
            self.put_back(&ended.iter().map(|one| one.seq).collect::<Vec<_>>(), now);
            return Err(error);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let done = self.remove_ended(&ended, now, &mut buffer);
        let written = done.and_then(|done| self.write(&buffer, now).map(|()| done));
        self.buffer = buffer;
        let (removed, markers) = written?;
        let next = self.next_expiry()?;
        more |= next.is_some_and(|at| at <= now);
        Ok(Expired { removed, markers, more, next })
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
        let own = catalog.next_deadline();
        let Some(age) = self.age() else { return Ok(own) };
        let by_age = first_aging(&catalog, catalog.totals().first_seq)?;
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
            more |= aged(&self.shared.catalog(), now.saturating_sub(age), limit, &mut due)?;
        }
        let mut ended = Vec::new();
        if due.len() < limit {
            let mut catalog = self.shared.catalog_mut();
            more |= catalog.take_due(now, limit - due.len(), &mut ended);
            due.extend(ended.iter().map(|&(_, seq)| seq).filter(|&seq| catalog.contains(seq)));
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
        let Some((located, subject)) = catalog.locate_named(seq)? else { return Ok(None) };
        let count = left.entry(subject).or_insert_with(|| catalog.index().state(subject).count);
        *count = count.saturating_sub(1);
        if *count > 0 {
            return Ok(None);
        }
        let last = reader::fetch(&self.shared, &located, seq, Wait::Allowed, buffer)?;
        Ok(markers.marker(&last).map(|marker| (Box::from(last.subject), marker)))
    }

    fn remove_ended(
        &mut self,
        ended: &[EndedMessage],
        now: Timestamp,
        buffer: &mut Vec<u8>,
    ) -> Result<(Removed, u64), StoreError> {
        let Active { segment, file } = self.active.clone();
        let mut batch = EntryBatch::begin(buffer, file.end(), &segment.context);
        let mut catalog = self.shared.catalog_mut();
        let mut removed = Removed::default();
        for one in ended {
            match catalog.remove(one.seq) {
                Ok(gone) => removed.add(gone),
                Err(error) => {
                    drop(catalog);
                    return Err(self.fail(&error.to_string()));
                }
            }
        }
        debug_assert!(removed.messages <= ended.len() as u64, "only what has ended is removed");
        let gone = Ranges::from_unsorted(ended.iter().map(|one| one.seq).collect());
        batch.control(&Control::Delete(Cow::Owned(gone)), now);
        let mut markers = 0;
        for (subject, marker) in ended.iter().filter_map(|one| one.marker.as_ref()) {
            let message = NewMessage {
                timestamp: now,
                expires: marker.expires,
                subject,
                headers: &marker.headers,
                ..NewMessage::default()
            };
            enter_marker(&mut catalog, &mut batch, &message, self.config.storage);
            markers += 1;
        }
        self.is_untidy |= catalog.tidy_after(ended.len());
        drop(catalog);
        batch.finish();
        Ok((removed, markers))
    }
}

/// Markers are no publisher's messages: no limit refuses them.
fn enter_marker(
    catalog: &mut Catalog,
    batch: &mut EntryBatch<'_>,
    message: &NewMessage<'_>,
    storage: crate::Storage,
) {
    let seq = catalog.next_seq();
    let NewMessage { timestamp, expires, subject, headers, .. } = *message;
    let entry = record::Message { seq, timestamp, expires, subject, headers, payload: &[] };
    let offset = u64::from(batch.message(&entry));
    let size = size_of(storage, subject, headers, &[]);
    catalog.append(&NewRow { seq, timestamp, expires, subject, offset, size });
}

fn room_for(ended: &[EndedMessage]) -> u64 {
    let markers = ended.iter().filter_map(|one| one.marker.as_ref());
    let markers =
        markers.map(|(subject, marker)| record::max_message_len(subject.len(), marker.headers.len(), 0));
    (256 + 20 * ended.len() + markers.sum::<usize>()) as u64
}

/// The first message at or behind `from` that the limit of age concerns, and when it was accepted.
fn first_aging(catalog: &Catalog, from: Seq) -> Result<Option<(Seq, Timestamp)>, StoreError> {
    let seq = catalog.next_aging(from);
    let Some(located) = catalog.locate(seq)? else { return Ok(None) };
    let timestamp = reader::timestamp_at(&located.segment, located.offset, &mut Vec::new())?;
    Ok(Some((seq, timestamp)))
}

/// Messages accepted at or before `limit_time`, oldest first. Answers whether it stopped at
/// `limit`.
fn aged(
    catalog: &Catalog,
    limit_time: Timestamp,
    limit: usize,
    due: &mut Vec<Seq>,
) -> Result<bool, StoreError> {
    let mut from = catalog.totals().first_seq;
    while let Some((seq, timestamp)) = first_aging(catalog, from)? {
        if timestamp > limit_time {
            return Ok(false);
        }
        if due.len() == limit {
            return Ok(true);
        }
        // A whole segment that has aged needs no look at each message.
        let view = catalog.segment_of(seq).map(|at| &catalog.segments()[at]);
        let end = view.filter(|view| view.times.latest <= limit_time).map_or(seq, |view| view.last_seq);
        let mut next = seq;
        while due.len() < limit {
            // A segment may show far more sequences than messages.
            next = catalog.deleted().next_live(next);
            if next > end {
                break;
            }
            if !catalog.never_expires(next) && catalog.contains(next) {
                due.push(next);
            }
            next += 1;
        }
        from = next;
    }
    Ok(false)
}
