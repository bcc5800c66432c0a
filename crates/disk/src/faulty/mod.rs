//! A disk in memory that knows what is durable and fails on request: what crash enumeration runs
//! on.
//!
//! Every operation that changes something is a *point*, numbered from 0. [`FaultyDisk::fail_at`]
//! says what happens at one of them; [`FaultyDisk::power_cycle`] gives the disk that a machine
//! would find after a loss of power, and [`FaultyDisk::kill`] the one that the next process would
//! find. All of it depends on the seeds and on the order of operations alone. It is stricter than
//! most devices, and must never be kinder than any.

mod fault;
mod inode;
mod step;
mod volume;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use myelin_stdx::sync::lock;

use super::lock;
use super::memory::MemoryFile;
use super::{DirectoryEntry, Disk, File, Lock};
use crate::claim::ClaimSet;
use fault::{Faults, PointVerdict};
use volume::Volume;

pub use fault::{DiskFault, Survival};
pub use step::{DiskOperation, DiskStep};

/// A disk whose faults are planned. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<FaultyState>>,
    /// Locks, which end with the process, like this disk.
    locks: ClaimSet<PathBuf>,
    watcher: Option<Watcher>,
}

/// Called before each point, outside of the disk's lock: it may let time pass, or panic.
type Watcher = Arc<dyn Fn(&DiskOperation) + Send + Sync>;

#[derive(Debug)]
struct FaultyState {
    volume: Volume,
    faults: Faults,
    /// Operations that were asked for; `None`: nobody wants to know.
    steps: Option<Vec<DiskStep>>,
    memory: PageCache,
    /// How often power has come back, and 1.
    boot: u64,
    /// Files that nobody may open.
    forbidden: HashSet<u64>,
}

/// Pages that can be read without waiting.
#[derive(Debug)]
enum PageCache {
    All,
    Nothing,
    /// Pages that were read since: of which file, and which.
    Read(BTreeSet<(u64, u64)>),
}

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyDisk").finish_non_exhaustive()
    }
}

