//! What the consumers of a stream say of its messages: asked from inside the stream's turn.

use crate::consumer::config::{AckPolicy, ConsumerConfig};
use crate::consumer::filter_of;
use crate::engine::live::lock;
use crate::stream::Interest;
use myelin_store::consumer::{ConsumerId, ConsumerState, Consumers};
use myelin_store::{Filter, Seq};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// See the head of this file.
pub(in crate::engine) struct StreamInterest {
    stored: Arc<Mutex<Consumers>>,
    volatile: Arc<Mutex<Consumers>>,
    wants: RwLock<Vec<Want>>,
}

/// What one consumer wants.
struct Want {
    id: ConsumerId,
    is_stored: bool,
    filter: Filter,
    acks: AckPolicy,
    /// What it was begun anew behind stays for whoever goes back.
    passed: Seq,
}

impl StreamInterest {
    pub(super) fn new(stored: &Arc<Mutex<Consumers>>, volatile: &Arc<Mutex<Consumers>>) -> Self {
        Self { stored: Arc::clone(stored), volatile: Arc::clone(volatile), wants: RwLock::default() }
    }

    /// A consumer is there, or has another configuration.
    pub(super) fn set(&self, id: ConsumerId, is_stored: bool, config: &ConsumerConfig) {
        let want =
            Want { id, is_stored, filter: filter_of(config), acks: config.ack_policy, passed: config.passed };
        let mut wants = self.wants.write().unwrap_or_else(PoisonError::into_inner);
        match wants.iter_mut().find(|want| want.id == id && want.is_stored == is_stored) {
            Some(known) => *known = want,
            None => wants.push(want),
        }
    }

    /// A consumer is no more.
    pub(super) fn remove(&self, id: ConsumerId, is_stored: bool) {
        let mut wants = self.wants.write().unwrap_or_else(PoisonError::into_inner);
        wants.retain(|want| want.id != id || want.is_stored != is_stored);
    }
}

impl Interest for StreamInterest {
    fn wants(&self, subject: &[u8]) -> bool {
        let wants = self.wants.read().unwrap_or_else(PoisonError::into_inner);
        wants.iter().any(|want| want.filter.accepts(subject))
    }

    fn needs(&self, subject: &[u8], seq: Seq) -> bool {
        let wants = self.wants.read().unwrap_or_else(PoisonError::into_inner);
        wants.iter().filter(|want| want.filter.accepts(subject)).any(|want| {
            if seq <= want.passed {
                return true;
            }
            let states = lock(if want.is_stored { &self.stored } else { &self.volatile });
            // In doubt it is needed.
            states.state(want.id).is_none_or(|state| is_needed(state, want.acks, seq))
        })
    }

    fn has_consumers(&self) -> bool {
        !self.wants.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Whether a consumer with this state has still to be delivered a message that is for it, or to acknowledge it.
fn is_needed(state: &ConsumerState, acks: AckPolicy, seq: Seq) -> bool {
    if seq > state.delivered().stream {
        return true;
    }
    match acks {
        AckPolicy::None => false,
        AckPolicy::All | AckPolicy::FlowControl => seq > state.ack_floor().stream,
        // What was given up stays counted, and in the stream.
        AckPolicy::Explicit => state.pending().get(seq).is_some() || state.redelivered().contains_key(&seq),
    }
}
