//! Entries: the messages and controls of which a stream's log consists, as bytes.
//!
//! Owns their layout (`docs/formats/segment.md`). Entries are written in batches (`EntryBatch`),
//! which recovery takes whole or not at all, and read one by one (`decode`). Nothing here knows
//! files; an entry knows its place only because the nonce of an encrypted one is its file offset.
//!
//! ```text
//!  0 u32 checksum of bytes 4..size     4 u32 size        8 u64 seq            16 i64 timestamp
//! 24 u16 subject length   26 u8 kind  27 u8 flags       28 u32 headers length
//! 32 [i64 expires]  subject  headers  payload  [16-byte tag]   (encrypted, where the segment is)
//! ```

use std::borrow::Cow;
use std::fmt;

use crate::cipher::{Cipher, TAG_BYTES};
use crate::ranges::Ranges;
use crate::{SegmentNo, Seq, Storage, Timestamp};

mod batch;
pub mod canonical;
mod consumer_record;
mod decode;
mod head;
mod log_entry;
mod note_record;

pub use batch::EntryBatch;
pub use consumer_record::ConsumerRecord;
pub use decode::{Decoded, decode, decode_trusted, erase, verify};
pub(crate) use decode::{assemble, decode_peeked, decode_trusted_peeked, open, verify_behind};
pub use head::{EntryHead, EntryKind, peek};
pub(crate) use log_entry::BODY_BYTES;
pub use log_entry::{LogEntry, LogEntryKind};
pub use note_record::NoteRecord;

/// Bytes before the body of an entry.
pub const HEAD_BYTES: usize = 32;

/// No entry is longer. Bounds what a reader believes of a size that it cannot check yet.
pub const MAX_ENTRY_BYTES: usize = 256 << 20;

/// Bytes that an entry adds to the lengths of its parts, at most.
pub(crate) const MAX_OVERHEAD: usize = HEAD_BYTES + 8 + TAG_BYTES;

/// Context that all entries of a segment share.
#[derive(Clone, Debug, Default)]
pub struct FileContext {
    /// The segment's identity, with which every checksum begins: bytes of another file are never
    /// taken for its own.
    pub seed: u32,
    /// The key of an encrypted segment.
    pub cipher: Option<Cipher>,
}

impl FileContext {
    /// Bytes that encryption adds to each entry and section.
    #[must_use]
    pub fn tag_bytes(&self) -> usize {
        if self.cipher.is_some() { TAG_BYTES } else { 0 }
    }
}

/// A stored message. Its parts are what the publisher sent; nothing here looks into them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its place in the stream.
    pub seq: Seq,
    /// When it was accepted.
    pub timestamp: Timestamp,
    /// When it ends by its own lifetime, if it has one.
    pub expires: Option<Timestamp>,
    /// At most 65,535 bytes.
    pub subject: &'a [u8],
    /// The whole header block, or nothing.
    pub headers: &'a [u8],
    /// Payload behind the headers.
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// The most bytes that its entry takes, encrypted or not.
    #[must_use]
    pub const fn max_encoded_len(&self) -> usize {
        max_message_len(self.subject.len(), self.headers.len(), self.payload.len())
    }
}

