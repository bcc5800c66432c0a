//! How long messages take at a fixed rate.
//!
//! An open loop: every message has a planned time that does not depend on what became of the ones
//! before, and latency counts from there. A connection may be limited in how many messages it has
//! under way; what has to wait for that, or for a server that reads nothing, waits on the record.
//! This file owns what a run is and what it gives, and sets up both ends. The rooms: `schedule` is
//! the plan, `driver` the thread that keeps to it, `role` what a connection sends and understands,
//! `pending` turns arrivals into latencies, `respond` is the other side, `null` is what the driver
//! itself adds.
//!
//! A driver of a system that does not speak NATS takes `Schedule` and `Pending`, and makes an
//! `LatencyOutcome` of them.

pub(crate) mod driver;
pub mod null;
pub(crate) mod pending;
pub mod respond;
pub(crate) mod role;
pub(crate) mod schedule;

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::admin::Admin;
use crate::error::BenchError;
use crate::jetstream::answer::Acknowledgement;
use crate::jetstream::consumers::ledger::{Expected, Ledger};
use crate::jetstream::consumers::pull::{self, Acks, How, Pull};
use crate::jetstream::consumers::receiving::ReceivingClient;
use crate::jetstream::stream::{Feature, LoadStorage, Streams};
use crate::latency::driver::{Driver, Sender};
pub use crate::latency::pending::Pending;
use crate::latency::respond::Responders;
use crate::latency::role::{Frame, Role, RolePart};
pub use crate::latency::schedule::Schedule;
use crate::meter::{CpuTime, Meter};
use crate::results::{Behind, Better, Cell, Clock, Curve, Distribution, Figure};
use crate::target_server::Target;
use crate::token;
use crate::units::size_text;

/// A run whose last message comes this much later than the plan ends, and by a twentieth of the
/// plan, has fallen behind.
const BEHIND: Duration = Duration::from_millis(250);

/// Messages that a consumer asks for at a time.
const BATCH: u64 = 500;

/// The percentiles that are figures of a run, where enough samples lie beyond them.
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("p99.999", 0.99999)];

/// Path of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LatencyMode {
    /// To a service and back, with an answer of the same size
    Request,
    /// From a publisher to a subscriber on another connection
    PubSub,
    /// Into a stream, until the acknowledgement is there
    JsAck,
    /// Through a stream, to a client that consumes it and acknowledges each message
    JsConsume,
}

/// A run.
#[derive(Clone, Debug)]
pub struct LatencySettings {
    /// The server that is measured.
    pub server: Target,
    /// Path of the messages.
    pub mode: LatencyMode,
    /// Bytes of each payload.
    pub size: usize,
    /// Messages per second, all connections together.
    pub rate: u64,
    /// Connections that send; as many others receive, unless the senders do so themselves.
    pub connections: usize,
    /// Messages that one connection may have under way; `None` for any number.
    pub outstanding: Option<u64>,
    /// How long messages are sent before they count.
    pub warming: Duration,
    /// Duration of the run without the warming.
    pub duration: Duration,
    /// Start of the run's subjects.
    pub subject: String,
    /// Where a stream keeps them, in the modes that have one.
    pub storage: LoadStorage,
    /// Services that answer, each with a connection and a thread; 0 if they run elsewhere.
    pub responders: usize,
    /// The server's process, to know its CPU time.
    pub meter: Option<Meter>,
}

/// Result of one latency run.
#[derive(Clone, Debug)]
pub struct LatencyOutcome {
    /// Messages that were counted.
    pub messages: u64,
    /// Time from the planned time of the first of them to the last arrival of all.
    pub elapsed: Duration,
    /// Time that the counted messages should have taken.
    pub planned: Duration,
    /// Latencies from the planned time of each message.
    pub from_planned: Distribution,
    /// Latencies from when each message was really sent.
    pub from_sent: Distribution,
    /// How late the driver was for messages that nothing else held up.
    pub lateness: Distribution,
    /// Messages that had to wait for others on their connection.
    pub(crate) held_up: u64,
    /// The server's CPU time per message, warming included, where its process was known.
    pub cpu_per_message: Option<Duration>,
}

