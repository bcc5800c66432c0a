//! State that a stream's writer, readers, rounds and jobs share: the catalog, the release position,
//! and how the one follows the other.
//!
//! A round moves the release position and counts what the catalog has to follow; whoever looks at
//! the catalog next has it follow. So a round waits for nobody who holds a catalog, and nobody sees
//! one that is behind what was released before.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use myelin_stdx::sync::{read_lock, write_lock};

use crate::append_file::OnDurable;
use crate::config::Storage;
use crate::{FileId, FileKind, SegmentNo, Seq, StreamId};

use super::blocks::Blocks;
use super::catalog::Catalog;
use super::errors::ReadError;
use super::met;
use super::release::{Need, OnRelease, Release};
use super::wait::Wait;

/// State that a stream's writer, readers, rounds and jobs share.
#[derive(Debug)]
pub(crate) struct StreamShared {
    pub(crate) id: StreamId,
    pub(crate) storage: Storage,
    pub(super) catalog: RwLock<Catalog>,
    pub(crate) release: Release,
    /// Blocks of the store.
    pub(crate) blocks: Arc<Blocks>,
    /// Counts changes that took messages away: readers that remember what is there look again.
    removals: Arc<AtomicU64>,
    truncations: Arc<AtomicU64>,
    failure: OnceLock<String>,
    /// Whether another has taken over the files: a round that ends now says nothing about this
    /// stream any more.
    pub(super) is_left: AtomicBool,
    pub(super) on_release: OnceLock<ReleaseListener>,
    pub(super) met: met::Met,
}

/// Listener of a stream.
pub(super) struct ReleaseListener(pub(super) Arc<dyn OnRelease>);

/// Fails a stream whose catalog is half changed, after a panic, before others get its lock.
struct FailUnlessDone<'a>(Option<&'a StreamShared>);

impl FailUnlessDone<'_> {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for FailUnlessDone<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.release.stop();
            shared.fail("what was released could not be done");
        }
    }
}

impl fmt::Debug for ReleaseListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl StreamShared {
    pub(crate) fn new(id: StreamId, storage: Storage, catalog: Catalog, blocks: Arc<Blocks>) -> Arc<Self> {
        let released = catalog.totals().last_seq;
        let (removals, truncations) = catalog.change_counters();
        Arc::new(Self {
            id,
            storage,
            removals,
            truncations,
            catalog: RwLock::new(catalog),
            blocks,
            release: Release::new(released),
            failure: OnceLock::new(),
            is_left: AtomicBool::new(false),
            on_release: OnceLock::new(),
            met: met::Met::default(),
        })
    }

