//! One segment file: header, entries, footer.

use std::path::PathBuf;
use std::sync::Arc;

use myelin_disk::File;

use crate::flipped;
use crate::manifest::SegmentEntry;
use crate::record::{Control, Entry, FileContext};
use crate::segment::{self, Damaged, HEADER_BYTES, SegmentHeader, TRAILER_BYTES, Trailer};
use crate::stream::segment_name;
use crate::{SegmentNo, Seq};

use super::Finding;
use super::apply::{Counting, SegmentRole, TableCheck};
use super::entries::{self, Walked};
use super::sealed::{self, Sections};
use super::stream::Checking;

/// A segment among the others.
pub(super) struct SegmentPosition<'a> {
    pub(super) no: SegmentNo,
    /// Line of the manifest about it.
    pub(super) listed: Option<&'a SegmentEntry>,
    pub(super) role: SegmentRole<'a>,
    /// The segment before it.
    pub(super) before: Option<SegmentNo>,
    /// The segments that follow.
    pub(super) behind: &'a [SegmentNo],
    /// The sequence that the log goes on with, if that is known.
    pub(super) next_seq: Option<Seq>,
    /// Log entries from this index on do not count: a later segment gives it out again.
    pub(super) taken_back: u64,
}

/// A file whose header is good.
pub(super) struct OpenSegment<'a> {
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    pub(super) context: FileContext,
    pub(super) length: u64,
    pub(super) place: &'a SegmentPosition<'a>,
}

const LOST: &str = "Messages that were safe cannot be read here any more; everything around them can.";
const WHOLE_LOST: &str = "Nothing in this file can be read; restore it from a backup.";

/// Checks a segment and counts what it holds; answers the sequence that the log goes on with behind
/// it.
pub(super) fn check(
    checking: &mut Checking<'_, '_>,
    place: &SegmentPosition<'_>,
    counting: &mut Counting,
) -> Option<Seq> {
    let name = segment_name(place.no);
    let path = checking.path(&name);
    let opened = checking.open(&name).and_then(|file| Ok((file.len()?, file)));
    let (length, file) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            checking.unreadable(path, &error.into());
            counting.distrust();
            return None;
        }
    };
    let Some(header) = header(checking, place, &*file, &path) else {
        counting.distrust();
        return hidden(checking, place).map(|(_, last)| last + 1);
    };
    let context = checking.context(&header);
    let open = OpenSegment { file, path, header, context, length, place };
    begins(checking, &open, counting);
    open.against_manifest(checking);
    let (trailer, has_lost_footer) = trailer(checking, &open);
    if header.encryption.is_some() && open.context.cipher.is_none() {
        counting.distrust();
        locked(checking, &open, trailer.as_ref());
        return None;
    }
    let sections = trailer.as_ref().map(|trailer| sealed::read(checking, &open, trailer)).unwrap_or_default();
    let last_seq = walk(checking, &open, (trailer.as_ref(), has_lost_footer), &sections, counting);
    let last_seq = last_seq?;
    Some(last_seq.max(sections.last_seq()) + 1)
}

/// The first index that entries of a segment say was taken back; there may be none.
pub(super) fn taken_back_in(checking: &Checking<'_, '_>, no: SegmentNo) -> u64 {
    let mut least = u64::MAX;
    let Some(header) = checking.header(no) else { return least };
    let Ok(file) = checking.open(&segment_name(no)) else { return least };
    let (context, length) = (checking.context(&header), file.len().unwrap_or(0));
    let trailer = segment::read_trailer(&*file, &context).ok().flatten();
    let to = trailer.map_or(length, |trailer| trailer.records_end);
    // What cannot be read is told when the segment is checked.
    let _ = entries::walk(&*file, &header, &context, (to, to), &mut |scanned| {
        if let Entry::Control(Control::TakenBack { first, .. }) = scanned.entry {
            least = least.min(first);
        }
    });
    least
}

