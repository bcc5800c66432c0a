//! A stream that copies from several others.

use super::{
    OtherStreams, SeenOrigins, StreamConfig, filter_fault, is_asset_name, is_consumer_sound, is_too_small,
    is_within,
};
use crate::config::{StreamSource, SubjectTransform};
use crate::error::ApiError;
use hashbrown::HashSet;
use myelin_subject::Transform;

pub(super) fn check(
    config: &StreamConfig,
    all: &dyn OtherStreams,
    seen: &mut SeenOrigins,
) -> Result<(), ApiError> {
    if !config.sources.is_empty() && config.allow_msg_schedules {
        return Err(ApiError::SOURCE_WITH_MSG_SCHEDULES);
    }
    let (mut names, mut consumers) = (HashSet::new(), HashSet::new());
    for source in &config.sources {
        if !is_asset_name(&source.name) {
            return Err(ApiError::SOURCE_INVALID_STREAM_NAME);
        }
        if !names.insert(SourceIdentity::of(source)) {
            return Err(ApiError::SOURCE_DUPLICATE_DETECTED);
        }
        check_filters(source)?;
        if !is_consumer_sound(source) {
            return Err(ApiError::SOURCE_DURABLE_CONSUMER_CFG_INVALID);
        }
        if let Some(consumer) = &source.consumer
            && !consumers.insert((&source.name, api(source), &consumer.name))
        {
            return Err(ApiError::SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED);
        }
        check_origin(source, config, all, seen)?;
    }
    Ok(())
}

fn check_origin(
    source: &StreamSource,
    config: &StreamConfig,
    all: &dyn OtherStreams,
    seen: &mut SeenOrigins,
) -> Result<(), ApiError> {
    if source.external.is_some() {
        seen.elsewhere(source);
        return Ok(());
    }
    let Some(origin) = all.find(&source.name) else { return Ok(()) };
    seen.subjects.extend_from_slice(&origin.subjects);
    if is_too_small(config, &origin) { Err(ApiError::SOURCE_MAX_MESSAGE_SIZE_TOO_BIG) } else { Ok(()) }
}

fn check_filters(source: &StreamSource) -> Result<(), ApiError> {
    let transforms = &source.subject_transforms;
    if !source.filter_subject.is_empty() && !transforms.is_empty() {
        return Err(ApiError::SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED);
    }
    for SubjectTransform { source, destination } in transforms {
        if !super::super::transforms::is_source(source) {
            return Err(ApiError::source_invalid_subject_filter(format_args!("invalid subject {source}")));
        }
        Transform::validate(source, destination).map_err(ApiError::source_invalid_transform_destination)?;
    }
    for (at, inner) in transforms.iter().enumerate() {
        let inside = |of: &str| is_within(&inner.source, of);
        if transforms.iter().enumerate().any(|(other, outer)| other != at && inside(&outer.source)) {
            return Err(ApiError::SOURCE_OVERLAPPING_SUBJECT_FILTERS);
        }
    }
    Ok(())
}

/// The prefix of the API by which the origin is reached, if it is elsewhere.
fn api(source: &StreamSource) -> Option<&str> {
    source.external.as_ref().map(|external| external.api.as_str())
}

/// Identity of a source: two that are equal in this are one.
#[derive(PartialEq, Eq, Hash)]
struct SourceIdentity<'a> {
    stream: &'a str,
    /// How it is reached.
    api: Option<&'a str>,
    consumer: Option<&'a str>,
    /// Subjects that are copied and what is made of them.
    mappings: Vec<(&'a str, &'a str)>,
}

impl<'a> SourceIdentity<'a> {
    fn of(source: &'a StreamSource) -> Self {
        let or_all = |subject: &'a str| if subject.is_empty() { ">" } else { subject };
        let mut mappings: Vec<_> =
            source.subject_transforms.iter().map(|t| (or_all(&t.source), or_all(&t.destination))).collect();
        if mappings.is_empty() {
            mappings.push((or_all(&source.filter_subject), ">"));
        }
        let consumer = source.consumer.as_ref().map(|consumer| consumer.name.as_str());
        Self { stream: &source.name, api: api(source), consumer, mappings }
    }
}

/// The last look at the filters, when the stream is made. The text goes into error 10049.
pub(crate) fn filters(config: &StreamConfig) -> Result<(), String> {
    config.sources.iter().try_for_each(|source| filter_fault(source, "source", "subject filter"))
}
