//! Packed segments whose footer, or a part of it, is gone: what their sound frames hold goes
//! through the catalog.
//!
//! Nothing here cuts or writes: a packed file was synced as a whole before it got its name, so
//! whatever is missing in it is damage. A job gives it a footer again, in a new file.

use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, OnceLock};

use crate::append_file::{AppendFile, AppendFileOptions};
use crate::config::Durability;
use crate::damage::Damage;
use crate::pack;
use crate::record::{Control, Entry};
use crate::segment::{HEADER_BYTES, Scanned, SegmentHeader, Trailer};
use crate::stream::{Active, SealedFile, Segment, SegmentFile, each_entry, segment_name};
use crate::{FileId, FileKind, SegmentNo, Seq};

use super::apply::Applying;
use super::{Notice, OpenError, Recovering};

impl Recovering<'_> {
    /// Reads the frames of a packed segment into the catalog, one entry after the other.
    pub(super) fn walk_packed(
        &mut self,
        header: &SegmentHeader,
        trailer: Option<&Trailer>,
        behind: &[SegmentNo],
    ) -> Result<(), OpenError> {
        let fault = |damage: Damage| OpenError::new(format!("segment {}", header.segment.0), damage);
        if trailer.is_none() {
            self.note_damaged(header.segment, &Damage::Short("segment footer"));
        }
        let segment = self.packed_segment(header, trailer).map_err(fault)?;
        let unread = |error: crate::ReadError| fault(std::io::Error::other(error.to_string()).into());
        self.begin_walked(Arc::clone(&segment)).map_err(unread)?;
        // Of what counts all is committed, since it was sealed: so what does not must not be read.
        let again = self.given_out_again(header, behind);
        let taken_back = again.map_or(u64::MAX, |(place, _)| place.first_index);
        let known = (self.kept_from, std::mem::take(&mut self.removed));
        let mut applying = Applying::to((&mut self.catalog, &mut self.group), known, &self.report.lost);
        let mut sound = Sound::default();
        let mut counts = true;
        let mut enter = |scanned: Scanned<'_>| {
            sound.add(&segment, &scanned);
            if let Entry::Control(Control::LogEntry(entry)) = &scanned.entry {
                counts = entry.index < taken_back;
            }
            if counts {
                applying.entry(&scanned);
            }
        };
        let damaged = each_entry(&segment, &mut enter).map_err(fault)?;
        let applied = applying.end();
        let passed = self.take_applied(applied).map_err(unread)?;
        self.commit_all().map_err(unread)?;
        let last = match trailer {
            Some(trailer) => Some(trailer.summary.last_seq),
            None => {
                let last = self.last_before(behind, header.first_seq);
                let before = again.map(|(_, first_seq)| first_seq.saturating_sub(1));
                last.map(|last| before.map_or(last, |before| last.min(before)))
            }
        };
        for (bytes, sequences) in sound.gaps(header, segment.records_end(), last, trailer.is_some()) {
            self.lose(segment_name(header.segment), Some(sequences), bytes);
        }
        if let Some(trailer) = trailer {
            self.catalog.skip(trailer.summary.last_seq);
        }
        self.note_frames(header, &damaged);
        self.report_passed(header.segment, passed);
        self.close_walked(segment).map_err(|error| fault(error.into()))
    }

    /// Notes that everything read so far is committed: a segment is sealed behind that only.
    pub(super) fn commit_all(&mut self) -> Result<(), crate::ReadError> {
        self.group.commit_all();
        self.catalog.release_to(self.group.releasable())?;
        self.closed.extend(self.catalog.take_closed());
        Ok(())
    }

    /// Closes the segment whose frames were walked: it gets its footer as one that was never sealed
    /// does, in a new file, so that merges can go on behind it.
    fn close_walked(&mut self, segment: Arc<Segment>) -> std::io::Result<()> {
        let path = self.files.segment_path(segment.no);
        let file = self.files.store_env.disk.open(&path)?;
        let options = AppendFileOptions {
            id: FileId { stream: self.id, kind: FileKind::Segment(segment.no) },
            generation: segment.generation,
            end: file.len()?,
            file,
            path,
            is_new: false,
            durability: Durability::Written,
            bound: u64::from(u32::MAX),
            on_durable: None,
        };
        let file = AppendFile::new(&self.files.store_env.journal, options);
        let closed = self.catalog.close_only(Active { segment, file });
        self.closed.push(closed.recovered(self.group.index()));
        Ok(())
    }

    /// The segment, with the frames that can still be found.
    pub(super) fn packed_segment(
        &mut self,
        header: &SegmentHeader,
        trailer: Option<&Trailer>,
    ) -> Result<Arc<Segment>, Damage> {
        let path = self.files.segment_path(header.segment);
        let context = self.files.context(header).ok_or(Damage::Locked("segment"))?;
        let file = self.files.store_env.disk.open(&path)?;
        let length = file.len()?;
        let end = trailer.map_or(length, |trailer| trailer.records_end);
        let found = pack::rebuild(&*file, context.seed, HEADER_BYTES as u64..end)?;
        // Behind the last frame stand its table and what is left of the footer.
        let frames_end = found.table.frames().last().map_or(HEADER_BYTES as u64, |frame| frame.file().end);
        for bytes in found.damaged.into_iter().filter(|bytes| bytes.start < frames_end) {
            self.report.note(Notice::DamagedEntries { segment: header.segment, bytes, sequences: None });
        }
        let sealed = SealedFile::new(&path, &self.files.store_env.handles, end, length);
        Ok(Arc::new(Segment {
            stream: self.id,
            no: header.segment,
            generation: header.generation,
            first_seq: header.first_seq,
            context,
            source: SegmentFile::Packed(sealed, found.table),
            header: OnceLock::new(),
        }))
    }

    pub(super) fn note_frames(&mut self, header: &SegmentHeader, damaged: &[std::ops::Range<u64>]) {
        for bytes in damaged {
            let (segment, bytes) = (header.segment, bytes.clone());
            self.report.note(Notice::DamagedEntries { segment, bytes, sequences: None });
        }
    }
}