fn hidden(checking: &Checking<'_, '_>, place: &SegmentPosition<'_>) -> Option<(Seq, Seq)> {
    match place.listed {
        Some(entry) => Some((entry.first_seq, entry.last_seq)),
        None => checking.hidden(place.no, place.next_seq, place.behind),
    }
}

fn with_hidden(finding: Finding, checking: &Checking<'_, '_>, place: &SegmentPosition<'_>) -> Finding {
    match hidden(checking, place) {
        Some((first, last)) => finding.messages(first, last),
        None => finding,
    }
}

fn header(
    checking: &mut Checking<'_, '_>,
    place: &SegmentPosition<'_>,
    file: &dyn File,
    path: &PathBuf,
) -> Option<SegmentHeader> {
    let damage = match SegmentHeader::read_corrected(file) {
        Ok((header, wrong)) if header.stream == checking.id() && header.segment == place.no => {
            if let Some(bit) = wrong {
                let (byte, meaning) = ((bit / 8) as u64, "It can be told which; the next start corrects it.");
                checking.emit(Finding::damage(path, flipped::words(bit), meaning).at(byte..byte + 1));
            }
            return Some(header);
        }
        Ok((header, _)) => {
            let (stream, no) = (header.stream.0, header.segment.0);
            let what = format!("it is segment {no} of stream {stream:016x}");
            let meaning = "Files were exchanged: put each of them back under its own name.";
            let finding = Finding::damage(path, what, meaning).at(0..HEADER_BYTES as u64);
            checking.emit(with_hidden(finding, checking, place));
            return None;
        }
        Err(damage) => damage,
    };
    let is_empty = is_zero(file, HEADER_BYTES as u64).unwrap_or(false);
    let is_stated = checking.looking.statement(checking.id()).covers(place.no, HEADER_BYTES as u64);
    let is_last = place.behind.is_empty() && place.listed.is_none() && !is_stated;
    checking.emit(if is_empty && is_last {
        let meaning =
            "It was begun when the process or the power failed; the next start moves it to quarantine.";
        Finding::note(path, "nothing was written to it", meaning)
    } else {
        let finding = Finding::damage(path, damage.to_string(), WHOLE_LOST).at(0..HEADER_BYTES as u64);
        with_hidden(finding, checking, place)
    });
    None
}

fn is_zero(file: &dyn File, length: u64) -> std::io::Result<bool> {
    let mut bytes = vec![0; length as usize];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(bytes[..read].iter().all(|byte| *byte == 0))
}

/// Whether it goes on where the one before ended.
fn begins(checking: &mut Checking<'_, '_>, open: &OpenSegment<'_>, counting: &mut Counting) {
    let first = open.header.first_seq;
    if !matches!(open.place.role, SegmentRole::Replayed) {
        return;
    }
    // In a group what was taken back may have been between them, in files that are gone.
    if let Some(next) = open.place.next_seq.filter(|next| *next < first && open.header.group.is_none()) {
        let path = open.place.before.map_or_else(|| open.path.clone(), |no| checking.path(segment_name(no)));
        let what = format!("its end is missing: segment {} does not begin where it ends", open.place.no.0);
        let finding = Finding::damage(path, what, "What was in it is lost unless the file can be restored.");
        checking.emit(finding.messages(next, first - 1));
        counting.distrust();
    }
    // Packing writes it once, and leaves out what was erased; only erasing writes it again before a
    // manifest covers it.
    counting.is_ahead |= open.header.generation > u64::from(open.header.packed);
    if counting.is_trusted {
        counting.state.begin_segment(first);
    }
}

