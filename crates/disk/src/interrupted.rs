//! A disk that lets a test do something in the middle of an operation.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use myelin_stdx::sync::lock;

use super::{DirectoryEntry, Disk, File, Lock};

/// When the test acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A file was opened, and whoever asked does not have it yet.
    Opened,
    /// A file is about to be written or synced.
    Write,
}

/// Action of the test.
type Once = Box<dyn FnOnce() + Send>;

/// Disk over another one that runs a hook in the middle of an operation. Clones are one disk.
#[derive(Clone, Debug)]
pub struct Interrupted<D> {
    /// The disk that does the work.
    pub disk: D,
    hook: Arc<Hook>,
}

struct Hook {
    moment: Moment,
    act: Mutex<Option<Once>>,
    opened: AtomicUsize,
}

impl<D> Interrupted<D> {
    /// A disk that calls the test at this moment, once it has been told what to do.
    pub fn at(moment: Moment, disk: D) -> Self {
        Self { disk, hook: Arc::new(Hook { moment, act: Mutex::default(), opened: AtomicUsize::new(0) }) }
    }

    /// Calls `act` when the moment comes next, once.
    pub fn interrupt(&self, act: impl FnOnce() + Send + 'static) {
        *self.hook.lock() = Some(Box::new(act));
    }

    /// Count of how often it was asked to open a file.
    pub fn opened(&self) -> usize {
        self.hook.opened.load(Ordering::Relaxed)
    }

    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(InterruptedFile { file, hook: Arc::clone(&self.hook) })
    }
}

impl Hook {
    fn lock(&self) -> MutexGuard<'_, Option<Once>> {
        lock(&self.act)
    }

    fn pass(&self, moment: Moment) {
        let act = if self.moment == moment { self.lock().take() } else { None };
        if let Some(act) = act {
            act();
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

#[derive(Debug)]
struct InterruptedFile {
    file: Arc<dyn File>,
    hook: Arc<Hook>,
}

impl<D: Disk> Disk for Interrupted<D> {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.disk.create(path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.hook.opened.fetch_add(1, Ordering::Relaxed);
        let opened = self.disk.open(path);
        self.hook.pass(Moment::Opened);
        Ok(self.file(opened?))
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
}

impl File for InterruptedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.hook.pass(Moment::Write);
        self.file.write_at(bytes, offset)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn sync(&self) -> io::Result<()> {
        self.hook.pass(Moment::Write);
        self.file.sync()
    }
}
