//! Workloads against any server that speaks JetStream: streams are filled and read, and every
//! answer is checked.
//!
//! This file owns what a run is: streams of its own, connections, clock, work, and the proof
//! afterwards that the streams hold what was acknowledged. The rooms: `publish`, `batch`, `fast`
//! and `get` are what a client does; `drive` runs clients on one thread over `link`s;
//! `encoded_frames` holds what is sent, `envelope` and `answer` read what comes back, `window`
//! matches the two; `stream` asks for streams. `consumers` has the loads that read.

pub(crate) mod answer;
pub(crate) mod batch;
pub mod consumers;
pub(crate) mod drive;
pub(crate) mod encoded_frames;
pub(crate) mod envelope;
pub mod fast;
pub(crate) mod get;
pub(crate) mod link;
pub(crate) mod publish;
pub mod stream;
pub(crate) mod window;

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::admin::Counts;
use crate::connection::address::Address;
use crate::error::BenchError;
use crate::jetstream::batch::AtomicBatches;
use crate::jetstream::drive::{Done, RequestingClient, Work, drive};
use crate::jetstream::fast::{FastBatches, Flow};
use crate::jetstream::get::{BatchGets, Filled, Gets};
use crate::jetstream::link::RequestLink;
use crate::jetstream::publish::{Content, Publish};
use crate::jetstream::stream::{Feature, LoadStorage, Streams};
use crate::meter::{CpuTime, Meter, cpu_of};
use crate::pubsub::publisher::Until;
use crate::pubsub::script::Sizes;
use crate::token;

/// Subjects in rotation.
const SUBJECTS: usize = 64;

/// The window of asynchronous publishing where a row does not say otherwise.
pub const WINDOW: usize = 4096;

/// Workload of streams on one server, or of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLoad {
    /// How messages go in or out.
    pub mode: StreamMode,
    /// Where the streams keep them.
    pub storage: LoadStorage,
    /// Average payload, in bytes.
    pub size: usize,
    /// Connections, each with a window or batch of its own.
    pub clients: usize,
    /// Clients are spread over them.
    pub streams: usize,
    /// Whether the server syncs before it acknowledges.
    pub synced: bool,
    /// Servers that have each message.
    pub replicas: usize,
}

impl fmt::Display for StreamLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, storage, size, clients, streams, synced, replicas } = self;
        let synced = if *synced { ", synced before acknowledgements" } else { "" };
        write!(f, "{mode:?}, {clients} clients, {streams} streams in {storage:?}{synced}, {size} B")?;
        if *replicas > 1 { write!(f, ", {replicas} replicas") } else { Ok(()) }
    }
}

/// How messages go in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Each message is acknowledged; this many may be unacknowledged.
    Publish {
        /// Messages.
        window: usize,
    },
    /// Publishing as with `Publish` and the usual window, with another subject for each message.
    Distinct,
    /// Atomic batches of this size.
    Atomic {
        /// Messages.
        batch: usize,
    },
    /// Fast-ingest batches of this size.
    Fast {
        /// Messages.
        batch: usize,
        /// Flow control that the publisher asks for.
        flow: Flow,
    },
    /// Messages are asked for one by one; this many requests may be unanswered.
    Get {
        /// Requests.
        window: usize,
    },
    /// Messages are asked for in batches of this size.
    GetBatch {
        /// Messages.
        batch: u64,
    },
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The end of the run.
    pub until: Until,
    /// Messages of a stream that is read.
    pub stored: u64,
    /// Subjects of `StreamMode::Distinct`, which ends with them.
    pub subjects: u64,
}

/// Result of one run of a workload of streams.
#[derive(Debug)]
pub struct StreamOutcome {
    pub(crate) done: Done,
    /// Time from the first byte sent to the last answer.
    pub elapsed: Duration,
    /// The server's CPU time, where its process was known.
    pub cpu: Option<CpuTime>,
    /// Growth of the server's resident memory, in bytes, where that was asked for.
    pub(crate) growth: Option<u64>,
}

impl StreamOutcome {
    /// Messages per second.
    pub fn rate(&self) -> f64 {
        self.done.messages as f64 / self.elapsed.as_secs_f64()
    }

    /// Bytes of payload per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.done.payload_bytes as f64 / self.elapsed.as_secs_f64()
    }

    /// Microseconds of server CPU per message.
    pub fn cpu_per_message(&self) -> Option<f64> {
        Some(self.cpu?.scheduled.as_secs_f64() * 1e6 / self.done.messages as f64)
    }

    /// Nanoseconds from sending to the answer, where one message is outstanding at a time.
    pub fn latencies(&self) -> Option<&Histogram<u64>> {
        self.done.latencies.as_ref()
    }

    /// A latency in microseconds; `quantile` between 0 and 1.
    pub fn latency(&self, quantile: f64) -> Option<f64> {
        Some(self.done.latencies.as_ref()?.value_at_quantile(quantile) as f64 / 1e3)
    }

    /// Bytes of resident memory per message.
    pub fn memory_per_message(&self) -> Option<f64> {
        Some(self.growth? as f64 / self.done.messages as f64)
    }
}

