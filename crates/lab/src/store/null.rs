//! The null store: only writes bytes.
//!
//! The minimum of every store: the same bytes, in batches as large, to files as large that are
//! allocated ahead in the same steps, and a thread that syncs them as often. It has no records and
//! can find nothing.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use myelin_loadgen::error::BenchError;
use myelin_stdx::sync::lock;
use rustix::fs::FallocateFlags;

/// Size of a file: that at which a stream closes a segment.
const FILE_BYTES: u64 = 16 << 20;
/// Steps in which a file is allocated ahead: those of an append-only file.
const STEPS: std::ops::RangeInclusive<u64> = 64 << 10..=4 << 20;
/// Time between two syncs: that of a journal by default.
const SYNC_INTERVAL: Duration = Duration::from_millis(5);

/// Store that writes bytes to files, has them synced, and does nothing else.
#[derive(Debug)]
pub(crate) struct NullStore {
    directory: PathBuf,
    files: u64,
    file: Arc<File>,
    end: u64,
    allocated: u64,
    step: u64,
    shared: Arc<Shared>,
    syncer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    dirty: Mutex<Vec<Arc<File>>>,
    ends: AtomicBool,
}

impl NullStore {
    pub(crate) fn open(directory: &Path) -> Result<Self, BenchError> {
        let file = create(&directory.join("1")).map_err(BenchError::io("the null store"))?;
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let syncer = std::thread::spawn(move || told.sync());
        Ok(Self {
            directory: directory.to_path_buf(),
            files: 1,
            file,
            end: 0,
            allocated: 0,
            step: *STEPS.start(),
            shared,
            syncer: Some(syncer),
        })
    }

    /// Writes one batch.
    pub(crate) fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        let length = batch.len() as u64;
        if self.end + length > FILE_BYTES {
            self.files += 1;
            self.file = create(&self.directory.join(self.files.to_string()))?;
            (self.end, self.allocated, self.step) = (0, 0, *STEPS.start());
        }
        if self.end + length > self.allocated {
            self.allocated = self.end + length + self.step;
            rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, self.allocated)?;
            self.step = (self.step * 2).min(*STEPS.end());
        }
        self.file.write_all_at(batch, self.end)?;
        self.end += length;
        self.shared.note(&self.file);
        Ok(())
    }
}

fn create(path: &Path) -> io::Result<Arc<File>> {
    OpenOptions::new().write(true).create_new(true).open(path).map(Arc::new)
}

impl Shared {
    fn note(&self, file: &Arc<File>) {
        let mut dirty = lock(&self.dirty);
        if !dirty.last().is_some_and(|last| Arc::ptr_eq(last, file)) {
            dirty.push(Arc::clone(file));
        }
    }

    fn sync(&self) {
        while !self.ends.load(Ordering::Relaxed) {
            std::thread::sleep(SYNC_INTERVAL);
            let dirty = std::mem::take(&mut *lock(&self.dirty));
            for file in dirty {
                // Only its cost matters here.
                let _ = file.sync_data();
            }
        }
    }
}

impl Drop for NullStore {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
    }
}

/// A file of which only the cost of a sync is wanted.
#[derive(Debug)]
pub(crate) struct BareFile {
    file: Arc<File>,
    path: PathBuf,
    end: u64,
}

impl BareFile {
    /// A file with room for `length` bytes.
    pub(crate) fn allocate(path: &Path, length: u64) -> Result<Self, BenchError> {
        let file = create(path).map_err(BenchError::io("a file to sync"))?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, length)
            .map_err(BenchError::io("a file to sync"))?;
        file.sync_all().map_err(BenchError::io("a file to sync"))?;
        Ok(Self { file, path: path.to_path_buf(), end: 0 })
    }

    pub(crate) fn append_and_sync(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        self.file.sync_data()
    }
}

impl Drop for BareFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
