//! Measures rows: servers side by side, rounds interleaved.
//!
//! Owns the order of measurements and the processes. Every row starts fresh servers, one for each
//! system and one more of one of them as the A/A control, warms each up and then measures them in
//! an order that changes from round to round. Judging and printing is that of `report` (the table
//! with goals) and `compare` (any number of systems).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream;
use myelin_loadgen::jetstream::consumers::{self, Scale, Stage};
use myelin_loadgen::latency;
use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::churn;
use myelin_loadgen::pubsub::publisher::Until;
use myelin_loadgen::pubsub::request::RequestLoad;
use myelin_loadgen::pubsub::throughput::Prepared;
use myelin_loadgen::results::{Behind, Curve};

use crate::others;
use crate::round::Round;
use crate::rows::latency::Latency;
use crate::rows::mqtt::MqttLoad;
use crate::rows::row::{Amount, FULL_STREAM, Row, Workload};
use crate::rows::tls_websocket::TlsWebSocketLoad;
use crate::rows::{cluster, footprint, identity, small, tls_websocket};
use crate::servers::process::{Server, Syncing};
use crate::servers::scratch::Scratch;
use crate::servers::system::{System, SystemKind};

/// One of the servers of a row: a system by its place, or the control, which comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SystemIndex(pub(crate) usize);

/// Systems that are measured, one of them with a second process as the control.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) systems: Vec<System>,
    /// The system that is started twice: what differs between the two processes is noise.
    pub(crate) controlled: usize,
}

impl Comparison {
    /// The second process of the controlled system.
    pub(crate) fn control(&self) -> SystemIndex {
        SystemIndex(self.systems.len())
    }

    pub(crate) fn controlled(&self) -> SystemIndex {
        SystemIndex(self.controlled)
    }

    pub(crate) fn system(&self, index: SystemIndex) -> &System {
        self.systems.get(index.0).unwrap_or(&self.systems[self.controlled])
    }

    /// Name for people; that of the control says so.
    pub(crate) fn name(&self, index: SystemIndex) -> String {
        let name = &self.system(index).name;
        if index == self.control() { format!("{name} (control)") } else { name.clone() }
    }

    /// The servers of a row: those systems that it is for and that can do it.
    fn indexes(&self, row: &Row) -> Vec<SystemIndex> {
        let is_in = |index: &SystemIndex| {
            let system = self.system(*index);
            (row.systems.is_empty() || row.systems.contains(&system.name)) && system.kind.can(&row.workload)
        };
        (0..=self.systems.len()).map(SystemIndex).filter(is_in).collect()
    }
}

/// The order of a round among this many: every other round begins one place later, and each is
/// followed by its reverse, so that in twice as many rounds as there are servers each has had every
/// place twice.
pub(crate) fn order(count: usize, round: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.rotate_left(round / 2 % count.max(1));
    if round % 2 == 1 {
        places.reverse();
    }
    places
}

/// The largest payload that rows use, and the default limit of both servers.
const MAX_PAYLOAD: usize = 1024 * 1024;

/// How much is measured, of what.
#[derive(Clone, Debug)]
pub(crate) struct ComparisonSettings {
    pub(crate) rounds: usize,
    /// How long publishers publish in one round.
    pub(crate) duration: Duration,
    /// Subscriptions in the row `subscriptions`.
    pub(crate) subscriptions: usize,
    /// Distinct subjects of a stream, in rows that have such.
    pub(crate) subjects: u64,
    /// Messages of a stream that is read.
    pub(crate) stored: u64,
    /// Amounts of the rows about consumers.
    pub(crate) scale: Scale,
    /// Connections in the row `idle`.
    pub(crate) connections: usize,
    /// Bytes of messages that may wait in a server for all receivers together.
    pub(crate) backlog: u64,
    /// Parse and check every message of the throughput rows instead of measuring them.
    pub(crate) verify: bool,
}

impl ComparisonSettings {
    /// How much of a row is done in one round; a fifth of it warms up where the row does not say
    /// otherwise.
    fn amount(&self, row: &Row) -> Amount {
        let usual = Amount {
            until: Until::Elapsed(self.duration),
            warm_up: Until::Elapsed(self.duration / 5),
            rounds: self.rounds,
        };
        row.amount.unwrap_or(usual)
    }
}

