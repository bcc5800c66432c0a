//! Loss of messages: which sequences are missing, that they are never given out again, and that
//! later starts tell it.
//!
//! Where the files do not say it, the watermarks do (`watermarks`), the segment that comes next, or
//! what earlier starts have written down (`remembered`).

use std::io;
use std::ops::RangeInclusive;

use crate::config::StreamConfig;
use crate::damage::Damage;
use crate::ranges::Ranges;
use crate::record::{Control, Entry};
use crate::segment::{self, Extent, HEADER_BYTES, Scanned, SegmentHeader};
use crate::stream::{Catalog, Files, each_entry, segment_name};
use crate::watermarks::Statement;
use crate::{SegmentNo, Seq, StreamId, Timestamp};

use super::directory::set_aside;
use super::remembered::{LossCopies, read};
use super::report::{Lost, among};
use super::{Notice, Recovering, StreamReport};

/// Segments that cannot be read, until it is known where the log goes on.
#[derive(Debug)]
pub(super) struct Hole {
    file: String,
    first: Seq,
}

/// Whether subjects have as many messages as the footers say.
#[derive(Clone, Copy, Debug)]
pub(super) enum SubjectCounts {
    /// Nothing was lost that a footer could not know of.
    Known,
    /// Footers that come next count without messages that are back.
    Doubted,
    /// A footer has counted without them.
    Wrong,
}

impl SubjectCounts {
    pub(super) fn behind_footer(self) -> Self {
        match self {
            Self::Known => Self::Known,
            Self::Doubted | Self::Wrong => Self::Wrong,
        }
    }
}

