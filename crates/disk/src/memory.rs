//! A disk in memory: for tests, and for streams that keep their segments in a [`MemoryFile`].
//!
//! A file is a row of chunks, so that it grows without copying and gives memory back in parts.
//! Nothing here survives the process; `sync` does nothing. The space is as large as the machine's
//! memory: a limit is the caller's work.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use myelin_stdx::sync::{lock, read_lock, write_lock};

use super::lock;
use super::tree::Tree;
use super::{DirectoryEntry, Disk, File, Lock};
use crate::claim::ClaimSet;

/// The first chunk's size: what a stream of few messages costs. The next chunks double the file, up
/// to [`CHUNK`].
const FIRST_CHUNK: u64 = 4 << 10;

/// Size of the chunks of a file that has grown.
const CHUNK: u64 = 64 << 10;

/// Chunks before the first one of full size.
const SMALL_CHUNKS: u64 = (CHUNK / FIRST_CHUNK).ilog2() as u64 + 1;

/// Where a file ends at the latest, because each chunk below the last written byte costs a pointer.
const LARGEST: u64 = 64 << 30;

/// Free bytes that a disk in memory reports.
const FREE: u64 = 1 << 40;

/// A file in memory, usable without a disk. Holes cost nothing: `allocate` and a longer `set_len`
/// commit no memory.
///
/// A read concurrent with a write sees each chunk before or after it, not the whole write at once.
#[derive(Default)]
pub struct MemoryFile {
    contents: RwLock<MemoryContents>,
}

#[derive(Clone, Default)]
struct MemoryContents {
    chunks: Vec<Option<Box<[u8]>>>,
    length: u64,
    committed: u64,
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = self.read();
        let mut words = f.debug_struct("MemoryFile");
        words.field("length", &contents.length).field("committed", &contents.committed).finish()
    }
}

/// Where a chunk lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkSpan {
    index: usize,
    start: u64,
    size: u64,
}

impl ChunkSpan {
    /// The chunk that holds the byte at `offset`.
    fn at(offset: u64) -> Self {
        if offset >= CHUNK {
            let full = offset / CHUNK;
            return Self { index: (SMALL_CHUNKS - 1 + full) as usize, start: full * CHUNK, size: CHUNK };
        }
        let doubled = offset / FIRST_CHUNK;
        if doubled == 0 {
            return Self { index: 0, start: 0, size: FIRST_CHUNK };
        }
        let start = FIRST_CHUNK << doubled.ilog2();
        Self { index: doubled.ilog2() as usize + 1, start, size: start }
    }

    fn end(self) -> u64 {
        self.start + self.size
    }

    /// The part of the chunk that holds up to `length` bytes from `offset`, which lies in it.
    fn part(self, offset: u64, length: u64) -> Range<usize> {
        let from = offset - self.start;
        from as usize..(from + length.min(self.end() - offset)) as usize
    }
}

impl MemoryContents {
    /// Copies from one chunk; 0 at the end of the file.
    fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        if offset >= self.length {
            return 0;
        }
        let chunk = ChunkSpan::at(offset);
        let part = chunk.part(offset, (buffer.len() as u64).min(self.length - offset));
        let target = &mut buffer[..part.len()];
        match self.chunks.get(chunk.index) {
            Some(Some(bytes)) => target.copy_from_slice(&bytes[part]),
            _ => target.fill(0),
        }
        target.len()
    }

    /// Copies into one chunk.
    fn write(&mut self, bytes: &[u8], offset: u64) -> usize {
        let chunk = ChunkSpan::at(offset);
        let part = chunk.part(offset, bytes.len() as u64);
        if self.chunks.len() <= chunk.index {
            self.chunks.resize_with(chunk.index + 1, || None);
        }
        let committed = &mut self.committed;
        let target = self.chunks[chunk.index].get_or_insert_with(|| {
            *committed += chunk.size;
            vec![0; chunk.size as usize].into_boxed_slice()
        });
        let length = part.len();
        target[part].copy_from_slice(&bytes[..length]);
        self.length = self.length.max(offset + length as u64);
        length
    }

    /// Makes a range read as zeros and frees the chunks that lie wholly inside.
    fn clear(&mut self, range: Range<u64>) {
        let mut offset = range.start;
        while offset < range.end {
            let chunk = ChunkSpan::at(offset);
            let Some(slot) = self.chunks.get_mut(chunk.index) else { break };
            let part = chunk.part(offset, range.end - offset);
            if part.len() as u64 == chunk.size {
                self.committed -= if slot.take().is_some() { chunk.size } else { 0 };
            } else if let Some(bytes) = slot {
                bytes[part].fill(0);
            }
            offset = chunk.end();
        }
    }

    fn set_len(&mut self, length: u64) {
        if length < self.length {
            // To the end of the last chunk, not of the file, so that this chunk is freed, too.
            self.clear(length..u64::MAX);
            let needed = if length == 0 { 0 } else { ChunkSpan::at(length - 1).index + 1 };
            self.chunks.truncate(needed);
        }
        self.length = length;
    }
}

