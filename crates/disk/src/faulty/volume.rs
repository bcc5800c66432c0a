//! The state of a faulty disk: its files, their names as seen and as safe, and the space.
//!
//! Knows what is durable, but no faults and no points: operations here fail for their own reasons
//! only, such as a full disk. Directories follow a journaling file system: of the unsynced changes
//! of names in one directory the first few survive, never a later one without the earlier ones;
//! each directory by itself, as far as renames allow.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::Path;

use myelin_stdx::rng::Rng;

use super::super::File;
use super::super::memory::checked_end;
use super::super::tree::{NameChange, Tree};
use super::Survival;
use super::inode::{BLOCK, Inode, KeptWrites};

/// Free bytes of a disk without a capacity.
const UNLIMITED: u64 = 1 << 40;

#[derive(Clone, Debug)]
pub(super) struct Volume {
    files: BTreeMap<u64, Inode>,
    pub(super) live: Tree,
    durable: Tree,
    /// Unsynced changes of names, with the number of each.
    pending: Vec<(u64, NameChange)>,
    /// Numbers all changes of the disk.
    order: u64,
    pub(super) capacity: Option<u64>,
    used: u64,
    /// Whether there may be files without a name.
    has_nameless: bool,
}

impl Volume {
    pub(super) fn new() -> Self {
        Self {
            files: BTreeMap::new(),
            live: Tree::new(),
            durable: Tree::new(),
            pending: Vec::new(),
            order: 0,
            capacity: None,
            used: 0,
            has_nameless: false,
        }
    }

