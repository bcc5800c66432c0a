//! Contents of a stream's archive: its messages, its consumers, and digests of both.
//!
//! Owns what "equal" means. The digest of a message is the SHA-256 of its sequence and time (eight
//! bytes each, the most significant first), and of subject, headers and payload, each behind its
//! length in eight bytes. The digest of a stream is the SHA-256 of its messages' digests, one
//! behind the other. docs/backup.md tells it to others.

use std::collections::BTreeMap;

use myelin_natsfiles::archive::{self, ArchiveEntry, ArchiveError, ArchiveReader};
use myelin_natsfiles::frames::FrameReader;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::backup::error::BackupError;

/// Bytes that a message may have with its headers: no server lets a client publish more.
const LARGEST_MESSAGE: usize = 128 << 20;

/// Digest of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageDigest {
    pub(super) sequence: u64,
    /// Bytes of its parts.
    pub(super) bytes: u64,
    pub(super) sha256: [u8; 32],
}

/// Consumer as an archive has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArchivedProgress {
    pub(super) config: Value,
    /// Last delivery: the consumer's number of it, and the stream's sequence.
    pub(super) delivered: (u64, u64),
    pub(super) ack_floor: (u64, u64),
    /// Messages that await their acknowledgement.
    pub(super) pending: u64,
    /// Digest of the whole state.
    sha256: [u8; 32],
}

impl ArchivedProgress {
    /// Whether deliveries and acknowledgements are the same in both.
    pub(super) fn is_as_far_as(&self, other: &Self) -> bool {
        (self.delivered, self.ack_floor, self.sha256) == (other.delivered, other.ack_floor, other.sha256)
    }
}

/// Sum of an archive.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    /// When the stream was as it is here, in nanoseconds.
    pub(super) taken: i64,
    pub(super) messages: u64,
    /// Sequence of the first message; the one that comes next where there is none.
    pub(super) first: u64,
    /// Last sequence of the stream, whether its message is there or not.
    pub(super) last: u64,
    /// Digest of all messages, in hexadecimal digits.
    pub(super) digest: String,
    pub(super) consumers: BTreeMap<String, ArchivedProgress>,
}

/// Reader of an archive that comes in pieces.
pub(super) struct ContentsReader {
    archive: ArchiveReader,
    /// Time of the first entry, and `state.json`, which it is.
    state: Option<(i64, Value)>,
    consumers: BTreeMap<String, ArchivedProgress>,
    messages: u64,
    first: Option<u64>,
    last: u64,
    all: Sha256,
    /// Messages behind this sequence are told, and do not count.
    end: u64,
    is_over: bool,
}

impl Default for ContentsReader {
    fn default() -> Self {
        Self {
            archive: ArchiveReader::new(FrameReader::default(), LARGEST_MESSAGE),
            state: None,
            consumers: BTreeMap::new(),
            messages: 0,
            first: None,
            last: 0,
            all: Sha256::new(),
            end: u64::MAX,
            is_over: false,
        }
    }
}

impl ContentsReader {
    /// A reader that sums up messages to this sequence, whatever came later.
    pub(super) fn up_to(end: u64) -> Self {
        Self { end, ..Self::default() }
    }

