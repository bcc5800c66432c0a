//! Runs the rows of the table: servers side by side, rounds interleaved.
//!
//! Owns the order of measurements and the processes. Every row starts three fresh servers (the
//! reference, ours, and ours again as the A/A control), warms each up and then measures them in an
//! order that changes from round to round. Judging and printing is `report`'s.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::bench::churn;
use crate::bench::error::BenchError;
use crate::bench::footprint;
use crate::bench::jetstream;
use crate::bench::jetstream::consumers::{self, Scale, Stage};
use crate::bench::plan::{Metric, Row, Workload};
use crate::bench::process::{CpuTime, Server};
use crate::bench::publisher::Until;
use crate::bench::request::{self, RequestLoad};
use crate::bench::scratch::Scratch;
use crate::bench::throughput::{self, Prepared};

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Reference,
    Ours,
    /// A second process of ours: what differs between it and `Ours` is noise.
    Control,
}

pub(crate) const SIDES: [Side; 3] = [Side::Reference, Side::Ours, Side::Control];

/// The order within a round; each is followed by its reverse.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1], [0, 2, 1], [1, 2, 0]];

/// The largest payload that rows use, and the default limit of both servers.
const MAX_PAYLOAD: usize = 1024 * 1024;

/// How much is measured, of what.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) ours: PathBuf,
    pub(crate) reference: PathBuf,
    pub(crate) rounds: usize,
    /// How long publishers publish in one round.
    pub(crate) duration: Duration,
    /// For the row `subscriptions`.
    pub(crate) subscriptions: usize,
    /// For rows of distinct subjects in a stream.
    pub(crate) subjects: u64,
    /// Messages of a stream that is read.
    pub(crate) stored: u64,
    /// For rows about consumers.
    pub(crate) scale: Scale,
    /// For the row `idle`.
    pub(crate) connections: usize,
    /// Bytes of messages that may wait in a server for all receivers together.
    pub(crate) backlog: u64,
    /// Parse and check every message of the throughput rows instead of measuring them.
    pub(crate) verify: bool,
}

impl Settings {
    fn extent(&self, duration: Duration) -> jetstream::Extent {
        jetstream::Extent { until: Until::Elapsed(duration), stored: self.stored, subjects: self.subjects }
    }
}

/// The figures of one row.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) row: Row,
    /// One value per successful round.
    pub(crate) samples: BTreeMap<(Metric, Side), Vec<f64>>,
    /// Servers that failed a round, and why. They take no further part in the row.
    pub(crate) failures: Vec<(Side, String)>,
    /// Doubts about figures.
    pub(crate) warnings: Vec<String>,
}

/// Measures a row. Failures are part of the result: a server that fails does not stop the table.
/// Streams are kept in `scratch`.
pub(crate) fn measure(row: Row, settings: &Settings, scratch: &Scratch) -> Measured {
    let rig = Rig::new(row.workload, settings.backlog);
    let mut measured = Measured { row, samples: BTreeMap::new(), failures: Vec::new(), warnings: Vec::new() };
    let mut contestants = Vec::new();
    for side in SIDES {
        match Contestant::start(side, settings, &rig, scratch) {
            Ok(contestant) => contestants.push(contestant),
            Err(error) => measured.failures.push((side, error.to_string())),
        }
    }
    for round in 0..settings.rounds {
        for &place in &ORDERS[round % ORDERS.len()] {
            let standing = contestants.iter().position(|contestant| contestant.side == SIDES[place]);
            if let Some(number) = standing
                && let Err(error) = measured.round(&contestants[number], settings, &rig)
            {
                // The row has failed; waiting for a sick server in every round would help nobody.
                let contestant = contestants.swap_remove(number);
                measured.failures.push((contestant.side, error.to_string()));
            }
        }
    }
    measured
}

