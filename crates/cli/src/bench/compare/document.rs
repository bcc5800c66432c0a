//! Turns what was measured into a document of results, row by row.
//!
//! Owns which figures a row has, the values of the control among them, and what is said about systems and settings.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bench::compare::file::Plan;
use crate::bench::contest::{Contest, Measured, Seat};
use crate::bench::plan::{self, Metric};
use crate::bench::results::{self, Better, Cell, Circumstances, Figure, Results};
use crate::bench::stat::Spread;

/// Results that grow.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    contest: &'a Contest,
    group: String,
    results: Results,
    /// From the start of each process until it served.
    starts: BTreeMap<Seat, Vec<f64>>,
}

impl<'a> Document<'a> {
    /// Begins with rows of an earlier run, but not with those in which something failed.
    pub(crate) fn new(plan: &Plan, contest: &'a Contest, is_quick: bool, before: Option<Results>) -> Self {
        if let Some(before) = before.as_ref().filter(|before| is_whole(plan, before)) {
            let (group, results) = (plan.head.name.clone(), before.clone());
            return Self { contest, group, results, starts: BTreeMap::new() };
        }
        let mut circumstances = Circumstances::now();
        circumstances.note("rounds", format!("{}, interleaved", plan.head.rounds));
        circumstances.note("control", format!("{}, started twice", plan.head.control));
        if is_quick {
            circumstances.note("quick", "short measurements: a look, not a result");
        }
        let systems: Vec<results::System> = contest
            .systems
            .iter()
            .map(|system| results::System { name: system.name.clone(), version: system.version() })
            .collect();
        for system in &contest.systems {
            if let Some(size) = system.size() {
                let loaded = system.loaded_size().map(|size| format!(" ({} of it loaded)", mebibytes(size)));
                let text = format!("{}{}", mebibytes(size), loaded.unwrap_or_default());
                circumstances.note(&format!("size of {}", system.name), text);
            }
        }
        let mut rows = Vec::new();
        if let Some(before) = before {
            if before.systems != systems {
                eprintln!("myelin: the rows that are there already have other systems or versions");
            }
            circumstances
                .note("resumed", format!("rows of a run at {} are among these", before.circumstances.date));
            for (name, text) in before.circumstances.notes {
                circumstances.notes.entry(name).or_insert(text);
            }
            rows = before.rows;
            rows.retain(|row| row.cells.iter().all(|cell| cell.errors.is_empty()));
        }
        let results = Results::new(circumstances, systems, rows);
        Self { contest, group: plan.head.name.clone(), results, starts: BTreeMap::new() }
    }

    pub(crate) fn results(&self) -> &Results {
        &self.results
    }

    pub(crate) fn has(&self, row: &str) -> bool {
        self.results.row(row).is_some()
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, measured: &Measured) {
        let cells = (0..self.contest.systems.len()).map(Seat).filter_map(|seat| self.cell(measured, seat));
        let row = results::Row {
            name: measured.row.name.clone(),
            group: self.group.clone(),
            workload: measured.row.workload.to_string(),
            cells: cells.collect(),
        };
        self.results.rows.push(row);
        for (&seat, after) in &measured.starts {
            self.starts.entry(seat).or_default().push(after.as_secs_f64() * 1e3);
        }
        for (seat, starts) in &self.starts {
            if let Some(spread) = Spread::of(starts).filter(|_| seat.0 < self.contest.systems.len()) {
                let [median, least, most] = [spread.median, spread.least, spread.most]
                    .map(|ms| Duration::from_micros((ms * 1e3) as u64));
                let text = format!("{median:.1?} ({least:.1?}..{most:.1?}, {} starts)", starts.len());
                self.results.circumstances.note(&format!("start of {}", self.contest.name(*seat)), text);
            }
        }
    }

    /// `None` for a system that has no part in the row.
    fn cell(&self, measured: &Measured, seat: Seat) -> Option<Cell> {
        let is_controlled = seat == self.contest.controlled();
        let control = self.contest.control();
        let mut figures = Vec::new();
        for metric in plan::ALL {
            let Some(values) = measured.samples.get(&(metric, seat)) else { continue };
            let (name, unit) = metric.figure();
            let better = match metric {
                // As fast as it was told to be.
                Metric::MessageRate if measured.row.workload.has_rate() => Better::Neither,
                metric if metric.more_is_better() => Better::High,
                _ => Better::Low,
            };
            let figure = Figure::new(name, unit, better, values.clone());
            let second = measured.samples.get(&(metric, control)).filter(|_| is_controlled);
            figures.push(match second {
                Some(values) => figure.with_control(values.clone()),
                None => figure,
            });
        }
        let of_seat = |failed: &Seat| *failed == seat || (is_controlled && *failed == control);
        let failures = measured.failures.iter().filter(|(failed, _)| of_seat(failed));
        let errors: Vec<String> =
            failures.map(|(failed, why)| format!("{}: {why}", self.contest.name(*failed))).collect();
        let curves = measured.curves.get(&seat).cloned().unwrap_or_default();
        let is_empty = figures.is_empty() && errors.is_empty();
        (!is_empty).then(|| Cell { system: self.contest.name(seat), figures, curves, errors })
    }

    /// The rows of the plan in its order, and others of the document behind them.
    pub(crate) fn in_order(mut self, plan: &Plan) -> Results {
        let place = |name: &str| plan.rows.iter().position(|row| row.name == name).unwrap_or(usize::MAX);
        self.results.rows.sort_by_key(|row| place(&row.name));
        self.results
    }
}

/// Whether results have every row of the plan, without a failure.
fn is_whole(plan: &Plan, results: &Results) -> bool {
    let is_good = |row: &results::Row| row.cells.iter().all(|cell| cell.errors.is_empty());
    plan.rows.iter().all(|row| results.row(&row.name).is_some_and(is_good))
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
