//! Consumer info, as the API has it.

use super::core::{ConsumerCore, DeliveryMode, TurnCtx};
use super::effects::ConsumerEvent;
use super::push::is_listened_to;
use myelin_jsapi::advisory::consumer::Unpinned;
use myelin_jsapi::api::consumer::{ConsumerInfo, PriorityGroupState, SequenceInfo};

impl ConsumerCore {
    /// How it stands; its configuration as it is kept.
    pub fn info(&mut self, stream: &str, turn: &mut TurnCtx<'_>) -> ConsumerInfo {
        let mut config = (*self.deliverer.config).clone();
        if config.is_unnamed {
            config.name.clear();
        }
        ConsumerInfo { config: Some(config), ..self.standing(stream, turn) }
    }

    /// How it stands, without its configuration.
    ///
    /// Perf: most of what the info of a consumer allocates is a copy of its configuration, and
    /// monitoring asks ten thousand of them at once.
    pub fn standing(&mut self, stream: &str, turn: &mut TurnCtx<'_>) -> ConsumerInfo {
        turn.place = self.place();
        let supply = self.supply(turn);
        let deliverer = &mut self.deliverer;
        let num_waiting = match &mut deliverer.mode {
            DeliveryMode::Pull(pull) => {
                pull.sweep_requests(false, turn);
                pull.len() as u64
            }
            DeliveryMode::Push(_) => 0,
        };
        let is_read = matches!(&deliverer.mode, DeliveryMode::Push(push) if push.is_read);
        let config = &deliverer.config;
        let group = |group: &String| {
            let pin = if let DeliveryMode::Pull(pull) = &deliverer.mode { pull.pin.as_ref() } else { None };
            PriorityGroupState {
                group: group.clone(),
                pinned_client_id: pin.map_or_else(String::new, |pin| pin.id.clone()),
                pinned_ts: pin.map_or(0, |pin| pin.since),
            }
        };
        let paused = config.pause_until.map_or(0, |until| until.timestamp().saturating_sub(turn.now)).max(0);
        let (delivered, floor, redelivered) = deliverer
            .state_handle
            .read(|state| (state.delivered(), state.ack_floor(), state.redelivered().len() as u64));
        let sequence = |pair: myelin_store::consumer::SequencePair, last_active| SequenceInfo {
            consumer_seq: pair.consumer.0,
            stream_seq: pair.stream,
            last_active,
        };
        ConsumerInfo {
            stream_name: stream.to_owned(),
            name: config.name.clone(),
            created: self.created,
            delivered: sequence(delivered, deliverer.last_delivered),
            ack_floor: sequence(floor, deliverer.last_acked),
            num_ack_pending: deliverer.outstanding,
            num_redelivered: if config.max_deliver == 1 { 0 } else { redelivered },
            num_waiting,
            num_pending: supply.pending,
            cluster: None,
            push_bound: config.is_push() && (is_read || is_listened_to(config, turn.env)),
            paused: paused > 0,
            pause_remaining: paused,
            ts: turn.now,
            priority_groups: config.priority_groups.iter().take(1).map(group).collect(),
            config: None,
        }
    }

    /// Ends the choice of a client for a group.
    ///
    /// Compat: that is told also when nobody was chosen, and where the group is not of those that
    /// choose.
    pub fn unpin(&mut self, group: &str, turn: &mut TurnCtx<'_>) {
        if let DeliveryMode::Pull(pull) = &mut self.deliverer.mode {
            pull.pin = None;
        }
        turn.effects
            .events
            .push(ConsumerEvent::Unpinned { group: group.to_owned(), reason: Unpinned::Admin });
    }
}
