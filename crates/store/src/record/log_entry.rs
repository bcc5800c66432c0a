//! The head of a batch that is one entry of a group's log.
//!
//! Owns the chain: a hash over everything that a group has decided up to an entry. It is computed
//! from the canonical form of the records (`canonical.rs`), which has no place, salt or cipher of a
//! file, so that it is equal on all replicas.

use highway::{HighwayHash, HighwayHasher, Key};

/// Bytes of the payload of the control that says a log entry.
pub(crate) const BODY_BYTES: usize = 26;

const MORE: u8 = 1;
/// Bit beside the kind that says MORE in the bytes that are hashed.
const MORE_CHAINED: u8 = 0x80;
/// Fixed: a chain that was written must be understood by every later version.
const KEY: Key =
    Key([0x6d79_656c_696e_2d65, 0x6e74_7279_2d63_6861, 0x696e_2d68_6967_6877, 0x6179_6861_7368_2d31]);

/// Kind of an entry of a group's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEntryKind {
    /// Change of the stream.
    Normal,
    /// Another membership of the group.
    Membership,
    /// The first entry of a new leader: it says nothing.
    Empty,
    /// Ends a decision that is not finished, and takes away what its parts before it have brought.
    Abort,
}

/// The head of a batch that is one entry of a group's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Number of the entry; the next one has one more.
    pub index: u64,
    /// Term of the leader that decided it.
    pub term: u64,
    /// The last index that the leader knew to be committed then.
    pub commit: u64,
    /// Hash of everything up to here: see [`LogEntry::chained`].
    pub chain: u64,
    /// Kind of the entry.
    pub kind: LogEntryKind,
    /// Whether the next index belongs to the same decision.
    pub more: bool,
}

impl LogEntryKind {
    const fn code(self) -> u8 {
        match self {
            Self::Normal => 0,
            Self::Membership => 1,
            Self::Empty => 2,
            Self::Abort => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Normal,
            1 => Self::Membership,
            2 => Self::Empty,
            3 => Self::Abort,
            _ => return None,
        })
    }
}

impl LogEntry {
    /// The chain that belongs to this entry, where `before` is that of the entry before it and
    /// `records` are its records in canonical form. What is in `chain` and `commit` does not
    /// matter.
    #[must_use]
    pub fn chained(&self, before: u64, records: &[u8]) -> u64 {
        let mut head = [0; 25];
        head[..8].copy_from_slice(&before.to_le_bytes());
        head[8..16].copy_from_slice(&self.index.to_le_bytes());
        head[16..24].copy_from_slice(&self.term.to_le_bytes());
        head[24] = self.kind.code() | if self.more { MORE_CHAINED } else { 0 };
        let mut hasher = HighwayHasher::new(KEY);
        hasher.append(&head);
        hasher.append(records);
        hasher.finalize64()
    }

    /// The payload of its control; the index stands in the head of that.
    pub(crate) fn body(&self) -> [u8; BODY_BYTES] {
        let mut body = [0; BODY_BYTES];
        for (place, number) in body[..24].chunks_exact_mut(8).zip([self.term, self.commit, self.chain]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        (body[24], body[25]) = (self.kind.code(), if self.more { MORE } else { 0 });
        body
    }

    /// Reads what [`LogEntry::body`] wrote.
    pub(crate) fn from_body(index: u64, body: &[u8]) -> Option<Self> {
        let body: &[u8; BODY_BYTES] = body.try_into().ok()?;
        let (numbers, rest) = body.as_chunks::<8>();
        let &[kind, flags] = rest else { return None };
        let [term, commit, chain] = numbers else { return None };
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        (flags & !MORE == 0 && index > 0).then_some(())?;
        Some(Self {
            index,
            term: number(term),
            commit: number(commit),
            chain: number(chain),
            kind: LogEntryKind::from_code(kind)?,
            more: flags & MORE != 0,
        })
    }
}