/// Measures once. A message that is lost or comes twice fails the run.
pub fn run(settings: &LatencySettings) -> Result<LatencyOutcome, BenchError> {
    settings.check()?;
    // The kernel may otherwise let every sleep last 50 us longer. Where it refuses, spinning has to
    // do.
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
    match settings.mode {
        LatencyMode::Request => settings.request(),
        LatencyMode::PubSub => settings.publish_and_subscribe(),
        LatencyMode::JsAck => settings.in_stream(LatencySettings::store),
        LatencyMode::JsConsume => settings.in_stream(LatencySettings::store_and_consume),
    }
}

impl LatencyMode {
    /// The mode on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::PubSub => "pub-sub",
            Self::JsAck => "js-ack",
            Self::JsConsume => "js-consume",
        }
    }

    /// Both ends of the path whose latency is measured, in words.
    pub fn what(self) -> &'static str {
        match self {
            Self::Request => "request to answer",
            Self::PubSub => "publisher to subscriber",
            Self::JsAck => "publish to acknowledgement",
            Self::JsConsume => "publisher to consumer",
        }
    }

    /// Usual limit of messages under way on a connection: one for requests, whose client waits for
    /// the answer; none for published messages.
    pub fn usual_outstanding(self) -> Option<u64> {
        (self == Self::Request).then_some(1)
    }

    fn is_stamped(self) -> bool {
        matches!(self, Self::PubSub | Self::JsConsume)
    }
}

impl LatencySettings {
    /// The row's name in a report.
    pub fn name(&self) -> String {
        format!("{} {}", self.mode.name(), self.load())
    }

    /// How much goes how often over how many connections, wherever it goes.
    pub fn load(&self) -> String {
        let times = if self.connections == 1 { String::new() } else { format!(" x{}", self.connections) };
        format!("{} @{}/s{times}", size_text(self.size), self.rate)
    }

    /// Description of the workload, in one line.
    pub fn workload(&self) -> String {
        let outstanding = match self.outstanding {
            Some(count) => format!("{count} under way on each"),
            None => "any number under way".into(),
        };
        let storage = match self.mode {
            LatencyMode::JsAck | LatencyMode::JsConsume => {
                format!(", storage {:?}", self.storage).to_lowercase()
            }
            LatencyMode::Request | LatencyMode::PubSub => String::new(),
        };
        format!(
            "{}, {} of noise at {} messages/s over {} connection{} ({outstanding}{storage}), {:?} after {:?} of warming",
            self.mode.what(),
            size_text(self.size),
            self.rate,
            self.connections,
            if self.connections == 1 { "" } else { "s" },
            self.duration,
            self.warming,
        )
    }

    fn check(&self) -> Result<(), BenchError> {
        let wrong = if self.rate == 0 || self.connections == 0 || self.outstanding == Some(0) {
            "rates, connections and messages under way must be at least 1"
        } else if self.duration.is_zero() {
            "the duration must be more than 0"
        } else if self.mode.is_stamped() && self.size < role::STAMP {
            "payloads of pub-sub and js-consume must have at least 8 bytes, for they carry a number"
        } else {
            return Ok(());
        };
        Err(BenchError::Usage(wrong.into()))
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(self.rate, self.warming, self.duration)
    }

    fn request(&self) -> Result<LatencyOutcome, BenchError> {
        let pattern = format!("{}.*", self.subject);
        let (mut senders, mut clients) = (Vec::new(), Vec::new());
        for number in 0..self.connections {
            let subject = format!("{}.{number}", self.subject);
            let (sender, client) = self.asking(&subject, RolePart::Requester { size: self.size })?;
            senders.push(sender);
            clients.push(client);
        }
        Responders::beside(&self.server, &pattern, self.responders, || self.drive(senders, clients, false))
    }

