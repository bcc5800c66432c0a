//! The rows about mirrors and sources, with the goals of the issue that built them.
//!
//! Change a goal here only together with `docs/performance.md`.

use myelin_loadgen::jetstream::consumers::ConsumerLoad;
use myelin_loadgen::jetstream::consumers::origins::Copying;
use myelin_loadgen::metric::Metric;

use crate::rows::row::{Bound, Row, Workload, goal, times};

/// Group of these rows, for `--rows`.
pub(crate) const GROUP: &str = "origins";

/// The rows, with the goals of the issue.
pub(crate) fn rows() -> Vec<Row> {
    let row = |name: &str, copying, goals: &[_]| Row {
        goals: goals.to_vec(),
        ..Row::new(name, GROUP, Workload::Consumers(ConsumerLoad::Copy(copying)))
    };
    let copied = [times(Metric::MessageRate, 2.0), goal(Metric::Cpu, Bound::Times(4.0))];
    vec![
        row("o-mirror", Copying::Mirror, &copied),
        row("o-source", Copying::Source, &copied),
        row("o-sources-16", Copying::Sources, &copied),
        row("o-source-queue", Copying::Queue, &copied),
        row("o-mirror-live", Copying::Live, &[times(Metric::MessageRate, 2.0), times(Metric::Cpu, 4.0)]),
        row(
            "o-resting-1000",
            Copying::Resting,
            &[times(Metric::IdleCpu, 4.0), times(Metric::ProcessMemory, 1.0)],
        ),
    ]
}
