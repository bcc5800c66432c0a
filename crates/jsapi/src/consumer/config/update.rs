//! A changed consumer: what may change and what may not.

use super::ConsumerConfig;
use super::check::backoff;
use super::level::set_required;
use crate::error::ApiError;
use crate::json::Moment;

/// The first of what must stay as it is and does not. Everything else may change, the durable name
/// too.
pub(super) fn check_changes(
    old: &ConsumerConfig,
    new: &ConsumerConfig,
    has_interest: &dyn Fn(&str) -> bool,
) -> Result<(), ApiError> {
    if old == new {
        return Ok(());
    }
    let instant = |start: Option<Moment>| start.map(Moment::utc);
    let changes = [
        (old.deliver_policy != new.deliver_policy, "deliver policy can not be updated"),
        (old.mem_storage != new.mem_storage, "storage type can not be updated"),
        (old.direct != new.direct, "direct can not be updated"),
        (old.sourcing != new.sourcing, "sourcing can not be updated"),
        (old.opt_start_seq != new.opt_start_seq, "start sequence can not be updated"),
        (instant(old.opt_start_time) != instant(new.opt_start_time), "start time can not be updated"),
        (old.ack_policy != new.ack_policy, "ack policy can not be updated"),
        (old.replay_policy != new.replay_policy, "replay policy can not be updated"),
        (old.idle_heartbeat != new.idle_heartbeat, "heart beats can not be updated"),
        (old.flow_control != new.flow_control, "flow control can not be updated"),
        (!old.is_push() && new.is_push(), "can not update pull consumer to push based"),
        (old.is_push() && !new.is_push(), "can not update push consumer to pull based"),
    ];
    if let Some((_, text)) = changes.iter().find(|(changed, _)| *changed) {
        return Err(ApiError::consumer_create(text));
    }
    if old.deliver_subject != new.deliver_subject && has_interest(&old.deliver_subject) {
        return Err(ApiError::CONSUMER_NAME_EXIST);
    }
    if old.max_waiting != new.max_waiting {
        return Err(ApiError::consumer_create("max waiting can not be updated"));
    }
    backoff(new)
}

/// `config` when the consumer is paused until a moment, or no longer; Go's zero time stands for
/// that.
#[must_use]
pub fn pause(config: &ConsumerConfig, until: Moment) -> ConsumerConfig {
    let pause_until = (!until.is_zero()).then(|| until.utc());
    let mut paused = ConsumerConfig { pause_until, ..config.clone() };
    set_required(&mut paused);
    paused
}