    /// The catalog, to read: it shows at least what was released before this call, unless it could
    /// not follow. Held for a look-up or a slice of work, never over a write.
    pub(crate) fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        let _ = self.follow(Wait::Allowed);
        // Whoever panicked while it changed has failed its stream, whose readers may still see what
        // was there.
        read_lock(&self.catalog)
    }

    /// As [`StreamShared::catalog`], for who passes over what is not there.
    ///
    /// # Errors
    /// The catalog does not show all that is released: the stream has failed.
    pub(super) fn whole_catalog(&self) -> Result<RwLockReadGuard<'_, Catalog>, ReadError> {
        self.follow(Wait::Allowed)?;
        let catalog = read_lock(&self.catalog);
        // It may have failed since.
        let is_whole = self.release.to_follow().is_some() && !self.catalog.is_poisoned();
        if is_whole { Ok(catalog) } else { Err(self.has_not_followed()) }
    }

    /// As [`StreamShared::catalog`], to change it.
    pub(crate) fn catalog_mut(&self) -> RwLockWriteGuard<'_, Catalog> {
        let _ = self.follow(Wait::Allowed);
        write_lock(&self.catalog)
    }

    /// Brings the catalog up to what is released. Not to be called under its lock.
    ///
    /// Whoever looks at a catalog does that, and not the round by which something is released: it
    /// would wait for all who hold a catalog, and a writer without a rest lets nobody in between.
    ///
    /// # Errors
    /// The catalog does not show all that is released: the stream has failed. Or a table has to be
    /// read for it ([`ReadError::WouldWait`]).
    #[inline]
    pub(super) fn follow(&self, wait: Wait) -> Result<(), ReadError> {
        let is_whole = !self.release.has_unfollowed() && !self.catalog.is_poisoned();
        if is_whole { Ok(()) } else { self.follow_released(wait) }
    }

    /// Whether the catalog shows all that is released, which it is brought up to.
    pub(crate) fn is_whole(&self) -> bool {
        self.follow(Wait::Allowed).is_ok() && self.failure().is_none()
    }

    /// Whether the catalog could not follow what was released, and never will: the stream has
    /// failed, or is about to.
    pub(super) fn has_stopped(&self) -> bool {
        self.release.to_follow().is_none() || self.catalog.is_poisoned()
    }

    #[cold]
    fn follow_released(&self, wait: Wait) -> Result<(), ReadError> {
        let tables = read_lock(&self.catalog).tables_to_release(self.release.unfollowed());
        if wait == Wait::Forbidden && !tables.is_empty() {
            return Err(ReadError::WouldWait);
        }
        tables.read();
        let mut catalog = write_lock(&self.catalog);
        // Others may have followed meanwhile. After a panic nobody does: what there is, is by half.
        let count = self.release.to_follow().filter(|_| !self.catalog.is_poisoned());
        let Some(count) = count else { return Err(self.has_not_followed()) };
        let unless_done = FailUnlessDone(Some(self));
        let followed = catalog.release(count);
        match &followed {
            Ok(()) => self.release.followed(count),
            Err(_) => self.release.stop(),
        }
        unless_done.done();
        drop(catalog);
        followed.map_err(|error| {
            self.fail(&error.to_string());
            self.has_not_followed()
        })
    }

    fn has_not_followed(&self) -> ReadError {
        let why = self.failure().unwrap_or("the stream is about to fail");
        ReadError::Io(io::Error::other(why.to_owned()))
    }

    /// The start has told of these losses.
    pub(crate) fn note_told(&self, lost: &[crate::recovery::Lost]) {
        self.met.note_told(lost);
    }

    pub(crate) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    pub(crate) fn truncations(&self) -> u64 {
        self.truncations.load(Ordering::Acquire)
    }

    /// Marks the stream as failed; the first reason stays. Not to be called under the catalog's
    /// lock.
    pub(crate) fn fail(&self, why: &str) {
        if self.failure.set(why.to_owned()).is_ok()
            && let Some(ReleaseListener(listener)) = self.on_release.get()
        {
            listener.failed(self.id, why);
        }
    }

    /// A segment is synced up to `offset`.
    pub(crate) fn durable_to(&self, no: SegmentNo, offset: u64) {
        if self.release.durable(no, offset) {
            self.notify_released();
        }
    }

    /// The log of the group is committed up to `index`.
    pub(super) fn committed_to(&self, index: u64) {
        if self.release.committed(index) {
            self.notify_released();
        }
    }

    /// Lets batches that wait for a sync wait for nothing but the mark.
    pub(super) fn weaken(&self) {
        if self.release.all() {
            self.notify_released();
        }
    }

    /// Sequences up to `mark` are stated as given out. Answers whether it has to move again.
    pub(crate) fn move_mark(&self, mark: Seq) -> Option<Need> {
        if self.release.set_mark(mark) {
            self.notify_released();
        }
        self.release.need()
    }

    fn notify_released(&self) {
        if let Some(ReleaseListener(listener)) = self.on_release.get() {
            // In this order, no sequence is told before its time: the position may only have grown
            // in between.
            let ticket = self.release.ticket();
            listener.released(self.id, self.release.seq(), ticket);
        }
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

impl OnDurable for StreamShared {
    fn durable(&self, file: FileId, offset: u64) {
        if let FileKind::Segment(no) = file.kind
            && !self.is_left.load(Ordering::Acquire)
        {
            self.durable_to(no, offset);
        }
    }

    fn failed(&self, file: FileId, error: &io::Error) {
        self.fail(&format!("{} could not be synced: {error}", file.kind));
    }
}
