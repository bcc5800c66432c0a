//! The table: a head, and one row for each round.

use crate::judge::Figure;
use std::fmt::Write as _;

/// Columns are at least so wide.
const NARROWEST: usize = 5;

/// The head of the table.
pub(crate) fn head(figures: &[Figure]) -> String {
    let mut line = format!("{:>5} {:>6} {:>6}", "round", "s", "held");
    for figure in figures {
        let _ = write!(line, " {:>1$}", figure.name, width(figure));
    }
    line
}

/// One round: its number, when it ended, how long a removed file has been open by now, and the
/// figures.
pub(crate) fn row(figures: &[Figure], round: u32, seconds: f64, held: f64, values: &[f64]) -> String {
    let mut line = format!("{round:>5} {seconds:>6.0} {held:>6.1}");
    for (figure, value) in figures.iter().zip(values) {
        // A sum of nothing is -0.
        let _ = write!(line, " {:>1$.0}", value + 0.0, width(figure));
    }
    line
}

fn width(figure: &Figure) -> usize {
    figure.name.len().max(NARROWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_under_their_heads() {
        let figures = [Figure { name: "rss", floor: 0.0 }, Figure { name: "removed.rest", floor: 0.0 }];
        assert_eq!(head(&figures), "round      s   held   rss removed.rest");
        assert_eq!(row(&figures, 3, 36.2, 1.04, &[61.4, -0.0]), "    3     36    1.0    61            0");
    }
}
