//! How long messages stay and how long their ids are remembered.

use super::{StreamConfig, invalid, pedantic_about};
use crate::error::ApiError;
use crate::json::go_duration;

const SECOND: i64 = 1_000_000_000;
/// Shortest window.
const SHORTEST: i64 = SECOND / 10;
const DEFAULT_WINDOW: i64 = 120 * SECOND;

/// `server_limit`: the longest window that the server allows; 0: any.
pub(super) fn fill(config: &mut StreamConfig, server_limit: i64, pedantic: bool) -> Result<(), ApiError> {
    if config.max_age < 0 {
        return invalid("max age can not be negative");
    }
    if config.max_age != 0 && config.max_age < SHORTEST {
        return invalid("max age needs to be >= 100ms");
    }
    if config.duplicate_window == 0 && config.mirror.is_none() && config.sources.is_empty() {
        config.duplicate_window = default_window(config.max_age, server_limit, pedantic)?;
    }
    if config.duplicate_window < 0 {
        return invalid("duplicates window can not be negative");
    }
    if config.max_age != 0 && config.duplicate_window > config.max_age {
        return invalid("duplicates window can not be larger then max age");
    }
    if server_limit > 0 && config.duplicate_window > server_limit {
        let limit = go_duration(server_limit);
        return invalid(format_args!("duplicates window can not be larger then server limit of {limit}"));
    }
    if config.duplicate_window > 0 && config.duplicate_window < SHORTEST {
        return invalid("duplicates window needs to be >= 100ms");
    }
    Ok(())
}

fn default_window(max_age: i64, server_limit: i64, pedantic: bool) -> Result<i64, ApiError> {
    let mut window = DEFAULT_WINDOW;
    if server_limit > 0 && window > server_limit {
        if pedantic {
            return pedantic_about("duplicate window limits are higher than current limits");
        }
        window = server_limit;
    }
    if max_age != 0 && max_age < window {
        if pedantic {
            return pedantic_about("duplicate window cannot be bigger than max age");
        }
        window = max_age;
    }
    Ok(window)
}
