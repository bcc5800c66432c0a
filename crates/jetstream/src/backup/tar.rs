//! A backup as nats-server made them before 2.15: its store's files in a tar, blocks first and what describes them around.

use super::describe;
use super::filling::{Filled, Filling};
use super::intake::{Described, Fault, Progress, Target, add_consumer};
use super::records::{Read, Replay};
use crate::config::StreamConfig;
use myelin_store::nats::block::{Record, Records};
use myelin_store::nats::consumer::State;
use myelin_store::nats::frames::FrameReader;
use myelin_store::nats::hash::Hasher;
use myelin_store::nats::index::Index;
use myelin_store::nats::tar::{TarFile, TarReader};
use myelin_store::{Seq, Timestamp};
use std::collections::BTreeMap;

/// Bytes of the stream's description, at most.
const LARGEST_DESCRIPTION: usize = 16 << 20;

/// What is told of one backup, and how long each may be, in characters.
const MOST_NOTES: usize = 100;
const LONGEST_NOTE: usize = 1000;

/// See the head of this file.
pub(super) struct TarIntake {
    files: TarReader,
    stream: Option<(StreamConfig, Option<Timestamp>)>,
    /// Its description, until the checksum comes.
    unchecked: Option<Vec<u8>>,
    /// What is not as it was, or not there.
    left: Vec<String>,
    replay: Replay,
    /// Of each consumer: description, checksum, state.
    consumers: BTreeMap<String, [Vec<u8>; 3]>,
    described: Described,
}

impl TarIntake {
    pub(super) fn new(frames: FrameReader) -> Self {
        Self {
            files: TarReader::new(frames),
            stream: None,
            unchecked: None,
            left: Vec::new(),
            replay: Replay::default(),
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
        filling: &mut Option<Filling>,
        target: &mut dyn Target,
        budget: usize,
        now: Timestamp,
    ) -> Result<Progress, Fault> {
        let mut left = budget;
        loop {
            let Some(TarFile { name, data }) =
                self.files.next(&mut left).map_err(|error| Fault::Other(error.to_string()))?
            else {
                return Ok(match self.files.is_over() {
                    true => Progress::Whole,
                    false if left == 0 => Progress::More,
                    false => Progress::Hungry,
                });
            };
            let parts: Vec<&str> = name.split('/').collect();
            match parts[..] {
                ["meta.inf"] if data.len() <= LARGEST_DESCRIPTION => {
                    let (config, created) = describe::stream(data)?;
                    if config.name != target.name() {
                        return Err(Fault::Other("stream names do not match".to_owned()));
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
                        return Err(Fault::Other("expected the stream's description first".to_owned()));
                    };
                    let name = config.name.clone();
                    if file == "index.db" {
                        if let (Some(index), Some(filling)) =
                            (Index::read(data, &name, None), filling.as_mut())
                        {
                            self.replay.settle(&index, filling, now)?;
                        }
                    } else if let Some(number) = file.strip_suffix(".blk").and_then(|n| n.parse().ok()) {
                        if filling.is_none() {
                            *filling = Some(target.open(first_of(data, &name, number), 0)?);
                        }
                        if let Some(filling) = filling {
                            let read =
                                self.replay.block(data, (&name, number), None, filling, target, now)?;
                            if let Read::Cut(bad) = read {
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
                // What the server could not read when it made the backup: there may be no other one.
                ["errors.txt"] => note(&mut self.left, String::from_utf8_lossy(data)),
                _ => return Err(Fault::Other(format!("unexpected content {name:?}"))),
            }
            if left == 0 {
                return Ok(Progress::More);
            }
        }
    }

    pub(super) fn finish(
        mut self,
        filling: Option<Filling>,
        target: &mut dyn Target,
        now: Timestamp,
    ) -> Result<Filled, (Option<Box<Filling>>, Fault)> {
        let truncated = || Fault::Other("unexpected EOF".to_owned());
        if !self.files.is_over() {
            return Err((filling.map(Box::new), truncated()));
        }
        let Some((_, created)) = self.stream.take() else {
            return Err((filling.map(Box::new), truncated()));
        };
        let filling = match filling {
            Some(filling) => Ok(filling),
            None => target.open(1, 0),
        };
        let mut filling = filling.map_err(|fault| (None, fault))?;
        if let Some(created) = created {
            filling.set_created(created);
        }
        if let Err(fault) = self.add_consumers(&mut filling, target, now) {
            return Err((Some(Box::new(filling)), fault));
        }
        let filled = filling.finish(self.replay.last, now);
        let filled = filled.map_err(|(filling, why)| (Some(filling), Fault::Other(why)))?;
        Ok(Filled { left: self.left, ..filled })
    }

    fn add_consumers(
        &mut self,
        filling: &mut Filling,
        target: &mut dyn Target,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let stream = filling.config().name.clone();
        for (name, [meta, sum, state]) in std::mem::take(&mut self.consumers) {
            let failed = |why: String| Fault::Other(format!("error restoring consumer [{name:?}]: {why}"));
            if meta.is_empty() || sum.is_empty() {
                return Err(failed("its description is not whole".to_owned()));
            }
            if !Hasher::new(&format!("{stream}/{name}")).is_sum_of(&meta, &sum) {
                note(&mut self.left, format!("meta.inf of consumer {name:?} does not match its checksum"));
            }
            let (config, created) = describe::consumer(&meta).map_err(failed)?;
            let state = if state.is_empty() {
                None
            } else {
                Some(State::read(&state).ok_or_else(|| failed("corrupt state".to_owned()))?)
            };
            let state = describe::state(state).map_err(failed)?;
            add_consumer(&name, config, state, created.unwrap_or(now), filling, target)?;
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
