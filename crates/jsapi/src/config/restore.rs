//! A stream that comes from a backup: less is asked of its configuration than of a new one's.

use super::check::{check, mirror_filter, overlap, source_filters};
use super::level::forget_versions;
use super::limits::reserved_by_others;
use super::{Limits, OtherStreams, StreamConfig};
use crate::error::ApiError;

/// Decides about a configuration that came with a backup.
///
/// Compat: it may be sealed, which a new one may not; and that it wants replicas is found when it
/// is made.
///
/// # Errors
/// The first of the reference's reasons.
pub fn restore(
    config: &StreamConfig,
    all: &dyn OtherStreams,
    limits: &Limits,
) -> Result<StreamConfig, ApiError> {
    let mut config = config.clone();
    // Compat: what it says of the level that it needs is neither corrected nor added.
    forget_versions(&mut config.metadata);
    let config = check(&config, all, limits, false)?;
    limits.check_count(&config, all)?;
    limits.check_bytes(&config, config.max_bytes, reserved_by_others(&config, all, limits))?;
    if all.find(&config.name).is_some() {
        return Err(ApiError::STREAM_NAME_EXIST_RESTORE_FAILED);
    }
    Ok(config)
}

/// Checks what must be true of a stream when it is made: others may have been made meanwhile.
///
/// # Errors
/// Why it cannot be, in the reference's words.
pub fn join(config: &StreamConfig, all: &dyn OtherStreams, limits: &Limits) -> Result<(), ApiError> {
    if all.find(&config.name).is_some() {
        return Err(ApiError::STREAM_NAME_EXIST_RESTORE_FAILED);
    }
    limits.check_count(config, all)?;
    mirror_filter(config).map_err(ApiError::stream_create)?;
    source_filters(config).map_err(ApiError::stream_create)?;
    overlap(config, all)
}