    fn publish_and_subscribe(&self) -> Result<LatencyOutcome, BenchError> {
        let (mut senders, mut clients) = (Vec::new(), Vec::new());
        // A word of its own keeps messages of another run out of this one.
        let base = format!("{}.{}", self.subject, token::unique(8));
        for number in 0..self.connections {
            let frame = Frame::new(&format!("{base}.{number}"), None, self.size, true);
            senders.push(Sender::new(frame, self.outstanding));
            clients.push(ReceivingClient::on(self.server.connect()?, Role::new(RolePart::Publisher))?);
        }
        for number in 0..self.connections {
            let part = RolePart::Subscriber { size: self.size };
            clients.push(self.subscribed(&format!("{base}.{number}"), part)?);
        }
        self.drive(senders, clients, false)
    }

    /// Works in a stream made for it, which must hold every message afterwards.
    fn in_stream(
        &self,
        work: fn(&Self, &str) -> Result<LatencyOutcome, BenchError>,
    ) -> Result<LatencyOutcome, BenchError> {
        let mut streams = Streams::create(&self.server, 1, self.storage, 1, Feature::Nothing)?;
        let name = streams.names()[0].clone();
        let outcome = work(self, &name).and_then(|outcome| {
            let (stored, sent) = (streams.counts(&name)?.messages, self.schedule().count());
            match stored == sent {
                true => Ok(outcome),
                false => Err(BenchError::Lost(format!("{sent} messages were sent and {stored} are stored"))),
            }
        });
        let deleted = streams.delete();
        outcome.and_then(|outcome| deleted.map(|()| outcome))
    }

    fn store(&self, stream: &str) -> Result<LatencyOutcome, BenchError> {
        let (senders, clients) = self.storing(stream, true)?;
        self.drive(senders, clients, false)
    }

    fn store_and_consume(&self, stream: &str) -> Result<LatencyOutcome, BenchError> {
        let mut admin = Admin::open(&self.server)?;
        let name = format!("C{}", token::unique(8));
        let configuration = json!({
            "name": name, "durable_name": name, "ack_policy": "explicit", "max_ack_pending": 10_000,
        });
        admin.create_consumer(stream, &configuration)?;
        let count = self.schedule().count();
        let (ledger, expected) = (RefCell::new(Ledger::default()), Expected::exactly(count));
        let wish = pull::Wish {
            stream,
            consumer: &name,
            api: &self.server.api,
            how: How::Consume,
            batch: BATCH,
            acks: Acks::Explicit,
            size: self.size,
            ledger: &ledger,
            expected: &expected,
        };
        let (senders, mut clients) = self.storing(stream, false)?;
        for _ in 0..self.connections {
            let part = RolePart::Consumer(Box::new(Pull::on(wish, self.server.inbox())));
            clients.push(ReceivingClient::on(self.server.connect()?, Role::new(part))?);
        }
        let outcome = self.drive(senders, clients, true)?;
        admin.settle(stream, &name, count)?;
        Ok(outcome)
    }

    /// Senders who publish to a stream.
    fn storing<'a>(
        &self,
        stream: &str,
        is_arrival: bool,
    ) -> Result<(Vec<Sender>, Vec<ReceivingClient<Role<'a>>>), BenchError> {
        let sender = |number| {
            let part = RolePart::Storing { answer: Acknowledgement::of(stream), is_arrival };
            self.asking(&format!("{stream}.{number}"), part)
        };
        (0..self.connections).map(sender).collect()
    }

    /// A sender who is subscribed to an inbox of its own.
    fn asking<'a>(
        &self,
        subject: &str,
        part: RolePart<'a>,
    ) -> Result<(Sender, ReceivingClient<Role<'a>>), BenchError> {
        let inbox = self.server.inbox();
        let client = self.subscribed(&format!("{inbox}.*"), part)?;
        let frame = Frame::new(subject, Some(&inbox), self.size, self.mode.is_stamped());
        Ok((Sender::new(frame, self.outstanding), client))
    }

    fn subscribed<'a>(
        &self,
        subject: &str,
        part: RolePart<'a>,
    ) -> Result<ReceivingClient<Role<'a>>, BenchError> {
        let mut connection = self.server.connect()?;
        if self.size > connection.max_payload() {
            let text = format!("the server takes payloads of up to {} bytes", connection.max_payload());
            return Err(BenchError::Usage(text));
        }
        connection.send(format!("SUB {subject} 1\r\n").as_bytes())?;
        connection.barrier()?;
        ReceivingClient::on(connection, Role::new(part))
    }

    fn drive(
        &self,
        senders: Vec<Sender>,
        clients: Vec<ReceivingClient<Role<'_>>>,
        is_stored: bool,
    ) -> Result<LatencyOutcome, BenchError> {
        let schedule = self.schedule();
        let before = self.meter.map(Meter::cpu).transpose()?;
        let started = Instant::now();
        let pending = Driver::new(schedule, senders, clients, self.size)?.run(is_stored)?;
        let elapsed = started.elapsed();
        let after = self.meter.map(Meter::cpu).transpose()?;
        let cpu = after.zip(before).map(|(after, before)| after.since(before));
        Ok(LatencyOutcome::of(schedule, pending, elapsed, cpu))
    }
}

