//! Rows: what is measured, how much of it, and the goal of each figure where there is one.
//!
//! This file is the core server's table in code; the rows about streams are in `jetstream::rows`, those about
//! consumers in `jetstream::consumers::rows`, those about TLS and WebSocket in
//! `edges`, those about accounts and users in `identity`, those of the studies in the plans that `compare` reads. Change a goal here
//! only together with `docs/performance.md`.

use std::fmt;

use crate::bench::compare;
use crate::bench::compare::work::Latency;
use crate::bench::edges;
use crate::bench::identity;
use crate::bench::jetstream;
use crate::bench::publisher::Until;
use crate::bench::request::RequestLoad;
use crate::bench::throughput::{Interest, Load};

/// Subjects in rotation where a row does not say otherwise.
pub(crate) const SUBJECTS: usize = 64;

/// One workload of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What `--rows` matches.
    pub(crate) name: String,
    /// What `--rows` matches as well, for all rows of a group.
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

/// What is done to the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Workload {
    Throughput(Load),
    Requests(RequestLoad),
    /// This load, with SUB/UNSUB churn on another connection and without.
    Churn(Load),
    /// Memory of 1,000,000 subscriptions.
    Subscriptions,
    /// Memory of idle connections.
    IdleConnections,
    /// A process that has just been started.
    Start,
    /// JetStream.
    Streams(jetstream::Load),
    /// Consumers of JetStream, and what clients build on them.
    Consumers(jetstream::consumers::Load),
    /// Messages at planned times.
    Latency(Latency),
    /// TLS and WebSocket.
    Edges(edges::Load),
    /// Rules, accounts, logins, reloads.
    Identity(identity::Load),
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
        }
    }
}

impl Workload {
    /// Whether it sends at a rate of its own, for as long as it is told.
    pub(crate) fn has_rate(&self) -> bool {
        matches!(self, Self::Latency(_))
    }
}

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    MessageRate,
    Cpu,
    LatencyMedian,
    Latency99,
    /// Percent of the calm rate that a publisher keeps beside churn.
    RateKept,
    /// SUB/UNSUB pairs per second that were made beside the publisher.
    ChurnRate,
    SubscriptionMemory,
    ConnectionMemory,
    ProcessMemory,
    StartTime,
    SubjectMemory,
    /// Messages published per second beside those that are counted as the row's.
    PublishRate,
    /// Consumers made per second.
    CreationRate,
    ConsumerMemory,
    /// Milliseconds of CPU time per second, with hardly anything to do.
    IdleCpu,
    PendingMemory,
    /// Payload, in million bytes per second.
    ByteRate,
    /// Messages per second until the server had taken the last from its publisher.
    PublishedRate,
    /// Deliveries per second, all receivers together, until the last.
    DeliveredRate,
    Latency999,
    Latency9999,
    Latency99999,
    Latency999999,
    LatencyMost,
    /// Resident memory behind a round, with whatever the server keeps of it.
    LoadedMemory,
    /// Milliseconds from the signal until the new configuration holds.
    ReloadTime,
    /// Logins per second.
    LoginRate,
}

/// All of them, in the order in which comparisons show them.
pub(crate) const ALL: [Metric; 27] = [
    Metric::MessageRate,
    Metric::ByteRate,
    Metric::PublishRate,
    Metric::PublishedRate,
    Metric::DeliveredRate,
    Metric::RateKept,
    Metric::ChurnRate,
    Metric::CreationRate,
    Metric::LatencyMedian,
    Metric::Latency99,
    Metric::Latency999,
    Metric::Latency9999,
    Metric::Latency99999,
    Metric::Latency999999,
    Metric::LatencyMost,
    Metric::Cpu,
    Metric::IdleCpu,
    Metric::LoadedMemory,
    Metric::ProcessMemory,
    Metric::SubscriptionMemory,
    Metric::ConnectionMemory,
    Metric::ConsumerMemory,
    Metric::SubjectMemory,
    Metric::PendingMemory,
    Metric::StartTime,
    Metric::ReloadTime,
    Metric::LoginRate,
];

