//! A backup as nats-server made them before 2.15: its store's files in a tar, blocks first and what
//! describes them around.

use super::backup_reader::{Described, RestoreError, RestoreProgress, RestoreTarget, add_consumer};
use super::meta_inf;
use super::records::{BlockEnd, BlockReplay};
use super::stream_builder::{BuiltStream, StreamBuilder};
use myelin_jsapi::config::StreamConfig;
use myelin_natsfiles::block::{Record, Records};
use myelin_natsfiles::consumer::NatsConsumerState;
use myelin_natsfiles::frames::FrameReader;
use myelin_natsfiles::hash::Hasher;
use myelin_natsfiles::index::NatsIndex;
use myelin_natsfiles::tar::{TarFile, TarReader};
use myelin_store::{Seq, Timestamp};
use std::collections::BTreeMap;

/// Bytes of the stream's description, at most.
const LARGEST_DESCRIPTION: usize = 16 << 20;

/// Number of notes about one backup, and how long each may be, in characters.
const MOST_NOTES: usize = 100;
const LONGEST_NOTE: usize = 1000;

/// Reader of a backup that was made before nats-server 2.15.
pub(super) struct TarBackupReader {
    files: TarReader,
    stream: Option<(StreamConfig, Option<Timestamp>)>,
    /// Its description, until the checksum comes.
    unchecked: Option<Vec<u8>>,
    /// Parts that are not as they were, or not there.
    left: Vec<String>,
    replay: BlockReplay,
    /// Of each consumer: description, checksum, state.
    consumers: BTreeMap<String, [Vec<u8>; 3]>,
    described: Described,
}

impl TarBackupReader {
    pub(super) fn new(frames: FrameReader) -> Self {
        Self {
            files: TarReader::new(frames),
            stream: None,
            unchecked: None,
            left: Vec::new(),
            replay: BlockReplay::default(),
            consumers: BTreeMap::new(),
            described: Described::default(),
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.files.feed(bytes);
    }

    /// Bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.files.held() + self.described.bytes() + self.unchecked.as_ref().map_or(0, Vec::len)
    }

    pub(super) fn work(
        &mut self,
        builder: &mut Option<StreamBuilder>,
        target: &mut dyn RestoreTarget,
        budget: usize,
        now: Timestamp,
    ) -> Result<RestoreProgress, RestoreError> {
        let mut left = budget;
        loop {
            let Some(TarFile { name, data }) =
                self.files.next(&mut left).map_err(|error| RestoreError::Other(error.to_string()))?
            else {
                return Ok(match self.files.is_over() {
                    true => RestoreProgress::Whole,
                    false if left == 0 => RestoreProgress::More,
                    false => RestoreProgress::Hungry,
                });
            };
            let parts: Vec<&str> = name.split('/').collect();
            match parts[..] {
                ["meta.inf"] if data.len() <= LARGEST_DESCRIPTION => {
                    let (config, created) = meta_inf::stream(data)?;
                    if config.name != target.name() {
                        return Err(RestoreError::Other("stream names do not match".to_owned()));
                    }
                    self.stream = Some((config, created));
                    self.unchecked = Some(data.to_vec());
                }
                ["meta.sum"] => {
                    let name = self.stream.as_ref().map_or("", |(config, _)| &config.name);
                    let meta = self.unchecked.take().unwrap_or_default();
                    if !Hasher::new(name).is_sum_of(&meta, data) {
                        note(&mut self.left, "meta.inf does not match its checksum");
                    }
                }
                ["msgs", file] => {
                    let Some((config, _)) = &self.stream else {
                        return Err(RestoreError::Other(
                            "expected the stream's description first".to_owned(),
                        ));
                    };
                    let name = config.name.clone();
                    if file == "index.db" {
                        if let (Some(index), Some(builder)) =
                            (NatsIndex::read(data, &name, None), builder.as_mut())
                        {
                            self.replay.apply_index(&index, builder, now)?;
                        }
                    } else if let Some(number) = file.strip_suffix(".blk").and_then(|n| n.parse().ok()) {
                        if builder.is_none() {
                            *builder = Some(target.open(first_of(data, &name, number), 0)?);
                        }
                        if let Some(builder) = builder {
                            let read =
                                self.replay.block(data, (&name, number), None, builder, target, now)?;
                            if let BlockEnd::Cut(bad) = read {
                                note(&mut self.left, format!("the end of block {number}.blk: {bad}"));
                            }
                        }
                    }
                }
                ["obs", consumer, file] => {
                    let kind = ["meta.inf", "meta.sum", "o.dat"].iter().position(|kind| *kind == file);
                    self.described.add(data.len() + consumer.len())?;
                    if let Some(kind) = kind {
                        self.consumers.entry(consumer.to_owned()).or_default()[kind] = data.to_vec();
                    }
                }
                // What the server could not read when it made the backup: there may be no other
                // one.
                ["errors.txt"] => note(&mut self.left, String::from_utf8_lossy(data)),
                _ => return Err(RestoreError::Other(format!("unexpected content {name:?}"))),
            }
            if left == 0 {
                return Ok(RestoreProgress::More);
            }
        }
    }