impl LatencyOutcome {
    /// `elapsed` counts from the schedule's zero to the last arrival.
    pub fn of(schedule: Schedule, pending: Pending, elapsed: Duration, cpu: Option<CpuTime>) -> Self {
        let each =
            |cpu: CpuTime| Duration::from_secs_f64(cpu.scheduled.as_secs_f64() / schedule.count() as f64);
        Self {
            messages: pending.from_planned.count(),
            elapsed: elapsed.saturating_sub(Duration::from_nanos(schedule.counted_from())),
            planned: Duration::from_nanos(schedule.planned(schedule.count()) - schedule.counted_from()),
            cpu_per_message: cpu.map(each),
            held_up: pending.held_up,
            from_planned: pending.from_planned,
            from_sent: pending.from_sent,
            lateness: pending.lateness,
        }
    }

    /// Messages per second that really went through.
    pub fn rate(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64()
    }

    /// Rates of a run that fell behind its plan; its latencies are those of a queue that grew all
    /// the time.
    pub fn behind(&self) -> Option<Behind> {
        let late = self.elapsed.saturating_sub(self.planned);
        let planned = self.messages as f64 / self.planned.as_secs_f64();
        (late > BEHIND && late > self.planned / 20).then(|| Behind { rate: self.rate(), planned })
    }
}

fn words(Behind { rate, planned }: Behind) -> String {
    format!("{rate:.0} messages/s of {planned:.0}: a queue grew, and latencies are mostly its length")
}

/// Cell of a system, from these rounds of one run. `what` is [`LatencyMode::what`].
pub fn cell(system: &str, what: &str, rounds: &[LatencyOutcome]) -> Cell {
    let curve = |clock, part: fn(&LatencyOutcome) -> &Distribution| {
        let mut latencies = Distribution::default();
        rounds.iter().for_each(|round| latencies.add(part(round)));
        Curve { what: what.to_owned(), clock, latencies }
    };
    Cell {
        system: system.to_owned(),
        figures: figures(rounds),
        curves: vec![
            curve(Clock::Planned, |round| &round.from_planned),
            curve(Clock::Sent, |round| &round.from_sent),
            curve(Clock::Driver, |round| &round.lateness),
        ],
        errors: rounds.iter().filter_map(LatencyOutcome::behind).map(words).collect(),
        behind: None,
    }
}