/// What a figure must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) metric: Metric,
    pub(crate) bound: Bound,
}

/// How a goal is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// At least this many times better than the reference.
    Times(f64),
    AtLeast(f64),
    AtMost(f64),
}

impl Metric {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::MessageRate => "msgs/s",
            Self::Cpu => "CPU us/msg",
            Self::LatencyMedian => "p50 us",
            Self::Latency99 => "p99 us",
            Self::RateKept => "rate kept %",
            Self::ChurnRate => "SUB/UNSUB pairs/s",
            Self::SubscriptionMemory => "bytes/subscription",
            Self::ConnectionMemory => "bytes/connection",
            Self::ProcessMemory => "resident MiB",
            Self::StartTime => "ms until it greets",
            Self::SubjectMemory => "bytes/subject",
            Self::PublishRate => "published/s",
            Self::CreationRate => "consumers made/s",
            Self::ConsumerMemory => "bytes/consumer",
            Self::IdleCpu => "CPU ms/s",
            Self::PendingMemory => "bytes/pending ack",
            Self::ByteRate => "MB/s",
            Self::PublishedRate => "msgs/s at publisher",
            Self::DeliveredRate => "msgs/s at subscriber",
            Self::Latency999 => "p99.9 us",
            Self::Latency9999 => "p99.99 us",
            Self::Latency99999 => "p99.999 us",
            Self::Latency999999 => "p99.9999 us",
            Self::LatencyMost => "max us",
            Self::LoadedMemory => "resident MiB after",
            Self::ReloadTime => "ms to reload",
            Self::LoginRate => "logins/s",
        }
    }

    /// What comparisons call it, and its unit.
    pub(crate) fn figure(self) -> (&'static str, &'static str) {
        match self {
            Self::MessageRate => ("rate", "msgs/s"),
            Self::Cpu => ("server CPU", "us/msg"),
            Self::LatencyMedian => ("latency p50", "us"),
            Self::Latency99 => ("latency p99", "us"),
            Self::Latency999 => ("latency p99.9", "us"),
            Self::Latency9999 => ("latency p99.99", "us"),
            Self::Latency99999 => ("latency p99.999", "us"),
            Self::Latency999999 => ("latency p99.9999", "us"),
            Self::LatencyMost => ("latency max", "us"),
            Self::RateKept => ("rate kept", "%"),
            Self::ChurnRate => ("churn", "SUB/UNSUB pairs/s"),
            Self::SubscriptionMemory => ("memory", "bytes/subscription"),
            Self::ConnectionMemory => ("memory", "bytes/connection"),
            Self::ConsumerMemory => ("memory", "bytes/consumer"),
            Self::SubjectMemory => ("memory", "bytes/subject"),
            Self::PendingMemory => ("memory", "bytes/pending ack"),
            Self::ProcessMemory => ("resident at start", "MiB"),
            Self::LoadedMemory => ("resident after", "MiB"),
            Self::StartTime => ("start", "ms"),
            Self::PublishRate | Self::PublishedRate => ("rate at publisher", "msgs/s"),
            Self::DeliveredRate => ("rate at subscriber", "msgs/s"),
            Self::CreationRate => ("creation", "consumers/s"),
            Self::IdleCpu => ("idle CPU", "ms/s"),
            Self::ByteRate => ("bytes", "MB/s"),
            Self::ReloadTime => ("reload", "ms"),
            Self::LoginRate => ("logins", "logins/s"),
        }
    }

    /// Whether the table with goals leaves it out, because another figure of the same row says it.
    pub(crate) fn is_detail(self) -> bool {
        matches!(self, Self::ByteRate | Self::PublishedRate | Self::DeliveredRate | Self::LoadedMemory)
    }

    /// Whether a larger figure is the better one.
    pub(crate) fn more_is_better(self) -> bool {
        matches!(
            self,
            Self::MessageRate
                | Self::RateKept
                | Self::ChurnRate
                | Self::PublishRate
                | Self::CreationRate
                | Self::ByteRate
                | Self::PublishedRate
                | Self::DeliveredRate
                | Self::LoginRate
        )
    }
}