impl Measured {
    fn round(
        &mut self,
        contestant: &Contestant<'_>,
        settings: &Settings,
        rig: &Rig,
    ) -> Result<(), BenchError> {
        let side = contestant.side;
        let round = contestant.measure(settings, rig)?;
        for &(metric, value) in &round.readings {
            self.samples.entry((metric, side)).or_default().push(value);
        }
        if let Some(cpu) = round.cpu.filter(|cpu| cpu.is_doubtful()) {
            self.warnings.push(format!(
                "CPU time of {side:?} is doubtful: schedstat says {:?}, stat says {:?}",
                cpu.scheduled, cpu.accounted
            ));
        }
        if round.churn_fell_behind() {
            self.warnings.push(format!("the churn beside {side:?} did not reach 9,000 pairs/s"));
        }
        Ok(())
    }
}

/// A workload, with its messages encoded once for all servers and rounds.
enum Rig {
    Throughput(Prepared),
    Churn(Prepared),
    Requests(RequestLoad),
    Subscriptions,
    IdleConnections,
    Start,
    Streams(jetstream::Load),
    Consumers(consumers::Load),
}

impl Rig {
    fn new(workload: Workload, backlog: u64) -> Self {
        match workload {
            Workload::Throughput(load) => Self::Throughput(Prepared::new(load, MAX_PAYLOAD, backlog)),
            Workload::Churn(load) => Self::Churn(Prepared::new(load, MAX_PAYLOAD, backlog)),
            Workload::Requests(load) => Self::Requests(load),
            Workload::Subscriptions => Self::Subscriptions,
            Workload::IdleConnections => Self::IdleConnections,
            Workload::Start => Self::Start,
            Workload::Streams(load) => Self::Streams(load),
            Workload::Consumers(load) => Self::Consumers(load),
        }
    }
}

/// What one server gave in one round.
struct Round {
    readings: Vec<(Metric, f64)>,
    cpu: Option<CpuTime>,
}

impl Round {
    fn without_cpu(readings: Vec<(Metric, f64)>) -> Self {
        Self { readings, cpu: None }
    }

    fn of_throughput(outcome: &throughput::Outcome) -> Self {
        let mut readings = vec![(Metric::MessageRate, outcome.rate())];
        readings.extend(outcome.cpu_per_message().map(|cpu| (Metric::Cpu, cpu)));
        Self { readings, cpu: outcome.cpu }
    }

    fn of_requests(outcome: &request::Outcome) -> Self {
        let mut readings = vec![
            (Metric::MessageRate, outcome.rate()),
            (Metric::LatencyMedian, outcome.latency(0.5)),
            (Metric::Latency99, outcome.latency(0.99)),
        ];
        readings.extend(outcome.cpu_per_request().map(|cpu| (Metric::Cpu, cpu)));
        Self { readings, cpu: outcome.cpu }
    }

    fn of_streams(outcome: &jetstream::Outcome) -> Self {
        let figures = [
            (Metric::MessageRate, Some(outcome.rate())),
            (Metric::Cpu, outcome.cpu_per_message()),
            (Metric::LatencyMedian, outcome.latency(0.5)),
            (Metric::Latency99, outcome.latency(0.99)),
            (Metric::SubjectMemory, outcome.memory_per_message()),
        ];
        let readings = figures.into_iter().filter_map(|(metric, value)| Some((metric, value?)));
        Self { readings: readings.collect(), cpu: outcome.cpu }
    }

    fn of_consumers(outcome: consumers::Outcome) -> Self {
        Self { readings: outcome.readings, cpu: outcome.cpu }
    }

    fn of_churn(comparison: &churn::Comparison) -> Self {
        Self::without_cpu(vec![
            (Metric::MessageRate, comparison.churned),
            (Metric::RateKept, comparison.churned / comparison.calm * 100.0),
            (Metric::ChurnRate, comparison.pairs),
        ])
    }

    fn churn_fell_behind(&self) -> bool {
        self.readings.iter().any(|&(metric, value)| metric == Metric::ChurnRate && value < 9000.0)
    }
}

/// One of the servers of a row. Rows about a server at rest start further processes of its program.
struct Contestant<'a> {
    side: Side,
    binary: PathBuf,
    server: Server,
    /// What it holds for a row about consumers.
    stage: Option<Stage>,
    scratch: &'a Scratch,
}

