//! Groups of pull requests: there are some if there is a policy for them, and their names are
//! names.

use crate::consumer::config::{ConsumerConfig, PriorityPolicy};
use crate::error::ApiError;

const MAX_GROUP: usize = 16;

pub(super) fn check(config: &ConsumerConfig) -> Result<(), ApiError> {
    if config.priority_policy == PriorityPolicy::None {
        return none(config);
    }
    if config.is_push() {
        return Err(ApiError::CONSUMER_PUSH_WITH_PRIORITY_GROUP);
    }
    if config.priority_groups.is_empty() {
        return Err(ApiError::CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP);
    }
    config.priority_groups.iter().try_for_each(|group| match group.as_str() {
        "" => Err(ApiError::CONSUMER_EMPTY_GROUP_NAME),
        name if is_group_name(name) => Ok(()),
        _ => Err(ApiError::CONSUMER_INVALID_GROUP_NAME),
    })
}

fn none(config: &ConsumerConfig) -> Result<(), ApiError> {
    if !config.priority_groups.is_empty() {
        return Err(ApiError::CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE);
    }
    if config.priority_timeout > 0 {
        return Err(ApiError::CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE);
    }
    Ok(())
}

/// Whether a group of pull requests may have this name.
pub(crate) fn is_group_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/_=-".contains(&byte);
    (1..=MAX_GROUP).contains(&name.len()) && name.bytes().all(fits)
}
