//! Latencies of several systems over each other: the percentile on a logarithmic axis, so that each
//! nine is as wide as the one before, and the latency on another.
//!
//! A system has a line from the planned time (corrected), a dashed one from the time of sending
//! (uncorrected), and where fewer than ten samples lie beyond, a thin continuation up to the
//! maximum.

use crate::present::scale::{Logarithmic, Nines};
use crate::present::svg::{Anchor, Svg};
use crate::present::{Report, text};
use crate::results::{Clock, Curve, Distribution, ResultRow};

const WIDTH: f64 = 1048.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 52.0;

/// Nines between two points of a line.
const STEP: f64 = 0.02;

/// Pixels between two labels.
const LABEL: f64 = 15.0;
const LONGEST_NAME: usize = 20;

/// The picture of a row's curves; empty if it has none.
pub(super) fn picture(report: &Report, row: &ResultRow) -> String {
    let lines = lines(report, row);
    let Some(plot) = Plot::of(&lines) else {
        return String::new();
    };
    let what = lines[0].curve.what.as_str();
    let mut svg =
        Svg::new(WIDTH, HEIGHT, &format!("Latency percentiles of {}: {}", row.name, summary(&lines)));
    plot.grid(&mut svg, what);
    // What is corrected is drawn last, over the others.
    for line in lines.iter().filter(|line| line.curve.clock == Clock::Sent) {
        plot.draw(&mut svg, line, "sent");
    }
    for line in lines.iter().filter(|line| line.curve.clock == Clock::Planned) {
        plot.draw(&mut svg, line, "planned");
    }
    plot.labels(&mut svg, &lines);
    svg.finish()
}

struct CurveLine<'a> {
    system: &'a str,
    /// Place of its colour.
    place: usize,
    curve: &'a Curve,
}

fn lines<'a>(report: &Report, row: &'a ResultRow) -> Vec<CurveLine<'a>> {
    let of_cell = |cell: &'a crate::results::Cell| {
        let place = report.place(&cell.system);
        let shown = |curve: &&Curve| curve.clock != Clock::Driver && curve.latencies.count() > 0;
        cell.curves.iter().filter(shown).map(move |curve| CurveLine { system: &cell.system, place, curve })
    };
    row.cells.iter().flat_map(of_cell).collect()
}

struct Plot {
    nines: Nines,
    latencies: Logarithmic,
}

impl Plot {
    fn of(lines: &[CurveLine<'_>]) -> Option<Self> {
        let samples = lines.iter().map(|line| line.curve.latencies.count()).max()?;
        let value =
            |line: &CurveLine<'_>, quantile| line.curve.latencies.percentile(quantile).nanoseconds as f64;
        let least = lines.iter().map(|line| value(line, 0.0)).fold(f64::INFINITY, f64::min);
        let most = lines.iter().map(|line| value(line, 1.0)).fold(0.0, f64::max);
        Some(Self { nines: Nines::of(samples), latencies: Logarithmic::around(least, most) })
    }

    fn x(&self, nines: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * self.nines.place(nines)
    }

    fn y(&self, nanoseconds: f64) -> f64 {
        let room = HEIGHT - TOP - BOTTOM;
        TOP + room * (1.0 - self.latencies.place(nanoseconds))
    }

    fn grid(&self, svg: &mut Svg, what: &str) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for &tick in &self.latencies.ticks {
            let y = self.y(tick);
            svg.line("grid", (LEFT, y), (right, y));
            svg.text("tick", (LEFT - 8.0, y + 4.0), Anchor::End, &round_time(tick));
        }
        for (nines, name) in self.nines.ticks() {
            let x = self.x(nines);
            svg.line("grid", (x, TOP), (x, bottom));
            svg.text("tick", (x, bottom + 17.0), Anchor::Middle, &name);
        }
        svg.line("axis", (LEFT, bottom), (right, bottom));
        svg.line("axis", (LEFT, TOP), (LEFT, bottom));
        let middle = f64::midpoint(LEFT, right);
        svg.text(
            "mute",
            (middle, HEIGHT - 12.0),
            Anchor::Middle,
            "percentile (logarithmic: every nine is as wide as the one before)",
        );
        svg.upright("mute", (16.0, f64::midpoint(TOP, bottom)), &format!("{what} (logarithmic)"));
    }

    fn draw(&self, svg: &mut Svg, line: &CurveLine<'_>, style: &str) {
        let latencies = &line.curve.latencies;
        let end = (latencies.count() as f64).log10().min(self.nines.count());
        // Ten samples lie beyond this.
        let firm = ((latencies.count() as f64).log10() - 1.0).clamp(0.0, end);
        let hint = format!("{}, {}", line.system, describe(line.curve.clock));
        let class = format!("line {style} c{}", line.place);
        svg.path(&format!("{class} thin"), &self.points(latencies, firm, end), &hint);
        svg.path(&class, &self.points(latencies, 0.0, firm), &hint);
        if line.curve.clock == Clock::Planned {
            let last = self.end(latencies);
            svg.dot(&format!("dot c{}", line.place), last, &format!("{hint}: max {}", max(latencies)));
        }
    }

