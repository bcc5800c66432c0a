//! Which files of a stream count, and what the stream was like when they were listed.
//!
//! Owns `manifest.a` and `manifest.b`: two equal copies, written one after the other. A file that a
//! manifest lists is never removed before both copies are durable that no longer list it. A
//! manifest may be behind the segments, never ahead of them: what is newer is in the footers and
//! entries.

use std::io;
use std::path::Path;

use myelin_disk::Disk;

use crate::damage::Damage;
use crate::document::{DocumentFormat, Fields};
use crate::ranges::Ranges;
use crate::segment::{Totals, are_possible};
use crate::{SegmentNo, Seq, StreamId};

/// The two copies, in the order in which they are written.
pub const COPIES: [&str; 2] = ["manifest.a", "manifest.b"];

const FILE: DocumentFormat = DocumentFormat { magic: *b"MYELMANI", version: 1, what: "manifest" };
/// Bytes of a segment in the list.
const ENTRY_BYTES: usize = 8 * 8 + 1;

/// A state of a stream's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Grows with each manifest of the stream.
    pub generation: u64,
    /// The stream.
    pub stream: StreamId,
    /// The last segment whose effects are in `base`, `totals` and `deleted`; 0 if none's are.
    pub covers: SegmentNo,
    /// The base, if there is one.
    pub base: Option<BaseFile>,
    /// Of the stream at the end of `covers`.
    pub totals: Totals,
    /// The epoch then.
    pub epoch: u64,
    /// The term then.
    pub term: u64,
    /// Sequences between first and last that were gone then.
    pub deleted: Ranges,
    /// The segments that exist, in order.
    pub segments: Vec<SegmentEntry>,
}

/// A base that a manifest counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseFile {
    /// The number in its name, which is that of the last segment in it.
    pub number: SegmentNo,
    /// As in its header.
    pub generation: u64,
    /// Its length.
    pub file_len: u64,
}

/// A segment that a manifest lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// The number in its name.
    pub no: SegmentNo,
    /// The last number that it stands for.
    pub through: SegmentNo,
    /// How often it was written anew.
    pub generation: u64,
    /// Of the first message that is still visible.
    pub first_seq: Seq,
    /// Of the last one.
    pub last_seq: Seq,
    /// Visible messages.
    pub messages: u64,
    /// Their stored size.
    pub bytes: u64,
    /// Length of the file, if it is sealed.
    pub file_len: u64,
    /// Whether it is sealed: a file that lacks its footer then is damaged. If not, it was missing
    /// or could not be read when it was listed, and how many messages it has is not known.
    pub sealed: bool,
}

impl Manifest {
    /// The file's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        FILE.frame(&self.body())
    }

    fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let base = self.base.unwrap_or(BaseFile { number: SegmentNo(0), generation: 0, file_len: 0 });
        for number in [self.stream.0, self.generation, self.covers.0, self.epoch, self.term] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.push(u8::from(self.base.is_some()));
        for number in [base.number.0, base.generation, base.file_len] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(&self.totals.to_bytes());
        body.extend_from_slice(&(self.segments.len() as u64).to_le_bytes());
        self.segments.iter().for_each(|segment| segment.put(&mut body));
        self.deleted.encode(&mut body);
        body
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut fields = Fields(FILE.body(bytes)?);
        let manifest = Self::take(&mut fields).filter(|_| fields.0.is_empty());
        manifest.ok_or(Damage::Content(FILE.what))
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let [stream, generation, covers, epoch, term] = numbers(fields)?;
        let has_base = flag(fields)?;
        let [number, base_generation, file_len] = numbers(fields)?;
        let base = BaseFile { number: SegmentNo(number), generation: base_generation, file_len };
        let totals = Totals::decode(fields.bytes()?)?;
        let count = usize::try_from(fields.u64()?).ok()?;
        if count > fields.0.len() / ENTRY_BYTES {
            return None;
        }
        let segments = (0..count).map(|_| SegmentEntry::take(fields)).collect::<Option<Vec<_>>>()?;
        let ordered = segments.windows(2).all(|pair| pair[0].through < pair[1].no);
        let deleted = Ranges::decode(&mut fields.0)?;
        let within = deleted.iter().last().is_none_or(|range| *range.end() <= totals.last_seq);
        (ordered && within).then_some(Self {
            generation,
            stream: StreamId(stream),
            covers: SegmentNo(covers),
            base: has_base.then_some(base),
            totals,
            epoch,
            term,
            deleted,
            segments,
        })
    }

    /// Makes it the manifest of a stream's directory: first one copy, then the other. Both are
    /// durable on return.
    ///
    /// # Errors
    /// Those of the disk. Either manifest may be in force then: nothing that only one of them lists
    /// may be removed.
    pub fn write(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        debug_assert!(
            self.segments.windows(2).all(|pair| pair[0].through < pair[1].no),
            "segments are listed in order, each once"
        );
        debug_assert!(
            self.deleted.iter().last().is_none_or(|range| *range.end() <= self.totals.last_seq),
            "only what was given out is removed"
        );
        debug_assert!(
            self.segments.iter().all(|segment| segment.no <= segment.through),
            "a segment stands at least for itself"
        );
        let body = self.body();
        COPIES.iter().try_for_each(|name| FILE.replace(disk, directory, name, &body))
    }
}

