//! A report as one HTML file that asks for nothing else: style, pictures and tables are in it.
//!
//! Owns the page's order: what was measured and where, then for each group of rows the bars, the
//! curves with their percentiles, and everything as a table. Follows the reader's light or dark
//! mode.

use std::fmt::Write;

use crate::present::svg::escaped;
use crate::present::{QUANTILES, Report, THIN, bars, curves, terminal, text};
use crate::results::{Better, Cell, Curve, ResultRow, Results, significance};

const STYLE: &str = include_str!("html/style.css");

/// Colours that the style sheet has; further systems share the last.
const COLOURS: usize = 8;

/// A document alone.
pub fn page(results: &Results) -> String {
    report(&Report::alone(results))
}

/// All of it.
pub fn report(report: &Report) -> String {
    let date = report.origins.first().map_or("", |(_, made)| made.date.as_str());
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Benchmark results, {date}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>Benchmark results</h1>\n",
        date = escaped(date)
    );
    origins(&mut out, report);
    systems(&mut out, report);
    for group in report.groups() {
        let rows: Vec<&ResultRow> = report.rows.iter().filter(|row| row.group == group).collect();
        let title = if group.is_empty() { "Results" } else { group };
        let _ = writeln!(out, "<section>\n<h2>{}</h2>", escaped(title));
        failures(&mut out, &rows);
        all_bars(&mut out, report, &rows);
        rows.iter().for_each(|row| row_curves(&mut out, report, row));
        table(&mut out, &rows);
        out.push_str("</section>\n");
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn origins(out: &mut String, report: &Report) {
    if !report.is_of_one_machine() {
        out.push_str(
            "<p class=\"warning\">These were made on different machines: their figures do not compare.</p>\n",
        );
    }
    for (name, made) in &report.origins {
        let facts = [
            ("made", made.date.as_str()),
            ("machine", &format!("{} × {}", made.cores, made.machine)),
            ("kernel", &made.kernel),
            ("load before", &made.load_before),
            ("driver", &made.driver),
            ("command", &made.command),
        ];
        let notes = made.notes.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        out.push_str("<dl class=\"facts\">\n");
        if report.origins.len() > 1 {
            let _ = writeln!(out, "<div><dt>document</dt><dd>{}</dd></div>", escaped(name));
        }
        for (name, text) in facts.into_iter().chain(notes) {
            let _ = writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(text));
        }
        out.push_str("</dl>\n");
    }
}

fn systems(out: &mut String, report: &Report) {
    out.push_str("<ul class=\"key\">\n");
    for (place, system) in report.systems.iter().enumerate() {
        let place = place.min(COLOURS - 1);
        let (name, version) = (escaped(&system.name), escaped(&system.version));
        let _ = writeln!(
            out,
            "<li><span class=\"swatch b{place}\"></span><b>{name}</b> <span class=\"quiet\">{version}</span></li>"
        );
    }
    out.push_str("</ul>\n");
}

fn failures(out: &mut String, rows: &[&ResultRow]) {
    let failures: Vec<(&str, &str, &str)> = rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
        .flat_map(|(row, cell)| {
            cell.errors.iter().map(move |error| (row.name.as_str(), cell.system.as_str(), error.as_str()))
        })
        .collect();
    if failures.is_empty() {
        return;
    }
    out.push_str("<ul class=\"warning\">\n");
    for (row, system, error) in failures {
        let _ = writeln!(out, "<li>{}, {}: {}</li>", escaped(row), escaped(system), escaped(error));
    }
    out.push_str("</ul>\n");
}

/// The figures that are drawn as bars, in the order in which rows bring them up.
fn drawn<'a>(rows: &[&'a ResultRow]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for cell in rows.iter().flat_map(|row| &row.cells) {
        for figure in &cell.figures {
            let is_drawn = figure.better != Better::Neither && !terminal::is_in_curves(cell, figure);
            if is_drawn && !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
    }
    names
}

fn all_bars(out: &mut String, report: &Report, rows: &[&ResultRow]) {
    for name in drawn(rows) {
        let _ = writeln!(out, "<h3>{}</h3>", escaped(name));
        out.push_str(
            "<p class=\"quiet\">Medians of the rounds; the line in a bar goes from the least to the most of them. \
             Each picture has a scale of its own, from zero.</p>\n<div class=\"bars\">\n",
        );
        for picture in
            rows.iter().map(|row| bars::picture(report, row, name)).filter(|picture| !picture.is_empty())
        {
            let _ = writeln!(out, "<figure>{picture}</figure>");
        }
        out.push_str("</div>\n");
    }
}

fn row_curves(out: &mut String, report: &Report, row: &ResultRow) {
    let picture = curves::picture(report, row);
    if picture.is_empty() {
        return;
    }
    let (name, workload) = (escaped(&row.name), escaped(&row.workload));
    let _ = writeln!(out, "<h3>{name}</h3>\n<p class=\"quiet\">{workload}</p>");
    out.push_str(
        "<ul class=\"key\">\n<li><span class=\"stroke\"></span>from the planned time (corrected)</li>\n\
         <li><span class=\"stroke dashed\"></span>from the time of sending (uncorrected)</li>\n\
         <li><span class=\"stroke faint\"></span>fewer than 10 samples beyond</li>\n</ul>\n",
    );
    let _ = writeln!(out, "<figure class=\"wide\">{picture}</figure>");
    percentiles(out, row);
}

