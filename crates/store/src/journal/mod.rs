//! The journal of a device: makes bytes of many append-only files durable with one write and one
//! sync.
//!
//! Owns the files in `journal/`, the list of dirty files, and the rounds. It is a redo log of byte
//! ranges and knows nothing of records. It has no thread and no clock: a disk thread of the caller
//! waits, runs rounds, and passes the time. It must never call a file durable whose bytes a loss of
//! power could take, nor go on after its own sync failed.
//!
//! Why byte ranges: the journal holds what the append-only files have not synced. With
//! `sync_interval: always` and few dirty files it stays empty, since syncing those files is
//! cheaper. Replay writes ranges where they belong, which is idempotent and the same for messages
//! and consumers' states.

mod block;
mod carry;
mod changed_files;
mod dirty;
mod files;
mod inspect;
mod replay;
mod retry;
mod round;
mod salvage;
mod scan;
mod settle;
mod statistics;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use crate::append_file::WriteFailed;
use crate::id::StreamPart;
use crate::{AppendFile, SegmentNo, StreamId};
use dirty::{Dirty, SyncUrgency};
use files::Files;
use myelin_disk::{Disk, is_full};
use myelin_stdx::sync::lock;
use retry::Retry;
use round::{FileNotice, RunningRound};
use statistics::Counters;

pub(crate) use changed_files::ChangedFiles;
pub use dirty::Wake;
pub(crate) use inspect::inspect;
pub use replay::{JournalReplay, Problem, ReplayReport, ReplayTarget, Resolution};
pub use retry::Waiting;
pub use round::RoundSummary;
pub(crate) use salvage::{each_kept, store_number};
pub use statistics::{RoundSpread, Statistics, SyncLag};

/// When files are synced that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncInterval {
    /// As soon as may be, but at most every 5 ms.
    #[default]
    Background,
    /// At most this often.
    Every(Duration),
}

impl SyncInterval {
    fn nanoseconds(self) -> u64 {
        match self {
            Self::Background => 5_000_000,
            Self::Every(interval) => u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// How long files of positions of consumers, for which nobody waits, wait for a round that runs
    /// for another reason.
    ///
    /// Perf: a message, its delivery and the acknowledgement are one round instead of two (row
    /// `c-crowd`). What a loss of power takes of positions comes again.
    fn patience(self) -> u64 {
        match self {
            Self::Background => PATIENCE,
            every @ Self::Every(_) => every.nanoseconds().min(PATIENCE),
        }
    }
}

/// Nanoseconds: little beside the time in which clients acknowledge.
const PATIENCE: u64 = 50_000_000;
/// Nanoseconds between two passes through all files that the journal holds: one that was removed
/// stays open, and keeps its space on the disk, until the next.
const BETWEEN_PASSES: u64 = 1_000_000_000;
/// Nanoseconds of a round from which on the disk counts as slow: about the time between two rounds,
/// so that most appends would meet a sync.
const SLOW_ROUND: u64 = 4_000_000;

/// How a journal works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Part of every checksum: blocks of another store are none.
    pub store_id: u64,
    /// Length that a journal file may grow to.
    pub file_bytes: u64,
    /// How many files it wants to have. More are added rather than letting a writer wait.
    pub files: usize,
    /// A round with at most this many files syncs each of them.
    pub direct_files_max: usize,
    /// A file with at least this many bytes to make durable is synced itself, whatever the others
    /// do.
    pub direct_bytes_per_file: u64,
    /// Bytes that the tails of all files may hold; beyond, rounds write them.
    pub tail_bytes: u64,
    /// For files that nobody waits for.
    pub interval: SyncInterval,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            store_id: 0,
            file_bytes: 64 * 1024 * 1024,
            files: 4,
            direct_files_max: 1,
            direct_bytes_per_file: 256 * 1024,
            tail_bytes: 32 * 1024 * 1024,
            interval: SyncInterval::Background,
        }
    }
}

/// The journal cannot be trusted any more: a write or a sync of it failed. The process has to stop;
/// a replay at its next start finds everything that was reported durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFailed {
    kind: io::ErrorKind,
    text: String,
}

impl JournalFailed {
    fn new(directory: &Path, error: &io::Error) -> Self {
        Self { kind: error.kind(), text: format!("journal {}: {error}", directory.display()) }
    }

    /// Failure to write or sync a file that belongs to a clean stop.
    pub(crate) fn at_stop(path: &Path, error: &io::Error) -> Self {
        Self { kind: error.kind(), text: format!("{}: {error}", path.display()) }
    }