impl SegmentEntry {
    /// A segment that is not at hand, and can have held these sequences.
    pub(crate) fn lost(no: SegmentNo, first_seq: Seq, last_seq: Seq) -> Self {
        let (through, generation) = (no, 0);
        Self {
            no,
            through,
            generation,
            first_seq,
            last_seq,
            messages: 0,
            bytes: 0,
            file_len: 0,
            sealed: false,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let numbers = [
            self.no.0,
            self.through.0,
            self.generation,
            self.first_seq,
            self.last_seq,
            self.messages,
            self.bytes,
            self.file_len,
        ];
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.push(u8::from(self.sealed));
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let [no, through, generation, first_seq, last_seq, messages, bytes, file_len] = numbers(fields)?;
        let (no, through) = (SegmentNo(no), SegmentNo(through));
        let sealed = flag(fields)?;
        (no <= through && are_possible(first_seq, last_seq)).then_some(Self {
            no,
            through,
            generation,
            first_seq,
            last_seq,
            messages,
            bytes,
            file_len,
            sealed,
        })
    }
}

fn numbers<const N: usize>(fields: &mut Fields<'_>) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = fields.u64()?;
    }
    Some(numbers)
}

fn flag(fields: &mut Fields<'_>) -> Option<bool> {
    match fields.byte()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Result of reading the two copies.
#[derive(Debug, Default)]
pub struct ManifestCopies {
    /// The valid one with the largest generation.
    pub best: Option<Manifest>,
    /// Copies that are there and not valid, or missing beside the other.
    pub faults: Vec<(&'static str, Damage)>,
    /// Whether both are valid and say the same: else only one of them may list a file.
    pub equal: bool,
}

/// Reads both copies. Nothing is returned as an error: without a valid copy, the faults say why.
#[must_use]
pub fn read(disk: &dyn Disk, directory: &Path) -> ManifestCopies {
    let mut copies = ManifestCopies::default();
    let mut valid = Vec::new();
    for name in COPIES {
        match FILE.read(disk, &directory.join(name)).and_then(|bytes| Manifest::decode(&bytes)) {
            Ok(manifest) => {
                valid.push(manifest.generation);
                let newer = copies.best.as_ref().is_none_or(|best| best.generation < manifest.generation);
                if newer {
                    copies.best = Some(manifest);
                }
            }
            Err(damage) => copies.faults.push((name, damage)),
        }
    }
    copies.equal = valid.len() == COPIES.len() && valid.iter().all(|generation| *generation == valid[0]);
    let missing = |(_, damage): &(_, Damage)| matches!(damage, Damage::Io(error) if error.kind() == io::ErrorKind::NotFound);
    if copies.faults.len() == COPIES.len() && copies.faults.iter().all(missing) {
        copies.faults.clear();
    }
    if copies.best.as_ref().is_some_and(|manifest| manifest.generation == 1) {
        // The first one is written copy by copy, too.
        copies.faults.retain(|fault| !(fault.0 == COPIES[1] && missing(fault)));
    }
    copies
}

#[cfg(test)]
mod tests;