impl MemoryFile {
    /// An empty file, without memory of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of what the file holds now, with its holes.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self { contents: RwLock::new(self.read().clone()) }
    }

    /// Bytes of memory held for the content.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.read().committed
    }

    /// Makes `range` read as zeros and gives back the memory of the chunks that lie wholly inside.
    /// The length stays.
    pub fn hole(&self, range: Range<u64>) {
        let mut contents = self.write();
        let end = range.end.min(contents.length);
        contents.clear(range.start..end);
    }

    fn read(&self) -> RwLockReadGuard<'_, MemoryContents> {
        // A holder that panicked did so before or after copying bytes: every state is a valid file.
        read_lock(&self.contents)
    }

    fn write(&self) -> RwLockWriteGuard<'_, MemoryContents> {
        write_lock(&self.contents)
    }
}

/// The end of `length` bytes at `offset`, if a file may be so long.
pub(super) fn checked_end(offset: u64, length: u64) -> io::Result<u64> {
    match offset.checked_add(length) {
        Some(end) if end <= LARGEST => Ok(end),
        _ => Err(ErrorKind::FileTooLarge.into()),
    }
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.read().length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        // The lock is taken anew for each chunk, so that a writer waits for a few microseconds at
        // most.
        while done < buffer.len() {
            match self.read().read(&mut buffer[done..], offset.saturating_add(done as u64)) {
                0 => break,
                length => done += length,
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        checked_end(offset, bytes.len() as u64)?;
        let mut done = 0;
        while done < bytes.len() {
            done += self.write().write(&bytes[done..], offset + done as u64);
        }
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        checked_end(0, length)?;
        let mut contents = self.write();
        contents.length = contents.length.max(length);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        checked_end(0, length)?;
        self.write().set_len(length);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file system in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    names: Arc<Mutex<MemoryNames>>,
    locks: ClaimSet<PathBuf>,
}

#[derive(Debug)]
struct MemoryNames {
    tree: Tree,
    files: HashMap<u64, Arc<MemoryFile>>,
    /// Files without a name that somebody may hold open.
    removed: Vec<Weak<MemoryFile>>,
}

impl MemoryNames {
    fn remove(&mut self, number: u64) {
        self.removed.retain(|file| file.strong_count() > 0);
        self.removed.extend(self.files.remove(&number).as_ref().map(Arc::downgrade));
    }
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryDisk {
    /// A disk with nothing but the directory `/`.
    #[must_use]
    pub fn new() -> Self {
        let names = MemoryNames { tree: Tree::new(), files: HashMap::new(), removed: Vec::new() };
        Self { names: Arc::new(Mutex::new(names)), locks: ClaimSet::default() }
    }

    /// Files that were removed or replaced and that somebody still holds open: on a real disk they
    /// would keep their space.
    #[must_use]
    pub fn removed_but_open(&self) -> usize {
        self.names().removed.iter().filter(|file| file.strong_count() > 0).count()
    }

    fn names(&self) -> MutexGuard<'_, MemoryNames> {
        lock(&self.names)
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut names = self.names();
        let number = names.tree.number();
        let change = names.tree.creation(path, number)?;
        names.tree.apply(&change);
        let file = Arc::new(MemoryFile::new());
        names.files.insert(number, Arc::clone(&file));
        Ok(file)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let names = self.names();
        let file = names.files.get(&names.tree.file(path)?).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::clone(file) as Arc<dyn File>)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.names().tree.list(directory)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.names().tree.make_directory(path).map(drop)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        let change = names.tree.renaming(from, to)?;
        if let Some(replaced) = names.tree.apply(&change) {
            names.remove(replaced);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names();
        let change = names.tree.removal_of_file(path)?;
        if let Some(removed) = names.tree.apply(&change) {
            names.remove(removed);
        }
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names();
        let change = names.tree.removal_of_directory(path)?;
        names.tree.apply(&change);
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.names().tree.directory(directory).map(drop)
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(FREE)
    }

    /// Its tree has no file for it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.names().tree.may_be_locked(path)?;
        lock::take(&self.locks, path)
    }

    /// Its power is never lost.
    fn boot(&self) -> Option<u64> {
        Some(1)
    }
}
