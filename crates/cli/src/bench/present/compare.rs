//! Two documents side by side, and the rule when two figures differ.
//!
//! Owns that rule: a ratio is a difference if it is beyond what two processes of one program differed by in the same
//! run; where nobody measured that, if the ranges of the rounds do not touch; and of single rounds nothing is said.

use std::fmt;
use std::fmt::Write;

use crate::bench::present::text;
use crate::bench::results::{Better, Cell, Figure, Results, Row};
use crate::bench::stat::Spread;

/// What is to be said about one figure beside another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Judgement {
    /// How many times better the second is; below 1 it is worse.
    Times(f64),
    /// The ratio is within the noise.
    NoDifference(f64),
    /// There is a ratio, and nothing to say what noise is.
    OneRound(f64),
    /// One of the two is missing or zero, or the figure is none to compare.
    Nothing,
}

/// Judges the second figure beside the first.
pub(crate) fn judge(first: &Figure, second: &Figure) -> Judgement {
    let Some(times) = times_better(first, second) else {
        return Judgement::Nothing;
    };
    let control = [first, second].into_iter().filter_map(Figure::control_ratio).reduce(f64::max);
    match (control, first.values.len().min(second.values.len())) {
        (Some(noise), _) if times.max(1.0 / times) <= noise => Judgement::NoDifference(times),
        (None, 1) => Judgement::OneRound(times),
        (None, _) if ranges_touch(first, second) => Judgement::NoDifference(times),
        _ => Judgement::Times(times),
    }
}

fn times_better(first: &Figure, second: &Figure) -> Option<f64> {
    let (one, other) = (first.spread()?, second.spread()?);
    let times = match first.better {
        Better::High => other.times(&one)?,
        Better::Low => one.times(&other)?,
        Better::Neither => return None,
    };
    (times > 0.0).then_some(times)
}

fn ranges_touch(first: &Figure, second: &Figure) -> bool {
    first
        .spread()
        .zip(second.spread())
        .is_some_and(|(one, other): (Spread, Spread)| one.least <= other.most && other.least <= one.most)
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) if *times >= 1.0 => write!(f, "{} better", text::ratio(*times)),
            Self::Times(times) => write!(f, "{} worse", text::ratio(1.0 / times)),
            Self::NoDifference(times) => write!(f, "no difference shown ({})", text::ratio(*times)),
            Self::OneRound(times) => write!(f, "{} in one round, noise unknown", text::ratio(*times)),
            Self::Nothing => f.write_str("-"),
        }
    }
}

/// The two documents as a table in Markdown: every figure of every system that both have.
pub(super) fn table(names: [&str; 2], documents: [&Results; 2]) -> String {
    let [before, after] = documents;
    let [first, second] = names;
    let mut out = String::new();
    for (name, made) in [(first, &before.circumstances), (second, &after.circumstances)] {
        let _ = writeln!(
            out,
            "- {name}: {}, {} x {}, Linux {}",
            made.date, made.cores, made.machine, made.kernel
        );
    }
    let machine = |results: &Results| (results.circumstances.machine.clone(), results.circumstances.cores);
    if machine(before) != machine(after) {
        out.push_str("- These were made on different machines: their figures do not compare.\n");
    }
    let _ = writeln!(
        out,
        "\n| row | system | figure | {first} | {second} | {second} is |\n|---|---|---|---|---|---|"
    );
    for row in &before.rows {
        if let Some(other) = after.row(&row.name) {
            pairs(row, other).for_each(|(one, other)| figures(&mut out, &row.name, one, other));
        }
    }
    only(&mut out, first, before, after);
    only(&mut out, second, after, before);
    out.push_str("\nMedians with least and most of the rounds. \"No difference shown\": within what two processes of one program differ by in the same rounds, or ranges that touch.\n");
    out
}

/// Cells of the same system; of documents with one system each, those, whatever they are called.
fn pairs<'a>(row: &'a Row, other: &'a Row) -> impl Iterator<Item = (&'a Cell, &'a Cell)> {
    let alone = match (&row.cells[..], &other.cells[..]) {
        ([one], [another]) => Some((one, another)),
        _ => None,
    };
    let same = |cell: &'a Cell| Some((cell, other.cell(&cell.system)?));
    let cells = if alone.is_some() { &[][..] } else { &row.cells[..] };
    alone.into_iter().chain(cells.iter().filter_map(same))
}

