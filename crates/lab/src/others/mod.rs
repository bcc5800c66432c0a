//! Systems that do not speak NATS: the same workloads through the client libraries that their users
//! have.
//!
//! Owns what a workload is for them. A publisher and a subscriber have a thread each; every payload
//! carries its number, and a message that is missing, comes twice or is out of order fails the run.
//! The rooms: a file for each system, which starts its server and speaks to it, and `latency`.
//! Blocking and plain: what is compared are the systems with their clients, and the clients cost
//! more than our driver of NATS servers.

pub(crate) mod driver;
pub(crate) mod kafka;
pub(crate) mod latency;
pub(crate) mod mosquitto;
pub(crate) mod rabbitmq;
pub(crate) mod redis;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use myelin_loadgen::connection::PATIENCE;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::consumers;
use myelin_loadgen::meter::Meter;
use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::publisher::Until;
use myelin_loadgen::pubsub::script;
use myelin_loadgen::pubsub::throughput::{ReceiverInterest, ThroughputLoad};
use myelin_loadgen::results::program_version;

use crate::others::driver::{
    Broker, END, NUMBER, Publisher, Sort, Subscriber, joined, new_place, number_of, numbered,
};
use crate::round::Round;
use crate::rows::row::{Amount, Workload};
use crate::servers::process::Server;
use crate::servers::scratch::Scratch;
use crate::servers::system::{System, SystemKind};

/// Bytes that may be on their way to the slowest subscriber: systems that push cut off those who
/// fall behind.
const WINDOW: u64 = 8 << 20;

/// Whether there is a driver for this.
fn can(kind: SystemKind, workload: &Workload) -> bool {
    match workload {
        _ if kind == SystemKind::Mosquitto => matches!(workload, Workload::Mqtt(_)),
        Workload::Throughput(load) => {
            let is_plain =
                load.interest == ReceiverInterest::Star && load.publishers == 1 && load.receivers > 0;
            kind != SystemKind::Kafka && is_plain && load.size >= NUMBER
        }
        Workload::Consumers(consumers::ConsumerLoad::Together { pairs: 1, size, .. }) => *size >= NUMBER,
        Workload::Latency(load) => latency::can(kind, load),
        _ => false,
    }
}

/// Starts a server of a kind that does not speak NATS.
pub(crate) fn start(system: &System, scratch: &Scratch) -> Result<Server, BenchError> {
    match system.kind {
        SystemKind::Redis => redis::start(&system.program, scratch),
        SystemKind::RabbitMq => rabbitmq::start(&system.program, scratch),
        SystemKind::Kafka => kafka::start(&system.program, scratch),
        SystemKind::Mosquitto => mosquitto::start(&system.program, scratch),
        SystemKind::Nats => Server::start(&system.program),
    }
}

/// Version that a system tells of itself, where `--version` does not tell it.
fn version(system: &System) -> Option<String> {
    match system.kind {
        SystemKind::RabbitMq => rabbitmq::version(&system.program),
        SystemKind::Kafka => kafka::version(&system.program),
        SystemKind::Mosquitto => mosquitto::version(&system.program),
        SystemKind::Nats | SystemKind::Redis => None,
    }
}

/// Does a workload once.
pub(crate) fn measure(
    kind: SystemKind,
    server: &Server,
    workload: &Workload,
    amount: Amount,
) -> Result<Round, BenchError> {
    let (port, meter) = (server.address().port, server.meter());
    let broker: Box<dyn Broker> = match kind {
        SystemKind::Redis => Box::new(redis::Redis::new(port)?),
        SystemKind::RabbitMq => Box::new(rabbitmq::RabbitMq::new(port)?),
        SystemKind::Kafka => Box::new(kafka::Kafka::new(port)?),
        SystemKind::Nats | SystemKind::Mosquitto => {
            return Err(BenchError::Usage("such servers have a driver of their own".into()));
        }
    };
    match workload {
        Workload::Throughput(ThroughputLoad { receivers, size, .. }) => {
            relay(broker.as_ref(), Sort::Topic, *receivers, *size, amount.until, meter)
        }
        Workload::Consumers(consumers::ConsumerLoad::Together { size, .. }) => {
            relay(broker.as_ref(), Sort::Log, 1, *size, amount.until, meter)
        }
        Workload::Latency(load) => latency::measure(broker.as_ref(), load, amount, meter),
        workload => Err(BenchError::Usage(format!("there is no driver for {workload}"))),
    }
}

/// How far everybody is.
struct Progress {
    /// Messages that have arrived, for each subscriber.
    arrived: Vec<AtomicU64>,
    failed: AtomicBool,
    window: u64,
}

impl Progress {
    fn has_room(&self, sent: u64) -> bool {
        let slowest = self.arrived.iter().map(|count| count.load(Ordering::Relaxed)).min();
        sent.saturating_sub(slowest.unwrap_or(sent)) < self.window
    }

