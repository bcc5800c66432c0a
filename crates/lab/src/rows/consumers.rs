//! The rows about consumers: the table of the issue that built them, with goals.
//!
//! Change a goal here only together with `docs/performance.md`.

use myelin_loadgen::jetstream::consumers::pull::{Acks, How};
use myelin_loadgen::jetstream::consumers::{ConsumerLoad, SIZE};
use myelin_loadgen::jetstream::stream::LoadStorage;
use myelin_loadgen::metric::Metric;

use crate::rows::row::{Bound, Goal, Row, Workload, goal, times};

/// Group of the table's rows, for `--rows`.
pub(crate) const GROUP: &str = "consumers";

/// The rows, in the order of the issue.
pub(crate) fn rows() -> Vec<Row> {
    let pull = |how, clients, acks| ConsumerLoad::Pull { how, clients, acks };
    let latency = |rate, is_pull| ConsumerLoad::Latency { rate, is_pull };
    let idle = [times(Metric::ConsumerMemory, 5.0), times(Metric::IdleCpu, 5.0)];
    let pending = [times(Metric::MessageRate, 2.0), times(Metric::PendingMemory, 3.0)];
    vec![
        rate("c-ordered-file", ConsumerLoad::Ordered(LoadStorage::File), 2.5, 5.0),
        rate("c-ordered-memory", ConsumerLoad::Ordered(LoadStorage::Memory), 2.5, 5.0),
        rate("c-ordered-pull", pull(How::Consume, 1, Acks::None), 2.5, 5.0),
        rate("c-consume", pull(How::Consume, 4, Acks::Explicit), 2.0, 5.0),
        rate("c-fetch-none", pull(How::Fetch, 2, Acks::None), 2.0, 5.0),
        rate("c-fetch-explicit", pull(How::Fetch, 2, Acks::Explicit), 2.0, 5.0),
        rate("c-push", ConsumerLoad::Push, 2.0, 5.0),
        rate(
            "c-8x8",
            ConsumerLoad::Together { pairs: 8, storage: LoadStorage::File, size: SIZE, synced: false },
            2.0,
            4.0,
        ),
        rate("c-kv-put", ConsumerLoad::KvPut, 1.3, 2.0),
        rate("c-kv-get", ConsumerLoad::KvGet, 1.5, 2.0),
        rate("c-kv-watch", ConsumerLoad::KvWatch, 2.0, 2.0),
        end_to_end("c-latency-1k", latency(1000, false)),
        end_to_end("c-latency-10k", latency(10_000, false)),
        end_to_end("c-latency-50k", latency(50_000, false)),
        end_to_end("c-latency-pull-1k", latency(1000, true)),
        end_to_end("c-latency-pull-10k", latency(10_000, true)),
        row("c-beside-100", ConsumerLoad::Beside, &[goal(Metric::RateKept, Bound::AtLeast(80.0))]),
        row("c-crowd", ConsumerLoad::Crowd, &idle),
        row("c-sparse", ConsumerLoad::Sparse, &[times(Metric::MessageRate, 3.0)]),
        row("c-pending", ConsumerLoad::Pending, &pending),
    ]
}

fn row(name: &str, load: ConsumerLoad, goals: &[Goal]) -> Row {
    Row { goals: goals.to_vec(), ..Row::new(name, GROUP, Workload::Consumers(load)) }
}

fn rate(name: &str, load: ConsumerLoad, rate: f64, cpu: f64) -> Row {
    row(name, load, &[times(Metric::MessageRate, rate), times(Metric::Cpu, cpu)])
}

/// The median at most two thirds of the reference's, the tail not worse.
fn end_to_end(name: &str, load: ConsumerLoad) -> Row {
    row(name, load, &[times(Metric::LatencyMedian, 1.5), times(Metric::Latency99, 1.0)])
}