impl StreamLoad {
    /// Whether every run needs a server of its own: memory that was used once may never be given
    /// back.
    pub fn wants_fresh_server(&self) -> bool {
        self.mode == StreamMode::Distinct
    }

    /// Runs the load once, in new streams that are deleted afterwards. `meters` are the processes
    /// of the servers, as far as they are known.
    pub fn run(
        &self,
        address: &Address,
        extent: Extent,
        meters: &[Meter],
    ) -> Result<StreamOutcome, BenchError> {
        let mut streams =
            Streams::create(address, self.streams, self.storage, self.replicas, self.feature())?;
        let run = StreamRun { load: *self, address, extent, meters };
        let outcome = run.in_streams(&mut streams);
        let deleted = streams.delete();
        outcome.and_then(|outcome| deleted.map(|()| outcome))
    }

    fn feature(&self) -> Feature {
        match self.mode {
            StreamMode::Publish { .. } | StreamMode::Distinct => Feature::Nothing,
            StreamMode::Atomic { .. } => Feature::AtomicBatches,
            StreamMode::Fast { .. } => Feature::FastBatches,
            StreamMode::Get { .. } | StreamMode::GetBatch { .. } => Feature::DirectGets,
        }
    }
}

/// One run of a load.
struct StreamRun<'a> {
    load: StreamLoad,
    address: &'a Address,
    extent: Extent,
    meters: &'a [Meter],
}

impl StreamRun<'_> {
    fn in_streams(&self, streams: &mut Streams) -> Result<StreamOutcome, BenchError> {
        let subjects = self.extent.subjects;
        match self.load.mode {
            StreamMode::Publish { window } => {
                self.publish(streams, |content, inbox| Publish::new(content, inbox, window))
            }
            StreamMode::Distinct => {
                self.publish(streams, |content, inbox| Publish::distinct(content, inbox, WINDOW, subjects))
            }
            StreamMode::Atomic { batch } => {
                self.publish(streams, |content, inbox| AtomicBatches::new(content, inbox, batch))
            }
            StreamMode::Fast { batch, flow } => {
                self.publish(streams, |content, inbox| FastBatches::new(content, inbox, batch, flow))
            }
            StreamMode::Get { window } => {
                self.read(streams, |filled, inbox| Gets::new(filled, inbox, window))
            }
            StreamMode::GetBatch { batch } => {
                self.read(streams, |filled, inbox| BatchGets::new(filled, inbox, batch))
            }
        }
    }

    /// Publishes into all streams, and compares what they hold with what was acknowledged.
    fn publish<W: Work>(
        &self,
        streams: &mut Streams,
        work: impl Fn(&Content, &str) -> W,
    ) -> Result<StreamOutcome, BenchError> {
        let sizes = Sizes::around(self.load.size, usize::MAX);
        let contents: Vec<Content> = streams
            .names()
            .iter()
            .map(|stream| Content { stream: stream.clone(), subjects: SUBJECTS, sizes: sizes.clone() })
            .collect();
        let is_distinct = self.load.mode == StreamMode::Distinct;
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
    ) -> Result<StreamOutcome, BenchError> {
        let stream = streams.names()[0].clone();
        let sizes = Sizes::exactly(self.load.size);
        let content = Content { stream: stream.clone(), subjects: SUBJECTS, sizes };
        let link = RequestLink::open(self.address, token::inbox())?;
        let filler = Publish::new(&content, link.inbox(), WINDOW);
        drive(&mut [RequestingClient::new(link, filler)], Until::Messages(self.extent.stored))?;
        let filled = Filled { stream, messages: self.extent.stored, size: self.load.size };
        Ok(self.measure(self.extent.until, |_, inbox| work(filled.clone(), inbox))?.0)
    }

    /// Runs the clients with clock and meter.
    fn measure<W: Work>(
        &self,
        until: Until,
        work: impl Fn(usize, &str) -> W,
    ) -> Result<(StreamOutcome, Vec<Done>), BenchError> {
        let mut clients = Vec::new();
        for client in 0..self.load.clients {
            let link = RequestLink::open(self.address, token::inbox())?;
            let work = work(client, link.inbox());
            clients.push(RequestingClient::new(link, work));
        }
        let memory = self.meters.first().copied().filter(|_| self.load.mode == StreamMode::Distinct);
        let resident = memory.map(Meter::resident_at_rest).transpose()?;
        let before = cpu_of(self.meters)?;
        let elapsed = drive(&mut clients, until)?;
        let after = cpu_of(self.meters)?;
        let grown = memory.map(Meter::resident_at_rest).transpose()?;
        let dones: Vec<Done> = clients.iter().map(|client| client.work.done()).collect();
        let outcome = StreamOutcome {
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
