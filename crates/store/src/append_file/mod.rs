//! An append-only file: an active segment or the log of consumers' states, with a tail in memory.
//!
//! Owns where the file ends, what of it was written and what is durable; tells its journal when it
//! has become dirty. It must never let bytes change once they were appended, except by `overwrite`,
//! and must never sync a file again whose sync failed as if nothing had happened.
//!
//! Budget of an append: one lock without contention, one copy, no allocation once the tail has
//! grown, and one write (`Written`) or none (`Synced`, `Memory`) until [`TAIL_BYTES`] have
//! gathered.

mod failure;
mod rounds;
mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

use myelin_disk::File;
use myelin_stdx::sync::lock;

use crate::journal::{Journal, JournalShared};
use crate::{Durability, FileId};

pub use failure::WriteFailed;
pub(crate) use rounds::RoundInput;
use tail::{FileState, Patch, Tail};

/// Bytes that a tail in memory may hold before it is written.
pub const TAIL_BYTES: usize = 256 * 1024;

/// Bytes that are allocated ahead of an append to a file that is longer than was expected.
const BEYOND_BOUND: u64 = 64 * 1024;

/// Listener that is told when bytes have become durable: the stream. Called by the round, outside
/// of all locks.
pub trait OnDurable: Send + Sync {
    /// Everything before `offset` survives a loss of power.
    fn durable(&self, file: FileId, offset: u64);
    /// Nothing after the last `durable` may be trusted, and nothing more can be appended.
    fn failed(&self, file: FileId, error: &io::Error);
}

/// Facts about a file that an [`AppendFile`] continues.
pub struct AppendFileOptions {
    /// Its name in the journal.
    pub id: FileId,
    /// Grows when the file is rewritten, so that a replay does not write old bytes into a new file.
    pub generation: u64,
    /// The file.
    pub file: Arc<dyn File>,
    /// Where it is, to sync the directory of a new file.
    pub path: PathBuf,
    /// Bytes already there, all durable.
    pub end: u64,
    /// Whether its entry in the directory still has to be synced.
    pub is_new: bool,
    /// When its bytes are released.
    pub durability: Durability,
    /// Length beyond which `reserve` allocates ahead only a little.
    pub bound: u64,
    /// Listener that is told, for as long as somebody else keeps it.
    pub on_durable: Option<Arc<dyn OnDurable>>,
}

/// On which lists of files that have something to do it is.
#[derive(Default)]
struct Marks {
    /// Whether the journal has it among its dirty files, and since when.
    dirty: AtomicBool,
    since: AtomicU64,
    /// Whether it is among those whose end is to be stated in the watermarks.
    listed: AtomicBool,
}

/// An append-only file. One thread appends; any may read, flush and ask.
pub struct AppendFile {
    id: FileId,
    generation: u64,
    file: Arc<dyn File>,
    path: PathBuf,
    durability: Durability,
    bound: u64,
    /// Not kept alive by this: a stream knows its segments, and they would keep each other for
    /// ever.
    on_durable: Option<Weak<dyn OnDurable>>,
    journal: Option<Arc<JournalShared>>,
    tail: Mutex<Tail>,
    /// Told when a tail that was being written has arrived.
    flushed: Condvar,
    end: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
    marks: Marks,
    /// Whether `overwrite` left bytes that are not in the file yet.
    patched: AtomicBool,
}

impl AppendFile {
    /// A file whose bytes `journal` makes durable.
    pub fn new(journal: &Arc<Journal>, options: AppendFileOptions) -> Arc<Self> {
        Arc::new(Self::build(Some(Arc::clone(journal.shared())), options))
    }

    /// A file that is never synced, of a stream in memory: what was appended counts as durable.
    pub fn in_memory(id: FileId, file: Arc<dyn File>) -> Arc<Self> {
        let options = AppendFileOptions {
            id,
            generation: 0,
            file,
            path: PathBuf::new(),
            end: 0,
            is_new: false,
            durability: Durability::Written,
            bound: 0,
            on_durable: None,
        };
        Arc::new(Self::build(None, options))
    }

    fn build(journal: Option<Arc<JournalShared>>, options: AppendFileOptions) -> Self {
        let end = options.end;
        Self {
            id: options.id,
            generation: options.generation,
            file: options.file,
            path: options.path,
            durability: options.durability,
            bound: options.bound,
            on_durable: options.on_durable.as_ref().map(Arc::downgrade),
            journal,
            tail: Mutex::new(Tail::new(end, options.is_new)),
            flushed: Condvar::new(),
            end: AtomicU64::new(end),
            written: AtomicU64::new(end),
            durable: AtomicU64::new(end),
            marks: Marks::default(),
            patched: AtomicBool::new(false),
        }
    }

