//! Results as comma-separated values: a line for every figure and every percentile of every system
//! in every row.
//!
//! Owns the columns. Numbers are whole, not rounded for reading.

use std::fmt::Write;

use crate::present::{QUANTILES, Report, terminal};
use crate::results::stat::Spread;
use crate::results::{Better, Cell, Figure, Results};

const HEADING: &str =
    "group,row,system,name,unit,better,median,least,most,values,control,control_ratio,samples_beyond\n";

/// A document alone.
pub fn table(results: &Results) -> String {
    report(&Report::alone(results))
}

/// All of it. Rounds stand in one field with spaces between.
pub fn report(report: &Report) -> String {
    let mut out = HEADING.to_owned();
    for row in &report.rows {
        for cell in &row.cells {
            let start = [&row.group, &row.name, &cell.system].map(|text| field(text)).join(",");
            figures(&mut out, &start, cell);
            percentiles(&mut out, &start, cell);
            for error in &cell.errors {
                let _ = writeln!(out, "{start},error,,,,,,{},,,", field(error));
            }
        }
    }
    out
}

fn figures(out: &mut String, start: &str, cell: &Cell) {
    for figure in &cell.figures {
        let Figure { name, unit, better, values, control, .. } = figure;
        let better = match better {
            Better::High => "high",
            Better::Low => "low",
            Better::Neither => "",
        };
        let spread = figure.spread().map_or_else(
            || ",,".to_owned(),
            |Spread { median, least, most }| format!("{median},{least},{most}"),
        );
        let ratio = figure.control_ratio().map_or_else(String::new, |ratio| ratio.to_string());
        let (name, unit, values, control) = (field(name), field(unit), listed(values), listed(control));
        let _ = writeln!(out, "{start},{name},{unit},{better},{spread},{values},{control},{ratio},");
    }
}

fn percentiles(out: &mut String, start: &str, cell: &Cell) {
    for curve in &cell.curves {
        for (name, quantile) in QUANTILES {
            let percentile = curve.latencies.percentile(quantile);
            let name = format!("{} {name} ({})", curve.what, terminal::clock(curve.clock));
            let value = percentile.nanoseconds as f64 / 1e3;
            let _ = writeln!(out, "{start},{},us,low,{value},,,,,,{:.3}", field(&name), percentile.beyond);
        }
    }
}

fn listed(values: &[f64]) -> String {
    values.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
}

/// Text as a field. Programs for tables take one that begins like a formula for one: an apostrophe
/// stands before it.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = format!("{}{text}", if is_formula { "'" } else { "" });
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::tests::results;

    #[test]
    fn every_line_has_the_columns_of_the_heading() {
        let table = table(&results());
        let columns = |line: &str| line.split(',').count();
        assert!(table.lines().all(|line| columns(line) == columns(HEADING)), "{table}");
        // Two rows of two systems: 3 figures and 3 curves of 8 percentiles each, and one error.
        assert_eq!(table.lines().count(), 1 + 4 * (3 + 24) + 1);
        assert!(table.contains(
            "core,1:1-16,myelin,rate,msgs/s,high,3000000,2700000,3600000,2700000 3000000 3600000,"
        ));
        assert!(table.contains("core,1:1-1M,nats-server,error,,,,,,round 2: 5 messages were lost,,,\n"));
    }

    /// Names of rows and systems, and what a server says.
    #[test]
    fn no_text_leaves_its_field_or_is_a_formula() {
        let hostile = "=HYPERLINK(\"http://x\"),1\r\ncore,2";
        let mut results = results();
        let row = &mut results.rows[0];
        hostile.clone_into(&mut row.name);
        row.cells[0].errors = vec![hostile.to_owned()];
        let table = table(&results);
        let quoted = "\"'=HYPERLINK(\"\"http://x\"\"),1\r\ncore,2\"";
        assert!(table.contains(&format!("core,{quoted},myelin,error,,,,,,{quoted},,,\n")), "{table}");
        // Without the quoted texts every line has its columns.
        let plain = table.replace(quoted, "x");
        let columns = |line: &str| line.split(',').count();
        assert!(plain.lines().all(|line| columns(line) == columns(HEADING)), "{plain}");
        assert!(!plain.contains(['"', '\r']), "{plain}");
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(["plain", "a,b", "say \"x\""].map(field), ["plain", "\"a,b\"", "\"say \"\"x\"\"\""]);
    }
}
