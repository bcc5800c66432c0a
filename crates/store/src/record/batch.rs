//! The way of entries into a buffer.
//!
//! Perf: per message no allocation once the buffer has its size, no lock, one checksum over its
//! bytes, each part copied once. Measured by `record_speed` in the tests.

use super::head::{CONTINUES, EXPIRES, FLAGS_AT};
use super::{Control, EntryHead, EntryKind, FileContext, HEAD_BYTES, MAX_ENTRY_BYTES, Message};
use crate::cipher::Nonce;
use crate::{Seq, Timestamp};

/// Entries that are appended together: after a crash all of them are there or none.
///
/// Whether an entry is the last is known only at the end. So the newest stays open, without
/// checksum and not yet encrypted, until the next one comes or the batch is finished. A batch that
/// is dropped instead leaves bytes in the buffer that are no entries.
#[derive(Debug)]
pub struct EntryBatch<'a> {
    buffer: &'a mut Vec<u8>,
    context: &'a FileContext,
    /// Where the batch begins in the buffer, and in the file.
    first: usize,
    at: u64,
    /// Where the open entry begins in the buffer.
    open: Option<usize>,
}

impl<'a> EntryBatch<'a> {
    /// A batch that is appended to `buffer`; its first byte will stand at `at` in the segment's
    /// file.
    #[must_use]
    pub fn begin(buffer: &'a mut Vec<u8>, at: u64, context: &'a FileContext) -> Self {
        let first = buffer.len();
        Self { buffer, context, first, at, open: None }
    }

    /// Appends a message; answers its file offset.
    ///
    /// # Panics
    /// If its parts do not [fit](super::fits).
    pub fn message(&mut self, message: &Message<'_>) -> u32 {
        let expires = message.expires.map(Timestamp::to_le_bytes);
        let flags = if expires.is_some() { EXPIRES } else { 0 };
        let parts = [
            expires.as_ref().map_or(&[][..], |bytes| bytes),
            message.subject,
            message.headers,
            message.payload,
        ];
        let head = EntryHead {
            checksum: 0,
            size: 0,
            seq: message.seq,
            timestamp: message.timestamp,
            subject: u16::try_from(message.subject.len()).expect("the caller refuses longer subjects"),
            kind: EntryKind::Message,
            flags,
            headers: u32::try_from(message.headers.len()).expect("the caller refuses longer headers"),
        };
        self.push(head, parts)
    }

    /// Appends a control; answers its file offset.
    ///
    /// # Panics
    /// If it is a `Delete` of more ranges than an entry holds, some ten millions.
    pub fn control(&mut self, control: &Control<'_>, timestamp: Timestamp) -> u32 {
        let (kind, seq, payload) = control.to_parts();
        self.push_control(kind, seq, timestamp, &payload)
    }

    fn push_control(&mut self, kind: EntryKind, seq: Seq, timestamp: Timestamp, payload: &[u8]) -> u32 {
        let head = EntryHead { checksum: 0, size: 0, seq, timestamp, subject: 0, kind, flags: 0, headers: 0 };
        self.push(head, [&[], &[], &[], payload])
    }

    fn push(&mut self, mut head: EntryHead, parts: [&[u8]; 4]) -> u32 {
        self.close(true);
        let size = parts
            .iter()
            .fold(HEAD_BYTES + self.context.tag_bytes(), |sum, part| sum.saturating_add(part.len()));
        assert!(size <= MAX_ENTRY_BYTES, "the caller refuses messages of this size");
        head.size = u32::try_from(size).expect("an entry is smaller than 4 GiB");
        let start = self.buffer.len();
        self.buffer.reserve(size);
        self.buffer.extend_from_slice(&head.to_bytes());
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        debug_assert_eq!(
            self.buffer.len() - start + self.context.tag_bytes(),
            size,
            "an entry has the size that it says"
        );
        self.open = Some(start);
        u32::try_from(self.offset(start)).expect("segments are smaller than 4 GiB")
    }

    /// The file offset of a place in the buffer. Segments end before 4 GiB, so offsets of entries
    /// are kept in 32 bits everywhere.
    fn offset(&self, place: usize) -> u64 {
        let offset = self.at + (place - self.first) as u64;
        debug_assert!(u32::try_from(offset).is_ok(), "a segment of 4 GiB");
        offset
    }

    /// Gives the open entry what it lacks.
    fn close(&mut self, continues: bool) {
        let Some(start) = self.open.take() else { return };
        debug_assert!(start >= self.first, "an open entry is one of the batch");
        if continues {
            self.buffer[start + FLAGS_AT] |= CONTINUES;
        }
        if let Some(cipher) = &self.context.cipher {
            let mut aad = [0; HEAD_BYTES - 8];
            aad.copy_from_slice(&self.buffer[start + 8..start + HEAD_BYTES]);
            let nonce = Nonce::entry(self.offset(start));
            cipher.seal(nonce, &aad, self.buffer, start + HEAD_BYTES);
        }
        let checksum = crc32c::crc32c_append(self.context.seed, &self.buffer[start + 4..]);
        self.buffer[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Bytes appended so far; a tag of the open entry is missing in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len() - self.first
    }

    /// Whether nothing was appended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the last entry; answers the bytes of the batch.
    pub fn finish(mut self) -> usize {
        self.close(false);
        debug_assert!(self.open.is_none(), "a finished batch has no open entry");
        self.len()
    }

    /// Takes all its entries out of the buffer again.
    pub fn cancel(self) {
        self.buffer.truncate(self.first);
    }
}
