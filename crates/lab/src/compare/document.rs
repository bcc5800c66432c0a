//! Turns what was measured into a document of results, row by row.
//!
//! Owns which figures a row has, the values of the control among them, and what is said about
//! systems and settings.

use std::collections::BTreeMap;
use std::time::Duration;

use myelin_loadgen::error::BenchError;
use myelin_loadgen::metric::{self, Metric};
use myelin_loadgen::results::stat::Spread;
use myelin_loadgen::results::{self, Better, Cell, Environment, Figure, Results};

use crate::compare::file::Plan;
use crate::comparison::{Comparison, Measured, SystemIndex};

/// Results that grow.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    comparison: &'a Comparison,
    group: String,
    results: Results,
    /// Milliseconds of each start, from the start of the process until it served.
    starts: BTreeMap<SystemIndex, Vec<f64>>,
}

impl<'a> Document<'a> {
    /// Begins with rows of an earlier run, but not with those in which something failed. An earlier
    /// run of other programs, on another machine or with other settings is refused: its figures
    /// would pass for those of this one.
    pub(crate) fn new(
        plan: &Plan,
        comparison: &'a Comparison,
        is_quick: bool,
        before: Option<Results>,
    ) -> Result<Self, BenchError> {
        let now = beginning(plan, comparison, is_quick);
        let group = plan.head.name.clone();
        let Some(before) = before else {
            return Ok(Self { comparison, group, results: now, starts: BTreeMap::new() });
        };
        let differences = differences(&before, &now);
        if !differences.is_empty() {
            let text =
                format!("--resume: the rows of the file are of another run: {}", differences.join("; "));
            return Err(BenchError::Usage(text));
        }
        let results = if is_whole(plan, &before) { before } else { resumed(before, now) };
        Ok(Self { comparison, group, results, starts: BTreeMap::new() })
    }

    /// Says something about the whole run.
    pub(crate) fn note(&mut self, name: &str, text: String) {
        self.results.environment.note(name, text);
    }

    pub(crate) fn results(&self) -> &Results {
        &self.results
    }

    pub(crate) fn has(&self, row: &str) -> bool {
        self.results.row(row).is_some()
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, measured: &Measured) {
        let cells = (0..self.comparison.systems.len())
            .map(SystemIndex)
            .filter_map(|index| self.cell(measured, index));
        let row = results::ResultRow {
            name: measured.row.name.clone(),
            group: self.group.clone(),
            workload: measured.row.workload.to_string(),
            cells: cells.collect(),
        };
        self.results.rows.push(row);
        for (&index, after) in &measured.starts {
            self.starts.entry(index).or_default().push(after.as_secs_f64() * 1e3);
        }
        for (index, starts) in &self.starts {
            if let Some(spread) = Spread::of(starts).filter(|_| index.0 < self.comparison.systems.len()) {
                let [median, least, most] = [spread.median, spread.least, spread.most]
                    .map(|ms| Duration::from_micros((ms * 1e3) as u64));
                let text = format!("{median:.1?} ({least:.1?}..{most:.1?}, {} starts)", starts.len());
                self.results.environment.note(&format!("start of {}", self.comparison.name(*index)), text);
            }
        }
    }

