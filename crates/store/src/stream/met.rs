//! Damage that readers of a stream meet. A start does not read sealed segments, so nobody has told
//! of it before.

use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use myelin_disk::is_unreadable;
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
pub(super) struct Met {
    damage: Mutex<MetDamage>,
    /// Whether others have what is damaged here, and are to give it.
    is_mended: AtomicBool,
}

#[derive(Debug, Default)]
struct MetDamage {
    /// Messages that the start has told of.
    told: Ranges,
    met: Ranges,
    places: Vec<Lost>,
}

impl Met {
    /// The start has told of these losses.
    pub(super) fn note_told(&self, lost: &[Lost]) {
        lock(&self.damage).told = Ranges::from_ranges(lost.iter().map(|lost| lost.sequences.clone()));
    }

    /// Adds what was not met before. Answers how many places there are now, if it is one more.
    fn add(&self, lost: &Lost) -> Option<usize> {
        let mut met = lock(&self.damage);
        let MetDamage { told, met, places } = &mut *met;
        let first = *lost.sequences.start();
        if told.contains(first) || met.contains(first) {
            return None;
        }
        *met = met.union(&Ranges::from_ranges([lost.sequences.clone()]));
        match places.last_mut() {
            // One who reads on meets the next one.
            Some(last) if last.file == lost.file && *last.sequences.end() + 1 == *lost.sequences.start() => {
                last.sequences = *last.sequences.start()..=*lost.sequences.end();
                last.bytes += lost.bytes;
            }
            _ => places.push(lost.clone()),
        }
        Some(met.count() as usize)
    }

    /// Parts of a loss of which nobody has been told.
    fn untold(&self, lost: &Lost) -> Vec<Lost> {
        let met = lock(&self.damage);
        lost.without(&met.told.union(&met.met))
    }

    pub(super) fn set_mended(&self, is_mended: bool) {
        self.is_mended.store(is_mended, Relaxed);
    }

    pub(super) fn is_mended(&self) -> bool {
        self.is_mended.load(Relaxed)
    }

    pub(super) fn all(&self) -> Vec<Lost> {
        lock(&self.damage).places.clone()
    }
}

impl StreamShared {
    /// Hands a read's outcome on; that the message of `seq` is damaged is kept, and told the first
    /// time. Not to be called under the catalog's lock.
    pub(super) fn watched<T>(&self, seq: Seq, read: Result<T, ReadError>) -> Result<T, ReadError> {
        if let Err(ReadError::Damaged(_)) = &read {
            self.meet(seq);
        }
        read.map_err(|error| self.unless_mended(error))
    }

    /// Damage that others mend is a trouble of the disk like those that pass: whoever passes over
    /// what is damaged waits, as he does there.
    pub(super) fn unless_mended(&self, error: ReadError) -> ReadError {
        match error {
            ReadError::Damaged(why) if self.met.is_mended() => {
                ReadError::Io(io::Error::other(format!("{why}, and others have it")))
            }
            error => error,
        }
    }

    /// Hands a read's outcome on, and tells that the device refuses what others have: it may not
    /// another time, but they can read it now.
    pub(super) fn told<T>(&self, read: Result<T, ReadError>) -> Result<T, ReadError> {
        if let Err(ReadError::Io(error)) = &read
            && self.met.is_mended()
            && is_unreadable(error)
            && let Some(ReleaseListener(listener)) = self.on_release.get()
        {
            listener.unreadable(self.id, error);
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
        lost.iter().for_each(|lost| self.tell(lost));
    }

    /// Tells of the messages among these that count and that no table names: who looks for messages
    /// in the tables passes over them. Not to be called under the catalog's lock.
    ///
    /// # Errors
    /// There are some, and others have them.
    pub(super) fn meet_unnamed(&self, sequences: RangeInclusive<Seq>) -> Result<(), ReadError> {
        let lost = live_runs(&self.catalog(), sequences);
        lost.iter().flat_map(|lost| self.met.untold(lost)).for_each(|lost| self.tell(&lost));
        if lost.is_empty() || !self.met.is_mended() {
            return Ok(());
        }
        Err(ReadError::Io(io::Error::other("no table names messages that others have")))
    }

    fn tell(&self, lost: &Lost) {
        let Some(count) = self.met.add(lost) else { return };
        if lost.bytes == 0 {
            // No table names it, and its subject goes on to count it.
            self.catalog_mut().note_lost();
        }
        if let Some(ReleaseListener(listener)) = self.on_release.get() {
            listener.damaged(self.id, lost, count);
        }
    }
}

/// The sequences among these that were not removed, with the segments that should have them.
fn live_runs(catalog: &Catalog, sequences: RangeInclusive<Seq>) -> Vec<Lost> {
    let totals = catalog.totals();
    let mut next = totals.first_seq.max(*sequences.start());
    let last = if totals.messages == 0 { 0 } else { totals.last_seq.min(*sequences.end()) };
    let mut runs = Vec::new();
    loop {
        let first = catalog.deleted().next_live(next);
        if first > last {
            return runs;
        }
        let gone = catalog.deleted().ranges_from(first).next();
        let mut end = gone.map_or(last, |range| last.min(*range.start() - 1));
        if let Some(view) = catalog.segments().get(catalog.segment_from(first)) {
            // What no segment shows was there before the next one: a start has told of it.
            end = end.min(if view.first_seq > first { view.first_seq - 1 } else { view.last_seq });
            let file = segment_name(view.segment.no);
            runs.push(Lost { file, sequences: first..=end, bytes: 0 });
        }
        next = end + 1;
    }
}

/// Loss of all messages of a frame, the segment, and where one of them begins.
type LostFrame = (Lost, Arc<Segment>, u64);

/// Loss that includes the message of `seq`: with its frame, if it is in one, and alone. `None` if
/// it was removed, or if nothing is known of where it was.
fn damaged_with(catalog: &Catalog, seq: Seq) -> Option<(Option<LostFrame>, Lost)> {
    if !catalog.contains(seq) {
        return None;
    }
    let view = &catalog.segments()[catalog.segment_of(seq)?];
    let first = view.segment.first_seq;
    let table = catalog.table(catalog.segment_of(seq)?).ok()?;
    let file = segment_name(view.segment.no);
    let Some(row) = table.row_of(seq - first) else {
        // The table was made of the entries, and it is not among those that are left.
        return Some((None, Lost { file, sequences: seq..=seq, bytes: 0 }));
    };
    let alone = Lost { file: file.clone(), sequences: seq..=seq, bytes: table.size(row) };
    let SegmentFile::Packed(_, frames) = &view.segment.source else { return Some((None, alone)) };
    // A frame has one checksum: it is there with all its messages, or with none.
    let Some(frame) = frames.find(table.offset(row)) else {
        // The table of frames was made of those that are left.
        return Some((None, alone));
    };
    let is_in = |row: &usize| frame.raw().contains(&table.offset(*row));
    let from = (0..row).rev().take_while(is_in).last().unwrap_or(row);
    let to = (row..table.len()).take_while(is_in).last().unwrap_or(row);
    let seq_of = |row| first + u64::from(table.delta(row));
    let sequences = seq_of(from).max(catalog.totals().first_seq)..=seq_of(to).min(view.last_seq);
    let lost = Lost { file, sequences, bytes: u64::from(frame.size) };
    Some((Some((lost, Arc::clone(&view.segment), table.offset(row))), alone))
}
