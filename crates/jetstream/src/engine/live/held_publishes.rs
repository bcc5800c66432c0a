//! Held publishes: what comes to a stream while another member is about to lead it, or while it
//! becomes a group and does not lead that yet.

use super::recent_publishes::{PublishKey, RecentPublishes};
use crate::engine::consumers::left_requests::LeftRequests;
use crate::engine::host::Timer;
use myelin_broker::ServiceBatch;
use myelin_stdx::sync::lock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The next leader has so long to answer, which serves publishers meanwhile. One of an older
/// version does not know the question.
const PATIENCE: Duration = Duration::from_millis(250);

/// Publishes that the next leader is asked about, at most.
const MOST_ASKED: usize = 4096;

/// Hand-over of one stream, if one is under way: to another member, or to the group that it
/// becomes.
#[derive(Default)]
pub(super) struct HandOver {
    /// Perf: each batch of publishes looks here.
    is_under_way: AtomicBool,
    pub(super) steps: Mutex<Option<HandOverSteps>>,
    held: Mutex<Vec<ServiceBatch>>,
    /// Requests for messages that come meanwhile.
    pub(super) left: Mutex<Option<Arc<LeftRequests>>>,
    /// Publishes that come after one.
    pub(super) recent: RecentPublishes,
    /// Called now and then while one is under way.
    pub(super) watch: OnceLock<Arc<dyn Timer>>,
}

/// Why publishes are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandOverReason {
    /// Another member is to lead.
    Heir,
    /// The stream becomes a group, of which it is the only voter: it leads again.
    Founding,
    /// Another member may lead already.
    Doubt,
}

/// How far a hand-over is.
pub(super) struct HandOverSteps {
    pub(super) began: Instant,
    pub(super) reason: HandOverReason,
    /// How often it was looked at.
    pub(super) looks: u32,
    /// Since when another server leads, and since when it receives.
    pub(super) followed: Option<Instant>,
    pub(super) heard: Option<Instant>,
    /// Question to that one, which of the publishes it has taken that are held here.
    pub(super) asked: Option<Arc<AskedLeader>>,
}

/// Question to the next leader of a stream, which of the publishes it has taken that are held here.
pub(in crate::engine) struct AskedLeader {
    at: Instant,
    taken: Mutex<Option<Vec<PublishKey>>>,
}

impl AskedLeader {
    pub(super) fn new(at: Instant) -> Self {
        Self { at, taken: Mutex::default() }
    }

    /// Notes those that it has taken.
    pub(in crate::engine) fn answer(&self, taken: Vec<PublishKey>) {
        *lock(&self.taken) = Some(taken);
    }

    /// Whether it has answered, or has had its time to.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        lock(&self.taken).is_some() || now.saturating_duration_since(self.at) >= PATIENCE
    }

    /// Publishes that it has taken, as far as it has said.
    pub(super) fn taken(&self) -> Vec<PublishKey> {
        lock(&self.taken).take().unwrap_or_default()
    }
}

impl HandOver {
    /// Begins to hold publishes. False: that has begun already.
    pub(super) fn begin(&self) -> bool {
        !self.is_under_way.swap(true, AcqRel)
    }

    /// Whether publishes are held.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Acquire)
    }

    /// Whether they are held because another member may lead already, as far as is said yet.
    pub(super) fn is_in_doubt(&self) -> bool {
        lock(&self.steps).as_ref().is_none_or(|steps| steps.reason == HandOverReason::Doubt)
    }

    /// Holds publishes. Gives them back where that is over meanwhile.
    pub(super) fn hold(&self, msgs: ServiceBatch) -> Option<ServiceBatch> {
        let mut held = lock(&self.held);
        if !self.is_under_way() {
            return Some(msgs);
        }
        held.push(msgs);
        None
    }

    /// Publishes that are held and whose publishers wait for an answer, as far as the next leader
    /// is asked about them.
    pub(super) fn keys(&self) -> Vec<PublishKey> {
        let held = lock(&self.held);
        held.iter()
            .flat_map(|msgs| msgs.iter())
            .filter_map(|msg| PublishKey::of(&msg))
            .take(MOST_ASKED)
            .collect()
    }

    /// Ends with holding, and gives what was held.
    pub(super) fn take(&self) -> Vec<ServiceBatch> {
        let mut held = lock(&self.held);
        self.is_under_way.store(false, Release);
        std::mem::take(&mut *held)
    }
}