    pub(super) fn free(&self) -> u64 {
        self.capacity.unwrap_or(UNLIMITED).saturating_sub(self.used)
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn inode(&self, number: u64) -> io::Result<&Inode> {
        self.files.get(&number).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn inode_mut(&mut self, number: u64) -> io::Result<&mut Inode> {
        self.files.get_mut(&number).ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// All unsynced changes, data and names.
    pub(super) fn unsynced(&self) -> BTreeSet<u64> {
        let names = self.pending.iter().map(|(order, _)| *order);
        names.chain(self.files.values().flat_map(Inode::unsynced)).collect()
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    // Names.

    pub(super) fn create(&mut self, path: &Path) -> io::Result<u64> {
        let number = self.live.number();
        let change = self.live.creation(path, number)?;
        self.room_for_a_name()?;
        self.files.insert(number, Inode::named());
        self.rename_in_tree(change);
        Ok(number)
    }

    pub(super) fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        if self.live.directory(path).is_err() {
            self.room_for_a_name()?;
        }
        for change in self.live.make_directory(path)? {
            let order = self.next_order();
            self.pending.push((order, change));
        }
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let change = self.live.renaming(from, to)?;
        self.rename_in_tree(change);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let change = self.live.removal_of_file(path)?;
        self.rename_in_tree(change);
        Ok(())
    }

    pub(super) fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        let change = self.live.removal_of_directory(path)?;
        self.rename_in_tree(change);
        Ok(())
    }

    fn rename_in_tree(&mut self, change: NameChange) {
        let order = self.next_order();
        if let Some(lost) = self.live.apply(&change) {
            self.has_nameless = true;
            if let Some(inode) = self.files.get_mut(&lost) {
                inode.linked = false;
            }
            self.give_back(lost);
        }
        self.pending.push((order, change));
    }

    /// A file system wants a block now and then for names; a full one has none.
    fn room_for_a_name(&self) -> io::Result<()> {
        if self.free() < BLOCK { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Makes the names in a directory safe, and with them what a rename ties to them in others.
    pub(super) fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        let directory = self.live.directory(path)?;
        let mut wanted = BTreeSet::from([directory]);
        let mut safe = vec![false; self.pending.len()];
        // Backwards: a change that must be safe wants all earlier ones of its directories to be.
        for (index, (_, change)) in self.pending.iter().enumerate().rev() {
            let [one, other] = change.directories();
            if wanted.contains(&one) || wanted.contains(&other) {
                wanted.extend([one, other]);
                safe[index] = true;
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for (entry, safe) in pending.into_iter().zip(safe) {
            if safe {
                self.durable.apply(&entry.1);
            } else {
                self.pending.push(entry);
            }
        }
        self.forget_nameless();
        Ok(())
    }

    // Data.

    /// Writes as much from the beginning of `bytes` as there is room for.
    pub(super) fn write(&mut self, number: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = checked_end(offset, bytes.len() as u64)?;
        let fits = self.claim(number, offset, end)?;
        let order = self.next_order();
        let written = (fits - offset) as usize;
        if written > 0 {
            self.inode_mut(number)?.write(order, offset, &bytes[..written])?;
        }
        if fits < end { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn allocate(&mut self, number: u64, length: u64) -> io::Result<()> {
        checked_end(0, length)?;
        // What there is room for stays with the file, as on ext4.
        let fits = self.claim(number, 0, length)?;
        let order = self.next_order();
        self.inode_mut(number)?.extend(order, fits)?;
        if fits < length { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn set_len(&mut self, number: u64, length: u64) -> io::Result<()> {
        checked_end(0, length)?;
        let order = self.next_order();
        let inode = self.inode_mut(number)?;
        inode.set_len(order, length)?;
        let freed = inode.blocks.remove_range(block_behind(length)..);
        self.used -= freed * BLOCK;
        Ok(())
    }

    /// Blocks of the range that the file does not have.
    fn missing(&self, number: u64, offset: u64, end: u64) -> io::Result<u64> {
        let blocks = block_of(offset)..block_behind(end);
        let wanted = u64::from(blocks.end.saturating_sub(blocks.start));
        Ok(wanted - self.inode(number)?.blocks.range_cardinality(blocks))
    }

    /// Takes blocks for the range, from its beginning, until the disk is full. Gives back where
    /// they end.
    fn claim(&mut self, number: u64, offset: u64, end: u64) -> io::Result<u64> {
        let missing = self.missing(number, offset, end)?;
        let free = self.free() / BLOCK;
        let inode = self.inode_mut(number)?;
        if missing <= free {
            inode.blocks.insert_range(block_of(offset)..block_behind(end));
            self.used += missing * BLOCK;
            return Ok(end);
        }
        let mut taken = 0;
        let mut full = offset;
        for block in block_of(offset)..block_behind(end) {
            if !inode.blocks.contains(block) {
                if taken == free {
                    break;
                }
                inode.blocks.insert(block);
                taken += 1;
            }
            full = (u64::from(block) + 1) * BLOCK;
        }
        self.used += taken * BLOCK;
        Ok(full.clamp(offset, end))
    }

    // Handles.

    pub(super) fn opened(&mut self, number: u64) -> io::Result<()> {
        self.inode_mut(number)?.handles += 1;
        Ok(())
    }

    pub(super) fn closed(&mut self, number: u64) {
        if let Some(inode) = self.files.get_mut(&number) {
            inode.handles -= 1;
        }
        self.give_back(number);
    }

    /// A file without name and handle costs no space. Its content stays: an unsynced removal may be
    /// undone.
    fn give_back(&mut self, number: u64) {
        if let Some(inode) = self.files.get_mut(&number).filter(|inode| !inode.linked && inode.handles == 0) {
            self.used -= inode.blocks.len() * BLOCK;
            inode.blocks.clear();
        }
    }

    /// Drops the content of files that no loss of power can bring back.
    fn forget_nameless(&mut self) {
        if self.pending.is_empty() && self.has_nameless {
            self.files.retain(|_, inode| inode.linked || inode.handles > 0);
            self.has_nameless = self.files.values().any(|inode| !inode.linked);
        }
    }

    // The end of a process or of power.

    /// Copies the disk as another process finds it: everything, synced or not.
    pub(super) fn without_handles(&self) -> Self {
        let mut volume = self.clone();
        let numbers: Vec<u64> = volume.files.keys().copied().collect();
        for number in numbers {
            if let Some(inode) = volume.files.get_mut(&number) {
                inode.handles = 0;
            }
            volume.give_back(number);
        }
        volume
    }

    /// Copies the disk as it is when power comes back.
    pub(super) fn after_power_loss(&self, survival: Survival) -> io::Result<Self> {
        let mut rng = Rng::seeded(match survival {
            Survival::Random(seed) => seed,
            _ => 0,
        });
        // Changes with a smaller number survive a `Prefix`.
        let until = match survival {
            Survival::Prefix(count) => self.unsynced().into_iter().nth(count as usize).unwrap_or(u64::MAX),
            _ => 0,
        };
        let mut durable = self.durable.clone();
        for change in self.surviving_names(survival, until, &mut rng) {
            durable.apply(change);
        }
        let mut volume = Self::new();
        volume.live = self.live.replaced_by(&durable);
        volume.durable = volume.live.clone();
        volume.capacity = self.capacity;
        for (_, number) in durable.files() {
            let left = match survival {
                Survival::None => KeptWrites::Nothing,
                Survival::All => KeptWrites::Everything,
                Survival::Prefix(_) => KeptWrites::Before(until),
                Survival::Random(_) => KeptWrites::Some(&mut rng),
            };
            let inode = self.inode(number)?.survivor(left)?;
            volume.adopt(number, inode)?;
        }
        Ok(volume)
    }

    fn adopt(&mut self, number: u64, mut inode: Inode) -> io::Result<()> {
        // Blocks of a removal that was undone, or of changes that were: what the length covers is
        // backed.
        inode.blocks.clear();
        inode.blocks.insert_range(0..block_behind(inode.live().len()?));
        self.used += inode.blocks.len() * BLOCK;
        self.files.insert(number, inode);
        Ok(())
    }

    fn surviving_names(&self, survival: Survival, until: u64, rng: &mut Rng) -> Vec<&NameChange> {
        let mut stopped = BTreeSet::new();
        let mut survivors = Vec::new();
        // One directory in this many changes stops: rarely, often, or at once.
        let odds = [u64::MAX, 8, 2, 1][rng.below(4) as usize];
        for (order, change) in &self.pending {
            let survives = match survival {
                Survival::None => false,
                Survival::All => true,
                Survival::Prefix(_) => *order < until,
                Survival::Random(_) => rng.below(odds) > 0,
            };
            let directories = change.directories();
            if survives && directories.iter().all(|directory| !stopped.contains(directory)) {
                survivors.push(change);
            } else {
                stopped.extend(directories);
            }
        }
        survivors
    }
}

/// Block of an offset. The number fits: no file in memory is that long.
fn block_of(offset: u64) -> u32 {
    (offset / BLOCK) as u32
}

fn block_behind(end: u64) -> u32 {
    end.div_ceil(BLOCK) as u32
}
