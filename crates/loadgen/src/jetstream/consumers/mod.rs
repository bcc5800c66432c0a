//! Workloads of consumers and of what clients build on them: streams are filled and read,
//! everything is counted.
//!
//! This file owns what a workload is, the stream that it reads and what a run gives. The rooms:
//! `receiving` runs connections that receive, `push` and `pull` are what a client does on one,
//! `delivery` takes their subjects apart, `ledger` counts them, `replay`, `publish_while_reading`,
//! `kv`, `latency`, `many_consumers`, `pending` and `origins` are the workloads. Publishing is that
//! of the rows about streams.

pub(crate) mod delivery;
pub(crate) mod kv;
pub(crate) mod latency;
pub(crate) mod ledger;
pub(crate) mod many_consumers;
pub mod origins;
pub(crate) mod pending;
pub(crate) mod publish_while_reading;
pub mod pull;
pub(crate) mod push;
pub(crate) mod receiving;
pub(crate) mod replay;

use std::fmt;
use std::time::Duration;

use serde_json::json;

use crate::admin::Admin;
use crate::connection::address::Address;
use crate::error::BenchError;
use crate::jetstream::consumers::pull::{Acks, How};
use crate::jetstream::drive::{RequestingClient, drive};
use crate::jetstream::link::RequestLink;
use crate::jetstream::publish::{Content, Publish};
use crate::jetstream::stream::Storage;
use crate::jetstream::{SUBJECTS, WINDOW};
use crate::meter::{CpuTime, Meter};
use crate::metric::Metric;
use crate::pubsub::publisher::Until;
use crate::pubsub::script::{self, Sizes};
use crate::token;

/// Bytes of every payload.
pub const SIZE: usize = 128;

/// How long a load runs that was given a number of messages and cannot count them.
const MOMENT: Duration = Duration::from_millis(800);

/// Messages that a pull asks for where a workload does not say otherwise, as official clients do.
const BATCH: u64 = 500;

/// What is done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerLoad {
    /// An ordered consumer, pushed to, reads the stream.
    Ordered(Storage),
    /// Clients of one pull consumer share the stream.
    Pull {
        /// How they ask.
        how: How,
        /// How many they are.
        clients: usize,
        /// What they acknowledge.
        acks: Acks,
    },
    /// A durable push consumer reads the stream, each message is acknowledged.
    Push,
    /// An ordered consumer reads the few messages that its filter lets through.
    Sparse,
    /// Publishers, and as many ordered consumers, at once.
    Together {
        /// Publishers, and consumers.
        pairs: usize,
        /// Where the stream keeps messages.
        storage: Storage,
        /// Bytes of each payload.
        size: usize,
        /// Whether the server syncs before it acknowledges.
        synced: bool,
    },
    /// How much of a publisher's rate is left while 100 consumers read the stream.
    Beside,
    /// 16 clients put random keys.
    KvPut,
    /// 16 clients get random keys.
    KvGet,
    /// A watch over all keys, then over their updates.
    KvWatch,
    /// From publisher to consumer, at this many messages per second.
    Latency {
        /// Messages per second.
        rate: u64,
        /// Whether the consumer is pulled from, or pushed to.
        is_pull: bool,
    },
    /// Many consumers, few of which have something to do.
    Crowd,
    /// Many messages are delivered, then acknowledged in an order without locality.
    Pending,
    /// Mirrors and sources.
    Copy(origins::Copying),
}

impl fmt::Display for ConsumerLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}, {} B", self.size())
    }
}

/// How large things are, of what the issue says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale(pub f64);

impl Scale {
    fn of(self, full: u64) -> u64 {
        ((full as f64 * self.0) as u64).max(10)
    }

    /// Messages of a stream that is read.
    fn replayed(self) -> u64 {
        self.of(1_000_000)
    }

    /// Messages of a stream that 100 consumers read.
    fn replayed_by_many(self) -> u64 {
        self.of(50_000)
    }

    /// Messages of a stream that hardly anything is read of.
    fn sparse(self) -> u64 {
        self.of(10_000_000)
    }

    fn keys(self) -> u64 {
        self.of(100_000)
    }

    fn consumers(self) -> u64 {
        self.of(10_000)
    }

    fn pending(self) -> u64 {
        self.of(1_000_000)
    }
}

/// What a run gave.
#[derive(Debug)]
pub struct ConsumerOutcome {
    /// What was measured.
    pub readings: Vec<(Metric, f64)>,
    /// The server's CPU time, where its process was known.
    pub cpu: Option<CpuTime>,
}

