//! A backup that comes in pieces, and the stream that it becomes.
//!
//! Which of the two formats it has shows in its first bytes. Work is done in slices, so that whoever lends a thread gets it
//! back: a few bytes may decompress to millions. What a backup may take is asked of the [`Target`] before it is stored.

use super::filling::{Filling, Kept};
use super::state::{ArchivedConsumer, StreamSummary};
use crate::config::StreamConfig;
use crate::consumer::config::ConsumerConfig;
use crate::error::ApiError;
use myelin_store::nats::archive::{self, ArchiveError, ArchiveReader, Entry};
use myelin_store::nats::frames::{FrameError, FrameReader};
use myelin_store::{Seq, Timestamp};
use std::fmt;

/// Bytes of descriptions of consumers, of all together, at most; [`CONSUMER`] for each beside what is written of it.
const MOST_DESCRIBED: usize = 256 << 20;
/// About what a consumer takes besides what it awaits.
const CONSUMER: usize = 2 << 10;

/// Why a backup is not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What the API says of it.
    Api(ApiError),
    /// Anything else.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => error.fmt(f),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl From<ApiError> for Fault {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<ArchiveError> for Fault {
    fn from(error: ArchiveError) -> Self {
        Self::Other(error.to_string())
    }
}

/// Who takes a backup in.
pub trait Target {
    /// What the stream is called.
    fn name(&self) -> &str;

    /// Bytes that a message may have, with its headers.
    fn largest(&self) -> usize;

    /// Makes the stream, which will begin at `first` and is said to have so many bytes.
    ///
    /// # Errors
    /// There must not be such a stream.
    fn open(&mut self, first: Seq, bytes: u64) -> Result<Filling, Fault>;

    /// Decides about a consumer: what its configuration becomes.
    ///
    /// # Errors
    /// There must not be such a consumer.
    fn consumer(&mut self, stream: &StreamConfig, config: ConsumerConfig) -> Result<ConsumerConfig, Fault>;

    /// Whether there is room for so many bytes of this stream.
    ///
    /// # Errors
    /// There is not.
    fn admit(&mut self, bytes: u64) -> Result<(), Fault>;
}

/// What the last slice of work has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More pieces must come.
    Hungry,
    /// There is more to do with what has come.
    More,
    /// The backup is whole.
    Whole,
}

enum Reading {
    /// What it is must show.
    Unknown(FrameReader),
    Archive(ArchiveReader, Expected),
    Tar(Box<super::tar::TarIntake>),
}

/// What comes next in an archive.
#[derive(Clone, Copy)]
enum Expected {
    State,
    /// So many of these, then messages.
    Consumers(i64, StreamSummary),
    Messages(StreamSummary),
    /// Nothing that matters.
    Nothing(StreamSummary),
}

/// See the head of this file.
pub struct Intake {
    reading: Reading,
    filling: Option<Filling>,
    described: Described,
}

/// What was said of consumers so far. A few bytes of a compressed backup may be any number of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Described(usize);

impl Described {
    /// Counts so many bytes more of one.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), Fault> {
        self.0 = self.0.saturating_add(bytes.saturating_add(CONSUMER));
        if self.0 > MOST_DESCRIBED {
            return Err(Fault::Other("the backup's consumers are too large".to_owned()));
        }
        Ok(())
    }

    /// Bytes so far.
    pub(super) fn bytes(self) -> usize {
        self.0
    }
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            reading: Reading::Unknown(FrameReader::default()),
            filling: None,
            described: Described::default(),
        }
    }
}

impl Intake {
    /// Takes the next piece. All work should be done with one before the next is given.
    pub fn feed(&mut self, bytes: &[u8]) {
        match &mut self.reading {
            Reading::Unknown(frames) => frames.feed(bytes),
            Reading::Archive(reader, _) => reader.feed(bytes),
            Reading::Tar(tar) => tar.feed(bytes),
        }
    }

    /// Does about `budget` bytes of work.
    ///
    /// # Errors
    /// The backup cannot be restored.
    pub fn work(
        &mut self,
        target: &mut dyn Target,
        budget: usize,
        now: Timestamp,
    ) -> Result<Progress, Fault> {
        if let Reading::Unknown(frames) = &mut self.reading {
            let first = frames.fill()?;
            if first.is_empty() {
                return Ok(Progress::Hungry);
            }
            let is_archive = first.starts_with(archive::MAGIC);
            let frames = std::mem::take(frames);
            self.reading = if is_archive {
                Reading::Archive(ArchiveReader::new(frames, target.largest()), Expected::State)
            } else {
                Reading::Tar(Box::new(super::tar::TarIntake::new(frames)))
            };
        }
        let described = &mut self.described;
        match &mut self.reading {
            Reading::Unknown(_) => Ok(Progress::Hungry),
            Reading::Tar(tar) => tar.work(&mut self.filling, target, budget, now),
            Reading::Archive(reader, expected) => {
                let mut left = budget;
                loop {
                    if let Expected::Nothing(_) = expected {
                        return Ok(Progress::Whole);
                    }
                    let Some(entry) = reader.next(&mut left)? else {
                        return Ok(if left == 0 { Progress::More } else { Progress::Hungry });
                    };
                    take(&entry, expected, &mut self.filling, described, target, now)?;
                    if left == 0 {
                        return Ok(Progress::More);
                    }
                }
            }
        }
    }

