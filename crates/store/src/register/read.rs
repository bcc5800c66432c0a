//! Reading both copies of a register, without changing them.
//!
//! An entry counts if either copy has it. Of copies with different numbers only the newer one
//! counts: the other was about to be replaced by it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;

use myelin_disk::{Disk, File};

use crate::StreamId;
use crate::damage::Damage;
use crate::meta::Meta;

use super::NAMES;
use super::format::{self, HEADER_BYTES, HeaderFault, RegisterEntry, RegisterHeader, RegisterScan};

/// Streams of a register, as its files have them.
#[derive(Debug, Default)]
pub(crate) struct RegisterContents {
    /// Statements about each stream that was not removed.
    pub(super) streams: BTreeMap<StreamId, Vec<u8>>,
    /// First bytes of the first log of a stream's consumers.
    pub(super) logs: BTreeMap<StreamId, Vec<u8>>,
    /// Streams that were removed.
    pub(crate) removed: BTreeSet<StreamId>,
    /// Faults of a copy that the other one makes up for.
    pub(crate) healed: Vec<(&'static str, String)>,
    /// Faults that take entries away.
    pub(crate) lost: Vec<String>,
    /// Whether there is a file.
    pub(super) is_there: bool,
    pub(super) number: u64,
    pub(super) next_serial: u64,
}

impl RegisterContents {
    /// The streams that it knows.
    pub(crate) fn ids(&self) -> impl Iterator<Item = StreamId> {
        self.streams.keys().copied()
    }
}

/// A copy with a header.
struct Copy {
    name: &'static str,
    header: RegisterHeader,
    scan: RegisterScan,
}

/// Reads both. `is_expected`: the store's marker says that there is one.
pub(crate) fn read(
    disk: &dyn Disk,
    root: &Path,
    store: u64,
    is_expected: bool,
) -> Result<RegisterContents, Damage> {
    let mut contents = RegisterContents::default();
    let mut copies: Vec<Copy> = Vec::new();
    let mut faults: Vec<(&'static str, String)> = Vec::new();
    for name in NAMES {
        let bytes = match disk.open_read_only(&root.join(name)).and_then(|file| load(&*file)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                faults.push((name, "it is missing".to_owned()));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        contents.is_there = true;
        match RegisterHeader::decode(&bytes, store) {
            Ok(header) => {
                let mut scan = format::scan(&bytes, header.seed());
                if name == NAMES[1] {
                    // It is not synced with each entry: that is what a crash leaves of it.
                    scan.damaged.retain(|place| !has_empty_sector(&bytes, place));
                }
                let is_flipped = header.encode()[..] != bytes[..HEADER_BYTES];
                if is_flipped {
                    contents.healed.push((name, "one bit of its header was not what was written".to_owned()));
                }
                copies.push(Copy { name, header, scan });
            }
            Err(HeaderFault::Version(version)) => return Err(Damage::Version("register", version)),
            Err(HeaderFault::Elsewhere) => faults.push((name, "it belongs to another store".to_owned())),
            Err(HeaderFault::Damaged) => faults.push((name, "wrong checksum".to_owned())),
        }
    }
    contents.merge(copies, faults, is_expected);
    Ok(contents)
}

/// Whether all that lies in one sector of a place is zero: it was never written.
fn has_empty_sector(bytes: &[u8], place: &Range<usize>) -> bool {
    const SECTOR: usize = 512;
    let sectors = place.start / SECTOR..place.end.div_ceil(SECTOR);
    let mut parts = sectors.map(|sector| {
        let (from, to) = (sector * SECTOR, (sector + 1) * SECTOR);
        &bytes[from.max(place.start)..to.min(place.end)]
    });
    parts.any(|part| part.iter().all(|byte| *byte == 0))
}

fn load(file: &dyn File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(length, 0);
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

impl RegisterContents {
    fn merge(&mut self, mut copies: Vec<Copy>, faults: Vec<(&'static str, String)>, is_expected: bool) {
        let newest = copies.iter().map(|copy| copy.header.number).max().unwrap_or(0);
        self.number = newest;
        // Of different ones a crash came between the two.
        copies.retain(|copy| copy.header.number == newest);
        let Some(first) = copies.first().map(|copy| copy.header.first) else {
            if self.is_there || is_expected {
                let words = faults.iter().map(|(name, what)| format!("{name}: {what}"));
                self.lost.push(words.collect::<Vec<_>>().join("; "));
            }
            return;
        };
        // One alone is what a crash leaves of the first two.
        self.healed.extend(faults.into_iter().filter(|_| is_expected));
        let mut entries: BTreeMap<u64, RegisterEntry> = BTreeMap::new();
        for copy in &mut copies {
            self.judge(copy);
            entries.append(&mut copy.scan.entries);
        }
        self.next_serial = entries.last_key_value().map_or(first, |(last, _)| last + 1);
        let missing = (self.next_serial - first).saturating_sub(entries.len() as u64);
        if missing > 0 {
            self.lost.push(format!("{missing} entries cannot be read in either copy"));
        }
        self.apply(entries);
    }

    /// Of a torn end nobody had been told, and nobody is.
    fn judge(&mut self, Copy { name, scan, .. }: &Copy) {
        for place in &scan.damaged {
            self.healed.push((name, format!("damaged at {}..{}", place.start, place.end)));
        }
        for bit in &scan.corrected {
            self.healed.push((name, crate::flipped::words(*bit)));
        }
    }

    fn apply(&mut self, entries: BTreeMap<u64, RegisterEntry>) {
        for entry in entries.into_values() {
            match entry {
                RegisterEntry::Stream(body) => match Meta::from_body(&body) {
                    Ok(meta) if !self.removed.contains(&meta.stream) => {
                        self.streams.insert(meta.stream, body);
                    }
                    Ok(_) => {}
                    Err(damage) => self.lost.push(damage.to_string()),
                },
                RegisterEntry::Removed(id) => {
                    self.streams.remove(&id);
                    self.removed.insert(id);
                }
                RegisterEntry::Log(id, bytes) if bytes.is_empty() => drop(self.logs.remove(&id)),
                RegisterEntry::Log(id, bytes) => drop(self.logs.insert(id, bytes)),
            }
        }
        // Of a stream that was removed, or of one whose entry nobody was told of.
        self.logs.retain(|id, _| self.streams.contains_key(id));
    }
}
