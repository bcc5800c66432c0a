//! Figures that one server gave in one round.

use std::path::Path;

use hdrhistogram::Histogram;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream;
use myelin_loadgen::jetstream::consumers;
use myelin_loadgen::latency;
use myelin_loadgen::meter::CpuTime;
use myelin_loadgen::metric::Metric;
use myelin_loadgen::mqtt::messages::MqttOutcome;
use myelin_loadgen::pubsub::churn;
use myelin_loadgen::pubsub::request;
use myelin_loadgen::pubsub::throughput;
use myelin_loadgen::results::{Behind, Clock, Curve, Distribution};

use crate::rows::footprint;
use crate::rows::tls_websocket::TlsWebSocketOutcome;

/// The percentiles that are figures of rows about latency.
const PERCENTILES: [(Metric, f64); 7] = [
    (Metric::LatencyMedian, 0.5),
    (Metric::Latency99, 0.99),
    (Metric::Latency999, 0.999),
    (Metric::Latency9999, 0.9999),
    (Metric::Latency99999, 0.99999),
    (Metric::Latency999999, 0.999_999),
    (Metric::LatencyMost, 1.0),
];

/// Figures of one server in one round.
#[derive(Default)]
pub(crate) struct Round {
    pub(crate) readings: Vec<(Metric, f64)>,
    pub(crate) cpu: Option<CpuTime>,
    pub(crate) curves: Vec<Curve>,
    pub(crate) behind: Option<Behind>,
}

impl Round {
    pub(crate) fn without_cpu(readings: Vec<(Metric, f64)>) -> Self {
        Self { readings, ..Self::default() }
    }

    /// A round of those figures that have a value.
    pub(crate) fn of(figures: &[(Metric, Option<f64>)], cpu: Option<CpuTime>) -> Self {
        let readings = figures.iter().filter_map(|&(metric, value)| Some((metric, value?)));
        Self { readings: readings.collect(), cpu, ..Self::default() }
    }

    pub(crate) fn of_throughput(outcome: &throughput::ThroughputOutcome) -> Self {
        let figures = [
            (Metric::MessageRate, Some(outcome.rate())),
            (Metric::Cpu, outcome.cpu_per_message()),
            (Metric::ByteRate, Some(outcome.bytes_per_second() / 1e6)),
            (Metric::PublishedRate, Some(outcome.published_per_second())),
            (Metric::DeliveredRate, outcome.delivered_per_second()),
        ];
        Self::of(&figures, outcome.cpu)
    }

    pub(crate) fn of_requests(outcome: &request::RequestOutcome) -> Self {
        let figures = [
            (Metric::MessageRate, Some(outcome.rate())),
            (Metric::LatencyMedian, Some(outcome.latency(0.5))),
            (Metric::Latency99, Some(outcome.latency(0.99))),
            (Metric::Cpu, outcome.cpu_per_request()),
        ];
        Self { curves: vec![curve("round trip", &outcome.latencies)], ..Self::of(&figures, outcome.cpu) }
    }

    pub(crate) fn of_mqtt(outcome: &MqttOutcome) -> Self {
        let figures = [
            (Metric::MessageRate, Some(outcome.rate())),
            (Metric::Cpu, outcome.cpu_per_message()),
            (Metric::LatencyMedian, outcome.latency(0.5)),
            (Metric::Latency99, outcome.latency(0.99)),
        ];
        let has_latencies = !outcome.latencies.is_empty();
        let curves = has_latencies.then(|| curve("publish to ack", &outcome.latencies));
        Self { curves: curves.into_iter().collect(), ..Self::of(&figures, outcome.cpu) }
    }

    pub(crate) fn of_streams(outcome: &jetstream::StreamOutcome) -> Self {
        let figures = [
            (Metric::MessageRate, Some(outcome.rate())),
            (Metric::Cpu, outcome.cpu_per_message()),
            (Metric::LatencyMedian, outcome.latency(0.5)),
            (Metric::Latency99, outcome.latency(0.99)),
            (Metric::SubjectMemory, outcome.memory_per_message()),
            (Metric::ByteRate, Some(outcome.bytes_per_second() / 1e6)),
        ];
        let curves = outcome.latencies().into_iter().map(|latencies| curve("publish to ack", latencies));
        Self { curves: curves.collect(), ..Self::of(&figures, outcome.cpu) }
    }

    pub(crate) fn of_edges(outcome: &TlsWebSocketOutcome) -> Self {
        let count = outcome.count as f64;
        let figures = [
            (Metric::MessageRate, Some(count / outcome.elapsed.as_secs_f64())),
            (Metric::Cpu, Some(outcome.cpu.scheduled.as_secs_f64() * 1e6 / count)),
        ];
        Self::of(&figures, Some(outcome.cpu))
    }

    pub(crate) fn of_consumers(outcome: consumers::ConsumerOutcome) -> Self {
        Self { readings: outcome.readings, cpu: outcome.cpu, ..Self::default() }
    }

    /// Percentiles count from the planned time of each message.
    pub(crate) fn of_latency(outcome: &latency::LatencyOutcome, what: &str) -> Self {
        let mut figures = vec![
            (Metric::MessageRate, Some(outcome.rate())),
            (Metric::Cpu, outcome.cpu_per_message.map(|each| each.as_secs_f64() * 1e6)),
        ];
        let percentiles = PERCENTILES
            .iter()
            .map(|&(metric, quantile)| (metric, Some(outcome.from_planned.microseconds(quantile))));
        figures.extend(percentiles);
        let latencies = [
            (Clock::Planned, &outcome.from_planned),
            (Clock::Sent, &outcome.from_sent),
            (Clock::Driver, &outcome.lateness),
        ];
        let curve = |(clock, latencies): (Clock, &Distribution)| Curve {
            what: what.to_owned(),
            clock,
            latencies: latencies.clone(),
        };
        Self { curves: latencies.map(curve).into(), behind: outcome.behind(), ..Self::of(&figures, None) }
    }

    pub(crate) fn of_start(binary: &Path) -> Result<Self, BenchError> {
        let (bytes, time) = footprint::start(binary)?;
        let megabytes = bytes / f64::from(1 << 20);
        let milliseconds = time.as_secs_f64() * 1e3;
        Ok(Self::without_cpu(vec![(Metric::ProcessMemory, megabytes), (Metric::StartTime, milliseconds)]))
    }

    pub(crate) fn of_churn(comparison: &churn::ChurnEffect) -> Self {
        Self::without_cpu(vec![
            (Metric::MessageRate, comparison.churned),
            (Metric::RateKept, comparison.churned / comparison.calm * 100.0),
            (Metric::ChurnRate, comparison.pairs),
        ])
    }

    pub(crate) fn churn_fell_behind(&self) -> bool {
        self.readings.iter().any(|&(metric, value)| metric == Metric::ChurnRate && value < 9000.0)
    }
}

/// Latencies that count from when a message was really sent.
fn curve(what: &str, latencies: &Histogram<u64>) -> Curve {
    Curve { what: what.to_owned(), clock: Clock::Sent, latencies: Distribution::of(latencies) }
}
