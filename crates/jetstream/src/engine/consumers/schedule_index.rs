//! The index of a stream's schedules, in the log of its consumers.
//!
//! It has the form of a consumer that no client can name, to which schedules were delivered at the
//! time at which they are due and which has acknowledged none of them: what is pending are the
//! schedules, and the highest sequence that was delivered is the message up to which all are known.
//! The rest of the [`SchedulePage`] is its configuration. So it is written, checked, sealed and
//! tidied up like those.

use super::StreamConsumers;
use myelin_jsapi::config::Storage;
use myelin_stdx::sync::lock;
use myelin_store::consumer::{AckPolicy, AckRules, ConsumerId, ConsumerState, Consumers, DeliverySeq, Delta};
use myelin_store::{Seq, Timestamp};
use myelin_streams::stream::{NoScheduleIndex, PlannedFiring, ScheduleChange, ScheduleIndex, SchedulePage};
use std::sync::{Arc, Weak};

/// Its name in that log. No consumer's name can have a blank.
const NAME: &str = "schedules of the stream";

const RULES: AckRules = AckRules { acks: AckPolicy::Explicit, max_deliver: None };

/// Whether a name in the log of consumers is that of a schedule index.
pub(super) fn is_schedule_index(name: &str) -> bool {
    name == NAME
}

/// Index of a stream's schedules in the log of its consumers.
struct StoredScheduleIndex {
    consumers: Weak<StreamConsumers>,
}

impl StreamConsumers {
    /// Where the stream keeps its schedules.
    pub(in crate::engine) fn schedule_index(&self, storage: Storage) -> Arc<dyn ScheduleIndex> {
        match storage {
            Storage::File => Arc::new(StoredScheduleIndex { consumers: Weak::clone(&self.me) }),
            Storage::Memory => Arc::new(NoScheduleIndex),
        }
    }
}

impl ScheduleIndex for StoredScheduleIndex {
    fn read(&self) -> Option<(SchedulePage, usize)> {
        let consumers = self.consumers.upgrade()?;
        let states = lock(&consumers.stored);
        let kept = states.get(states.find(NAME)?)?;
        let page = read_page(kept.config(), kept.state())?;
        Some((page, kept.state().pending().len()))
    }

    fn each(&self, visit: &mut dyn FnMut(Seq, Timestamp)) {
        let Some(consumers) = self.consumers.upgrade() else { return };
        let states = lock(&consumers.stored);
        let kept = states.find(NAME).and_then(|id| states.state(id));
        kept.into_iter()
            .flat_map(|state| state.pending().iter())
            .for_each(|(seq, pending)| visit(seq, pending.timestamp));
    }

    fn reset(&self) {
        let Some(consumers) = self.consumers.upgrade() else { return };
        let mut states = lock(&consumers.stored);
        let old = states.find(NAME);
        let _ = old.map(|id| states.remove(id));
        let _ = states.create(NAME, RULES, b"");
        if old.is_none() {
            return;
        }
        // It must not be believed behind what the stream stores from now on. If this fails, its
        // page still tells.
        let _ = states.checkpoint();
        drop(states);
        consumers.rewrite_later();
    }

    fn write(&self, changes: &[ScheduleChange], page: &SchedulePage) -> bool {
        let Some(consumers) = self.consumers.upgrade() else { return false };
        let now = consumers.host.now();
        let mut states = lock(&consumers.stored);
        let Some(id) = states.find(NAME) else { return false };
        note(&mut states, id, changes, page);
        // What could not be written is with the next flush.
        let is_written = states.flush(now).is_ok();
        if states.checkpoint_due() {
            drop(states);
            consumers.rewrite_later();
        }
        is_written
    }
}

