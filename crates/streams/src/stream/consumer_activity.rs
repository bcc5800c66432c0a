//! Activity of a group's consumers, as each replica hears of it: a new leader shows when they were
//! active last, as the one before it did.
//!
//! It is in no record: the time is that at which a replica applies an entry.

use myelin_store::consumer::{AckPolicy, ConsumerId, GroupConsumers};
use myelin_store::record::ConsumerRecord;

/// Sign of life of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerSign {
    /// Messages were delivered.
    Delivered,
    /// Messages were acknowledged, or need no acknowledgement any more.
    Acknowledged,
    /// The consumer is gone, or has begun anew.
    Reset,
}

/// Whoever keeps when consumers of a group were active.
pub trait ConsumerActivity: Send + Sync {
    /// The group has agreed to this just now.
    fn note(&self, consumer: ConsumerId, sign: ConsumerSign);
}

/// Place of a consumer before an entry, or behind it.
pub(super) struct ActivityPlace {
    id: ConsumerId,
    /// Deliveries, the floor, and messages that await their acknowledgement. `None`: there is no
    /// such consumer.
    at: Option<(u64, u64, usize)>,
    needs_acks: bool,
}

impl ActivityPlace {
    /// Places of the consumers that an entry is about.
    pub(super) fn of_all(consumers: &GroupConsumers, records: &[ConsumerRecord<'_>]) -> Vec<Self> {
        records.iter().map(|record| Self::of(consumers, ConsumerId(record.consumer))).collect()
    }

    fn of(consumers: &GroupConsumers, id: ConsumerId) -> Self {
        let found = consumers.state(id);
        let at = found.map(|(_, state)| {
            (state.delivered().consumer.0, state.ack_floor().consumer.0, state.pending().len())
        });
        let needs_acks = found.is_some_and(|(rules, _)| rules.acks != AckPolicy::None);
        Self { id, at, needs_acks }
    }

    /// Tells what has happened since.
    pub(super) fn tell(&self, consumers: &GroupConsumers, activity: &dyn ConsumerActivity) {
        let after = Self::of(consumers, self.id);
        let (before, is_new) = (self.at.unwrap_or_default(), self.at.is_none());
        let Some(now) = after.at.filter(|now| now.0 >= before.0) else {
            return activity.note(self.id, ConsumerSign::Reset);
        };
        if now.0 > before.0 {
            activity.note(self.id, ConsumerSign::Delivered);
        }
        if after.needs_acks && !is_new && (now.1 > before.1 || now.2 < before.2) {
            activity.note(self.id, ConsumerSign::Acknowledged);
        }
    }
}
