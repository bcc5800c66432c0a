//! Plan files: which systems are compared, with which rows, and how much of each is done.
//!
//! Owns the format, TOML. A row whose setting is a list stands for one row of each value, and
//! `{setting}` in its name for the value; a key that means nothing is an error. The plans of the
//! studies are part of the program. Measures nothing; what a row's work is called in a plan is in
//! `work`.

use std::path::Path;
use std::time::Duration;

use myelin_loadgen::error::BenchError;
use myelin_loadgen::pubsub::publisher::Until;
use serde::Deserialize;
use toml::{Table, Value};

use crate::compare::work::PlannedWork;
use crate::rows::row::{Amount, Row};
use crate::servers::system::SystemKind;

/// The studies, and the comparison of MQTT, by the names of their plans.
pub(crate) const BUILT_IN: [(&str, &str); 7] = [
    ("s1", include_str!("../../../../bench/plans/s1.toml")),
    ("s2", include_str!("../../../../bench/plans/s2.toml")),
    ("s3", include_str!("../../../../bench/plans/s3.toml")),
    ("s4", include_str!("../../../../bench/plans/s4.toml")),
    ("s5", include_str!("../../../../bench/plans/s5.toml")),
    ("s6", include_str!("../../../../bench/plans/s6.toml")),
    ("mqtt", include_str!("../../../../bench/plans/mqtt.toml")),
];

/// Divisor of a number of messages under `--quick`.
const QUICK_PART: u64 = 10;

/// Longest round under `--quick`.
const QUICK_TIME: Duration = Duration::from_millis(250);

/// Longest round under `--quick` of a row with a rate of its own, whose percentiles need messages.
const QUICK_LATENCY: Duration = Duration::from_secs(2);

/// How often `--quick` measures.
const QUICK_ROUNDS: usize = 3;

/// A plan file.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) head: PlanHead,
    pub(crate) systems: Vec<Candidate>,
    pub(crate) rows: Vec<Row>,
}

/// Head of a plan: the settings of all its rows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct PlanHead {
    /// Name of the plan in the markers of a page.
    pub(crate) name: String,
    pub(crate) title: String,
    /// Introduction for readers, in Markdown.
    #[serde(default)]
    pub(crate) about: String,
    /// The system that others are compared with.
    pub(crate) baseline: String,
    /// The system that is started twice.
    pub(crate) control: String,
    #[serde(default = "five")]
    pub(crate) rounds: usize,
    /// How long a round of a row is that does not say otherwise.
    #[serde(default = "most_of_a_second")]
    pub(crate) seconds: f64,
    /// Messages of streams that are read.
    #[serde(default = "hundred_thousand")]
    pub(crate) stored: u64,
    /// Figures that tables show; all of them, if there are none here.
    #[serde(default)]
    pub(crate) figures: Vec<String>,
}

/// A system that takes part if it is there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    #[serde(default = "nats")]
    pub(crate) kind: SystemKind,
    pub(crate) program: String,
    /// Whether the others are compared without it where it is not installed.
    #[serde(default)]
    pub(crate) optional: bool,
}

fn five() -> usize {
    5
}

fn most_of_a_second() -> f64 {
    0.8
}

fn hundred_thousand() -> u64 {
    100_000
}

fn nats() -> SystemKind {
    SystemKind::Nats
}

/// Keys of every row, whatever its work.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Common {
    name: String,
    #[serde(default)]
    systems: Vec<String>,
    messages: Option<u64>,
    warm_up: Option<u64>,
    seconds: Option<f64>,
    rounds: Option<usize>,
}

/// The keys of `Common`.
const COMMON: [&str; 6] = ["name", "systems", "messages", "warm-up", "seconds", "rounds"];

impl Plan {
    /// A plan of this program by its name, or a file.
    pub(crate) fn load(name: &str) -> Result<Self, BenchError> {
        if BUILT_IN.iter().any(|(built_in, _)| *built_in == name) {
            return Self::built_in(name);
        }
        let text = std::fs::read_to_string(Path::new(name))
            .map_err(|error| BenchError::Usage(format!("{name} cannot be read: {error}")))?;
        Self::parse(&text).map_err(|why| BenchError::Usage(format!("{name}: {why}")))
    }

