//! Waiting for conditions, each with a deadline.

use crate::Error;
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take: servers retry a lost route every second or so, and CI's machines are
/// slow.
pub const PATIENCE: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(5);

/// Asks until there is an answer.
///
/// # Errors
/// There was none in time; `what` says of what.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> Result<T, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("not within {} s: {what}", PATIENCE.as_secs()).into());
        }
        thread::sleep(POLL);
    }
}
