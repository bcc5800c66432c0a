//! Results as a table in Markdown that also reads well in a terminal.
//!
//! Owns the look; what is a difference, `judge` says. Reads nothing but results.

use std::fmt::Write;

use myelin_loadgen::results::significance::{self, Judgement, has_failed, is_thin};
use myelin_loadgen::results::{Cell, ResultRow, Results};
use myelin_loadgen::units::figure as number;

use crate::compare::file::PlanHead;

/// Verdict on a ratio inside the noise.
const NO_DIFFERENCE: &str = "no difference shown";

/// A judgement as what follows the numbers.
fn words(judgement: &Judgement) -> String {
    match judgement {
        Judgement::Times(times) => format!(", **{}x**", ratio(*times)),
        Judgement::NoDifference(_) => format!(", {NO_DIFFERENCE}"),
        Judgement::OneRound(times) => format!(", {}x (one round)", ratio(*times)),
        Judgement::NoControl(times) => format!(", {}x (no control)", ratio(*times)),
        Judgement::Behind(words) => format!(", {words}"),
        Judgement::Failed | Judgement::Nothing => String::new(),
    }
}

fn ratio(times: f64) -> String {
    match times {
        times if times < 0.0005 => "<0.001".into(),
        times if times < 0.095 => format!("{times:.3}"),
        times => format!("{times:.2}"),
    }
}

/// The whole report.
pub(crate) fn markdown(results: &Results, head: &PlanHead) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}\n", head.about.trim());
    let about = &results.environment;
    let _ = writeln!(text, "- {}, {} x {}, Linux {}", about.date, about.cores, about.machine, about.kernel);
    let _ = writeln!(text, "- load before: {}; driver: {}", about.load_before, about.driver);
    for system in &results.systems {
        let note = |what: &str| about.notes.get(&format!("{what} of {}", system.name));
        let size = note("size").map(|size| format!(", {size}")).unwrap_or_default();
        let start = note("start").map(|start| format!(", starts in {start}")).unwrap_or_default();
        let _ = writeln!(text, "- {}: {}{size}{start}", system.name, system.version);
    }
    for (name, note) in about.notes.iter().filter(|(name, _)| !name.contains(" of ")) {
        let _ = writeln!(text, "- {name}: {note}");
    }
    let _ = writeln!(text, "\n{}", table(results, head, &results.rows.iter().collect::<Vec<_>>()));
    let _ = writeln!(
        text,
        "Medians with least and most of the rounds. **1.50x** means that many times better than {}: more for rates, \
         less for costs. A/A is how far apart two processes of {} were, in the medians or in the worst round; a ratio \
         that is not beyond it says nothing and is printed as \"{NO_DIFFERENCE}\". A percentile marked * has fewer than \
         10 samples beyond it, and is not compared; no maximum is, and nothing of a system that fell behind its rate.",
        head.baseline, head.control
    );
    let failures = failures(results.rows.iter());
    if !failures.is_empty() {
        let _ = writeln!(text, "\nFailed runs:\n\n{failures}");
    }
    text
}

/// One row as soon as it is measured, for a person who watches.
pub(crate) fn row(results: &Results, head: &PlanHead, name: &str) -> String {
    let Some(row) = results.row(name) else { return String::new() };
    let lines = table(results, head, &[row]);
    let body: Vec<&str> = lines.lines().skip(2).collect();
    format!("{}\n{}", body.join("\n"), failures([row].into_iter()))
}

fn failures<'a>(rows: impl Iterator<Item = &'a ResultRow>) -> String {
    let mut text = String::new();
    for row in rows {
        for error in row.cells.iter().flat_map(|cell| &cell.errors) {
            let _ = writeln!(text, "- {}: {error}", row.name);
        }
    }
    text
}