    /// A plan of this program.
    pub(crate) fn built_in(name: &str) -> Result<Self, BenchError> {
        let text = BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map(|(_, text)| text);
        let text =
            text.ok_or_else(|| BenchError::Usage(format!("there is no plan {name:?} in this program")))?;
        Self::parse(text).map_err(|why| BenchError::Usage(format!("{name}: {why}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut file: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let systems = file.remove("system").ok_or("no system is named")?;
        let rows = file.remove("row").ok_or("there is no row")?;
        let head: PlanHead = Value::Table(file).try_into().map_err(|error| error.to_string())?;
        let systems: Vec<Candidate> = systems.try_into().map_err(|error| format!("systems: {error}"))?;
        let templates: Vec<Table> = rows.try_into().map_err(|error| format!("rows: {error}"))?;
        let mut plan = Self { head, systems, rows: Vec::new() };
        for template in templates {
            for row in expanded(&template) {
                plan.rows.push(plan.row(row)?);
            }
        }
        plan.check()?;
        Ok(plan)
    }

    fn row(&self, mut table: Table) -> Result<Row, String> {
        let title = named(&table);
        table.insert("name".into(), title.clone().into());
        let mut common = Table::new();
        for key in COMMON {
            if let Some(value) = table.remove(key) {
                common.insert(key.into(), value);
            }
        }
        let common: Common =
            Value::Table(common).try_into().map_err(|error| format!("row {title}: {error}"))?;
        let work: PlannedWork =
            Value::Table(table).try_into().map_err(|error| format!("row {title}: {error}"))?;
        let workload = work.workload().map_err(|error| format!("row {title}: {error}"))?;
        let amount = Some(common.amount(&self.head).ok_or_else(|| format!("row {title}: not that little"))?);
        Ok(Row { amount, systems: common.systems, ..Row::new(&common.name, "", workload) })
    }

    fn check(&self) -> Result<(), String> {
        let is_known = |name: &String| self.systems.iter().any(|system| system.name == *name);
        let named = self.rows.iter().flat_map(|row| &row.systems);
        if let Some(name) =
            named.chain([&self.head.baseline, &self.head.control]).find(|name| !is_known(name))
        {
            return Err(format!("no system is called {name:?}"));
        }
        for (number, row) in self.rows.iter().enumerate() {
            if self.rows[..number].iter().any(|other| other.name == row.name) {
                return Err(format!("two rows are called {:?}", row.name));
            }
        }
        for (number, system) in self.systems.iter().enumerate() {
            if self.systems[..number].iter().any(|other| other.name == system.name) {
                return Err(format!("two systems are called {:?}", system.name));
            }
        }
        Ok(())
    }

    /// Makes a look of what would be a result.
    pub(crate) fn hurry(&mut self) {
        self.head.rounds = self.head.rounds.min(QUICK_ROUNDS);
        self.head.stored = (self.head.stored / QUICK_PART).max(1000);
        self.head.seconds = self.head.seconds.min(QUICK_TIME.as_secs_f64());
        for row in &mut self.rows {
            let longest = if row.workload.has_rate() { QUICK_LATENCY } else { QUICK_TIME };
            if let Some(amount) = &mut row.amount {
                amount.rounds = amount.rounds.min(QUICK_ROUNDS);
                amount.until = hurried(amount.until, longest);
                amount.warm_up = hurried(amount.warm_up, longest / 5);
            }
        }
    }

    /// Sets the number of rounds, of the head and of every row.
    pub(crate) fn repeat(&mut self, rounds: usize) {
        self.head.rounds = rounds;
        self.rows.iter_mut().flat_map(|row| &mut row.amount).for_each(|amount| amount.rounds = rounds);
    }
}

fn hurried(until: Until, longest: Duration) -> Until {
    match until {
        Until::Messages(count) => Until::Messages((count / QUICK_PART).max(count.min(100))),
        Until::Elapsed(time) => Until::Elapsed(time.min(longest)),
    }
}

impl Common {
    /// `None` where it would be nothing.
    fn amount(&self, head: &PlanHead) -> Option<Amount> {
        let seconds = Duration::try_from_secs_f64(self.seconds.unwrap_or(head.seconds)).ok()?;
        let until = self.messages.map_or(Until::Elapsed(seconds), Until::Messages);
        let warm_up = match (self.warm_up, until) {
            (Some(count), _) => Until::Messages(count),
            (None, Until::Messages(count)) => Until::Messages(count / 5),
            (None, Until::Elapsed(time)) => Until::Elapsed(time / 5),
        };
        let rounds = self.rounds.unwrap_or(head.rounds);
        let is_nothing = until == Until::Messages(0) || seconds.is_zero() || rounds == 0;
        (!is_nothing).then_some(Amount { until, warm_up, rounds })
    }
}

/// One table for each combination of values of the settings that are lists, the first setting
/// changing last.
fn expanded(template: &Table) -> Vec<Table> {
    let mut tables = vec![Table::new()];
    for (key, value) in template {
        let values = match value {
            Value::Array(values) if key != "systems" => values.clone(),
            value => vec![value.clone()],
        };
        let with = |table: &Table, value: &Value| {
            let mut table = table.clone();
            table.insert(key.clone(), value.clone());
            table
        };
        tables = tables.iter().flat_map(|table| values.iter().map(|value| with(table, value))).collect();
    }
    tables
}

/// The name of a row with the values of its settings.
fn named(row: &Table) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is_so) => is_so.to_string(),
        // In a name they would help nobody.
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => String::new(),
    };
    let template = row.get("name").map(text).unwrap_or_default();
    row.iter().fold(template, |name, (key, value)| name.replace(&format!("{{{key}}}"), &text(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::row::Workload;
    use myelin_loadgen::pubsub::throughput::{ReceiverInterest, ThroughputLoad};

    const HEAD: &str = "name = 'x'\ntitle = 'X'\nbaseline = 'a'\ncontrol = 'a'\n\
        [[system]]\nname = 'a'\nprogram = 'sh'\n";

    fn parse(rows: &str) -> Result<Plan, String> {
        Plan::parse(&format!("{HEAD}{rows}"))
    }

    #[test]
    fn the_plans_of_the_studies_are_sound() {
        for (name, _) in BUILT_IN {
            let plan = Plan::built_in(name).unwrap();
            assert_eq!(plan.head.name, name);
            assert!(plan.systems.iter().any(|system| system.name == "myelin"), "{name}");
            for row in &plan.rows {
                assert!(!row.name.contains(['{', '}', '|', ' ']), "{name}: {}", row.name);
                let able = |system: &&Candidate| {
                    (row.systems.is_empty() || row.systems.contains(&system.name))
                        && system.kind.can(&row.workload)
                };
                assert!(
                    plan.systems.iter().filter(able).count() > 1,
                    "{name}: nobody to compare in {}",
                    row.name
                );
            }
            let known: Vec<&str> =
                myelin_loadgen::metric::ALL.iter().map(|metric| metric.figure().0).collect();
            let unknown = plan.head.figures.iter().find(|figure| !known.contains(&figure.as_str()));
            assert_eq!(unknown, None, "{name}");
        }
    }

    #[test]
    fn every_figure_of_the_grids_is_there() {
        let count = |name: &str| Plan::built_in(name).unwrap().rows.len();
        // Payloads times kinds of receivers; ways to publish times payloads times stores.
        assert!(count("s5") >= 20 && count("s1") >= 66);
        assert!(count("s2") >= 12 && count("s3") >= 16 && count("s4") >= 5 && count("s6") >= 17);
    }

    #[test]
    fn lists_are_grids() {
        let plan = parse(
            "[[row]]\nname = 'p{publishers}-{size}'\nwork = 'core'\npublishers = [1, 2]\nsize = ['16', '1K']\n",
        );
        let plan = plan.unwrap();
        let names: Vec<&str> = plan.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["p1-16", "p1-1K", "p2-16", "p2-1K"]);
        let expected = ThroughputLoad {
            publishers: 2,
            receivers: 0,
            interest: ReceiverInterest::Star,
            subjects: 64,
            size: 1024,
        };
        assert!(matches!(plan.rows[3].workload, Workload::Throughput(load) if load == expected));
    }

    #[test]
    fn amounts_are_messages_or_seconds() {
        let amount = |text: &str| {
            let row = format!("[[row]]\nname = 'r'\nwork = 'core'\nsize = 1\n{text}");
            parse(&row).map(|plan| plan.rows[0].amount.unwrap())
        };
        let messages = amount("messages = 100\nwarm-up = 5\nrounds = 2").unwrap();
        let expected = Amount { until: Until::Messages(100), warm_up: Until::Messages(5), rounds: 2 };
        assert_eq!(messages, expected);
        let seconds = amount("seconds = 2.0").unwrap();
        assert_eq!(seconds.until, Until::Elapsed(Duration::from_secs(2)));
        assert_eq!(seconds.rounds, 5);
        for text in ["messages = 0", "rounds = 0", "seconds = 0.0", "seconds = -1.0"] {
            assert!(amount(text).unwrap_err().contains("row r"), "{text}");
        }
    }

    #[test]
    fn a_look_is_shorter() {
        let mut plan = parse("[[row]]\nname = 'r'\nwork = 'core'\nsize = 1\nmessages = 100000\n").unwrap();
        plan.hurry();
        let amount = plan.rows[0].amount.unwrap();
        assert_eq!((amount.until, amount.rounds), (Until::Messages(10_000), 3));
        plan.repeat(1);
        assert_eq!(plan.rows[0].amount.unwrap().rounds, 1);
    }

    #[test]
    fn mistakes_are_told_with_the_row() {
        let error = |rows: &str| parse(rows).unwrap_err();
        let row = |text: &str| format!("[[row]]\nname = 'r'\n{text}\n");
        assert!(error(&row("work = 'core'\nsize = 1\nbatch = 2")).contains("row r: unknown field"));
        assert!(error(&row("work = 'magic'")).contains("row r: unknown variant"));
        assert!(error(&row("work = 'core'\nsize = 'large'")).contains("row r:"));
        assert!(
            error(&row("work = 'core'\nsize = 1\nsystems = ['b']")).contains("no system is called \"b\"")
        );
        let twice = row("work = 'start'");
        assert!(error(&format!("{twice}{twice}")).contains("two rows are called \"r\""));
        assert!(error("").contains("no row"));
        assert!(Plan::load("no-such-file.toml").unwrap_err().to_string().contains("cannot be read"));
    }
}
