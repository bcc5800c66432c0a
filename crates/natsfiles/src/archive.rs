//! The archive of a backup, as nats-server has it since 2.15: entries one behind the other.
//!
//! `NATSARC1`, then per entry the length of its name, a time, a sequence, two sizes (headers and
//! the rest), the name and the data; numbers are varints. `state.json` comes first, then
//! `consumers/<name>`, then messages by their subjects, and an entry of nothing at the end, without
//! which a backup was cut short.
//!
//! [`ArchiveReader`] gives whole entries out of bytes that come in pieces; it holds one entry,
//! which is as large as its owner allows and grows with what has come, not with what was announced.

use super::frames::{FrameError, FrameReader};
use std::fmt;

use myelin_stdx::varint;

/// Beginning of an archive.
pub const MAGIC: &[u8; 8] = b"NATSARC1";
/// The first entry.
pub const STATE: &[u8] = b"state.json";
/// Beginning of the names of consumers' entries.
pub const CONSUMERS: &[u8] = b"consumers/";
/// Bytes of a name, at most.
const LONGEST_NAME: u64 = 1 << 20;

/// Bytes of an entry that is no message, at most: a consumer with a million messages that await
/// acknowledgements.
const LARGEST_DESCRIPTION: u64 = 64 << 20;

/// Memory that is kept for the next entry.
const KEPT: usize = 1 << 20;

/// Head before an entry's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ArchiveHead {
    /// Bytes of its name.
    name: usize,
    /// A time in nanoseconds.
    timestamp: i64,
    /// Of a message; 0 of others.
    sequence: u64,
    /// Bytes of the header block.
    headers: usize,
    /// Bytes of what is behind.
    payload: usize,
}

impl ArchiveHead {
    fn data(&self) -> usize {
        self.headers.saturating_add(self.payload)
    }
}

/// A whole entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveEntry<'a> {
    /// Its name: the subject of a message.
    pub name: &'a [u8],
    /// A time in nanoseconds.
    pub timestamp: i64,
    /// Of a message; 0 of others.
    pub sequence: u64,
    /// The header block of a message.
    pub headers: &'a [u8],
    /// Payload behind the headers.
    pub payload: &'a [u8],
}

impl ArchiveEntry<'_> {
    /// Whether it ends the archive.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.name.is_empty()
            && self.timestamp == 0
            && self.sequence == 0
            && self.headers.is_empty()
            && self.payload.is_empty()
    }
}

/// Why an archive cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveError {
    /// The stream around it.
    Frames(FrameError),
    /// The archive is none, or a number in it is impossible.
    Invalid,
    /// The message with this sequence is larger than it may be.
    TooLarge(u64),
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Compat: the reference's words.
        match self {
            Self::Frames(_) | Self::Invalid => f.write_str("archive: invalid archive stream"),
            Self::TooLarge(seq) => write!(f, "message sequence {seq} exceeds maximum payload size"),
        }
    }
}

impl std::error::Error for ArchiveError {}

impl From<FrameError> for ArchiveError {
    fn from(error: FrameError) -> Self {
        Self::Frames(error)
    }
}

/// Appends what stands before an entry's data.
pub fn put_head(
    out: &mut Vec<u8>,
    name: &[u8],
    timestamp: i64,
    sequence: u64,
    headers: usize,
    payload: usize,
) {
    varint::put(name.len() as u64, out);
    // As Go writes signed numbers: the sign at the low end.
    varint::put(((timestamp << 1) ^ (timestamp >> 63)) as u64, out);
    varint::put(sequence, out);
    varint::put(headers as u64, out);
    varint::put(payload as u64, out);
    out.extend_from_slice(name);
}

/// Reader of a backup in the format of nats-server 2.15: takes bytes in pieces and returns whole
/// entries.
#[derive(Debug)]
pub struct ArchiveReader {
    frames: FrameReader,
    has_magic: bool,
    /// Bytes that a message and what describes it may have.
    largest: usize,
    /// The entry at hand, as far as it has come: name and data, or, without a head, what there is
    /// of one.
    head: Option<ArchiveHead>,
    bytes: Vec<u8>,
    /// Whether the entry in `bytes` was given already.
    is_given: bool,
}

