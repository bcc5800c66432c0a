//! The rule when two figures differ, for every report.
//!
//! A ratio is a difference if it is beyond what two processes of one program differed by in the
//! same rounds. Where nobody measured that, or in a single round, the ratio is told with that
//! doubt. What came of a run that failed or fell behind, a percentile that is hardly more than the
//! maximum, and the maximum itself are not judged.

use crate::results::{Behind, Better, Cell, Clock, Figure, ResultRow};
use crate::units::figure;

/// Verdict on one figure beside another.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// How many times better it is than the baseline; below 1 it is worse.
    Times(f64),
    /// The ratio is within the noise.
    NoDifference(f64),
    /// The ratio is that of a single round.
    OneRound(f64),
    /// The ratio has no control to say how large noise is.
    NoControl(f64),
    /// A system failed in this row.
    Failed,
    /// A system did not keep up with the row's rate: in words, which and how far.
    Behind(String),
    /// One of the two is missing or zero, or the figure is none to compare.
    Nothing,
}

/// Judges a system's figure of this name beside the baseline's. `noise` is what `noise` says.
pub fn beside(name: &str, cell: &Cell, baseline: &Cell, noise: Option<f64>) -> Judgement {
    if has_failed(cell) || has_failed(baseline) {
        return Judgement::Failed;
    }
    if let Some(behind) = cell.behind {
        return Judgement::Behind(words(behind));
    }
    if let Some(behind) = baseline.behind {
        return Judgement::Behind(format!("{} {}", baseline.system, words(behind)));
    }
    let is_worth = |cell: &Cell, figure: &Figure| !is_thin(cell, name, figure.values.len());
    match (cell.figure(name), baseline.figure(name)) {
        _ if name == MAXIMUM => Judgement::Nothing,
        (Some(figure), Some(first)) if is_worth(cell, figure) && is_worth(baseline, first) => {
            judge(figure, first, noise)
        }
        _ => Judgement::Nothing,
    }
}

/// One sample of a round, which any pause of the machine may have made.
const MAXIMUM: &str = "latency max";

/// A rate that was not kept.
pub fn words(behind: Behind) -> String {
    format!("fell behind: {} of {}/s", figure(behind.rate), figure(behind.planned))
}

/// Judges a figure by its numbers alone. `noise` is how many times apart two processes of one
/// program were, at least 1.
fn judge(figure: &Figure, baseline: &Figure, noise: Option<f64>) -> Judgement {
    let Some(times) = times_better(figure, baseline) else {
        return Judgement::Nothing;
    };
    let is_single = figure.values.len().min(baseline.values.len()) == 1;
    match noise {
        Some(noise) if times.max(1.0 / times) <= noise => Judgement::NoDifference(times),
        _ if is_single => Judgement::OneRound(times),
        Some(_) => Judgement::Times(times),
        None if ranges_touch(figure, baseline) => Judgement::NoDifference(times),
        None => Judgement::NoControl(times),
    }
}

/// Whether a system failed in a row; what earlier rounds gave is then no result.
pub fn has_failed(cell: &Cell) -> bool {
    !cell.errors.is_empty()
}

/// The most that two processes of one program were apart in these rows; one that failed or fell
/// behind is no control.
pub fn noise<'a>(name: &str, rows: impl IntoIterator<Item = &'a ResultRow>) -> Option<f64> {
    let cells =
        rows.into_iter().flat_map(|row| &row.cells).filter(|cell| !has_failed(cell) && cell.behind.is_none());
    cells.filter_map(|cell| cell.figure(name)?.control_ratio()).reduce(f64::max)
}

/// Whether a percentile of one round has too few samples beyond it.
pub fn is_thin(cell: &Cell, name: &str, rounds: usize) -> bool {
    let quantile: Option<f64> = name.strip_prefix("latency p").and_then(|percent| percent.parse().ok());
    let curve = cell.curves.iter().find(|curve| curve.clock != Clock::Driver);
    quantile.zip(curve).is_some_and(|(percent, curve)| {
        let mut percentile = curve.latencies.percentile(percent / 100.0);
        percentile.beyond /= rounds.max(1) as f64;
        percentile.is_thin()
    })
}

fn times_better(figure: &Figure, baseline: &Figure) -> Option<f64> {
    let (one, other) = (figure.spread()?, baseline.spread()?);
    let times = match figure.better {
        Better::High => one.times(&other)?,
        Better::Low => other.times(&one)?,
        Better::Neither => return None,
    };
    (times > 0.0).then_some(times)
}