fn percentiles(out: &mut String, row: &ResultRow) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>system</th><th>clock</th><th>samples</th>");
    QUANTILES.iter().for_each(|(name, _)| {
        let _ = write!(out, "<th>{name}</th>");
    });
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut has_thin = false;
    for (system, curve) in
        row.cells.iter().flat_map(|cell| cell.curves.iter().map(move |curve| (&cell.system, curve)))
    {
        has_thin |= percentile_line(out, system, curve);
    }
    out.push_str("</tbody></table></div>\n");
    if has_thin {
        let _ = writeln!(out, "<p class=\"quiet\">* {THIN}</p>");
    }
}

/// Says whether a percentile in it is thin.
fn percentile_line(out: &mut String, system: &str, curve: &Curve) -> bool {
    let (system, clock) = (escaped(system), terminal::clock(curve.clock));
    let samples = text::grouped(curve.latencies.count());
    let _ = write!(out, "<tr><td>{system}</td><td>{clock}</td><td class=\"n\">{samples}</td>");
    let mut has_thin = false;
    for (_, quantile) in QUANTILES {
        let percentile = curve.latencies.percentile(quantile);
        let shown = text::percentile(&percentile, curve.latencies.count());
        let is_thin = percentile.is_thin() && curve.latencies.count() > 0;
        has_thin |= is_thin;
        let _ = match is_thin {
            true => write!(out, "<td class=\"n thin\" title=\"{THIN}\">{shown}*</td>"),
            false => write!(out, "<td class=\"n\">{shown}</td>"),
        };
    }
    out.push_str("</tr>\n");
    has_thin
}

/// Every figure in numbers; each system beside the first one of its row.
fn table(out: &mut String, rows: &[&ResultRow]) {
    out.push_str(
        "<details open><summary>All figures</summary>\n<div class=\"scroll\"><table>\n<thead><tr><th>row</th>\
         <th>figure</th><th>system</th><th>median (least..most)</th><th>rounds</th><th>A/A</th>\
         <th>beside the first system</th></tr></thead>\n<tbody>\n",
    );
    for row in rows {
        for name in names(row) {
            row.cells.iter().for_each(|cell| figure_line(out, row, name, cell));
        }
    }
    out.push_str("</tbody></table></div></details>\n");
}

fn names(row: &ResultRow) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for figure in row.cells.iter().flat_map(|cell| &cell.figures) {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
        }
    }
    names
}

fn figure_line(out: &mut String, row: &ResultRow, name: &str, cell: &Cell) {
    let Some(figure) = cell.figure(name) else { return };
    let first = row.cells.iter().find(|cell| cell.figure(name).is_some());
    let beside = match first {
        Some(first) if !std::ptr::eq(first, cell) => {
            escaped(&significance::beside(name, cell, first, significance::noise(name, [row])).to_string())
        }
        _ => String::new(),
    };
    let numbers = if significance::has_failed(cell) { "failed".to_owned() } else { text::spread(figure) };
    let control = figure.control_ratio().map_or_else(String::new, text::ratio);
    let _ = writeln!(
        out,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{control}</td><td>{beside}</td></tr>",
        escaped(&row.name),
        escaped(&text::label(figure)),
        escaped(&cell.system),
        numbers,
        figure.values.len(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::tests::results;

    #[test]
    fn a_page_has_every_row_figure_and_curve() {
        let results = results();
        let page = page(&results);
        for row in &results.rows {
            assert!(page.contains(&format!("<h3>{}</h3>", row.name)));
            for cell in &row.cells {
                for figure in &cell.figures {
                    let line = format!(
                        "<tr><td>{}</td><td>{}, {}</td><td>{}</td>",
                        row.name, figure.name, figure.unit, cell.system
                    );
                    assert!(page.contains(&line), "{line}");
                }
            }
        }
        // Bars of two figures in two rows, and a picture of curves for each row.
        assert_eq!(page.matches("<svg ").count(), 6);
        assert!(page.contains("what &lt;1:1-16&gt; &amp; co do") && !page.contains("<1:1-16>"));
        assert!(page.contains("<li>1:1-1M, nats-server: round 2: 5 messages were lost</li>"));
        assert!(page.contains("fewer than 10 samples lie beyond it"));
    }

    #[test]
    fn a_system_that_failed_in_a_row_has_no_numbers_there() {
        let page = page(&results());
        let line =
            page.lines().find(|line| line.starts_with("<tr><td>1:1-1M</td><td>rate, msgs/s</td><td>nats"));
        let line = line.unwrap();
        assert!(
            line.contains("<td class=\"n\">failed</td>") && line.ends_with("<td>failed</td></tr>"),
            "{line}"
        );
    }

    #[test]
    fn a_page_asks_for_nothing_else() {
        let page = page(&results());
        for request in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"] {
            assert!(!page.contains(request), "{request}");
        }
    }

    #[test]
    fn elements_are_closed() {
        let page = page(&results());
        for element in
            ["main", "section", "table", "tr", "td", "div", "figure", "svg", "text", "path", "ul", "li", "dl"]
        {
            let opened =
                page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }
}
