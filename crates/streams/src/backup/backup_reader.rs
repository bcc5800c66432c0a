//! A backup that comes in pieces, and the stream that it becomes.
//!
//! Which of the two formats it has shows in its first bytes. Work is done in slices, so that
//! whoever lends a thread gets it back: a few bytes may decompress to millions. What a backup may
//! take is asked of the [`RestoreTarget`] before it is stored.

use super::state::{ArchivedConsumer, StreamSummary};
use super::stream_builder::{RestoredMessage, StreamBuilder};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_natsfiles::archive::{self, ArchiveEntry, ArchiveError, ArchiveReader};
use myelin_natsfiles::frames::{FrameError, FrameReader};
use myelin_store::{Seq, Timestamp};
use std::fmt;

/// Bytes of descriptions of consumers, of all together, at most; [`CONSUMER`] for each beside what
/// is written of it.
const MOST_DESCRIBED: usize = 256 << 20;
/// About what a consumer takes besides what it awaits.
const CONSUMER: usize = 2 << 10;

/// Why a backup is not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// Error of the API.
    Api(ApiError),
    /// Anything else.
    Other(String),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => error.fmt(f),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl From<ApiError> for RestoreError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<String> for RestoreError {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl From<FrameError> for RestoreError {
    fn from(error: FrameError) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<ArchiveError> for RestoreError {
    fn from(error: ArchiveError) -> Self {
        Self::Other(error.to_string())
    }
}

/// Target of a restore: decides what the backup may take, and where it goes.
pub trait RestoreTarget {
    /// Name of the stream.
    fn name(&self) -> &str;

    /// Bytes that a message may have, with its headers.
    fn largest(&self) -> usize;

    /// Makes the stream, which will begin at `first` and is said to have so many bytes.
    ///
    /// # Errors
    /// There must not be such a stream.
    fn open(&mut self, first: Seq, bytes: u64) -> Result<StreamBuilder, RestoreError>;

    /// Decides about a consumer: what its configuration becomes.
    ///
    /// # Errors
    /// There must not be such a consumer.
    fn consumer(
        &mut self,
        stream: &StreamConfig,
        config: ConsumerConfig,
    ) -> Result<ConsumerConfig, RestoreError>;

    /// Whether there is room for so many bytes of this stream.
    ///
    /// # Errors
    /// There is not.
    fn admit(&mut self, bytes: u64) -> Result<(), RestoreError>;
}

/// Progress of a restore after a slice of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreProgress {
    /// More pieces must come.
    Hungry,
    /// There is more to do with what has come.
    More,
    /// The backup is whole.
    Whole,
}

enum BackupFormat {
    /// Format that the first bytes must show.
    Unknown(FrameReader),
    Archive(ArchiveReader, Expected),
    Tar(Box<super::tar::TarBackupReader>),
}

/// Part of an archive that comes next.
#[derive(Clone, Copy)]
enum Expected {
    State,
    /// A number of consumers, then messages.
    Consumers(i64, StreamSummary),
    Messages(StreamSummary),
    /// Nothing that matters.
    Nothing(StreamSummary),
}

/// Reader of a backup that comes in pieces, in either format.
pub struct BackupReader {
    format: BackupFormat,
    builder: Option<StreamBuilder>,
    described: Described,
}

/// Length of what was said of consumers so far. A few bytes of a compressed backup may be any
/// number of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Described(usize);

impl Described {
    /// Counts so many bytes more of one.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), RestoreError> {
        self.0 = self.0.saturating_add(bytes.saturating_add(CONSUMER));
        if self.0 > MOST_DESCRIBED {
            return Err(RestoreError::Other("the backup's consumers are too large".to_owned()));
        }
        Ok(())
    }

    /// Bytes so far.
    pub(super) fn bytes(self) -> usize {
        self.0
    }
}