fn note(states: &mut Consumers, id: ConsumerId, changes: &[ScheduleChange], page: &SchedulePage) {
    let next = states.state(id).map_or(0, |state| state.delivered().consumer.0) + 1;
    let mut deliveries = next..;
    for change in changes {
        let delta = match *change {
            ScheduleChange::Due(seq, timestamp) => {
                let delivery = DeliverySeq(deliveries.next().unwrap_or(u64::MAX));
                Delta::Delivered { delivery, seq, count: 1, timestamp }
            }
            ScheduleChange::Gone(seq) => Delta::Forget { seq },
        };
        // There is one of this id, or it would not have been found.
        let _ = states.apply_one(id, delta);
    }
    let _ = states.apply_one(id, Delta::Skip { seq: page.through });
    let _ = states.update(id, RULES, &page_bytes(page));
}

/// All of a page but where it ends: numbers of eight bytes.
fn page_bytes(page: &SchedulePage) -> Vec<u8> {
    let firings = page.firings.iter().flat_map(|firing| [firing.schedule, firing.at, firing.due as u64]);
    [page.through, page.time as u64].into_iter().chain(firings).flat_map(u64::to_le_bytes).collect()
}

/// `None` if it is not whole, or of a state that was there once and is lost.
fn read_page(bytes: &[u8], state: &ConsumerState) -> Option<SchedulePage> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let (&[through, time], firings) = numbers.split_first_chunk::<2>()?;
    let (firings, more) = firings.as_chunks::<3>();
    let firings = firings.iter().map(|&[schedule, at, due]| PlannedFiring { schedule, at, due: due as i64 });
    let is_whole = rest.is_empty() && more.is_empty() && state.delivered().stream >= through;
    is_whole.then(|| SchedulePage { through, time: time as i64, firings: firings.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(through: Seq) -> SchedulePage {
        let firings = vec![PlannedFiring { schedule: 3, at: through + 1, due: -7 }];
        SchedulePage { through, time: 60, firings }
    }

    fn kept(states: &Consumers, id: ConsumerId) -> (Seq, Vec<(Seq, Timestamp)>) {
        let state = states.state(id).expect("it was made");
        let due = state.pending().iter().map(|(seq, pending)| (seq, pending.timestamp)).collect();
        (state.delivered().stream, due)
    }

    #[test]
    fn what_is_noted_is_there() {
        let mut states = Consumers::in_memory();
        let id = states.create(NAME, RULES, b"").expect("nobody else has the name");
        note(&mut states, id, &[ScheduleChange::Due(3, 50), ScheduleChange::Due(7, 40)], &page(9));
        assert_eq!(kept(&states, id), (9, vec![(3, 50), (7, 40)]));
        // One that repeats, one that is new, one that is gone.
        note(
            &mut states,
            id,
            &[ScheduleChange::Due(3, 70), ScheduleChange::Due(10, 60), ScheduleChange::Gone(7)],
            &page(10),
        );
        assert_eq!(kept(&states, id), (10, vec![(3, 70), (10, 60)]));
        note(
            &mut states,
            id,
            &[ScheduleChange::Gone(3), ScheduleChange::Gone(10), ScheduleChange::Gone(11)],
            &page(10),
        );
        assert_eq!(kept(&states, id), (10, vec![]));
        note(&mut states, id, &[], &page(90));
        note(&mut states, id, &[ScheduleChange::Due(91, -5)], &page(91));
        assert_eq!(kept(&states, id), (91, vec![(91, -5)]));
        let state = states.get(id).expect("it was made");
        assert_eq!(read_page(state.config(), state.state()), Some(page(91)));
    }

    #[test]
    fn a_page_that_is_not_of_this_state_is_none() {
        let mut states = Consumers::in_memory();
        let id = states.create(NAME, RULES, b"").expect("nobody else has the name");
        let read =
            |states: &Consumers, bytes: &[u8]| read_page(bytes, states.get(id).expect("it was made").state());
        assert_eq!(read(&states, b""), None);
        note(&mut states, id, &[ScheduleChange::Due(3, 50)], &page(9));
        let bytes = page_bytes(&page(9));
        assert_eq!(read(&states, &bytes), Some(page(9)));
        assert_eq!(read(&states, &bytes[..bytes.len() - 1]), None);
        assert_eq!(read(&states, &bytes[..bytes.len() - 8]), None);
        assert_eq!(read(&states, &page_bytes(&page(10))), None);
    }
}
