//! A run of publishers against receivers, from the connections to the proof that nothing was lost.
//!
//! Owns the order of things: subscribe, barrier, clock on, publish, PONG, last delivery, clock off,
//! settle. The work itself is in `publisher` and `receiver`.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::connection::address::Address;
use crate::error::BenchError;
use crate::meter::{CpuTime, Meter, cpu_of};
use crate::pubsub::flow::{self, Delivery, Flow};
use crate::pubsub::publisher::{self, Published, Until};
use crate::pubsub::receiver::{Intake, Receivers};
use crate::pubsub::script::{self, Script, ScriptSubjects, Sizes};
use crate::pubsub::verify::{Expectation, Order, Verifier};

/// The first token of every subject of a run.
pub(crate) const BASE: &str = "bench";

const LARGEST_BURST: usize = 256 * 1024;

/// Workload of publishers and receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThroughputLoad {
    /// Connections that publish.
    pub publishers: usize,
    /// Connections that subscribe.
    pub receivers: usize,
    /// Subscriptions of each receiver.
    pub interest: ReceiverInterest,
    /// Subjects in rotation, per publisher.
    pub subjects: usize,
    /// Average payload, in bytes.
    pub size: usize,
}

impl fmt::Display for ThroughputLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { publishers, receivers, subjects, size, .. } = self;
        let kind = match self.interest {
            ReceiverInterest::Star => "subscribers to *",
            ReceiverInterest::Everything => "subscribers to >",
            ReceiverInterest::Queue => "members of a queue group",
            ReceiverInterest::OwnSubjects => "subscribers to subjects of their own",
            ReceiverInterest::Pairs => "subscribers to a publisher each",
        };
        write!(f, "{publishers} publishers, {receivers} {kind}, {subjects} subjects each, {size} B")
    }
}

/// How the receivers subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverInterest {
    /// Each to `bench.*`.
    Star,
    /// Each to `bench.>`.
    Everything,
    /// All to `bench.*` as one queue group.
    Queue,
    /// One subscription per subject, spread over the receivers. Only for one publisher.
    OwnSubjects,
    /// Each to what the publisher of the same number publishes.
    Pairs,
}

impl ReceiverInterest {
    fn delivery(self) -> Delivery {
        match self {
            Self::Star | Self::Everything => Delivery::Each,
            Self::Queue | Self::OwnSubjects | Self::Pairs => Delivery::OneOf,
        }
    }
}

/// A load with its messages encoded, for any number of runs.
#[derive(Debug)]
pub struct Prepared {
    load: ThroughputLoad,
    /// How far ahead of the receivers the publishers may be, in bytes per receiver.
    window: u64,
    scripts: Vec<Arc<Script>>,
}

/// Servers of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunEnds<'a> {
    /// Where publishers connect, in turns.
    pub publishers: &'a [Address],
    /// Where receivers connect, in turns.
    pub receivers: &'a [Address],
    /// The processes of all servers, where they are known.
    pub meters: &'a [Meter],
}

/// Result of one throughput run.
#[derive(Clone, Copy, Debug)]
pub struct ThroughputOutcome {
    /// Messages that were published.
    pub messages: u64,
    /// Messages that all receivers together got.
    pub(crate) delivered: u64,
    pub(crate) payload_bytes: u64,
    /// Time from the first byte published to the last PONG and the last delivery.
    pub elapsed: Duration,
    /// Time from the first byte published to the last PONG.
    pub(crate) published_in: Duration,
    /// Time from the first byte published to the last delivery, if anybody received.
    pub(crate) delivered_in: Option<Duration>,
    /// The server's CPU time, where its process was known.
    pub cpu: Option<CpuTime>,
}

impl ThroughputOutcome {
    /// Published messages per second.
    pub fn rate(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64()
    }

