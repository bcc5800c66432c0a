//! Schedules of a stream: messages that wait for their time.
//!
//! [`Table`](table::Table) knows when which message is due, and nothing else; what it says is in the message itself. `admit`
//! is what is checked when one comes, `fire` what happens at its time, `load` finds those that are there after a restart, of
//! which the [`Ledger`] has most.
//!
//! A message that fires stores another one on its target, and either ends with that (the store does both or neither), or is
//! due again: the ledger says when before it does, and the new message, so that a restart goes on from there.

mod admit;
mod fire;
mod ledger;
mod load;
pub(super) mod table;

use crate::ApiError;
use crate::schedule::{Fault, Schedule};
use myelin_wire::header;

pub(super) use fire::Again;
pub use ledger::{Change, Forgetful, Ledger, Page, Shot};

const PATTERN: &[u8] = b"Nats-Schedule";
const ZONE: &[u8] = b"Nats-Schedule-Time-Zone";
const TTL: &[u8] = b"Nats-Schedule-TTL";
const ROLLUP: &[u8] = b"Nats-Schedule-Rollup";
const TARGET: &[u8] = b"Nats-Schedule-Target";
const SOURCE: &[u8] = b"Nats-Schedule-Source";
const NEXT: &[u8] = b"Nats-Schedule-Next";
const SCHEDULER: &[u8] = b"Nats-Scheduler";

/// What a message says of its schedule, if it is one.
fn schedule_of(headers: &[u8]) -> Result<Option<Schedule>, ApiError> {
    Ok(Schedule::parse(value(headers, PATTERN), header::get(headers, ZONE))?)
}

fn value<'a>(headers: &'a [u8], key: &[u8]) -> &'a [u8] {
    header::get(headers, key).unwrap_or_default()
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Zone => Self::MESSAGE_SCHEDULES_TIME_ZONE_INVALID,
            Fault::Pattern => Self::MESSAGE_SCHEDULES_PATTERN_INVALID,
        }
    }
}
