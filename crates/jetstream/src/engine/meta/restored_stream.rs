//! Stream that was restored on this server, and how far it is on its way into the cluster.

use super::assignment::StreamKey;
use myelin_store::Timestamp;
use std::time::{Duration, Instant};

/// Pause before replicas are asked for again. Each further one doubles it, up to
/// [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Stream that was restored here and is not yet as it is to be.
pub(super) struct RestoredStream {
    pub(super) key: StreamKey,
    pub(super) created: Timestamp,
    pub(super) place: RestoredPlace,
    pub(super) state: RestoredState,
}

/// Place that such a stream is to have.
#[derive(Clone, Default)]
pub(in crate::engine) struct RestoredPlace {
    /// Replicas.
    pub(in crate::engine) replicas: i64,
    /// Clusters of who has asked, the nearest first.
    pub(in crate::engine) asking: Vec<String>,
    /// Servers that were chosen when that was asked; none where a server is alone.
    pub(in crate::engine) servers: Vec<String>,
}

impl RestoredPlace {
    /// Whether the stream stays on a server to which it comes.
    pub(in crate::engine) fn has(&self, server: &str) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|chosen| chosen == server)
    }
}

/// State of such a stream.
pub(super) enum RestoredState {
    /// Proposed: the cluster does not know it yet, and it is not served.
    Offered,
    /// Served by this server alone: when it is looked at next, and how often replicas were asked
    /// for.
    Alone { due: Instant, tries: u32 },
}

impl RestoredStream {
    /// Whether this is the stream of that name that was created then.
    pub(super) fn is(&self, key: &StreamKey, created: Timestamp) -> bool {
        self.key == *key && self.created == created
    }

    /// The stream, to be looked at again some time after `now`.
    pub(super) fn again(self, now: Instant) -> Self {
        let tries = match self.state {
            RestoredState::Offered => 0,
            RestoredState::Alone { tries, .. } => tries,
        };
        let due = now + (PAUSE * (1 << tries.min(8))).min(LONGEST_PAUSE);
        Self { state: RestoredState::Alone { due, tries: tries + 1 }, ..self }
    }
}
