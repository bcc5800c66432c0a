//! The disk thread: rounds of the journal, for as long as the server runs. And the one beside it
//! that states how far the streams have come, which must not wait behind a sync.
//!
//! A journal that has failed may have lost what was not acknowledged yet, and must not acknowledge
//! anything more: the process ends, and its next start finds everything that was. So it does after
//! a panic in a round.

use super::capacity;
use super::host::Threads;
use crate::logging::Logger;
use crate::supervise::{self, JOURNAL_FAILED, SupervisedPart};
use myelin_jetstream::{Host, JetStream};
use myelin_store::journal::Waiting;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The longest sleep: how soon the end of the server is noticed at the latest.
const LONGEST: Duration = Duration::from_millis(250);

/// Between two looks how much room the disk has: it may have been full when the server began.
const LOOK: Duration = Duration::from_secs(1);

/// Disk thread: does the journal's rounds for as long as the server runs.
pub(super) struct Rounds {
    jetstream: Arc<JetStream>,
    threads: Arc<Threads>,
    log: Arc<Logger>,
}

impl Rounds {
    pub(super) fn new(jetstream: &Arc<JetStream>, threads: &Arc<Threads>, log: &Arc<Logger>) -> Self {
        let (jetstream, threads, log) = (Arc::clone(jetstream), Arc::clone(threads), Arc::clone(log));
        Self { jetstream, threads, log }
    }

    /// Sleeps until a round is due, and runs it.
    pub(super) fn run(&self) {
        let journal = self.jetstream.journal();
        // The clock of appends: the journal compares the two.
        let clock = || self.threads.now().unsigned_abs();
        let (mut is_waiting, mut looked) = (false, Instant::now());
        while !self.threads.is_stopping.load(Relaxed) {
            supervise::point(SupervisedPart::JsDisk);
            if looked.elapsed() >= LOOK {
                self.jetstream.follow_disk(capacity::most);
                looked = Instant::now();
            }
            match journal.next_due(clock()) {
                Some(Duration::ZERO) => {
                    if let Err(failed) = journal.round(&clock) {
                        self.log.error(format_args!(
                            "JetStream cannot make messages durable, the server ends: {failed}"
                        ));
                        self.log.flush();
                        std::process::exit(JOURNAL_FAILED);
                    }
                    self.tell_waiting(journal.waiting(clock()), &mut is_waiting);
                }
                Some(due) => drop(journal.wait(due.min(LONGEST))),
                None => drop(journal.wait(LONGEST)),
            }
        }
    }
}

impl Rounds {
    /// Tells when a full disk begins to keep rounds from their work, and when that is over.
    fn tell_waiting(&self, waiting: Option<Waiting>, is_told: &mut bool) {
        match (waiting, std::mem::replace(is_told, waiting.is_some())) {
            (Some(waiting), false) => {
                self.log.warn(format_args!("JetStream {waiting}; it tries again, at least every 10 seconds"));
            }
            (None, true) => {
                self.log.info(format_args!("JetStream has room on the disk again: nothing waits for it"));
            }
            _ => {}
        }
    }
}

/// States how far the streams have come: see the watermarks of the store.
pub(super) struct Watermarks {
    jetstream: Arc<JetStream>,
    threads: Arc<Threads>,
    log: Arc<Logger>,
}

impl Watermarks {
    pub(super) fn new(jetstream: &Arc<JetStream>, threads: &Arc<Threads>, log: &Arc<Logger>) -> Self {
        let (jetstream, threads, log) = (Arc::clone(jetstream), Arc::clone(threads), Arc::clone(log));
        Self { jetstream, threads, log }
    }

    /// Runs until the server ends. Without it nothing is lost, but a loss at the end of a stream
    /// could not be told.
    pub(super) fn run(&self) {
        let mut has_failed = false;
        while !self.threads.is_stopping.load(Relaxed) {
            self.jetstream.wait_for_changes();
            match supervise::guard(SupervisedPart::JsMarks, || self.jetstream.write_watermarks()) {
                Some(Err(error)) if !std::mem::replace(&mut has_failed, true) => {
                    let what = "JetStream cannot write down how far the streams have come; it tries again";
                    self.log.error(format_args!("{what}: {error}"));
                }
                Some(Ok(())) => has_failed = false,
                Some(Err(_)) | None => {}
            }
        }
    }
}
