//! The disk thread: rounds of the journal, for as long as the server runs.
//!
//! A journal that has failed may have lost what was not acknowledged yet, and must not acknowledge anything more: the
//! process ends, and its next start finds everything that was (house.md, decision 13).

use super::host::{Threads, now};
use crate::logging::Logger;
use myelin_jetstream::JetStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The longest sleep: how soon the end of the server is noticed at the latest.
const LONGEST: Duration = Duration::from_millis(250);

/// The exit code after the journal has failed.
const JOURNAL_FAILED: i32 = 1;

/// See the head of this file.
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
        let clock = || now().unsigned_abs();
        while !self.threads.is_stopping.load(Relaxed) {
            match journal.next_due(clock()) {
                Some(Duration::ZERO) => {
                    if let Err(failed) = journal.round(&clock) {
                        self.log.error(format_args!("JetStream cannot make messages durable: {failed}"));
                        self.log.flush();
                        std::process::exit(JOURNAL_FAILED);
                    }
                }
                Some(due) => drop(journal.wait(due.min(LONGEST))),
                None => drop(journal.wait(LONGEST)),
            }
        }
    }
}
