//! Marks of a message: the number that its publisher gave it, and totals of counters.

use serde_json::Value;

use crate::model::MADE;

/// The number of a message: its payload begins with it, or a header has it. What a schedule has
/// made has the schedule's, and a bit.
pub(crate) fn id_of(headers: &str, payload: &[u8]) -> Option<u64> {
    if headers.is_empty() {
        return first_number(payload);
    }
    let (mut text, mut is_made) = (None, false);
    for line in headers.lines() {
        text = text.or_else(|| line.strip_prefix("Sim-Id: "));
        is_made |= line.starts_with("Nats-Scheduler: ");
    }
    let id = match text {
        Some(text) => text.trim().parse().ok()?,
        None => first_number(payload)?,
    };
    Some(if is_made { id | MADE } else { id })
}

fn first_number(payload: &[u8]) -> Option<u64> {
    std::str::from_utf8(payload.split(|byte| *byte == b' ').next()?).ok()?.parse().ok()
}

/// The total in the payload of a counter.
pub(crate) fn total_of(payload: &[u8]) -> Option<i64> {
    // Perf: each message of a counter is one, and looked at hundreds of times.
    let plain = payload.strip_prefix(br#"{"val":""#).and_then(|rest| rest.strip_suffix(br#""}"#));
    let plain = plain.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    if plain.is_some() {
        return plain;
    }
    let total: Value = serde_json::from_slice(payload).ok()?;
    total["val"].as_str()?.parse().ok()
}
