//! Schedules of a stream: messages that wait for their time.
//!
//! [`ScheduleTable`](table::ScheduleTable) knows when which message is due, and nothing else; what
//! it says is in the message itself. `admit` is what is checked when one comes, `fire` what happens
//! at its time, `load` finds those that are there after a restart, of which the [`ScheduleIndex`]
//! has most.
//!
//! A message that fires stores another one on its target, and either ends with that (the store does
//! both or neither), or is due again: the index says when before it does, and the new message, so
//! that a restart goes on from there.
//!
//! What a schedule says is in the stream's messages; when it is due is in the table of the core,
//! and in the index that a start reads, which lies in the log of the stream's consumers
//! (`jetstream/src/engine/consumers/schedule_index.rs`). Patterns are read by
//! `jsapi/src/schedule/`, with recorded answers of the reference in
//! `crates/jsapi/tests/reference/cron.txt`.

mod admit;
mod fire;
mod index;
mod load;
pub(super) mod table;

use myelin_jsapi::ApiError;
use myelin_jsapi::schedule::Schedule;
use myelin_wire::header;

pub(super) use fire::Recurrence;
pub use index::{NoScheduleIndex, PlannedFiring, ScheduleChange, ScheduleIndex, SchedulePage};

const PATTERN: &[u8] = b"Nats-Schedule";
const ZONE: &[u8] = b"Nats-Schedule-Time-Zone";
const TTL: &[u8] = b"Nats-Schedule-TTL";
const ROLLUP: &[u8] = b"Nats-Schedule-Rollup";
const TARGET: &[u8] = b"Nats-Schedule-Target";
const SOURCE: &[u8] = b"Nats-Schedule-Source";
const NEXT: &[u8] = b"Nats-Schedule-Next";
const SCHEDULER: &[u8] = b"Nats-Scheduler";

/// Schedule that a message asks for, if it is one.
fn schedule_of(headers: &[u8]) -> Result<Option<Schedule>, ApiError> {
    Ok(Schedule::parse(value(headers, PATTERN), header::get(headers, ZONE))?)
}

fn value<'a>(headers: &'a [u8], key: &[u8]) -> &'a [u8] {
    header::get(headers, key).unwrap_or_default()
}
