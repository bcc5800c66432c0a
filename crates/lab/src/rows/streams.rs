//! The rows about streams: the table of the issue that built them, with goals.
//!
//! Change a goal here only together with `docs/performance.md`.

use myelin_loadgen::jetstream::fast::Flow;
use myelin_loadgen::jetstream::stream::LoadStorage;
use myelin_loadgen::jetstream::{StreamLoad, StreamMode, WINDOW};
use myelin_loadgen::metric::Metric;

use crate::rows::cluster::ClusterLoad;
use crate::rows::row::{Bound, Goal, Row, Workload, goal, times};

/// Group of the rows of the issue's table, for `--rows`.
pub(crate) const ISSUE: &str = "js";
/// Group of the rows about streams with three replicas.
pub(crate) const REPLICATED: &str = "r3";

const SIZE: usize = 128;
const KIB: usize = 1024;
const WINDOWED: StreamMode = StreamMode::Publish { window: WINDOW };
const ONE_BY_ONE: StreamMode = StreamMode::Publish { window: 1 };
const ATOMIC: StreamMode = StreamMode::Atomic { batch: 1000 };
const FAST: StreamMode = StreamMode::Fast { batch: 1000, flow: Flow::DEFAULT };

/// The rows of the issue, in its order.
pub(crate) fn issue() -> Vec<Row> {
    use LoadStorage::{File, FileAsync, Memory};
    let one = |mode, storage| one(mode, storage, 1);
    let eight = |streams| StreamLoad { clients: 8, streams, ..one(WINDOWED, File) };
    let large = |mode| StreamLoad { size: 4 * KIB, ..one(mode, File) };
    let always = |mode, clients| StreamLoad { clients, synced: true, ..one(mode, File) };
    let latency = [times(Metric::LatencyMedian, 1.0), times(Metric::Latency99, 1.0)];
    let memory = [times(Metric::SubjectMemory, 3.0)];
    let get = |window| one(StreamMode::Get { window }, File);
    vec![
        row("js-async-file", one(WINDOWED, File), 2.5, 6.0, &[]),
        row("js-async-memory", one(WINDOWED, Memory), 2.5, 6.0, &[]),
        row("js-8x1-file", eight(1), 2.5, 6.0, &[]),
        row("js-8x8-file", eight(8), 2.5, 6.0, &[]),
        row("js-sync-file", one(ONE_BY_ONE, File), 1.3, 2.0, &latency),
        row("js-sync-memory", one(ONE_BY_ONE, Memory), 1.3, 2.0, &latency),
        row("js-atomic-file", one(ATOMIC, File), 2.5, 5.0, &[]),
        row("js-atomic-memory", one(ATOMIC, Memory), 2.5, 5.0, &[]),
        row("js-fast-memory", one(FAST, Memory), 2.0, 5.0, &[]),
        row("js-fast-file", one(FAST, File), 2.0, 5.0, &[]),
        row("js-fast-file-async", one(FAST, FileAsync), 2.0, 5.0, &[]),
        row("js-async-4K", large(WINDOWED), 1.3, 2.0, &[]),
        row("js-fast-4K", large(FAST), 1.3, 2.0, &[]),
        without_cpu("js-always-async", always(WINDOWED, 1), 20.0, &[]),
        without_cpu("js-always-sync32", always(ONE_BY_ONE, 32), 5.0, &[]),
        without_cpu("js-subjects-file", one(StreamMode::Distinct, File), 2.5, &memory),
        without_cpu("js-subjects-memory", one(StreamMode::Distinct, Memory), 2.5, &memory),
        row("js-get-1", get(1), 1.3, 2.0, &[]),
        row("js-get-64", get(64), 2.5, 4.0, &[]),
        row("js-get-batch", one(StreamMode::GetBatch { batch: 500 }, File), 2.5, 4.0, &[]),
    ]
}

/// Rows about streams with three replicas, on three servers.
pub(super) fn replicated() -> Vec<Row> {
    use LoadStorage::{File, Memory};
    let one = |mode, storage| one(mode, storage, 3);
    let batches = |mode| StreamLoad { size: 256, ..one(mode, File) };
    let always = |mode, clients| StreamLoad { clients, synced: true, ..one(mode, File) };
    let row = |name: &str, load, rate: Option<f64>, cpu: Option<f64>, others: &[Goal]| {
        let rate = rate.map(|factor| times(Metric::MessageRate, factor));
        let cpu = cpu.map(|factor| times(Metric::Cpu, factor));
        let goals = [rate.as_slice(), cpu.as_slice(), others].concat();
        Row { goals, ..Row::new(name, REPLICATED, Workload::Cluster(ClusterLoad::Replicated(load))) }
    };
    // At most 0.6 of the reference's.
    let median = [times(Metric::LatencyMedian, 1.67)];
    vec![
        row("r3-async-file", one(WINDOWED, File), Some(2.5), Some(4.0), &[]),
        row("r3-async-memory", one(WINDOWED, Memory), Some(2.5), Some(4.0), &[]),
        row("r3-sync-file", one(ONE_BY_ONE, File), None, Some(1.5), &median),
        row("r3-atomic-256", batches(ATOMIC), Some(3.0), Some(5.0), &[]),
        row("r3-fast-256", batches(FAST), Some(3.0), Some(5.0), &[]),
        row("r3-always-async", always(WINDOWED, 1), Some(2.0), Some(3.0), &[]),
        row("r3-always-sync32", always(ONE_BY_ONE, 32), Some(2.0), None, &[]),
    ]
}

fn one(mode: StreamMode, storage: LoadStorage, replicas: usize) -> StreamLoad {
    StreamLoad { mode, storage, size: SIZE, clients: 1, streams: 1, synced: false, replicas }
}

fn row(name: &str, load: StreamLoad, rate: f64, cpu: f64, others: &[Goal]) -> Row {
    without_cpu(name, load, rate, &[&[goal(Metric::Cpu, Bound::Times(cpu))], others].concat())
}

fn without_cpu(name: &str, load: StreamLoad, rate: f64, others: &[Goal]) -> Row {
    let goals = [&[times(Metric::MessageRate, rate)], others].concat();
    Row { goals, ..Row::new(name, ISSUE, Workload::Streams(load)) }
}
