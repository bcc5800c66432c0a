//! Results as plain text for a terminal.

use std::fmt::Write;

use crate::present::{QUANTILES, Report, THIN, text};
use crate::results::{Cell, Clock, Curve, Figure, ResultRow};

/// One row as soon as it is measured.
pub fn row(row: &ResultRow) -> String {
    let mut out = format!("{}: {}\n", row.name, row.workload);
    let name_width = row.cells.iter().map(|cell| cell.system.len()).max().unwrap_or(0);
    out.push_str(&percentiles(row, name_width));
    for cell in &row.cells {
        let figures: Vec<String> =
            cell.figures.iter().filter(|figure| !is_in_curves(cell, figure)).map(line).collect();
        if !figures.is_empty() {
            let _ = writeln!(out, "  {:name_width$}  {}", cell.system, figures.join(" | "));
        }
        for error in &cell.errors {
            let _ = writeln!(out, "  {:name_width$}  not to be trusted: {error}", cell.system);
        }
    }
    out
}

/// A whole report.
pub fn report(report: &Report) -> String {
    let mut out = String::new();
    for (name, made) in &report.origins {
        let _ = writeln!(
            out,
            "{name}: {}, {} x {}, Linux {}, {}",
            made.date, made.cores, made.machine, made.kernel, made.driver
        );
    }
    if !report.is_of_one_machine() {
        out.push_str("These were made on different machines: their figures do not compare.\n");
    }
    for shown in &report.rows {
        let _ = write!(out, "\n{}", row(shown));
    }
    out
}

/// Whether the table of percentiles shows a figure already.
pub(super) fn is_in_curves(cell: &Cell, figure: &Figure) -> bool {
    !cell.curves.is_empty() && figure.name.starts_with("latency ")
}

fn line(figure: &Figure) -> String {
    let control =
        figure.control_ratio().map_or_else(String::new, |ratio| format!(" A/A {}", text::ratio(ratio)));
    format!("{} {}{}{control}", figure.name, text::spread(figure), text::unit(figure))
}

fn percentiles(row: &ResultRow, name_width: usize) -> String {
    let mut out = String::new();
    let lines: Vec<(&str, &Curve)> = row
        .cells
        .iter()
        .flat_map(|cell| cell.curves.iter().map(|curve| (cell.system.as_str(), curve)))
        .collect();
    if lines.is_empty() {
        return out;
    }
    let _ = write!(out, "  {:name_width$}  {:13} {:>10}", "", "latency", "samples");
    QUANTILES.iter().for_each(|(name, _)| {
        let _ = write!(out, " {name:>9} ");
    });
    out.truncate(out.trim_end().len());
    out.push('\n');
    let mut has_thin = false;
    for (system, curve) in lines {
        let samples = text::grouped(curve.latencies.count());
        let mut shown = format!("  {system:name_width$}  {:13} {samples:>10}", clock(curve.clock));
        for (_, quantile) in QUANTILES {
            let percentile = curve.latencies.percentile(quantile);
            let is_thin = percentile.is_thin() && curve.latencies.count() > 0;
            has_thin |= is_thin;
            let mark = if is_thin { '*' } else { ' ' };
            let _ = write!(shown, " {:>9}{mark}", text::percentile(&percentile, curve.latencies.count()));
        }
        let _ = writeln!(out, "{}", shown.trim_end());
    }
    if has_thin {
        let _ = writeln!(out, "  * {THIN}");
    }
    out
}

/// Name of a curve in a narrow column.
pub(super) fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::Planned => "corrected",
        Clock::Sent => "uncorrected",
        Clock::Driver => "driver's own",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::tests::results;

    #[test]
    fn a_report_has_every_row_system_and_failure() {
        let report = report(&Report::alone(&results()));
        for expected in [
            "1:1-16: what <1:1-16> & co do\n",
            "1:1-1M: ",
            "  nats-server  corrected          1,000",
            "  myelin       driver's own       1,000",
            "  nats-server  not to be trusted: round 2: 5 messages were lost\n",
            "rate 3.00M (2.70M..3.60M) msgs/s A/A 1.05x | server CPU 6.00 (5.40..7.20) us/msg",
        ] {
            assert!(report.contains(expected), "{expected:?} in:\n{report}");
        }
    }

    #[test]
    fn thin_percentiles_are_marked() {
        let shown = row(&results().rows[0]);
        let line = shown.lines().find(|line| line.contains("uncorrected")).unwrap();
        // Of 1,000 samples ten lie beyond p99, one beyond p99.9.
        assert_eq!(line.matches('*').count(), 4, "{line}");
        assert!(shown.contains("* fewer than 10 samples"), "{shown}");
    }
}