impl Bound {
    /// Judges our median, given how many times better than the reference it is (if that is known).
    pub(crate) fn holds(self, ours: f64, times_better: Option<f64>) -> bool {
        match self {
            Self::Times(goal) => times_better.is_some_and(|times| times >= goal),
            Self::AtLeast(goal) => ours >= goal,
            Self::AtMost(goal) => ours <= goal,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(goal) => write!(f, "{goal}x"),
            Self::AtLeast(goal) => write!(f, ">= {goal}"),
            Self::AtMost(goal) => write!(f, "<= {goal}"),
        }
    }
}

/// What `--rows` calls the rows about the core server.
const CORE: &str = "core";

/// The groups of rows that make the table.
pub(crate) const TABLE: &str = "core,js,consumers,edges,identity,origins";

/// All rows: the core server, streams, consumers, TLS and WebSocket, accounts and users, and the study of publishing to streams.
pub(crate) fn rows() -> Vec<Row> {
    let (streams, consumers) = (jetstream::rows::issue(), jetstream::consumers::rows::rows());
    let origins = jetstream::consumers::origins::rows();
    [core(), streams, consumers, origins, edges::rows(), identity::rows(), study()].concat()
}

/// What `--rows` calls the study of publishing to streams.
const STUDY: &str = "s1";

/// The rows of that study's plan; how much of them is done, the table says.
fn study() -> Vec<Row> {
    let plan =
        compare::file::Plan::built_in(STUDY).expect("the plan is part of the program, and tests read it");
    let row = |row: Row| Row { name: format!("{STUDY}-{}", row.name), group: STUDY, amount: None, ..row };
    plan.rows.into_iter().map(row).collect()
}

/// The rows about the core server, in the order of the issue.
fn core() -> Vec<Row> {
    const K: usize = 1024;
    const M: usize = 1024 * K;
    use Interest::{Everything, OwnSubjects, Queue, Star};
    vec![
        throughput("pub-16", load(1, 0, Star, 16), 3.0, 4.0),
        throughput("pub-128", load(1, 0, Star, 128), 2.5, 4.0),
        throughput("1:1-16", load(1, 1, Star, 16), 4.0, 6.0),
        throughput("1:1-128", load(1, 1, Star, 128), 3.0, 4.0),
        throughput("1:1-16K", load(1, 1, Star, 16 * K), 1.2, 1.4),
        throughput("1:1-1M", load(1, 1, Star, M), 1.1, 1.8),
        throughput("1:4-128", load(1, 4, Star, 128), 3.0, 4.5),
        throughput("1:64-128", load(1, 64, Star, 128), 8.0, 12.0),
        throughput("1:1000-128", load(1, 1000, Star, 128), 8.0, 15.0),
        throughput("queue10-0", load(1, 10, Queue, 0), 2.5, 4.0),
        throughput("queue10-128", load(1, 10, Queue, 128), 2.5, 4.0),
        throughput("queue10-4K", load(1, 10, Queue, 4 * K), 1.2, 1.4),
        throughput("queue10-1M", load(1, 10, Queue, M), 1.1, 1.8),
        throughput("4x4-128", load(4, 4, Star, 128), 3.0, 5.0),
        throughput("100k-own", Load { subjects: 100_000, ..load(1, 10, OwnSubjects, 16) }, 2.5, 3.5),
        throughput("100k-wildcard", Load { subjects: 100_000, ..load(1, 1, Everything, 16) }, 3.0, 3.0),
        requests(
            "request-1",
            1,
            16,
            &[times(Metric::LatencyMedian, 1.0), times(Metric::Latency99, 1.0)],
            1.2,
            1.8,
        ),
        requests("request-50", 50, 128, &[], 1.4, 1.6),
        row(
            "churn",
            Workload::Churn(load(1, 1, Star, 128)),
            vec![goal(Metric::RateKept, Bound::AtLeast(90.0))],
        ),
        row("subscriptions", Workload::Subscriptions, vec![times(Metric::SubscriptionMemory, 3.0)]),
        row(
            "idle",
            Workload::IdleConnections,
            vec![goal(Metric::ConnectionMemory, Bound::AtMost(3.0 * K as f64))],
        ),
        row(
            "start",
            Workload::Start,
            vec![
                goal(Metric::ProcessMemory, Bound::AtMost(6.0)),
                goal(Metric::StartTime, Bound::AtMost(20.0)),
            ],
        ),
    ]
}

