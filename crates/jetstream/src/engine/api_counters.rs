//! How often the API was asked, and how many failures of files its answers know of.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often the API was asked.
#[derive(Default)]
pub(crate) struct ApiCounters {
    total: AtomicU64,
    errors: AtomicU64,
    failed_files: AtomicU64,
}

impl ApiCounters {
    pub(crate) fn count(&self, is_error: bool) {
        self.total.fetch_add(1, Relaxed);
        self.errors.fetch_add(u64::from(is_error), Relaxed);
    }

    /// Notes how many files have failed. Answers whether these are more than before.
    pub(crate) fn note_failed(&self, files: u64) -> bool {
        self.failed_files.swap(files, Relaxed) != files
    }

    /// Requests, and those that were answered by an error.
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.total.load(Relaxed), self.errors.load(Relaxed))
    }
}
