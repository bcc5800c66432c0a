//! A disk that has nothing in memory after a while.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use myelin_disk::memory::MemoryDisk;
use myelin_disk::{DirectoryEntry, Disk, File, Lock};

/// Reads that do not wait succeed so many times.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    disk: Arc<MemoryDisk>,
    warm: Arc<AtomicUsize>,
}

impl Default for Cold {
    fn default() -> Self {
        Self { disk: Arc::new(MemoryDisk::new()), warm: Arc::new(AtomicUsize::new(usize::MAX)) }
    }
}

impl Cold {
    pub(super) fn cool_after(&self, reads: usize) {
        self.warm.store(reads, Ordering::Relaxed);
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(ColdFile { file, warm: Arc::clone(&self.warm) })
    }
}

impl Disk for Cold {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.disk.create(path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.disk.open(path)?))
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.disk.list(directory)
    }
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.disk.make_directory(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_directory(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk.sync_directory(directory)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
    fn boot(&self) -> Option<u64> {
        self.disk.boot()
    }
}

#[derive(Debug)]
struct ColdFile {
    file: Arc<dyn File>,
    warm: Arc<AtomicUsize>,
}

impl File for ColdFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let warm = self.warm.load(Ordering::Relaxed);
        if warm == 0 {
            return Ok(None);
        }
        self.warm.store(warm - 1, Ordering::Relaxed);
        self.file.read_at(buffer, offset).map(Some)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
