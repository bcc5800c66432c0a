//! One figure of one row as bars, a bar for each system: medians with whiskers from the least to
//! the most of the rounds.
//!
//! Each picture has an axis of its own, from zero. A system without the figure has a word instead
//! of a bar.

use crate::present::scale::FromZero;
use crate::present::svg::{Anchor, Svg};
use crate::present::{Report, text};
use crate::results::significance::has_failed;
use crate::results::stat::Spread;
use crate::results::{Better, Cell, Figure, ResultRow};

const WIDTH: f64 = 340.0;
const TOP: f64 = 40.0;
const LANE: f64 = 26.0;
const BAR: f64 = 14.0;
const AXIS: f64 = 26.0;
const RIGHT: f64 = 58.0;

/// Pixels of a sign, about.
const CHARACTER_WIDTH: f64 = 6.4;
const LONGEST_NAME: usize = 18;

/// The picture of a figure in a row.
pub(super) fn picture(report: &Report, row: &ResultRow, name: &str) -> String {
    let lanes: Vec<(&str, Option<&Figure>)> =
        row.cells.iter().map(|cell| (cell.system.as_str(), good(cell, name))).collect();
    let Some(first) = lanes.iter().find_map(|lane| lane.1) else {
        return String::new();
    };
    let height = TOP + LANE * lanes.len() as f64 + AXIS;
    let title = format!("{} of {}: {}", first.name, row.name, summary(&lanes));
    let mut svg = Svg::new(WIDTH, height, &title);
    svg.text("head", (0.0, 13.0), Anchor::Start, &row.name);
    svg.text("mute", (0.0, 29.0), Anchor::Start, &caption(first));
    let longest = lanes.iter().map(|(system, _)| shown(system).chars().count()).max().unwrap_or(0);
    let left = longest as f64 * CHARACTER_WIDTH + 10.0;
    let plot = Plot { left, width: WIDTH - left - RIGHT, bottom: height - AXIS, axis: axis(&lanes) };
    plot.grid(&mut svg);
    for (number, (system, figure)) in lanes.iter().enumerate() {
        let middle = TOP + LANE * (number as f64 + 0.5);
        svg.text("name", (left - 8.0, middle + 4.0), Anchor::End, &shown(system));
        let spread = figure.and_then(Figure::spread);
        match spread {
            Some(spread) => plot.lane(&mut svg, report.place(system), middle, spread),
            None => svg.text("bad", (left + 4.0, middle + 4.0), Anchor::Start, "no result"),
        }
    }
    svg.line("axis", (left, TOP), (left, plot.bottom));
    svg.finish()
}

/// A system that failed in the row has no bar, whatever its earlier rounds gave.
fn good<'a>(cell: &'a Cell, name: &str) -> Option<&'a Figure> {
    cell.figure(name).filter(|_| !has_failed(cell))
}

struct Plot {
    left: f64,
    width: f64,
    bottom: f64,
    axis: FromZero,
}

impl Plot {
    fn x(&self, value: f64) -> f64 {
        self.left + self.width * self.axis.place(value)
    }

    fn grid(&self, svg: &mut Svg) {
        for &tick in &self.axis.ticks {
            let x = self.x(tick);
            svg.line("grid", (x, TOP), (x, self.bottom));
            let label = if tick == 0.0 { "0".into() } else { round(tick) };
            svg.text("tick", (x, self.bottom + 15.0), Anchor::Middle, &label);
        }
    }

    fn lane(&self, svg: &mut Svg, place: usize, middle: f64, spread: Spread) {
        let Spread { median, least, most } = spread;
        let hint =
            format!("median {}, {} to {}", text::number(median), text::number(least), text::number(most));
        let (start, end) = (self.x(0.0), self.x(median));
        svg.bar(&format!("bar c{place}"), (start, middle - BAR / 2.0), ((end - start).max(1.0), BAR), &hint);
        if most > least {
            let (from, to) = (self.x(least), self.x(most));
            svg.line("whisker", (from, middle), (to, middle));
            [from, to].iter().for_each(|&x| svg.line("whisker", (x, middle - 4.0), (x, middle + 4.0)));
        }
        svg.text("value", (WIDTH, middle + 4.0), Anchor::End, &text::number(median));
    }
}

fn axis(lanes: &[(&str, Option<&Figure>)]) -> FromZero {
    let most = lanes.iter().filter_map(|(_, figure)| Some(figure.as_ref()?.spread()?.most));
    FromZero::up_to(most.fold(0.0, f64::max))
}

fn caption(figure: &Figure) -> String {
    let direction = match figure.better {
        Better::High => ", more is better",
        Better::Low => ", less is better",
        Better::Neither => "",
    };
    let rounds = match figure.values.len() {
        1 => "1 round".into(),
        count => format!("{count} rounds"),
    };
    let control =
        figure.control_ratio().map_or_else(String::new, |ratio| format!(", A/A {}", text::ratio(ratio)));
    let name = if figure.name == figure.unit { String::new() } else { format!("{}, ", figure.name) };
    format!("{name}{}{direction}; {rounds}{control}", figure.unit)
}

fn summary(lanes: &[(&str, Option<&Figure>)]) -> String {
    let said = |(system, figure): &(&str, Option<&Figure>)| {
        let value = figure.map_or_else(|| "no result".into(), text::spread);
        format!("{system} {value}")
    };
    lanes.iter().map(said).collect::<Vec<_>>().join(", ")
}

/// A name that fits beside the bars.
fn shown(system: &str) -> String {
    match system.chars().count() > LONGEST_NAME {
        true => system.chars().take(LONGEST_NAME - 1).chain(['…']).collect(),
        false => system.to_owned(),
    }
}

/// A tick's number without needless zeros.
fn round(value: f64) -> String {
    let (value, sign) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let text = format!("{value:.4}");
    format!("{}{sign}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::tests::results;

    #[test]
    fn bars_begin_at_zero_and_keep_proportions() {
        let report = Report::alone(&results());
        let picture = picture(&report, &report.rows[0], "rate");
        let width = |class: &str| -> f64 {
            let path = picture.split(&format!("class=\"bar {class}\" d=\"M")).nth(1).unwrap();
            let [from, to] = [path.split(' ').next(), path.split('H').nth(1)]
                .map(|text| text.unwrap().split(['a', ' ']).next().unwrap().parse::<f64>().unwrap());
            to + 3.0 - from
        };
        assert!((width("c0") / width("c1") - 3.0).abs() < 0.05, "{} {}", width("c0"), width("c1"));
        assert_eq!(picture.matches("class=\"whisker\"").count(), 6);
        assert!(
            picture.contains(">0</text>") && picture.contains("more is better; 3 rounds, A/A 1.05x"),
            "{picture}"
        );
    }

    #[test]
    fn a_system_without_the_figure_has_a_word_instead_of_a_bar() {
        let mut report = Report::alone(&results());
        report.rows[0].cells[1].figures.clear();
        let picture = picture(&report, &report.rows[0], "rate");
        assert!(picture.contains(">no result</text>") && picture.matches("class=\"bar").count() == 1);
        // The second row's second system failed in a later round.
        let failed = super::picture(&report, &report.rows[1], "rate");
        assert!(failed.contains(">no result</text>") && failed.matches("class=\"bar").count() == 1);
        assert_eq!(super::picture(&report, &report.rows[0], "unheard of"), "");
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!([2.5e6, 500.0, 1500.0, 0.25, 2e9].map(round), ["2.5M", "500", "1.5k", "0.25", "2G"]);
    }
}
