//! Which features of a stream go together, and what some of them turn on by themselves.

use super::{StreamConfig, invalid};
use crate::config::{Discard, PersistMode, Retention, Storage};
use crate::error::ApiError;

const SECOND: i64 = 1_000_000_000;

pub(super) fn adjust_features(config: &mut StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    if config.deny_purge && config.allow_rollup_hdrs {
        return invalid("roll-ups require the purge permission");
    }
    counters(config)?;
    discard_new_per_subject(config)?;
    delete_markers(config, pedantic)?;
    schedules(config, pedantic)?;
    async_persistence(config)
}

fn counters(config: &StreamConfig) -> Result<(), ApiError> {
    if !config.allow_msg_counter {
        return Ok(());
    }
    if config.discard == Discard::New {
        return invalid("counter stream cannot use discard new");
    }
    if config.allow_msg_ttl {
        return invalid("counter stream cannot use message TTLs");
    }
    if config.allow_msg_schedules {
        return invalid("counter stream cannot use message schedules");
    }
    if config.retention != Retention::Limits {
        return invalid("counter stream can only use limits retention");
    }
    Ok(())
}

fn discard_new_per_subject(config: &StreamConfig) -> Result<(), ApiError> {
    if !config.discard_new_per_subject {
        return Ok(());
    }
    if config.discard != Discard::New {
        return invalid("discard new per subject requires discard new policy to be set");
    }
    if config.max_msgs_per_subject <= 0 {
        return invalid("discard new per subject requires max msgs per subject > 0");
    }
    Ok(())
}

/// Delete markers need TTLs, and roll-ups, by which they take the place of what they mark.
fn delete_markers(config: &mut StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    match config.subject_delete_marker_ttl {
        ..0 => return invalid("subject delete marker TTL must not be negative"),
        0 => return Ok(()),
        1..SECOND => return invalid("subject delete marker TTL must be at least 1 second"),
        SECOND.. => {}
    }
    if !config.allow_msg_ttl && pedantic {
        return invalid("subject delete marker cannot be set if message TTLs are disabled");
    }
    config.allow_msg_ttl = true;
    if !config.allow_rollup_hdrs {
        if pedantic {
            return invalid("subject delete marker cannot be set if roll-ups are disabled");
        }
        allow_rollups(config);
    }
    Ok(())
}

fn schedules(config: &mut StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    if !config.allow_msg_schedules {
        return Ok(());
    }
    if config.discard == Discard::New {
        return invalid("message scheduling cannot use discard new");
    }
    if !config.allow_rollup_hdrs {
        if pedantic {
            return invalid("message scheduling cannot be set if roll-ups are disabled");
        }
        allow_rollups(config);
    }
    Ok(())
}

fn allow_rollups(config: &mut StreamConfig) {
    config.allow_rollup_hdrs = true;
    config.deny_purge = false;
}

fn async_persistence(config: &StreamConfig) -> Result<(), ApiError> {
    if config.persist_mode != PersistMode::Async {
        return Ok(());
    }
    if config.storage != Storage::File {
        return invalid("async persist mode is only supported on file storage");
    }
    if config.num_replicas > 1 {
        return invalid("async persist mode is not supported on replicated streams");
    }
    if config.allow_atomic {
        return invalid("async persist mode is not supported with atomic batch publish");
    }
    Ok(())
}
