//! A stream that is the copy of one other.

use super::{
    OtherStreams, SeenOrigins, StreamConfig, collide, filter_fault, invalid, is_asset_name,
    is_consumer_sound, is_too_small, pedantic_about,
};
use crate::config::{StreamSource, SubjectTransform};
use crate::error::ApiError;
use myelin_subject::Transform;

pub(super) fn check(
    config: &mut StreamConfig,
    all: &dyn OtherStreams,
    seen: &mut SeenOrigins,
    pedantic: bool,
) -> Result<(), ApiError> {
    let Some(mirror) = &config.mirror else { return Ok(()) };
    excludes(config)?;
    if !is_consumer_sound(mirror) {
        return Err(ApiError::MIRROR_DURABLE_CONSUMER_CFG_INVALID);
    }
    if !mirror.filter_subject.is_empty() && !mirror.subject_transforms.is_empty() {
        return Err(ApiError::MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED);
    }
    if config.subject_delete_marker_ttl > 0 {
        // Markers would take sequences that are the origin's.
        return invalid("subject delete markers forbidden on mirrors");
    }
    check_transforms(mirror)?;
    if mirror.external.is_some() {
        seen.elsewhere(mirror);
        return Ok(());
    }
    if !is_asset_name(&mirror.name) {
        return Err(ApiError::MIRROR_INVALID_STREAM_NAME);
    }
    let Some(origin) = all.find(&mirror.name) else { return Ok(()) };
    seen.subjects.extend_from_slice(&origin.subjects);
    if is_too_small(config, &origin) {
        return Err(ApiError::MIRROR_MAX_MESSAGE_SIZE_TOO_BIG);
    }
    if pedantic && config.mirror_direct != origin.allow_direct {
        return pedantic_about("origin stream has direct get set, mirror has it disabled");
    }
    config.mirror_direct = origin.allow_direct;
    Ok(())
}

/// Refuses settings that a mirror can not have.
fn excludes(config: &StreamConfig) -> Result<(), ApiError> {
    let wrong = [
        (config.first_seq > 0, ApiError::MIRROR_WITH_FIRST_SEQ),
        (!config.subjects.is_empty(), ApiError::MIRROR_WITH_SUBJECTS),
        (!config.sources.is_empty(), ApiError::MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, ApiError::MIRROR_WITH_COUNTERS),
        (config.allow_atomic, ApiError::MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, ApiError::MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, ApiError::MIRROR_WITH_MSG_SCHEDULES),
    ];
    wrong.into_iter().find(|(is, _)| *is).map_or(Ok(()), |(_, error)| Err(error))
}

fn check_transforms(mirror: &StreamSource) -> Result<(), ApiError> {
    let transforms = &mirror.subject_transforms;
    for (at, SubjectTransform { source, destination }) in transforms.iter().enumerate() {
        if !super::super::transforms::is_source(source) {
            return Err(ApiError::mirror_invalid_subject_filter(format_args!("invalid subject {source}")));
        }
        Transform::validate(source, destination).map_err(ApiError::mirror_invalid_transform_destination)?;
        let collides = |other: &SubjectTransform| collide(source, &other.source);
        if transforms.iter().enumerate().any(|(other, transform)| other != at && collides(transform)) {
            return Err(ApiError::MIRROR_OVERLAPPING_SUBJECT_FILTERS);
        }
    }
    Ok(())
}

/// The last look at the filter, when the stream is made. The text goes into error 10049.
pub(crate) fn filter(config: &StreamConfig) -> Result<(), String> {
    config
        .mirror
        .as_ref()
        .map_or(Ok(()), |mirror| filter_fault(mirror, "mirror", "invalid subject transform source"))
}
