//! Losses that are remembered: what a start finds missing is told by later ones, too.
//!
//! Owns the documents `lost` and `lost.copy` of a stream. Once the stream goes on, its files need
//! not show any more that messages are missing: sequences are passed over, and a new manifest lists
//! what is there. So a start writes down what it tells. Later ones tell it until a repair has put
//! it away, the messages are back, or none is left of those that were there then.

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use myelin_disk::Disk;

use crate::damage::Damage;
use crate::document::{DocumentFormat, Fields, put_blob};
use crate::ranges::Ranges;
use crate::stream::{Catalog, Files};
use crate::{Seq, StreamId};

use super::directory::{LOST_COPIES, set_aside};
use super::report::{Lost, Notice, StreamReport};

const FILE: DocumentFormat = DocumentFormat { magic: *b"MYELLOST", version: 1, what: "losses" };
/// Bytes of a loss without the name of its file.
const ENTRY_BYTES: usize = 3 * 8 + 4;

/// Losses of a stream, as a document has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// Grows each time it is written: of two copies the larger one counts.
    generation: u64,
    /// The stream's first sequence when the newest loss was found.
    first_seq: Seq,
    /// The stream's last sequence then.
    last_seq: Seq,
    /// In order.
    pub(crate) lost: Vec<Lost>,
}

/// Result of reading the two copies.
#[derive(Debug, Default)]
pub(crate) struct LossCopies {
    /// The valid one with the largest generation.
    pub(crate) best: Option<Remembered>,
    /// Copies that are not valid or not there.
    pub(crate) faults: Vec<(&'static str, Damage)>,
    /// Whether both are valid and say the same.
    are_equal: bool,
}

/// Reads both copies in a stream's directory.
pub(crate) fn read(disk: &dyn Disk, directory: &Path, id: StreamId) -> LossCopies {
    let mut copies = LossCopies::default();
    let mut valid = Vec::new();
    for name in LOST_COPIES {
        let bytes = FILE.read(disk, &directory.join(name));
        match bytes.and_then(|bytes| Remembered::decode(&bytes, id)) {
            Ok(one) => valid.push(one),
            Err(damage) => copies.faults.push((name, damage)),
        }
    }
    copies.are_equal = valid.len() == LOST_COPIES.len() && valid[0] == valid[1];
    copies.best = valid.into_iter().max_by_key(|one| one.generation);
    copies
}

/// Removes both copies, as far as they are there.
pub(crate) fn forget(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    LOST_COPIES.iter().try_for_each(|name| match disk.remove_file(&directory.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    })
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
    report.lost.extend(before.still_missing(catalog, &found));
    report.lost.sort_by_key(|lost| (*lost.sequences.start(), *lost.sequences.end()));
    if are_equal && report.lost == before.lost {
        return;
    }
    let written = if report.lost.is_empty() {
        forget(disk, &files.directory)
    } else {
        let totals = catalog.totals();
        let (first_seq, last_seq) =
            if is_new { (totals.first_seq, totals.last_seq) } else { (before.first_seq, before.last_seq) };
        let generation = before.generation.saturating_add(1);
        let now = Remembered { generation, first_seq, last_seq, lost: report.lost.clone() };
        FILE.replace_all(disk, &files.directory, &LOST_COPIES, &now.body(id))
    };
    if let Err(error) = written {
        let what = format!("cannot write down for later starts what is lost: {error}");
        report.note(Notice::Left { what });
    }
}

/// Says what is wrong with the copies. One that is missing or older is what a crash leaves.
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

impl Remembered {
    fn covers(&self, range: &RangeInclusive<Seq>) -> bool {
        let known = Ranges::from_ranges(self.lost.iter().map(|lost| lost.sequences.clone()));
        known.within(range.clone()).iter().eq([range.clone()])
    }

    /// Losses that hold good and are not in `found`.
    fn still_missing(&self, catalog: &Catalog, found: &Ranges) -> Vec<Lost> {
        let first = catalog.totals().first_seq;
        if first > self.first_seq && first > self.last_seq {
            // None is left of the messages that were there: they would have gone with them.
            return Vec::new();
        }
        let mut still = Vec::new();
        for lost in &self.lost {
            let told = found.within(lost.sequences.clone()).union(&there(catalog, &lost.sequences));
            for sequences in without(&lost.sequences, &told) {
                let is_whole = sequences == lost.sequences;
                // How much of it the rest had nobody knows.
                let bytes = if is_whole { lost.bytes } else { 0 };
                still.push(Lost { file: lost.file.clone(), sequences, bytes });
            }
        }
        still
    }

    fn body(&self, id: StreamId) -> Vec<u8> {
        let mut body = Vec::new();
        let count = self.lost.len() as u64;
        for number in [id.0, self.generation, self.first_seq, self.last_seq, count] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        for lost in &self.lost {
            for number in [*lost.sequences.start(), *lost.sequences.end(), lost.bytes] {
                body.extend_from_slice(&number.to_le_bytes());
            }
            put_blob(lost.file.as_bytes(), &mut body);
        }
        body
    }

    fn decode(bytes: &[u8], id: StreamId) -> Result<Self, Damage> {
        let mut fields = Fields(FILE.body(bytes)?);
        match Self::take(&mut fields).filter(|_| fields.0.is_empty()) {
            Some((stream, _)) if stream != id => Err(Damage::Content("losses of another stream")),
            Some((_, one)) => Ok(one),
            None => Err(Damage::Content(FILE.what)),
        }
    }

    fn take(fields: &mut Fields<'_>) -> Option<(StreamId, Self)> {
        let (stream, generation) = (StreamId(fields.u64()?), fields.u64()?);
        let (first_seq, last_seq) = (fields.u64()?, fields.u64()?);
        let count = usize::try_from(fields.u64()?).ok()?;
        if count > fields.0.len() / ENTRY_BYTES {
            return None;
        }
        let lost = (0..count).map(|_| take_lost(fields)).collect::<Option<Vec<_>>>()?;
        Some((stream, Self { generation, first_seq, last_seq, lost }))
    }
}

fn take_lost(fields: &mut Fields<'_>) -> Option<Lost> {
    let (first, last, bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let file = String::from_utf8(fields.blob()?.to_vec()).ok()?;
    (first <= last).then_some(Lost { file, sequences: first..=last, bytes })
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

/// The parts of a range that are not in a set.
fn without(range: &RangeInclusive<Seq>, set: &Ranges) -> Vec<RangeInclusive<Seq>> {
    let (mut from, end) = (*range.start(), *range.end());
    let mut parts = Vec::new();
    for inside in set.within(range.clone()).iter() {
        if from < *inside.start() {
            parts.push(from..=*inside.start() - 1);
        }
        match inside.end().checked_add(1) {
            Some(next) => from = next,
            None => return parts,
        }
    }
    if from <= end {
        parts.push(from..=end);
    }
    parts
}
