//! Figures of a row beside their goals, and how both are printed.
//!
//! Measures nothing.

use std::fmt::Write;

use myelin_loadgen::results::stat::Spread;
use myelin_loadgen::units::figure;

use crate::table::report;

/// Bound that a figure should keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// One figure of a row, with a value from each round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    what: String,
    unit: &'static str,
    values: Vec<f64>,
    goal: Option<Goal>,
}

impl Figure {
    /// A figure without goal.
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, values: Vec<f64>) -> Self {
        Self { what: what.into(), unit, values, goal: None }
    }

    pub(crate) fn at_most(self, bound: f64) -> Self {
        Self { goal: Some(Goal::AtMost(bound)), ..self }
    }

    pub(crate) fn at_least(self, bound: f64) -> Self {
        Self { goal: Some(Goal::AtLeast(bound)), ..self }
    }

    /// Whether the median is as it should be; `None` without a goal.
    pub(crate) fn is_met(&self) -> Option<bool> {
        let median = Spread::of(&self.values).map(|spread| spread.median);
        Some(match self.goal? {
            Goal::AtMost(bound) => median.is_some_and(|median| median <= bound),
            Goal::AtLeast(bound) => median.is_some_and(|median| median >= bound),
        })
    }

    /// A line of the table.
    pub(crate) fn markdown(&self, row: &str) -> String {
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::AtMost(bound)) => format!("<= {}", figure(bound)),
            Some(Goal::AtLeast(bound)) => format!(">= {}", figure(bound)),
        };
        let met = self.is_met().map_or("", |is_met| if is_met { "yes" } else { "**NO**" });
        let measured = match Spread::of(&self.values) {
            None => "-".to_owned(),
            Some(Spread { median, .. }) if self.values.len() == 1 => figure(median),
            Some(Spread { median, least, most }) => {
                let [median, least, most] = [median, least, most].map(figure);
                format!("{median} ({least}..{most})")
            }
        };
        format!("| {row} | {} | {measured} {} | {goal} | {met} |", self.what, self.unit)
    }
}

/// Values of the same rounds, divided one by one.
pub(crate) fn ratios(over: &[f64], under: &[f64]) -> Vec<f64> {
    over.iter().zip(under).map(|(over, under)| over / under).collect()
}

/// Above all lines.
pub(crate) const HEADING: &str = "\
| workload | figure | measured | goal | met |
|---|---|---|---|---|
";

/// Where the figures come from.
pub(crate) fn environment(rounds: usize, divisor: u64, directory: &str) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = String::new();
    let _ = writeln!(text, "- unix time: {}", report::unix_time());
    let _ = writeln!(text, "- cpu: {cores} x {}", model.trim_start_matches([' ', '\t', ':']));
    let _ = writeln!(text, "- kernel: {}", read("/proc/sys/kernel/osrelease").trim());
    let _ = writeln!(text, "- load before: {}", read("/proc/loadavg").trim());
    let _ = writeln!(text, "- directory: {directory}");
    let _ = writeln!(text, "- rounds: {rounds}, alternating; sizes divided by {divisor}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_judged() {
        let figure = Figure::new("x", "ns", vec![1.0, 9.0, 3.0]);
        assert_eq!(figure.is_met(), None);
        assert_eq!(figure.clone().at_most(3.0).is_met(), Some(true));
        assert_eq!(figure.clone().at_most(2.9).is_met(), Some(false));
        assert_eq!(figure.clone().at_least(3.1).is_met(), Some(false));
        assert_eq!(
            Figure::new("x", "ns", vec![]).at_least(0.0).is_met(),
            Some(false),
            "nothing was measured"
        );
        assert_eq!(figure.at_most(2.0).markdown("r"), "| r | x | 3.00 (1.00..9.00) ns | <= 2.00 | **NO** |");
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        assert_eq!(ratios(&[2.0, 9.0], &[1.0, 3.0]), [2.0, 3.0]);
    }
}