    pub(super) fn finish(
        mut self,
        builder: Option<StreamBuilder>,
        target: &mut dyn RestoreTarget,
        now: Timestamp,
    ) -> Result<BuiltStream, (Option<Box<StreamBuilder>>, RestoreError)> {
        let truncated = || RestoreError::Other("unexpected EOF".to_owned());
        if !self.files.is_over() {
            return Err((builder.map(Box::new), truncated()));
        }
        let Some((_, created)) = self.stream.take() else {
            return Err((builder.map(Box::new), truncated()));
        };
        let builder = match builder {
            Some(builder) => Ok(builder),
            None => target.open(1, 0),
        };
        let mut builder = builder.map_err(|fault| (None, fault))?;
        if let Some(created) = created {
            builder.set_created(created);
        }
        if let Err(fault) = self.add_consumers(&mut builder, target, now) {
            return Err((Some(Box::new(builder)), fault));
        }
        let built = builder.finish(self.replay.last, now);
        let built = built.map_err(|(builder, why)| (Some(builder), RestoreError::Other(why)))?;
        Ok(BuiltStream { left: self.left, ..built })
    }

    fn add_consumers(
        &mut self,
        builder: &mut StreamBuilder,
        target: &mut dyn RestoreTarget,
        now: Timestamp,
    ) -> Result<(), RestoreError> {
        let stream = builder.config().name.clone();
        for (name, [meta, sum, state]) in std::mem::take(&mut self.consumers) {
            let failed =
                |why: String| RestoreError::Other(format!("error restoring consumer [{name:?}]: {why}"));
            if meta.is_empty() || sum.is_empty() {
                return Err(failed("its description is not whole".to_owned()));
            }
            if !Hasher::new(&format!("{stream}/{name}")).is_sum_of(&meta, &sum) {
                note(&mut self.left, format!("meta.inf of consumer {name:?} does not match its checksum"));
            }
            let (config, created) = meta_inf::consumer(&meta).map_err(failed)?;
            let state = if state.is_empty() {
                None
            } else {
                Some(NatsConsumerState::read(&state).ok_or_else(|| failed("corrupt state".to_owned()))?)
            };
            let state = meta_inf::state(state).map_err(failed)?;
            add_consumer(&name, config, state, created.unwrap_or(now), builder, target)?;
        }
        Ok(())
    }
}

/// Keeps what an operator should know, within reason.
fn note(left: &mut Vec<String>, why: impl AsRef<str>) {
    if left.len() < MOST_NOTES {
        // It goes to the log, and not all of it is ours.
        left.push(why.as_ref().escape_debug().take(LONGEST_NOTE).collect());
    }
}

/// Where a stream begins whose first block this is.
pub(super) fn first_of(block: &[u8], stream: &str, number: u32) -> Seq {
    let mut first = 1;
    for record in Records::new(block, stream, number).map_while(Result::ok) {
        match record {
            Record::Message { seq, .. } => return seq,
            Record::Nothing(seq) | Record::Deleted(seq) => first = first.max(seq.saturating_add(1)),
        }
    }
    first
}