    /// Kind of the error as the operating system has it.
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }

    /// The failure of an append to `path`.
    pub(crate) fn of(&self, path: &Path) -> WriteFailed {
        WriteFailed::new(path, &io::Error::new(self.kind, self.text.clone()))
    }
}

impl fmt::Display for JournalFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for JournalFailed {}

/// State that append-only files share with their journal. Not the journal itself: its files name
/// theirs, and a circle of references would keep both for ever.
#[derive(Default)]
pub(crate) struct JournalShared {
    dirty: Dirty,
    changed: ChangedFiles,
    failed: OnceLock<JournalFailed>,
    tail_bytes: AtomicU64,
    /// Whether files were settled by others than the journal, which it may still hold.
    has_settled: AtomicBool,
    marks: OnceLock<Weak<dyn Marks>>,
}

/// Marks that streams state ahead of what they do: moved by rounds, at most once in each.
pub(crate) trait Marks: Send + Sync {
    /// Nanoseconds until a round is due for it; `None`: there is nothing to do.
    fn due(&self, now: u64) -> Option<u64>;
    /// Moves what has to be moved: what is due, or all of it.
    fn advance(&self, now: u64, with_all: bool);
}

impl JournalShared {
    /// Whether the journal can be trusted.
    pub(crate) fn check(&self) -> Result<(), JournalFailed> {
        self.failed.get().map_or(Ok(()), |failed| Err(failed.clone()))
    }

    /// Bytes in the tails of all files.
    pub(crate) fn tail_bytes(&self) -> &AtomicU64 {
        &self.tail_bytes
    }

    /// A file was settled by another than the journal.
    pub(crate) fn note_settled(&self) {
        self.has_settled.store(true, Ordering::Release);
    }

    pub(crate) fn push_dirty(&self, file: &Arc<AppendFile>) {
        self.dirty.push(Arc::clone(file), round::urgency(file));
        self.changed.push(file);
    }

    /// Files that were appended to, for the watermarks.
    pub(crate) fn changed(&self) -> &ChangedFiles {
        &self.changed
    }
}

/// The journal of a device.
pub struct Journal {
    config: JournalConfig,
    directory: PathBuf,
    shared: Arc<JournalShared>,
    /// `None` until the replay was run.
    rounds: Mutex<Option<Files>>,
    counters: Counters,
    /// Work that a full disk puts off.
    retry: Retry,
    is_writing_tails: AtomicBool,
    /// When the last round began that took the files nobody waits for; `u64::MAX`: none yet.
    last_relaxed: AtomicU64,
    /// When the last pass through all files began that it holds.
    last_pass: AtomicU64,
    /// How long the last round took that made something durable.
    last_took: AtomicU64,
}

