//! Workloads of consumers and of what clients build on them: streams are filled and read, everything is counted.
//!
//! This file owns what a workload is, the stream that it reads and what a run gives. The rooms: `seat` runs connections
//! that receive, `push` and `pull` are what a client does on one, `message` takes deliveries apart, `ledger` counts them,
//! `replay`, `beside`, `kv`, `latency`, `crowd` and `pending` are the workloads, `rows`
//! the table. Publishing is that of the rows about streams.

mod beside;
mod crowd;
mod kv;
mod latency;
pub(crate) mod ledger;
pub(crate) mod message;
pub(crate) mod origins;
mod pending;
pub(crate) mod pull;
pub(crate) mod push;
mod replay;
pub(crate) mod rows;
pub(crate) mod seat;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::bench::address::Address;
use crate::bench::admin::Admin;
use crate::bench::error::BenchError;
use crate::bench::jetstream::drive::{Client, drive};
use crate::bench::jetstream::link::Link;
use crate::bench::jetstream::publish::{Content, Publish};
use crate::bench::jetstream::stream::Storage;
use crate::bench::jetstream::{SUBJECTS, WINDOW, inbox};
use crate::bench::plan::Metric;
use crate::bench::process::{CpuTime, Meter, Server, Syncing};
use crate::bench::publisher::Until;
use crate::bench::scratch::Scratch;
use crate::bench::script::{self, Sizes};
use pull::{Acks, How};

/// Bytes of every payload.
pub(crate) const SIZE: usize = 128;

/// How long a load runs that was given a number of messages and cannot count them.
const MOMENT: Duration = Duration::from_millis(800);

/// Messages that a pull asks for where a workload does not say otherwise, as official clients do.
const BATCH: u64 = 500;

/// What is done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// An ordered consumer, pushed to, reads the stream.
    Ordered(Storage),
    /// Clients of one pull consumer share the stream.
    Pull { how: How, clients: usize, acks: Acks },
    /// A durable push consumer reads the stream, each message is acknowledged.
    Push,
    /// An ordered consumer reads the few messages that its filter lets through.
    Sparse,
    /// Publishers, and as many ordered consumers, at once.
    Together { pairs: usize, storage: Storage, size: usize, synced: bool },
    /// How much of a publisher's rate is left while 100 consumers read the stream.
    Beside,
    /// 16 clients put random keys.
    KvPut,
    /// 16 clients get random keys.
    KvGet,
    /// A watch over all keys, then over their updates.
    KvWatch,
    /// From publisher to consumer, at this many messages per second.
    Latency { rate: u64, is_pull: bool },
    /// Many consumers, few of which have something to do.
    Crowd,
    /// Many messages are delivered, then acknowledged in an order without locality.
    Pending,
    /// Mirrors and sources.
    Copy(origins::Copying),
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}, {} B", self.size())
    }
}

/// How large things are, of what the issue says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale(pub(crate) f64);

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
pub(crate) struct Outcome {
    pub(crate) readings: Vec<(Metric, f64)>,
    /// The server's CPU time, where its process was known.
    pub(crate) cpu: Option<CpuTime>,
}

impl Outcome {
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
pub(crate) struct Stage {
    load: Load,
    scale: Scale,
    filled: Option<Filled>,
}

/// A stream that is read.
#[derive(Clone, Debug)]
struct Filled {
    stream: String,
    messages: u64,
}

impl Load {
    /// Starts a server that is as the load needs it.
    pub(crate) fn server(self, binary: &Path, scratch: &Scratch) -> Result<Server, BenchError> {
        let is_synced = matches!(self, Self::Together { synced: true, .. });
        Server::with_streams(binary, scratch, if is_synced { Syncing::Always } else { Syncing::AsItLikes })
    }

    /// Whether every run needs a server of its own: memory that was used once may never be given back.
    pub(crate) fn wants_fresh_server(self) -> bool {
        matches!(self, Self::Crowd | Self::Pending | Self::Copy(origins::Copying::Resting))
    }

    /// Bytes of its payloads.
    fn size(self) -> usize {
        if let Self::Together { size, .. } = self { size } else { SIZE }
    }

    /// Fills the stream that is read, if there is one that every run can read.
    pub(crate) fn stage(self, address: &Address, scale: Scale) -> Result<Stage, BenchError> {
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
    /// Runs the load once. Loads that do not count while they work take a number of messages for a moment.
    /// `meter` is the server's process, if it is known.
    pub(crate) fn run(
        &self,
        address: &Address,
        until: Until,
        meter: Option<Meter>,
    ) -> Result<Outcome, BenchError> {
        let run = Run { address, until, meter };
        match (self.load, &self.filled) {
            (Load::Ordered(_), Some(filled)) => replay::push(filled, false, run),
            (Load::Push, Some(filled)) => replay::push(filled, true, run),
            (Load::Pull { how, clients, acks }, Some(filled)) => {
                replay::pull(filled, how, clients, acks, run)
            }
            (Load::Sparse, Some(filled)) => replay::sparse(filled, run),
            (Load::KvPut, Some(filled)) => kv::put(filled, run),
            (Load::KvGet, Some(filled)) => kv::get(filled, run),
            (Load::KvWatch, Some(filled)) => kv::watch(filled, run),
            (Load::Latency { rate, is_pull }, _) => latency::run(rate, is_pull, run),
            (Load::Together { pairs, storage, size, .. }, _) => beside::together(pairs, storage, size, run),
            (Load::Beside, _) => beside::beside(self.scale.replayed_by_many(), run),
            (Load::Crowd, _) => crowd::run(self.scale.consumers(), run),
            (Load::Pending, _) => pending::run(self.scale.pending(), run),
            (Load::Copy(copying), filled) => origins::run(copying, filled.as_ref(), self.scale, run),
            (load, None) => unreachable!("{load:?} has a stream that is read"),
        }
        .map(|outcome| outcome.with_bytes(self.load.size()))
    }
}

/// One run of a load.
#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    address: &'a Address,
    until: Until,
    meter: Option<Meter>,
}

impl Run<'_> {
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
    format!("BENCH{}", inbox::unique(8))
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
) -> Result<Client<Publish>, BenchError> {
    let link = Link::open(address, inbox::inbox())?;
    let content =
        Content { stream: stream.to_owned(), subjects: rotation.len(), sizes: Sizes::exactly(SIZE) };
    let work = Publish::over(rotation, &content, link.inbox(), window);
    Ok(Client::new(link, work))
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
        let outcome = Outcome::of_messages(1000, Duration::from_millis(500), Some(cpu));
        assert_eq!(outcome.readings, [(Metric::MessageRate, 2000.0), (Metric::Cpu, 10.0)]);
    }
}
