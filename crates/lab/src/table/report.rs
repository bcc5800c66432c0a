//! Judges the rows of `myelin-lab table` and prints them as Markdown and JSON.
//!
//! Owns the look of the table and the verdicts. Measures nothing.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use myelin_loadgen::metric::Metric;
use myelin_loadgen::results::stat::Spread;
use myelin_loadgen::units::figure;
use serde_json::{Value, json};

use crate::comparison::{Comparison, ComparisonSettings, Measured, SystemIndex};
use crate::rows::row::Bound;

/// Systems by their places in the table: the reference, ours, and ours once more as the control.
const REFERENCE: SystemIndex = SystemIndex(0);
pub(crate) const OURS: SystemIndex = SystemIndex(1);
const CONTROL: SystemIndex = SystemIndex(2);

/// One figure of one row, judged.
#[derive(Debug)]
pub(crate) struct JudgedFigure {
    pub(crate) metric: Metric,
    reference: Option<Spread>,
    ours: Option<Spread>,
    /// How many times better than the reference ours is.
    times_better: Option<f64>,
    /// Ratio of ours to the control, which is ours again. 1 would be no noise at all.
    noise: Option<f64>,
    goal: Option<Bound>,
    verdict: Verdict,
}

/// Whether a goal is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    NoGoal,
    Pass,
    Fail,
}

/// Judges every figure of a row.
pub(crate) fn judge(measured: &Measured) -> Vec<JudgedFigure> {
    let mut metrics: Vec<Metric> = measured.samples.keys().map(|&(metric, _)| metric).collect();
    metrics.extend(measured.row.goals.iter().map(|goal| goal.metric));
    metrics.sort_unstable();
    metrics.dedup();
    metrics.retain(|metric| !metric.is_detail());
    metrics.into_iter().map(|metric| JudgedFigure::new(measured, metric)).collect()
}

impl JudgedFigure {
    fn new(measured: &Measured, metric: Metric) -> Self {
        let spread = |index| measured.samples.get(&(metric, index)).and_then(|values| Spread::of(values));
        let (reference, ours) = (spread(REFERENCE), spread(OURS));
        let times_better = better(metric, ours, reference);
        let goal = measured.row.goals.iter().find(|goal| goal.metric == metric).map(|goal| goal.bound);
        let failed = measured.failures.iter().any(|(index, _)| *index != REFERENCE);
        let verdict = match (goal, ours) {
            (None, _) => Verdict::NoGoal,
            (Some(goal), Some(ours))
                if !failed && goal.holds(ours.median, times_better, rounds_lost(measured, metric)) =>
            {
                Verdict::Pass
            }
            (Some(_), _) => Verdict::Fail,
        };
        let noise = better(metric, ours, spread(CONTROL));
        Self { metric, reference, ours, times_better, noise, goal, verdict }
    }

    pub(crate) fn failed(&self) -> bool {
        self.verdict == Verdict::Fail
    }

    /// The line as Markdown, for the row with this name.
    fn markdown(&self, row: &str) -> String {
        format!(
            "| {row} | {} | {} | {} | {} | {} | {} | {} |",
            self.metric.label(),
            range(self.reference),
            range(self.ours),
            ratio(self.times_better),
            self.goal.map_or_else(String::new, |goal| goal.to_string()),
            match self.verdict {
                Verdict::NoGoal => "",
                Verdict::Pass => "pass",
                Verdict::Fail => "**FAIL**",
            },
            ratio(self.noise),
        )
    }

    fn json(&self, measured: &Measured) -> Value {
        let samples = |index| measured.samples.get(&(self.metric, index)).cloned().unwrap_or_default();
        json!({
            "metric": self.metric.label(),
            "reference": samples(REFERENCE),
            "ours": samples(OURS),
            "control": samples(CONTROL),
            "times_better": self.times_better,
            "noise": self.noise,
            "goal": self.goal.map(|goal| goal.to_string()),
            "pass": (self.verdict != Verdict::NoGoal).then_some(self.verdict == Verdict::Pass),
        })
    }
}

