//! The two files: what they hold when a store is opened, and writing them.
//!
//! Both are written alike, and of two valid slots or heads the newer one counts, so either may be
//! lost or damaged.

use crate::lengths::in_memory;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::{Disk, File};

use crate::StreamId;
use crate::damage::Damage;

use super::format::{
    HEAD_BYTES, SLOT_BYTES, SectorFault, WatermarkHead, WatermarkSlot, length_for, offset_of, seed,
};

/// The files' names, in a store's root.
pub(crate) const NAMES: [&str; 2] = ["watermarks", "watermarks.copy"];
/// A file beyond this is none of ours: some 8 million streams.
const MOST_BYTES: u64 = 1 << 30;
/// Slots between two that are written are written, too, if there are no more.
const BRIDGED: usize = 8;

/// Contents of both files.
#[derive(Debug, Default)]
pub(crate) struct WatermarkContents {
    /// `None`: no valid one.
    pub(crate) head: Option<WatermarkHead>,
    /// As they stand in the files; free ones have stream 0.
    pub(crate) slots: Vec<WatermarkSlot>,
    /// Faults, with the file of each.
    pub(crate) faults: Vec<(&'static str, String)>,
    /// Faults of one file where the other copy says it, so that nothing is lost: a write that was
    /// cut short leaves this, too.
    pub(crate) healed: Vec<(&'static str, String)>,
    /// Whether a copy is not as it should be, and both have to be written.
    pub(crate) must_write: bool,
}

/// Reads both files, for the store with this number.
pub(crate) fn read(disk: &dyn Disk, root: &Path, store: u64) -> Result<WatermarkContents, Damage> {
    let mut read = WatermarkContents::default();
    let mut contents = Vec::new();
    for name in NAMES {
        let bytes = match load(disk, &root.join(name)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                read.faults.push((name, Damage::Io(error).to_string()));
                Vec::new()
            }
        };
        match WatermarkHead::decode(&bytes) {
            Ok(head) if head.store != store => {
                read.faults.push((name, "it belongs to another store".to_owned()));
                continue;
            }
            Ok(head) => {
                if read.head.is_none_or(|best| best.serial < head.serial) {
                    read.head = Some(head);
                }
            }
            Err(SectorFault::Blank) => {}
            Err(SectorFault::Damaged) => read.healed.push((name, "its head is damaged".to_owned())),
            Err(SectorFault::Version(version)) => return Err(Damage::Version("watermarks", version)),
        }
        contents.push((name, bytes));
    }
    if read.head.is_none() {
        read.faults.append(&mut read.healed);
    }
    read.merge(&contents, store);
    read.must_write = contents.len() < 2 || contents[0].1 != contents[1].1;
    Ok(read)
}

/// The number of the store that the files were written for, if one of them still says it: for a
/// store that has lost its own mark.
pub(crate) fn store_number(disk: &dyn Disk, root: &Path) -> Option<u64> {
    let head = |name| WatermarkHead::decode(&load(disk, &root.join(name)).ok()?).ok();
    NAMES.into_iter().find_map(head).map(|head| head.store)
}

fn load(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open_read_only(path)?;
    let length = file.len()?;
    if length > MOST_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; in_memory(length)];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

impl WatermarkContents {
    /// Takes of each slot the newer valid one.
    fn merge(&mut self, contents: &[(&'static str, Vec<u8>)], store: u64) {
        let longest = contents.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or(0);
        let count = longest.saturating_sub(HEAD_BYTES) / SLOT_BYTES;
        for index in 0..count {
            let mut best = WatermarkSlot::new(StreamId(0));
            let mut damaged = Vec::new();
            for (name, bytes) in contents {
                let at = offset_of(index);
                let Some(bytes) = bytes.get(at..at + SLOT_BYTES).and_then(|slot| slot.first_chunk()) else {
                    continue;
                };
                match WatermarkSlot::decode(bytes, seed(store, index)) {
                    Ok(slot) if slot.serial > best.serial => best = slot,
                    Err(SectorFault::Damaged) => damaged.push((*name, format!("damaged at {at}"))),
                    _ => {}
                }
            }
            if best.serial == 0 { &mut self.faults } else { &mut self.healed }.append(&mut damaged);
            self.slots.push(best);
        }
        self.forget_older();
    }

    /// A slot that was free in one copy and not in the other may have brought a stream back that
    /// has a newer one.
    fn forget_older(&mut self) {
        let mut newest: BTreeMap<StreamId, u64> = BTreeMap::new();
        for slot in self.slots.iter().filter(|slot| slot.stream.0 != 0) {
            let serial = newest.entry(slot.stream).or_default();
            *serial = slot.serial.max(*serial);
        }
        for slot in &mut self.slots {
            if newest.get(&slot.stream).is_some_and(|serial| *serial > slot.serial) {
                *slot = WatermarkSlot { serial: slot.serial, ..WatermarkSlot::new(StreamId(0)) };
            }
        }
    }

    /// The highest serial of all.
    pub(crate) fn serial(&self) -> u64 {
        let head = self.head.map_or(0, |head| head.serial);
        self.slots.iter().map(|slot| slot.serial).fold(head, u64::max)
    }
}

/// The files while a store is open.
#[derive(Debug, Default)]
pub(super) struct Copies {
    files: [Option<Arc<dyn File>>; 2],
    /// The least of their lengths.
    length: usize,
    /// Whether one was made and nothing of it is synced: also where its making found no room at
    /// first.
    is_new: bool,
}

impl Copies {
    /// Opens or makes both, with room for `slots`. Whatever they hold stays; new ones are zeros.
    /// Answers whether one is new.
    pub(super) fn open(&mut self, disk: &dyn Disk, root: &Path, slots: usize) -> io::Result<bool> {
        let length = length_for(slots);
        for (file, name) in self.files.iter_mut().zip(NAMES) {
            if file.is_none() {
                let path = root.join(name);
                *file = Some(match disk.open(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        self.is_new = true;
                        disk.create(&path)?
                    }
                    opened => opened?,
                });
            }
        }
        if self.is_new {
            disk.sync_directory(root)?;
        }
        if self.length < length {
            self.files.iter().flatten().try_for_each(|file| file.allocate(length as u64))?;
            self.length = length;
        }
        Ok(self.is_new)
    }

    /// Writes a head, and the slots with these indices.
    pub(super) fn write(
        &self,
        store: u64,
        head: Option<&WatermarkHead>,
        slots: &[WatermarkSlot],
        which: &BTreeSet<usize>,
    ) -> io::Result<()> {
        let mut parts: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut last = None;
        for &index in which {
            let from = match last {
                Some(before) if index - before <= BRIDGED => before + 1,
                _ => {
                    parts.push((offset_of(index), Vec::new()));
                    index
                }
            };
            let (_, bytes) = parts.last_mut().expect("one was begun for the first slot");
            (from..=index).for_each(|at| bytes.extend_from_slice(&slots[at].encode(seed(store, at))));
            last = Some(index);
        }
        let head = head.map(|head| head.encode());
        for file in self.files.iter().flatten() {
            for (at, bytes) in &parts {
                file.write_at(bytes, *at as u64)?;
            }
            // Last: it says that the slots are what it calls them.
            head.as_ref().map_or(Ok(()), |head| file.write_at(head, 0))?;
        }
        Ok(())
    }

    /// The files, to be synced where nobody has to wait.
    pub(super) fn files(&self) -> Vec<Arc<dyn File>> {
        self.files.iter().flatten().cloned().collect()
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.files.iter().flatten().try_for_each(|file| file.sync())?;
        self.is_new = false;
        Ok(())
    }
}