impl<'a> Contestant<'a> {
    /// Starts the server and warms it up with a fifth of a round.
    fn start(side: Side, settings: &Settings, rig: &Rig, scratch: &'a Scratch) -> Result<Self, BenchError> {
        let binary = match side {
            Side::Reference => settings.reference.clone(),
            Side::Ours | Side::Control => settings.ours.clone(),
        };
        let server = match rig {
            Rig::Streams(load) => load.server(&binary, scratch)?,
            Rig::Consumers(load) => load.server(&binary, scratch)?,
            _ => Server::start(&binary)?,
        };
        let stage = match rig {
            Rig::Consumers(load) => Some(load.stage(server.address(), settings.scale)?),
            _ => None,
        };
        let contestant = Self { side, server, binary, stage, scratch };
        let warm_up = settings.duration / 5;
        let (address, meter) = (contestant.server.address(), contestant.server.meter());
        match rig {
            Rig::Throughput(load) | Rig::Churn(load) => {
                load.run(address, Until::Elapsed(warm_up), None, settings.verify)?;
            }
            Rig::Requests(load) => {
                load.run(address, warm_up, meter)?;
            }
            Rig::Streams(load) if !load.wants_fresh_server() => {
                load.run(address, settings.extent(warm_up), None)?;
            }
            Rig::Consumers(load) if !load.wants_fresh_server() => {
                contestant.stage().run(address, warm_up, None)?;
            }
            Rig::Subscriptions | Rig::IdleConnections | Rig::Start | Rig::Streams(_) | Rig::Consumers(_) => {}
        }
        Ok(contestant)
    }

    fn stage(&self) -> &Stage {
        self.stage.as_ref().expect("every row about consumers has one")
    }

    fn measure(&self, settings: &Settings, rig: &Rig) -> Result<Round, BenchError> {
        let (address, meter) = (self.server.address(), self.server.meter());
        let duration = settings.duration;
        let round = match rig {
            Rig::Throughput(load) => {
                let until = Until::Elapsed(duration);
                Round::of_throughput(&load.run(address, until, Some(meter), settings.verify)?)
            }
            Rig::Churn(load) => Round::of_churn(&churn::compare(load, address, duration, meter)?),
            Rig::Requests(load) => Round::of_requests(&load.run(address, duration, meter)?),
            Rig::Streams(load) if load.wants_fresh_server() => {
                let server = load.server(&self.binary, self.scratch)?;
                let (extent, meter) = (settings.extent(duration), server.meter());
                Round::of_streams(&load.run(server.address(), extent, Some(meter))?)
            }
            Rig::Streams(load) => {
                Round::of_streams(&load.run(address, settings.extent(duration), Some(meter))?)
            }
            Rig::Consumers(load) if load.wants_fresh_server() => {
                let server = load.server(&self.binary, self.scratch)?;
                Round::of_consumers(self.stage().run(server.address(), duration, Some(server.meter()))?)
            }
            Rig::Consumers(_) => Round::of_consumers(self.stage().run(address, duration, Some(meter))?),
            Rig::Subscriptions => {
                let bytes = footprint::per_subscription(&self.binary, settings.subscriptions)?;
                Round::without_cpu(vec![(Metric::SubscriptionMemory, bytes)])
            }
            Rig::IdleConnections => {
                let bytes = footprint::per_connection(&self.binary, settings.connections)?;
                Round::without_cpu(vec![(Metric::ConnectionMemory, bytes)])
            }
            Rig::Start => {
                let (bytes, time) = footprint::start(&self.binary)?;
                let mebibytes = bytes / f64::from(1 << 20);
                let milliseconds = time.as_secs_f64() * 1e3;
                Round::without_cpu(vec![
                    (Metric::ProcessMemory, mebibytes),
                    (Metric::StartTime, milliseconds),
                ])
            }
        };
        Ok(round)
    }
}