    fn points(&self, latencies: &Distribution, from: f64, to: f64) -> Vec<(f64, f64)> {
        let count = ((to - from) / STEP).ceil().max(1.0) as u32;
        let at = |number| from + (to - from) * f64::from(number) / f64::from(count);
        let point = |nines| {
            let value = latencies.percentile(Nines::quantile(nines)).nanoseconds;
            (self.x(nines), self.y(value as f64))
        };
        (0..=count).map(|number| point(at(number))).collect()
    }

    /// Where a line ends: at the maximum, or at the last nine that is shown.
    fn end(&self, latencies: &Distribution) -> (f64, f64) {
        let nines = (latencies.count() as f64).log10().min(self.nines.count());
        let value = latencies.percentile(Nines::quantile(nines)).nanoseconds;
        (self.x(nines), self.y(value as f64))
    }

    /// The systems' names beside the ends of their lines, moved apart where they would touch.
    fn labels(&self, svg: &mut Svg, lines: &[CurveLine<'_>]) {
        let corrected = lines.iter().filter(|line| line.curve.clock == Clock::Planned);
        let mut labels: Vec<(f64, &CurveLine<'_>)> =
            corrected.map(|line| (self.end(&line.curve.latencies).1, line)).collect();
        labels.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut free = TOP;
        let lowest = HEIGHT - BOTTOM - 2.0 * LABEL * (labels.len() as f64 - 1.0);
        for (y, line) in labels {
            let y = y.min(lowest.max(TOP)).max(free);
            free = y + 2.0 * LABEL;
            let x = WIDTH - RIGHT + 12.0;
            let name: String = line.system.chars().take(LONGEST_NAME).collect();
            svg.text(&format!("label c{}", line.place), (x, y + 4.0), Anchor::Start, &name);
            let said = format!(
                "max {} of {}",
                max(&line.curve.latencies),
                text::grouped(line.curve.latencies.count())
            );
            svg.text("tick", (x, y + 4.0 + LABEL - 2.0), Anchor::Start, &said);
        }
    }
}

fn max(latencies: &Distribution) -> String {
    text::time(latencies.percentile(1.0).nanoseconds as f64)
}

/// Meaning of a line, in the words of the key.
pub(super) fn describe(clock: Clock) -> &'static str {
    match clock {
        Clock::Planned => "from the planned time (corrected)",
        Clock::Sent => "from the time of sending (uncorrected)",
        Clock::Driver => "how late the driver was",
    }
}

fn summary(lines: &[CurveLine<'_>]) -> String {
    let said = |line: &CurveLine<'_>| {
        let at = |quantile| text::time(line.curve.latencies.percentile(quantile).nanoseconds as f64);
        format!("{} {} p50 {} p99 {}", line.system, describe(line.curve.clock), at(0.5), at(0.99))
    };
    lines.iter().map(said).collect::<Vec<_>>().join("; ")
}

/// A tick's time without needless zeros.
fn round_time(nanoseconds: f64) -> String {
    let shown = text::time(nanoseconds);
    let (number, unit) = shown.split_once(' ').unwrap_or((&shown, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::tests::results;

    #[test]
    fn each_system_has_its_lines_and_its_label() {
        let report = Report::alone(&results());
        let picture = picture(&report, &report.rows[0]);
        for class in ["planned c0", "planned c1", "sent c0", "sent c1"] {
            // A thousand samples: firm up to p99, thin to p99.9.
            assert_eq!(picture.matches(&format!("class=\"line {class}\"")).count(), 1, "{class}");
            assert_eq!(picture.matches(&format!("class=\"line {class} thin\"")).count(), 1, "{class}");
        }
        assert!(
            picture.contains(">myelin</text>") && picture.contains(">max 10.3 ms of 1,000</text>"),
            "{picture}"
        );
        assert!(picture.contains(">99.9%</text>") && !picture.contains("99.99%"));
        assert!(picture.contains(">request to answer (logarithmic)</text>"));
    }

    #[test]
    fn a_row_without_curves_has_no_picture() {
        let mut report = Report::alone(&results());
        report.rows[0].cells.iter_mut().for_each(|cell| cell.curves.clear());
        assert_eq!(picture(&report, &report.rows[0]), "");
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!([1e5, 2e6, 5e3, 1e9].map(round_time), ["100 us", "2 ms", "5 us", "1 s"]);
    }
}
