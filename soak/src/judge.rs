//! Judge of a soak: finds the figures that grew in its rows, without a server.
//!
//! *After the third round no figure grows by more than a tenth.* Limited streams swing, so one row
//! does not count: a figure is compared by the median of its last three rounds, with the larger of
//! its second and third. A figure that grows has its largest value in the third of these, so the
//! rule is as strict as its words for what it is after. A figure of a few units may move by one or
//! two without meaning anything: each has a floor, which growth has to exceed as well.

/// The round, counted from one, by whose end everything is as full as it gets.
pub const SETTLED: usize = 3;
/// Fewer rounds cannot be judged: three at the end, apart from the one they are compared with, and
/// one more since a median of three needs two that agree.
pub const FEWEST_ROUNDS: u32 = 5;
/// Growth that is allowed, as a share of the third round's figure.
const MARGIN: f64 = 0.10;
/// How many rounds at the end speak for it.
pub(crate) const LAST: usize = 3;

/// Figure by its name, and how little of it means nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The name in the table.
    pub name: &'static str,
    /// Growth up to this is never held against it.
    pub floor: f64,
}

/// A figure that grew.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// Name of the figure.
    pub name: &'static str,
    /// Value when everything had settled.
    pub settled: f64,
    /// Value at the end.
    pub last: f64,
    /// Highest value that would have been accepted.
    pub limit: f64,
}

/// The figures that grew: `rows` are rounds in their order, each with one value for each of
/// `figures`. Of fewer than [`FEWEST_ROUNDS`] rounds nothing can be said, so that nothing has
/// grown.
#[must_use]
pub fn judge(figures: &[Figure], rows: &[Vec<f64>]) -> Vec<Growth> {
    if rows.len() < FEWEST_ROUNDS as usize {
        return Vec::new();
    }
    let grown = figures.iter().enumerate().filter_map(|(at, figure)| {
        let values: Vec<f64> = rows.iter().map(|row| row[at]).collect();
        let settled = values[SETTLED - 2].max(values[SETTLED - 1]);
        let last = median(&values[values.len() - LAST..]);
        let limit = settled + (settled * MARGIN).max(figure.floor);
        (last > limit).then_some(Growth { name: figure.name, settled, last, limit })
    });
    grown.collect()
}

/// The value in the middle; of an even number of them the lower of the two. Zero of none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grew(floor: f64, values: &[f64]) -> bool {
        let rows: Vec<Vec<f64>> = values.iter().map(|&value| vec![value]).collect();
        !judge(&[Figure { name: "it", floor }], &rows).is_empty()
    }

    #[test]
    fn a_straight_line_fails() {
        let line: Vec<f64> = (0..10).map(|round| 50.0 + 5.0 * f64::from(round)).collect();
        assert!(grew(4.0, &line));
        let slow: Vec<f64> = (0..60).map(|round| 50.0 + 0.2 * f64::from(round)).collect();
        assert!(grew(4.0, &slow), "two parts in a thousand each minute are a leak in an hour");
    }

    #[test]
    fn a_line_that_begins_late_fails() {
        assert!(grew(8.0, &[20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 30.0, 40.0, 50.0]));
    }

    #[test]
    fn filling_up_before_the_third_round_passes() {
        assert!(!grew(0.0, &[10.0, 60.0, 98.0, 100.0, 101.0, 100.0, 102.0, 101.0]));
    }

    #[test]
    fn swinging_passes() {
        let swing: Vec<f64> = (0..20).map(|round| if round % 2 == 0 { 100.0 } else { 130.0 }).collect();
        assert!(!grew(0.0, &swing));
        assert!(!grew(0.0, &[100.0, 130.0, 100.0, 130.0, 100.0, 130.0, 100.0, 130.0, 100.0, 130.0]));
    }

    #[test]
    fn one_high_row_is_no_growth() {
        assert!(!grew(0.0, &[100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 500.0]));
        assert!(!grew(0.0, &[100.0, 100.0, 100.0, 500.0, 100.0, 100.0, 100.0]));
    }

    #[test]
    fn what_falls_passes_and_what_falls_and_grows_again_is_compared_with_where_it_was() {
        assert!(!grew(0.0, &[100.0, 90.0, 80.0, 70.0, 60.0, 50.0]));
        assert!(!grew(0.0, &[100.0, 100.0, 100.0, 20.0, 60.0, 100.0, 105.0, 104.0]));
    }

    #[test]
    fn growth_within_the_floor_passes_and_beyond_it_fails() {
        assert!(!grew(8.0, &[1.0, 1.0, 1.0, 9.0, 9.0, 9.0]));
        assert!(grew(8.0, &[1.0, 1.0, 1.0, 10.0, 10.0, 10.0]));
        assert!(grew(0.0, &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), "what should be none");
    }

    #[test]
    fn the_growth_says_what_it_is_measured_by() {
        let rows = [[0.0, 50.0], [0.0, 80.0], [0.0, 70.0], [0.0, 90.0], [0.0, 99.0], [0.0, 98.0]];
        let rows: Vec<Vec<f64>> = rows.iter().map(|row| row.to_vec()).collect();
        let figures = [Figure { name: "none", floor: 0.0 }, Figure { name: "some", floor: 4.0 }];
        assert_eq!(judge(&figures, &rows), [Growth { name: "some", settled: 80.0, last: 98.0, limit: 88.0 }]);
    }

    #[test]
    fn too_few_rounds_say_nothing() {
        assert!(!grew(0.0, &[1.0, 2.0, 3.0, 400.0]));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.0);
        assert_eq!(median(&[]), 0.0);
    }
}
