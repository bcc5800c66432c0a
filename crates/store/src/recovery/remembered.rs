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
use crate::{Seq, StreamId};

use super::report::Lost;

/// Names of the two copies, in the order in which they are written.
pub(crate) const LOST_COPIES: [&str; 2] = ["lost", "lost.copy"];

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
    /// Losses by their first sequence.
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
    pub(super) are_equal: bool,
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

impl Remembered {
    pub(super) fn covers(&self, range: &RangeInclusive<Seq>) -> bool {
        Ranges::from_ranges(self.lost.iter().map(|lost| lost.sequences.clone())).covers(range)
    }

    /// Losses that hold good and are not in `found`, of a stream that begins with `first`; `there`
    /// tells of which sequences in a range it has messages.
    pub(super) fn still_missing(
        &self,
        first: Seq,
        found: &Ranges,
        there: &dyn Fn(&RangeInclusive<Seq>) -> Ranges,
    ) -> Vec<Lost> {
        if first > self.first_seq && first > self.last_seq {
            // None is left of the messages that were there: they would have gone with them.
            return Vec::new();
        }
        let mut still = Vec::new();
        for lost in &self.lost {
            let told = found.within(lost.sequences.clone()).union(&there(&lost.sequences));
            still.extend(lost.without(&told));
        }
        still
    }

    /// Puts both copies with these losses in the place of this document, of a stream that has
    /// these first and last sequences. `is_new`: whether a loss is among them that was not in it.
    pub(super) fn succeed(
        &self,
        (disk, directory, id): (&dyn Disk, &Path, StreamId),
        lost: &[Lost],
        is_new: bool,
        (first, last): (Seq, Seq),
    ) -> io::Result<()> {
        if lost.is_empty() {
            return forget(disk, directory);
        }
        let (first_seq, last_seq) = if is_new { (first, last) } else { (self.first_seq, self.last_seq) };
        let generation = self.generation.saturating_add(1);
        let next = Self { generation, first_seq, last_seq, lost: lost.to_vec() };
        FILE.replace_all(disk, directory, &LOST_COPIES, &next.body(id))
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
