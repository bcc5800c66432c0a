//! Where a consumer begins: a place that its policy asks for, and no other.

use crate::consumer::config::{ConsumerConfig, DeliverPolicy};
use crate::error::ApiError;

pub(super) fn check(config: &ConsumerConfig) -> Result<(), ApiError> {
    let (sequence, time) = (config.opt_start_seq > 0, config.opt_start_time.is_some());
    let policy = match config.deliver_policy {
        DeliverPolicy::All => "all",
        DeliverPolicy::Last => "last",
        DeliverPolicy::LastPerSubject => "last per subject",
        DeliverPolicy::New => "new",
        DeliverPolicy::ByStartSequence if !sequence => return missing("by start sequence", "start sequence"),
        DeliverPolicy::ByStartSequence if time => return unwanted("by start sequence", "time"),
        DeliverPolicy::ByStartTime if !time => return missing("by start time", "start time"),
        DeliverPolicy::ByStartTime if sequence => return unwanted("by start time", "start sequence"),
        DeliverPolicy::ByStartSequence | DeliverPolicy::ByStartTime => return Ok(()),
    };
    if sequence {
        return unwanted(policy, "sequence");
    }
    if time {
        return unwanted(policy, "time");
    }
    if config.deliver_policy == DeliverPolicy::LastPerSubject && config.filters().next().is_none() {
        return missing(policy, "filter subject");
    }
    Ok(())
}

fn unwanted(policy: &str, start: &str) -> Result<(), ApiError> {
    Err(ApiError::consumer_invalid_policy(format_args!(
        "consumer delivery policy is deliver {policy}, but optional start {start} is also set"
    )))
}

fn missing(policy: &str, what: &str) -> Result<(), ApiError> {
    Err(ApiError::consumer_invalid_policy(format_args!(
        "consumer delivery policy is deliver {policy}, but optional {what} is not set"
    )))
}