impl Journal {
    /// Finds out what `directory` (created if missing) holds. Rounds begin once the replay was run.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        config: JournalConfig,
    ) -> io::Result<(Arc<Self>, JournalReplay)> {
        let journal = Arc::new(Self {
            config,
            directory: directory.to_path_buf(),
            shared: Arc::default(),
            rounds: Mutex::new(None),
            counters: Counters::new(),
            retry: Retry::default(),
            is_writing_tails: AtomicBool::new(false),
            last_relaxed: AtomicU64::new(u64::MAX),
            last_pass: AtomicU64::new(0),
            last_took: AtomicU64::new(0),
        });
        let replay = JournalReplay::prepare(Arc::clone(&journal), disk, directory)?;
        Ok((journal, replay))
    }

    /// Makes what is dirty and due durable, then tells the listeners. `clock` gives the caller's
    /// time in nanoseconds; it is asked at the beginning, around each sync and at the end. An error
    /// is final.
    pub fn round(&self, clock: &dyn Fn() -> u64) -> Result<RoundSummary, JournalFailed> {
        self.run(clock, false)
    }

    /// As [`Journal::round`], but takes every dirty file, due or not.
    pub fn round_now(&self, clock: &dyn Fn() -> u64) -> Result<RoundSummary, JournalFailed> {
        self.run(clock, true)
    }

    fn run(&self, clock: &dyn Fn() -> u64, with_all: bool) -> Result<RoundSummary, JournalFailed> {
        self.check()?;
        let began = clock();
        let mut notices = Vec::new();
        let outcome = self.with_files((&mut notices, Some(clock)), |running| {
            let taken = self.take(began, with_all);
            running.run(taken, began)
        });
        let ended = clock();
        notices.drain(..).for_each(FileNotice::deliver);
        let (round, written) = outcome?;
        if round != RoundSummary::default() {
            self.counters.count_round((began, ended), round.bytes);
            self.last_took.store(ended.saturating_sub(began), Ordering::Relaxed);
        }
        if let Some(marks) = self.marks() {
            marks.advance(ended, with_all);
        }
        let has_pass = self.begin_pass(began);
        let outcome = self.with_files((&mut notices, Some(clock)), |running| {
            if has_pass {
                running.forget_settled();
            }
            running.settle_slice(written, began)
        });
        notices.drain(..).for_each(FileNotice::deliver);
        outcome?;
        Ok(round)
    }

    /// Whether syncs take so long that nobody should have to wait for one who need not.
    fn is_disk_slow(&self) -> bool {
        self.last_took.load(Ordering::Relaxed) >= SLOW_ROUND
    }

    /// Nanoseconds until a pass through all files is due, if any of them was settled.
    fn pass_due(&self, now: u64) -> Option<u64> {
        let since = self.last_pass.load(Ordering::Relaxed);
        let rest = now.checked_sub(since).map_or(0, |passed| BETWEEN_PASSES.saturating_sub(passed));
        self.shared.has_settled.load(Ordering::Acquire).then_some(rest)
    }

    fn begin_pass(&self, now: u64) -> bool {
        let is_due = self.pass_due(now) == Some(0);
        if is_due {
            self.last_pass.store(now, Ordering::Relaxed);
            self.shared.has_settled.store(false, Ordering::Release);
        }
        is_due
    }

    /// Takes what is due, and notes the age of the oldest of it that was released already.
    fn take(&self, now: u64, with_all: bool) -> Vec<crate::append_file::RoundInput> {
        for (file, since) in self.retry.take(now, with_all) {
            file.remain_dirty(since);
        }
        let with_relaxed = with_all || self.relaxed_due(now) == Some(0);
        let files = self.shared.dirty.take(with_relaxed);
        if with_relaxed {
            self.last_relaxed.store(now, Ordering::Relaxed);
        }
        let (mut oldest, mut oldest_positions) = (u64::MAX, u64::MAX);
        let mut taken = Vec::with_capacity(files.len());
        for file in files {
            let Some(one) = file.take() else { continue };
            match round::urgency(&file) {
                SyncUrgency::Relaxed => oldest = oldest.min(one.since),
                SyncUrgency::Patient => oldest_positions = oldest_positions.min(one.since),
                SyncUrgency::Urgent => {}
            }
            taken.push(one);
        }
        self.counters.oldest_in_round.store(oldest, Ordering::Relaxed);
        self.counters.oldest_positions.store(oldest_positions, Ordering::Relaxed);
        taken
    }

    /// Runs `work` under the lock of rounds; what it returns, and the bytes of blocks it wrote. By
    /// the clock its syncs are timed.
    fn with_files(
        &self,
        (notices, clock): (&mut Vec<FileNotice>, Option<&dyn Fn() -> u64>),
        work: impl FnOnce(&mut RunningRound<'_>) -> io::Result<()>,
    ) -> Result<(RoundSummary, u64), JournalFailed> {
        self.check()?;
        let mut guard = self.lock()?;
        let Some(files) = guard.as_mut() else {
            let error = io::Error::other("has not been replayed");
            return Err(JournalFailed::new(&self.directory, &error));
        };
        let before = self.counters.block_bytes.load(Ordering::Relaxed);
        let done = RoundSummary::default();
        let mut running = RunningRound { journal: self, files, notices, clock, done };
        work(&mut running).map_err(|error| self.fail(&error))?;
        let written = self.counters.block_bytes.load(Ordering::Relaxed) - before;
        Ok((running.done, written))
    }

    /// Nanoseconds until the files that nobody waits for are due; `None`: there are none. A clock
    /// that went back counts as due.
    fn relaxed_due(&self, now: u64) -> Option<u64> {
        let interval = self.config.interval.nanoseconds();
        let rest_of =
            |wait: u64, since: u64| now.checked_sub(since).map_or(0, |passed| wait.saturating_sub(passed));
        let due = rest_of(interval, self.last_relaxed.load(Ordering::Relaxed));
        if self.shared.dirty.has_relaxed() {
            return Some(due);
        }
        let since = self.shared.dirty.patient_since()?;
        Some(due.max(rest_of(self.config.interval.patience(), since)))
    }

    /// Sleeps until somebody waits for a round, a first file has become dirty, `wake` was called,
    /// or `timeout` has passed. For the disk thread.
    pub fn wait(&self, timeout: Duration) -> Wake {
        self.shared.dirty.wait(timeout)
    }

    /// Ends a `wait` from another thread, or the next one.
    pub fn wake(&self) {
        self.shared.dirty.wake();
    }

    /// How long until a round is due; `None` while there is nothing for one to do. One is due at
    /// once when the journal has failed, in a round of whichever thread: what that round had taken
    /// is not to be made durable any more, and the next round is who tells of it.
    pub fn next_due(&self, now: u64) -> Option<Duration> {
        if self.shared.dirty.is_urgent() || self.rounds.is_poisoned() || self.check().is_err() {
            return Some(Duration::ZERO);
        }
        let marks = self.marks().and_then(|marks| marks.due(now));
        let own = [self.relaxed_due(now), self.pass_due(now), self.retry.due(now)];
        let due = own.into_iter().flatten().chain(marks);
        due.min().map(Duration::from_nanos)
    }

    /// Has rounds move what `marks` has to move. The first one stays.
    pub(crate) fn set_marks<T: Marks + 'static>(&self, marks: &Arc<T>) {
        let marks: Weak<T> = Arc::downgrade(marks);
        let _ = self.shared.marks.set(marks);
    }

    fn marks(&self) -> Option<Arc<dyn Marks>> {
        self.shared.marks.get()?.upgrade()
    }

    /// Lets go of segments of `stream` that are to be removed, since a manifest says durably that
    /// nobody needs them, or whose files were durably replaced. `numbers` are sorted. Waits for a
    /// round that is on its way.
    pub(crate) fn forget_segments(&self, stream: StreamId, numbers: &[SegmentNo]) {
        // A journal that has failed keeps what it holds: the process ends.
        let Ok(mut guard) = self.lock() else { return };
        // Nor is a round to take up again what is dirty of them.
        let is_gone = |file: &&Arc<AppendFile>| files::is_segment_of(file, stream, numbers);
        self.dirty_of(stream).iter().filter(is_gone).for_each(|file| file.abandon());
        if let Some(files) = guard.as_mut() {
            files.forget_segments(stream, numbers);
        }
    }

    /// Files of a stream that have something to make durable.
    fn dirty_of(&self, stream: StreamId) -> Vec<Arc<AppendFile>> {
        let mut files = self.shared.dirty.of_stream(stream);
        files.extend(self.retry.of_stream(stream));
        files
    }

    /// State of what waits for room on the disk, if anything does.
    pub fn waiting(&self, now: u64) -> Option<Waiting> {
        self.retry.waiting(now)
    }

    /// Files that it holds open because it has bytes of them.
    pub fn files_held(&self) -> usize {
        let guard = lock(&self.rounds);
        guard.as_ref().map_or(0, Files::held)
    }

    /// A stream was deleted on purpose: a replay will not ask for its files, and rounds leave alone
    /// those that are known here. To be called before its directory is removed; on return the note
    /// is durable.
    ///
    /// # Errors
    /// There is no note. Lack of space may pass, and is no failure of the journal; all else is
    /// final.
    pub fn note_dropped(&self, stream: StreamId) -> Result<(), JournalFailed> {
        let mut full = None;
        self.with_files((&mut Vec::new(), None), |running| {
            self.dirty_of(stream).iter().for_each(|file| file.abandon());
            running.files.abandon_stream(stream);
            if !running.files.may_hold(stream) {
                return Ok(());
            }
            let mut writing = running.files.begin_round();
            running.files.add_dropped(stream);
            match running.files.finish(&mut writing) {
                Err(error) if is_full(&error) => {
                    running.files.abandon(&writing);
                    full = Some(JournalFailed::new(&self.directory, &error));
                    Ok(())
                }
                finished => finished.and_then(|()| running.files.sync(&writing).map(drop)),
            }
        })?;
        full.map_or(Ok(()), Err)
    }

    /// A stream was deleted on purpose, which is stated durably elsewhere: rounds leave alone its
    /// files that are known here.
    ///
    /// # Errors
    /// The journal had failed before.
    pub(crate) fn drop_stream(&self, stream: StreamId) -> Result<(), JournalFailed> {
        self.with_files((&mut Vec::new(), None), |running| {
            self.dirty_of(stream).iter().for_each(|file| file.abandon());
            running.files.abandon_stream(stream);
            Ok(())
        })
        .map(drop)
    }

    /// Lets go of files of `stream`, so that they can be opened anew: between two rounds, what is
    /// in memory only is written to them, and what is not durable synced. `files` are those that
    /// the caller knows; the journal adds what it knows itself.
    ///
    /// # Errors
    /// Released bytes could not be written. The journal still holds the files.
    pub(crate) fn leave(
        &self,
        stream: StreamId,
        part: StreamPart,
        files: Vec<Arc<AppendFile>>,
    ) -> Result<(), WriteFailed> {
        let failed = |failed: JournalFailed| failed.of(&self.directory);
        let mut guard = self.lock().map_err(failed)?;
        // What only a journal that has failed holds, the next start brings back.
        self.check().map_err(failed)?;
        let Some(journal) = guard.as_mut() else { return Ok(()) };
        let mut files = files;
        files.extend(self.dirty_of(stream));
        files.extend(journal.holders_of(stream).cloned());
        for file in files.iter().filter(|file| file.id().kind.part() == part) {
            // The journal forgets what it holds of it.
            if file.is_lost() {
                let restored = file.write_memory().and_then(|()| journal.restore(file));
                let synced = restored.and_then(|()| file.file().sync());
                synced.map_err(|error| WriteFailed::new(file.path(), &error))?;
                file.abandon();
                continue;
            }
            // Whoever opens it anew may fail, and no round takes it any more.
            if file.needs_sync()
                && let Err(failed) = file.sync_directly(&*journal.disk, journal.current())
            {
                file.lose(&failed);
                return Err(failed);
            }
            file.leave()?;
        }
        Ok(())
    }

    /// Makes everything durable in the files themselves and leaves a journal that the next start
    /// need not replay. Files that are appended to meanwhile are left to a replay.
    pub fn close(&self, clock: &dyn Fn() -> u64) -> Result<(), JournalFailed> {
        self.round_now(clock)?;
        let mut notices = Vec::new();
        let outcome = self.with_files((&mut notices, Some(clock)), |running| running.settle_all());
        notices.into_iter().for_each(FileNotice::deliver);
        outcome.map(drop)
    }

    /// Statistics of the journal until now.
    pub fn statistics(&self, now: u64) -> Statistics {
        let (dirty_files, oldest) = self.shared.dirty.survey();
        let in_round = self.counters.oldest_in_round.load(Ordering::Relaxed);
        let oldest = oldest.unwrap_or(u64::MAX).min(in_round);
        let age = |since: u64| if since == u64::MAX { 0 } else { now.saturating_sub(since) };
        let positions = self.shared.dirty.patient_since().unwrap_or(u64::MAX);
        let positions = positions.min(self.counters.oldest_positions.load(Ordering::Relaxed));
        let counted = self.counters.snapshot();
        Statistics {
            loss: SyncLag { now: age(oldest), ..counted.loss },
            positions: SyncLag { now: age(positions), ..counted.positions },
            dirty_files,
            tail_bytes: self.shared.tail_bytes.load(Ordering::Relaxed),
            ..counted
        }
    }

    /// Whether the journal can be trusted.
    pub fn check(&self) -> Result<(), JournalFailed> {
        self.shared.check()
    }

    pub(crate) fn shared(&self) -> &Arc<JournalShared> {
        &self.shared
    }

    /// Whether the tails of the files that a round makes durable are to be written besides.
    ///
    /// Perf: from too many bytes down to half of that. With one limit each round wrote a little of
    /// as many files as it took to come back to it, which for 1,000 streams was half of a round.
    fn must_write_tails(&self) -> bool {
        let held = self.shared.tail_bytes.load(Ordering::Relaxed);
        let was_writing = self.is_writing_tails.load(Ordering::Relaxed);
        let limit = if was_writing { self.config.tail_bytes / 2 } else { self.config.tail_bytes };
        let is_writing = held > limit;
        if is_writing != was_writing {
            self.is_writing_tails.store(is_writing, Ordering::Relaxed);
        }
        is_writing
    }

    fn fail(&self, error: &io::Error) -> JournalFailed {
        self.shared.failed.get_or_init(|| JournalFailed::new(&self.directory, error)).clone()
    }

    /// After a panic inside a round nobody knows what is durable.
    fn lock(&self) -> Result<MutexGuard<'_, Option<Files>>, JournalFailed> {
        self.rounds.lock().map_err(|_| self.fail(&io::Error::other("a round panicked")))
    }
}

impl Drop for Journal {
    /// A dirty file keeps what it shares with the journal, and the other way round.
    fn drop(&mut self) {
        self.shared.dirty.take(true);
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Journal").field("directory", &self.directory).finish_non_exhaustive()
    }
}
