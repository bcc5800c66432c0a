//! The first 32 bytes of an entry.
//!
//! Owns what a head may say. Everything that can be refused without the rest of the entry is
//! refused here, so that a search through foreign bytes computes few checksums.

use super::{HEAD_BYTES, MAX_ENTRY_BYTES};
use crate::{Seq, Timestamp};

/// The batch goes on with the next entry.
pub(super) const CONTINUES: u8 = 1;
/// The body begins with an expiry time.
pub(super) const EXPIRES: u8 = 2;
/// The body was overwritten with zeros and means nothing.
pub(super) const ERASED: u8 = 4;

/// Where the flags stand.
pub(super) const FLAGS_AT: usize = 27;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the variants of `Control`, which say it")]
pub enum EntryKind {
    Message,
    Delete,
    Trim,
    Truncate,
    Durable,
    Skip,
    Term,
    LogEntry,
    Consumer,
    Config,
    Note,
    TakenBack,
}

impl EntryKind {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Message => 1,
            Self::Delete => 2,
            Self::Trim => 3,
            Self::Truncate => 4,
            Self::Durable => 5,
            Self::Skip => 6,
            Self::Term => 7,
            Self::LogEntry => 8,
            Self::Consumer => 9,
            Self::Config => 10,
            Self::Note => 12,
            Self::TakenBack => 13,
        }
    }

    pub(super) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Message,
            2 => Self::Delete,
            3 => Self::Trim,
            4 => Self::Truncate,
            5 => Self::Durable,
            6 => Self::Skip,
            7 => Self::Term,
            8 => Self::LogEntry,
            9 => Self::Consumer,
            10 => Self::Config,
            12 => Self::Note,
            13 => Self::TakenBack,
            _ => return None,
        })
    }
}

/// Head of an entry. Not to be believed before the checksum of the whole entry was seen to be
/// right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// Of the bytes behind it.
    pub(super) checksum: u32,
    /// Bytes of the whole entry.
    pub(super) size: u32,
    /// The message's sequence; for `Trim`, `Truncate` and `Skip` theirs; for `LogEntry` its index;
    /// else 0.
    pub seq: Seq,
    /// When it was accepted.
    pub timestamp: Timestamp,
    pub(super) subject: u16,
    /// Kind of the entry.
    pub kind: EntryKind,
    pub(super) flags: u8,
    pub(super) headers: u32,
}

impl EntryHead {
    /// Bytes of the whole entry, head included.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size as usize
    }

    /// Whether the batch goes on with the next entry.
    #[must_use]
    pub const fn continues(&self) -> bool {
        self.flags & CONTINUES != 0
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0..4].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.timestamp.to_le_bytes());
        bytes[24..26].copy_from_slice(&self.subject.to_le_bytes());
        bytes[26] = self.kind.code();
        bytes[FLAGS_AT] = self.flags;
        bytes[28..32].copy_from_slice(&self.headers.to_le_bytes());
        bytes
    }

    /// Bytes of the body that are not payload.
    pub(super) fn parts(&self) -> usize {
        let expires = if self.has(EXPIRES) { 8 } else { 0 };
        expires + usize::from(self.subject) + self.headers as usize
    }

    /// Whether an entry could say this.
    pub(super) fn is_plausible(&self) -> bool {
        let allowed = match self.kind {
            EntryKind::Message if self.has(ERASED) => CONTINUES | ERASED,
            EntryKind::Message => CONTINUES | EXPIRES,
            _ => CONTINUES,
        };
        let unnumbered = matches!(
            self.kind,
            EntryKind::Delete
                | EntryKind::Durable
                | EntryKind::Term
                | EntryKind::Consumer
                | EntryKind::Config
                | EntryKind::Note
        );
        let bare = self.kind != EntryKind::Message || self.has(ERASED);
        self.flags & !allowed == 0
            && self.size() <= MAX_ENTRY_BYTES
            && self.size() >= HEAD_BYTES
            && self.size() - HEAD_BYTES >= self.parts()
            && !(bare && self.parts() != 0)
            && !(unnumbered && self.seq != 0)
    }
}

/// Reads a head, so that its reader learns how many bytes the entry has. `None` if `bytes` are
/// fewer than 32 or no entry begins like this; zeros are no entry.
#[inline]
#[must_use]
pub fn peek(bytes: &[u8]) -> Option<EntryHead> {
    let bytes: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    // Before anything else, because a search looks at every offset.
    let kind = EntryKind::from_code(bytes[26])?;
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let head = EntryHead {
        checksum: u32_at(0),
        size: u32_at(4),
        seq: u64_at(8),
        timestamp: u64_at(16) as i64,
        subject: u16::from_le_bytes([bytes[24], bytes[25]]),
        kind,
        flags: bytes[FLAGS_AT],
        headers: u32_at(28),
    };
    head.is_plausible().then_some(head)
}