impl FaultyDisk {
    /// An empty, healthy disk without a limit; `seed` decides how failed writes are torn.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_volume(Volume::new(), seed, 1)
    }

    fn with_volume(volume: Volume, seed: u64, boot: u64) -> Self {
        let (faults, memory, forbidden) = (Faults::new(seed), PageCache::All, HashSet::new());
        let state = FaultyState { volume, faults, steps: Some(Vec::new()), memory, boot, forbidden };
        Self { state: Arc::new(Mutex::new(state)), locks: ClaimSet::default(), watcher: None }
    }

    /// The disk with a watcher, and without its journal, which grows with each point.
    #[must_use]
    pub fn watched(mut self, watcher: Arc<dyn Fn(&DiskOperation) + Send + Sync>) -> Self {
        self.state().steps = None;
        self.watcher = Some(watcher);
        self
    }

    /// How many points there were so far; also the number of the next one.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.state().faults.points()
    }

    /// Plans what happens at a point that is still to come. Several may be planned.
    pub fn fail_at(&self, point: u64, fault: DiskFault) {
        self.state().faults.plan(point, fault);
    }

    /// Whether everything that is read has to be waited for: nothing is in memory.
    pub fn chill(&self, is_cold: bool) {
        self.state().memory = if is_cold { PageCache::Nothing } else { PageCache::All };
    }

    /// Takes everything out of memory, as a machine under pressure does: what is read and waited
    /// for from now on is there again.
    pub fn evict(&self) {
        self.state().memory = PageCache::Read(BTreeSet::new());
    }

    /// Whether power was lost: from then on every operation fails.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state().faults.is_off()
    }

    /// Ends `ErrorsFrom`; what is planned for later stays.
    pub fn heal(&self) {
        self.state().faults.heal();
    }

    /// Forgets what is planned and has not happened.
    pub fn forget_plans(&self) {
        self.state().faults.forget_plans();
    }

    /// Limits the bytes that files may take, counted in blocks of 4096; `None` lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().volume.capacity = bytes;
    }

    /// Bytes that files take, in blocks of 4096.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().volume.used()
    }

    /// How many changes a loss of power could undo: the bound of [`Survival::Prefix`].
    #[must_use]
    pub fn unsynced(&self) -> u64 {
        self.state().volume.unsynced().len() as u64
    }

    /// Operations that were asked for so far.
    #[must_use]
    pub fn journal(&self) -> Vec<DiskStep> {
        self.state().steps.clone().unwrap_or_default()
    }

    /// The healthy disk that is found when power comes back: everything synced, and what `survival`
    /// says of the rest. Its points begin at 0. The old disk stays as it is, so that several
    /// survivals can be tried.
    #[must_use]
    pub fn power_cycle(&self, survival: Survival) -> Self {
        let state = self.state();
        let volume = state.volume.after_power_loss(survival);
        Self::with_volume(
            volume.expect("files that were written in memory can be copied in memory"),
            state.faults.seed(),
            state.boot + 1,
        )
    }

    /// The healthy disk that the next process finds when this one dies: everything written, synced
    /// or not. What was not synced can still be lost by a later power cycle. The old disk stays as
    /// it is.
    #[must_use]
    pub fn kill(&self) -> Self {
        let state = self.state();
        Self::with_volume(state.volume.without_handles(), state.faults.seed(), state.boot)
    }

    /// All files with their lengths.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, u64> {
        let state = self.state();
        let length = |number| state.volume.inode(number).and_then(|inode| inode.live().len()).unwrap_or(0);
        state.volume.live.files().into_iter().map(|(path, number)| (path, length(number))).collect()
    }

    /// The first file that one of two disks lacks or that differs between them, as readers see it.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<PathBuf> {
        let [ours, theirs] = [self.files(), other.files()];
        let same = |path: &Path| {
            ours.get(path) == theirs.get(path) && self.read_all(path).ok() == other.read_all(path).ok()
        };
        ours.keys().chain(theirs.keys()).filter(|path| !same(path)).min().cloned()
    }

    /// The whole content of a file, as readers see it.
    pub fn read_all(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.state();
        let file = state.volume.inode(state.volume.live.file(path)?)?.live();
        let mut content = vec![0; file.len()? as usize];
        file.read_at(&mut content, 0)?;
        Ok(content)
    }

    /// Takes the permission to open a file from everybody, under whatever name.
    pub fn forbid(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let number = state.volume.live.file(path)?;
        state.forbidden.insert(number);
        Ok(())
    }

    /// Flips bit `bit` (0 to 7) of the byte at `offset`. `UnexpectedEof` if there is no such byte.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        if self.files().get(path).is_some_and(|length| offset >= *length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.damage(path, |file| {
            let mut byte = [0];
            // What is durable may be shorter than what readers see.
            if file.read_at(&mut byte, offset)? == 0 {
                return Ok(());
            }
            byte[0] ^= 1 << (bit % 8);
            file.write_at(&byte, offset)
        })
    }

    /// Cuts or extends a file behind everybody's back. Like all damage, it is durable at once, but
    /// unsynced changes of the file may still undo it: damage the disk that a power cycle left.
    pub fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.damage(path, |file| file.set_len(length))
    }

    /// Overwrites a range with zeros, as far as the file goes.
    pub fn zero(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        self.damage(path, |file| {
            file.hole(range.clone());
            Ok(())
        })
    }

    /// Has bytes of a file stand once more, at another place of it: as when a sector is written to
    /// the wrong one.
    pub fn repeat(&self, path: &Path, range: Range<u64>, at: u64) -> io::Result<()> {
        let content = self.read_all(path)?;
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
        let bytes = &content[place(range.start)..place(range.end)];
        self.damage(path, |file| file.write_at(bytes, at))
    }

    /// Gives each of two files the other's content, as a confused repair tool might.
    pub fn swap(&self, one: &Path, other: &Path) -> io::Result<()> {
        let contents = [self.read_all(one)?, self.read_all(other)?];
        for (path, content) in [(one, &contents[1]), (other, &contents[0])] {
            self.damage(path, |file| {
                file.set_len(0)?;
                file.write_at(content, 0)
            })?;
        }
        Ok(())
    }

    /// Makes the device fail (`EIO`) to read any byte of a range, also after a kill or a power
    /// cycle. An empty range heals the file. [`FaultyDisk::read_all`] reads all the same.
    pub fn fail_reads(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        let mut state = self.state();
        let number = state.volume.live.file(path)?;
        state.volume.inode_mut(number)?.unreadable = range;
        Ok(())
    }

    fn damage(&self, path: &Path, harm: impl Fn(&MemoryFile) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        let number = state.volume.live.file(path)?;
        state.volume.inode_mut(number)?.damage(harm)
    }

    fn state(&self) -> MutexGuard<'_, FaultyState> {
        lock(&self.state)
    }

    /// Passes one point, as [`FaultyState::pass`].
    fn pass<T>(
        &self,
        path: &Path,
        operation: DiskOperation,
        run: impl FnOnce(&mut Volume, PointVerdict) -> io::Result<T>,
    ) -> io::Result<T> {
        if let Some(watcher) = &self.watcher {
            watcher(&operation);
        }
        self.state().pass(path, operation, run)
    }

    /// As [`FaultyDisk::pass`], for operations that are done wholly or not at all.
    fn pass_whole<T>(
        &self,
        path: &Path,
        operation: DiskOperation,
        run: impl FnOnce(&mut Volume) -> io::Result<T>,
    ) -> io::Result<T> {
        self.pass(path, operation, |volume, verdict| match verdict {
            PointVerdict::Go => run(volume),
            PointVerdict::Fail { error, .. } | PointVerdict::Off(error) => Err(error),
        })
    }

    fn opened(&self, number: u64, path: &Path) -> Arc<dyn File> {
        Arc::new(FaultyFile { disk: self.clone(), number, path: path.to_owned() })
    }
}

