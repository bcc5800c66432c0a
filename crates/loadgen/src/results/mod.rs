//! The document of a run: who was measured, where, and every figure with the values it comes from.
//!
//! Owns the file format (JSON, `format` and `version` at its head; fields may be added, none
//! changes its meaning without a new version) and how it is read and written. Reports are made from
//! nothing but such documents, so whatever a report shows must be in here. Measures nothing.
//!
//! The shape: a document has rows (a workload each), a row has a cell for each system, a cell has
//! figures (one number per round) and curves (a latency histogram each). The rooms: `environment`
//! is where a run was made, `distribution` a histogram, `stat` medians and ranges; `judge` is the
//! rule when two figures differ.

pub(crate) mod distribution;
pub(crate) mod environment;
pub mod significance;
pub mod stat;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;
pub use crate::results::distribution::{Distribution, Percentile};
pub use crate::results::environment::{Environment, program_version};
use crate::results::stat::Spread;

const FORMAT: &str = "myelin-bench-results";
const VERSION: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    format: String,
    version: u32,
    /// Machine, time and settings of the run.
    #[serde(rename = "circumstances")]
    pub environment: Environment,
    /// Systems in the order in which reports show them.
    pub systems: Vec<TestedSystem>,
    /// Rows in the order of measurement.
    pub rows: Vec<ResultRow>,
}

/// Something that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedSystem {
    /// Name in cells; distinct within a document.
    pub name: String,
    /// Version, in the system's own words.
    pub version: String,
}

/// One workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Distinct within a document; rows of two documents with the same name are the same workload.
    pub name: String,
    /// Name that gathers rows in a report: a study, a chapter. May be empty.
    #[serde(default)]
    pub group: String,
    /// One line that says what was done, for people.
    pub workload: String,
    /// Results of the systems, in the order of the systems.
    pub cells: Vec<Cell>,
}

/// Results of one system in one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Name of the system.
    pub system: String,
    /// Figures of the system, each with a value from every round.
    pub figures: Vec<Figure>,
    /// Latencies of the system, where the row has any.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// Why rounds gave nothing, or are not to be trusted.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Rates of a system that did not keep up with the row's: its latencies are then the length of
    /// a queue. No error, but nothing to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Behind>,
}

/// Messages per second of the slowest round, and what they were to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// Messages per second that went through.
    pub rate: f64,
    /// Messages per second that were planned.
    pub planned: f64,
}

/// One kind of number, with its value of every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name in every report.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Which values are the better ones.
    pub better: Better,
    /// One value for each round.
    pub values: Vec<f64>,
    /// Values of a second process of the same program in the same rounds: the difference between
    /// the two is noise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<f64>,
    /// Median and range of `values`, for readers of the file; made anew when a file is read.
    #[serde(default)]
    spread: Option<Spread>,
}

/// Which of two values one would rather have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Large ones.
    High,
    /// Small ones.
    Low,
    /// None: the figure describes the run and is not compared, like a sample size or the rate that
    /// was planned.
    Neither,
}

/// Latencies of all rounds together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Both ends of the latency: "round trip", "publish to ack".
    pub what: String,
    /// Time that latencies count from.
    pub clock: Clock,
    /// All samples.
    pub latencies: Distribution,
}

/// When the clock of a latency starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// When the message was to be sent. A stalled system is charged for the messages that it held
    /// up.
    Planned,
    /// When the message was really sent: without that correction, or without any plan.
    Sent,
    /// Lateness of the driver itself, which is no latency of the system.
    Driver,
}

impl Results {
    /// A document of the form that this version writes.
    pub fn new(environment: Environment, systems: Vec<TestedSystem>, rows: Vec<ResultRow>) -> Self {
        Self { format: FORMAT.into(), version: VERSION, environment, systems, rows }
    }

    /// Writes the document as JSON.
    pub fn save(&self, path: &Path) -> Result<(), BenchError> {
        let mut text =
            serde_json::to_string(self).expect("it has neither maps with odd keys nor own writers that fail");
        text.push('\n');
        std::fs::write(path, text)
            .map_err(|error| BenchError::Results(format!("{} cannot be written: {error}", path.display())))
    }

    /// Reads a document; what is none, or of another form, is an error that names the file.
    pub fn load(path: &Path) -> Result<Self, BenchError> {
        let bad = |why: String| BenchError::Results(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        Self::parse(&text).map_err(bad)
    }

    fn parse(text: &str) -> Result<Self, String> {
        // The head is looked at alone, so that a file of another version is told so instead of
        // which field it lacks.
        let DocumentHead { format, version } =
            serde_json::from_str(text).map_err(|error| format!("not results of a benchmark: {error}"))?;
        if (format.as_str(), version) != (FORMAT, VERSION) {
            return Err(format!("{format:?} version {version} where {FORMAT:?} version {VERSION} is known"));
        }
        let mut results: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for figure in
            results.rows.iter_mut().flat_map(|row| &mut row.cells).flat_map(|cell| &mut cell.figures)
        {
            figure.spread = Spread::of(&figure.values);
        }
        Ok(results)
    }

    /// The row of this name.
    pub fn row(&self, name: &str) -> Option<&ResultRow> {
        self.rows.iter().find(|row| row.name == name)
    }
}

#[derive(Deserialize)]
struct DocumentHead {
    format: String,
    version: u32,
}

impl ResultRow {
    /// Results of the system of this name.
    pub fn cell(&self, system: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.system == system)
    }
}

