//! Workloads against any server that speaks JetStream: streams are filled and read, and every answer is checked.
//!
//! This file owns what a run is: streams of its own, connections, clock, work, and the proof afterwards that the streams
//! hold what was acknowledged. The rooms: `publish`, `batch`, `fast` and `get` are what a client does; `drive` runs
//! clients on one thread over `link`s; `tape` holds encoded frames, `envelope` and `answer` read what comes back, `inbox`
//! and `window` match the two; `stream` asks for streams; `rows` is the table. `consumers` is a house of its own on the
//! same ground.

pub(crate) mod answer;
mod batch;
pub(crate) mod consumers;
mod drive;
pub(crate) mod envelope;
pub(crate) mod fast;
mod get;
pub(crate) mod inbox;
mod link;
mod publish;
pub(crate) mod rows;
pub(crate) mod stream;
mod tape;
mod window;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::bench::address::Address;
use crate::bench::admin::Counts;
use crate::bench::error::BenchError;
use crate::bench::footprint;
use crate::bench::process::{CpuTime, Meter, Server, Syncing};
use crate::bench::publisher::Until;
use crate::bench::scratch::Scratch;
use crate::bench::script::Sizes;
use batch::AtomicBatches;
use drive::{Client, Done, Work, drive};
use fast::{FastBatches, Flow};
use get::{BatchGets, Filled, Gets};
use link::Link;
use publish::{Content, Publish};
use stream::{Feature, Storage, Streams};

/// Subjects in rotation.
const SUBJECTS: usize = 64;

/// The window of asynchronous publishing where a row does not say otherwise.
pub(crate) const WINDOW: usize = 4096;

/// What is done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) mode: Mode,
    pub(crate) storage: Storage,
    /// Average payload, in bytes.
    pub(crate) size: usize,
    pub(crate) clients: usize,
    /// Clients are spread over them.
    pub(crate) streams: usize,
    /// Whether the server syncs before it acknowledges.
    pub(crate) synced: bool,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, storage, size, clients, streams, synced } = self;
        let synced = if *synced { ", synced before acknowledgements" } else { "" };
        write!(f, "{mode:?}, {clients} clients, {streams} streams in {storage:?}{synced}, {size} B")
    }
}

/// How messages go in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each message is acknowledged; this many may be unacknowledged.
    Publish { window: usize },
    /// As `Publish` with the usual window, and no two messages have the same subject.
    Distinct,
    /// Atomic batches of this size.
    Atomic { batch: usize },
    /// Fast-ingest batches of this size.
    Fast { batch: usize, flow: Flow },
    /// Messages are asked for one by one; this many requests may be unanswered.
    Get { window: usize },
    /// Messages are asked for in batches of this size.
    GetBatch { batch: u64 },
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) until: Until,
    /// Messages of a stream that is read.
    pub(crate) stored: u64,
    /// Subjects of `Mode::Distinct`, which ends with them.
    pub(crate) subjects: u64,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) done: Done,
    /// From the first byte sent to the last answer.
    pub(crate) elapsed: Duration,
    /// The server's CPU time, where its process was known.
    pub(crate) cpu: Option<CpuTime>,
    /// What the server's resident memory has grown by, where that was asked for, in bytes.
    pub(crate) growth: Option<u64>,
}

impl Outcome {
    /// Messages per second.
    pub(crate) fn rate(&self) -> f64 {
        self.done.messages as f64 / self.elapsed.as_secs_f64()
    }

    /// Bytes of payload per second.
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.done.payload_bytes as f64 / self.elapsed.as_secs_f64()
    }

    /// Microseconds of server CPU per message.
    pub(crate) fn cpu_per_message(&self) -> Option<f64> {
        Some(self.cpu?.scheduled.as_secs_f64() * 1e6 / self.done.messages as f64)
    }

    /// A latency in microseconds; `quantile` between 0 and 1.
    pub(crate) fn latency(&self, quantile: f64) -> Option<f64> {
        Some(self.done.latencies.as_ref()?.value_at_quantile(quantile) as f64 / 1e3)
    }

    /// Bytes of resident memory per message.
    pub(crate) fn memory_per_message(&self) -> Option<f64> {
        Some(self.growth? as f64 / self.done.messages as f64)
    }
}

impl Load {
    /// Starts a server that is as the load needs it.
    pub(crate) fn server(&self, binary: &Path, scratch: &Scratch) -> Result<Server, BenchError> {
        Server::with_streams(binary, scratch, if self.synced { Syncing::Always } else { Syncing::AsItLikes })
    }

    /// Whether every run needs a server of its own: memory that was used once may never be given back.
    pub(crate) fn wants_fresh_server(&self) -> bool {
        self.mode == Mode::Distinct
    }

    /// Runs the load once, in new streams that are deleted afterwards. `meter` is the server's process, if it is known.
    pub(crate) fn run(
        &self,
        address: &Address,
        extent: Extent,
        meter: Option<Meter>,
    ) -> Result<Outcome, BenchError> {
        let mut streams = Streams::create(address, self.streams, self.storage, self.feature())?;
        let run = Run { load: *self, address, extent, meter };
        let outcome = run.in_streams(&mut streams);
        let deleted = streams.delete();
        outcome.and_then(|outcome| deleted.map(|()| outcome))
    }

    fn feature(&self) -> Feature {
        match self.mode {
            Mode::Publish { .. } | Mode::Distinct => Feature::Nothing,
            Mode::Atomic { .. } => Feature::AtomicBatches,
            Mode::Fast { .. } => Feature::FastBatches,
            Mode::Get { .. } | Mode::GetBatch { .. } => Feature::DirectGets,
        }
    }
}

