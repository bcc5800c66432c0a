//! Entries of a group's log as replicas send them to each other: one piece of memory from the
//! decision to the last of them.

use bytes::Bytes;

use crate::Timestamp;
use crate::record::{BODY_BYTES, Entry, LogEntry, LogEntryKind, canonical};

/// Entry of a group's log, as it is sent to other replicas. A copy shares its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedEntry {
    /// Its head.
    pub entry: LogEntry,
    /// The payload of its head, then its records.
    bytes: Bytes,
}

/// Records of an entry that is being made, behind room for the payload of its head.
pub(super) struct EntryForm {
    bytes: Vec<u8>,
}

impl EntryForm {
    /// No records yet, with room for so many bytes of them.
    pub(super) fn with_room(bytes: usize) -> Self {
        let mut form = Vec::with_capacity(BODY_BYTES + bytes);
        form.resize(BODY_BYTES, 0);
        Self { bytes: form }
    }

    /// Form of these records; those that have none are left out.
    pub(super) fn of_records(records: &[(Entry<'_>, Timestamp)]) -> Self {
        let mut form = Self::with_room(records.iter().map(|(record, _)| canonical::len(record)).sum());
        for (record, timestamp) in records {
            match record {
                Entry::Message(message) => canonical::write_message(message, form.end()),
                Entry::Control(control) => canonical::write_control(control, *timestamp, form.end()),
                Entry::Erased { .. } => {}
            }
        }
        form
    }

    /// End of the form, where the next record is written.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Records that are there.
    pub(super) fn records(&self) -> &[u8] {
        &self.bytes[BODY_BYTES..]
    }

    /// The entry with this head and these records.
    pub(super) fn decided(mut self, entry: LogEntry) -> DecidedEntry {
        self.bytes[..BODY_BYTES].copy_from_slice(&entry.body());
        DecidedEntry { entry, bytes: self.bytes.into() }
    }
}

impl DecidedEntry {
    /// Its records in canonical form.
    #[must_use]
    pub fn records(&self) -> &[u8] {
        &self.bytes[BODY_BYTES..]
    }

    /// Whether the chain says that these are the records which were decided on behind an entry with
    /// the chain `before`.
    #[must_use]
    pub fn follows(&self, before: u64) -> bool {
        self.entry.chained(before, self.records()) == self.entry.chain
    }

    /// Whether it is the first entry of a leader, which says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entry.kind == LogEntryKind::Empty
    }

    /// The entry as bytes, for other replicas: the payload that its head has in a segment
    /// (`docs/formats/segment.md`, kind 8), then its records. They share its memory.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Reads what [`DecidedEntry::to_bytes`] made, and shares its memory. `None` if no entry is
    /// written like this, or not with this index and this term; its records and its chain are
    /// looked at when it is appended.
    #[must_use]
    pub fn from_bytes(index: u64, term: u64, bytes: &Bytes) -> Option<Self> {
        let head = bytes.get(..BODY_BYTES)?;
        let entry = LogEntry::from_body(index, head).filter(|entry| entry.term == term)?;
        Some(Self { entry, bytes: bytes.clone() })
    }

    /// The first entry of a new leader, which says nothing, behind an entry with the chain
    /// `before`. Where the log ends `within` a decision it leaves that open.
    #[must_use]
    pub fn empty(index: u64, term: u64, before: u64, within: bool) -> Self {
        let kind = LogEntryKind::Empty;
        let mut entry = LogEntry { index, term, commit: 0, chain: 0, kind, more: within };
        entry.chain = entry.chained(before, &[]);
        EntryForm::with_room(0).decided(entry)
    }

    /// Entry with this head and other records, as nobody sends it.
    #[cfg(test)]
    pub(super) fn with_records(&self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut records = self.records().to_vec();
        change(&mut records);
        let mut form = EntryForm::with_room(records.len());
        form.end().extend_from_slice(&records);
        form.decided(self.entry)
    }
}