    /// Published bytes of payload per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.payload_bytes as f64 / self.elapsed.as_secs_f64()
    }

    /// Messages per second that the publishers could get rid of.
    pub fn published_per_second(&self) -> f64 {
        self.messages as f64 / self.published_in.as_secs_f64()
    }

    /// Messages per second that arrived, all receivers together.
    pub fn delivered_per_second(&self) -> Option<f64> {
        Some(self.delivered as f64 / self.delivered_in?.as_secs_f64())
    }

    /// Microseconds of server CPU per published message.
    pub fn cpu_per_message(&self) -> Option<f64> {
        Some(self.cpu?.scheduled.as_secs_f64() * 1e6 / self.messages as f64)
    }
}

impl Prepared {
    /// Encodes the messages of a load for servers with this payload limit, of which at most
    /// `backlog` bytes may wait in a server.
    pub fn new(load: ThroughputLoad, max_payload: usize, backlog: u64) -> Self {
        Self::with_payloads(load, max_payload, backlog, script::text)
    }

    /// Encodes the messages with payloads like the JSON of real services, which nobody verifies.
    pub fn of_json(load: ThroughputLoad, max_payload: usize, backlog: u64) -> Self {
        Self::with_payloads(load, max_payload, backlog, script::json)
    }

    fn with_payloads(
        load: ThroughputLoad,
        max_payload: usize,
        backlog: u64,
        text: fn(usize) -> Vec<u8>,
    ) -> Self {
        let window = flow::window(load.receivers, backlog);
        let burst_size = usize::try_from(window / 4).map_or(LARGEST_BURST, |size| size.min(LARGEST_BURST));
        let sizes = Sizes::around(load.size, max_payload);
        let text = text(sizes.largest());
        let script = |publisher| {
            Arc::new(Script::encode_from(&text, &load.subjects_of(publisher), &sizes, burst_size))
        };
        Self { load, window, scripts: (0..load.publishers).map(script).collect() }
    }

    /// Runs the load once. `meter` is the server's process, if it is known; `verify` parses every
    /// message, at the price of the figures.
    pub fn run(
        &self,
        address: &Address,
        until: Until,
        meter: Option<Meter>,
        verify: bool,
    ) -> Result<ThroughputOutcome, BenchError> {
        let one = std::slice::from_ref(address);
        let ends = RunEnds { publishers: one, receivers: one, meters: meter.as_slice() };
        self.between(&ends, until, verify, || Ok(()))
    }

    /// Runs the load once on several servers. `settled` returns when interest is known to all of
    /// them.
    pub fn between(
        &self,
        ends: &RunEnds<'_>,
        until: Until,
        verify: bool,
        settled: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<ThroughputOutcome, BenchError> {
        let delivery = self.load.interest.delivery();
        let mut receivers = Receivers::new(self.subscribed(ends.receivers, verify)?, delivery)?;
        settled()?;
        let mut publishers = Vec::new();
        for (script, address) in self.scripts.iter().zip(ends.publishers.iter().cycle()) {
            let mut connection = Connection::open(address)?;
            connection.barrier()?;
            publishers.push((connection, script.as_ref()));
        }
        let flow = Flow::new(delivery, self.load.receivers, self.window);
        let before = cpu_of(ends.meters)?;
        let start = Instant::now();
        let (published, last_delivery) = drive(&mut publishers, &mut receivers, until, &flow)?;
        let cpu = cpu_of(ends.meters)?;
        let sum = |of: fn(&Published) -> u64| published.iter().map(of).sum::<u64>();
        let messages = sum(|p| p.messages);
        if self.load.receivers > 0 {
            receivers.settle(sum(|p| p.delivered_bytes), messages)?;
        }
        let published_at = published.iter().map(|p| p.finished).max().unwrap_or(start);
        let end = last_delivery.map_or(published_at, |last| last.max(published_at));
        let copies = if delivery == Delivery::Each { self.load.receivers as u64 } else { 1 };
        Ok(ThroughputOutcome {
            messages,
            delivered: messages * copies,
            payload_bytes: sum(|p| p.payload_bytes),
            elapsed: end.duration_since(start),
            published_in: published_at.duration_since(start),
            delivered_in: last_delivery.map(|last| last.duration_since(start)),
            cpu: cpu.zip(before).map(|(after, before)| after.since(before)),
        })
    }

    /// Opens the receiving connections; every subscription is in force when this returns.
    fn subscribed(
        &self,
        addresses: &[Address],
        verify: bool,
    ) -> Result<Vec<(Connection, Intake)>, BenchError> {
        let mut connections = Vec::with_capacity(self.load.receivers);
        for (receiver, address) in (0..self.load.receivers).zip(addresses.iter().cycle()) {
            let mut connection = Connection::open(address)?;
            connection.send(&self.load.subscriptions(receiver))?;
            connection.barrier()?;
            connections.push((connection, self.intake(receiver, verify)));
        }
        Ok(connections)
    }

    fn intake(&self, receiver: usize, verify: bool) -> Intake {
        if !verify {
            return Intake::Discard;
        }
        let complete = self.load.interest.delivery() == Delivery::Each;
        let order = Order { scripts: self.scripts.clone(), per_publisher: self.load.subjects };
        let expectation = Expectation {
            base: self.load.base_of(receiver),
            own_sids: self.load.interest == ReceiverInterest::OwnSubjects,
            largest: self.scripts.iter().map(|script| script.largest()).max().unwrap_or(0),
            order: complete.then_some(order),
        };
        Intake::Verify(Box::new(Verifier::new(expectation)))
    }
}

impl ThroughputLoad {
    /// Beginning of the subjects of a publisher, or of the receiver with its number.
    fn base_of(&self, publisher: usize) -> String {
        if self.interest == ReceiverInterest::Pairs { format!("{BASE}.{publisher}") } else { BASE.to_owned() }
    }