impl OpenSegment<'_> {
    fn against_manifest(&self, checking: &mut Checking<'_, '_>) {
        let Some(entry) = self.place.listed else { return };
        let (header, path) = (&self.header, &*self.path);
        if header.generation < entry.generation {
            let what = format!("generation {}, the manifest lists {}", header.generation, entry.generation);
            let meaning = "It is an old copy of the file: messages that were removed since may come back.";
            checking.emit(Finding::damage(path, what, meaning));
        } else if header.generation == entry.generation && entry.sealed && self.length != entry.file_len {
            let what = format!("{} bytes, the manifest lists {}", self.length, entry.file_len);
            let meaning = "It was cut or has grown after it was complete.";
            checking
                .emit(Finding::damage(path, what, meaning).at(self.length.min(entry.file_len)..self.length));
        } else if header.generation == entry.generation && header.through != entry.through {
            let what = format!(
                "it stands for segments up to {}, the manifest says {}",
                header.through.0, entry.through.0
            );
            checking.emit(Finding::suspicious(
                path,
                what,
                "The file and the manifest were not written together.",
            ));
        }
    }

    /// Adds to a finding which messages the whole file has, as far as the manifest says it.
    fn told_messages(&self, finding: Finding) -> Finding {
        match self.place.listed {
            Some(entry) => finding.messages(entry.first_seq, entry.last_seq),
            None => finding,
        }
    }
}

/// The trailer, and whether there should be one that cannot be read.
fn trailer(checking: &mut Checking<'_, '_>, open: &OpenSegment<'_>) -> (Option<Trailer>, bool) {
    let at = open.length.saturating_sub(TRAILER_BYTES as u64)..open.length;
    let meaning = "Its messages can still be read one by one, which makes starting slower.";
    match segment::read_trailer(&*open.file, &open.context) {
        Ok(Some(trailer)) => (Some(trailer), false),
        Ok(None) if open.place.listed.is_some_and(|entry| entry.sealed) || open.header.packed => {
            let finding = Finding::damage(&*open.path, "it has lost its footer", meaning).at(at);
            checking.emit(open.told_messages(finding));
            (None, true)
        }
        Ok(None) => (None, false),
        Err(damage) => {
            checking.emit(Finding::damage(&*open.path, damage.to_string(), meaning).at(at));
            (None, true)
        }
    }
}

/// An encrypted file without its key.
fn locked(checking: &mut Checking<'_, '_>, open: &OpenSegment<'_>, trailer: Option<&Trailer>) {
    if let Some(trailer) = trailer {
        sealed::check_locked(checking, open, trailer);
    }
    let end = trailer.map_or(open.length, |trailer| trailer.records_end);
    let durable = trailer.map_or(0, |trailer| trailer.records_end);
    let mut emit = |range: std::ops::Range<u64>| {
        let what = "these bytes are not what was written";
        checking.emit(Finding::damage(&*open.path, what, LOST).at(range));
    };
    if open.header.packed {
        match entries::frames(&*open.file, &open.context, end) {
            Ok((_, damaged, is_wrong)) => {
                damaged.into_iter().for_each(&mut emit);
                if is_wrong {
                    table_of_frames(checking, open, end);
                }
            }
            Err(damage) => checking.unreadable(open.path.clone(), &damage),
        }
        return;
    }
    match segment::check_structure(&*open.file, &open.header, end, durable) {
        Ok(found) => {
            found.damaged.into_iter().for_each(&mut emit);
            if let Some(at) = found.torn {
                torn(checking, open, at, false);
            }
        }
        Err(damage) => checking.unreadable(open.path.clone(), &damage),
    }
}

fn table_of_frames(checking: &mut Checking<'_, '_>, open: &OpenSegment<'_>, end: u64) {
    let meaning = "The table of its frames is made again at each start; no message is lost.";
    let finding = Finding::damage(&*open.path, "the table of frames is not that of its frames", meaning);
    checking.emit(finding.at(end.saturating_sub(16)..end));
}