    /// Takes the next bytes, and tells `each` the messages that they complete.
    ///
    /// # Errors
    /// The archive is damaged, or `each` refuses.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(MessageDigest) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        self.archive.feed(bytes);
        let mut budget = usize::MAX;
        while let Some(entry) = self.archive.next(&mut budget).map_err(damaged)? {
            if self.is_over {
                return Err(BackupError::Other("there is more behind its end".into()));
            }
            if self.state.is_none() {
                self.state = Some((entry.timestamp, state(&entry)?));
            } else if entry.is_end() {
                self.is_over = true;
            } else if entry.sequence == 0 {
                let (name, consumer) = consumer(&entry)?;
                self.consumers.insert(name, consumer);
            } else {
                if entry.sequence <= self.last {
                    let what = format!("sequence {} stands behind {}", entry.sequence, self.last);
                    return Err(BackupError::Other(what));
                }
                let message = digest(&entry);
                self.last = message.sequence;
                if message.sequence <= self.end {
                    self.messages += 1;
                    self.first.get_or_insert(message.sequence);
                    self.all.update(message.sha256);
                }
                each(message)?;
            }
        }
        Ok(())
    }

    /// Sum of the archive, of which all bytes were given.
    ///
    /// # Errors
    /// It ends too early, or its parts do not belong together.
    pub(super) fn finish(self) -> Result<Contents, BackupError> {
        let state = self.state.filter(|_| self.is_over && self.archive.is_between());
        let (taken, state) = state.ok_or_else(|| BackupError::Other("it ends too early".into()))?;
        let last = state["last_seq"].as_u64().unwrap_or_default();
        let consumers = state["consumer_count"].as_u64().unwrap_or_default();
        if self.last > last || consumers != self.consumers.len() as u64 {
            return Err(BackupError::Other(
                "its state.json is not that of its messages and consumers".into(),
            ));
        }
        let (messages, first) = (self.messages, self.first.unwrap_or(last + 1));
        let digest = hexadecimal(&self.all.finalize());
        Ok(Contents { taken, messages, first, last, digest, consumers: self.consumers })
    }
}

/// Error of the archive in words that tell damage from another format.
fn damaged(error: ArchiveError) -> BackupError {
    BackupError::Other(match error {
        ArchiveError::Frames(error) => format!("it is damaged: {error}"),
        ArchiveError::Invalid => {
            "it is damaged, or an archive of the kind before nats-server 2.15, which `nats stream restore` takes"
                .into()
        }
        ArchiveError::TooLarge(seq) => format!("it is damaged: message {seq} is too large"),
    })
}

fn state(entry: &ArchiveEntry<'_>) -> Result<Value, BackupError> {
    let state = serde_json::from_slice(entry.payload).ok().filter(|_| entry.name == archive::STATE);
    state.ok_or_else(|| BackupError::Other("it does not begin with the stream's state".into()))
}

fn consumer(entry: &ArchiveEntry<'_>) -> Result<(String, ArchivedProgress), BackupError> {
    let broken = || BackupError::Other("an entry is neither a message nor a consumer".into());
    let name = entry.name.strip_prefix(archive::CONSUMERS).ok_or_else(broken)?;
    let name = String::from_utf8(name.to_vec()).map_err(|_| broken())?;
    let whole: Value = serde_json::from_slice(entry.payload).map_err(|_| broken())?;
    let state = &whole["state"];
    let pair = |name: &str| {
        let number = |part: &str| state[name][part].as_u64().unwrap_or_default();
        (number("consumer_seq"), number("stream_seq"))
    };
    let pending = state["pending"].as_object();
    // The order in which a server writes these is its own.
    let sorted = |name: &str| {
        let entries = state[name].as_object().into_iter().flatten();
        entries
            .filter_map(|(seq, value)| Some((seq.parse().ok()?, value.to_string())))
            .collect::<BTreeMap<u64, String>>()
    };
    let all = format!("{:?}{:?}", sorted("pending"), sorted("redelivered"));
    let consumer = ArchivedProgress {
        config: whole["config"].clone(),
        delivered: pair("delivered"),
        ack_floor: pair("ack_floor"),
        pending: pending.map_or(0, |pending| pending.len() as u64),
        sha256: Sha256::digest(all).into(),
    };
    Ok((name, consumer))
}

fn digest(entry: &ArchiveEntry<'_>) -> MessageDigest {
    let mut hash = Sha256::new();
    hash.update(entry.sequence.to_be_bytes());
    hash.update(entry.timestamp.to_be_bytes());
    for part in [entry.name, entry.headers, entry.payload] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let bytes = (entry.name.len() + entry.headers.len() + entry.payload.len()) as u64;
    MessageDigest { sequence: entry.sequence, bytes, sha256: hash.finalize().into() }
}