/// One run of a load.
struct Run<'a> {
    load: Load,
    address: &'a Address,
    extent: Extent,
    meter: Option<Meter>,
}

impl Run<'_> {
    fn in_streams(&self, streams: &mut Streams) -> Result<Outcome, BenchError> {
        let subjects = self.extent.subjects;
        match self.load.mode {
            Mode::Publish { window } => {
                self.publish(streams, |content, inbox| Publish::new(content, inbox, window))
            }
            Mode::Distinct => {
                self.publish(streams, |content, inbox| Publish::distinct(content, inbox, WINDOW, subjects))
            }
            Mode::Atomic { batch } => {
                self.publish(streams, |content, inbox| AtomicBatches::new(content, inbox, batch))
            }
            Mode::Fast { batch, flow } => {
                self.publish(streams, |content, inbox| FastBatches::new(content, inbox, batch, flow))
            }
            Mode::Get { window } => self.read(streams, |filled, inbox| Gets::new(filled, inbox, window)),
            Mode::GetBatch { batch } => {
                self.read(streams, |filled, inbox| BatchGets::new(filled, inbox, batch))
            }
        }
    }

    /// Publishes into all streams, and compares what they hold with what was acknowledged.
    fn publish<W: Work>(
        &self,
        streams: &mut Streams,
        work: impl Fn(&Content, &str) -> W,
    ) -> Result<Outcome, BenchError> {
        let sizes = Sizes::around(self.load.size, usize::MAX);
        let contents: Vec<Content> = streams
            .names()
            .iter()
            .map(|stream| Content { stream: stream.clone(), subjects: SUBJECTS, sizes: sizes.clone() })
            .collect();
        let is_distinct = self.load.mode == Mode::Distinct;
        let until = if is_distinct { Until::Messages(self.extent.subjects) } else { self.extent.until };
        let (outcome, dones) =
            self.measure(until, |client, inbox| work(&contents[client % contents.len()], inbox))?;
        for (number, content) in contents.iter().enumerate() {
            let Counts { messages, subjects, .. } = streams.counts(&content.stream)?;
            check(messages, dones.iter().skip(number).step_by(contents.len()))?;
            if is_distinct && subjects != messages {
                return Err(BenchError::Lost(format!("{messages} messages on {subjects} distinct subjects")));
            }
        }
        Ok(outcome)
    }

    /// Fills a stream, then reads from it.
    fn read<W: Work>(
        &self,
        streams: &Streams,
        work: impl Fn(Filled, &str) -> W,
    ) -> Result<Outcome, BenchError> {
        let stream = streams.names()[0].clone();
        let sizes = Sizes::exactly(self.load.size);
        let content = Content { stream: stream.clone(), subjects: SUBJECTS, sizes };
        let link = Link::open(self.address, inbox::inbox())?;
        let filler = Publish::new(&content, link.inbox(), WINDOW);
        drive(&mut [Client::new(link, filler)], Until::Messages(self.extent.stored))?;
        let filled = Filled { stream, messages: self.extent.stored, size: self.load.size };
        Ok(self.measure(self.extent.until, |_, inbox| work(filled.clone(), inbox))?.0)
    }

    /// Runs the clients with clock and meter.
    fn measure<W: Work>(
        &self,
        until: Until,
        work: impl Fn(usize, &str) -> W,
    ) -> Result<(Outcome, Vec<Done>), BenchError> {
        let mut clients = Vec::new();
        for client in 0..self.load.clients {
            let link = Link::open(self.address, inbox::inbox())?;
            let work = work(client, link.inbox());
            clients.push(Client::new(link, work));
        }
        let memory = self.meter.filter(|_| self.load.mode == Mode::Distinct);
        let resident = memory.map(footprint::at_rest).transpose()?;
        let before = self.meter.map(Meter::cpu).transpose()?;
        let elapsed = drive(&mut clients, until)?;
        let after = self.meter.map(Meter::cpu).transpose()?;
        let grown = memory.map(footprint::at_rest).transpose()?;
        let dones: Vec<Done> = clients.iter().map(|client| client.work.done()).collect();
        let outcome = Outcome {
            done: dones.iter().cloned().fold(Done::default(), Done::and),
            elapsed,
            cpu: after.zip(before).map(|(after, before)| after.since(before)),
            growth: grown.zip(resident).map(|(after, before)| after.saturating_sub(before)),
        };
        Ok((outcome, dones))
    }
}

/// Compares what a stream holds with what its publishers were told.
fn check<'a>(stored: u64, dones: impl Iterator<Item = &'a Done>) -> Result<(), BenchError> {
    let told = dones.cloned().fold(Done::default(), Done::and);
    if told.messages != stored {
        let text = format!("{} messages were acknowledged and {stored} are stored", told.messages);
        return Err(BenchError::Lost(text));
    }
    let all = u128::from(stored) * (u128::from(stored) + 1) / 2;
    match told.sequences {
        Some(sum) if sum != all => Err(BenchError::Lost("sequences were acknowledged twice or never".into())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_must_hold_every_acknowledged_message_once() {
        let done = |messages, sum: Option<u128>| Done { messages, sequences: sum, ..Done::default() };
        let dones = [done(2, Some(1 + 4)), done(2, Some(2 + 3))];
        assert!(check(4, dones.iter()).is_ok());
        assert!(check(5, dones.iter()).is_err());
        assert!(check(4, [done(2, Some(1 + 1)), done(2, Some(2 + 3))].iter()).is_err());
        assert!(check(4, [done(4, None)].iter()).is_ok());
    }
}