/// Walks the entries; answers the last sequence in use.
fn walk(
    checking: &mut Checking<'_, '_>,
    open: &OpenSegment<'_>,
    (trailer, has_lost_footer): (Option<&Trailer>, bool),
    sections: &Sections,
    counting: &mut Counting,
) -> Option<Seq> {
    let to = trailer.map_or(open.length, |trailer| trailer.records_end);
    let durable = trailer.map_or(0, |trailer| trailer.records_end);
    let durable = if trailer.is_none() && !open.header.packed {
        let stated = checking.looking.statement(checking.id()).end_of(open.place.no, open.header.generation);
        proven(checking, open, to).max(stated.unwrap_or(0))
    } else {
        durable
    };
    let slots = sections.slots.as_ref();
    let mut rows = TableCheck::new(&open.header, slots);
    let role = open.place.role;
    let (mut index, mut has_taken_back) = (0, false);
    let walked = entries::walk(&*open.file, &open.header, &open.context, (to, durable), &mut |scanned| {
        if let Entry::Control(Control::LogEntry(entry)) = &scanned.entry {
            index = entry.index;
        }
        has_taken_back |= index >= open.place.taken_back;
        if has_taken_back {
            return;
        }
        let slot = rows.note(&scanned);
        counting.apply(role, &scanned, slots, slot);
    });
    let walked = match walked {
        Ok(walked) => walked,
        Err(damage) => {
            counting.distrust();
            checking.unreadable(open.path.clone(), &damage);
            return None;
        }
    };
    if walked.is_table_wrong && trailer.is_some() {
        table_of_frames(checking, open, to);
    }
    if !walked.damaged.is_empty() {
        counting.distrust();
    }
    report(checking, open, &walked, &rows, has_lost_footer);
    rows_against_table(checking, open, &rows, walked.damaged.is_empty());
    gaps(checking, open, &rows, &walked);
    if counting.is_trusted && matches!(role, SegmentRole::Replayed) {
        count_end(checking, open, (&rows, sections), counting);
    }
    if let Some(trailer) = trailer {
        sealed::check(checking, open, trailer, sections, &rows, counting);
    }
    // Behind what was taken back no sequence is expected.
    (walked.damaged.is_empty() && !has_taken_back).then_some(rows.last_seq)
}