/// Bytes in hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use myelin_natsfiles::frames::FrameWriter;

    /// An archive of messages `(sequence, payload)`, and with an end if it `is_whole`.
    pub(crate) fn packed(messages: &[(u64, &str)], consumers: &[(&str, &str)], is_whole: bool) -> Vec<u8> {
        let mut bytes = archive::MAGIC.to_vec();
        let mut put = |name: &[u8], time, seq, data: &[u8]| {
            archive::put_head(&mut bytes, name, time, seq, 0, data.len());
            bytes.extend_from_slice(data);
        };
        let last = messages.last().map_or(0, |(seq, _)| *seq);
        let state = format!(r#"{{"last_seq":{last},"consumer_count":{}}}"#, consumers.len());
        put(archive::STATE, 5, 0, state.as_bytes());
        for (name, entry) in consumers {
            put(format!("consumers/{name}").as_bytes(), 5, 0, entry.as_bytes());
        }
        for (seq, payload) in messages {
            put(b"s.x", 7, *seq, payload.as_bytes());
        }
        if is_whole {
            put(b"", 0, 0, b"");
        }
        let mut writer = FrameWriter::default();
        writer.write(&bytes);
        writer.flush();
        writer.out
    }

    fn read(bytes: &[u8]) -> Result<Contents, BackupError> {
        let mut reader = ContentsReader::default();
        for piece in bytes.chunks(13) {
            reader.feed(piece, &mut |_| Ok(()))?;
        }
        reader.finish()
    }

    #[test]
    fn a_digest_is_that_of_what_messages_are() {
        let one = read(&packed(&[(1, "a"), (3, "b")], &[], true)).unwrap();
        assert_eq!((one.messages, one.first, one.last), (2, 1, 3));
        // Made by another program, after the words at the head of this file.
        assert_eq!(one.digest, "97abdd17505de8ef8bd3abfdbc8576e2015daa97ed44038f842b93b0550e8b4c");
        for other in [&[(1, "a"), (3, "c")][..], &[(1, "a"), (4, "b")], &[(1, "a")], &[(1, "ab")]] {
            assert_ne!(read(&packed(other, &[], true)).unwrap().digest, one.digest);
        }
    }

    #[test]
    fn what_is_cut_or_changed_is_told() {
        let told = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(told(&packed(&[(1, "a")], &[], false)).contains("ends too early"));
        let whole = packed(&[(1, "a")], &[], true);
        assert!(told(&whole[..whole.len() - 3]).contains("ends too early"));
        let mut hurt = whole.clone();
        let at = hurt.len() - 3;
        hurt[at] ^= 1;
        assert!(told(&hurt).contains("damaged"));
        assert!(told(&packed(&[(2, "a"), (2, "b")], &[], true)).contains("stands behind"));
        assert!(told(b"some text that is no archive").contains("damaged"));
    }

    #[test]
    fn consumers_are_equal_whatever_the_order_of_what_they_await() {
        let entry = |pending: &str| {
            format!(
                r#"{{"config":{{"name":"C"}},"state":{{"delivered":{{"consumer_seq":2,"stream_seq":3}},"pending":{pending}}}}}"#
            )
        };
        let of = |pending: &str| {
            let all = read(&packed(&[(3, "a")], &[("C", &entry(pending))], true)).unwrap();
            all.consumers["C"].clone()
        };
        let one = of(r#"{"1":{"Sequence":1},"3":{"Sequence":2}}"#);
        assert_eq!((one.delivered, one.ack_floor, one.pending), ((2, 3), (0, 0), 2));
        assert_eq!(one, of(r#"{"3":{"Sequence":2},"1":{"Sequence":1}}"#));
        assert_ne!(one, of(r#"{"2":{"Sequence":1},"3":{"Sequence":2}}"#));
    }
}