/// Change of a stream besides a new message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// Sequences that are gone.
    Delete(Cow<'a, Ranges>),
    /// Everything before `first` is gone; an empty stream goes on with `first`.
    Trim {
        /// The new first sequence.
        first: Seq,
    },
    /// Everything behind `last` is gone, and the next message is `last + 1` again.
    Truncate {
        /// The new last sequence.
        last: Seq,
    },
    /// Everything before this place had been synced when this was written.
    Durable {
        /// The segment.
        segment: SegmentNo,
        /// An offset in its file.
        offset: u64,
    },
    /// The sequences up to `last` are passed over without messages.
    Skip {
        /// The new last sequence.
        last: Seq,
    },
    /// Everything that follows was decided in this term of this epoch.
    Term {
        /// Grows when a stream gets another group of replicas.
        epoch: u64,
        /// The term of the group's leader.
        term: u64,
    },
    /// The batch is one entry of a group's log; this stands at its beginning.
    LogEntry(LogEntry),
    /// A consumer changes, in the log of a group.
    Consumer(ConsumerRecord<'a>),
    /// The stream has another configuration, in the log of a group: bytes for others to understand.
    Config(Cow<'a, [u8]>),
    /// A note of the stream changes, in the log of a group.
    Note(NoteRecord<'a>),
    /// Entries of the group's log from an index on that stand before this do not count: their
    /// leader did not get them committed.
    TakenBack {
        /// Index of the first of them.
        first: u64,
        /// Chain of the entry before it.
        chain: u64,
    },
}

impl Control<'_> {
    /// The most bytes that its entry takes, encrypted or not.
    #[must_use]
    pub fn max_encoded_len(&self) -> usize {
        let payload = match self {
            Self::Delete(ranges) => ranges.max_encoded_len(),
            Self::Consumer(record) => record.body_bytes(),
            Self::Config(blob) => blob.len(),
            Self::Note(record) => record.body_bytes(),
            _ => log_entry::BODY_BYTES,
        };
        MAX_OVERHEAD + payload
    }
}

impl Control<'_> {
    /// Kind, number in the head, and payload of its entry.
    fn to_parts(&self) -> (EntryKind, Seq, Vec<u8>) {
        let mut payload = Vec::new();
        let (kind, seq) = match self {
            Self::Delete(ranges) => {
                ranges.encode(&mut payload);
                (EntryKind::Delete, 0)
            }
            Self::Trim { first } => (EntryKind::Trim, *first),
            Self::Truncate { last } => (EntryKind::Truncate, *last),
            Self::Durable { segment, offset } => {
                payload.extend([segment.0, *offset].map(u64::to_le_bytes).as_flattened());
                (EntryKind::Durable, 0)
            }
            Self::Skip { last } => (EntryKind::Skip, *last),
            Self::Term { epoch, term } => {
                payload.extend([*epoch, *term].map(u64::to_le_bytes).as_flattened());
                (EntryKind::Term, 0)
            }
            Self::LogEntry(entry) => {
                payload.extend(entry.body());
                (EntryKind::LogEntry, entry.index)
            }
            Self::Consumer(record) => {
                record.put_body(&mut payload);
                (EntryKind::Consumer, 0)
            }
            Self::Config(blob) => {
                payload.extend_from_slice(blob);
                (EntryKind::Config, 0)
            }
            Self::Note(record) => {
                record.put_body(&mut payload);
                (EntryKind::Note, 0)
            }
            Self::TakenBack { first, chain } => {
                payload.extend(chain.to_le_bytes());
                (EntryKind::TakenBack, *first)
            }
        };
        (kind, seq, payload)
    }
}

/// One step of a stream's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A message.
    Message(Message<'a>),
    /// Message whose bytes were overwritten on demand. A `Delete` of its sequence is in the log,
    /// too.
    Erased {
        /// Its place in the stream.
        seq: Seq,
    },
    /// Anything else.
    Control(Control<'a>),
}

/// Why bytes are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The bytes end before the entry does.
    Cut,
    /// The head says what no entry's head says.
    EntryHead,
    /// The checksum differs: changed bytes, or another segment's.
    Checksum,
    /// Not encrypted with this key, or changed by someone who can compute checksums.
    Unauthentic,
    /// The body of a control makes no sense, though it is what was written.
    Body,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cut => "the entry is cut",
            Self::EntryHead => "no entry begins here",
            Self::Checksum => "wrong checksum",
            Self::Unauthentic => "encrypted with another key, or changed since",
            Self::Body => "impossible content",
        })
    }
}

impl std::error::Error for Invalid {}

/// The most bytes that the entry of a message with parts of these lengths takes, encrypted or not.
#[must_use]
pub const fn max_message_len(subject: usize, headers: usize, payload: usize) -> usize {
    MAX_OVERHEAD + subject + headers + payload
}

/// Whether parts of these lengths make an entry at all. [`EntryBatch::message`] panics with others.
#[must_use]
pub fn fits(subject: usize, headers: usize, payload: usize) -> bool {
    let sum = headers.saturating_add(payload).saturating_add(MAX_OVERHEAD + subject);
    subject <= usize::from(u16::MAX) && sum <= MAX_ENTRY_BYTES
}

/// Bytes that a message counts against `max_bytes`.
///
/// Compat: the reference counts what its own file format needs, and users see the sums; ours needs
/// other bytes.
#[must_use]
pub const fn stored_size(storage: Storage, subject: usize, headers: usize, payload: usize) -> u64 {
    let parts = subject as u64 + headers as u64 + payload as u64;
    match storage {
        Storage::Memory => parts + 16,
        Storage::File if headers == 0 => parts + 30,
        Storage::File => parts + 34,
    }
}

#[cfg(test)]
mod tests;
