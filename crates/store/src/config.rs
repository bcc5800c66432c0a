//! Storage configuration of a stream. A small part of a stream's configuration: the rest is opaque
//! here.

use std::time::Duration;

use crate::Seq;

/// Where a stream keeps its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Segment files.
    File,
    /// Segments in memory: gone with the process.
    Memory,
}

/// Fate of a message that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Discard {
    /// The oldest messages make room.
    #[default]
    Old,
    /// The new message is refused.
    New,
}

/// Limits of a stream. `None` is without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    /// Messages in the stream.
    pub messages: Option<u64>,
    /// Bytes in the stream, counted as the reference counts them (`stored_size`).
    pub bytes: Option<u64>,
    /// How long a message may stay.
    pub age: Option<Duration>,
    /// Messages with the same subject.
    pub messages_per_subject: Option<u64>,
    /// Bytes of headers and payload of one message.
    pub message_size: Option<u32>,
    /// Message that gives way at `messages` and `bytes`: the oldest, or the new one.
    pub discard: Discard,
    /// With `Discard::New`: whether `messages_per_subject` refuses, too, instead of making room.
    pub discard_new_per_subject: bool,
}

/// When a message counts as stored: what the release position waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Released when the operating system has the bytes; they are synced in the background.
    #[default]
    Written,
    /// Released when a sync has returned (`sync_interval: always`).
    Synced,
    /// Released when the bytes are in memory (`persist_mode: async`); written soon after.
    Memory,
}

/// Compression of sealed segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// Records as they are.
    #[default]
    None,
    /// Blocks of S2.
    S2,
}

/// Closed segments that may wait to be sealed before a stream [is
/// behind](crate::Stream::is_behind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsealed {
    /// Messages: their rows, their subjects, and the numbers of these, which are not given out
    /// again before, are memory. As many subjects without messages may wait for the last seal.
    pub messages: usize,
    /// Bytes of segments: what was removed from them is still on the disk.
    pub bytes: u64,
}

impl Default for Unsealed {
    /// Some 100 MiB of memory if all subjects are different.
    fn default() -> Self {
        Self { messages: 1 << 20, bytes: 1 << 30 }
    }
}

/// The part of a stream's configuration that its storage must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Files or memory.
    pub storage: Storage,
    /// Limits at which messages are removed or refused.
    pub limits: Limits,
    /// When a message is released.
    pub durability: Durability,
    /// Of sealed segments.
    pub compression: Compression,
    /// The sequence of the first message of a new stream; 0 counts as 1.
    pub first_seq: Seq,
    /// Whether its sequences are another stream's, as those of a mirror are. After a loss of power
    /// it passes over none.
    pub is_copy: bool,
    /// Bytes at which a segment is closed; `None` derives it from the limits.
    pub segment_bytes: Option<u32>,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            storage: Storage::File,
            limits: Limits::default(),
            durability: Durability::Written,
            compression: Compression::None,
            first_seq: 1,
            is_copy: false,
            segment_bytes: None,
        }
    }
}
