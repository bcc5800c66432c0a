//! Results for people: the terminal, a spreadsheet, a page with pictures, and two runs side by
//! side.
//!
//! This file owns what is shown: one or more documents laid over each other, rows of the same name
//! becoming one. The rooms: `terminal`, `csv` and `html` are the forms, `svg` draws, `bars` and
//! `curves` are the pictures, `scale` is the arithmetic of axes, `text` how numbers look, `compare`
//! judges two documents, `hgrm` is the form of HdrHistogram. Nothing here measures; whatever is
//! shown comes out of a document.

pub(crate) mod bars;
pub mod compare;
pub mod csv;
pub(crate) mod curves;
pub mod hgrm;
pub mod html;
pub(crate) mod scale;
pub(crate) mod svg;
pub mod terminal;
pub(crate) mod text;

use std::path::Path;

use crate::error::BenchError;
use crate::results::{Environment, ResultRow, Results, TestedSystem};

/// The quantiles of percentile tables.
const QUANTILES: [(&str, f64); 8] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
    ("p99.9999", 0.999_999),
    ("max", 1.0),
];

/// Footnote of percentiles with few samples beyond them.
const THIN: &str = "fewer than 10 samples lie beyond it: hardly more than the maximum";

/// Documents laid over each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Each document's name and how it was made.
    pub origins: Vec<(String, Environment)>,
    /// Systems of all documents.
    pub systems: Vec<TestedSystem>,
    /// Rows of all documents, those of the same name as one.
    pub rows: Vec<ResultRow>,
}

impl Report {
    /// Lays named documents over each other. A system that an earlier document has under the same
    /// name is called after its document as well, so that the two stay two.
    pub fn of(documents: impl IntoIterator<Item = (String, Results)>) -> Self {
        let mut report = Self { origins: Vec::new(), systems: Vec::new(), rows: Vec::new() };
        for (name, results) in documents {
            report.lay(&name, results);
        }
        report
    }

    fn lay(&mut self, document: &str, results: Results) {
        let mut names = Vec::new();
        for system in results.systems {
            let is_taken = self.systems.iter().any(|known| known.name == system.name);
            let name = if is_taken { format!("{} ({document})", system.name) } else { system.name.clone() };
            names.push((system.name, name.clone()));
            self.systems.push(TestedSystem { name, version: system.version });
        }
        for mut row in results.rows {
            for cell in &mut row.cells {
                if let Some((_, name)) = names.iter().find(|(before, _)| *before == cell.system) {
                    cell.system.clone_from(name);
                }
            }
            match self.rows.iter_mut().find(|known| known.name == row.name) {
                Some(known) => known.cells.append(&mut row.cells),
                None => self.rows.push(row),
            }
        }
        self.origins.push((document.to_owned(), results.environment));
    }

    /// A document alone.
    pub fn alone(results: &Results) -> Self {
        Self::of([("this run".to_owned(), results.clone())])
    }

    /// The groups of rows, in their order.
    fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !groups.contains(&row.group.as_str()) {
                groups.push(&row.group);
            }
        }
        groups
    }

    /// Whether all documents come from the same kind of machine; figures of different ones do not
    /// compare.
    fn is_of_one_machine(&self) -> bool {
        let machine = |(_, made): &(String, Environment)| (made.machine.clone(), made.cores);
        self.origins.windows(2).all(|pair| machine(&pair[0]) == machine(&pair[1]))
    }

    /// The place of a system among all, which is also its colour.
    fn place(&self, system: &str) -> usize {
        self.systems.iter().position(|known| known.name == system).unwrap_or(self.systems.len())
    }
}

/// Writes a report to a file.
pub fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text)
        .map_err(|error| BenchError::Results(format!("{} cannot be written: {error}", path.display())))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::results::{Better, Cell, Clock, Curve, Distribution, Figure};

    fn curve(clock: Clock, base: u64) -> Curve {
        let mut latencies = Distribution::default();
        (0..1000).for_each(|step| latencies.record(base + step * step * 10));
        Curve { what: "request to answer".into(), clock, latencies }
    }

    pub(crate) fn cell(system: &str, factor: f64) -> Cell {
        let values = |base: f64| [0.9, 1.0, 1.2].map(|part| base * factor * part).to_vec();
        Cell {
            system: system.into(),
            figures: vec![
                Figure::new("rate", "msgs/s", Better::High, values(1e6)).with_control(values(1.05e6)),
                Figure::new("server CPU", "us/msg", Better::Low, values(2.0)),
                Figure::new("samples", "msgs", Better::Neither, values(10.0)),
            ],
            curves: vec![
                curve(Clock::Planned, (factor * 100_000.0) as u64),
                curve(Clock::Sent, (factor * 90_000.0) as u64),
                curve(Clock::Driver, 2_000),
            ],
            errors: Vec::new(),
            behind: None,
        }
    }

    /// Two systems in two rows, one of which failed once.
    pub(crate) fn results() -> Results {
        let systems = [("myelin", "0.1.0"), ("nats-server", "2.15.2")];
        let systems =
            systems.map(|(name, version)| TestedSystem { name: name.into(), version: version.into() });
        let row = |name: &str| ResultRow {
            name: name.into(),
            group: "core".into(),
            workload: format!("what <{name}> & co do"),
            cells: vec![cell("myelin", 3.0), cell("nats-server", 1.0)],
        };
        let mut rows = vec![row("1:1-16"), row("1:1-1M")];
        rows[1].cells[1].errors.push("round 2: 5 messages were lost".into());
        Results::new(Environment::now(), systems.to_vec(), rows)
    }

    #[test]
    fn documents_are_laid_over_each_other() {
        let report = Report::of([("a".to_owned(), results()), ("b".to_owned(), results())]);
        let names: Vec<_> = report.systems.iter().map(|system| system.name.as_str()).collect();
        assert_eq!(names, ["myelin", "nats-server", "myelin (b)", "nats-server (b)"]);
        assert_eq!(report.rows.len(), 2);
        assert!(report.rows.iter().all(|row| names.iter().all(|name| row.cell(name).is_some())));
        assert_eq!((report.groups(), report.origins.len()), (vec!["core"], 2));
        assert!(report.is_of_one_machine());
        assert_eq!(report.place("myelin (b)"), 2);
    }

    #[test]
    fn another_machine_is_noticed() {
        let mut other = results();
        other.environment.cores += 1;
        assert!(!Report::of([("a".to_owned(), results()), ("b".to_owned(), other)]).is_of_one_machine());
    }
}