fn ranges_touch(figure: &Figure, baseline: &Figure) -> bool {
    figure
        .spread()
        .zip(baseline.spread())
        .is_some_and(|(one, other)| one.least <= other.most && other.least <= one.most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Curve, Distribution};

    fn figure(better: Better, values: &[f64]) -> Figure {
        Figure::new("rate", "u", better, values.to_vec())
    }

    fn cell(values: &[f64]) -> Cell {
        Cell { system: "s".into(), figures: vec![figure(Better::High, values)], ..Cell::default() }
    }

    #[test]
    fn a_ratio_within_the_noise_shows_no_difference() {
        let baseline = figure(Better::High, &[100.0, 100.0]);
        let judged = |value: f64, noise| judge(&figure(Better::High, &[value, value]), &baseline, noise);
        assert_eq!(judged(110.0, Some(1.1)), Judgement::NoDifference(1.1));
        assert_eq!(judged(111.0, Some(1.1)), Judgement::Times(1.11));
        assert_eq!(judged(91.0, Some(1.1)), Judgement::NoDifference(0.91));
        assert_eq!(judged(50.0, Some(1.1)), Judgement::Times(0.5));
        assert_eq!(judged(200.0, None), Judgement::NoControl(2.0));
    }

    #[test]
    fn of_a_single_round_nothing_is_more_than_a_ratio() {
        let low = |values: &[f64]| figure(Better::Low, values);
        assert_eq!(judge(&low(&[2.0]), &low(&[4.0]), None), Judgement::OneRound(2.0));
        assert_eq!(judge(&low(&[2.0]), &low(&[4.0, 4.0]), Some(1.1)), Judgement::OneRound(2.0));
        assert_eq!(judge(&low(&[2.0]), &low(&[4.0]), Some(3.0)), Judgement::NoDifference(2.0));
    }

    #[test]
    fn without_a_control_ranges_that_touch_show_no_difference() {
        let low = |values: &[f64]| figure(Better::Low, values);
        assert_eq!(judge(&low(&[2.0, 1.0]), &low(&[4.0, 2.0]), None), Judgement::NoDifference(2.0));
        assert_eq!(judge(&low(&[2.0, 2.0]), &low(&[4.0, 4.0]), None), Judgement::NoControl(2.0));
    }

    #[test]
    fn what_is_missing_or_zero_or_describes_the_run_is_not_compared() {
        let low = |values: &[f64]| figure(Better::Low, values);
        for (one, other) in [
            (low(&[2.0]), low(&[])),
            (low(&[2.0]), low(&[0.0])),
            (low(&[0.0]), low(&[2.0])),
            (figure(Better::Neither, &[1.0]), figure(Better::Neither, &[2.0])),
        ] {
            assert_eq!(judge(&one, &other, Some(1.1)), Judgement::Nothing);
        }
    }

    #[test]
    fn a_failed_system_is_compared_with_none_and_its_control_is_no_noise() {
        let good = cell(&[4.0, 4.0]);
        let failed = Cell { errors: vec!["lost".into()], ..cell(&[2.0, 2.0]) };
        assert_eq!(beside("rate", &good, &failed, Some(1.1)), Judgement::Failed);
        assert_eq!(beside("rate", &failed, &good, Some(1.1)), Judgement::Failed);
        let mut controlled = cell(&[2.0, 2.0]);
        controlled.figures[0].control = vec![3.0, 3.0];
        let mut row = ResultRow {
            name: "r".into(),
            group: String::new(),
            workload: String::new(),
            cells: vec![controlled],
        };
        assert_eq!(noise("rate", [&row]), Some(1.5));
        row.cells[0].errors.push("s (control): lost".into());
        assert_eq!(noise("rate", [&row]), None);
    }

    #[test]
    fn who_fell_behind_is_told_instead_of_a_ratio() {
        let good = cell(&[4.0, 4.0]);
        let behind = Some(Behind { rate: 14_600.0, planned: 20_000.0 });
        let behind = Cell { system: "slow".into(), behind, ..cell(&[2.0, 2.0]) };
        let told = |text: &str| Judgement::Behind(text.to_owned());
        assert_eq!(beside("rate", &behind, &good, Some(1.1)), told("fell behind: 14.6k of 20.0k/s"));
        assert_eq!(beside("rate", &good, &behind, Some(1.1)), told("slow fell behind: 14.6k of 20.0k/s"));
    }

    #[test]
    fn thin_percentiles_and_maxima_are_not_judged() {
        let latency = |samples: u64, values: &[f64]| {
            let mut latencies = Distribution::default();
            (0..samples).for_each(|value| latencies.record(value));
            let names = ["latency p50", "latency p99.9", "latency max"];
            let figures = names.map(|name| Figure::new(name, "us", Better::Low, values.to_vec()));
            let curve = Curve { what: "x".into(), clock: Clock::Planned, latencies };
            Cell { system: "s".into(), figures: figures.into(), curves: vec![curve], ..Cell::default() }
        };
        let (many, few) = (latency(20_000, &[4.0, 4.0]), latency(19_000, &[2.0, 2.0]));
        let judged = |name: &str, one: &Cell, other: &Cell| beside(name, one, other, Some(1.1));
        assert_eq!(judged("latency p50", &few, &many), Judgement::Times(2.0));
        assert_eq!(judged("latency p99.9", &many, &many), Judgement::NoDifference(1.0));
        assert_eq!(judged("latency p99.9", &few, &many), Judgement::Nothing);
        assert_eq!(judged("latency p99.9", &many, &few), Judgement::Nothing);
        assert_eq!(judged("latency max", &few, &many), Judgement::Nothing);
    }
}