    /// No more comes: the stream, if it is whole. `Err` has what must be removed.
    ///
    /// # Errors
    /// It is not, or the store does not take the rest.
    pub fn finish(
        self,
        target: &mut dyn Target,
        now: Timestamp,
    ) -> Result<super::filling::Filled, (Option<Box<Filling>>, Fault)> {
        // Compat: the reference's words for a source that ends too early.
        let truncated = |why: &str| Fault::Other(why.to_owned());
        let last = match self.reading {
            Reading::Archive(_, Expected::Nothing(summary)) => summary.last_seq,
            Reading::Archive(reader, _) if reader.is_between() => {
                return Err((self.filling.map(Box::new), truncated("EOF")));
            }
            Reading::Archive(..) => return Err((self.filling.map(Box::new), ArchiveError::Invalid.into())),
            Reading::Unknown(frames) => {
                let fault = frames.finish().map_or_else(Fault::from, |()| truncated("EOF"));
                return Err((self.filling.map(Box::new), fault));
            }
            Reading::Tar(tar) => return tar.finish(self.filling, target, now),
        };
        let Some(filling) = self.filling else {
            return Err((None, truncated("backup was truncated")));
        };
        filling.finish(last, now).map_err(|(filling, why)| (Some(filling), Fault::Other(why)))
    }

    /// Bytes that are held for what is not stored yet.
    #[must_use]
    pub fn held(&self) -> usize {
        let reading = match &self.reading {
            Reading::Unknown(frames) => frames.held(),
            Reading::Archive(reader, _) => reader.held(),
            Reading::Tar(tar) => tar.held(),
        };
        reading + self.described.bytes()
    }

    /// What has been made so far, to be removed.
    #[must_use]
    pub fn into_filling(self) -> Option<Box<Filling>> {
        self.filling.map(Box::new)
    }
}

fn take(
    entry: &Entry<'_>,
    expected: &mut Expected,
    filling: &mut Option<Filling>,
    described: &mut Described,
    target: &mut dyn Target,
    now: Timestamp,
) -> Result<(), Fault> {
    match (*expected, filling) {
        (Expected::State, filling) => {
            if entry.name != archive::STATE {
                return Err("expected state.json first".to_owned().into());
            }
            let summary = StreamSummary::read(entry.payload)?;
            *filling = Some(target.open(summary.first_seq, summary.bytes)?);
            *expected = match summary.consumers {
                0 => Expected::Messages(summary),
                count => Expected::Consumers(count, summary),
            };
        }
        (Expected::Consumers(count, summary), Some(filling)) => {
            described.add(entry.name.len() + entry.payload.len())?;
            take_consumer(entry, filling, target, now)?;
            *expected = if count == 1 {
                Expected::Messages(summary)
            } else {
                Expected::Consumers(count - 1, summary)
            };
        }
        (Expected::Messages(summary), Some(filling)) => {
            if entry.is_end() {
                *expected = Expected::Nothing(summary);
                return Ok(());
            }
            if entry.sequence == 0 {
                return Err("expected message sequence".to_owned().into());
            }
            let Entry { name: subject, timestamp, sequence: seq, headers, payload } = *entry;
            check_message(seq, subject)?;
            filling.push(Kept { seq, timestamp, subject, headers, payload }, now)?;
            target.admit(filling.stored_bytes())?;
        }
        (Expected::Nothing(_) | Expected::Consumers(..) | Expected::Messages(_), _) => {}
    }
    Ok(())
}

fn take_consumer(
    entry: &Entry<'_>,
    filling: &mut Filling,
    target: &mut dyn Target,
    now: Timestamp,
) -> Result<(), Fault> {
    let shown = String::from_utf8_lossy(entry.name).into_owned();
    let Some(name) = shown.strip_prefix("consumers/") else {
        return Err(format!("expected consumer, found {shown:?}").into());
    };
    let ArchivedConsumer { config, state } = ArchivedConsumer::read(name, entry.payload)?;
    add_consumer(name, config, state, now, filling, target)
}

/// Adds a consumer under the name that the backup gives it.
pub(super) fn add_consumer(
    name: &str,
    mut config: ConsumerConfig,
    state: myelin_store::consumer::ConsumerState,
    created: Timestamp,
    filling: &mut Filling,
    target: &mut dyn Target,
) -> Result<(), Fault> {
    let failed = |why: String| Fault::Other(format!("failed to add consumer {name:?}: {why}"));
    if !crate::config::is_asset_name(name) || (!config.name.is_empty() && config.name != name) {
        return Err(failed("its name is not the one that it is filed under".to_owned()));
    }
    name.clone_into(&mut config.name);
    let config = target.consumer(filling.config(), config).map_err(|fault| failed(fault.to_string()))?;
    filling.add_consumer(&config, created, state).map_err(failed)
}

/// Whether a message can be stored and shown.
pub(super) fn check_message(seq: Seq, subject: &[u8]) -> Result<(), Fault> {
    // Whatever clients may publish to, and nothing that would not fit on the line that it is shown in.
    let is_subject = subject.len() <= usize::from(u16::MAX)
        && subject.split(|byte| *byte == b'.').all(|token| !token.is_empty())
        && !subject.iter().any(|byte| matches!(byte, 0 | b' ' | b'\t' | b'\r' | b'\n'));
    if !is_subject {
        return Err(format!("message sequence {seq} has an invalid subject").into());
    }
    Ok(())
}
