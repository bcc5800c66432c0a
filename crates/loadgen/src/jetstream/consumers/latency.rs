//! Publishing at a fixed rate, and how long each message takes from there to its consumer.
//!
//! Every message has a planned time, in its payload, from which its latency counts: a server that
//! holds up the publisher does not hide the messages that should have been sent meanwhile.
//! Publisher and consumer have a thread each. Owns that publisher, which also feeds other rows that
//! need a trickle.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::json;

use crate::admin::Admin;
use crate::connection::PATIENCE;
use crate::connection::address::Address;
use crate::error::BenchError;
use crate::jetstream::SUBJECTS;
use crate::jetstream::answer::Acknowledgement;
use crate::jetstream::consumers::ledger::{Expected, Ledger};
use crate::jetstream::consumers::pull::{self, Acks, How, Pull};
use crate::jetstream::consumers::push::{self, Push};
use crate::jetstream::consumers::receiving::{self, ReceivingClient};
use crate::jetstream::consumers::run::{BATCH, ConsumerOutcome, ConsumerRun, SIZE, new_stream};
use crate::jetstream::link::RequestLink;
use crate::jetstream::stream::LoadStorage;
use crate::metric::Metric;
use crate::pubsub::request::new_latencies;
use crate::target_server::API;
use crate::token;

/// Time for the consumer to be there before the first message is.
const LEAD: Duration = Duration::from_millis(100);

/// How many times longer than other rows these run, for percentiles need messages.
const STRETCH: f64 = 2.5;

/// Digits at the start of a payload: the planned time.
const STAMP: usize = 20;

/// Messages in a steady stream of them.
#[derive(Clone, Debug)]
pub(crate) struct PublishPlan {
    pub(crate) epoch: Instant,
    /// Time from the epoch to the first message.
    pub(crate) lead: Duration,
    /// Messages per second.
    pub(crate) rate: u64,
    /// Messages that are planned.
    pub(crate) count: u64,
}

impl PublishPlan {
    /// A plan of as many messages as fit into this time, from now on.
    pub(crate) fn lasting(duration: Duration, rate: u64) -> Self {
        let count = (duration.as_secs_f64() * STRETCH * rate as f64) as u64;
        Self { epoch: Instant::now(), lead: LEAD, rate, count: count.max(1) }
    }

    /// When this message is to be sent, from the epoch.
    fn planned(&self, number: u64) -> Duration {
        self.lead + Duration::from_nanos(number * 1_000_000_000 / self.rate)
    }

    /// Time from the first message to the end.
    pub(crate) fn length(&self) -> Duration {
        self.planned(self.count) - self.lead
    }
}

/// Measures arrivals against the plan.
#[derive(Debug)]
pub(crate) struct Arrivals {
    epoch: Instant,
    latencies: Histogram<u64>,
}

impl Arrivals {
    /// No arrivals; times count from `epoch`.
    pub(crate) fn new(epoch: Instant) -> Self {
        Self { epoch, latencies: new_latencies() }
    }

    /// A message has arrived.
    pub(crate) fn note(&mut self, payload: &[u8]) -> Result<(), BenchError> {
        let stamp = payload.get(..STAMP).and_then(|stamp| std::str::from_utf8(stamp).ok()?.parse().ok());
        let Some(planned) = stamp else {
            return Err(BenchError::Protocol("a payload without a time".into()));
        };
        let now = self.epoch.elapsed().as_nanos() as u64;
        self.latencies.saturating_record(now.saturating_sub(planned).max(1));
        Ok(())
    }

