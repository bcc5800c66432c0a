//! The mapping of a stream's subjects and what it publishes again.

use super::{StreamConfig, collide, invalid, pedantic_about};
use crate::config::{Republish, SubjectTransform};
use crate::error::ApiError;
use myelin_subject::{Transform, is_valid_pattern};

pub(super) fn check(config: &mut StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    if let Some(SubjectTransform { source, destination }) = &config.subject_transform {
        if !is_source(source) {
            return Err(ApiError::stream_transform_invalid_source(format_args!("invalid subject {source}")));
        }
        Transform::validate(source, destination).map_err(ApiError::stream_transform_invalid_destination)?;
    }
    let Some(mut republish) = config.republish.take() else { return Ok(()) };
    fill(&mut republish, config, pedantic)?;
    check_republish(&republish, &config.subjects)?;
    config.republish = Some(republish);
    Ok(())
}

/// Whether a mapping may take this; empty is everything.
pub(super) fn is_source(source: &str) -> bool {
    source.is_empty() || is_valid_pattern(source.as_bytes())
}

fn fill(republish: &mut Republish, config: &StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    if republish.source.is_empty() {
        if pedantic {
            return pedantic_about("republish source can not be empty");
        }
        republish.source = ">".to_owned();
    }
    // From everything to everything is a cycle, unless all subjects are mapped away before.
    let Some(transform) = &config.subject_transform else { return Ok(()) };
    let all = republish.source == ">" && republish.destination == ">";
    if all && config.subjects.len() == 1 && transform.source == config.subjects[0] {
        if pedantic {
            return pedantic_about("implicit republish based on subject transform");
        }
        republish.source.clone_from(&transform.destination);
        republish.destination.clone_from(&transform.destination);
    }
    Ok(())
}

fn check_republish(republish: &Republish, subjects: &[String]) -> Result<(), ApiError> {
    let Republish { source, destination, .. } = republish;
    if subjects.iter().any(|subject| collide(destination, subject)) {
        return invalid("stream configuration for republish destination forms a cycle");
    }
    if !destination.is_empty() && Transform::new(source, destination).is_err() {
        return invalid(format_args!(
            "stream configuration for republish with transform from '{source}' to '{destination}' not valid"
        ));
    }
    Ok(())
}
