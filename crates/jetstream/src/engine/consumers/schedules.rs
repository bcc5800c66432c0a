//! The ledger of a stream's schedules, in the log of its consumers.
//!
//! It has the form of a consumer that no client can name, to which schedules were delivered at the time at which they are due
//! and which has acknowledged none of them: what is pending are the schedules, and the highest sequence that was delivered
//! is the message up to which all are known. So it is written, checked, sealed and tidied up like those.

use super::StreamConsumers;
use crate::config::Storage;
use crate::engine::live::lock;
use crate::stream::{Change, Forgetful, Kept, Ledger};
use myelin_store::Seq;
use myelin_store::consumer::{AckPolicy, ConsumerId, Consumers, DeliverySeq, Delta, Rules};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Its name in that log. No consumer's name can have a blank.
const NAME: &str = "schedules of the stream";

const RULES: Rules = Rules { acks: AckPolicy::Explicit, max_deliver: None };

/// Changes that may wait in memory when nothing of them is urgent.
const MOST_WAITING: usize = 4096;

/// Whether a name in the log of consumers is that of a ledger.
pub(super) fn is_ledger(name: &str) -> bool {
    name == NAME
}

/// See the head of this file.
struct Schedules {
    consumers: Weak<StreamConsumers>,
    /// Changes that were not written.
    waiting: AtomicUsize,
}

impl StreamConsumers {
    /// Where the stream keeps its schedules.
    pub(in crate::engine) fn ledger(&self, storage: Storage) -> Arc<dyn Ledger> {
        match storage {
            Storage::File => {
                Arc::new(Schedules { consumers: Weak::clone(&self.me), waiting: AtomicUsize::new(0) })
            }
            Storage::Memory => Arc::new(Forgetful),
        }
    }
}

impl Ledger for Schedules {
    fn read(&self) -> Option<Kept> {
        let consumers = self.consumers.upgrade()?;
        let states = lock(&consumers.stored);
        let state = states.state(states.find(NAME)?)?;
        let due = state.pending().iter().map(|(seq, pending)| (seq, pending.timestamp)).collect();
        Some(Kept { through: state.delivered().stream, due })
    }

    fn reset(&self) {
        let Some(consumers) = self.consumers.upgrade() else { return };
        let mut states = lock(&consumers.stored);
        // Also what it was, if somebody has damaged that.
        let _ = states.find(NAME).map(|id| states.remove(id));
        let _ = states.create(NAME, RULES, b"");
        // At once: what it was must not be believed behind what the stream stores from now on.
        self.waiting.store(0, Relaxed);
        let _ = states.flush(consumers.host.now());
    }

    fn write(&self, changes: &[Change], through: Seq, is_urgent: bool) {
        let Some(consumers) = self.consumers.upgrade() else { return };
        let now = consumers.host.now();
        let mut states = lock(&consumers.stored);
        let Some(id) = states.find(NAME) else { return };
        note(&mut states, id, changes, through);
        let waiting = self.waiting.fetch_add(changes.len(), Relaxed) + changes.len();
        // That there was nothing for long is worth a write, too.
        if !is_urgent && !changes.is_empty() && waiting < MOST_WAITING {
            return;
        }
        self.waiting.store(0, Relaxed);
        // What could not be written is with the next flush.
        let _ = states.flush(now);
        if states.checkpoint_due() {
            drop(states);
            consumers.tidy_later();
        }
    }
}

fn note(states: &mut Consumers, id: ConsumerId, changes: &[Change], through: Seq) {
    let next = states.state(id).map_or(0, |state| state.delivered().consumer.0) + 1;
    let mut deliveries = next..;
    for change in changes {
        let delta = match *change {
            Change::Due(seq, timestamp) => {
                let delivery = DeliverySeq(deliveries.next().unwrap_or(u64::MAX));
                Delta::Delivered { delivery, seq, count: 1, timestamp }
            }
            Change::Gone(seq) => Delta::Forget { seq },
        };
        // There is one of this id, or it would not have been found.
        let _ = states.apply_one(id, delta);
    }
    let _ = states.apply_one(id, Delta::Skip { seq: through });
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_store::Timestamp;

    fn kept(states: &Consumers, id: ConsumerId) -> (Seq, Vec<(Seq, Timestamp)>) {
        let state = states.state(id).expect("it was made");
        let due = state.pending().iter().map(|(seq, pending)| (seq, pending.timestamp)).collect();
        (state.delivered().stream, due)
    }

    #[test]
    fn what_is_noted_is_there() {
        let mut states = Consumers::in_memory();
        let id = states.create(NAME, RULES, b"").expect("nobody else has the name");
        note(&mut states, id, &[Change::Due(3, 50), Change::Due(7, 40)], 9);
        assert_eq!(kept(&states, id), (9, vec![(3, 50), (7, 40)]));
        // One that repeats, one that is new, one that is gone.
        note(&mut states, id, &[Change::Due(3, 70), Change::Due(10, 60), Change::Gone(7)], 10);
        assert_eq!(kept(&states, id), (10, vec![(3, 70), (10, 60)]));
        note(&mut states, id, &[Change::Gone(3), Change::Gone(10), Change::Gone(11)], 10);
        assert_eq!(kept(&states, id), (10, vec![]));
        note(&mut states, id, &[], 90);
        note(&mut states, id, &[Change::Due(91, -5)], 91);
        assert_eq!(kept(&states, id), (91, vec![(91, -5)]));
    }
}
