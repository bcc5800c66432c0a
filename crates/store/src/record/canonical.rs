//! Records in canonical form: what replicas of a stream send each other.
//!
//! Owns bytes that are equal on all replicas, which entries of a file are not: those have a place,
//! a checksum with the file's salt, and may be encrypted. What concerns one replica's files alone
//! (`Durable`) has no canonical form, nor has a message that was erased, nor the head of the log
//! entry that the records belong to.
//!
//! ```text
//!  0 u8 kind   1 u8 flags: 2 EXPIRES   2 u16 subject length   4 u32 headers length
//!  8 u32 payload length   12 u64 seq   20 i64 timestamp
//! 28 [i64 expires]  subject  headers  payload
//! ```
//!
//! Numbers, kinds and payloads of controls mean the same as in `docs/formats/segment.md`.

use super::decode::{control, message};
use super::head::{EXPIRES, EntryHead};
use super::{Control, Entry, EntryKind, HEAD_BYTES, MAX_ENTRY_BYTES, Message};
use crate::Timestamp;

/// Bytes before the parts of a record.
pub(crate) const RECORD_BYTES: usize = 28;
/// Bytes of a record as they are expected: memory for so many is taken at once.
const USUAL_RECORD: usize = 256;

/// Adds a message to `records`.
pub fn write_message(message: &Message<'_>, records: &mut Vec<u8>) {
    let Message { seq, timestamp, expires, subject, headers, payload } = *message;
    let expires = expires.map(Timestamp::to_le_bytes);
    let flags = if expires.is_some() { EXPIRES } else { 0 };
    let numbers = (EntryKind::Message, flags, seq, timestamp);
    let expires = expires.as_ref().map_or(&[][..], |bytes| bytes);
    write(numbers, [expires, subject, headers, payload], records);
}

/// Adds a control to `records`; those that have no canonical form are left out.
pub fn write_control(control: &Control<'_>, timestamp: Timestamp, records: &mut Vec<u8>) {
    if matches!(control, Control::Durable { .. } | Control::LogEntry(_) | Control::TakenBack { .. }) {
        return;
    }
    let (kind, seq, body) = control.to_parts();
    write((kind, 0, seq, timestamp), [&[], &[], &[], &body], records);
}

/// Bytes of a record.
pub fn len(entry: &Entry<'_>) -> usize {
    RECORD_BYTES
        + match entry {
            Entry::Message(message) => {
                let expires = if message.expires.is_some() { 8 } else { 0 };
                expires + message.subject.len() + message.headers.len() + message.payload.len()
            }
            Entry::Control(control) => control.to_parts().2.len(),
            Entry::Erased { .. } => 0,
        }
}

fn write(
    (kind, flags, seq, timestamp): (EntryKind, u8, u64, Timestamp),
    [expires, subject, headers, payload]: [&[u8]; 4],
    records: &mut Vec<u8>,
) {
    let mut head = [0; RECORD_BYTES];
    (head[0], head[1]) = (kind.code(), flags);
    let subject_length = u16::try_from(subject.len()).expect("the caller refuses longer subjects");
    head[2..4].copy_from_slice(&subject_length.to_le_bytes());
    head[4..8].copy_from_slice(&length(headers).to_le_bytes());
    head[8..12].copy_from_slice(&length(payload).to_le_bytes());
    head[12..20].copy_from_slice(&seq.to_le_bytes());
    head[20..28].copy_from_slice(&timestamp.to_le_bytes());
    records.extend_from_slice(&head);
    [expires, subject, headers, payload].iter().for_each(|part| records.extend_from_slice(part));
}

fn length(part: &[u8]) -> u32 {
    u32::try_from(part.len()).expect("an entry is smaller than 4 GiB")
}

/// Reads the records of a log entry, in order, each with the time at which it was decided. `None`
/// where the bytes are no records in canonical form.
#[must_use]
pub fn read(mut bytes: &[u8]) -> Option<Vec<(Entry<'_>, Timestamp)>> {
    let mut records = Vec::with_capacity(bytes.len() / USUAL_RECORD + 1);
    while !bytes.is_empty() {
        let (head, body, rest) = next(bytes)?;
        let entry = match head.kind {
            EntryKind::Message => Entry::Message(message(&head, body)?),
            EntryKind::Durable | EntryKind::LogEntry => return None,
            _ => {
                let control = control(&head, body)?;
                // Or two forms would say the same, with different chains.
                (control.to_parts().2 == body).then_some(())?;
                Entry::Control(control)
            }
        };
        records.push((entry, head.timestamp));
        bytes = rest;
    }
    Some(records)
}

/// Messages among the records of a log entry that was read before, in order.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut record = move || {
        let (head, body, rest) = next(bytes)?;
        bytes = rest;
        Some((head, body))
    };
    std::iter::from_fn(move || {
        loop {
            let (head, body) = record()?;
            if head.kind == EntryKind::Message {
                return message(&head, body);
            }
        }
    })
}

/// The first record: its head, its body, and what is behind it.
fn next(bytes: &[u8]) -> Option<(EntryHead, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<RECORD_BYTES>()?;
    let head = entry_head(head)?;
    let (body, rest) = rest.split_at_checked(head.size() - HEAD_BYTES)?;
    Some((head, body, rest))
}

/// As the head of an entry that says the same; `None` if no entry could.
fn entry_head(bytes: &[u8; RECORD_BYTES]) -> Option<EntryHead> {
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let flags = bytes[1];
    let mut head = EntryHead {
        checksum: 0,
        size: 0,
        seq: u64_at(12),
        timestamp: u64_at(20) as i64,
        subject: u16::from_le_bytes([bytes[2], bytes[3]]),
        kind: EntryKind::from_code(bytes[0])?,
        flags,
        headers: u32_at(4),
    };
    let size = (HEAD_BYTES + head.parts()).checked_add(u32_at(8) as usize)?;
    head.size = u32::try_from(size).ok().filter(|_| size <= MAX_ENTRY_BYTES)?;
    (flags & !EXPIRES == 0 && head.is_plausible()).then_some(head)
}
