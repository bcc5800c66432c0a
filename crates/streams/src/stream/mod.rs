//! One stream inside its turn: publishes in, effects out.
//!
//! [`core`](StreamCore) owns the log and what waits to be said; `admit` and `rules` are the checks
//! that a message passes; `append_run` gathers what is stored together; `reply` renders what
//! publishers are told, `release_queue` holds it back until it may be said; `dedupe` remembers
//! message ids. `batch` knows the batches of publishers, `members` brings batches and the log
//! together. `copy` takes what comes from other streams. `upkeep` is all that happens to a stream
//! besides publishes; `interest_cleanup` removes messages that no consumer needs any more, of which
//! `interest` tells, and looks for them by `cleanup_round`. `why` says what keeps messages from
//! being stored, or costs it some.

mod admit;
mod admit_batch;
mod append_run;
mod append_scratch;
pub mod batch;
mod cleanup_round;
mod consumer_activity;
mod copy;
mod core;
mod counters;
mod decided_ids;
mod dedupe;
mod drops;
mod effects;
mod flush;
mod follow;
mod group_consumers;
pub(crate) mod header_edit;
mod interest;
mod interest_cleanup;
mod last_msg;
mod lifetimes;
mod markers;
mod msg_headers;
mod next_times;
mod outgoing;
mod quota;
mod release_queue;
mod reply;
mod republish;
mod rules;
mod schedules;
mod settings;
mod storage_config;
#[cfg(test)]
pub(crate) mod tests;
mod traces;
mod ttl;
mod upkeep;
mod why;

pub use consumer_activity::{ConsumerActivity, ConsumerSign};
pub use copy::{SourcedMsgs, SourcedResult};
pub use core::StreamCore;
pub use counters::Cold;
pub use dedupe::KnownIds;
pub use effects::Effects;
pub use interest::{Interest, NoConsumers};
pub use reply::refuse_overload;
pub use schedules::{NoScheduleIndex, PlannedFiring, ScheduleChange, ScheduleIndex, SchedulePage};
pub use settings::{StorageBudget, StreamSettings};
pub use storage_config::storage_config;
pub use traces::{MessageTraces, TracedOutcome};
pub(crate) use ttl::{SECOND, Ttl, parse as parse_ttl};
pub use why::StreamFacts;
