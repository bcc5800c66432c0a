//! Batches of one stream, as states without I/O: atomic ones (all or nothing) and fast ones (fast
//! ingest: flow control instead of an acknowledgement for each message).
//!
//! Knows which batches are open, what is held back, and what publishers are told about batches.
//! Stores nothing and checks no message against the stream: that is the core's, which asks what to
//! do with a message ([`AtomicBatches::take`], [`FastBatches::take`]) and says what became of it.
//! Whatever was not committed is lost with the process. A message with a flow subject to reply to
//! is fast whatever its headers say, one with a `Nats-Batch-Id` atomic, any other is none of ours.
//!
//! The order in which a publisher's mistakes are found is the reference's. Before a message gets
//! here, the core has checked, for messages of batches as for others: sealed, the server's and the
//! account's resources, the maximum size.

mod atomic;
mod batch_headers;
mod batch_replies;
mod fast;
mod fast_batch;
mod flow_subject;
mod in_flight;
mod number;
mod open_batches;
mod staged;

pub use atomic::{Abandoned, AtomicBatches, AtomicStep, Commit};
pub use batch_headers::BatchHeaders;
pub use batch_replies::BatchReplies;
pub use fast::{FastBatches, FastPlace, FastRefusal, FastStep};
pub use flow_subject::{FlowOperation, FlowSubject, MalformedFlowSubject};
pub use in_flight::{BatchLimits, InFlight};
pub use staged::Staged;

use myelin_wire::message_buf::MessageBuf;

/// Longer ids are refused, in either kind of batch.
const LONGEST_ID: usize = 64;

/// Where the publisher of a message hears of it, and how.
pub struct ReplySink<'a> {
    /// The message's reply subject.
    pub reply: &'a [u8],
    /// The stream's.
    pub replies: &'a mut BatchReplies,
    /// Messages that go out.
    pub out: &'a mut MessageBuf,
}