impl Default for BackupReader {
    fn default() -> Self {
        Self {
            format: BackupFormat::Unknown(FrameReader::default()),
            builder: None,
            described: Described::default(),
        }
    }
}

impl BackupReader {
    /// Takes the next piece. All work should be done with one before the next is given.
    pub fn feed(&mut self, bytes: &[u8]) {
        match &mut self.format {
            BackupFormat::Unknown(frames) => frames.feed(bytes),
            BackupFormat::Archive(reader, _) => reader.feed(bytes),
            BackupFormat::Tar(tar) => tar.feed(bytes),
        }
    }

    /// Does about `budget` bytes of work.
    ///
    /// # Errors
    /// The backup cannot be restored.
    pub fn work(
        &mut self,
        target: &mut dyn RestoreTarget,
        budget: usize,
        now: Timestamp,
    ) -> Result<RestoreProgress, RestoreError> {
        if let BackupFormat::Unknown(frames) = &mut self.format {
            let first = frames.fill()?;
            if first.is_empty() {
                return Ok(RestoreProgress::Hungry);
            }
            let is_archive = first.starts_with(archive::MAGIC);
            let frames = std::mem::take(frames);
            self.format = if is_archive {
                BackupFormat::Archive(ArchiveReader::new(frames, target.largest()), Expected::State)
            } else {
                BackupFormat::Tar(Box::new(super::tar::TarBackupReader::new(frames)))
            };
        }
        let described = &mut self.described;
        match &mut self.format {
            BackupFormat::Unknown(_) => Ok(RestoreProgress::Hungry),
            BackupFormat::Tar(tar) => tar.work(&mut self.builder, target, budget, now),
            BackupFormat::Archive(reader, expected) => {
                let mut left = budget;
                loop {
                    if let Expected::Nothing(_) = expected {
                        return Ok(RestoreProgress::Whole);
                    }
                    let Some(entry) = reader.next(&mut left)? else {
                        return Ok(if left == 0 { RestoreProgress::More } else { RestoreProgress::Hungry });
                    };
                    take(&entry, expected, &mut self.builder, described, target, now)?;
                    if left == 0 {
                        return Ok(RestoreProgress::More);
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
        target: &mut dyn RestoreTarget,
        now: Timestamp,
    ) -> Result<super::stream_builder::BuiltStream, (Option<Box<StreamBuilder>>, RestoreError)> {
        // Compat: the reference's words for a source that ends too early.
        let truncated = |why: &str| RestoreError::Other(why.to_owned());
        let last = match self.format {
            BackupFormat::Archive(_, Expected::Nothing(summary)) => summary.last_seq,
            BackupFormat::Archive(reader, _) if reader.is_between() => {
                return Err((self.builder.map(Box::new), truncated("EOF")));
            }
            BackupFormat::Archive(..) => {
                return Err((self.builder.map(Box::new), ArchiveError::Invalid.into()));
            }
            BackupFormat::Unknown(frames) => {
                let fault = frames.finish().map_or_else(RestoreError::from, |()| truncated("EOF"));
                return Err((self.builder.map(Box::new), fault));
            }
            BackupFormat::Tar(tar) => return tar.finish(self.builder, target, now),
        };
        let Some(builder) = self.builder else {
            return Err((None, truncated("backup was truncated")));
        };
        builder.finish(last, now).map_err(|(builder, why)| (Some(builder), RestoreError::Other(why)))
    }

    /// Bytes that are held for what is not stored yet.
    #[must_use]
    pub fn held(&self) -> usize {
        let format = match &self.format {
            BackupFormat::Unknown(frames) => frames.held(),
            BackupFormat::Archive(reader, _) => reader.held(),
            BackupFormat::Tar(tar) => tar.held(),
        };
        format + self.described.bytes()
    }

    /// Gives up and returns what has been built so far, to be removed.
    #[must_use]
    pub fn into_builder(self) -> Option<Box<StreamBuilder>> {
        self.builder.map(Box::new)
    }
}

fn take(
    entry: &ArchiveEntry<'_>,
    expected: &mut Expected,
    builder: &mut Option<StreamBuilder>,
    described: &mut Described,
    target: &mut dyn RestoreTarget,
    now: Timestamp,
) -> Result<(), RestoreError> {
    match (*expected, builder) {
        (Expected::State, builder) => {
            if entry.name != archive::STATE {
                return Err("expected state.json first".to_owned().into());
            }
            let summary = StreamSummary::read(entry.payload)?;
            *builder = Some(target.open(summary.first_seq, summary.bytes)?);
            *expected = match summary.consumers {
                0 => Expected::Messages(summary),
                count => Expected::Consumers(count, summary),
            };
        }
        (Expected::Consumers(count, summary), Some(builder)) => {
            described.add(entry.name.len() + entry.payload.len())?;
            take_consumer(entry, builder, target, now)?;
            *expected = if count == 1 {
                Expected::Messages(summary)
            } else {
                Expected::Consumers(count - 1, summary)
            };
        }
        (Expected::Messages(summary), Some(builder)) => {
            if entry.is_end() {
                *expected = Expected::Nothing(summary);
                return Ok(());
            }
            if entry.sequence == 0 {
                return Err("expected message sequence".to_owned().into());
            }
            let ArchiveEntry { name: subject, timestamp, sequence: seq, headers, payload } = *entry;
            check_message(seq, subject)?;
            builder.push(RestoredMessage { seq, timestamp, subject, headers, payload }, now)?;
            target.admit(builder.stored_bytes())?;
        }
        (Expected::Nothing(_) | Expected::Consumers(..) | Expected::Messages(_), _) => {}
    }
    Ok(())
}

fn take_consumer(
    entry: &ArchiveEntry<'_>,
    builder: &mut StreamBuilder,
    target: &mut dyn RestoreTarget,
    now: Timestamp,
) -> Result<(), RestoreError> {
    let shown = String::from_utf8_lossy(entry.name).into_owned();
    let Some(name) = shown.strip_prefix("consumers/") else {
        return Err(format!("expected consumer, found {shown:?}").into());
    };
    let ArchivedConsumer { config, state } = ArchivedConsumer::read(name, entry.payload)?;
    add_consumer(name, config, state, now, builder, target)
}

/// Adds a consumer under the name that the backup gives it.
pub(super) fn add_consumer(
    name: &str,
    mut config: ConsumerConfig,
    state: myelin_store::consumer::ConsumerState,
    created: Timestamp,
    builder: &mut StreamBuilder,
    target: &mut dyn RestoreTarget,
) -> Result<(), RestoreError> {
    let failed = |why: String| RestoreError::Other(format!("failed to add consumer {name:?}: {why}"));
    if !myelin_jsapi::config::is_asset_name(name) || (!config.name.is_empty() && config.name != name) {
        return Err(failed("its name is not the one that it is filed under".to_owned()));
    }
    name.clone_into(&mut config.name);
    let places = config.places;
    let config = target.consumer(builder.config(), config).map_err(|fault| failed(fault.to_string()))?;
    let config = ConsumerConfig { places, ..config };
    builder.add_consumer(&config, created, state).map_err(failed)
}

/// Whether a message can be stored and shown.
pub(super) fn check_message(seq: Seq, subject: &[u8]) -> Result<(), RestoreError> {
    // Whatever clients may publish to, and nothing that would not fit on the line that it is shown
    // in.
    let is_subject = subject.len() <= usize::from(u16::MAX)
        && subject.split(|byte| *byte == b'.').all(|token| !token.is_empty())
        && !subject.iter().any(|byte| matches!(byte, 0 | b' ' | b'\t' | b'\r' | b'\n'));
    if !is_subject {
        return Err(format!("message sequence {seq} has an invalid subject").into());
    }
    Ok(())
}
