//! Opening a stream: from what its files say to a catalog and an active segment.
//!
//! In order: the manifest and its base (the state at the end of one segment), the footers of sealed
//! segments behind it (absolute states, newer over older), then the entries of what was not sealed,
//! one by one, through the catalog. So the time depends on the subjects and on one segment's
//! entries, not on the data.
//!
//! Nothing is deleted here but files that no manifest needs any more. What is torn was never
//! released and is cut; what is damaged is reported, and everything around it stays readable.

mod apply;
mod base;
mod directory;
mod entries;
mod group;
mod listed;
mod loss;
mod packed;
mod remembered;
mod report;
mod sealed;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::Arc;

use myelin_disk::{File, is_full};

use crate::append_file::AppendFile;
use crate::config::StreamConfig;
use crate::damage::Damage;
use crate::flipped;
use crate::manifest::{self, Manifest};
use crate::notes::{NOTES_FILE, Notes};
use crate::segment::{self, GroupPlace, HEADER_BYTES, SegmentHeader, Trailer};
use crate::stream::{Active, Catalog, Closed, Files, SegmentStorage, Stream, StreamShared, segment_name};
use crate::watermarks::{OpenedStream, Statement};
use crate::{SegmentNo, Seq, StreamId, Timestamp};

use group::GroupTail;
use loss::{Giver, SubjectCounts};

pub(crate) use directory::{QUARANTINE, base_name, base_number, move_aside, place_aside, stream_directory};
pub(crate) use remembered::{LOST_COPIES, forget as forget_losses, read as read_losses};
pub use report::{Lost, Notice, StreamReport};

/// Why a stream cannot be opened. Nothing was changed.
#[derive(Debug)]
pub struct OpenError {
    /// Name of the thing that was being read.
    pub what: String,
    /// Damage that was found in it.
    pub damage: Damage,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.damage)
    }
}

impl std::error::Error for OpenError {}

impl OpenError {
    pub(crate) fn new(what: impl Into<String>, damage: impl Into<Damage>) -> Self {
        Self { what: what.into(), damage: damage.into() }
    }

    /// Whether the device is full. It may be tried again when there is space.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(&self.damage, Damage::Io(error) if is_full(error))
    }
}

/// Is told of every message that opening a stream meets in segments that were not sealed, with its
/// headers: also of those that later entries took away. Whoever keeps something elsewhere that
/// belongs to messages finds out what a crash has left of both.
pub type ReplayVisitor<'a> = dyn FnMut(Seq, &[u8]) + 'a;

/// A stream on its way back.
pub(crate) struct Recovering<'a> {
    id: StreamId,
    files: &'a Files,
    visitor: &'a mut ReplayVisitor<'a>,
    catalog: Catalog,
    /// The unsealed segment whose entries were walked last; it grows or is closed when the next one
    /// comes.
    open: Option<Active>,
    closed: Vec<Closed>,
    report: StreamReport,
    /// Statement about the stream from elsewhere.
    stated: Statement,
    /// Hole before the segment that comes next.
    hole: Option<loss::Hole>,
    /// First sequence that nothing says was removed.
    kept_from: Seq,
    /// Sequences of lost segments of which a later entry or footer says that they were removed.
    removed: Vec<RangeInclusive<Seq>>,
    /// State of the counts of subjects, which footers tell anew.
    subjects: SubjectCounts,
    /// Headers of segments that had a wrong bit.
    corrected: RefCell<Vec<Notice>>,
    /// The log of the stream's group.
    group: GroupTail,
}