impl FaultyState {
    /// Passes one point: does the operation unless the plan says otherwise, and notes it.
    fn pass<T>(
        &mut self,
        path: &Path,
        operation: DiskOperation,
        run: impl FnOnce(&mut Volume, PointVerdict) -> io::Result<T>,
    ) -> io::Result<T> {
        let point = self.faults.points();
        let used = self.volume.used();
        let capacity = &mut self.volume.capacity;
        let verdict = self.faults.pass(|bytes| *capacity = Some(used + bytes));
        let result = run(&mut self.volume, verdict);
        if let Some(steps) = &mut self.steps {
            steps.push(DiskStep { point, path: path.to_owned(), operation, done: result.is_ok() });
        }
        result
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let number = self.pass_whole(path, DiskOperation::Create, |volume| {
            let number = volume.create(path)?;
            volume.opened(number)?;
            Ok(number)
        })?;
        Ok(self.opened(number, path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.faults.check_power()?;
        let number = state.volume.live.file(path)?;
        if state.forbidden.contains(&number) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        state.volume.opened(number)?;
        Ok(self.opened(number, path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let state = self.state();
        state.faults.check_power()?;
        state.volume.live.list(directory)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.pass_whole(path, DiskOperation::MakeDirectory, |volume| volume.make_directory(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass_whole(from, DiskOperation::Rename(to.to_owned()), |volume| volume.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.pass_whole(path, DiskOperation::RemoveFile, |volume| volume.remove_file(path))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.pass_whole(path, DiskOperation::RemoveDirectory, |volume| volume.remove_directory(path))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.pass_whole(directory, DiskOperation::SyncDirectory, |volume| volume.sync_directory(directory))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let state = self.state();
        state.faults.check_power()?;
        Ok(state.volume.free())
    }

    /// No point: it changes nothing on the disk.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let state = self.state();
        state.faults.check_power()?;
        state.volume.live.may_be_locked(path)?;
        drop(state);
        lock::take(&self.locks, path)
    }

    fn boot(&self) -> Option<u64> {
        Some(self.state().boot)
    }
}

/// An open file. It holds its disk, so that dropping it gives back the space of a removed file.
#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    number: u64,
    path: PathBuf,
}

/// Numbers of the pages of a file that a read touches.
fn pages(buffer: &[u8], offset: u64) -> impl Iterator<Item = u64> + use<> {
    offset / inode::BLOCK..=(offset + buffer.len() as u64) / inode::BLOCK
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.disk.state().volume.closed(self.number);
    }
}

impl File for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.faults.check_power()?;
        state.volume.inode(self.number)?.live().len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let PageCache::Read(read) = &mut self.disk.state().memory {
            read.extend(pages(buffer, offset).map(|page| (self.number, page)));
        }
        let state = self.disk.state();
        state.faults.check_power()?;
        state.volume.inode(self.number)?.read(buffer, offset)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let is_there = match &self.disk.state().memory {
            PageCache::All => true,
            PageCache::Nothing => false,
            PageCache::Read(read) => pages(buffer, offset).all(|page| read.contains(&(self.number, page))),
        };
        if is_there { self.read_at(buffer, offset).map(Some) } else { Ok(None) }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let operation = DiskOperation::Write { offset, length: bytes.len() as u64 };
        self.disk.pass(&self.path, operation, |volume, verdict| match verdict {
            PointVerdict::Go => volume.write(self.number, bytes, offset),
            PointVerdict::Off(error) => Err(error),
            PointVerdict::Fail { error, torn } => {
                for part in torn.parts(offset, bytes.len()) {
                    // That the disk is full as well changes nothing: the write failed.
                    let _ = volume.write(self.number, &bytes[part.clone()], offset + part.start as u64);
                }
                Err(error)
            }
        })
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let run = |volume: &mut Volume| volume.allocate(self.number, length);
        self.disk.pass_whole(&self.path, DiskOperation::Allocate(length), run)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let run = |volume: &mut Volume| volume.set_len(self.number, length);
        self.disk.pass_whole(&self.path, DiskOperation::SetLen(length), run)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.pass(&self.path, DiskOperation::Sync, |volume, verdict| {
            let inode = volume.inode_mut(self.number)?;
            match verdict {
                PointVerdict::Go => inode.sync(),
                PointVerdict::Off(error) => Err(error),
                PointVerdict::Fail { error, torn } => {
                    if torn.drops_on_sync() {
                        inode.fail_sync();
                    }
                    Err(error)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
