//! Interest of a stream's consumers in its messages: asked from inside the stream's turn. It asks
//! those consumers only whose filters match (`want_index`).

use super::want_index::{Want, WantIndex};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::{lock, read_lock, write_lock};
use myelin_store::Seq;
use myelin_store::consumer::{ConsumerId, ConsumerState, Consumers};
use myelin_streams::consumer::filter_of;
use myelin_streams::stream::Interest;
use std::sync::{Arc, Mutex, RwLock};

/// Interest that the consumers of one stream have in its messages.
pub(in crate::engine) struct StreamInterest {
    stored: Arc<Mutex<Consumers>>,
    volatile: Arc<Mutex<Consumers>>,
    wants: RwLock<WantIndex>,
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
        write_lock(&self.wants).set(want);
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
        write_lock(&self.wants).remove((is_stored, id));
    }
}

impl Interest for StreamInterest {
    fn wants(&self, subject: &[u8]) -> bool {
        read_lock(&self.wants).any(subject, &mut |_| true)
    }

    fn needs(&self, subject: &[u8], seq: Seq, looks: &mut usize) -> bool {
        let wants = read_lock(&self.wants);
        wants.any(subject, &mut |want| {
            *looks += 1;
            if myelin_stdx::planted::bug(10) && !wants.is_first(want) {
                return false;
            }
            self.is_needed_by(want, seq)
        })
    }

    fn is_to_be_copied(&self, subject: &[u8], seq: Seq) -> bool {
        let wants = read_lock(&self.wants);
        wants.any(subject, &mut |want| want.is_copying && self.is_needed_by(want, seq))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_thousand_consumers_the_one_that_wants_a_message_is_asked() {
        let stored = Arc::new(Mutex::new(Consumers::in_memory()));
        let interest = StreamInterest::new(&stored);
        for at in 0..1000 {
            let filter_subjects = vec![format!("a.{at}"), format!("b.*.{at}")];
            let config = ConsumerConfig { filter_subjects, ..ConsumerConfig::default() };
            let created = lock(&stored).create(&format!("C{at}"), Default::default(), b"");
            interest.set(created.expect("it is in memory"), true, &config);
        }
        for (subject, is_needed) in [("a.7", true), ("a.999", true), ("b.x.500", true), ("c", false)] {
            let mut looks = 0;
            assert_eq!(interest.needs(subject.as_bytes(), 1, &mut looks), is_needed, "{subject}");
            assert_eq!(looks, usize::from(is_needed), "{subject}");
            assert_eq!(interest.wants(subject.as_bytes()), is_needed, "{subject}");
        }
        assert!(!interest.is_to_be_copied(b"a.7", 1));
    }
}
