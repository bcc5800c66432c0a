//! A changed stream: what may change and what may not.

use super::check::{check, overlap};
use super::level::set_required;
use super::limits::reserved_by_others;
use super::{Discard, Limits, OtherStreams, Retention, StreamConfig, StreamConfigRequest};
use crate::error::ApiError;
use myelin_subject::Transform;

/// Decides about a request to update the stream `name`, as the subject calls it, and gives its new
/// configuration.
///
/// Who applies it must know: a change to interest retention drops all messages when there are no
/// consumers, and a stream that no longer allows batches abandons those that are open.
///
/// # Errors
/// The first of the reference's reasons.
pub fn update(
    request: StreamConfigRequest,
    name: &str,
    all: &dyn OtherStreams,
    limits: &Limits,
) -> Result<StreamConfig, ApiError> {
    let pedantic = request.pedantic;
    let mut config = check(&request.config, all, limits, pedantic)?;
    if config.name != name {
        return Err(ApiError::STREAM_MISMATCH);
    }
    let old = all.find(name).ok_or(ApiError::STREAM_NOT_FOUND)?;
    set_required(&mut config);
    // Compat: twice. What the first pass has filled in can offend the second one in pedantic mode.
    let mut config = check(&config, all, limits, pedantic)?;
    if config.num_replicas > 1 && config.num_replicas != old.num_replicas && !limits.has_replicas {
        return Err(ApiError::STREAM_REPLICAS_NOT_SUPPORTED);
    }
    check_changes(&old, &config)?;
    if config.sealed {
        seal(&mut config);
    }
    check_limits(&old, &config, all, limits)?;
    overlap(&config, all)?;
    if config.num_replicas > old.num_replicas {
        // It may be one more in its tier.
        limits.check_count(&config, all)?;
    }
    republish(&mut config)?;
    Ok(config)
}

fn refused(text: &str) -> Result<(), ApiError> {
    Err(ApiError::stream_invalid_config(text))
}

fn check_changes(old: &StreamConfig, new: &StreamConfig) -> Result<(), ApiError> {
    if new.storage != old.storage {
        return refused("stream configuration update can not change storage type");
    }
    if new.retention != old.retention && [old.retention, new.retention].contains(&Retention::WorkQueue) {
        return refused("stream configuration update can not change retention policy to/from workqueue");
    }
    if old.sealed && !new.sealed {
        return refused("stream configuration update can not unseal a sealed stream");
    }
    if old.deny_delete && !new.deny_delete {
        return refused("stream configuration update can not cancel deny message deletes");
    }
    if old.deny_purge && !new.deny_purge {
        return refused("stream configuration update can not cancel deny purge");
    }
    if new.mirror.is_some() && new.mirror != old.mirror {
        return Err(ApiError::STREAM_MIRROR_NOT_UPDATABLE);
    }
    if old.allow_msg_ttl && !new.allow_msg_ttl {
        return refused("message TTL status can not be disabled");
    }
    if new.allow_msg_counter != old.allow_msg_counter {
        return refused("stream configuration update can not change message counter setting");
    }
    if old.allow_msg_schedules && !new.allow_msg_schedules {
        return refused("message schedules can not be disabled");
    }
    if new.persist_mode != old.persist_mode {
        return refused("stream configuration update can not change persist mode");
    }
    Ok(())
}

/// Nothing gets in and nothing gets out any more.
fn seal(config: &mut StreamConfig) {
    config.max_age = 0;
    config.discard = Discard::New;
    config.deny_delete = true;
    config.deny_purge = true;
    config.allow_rollup_hdrs = false;
}

/// Only what `max_bytes` grows by must still be free on the server, and of the account what that
/// and more replicas make it reserve.
fn check_limits(
    old: &StreamConfig,
    new: &StreamConfig,
    all: &dyn OtherStreams,
    limits: &Limits,
) -> Result<(), ApiError> {
    limits.check_consumers(new)?;
    let more = (new.max_bytes.max(0) - old.max_bytes.max(0)).max(0);
    let of_account = |config: &StreamConfig| config.max_bytes.max(0).saturating_mul(limits.copies(config));
    let kept = of_account(old).min(of_account(new));
    let reserved = reserved_by_others(new, all, limits).saturating_add(kept);
    limits.check_room(new, (of_account(new) - kept, more), reserved)
}

/// Compat: an empty destination means everything here, and is shown so. It means nothing when a
/// stream is created.
fn republish(config: &mut StreamConfig) -> Result<(), ApiError> {
    let Some(republish) = &mut config.republish else { return Ok(()) };
    if republish.destination.is_empty() {
        republish.destination = ">".to_owned();
    }
    let (source, destination) = (&republish.source, &republish.destination);
    let made = Transform::new(source, destination).map(drop);
    made.map_err(|fault| {
        ApiError::stream_update(format_args!(
            "stream configuration for republish from '{source}' to '{destination}': {fault}"
        ))
    })
}
