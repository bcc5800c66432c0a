//! Removals of what deleted streams leave behind: slice by slice between the jobs of other streams,
//! so that neither an answer nor a sync waits for thousands of files.

use super::host::Host;
use myelin_store::RemovedFiles;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Files that may wait before a deletion removes its own: whoever makes and deletes streams faster
/// than the disk gets rid of them is slowed down.
const MOST_WAITING: usize = 4096;

/// Removals that are under way.
#[derive(Default)]
pub(super) struct Removals {
    /// Files that wait.
    waiting: AtomicUsize,
}

impl Removals {
    /// Has files removed soon. Waits for the disk if too many wait already.
    pub(super) fn add(self: &Arc<Self>, host: &Arc<dyn Host>, files: RemovedFiles) {
        if self.waiting.load(Relaxed) > MOST_WAITING {
            return files.remove_all();
        }
        self.waiting.fetch_add(files.len(), Relaxed);
        FileRemoval { of: Arc::clone(self), host: Arc::clone(host), counted: files.len(), files }
            .continue_later();
    }
}

/// A removal, which counts for as long as it is there.
struct FileRemoval {
    of: Arc<Removals>,
    host: Arc<dyn Host>,
    counted: usize,
    files: RemovedFiles,
}

impl FileRemoval {
    fn continue_later(self) {
        let host = Arc::clone(&self.host);
        host.spawn_upkeep(Box::new(move || self.remove_some()));
    }

    fn remove_some(mut self) {
        let has_more = self.files.remove_some();
        let left = self.files.len();
        self.of.waiting.fetch_sub(self.counted - left, Relaxed);
        self.counted = left;
        if has_more {
            self.continue_later();
        }
    }
}

impl Drop for FileRemoval {
    fn drop(&mut self) {
        self.of.waiting.fetch_sub(self.counted, Relaxed);
    }
}
