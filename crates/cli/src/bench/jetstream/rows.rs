//! The rows about streams: the table of the issue that built them, with goals, and the complete grid of study S1.
//!
//! Change a goal here only together with `docs/performance.md`. The study's grid has none: it shows both servers in the
//! same places, and what is compared are ratios.

use crate::bench::jetstream::fast::Flow;
use crate::bench::jetstream::stream::Storage;
use crate::bench::jetstream::{Load, Mode, WINDOW};
use crate::bench::plan::{Bound, Goal, Metric, Row, Workload, goal, times};

/// What `--rows` calls the table of the issue.
pub(crate) const ISSUE: &str = "js";

/// What `--rows` calls the study.
pub(crate) const STUDY: &str = "s1";

const SIZE: usize = 128;
const KIB: usize = 1024;
const WINDOWED: Mode = Mode::Publish { window: WINDOW };
const ONE_BY_ONE: Mode = Mode::Publish { window: 1 };
const ATOMIC: Mode = Mode::Atomic { batch: 1000 };
const FAST: Mode = Mode::Fast { batch: 1000, flow: Flow::DEFAULT };

/// The study's payloads, as they are called and in bytes.
const PAYLOADS: [(&str, usize); 3] = [("64", 64), ("256", 256), ("4K", 4 * KIB)];

const STORES: [(&str, Storage); 2] = [("file", Storage::File), ("memory", Storage::Memory)];

/// The rows of the issue, in its order.
pub(crate) fn issue() -> Vec<Row> {
    use Storage::{File, FileAsync, Memory};
    let one = |mode, storage| Load { mode, storage, size: SIZE, clients: 1, streams: 1, synced: false };
    let eight = |streams| Load { clients: 8, streams, ..one(WINDOWED, File) };
    let large = |mode| Load { size: 4 * KIB, ..one(mode, File) };
    let always = |mode, clients| Load { clients, synced: true, ..one(mode, File) };
    let latency = [times(Metric::LatencyMedian, 1.0), times(Metric::Latency99, 1.0)];
    let memory = [times(Metric::SubjectMemory, 3.0)];
    let get = |window| one(Mode::Get { window }, File);
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
        without_cpu("js-subjects-file", one(Mode::Distinct, File), 2.5, &memory),
        without_cpu("js-subjects-memory", one(Mode::Distinct, Memory), 2.5, &memory),
        row("js-get-1", get(1), 1.3, 2.0, &[]),
        row("js-get-64", get(64), 2.5, 4.0, &[]),
        row("js-get-batch", one(Mode::GetBatch { batch: 500 }, File), 2.5, 4.0, &[]),
    ]
}

fn row(name: &str, load: Load, rate: f64, cpu: f64, others: &[Goal]) -> Row {
    without_cpu(name, load, rate, &[&[goal(Metric::Cpu, Bound::Times(cpu))], others].concat())
}

fn without_cpu(name: &str, load: Load, rate: f64, others: &[Goal]) -> Row {
    let goals = [&[times(Metric::MessageRate, rate)], others].concat();
    Row { name: name.to_owned(), group: ISSUE, workload: Workload::Streams(load), goals }
}

/// The grid of the study. Names say how, where and how large: `s1-fast-1000-file-256`.
pub(crate) fn study() -> Vec<Row> {
    let mut rows = Vec::new();
    for (size, bytes) in PAYLOADS {
        for (store, storage) in STORES {
            let load = |mode| Load { mode, storage, size: bytes, clients: 1, streams: 1, synced: false };
            rows.extend(every_way().map(|(how, mode)| studied(&format!("{how}-{store}-{size}"), load(mode))));
        }
    }
    for (store, storage) in STORES {
        let load = |mode| Load { mode, storage, size: 256, clients: 1, streams: 1, synced: false };
        for (every, acks) in [(100, 5), (500, 2), (500, 5), (5000, 2), (5000, 5)] {
            let mode = Mode::Fast { batch: 1000, flow: Flow { every, acks } };
            rows.push(studied(&format!("fast-1000-flow-{every}x{acks}-{store}-256"), load(mode)));
        }
        for clients in [4, 8] {
            let load = Load { clients, ..load(FAST) };
            rows.push(studied(&format!("fast-1000-by-{clients}-{store}-256"), load));
        }
    }
    for batch in [100, 1000, 10_000] {
        let mode = Mode::Fast { batch, flow: Flow::DEFAULT };
        let storage = Storage::FileAsync;
        let load = Load { mode, storage, size: 256, clients: 1, streams: 1, synced: false };
        rows.push(studied(&format!("fast-{batch}-file-async-256"), load));
    }
    rows
}

fn studied(name: &str, load: Load) -> Row {
    Row {
        name: format!("{STUDY}-{name}"),
        group: STUDY,
        workload: Workload::Streams(load),
        goals: Vec::new(),
    }
}

/// The ways of publishing that the study tries with every payload and every store.
fn every_way() -> impl Iterator<Item = (String, Mode)> {
    let atomic = [10, 100, 1000].map(|batch| (format!("atomic-{batch}"), Mode::Atomic { batch }));
    let fast = [10, 100, 1000, 2000, 5000, 10_000]
        .map(|batch| (format!("fast-{batch}"), Mode::Fast { batch, flow: Flow::DEFAULT }));
    let single = [("sync".to_owned(), ONE_BY_ONE), ("async".to_owned(), WINDOWED)];
    single.into_iter().chain(atomic).chain(fast)
}
