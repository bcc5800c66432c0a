//! Marks of a message: the number that its publisher gave it, and totals of counters.

use serde_json::Value;

use crate::model::MADE;

/// The number of a message: its payload begins with it, or a header has it. What a schedule has
/// made has the schedule's, and a bit.
pub(crate) fn id_of(headers: &str, payload: &[u8]) -> Option<u64> {
    let header = |name: &str| headers.lines().find_map(|line| line.strip_prefix(name));
    let text = match header("Sim-Id: ") {
        Some(text) => text.trim(),
        None => std::str::from_utf8(payload.split(|byte| *byte == b' ').next()?).ok()?,
    };
    let is_made = header("Nats-Scheduler: ").is_some();
    text.parse::<u64>().ok().map(|id| if is_made { id | MADE } else { id })
}

/// The total in the payload of a counter.
pub(crate) fn total_of(payload: &[u8]) -> Option<i64> {
    let total: Value = serde_json::from_slice(payload).ok()?;
    total["val"].as_str()?.parse().ok()
}