impl Cell {
    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

impl Figure {
    /// A figure without a control.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, better: Better, values: Vec<f64>) -> Self {
        let spread = Spread::of(&values);
        Self { name: name.into(), unit: unit.into(), better, values, control: Vec::new(), spread }
    }

    /// Adds the values of the second process of the same program.
    pub fn with_control(self, control: Vec<f64>) -> Self {
        Self { control, ..self }
    }

    /// `None` where no round gave a value.
    pub fn spread(&self) -> Option<Spread> {
        self.spread
    }

    /// How far apart two processes of the same program were: the larger value over the smaller one,
    /// of the medians or of the round where they were furthest apart, at least 1. A ratio between
    /// systems that is not beyond this shows no difference.
    pub(crate) fn control_ratio(&self) -> Option<f64> {
        let medians = self.spread?.times(&Spread::of(&self.control)?)?;
        let rounds = self.values.iter().zip(&self.control).map(|(value, control)| value / control);
        let apart = |ratio: f64| (ratio > 0.0 && ratio.is_finite()).then(|| ratio.max(1.0 / ratio));
        rounds.filter_map(apart).chain(apart(medians)).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Results {
        let mut latencies = Distribution::default();
        for value in [1_000, 2_000, 2_000, 3_000_000] {
            latencies.record(value);
        }
        let cell = Cell {
            system: "myelin".into(),
            figures: vec![
                Figure::new("rate", "msgs/s", Better::High, vec![3.0, 1.0, 2.0]).with_control(vec![4.0]),
            ],
            curves: vec![Curve { what: "round trip".into(), clock: Clock::Planned, latencies }],
            errors: vec!["round 4: lost".into()],
            behind: Some(Behind { rate: 14_600.0, planned: 20_000.0 }),
        };
        let row = ResultRow {
            name: "1:1-16".into(),
            group: "S6".into(),
            workload: "one to one".into(),
            cells: vec![cell],
        };
        let system = TestedSystem { name: "myelin".into(), version: "0.1.0".into() };
        Results::new(Environment::now(), vec![system], vec![row])
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.json");
        sample().save(&path).unwrap();
        assert_eq!(Results::load(&path).unwrap(), sample_with_date_of(&path));
        let missing = Results::load(&directory.path().join("none.json")).unwrap_err();
        assert!(missing.to_string().contains("none.json"), "{missing}");
    }

    fn sample_with_date_of(path: &Path) -> Results {
        let environment = Results::load(path).unwrap().environment;
        Results { environment, ..sample() }
    }

    #[test]
    fn a_document_of_another_kind_or_version_is_refused() {
        let text = serde_json::to_string(&sample()).unwrap();
        assert!(Results::parse(&text).is_ok());
        let newer = text.replace("\"version\":1,", "\"version\":2,");
        assert!(Results::parse(&newer).unwrap_err().contains("version 2"));
        assert!(Results::parse("{\"rows\":[]}").unwrap_err().contains("not results"));
        // Fields that a later writer adds do not trouble this reader.
        assert!(Results::parse(&text.replacen("{", "{\"weather\":\"fine\",", 1)).is_ok());
    }

    #[test]
    fn spreads_come_from_the_values_and_not_from_the_file() {
        let text = serde_json::to_string(&sample()).unwrap();
        assert!(text.contains("\"median\":2.0"), "{text}");
        let results = Results::parse(&text.replace("\"median\":2.0", "\"median\":9.0")).unwrap();
        let figure = &results.rows[0].cells[0].figures[0];
        assert_eq!(figure.spread(), Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
    }

    #[test]
    fn the_control_ratio_has_no_direction() {
        let figure = |values: &[f64], control: &[f64]| {
            Figure::new("x", "s", Better::Low, values.to_vec()).with_control(control.to_vec()).control_ratio()
        };
        assert_eq!(figure(&[2.0], &[4.0]), Some(2.0));
        assert_eq!(figure(&[4.0], &[2.0]), Some(2.0));
        assert_eq!(figure(&[10.0, 10.0, 10.0], &[10.0, 8.0, 12.0]), Some(1.25));
        assert_eq!(figure(&[4.0], &[]), None);
        assert_eq!(figure(&[0.0], &[1.0]), None);
    }
}