/// A line for each figure of each row, a column for each system.
fn table(results: &Results, head: &PlanHead, rows: &[&ResultRow]) -> String {
    let names: Vec<&str> = results.systems.iter().map(|system| system.name.as_str()).collect();
    let mut lines = vec![[&["workload", "figure"][..], &names[..], &["A/A"][..]].concat()]
        .into_iter()
        .map(|line| line.into_iter().map(str::to_owned).collect())
        .collect::<Vec<Vec<String>>>();
    for row in rows {
        for (name, unit) in figures(row, head) {
            let mut line = vec![row.name.clone(), format!("{name}, {unit}")];
            let noise = significance::noise(&name, [*row]);
            for system in &names {
                line.push(cell_text(row, system, &name, head, noise));
            }
            line.push(noise.map_or_else(String::new, |noise| format!("{noise:.2}x")));
            lines.push(line);
        }
        if figures(row, head).is_empty() {
            let mut line = vec![row.name.clone(), "-".to_owned()];
            line.extend(names.iter().map(|system| failed(row.cell(system))));
            line.push(String::new());
            lines.push(line);
        }
    }
    aligned(&lines)
}

/// Names and units of what a row shows, in the order of the first system that has it.
fn figures(row: &ResultRow, head: &PlanHead) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for figure in row.cells.iter().flat_map(|cell| &cell.figures) {
        let is_wanted = head.figures.is_empty() || head.figures.contains(&figure.name);
        if is_wanted && !all.iter().any(|(name, _)| *name == figure.name) {
            all.push((figure.name.clone(), figure.unit.clone()));
        }
    }
    all
}

fn cell_text(row: &ResultRow, system: &str, name: &str, head: &PlanHead, noise: Option<f64>) -> String {
    let cell = row.cell(system);
    let good = cell.filter(|cell| !has_failed(cell));
    let Some((cell, figure)) = good.and_then(|cell| Some((cell, cell.figure(name)?))) else {
        return failed(cell);
    };
    let Some(spread) = figure.spread() else { return failed(Some(cell)) };
    let thin = if is_thin(cell, name, figure.values.len()) { "*" } else { "" };
    let median = number(spread.median);
    let range = match figure.values.len() {
        1 => String::new(),
        _ => format!(" ({}..{})", number(spread.least), number(spread.most)),
    };
    let baseline = row.cell(&head.baseline).filter(|_| system != head.baseline);
    let judgement = baseline.map(|baseline| significance::beside(name, cell, baseline, noise));
    if let (None, Some(behind)) = (&judgement, cell.behind) {
        return format!("{median}{thin}{range}, {}", significance::words(behind));
    }
    format!("{median}{thin}{range}{}", judgement.as_ref().map(words).unwrap_or_default())
}

fn failed(cell: Option<&Cell>) -> String {
    match cell {
        Some(cell) if has_failed(cell) => "failed".into(),
        _ => "-".into(),
    }
}

