//! Segments without a footer: their entries are walked one by one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use myelin_disk::{File, write_again};

use crate::append_file::{AppendFile, AppendFileOptions, OnDurable};
use crate::config::Durability;
use crate::damage::Damage;
use crate::record::{Control, Entry, FileContext};
use crate::segment::{self, Damaged, Extent, HEADER_BYTES, ScanEnd, Scanned, SegmentHeader};
use crate::stream::{
    Active, Beginning, Files, LogTail, NextSegment, SEGMENT_SPAN, Segment, SegmentFile, SegmentOrigin,
    StreamShared, segment_name,
};
use crate::watermarks::LogPosition;
use crate::{FileId, FileKind, ReadError, SegmentNo, Seq, Timestamp};

use super::apply::{Applied, Applying};
use super::directory::{place_aside, set_aside};
use super::group::GroupTail;
use super::{Notice, OpenError, Recovering};
use crate::stream::Stream;

/// How far later segments say that a file was synced.
pub(super) type Durables = BTreeMap<SegmentNo, u64>;

impl Recovering<'_> {
    /// Walks the entries of a segment into the catalog; it becomes the open one. `sealed_end` is
    /// where its entries end, if it was sealed and says so. Answers false if its end was torn and
    /// everything behind it was therefore set aside.
    pub(super) fn walk_unsealed(
        &mut self,
        header: &SegmentHeader,
        sealed_end: Option<u64>,
        behind: &[SegmentNo],
    ) -> Result<bool, OpenError> {
        let no = header.segment;
        let fault = |damage: Damage| OpenError::new(format!("segment {}", no.0), damage);
        let file = self.files.store_env.disk.open(&self.files.segment_path(no));
        let opened = file.and_then(|file| Ok((file.len()?, file)));
        let (length, file) = opened.map_err(|error| fault(error.into()))?;
        let context = self.files.context(header).ok_or_else(|| fault(Damage::Locked("segment")))?;
        let sealed_end = sealed_end.or_else(|| self.whole_end(header, length, behind));
        let whole_end = grown_end(&*file, (header, &context), sealed_end, length).map_err(fault)?;
        let stated = whole_end.or_else(|| self.stated.end_of(no, header.generation)).unwrap_or(0);
        // Behind that stands a footer, or what is left of one.
        let length = whole_end.map_or(length, |end| end.min(length));
        let mut extent = Extent { from: HEADER_BYTES as u64, to: length, durable: stated };
        // First without a word to the catalog: only then is it known where the log ends.
        let mut sealing_from = None;
        let mut scan = walk(&*file, header, &context, extent, &mut |scanned| {
            if let Entry::Control(Control::Durable { segment, offset }) = scanned.entry
                && segment == no
            {
                // Seals write this, and nothing behind it but a footer.
                sealing_from = (offset == scanned.offset).then_some(offset + scanned.size as u64);
            }
        })
        .map_err(fault)?;
        if let ScanEnd::Torn { at: end, ref valid_after } = scan.end
            && sealing_from == Some(end)
            && valid_after.is_empty()
        {
            // A footer that was not finished: it would have said no more than the entries do.
            file.set_len(end).map_err(|error| fault(error.into()))?;
            scan.end = ScanEnd::Clean { end };
        }
        if matches!(scan.end, ScanEnd::Torn { .. }) && !behind.is_empty() {
            extent.durable = self.durables(behind).get(&no).copied().unwrap_or(0).max(stated);
            scan = walk(&*file, header, &context, extent, &mut |_| {}).map_err(fault)?;
        }
        scan.end = self.compare_end(no, scan.end, behind);
        if let ScanEnd::Clean { end } = scan.end
            && (!behind.is_empty() || whole_end.is_some())
        {
            file.set_len(end).map_err(|error| fault(error.into()))?;
        }
        let end = scan.end.offset();
        let unread = |error: ReadError| fault(std::io::Error::other(error.to_string()).into());
        self.begin_unsealed(header, &file, context.clone(), end).map_err(unread)?;
        let applied = self.apply_entries(&*file, header, &context, end).map_err(fault)?;
        let passed = self.take_applied(applied).map_err(unread)?;
        self.report_damaged(no, &scan.damaged, behind);
        self.report_passed(no, passed);
        let whole =
            self.finish_end(no, &file, &scan.end, length, behind).map_err(|error| fault(error.into()))?;
        if whole {
            self.report_short(no, scan.end.offset(), behind);
        }
        // From its beginning: what the log calls synced may have been so in the journal only.
        write_again(&*file, 0, end).map_err(|error| fault(error.into()))?;
        Ok(whole)
    }

    /// Has the entries of a segment go through the catalog.
    fn apply_entries(
        &mut self,
        file: &dyn File,
        header: &SegmentHeader,
        context: &FileContext,
        end: u64,
    ) -> Result<Applied, Damage> {
        let known = (self.kept_from, std::mem::take(&mut self.removed));
        let mut applying = Applying::to((&mut self.catalog, &mut self.group), known, &self.report.lost);
        if header.generation == 0 {
            applying.seek_gaps(header.first_seq);
        }
        let visitor = &mut *self.visitor;
        let extent = Extent { from: HEADER_BYTES as u64, to: end, durable: end };
        walk(file, header, context, extent, &mut |scanned| {
            if let Entry::Message(message) = &scanned.entry {
                visitor(message.seq, message.headers);
            }
            applying.entry(&scanned);
        })?;
        Ok(applying.end())
    }

    /// Where the entries of a segment end of which all was synced: nothing is appended to one once
    /// there is a next one, which says where that was.
    fn whole_end(&self, header: &SegmentHeader, length: u64, behind: &[SegmentNo]) -> Option<u64> {
        let no = header.segment;
        if self.stated.end_of(no, header.generation).is_some() {
            return None;
        }
        let next = self.next_header(no, behind)?;
        match next.before {
            // It was begun, or packed, when this one was sealed already, and so had this length.
            0 => self.was_synced(no, length, behind).then_some(length),
            before => self.stated.covers(SegmentNo(no.0 + 1), 0).then_some(before),
        }
    }

    /// Header of the next segment, if that can be read.
    pub(super) fn next_header(&self, no: SegmentNo, behind: &[SegmentNo]) -> Option<SegmentHeader> {
        let next = behind.first().filter(|next| next.0 == no.0 + 1)?;
        self.read_ends(*next).ok().map(|(header, _)| header)
    }

    /// The end of a segment in the light of what the next one says: a tail that reads as zeros
    /// looks like none, and a footer that was begun like a torn one.
    fn compare_end(&mut self, no: SegmentNo, found: ScanEnd, behind: &[SegmentNo]) -> ScanEnd {
        let next = self.next_header(no, behind);
        let Some(expected) = next.map(|header| header.before).filter(|before| *before > 0) else {
            return found;
        };
        if self.stated.covers(SegmentNo(no.0 + 1), 0) && matches!(found, ScanEnd::Clean { .. }) {
            // The scan knew of it.
            return found;
        }
        match found {
            ScanEnd::Clean { end } if end < expected => {
                if !self.was_synced(no, expected, behind) {
                    return ScanEnd::Torn { at: end, valid_after: Vec::new() };
                }
                self.report.note(Notice::DamagedEntries {
                    segment: no,
                    bytes: end..expected,
                    sequences: None,
                });
                ScanEnd::Clean { end }
            }
            ScanEnd::Torn { at, .. } if at >= expected => ScanEnd::Clean { end: at },
            found => found,
        }
    }

    /// Reads from the entries of later segments what was synced.
    pub(super) fn durables(&self, behind: &[SegmentNo]) -> Durables {
        let mut durables = Durables::new();
        for &no in behind {
            // What cannot be read proves nothing.
            let Ok((header, _)) = self.read_ends(no) else { continue };
            let Ok(file) = self.files.store_env.disk.open(&self.files.segment_path(no)) else { continue };
            let (Some(context), Ok(to)) = (self.files.context(&header), file.len()) else { continue };
            if header.packed {
                continue;
            }
            let extent = Extent { from: HEADER_BYTES as u64, to, durable: 0 };
            let _ = walk(&*file, &header, &context, extent, &mut |scanned| {
                if let Entry::Control(Control::Durable { segment, offset }) = scanned.entry {
                    let known = durables.entry(segment).or_default();
                    *known = (*known).max(offset);
                }
            });
        }
        durables
    }

    fn begin_unsealed(
        &mut self,
        header: &SegmentHeader,
        file: &Arc<dyn File>,
        context: FileContext,
        end: u64,
    ) -> Result<(), ReadError> {
        let id = FileId { stream: self.id, kind: FileKind::Segment(header.segment) };
        let options = AppendFileOptions {
            id,
            generation: header.generation,
            file: Arc::clone(file),
            path: self.files.segment_path(header.segment),
            end,
            is_new: false,
            durability: Durability::Written,
            bound: u64::from(u32::MAX),
            on_durable: None,
        };
        let file = AppendFile::new(&self.files.store_env.journal, options);
        let segment = Arc::new(Segment {
            stream: self.id,
            no: header.segment,
            generation: header.generation,
            first_seq: header.first_seq,
            context,
            source: SegmentFile::Appended(Arc::clone(&file)),
            header: OnceLock::new(),
        });
        self.begin_walked(Arc::clone(&segment))?;
        self.open = Some(Active { segment, file });
        Ok(())
    }

    /// Makes a segment the one that entries go into.
    pub(super) fn begin_walked(&mut self, segment: Arc<Segment>) -> Result<(), ReadError> {
        self.settle_subjects();
        self.close_hole(segment.first_seq.saturating_sub(1));
        if self.catalog.has_unreleased() {
            let closed = self.open.take();
            let closed = closed.map(|open| (open, SegmentOrigin::Recovered, self.group.index()));
            return self.catalog.begin_in_order(NextSegment { segment, closed });
        }
        self.close_open();
        if segment.first_seq <= self.catalog.totals().last_seq {
            // Sequences that begin again are the sign of a truncation.
            self.catalog.truncate(segment.first_seq - 1)?;
            self.begin_again(segment.first_seq - 1);
        }
        self.catalog.begin_segment(segment);
        Ok(())
    }

    /// Closes the open segment because another one comes behind it.
    pub(super) fn close_open(&mut self) {
        // Those that waited for their release come before it.
        self.closed.extend(self.catalog.take_closed());
        if let Some(open) = self.open.take() {
            // The segment that comes next has said where the log stands.
            self.closed.push(self.catalog.close_only(open).recovered(self.group.index()));
        }
    }

    fn report_damaged(&mut self, no: SegmentNo, damaged: &[Damaged], behind: &[SegmentNo]) {
        for place in runs(damaged) {
            let last = place.last_seq.or_else(|| self.last_before(behind, place.first_seq));
            // Some may be there: bytes of another place of the file do not decrypt here, and the
            // journal may have written others again.
            let missing = last.map(|last| self.missing(place.first_seq..=last)).unwrap_or_default();
            let mut bytes = place.bytes.end - place.bytes.start;
            for sequences in &missing {
                self.lose(segment_name(no), Some(sequences.clone()), std::mem::take(&mut bytes));
            }
            let ends = missing.first().zip(missing.last());
            let sequences = ends.map(|(first, last)| *first.start()..=*last.end());
            self.report.note(Notice::DamagedEntries { segment: no, bytes: place.bytes, sequences });
        }
    }

    /// Parts of a range whose sequences the catalog does not have.
    fn missing(&self, range: RangeInclusive<Seq>) -> Vec<RangeInclusive<Seq>> {
        let (mut missing, mut from) = (Vec::new(), *range.start());
        // Behind its end there is none to look for: what stands there may be any number.
        let known = (*range.end()).min(self.catalog.totals().last_seq);
        for seq in *range.start()..=known {
            if self.catalog.contains(seq) {
                missing.extend((from < seq).then(|| from..=seq - 1));
                from = seq + 1;
            }
        }
        missing.extend((from <= *range.end()).then(|| from..=*range.end()));
        missing
    }

    /// Cuts what is torn. Everything is on disk then and may be released.
    fn finish_end(
        &mut self,
        no: SegmentNo,
        file: &Arc<dyn File>,
        end: &ScanEnd,
        length: u64,
        behind: &[SegmentNo],
    ) -> std::io::Result<bool> {
        let ScanEnd::Torn { at, valid_after } = end else { return Ok(true) };
        let kept = if valid_after.is_empty() { None } else { Some(self.keep_tail(no, file, *at, length)?) };
        self.report.note(Notice::Cut { segment: no, at: *at, kept });
        file.set_len(*at)?;
        // Backwards: a crash in between leaves a log without holes.
        for &later in behind.iter().rev() {
            set_aside(
                self.files,
                &crate::stream::segment_name(later),
                "it follows the torn end of the log",
                &mut self.report,
            );
        }
        self.files.store_env.disk.sync_directory(&self.files.directory)?;
        Ok(behind.is_empty())
    }

    fn keep_tail(
        &self,
        no: SegmentNo,
        file: &Arc<dyn File>,
        from: u64,
        to: u64,
    ) -> std::io::Result<std::path::PathBuf> {
        let disk = &*self.files.store_env.disk;
        let root = self.files.directory.ancestors().nth(2).unwrap_or(&self.files.directory);
        let stream = format!("{:016x}", self.id.0);
        let name = format!("{}.from-{from}", crate::stream::segment_name(no));
        let path = place_aside(disk, root, &stream, &name)?;
        let copy = disk.create(&path)?;
        let mut at = from;
        let mut piece = vec![0; 1 << 20];
        while at < to {
            let wanted = usize::try_from(to - at).map_or(piece.len(), |rest| rest.min(piece.len()));
            let read = file.read_at(&mut piece[..wanted], at)?;
            if read == 0 {
                break;
            }
            copy.write_at(&piece[..read], at - from)?;
            at += read as u64;
        }
        copy.sync()?;
        Ok(path)
    }
}