/// The figures of one row.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) row: Row,
    /// One value per successful round.
    pub(crate) samples: BTreeMap<(Metric, SystemIndex), Vec<f64>>,
    /// Latencies of all rounds together, where the row measures them.
    pub(crate) curves: BTreeMap<SystemIndex, Vec<Curve>>,
    /// The slowest round of those that did not keep up with the row's rate.
    pub(crate) behind: BTreeMap<SystemIndex, Behind>,
    /// Time from the start of each process until it served.
    pub(crate) starts: BTreeMap<SystemIndex, Duration>,
    /// Servers that failed a round, and why. They take no further part in the row.
    pub(crate) failures: Vec<(SystemIndex, String)>,
    /// Doubts about figures.
    pub(crate) warnings: Vec<String>,
}

/// Measures a row. Failures are part of the result: a server that fails does not stop the table.
/// Streams are kept in `scratch`.
pub(crate) fn measure(
    row: &Row,
    comparison: &Comparison,
    settings: &ComparisonSettings,
    scratch: &Scratch,
) -> Measured {
    let amount = settings.amount(row);
    let indexes = comparison.indexes(row);
    let mut measured = Measured::new(row.clone());
    let (workload, setup) = (&row.workload, LoadSetup::new(&row.workload, settings.backlog));
    let bench = Bench { comparison, settings, scratch, amount, workload, setup };
    let mut running_servers = Vec::new();
    for &index in &indexes {
        match RunningServer::start(index, &bench) {
            Ok(running) => {
                measured.starts.insert(index, running.server.ready_after());
                running_servers.push(running);
            }
            Err(error) => measured.failures.push((index, error.to_string())),
        }
    }
    for round in 0..amount.rounds {
        for place in order(indexes.len(), round) {
            let standing = running_servers.iter().position(|running| running.index == indexes[place]);
            if let Some(number) = standing
                && let Err(error) = measured.round(&running_servers[number], &bench)
            {
                // The row has failed; waiting for a sick server in every round would help nobody.
                let running = running_servers.swap_remove(number);
                measured.failures.push((running.index, error.to_string()));
            }
        }
    }
    measured
}

impl Measured {
    pub(crate) fn new(row: Row) -> Self {
        Self {
            row,
            samples: BTreeMap::new(),
            curves: BTreeMap::new(),
            behind: BTreeMap::new(),
            starts: BTreeMap::new(),
            failures: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn round(&mut self, running: &RunningServer, bench: &Bench<'_>) -> Result<(), BenchError> {
        let index = running.index;
        let round = running.measure(bench)?;
        for &(metric, value) in &round.readings {
            self.samples.entry((metric, index)).or_default().push(value);
        }
        let curves = self.curves.entry(index).or_default();
        for curve in &round.curves {
            match curves.iter_mut().find(|known| (&known.what, known.clock) == (&curve.what, curve.clock)) {
                Some(known) => known.latencies.add(&curve.latencies),
                None => curves.push(curve.clone()),
            }
        }
        if let Some(behind) = round.behind {
            let slowest = self.behind.entry(index).or_insert(behind);
            slowest.rate = slowest.rate.min(behind.rate);
        }
        let name = bench.comparison.name(index);
        if let Some(cpu) = round.cpu.filter(|cpu| cpu.is_doubtful()) {
            self.warnings.push(format!(
                "CPU time of {name} is doubtful: schedstat says {:?}, stat says {:?}",
                cpu.scheduled, cpu.accounted
            ));
        }
        if round.churn_fell_behind() {
            self.warnings.push(format!("the churn beside {name} did not reach 9,000 pairs/s"));
        }
        Ok(())
    }
}

/// Context of a row, which all its servers have in common.
struct Bench<'a> {
    comparison: &'a Comparison,
    pub(crate) settings: &'a ComparisonSettings,
    pub(crate) scratch: &'a Scratch,
    amount: Amount,
    workload: &'a Workload,
    setup: LoadSetup,
}

impl Bench<'_> {
    fn cluster(&self) -> cluster::ClusterContext<'_> {
        let ComparisonSettings { verify, subscriptions, stored, subjects, .. } = *self.settings;
        cluster::ClusterContext { verify, subscriptions, stored, subjects, scratch: self.scratch }
    }

    /// Starts a server that keeps streams in a directory of its own.
    fn server_with_streams(&self, binary: &Path, is_synced: bool) -> Result<Server, BenchError> {
        let syncing = if is_synced { Syncing::Always } else { Syncing::AsItLikes };
        Server::with_streams(binary, self.scratch, syncing)
    }

    fn extent(&self, until: Until) -> jetstream::Extent {
        jetstream::Extent { until, stored: self.settings.stored, subjects: self.settings.subjects }
    }

    /// Duration of a workload that goes on for a time and counts afterwards.
    fn duration(&self, until: Until) -> Duration {
        match until {
            Until::Elapsed(duration) => duration,
            Until::Messages(_) => self.settings.duration,
        }
    }
}