/// Counts what the end of a segment does: recovery closes one before it truncates.
fn count_end(
    checking: &Checking<'_, '_>,
    open: &OpenSegment<'_>,
    (rows, sections): (&TableCheck<'_>, &Sections),
    counting: &mut Counting,
) {
    if open.header.packed {
        counting.passed_rewritten(!rows.gaps.is_empty(), sections.last_seq());
    }
    let next = open.place.behind.first().and_then(|no| checking.header(*no));
    if let Some(next) = next.filter(|next| sections.last_seq() < next.first_seq) {
        counting.before(next.first_seq);
    }
}

/// How much of an unsealed file later segments prove to have been synced.
fn proven(checking: &Checking<'_, '_>, open: &OpenSegment<'_>, to: u64) -> u64 {
    let mut durable = 0;
    let (no, behind) = (open.place.no, open.place.behind);
    let is_whole = || {
        let walked = entries::walk(&*open.file, &open.header, &open.context, (to, 0), &mut |_| {});
        walked.is_ok_and(|walked| walked.torn.is_none())
    };
    if behind.is_empty() || is_whole() {
        return 0;
    }
    for later in behind {
        let Some(header) = checking.header(*later).filter(|header| !header.packed) else { continue };
        let Ok(file) = checking.open(&segment_name(*later)) else { continue };
        let (context, length) = (checking.context(&header), file.len().unwrap_or(0));
        let _ = entries::walk(&*file, &header, &context, (length, 0), &mut |scanned| {
            if let Entry::Control(Control::Durable { segment, offset }) = scanned.entry {
                durable = if segment == no {
                    offset.max(durable)
                } else if segment > no {
                    to
                } else {
                    durable
                };
            }
        });
    }
    // Space that was allocated ahead was synced, too; that it lacks entries is seen where the next
    // segment begins.
    durable.min(used(&*open.file, to).unwrap_or(0))
}

/// Where the zeros at the end of a file begin.
fn used(file: &dyn File, length: u64) -> std::io::Result<u64> {
    let mut piece = vec![0; 1 << 16];
    let mut end = length;
    while end > 0 {
        let begin = end.saturating_sub(piece.len() as u64);
        let bytes = &mut piece[..(end - begin) as usize];
        let read = file.read_at(bytes, begin)?;
        if let Some(last) = bytes[..read].iter().rposition(|byte| *byte != 0) {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

fn report(
    checking: &mut Checking<'_, '_>,
    open: &OpenSegment<'_>,
    walked: &Walked,
    rows: &TableCheck<'_>,
    has_lost_footer: bool,
) {
    let next = open.place.behind.iter().find_map(|no| checking.header(*no));
    for Damaged { bytes, first_seq, last_seq } in &walked.damaged {
        // Up to the end of the file: the next segment says where the log goes on.
        let last_seq = last_seq.or(next.map(|next| next.first_seq.saturating_sub(1)));
        let finding =
            Finding::damage(&*open.path, "these bytes are not what was written", LOST).at(bytes.clone());
        // The table knows what is missing; else it is what may have been between the neighbors.
        let (first, last) = rows.lost().or(last_seq.map(|last| (*first_seq, last))).unwrap_or((1, 0));
        checking.emit(finding.messages(first, last));
    }
    match walked.torn {
        Some((at, has_more)) if !has_lost_footer => torn(checking, open, at, has_more),
        _ => {}
    }
}

fn torn(checking: &mut Checking<'_, '_>, open: &OpenSegment<'_>, at: u64, has_more: bool) {
    let bytes = at..open.length;
    let finding = if !open.place.behind.is_empty() {
        let meaning = "The next start ends the log here and moves the segments behind it to quarantine: if the power \
                       did not fail, this is damage.";
        Finding::suspicious(
            &*open.path,
            "it ends with an incomplete batch, and other segments follow",
            meaning,
        )
    } else if has_more {
        let meaning = "The next start cuts it here and keeps a copy in quarantine: if the power did not fail, this is \
                       damage.";
        Finding::suspicious(&*open.path, "an incomplete batch, and whole entries behind it", meaning)
    } else {
        let meaning =
            "Its last write was not finished or is being made; nothing of it had been confirmed as safe.";
        Finding::note(&*open.path, "it ends with an incomplete batch", meaning)
    };
    checking.emit(finding.at(bytes));
}

/// Tells of sequences that are missing without a seam: a page that is there twice, in the place of
/// another. Where something was left out on purpose, or a table names what is missing, they are no
/// gaps.
fn gaps(checking: &mut Checking<'_, '_>, open: &OpenSegment<'_>, rows: &TableCheck<'_>, walked: &Walked) {
    if open.header.packed || open.header.generation > 0 || open.place.listed.is_some() {
        return;
    }
    for (first, last) in rows.gaps.iter().copied() {
        let is_told = |damaged: &Damaged| {
            damaged.first_seq <= first && damaged.last_seq.is_none_or(|told| last <= told)
        };
        if !walked.damaged.iter().any(is_told) {
            checking.emit(
                Finding::damage(&*open.path, "sequences are passed over without a word", LOST)
                    .messages(first, last),
            );
        }
    }
}

fn rows_against_table(
    checking: &mut Checking<'_, '_>,
    open: &OpenSegment<'_>,
    rows: &TableCheck<'_>,
    is_whole: bool,
) {
    let path = &*open.path;
    if let Some(seq) = rows.disorder {
        let meaning = "Messages that were written twice: the first of each counts.";
        checking.emit(Finding::suspicious(path, "sequences do not grow", meaning).messages(seq, seq));
    }
    if let Some((first, last)) = rows.lost().filter(|_| is_whole) {
        let what = "the footer names messages that are not in the file";
        checking.emit(Finding::damage(path, what, LOST).messages(first, last));
    }
    let unread = "The footer was not written for these entries: messages are there that readers do not find.";
    // In a group these may have been taken back, as entries say whose files are gone.
    if open.header.group.is_none()
        && let (Some(first), Some(last)) = (rows.unlisted.first(), rows.unlisted.last())
    {
        checking
            .emit(Finding::damage(path, "the footer does not name messages", unread).messages(*first, *last));
    }
    if let Some((seq, what)) = rows.wrong {
        checking.emit(Finding::damage(path, what, unread).messages(seq, seq));
    }
}