fn load(publishers: usize, receivers: usize, interest: Interest, size: usize) -> Load {
    Load { publishers, receivers, interest, subjects: SUBJECTS, size }
}

fn row(name: &'static str, workload: Workload, goals: Vec<Goal>) -> Row {
    Row { goals, ..Row::new(name, CORE, workload) }
}

pub(crate) fn goal(metric: Metric, bound: Bound) -> Goal {
    Goal { metric, bound }
}

pub(crate) fn times(metric: Metric, factor: f64) -> Goal {
    goal(metric, Bound::Times(factor))
}

fn throughput(name: &'static str, load: Load, rate: f64, cpu: f64) -> Row {
    row(name, Workload::Throughput(load), vec![times(Metric::MessageRate, rate), times(Metric::Cpu, cpu)])
}

fn requests(name: &'static str, clients: usize, size: usize, latency: &[Goal], rate: f64, cpu: f64) -> Row {
    let load = RequestLoad { clients, services: 1, size, subjects: SUBJECTS };
    let goals = [&[times(Metric::MessageRate, rate), times(Metric::Cpu, cpu)], latency].concat();
    row(name, Workload::Requests(load), goals)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name) in
            [("*", "1:1-16"), ("1:1-*", "1:1-16K"), ("*-16", "pub-16"), ("q*0*K", "queue10-4K")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("1:1-16", "1:1-16K"), ("*-16", "1:1-16K"), ("", "idle"), ("x*", "idle")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn groups_are_chosen_by_their_name() {
        let chosen = |patterns: &str| rows().iter().filter(|row| row.is_among(patterns)).count();
        let consumers = jetstream::consumers::rows::rows().len();
        assert_eq!(
            chosen(TABLE),
            core().len()
                + jetstream::rows::issue().len()
                + consumers
                + jetstream::consumers::origins::rows().len()
                + edges::rows().len()
                + identity::rows().len()
        );
        assert_eq!((chosen("consumers"), chosen("c-*")), (consumers, consumers));
        assert_eq!(chosen("s1"), study().len());
        assert_eq!(chosen("s1-sync-*, js-get-1"), 7);
        assert_eq!(chosen("*"), rows().len());
    }

    #[test]
    fn names_are_distinct_and_every_row_of_an_issue_has_a_goal() {
        let rows = rows();
        let names: std::collections::BTreeSet<_> = rows.iter().map(|row| &row.name).collect();
        assert_eq!(names.len(), rows.len());
        assert!(rows.iter().all(|row| !row.goals.is_empty() || row.group == STUDY));
    }

    #[test]
    fn bounds_are_judged() {
        assert!(Bound::Times(3.0).holds(0.0, Some(3.0)) && !Bound::Times(3.0).holds(9.0, Some(2.9)));
        assert!(!Bound::Times(1.0).holds(9.0, None));
        assert!(Bound::AtMost(6.0).holds(6.0, None) && !Bound::AtMost(6.0).holds(6.1, Some(9.0)));
        assert!(Bound::AtLeast(90.0).holds(90.0, None) && !Bound::AtLeast(90.0).holds(89.0, None));
    }
}
