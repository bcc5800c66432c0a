//! Proposals of what consumers have decided and nobody waits for: acknowledgements without an
//! answer, and deliveries that do not wait for the group.
//!
//! Each of them as an entry of its own would be a write and a round trip to the other members, for
//! a few bytes. So they go together, with the next entry of consumers or some milliseconds later.
//! Until then they are lost where this server ends, and their messages come again; a leader that
//! hands over proposes them before.

use super::LiveStream;
use super::turn::StreamWork;
use crate::engine::host::Timer;
use myelin_store::Timestamp;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, OnceLock, Weak};

/// Nothing is to come.
const NEVER: Timestamp = Timestamp::MAX;

/// When proposals are to come at the latest, and who has them made.
pub(super) struct LateProposals {
    due: AtomicI64,
    watch: OnceLock<Arc<dyn Timer>>,
}

impl Default for LateProposals {
    fn default() -> Self {
        Self { due: AtomicI64::new(NEVER), watch: OnceLock::new() }
    }
}

/// Has them made when it is time.
struct LateProposalsWatch(Weak<LiveStream>);

impl Timer for LateProposalsWatch {
    fn fire(&self) {
        if let Some(live) = self.0.upgrade() {
            // Before the shard looks: what is decided behind that needs another alarm.
            live.membership.late_proposals.due.store(NEVER, Release);
            live.wake();
        }
    }

    fn may_wait(&self) -> bool {
        false
    }
}

impl LiveStream {
    /// Has what consumers have decided proposed within so many nanoseconds, with what comes until
    /// then.
    pub(super) fn propose_within(&self, gathered: i64) {
        let late = &self.membership.late_proposals;
        let at = self.scope.host.now().saturating_add(gathered);
        if late.due.fetch_min(at, AcqRel) <= at {
            return;
        }
        let watch = late.watch.get_or_init(|| Arc::new(LateProposalsWatch(Weak::clone(&self.me))));
        self.scope.host.schedule(at, Arc::downgrade(watch));
    }

    /// Proposes what consumers have decided, before somebody else leads. For threads that may wait.
    pub(super) fn propose_rest(&self) {
        self.submit_and_wait(StreamWork::Propose);
    }
}
