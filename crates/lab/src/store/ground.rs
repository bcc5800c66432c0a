//! An open store with the threads for its rounds and its jobs: what an embedder would have, and
//! nothing more.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use myelin_disk::real::RealDisk;
use myelin_loadgen::error::BenchError;
use myelin_stdx::sync::lock;
use myelin_store::entropy::SeededEntropy;
use myelin_store::journal::Journal;
use myelin_store::{Durability, FoundStream, Store, StoreOptions, Stream, StreamConfig};

use crate::store::load::Appender;
use crate::store::meter::ThreadClock;
use crate::store::upkeep::Worker;

/// How long the disk thread sleeps when nothing is to be synced.
const IDLE: Duration = Duration::from_millis(200);

/// Open store with the disk thread and the worker for jobs that an embedder would have.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) store: Store,
    pub(crate) clock: ThreadClock,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    worker: Worker,
}

#[derive(Debug)]
struct Shared {
    journal: Arc<Journal>,
    clock: ThreadClock,
    ends: AtomicBool,
    rounds: Mutex<Rounds>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct Rounds {
    count: u64,
    failure: Option<String>,
}

impl Ground {
    /// Opens the store in `root`, and begins with rounds. Says which streams are in it.
    pub(crate) fn open(root: &Path) -> Result<(Self, Vec<FoundStream>), BenchError> {
        let clock = ThreadClock::new();
        let entropy = Arc::new(SeededEntropy::new(clock.nanos()));
        let opened = Store::open(Arc::new(RealDisk), StoreOptions::new(root), entropy);
        let (store, report) = opened.map_err(|error| BenchError::Store(error.to_string()))?;
        let shared = Arc::new(Shared {
            journal: Arc::clone(store.journal()),
            clock,
            ends: AtomicBool::new(false),
            rounds: Mutex::default(),
            done: Condvar::new(),
        });
        let rounds = Arc::clone(&shared);
        let thread = std::thread::spawn(move || rounds.run());
        Ok((Self { store, clock, shared, thread: Some(thread), worker: Worker::start() }, report.streams))
    }

    /// Makes a stream.
    pub(crate) fn stream(&self, name: &str, config: StreamConfig) -> Result<Stream, BenchError> {
        let created = self.store.create_stream("BENCH", name, b"", config, self.clock.now());
        created.map_err(|error| BenchError::Store(error.to_string()))
    }

    /// Appender to the store's streams. Must be gone before the store is.
    pub(crate) fn appender(&self) -> Appender {
        Appender::with(self.worker.upkeep())
    }

    /// How many rounds have ended.
    pub(crate) fn rounds(&self) -> Result<u64, BenchError> {
        self.shared.check(&self.shared.lock())
    }

    /// Sleeps until more than `seen` rounds have ended. Says how many.
    pub(crate) fn wait(&self, seen: u64) -> Result<u64, BenchError> {
        let mut rounds = self.shared.lock();
        loop {
            let count = self.shared.check(&rounds)?;
            if count > seen {
                return Ok(count);
            }
            rounds = self.shared.done.wait(rounds).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the disk thread as a kill would: nothing is made durable any more.
    pub(crate) fn stop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.shared.journal.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// The disk thread.
    fn run(&self) {
        let clock = || self.clock.nanos();
        while !self.ends.load(Ordering::Relaxed) {
            match self.journal.next_due(clock()) {
                Some(Duration::ZERO) => {
                    let result = self.journal.round(&clock);
                    let mut rounds = self.lock();
                    rounds.count += 1;
                    rounds.failure = result.err().map(|error| error.to_string());
                    let has_failed = rounds.failure.is_some();
                    drop(rounds);
                    self.done.notify_all();
                    if has_failed {
                        return;
                    }
                }
                Some(due) => _ = self.journal.wait(due),
                None => _ = self.journal.wait(IDLE),
            }
        }
    }

    fn check(&self, rounds: &Rounds) -> Result<u64, BenchError> {
        match &rounds.failure {
            Some(why) => Err(BenchError::Store(why.clone())),
            None => Ok(rounds.count),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rounds> {
        lock(&self.rounds)
    }
}

/// A stream that is told nothing but when its messages count as stored.
pub(crate) fn with(durability: Durability) -> StreamConfig {
    StreamConfig { durability, ..StreamConfig::default() }
}