/// Rounds in which ours was worse than the reference.
fn rounds_lost(measured: &Measured, metric: Metric) -> usize {
    let samples = |index| measured.samples.get(&(metric, index)).into_iter().flatten();
    let is_lost = |(ours, reference): &(&f64, &f64)| match metric.more_is_better() {
        true => ours < reference,
        false => ours > reference,
    };
    samples(OURS).zip(samples(REFERENCE)).filter(is_lost).count()
}

fn better(metric: Metric, ours: Option<Spread>, other: Option<Spread>) -> Option<f64> {
    let (ours, other) = (ours?, other?);
    if metric.more_is_better() { ours.times(&other) } else { other.times(&ours) }
}

fn range(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "-".into(),
        |Spread { median, least, most }| format!("{} ({}..{})", figure(median), figure(least), figure(most)),
    )
}

fn ratio(times: Option<f64>) -> String {
    times.map_or_else(|| "-".into(), |times| format!("{times:.2}x"))
}

/// Where and how a table was made.
#[derive(Debug)]
pub(crate) struct TableEnvironment {
    lines: Vec<(&'static str, String)>,
}

impl TableEnvironment {
    /// Asks the machine and the two programs.
    pub(crate) fn of(settings: &ComparisonSettings, comparison: &Comparison) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let lines = vec![
            ("unix time", unix_time().to_string()),
            ("cpu", format!("{cores} x {}", model.trim_start_matches([' ', '\t', ':']))),
            ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
            ("load before", read("/proc/loadavg").trim().to_owned()),
            ("ours", version(&comparison.system(OURS).program)),
            ("reference", version(&comparison.system(REFERENCE).program)),
            ("rounds", format!("{} of {:?}, interleaved", settings.rounds, settings.duration)),
            ("backlog", format!("{} MiB", settings.backlog >> 20)),
            ("subscriptions", settings.subscriptions.to_string()),
            ("connections", settings.connections.to_string()),
            (
                "streams",
                format!("{} distinct subjects, {} messages read", settings.subjects, settings.stored),
            ),
            ("consumers", format!("{} of the full size", settings.scale.0)),
        ];
        Self { lines }
    }
}

pub(crate) fn unix_time() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!("{} ({})", text.unwrap_or_default(), program.display())
}

const HEADING: &str = "\
| workload | figure | reference | ours | better | goal | verdict | A/A |
|---|---|---|---|---|---|---|---|
";

/// The whole table as Markdown.
pub(crate) fn markdown(environment: &TableEnvironment, rows: &[Measured], comparison: &Comparison) -> String {
    let mut text = String::new();
    for (name, value) in &environment.lines {
        let _ = writeln!(text, "- {name}: {value}");
    }
    text.push('\n');
    text.push_str(HEADING);
    for measured in rows {
        for line in judge(measured) {
            let _ = writeln!(text, "{}", line.markdown(&measured.row.name));
        }
    }
    text.push_str(
        "\nMedians with least and most of the rounds. \"better\": ours over the reference for rates, the \
         reference over ours for costs. A/A: the same ratio between two processes of ours, which is noise.\n",
    );
    text.push_str(&remarks(rows, comparison));
    text
}

/// One row as soon as it is measured, for a person who watches.
pub(crate) fn progress(measured: &Measured, comparison: &Comparison) -> String {
    let figure = |line: &JudgedFigure| {
        let mark = if line.failed() { " FAIL" } else { "" };
        format!("{} {}{mark}", line.metric.label(), ratio(line.times_better))
    };
    let figures: Vec<String> = judge(measured).iter().map(figure).collect();
    let remarks = remarks(std::slice::from_ref(measured), comparison);
    format!("{}: {}\n{remarks}", measured.row.name, figures.join(", "))
}

/// Failures and warnings, one line each.
pub(crate) fn remarks(rows: &[Measured], comparison: &Comparison) -> String {
    let mut text = String::new();
    for measured in rows {
        for (index, why) in &measured.failures {
            let _ = writeln!(text, "- {}: {} failed: {why}", measured.row.name, comparison.name(*index));
        }
        for warning in &measured.warnings {
            let _ = writeln!(text, "- {}: {warning}", measured.row.name);
        }
    }
    text
}

