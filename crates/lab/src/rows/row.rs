//! Row of the table: what is done to the servers, how much of it, and what it must reach.

use std::fmt;

use myelin_loadgen::jetstream;
use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::publisher::Until;
use myelin_loadgen::pubsub::request::RequestLoad;
use myelin_loadgen::pubsub::throughput::ThroughputLoad;

use crate::rows::cluster::ClusterLoad;
use crate::rows::identity::IdentityLoad;
use crate::rows::latency::Latency;
use crate::rows::mqtt::MqttLoad;
use crate::rows::small::SmallLoad;
use crate::rows::tls_websocket::TlsWebSocketLoad;

/// One workload of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Name, which `--rows` matches.
    pub(crate) name: String,
    /// Name of the row's group, which `--rows` matches as well.
    pub(crate) group: &'static str,
    pub(crate) workload: Workload,
    pub(crate) goals: Vec<Goal>,
    /// How much is done, where it is not as the settings say.
    pub(crate) amount: Option<Amount>,
    /// The systems that it is for; all, if there are none.
    pub(crate) systems: Vec<String>,
}

/// How much of a row is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amount {
    /// The end of a round.
    pub(crate) until: Until,
    pub(crate) warm_up: Until,
    pub(crate) rounds: usize,
}

/// Workload of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Workload {
    Throughput(ThroughputLoad),
    Requests(RequestLoad),
    /// This load, with SUB/UNSUB churn on another connection and without.
    Churn(ThroughputLoad),
    /// Memory of 1,000,000 subscriptions.
    Subscriptions,
    /// Memory of idle connections.
    IdleConnections,
    /// A process that has just been started.
    Start,
    /// JetStream.
    Streams(jetstream::StreamLoad),
    /// Consumers of JetStream, and what clients build on them.
    Consumers(jetstream::consumers::ConsumerLoad),
    /// Messages at planned times.
    Latency(Latency),
    /// TLS and WebSocket.
    Edges(TlsWebSocketLoad),
    /// Rules, accounts, logins, reloads.
    Identity(IdentityLoad),
    /// Small servers, and thousands of streams.
    Small(SmallLoad),
    /// Three servers that form a cluster.
    Cluster(ClusterLoad),
    /// MQTT.
    Mqtt(MqttLoad),
}

/// Messages of a stream that is read at scale 1.
pub(crate) const FULL_STREAM: u64 = 1_000_000;

impl fmt::Display for Workload {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput(load) => write!(f, "{load}"),
            Self::Requests(RequestLoad { clients, services, size, .. }) => {
                write!(f, "{clients} clients request, {services} services echo, {size} B")
            }
            Self::Churn(load) => {
                write!(f, "{load}, with and without 10,000 SUB/UNSUB pairs a second beside it")
            }
            Self::Subscriptions => write!(f, "memory of subscriptions"),
            Self::IdleConnections => write!(f, "memory of idle connections"),
            Self::Start => write!(f, "a process that has just been started"),
            Self::Streams(load) => write!(f, "{load}"),
            Self::Consumers(load) => write!(f, "{load}"),
            Self::Latency(load) => write!(f, "{load}"),
            Self::Edges(load) => write!(f, "{load}"),
            Self::Identity(load) => write!(f, "{load}"),
            Self::Small(load) => write!(f, "{load}"),
            Self::Cluster(load) => write!(f, "{load}"),
            Self::Mqtt(load) => write!(f, "{load}"),
        }
    }
}

impl Workload {
    /// Whether it sends at a rate of its own, for as long as it is told.
    pub(crate) fn has_rate(&self) -> bool {
        matches!(self, Self::Latency(_))
    }
}

/// Bound that a figure must keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) metric: Metric,
    pub(crate) bound: Bound,
}

/// How a goal is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// Smallest factor by which the figure must be better than that of the reference.
    Times(f64),
    AtLeast(f64),
    AtMost(f64),
    /// A smallest factor and an upper limit, both of which must hold.
    TimesAndAtMost(f64, f64),
    /// Better than the reference in each round, but for one at most.
    AllRoundsButOne,
}

impl Bound {
    /// Judges our median, given how many times better than the reference it is (if that is known),
    /// and in how many rounds it was worse.
    pub(crate) fn holds(self, ours: f64, times_better: Option<f64>, rounds_lost: usize) -> bool {
        match self {
            Self::AllRoundsButOne => times_better.is_some() && rounds_lost <= 1,
            Self::Times(goal) => times_better.is_some_and(|times| times >= goal),
            Self::AtLeast(goal) => ours >= goal,
            Self::AtMost(goal) => ours <= goal,
            Self::TimesAndAtMost(factor, most) => {
                times_better.is_some_and(|times| times >= factor) && ours <= most
            }
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(goal) => write!(f, "{goal}x"),
            Self::AtLeast(goal) => write!(f, ">= {goal}"),
            Self::AtMost(goal) => write!(f, "<= {goal}"),
            Self::AllRoundsButOne => f.write_str("1x in all rounds but one"),
            Self::TimesAndAtMost(factor, most) => write!(f, "{factor}x, <= {most}"),
        }
    }
}

pub(crate) fn goal(metric: Metric, bound: Bound) -> Goal {
    Goal { metric, bound }
}

pub(crate) fn times(metric: Metric, factor: f64) -> Goal {
    goal(metric, Bound::Times(factor))
}

impl Row {
    /// A row without goals, for all systems, of which as much is done as the settings say.
    pub(crate) fn new(name: &str, group: &'static str, workload: Workload) -> Self {
        let (goals, systems) = (Vec::new(), Vec::new());
        Self { name: name.to_owned(), group, workload, goals, amount: None, systems }
    }

    /// Whether one of these comma-separated patterns matches the row's name or is its group.
    pub(crate) fn is_among(&self, patterns: &str) -> bool {
        patterns
            .split(',')
            .map(str::trim)
            .any(|pattern| pattern == self.group || matches(pattern, &self.name))
    }
}

/// Whether a row's name matches a pattern in which `*` stands for anything.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            let mut ends = (0..=name.len()).filter(|&from| name.is_char_boundary(from));
            ends.any(|from| matches(rest, &name[from..]))
        }),
    }
}