    /// Waits until the slowest subscriber is near enough for another message.
    fn wait_for_room(&self, sent: u64) -> Result<(), BenchError> {
        let since = Instant::now();
        while !self.has_room(sent) {
            if self.failed.load(Ordering::Relaxed) {
                return Err(BenchError::Aborted);
            }
            if since.elapsed() > PATIENCE {
                return Err(BenchError::Lost("the subscribers stopped receiving".into()));
            }
            thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }
}

/// One publisher, and subscribers who each get everything.
fn relay(
    broker: &dyn Broker,
    sort: Sort,
    receivers: usize,
    size: usize,
    until: Until,
    meter: Meter,
) -> Result<Round, BenchError> {
    let place = new_place(sort);
    let subscribers: Result<Vec<_>, _> = (0..receivers).map(|_| broker.subscriber(&place)).collect();
    let (mut subscribers, mut publisher) = (subscribers?, broker.publisher(&place)?);
    let progress = Progress {
        arrived: (0..receivers).map(|_| AtomicU64::new(0)).collect(),
        failed: AtomicBool::new(false),
        window: (WINDOW / size as u64).max(2),
    };
    let (before, start) = (meter.cpu()?, Instant::now());
    let (published, arrived) = thread::scope(|scope| {
        let progress = &progress;
        let fail = |_: &BenchError| progress.failed.store(true, Ordering::Relaxed);
        let receiving: Vec<_> = subscribers
            .iter_mut()
            .zip(&progress.arrived)
            .map(|(subscriber, count)| {
                scope.spawn(move || receive(subscriber.as_mut(), size, count).inspect_err(fail))
            })
            .collect();
        let published = publish(publisher.as_mut(), size, until, progress).inspect_err(fail);
        let arrived: Vec<Result<(u64, Instant), BenchError>> = receiving.into_iter().map(joined).collect();
        (published, arrived)
    });
    let cpu = meter.cpu()?.since(before);
    let arrived: Result<Vec<(u64, Instant)>, BenchError> = arrived.into_iter().collect();
    let (arrived, (count, published_at)) = match (arrived, published) {
        // The error that began it, not the one of those who were stopped by it.
        (Err(error), Err(BenchError::Aborted)) => return Err(error),
        (arrived, published) => {
            let published = published?;
            (arrived?, published)
        }
    };
    if let Some((few, _)) = arrived.iter().find(|(arrived, _)| *arrived != count) {
        return Err(BenchError::Lost(format!("{few} of {count} messages arrived")));
    }
    let last = arrived.iter().map(|(_, at)| *at).max().unwrap_or(published_at);
    let per_second = |count: u64, end: Instant| count as f64 / end.duration_since(start).as_secs_f64();
    let rate = per_second(count, last.max(published_at));
    let readings = vec![
        (Metric::MessageRate, rate),
        (Metric::ByteRate, rate * size as f64 / 1e6),
        (Metric::PublishedRate, per_second(count, published_at)),
        (Metric::DeliveredRate, per_second(count * receivers as u64, last)),
        (Metric::Cpu, cpu.scheduled.as_secs_f64() * 1e6 / count as f64),
    ];
    Ok(Round { readings, cpu: Some(cpu), ..Round::default() })
}

/// Publishes, and the end behind it; gives the number of messages and when the last was taken.
fn publish(
    publisher: &mut dyn Publisher,
    size: usize,
    until: Until,
    progress: &Progress,
) -> Result<(u64, Instant), BenchError> {
    let (text, start, mut sent) = (script::text(size), Instant::now(), 0_u64);
    let is_over = |sent: u64| match until {
        Until::Messages(count) => sent >= count,
        Until::Elapsed(duration) => sent.is_multiple_of(16) && start.elapsed() >= duration,
    };
    let mut payload = Vec::with_capacity(size);
    while !is_over(sent) {
        if !progress.has_room(sent) {
            publisher.flush()?;
            progress.wait_for_room(sent)?;
        }
        numbered(&mut payload, &text, sent, size);
        publisher.publish(&payload)?;
        sent += 1;
    }
    publisher.flush()?;
    let finished = Instant::now();
    publisher.publish(END)?;
    publisher.flush()?;
    Ok((sent, finished))
}

/// Receives until the end; gives the number of messages and when the last was there.
fn receive(
    subscriber: &mut dyn Subscriber,
    size: usize,
    count: &AtomicU64,
) -> Result<(u64, Instant), BenchError> {
    let (mut expected, mut last, mut is_over) = (0, Instant::now(), false);
    while !is_over {
        subscriber.next(&mut |payload| {
            if payload == END {
                is_over = true;
                return Ok(());
            }
            match number_of(payload, size)? {
                number if number == expected && !is_over => expected += 1,
                number => {
                    return Err(BenchError::Lost(format!("message {number} came where {expected} was due")));
                }
            }
            last = Instant::now();
            Ok(())
        })?;
        count.store(expected, Ordering::Relaxed);
    }
    Ok((expected, last))
}

impl SystemKind {
    /// Whether such a server can do it.
    pub(crate) fn can(self, workload: &Workload) -> bool {
        self == Self::Nats || can(self, workload)
    }
}

impl System {
    /// Version that the system tells of itself, on one line.
    pub(crate) fn version(&self) -> String {
        version(self).unwrap_or_else(|| program_version(&self.program))
    }
}