/// A workload, with its messages encoded once for all servers and rounds.
enum LoadSetup {
    Throughput(Prepared),
    Churn(Prepared),
    Requests(RequestLoad),
    Subscriptions,
    IdleConnections,
    Start,
    Streams(jetstream::StreamLoad),
    Consumers(consumers::ConsumerLoad),
    Latency(Latency),
    Edges(TlsWebSocketLoad),
    Identity(identity::IdentityLoad),
    Small(small::SmallLoad),
    Cluster(cluster::PreparedCluster),
    Mqtt(MqttLoad),
}

impl LoadSetup {
    fn new(workload: &Workload, backlog: u64) -> Self {
        match *workload {
            Workload::Throughput(load) => Self::Throughput(Prepared::new(load, MAX_PAYLOAD, backlog)),
            Workload::Churn(load) => Self::Churn(Prepared::new(load, MAX_PAYLOAD, backlog)),
            Workload::Requests(load) => Self::Requests(load),
            Workload::Subscriptions => Self::Subscriptions,
            Workload::IdleConnections => Self::IdleConnections,
            Workload::Start => Self::Start,
            Workload::Streams(load) => Self::Streams(load),
            Workload::Consumers(load) => Self::Consumers(load),
            Workload::Latency(load) => Self::Latency(load),
            Workload::Edges(load) => Self::Edges(load),
            Workload::Identity(load) => Self::Identity(load),
            Workload::Small(load) => Self::Small(load),
            Workload::Cluster(load) => Self::Cluster(load.prepare(MAX_PAYLOAD, backlog)),
            Workload::Mqtt(load) => Self::Mqtt(load),
        }
    }
}

/// One of the servers of a row. Rows about a server at rest start further processes of its program.
struct RunningServer {
    index: SystemIndex,
    server: Server,
    /// Stream of the server, and the load that reads it, in a row about consumers.
    stage: Option<Stage>,
    /// How it is reached in a row about TLS or WebSocket.
    post: Option<tls_websocket::Post>,
    /// Servers that form a cluster with it, in a row about that.
    mates: Option<cluster::Mates>,
}

impl RunningServer {
    /// Starts the server and warms it up.
    fn start(index: SystemIndex, bench: &Bench<'_>) -> Result<Self, BenchError> {
        let system = bench.comparison.system(index);
        if let LoadSetup::Mqtt(load) = &bench.setup {
            let server = MqttLoad::server(system, bench.scratch)?;
            let running = Self { index, server, stage: None, post: None, mates: None };
            if !load.wants_fresh_server() {
                running.measure_mqtt(*load, bench, bench.amount.warm_up)?;
            }
            return Ok(running);
        }
        if system.kind != SystemKind::Nats {
            let running = Self {
                index,
                server: others::start(system, bench.scratch)?,
                stage: None,
                post: None,
                mates: None,
            };
            let warm_up = Amount { until: bench.amount.warm_up, ..bench.amount };
            if !bench.workload.has_rate() {
                running.measure_foreign(bench, warm_up)?;
            }
            return Ok(running);
        }
        let binary = &system.program;
        let (mut post, mut mates) = (None, None);
        let server = match &bench.setup {
            LoadSetup::Edges(load) => {
                let (server, reached) = load.server(binary, bench.scratch)?;
                post = Some(reached);
                server
            }
            LoadSetup::Identity(load) => load.server(binary, bench.scratch)?,
            LoadSetup::Cluster(load) => {
                let (server, others) = load.servers(binary, bench.scratch)?;
                mates = Some(others);
                server
            }
            LoadSetup::Streams(load) => bench.server_with_streams(binary, load.synced)?,
            LoadSetup::Consumers(load) => bench.server_with_streams(binary, load.is_synced())?,
            LoadSetup::Latency(load) => load.server(binary, bench.scratch)?,
            _ => Server::start(binary)?,
        };
        let stage = match &bench.setup {
            LoadSetup::Consumers(load) => Some(load.stage(server.address(), bench.settings.scale)?),
            _ => None,
        };
        let running = Self { index, server, stage, post, mates };
        running.warm_up(bench)?;
        Ok(running)
    }

