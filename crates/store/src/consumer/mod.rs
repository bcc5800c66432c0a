//! The state of a stream's consumers, and the log it lies in.
//!
//! Owns what the reference keeps per consumer (what was delivered, what was acknowledged, what is
//! in between) and the files `consumers.NNNN` beside a stream's segments. Changes are appended as
//! deltas; the file is written anew when most of it is history. It must never lose a delta that it
//! was given because a write failed, and when bytes are damaged it must err on the side of
//! delivering again.
//!
//! `state` holds the rules, `pending` what awaits its acknowledgement, `death` what is told of that
//! when it is not delivered any more, `delta` one change and its
//! bytes, `entry` and `header` the file's frame, `replay` and `resume` read it (`room` before),
//! `image` and `rewrite` write it anew, `queue` and `log` append to it, `resume` is how an entry
//! changes consumers, `consumers` is what a stream holds, `removal` its log while the stream is
//! being removed, and `group` what one holds whose log is that of a group.
//!
//! The format is written down in `docs/formats/consumers.md`.

mod bytes;
mod consumers;
mod death;
mod delta;
mod entry;
mod group;
mod header;
mod image;
mod inspect;
mod log;
mod open;
mod payload;
mod pending;
mod queue;
mod removal;
mod replay;
mod report;
mod resume;
mod rewrite;
mod room;
mod state;
mod tail;

use std::num::NonZeroU64;

pub use consumers::{Consumer, ConsumerError, Consumers};
pub use death::Death;
pub use delta::Delta;
pub use group::{Diverged, DrawnImage, GroupConsumers, WrittenImage};
pub use header::HEADER_BYTES;
pub(crate) use header::{FIRST_LOG, LogFileName, file_name, read_name};
pub(crate) use inspect::{Inspected, Unreadable, inspect};
pub use log::Flushed;
pub use open::{Fate, LogStorage, Obsolete, OpenError, Stated};
pub use pending::{Pending, PendingMessages};
pub use replay::{LogReplay, Replayed, replay};
pub use report::{Affected, BadBytes, BadRange, LogReport, SetBack, Torn};
pub use rewrite::{Drawn, Rewrite};
pub use state::{Applied, ConsumerState, InvalidState};
pub use tail::{JournalTails, Tail, Tails};

use crate::Seq;

#[cfg(test)]
mod tests;

/// Numbers a consumer within its stream, from 1: never used again, not even after the consumer was
/// removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub u64);

/// Numbers the deliveries of one consumer, from 1; a redelivery has a number of its own. 0 is
/// before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliverySeq(pub u64);

/// A place in a consumer's work, as its own deliveries and as the stream count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequencePair {
    /// In deliveries.
    pub consumer: DeliverySeq,
    /// In the stream's messages.
    pub stream: Seq,
}

/// Acknowledgements that a consumer asks of its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckPolicy {
    /// Nothing: what is delivered is done.
    None,
    /// A message and all before it (also the policy `flow_control`).
    All,
    /// Each message.
    #[default]
    Explicit,
}

/// The part of a consumer's configuration by which its state changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckRules {
    /// Acknowledgements that are asked for.
    pub acks: AckPolicy,
    /// How often a message is delivered before it is given up; `None` is for ever.
    pub max_deliver: Option<NonZeroU64>,
}