/// First and last sequence of a frame's messages, if it has any.
type Held = Option<(Seq, Seq)>;

/// Contents of the sound frames of a packed segment, by their place in the file.
#[derive(Default)]
pub(super) struct Sound(Vec<(Range<u64>, Held)>);

impl Sound {
    pub(super) fn add(&mut self, segment: &Segment, scanned: &Scanned<'_>) {
        let SegmentFile::Packed(_, frames) = &segment.source else { return };
        let Some(frame) = frames.find(scanned.offset) else { return };
        if self.0.last().is_none_or(|(last, _)| *last != frame.file()) {
            self.0.push((frame.file(), None));
        }
        if let (Entry::Message(message), Some((_, held))) = (&scanned.entry, self.0.last_mut()) {
            *held = Some((held.map_or(message.seq, |(first, _)| first), message.seq));
        }
    }

    /// Places between the sound frames: bytes, and the sequences that they can have had.
    pub(super) fn gaps(
        &self,
        header: &SegmentHeader,
        end: u64,
        last: Option<Seq>,
        has_footer: bool,
    ) -> Vec<(u64, RangeInclusive<Seq>)> {
        let (mut gaps, mut at, mut next, mut missing) =
            (Vec::new(), HEADER_BYTES as u64, header.first_seq, 0);
        for (file, held) in &self.0 {
            missing += file.start.saturating_sub(at);
            at = file.end;
            if let Some((first, last)) = held {
                if missing > 0 {
                    gaps.push((missing, next..=first.saturating_sub(1)));
                }
                (missing, next) = (0, last + 1);
            }
        }
        missing += end.saturating_sub(at);
        if let Some(last) = last
            // Without its footer nothing says how far it went.
            && (missing > 0 || !has_footer)
        {
            gaps.push((missing, next..=last));
        }
        gaps.retain(|(_, sequences)| !sequences.is_empty());
        gaps
    }
}
