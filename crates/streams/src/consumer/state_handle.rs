//! A consumer's state where it is kept: with those of all consumers of its stream.

use myelin_stdx::sync::lock;
use myelin_store::Seq;
use myelin_store::consumer::{Applied, ConsumerId, ConsumerState, Consumers, Delta, Pending};
use std::sync::{Arc, Mutex, MutexGuard};

/// One consumer of those that share a log. The lock is a leaf: it is held for a look or a change,
/// never for a read of messages.
#[derive(Clone)]
pub struct StateHandle {
    consumers: Arc<Mutex<Consumers>>,
    id: ConsumerId,
}

impl StateHandle {
    /// The consumer `id` of `consumers`.
    #[must_use]
    pub fn new(consumers: &Arc<Mutex<Consumers>>, id: ConsumerId) -> Self {
        Self { consumers: Arc::clone(consumers), id }
    }

    /// Which one.
    #[must_use]
    pub fn id(&self) -> ConsumerId {
        self.id
    }

    /// Whether it is one of these.
    #[must_use]
    pub fn is_of(&self, consumers: &Arc<Mutex<Consumers>>) -> bool {
        Arc::ptr_eq(&self.consumers, consumers)
    }

    /// Everything that shares the log.
    pub fn lock(&self) -> MutexGuard<'_, Consumers> {
        lock(&self.consumers)
    }

    /// Changes the state. One that was removed knows nothing.
    pub(super) fn apply(&self, delta: Delta) -> Applied {
        let mut states = self.lock();
        let applied = states.apply_one(self.id, delta).unwrap_or(Applied::Unknown);
        if cfg!(debug_assertions) {
            states.state(self.id).into_iter().for_each(check);
        }
        applied
    }

    /// Changes the state, in order.
    pub(super) fn apply_all(&self, deltas: &[Delta]) {
        if !deltas.is_empty() {
            let mut states = self.lock();
            // One that was removed meanwhile needs no state.
            let _ = states.apply(self.id, deltas);
            if cfg!(debug_assertions) {
                states.state(self.id).into_iter().for_each(check);
            }
        }
    }

    /// Looks at the state.
    pub(super) fn read<R>(&self, look: impl FnOnce(&ConsumerState) -> R) -> R {
        match self.lock().state(self.id) {
            Some(state) => look(state),
            None => look(&ConsumerState::default()),
        }
    }

    /// A message that awaits its acknowledgement, and its count of redeliveries.
    pub(super) fn awaited(&self, seq: Seq) -> Option<(Pending, u64)> {
        self.read(|state| {
            let pending = state.pending().get(seq)?;
            Some((pending, state.redelivered().get(&seq).copied().unwrap_or(0)))
        })
    }
}

/// Checks the invariants of a state. Of what is pending the first alone: there may be a million.
fn check(state: &ConsumerState) {
    let (delivered, floor) = (state.delivered(), state.ack_floor());
    debug_assert!(floor.consumer <= delivered.consumer, "no delivery is acknowledged that was not made");
    debug_assert!(floor.stream <= delivered.stream, "no message is acknowledged that was not delivered");
    if let Some((first, pending)) = state.pending().iter().next() {
        debug_assert!(first > floor.stream, "what is pending lies above the floor");
        debug_assert!(pending.delivery <= delivered.consumer, "what is pending was delivered");
    }
}
