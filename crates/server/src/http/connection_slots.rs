//! Slots for HTTP connections: who is connected, and who leaves when one more wants to come in.
//!
//! Owns no connection's data: it knows the phase of each and how to end it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::pace::{Phase, SharedPhase};

/// How long a connection may owe a head before another may have its slot: enough for a head that is
/// on its way, and little enough that a burst of connections that say nothing keeps nobody out.
const COURTESY: Duration = Duration::from_millis(50);

/// All connections.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    limit: usize,
    taken: Vec<ConnectionSlot>,
}

#[derive(Debug)]
struct ConnectionSlot {
    pace: Arc<SharedPhase>,
    task: AbortHandle,
}

impl ConnectionSlots {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, taken: Vec::new() }
    }

    pub(super) fn take(&mut self, pace: Arc<SharedPhase>, task: AbortHandle) {
        self.taken.push(ConnectionSlot { pace, task });
    }

    /// Whether there is a free slot, made free if need be: by whoever is idle longest, else by
    /// whoever has owed a head longest. Who is owed an answer stays.
    pub(super) fn make_room(&mut self) -> bool {
        if self.taken.len() < self.limit {
            return true;
        }
        self.taken.retain(|slot| !slot.task.is_finished());
        if self.taken.len() < self.limit {
            return true;
        }
        let now = Instant::now();
        let loser = self.taken.iter().enumerate().filter_map(|(at, slot)| Some((rank(slot, now)?, at))).min();
        if let Some((_, at)) = loser {
            self.taken.swap_remove(at).task.abort();
        }
        loser.is_some()
    }
}

/// Rank of a connection: the least leaves first.
fn rank(slot: &ConnectionSlot, now: Instant) -> Option<(u8, Instant)> {
    match slot.pace.phase() {
        Phase::Idle(since) => Some((0, since)),
        Phase::Head(since) if now.duration_since(since) >= COURTESY => Some((1, since)),
        Phase::Head(_) | Phase::Answering => None,
    }
}
