//! Sealed segments behind the manifest: their footers say what the stream was like at their end.

use std::sync::{Arc, OnceLock};

use myelin_disk::write_again;

use crate::damage::Damage;
use crate::record::{Control, Entry};
use crate::segment::{self, Changes, Extent, HEADER_BYTES, Scanned, SegmentHeader, Trailer};
use crate::stream::{Form, SealedFile, Segment, SegmentFile, SegmentView, Times, each_entry};
use crate::{SegmentNo, Seq, Timestamp};

use super::{OpenError, Recovering};

impl Recovering<'_> {
    /// The segment of a sealed file.
    pub(super) fn sealed_segment(
        &self,
        header: &SegmentHeader,
        trailer: &Trailer,
    ) -> Result<Segment, Damage> {
        let path = self.files.segment_path(header.segment);
        let context = self.files.context(header).ok_or(Damage::Locked("segment"))?;
        let sealed =
            SealedFile::new(&path, &self.files.store_env.handles, trailer.records_end, trailer.file_len());
        let source = if header.packed {
            let file = sealed.open()?;
            let frames = segment::read_frames(&*file, trailer, &context)?;
            SegmentFile::Packed(sealed, frames)
        } else {
            SegmentFile::Plain(sealed)
        };
        Ok(Segment {
            stream: self.id,
            no: header.segment,
            generation: header.generation,
            first_seq: header.first_seq,
            context,
            source,
            header: OnceLock::new(),
        })
    }

    /// Lays the state at the end of a sealed segment over what is known.
    pub(super) fn apply_sealed(
        &mut self,
        header: &SegmentHeader,
        trailer: &Trailer,
        behind: &[SegmentNo],
    ) -> Result<(), OpenError> {
        let changes = match self.read_changes(header, trailer) {
            Ok(changes) => changes,
            Err(Damage::Io(error)) => {
                return Err(OpenError::new(format!("segment {}", header.segment.0), error));
            }
            Err(damage) => {
                self.note_damaged(header.segment, &damage);
                self.miss_removals();
                if header.packed {
                    return self.walk_packed(header, Some(trailer), behind);
                }
                return self.walk_unsealed(header, Some(trailer.records_end), behind).map(|_| ());
            }
        };
        let segment = match self.sealed_segment(header, trailer) {
            Ok(segment) => Arc::new(segment),
            Err(damage) => return Err(OpenError::new(format!("segment {}", header.segment.0), damage)),
        };
        self.pass_entries(&segment, header, trailer, behind)
            .map_err(|damage| OpenError::new(format!("segment {}", header.segment.0), damage))?;
        if let Err(error) = self.keep_footer(header, trailer) {
            return Err(OpenError::new(format!("segment {}", header.segment.0), error));
        }
        let unread = |error: crate::ReadError| {
            OpenError::new(format!("segment {}", header.segment.0), std::io::Error::other(error.to_string()))
        };
        self.commit_all().map_err(unread)?;
        self.close_open();
        self.close_hole(header.first_seq.saturating_sub(1));
        // After a truncation sequences begin again: those of before are gone, whatever became of
        // them.
        let cut = changes.truncated_to.unwrap_or(Seq::MAX).min(header.first_seq - 1);
        self.catalog.forget_above(cut);
        self.catalog.hide_above(cut);
        self.catalog.apply_changes(header.first_seq, &changes);
        self.kept_from = changes.totals.first_seq;
        self.removed.retain(|range| *range.end() <= cut);
        self.note_removed(&changes.deleted);
        self.catalog.add_sealed(SegmentView {
            segment,
            first_seq: header.first_seq,
            last_seq: last_seq_of(header, &changes),
            times: Times::of(&trailer.summary),
            reached: Timestamp::MIN,
            form: Form::Sealed,
            removed: 0,
        });
        self.catalog.settle_lost();
        self.catalog.retire_emptied();
        self.catalog.forget_touched_subjects();
        self.subjects = self.subjects.behind_footer();
        Ok(())
    }

    /// Finds out where the log of the stream's group ends, if that is in this segment: the header
    /// of the next one would say it, and there is none, or power was lost while it was written.
    fn pass_entries(
        &mut self,
        segment: &Segment,
        header: &SegmentHeader,
        trailer: &Trailer,
        behind: &[SegmentNo],
    ) -> Result<(), Damage> {
        let is_said_behind = || behind.iter().any(|no| self.group_place(*no).is_some());
        if self.group.tail.is_none() || is_said_behind() {
            return Ok(());
        }
        let group = &mut self.group;
        let mut pass = |scanned: Scanned<'_>| match &scanned.entry {
            Entry::Control(Control::LogEntry(entry)) => group.pass(entry),
            Entry::Control(Control::TakenBack { first, chain }) => drop(group.take_back(*first, *chain)),
            _ => {}
        };
        if header.packed {
            return each_entry(segment, &mut pass).map(drop);
        }
        let file = self.files.store_env.disk.open(&self.files.segment_path(header.segment))?;
        let end = trailer.records_end;
        let extent = Extent { from: HEADER_BYTES as u64, to: end, durable: end };
        segment::scan(&*file, header, &segment.context, extent, &mut pass).map(drop)
    }

    /// A process that was killed while it sealed may have left a footer that is seen and not safe.
    /// A manifest is going to count on it. One of a packed file was safe before the file had its
    /// name.
    fn keep_footer(&self, header: &SegmentHeader, trailer: &Trailer) -> std::io::Result<()> {
        if header.packed {
            return Ok(());
        }
        let file = self.files.store_env.disk.open(&self.files.segment_path(header.segment))?;
        write_again(&*file, trailer.records_end, trailer.file_len())
    }

    fn read_changes(&self, header: &SegmentHeader, trailer: &Trailer) -> Result<Changes, Damage> {
        let file = self.files.store_env.disk.open(&self.files.segment_path(header.segment))?;
        let context = self.files.context(header).ok_or(Damage::Locked("segment"))?;
        segment::read_changes(&*file, trailer, &context)
    }
}

/// A segment shows everything that was given out while it was active.
fn last_seq_of(header: &SegmentHeader, changes: &Changes) -> Seq {
    changes.totals.last_seq.max(header.first_seq - 1)
}
