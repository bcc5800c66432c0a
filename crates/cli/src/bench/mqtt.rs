//! `bench mqtt`: messages, sessions and retained messages of MQTT, against any server of it.
//!
//! Owns the arguments and the lines. The clients are those of `myelin-loadgen`; what compares
//! servers is `myelin-lab compare mqtt`.

use clap::{Args, Subcommand};
use myelin_loadgen::connection::address::Address;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::meter::{CpuTime, Meter};
use myelin_loadgen::mqtt::messages::{Audience, MqttMessages};
use myelin_loadgen::mqtt::retained::MqttRetained;
use myelin_loadgen::mqtt::sessions::MqttSessions;
use myelin_loadgen::mqtt::{Qos, idle};
use myelin_loadgen::pubsub::publisher::Until;
use myelin_loadgen::units::{Bytes, grouped};

use crate::screen::tell;

/// The port of servers of MQTT where nothing else is said.
const SERVER: &str = "localhost:1883";

pub(super) const HELP: &str = "\
Load a server of MQTT, 3.1.1 on plain TCP and without credentials.

A publisher and a hundred subscribers, then messages of QoS 1 with a hundred unanswered, then one at a time:
  myelin bench mqtt messages --subscribers 100
  myelin bench mqtt messages --qos 1 --window 100 --server-pid $(pgrep -n nats-server)
  myelin bench mqtt messages --qos 1 --window 1

Sessions that stay when their clients have left, and retained messages that late clients read:
  myelin bench mqtt sessions --count 2000 --filters 10 --leave
  myelin bench mqtt retained --count 1000000";

/// `myelin bench mqtt …`
#[derive(Debug, Args)]
pub(crate) struct MqttArguments {
    #[command(subcommand)]
    load: Load,
    /// Host and port of the server
    #[arg(long, short = 's', global = true, default_value = SERVER)]
    server: Address,
    /// Process id of the server, to know its CPU time and memory
    #[arg(long, global = true, value_name = "PID")]
    server_pid: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum Load {
    /// Publish messages that all subscribers get
    Messages {
        /// QoS of messages and subscriptions
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
        qos: u8,
        /// Connections that publish
        #[arg(long, default_value_t = 1)]
        publishers: usize,
        /// Connections that subscribe
        #[arg(long, default_value_t = 1)]
        subscribers: usize,
        /// Keep the messages for a session whose client is not there, instead of subscribers
        #[arg(long)]
        asleep: bool,
        /// Messages, of all publishers together
        #[arg(long, default_value_t = 100_000)]
        msgs: u64,
        /// Size of the messages
        #[arg(long, default_value = "64B")]
        size: Bytes,
        /// Messages of QoS 1 and 2 that a publisher may have without an answer
        #[arg(long, default_value_t = 100)]
        window: usize,
    },
    /// Make sessions that last, with subscriptions of QoS 1
    Sessions {
        /// Sessions
        #[arg(long, default_value_t = 2000)]
        count: usize,
        /// Filters of each
        #[arg(long, default_value_t = 10)]
        filters: usize,
        /// Disconnect each client as soon as it has subscribed
        #[arg(long)]
        leave: bool,
    },
    /// Publish retained messages, and read a thousand and all of them
    Retained {
        /// Messages, each on a topic of its own
        #[arg(long, default_value_t = 100_000)]
        count: usize,
        /// Size of the messages
        #[arg(long, default_value = "64B")]
        size: Bytes,
    },
    /// Open connections that do nothing
    Idle {
        /// Connections
        #[arg(long, default_value_t = 1000)]
        count: usize,
    },
}

/// Runs the load.
pub(crate) fn run(arguments: &MqttArguments) -> Result<(), BenchError> {
    let (server, meter) = (&arguments.server, arguments.server_pid.map(Meter::of));
    match &arguments.load {
        Load::Messages { qos, publishers, subscribers, asleep, msgs, size, window } => {
            let qos = Qos::new(*qos).unwrap_or_default();
            let audience = if *asleep { Audience::Asleep } else { Audience::Awake(*subscribers) };
            let (publishers, size, window) = (*publishers, bytes(*size), *window);
            let load = MqttMessages { qos, publishers, audience, size, window };
            messages(&load, *msgs, server, meter)
        }
        Load::Sessions { count, filters, leave } => {
            sessions(MqttSessions { count: *count, filters: *filters }, *leave, server, meter)
        }
        Load::Retained { count, size } => {
            retained(MqttRetained { count: *count, size: bytes(*size) }, server, meter)
        }
        Load::Idle { count } => {
            let meter = meter.ok_or_else(|| BenchError::Usage("--server-pid is needed".into()))?;
            let each = idle::memory_per_connection(server, meter, *count)?;
            tell(&format!("{} idle connections ~ server memory {each:.0} B each\n", grouped(*count as u64)));
            Ok(())
        }
    }
}

fn bytes(size: Bytes) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX).min(1 << 26)
}

fn messages(
    load: &MqttMessages,
    count: u64,
    server: &Address,
    meter: Option<Meter>,
) -> Result<(), BenchError> {
    tell(&format!("{load}, {} messages:\n", grouped(count)));
    let outcome = load.run(server, Until::Messages(count), meter)?;
    let mut line = format!(" {} msgs/sec", grouped(outcome.rate() as u64));
    for (name, quantile) in [("P50", 0.5), ("P99", 0.99), ("P99.9", 0.999)] {
        if let Some(latency) = outcome.latency(quantile) {
            line.push_str(&format!(" ~ {name}: {latency:.1}us"));
        }
    }
    tell(&format!("{line}{}\n", server_cpu(outcome.cpu, count)));
    Ok(())
}

/// Text about the server's time for each of `count`, if that is known.
fn server_cpu(cpu: Option<CpuTime>, count: u64) -> String {
    cpu.map_or_else(String::new, |cpu| {
        format!(" ~ server CPU {:.3}us each", cpu.scheduled.as_secs_f64() * 1e6 / count as f64)
    })
}

fn sessions(
    load: MqttSessions,
    leaving: bool,
    server: &Address,
    meter: Option<Meter>,
) -> Result<(), BenchError> {
    let before = meter.map(Meter::resident_at_rest).transpose()?;
    let made = load.make(server, leaving, meter)?;
    let count = load.count as u64;
    let cpu = server_cpu(made.cpu, count);
    tell(&format!(
        "{} sessions/sec, {} filters each{cpu}\n",
        grouped(made.rate(load.count) as u64),
        load.filters
    ));
    if let Some((meter, before)) = meter.zip(before) {
        let each = meter.resident_at_rest()?.saturating_sub(before) as f64 / count as f64;
        tell(&format!(" server memory {each:.0} B each\n"));
    }
    Ok(())
}

fn retained(load: MqttRetained, server: &Address, meter: Option<Meter>) -> Result<(), BenchError> {
    load.publish(server)?;
    let before = meter.map(Meter::resident_at_rest).transpose()?;
    let (some, all) = (load.read_some(server)?, load.read_all(server)?);
    tell(&format!(
        "{} retained messages: 1,000 in {some:.1?}, all in {all:.1?}\n",
        grouped(load.count as u64)
    ));
    if let Some((meter, before)) = meter.zip(before) {
        let (before, most) = (before >> 20, meter.most_resident()? >> 20);
        tell(&format!(" server memory {before} MiB before they were read, at most {most} MiB\n"));
    }
    Ok(())
}
