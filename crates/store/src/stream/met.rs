//! Damage that readers of a stream meet. A start does not read sealed segments, so nobody has told
//! of it before.

use std::sync::{Arc, Mutex};

use myelin_stdx::sync::lock;

use crate::Seq;
use crate::ranges::Ranges;
use crate::recovery::Lost;

use super::catalog::Catalog;
use super::errors::ReadError;
use super::packed_entries::can_unpack;
use super::segment_view::{Segment, SegmentFile, segment_name};
use super::shared::{ReleaseListener, StreamShared};

/// Damage that was met since the stream was opened: each message once.
#[derive(Debug, Default)]
pub(super) struct Met(Mutex<(Ranges, Vec<Lost>)>);

impl Met {
    /// Adds what was not met before. Answers how many places there are now, if it is one more.
    fn add(&self, lost: &Lost) -> Option<usize> {
        let mut met = lock(&self.0);
        let (sequences, segments) = &mut *met;
        if sequences.contains(*lost.sequences.start()) {
            return None;
        }
        *sequences = sequences.union(&Ranges::from_ranges([lost.sequences.clone()]));
        match segments.last_mut() {
            // One who reads on meets the next one.
            Some(last) if last.file == lost.file && *last.sequences.end() + 1 == *lost.sequences.start() => {
                last.sequences = *last.sequences.start()..=*lost.sequences.end();
                last.bytes += lost.bytes;
            }
            _ => segments.push(lost.clone()),
        }
        Some(sequences.count() as usize)
    }

    pub(super) fn all(&self) -> Vec<Lost> {
        lock(&self.0).1.clone()
    }
}

impl StreamShared {
    /// Hands a read's outcome on; that the message of `seq` is damaged is kept, and told the first
    /// time. Not to be called under the catalog's lock.
    pub(super) fn watched<T>(&self, seq: Seq, read: Result<T, ReadError>) -> Result<T, ReadError> {
        if let Err(ReadError::Damaged(_)) = &read {
            self.meet(seq);
        }
        read
    }

    pub(super) fn meet(&self, seq: Seq) {
        // In a statement of its own: who listens may ask for the stream's state, and nobody reads a
        // file under the lock.
        let place = damaged_with(&self.catalog(), seq);
        let lost = place.map(|(frame, alone)| match frame {
            Some((lost, segment, offset)) if !can_unpack(&segment, offset) => lost,
            // The frame is what was written: what is wrong is this message, such as one that was
            // erased and whose deletion is lost.
            _ => alone,
        });
        if let Some(lost) = lost
            && let Some(count) = self.met.add(&lost)
            && let Some(ReleaseListener(listener)) = self.on_release.get()
        {
            listener.damaged(self.id, &lost, count);
        }
    }
}

/// Loss of all messages of a frame, the segment, and where one of them begins.
type LostFrame = (Lost, Arc<Segment>, u64);

/// Loss that includes the message of `seq`: with its frame, if it is in one, and alone. `None` if
/// it was removed, or if the start has told that it is lost.
fn damaged_with(catalog: &Catalog, seq: Seq) -> Option<(Option<LostFrame>, Lost)> {
    if !catalog.contains(seq) {
        return None;
    }
    let view = &catalog.segments()[catalog.segment_of(seq)?];
    let first = view.segment.first_seq;
    let table = catalog.table(catalog.segment_of(seq)?).ok()?;
    let row = table.row_of(seq - first)?;
    let file = segment_name(view.segment.no);
    let alone = Lost { file: file.clone(), sequences: seq..=seq, bytes: table.size(row) };
    let SegmentFile::Packed(_, frames) = &view.segment.source else { return Some((None, alone)) };
    // A frame has one checksum: it is there with all its messages, or with none.
    let frame = frames.find(table.offset(row))?;
    let is_in = |row: &usize| frame.raw().contains(&table.offset(*row));
    let from = (0..row).rev().take_while(is_in).last().unwrap_or(row);
    let to = (row..table.len()).take_while(is_in).last().unwrap_or(row);
    let seq_of = |row| first + u64::from(table.delta(row));
    let sequences = seq_of(from).max(catalog.totals().first_seq)..=seq_of(to).min(view.last_seq);
    let lost = Lost { file, sequences, bytes: u64::from(frame.size) };
    Some((Some((lost, Arc::clone(&view.segment), table.offset(row))), alone))
}
