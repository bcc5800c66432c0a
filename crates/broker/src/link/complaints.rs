//! Complaints about the other side of a link, which can do the same wrong thing a million times:
//! the log has the first line of each kind, and how many more there were every ten seconds.

use crate::log::Level;
use myelin_stdx::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time between two lines of one kind.
const INTERVAL: Duration = Duration::from_secs(10);

/// Kind of complaint of which a line was logged.
pub(crate) struct Complaint {
    pub(crate) kind: &'static str,
    pub(crate) level: Level,
    /// When something came after that line; the interval begins then.
    since: Option<Instant>,
    /// Lines that were left out.
    pub(crate) count: u64,
}

/// Complaints about one link.
#[derive(Default)]
pub(crate) struct Complaints {
    /// Set while any are held: asked whenever something comes.
    is_any: AtomicBool,
    held: Mutex<Vec<Complaint>>,
}

impl Complaints {
    /// Whether a line is to be logged; else it is counted.
    pub(crate) fn begin(&self, kind: &'static str, level: Level) -> bool {
        let mut held = lock(&self.held);
        if let Some(known) = held.iter_mut().find(|held| held.kind == kind) {
            known.count += 1;
            return false;
        }
        held.push(Complaint { kind, level, since: None, count: 0 });
        self.is_any.store(true, Relaxed);
        true
    }

    /// Whether any are held.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    /// Takes out what has been held for long enough; everything without a time.
    pub(crate) fn take_due(&self, now: Option<Instant>) -> Vec<Complaint> {
        let mut held = lock(&self.held);
        let due = held.extract_if(.., |held| {
            now.is_none_or(|now| now.saturating_duration_since(*held.since.get_or_insert(now)) >= INTERVAL)
        });
        let due = due.collect();
        self.is_any.store(!held.is_empty(), Relaxed);
        due
    }
}
