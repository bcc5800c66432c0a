//! Rows: what is measured, how much of it, and the goal of each figure where there is one.
//!
//! This file is the core server's table in code; the rows about streams are in `streams`, those
//! about consumers in `consumers`, about mirrors and sources in `origins`, about TLS and WebSocket
//! in `tls_websocket`, about accounts and users in `identity`, about small servers in `small`,
//! about several servers in `cluster`, `leaf` and `gateway`, about MQTT in `mqtt`, those of the
//! studies in the plans that `compare` reads; `footprint` measures servers at rest. Change a goal
//! here only together with `docs/performance.md`.

pub(crate) mod cluster;
pub(crate) mod consumers;
pub(crate) mod footprint;
pub(crate) mod gateway;
pub(crate) mod identity;
pub(crate) mod latency;
pub(crate) mod leaf;
pub(crate) mod mqtt;
pub(crate) mod origins;
pub(crate) mod probe;
pub(crate) mod row;
pub(crate) mod small;
pub(crate) mod streams;
pub(crate) mod subjects;
pub(crate) mod tables;
pub(crate) mod tls_websocket;

use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::request::RequestLoad;
use myelin_loadgen::pubsub::throughput::{ReceiverInterest, ThroughputLoad};

use crate::compare::file::Plan;
use crate::rows::row::{Bound, Goal, Row, Workload, goal, times};
use crate::rows::subjects::SUBJECTS;

/// Group of the rows about the core server, for `--rows`.
const CORE: &str = "core";

/// The groups of rows that make the table. Those of several servers are asked for by their names.
pub(crate) const TABLE: &str = "core,js,consumers,edges,identity,origins,small";

/// All rows: the core server, streams, consumers, TLS and WebSocket, accounts and users, small
/// servers, clusters, leaf nodes, gateways, and the study of publishing to streams.
pub(crate) fn rows() -> Vec<Row> {
    let (streams, consumers) = (streams::issue(), consumers::rows());
    let origins = origins::rows();
    let edges = tables::edges();
    [
        core(),
        streams,
        consumers,
        origins,
        edges,
        tables::identity(),
        tables::small(),
        tables::cluster(),
        streams::replicated(),
        tables::leaf(),
        tables::gateway(),
        study(),
    ]
    .concat()
}

/// Group of the study of publishing to streams, for `--rows`.
const STUDY: &str = "s1";

/// The rows of that study's plan; how much of them is done, the table says.
fn study() -> Vec<Row> {
    let plan = Plan::built_in(STUDY).expect("the plan is part of the program, and tests read it");
    let row = |row: Row| Row { name: format!("{STUDY}-{}", row.name), group: STUDY, amount: None, ..row };
    plan.rows.into_iter().map(row).collect()
}

/// The rows about the core server, in the order of the issue.
fn core() -> Vec<Row> {
    const K: usize = 1024;
    const M: usize = 1024 * K;
    use ReceiverInterest::{Everything, OwnSubjects, Queue, Star};
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

fn load(publishers: usize, receivers: usize, interest: ReceiverInterest, size: usize) -> ThroughputLoad {
    ThroughputLoad { publishers, receivers, interest, subjects: SUBJECTS, size }
}

/// The load with so many subjects that no cache holds them.
fn many(load: ThroughputLoad) -> ThroughputLoad {
    ThroughputLoad { subjects: 100_000, ..load }
}

fn row(name: &'static str, workload: Workload, goals: Vec<Goal>) -> Row {
    Row { goals, ..Row::new(name, CORE, workload) }
}

fn throughput(name: &'static str, load: ThroughputLoad, rate: f64, cpu: f64) -> Row {
    row(name, Workload::Throughput(load), vec![times(Metric::MessageRate, rate), times(Metric::Cpu, cpu)])
}

fn requests(name: &'static str, clients: usize, size: usize, latency: &[Goal], rate: f64, cpu: f64) -> Row {
    let load = RequestLoad { clients, services: 1, size, subjects: SUBJECTS };
    let goals = [&[times(Metric::MessageRate, rate), times(Metric::Cpu, cpu)], latency].concat();
    row(name, Workload::Requests(load), goals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::row::matches;

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
                + tables::edges().len()
                + tables::identity().len()
                + tables::small().len()
        );
        assert_eq!((chosen("consumers"), chosen("c-*")), (consumers, consumers));
        assert_eq!(chosen("s1"), study().len());
        assert_eq!(chosen(cluster::GROUP), tables::cluster().len());
        assert_eq!(chosen(leaf::GROUP), tables::leaf().len());
        assert_eq!(chosen(gateway::GROUP), tables::gateway().len());
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
        let holds = |bound: Bound, ours, times| bound.holds(ours, times, 2);
        assert!(holds(Bound::Times(3.0), 0.0, Some(3.0)) && !holds(Bound::Times(3.0), 9.0, Some(2.9)));
        assert!(!holds(Bound::Times(1.0), 9.0, None));
        assert!(holds(Bound::AtMost(6.0), 6.0, None) && !holds(Bound::AtMost(6.0), 6.1, Some(9.0)));
        let both = Bound::TimesAndAtMost(1.0, 20.0);
        assert!(holds(both, 20.0, Some(1.0)));
        assert!(!holds(both, 20.1, Some(1.0)) && !holds(both, 9.0, Some(0.9)));
        assert!(holds(Bound::AtLeast(90.0), 90.0, None) && !holds(Bound::AtLeast(90.0), 89.0, None));
        let rounds = Bound::AllRoundsButOne;
        assert!(rounds.holds(9.0, Some(0.5), 1) && !rounds.holds(9.0, Some(1.5), 2));
        assert!(!rounds.holds(9.0, None, 0));
    }
}
