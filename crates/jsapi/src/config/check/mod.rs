//! Defaults and rules of a configuration by itself and beside other streams, in the reference's
//! order.
//!
//! The order is visible: a configuration with several faults is refused for the first of them.

mod features;
mod origins;
mod predicates;
mod sizes;
mod subjects;
mod transforms;
mod window;

pub(super) use origins::{mirror_filter, source_filters};
pub use predicates::is_asset_name;
pub(super) use subjects::overlap;

use super::{Limits, OtherStreams, StreamConfig};
use crate::error::ApiError;
use myelin_stdx::seq::MAX_SEQ;
use predicates::{collide, invalid, is_within, pedantic_about};

const MAX_NAME: usize = 255;
const MAX_DESCRIPTION: usize = 4 * 1024;
const MAX_METADATA: usize = 128 * 1024;

/// `config` with defaults filled in. `pedantic`: refuse what would otherwise be adjusted.
pub(super) fn check(
    config: &StreamConfig,
    all: &dyn OtherStreams,
    limits: &Limits,
    pedantic: bool,
) -> Result<StreamConfig, ApiError> {
    names(config)?;
    let mut config = config.clone();
    sizes::fill(&mut config, pedantic)?;
    window::fill(&mut config, limits.server.duplicate_window, pedantic)?;
    features::adjust_features(&mut config, pedantic)?;
    origins::check(&mut config, all, pedantic)?;
    subjects::fill(&mut config)?;
    limits.check_stream_bytes(&config)?;
    transforms::check(&mut config, pedantic)?;
    placement(&mut config)?;
    first_sequence(&config)?;
    Ok(config)
}

fn names(config: &StreamConfig) -> Result<(), ApiError> {
    if !is_asset_name(&config.name) {
        return invalid(r"stream name is required and can not contain '.', '*', '>', '\', '/'");
    }
    if config.name.len() > MAX_NAME {
        return invalid(format_args!("stream name is too long, maximum allowed is {MAX_NAME}"));
    }
    if config.description.len() > MAX_DESCRIPTION {
        return invalid(format_args!("stream description is too long, maximum allowed is {MAX_DESCRIPTION}"));
    }
    let metadata: usize = config.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if metadata > MAX_METADATA {
        return invalid(format_args!("stream metadata exceeds maximum size of {MAX_METADATA} bytes"));
    }
    Ok(())
}

/// Compat: the reference takes any, and its sequences wrap around. Here they never do.
fn first_sequence(config: &StreamConfig) -> Result<(), ApiError> {
    if config.first_seq > MAX_SEQ {
        return invalid(format_args!("first sequence can not be larger than {MAX_SEQ}"));
    }
    Ok(())
}

fn placement(config: &mut StreamConfig) -> Result<(), ApiError> {
    config.placement.take_if(|placement| *placement == super::Placement::default());
    match &config.placement {
        Some(placement) if !placement.preferred.is_empty() => {
            invalid("preferred server not permitted in placement")
        }
        _ => Ok(()),
    }
}