impl Recovering<'_> {
    /// Segments are not there, and others behind them are.
    pub(super) fn miss(&mut self, segments: RangeInclusive<SegmentNo>) {
        self.report.note(Notice::Missing { segments: segments.clone() });
        self.open_hole(segments);
    }

    /// The last segments may not be there: what nothing follows is missed only because it is stated
    /// elsewhere. Answers which number is the last that was used.
    pub(super) fn miss_last(&mut self, last: SegmentNo) -> SegmentNo {
        let stated = self.stated.last_segment();
        if stated > last {
            self.miss(SegmentNo(last.0 + 1)..=stated);
        }
        self.close_hole(self.stated.last_seq);
        last.max(stated)
    }

    /// Nothing can be read of these segments.
    pub(super) fn open_hole(&mut self, segments: RangeInclusive<SegmentNo>) {
        self.catalog.note_lost();
        self.miss_removals();
        self.report.lacks_log = true;
        let first = self.catalog.next_decided();
        let file = segment_name(*segments.start());
        self.hole.get_or_insert(Hole { file, first });
    }

    /// A segment does not say any more which messages of earlier ones it has removed: they are
    /// back, and the footers behind it count their subjects without them.
    pub(super) fn miss_removals(&mut self) {
        self.subjects = SubjectCounts::Doubted;
    }

    /// Counts subjects by the tables of the sealed segments, if a footer behind a damaged segment
    /// has counted them. Before entries are read that count on.
    pub(super) fn settle_subjects(&mut self) {
        if !matches!(self.subjects, SubjectCounts::Wrong) {
            return;
        }
        self.subjects = SubjectCounts::Doubted;
        if let Err((no, error)) = self.catalog.rebuild_index() {
            let what = format!("{error}; subjects are counted as later segments say");
            self.report.note(Notice::Damaged { file: segment_name(no), what });
        }
    }

    /// Ends the hole before the next segment: it had sequences up to `last`.
    pub(super) fn close_hole(&mut self, last: Seq) {
        if let Some(Hole { file, first }) = self.hole.take() {
            let stated = self.stated.position;
            // Of others nobody says how long they were.
            let bytes = if file == segment_name(stated.segment) { stated.offset } else { 0 };
            self.lose(file, Some(first..=last), bytes);
        }
    }

    /// The last sequence of what is missing at the end of a segment, if anything says it.
    pub(super) fn last_before(&self, behind: &[SegmentNo], first: Seq) -> Option<Seq> {
        let next = behind.iter().find_map(|no| self.read_ends(*no).ok());
        let last = next.map_or(self.stated.last_seq, |(header, _)| header.first_seq.saturating_sub(1));
        (last >= first).then_some(last)
    }

    /// Reports messages between the last one of a segment and the first one of the next, as far as
    /// nothing has told of them: one that was packed does not say where its predecessor ended.
    pub(super) fn report_short(&mut self, no: SegmentNo, end: u64, behind: &[SegmentNo]) {
        let Some(next) = self.next_header(no, behind) else { return };
        let mut sequences = self.catalog.next_decided()..=next.first_seq.saturating_sub(1);
        if next.group.is_some() && !sequences.is_empty() {
            // What was between them may have been taken back, and a later one gives it out again.
            let firsts = behind.iter().filter_map(|later| self.read_ends(*later).ok());
            let first = firsts.map(|(header, _)| header.first_seq).min();
            sequences = *sequences.start()..=first.unwrap_or(next.first_seq).saturating_sub(1);
        }
        let told = Ranges::from_ranges(self.report.lost.iter().map(|lost| lost.sequences.clone()));
        if sequences.is_empty() || told.covers(&sequences) || self.begins_behind(&next, *sequences.end()) {
            return;
        }
        let bytes = end..next.before.max(end);
        self.lose(segment_name(no), Some(sequences.clone()), bytes.end - bytes.start);
        self.report.note(Notice::DamagedEntries { segment: no, bytes, sequences: Some(sequences) });
    }

    /// Whether a segment begins with the entry that says that sequences up to `last` were passed
    /// over.
    fn begins_behind(&self, header: &SegmentHeader, last: Seq) -> bool {
        let (mut is_said, mut has_messages) = (false, false);
        let mut look = |scanned: Scanned<'_>| match scanned.entry {
            Entry::Control(Control::Skip { last: to }) => is_said |= !has_messages && to >= last,
            Entry::Message(_) => has_messages = true,
            _ => {}
        };
        let looked = self.look_through(header, &mut look);
        looked.is_ok() && is_said
    }

    fn look_through(&self, header: &SegmentHeader, look: &mut dyn FnMut(Scanned<'_>)) -> Result<(), Damage> {
        if header.packed {
            let (_, trailer) = self.read_ends(header.segment)?;
            let trailer = trailer.ok_or(Damage::Short("segment footer"))?;
            return each_entry(&self.sealed_segment(header, &trailer)?, look).map(drop);
        }
        let file = self.files.store_env.disk.open(&self.files.segment_path(header.segment))?;
        let context = self.files.context(header).ok_or(Damage::Locked("segment"))?;
        let extent = Extent { from: HEADER_BYTES as u64, to: file.len()?, durable: 0 };
        segment::scan(&*file, header, &context, extent, look).map(drop)
    }

    /// As [`Recovering::lose`], of a segment whose deletions are known: of those nothing is lost.
    pub(super) fn lose_live(&mut self, no: SegmentNo, sequences: RangeInclusive<Seq>, bytes: u64) {
        let mut live = sequences.filter(|seq| self.catalog.contains(*seq));
        if let Some(first) = live.next() {
            let last = live.next_back().unwrap_or(first);
            self.lose(segment_name(no), Some(first..=last), bytes);
        }
    }

    /// Notes that sequences begin again behind `last`: of the new ones none was removed.
    pub(super) fn begin_again(&mut self, last: Seq) {
        self.kept_from = self.kept_from.min(last.saturating_add(1));
        self.removed.retain(|range| *range.end() <= last);
    }

    /// Notes that messages are gone that were lost, if they are among these.
    pub(super) fn note_removed(&mut self, removed: &Ranges) {
        self.removed.extend(among(&self.report.lost, removed));
    }

    /// Messages that had been removed before are not lost with their bytes.
    ///
    /// The catalog does not know where the stream began: its first message is the first that is
    /// there, also where nothing but lost ones stood before it.
    pub(super) fn forgive_removed(&mut self) {
        let kept = self.kept_from;
        debug_assert!(kept <= self.catalog.totals().first_seq, "nothing removed is there");
        self.report.lost.retain(|lost| *lost.sequences.end() >= kept);
        for lost in &mut self.report.lost {
            lost.sequences = kept.max(*lost.sequences.start())..=*lost.sequences.end();
        }
        let removed = Ranges::from_ranges(self.removed.drain(..));
        self.report.lost = self.report.lost.iter().flat_map(|lost| lost.without(&removed)).collect();
    }

    pub(super) fn lose(&mut self, file: String, sequences: Option<RangeInclusive<Seq>>, bytes: u64) {
        if let Some(sequences) = sequences.filter(|sequences| !sequences.is_empty()) {
            // What is replayed next has to know: some of these may count and have no message.
            self.catalog.note_lost();
            self.report.lost.push(Lost { file, sequences, bytes });
        }
    }
}

/// Giver of a stream's sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Giver {
    /// The stream.
    Itself,
    /// The stream that it copies.
    Origin,
    /// The leader of its group.
    Leader,
}