impl ConsumerOutcome {
    fn of_messages(messages: u64, elapsed: Duration, cpu: Option<CpuTime>) -> Self {
        let mut readings = vec![(Metric::MessageRate, messages as f64 / elapsed.as_secs_f64())];
        let each = cpu.map(|cpu| cpu.scheduled.as_secs_f64() * 1e6 / messages as f64);
        readings.extend(each.map(|each| (Metric::Cpu, each)));
        Self { readings, cpu }
    }

    /// Adds what the messages are in bytes.
    fn with_bytes(mut self, size: usize) -> Self {
        let rate = self.readings.iter().find(|(metric, _)| *metric == Metric::MessageRate);
        let bytes = rate.map(|(_, rate)| (Metric::ByteRate, rate * size as f64 / 1e6));
        self.readings.extend(bytes);
        self
    }
}

/// A server that is ready for runs of a load, with the stream that they read.
#[derive(Debug)]
pub struct Stage {
    load: ConsumerLoad,
    scale: Scale,
    filled: Option<Filled>,
}

/// A stream that is read.
#[derive(Clone, Debug)]
struct Filled {
    stream: String,
    messages: u64,
}

impl ConsumerLoad {
    /// Whether the server syncs before it acknowledges.
    pub fn is_synced(self) -> bool {
        matches!(self, Self::Together { synced: true, .. })
    }

    /// Whether every run needs a server of its own: memory that was used once may never be given
    /// back.
    pub fn wants_fresh_server(self) -> bool {
        matches!(self, Self::Crowd | Self::Pending | Self::Copy(origins::Copying::Resting))
    }

    /// Bytes of its payloads.
    fn size(self) -> usize {
        if let Self::Together { size, .. } = self { size } else { SIZE }
    }

    /// Fills the stream that is read, if there is one that every run can read.
    pub fn stage(self, address: &Address, scale: Scale) -> Result<Stage, BenchError> {
        let filled = match self {
            Self::Ordered(storage) => Some(fill_plain(address, storage, scale.replayed())?),
            Self::Copy(origins::Copying::Mirror | origins::Copying::Source) => {
                Some(fill_plain(address, Storage::File, scale.replayed())?)
            }
            Self::Copy(_) => None,
            Self::Pull { .. } | Self::Push => Some(fill_plain(address, Storage::File, scale.replayed())?),
            Self::Sparse => Some(replay::fill_sparse(address, scale.sparse())?),
            Self::KvPut | Self::KvGet | Self::KvWatch => Some(kv::fill(address, scale.keys())?),
            Self::Together { .. } | Self::Beside | Self::Latency { .. } | Self::Crowd | Self::Pending => None,
        };
        Ok(Stage { load: self, scale, filled })
    }
}

impl Stage {
    /// Runs the load once. Loads that do not count while they work take a number of messages for a
    /// moment. `meter` is the server's process, if it is known.
    pub fn run(
        &self,
        address: &Address,
        until: Until,
        meter: Option<Meter>,
    ) -> Result<ConsumerOutcome, BenchError> {
        let run = ConsumerRun { address, until, meter };
        match (self.load, &self.filled) {
            (ConsumerLoad::Ordered(_), Some(filled)) => replay::push(filled, false, run),
            (ConsumerLoad::Push, Some(filled)) => replay::push(filled, true, run),
            (ConsumerLoad::Pull { how, clients, acks }, Some(filled)) => {
                replay::pull(filled, how, clients, acks, run)
            }
            (ConsumerLoad::Sparse, Some(filled)) => replay::sparse(filled, run),
            (ConsumerLoad::KvPut, Some(filled)) => kv::put(filled, run),
            (ConsumerLoad::KvGet, Some(filled)) => kv::get(filled, run),
            (ConsumerLoad::KvWatch, Some(filled)) => kv::watch(filled, run),
            (ConsumerLoad::Latency { rate, is_pull }, _) => latency::run(rate, is_pull, run),
            (ConsumerLoad::Together { pairs, storage, size, .. }, _) => {
                publish_while_reading::together(pairs, storage, size, run)
            }
            (ConsumerLoad::Beside, _) => publish_while_reading::beside(self.scale.replayed_by_many(), run),
            (ConsumerLoad::Crowd, _) => many_consumers::run(self.scale.consumers(), run),
            (ConsumerLoad::Pending, _) => pending::run(self.scale.pending(), run),
            (ConsumerLoad::Copy(copying), filled) => origins::run(copying, filled.as_ref(), self.scale, run),
            (load, None) => unreachable!("{load:?} has a stream that is read"),
        }
        .map(|outcome| outcome.with_bytes(self.load.size()))
    }
}

