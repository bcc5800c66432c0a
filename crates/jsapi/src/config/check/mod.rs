//! Defaults and rules of a configuration by itself and beside other streams, in the reference's
//! order.
//!
//! The order is visible: a configuration with several faults is refused for the first of them.

mod features;
mod origins;
mod sizes;
mod subjects;
mod transforms;
mod window;

pub(super) use origins::{mirror_filter, source_filters};
pub(super) use subjects::overlap;

use super::{Limits, OtherStreams, StreamConfig};
use crate::error::ApiError;
use myelin_stdx::seq::MAX_SEQ;
use myelin_subject::{is_subset, overlaps};
use std::fmt::Display;

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

/// The error for what is wrong with a configuration.
fn invalid<T>(text: impl Display) -> Result<T, ApiError> {
    Err(ApiError::stream_invalid_config(text))
}

/// The error for what `pedantic` does not let pass.
fn pedantic_about<T>(text: &str) -> Result<T, ApiError> {
    Err(ApiError::pedantic(text))
}

/// Whether a stream or consumer may have this name.
#[must_use]
pub fn is_asset_name(name: &str) -> bool {
    !name.is_empty() && !name.contains([' ', '\t', '\r', '\n', '\u{c}', '.', '*', '>', '\\', '/'])
}

/// Whether some subject is matched by both.
///
/// Compat: these may be things that are no subjects, to be refused a little later. An empty token
/// is met by nothing but a `>` at or before its place.
fn collide(a: &str, b: &str) -> bool {
    a == b || (overlaps(a.as_bytes(), b.as_bytes()) && have_tokens(a, b))
}

/// Whether everything that `subject` matches is matched by `pattern`. Compat: as [`collide`],
/// though not even an empty one lies within another.
fn is_within(subject: &str, pattern: &str) -> bool {
    is_subset(subject.as_bytes(), pattern.as_bytes()) && have_tokens(subject, pattern)
}

/// Whether the tokens of both are something, before a `>`.
fn have_tokens(a: &str, b: &str) -> bool {
    let mut pairs = a.split('.').zip(b.split('.')).take_while(|(a, b)| *a != ">" && *b != ">");
    pairs.all(|(a, b)| !a.is_empty() && !b.is_empty())
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