/// Damaged places, those that touch taken as one: what lies behind the end of a file that was cut
/// goes on where its last part is broken.
pub(super) fn runs(damaged: &[Damaged]) -> impl Iterator<Item = Damaged> {
    let touch =
        |one: &Damaged, next: &Damaged| one.bytes.end == next.bytes.start && one.first_seq == next.first_seq;
    damaged.chunk_by(touch).filter_map(|run| {
        let (first, last) = (run.first()?, run.last()?);
        Some(Damaged { bytes: first.bytes.start..last.bytes.end, ..*last })
    })
}

pub(super) fn walk(
    file: &dyn File,
    header: &SegmentHeader,
    context: &FileContext,
    extent: Extent,
    visit: &mut dyn FnMut(Scanned<'_>),
) -> Result<segment::Scan, Damage> {
    segment::scan(file, header, context, extent, visit)
}

/// Makes the last segment grow again, or begins a new one.
pub(super) fn resume(
    shared: &Arc<StreamShared>,
    files: &Files,
    open: Option<Active>,
    (last, stated): (SegmentNo, LogPosition),
    (durability, group): (Durability, &GroupTail),
    now: Timestamp,
) -> Result<Active, OpenError> {
    let listener = Arc::clone(shared) as Arc<dyn OnDurable>;
    let unread = |error: ReadError| OpenError::new("a segment", std::io::Error::other(error.to_string()));
    if let Some(open) = &open
        && open.segment.context.cipher.is_none()
        && !group.is_taken_back
        && can_grow(open, last, stated, shared)
    {
        let reopened = reopen(open, files, durability, listener);
        let replaced = shared.catalog_mut().replace_open(Arc::clone(&reopened.segment));
        replaced.map_err(unread)?;
        return Ok(reopened);
    }
    // An encrypted segment is never written again where something may have stood: no nonce is used
    // twice.
    let no = SegmentNo(last.0 + 1);
    let first_seq: Seq = shared.catalog().next_decided();
    if open.is_none() && last == SegmentNo(0) && stated == LogPosition::START {
        // Nothing was ever stored.
        let active = Stream::placeholder(shared.id, Beginning::anew(no, first_seq), now);
        shared.catalog_mut().begin_segment(Arc::clone(&active.segment));
        return Ok(active);
    }
    let before = open.as_ref().map_or(0, |open| open.file.end());
    let is_within = group.tail.as_ref().is_some_and(LogTail::is_within);
    let group = group.position();
    let at = Beginning { no, first_seq, before, group, is_within };
    let begun = files
        .begin_segment(shared.id, at, durability, Some(Arc::clone(shared)), now)
        .map_err(|error| OpenError::new("a new segment", error.into_io()))?;
    let mut catalog = shared.catalog_mut();
    let last_index = group.map_or(0, |group| group.index);
    let closed = open.map(|open| (open, SegmentOrigin::Recovered, last_index));
    let next = NextSegment { segment: Arc::clone(&begun.segment), closed };
    catalog.begin_in_order(next).map_err(unread)?;
    Ok(begun)
}

/// Whether the last segment is gone on with: it has its end, so that no file that is put back takes
/// the place of what is appended now, and no position of the log comes twice.
fn can_grow(open: &Active, last: SegmentNo, stated: LogPosition, shared: &StreamShared) -> bool {
    let no = open.segment.no;
    let catalog = shared.catalog();
    let next = catalog.next_decided();
    let has_end = no != stated.segment || open.file.end() >= stated.offset;
    // Behind a truncation sequences begin again, which is for a new segment.
    let ascends = catalog.last_row_decided() < next;
    let is_in_span = next.checked_sub(open.segment.first_seq).is_some_and(|span| span < SEGMENT_SPAN);
    no == last && has_end && ascends && is_in_span
}

fn reopen(open: &Active, files: &Files, durability: Durability, listener: Arc<dyn OnDurable>) -> Active {
    let options = AppendFileOptions {
        id: open.file.id(),
        generation: open.segment.generation,
        file: Arc::clone(open.file.file()),
        path: open.file.path().to_path_buf(),
        end: open.file.end(),
        is_new: false,
        durability,
        bound: u64::from(u32::MAX),
        on_durable: Some(listener),
    };
    let file = AppendFile::new(&files.store_env.journal, options);
    let Segment { stream, no, generation, first_seq, .. } = *open.segment;
    let context = open.segment.context.clone();
    let source = SegmentFile::Appended(Arc::clone(&file));
    let header = OnceLock::new();
    let segment = Arc::new(Segment { stream, no, generation, first_seq, context, source, header });
    Active { segment, file }
}

/// Where the entries of a sealed segment end that are to end at `stated`: later, if bytes were put
/// in between them.
fn grown_end(
    file: &dyn File,
    (header, context): (&SegmentHeader, &FileContext),
    stated: Option<u64>,
    length: u64,
) -> Result<Option<u64>, Damage> {
    let Some(from) = stated.filter(|end| *end < length) else { return Ok(stated) };
    let (mut end, extent) = (from, Extent { from, to: length, durable: length });
    walk(file, header, context, extent, &mut |scanned| end = scanned.offset + scanned.size as u64)?;
    Ok(Some(end))
}