    fn warm_up(&self, bench: &Bench<'_>) -> Result<(), BenchError> {
        let (address, until) = (self.server.address(), bench.amount.warm_up);
        match &bench.setup {
            LoadSetup::Throughput(load) | LoadSetup::Churn(load) => {
                load.run(address, until, None, bench.settings.verify)?;
            }
            LoadSetup::Requests(load) => {
                load.run(address, until, None)?;
            }
            LoadSetup::Streams(load) if !load.wants_fresh_server() => {
                load.run(address, bench.extent(until), &[])?;
            }
            LoadSetup::Consumers(load) if !load.wants_fresh_server() => {
                self.stage().run(address, until, None)?;
            }
            LoadSetup::Edges(load) if *load != TlsWebSocketLoad::Idle => {
                self.post().run(*load, until, self.server.meter())?;
            }
            LoadSetup::Identity(load) if !load.wants_fresh_server() => {
                load.run(&self.server, until, bench.settings.backlog)?;
            }
            LoadSetup::Cluster(load) if !load.wants_fresh_servers() => {
                load.run(&self.server, self.mates(), until, bench.cluster())?;
            }
            // The first messages of a row about latency are not counted.
            LoadSetup::Latency(_) => {}
            LoadSetup::Subscriptions
            | LoadSetup::IdleConnections
            | LoadSetup::Start
            | LoadSetup::Mqtt(_)
            | LoadSetup::Small(_) => {}
            LoadSetup::Streams(_)
            | LoadSetup::Consumers(_)
            | LoadSetup::Edges(_)
            | LoadSetup::Identity(_)
            | LoadSetup::Cluster(_) => {}
        }
        Ok(())
    }

    fn stage(&self) -> &Stage {
        self.stage.as_ref().expect("every row about consumers has one")
    }

    fn post(&self) -> &tls_websocket::Post {
        self.post.as_ref().expect("every row about TLS and WebSocket has one")
    }

    fn mates(&self) -> &cluster::Mates {
        self.mates.as_ref().expect("every row about clusters has them")
    }

    /// Measures a round of a system that does not speak NATS.
    fn measure_foreign(&self, bench: &Bench<'_>, amount: Amount) -> Result<Round, BenchError> {
        let kind = bench.comparison.system(self.index).kind;
        others::measure(kind, &self.server, bench.workload, amount)
    }

    fn measure_mqtt(&self, load: MqttLoad, bench: &Bench<'_>, until: Until) -> Result<Round, BenchError> {
        let system = bench.comparison.system(self.index);
        load.measure(system, &self.server, bench.scratch, until, bench.settings.connections)
    }

    /// Memory of idle connections with TLS, in a server of their own.
    fn idle_edges(binary: &Path, bench: &Bench<'_>) -> Result<Round, BenchError> {
        let (server, post) = TlsWebSocketLoad::Idle.server(binary, bench.scratch)?;
        let bytes = post.idle(bench.settings.connections / 2, server.meter())?;
        Ok(Round::without_cpu(vec![(Metric::ConnectionMemory, bytes)]))
    }

    /// Runs a row about small servers, which starts servers of its own.
    fn measure_small(load: &small::SmallLoad, binary: &Path, bench: &Bench<'_>) -> Result<Round, BenchError> {
        // As many streams as subjects, of what a full table has.
        let share = bench.settings.subjects as f64 / FULL_STREAM as f64;
        Ok(match load.run(binary, bench.scratch, share, bench.duration(bench.amount.until))? {
            small::SmallOutcome::Readings(readings) => Round::without_cpu(readings),
            small::SmallOutcome::Latency(outcome) => Round::of_latency(&outcome, "publish to ack"),
        })
    }