/// Opens the stream in `files`.
pub(crate) fn open_stream(
    id: StreamId,
    files: Files,
    config: StreamConfig,
    (index_seed, now): (u64, Timestamp),
    visitor: &mut ReplayVisitor<'_>,
) -> Result<(Stream, StreamReport), OpenError> {
    let catalog = Catalog::new(index_seed, Arc::clone(&files.store_env.slots), config.first_seq);
    let stated = files.store_env.watermarks.statement(id);
    // A closure of its own has a lifetime of its own.
    let mut visit = |seq: Seq, headers: &[u8]| visitor(seq, headers);
    let kept_from = catalog.totals().first_seq;
    let recovering = Recovering {
        id,
        files: &files,
        visitor: &mut visit,
        catalog,
        open: None,
        closed: Vec::new(),
        report: StreamReport::default(),
        stated,
        hole: None,
        kept_from,
        removed: Vec::new(),
        subjects: SubjectCounts::Known,
        corrected: RefCell::default(),
        group: GroupTail::default(),
    };
    let Recovered { mut catalog, open, mut closed, manifest, mut report, last, group, has_losses } =
        recovering.run()?;
    let found = catalog.next_decided() - 1;
    let giver = Giver::of(&config, group.position().is_some());
    let gap = loss::pass_over(&mut catalog, &mut report, &stated, giver, now);
    // Before anything is written by which the loss cannot be seen any more.
    loss::remember(id, &files, &catalog, has_losses, &mut report);
    let shared = StreamShared::new(id, config.storage, catalog, Arc::clone(&files.store_env.blocks));
    shared.note_told(&report.lost);
    let last = (last, stated.position);
    let active = entries::resume(&shared, &files, open, last, (config.durability, &group), now)?;
    closed.extend(shared.catalog_mut().take_closed());
    let unsealed = unsealed_files(&closed, &shared.catalog().rolled(), &active);
    let store_env = Arc::clone(&files.store_env);
    let mut stream = Stream::assemble(shared, config, SegmentStorage::Files(files), active, closed, manifest);
    stream.resume_group(group.tail, group.consumers, group.notes);
    stream.hold_back();
    let owed = if config.is_copy { owed(&report, &stated, found) } else { None };
    owed.into_iter().for_each(|last| stream.owe(last));
    if let Some(last) = gap
        && let Err(error) = stream.log_gap(last, now).and_then(|()| stream.flush())
    {
        report.note(Notice::Left {
            what: format!("cannot write that sequences up to {last} are not used: {error}"),
        });
    }
    // Only now: from here on a kill leaves no doubt, so what is passed over must be written.
    let opened = OpenedStream { found, durability: config.durability, owed };
    store_env.watermarks.attach(id, stream.shared(), &unsealed.iter().collect::<Vec<_>>(), opened);
    Ok((stream, report))
}

/// Files of a stream that are appended to, or were, and have no footer yet.
fn unsealed_files(closed: &[Closed], rolled: &[Active], active: &Active) -> Vec<Arc<AppendFile>> {
    let closed = closed.iter().map(|closed| &closed.active).filter(|closed| !closed.segment.is_sealed());
    let open = closed.chain(rolled).chain([active]).map(|open| &open.file);
    open.filter(|file| !file.is_in_memory()).cloned().collect()
}

/// The last sequence that a copy has perhaps shown, if it has not all of them.
fn owed(report: &StreamReport, stated: &Statement, found: Seq) -> Option<Seq> {
    let uncertain = report.uncertain.as_ref().map(|uncertain| *uncertain.end());
    uncertain.max(Some(stated.shown(found)).filter(|shown| *shown > found))
}

/// Stream as its files gave it.
struct Recovered {
    catalog: Catalog,
    open: Option<Active>,
    closed: Vec<Closed>,
    manifest: Option<Manifest>,
    report: StreamReport,
    /// The highest number of a segment that is there.
    last: SegmentNo,
    /// The log of its group.
    group: GroupTail,
    /// Whether earlier starts have told of losses.
    has_losses: bool,
}