/// The lines as a table whose columns are equally wide; the first is the heading.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let wide =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if number == 0 {
            widths.iter().for_each(|width| text.push_str(&format!("|{}", "-".repeat(width + 2))));
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::file::Plan;
    use myelin_loadgen::results::{Better, Clock, Curve, Distribution, Environment, Figure, TestedSystem};

    fn figure(values: &[f64]) -> Figure {
        Figure::new("rate", "msgs/s", Better::High, values.to_vec())
    }

    fn head() -> PlanHead {
        let mut head = Plan::built_in("s2").unwrap().head;
        head.figures.clear();
        head
    }

    fn results(cells: Vec<Cell>) -> Results {
        let system = |cell: &Cell| TestedSystem { name: cell.system.clone(), version: "v1".into() };
        let systems = cells.iter().map(system).collect();
        let row =
            ResultRow { name: "1:1-16".into(), group: "s2".into(), workload: "one to one".into(), cells };
        Results::new(Environment::now(), systems, vec![row])
    }

    fn cell(system: &str, figures: Vec<Figure>) -> Cell {
        Cell { system: system.into(), figures, ..Cell::default() }
    }

    #[test]
    fn one_noisy_round_of_the_control_is_noise() {
        let ours = |control: &[f64]| figure(&[200.0, 220.0, 210.0]).with_control(control.to_vec());
        let text = |control: &[f64]| {
            let cells =
                vec![cell("nats-server", vec![figure(&[100.0; 3])]), cell("myelin", vec![ours(control)])];
            markdown(&results(cells), &head())
        };
        let calm = text(&[201.0, 215.0, 212.0]);
        assert!(calm.contains("| 210 (200..220), **2.10x** | 1.02x |"), "{calm}");
        let noisy = text(&[201.0, 100.0, 212.0]);
        assert!(noisy.contains("| 210 (200..220), no difference shown | 2.20x |"), "{noisy}");
    }

    #[test]
    fn failed_runs_are_shown_and_told() {
        let mut failed = cell("myelin", Vec::new());
        failed.errors.push("myelin: failed run: -150 bytes".into());
        let text =
            markdown(&results(vec![cell("nats-server", vec![figure(&[100.0])]), failed.clone()]), &head());
        assert!(
            text.contains("| failed |") && text.contains("- 1:1-16: myelin: failed run: -150 bytes"),
            "{text}"
        );
        let nothing = markdown(&results(vec![failed]), &head());
        assert!(nothing.contains("| 1:1-16   | -      | failed |"), "{nothing}");
    }

    #[test]
    fn a_system_that_failed_in_a_later_round_has_no_result_and_is_no_baseline_and_no_control() {
        let [first, third] = [&[100.0, 101.0], &[300.0, 301.0]].map(|values| figure(values));
        let second = figure(&[200.0, 201.0]).with_control(vec![200.0, 201.0]);
        let text = |failed: usize| {
            let systems = [("nats-server", &first), ("myelin", &second), ("other", &third)];
            let mut cells = systems.map(|(system, figure)| cell(system, vec![figure.clone()]));
            cells[failed].errors.push("lost".into());
            markdown(&results(cells.into()), &head())
        };
        let baseline = text(0);
        assert!(baseline.contains("| failed      | 200 (200..201) | 300 (300..301) | 1.00x |"), "{baseline}");
        let control = text(1);
        assert!(control.contains("| failed | 300 (300..301), 2.99x (no control) |     |"), "{control}");
        let other = text(2);
        assert!(other.contains("| 200 (200..201), **2.00x** | failed | 1.00x |"), "{other}");
    }

    #[test]
    fn percentiles_with_few_samples_are_marked() {
        let mut latencies = Distribution::default();
        (0..3000).for_each(|value| latencies.record(value));
        let curve = Curve { what: "request to answer".into(), clock: Clock::Planned, latencies };
        let latency = |name: &str| Figure::new(name, "us", Better::Low, vec![1.0, 1.0, 1.0]);
        let figures = ["latency p50", "latency p99", "latency p99.9", "latency max"].map(latency);
        let cell = Cell { curves: vec![curve], ..cell("myelin", figures.into()) };
        // A thousand in each round: beyond p99 there are ten.
        let thin = |name| is_thin(&cell, name, 3);
        assert_eq!(
            ["latency p50", "latency p99", "latency p99.9", "latency max"].map(thin),
            [false, false, true, false]
        );
        let text = markdown(&results(vec![cell.clone()]), &head());
        assert!(text.contains("| 1.00* (1.00..1.00) |"), "{text}");
    }

    #[test]
    fn only_the_figures_of_the_plan_are_shown() {
        let figures = vec![figure(&[1.0]), Figure::new("bytes", "MB/s", Better::High, vec![1.0])];
        let results = results(vec![cell("nats-server", figures)]);
        let head = PlanHead { figures: vec!["bytes".into()], ..head() };
        let text = markdown(&results, &head);
        assert!(text.contains("| bytes, MB/s |") && !text.contains("rate, msgs/s"), "{text}");
    }
}
