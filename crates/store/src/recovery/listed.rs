//! Segments that the manifest lists and whose footer is gone: tables are made from their entries.
//!
//! The manifest says which messages such a segment shows, and the base which of them were deleted.
//! So lost is what the segment should show and its entries do not have, and nothing else: damage
//! behind the last message is damage to what was left of the footer.

use std::sync::{Arc, OnceLock};

use crate::Timestamp;
use crate::config::Storage;
use crate::damage::Damage;
use crate::manifest::SegmentEntry;
use crate::record::Entry;
use crate::segment::{Damaged, Extent, HEADER_BYTES, Scanned, SegmentHeader};
use crate::stream::{
    Catalog, Form, Rows, SealedFile, Segment, SegmentFile, SegmentView, Times, segment_name, size_of,
};

use super::apply::Passed;
use super::entries::{runs, walk};
use super::packed::Sound;
use super::{Notice, OpenError, Recovering};
use crate::stream::each_entry;

/// Messages of a segment, as its entries have them.
struct Read<'a> {
    header: &'a SegmentHeader,
    catalog: &'a mut Catalog,
    rows: Rows,
    times: Times,
    passed: Passed,
}

impl<'a> Read<'a> {
    fn of(header: &'a SegmentHeader, catalog: &'a mut Catalog) -> Self {
        Self { header, catalog, rows: Rows::default(), times: Times::NONE, passed: Passed::default() }
    }

    fn enter(&mut self, scanned: &Scanned<'_>) {
        let Entry::Message(message) = &scanned.entry else { return };
        let size = size_of(Storage::File, message.subject, message.headers, message.payload);
        let (Ok(delta), Ok(offset), Ok(size)) = (
            u32::try_from(message.seq.wrapping_sub(self.header.first_seq)),
            u32::try_from(scanned.offset),
            u32::try_from(size),
        ) else {
            return self.passed.add(scanned);
        };
        let subject = self.catalog.enter_subject(message.subject);
        if self.rows.push_if_ascending(delta, offset, size, subject) {
            self.times.add(message.timestamp);
        } else {
            self.passed.add(scanned);
        }
    }

    fn found(self) -> Found {
        Found { rows: self.rows, times: self.times, passed: self.passed }
    }
}

/// Result of reading a segment.
struct Found {
    rows: Rows,
    times: Times,
    passed: Passed,
}

impl Recovering<'_> {
    /// A segment that the manifest covers and whose footer is gone.
    pub(super) fn add_without_footer(
        &mut self,
        header: &SegmentHeader,
        entry: &SegmentEntry,
    ) -> Result<(), OpenError> {
        let no = header.segment;
        self.report.note(Notice::Damaged {
            file: segment_name(no),
            what: "it has lost its footer; its entries were read instead".to_owned(),
        });
        let read =
            if header.packed { self.read_frames(header, entry) } else { self.read_entries(header, entry) };
        let (segment, found) = read.map_err(|damage| OpenError::new(format!("segment {}", no.0), damage))?;
        self.report_passed(no, found.passed);
        self.catalog.add_sealed(SegmentView {
            segment,
            first_seq: entry.first_seq,
            last_seq: entry.last_seq,
            times: found.times,
            reached: Timestamp::MIN,
            form: Form::Closed(Arc::new(found.rows)),
            removed: 0,
        });
        Ok(())
    }

    fn read_frames(
        &mut self,
        header: &SegmentHeader,
        entry: &SegmentEntry,
    ) -> Result<(Arc<Segment>, Found), Damage> {
        let segment = self.packed_segment(header, None)?;
        let (mut read, mut sound) = (Read::of(header, &mut self.catalog), Sound::default());
        let mut visit = |scanned: Scanned<'_>| {
            sound.add(&segment, &scanned);
            read.enter(&scanned);
        };
        let damaged = each_entry(&segment, &mut visit)?;
        let found = read.found();
        self.note_frames(header, &damaged);
        for (bytes, sequences) in sound.gaps(header, segment.records_end(), Some(entry.last_seq), false) {
            self.lose_live(header.segment, sequences, bytes);
        }
        Ok((segment, found))
    }

    fn read_entries(
        &mut self,
        header: &SegmentHeader,
        entry: &SegmentEntry,
    ) -> Result<(Arc<Segment>, Found), Damage> {
        let path = self.files.segment_path(header.segment);
        let file = self.files.store_env.disk.open(&path)?;
        let context = self.files.context(header).ok_or(Damage::Locked("segment"))?;
        let to = file.len()?;
        let extent = Extent { from: HEADER_BYTES as u64, to, durable: entry.file_len.min(to) };
        let mut read = Read::of(header, &mut self.catalog);
        let scan = walk(&*file, header, &context, extent, &mut |scanned| read.enter(&scanned))?;
        let found = read.found();
        for place in runs(&scan.damaged) {
            self.report_missing_rows(entry, place, &found.rows, header);
        }
        // A file that ends early, as an older copy of it does, has nothing there to be damaged.
        if scan.damaged.last().is_none_or(|place| place.last_seq.is_some()) {
            let end = scan.end.offset();
            let first_seq =
                found.rows.last_delta().map_or(0, |delta| header.first_seq + u64::from(delta) + 1);
            let behind = Damaged { bytes: end..entry.file_len.max(end), first_seq, last_seq: None };
            self.report_missing_rows(entry, behind, &found.rows, header);
        }
        let sealed = SealedFile::new(&path, &self.files.store_env.handles, scan.end.offset(), to);
        let segment = Segment {
            stream: self.id,
            no: header.segment,
            generation: header.generation,
            first_seq: header.first_seq,
            context,
            source: SegmentFile::Plain(sealed),
            header: OnceLock::new(),
        };
        Ok((Arc::new(segment), found))
    }

    /// Reports a damaged place: of the messages that it can have had, those are lost that the
    /// stream should have and no entry is.
    fn report_missing_rows(
        &mut self,
        entry: &SegmentEntry,
        place: Damaged,
        rows: &Rows,
        header: &SegmentHeader,
    ) {
        let is_there = |seq| {
            let delta = u32::try_from(seq - header.first_seq);
            delta.is_ok_and(|delta| rows.row_of(delta).is_some())
        };
        let last = place.last_seq.unwrap_or(entry.last_seq).min(entry.last_seq);
        let first = place.first_seq.max(entry.first_seq).max(header.first_seq);
        let mut missing = (first..=last).filter(|seq| self.catalog.contains(*seq) && !is_there(*seq));
        let sequences = missing.next().map(|first| first..=missing.next_back().unwrap_or(first));
        if sequences.is_none() && place.last_seq.is_none() {
            // Only the footer stood there.
            return;
        }
        self.lose(segment_name(entry.no), sequences.clone(), place.bytes.end - place.bytes.start);
        self.report.note(Notice::DamagedEntries { segment: entry.no, bytes: place.bytes, sequences });
    }
}