    /// Latency in microseconds; `quantile` between 0 and 1.
    pub(crate) fn latency(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Publishes to these subjects in turn, at the planned times, and waits for every acknowledgement.
pub(crate) fn publish(
    address: &Address,
    stream: &str,
    subjects: &[String],
    schedule: &PublishPlan,
) -> Result<(), BenchError> {
    // The kernel may otherwise let every sleep last 50 us longer. Where it refuses, both servers
    // wait equally.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut link = RequestLink::open(address, token::inbox())?;
    let answer = Acknowledgement::of(stream);
    let inbox = link.inbox().to_owned();
    let (mut sent, mut stored) = (0, 0);
    let mut last = Instant::now();
    while stored < schedule.count {
        let now = schedule.epoch.elapsed();
        while sent < schedule.count && schedule.planned(sent) <= now {
            let subject = &subjects[(sent % subjects.len() as u64) as usize];
            encode(&mut link.out(), subject, &inbox, schedule.planned(sent));
            sent += 1;
        }
        link.link.flush()?;
        link.receive(|envelope| {
            answer.sequence(envelope)?;
            stored += 1;
            last = Instant::now();
            Ok(())
        })?;
        link.link.flush()?;
        if sent == schedule.count && last.elapsed() > PATIENCE {
            return Err(BenchError::Lost(format!("{stored} of {sent} messages were acknowledged")));
        }
        let next =
            if sent < schedule.count { schedule.planned(sent) } else { now + Duration::from_micros(200) };
        thread::sleep(next.saturating_sub(schedule.epoch.elapsed()));
    }
    Ok(())
}

fn encode(out: &mut Vec<u8>, subject: &str, inbox: &str, planned: Duration) {
    let filler = SIZE - STAMP;
    let line =
        format!("PUB {subject} {inbox}.a {SIZE}\r\n{:0STAMP$}{:x>filler$}\r\n", planned.as_nanos(), "");
    out.extend_from_slice(line.as_bytes());
}

/// End to end at a fixed rate, with a push consumer or one that is pulled from.
pub(super) fn run(rate: u64, is_pull: bool, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let mut admin = Admin::open(run.address)?;
    let stream = new_stream(&mut admin, LoadStorage::File)?;
    let name = format!("C{}", token::unique(8));
    if is_pull {
        let configuration = json!({ "name": name, "durable_name": name, "ack_policy": "explicit" });
        admin.create_consumer(&stream, &configuration)?;
    }
    let subjects: Vec<String> = (0..SUBJECTS).map(|number| format!("{stream}.{number}")).collect();
    let before = run.cpu()?;
    let schedule = PublishPlan::lasting(run.duration(), rate);
    let expected = Expected::exactly(schedule.count);
    let arrivals = thread::scope(|scope| {
        let publisher = scope.spawn(|| publish(run.address, &stream, &subjects, &schedule));
        let arrivals = Arrivals::new(schedule.epoch);
        let arrivals = match is_pull {
            true => pulled(run.address, &stream, &name, &expected, arrivals),
            false => pushed(run.address, &stream, &expected, arrivals),
        };
        let published = publisher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        published.and(arrivals)
    })?;
    let elapsed = schedule.epoch.elapsed() - schedule.lead;
    let cpu = run.cpu_since(before)?;
    if is_pull {
        admin.settle(&stream, &name, schedule.count)?;
    }
    admin.delete_stream(&stream)?;
    let latencies = [(Metric::LatencyMedian, 0.5), (Metric::Latency99, 0.99)];
    let mut outcome = ConsumerOutcome::of_messages(schedule.count, elapsed, cpu);
    outcome.readings.extend(latencies.map(|(metric, quantile)| (metric, arrivals.latency(quantile))));
    Ok(outcome)
}

fn pushed(
    address: &Address,
    stream: &str,
    expected: &Expected,
    arrivals: Arrivals,
) -> Result<Arrivals, BenchError> {
    let wish = push::Wish {
        stream,
        filter: None,
        policy: "all",
        has_acks: false,
        size: SIZE,
        expected,
        enough: None,
    };
    let mut clients = [ReceivingClient::open(address, Push::new(wish).timed(arrivals))?];
    receiving::run(&mut clients)?;
    let [client] = clients;
    Ok(client.actor.into_arrivals().expect("it was timed"))
}

fn pulled(
    address: &Address,
    stream: &str,
    consumer: &str,
    expected: &Expected,
    arrivals: Arrivals,
) -> Result<Arrivals, BenchError> {
    let ledger = RefCell::new(Ledger::default());
    let wish = pull::Wish {
        stream,
        consumer,
        api: API,
        how: How::Consume,
        batch: BATCH,
        acks: Acks::Explicit,
        size: SIZE,
        ledger: &ledger,
        expected,
    };
    let mut clients = [ReceivingClient::open(address, Pull::new(wish).timed(arrivals))?];
    receiving::run(&mut clients)?;
    let [client] = clients;
    Ok(client.actor.into_arrivals().expect("it was timed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_keeps_its_rate() {
        let schedule = PublishPlan::lasting(Duration::from_secs(2), 1000);
        assert_eq!(schedule.count, 5000);
        assert_eq!(schedule.planned(1000) - schedule.planned(0), Duration::from_secs(1));
        assert_eq!(schedule.length(), Duration::from_secs(5));
        assert_eq!(PublishPlan::lasting(Duration::ZERO, 7).count, 1);
    }

    #[test]
    fn a_message_carries_its_planned_time() {
        let mut out = Vec::new();
        encode(&mut out, "S.1", "_INBOX.x", Duration::from_nanos(12));
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("PUB S.1 _INBOX.x.a 128\r\n00000000000000000012x"), "{text}");
        assert_eq!(text.len(), "PUB S.1 _INBOX.x.a 128\r\n".len() + 130);
        let epoch = Instant::now();
        let mut arrivals = Arrivals::new(epoch);
        arrivals.note(&text.as_bytes()["PUB S.1 _INBOX.x.a 128\r\n".len()..]).unwrap();
        assert!(arrivals.latency(0.5) > 0.0 && arrivals.note(b"short").is_err());
    }
}
