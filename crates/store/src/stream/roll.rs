//! Closing the active segment and beginning the next.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::index::{SubjectId, SubjectState};
use crate::record::{Control, EntryBatch};
use crate::segment::Totals;
use crate::{SegmentNo, Seq, Timestamp};

use super::catalog::{Catalog, Removed};
use super::errors::{ReadError, StoreError};
use super::segment_storage::Beginning;
use super::segment_view::Times;
use super::table::Rows;
use super::{Active, Stream};

/// A segment that was closed, with what its footer will say. Everything is as of the moment of
/// closing: the stream has gone on since.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) active: Active,
    pub(crate) rows: Arc<Rows>,
    /// Of the stream.
    pub(crate) totals: Totals,
    /// Subjects that changed while the segment was active, in their state at its end.
    pub(crate) touched: Vec<(SubjectId, SubjectState)>,
    /// Of the index that `rows` and `touched` take their numbers from.
    pub(crate) index_epoch: u64,
    /// Sequences that were removed while it was active, in no order.
    pub(crate) deleted: Vec<RangeInclusive<Seq>>,
    /// Of the messages in `rows`.
    pub(crate) times: Times,
    /// Lifetimes of its messages.
    pub(crate) expiries: Vec<(Seq, Timestamp)>,
    pub(crate) origin: SegmentOrigin,
    /// Last index of the group's log that stands in it or before it; 0 without a group.
    pub(crate) last_index: u64,
}

/// Where a closed segment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentOrigin {
    /// This process wrote all of it.
    Written,
    /// The segment was found on disk: what stood behind its end before is not known.
    Recovered,
}

impl Closed {
    /// Marks the segment as one that recovery found, in the log of a group up to `last_index`.
    pub(crate) fn recovered(self, last_index: u64) -> Self {
        Self { origin: SegmentOrigin::Recovered, last_index, ..self }
    }
}

impl Stream {
    /// Begins a new segment. The old one is to be sealed.
    ///
    /// # Errors
    /// Nothing has changed.
    pub(super) fn roll(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.roll_behind(None, now).map(drop)
    }

    /// As [`Stream::roll`]; what is behind `last` goes, and the new segment gives those sequences
    /// out again. The old one ends with an entry that says so, and its footer does: what it cut off
    /// stays away, though the new segment be lost.
    pub(super) fn roll_behind(&mut self, last: Option<Seq>, now: Timestamp) -> Result<Removed, StoreError> {
        if self.has_placeholder() {
            self.begin_first(now)?;
        }
        let next = SegmentNo(self.active.segment.no.0 + 1);
        let first_seq = last.map_or_else(|| self.shared.catalog().next_seq(), |last| last + 1);
        let is_memory = self.segment_storage.is_memory();
        let cut = last.filter(|_| !is_memory).map(|last| self.truncation(last, now)).unwrap_or_default();
        let before = self.active.file.end() + cut.len() as u64;
        let at = Beginning { no: next, first_seq, before, group: self.group() };
        let listener = Some(Arc::clone(&self.shared));
        let begun = self.segment_storage.begin_segment(self.id(), at, self.durability(), listener, now);
        let begun = begun.map_err(|error| match error {
            StoreError::Failed(why) => self.fail(&why),
            error => error,
        })?;
        debug_assert!(
            begun.segment.no == next && begun.segment.first_seq == first_seq,
            "a segment as asked for"
        );
        if !cut.is_empty() {
            let end = self.write(&cut, now)?;
            self.written(end);
        }
        let last_index = self.group().map_or(0, |group| group.index);
        let old = std::mem::replace(&mut self.active, begun.clone());
        debug_assert!(old.segment.no < self.active.segment.no, "segments are numbered upwards");
        let mut catalog = self.shared.catalog_mut();
        let cut = last.map_or(Ok(Removed::default()), |last| catalog.truncate(last));
        let closed = (!is_memory).then(|| Closed { last_index, ..catalog.close_only(old) });
        catalog.begin_segment(begun.segment);
        if closed.is_none() {
            catalog.forget_footer_changes();
        }
        debug_assert!(
            cut.is_err() || catalog.next_seq() == first_seq,
            "a segment begins with the next sequence"
        );
        drop(catalog);
        let file = closed.as_ref().map(|closed| Arc::clone(&closed.active.file));
        // Whatever fails below: its file is still to be let go of.
        self.closed.extend(closed);
        let removed = cut.map_err(|error| self.fail(&error.to_string()))?;
        if let Some(file) = file {
            // What is still in memory is written by the round that makes it durable, or by the
            // seal.
            file.close().map_err(|error| self.fail(&format!("a write failed: {error}")))?;
        }
        Ok(removed)
    }

    /// The entry that ends the active segment when what is behind `last` goes.
    fn truncation(&self, last: Seq, now: Timestamp) -> Vec<u8> {
        let mut entry = Vec::new();
        let mut batch = EntryBatch::begin(&mut entry, self.active.file.end(), &self.active.segment.context);
        batch.control(&Control::Truncate { last }, now);
        batch.finish();
        entry
    }

    /// Closes a segment of some size, so that a restart need not walk its entries.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn close_segment(&mut self, at_least: u64, now: Timestamp) -> Result<(), StoreError> {
        self.check()?;
        if self.segment_storage.is_memory()
            || self.active.file.end() < at_least.max(1 + crate::segment::HEADER_BYTES as u64)
        {
            return Ok(());
        }
        self.roll(now)
    }

    /// Writes entries that are no messages, as one batch, and then does to the catalog what they
    /// say.
    pub(super) fn log<T>(
        &mut self,
        controls: &[Control<'_>],
        now: Timestamp,
        follow: impl FnOnce(&mut Catalog) -> Result<T, ReadError>,
    ) -> Result<T, StoreError> {
        let Active { segment, file } = self.active.clone();
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let entry = self.decide_controls(controls, now);
        let mut batch = EntryBatch::begin(&mut buffer, file.end(), &segment.context);
        if let Some(entry) = entry {
            batch.control(&Control::LogEntry(entry), now);
        }
        for control in controls {
            batch.control(control, now);
        }
        batch.finish();
        let written = self.write(&buffer, now);
        self.buffer = buffer;
        let end = written?;
        let followed = follow(&mut self.shared.catalog_mut());
        let followed = followed.map_err(|error| self.fail(&error.to_string()))?;
        self.written(end);
        Ok(followed)
    }
}
