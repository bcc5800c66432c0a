//! Checks of acknowledgements: what waits for them, how long and how often.

use super::invalid;
use crate::consumer::config::defaults::FLOW_CONTROL_HEARTBEAT;
use crate::consumer::config::{AckPolicy, ConsumerConfig};
use crate::error::ApiError;

pub(super) fn check(config: &ConsumerConfig) -> Result<(), ApiError> {
    if config.backoff.iter().any(|pause| *pause < 0) {
        return Err(ApiError::CONSUMER_BACK_OFF_NEGATIVE);
    }
    if config.ack_wait < 0 {
        return Err(ApiError::CONSUMER_ACK_WAIT_NEGATIVE);
    }
    if config.ack_policy == AckPolicy::FlowControl {
        by_flow_control(config)?;
    }
    backoff(config)
}

/// Whether a message is delivered often enough to make all pauses.
pub(in crate::consumer::config) fn backoff(config: &ConsumerConfig) -> Result<(), ApiError> {
    let pauses = i64::try_from(config.backoff.len()).unwrap_or(i64::MAX);
    if pauses > 0 && config.max_deliver != -1 && pauses > config.max_deliver {
        return Err(ApiError::CONSUMER_MAX_DELIVER_BACKOFF);
    }
    Ok(())
}

fn by_flow_control(config: &ConsumerConfig) -> Result<(), ApiError> {
    if !config.is_push() {
        return Err(ApiError::CONSUMER_ACK_FC_REQUIRES_PUSH);
    }
    if !config.flow_control {
        return Err(ApiError::CONSUMER_ACK_FC_REQUIRES_FC);
    }
    if config.idle_heartbeat != FLOW_CONTROL_HEARTBEAT {
        return invalid("flow control ack policy heartbeat needs to be 1s");
    }
    if config.max_ack_pending <= 0 {
        return Err(ApiError::CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING);
    }
    if config.ack_wait != 0 || !config.backoff.is_empty() {
        return Err(ApiError::CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT);
    }
    if config.max_deliver > 0 {
        return Err(ApiError::CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER);
    }
    Ok(())
}