impl ArchiveReader {
    /// Reads entries out of `frames`: messages with up to `largest` bytes each.
    #[must_use]
    pub fn new(frames: FrameReader, largest: usize) -> Self {
        Self { frames, has_magic: false, largest, head: None, bytes: Vec::new(), is_given: false }
    }

    /// Takes the next compressed bytes. All entries should be read before more are given.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.frames.feed(bytes);
    }

    /// The next entry, or `None`: more has to come first. `budget` is taken down by the bytes that
    /// were looked at, and when it is used up `None` is answered as well.
    ///
    /// # Errors
    /// The archive cannot be gone on with.
    pub fn next(&mut self, budget: &mut usize) -> Result<Option<ArchiveEntry<'_>>, ArchiveError> {
        if std::mem::take(&mut self.is_given) {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
        }
        if self.head.is_none() {
            // Perf: nearly all entries lie whole in one block, and are given from there.
            if self.has_magic
                && self.bytes.is_empty()
                && let Some((head, used)) = parse_head(self.frames.fill()?, self.largest)?
                && used + head.name + head.data() <= self.frames.fill()?.len()
            {
                let wanted = head.name + head.data();
                *budget = budget.saturating_sub(used + wanted);
                self.frames.consume(used + wanted);
                return Ok(Some(entry(head, self.frames.last(wanted))));
            }
            if !self.read_head(budget)? {
                return Ok(None);
            }
        }
        let Some(head) = self.head else { return Ok(None) };
        let wanted = head.name + head.data();
        while self.bytes.len() < wanted {
            let more = self.frames.fill()?;
            if more.is_empty() || *budget == 0 {
                return Ok(None);
            }
            let now = more.len().min(wanted - self.bytes.len());
            self.bytes.extend_from_slice(&more[..now]);
            self.frames.consume(now);
            *budget = budget.saturating_sub(now);
        }
        self.head = None;
        self.is_given = true;
        Ok(Some(entry(head, &self.bytes)))
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes.capacity() + self.frames.held()
    }

    /// Whether it ends between two entries.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.frames.finish().is_ok() && self.head.is_none() && (self.bytes.is_empty() || self.is_given)
    }

    /// Gathers the magic and the numbers before a name, byte by byte. `false`: they are not all
    /// there.
    fn read_head(&mut self, budget: &mut usize) -> Result<bool, ArchiveError> {
        loop {
            let more = self.frames.fill()?;
            let Some(&byte) = more.first().filter(|_| *budget > 0) else { return Ok(false) };
            self.bytes.push(byte);
            self.frames.consume(1);
            *budget -= 1;
            if !self.has_magic {
                if !MAGIC.starts_with(&self.bytes) {
                    return Err(ArchiveError::Invalid);
                }
                self.has_magic = self.bytes.len() == MAGIC.len();
                if self.has_magic {
                    self.bytes.clear();
                }
            } else if let Some((head, _)) = parse_head(&self.bytes, self.largest)? {
                self.bytes.clear();
                self.head = Some(head);
                return Ok(true);
            }
        }
    }
}