/// The numbers of these rounds. A percentile that too few samples support is left to the curves,
/// which show how few.
fn figures(rounds: &[LatencyOutcome]) -> Vec<Figure> {
    let values = |value: &dyn Fn(&LatencyOutcome) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
    let is_supported =
        |quantile| rounds.iter().all(|round| !round.from_planned.percentile(quantile).is_thin());
    let percentile = |(name, quantile): (&str, f64)| {
        let values = values(&|round| round.from_planned.microseconds(quantile));
        Figure::new(format!("latency {name}"), "us", Better::Low, values)
    };
    let mut figures: Vec<Figure> =
        QUANTILES.into_iter().filter(|&(_, quantile)| is_supported(quantile)).map(percentile).collect();
    let cpu: Option<Vec<f64>> =
        rounds.iter().map(|round| Some(round.cpu_per_message?.as_secs_f64() * 1e6)).collect();
    figures.extend(cpu.map(|values| Figure::new("server CPU", "us/msg", Better::Low, values)));
    let about = |name, unit, values| Figure::new(name, unit, Better::Neither, values);
    figures.extend([
        about("rate kept", "msgs/s", values(&LatencyOutcome::rate)),
        about("samples", "msgs", values(&|round| round.messages as f64)),
        about("held up", "msgs", values(&|round| round.held_up as f64)),
        about("driver late p99", "us", values(&|round| round.lateness.microseconds(0.99))),
    ]);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::address::Address;

    fn settings(mode: LatencyMode) -> LatencySettings {
        LatencySettings {
            server: Target::from(&Address::loopback(4222)),
            mode,
            size: 1024,
            rate: 3000,
            connections: 25,
            outstanding: mode.usual_outstanding(),
            warming: Duration::from_secs(1),
            duration: Duration::from_secs(30),
            subject: "latency".into(),
            storage: LoadStorage::File,
            responders: 1,
            meter: None,
        }
    }

    #[test]
    fn a_row_is_named_by_what_distinguishes_it() {
        assert_eq!(settings(LatencyMode::Request).name(), "request 1KB @3000/s x25");
        let alone = LatencySettings { connections: 1, size: 5, ..settings(LatencyMode::JsAck) };
        assert_eq!(alone.name(), "js-ack 5B @3000/s");
        let workload = alone.workload();
        assert!(workload.contains("storage file") && workload.contains("any number under way"), "{workload}");
    }

    #[test]
    fn impossible_settings_are_refused_before_anything_is_opened() {
        let usual = settings(LatencyMode::PubSub);
        for wrong in [
            LatencySettings { rate: 0, ..usual.clone() },
            LatencySettings { connections: 0, ..usual.clone() },
            LatencySettings { outstanding: Some(0), ..usual.clone() },
            LatencySettings { duration: Duration::ZERO, ..usual.clone() },
            LatencySettings { size: 7, ..usual.clone() },
        ] {
            assert!(matches!(run(&wrong), Err(BenchError::Usage(_))), "{wrong:?}");
        }
        assert!(
            usual.check().is_ok()
                && LatencySettings { size: 0, ..settings(LatencyMode::Request) }.check().is_ok()
        );
    }

    #[test]
    fn rounds_make_a_cell() {
        let schedule = Schedule::new(100, Duration::ZERO, Duration::from_secs(1));
        let round = |latency: u64| {
            let mut pending = Pending::new(schedule);
            for number in 0..100 {
                pending.send(number, schedule.planned(number) + 5_000, false);
                pending.arrive(number, schedule.planned(number) + 5_000 + latency).unwrap();
            }
            LatencyOutcome::of(schedule, pending, Duration::from_nanos(schedule.planned(100)), None)
        };
        let cell = cell("s", "x", &[round(95_000), round(195_000), round(295_000)]);
        let names: Vec<_> = cell.figures.iter().map(|figure| figure.name.as_str()).collect();
        // A hundred samples a round support nothing beyond p90.
        let expected = ["latency p50", "latency p90", "rate kept", "samples", "held up", "driver late p99"];
        assert_eq!(names, expected);
        let median = cell.figures[0].spread().unwrap();
        assert!((median.median - 200.0).abs() < 0.5 && (median.most - 300.0).abs() < 0.5, "{median:?}");
        assert!((cell.figure("rate kept").unwrap().values[0] - 100.0).abs() < 0.1);
        assert!(cell.curves.iter().all(|curve| curve.latencies.count() == 300));
        assert!((cell.curves[1].latencies.microseconds(0.5) - 195.0).abs() < 0.5);
        assert!((cell.curves[2].latencies.microseconds(0.5) - 5.0).abs() < 0.1);
        assert!(cell.errors.is_empty(), "{:?}", cell.errors);
        let slow = LatencyOutcome { elapsed: Duration::from_secs(2), ..round(1) };
        assert_eq!(slow.behind(), Some(Behind { rate: 50.0, planned: 100.0 }));
        assert_eq!(round(1).behind(), None);
        let cell = super::cell("s", "x", &[round(1), slow]);
        assert!(
            matches!(&cell.errors[..], [error] if error.starts_with("50 messages/s of 100: ")),
            "{:?}",
            cell.errors
        );
    }
}
