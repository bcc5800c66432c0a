//! Medians, ranges and ratios of a handful of rounds.
//!
//! Pure numbers: knows neither units nor servers.

/// The median of some rounds with its range.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Spread {
    /// Middle value.
    pub median: f64,
    /// Smallest value.
    pub least: f64,
    /// Largest value.
    pub most: f64,
}

impl Spread {
    /// `None` without values. Of an even number the median is the mean of the middle two.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Self { median, least, most })
    }

    /// How many times `other`'s median fits into this one's; `None` if that is zero.
    pub fn times(&self, other: &Self) -> Option<f64> {
        (other.median > 0.0).then(|| self.median / other.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let spread = |median, least, most| Some(Spread { median, least, most });
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[7.0]), spread(7.0, 7.0, 7.0));
        assert_eq!(Spread::of(&[9.0, 1.0, 5.0]), spread(5.0, 1.0, 9.0));
        assert_eq!(Spread::of(&[4.0, 1.0, 100.0, 2.0]), spread(3.0, 1.0, 100.0));
    }

    #[test]
    fn ratios_compare_medians() {
        let ours = Spread::of(&[1.0, 6.0, 9.0]).unwrap();
        let theirs = Spread::of(&[2.0, 3.0, 100.0]).unwrap();
        assert_eq!(ours.times(&theirs), Some(2.0));
        assert_eq!(ours.times(&Spread::of(&[0.0]).unwrap()), None);
    }
}
