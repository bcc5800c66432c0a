//! Traces of the messages in one batch, as a stream fills them in.

use myelin_broker::{Service, ServiceBatch, StoredAs};
use myelin_streams::stream::{MessageTraces, TracedOutcome};
use std::sync::Arc;

/// The traces of a batch, for the time of its turn.
pub(super) struct BatchTraces<'a> {
    pub(super) batch: &'a ServiceBatch,
    /// Traces to which nobody else has anything to add.
    pub(super) complete: &'a mut Vec<Arc<dyn Service>>,
}

impl MessageTraces for BatchTraces<'_> {
    fn is_only(&self, at: usize) -> bool {
        self.batch.trace(at).is_some_and(|trace| trace.is_only())
    }

    fn is_traced(&self, at: usize) -> bool {
        self.batch.trace(at).is_some()
    }

    fn settle(&mut self, at: usize, outcome: Result<TracedOutcome<'_>, String>) {
        let Some(traced) = self.batch.trace(at) else { return };
        let outcome =
            outcome.map(|TracedOutcome { subject, seq, is_unwanted }| StoredAs { subject, seq, is_unwanted });
        if traced.settled(outcome) {
            self.complete.push(traced.trace());
        }
    }
}
