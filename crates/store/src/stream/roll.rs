//! Closing the active segment and beginning the next.

use std::sync::Arc;

use crate::record::{Control, EntryBatch};
use crate::{SegmentNo, Seq, Timestamp};

use super::Stream;
use super::active::{Active, SegmentOrigin};
use super::catalog::{Catalog, NextSegment, Planned, PlannedBatch, Removed};
use super::errors::{ReadError, StoreError};
use super::release::Entered;
use super::segment_storage::Beginning;

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
        let first_seq = last.map_or_else(|| self.shared.catalog().next_decided(), |last| last + 1);
        let is_memory = self.segment_storage.is_memory();
        let cut = last.filter(|_| !is_memory);
        let cut = cut.map(|last| self.ending(&Control::Truncate { last }, now)).unwrap_or_default();
        let before = self.active.file.end() + cut.len() as u64;
        let (group, is_within) = (self.group(), self.is_within_decision());
        let at = Beginning { no: next, first_seq, before, group, is_within };
        let begun = self.begin_segment(at, now)?;
        debug_assert!(
            begun.segment.no == next && begun.segment.first_seq == first_seq,
            "a segment as asked for"
        );
        if !cut.is_empty() {
            self.write(&cut, now)?;
        }
        let last_index = self.index();
        let old = std::mem::replace(&mut self.active, begun.clone());
        debug_assert!(old.segment.no < self.active.segment.no, "segments are numbered upwards");
        let closed = (!is_memory).then(|| (old.clone(), SegmentOrigin::Written, last_index));
        let shared = Arc::clone(&self.shared);
        let mut catalog = shared.catalog_mut();
        let removed = last.map_or(Ok(Removed::default()), |last| catalog.truncate(last));
        let begun = catalog.begin_in_order(NextSegment { segment: begun.segment, closed });
        debug_assert!(
            removed.is_err() || begun.is_err() || catalog.next_decided() == first_seq,
            "a segment begins with the next sequence"
        );
        let mut entered = None;
        if let Some(last) = last {
            shared.release.truncated(last);
            if !cut.is_empty() {
                let batch = self.enter_in(&shared, &old, old.file.end(), last);
                let kept = catalog.put(PlannedBatch::default(), &batch);
                entered = Some((batch, kept));
            }
        }
        drop(catalog);
        let entered = entered.map_or(Ok(()), |(batch, kept)| self.entered(batch, kept).map(drop));
        // Whatever fails below: its file is still to be let go of.
        if !is_memory {
            self.rolled.push(old.clone());
            self.take_closed();
        }
        let removed = removed.and_then(|removed| begun.map(|()| removed));
        let removed = removed.map_err(|error| self.fail(&error.to_string()))?;
        entered?;
        if !is_memory {
            // What is still in memory is written by the round that makes it durable, or by the
            // seal.
            old.file.close().map_err(|error| self.fail(&format!("a write failed: {error}")))?;
        }
        Ok(removed)
    }

    /// Begins a segment, which nothing is appended to yet.
    ///
    /// # Errors
    /// Nothing has changed.
    pub(super) fn begin_segment(&self, at: Beginning, now: Timestamp) -> Result<Active, StoreError> {
        // It would say that it begins where the stream ends that the catalog shows, and take away
        // what is released behind that.
        self.check_followed()?;
        let listener = Some(Arc::clone(&self.shared));
        let begun = self.segment_storage.begin_segment(self.id(), at, self.durability(), listener, now);
        begun.map_err(|error| match error {
            StoreError::Failed(why) => self.fail(&why),
            error => error,
        })
    }

    /// Takes over the segments that the catalog has closed: up to there everything is released.
    pub(super) fn take_closed(&mut self) {
        if self.rolled.is_empty() || !self.shared.catalog().has_closed() {
            return;
        }
        let closed = self.shared.catalog_mut().take_closed();
        let last = closed.last().map(|closed| closed.active.segment.no);
        self.rolled.retain(|active| last.is_some_and(|last| active.segment.no > last));
        self.closed.extend(closed);
    }

    /// The entry that ends the active segment, and says what of the log before it goes.
    pub(super) fn ending(&self, control: &Control<'_>, now: Timestamp) -> Vec<u8> {
        let mut entry = Vec::new();
        let mut batch = EntryBatch::begin(&mut entry, self.active.file.end(), &self.active.segment.context);
        batch.control(control, now);
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

    /// Writes entries that are no messages, as one batch, which is done to the catalog when it is
    /// released. `follow` does it where that is at once, and what it does was decided while nothing
    /// waited. Answers what goes.
    pub(super) fn log(
        &mut self,
        controls: &[Control<'_>],
        now: Timestamp,
        follow: Option<impl FnOnce(&mut Catalog) -> Result<Removed, ReadError>>,
    ) -> Result<Removed, StoreError> {
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
        let plans = || controls.iter().filter_map(|control| Planned::of_control(control, now)).collect();
        let shared = Arc::clone(&self.shared);
        let mut catalog = shared.catalog_mut();
        let before = catalog.next_decided() - 1;
        let last = controls.iter().fold(before, |last, control| last_behind(control, last));
        let entered = self.enter(&shared, end, last);
        let removed = match (&entered, follow) {
            // What it comes behind may be released already, and wait for the catalog alone.
            (Entered::Passes(_), Some(follow)) if !catalog.has_unreleased() => follow(&mut catalog),
            _ => catalog.put(PlannedBatch { index: self.index(), plans: plans() }, &entered),
        };
        drop(catalog);
        self.entered(entered, removed)
    }
}

/// The last sequence behind a control, where `last` was it before.
pub(super) fn last_behind(control: &Control<'_>, last: Seq) -> Seq {
    match control {
        Control::Skip { last: skipped } => last.max(*skipped),
        Control::Trim { first } => last.max(first.saturating_sub(1)),
        _ => last,
    }
}
