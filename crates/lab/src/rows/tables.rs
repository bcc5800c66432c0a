//! Tables of the rows whose workloads are of this program: TLS and WebSocket, accounts and users,
//! small servers, clusters, leaf nodes, gateways.
//!
//! Change a goal here only together with `docs/performance.md`.

use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::throughput::{ReceiverInterest, ThroughputLoad};

use crate::rows::cluster::{self, ClusterLoad};
use crate::rows::gateway::{self, GatewayLoad};
use crate::rows::identity::{self, IdentityLoad};
use crate::rows::leaf::{self, LeafLoad, Way};
use crate::rows::row::{Bound, Goal, Row, Workload, goal, times};
use crate::rows::small::{self, SmallLoad, TOGETHER};
use crate::rows::streams;
use crate::rows::subjects::SUBJECTS;
use crate::rows::tls_websocket::{self, Over, TlsWebSocketLoad};

/// Rows about servers that form a cluster.
pub(super) fn cluster() -> Vec<Row> {
    let row = |name: &str, load, goals: Vec<Goal>| Row {
        goals,
        ..Row::new(name, cluster::GROUP, Workload::Cluster(load))
    };
    let load = |publishers, receivers, interest, size| ThroughputLoad {
        publishers,
        receivers,
        interest,
        subjects: SUBJECTS,
        size,
    };
    let apart = |size| ClusterLoad::Throughput {
        load: load(1, 1, ReceiverInterest::Star, size),
        publishers: &[0],
        receivers: &[1],
    };
    let over_all = |load, receivers| ClusterLoad::Throughput { load, publishers: &[0, 1, 2], receivers };
    let cpu = |factor| times(Metric::Cpu, factor);
    let requests = |clients, size| ClusterLoad::Requests { clients, size };
    let median = times(Metric::LatencyMedian, 1.0);
    let join = |name: &str, told| {
        let latency = goal(Metric::Latency99, Bound::TimesAndAtMost(1.0, 20_000.0));
        let goals = vec![times(Metric::JoinTime, 5.0), times(Metric::SubscriptionMemory, 4.0), latency];
        row(name, ClusterLoad::Join { told }, goals)
    };
    vec![
        row("cluster-1:1-16", apart(16), vec![times(Metric::MessageRate, 4.0), cpu(6.0)]),
        row("cluster-1:1-128", apart(128), vec![times(Metric::MessageRate, 3.0), cpu(4.0)]),
        row("cluster-1:1-16K", apart(16 << 10), vec![cpu(1.5)]),
        // At most one and a half times the reference's.
        row(
            "cluster-1:1-16K-s2",
            ClusterLoad::Compressed(load(1, 1, ReceiverInterest::Star, 16 << 10)),
            vec![cpu(0.67)],
        ),
        row(
            "cluster-1:12-128",
            over_all(load(1, 12, ReceiverInterest::Star, 128), &[0, 1, 2]),
            vec![cpu(5.0)],
        ),
        row(
            "cluster-4x4-128",
            over_all(load(4, 4, ReceiverInterest::Pairs, 128), &[1, 2, 0]),
            vec![cpu(4.0)],
        ),
        row("cluster-request-1", requests(1, 16), vec![cpu(1.8), median]),
        row("cluster-request-50", requests(50, 128), vec![cpu(1.6), median]),
        row(
            "cluster-queue9-128",
            over_all(load(1, 9, ReceiverInterest::Queue, 128), &[0, 1, 2]),
            vec![cpu(4.0)],
        ),
        join("cluster-join", 100_000),
        join("cluster-join-1M", 1_000_000),
        row("cluster-churn", ClusterLoad::Churn(load(1, 1, ReceiverInterest::Star, 128)), vec![cpu(4.0)]),
        row("cluster-idle", ClusterLoad::Idle, vec![times(Metric::IdleCpu, 1.0)]),
    ]
}

/// Rows about leaf nodes and hubs.
pub(super) fn leaf() -> Vec<Row> {
    let row = |name: &str, load, goals: Vec<Goal>| Row {
        goals,
        ..Row::new(name, leaf::GROUP, Workload::Cluster(ClusterLoad::Leaf(load)))
    };
    let load = ThroughputLoad {
        publishers: 1,
        receivers: 1,
        interest: ReceiverInterest::Star,
        subjects: SUBJECTS,
        size: 128,
    };
    let time = || times(Metric::JoinTime, 4.0);
    let spokes = |count, is_isolated| LeafLoad::Spokes { count, subjects: 100, is_isolated };
    let memory = || vec![time(), times(Metric::ProcessMemory, 3.0)];
    vec![
        row("leaf-down-128", LeafLoad::Down(load, Way::Tcp), vec![times(Metric::Cpu, 4.0)]),
        row("leaf-up-128", LeafLoad::Up(load, Way::Tcp), vec![times(Metric::Cpu, 4.0)]),
        row("leaf-wss-down-128", LeafLoad::Down(load, Way::Web), vec![times(Metric::Cpu, 1.0)]),
        row("leaf-wss-up-128", LeafLoad::Up(load, Way::Web), vec![times(Metric::Cpu, 1.0)]),
        row(
            "leaf-request-1",
            LeafLoad::Requests { clients: 1, size: 16 },
            vec![times(Metric::LatencyMedian, 1.0)],
        ),
        row("leaf-spokes-1000", spokes(1000, true), memory()),
        row("leaf-spokes-200", spokes(200, false), memory()),
        row("leaf-returned", LeafLoad::Returned { subjects: 10_000 }, vec![time()]),
        row("leaf-returning", LeafLoad::Returning { subjects: 10_000 }, vec![time()]),
    ]
}

