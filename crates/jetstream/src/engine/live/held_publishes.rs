//! Held publishes: what comes to a stream while another member is about to lead it, or while it
//! becomes a group and does not lead that yet.

use crate::engine::consumers::left_requests::LeftRequests;
use crate::engine::host::Timer;
use myelin_broker::ServiceBatch;
use myelin_stdx::sync::lock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

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

    /// Ends with holding, and gives what was held.
    pub(super) fn take(&self) -> Vec<ServiceBatch> {
        let mut held = lock(&self.held);
        self.is_under_way.store(false, Release);
        std::mem::take(&mut *held)
    }
}
