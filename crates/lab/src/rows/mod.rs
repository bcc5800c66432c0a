//! Rows: what is measured, how much of it, and the goal of each figure where there is one.
//!
//! This file is the core server's table in code; the rows about streams are in `streams`, those
//! about consumers in `consumers`, about mirrors and sources in `origins`, about TLS and WebSocket
//! in `tls_websocket`, about accounts and users in `identity`, about small servers in `small`,
//! about several servers in `cluster`, those of the studies in the plans that `compare` reads;
//! `footprint` measures servers at rest. Change a goal here only together with
//! `docs/performance.md`.

pub(crate) mod cluster;
pub(crate) mod consumers;
pub(crate) mod footprint;
pub(crate) mod identity;
pub(crate) mod origins;
pub(crate) mod small;
pub(crate) mod streams;
pub(crate) mod tls_websocket;

use std::fmt;
use std::time::Duration;

use myelin_loadgen::connection::address::Address;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream;
use myelin_loadgen::jetstream::stream::Storage;
use myelin_loadgen::latency::{self, LatencyMode, LatencyOutcome, LatencySettings};
use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::publisher::Until;
use myelin_loadgen::pubsub::request::RequestLoad;
use myelin_loadgen::pubsub::throughput::{Interest, ThroughputLoad};

use crate::compare;
use crate::compare::work::Latency;

/// Subjects in rotation where a row does not say otherwise.
pub(crate) const SUBJECTS: usize = 64;

/// Messages a second of what must go on while something else is done to a server.
const PROBED: u64 = 1000;

/// Messages at a steady rate between two clients of a server.
pub(crate) fn probe(address: &Address, duration: Duration) -> Result<LatencyOutcome, BenchError> {
    latency::run(&LatencySettings {
        server: address.into(),
        mode: LatencyMode::PubSub,
        size: 128,
        rate: PROBED,
        connections: 1,
        outstanding: None,
        warming: Duration::from_millis(200),
        duration,
        subject: "probe".into(),
        storage: Storage::Memory,
        responders: 0,
        meter: None,
    })
}

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
    Edges(tls_websocket::TlsWebSocketLoad),
    /// Rules, accounts, logins, reloads.
    Identity(identity::IdentityLoad),
    /// Small servers, and thousands of streams.
    Small(small::SmallLoad),
    /// Three servers that form a cluster.
    Cluster(cluster::ClusterLoad),
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
        }
    }
}

impl Workload {
    /// Whether it sends at a rate of its own, for as long as it is told.
    pub(crate) fn has_rate(&self) -> bool {
        matches!(self, Self::Latency(_))
    }
}

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
    /// Both.
    TimesAndAtMost(f64, f64),
}

impl Bound {
    /// Judges our median, given how many times better than the reference it is (if that is known).
    pub(crate) fn holds(self, ours: f64, times_better: Option<f64>) -> bool {
        match self {
            Self::Times(goal) => times_better.is_some_and(|times| times >= goal),
            Self::AtLeast(goal) => ours >= goal,
            Self::AtMost(goal) => ours <= goal,
            Self::TimesAndAtMost(factor, most) => {
                Self::Times(factor).holds(ours, times_better) && Self::AtMost(most).holds(ours, None)
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
            Self::TimesAndAtMost(factor, most) => write!(f, "{factor}x, <= {most}"),
        }
    }
}

/// What `--rows` calls the rows about the core server.
const CORE: &str = "core";

/// The groups of rows that make the table. That of clusters is asked for by its name.
pub(crate) const TABLE: &str = "core,js,consumers,edges,identity,origins,small";

/// All rows: the core server, streams, consumers, TLS and WebSocket, accounts and users, small
/// servers, clusters, and the study of publishing to streams.
pub(crate) fn rows() -> Vec<Row> {
    let (streams, consumers) = (streams::issue(), consumers::rows());
    let origins = origins::rows();
    let edges = tls_websocket::rows();
    [core(), streams, consumers, origins, edges, identity::rows(), small::rows(), cluster::rows(), study()]
        .concat()
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
        throughput("100k-own", many(load(1, 10, OwnSubjects, 16)), 2.5, 3.5),
        throughput("100k-wildcard", many(load(1, 1, Everything, 16)), 3.0, 3.0),
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

fn load(publishers: usize, receivers: usize, interest: Interest, size: usize) -> ThroughputLoad {
    ThroughputLoad { publishers, receivers, interest, subjects: SUBJECTS, size }
}

/// The load with so many subjects that no cache holds them.
fn many(load: ThroughputLoad) -> ThroughputLoad {
    ThroughputLoad { subjects: 100_000, ..load }
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

fn throughput(name: &'static str, load: ThroughputLoad, rate: f64, cpu: f64) -> Row {
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
        let consumers = consumers::rows().len();
        assert_eq!(
            chosen(TABLE),
            core().len()
                + streams::issue().len()
                + consumers
                + origins::rows().len()
                + tls_websocket::rows().len()
                + identity::rows().len()
                + small::rows().len()
        );
        assert_eq!((chosen("consumers"), chosen("c-*")), (consumers, consumers));
        assert_eq!(chosen("s1"), study().len());
        assert_eq!(chosen(cluster::GROUP), cluster::rows().len());
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
        let both = Bound::TimesAndAtMost(1.0, 20.0);
        assert!(both.holds(20.0, Some(1.0)) && !both.holds(20.1, Some(1.0)) && !both.holds(9.0, Some(0.9)));
        assert!(Bound::AtLeast(90.0).holds(90.0, None) && !Bound::AtLeast(90.0).holds(89.0, None));
    }
}