/// Rows about clusters that are joined by gateways.
pub(super) fn gateway() -> Vec<Row> {
    let row = |name: &str, load, goals: Vec<Goal>| Row {
        goals,
        ..Row::new(name, gateway::GROUP, Workload::Cluster(ClusterLoad::Gateway(load)))
    };
    let load = |receivers, subjects, size| ThroughputLoad {
        publishers: 1,
        receivers,
        interest: ReceiverInterest::Star,
        subjects,
        size,
    };
    let cpu = || times(Metric::Cpu, 4.0);
    vec![
        row("gateway-1:1-128", GatewayLoad::Across(load(1, SUBJECTS, 128)), vec![cpu()]),
        row(
            "gateway-request-1",
            GatewayLoad::Requests { clients: 1, size: 16 },
            vec![times(Metric::LatencyMedian, 1.0)],
        ),
        row(
            "gateway-unwanted",
            GatewayLoad::Unwanted(load(0, 100_000, 16)),
            vec![cpu(), goal(Metric::LinkBytes, Bound::AtMost(0.0))],
        ),
        row(
            "gateway-joined",
            GatewayLoad::Joined { told: 100_000 },
            vec![times(Metric::JoinTime, 4.0), times(Metric::SubscriptionMemory, 3.0)],
        ),
    ]
}

/// Rows about rules, accounts, logins and reloads, with the goals of the issue.
pub(super) fn identity() -> Vec<Row> {
    let row = |name: &str, load, goals: Vec<Goal>| Row {
        goals,
        ..Row::new(name, identity::GROUP, Workload::Identity(load))
    };
    let kept = || vec![goal(Metric::RateKept, Bound::AtLeast(85.0))];
    vec![
        row("rules-pub-16", IdentityLoad::Rules { receivers: 0, size: 16 }, kept()),
        row("rules-1:1-128", IdentityLoad::Rules { receivers: 1, size: 128 }, kept()),
        row("import", IdentityLoad::Import, vec![times(Metric::RateKept, 1.0)]),
        row(
            "accounts",
            IdentityLoad::Accounts,
            vec![times(Metric::ProcessMemory, 3.0), times(Metric::StartTime, 3.0)],
        ),
        row("logins", IdentityLoad::Logins, vec![times(Metric::Latency99, 1.0)]),
        row(
            "reload",
            IdentityLoad::Reload,
            vec![times(Metric::ReloadTime, 1.0), times(Metric::LatencyMost, 1.0)],
        ),
    ]
}

/// Rows about small servers and thousands of streams.
pub(super) fn small() -> Vec<Row> {
    use SmallLoad::{Creation, Disk, Pressure, Restart, Start};
    let at_most = |metric, most| goal(metric, Bound::AtMost(most));
    let row =
        |name, load, goals: Vec<Goal>| Row { goals, ..Row::new(name, small::GROUP, Workload::Small(load)) };
    let restart = |name, is_killed| row(name, Restart { is_killed }, vec![times(Metric::RestartTime, 4.0)]);
    let start = |name, with_streams, most| {
        let goals = vec![at_most(Metric::AnonymousMemory, most), times(Metric::ProcessMemory, 1.0 / 0.6)];
        row(name, Start { with_streams }, goals)
    };
    let mut rows = vec![
        row("small-create", Creation { together: 1 }, vec![times(Metric::StreamCreationRate, 2.0)]),
        row(
            "small-create-64",
            Creation { together: TOGETHER },
            vec![goal(Metric::StreamCreationRate, Bound::AtLeast(5_000.0))],
        ),
        row("small-disk", Disk, vec![at_most(Metric::StreamDisk, 8.0), at_most(Metric::FreshDisk, 1024.0)]),
        restart("small-restart-kill", true),
        restart("small-restart-stop", false),
        start("small-start-js", true, 1.5),
        start("small-start", false, 1.2),
        row("small-pressure", Pressure, vec![goal(Metric::Latency999, Bound::AllRoundsButOne)]),
    ];
    let subjects = streams::issue().into_iter().filter(|row| row.name == "js-subjects-file");
    rows.extend(subjects.map(|row| Row { name: "small-subjects".to_owned(), group: small::GROUP, ..row }));
    rows
}

/// Rows about TLS and WebSocket, with the goals of the issue.
pub(super) fn edges() -> Vec<Row> {
    let cpu = |factor| vec![times(Metric::Cpu, factor)];
    let row = |name: &str, load, goals: Vec<Goal>| Row {
        goals,
        ..Row::new(name, tls_websocket::GROUP, Workload::Edges(load))
    };
    vec![
        row("tls-1:1-128", TlsWebSocketLoad::Pair { over: Over::Tls, size: 128 }, cpu(1.5)),
        row("tls-1:1-16K", TlsWebSocketLoad::Pair { over: Over::Tls, size: 16 * 1024 }, cpu(1.0)),
        row("tls-handshakes", TlsWebSocketLoad::Handshakes, cpu(1.2)),
        row("tls-idle", TlsWebSocketLoad::Idle, vec![goal(Metric::ConnectionMemory, Bound::Times(2.0))]),
        row("ws-1:1-128", TlsWebSocketLoad::Pair { over: Over::WebSocket, size: 128 }, cpu(2.0)),
        row("ws-deflate-1:1-128", TlsWebSocketLoad::Pair { over: Over::Deflate, size: 128 }, cpu(1.0)),
    ]
}
