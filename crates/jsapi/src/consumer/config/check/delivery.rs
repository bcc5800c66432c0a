//! How messages get to clients: pushed to a subject, or pulled.

use crate::config::{Retention, StreamConfig};
use crate::consumer::config::{AckPolicy, ConsumerConfig, ConsumerConfigLimits};
use crate::error::ApiError;
use myelin_subject::{has_wildcard, is_subset, is_valid_pattern};

const MILLISECOND: i64 = 1_000_000;
const SHORTEST_HEARTBEAT: i64 = 100 * MILLISECOND;

pub(super) fn check(
    config: &ConsumerConfig,
    stream: &StreamConfig,
    limits: &ConsumerConfigLimits,
) -> Result<(), ApiError> {
    if config.is_push() { pushed(config, stream) } else { pulled(config, stream, limits) }
}

fn pushed(config: &ConsumerConfig, stream: &StreamConfig) -> Result<(), ApiError> {
    let subject = config.deliver_subject.as_bytes();
    if has_wildcard(subject) {
        return Err(ApiError::CONSUMER_DELIVER_TO_WILDCARDS);
    }
    if !is_valid_pattern(subject) {
        return Err(ApiError::CONSUMER_INVALID_DELIVER_SUBJECT);
    }
    // What is delivered would be stored, and delivered again.
    if stream.subjects.iter().any(|stored| is_subset(subject, stored.as_bytes())) {
        return Err(ApiError::CONSUMER_DELIVER_CYCLE);
    }
    if config.max_waiting != 0 {
        return Err(ApiError::CONSUMER_PUSH_MAX_WAITING);
    }
    if config.max_ack_pending > 0 && config.ack_policy == AckPolicy::None {
        return Err(ApiError::CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED);
    }
    if config.idle_heartbeat > 0 && config.idle_heartbeat < SHORTEST_HEARTBEAT {
        return Err(ApiError::CONSUMER_SMALL_HEARTBEAT);
    }
    Ok(())
}

fn pulled(
    config: &ConsumerConfig,
    stream: &StreamConfig,
    limits: &ConsumerConfigLimits,
) -> Result<(), ApiError> {
    if config.ack_policy == AckPolicy::None && stream.retention == Retention::WorkQueue {
        return Err(ApiError::CONSUMER_PULL_REQUIRES_ACK);
    }
    if config.rate_limit_bps > 0 {
        return Err(ApiError::CONSUMER_PULL_WITH_RATE_LIMIT);
    }
    if config.idle_heartbeat > 0 {
        return Err(ApiError::CONSUMER_HB_REQUIRES_PUSH);
    }
    if config.flow_control {
        return Err(ApiError::CONSUMER_FC_REQUIRES_PUSH);
    }
    if config.max_expires != 0 && config.max_expires < MILLISECOND {
        return Err(ApiError::CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL);
    }
    let limit = limits.server.max_request_batch;
    if limit > 0 && config.max_batch > limit {
        return Err(ApiError::consumer_max_request_batch_exceeded(limit));
    }
    Ok(())
}

/// Consumers that only other streams use.
pub(super) fn direct(config: &ConsumerConfig) -> Result<(), ApiError> {
    if config.direct && !config.is_push() {
        return Err(ApiError::CONSUMER_DIRECT_REQUIRES_PUSH);
    }
    if config.direct && config.is_durable() {
        return Err(ApiError::CONSUMER_DIRECT_REQUIRES_EPHEMERAL);
    }
    Ok(())
}
