//! One run of a workload of consumers: how large it is, the stream that is read, what comes of it.

use std::time::Duration;

use serde_json::json;

use crate::admin::Admin;
use crate::connection::address::Address;
use crate::error::BenchError;
use crate::jetstream::drive::{RequestingClient, drive};
use crate::jetstream::link::RequestLink;
use crate::jetstream::publish::{Content, Publish};
use crate::jetstream::stream::LoadStorage;
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
pub(super) const BATCH: u64 = 500;

/// How large things are, of what the issue says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale(pub f64);

impl Scale {
    pub(super) fn of(self, full: u64) -> u64 {
        ((full as f64 * self.0) as u64).max(10)
    }

    /// Messages of a stream that is read.
    pub(super) fn replayed(self) -> u64 {
        self.of(1_000_000)
    }

    /// Messages of a stream that 100 consumers read.
    pub(super) fn replayed_by_many(self) -> u64 {
        self.of(50_000)
    }

    /// Messages of a stream that hardly anything is read of.
    pub(super) fn sparse(self) -> u64 {
        self.of(10_000_000)
    }

    pub(super) fn keys(self) -> u64 {
        self.of(100_000)
    }

    pub(super) fn consumers(self) -> u64 {
        self.of(10_000)
    }

    pub(super) fn pending(self) -> u64 {
        self.of(1_000_000)
    }
}

/// Result of one run of a workload of consumers.
#[derive(Debug)]
pub struct ConsumerOutcome {
    /// Measured figures.
    pub readings: Vec<(Metric, f64)>,
    /// The server's CPU time, where its process was known.
    pub cpu: Option<CpuTime>,
}

impl ConsumerOutcome {
    pub(super) fn of_messages(messages: u64, elapsed: Duration, cpu: Option<CpuTime>) -> Self {
        let mut readings = vec![(Metric::MessageRate, messages as f64 / elapsed.as_secs_f64())];
        let each = cpu.map(|cpu| cpu.scheduled.as_secs_f64() * 1e6 / messages as f64);
        readings.extend(each.map(|each| (Metric::Cpu, each)));
        Self { readings, cpu }
    }

    /// Adds what the messages are in bytes.
    pub(super) fn with_bytes(mut self, size: usize) -> Self {
        let rate = self.readings.iter().find(|(metric, _)| *metric == Metric::MessageRate);
        let bytes = rate.map(|(_, rate)| (Metric::ByteRate, rate * size as f64 / 1e6));
        self.readings.extend(bytes);
        self
    }
}

/// A stream that is read.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    pub(super) stream: String,
    pub(super) messages: u64,
}

/// One run of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConsumerRun<'a> {
    pub(super) address: &'a Address,
    pub(super) until: Until,
    pub(super) meter: Option<Meter>,
}

impl ConsumerRun<'_> {
    /// Duration of loads that go on for a time.
    pub(super) fn duration(&self) -> Duration {
        match self.until {
            Until::Elapsed(duration) => duration,
            Until::Messages(_) => MOMENT,
        }
    }

    /// Whether that many messages in that time are enough.
    pub(super) fn is_over(&self, messages: u64, elapsed: Duration) -> bool {
        match self.until {
            Until::Elapsed(duration) => elapsed >= duration,
            Until::Messages(wanted) => messages >= wanted,
        }
    }

    /// The server's CPU time, where its process is known.
    pub(super) fn cpu(&self) -> Result<Option<CpuTime>, BenchError> {
        self.meter.map(Meter::cpu).transpose()
    }

    /// The server's CPU time since then.
    pub(super) fn cpu_since(&self, before: Option<CpuTime>) -> Result<Option<CpuTime>, BenchError> {
        Ok(self.cpu()?.zip(before).map(|(after, before)| after.since(before)))
    }
}

pub(super) fn unique_stream() -> String {
    format!("BENCH{}", token::unique(8))
}

/// Makes a stream with everything below its name.
pub(super) fn new_stream(admin: &mut Admin, storage: LoadStorage) -> Result<String, BenchError> {
    let name = unique_stream();
    let storage = if storage == LoadStorage::Memory { "memory" } else { "file" };
    admin.create_stream(&json!({ "name": name, "subjects": [format!("{name}.>")], "storage": storage }))?;
    Ok(name)
}

/// A stream with this many messages on 64 subjects.
pub(super) fn fill_plain(
    address: &Address,
    storage: LoadStorage,
    messages: u64,
) -> Result<Filled, BenchError> {
    let mut admin = Admin::open(address)?;
    let stream = new_stream(&mut admin, storage)?;
    let subjects = (0..SUBJECTS).map(|number| format!("{stream}.{number}"));
    fill(address, &stream, payloads(subjects), messages)?;
    Ok(Filled { stream, messages })
}

/// A message for each subject.
pub(super) fn payloads(subjects: impl Iterator<Item = String>) -> Vec<(String, Vec<u8>)> {
    payloads_of(SIZE, subjects)
}

/// A message of this size for each subject.
pub(super) fn payloads_of(size: usize, subjects: impl Iterator<Item = String>) -> Vec<(String, Vec<u8>)> {
    let text = script::text(size);
    let payload = |number| script::payload(&text, number, size).to_vec();
    subjects.enumerate().map(|(number, subject)| (subject, payload(number))).collect()
}

/// A client that publishes these messages over and over.
pub(super) fn publisher(
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
pub(super) fn fill(
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
