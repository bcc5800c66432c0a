//! Streams that this one copies: its mirror and its sources, where they are, and that nothing goes
//! in circles.

mod cycles;
mod mirror;
mod sources;

pub(crate) use mirror::filter as mirror_filter;
pub(crate) use sources::filters as source_filters;

use super::{OtherStreams, StreamConfig, collide, invalid, is_asset_name, is_within, pedantic_about};
use crate::config::{StreamSource, SubjectTransform};
use crate::error::ApiError;
use myelin_subject::{Transform, is_literal, is_valid_pattern};
use myelin_wire::error::Quoted;

const API_PREFIX: &str = "$JS.API";

pub(super) fn check(
    config: &mut StreamConfig,
    all: &dyn OtherStreams,
    pedantic: bool,
) -> Result<(), ApiError> {
    let mut seen = SeenOrigins::default();
    mirror::check(config, all, &mut seen, pedantic)?;
    sources::check(config, all, &mut seen)?;
    seen.check_prefixes()?;
    cycles::check(config, all)
}

/// Origins that were looked at.
#[derive(Default)]
struct SeenOrigins {
    /// Subjects of those that are here.
    subjects: Vec<String>,
    /// Prefixes of those that are elsewhere.
    deliver: Vec<String>,
    api: Vec<String>,
}

impl SeenOrigins {
    fn elsewhere(&mut self, source: &StreamSource) {
        let Some(external) = &source.external else { return };
        let full = |prefix: &String| Some(prefix.clone()).filter(|prefix| !prefix.is_empty());
        self.deliver.extend(full(&external.deliver));
        self.api.extend(full(&external.api));
    }

    fn check_prefixes(&self) -> Result<(), ApiError> {
        for prefix in &self.deliver {
            if !is_literal(prefix.as_bytes()) {
                return Err(ApiError::stream_invalid_external_delivery_subj(prefix));
            }
            for subject in &self.subjects {
                if collide(subject, &format!("{prefix}.{subject}")) {
                    return Err(ApiError::stream_external_del_prefix_overlaps(prefix, subject));
                }
            }
        }
        for prefix in &self.api {
            if !is_literal(prefix.as_bytes()) {
                let prefix = Quoted(prefix.as_bytes());
                return invalid(format_args!(
                    "stream external api prefix {prefix} must be a valid subject without wildcards"
                ));
            }
            if collide(prefix, API_PREFIX) {
                return Err(ApiError::stream_external_api_overlap(prefix, API_PREFIX));
            }
        }
        Ok(())
    }
}

/// Whether the consumer that a source names can be used.
fn is_consumer_sound(source: &StreamSource) -> bool {
    source.consumer.as_ref().is_none_or(|consumer| {
        is_asset_name(&consumer.name)
            && is_literal(consumer.deliver_subject.as_bytes())
            && source.opt_start_seq == 0
            && source.opt_start_time.is_none()
            && source.filter_subject.is_empty()
    })
}

/// Whether messages of the origin can be too large for this stream.
fn is_too_small(config: &StreamConfig, origin: &StreamConfig) -> bool {
    config.max_msg_size > 0 && origin.max_msg_size > 0 && config.max_msg_size < origin.max_msg_size
}

/// Fault of filters when a stream is made, in words for error 10049; `of` is "mirror" or "source".
fn filter_fault(source: &StreamSource, of: &str, subject_transform_source: &str) -> Result<(), String> {
    let filter = &source.filter_subject;
    if source.subject_transforms.is_empty() {
        let sound = filter.is_empty() || is_valid_pattern(filter.as_bytes());
        let colon = if of == "source" { ":" } else { "" };
        return if sound {
            Ok(())
        } else {
            Err(format!("subject filter '{filter}' for the {of}{colon} invalid subject"))
        };
    }
    for SubjectTransform { source, destination } in &source.subject_transforms {
        if !super::transforms::is_source(source) {
            return Err(format!("{subject_transform_source} '{source}' for the {of}: invalid subject"));
        }
        if !destination.is_empty() {
            Transform::new(source, destination).map_err(|fault| {
                format!("subject transform from '{source}' to '{destination}' for the {of}: {fault}")
            })?;
        }
    }
    Ok(())
}
