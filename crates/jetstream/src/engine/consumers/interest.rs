//! Interest of a stream's consumers in its messages: asked from inside the stream's turn.

use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::{lock, read_lock, write_lock};
use myelin_store::consumer::{ConsumerId, ConsumerState, Consumers};
use myelin_store::{Filter, Seq};
use myelin_streams::consumer::filter_of;
use myelin_streams::stream::Interest;
use std::sync::{Arc, Mutex, RwLock};

/// Interest that the consumers of one stream have in its messages.
pub(in crate::engine) struct StreamInterest {
    stored: Arc<Mutex<Consumers>>,
    volatile: Arc<Mutex<Consumers>>,
    wants: RwLock<Vec<Want>>,
}

/// Want of one consumer.
struct Want {
    id: ConsumerId,
    is_stored: bool,
    filter: Filter,
    acks: AckPolicy,
    /// Whether another stream copies by it.
    is_copying: bool,
    /// Sequence behind which the consumer was begun anew; stays for whoever goes back.
    passed: Seq,
}

impl StreamInterest {
    pub(super) fn new(stored: &Arc<Mutex<Consumers>>) -> Self {
        let volatile = Arc::new(Mutex::new(Consumers::in_memory()));
        Self { stored: Arc::clone(stored), volatile, wants: RwLock::default() }
    }

    /// States of the consumers that outlive the process, or of those that need not.
    pub(super) fn states(&self, is_stored: bool) -> &Arc<Mutex<Consumers>> {
        if is_stored { &self.stored } else { &self.volatile }
    }

    /// A consumer is there, or has another configuration.
    pub(super) fn set(&self, id: ConsumerId, is_stored: bool, config: &ConsumerConfig) {
        let want = Want {
            id,
            is_stored,
            filter: filter_of(config),
            acks: config.ack_policy,
            is_copying: config.is_internal(),
            passed: config.places.passed,
        };
        let mut wants = write_lock(&self.wants);
        match wants.iter_mut().find(|want| want.id == id && want.is_stored == is_stored) {
            Some(known) => *known = want,
            None => wants.push(want),
        }
    }

    fn is_needed_by(&self, want: &Want, seq: Seq) -> bool {
        if seq <= want.passed {
            return true;
        }
        let states = lock(self.states(want.is_stored));
        // In doubt it is needed.
        states.state(want.id).is_none_or(|state| is_needed(state, want.acks, seq))
    }

    /// A consumer is no more.
    pub(super) fn remove(&self, id: ConsumerId, is_stored: bool) {
        let mut wants = write_lock(&self.wants);
        wants.retain(|want| want.id != id || want.is_stored != is_stored);
    }
}

impl Interest for StreamInterest {
    fn wants(&self, subject: &[u8]) -> bool {
        let wants = read_lock(&self.wants);
        wants.iter().any(|want| want.filter.accepts(subject))
    }

    fn needs(&self, subject: &[u8], seq: Seq) -> bool {
        let wants = read_lock(&self.wants);
        wants.iter().filter(|want| want.filter.accepts(subject)).any(|want| {
            if myelin_stdx::planted::bug(10) && !std::ptr::eq(want, &wants[0]) {
                return false;
            }
            self.is_needed_by(want, seq)
        })
    }

    fn is_to_be_copied(&self, subject: &[u8], seq: Seq) -> bool {
        let wants = read_lock(&self.wants);
        let mut copying = wants.iter().filter(|want| want.is_copying && want.filter.accepts(subject));
        copying.any(|want| self.is_needed_by(want, seq))
    }

    fn has_consumers(&self) -> bool {
        !read_lock(&self.wants).is_empty()
    }
}

/// Whether a consumer with this state has still to be delivered a message that is for it, or to
/// acknowledge it.
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