    fn measure(&self, bench: &Bench<'_>) -> Result<Round, BenchError> {
        let (address, meter) = (self.server.address(), self.server.meter());
        let (settings, until) = (bench.settings, bench.amount.until);
        let System { program: binary, kind, .. } = bench.comparison.system(self.index);
        let mut round = match &bench.setup {
            LoadSetup::Mqtt(load) => return self.measure_mqtt(*load, bench, until),
            _ if *kind != SystemKind::Nats => self.measure_foreign(bench, bench.amount)?,
            LoadSetup::Throughput(load) => {
                Round::of_throughput(&load.run(address, until, Some(meter), settings.verify)?)
            }
            LoadSetup::Churn(load) => {
                Round::of_churn(&churn::compare(load, address, bench.duration(until), meter)?)
            }
            LoadSetup::Requests(load) => Round::of_requests(&load.run(address, until, Some(meter))?),
            LoadSetup::Streams(load) if load.wants_fresh_server() => {
                let server = bench.server_with_streams(binary, load.synced)?;
                return Ok(Round::of_streams(&load.run(
                    server.address(),
                    bench.extent(until),
                    &[server.meter()],
                )?));
            }
            LoadSetup::Streams(load) => {
                Round::of_streams(&load.run(address, bench.extent(until), &[meter])?)
            }
            LoadSetup::Consumers(load) if load.wants_fresh_server() => {
                let server = bench.server_with_streams(binary, load.is_synced())?;
                let outcome = self.stage().run(server.address(), until, Some(server.meter()))?;
                return Ok(Round::of_consumers(outcome));
            }
            LoadSetup::Consumers(_) => Round::of_consumers(self.stage().run(address, until, Some(meter))?),
            LoadSetup::Edges(TlsWebSocketLoad::Idle) => return Self::idle_edges(binary, bench),
            LoadSetup::Identity(load) if load.wants_fresh_server() => {
                let server = load.server(binary, bench.scratch)?;
                return Ok(Round::without_cpu(load.run(&server, until, settings.backlog)?));
            }
            LoadSetup::Identity(load) => {
                Round::without_cpu(load.run(&self.server, until, settings.backlog)?)
            }
            LoadSetup::Cluster(load) => return load.run(&self.server, self.mates(), until, bench.cluster()),
            LoadSetup::Edges(load) => Round::of_edges(&self.post().run(*load, until, meter)?),
            LoadSetup::Latency(load) => {
                let settings = load.settings(address, bench.duration(until), Some(meter));
                Round::of_latency(&latency::run(&settings)?, settings.mode.what())
            }
            LoadSetup::Subscriptions => {
                let bytes = footprint::per_subscription(binary, settings.subscriptions)?;
                return Ok(Round::without_cpu(vec![(Metric::SubscriptionMemory, bytes)]));
            }
            LoadSetup::IdleConnections => {
                let bytes = footprint::per_connection(binary, settings.connections)?;
                return Ok(Round::without_cpu(vec![(Metric::ConnectionMemory, bytes)]));
            }
            LoadSetup::Start => return Round::of_start(binary),
            LoadSetup::Small(load) => return Self::measure_small(load, binary, bench),
        };
        round.readings.push((Metric::LoadedMemory, meter.resident()? as f64 / f64::from(1 << 20)));
        Ok(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_change_their_order_and_give_every_place_to_everybody() {
        let orders: Vec<Vec<usize>> = (0..6).map(|round| order(3, round)).collect();
        let expected = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1], [2, 0, 1], [1, 0, 2]];
        assert_eq!(orders, expected);
        for count in 1..7 {
            for place in 0..count {
                let mut uses = vec![0; count];
                (0..2 * count).for_each(|round| uses[order(count, round)[place]] += 1);
                assert!(uses.iter().all(|&uses| uses == 2), "{count} {place}: {uses:?}");
            }
        }
        assert!(order(0, 3).is_empty());
    }
}