impl Recovering<'_> {
    fn run(mut self) -> Result<Recovered, OpenError> {
        let found = directory::read(self.id, self.files, &mut self.report)?;
        if found.has_notes {
            let notes = Notes::read(&*self.files.store_env.disk, &self.files.directory);
            self.group.notes = notes.map_err(|damage| OpenError::new(NOTES_FILE, damage))?;
        }
        let copies = manifest::read(&*self.files.store_env.disk, &self.files.directory);
        for (name, damage) in &copies.faults {
            self.report.note(Notice::Damaged { file: (*name).to_owned(), what: damage.to_string() });
        }
        if copies.best.is_none() && !copies.faults.is_empty() {
            return Err(OpenError::new("both copies of the manifest", Damage::Content("manifest")));
        }
        let covers = copies.best.as_ref().map_or(SegmentNo(0), |manifest| manifest.covers);
        if let Some(manifest) = &copies.best {
            self.load_manifest(manifest, &found)?;
        }
        if self.heal_manifest(&copies) {
            self.remove_obsolete(copies.best.as_ref(), &found);
        }
        let newer: Vec<SegmentNo> = found.segments.iter().copied().filter(|no| *no > covers).collect();
        let last = self.replay(covers, &newer)?;
        self.settle_subjects();
        let last = self.miss_last(last);
        self.forgive_removed();
        self.report.notices.append(&mut self.corrected.take());
        let Self { catalog, open, closed, report, group, .. } = self;
        let (manifest, has_losses) = (copies.best, found.has_losses);
        Ok(Recovered { catalog, open, closed, manifest, report, last, group, has_losses })
    }

    /// Makes both copies of the manifest say the same. Answers whether they do: else the worse one
    /// may list files that the better one does not, and would be in force if that were lost.
    fn heal_manifest(&mut self, copies: &manifest::ManifestCopies) -> bool {
        let Some(best) = copies.best.as_ref().filter(|_| !copies.equal) else { return true };
        let written = best.write(&*self.files.store_env.disk, &self.files.directory);
        if let Err(error) = &written {
            self.report.note(Notice::Left { what: format!("cannot write the manifest: {error}") });
        }
        written.is_ok()
    }

    /// Goes through the segments behind the manifest; answers which is the last that stays.
    fn replay(&mut self, covers: SegmentNo, newer: &[SegmentNo]) -> Result<SegmentNo, OpenError> {
        let mut expected = covers.0 + 1;
        let mut last = covers;
        let mut rewinds: Option<Vec<Option<GroupPlace>>> = None;
        if covers.0 > 0 {
            self.group.begin_behind_sealed();
        }
        for (at, &no) in newer.iter().enumerate() {
            if no.0 != expected {
                self.group.begin_behind_hole();
                self.miss(SegmentNo(expected)..=SegmentNo(no.0 - 1));
            }
            expected = no.0 + 1;
            let ends = self.read_ends(no);
            if let Ok((header, trailer)) = &ends {
                let is_read = trailer.is_none() && self.group.is_before(header);
                let again = header.group.filter(|_| !is_read);
                let again = again.and_then(|_| rewinds.get_or_insert_with(|| self.rewinds(newer))[at]);
                if let Some(first) = self.group.begin(header, again) {
                    self.catalog.take_back(first).map_err(|error| {
                        OpenError::new(format!("segment {}", no.0), std::io::Error::other(error.to_string()))
                    })?;
                }
            }
            match ends {
                Ok((header, Some(trailer))) => self.apply_sealed(&header, &trailer, &newer[at + 1..])?,
                Ok((header, None)) if header.packed => {
                    self.walk_packed(&header, None, &newer[at + 1..])?;
                }
                Ok((header, None)) => {
                    if !self.walk_unsealed(&header, None, &newer[at + 1..])? {
                        return Ok(no);
                    }
                }
                Err(Damage::Io(error)) => return Err(OpenError::new(format!("segment {}", no.0), error)),
                Err(damage @ (Damage::Locked(_) | Damage::Version(..))) => {
                    return Err(OpenError::new(format!("segment {}", no.0), damage));
                }
                Err(damage) => {
                    self.group.begin_behind_hole();
                    let behind = &newer[at + 1..];
                    if !self.was_synced(no, HEADER_BYTES as u64, behind) {
                        self.unsynced(no, behind);
                        // Their numbers are free again.
                        return Ok(last);
                    }
                    self.note_damaged(no, &damage);
                    self.open_hole(no..=no);
                }
            }
            last = no;
        }
        Ok(last)
    }

    /// Of each segment the place in the group's log where a later one goes on, if the log was taken
    /// back to before the segment.
    fn rewinds(&self, segments: &[SegmentNo]) -> Vec<Option<GroupPlace>> {
        let mut least: Option<(u64, GroupPlace)> = None;
        let places = segments.iter().rev().map(|no| {
            let (SegmentHeader { epoch, .. }, place) = self.group_place(*no)?;
            let is_again =
                |(of, again): &(u64, GroupPlace)| *of == epoch && again.first_index < place.first_index;
            let again = least.filter(is_again);
            least = again.or(Some((epoch, place)));
            again.map(|(_, again)| again)
        });
        let mut places: Vec<_> = places.collect();
        places.reverse();
        places
    }

    /// Where the group's log goes on in the segment `behind` this one that begins with the least
    /// index, and its first sequence: what this one has from there on was taken back.
    fn given_out_again(&self, header: &SegmentHeader, behind: &[SegmentNo]) -> Option<(GroupPlace, Seq)> {
        header.group?;
        let places = behind.iter().filter_map(|no| self.group_place(*no));
        let of_epoch = places.filter(|(of, _)| of.epoch == header.epoch);
        let least = of_epoch.min_by_key(|(_, place)| place.first_index);
        least.map(|(of, place)| (place, of.first_seq))
    }

    /// Header of a segment of a group, and its place in the group's log.
    fn group_place(&self, no: SegmentNo) -> Option<(SegmentHeader, GroupPlace)> {
        let file = self.files.store_env.disk.open(&self.files.segment_path(no)).ok()?;
        let (header, _) = SegmentHeader::read_corrected(&*file).ok()?;
        Some((header, header.group?))
    }

    /// Whether a segment had been synced up to `end`: what is known to be synced of later ones was
    /// so after it.
    pub(super) fn was_synced(&self, no: SegmentNo, end: u64, behind: &[SegmentNo]) -> bool {
        let is_sealed = |later: &SegmentNo| matches!(self.read_ends(*later), Ok((_, Some(_))));
        self.stated.covers(no, end)
            || behind.iter().any(is_sealed)
            || self.durables(behind).range(no..).any(|(&of, &to)| to > 0 && (of > no || to >= end))
    }

    /// A segment that was begun and never synced: the log ends before it.
    fn unsynced(&mut self, no: SegmentNo, behind: &[SegmentNo]) {
        for &later in behind.iter().rev() {
            self.drop_unsynced(later, "it follows a segment without a header");
        }
        self.drop_unsynced(no, "it has no valid header");
    }

    fn drop_unsynced(&mut self, no: SegmentNo, why: &'static str) {
        if self.is_blank(no) {
            self.remove_blank(no);
        } else {
            self.set_aside(no, why);
        }
    }

    /// Puts the wrong bit of a header right in the file. If that fails, the next reader corrects it
    /// again.
    fn correct(&self, no: SegmentNo, file: &dyn File, bit: usize) {
        let written = flipped::write_back(file, bit);
        let became = written.map_or_else(
            |error| format!("it cannot be corrected in the file: {error}"),
            |()| "it was corrected".to_owned(),
        );
        let what = format!("{}; {became}", flipped::words(bit));
        self.corrected.borrow_mut().push(Notice::Repaired { file: segment_name(no), what });
    }

    /// Header and trailer of a segment file; no trailer if it is not sealed.
    fn read_ends(&self, no: SegmentNo) -> Result<(SegmentHeader, Option<Trailer>), Damage> {
        let file = self.files.store_env.disk.open(&self.files.segment_path(no))?;
        let (header, wrong) = SegmentHeader::read_corrected(&*file)?;
        if header.stream != self.id || header.segment != no {
            return Err(Damage::Content("segment header"));
        }
        if let Some(bit) = wrong {
            self.correct(no, &*file, bit);
        }
        let context = self.files.context(&header).ok_or(Damage::Locked("segment"))?;
        match segment::read_trailer(&*file, &context) {
            Ok(trailer) => Ok((header, trailer)),
            Err(Damage::Io(error)) => Err(Damage::Io(error)),
            // Without its footer a segment still has its entries.
            Err(_) => Ok((header, None)),
        }
    }
}