    /// Its name in the journal.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Whether nothing of it reaches a disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.journal.is_none()
    }

    /// Which rewrite of the file this is.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Where the file is; empty for one in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file below. What is not `written` is not in it.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// When its bytes are released.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Bytes appended.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Bytes that the operating system has.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Bytes that survive a loss of power, in the file or in the journal.
    pub fn durable(&self) -> u64 {
        if self.journal.is_none() { self.end() } else { self.durable.load(Ordering::Acquire) }
    }

    /// The position that the stream's mode of durability releases.
    pub fn releasable(&self) -> u64 {
        match self.durability {
            Durability::Synced => self.durable(),
            Durability::Written => self.written(),
            Durability::Memory => self.end(),
        }
    }

    /// Makes sure that `length` more bytes can be written without lack of space, by allocating
    /// ahead in growing steps. An error changes nothing: what was appended stays, and the next call
    /// tries again. Answers whether something was allocated.
    pub fn reserve(&self, length: u64) -> io::Result<bool> {
        let mut tail = self.lock();
        let needed = self.end().checked_add(length).ok_or(io::ErrorKind::FileTooLarge)?;
        if needed <= tail.allocated {
            return Ok(false);
        }
        // Behind the bound a little still, or every append would ask the file system.
        let bound = self.bound.max(needed.saturating_add(BEYOND_BOUND));
        let ahead = needed.saturating_add(tail.step).min(bound);
        if self.file.allocate(ahead).is_err() {
            // Perhaps there is room for what is needed now, without anything ahead.
            self.file.allocate(needed)?;
            tail.allocated = needed;
            return Ok(true);
        }
        debug_assert!(ahead >= needed, "what is needed is allocated");
        tail.allocated = ahead;
        tail.step = (tail.step * 2).min(tail::LARGEST_STEP);
        Ok(true)
    }

    /// Appends `bytes` as a whole and gives the offset behind them. Written at once or kept in the
    /// tail, as the mode of durability says. After an error nothing was appended and nothing more
    /// can be. `now` is the caller's clock in nanoseconds, the same one that the rounds are given.
    pub fn append(self: &Arc<Self>, bytes: &[u8], now: u64) -> Result<u64, WriteFailed> {
        if let Some(journal) = &self.journal {
            journal.check().map_err(|failed| failed.of(&self.path))?;
        }
        let end = {
            let mut tail = self.lock();
            tail.check()?;
            if self.durability == Durability::Written {
                self.write_through(&mut tail, bytes)?;
            } else {
                if tail.bytes.len() + bytes.len() > TAIL_BYTES {
                    tail = self.spill(tail)?;
                }
                self.keep(&mut tail, bytes)?;
            }
            self.publish(&tail)
        };
        self.mark_dirty(now);
        Ok(end)
    }

    /// Writes what the tail holds. Afterwards all that was appended before the call is in the file.
    pub fn flush(&self) -> Result<(), WriteFailed> {
        let mut tail = self.without_flight(self.lock());
        tail.check_kept()?;
        self.write_tail(&mut tail)
    }

    /// Replaces bytes that were appended before, in one step: either all of `bytes` or none survive
    /// a loss of power. Readers see them at once. They take part in the next round like an append.
    pub fn overwrite(self: &Arc<Self>, offset: u64, bytes: &[u8], now: u64) -> Result<(), WriteFailed> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.end()) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "overwrites what was not appended yet");
            return Err(WriteFailed::new(&self.path, &error));
        }
        if self.journal.is_none() {
            return self.file.write_at(bytes, offset).map_err(|error| WriteFailed::new(&self.path, &error));
        }
        {
            let mut tail = self.lock();
            tail.check_kept()?;
            tail.patches.push(Patch { offset, bytes: bytes.into() });
            self.patched.store(true, Ordering::Release);
        }
        self.mark_dirty(now);
        Ok(())
    }

    /// Whether bytes given to `overwrite` may still be lost.
    pub fn has_overwrites(&self) -> bool {
        self.patched.load(Ordering::Acquire)
    }

    /// Whether something of it may be lost, because a write or a sync failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().check_kept().is_err()
    }

    /// Nothing is appended any more (the segment is sealed): writes the tail. The journal lets go
    /// of the file when it is durable.
    pub fn close(&self) -> Result<(), WriteFailed> {
        self.flush()?;
        let mut tail = self.lock();
        tail.check_kept()?;
        debug_assert!(tail.bytes.is_empty(), "a closed file has no tail");
        tail.state = FileState::Closed;
        Ok(())
    }

    /// Nothing of the file needs to survive any more, because it is to be removed. Only after it
    /// was made durable that nobody needs it: a replay may find its bytes in the journal.
    pub fn abandon(&self) {
        self.lock().state = FileState::Abandoned;
        self.notify_settled();
    }

    /// The journal may let go of it.
    fn notify_settled(&self) {
        if let Some(journal) = &self.journal {
            journal.note_settled();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tail> {
        lock(&self.tail)
    }

    fn write_through(&self, tail: &mut Tail, bytes: &[u8]) -> Result<(), WriteFailed> {
        debug_assert!(tail.bytes.is_empty(), "a tail is kept in other modes only");
        self.write(tail, bytes, tail.start)?;
        tail.start += bytes.len() as u64;
        Ok(())
    }

    fn keep(&self, tail: &mut Tail, bytes: &[u8]) -> Result<(), WriteFailed> {
        if bytes.len() >= TAIL_BYTES {
            return self.write_through(tail, bytes);
        }
        tail.bytes.extend_from_slice(bytes);
        self.count_tail(|counter| counter.fetch_add(bytes.len() as u64, Ordering::Relaxed));
        Ok(())
    }

    fn write_tail(&self, tail: &mut Tail) -> Result<(), WriteFailed> {
        if tail.bytes.is_empty() {
            return Ok(());
        }
        debug_assert!(tail.written() == tail.start, "bytes are written in order");
        let length = tail.bytes.len() as u64;
        // They stay where they are, should this panic: nobody else has them.
        let written = self.file.write_at(&tail.bytes, tail.start);
        self.note_written(tail, written)?;
        tail.clear_written(length);
        self.count_tail(|counter| {
            let before = counter.fetch_sub(length, Ordering::Relaxed);
            debug_assert!(before >= length, "what is written was counted when it came");
            before
        });
        self.written.store(tail.written(), Ordering::Release);
        Ok(())
    }

    fn write(&self, tail: &mut Tail, bytes: &[u8], offset: u64) -> Result<(), WriteFailed> {
        self.note_written(tail, self.file.write_at(bytes, offset))
    }

    fn note_written(&self, tail: &mut Tail, written: io::Result<()>) -> Result<(), WriteFailed> {
        written.map_err(|error| {
            let failed = WriteFailed::new(&self.path, &error);
            tail.state = FileState::Refusing(failed.clone());
            failed
        })
    }

    fn publish(&self, tail: &Tail) -> u64 {
        let end = tail.end();
        tail.check_parts();
        debug_assert!(tail.written() <= end, "what is written was appended");
        debug_assert!(end >= self.end(), "a file only grows");
        debug_assert!(tail.written() >= self.written(), "what is written stays written");
        debug_assert!(self.durable.load(Ordering::Acquire) <= end, "what is durable was appended");
        self.written.store(tail.written(), Ordering::Release);
        self.end.store(end, Ordering::Release);
        end
    }

    fn count_tail(&self, change: impl FnOnce(&AtomicU64) -> u64) {
        if let Some(journal) = &self.journal {
            change(journal.tail_bytes());
        }
    }

    /// Whoever appends holds the tail's lock between changing it and coming here, and a round takes
    /// that lock after it cleared the mark: so either the round sees the change, or this sees the
    /// mark cleared.
    fn mark_dirty(self: &Arc<Self>, now: u64) {
        let Some(journal) = &self.journal else { return };
        if self.marks.dirty.load(Ordering::Relaxed) || self.marks.dirty.swap(true, Ordering::AcqRel) {
            return;
        }
        self.marks.since.store(now, Ordering::Release);
        journal.push_dirty(self);
    }
}

impl Drop for AppendFile {
    fn drop(&mut self) {
        let held = self.lock().held();
        self.count_tail(|counter| counter.fetch_sub(held, Ordering::Relaxed));
    }
}

impl std::fmt::Debug for AppendFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AppendFile")
            .field("path", &self.path)
            .field("end", &self.end())
            .field("written", &self.written())
            .field("durable", &self.durable())
            .finish_non_exhaustive()
    }
}
