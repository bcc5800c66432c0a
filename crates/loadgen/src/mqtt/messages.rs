//! Publishers and subscribers, from the connections to the proof that nothing was lost.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::connection::address::Address;
use crate::error::BenchError;
use crate::meter::{CpuTime, Meter, cpu_of};
use crate::mqtt::Qos;
use crate::mqtt::client::MqttClient;
use crate::mqtt::publisher::{self, MqttPublished, Script};
use crate::mqtt::subscriber::Subscribers;
use crate::pubsub::flow::{self, Delivery, Flow};
use crate::pubsub::publisher::Until;
use crate::pubsub::throughput::joined;
use crate::token::unique;

/// Bytes outstanding to all subscribers together. A server that sends each message by itself
/// delivers them within our patience.
const BACKLOG: u64 = 32 << 20;

/// Load of publishers, whose messages all subscribers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MqttMessages {
    /// QoS of messages and subscriptions.
    pub qos: Qos,
    /// Connections that publish.
    pub publishers: usize,
    /// Receivers of the messages.
    pub audience: Audience,
    /// Bytes of a payload.
    pub size: usize,
    /// Messages that a publisher may have without an answer, with QoS 1 and 2.
    pub window: usize,
}

/// Receivers of a load's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Connections, by their number.
    Awake(usize),
    /// One session whose client is not there: messages are kept for it.
    Asleep,
}

impl Audience {
    /// Connections that subscribe.
    fn connections(self) -> usize {
        match self {
            Self::Awake(count) => count,
            Self::Asleep => 0,
        }
    }
}

impl fmt::Display for MqttMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { qos, publishers, audience, size, window } = self;
        match audience {
            Audience::Awake(count) => write!(f, "{publishers} publishers, {count} subscribers")?,
            Audience::Asleep => write!(f, "{publishers} publishers, a session whose client is not there")?,
        }
        write!(f, ", MQTT, QoS {}, {size} B", *qos as u8)?;
        if *qos == Qos::AtMostOnce { Ok(()) } else { write!(f, ", {window} without an answer") }
    }
}

/// Result of one run.
#[derive(Debug)]
pub struct MqttOutcome {
    /// Messages that were published.
    pub messages: u64,
    /// Time from the first to the last answer and delivery.
    pub elapsed: Duration,
    /// Nanoseconds from sending a message to its last answer; none with QoS 0.
    pub latencies: Histogram<u64>,
    /// The server's CPU time, where its process was known.
    pub cpu: Option<CpuTime>,
}

impl MqttOutcome {
    /// MqttPublished messages per second.
    pub fn rate(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64()
    }

    /// Microseconds of server CPU per published message.
    pub fn cpu_per_message(&self) -> Option<f64> {
        Some(self.cpu?.scheduled.as_secs_f64() * 1e6 / self.messages as f64)
    }

    /// A latency in microseconds, if there are any; `quantile` between 0 and 1.
    pub fn latency(&self, quantile: f64) -> Option<f64> {
        (!self.latencies.is_empty()).then(|| self.latencies.value_at_quantile(quantile) as f64 / 1e3)
    }
}

impl MqttMessages {
    /// Runs the load once. `meter` is the server's process, if it is known.
    ///
    /// # Errors
    /// Whatever ended the run; a message that was lost, or came twice, is one.
    pub fn run(
        &self,
        address: &Address,
        until: Until,
        meter: Option<Meter>,
    ) -> Result<MqttOutcome, BenchError> {
        let base = unique(12);
        let scripts: Vec<Script> =
            (0..self.publishers).map(|number| Script::new(&base, number, self.qos, self.size)).collect();
        let frame = scripts.first().map_or(0, Script::frame_len);
        let filter = [format!("{base}/+")];
        if self.audience == Audience::Asleep {
            let mut sleeper = MqttClient::connect(address, &base, false)?;
            sleeper.subscribe(&filter, self.qos)?;
            sleeper.leave()?;
        }
        let subscribe = |number: usize| {
            let mut client = MqttClient::connect(address, &format!("{base}-s{number}"), true)?;
            client.subscribe(&filter, self.qos)?;
            Ok(client)
        };
        let clients =
            (0..self.audience.connections()).map(subscribe).collect::<Result<Vec<_>, BenchError>>()?;
        let subscribers = Subscribers::new(clients, self.qos, frame)?;
        let connect = |number: usize| MqttClient::connect(address, &format!("{base}-p{number}"), true);
        let publishers = (0..self.publishers).map(connect).collect::<Result<Vec<_>, BenchError>>()?;
        let outcome = self.drive(publishers, &scripts, subscribers, until, meter.as_slice())?;
        if self.audience == Audience::Asleep {
            MqttClient::connect(address, &base, true)?.leave()?;
        }
        Ok(outcome)
    }

    fn drive(
        &self,
        mut publishers: Vec<MqttClient>,
        scripts: &[Script],
        mut subscribers: Subscribers,
        until: Until,
        meters: &[Meter],
    ) -> Result<MqttOutcome, BenchError> {
        let awake = self.audience.connections();
        let flow = Flow::new(Delivery::Each, awake, flow::window(awake, BACKLOG));
        let before = cpu_of(meters)?;
        let start = Instant::now();
        let (published, last) = thread::scope(|scope| {
            let receiving =
                (awake > 0).then(|| scope.spawn(|| subscribers.receive(&flow).inspect_err(|_| flow.fail())));
            let publish = |(number, (client, script)): (usize, (_, _))| {
                let (until, flow) = (until.part(self.publishers, number), &flow);
                scope.spawn(move || {
                    publisher::publish(client, script, self.window, until, flow).inspect_err(|_| flow.fail())
                })
            };
            let publishing: Vec<_> = publishers.iter_mut().zip(scripts).enumerate().map(publish).collect();
            let published: Result<Vec<MqttPublished>, BenchError> =
                publishing.into_iter().map(joined).collect();
            if let (Ok(published), Some(script)) = (&published, scripts.first()) {
                flow.expect(total(published) * script.frame_len());
            }
            let received = receiving.map(joined).transpose();
            match (published, received) {
                // The error that began it, not the one of those who were stopped by it.
                (Err(BenchError::Aborted), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
                (Ok(published), Ok(received)) => Ok((published, received)),
            }
        })?;
        let end = Instant::now();
        let cpu = cpu_of(meters)?.zip(before).map(|(after, before)| after.since(before));
        let messages = total(&published);
        if let Some(script) = scripts.first() {
            subscribers.settle(messages * script.frame_len())?;
        }
        let elapsed = last.map_or(end, |last| last.max(start)).duration_since(start);
        let mut latencies = published.into_iter().map(|publisher| publisher.latencies);
        let mut all = latencies.next().ok_or_else(|| BenchError::Usage("nobody publishes".into()))?;
        latencies.for_each(|more| all += more);
        Ok(MqttOutcome { messages, elapsed, latencies: all, cpu })
    }
}

fn total(published: &[MqttPublished]) -> u64 {
    published.iter().map(|publisher| publisher.messages).sum()
}
