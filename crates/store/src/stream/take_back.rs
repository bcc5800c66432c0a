//! Entries of a group's log that were appended and not committed are taken back: another leader
//! has decided others in their place.
//!
//! They have left nothing in the catalog, so what is to be done is to say it in the files. The
//! active segment ends with an entry that says it; a new one begins, whose header does, too. What
//! was taken back stays in its file and counts for nothing.

use std::sync::Arc;

use crate::id::nanos;
use crate::record::Control;
use crate::{SegmentNo, Seq, Timestamp};

use super::active::SegmentOrigin;
use super::catalog::NextSegment;
use super::errors::StoreError;
use super::group_log::LogTail;
use super::segment_storage::{Beginning, CONTROL_ROOM};
use super::{Stream, Ticket};

/// Entries that were taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// Ticket of the first batch among them: neither it nor a later one that was given out until
    /// then is ever released. `None` if there was nothing to take back.
    pub first_ticket: Option<Ticket>,
    /// The last sequence before them: those behind it are given out again.
    pub last_seq: Seq,
}

impl Stream {
    /// Takes back the entries of the group's log from index `first` on: messages come off with
    /// everything that was kept of them, and what was to go with these entries stays. The next
    /// entry has the index `first`.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed: it has no group
    /// ([`StoreError::NotNext`]), one of the entries is committed ([`StoreError::Committed`]), or
    /// the disk is full.
    pub fn take_back(&mut self, first: u64, now: Timestamp) -> Result<TakenBack, StoreError> {
        self.check()?;
        let position = self.group().ok_or(StoreError::NotNext { expected: 0 })?;
        if first <= position.commit {
            return Err(StoreError::Committed { through: position.commit });
        }
        let last_seq = self.shared.catalog().last_before(first);
        if first > position.index {
            return Ok(TakenBack { first_ticket: None, last_seq });
        }
        // In this segment, however full: one that is begun before the entries are gone would have
        // indexes and sequences behind them.
        self.or_from_headroom(|stream| {
            stream.active.file.reserve(CONTROL_ROOM).map(drop).map_err(StoreError::from_io)
        })?;
        let before = self.group.as_ref().and_then(|group| group.tail.before(first));
        let Some(before) = before else {
            return Err(self.fail("the log of the group does not know what was before an entry"));
        };
        let spans_segments = self.shared.catalog().begins_from(first);
        let first_ticket =
            self.or_from_headroom(|stream| stream.begin_again(first, last_seq, &before, now))?;
        self.forget_erasures(first);
        if let Some(group) = &mut self.group {
            group.take_back(first, before);
        }
        if spans_segments {
            self.sync_all(now)?;
        }
        Ok(TakenBack { first_ticket, last_seq })
    }

    /// Begins the segment that gives out indexes from `first` on, and has the catalog forget what
    /// had them before.
    fn begin_again(
        &mut self,
        first: u64,
        last_seq: Seq,
        tail: &LogTail,
        now: Timestamp,
    ) -> Result<Option<Ticket>, StoreError> {
        let is_memory = self.segment_storage.is_memory();
        let taken_back = Control::TakenBack { first, chain: tail.position().chain };
        let mark = if is_memory { Vec::new() } else { self.ending(&taken_back, now) };
        let next = SegmentNo(self.active.segment.no.0 + 1);
        let before = self.active.file.end() + mark.len() as u64;
        let (group, is_within) = (Some(tail.position()), tail.is_within());
        let at = Beginning { no: next, first_seq: last_seq + 1, before, group, is_within };
        let begun = self.begin_segment(at, now)?;
        if !mark.is_empty() && !myelin_stdx::planted::bug(137) {
            self.write(&mark, now)?;
        }
        let old = std::mem::replace(&mut self.active, begun.clone());
        let closed = (!is_memory).then(|| (old.clone(), SegmentOrigin::Written, first - 1));
        let mut catalog = self.shared.catalog_mut();
        let taken = catalog.take_back(first);
        let first_ticket = self.shared.release.take_back(first);
        let begun = catalog.begin_in_order(NextSegment { segment: begun.segment, closed });
        debug_assert!(
            taken.is_err() || begun.is_err() || catalog.next_decided() == last_seq + 1,
            "a segment begins with the next sequence"
        );
        drop(catalog);
        if !is_memory {
            self.rolled.push(old.clone());
            self.take_closed();
        }
        taken.and(begun).map_err(|error| self.fail(&error.to_string()))?;
        if !is_memory {
            old.file.close().map_err(|error| self.fail(&format!("a write failed: {error}")))?;
        }
        Ok(first_ticket)
    }

    /// Makes the log durable. Of several segments the first may be sealed, and hold what was taken
    /// back: only the last one says so.
    fn sync_all(&self, now: Timestamp) -> Result<(), StoreError> {
        let Some(files) = self.segment_storage.files() else { return Ok(()) };
        let journal = Arc::clone(&files.store_env.journal);
        let synced = journal.round_now(&|| nanos(now));
        synced.map(drop).map_err(|error| self.fail(&format!("a sync failed: {error}")))
    }
}