/// The numbers that `bytes` begin with, and how many bytes these take; `None` if they are not all
/// there.
fn parse_head(bytes: &[u8], largest: usize) -> Result<Option<(ArchiveHead, usize)>, ArchiveError> {
    let mut rest = bytes;
    let mut numbers = [0; 5];
    for number in &mut numbers {
        match varint::take(&mut rest) {
            Some(value) => *number = value,
            None if rest.len() >= varint::LONGEST => return Err(ArchiveError::Invalid),
            None => return Ok(None),
        }
    }
    let [name, timestamp, sequence, headers, payload] = numbers;
    let timestamp = (timestamp >> 1).cast_signed() ^ -(timestamp & 1).cast_signed();
    if name > LONGEST_NAME || headers.checked_add(payload).is_none_or(|all| i64::try_from(all).is_err()) {
        return Err(ArchiveError::Invalid);
    }
    // What is no message describes the stream, or a consumer with all that it awaits.
    let largest = if sequence == 0 { LARGEST_DESCRIPTION } else { largest as u64 };
    if headers > largest || payload > largest - headers {
        return Err(ArchiveError::TooLarge(sequence));
    }
    let [name, headers, payload] = [name, headers, payload].map(|size| size as usize);
    Ok(Some((ArchiveHead { name, timestamp, sequence, headers, payload }, bytes.len() - rest.len())))
}

fn entry(head: ArchiveHead, bytes: &[u8]) -> ArchiveEntry<'_> {
    let (name, data) = bytes.split_at(head.name);
    let (headers, payload) = data.split_at(head.headers);
    let ArchiveHead { timestamp, sequence, .. } = head;
    ArchiveEntry { name, timestamp, sequence, headers, payload }
}

#[cfg(test)]
mod tests {
    use super::super::frames::FrameWriter;
    use super::*;
    use proptest::prelude::*;

    type Owned = (Vec<u8>, i64, u64, Vec<u8>, Vec<u8>);

    /// An archive in blocks of this many bytes, so that they end anywhere in an entry.
    fn packed(entries: &[Owned], block: usize) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (name, timestamp, sequence, headers, payload) in entries {
            put_head(&mut bytes, name, *timestamp, *sequence, headers.len(), payload.len());
            bytes.extend_from_slice(headers);
            bytes.extend_from_slice(payload);
        }
        let mut writer = FrameWriter::default();
        for part in bytes.chunks(block) {
            writer.write(part);
            writer.flush();
        }
        writer.out
    }

    fn read(bytes: &[u8], step: usize, largest: usize) -> Result<Vec<Owned>, ArchiveError> {
        let mut reader = ArchiveReader::new(FrameReader::default(), largest);
        let mut all = Vec::new();
        for piece in bytes.chunks(step) {
            reader.feed(piece);
            loop {
                let mut budget = 50;
                match reader.next(&mut budget)? {
                    Some(e) => all.push((
                        e.name.to_vec(),
                        e.timestamp,
                        e.sequence,
                        e.headers.to_vec(),
                        e.payload.to_vec(),
                    )),
                    None if budget == 0 => {}
                    None => break,
                }
            }
        }
        Ok(all)
    }

    fn any_entry() -> impl Strategy<Value = Owned> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..80);
        (bytes(), any::<i64>(), any::<u64>(), bytes(), bytes())
    }

    proptest! {
        #[test]
        fn entries_come_back(
            entries in prop::collection::vec(any_entry(), 0..20),
            (step, block) in (1_usize..200, prop_oneof![1_usize..100, Just(1 << 20)]),
        ) {
            prop_assert_eq!(read(&packed(&entries, block), step, 1000), Ok(entries));
        }

        #[test]
        fn what_comes_from_strangers_breaks_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut writer = FrameWriter::default();
            writer.write(MAGIC);
            writer.write(&bytes);
            writer.flush();
            let _ = read(&writer.out, 13, 1000);
        }
    }

    #[test]
    fn sizes_are_held_against_the_limit_before_anything_is_read() {
        let mut writer = FrameWriter::default();
        writer.write(MAGIC);
        let mut head = Vec::new();
        put_head(&mut head, b"a", 1, 7, 0, 1 << 40);
        writer.write(&head);
        writer.flush();
        assert_eq!(read(&writer.out, 999, 1000), Err(ArchiveError::TooLarge(7)));
        let mut writer = FrameWriter::default();
        writer.write(b"NATSARC2");
        writer.flush();
        assert_eq!(read(&writer.out, 999, 1000), Err(ArchiveError::Invalid));
    }
}
