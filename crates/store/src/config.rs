//! What a stream is told about its storage. A small part of a stream's configuration: the rest is opaque here.

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

/// What happens to a message that does not fit.
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
    /// Who gives way at `messages` and `bytes`.
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

/// The part of a stream's configuration that its storage must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Files or memory.
    pub storage: Storage,
    /// What must make room for what.
    pub limits: Limits,
    /// When a message is released.
    pub durability: Durability,
    /// Of sealed segments.
    pub compression: Compression,
    /// The sequence of the first message of a new stream; 0 counts as 1.
    pub first_seq: Seq,
    /// Whether its sequences are another stream's, as those of a mirror are. After a loss of power it passes over none.
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