/// The whole table as JSON, with the value of every round.
pub(crate) fn json(environment: &TableEnvironment, rows: &[Measured], comparison: &Comparison) -> Value {
    let about: serde_json::Map<String, Value> =
        environment.lines.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
    let row = |measured: &Measured| {
        let figures: Vec<Value> = judge(measured).iter().map(|line| line.json(measured)).collect();
        let failures: Vec<String> = measured
            .failures
            .iter()
            .map(|(index, why)| format!("{}: {why}", comparison.name(*index)))
            .collect();
        json!({
            "name": measured.row.name, "figures": figures,
            "failures": failures, "warnings": measured.warnings,
        })
    };
    json!({ "circumstances": about, "rows": rows.iter().map(row).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::rows;
    use crate::servers::system::System;

    /// The row `pub-16` (goals: 3 times the rate, a quarter of the CPU) with these figures.
    fn measured(samples: &[(Metric, SystemIndex, &[f64])]) -> Measured {
        let row = rows::rows().into_iter().find(|row| row.name == "pub-16").unwrap();
        let samples: BTreeMap<_, _> =
            samples.iter().map(|&(metric, index, values)| ((metric, index), values.to_vec())).collect();
        Measured { samples, ..Measured::new(row) }
    }

    fn good() -> Measured {
        measured(&[
            (Metric::MessageRate, REFERENCE, &[9e6, 1e7, 2e7]),
            (Metric::MessageRate, OURS, &[4e7, 3e7, 2e7]),
            (Metric::MessageRate, CONTROL, &[2e7]),
            (Metric::Cpu, REFERENCE, &[0.1]),
            (Metric::Cpu, OURS, &[0.05]),
        ])
    }

    #[test]
    fn medians_are_judged_by_the_direction_of_the_metric() {
        let lines = judge(&good());
        let [rate, cpu] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((rate.times_better, rate.noise, rate.verdict), (Some(3.0), Some(1.5), Verdict::Pass));
        assert_eq!((cpu.times_better, cpu.noise, cpu.verdict), (Some(2.0), None, Verdict::Fail));
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        let measured = measured(&[
            (Metric::MessageRate, REFERENCE, &[3.0, 3.0, 3.0]),
            (Metric::MessageRate, OURS, &[2.0, 3.0, 4.0]),
            (Metric::Cpu, REFERENCE, &[3.0, 3.0]),
            (Metric::Cpu, OURS, &[4.0, 4.0, 4.0]),
        ]);
        assert_eq!(rounds_lost(&measured, Metric::MessageRate), 1);
        assert_eq!(rounds_lost(&measured, Metric::Cpu), 2);
        assert_eq!(rounds_lost(&measured, Metric::Latency99), 0);
    }

    #[test]
    fn a_failed_run_of_ours_fails_the_row() {
        let mut measured = good();
        measured.failures.push((OURS, "-150 bytes".into()));
        assert!(judge(&measured).iter().all(JudgedFigure::failed));
        let system = |name: &str| System::nats(name, Path::new("/nowhere"));
        let comparison =
            Comparison { systems: vec![system("reference"), system("ours")], controlled: OURS.0 };
        assert!(remarks(&[measured], &comparison).contains("pub-16: ours failed: -150 bytes"));
    }

    #[test]
    fn goals_without_figures_are_failures() {
        assert_eq!(judge(&measured(&[])).iter().filter(|line| line.failed()).count(), 2);
    }

    #[test]
    fn lines_show_ranges_ratios_and_verdicts() {
        let [rate, ..] = &judge(&good())[..] else { panic!("no lines") };
        assert_eq!(
            rate.markdown("pub-16"),
            "| pub-16 | msgs/s | 10.0M (9.00M..20.0M) | 30.0M (20.0M..40.0M) | 3.00x | 3x | pass | 1.50x |"
        );
    }
}