fn figures(out: &mut String, row: &str, one: &Cell, other: &Cell) {
    let system = match one.system == other.system {
        true => one.system.clone(),
        false => format!("{} / {}", one.system, other.system),
    };
    for figure in &one.figures {
        let Some(counterpart) = other.figure(&figure.name) else { continue };
        if figure.better == Better::Neither || figure.unit != counterpart.unit {
            continue;
        }
        let (name, unit) = (&figure.name, &figure.unit);
        let [before, after] = [figure, counterpart].map(text::spread);
        let judgement = judge(figure, counterpart);
        let _ = writeln!(out, "| {row} | {system} | {name}, {unit} | {before} | {after} | {judgement} |");
    }
    for (cell, when) in [(one, "before"), (other, "after")] {
        cell.errors.iter().for_each(|error| {
            let _ = writeln!(out, "| {row} | {system} | failed {when}: {error} | | | |");
        });
    }
}

/// Says which rows one document has alone.
fn only(out: &mut String, name: &str, these: &Results, others: &Results) {
    let alone: Vec<&str> =
        these.rows.iter().map(|row| row.name.as_str()).filter(|row| others.row(row).is_none()).collect();
    if !alone.is_empty() {
        let _ = writeln!(out, "\nOnly in {name}: {}", alone.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::present::tests::{cell, results};

    fn figure(better: Better, values: &[f64]) -> Figure {
        Figure::new("x", "u", better, values.to_vec())
    }

    #[test]
    fn a_ratio_within_the_control_shows_no_difference() {
        let noisy = figure(Better::High, &[100.0, 101.0]).with_control(vec![110.0, 111.0]);
        let slightly = figure(Better::High, &[108.0, 109.0]);
        assert!(matches!(judge(&noisy, &slightly), Judgement::NoDifference(_)));
        assert!(matches!(judge(&slightly, &noisy), Judgement::NoDifference(_)));
        let clearly = figure(Better::High, &[200.0, 202.0]);
        assert_eq!(judge(&noisy, &clearly), Judgement::Times(2.0));
        assert_eq!(judge(&clearly, &noisy), Judgement::Times(0.5));
    }

    #[test]
    fn without_a_control_the_ranges_decide() {
        let low = |values: &[f64]| figure(Better::Low, values);
        assert_eq!(judge(&low(&[4.0, 4.0]), &low(&[2.0, 2.0])), Judgement::Times(2.0));
        assert!(matches!(judge(&low(&[4.0, 2.0]), &low(&[2.0, 1.0])), Judgement::NoDifference(_)));
        assert_eq!(judge(&low(&[4.0]), &low(&[2.0])), Judgement::OneRound(2.0));
        assert_eq!(judge(&low(&[]), &low(&[2.0])), Judgement::Nothing);
        assert_eq!(judge(&low(&[0.0]), &low(&[2.0])), Judgement::Nothing);
        assert_eq!(judge(&figure(Better::Neither, &[1.0]), &low(&[2.0])), Judgement::Nothing);
    }

    #[test]
    fn judgements_are_said_in_words() {
        let said = [
            Judgement::Times(2.0),
            Judgement::Times(0.5),
            Judgement::NoDifference(1.01),
            Judgement::OneRound(3.0),
            Judgement::Nothing,
        ];
        let expected = [
            "2.00x better",
            "2.00x worse",
            "no difference shown (1.01x)",
            "3.00x in one round, noise unknown",
            "-",
        ];
        assert_eq!(said.map(|judgement| judgement.to_string()), expected);
    }

    #[test]
    fn two_documents_are_compared_row_by_row() {
        let (before, mut after) = (results(), results());
        after.rows[0].cells[0] = cell("myelin", 6.0);
        after.rows[1].name = "1:1-2M".into();
        let table = table(["a.json", "b.json"], [&before, &after]);
        for expected in [
            "| 1:1-16 | myelin | rate, msgs/s | 3.00M (2.70M..3.60M) | 6.00M (5.40M..7.20M) | 2.00x better |",
            "| 1:1-16 | myelin | server CPU, us/msg | 6.00 (5.40..7.20) | 12.0 (10.8..14.4) | 2.00x worse |",
            "| 1:1-16 | nats-server | server CPU, us/msg | 2.00 (1.80..2.40) | 2.00 (1.80..2.40) | no difference shown",
            "Only in a.json: 1:1-1M\n",
            "Only in b.json: 1:1-2M\n",
        ] {
            assert!(table.contains(expected), "{expected:?} in:\n{table}");
        }
        assert!(!table.contains("samples"));
    }

    #[test]
    fn documents_with_one_system_each_are_compared_whatever_it_is_called() {
        let alone = |place: usize| {
            let mut results = results();
            results.rows.iter_mut().for_each(|row| row.cells = vec![row.cells[place].clone()]);
            results
        };
        let table = table(["a", "b"], [&alone(0), &alone(1)]);
        assert!(table.contains("| 1:1-16 | myelin / nats-server | rate, msgs/s |"), "{table}");
    }
}
