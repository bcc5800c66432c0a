//! A consumer's state where it is kept: with those of all consumers of its stream.

use myelin_store::consumer::{Applied, ConsumerId, ConsumerState, Consumers, Delta};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One consumer of those that share a log. The lock is a leaf: it is held for a look or a change, never for a read of
/// messages.
#[derive(Clone)]
pub struct Record {
    consumers: Arc<Mutex<Consumers>>,
    id: ConsumerId,
}

impl Record {
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
        self.consumers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state. One that was removed knows nothing.
    pub(super) fn apply(&self, delta: Delta) -> Applied {
        self.lock().apply_one(self.id, delta).unwrap_or(Applied::Unknown)
    }

    /// Changes the state, in order.
    pub(super) fn apply_all(&self, deltas: &[Delta]) {
        if !deltas.is_empty() {
            // One that was removed meanwhile needs no state.
            let _ = self.lock().apply(self.id, deltas);
        }
    }

    /// Looks at the state.
    pub(super) fn read<R>(&self, look: impl FnOnce(&ConsumerState) -> R) -> R {
        match self.lock().state(self.id) {
            Some(state) => look(state),
            None => look(&ConsumerState::default()),
        }
    }
}