impl Giver {
    pub(super) fn of(config: &StreamConfig, is_of_group: bool) -> Self {
        match config.is_copy {
            _ if is_of_group => Self::Leader,
            true => Self::Origin,
            false => Self::Itself,
        }
    }
}

/// Sees to it that no sequence is given out again: the catalog goes on behind what had been
/// released. Answers up to where it passes over sequences that the log does not have.
pub(super) fn pass_over(
    catalog: &mut Catalog,
    report: &mut StreamReport,
    stated: &Statement,
    giver: Giver,
    now: Timestamp,
) -> Option<Seq> {
    let found = catalog.next_decided() - 1;
    // What a group's log lacks at its end, its leader gives once more, with the same sequences.
    if report.is_damaged() && stated.last_seq > found && giver != Giver::Leader {
        report.note(Notice::EndLost { sequences: found + 1..=stated.last_seq });
        catalog.pass_over(stated.last_seq, now);
    }
    let uncertain = catalog.next_decided()..=stated.given_out(found);
    if !uncertain.is_empty() {
        if giver == Giver::Itself {
            report.note(Notice::PassedOver { sequences: uncertain.clone() });
            catalog.pass_over(*uncertain.end(), now);
        }
        report.uncertain = Some(uncertain);
    }
    if report.is_damaged() {
        catalog.note_lost();
    }
    let last = catalog.next_decided() - 1;
    report.passed_over = (last > found).then_some(found + 1..=last);
    (last > found).then_some(last)
}

/// Adds to the report what earlier starts have found missing and is not back, and writes down what
/// later ones are to tell. `is_there`: whether the directory has a copy of the document.
pub(super) fn remember(
    id: StreamId,
    files: &Files,
    catalog: &Catalog,
    is_there: bool,
    report: &mut StreamReport,
) {
    if !is_there && report.lost.is_empty() {
        return;
    }
    let disk = &*files.store_env.disk;
    let copies = if is_there { read(disk, &files.directory, id) } else { LossCopies::default() };
    note_faults(files, &copies, report);
    let LossCopies { best, are_equal, .. } = copies;
    let before = best.unwrap_or_default();
    let found = Ranges::from_ranges(report.lost.iter().map(|lost| lost.sequences.clone()));
    let is_new = found.iter().any(|range| !before.covers(&range));
    let totals = catalog.totals();
    let still = before.still_missing(totals.first_seq, &found, &|range| there(catalog, range));
    report.lost.extend(still);
    report.lost.sort_by_key(|lost| (*lost.sequences.start(), *lost.sequences.end()));
    if are_equal && report.lost == before.lost {
        return;
    }
    let place = (disk, &*files.directory, id);
    let written = before.succeed(place, &report.lost, is_new, (totals.first_seq, totals.last_seq));
    if let Err(error) = written {
        let what = format!("cannot write down for later starts what is lost: {error}");
        report.note(Notice::Left { what });
    }
}

/// Notes faults of the copies. One that is missing or older is what a crash leaves.
fn note_faults(files: &Files, copies: &LossCopies, report: &mut StreamReport) {
    let is_missing =
        |damage: &Damage| matches!(damage, Damage::Io(error) if error.kind() == io::ErrorKind::NotFound);
    for (name, damage) in copies.faults.iter().filter(|(_, damage)| !is_missing(damage)) {
        if copies.best.is_some() {
            let what = format!("{damage}; written again from the other copy");
            report.note(Notice::Repaired { file: (*name).to_owned(), what });
        } else {
            let why = "it cannot be read: what earlier starts have told as lost is not told again";
            set_aside(files, name, why, report);
        }
    }
}

/// The sequences in a range whose messages the stream has.
fn there(catalog: &Catalog, range: &RangeInclusive<Seq>) -> Ranges {
    let mut there = Vec::new();
    for (at, view) in catalog.segments().iter().enumerate() {
        let (first, last) = ((*range.start()).max(view.first_seq), (*range.end()).min(view.last_seq));
        // One whose table cannot be read shows nothing.
        let Ok(table) = catalog.table(at) else { continue };
        if first > last {
            continue;
        }
        let base = view.segment.first_seq;
        let rows = table.row_from(first.saturating_sub(base))..table.len();
        let seqs = rows.map(|row| base + u64::from(table.delta(row))).take_while(|seq| *seq <= last);
        there.extend(seqs.filter(|seq| catalog.contains(*seq)));
    }
    Ranges::from_unsorted(there)
}
