//! Two documents side by side, and how a judgement is said in words.

use std::fmt::{self, Write};

use crate::present::text;
use crate::results::significance::{self, Judgement, has_failed};
use crate::results::{Better, Cell, ResultRow, Results};

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) => f.write_str(&direction(*times)),
            Self::NoDifference(times) => write!(f, "no difference shown ({})", text::ratio(*times)),
            Self::OneRound(times) => write!(f, "{} in one round, noise unknown", direction(*times)),
            Self::NoControl(times) => write!(f, "{}, no control", direction(*times)),
            Self::Behind(words) => f.write_str(words),
            Self::Failed => f.write_str("failed"),
            Self::Nothing => f.write_str("-"),
        }
    }
}

fn direction(times: f64) -> String {
    match times >= 1.0 {
        true => format!("{} better", text::ratio(times)),
        false => format!("{} worse", text::ratio(1.0 / times)),
    }
}

/// The two documents as a table in Markdown: every figure of every system that both have.
pub fn table(names: [&str; 2], documents: [&Results; 2]) -> String {
    let [before, after] = documents;
    let [first, second] = names;
    let mut out = String::new();
    for (name, made) in [(first, &before.environment), (second, &after.environment)] {
        let _ = writeln!(
            out,
            "- {name}: {}, {} x {}, Linux {}",
            made.date, made.cores, made.machine, made.kernel
        );
    }
    let machine = |results: &Results| (results.environment.machine.clone(), results.environment.cores);
    if machine(before) != machine(after) {
        out.push_str("- These were made on different machines: their figures do not compare.\n");
    }
    let _ = writeln!(
        out,
        "\n| row | system | figure | {first} | {second} | {second} is |\n|---|---|---|---|---|---|"
    );
    for row in &before.rows {
        if let Some(other) = after.row(&row.name) {
            pairs(row, other).for_each(|cells| figures(&mut out, [row, other], cells));
        }
    }
    only(&mut out, first, before, after);
    only(&mut out, second, after, before);
    out.push_str("\nMedians with least and most of the rounds. \"No difference shown\": within what two processes of one program differ by in the same rounds; without such a control, ranges that touch.\n");
    out
}

/// Cells of the same system; of documents with one system each, those, whatever they are called.
fn pairs<'a>(row: &'a ResultRow, other: &'a ResultRow) -> impl Iterator<Item = (&'a Cell, &'a Cell)> {
    let alone = match (&row.cells[..], &other.cells[..]) {
        ([one], [another]) => Some((one, another)),
        _ => None,
    };
    let same = |cell: &'a Cell| Some((cell, other.cell(&cell.system)?));
    let cells = if alone.is_some() { &[][..] } else { &row.cells[..] };
    alone.into_iter().chain(cells.iter().filter_map(same))
}

fn figures(out: &mut String, rows: [&ResultRow; 2], (one, other): (&Cell, &Cell)) {
    let row = &rows[0].name;
    let system = match one.system == other.system {
        true => one.system.clone(),
        false => format!("{} / {}", one.system, other.system),
    };
    for figure in &one.figures {
        let Some(counterpart) = other.figure(&figure.name) else { continue };
        if figure.better == Better::Neither || figure.unit != counterpart.unit {
            continue;
        }
        let label = text::label(figure);
        let [before, after] =
            [(one, figure), (other, counterpart)].map(|(cell, figure)| match has_failed(cell) {
                true => "failed".into(),
                false => text::spread(figure),
            });
        let judgement =
            significance::beside(&figure.name, other, one, significance::noise(&figure.name, rows));
        let _ = writeln!(out, "| {row} | {system} | {label} | {before} | {after} | {judgement} |");
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
    use crate::present::tests::{cell, results};

    #[test]
    fn judgements_are_said_in_words() {
        let said = [
            Judgement::Times(2.0),
            Judgement::Times(0.5),
            Judgement::NoDifference(1.01),
            Judgement::OneRound(3.0),
            Judgement::NoControl(0.25),
            Judgement::Failed,
            Judgement::Nothing,
        ];
        let expected = [
            "2.00x better",
            "2.00x worse",
            "no difference shown (1.01x)",
            "3.00x better in one round, noise unknown",
            "4.00x worse, no control",
            "failed",
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
            "| 1:1-16 | myelin | server CPU, us/msg | 6.00 (5.40..7.20) | 12.0 (10.8..14.4) | 2.00x worse, no control |",
            "| 1:1-16 | nats-server | server CPU, us/msg | 2.00 (1.80..2.40) | 2.00 (1.80..2.40) | no difference shown",
            "Only in a.json: 1:1-1M\n",
            "Only in b.json: 1:1-2M\n",
        ] {
            assert!(table.contains(expected), "{expected:?} in:\n{table}");
        }
        assert!(!table.contains("samples"));
    }

    #[test]
    fn what_failed_in_one_document_is_not_compared() {
        let (before, mut after) = (results(), results());
        after.rows[0].cells[0].errors.push("lost".into());
        let table = table(["a", "b"], [&before, &after]);
        let expected = "| 1:1-16 | myelin | rate, msgs/s | 3.00M (2.70M..3.60M) | failed | failed |";
        assert!(table.contains(expected), "{table}");
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
