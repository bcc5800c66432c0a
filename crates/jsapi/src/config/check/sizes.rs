//! Numbers that mean "no limit": replicas and the `max_` fields.

use super::{StreamConfig, invalid, pedantic_about};
use crate::error::ApiError;

const MAX_REPLICAS: i64 = 5;

pub(super) fn fill(config: &mut StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    if config.num_replicas == 0 {
        config.num_replicas = 1;
    }
    if config.num_replicas > MAX_REPLICAS {
        return invalid(format_args!("maximum replicas is {MAX_REPLICAS}"));
    }
    if config.num_replicas < 0 {
        return Err(ApiError::REPLICAS_COUNT_CANNOT_BE_NEGATIVE);
    }
    unlimited(&mut config.max_msgs, pedantic, "max_msgs must be set to -1")?;
    unlimited(&mut config.max_msgs_per_subject, pedantic, "max_msgs_per_subject must be set to -1")?;
    unlimited(&mut config.max_bytes, pedantic, "max_bytes must be set to -1")?;
    let mut size = config.max_msg_size.into();
    unlimited(&mut size, pedantic, "max_msg_size must be set to -1")?;
    config.max_msg_size = i32::try_from(size).expect("it is what it was or -1");
    unlimited(&mut config.max_consumers, pedantic, "max_consumers must be set to -1")
}

/// 0 and less become -1; what is less than that is told to the pedantic.
fn unlimited(limit: &mut i64, pedantic: bool, complaint: &str) -> Result<(), ApiError> {
    if *limit < -1 && pedantic {
        return pedantic_about(complaint);
    }
    if *limit <= 0 {
        *limit = -1;
    }
    Ok(())
}