    fn subjects_of(&self, publisher: usize) -> ScriptSubjects {
        let (base, count) = (self.base_of(publisher), self.subjects);
        match self.interest {
            ReceiverInterest::OwnSubjects => ScriptSubjects::Own { base, count },
            ReceiverInterest::Pairs => ScriptSubjects::Rotating { base, first: 0, count },
            _ => ScriptSubjects::Rotating { base, first: publisher * count, count },
        }
    }

    /// The SUB lines of one receiver.
    fn subscriptions(&self, receiver: usize) -> Vec<u8> {
        let lines = match self.interest {
            ReceiverInterest::Star | ReceiverInterest::Pairs => {
                format!("SUB {}.* 1\r\n", self.base_of(receiver))
            }
            ReceiverInterest::Everything => format!("SUB {BASE}.> 1\r\n"),
            ReceiverInterest::Queue => format!("SUB {BASE}.* workers 1\r\n"),
            ReceiverInterest::OwnSubjects => (receiver..self.subjects)
                .step_by(self.receivers)
                .map(|number| format!("SUB {BASE}.{number} {}\r\n", number + 1))
                .collect(),
        };
        lines.into_bytes()
    }
}

/// Publishes and receives on threads of their own until everything has arrived; the connections
/// stay open, so that closing them is not measured. The second value is when the last delivery was
/// there, if anybody received.
fn drive(
    publishers: &mut [(Connection, &Script)],
    receivers: &mut Receivers,
    until: Until,
    flow: &Flow,
) -> Result<(Vec<Published>, Option<Instant>), BenchError> {
    let parts: Vec<Until> =
        (0..publishers.len()).map(|number| until.part(publishers.len(), number)).collect();
    thread::scope(|scope| {
        let receiving = (!receivers.is_empty())
            .then(|| scope.spawn(|| receivers.receive(flow).inspect_err(|_| flow.fail())));
        let publishing: Vec<_> = publishers
            .iter_mut()
            .zip(parts)
            .map(|((connection, script), until)| {
                scope.spawn(move || {
                    publisher::publish(connection, script, until, flow).inspect_err(|_| flow.fail())
                })
            })
            .collect();
        let published: Result<Vec<Published>, BenchError> = publishing.into_iter().map(joined).collect();
        if let Ok(published) = &published {
            flow.expect(published.iter().map(|p| p.delivered_bytes).sum());
        }
        let received = receiving.map(joined).transpose();
        match (published, received) {
            // The error that began it, not the one of those who were stopped by it.
            (Err(BenchError::Aborted), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(published), Ok(received)) => Ok((published, received)),
        }
    })
}

/// Result of a thread; its panic goes on here.
pub(crate) fn joined<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
