//! Consumers as the group of their stream has them: what a replica knows that does not lead.

use super::reserved_names::is_position;
use super::schedule_index::is_schedule_index;
use myelin_jsapi::api::consumer::{ConsumerInfo, PriorityGroupState, SequenceInfo};
use myelin_jsapi::consumer::config::stored::Stored;
use myelin_store::consumer::{AckRules, ConsumerState, GroupConsumers, SequencePair};
use myelin_store::{StreamReader, Timestamp};
use myelin_streams::consumer::filter_of;

/// Consumer as its group has agreed to it.
pub(in crate::engine) struct ReplicatedConsumer {
    name: String,
    /// Configuration as the store keeps it.
    stored: Vec<u8>,
    delivered: SequencePair,
    ack_floor: SequencePair,
    num_ack_pending: u64,
    num_redelivered: u64,
}

/// Whether a name in the log of consumers is a client's.
fn is_consumer(name: &str) -> bool {
    !is_position(name) && !is_schedule_index(name)
}

impl ReplicatedConsumer {
    /// How many consumers a group has.
    pub(in crate::engine) fn count(applied: &GroupConsumers) -> usize {
        applied.iter().filter(|(_, (name, ..))| is_consumer(name)).count()
    }

    /// All consumers of a group.
    pub(in crate::engine) fn all(applied: &GroupConsumers) -> Vec<Self> {
        let consumers = applied.iter().filter(|(_, (name, ..))| is_consumer(name));
        consumers.map(|(_, consumer)| Self::of(consumer)).collect()
    }

    fn of((name, _, stored, state): (&str, AckRules, &[u8], &ConsumerState)) -> Self {
        Self {
            name: name.to_owned(),
            stored: stored.to_vec(),
            delivered: state.delivered(),
            ack_floor: state.ack_floor(),
            num_ack_pending: state.pending().len() as u64,
            num_redelivered: state.redelivered().len() as u64,
        }
    }

    /// Name of the consumer.
    pub(in crate::engine) fn name(&self) -> &str {
        &self.name
    }

    /// How it stands here. `None`: another version has written what it is.
    pub(in crate::engine) fn info(
        self,
        stream: &str,
        reader: &StreamReader,
        now: Timestamp,
    ) -> Option<ConsumerInfo> {
        let Stored { created, mut config, .. } = Stored::decode(&self.stored).ok()?;
        let left = config.pause_until.map_or(0, |until| until.timestamp().saturating_sub(now)).max(0);
        let next = self.delivered.stream.saturating_add(1);
        let num_pending = reader.pending(&filter_of(&config), next).unwrap_or_default();
        let sequence = |pair: SequencePair| SequenceInfo {
            consumer_seq: pair.consumer.0,
            stream_seq: pair.stream,
            last_active: None,
        };
        let group = |group: &String| PriorityGroupState { group: group.clone(), ..Default::default() };
        let priority_groups = config.priority_groups.iter().take(1).map(group).collect();
        if config.is_unnamed {
            config.name.clear();
        }
        Some(ConsumerInfo {
            stream_name: stream.to_owned(),
            name: self.name,
            created,
            delivered: sequence(self.delivered),
            ack_floor: sequence(self.ack_floor),
            num_ack_pending: self.num_ack_pending,
            num_redelivered: if config.max_deliver == 1 { 0 } else { self.num_redelivered },
            num_pending,
            paused: left > 0,
            pause_remaining: left,
            ts: now,
            priority_groups,
            config: Some(config),
            ..ConsumerInfo::default()
        })
    }
}
