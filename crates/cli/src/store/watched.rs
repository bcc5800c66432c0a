//! A disk that tells how much of its files has been read, for a bar.
//!
//! Owns the count: each byte of a file that is open counts once, however often it is read.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use myelin_disk::{DirectoryEntry, Disk, File, Lock};

use crate::progress_bar::ProgressBar;

/// A bar that several have in hand.
pub(super) type SharedBar = Arc<Mutex<ProgressBar>>;

/// Counts bytes that are done.
fn advance(bar: &SharedBar, bytes: u64) {
    bar.lock().unwrap_or_else(PoisonError::into_inner).advance(bytes);
}

/// Takes the bar away, so that something else can be printed.
pub(super) fn clear(bar: &SharedBar) {
    bar.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Bytes of all files below a directory, as far as they can be seen.
pub(super) fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

#[derive(Debug)]
pub(super) struct WatchedDisk {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) bar: SharedBar,
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    bar: SharedBar,
    /// End of the part that was counted: files are read from their beginning.
    counted: AtomicU64,
}

impl WatchedDisk {
    fn watched(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(WatchedFile { file, bar: Arc::clone(&self.bar), counted: AtomicU64::new(0) })
    }
}

impl Disk for WatchedDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.open(path).map(|file| self.watched(file))
    }

    fn open_read_only(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.open_read_only(path).map(|file| self.watched(file))
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

impl File for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buffer, offset)?;
        let end = offset + read as u64;
        let before = self.counted.fetch_max(end, Ordering::Relaxed);
        advance(&self.bar, end.saturating_sub(before));
        Ok(read)
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

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_disk::memory::MemoryDisk;

    #[test]
    fn a_byte_counts_once() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
        let path = Path::new("/file");
        disk.create(path).unwrap().write_at(&[1; 1000], 0).unwrap();
        let bar = Arc::new(Mutex::new(ProgressBar::new(Some(2000), false)));
        let watched = WatchedDisk { disk, bar: Arc::clone(&bar) };
        let file = watched.open_read_only(path).unwrap();
        for (offset, done) in [(0, 600), (0, 600), (300, 900), (900, 1000), (1000, 1000)] {
            file.read_at(&mut [0; 600], offset).unwrap();
            assert_eq!(bar.lock().unwrap().done(), done, "{offset}");
        }
    }
}