/// One run of a load.
#[derive(Clone, Copy, Debug)]
struct ConsumerRun<'a> {
    address: &'a Address,
    until: Until,
    meter: Option<Meter>,
}

impl ConsumerRun<'_> {
    /// For loads that go on for a time.
    fn duration(&self) -> Duration {
        match self.until {
            Until::Elapsed(duration) => duration,
            Until::Messages(_) => MOMENT,
        }
    }

    /// Whether that many messages in that time are enough.
    fn is_over(&self, messages: u64, elapsed: Duration) -> bool {
        match self.until {
            Until::Elapsed(duration) => elapsed >= duration,
            Until::Messages(wanted) => messages >= wanted,
        }
    }

    /// The server's CPU time, where its process is known.
    fn cpu(&self) -> Result<Option<CpuTime>, BenchError> {
        self.meter.map(Meter::cpu).transpose()
    }

    /// The server's CPU time since then.
    fn cpu_since(&self, before: Option<CpuTime>) -> Result<Option<CpuTime>, BenchError> {
        Ok(self.cpu()?.zip(before).map(|(after, before)| after.since(before)))
    }
}

fn unique_stream() -> String {
    format!("BENCH{}", token::unique(8))
}

/// Makes a stream with everything below its name.
fn new_stream(admin: &mut Admin, storage: Storage) -> Result<String, BenchError> {
    let name = unique_stream();
    let storage = if storage == Storage::Memory { "memory" } else { "file" };
    admin.create_stream(&json!({ "name": name, "subjects": [format!("{name}.>")], "storage": storage }))?;
    Ok(name)
}

/// A stream with this many messages on 64 subjects.
fn fill_plain(address: &Address, storage: Storage, messages: u64) -> Result<Filled, BenchError> {
    let mut admin = Admin::open(address)?;
    let stream = new_stream(&mut admin, storage)?;
    let subjects = (0..SUBJECTS).map(|number| format!("{stream}.{number}"));
    fill(address, &stream, payloads(subjects), messages)?;
    Ok(Filled { stream, messages })
}

/// A message for each subject.
fn payloads(subjects: impl Iterator<Item = String>) -> Vec<(String, Vec<u8>)> {
    payloads_of(SIZE, subjects)
}

/// A message of this size for each subject.
fn payloads_of(size: usize, subjects: impl Iterator<Item = String>) -> Vec<(String, Vec<u8>)> {
    let text = script::text(size);
    let payload = |number| script::payload(&text, number, size).to_vec();
    subjects.enumerate().map(|(number, subject)| (subject, payload(number))).collect()
}

/// A client that publishes these messages over and over.
fn publisher(
    address: &Address,
    stream: &str,
    rotation: Vec<(String, Vec<u8>)>,
    window: usize,
) -> Result<RequestingClient<Publish>, BenchError> {
    let link = RequestLink::open(address, token::inbox())?;
    let content =
        Content { stream: stream.to_owned(), subjects: rotation.len(), sizes: Sizes::exactly(SIZE) };
    let work = Publish::over(rotation, &content, link.inbox(), window);
    Ok(RequestingClient::new(link, work))
}

/// Publishes this many messages.
fn fill(
    address: &Address,
    stream: &str,
    rotation: Vec<(String, Vec<u8>)>,
    messages: u64,
) -> Result<(), BenchError> {
    drive(&mut [publisher(address, stream, rotation, WINDOW)?], Until::Messages(messages)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_scale() {
        assert_eq!(
            [Scale(1.0).pending(), Scale(0.1).pending(), Scale(0.0).pending()],
            [1_000_000, 100_000, 10]
        );
        assert_eq!(Scale(1.0).sparse(), 10_000_000);
    }

    #[test]
    fn a_run_is_messages_per_second_and_cpu_per_message() {
        let cpu = CpuTime { scheduled: Duration::from_millis(10), accounted: Duration::from_millis(10) };
        let outcome = ConsumerOutcome::of_messages(1000, Duration::from_millis(500), Some(cpu));
        assert_eq!(outcome.readings, [(Metric::MessageRate, 2000.0), (Metric::Cpu, 10.0)]);
    }
}
