//! Rules of a configuration by itself and beside its stream's, in the reference's order.
//!
//! The order is visible: a configuration with several faults is refused for the first of them.
//! Defaults are filled in before.

mod acknowledgement;
mod delivery;
mod filters;
mod priorities;
mod start;

pub(super) use acknowledgement::backoff;
pub(crate) use priorities::is_group_name;

use super::{ConsumerConfig, ConsumerConfigLimits};
use crate::config::{Retention, StreamConfig, is_asset_name};
use crate::consumer::DeadLetterPolicy;
use crate::error::ApiError;
use crate::json::{atoi, go_duration};
use std::fmt::Display;

const MAX_DESCRIPTION: usize = 4 * 1024;
const MAX_METADATA: usize = 128 * 1024;

pub(super) fn check(
    config: &ConsumerConfig,
    stream: &StreamConfig,
    limits: &ConsumerConfigLimits,
) -> Result<(), ApiError> {
    names(config)?;
    replicas(config, stream)?;
    acknowledgement::check(config)?;
    if config.description.len() > MAX_DESCRIPTION {
        return Err(ApiError::consumer_description_too_long(MAX_DESCRIPTION));
    }
    delivery::check(config, stream, limits)?;
    limits.check_ack_pending(config, stream)?;
    inactive_threshold(config, stream)?;
    delivery::direct(config)?;
    filters::check(config)?;
    start::check(config)?;
    sampling(config)?;
    if config.flow_control && config.idle_heartbeat == 0 {
        return Err(ApiError::CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS);
    }
    if config.is_durable() && !config.name.is_empty() && config.name != config.durable_name {
        return Err(ApiError::CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH);
    }
    metadata(config)?;
    DeadLetterPolicy::check(config, &stream.name).or_else(invalid)?;
    priorities::check(config)
}

/// Compat: some faults are told as ones of a stream.
fn invalid<T>(text: impl Display) -> Result<T, ApiError> {
    Err(ApiError::stream_invalid_config(text))
}

fn names(config: &ConsumerConfig) -> Result<(), ApiError> {
    if !config.name.is_empty() && !is_asset_name(&config.name) {
        return invalid(r"consumer name can not contain '.', '*', '>', '\', '/'");
    }
    if config.is_durable() && !is_asset_name(&config.durable_name) {
        return invalid(r"consumer durable name can not contain '.', '*', '>', '\', '/'");
    }
    Ok(())
}

fn replicas(config: &ConsumerConfig, stream: &StreamConfig) -> Result<(), ApiError> {
    let (replicas, of_stream) = (config.num_replicas, stream.num_replicas);
    if replicas > 0 && replicas > of_stream {
        return Err(ApiError::CONSUMER_REPLICAS_EXCEEDS_STREAM);
    }
    if replicas < 0 {
        return Err(ApiError::REPLICAS_COUNT_CANNOT_BE_NEGATIVE);
    }
    if stream.retention != Retention::Limits && replicas != 0 && replicas != of_stream {
        return Err(ApiError::CONSUMER_REPLICAS_SHOULD_MATCH_STREAM);
    }
    Ok(())
}

fn inactive_threshold(config: &ConsumerConfig, stream: &StreamConfig) -> Result<(), ApiError> {
    let limit = stream.consumer_limits.inactive_threshold;
    if limit > 0 && config.inactive_threshold > limit {
        return Err(ApiError::consumer_inactive_threshold_excess(go_duration(limit)));
    }
    Ok(())
}

/// How many of a hundred acknowledgements are reported.
fn sampling(config: &ConsumerConfig) -> Result<(), ApiError> {
    if config.sample_freq.is_empty() {
        return Ok(());
    }
    let number = config.sample_freq.strip_suffix('%').unwrap_or(&config.sample_freq);
    match atoi(number.as_bytes()) {
        Ok(0..) => Ok(()),
        // Compat: nothing was wrong with reading it.
        Ok(_) => Err(ApiError::consumer_invalid_sampling("<nil>")),
        Err(fault) => Err(ApiError::consumer_invalid_sampling(fault)),
    }
}

fn metadata(config: &ConsumerConfig) -> Result<(), ApiError> {
    let size: usize = config.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > MAX_METADATA {
        return Err(ApiError::consumer_metadata_length(format_args!("{}KB", MAX_METADATA / 1024)));
    }
    Ok(())
}
