//! Messages on their way into a stream, and what became of them.

use crate::record;
use crate::{Seq, Timestamp};

use super::errors::AppendRefusal;

/// Sequences that one message of a batch may pass over. More need a call of
/// [`Stream::skip`](crate::Stream::skip), which begins a segment where it must.
pub const GAP_MAX: u64 = 1 << 20;

/// A message to be stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewMessage<'a> {
    /// The sequence that it must get, at most [`GAP_MAX`] behind the next one: those between are
    /// passed over in the same batch, as [`Stream::skip`](crate::Stream::skip) does. 0 for the next
    /// one.
    pub seq: Seq,
    /// When it was accepted. Times should not decrease: one that does is treated as about that of
    /// its neighbours by [`StreamReader::seq_at`](super::StreamReader::seq_at) and limits of age.
    pub timestamp: Timestamp,
    /// When it ends: `None` with the stream's own limit of age, `Timestamp::MAX` never.
    pub expires: Option<Timestamp>,
    /// A literal subject.
    pub subject: &'a [u8],
    /// The whole header block, or nothing.
    pub headers: &'a [u8],
    /// The rest of the message.
    pub payload: &'a [u8],
    /// Whether messages before it on this subject go when it is stored, so that it may exceed a
    /// limit per subject that refuses.
    pub is_rollup: bool,
    /// An earlier message that goes with this one's arrival, in the same batch: after a crash both
    /// have happened, or neither. 0 for none; one that is not there is passed over.
    pub ends: Seq,
}

impl<'a> NewMessage<'a> {
    /// The message as it is stored.
    pub(super) fn stored_as(&self, seq: Seq) -> record::Message<'a> {
        let Self { timestamp, expires, subject, headers, payload, .. } = *self;
        record::Message { seq, timestamp, expires, subject, headers, payload }
    }
}

/// Whether limits may refuse a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// As the stream's discard policy says.
    Check,
    /// Message that was admitted elsewhere (by a leader, by the stream that it is copied or
    /// restored from): store it, evict what must go.
    Granted,
}

/// Fate of each message of a batch: its sequence, or why it was not taken.
pub type AppendResult = Result<Seq, AppendRefusal>;
