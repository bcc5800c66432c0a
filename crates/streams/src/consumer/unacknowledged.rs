//! Messages that await their acknowledgement: how many there are and which, as the record has them.

use super::core::Deliverer;
use super::effects::AckedDelivery;
use super::state_handle::StateHandle;
use super::stream_scan::contains;
use myelin_store::consumer::{self, ConsumerState, Death, Delta};
use myelin_store::{Seq, StreamReader};

impl Deliverer {
    pub(super) fn count_outstanding(&mut self) {
        self.outstanding = self.state_handle.read(|state| state.pending().len() as u64);
    }

    /// Lists the messages before `end` that await their acknowledgement.
    pub(super) fn unacknowledged(&self, end: Seq) -> Vec<AckedDelivery> {
        self.state_handle.read(|state| {
            let pending = state.pending().iter().take_while(|(seq, _)| *seq < end);
            pending.map(|(seq, pending)| lost(state, seq, &pending)).collect()
        })
    }

    /// Lists those of these messages that await their acknowledgement.
    pub(super) fn unacknowledged_of(&self, seqs: &[Seq]) -> Vec<AckedDelivery> {
        self.state_handle.read(|state| {
            let pending = |seq: &Seq| Some(lost(state, *seq, &state.pending().get(*seq)?));
            seqs.iter().filter_map(pending).collect()
        })
    }

    /// Checks what the record says against what is remembered of it, when it knows of all
    /// deliveries. A consumer that was removed has no record.
    pub(super) fn check(&self) {
        if cfg!(debug_assertions)
            && let Some(state) = self.state_handle.lock().state(self.state_handle.id())
        {
            let (delivered, pending) = (state.delivered().consumer.0, state.pending().len() as u64);
            debug_assert_eq!(self.next_delivery, delivered + 1, "deliveries are numbered without a gap");
            debug_assert_eq!(self.outstanding, pending, "what awaits its acknowledgement is counted");
        }
    }

    /// Has the record know what was delivered.
    pub(super) fn commit(&mut self) {
        self.state_handle.apply_all(&self.deltas);
        self.deltas.clear();
    }
}

/// A delivery of a message that nobody can acknowledge any more.
fn lost(state: &ConsumerState, seq: Seq, pending: &consumer::Pending) -> AckedDelivery {
    // Compat: one that came again once counts like one that came for the first time.
    let redelivered = state.redelivered().get(&seq).copied().unwrap_or(0);
    let deliveries = Death::redeliveries(redelivered).max(1);
    AckedDelivery { delivery: pending.delivery, seq, deliveries }
}

/// Of what awaits its acknowledgement, forgets what is not in the stream: what was removed shortly
/// before a crash may not be in the record. Answers whether there was any.
pub(super) fn forget_missing(state_handle: &StateHandle, reader: &StreamReader) -> bool {
    let totals = reader.state().totals;
    if totals.messages == (totals.last_seq + 1).saturating_sub(totals.first_seq) {
        return false;
    }
    let pending: Vec<Seq> = state_handle.read(|state| state.pending().iter().map(|(seq, _)| seq).collect());
    let missing = pending.into_iter().filter(|seq| !contains(reader, *seq));
    let deltas: Vec<Delta> = missing.map(|seq| Delta::Forget { seq }).collect();
    state_handle.apply_all(&deltas);
    !deltas.is_empty()
}