    /// `None` for a system that has no part in the row.
    fn cell(&self, measured: &Measured, index: SystemIndex) -> Option<Cell> {
        let is_controlled = index == self.comparison.controlled();
        let control = self.comparison.control();
        let mut figures = Vec::new();
        for metric in metric::ALL {
            let Some(values) = measured.samples.get(&(metric, index)) else { continue };
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
        let of_system = |failed: &SystemIndex| *failed == index || (is_controlled && *failed == control);
        let failures = measured.failures.iter().filter(|(failed, _)| of_system(failed));
        let errors: Vec<String> =
            failures.map(|(failed, why)| format!("{}: {why}", self.comparison.name(*failed))).collect();
        let curves = measured.curves.get(&index).cloned().unwrap_or_default();
        let behind = measured.behind.get(&index).copied();
        let is_empty = figures.is_empty() && errors.is_empty();
        (!is_empty).then(|| Cell { system: self.comparison.name(index), figures, curves, errors, behind })
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
    let is_good = |row: &results::ResultRow| row.cells.iter().all(|cell| cell.errors.is_empty());
    plan.rows.iter().all(|row| results.row(&row.name).is_some_and(is_good))
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A document without rows: who takes part, where and how.
fn beginning(plan: &Plan, comparison: &Comparison, is_quick: bool) -> Results {
    let mut environment = Environment::now();
    environment.note("rounds", format!("{}, interleaved", plan.head.rounds));
    environment.note("control", format!("{}, started twice", plan.head.control));
    if is_quick {
        environment.note("quick", "short measurements: a look, not a result");
    }
    let mut systems = Vec::new();
    for system in &comparison.systems {
        systems.push(results::TestedSystem { name: system.name.clone(), version: system.version() });
        if let Some(size) = system.size() {
            let loaded = system.loaded_size().map(|size| format!(" ({} of it loaded)", mebibytes(size)));
            let text = format!("{}{}", mebibytes(size), loaded.unwrap_or_default());
            environment.note(&format!("size of {}", system.name), text);
        }
    }
    Results::new(environment, systems, Vec::new())
}

/// The note of a document that was measured in pieces.
const RESUMED: &str = "measured in pieces";
const SINCE: &str = "since ";

/// A run that goes on with the good rows of an earlier one.
fn resumed(before: Results, mut now: Results) -> Results {
    // The text of a file that was resumed before says when it was begun.
    let first = before.environment.notes.get(RESUMED).and_then(|text| text.strip_prefix(SINCE));
    let first = first.unwrap_or(&before.environment.date);
    now.environment.note(RESUMED, format!("{SINCE}{first}"));
    for (name, text) in before.environment.notes {
        now.environment.notes.entry(name).or_insert(text);
    }
    now.rows = before.rows;
    now.rows.retain(|row| row.cells.iter().all(|cell| cell.errors.is_empty()));
    now
}

/// Systems, machine and settings in which two runs differ, so that one table cannot hold the
/// figures of both.
fn differences(before: &Results, now: &Results) -> Vec<String> {
    let systems = |results: &Results| {
        let said = |system: &results::TestedSystem| format!("{} {}", system.name, system.version);
        results.systems.iter().map(said).collect::<Vec<_>>().join(", ")
    };
    let machine = |results: &Results| {
        let made = &results.environment;
        format!("{} x {}", made.cores, made.machine)
    };
    let is_setting = |name: &&String| {
        ["rounds", "control", "quick"].contains(&name.as_str()) || name.starts_with("size of ")
    };
    let notes = [before, now].map(|results| &results.environment.notes);
    let mut names: Vec<&String> = notes.iter().flat_map(|notes| notes.keys()).filter(is_setting).collect();
    names.sort();
    names.dedup();
    let note = |place: usize, name: &String| notes[place].get(name).map_or("no", String::as_str).to_owned();
    let settings = names.into_iter().map(|name| (name.as_str(), note(0, name), note(1, name)));
    let all = [("systems", systems(before), systems(now)), ("machine", machine(before), machine(now))];
    all.into_iter()
        .chain(settings)
        .filter(|(_, then, now)| then != now)
        .map(|(what, then, now)| format!("{what}: {then} then, {now} now"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_loadgen::results::TestedSystem;

    fn results() -> Results {
        let systems = [("myelin", "0.1.0"), ("nats-server", "2.15.2")];
        let systems =
            systems.map(|(name, version)| TestedSystem { name: name.into(), version: version.into() });
        Results::new(Environment::now(), systems.to_vec(), Vec::new())
    }

    #[test]
    fn other_programs_machines_and_settings_are_differences() {
        let before = results();
        assert!(differences(&before, &results()).is_empty());
        let told = |change: fn(&mut Results), expected: &str| {
            let mut now = results();
            change(&mut now);
            let told = differences(&before, &now);
            assert!(matches!(&told[..], [only] if only.starts_with(expected)), "{told:?}");
        };
        told(|now| now.systems[0].version = "0.2.0".into(), "systems: ");
        told(|now| now.systems.truncate(1), "systems: ");
        told(|now| now.environment.cores += 1, "machine: ");
        told(|now| now.environment.note("quick", "a look"), "quick: no then, a look now");
        told(|now| now.environment.note("rounds", "5"), "rounds: no then, 5 now");
        told(|now| now.environment.note("size of myelin", "9 MiB"), "size of myelin: no then");
        // What a run says about itself afterwards is no setting.
        let mut later = results();
        later.environment.note("start of myelin", "5 ms");
        assert!(differences(&before, &later).is_empty());
    }
}
