//! Proposals of what consumers have decided and nobody waits for: acknowledgements without an
//! answer.
//!
//! Each of them as an entry of its own would be a write and a round trip to the other members, for
//! a few bytes. So they go together, with the next entry of consumers or some milliseconds later.
//! Until then they are lost where this server ends, and their messages come again; a leader that
//! hands over proposes them before.

use super::LiveStream;
use super::turn::StreamWork;
use crate::engine::host::Timer;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, OnceLock, Weak};

/// Nanoseconds for which they are gathered: as long as it takes at most, as a rule, until messages
/// are synced.
const GATHERED: i64 = 5_000_000;

/// Whether proposals are to come, and who has them made.
#[derive(Default)]
pub(super) struct LateProposals {
    is_due: AtomicBool,
    watch: OnceLock<Arc<dyn Timer>>,
}

/// Has them made when it is time.
struct LateProposalsWatch(Weak<LiveStream>);

impl Timer for LateProposalsWatch {
    fn fire(&self) {
        if let Some(live) = self.0.upgrade() {
            // Before the shard looks: what is decided behind that needs another alarm.
            live.membership.late_proposals.is_due.store(false, Release);
            live.wake();
        }
    }

    fn may_wait(&self) -> bool {
        false
    }
}

impl LiveStream {
    /// Has what consumers have decided proposed with what comes within some milliseconds.
    pub(super) fn propose_later(&self) {
        let late = &self.membership.late_proposals;
        if late.is_due.swap(true, AcqRel) {
            return;
        }
        let watch = late.watch.get_or_init(|| Arc::new(LateProposalsWatch(Weak::clone(&self.me))));
        let timer = Arc::downgrade(watch);
        self.scope.host.schedule(self.scope.host.now() + GATHERED, timer);
    }

    /// Proposes what consumers have decided, before somebody else leads. For threads that may wait.
    pub(super) fn propose_rest(&self) {
        self.submit_and_wait(StreamWork::Propose);
    }
}
