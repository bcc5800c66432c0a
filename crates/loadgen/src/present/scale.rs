//! The arithmetic of axes: where a value stands, and where lines with numbers are drawn.
//!
//! Pure numbers. Bars have an axis that begins at zero; percentile curves have two logarithmic
//! ones.

/// An axis from zero to a round number at or beyond the largest value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FromZero {
    pub(super) ticks: Vec<f64>,
}

impl FromZero {
    pub(super) fn up_to(largest: f64) -> Self {
        let largest = if largest > 0.0 && largest.is_finite() { largest } else { 1.0 };
        let decade = 10_f64.powf(largest.log10().floor());
        // Two to four steps of a round size.
        let steps = [0.5, 1.0, 2.0, 2.5, 5.0].map(|step| step * decade);
        let fits = |step: &&f64| (largest / **step).ceil() <= 4.0;
        let step = steps.iter().find(fits).copied().unwrap_or(5.0 * decade);
        let count = (largest / step - 1e-9).ceil().max(1.0) as u32;
        Self { ticks: (0..=count).map(|number| f64::from(number) * step).collect() }
    }

    /// Between 0 and 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        value / self.ticks.last().copied().unwrap_or(1.0)
    }
}

/// A logarithmic axis over whole parts of decades.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Logarithmic {
    low: f64,
    high: f64,
    pub(super) ticks: Vec<f64>,
}

impl Logarithmic {
    /// Both more than 0.
    pub(super) fn around(least: f64, most: f64) -> Self {
        let least = least.max(1e-9);
        let most = most.max(least * 1.5);
        let round: Vec<f64> =
            decades(least, most).flat_map(|decade| [1.0, 2.0, 5.0].map(|d| d * decade)).collect();
        let low = round.iter().copied().rfind(|&tick| tick <= least * 1.001).unwrap_or(least);
        let high = round.iter().copied().find(|&tick| tick >= most * 0.999).unwrap_or(most);
        // Beyond three decades only whole ones have a line, lest they crowd.
        let is_wide = high / low > 2000.0;
        let has_line = |tick: &f64| {
            let is_decade = (tick.log10() - tick.log10().round()).abs() < 1e-6;
            (low..=high).contains(tick) && (!is_wide || is_decade)
        };
        Self { low, high, ticks: round.iter().copied().filter(has_line).collect() }
    }

    /// Between 0 and 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let [low, high, value] = [self.low, self.high, value.clamp(self.low, self.high)].map(f64::log10);
        (value - low) / (high - low)
    }
}

fn decades(least: f64, most: f64) -> impl Iterator<Item = f64> {
    let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    (first..=last).map(|exponent| 10_f64.powi(exponent))
}

/// The axis of percentiles: each nine has the same width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Nines {
    /// How many nines there are.
    count: f64,
}

/// More nines than this are not shown.
const MOST: f64 = 6.0;

impl Nines {
    /// An axis for this many samples: as far as the last of them.
    pub(super) fn of(samples: u64) -> Self {
        Self { count: (samples.max(10) as f64).log10().min(MOST) }
    }

    /// How many nines a quantile is: one for 90 %, two for 99 %.
    pub(super) fn of_quantile(quantile: f64) -> f64 {
        -(1.0 - quantile).log10()
    }

    pub(super) fn quantile(nines: f64) -> f64 {
        1.0 - 10_f64.powf(-nines)
    }

    pub(super) fn count(self) -> f64 {
        self.count
    }

    /// Between 0 and 1.
    pub(super) fn place(self, nines: f64) -> f64 {
        nines / self.count
    }

    /// Nines with the words for them.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let named = |(nines, name): (f64, &str)| (nines, name.to_owned());
        let half = (Self::of_quantile(0.5), "50%");
        let few = [(0.0, "0%"), half, (1.0, "90%"), (2.0, "99%")].map(named);
        let many = (1..=4_usize).map(|digits| (digits as f64 + 2.0, format!("99.{}%", "9".repeat(digits))));
        few.into_iter().chain(many).filter(|(nines, _)| *nines <= self.count + 1e-9).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bars_have_round_axes_from_zero() {
        let ticks = |largest| FromZero::up_to(largest).ticks;
        assert_eq!(ticks(3.6), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(1_200_000.0), [0.0, 500_000.0, 1_000_000.0, 1_500_000.0]);
        assert_eq!(ticks(0.0), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(9.9).last(), Some(&10.0));
    }

    #[test]
    fn percentiles_are_spread_by_nines() {
        let names =
            |samples| -> Vec<String> { Nines::of(samples).ticks().into_iter().map(|tick| tick.1).collect() };
        assert_eq!(names(1500), ["0%", "50%", "90%", "99%", "99.9%"]);
        assert_eq!(names(90_000_000).last().map(String::as_str), Some("99.9999%"));
        assert!((Nines::quantile(3.0) - 0.999).abs() < 1e-12);
        assert!((Nines::of_quantile(0.9999) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn logarithmic_axes_have_round_lines() {
        let axis = Logarithmic::around(85_000.0, 1_900_000.0);
        assert_eq!(axis.ticks, [5e4, 1e5, 2e5, 5e5, 1e6, 2e6]);
        assert_eq!((axis.place(5e4), axis.place(2e6)), (0.0, 1.0));
        assert_eq!(Logarithmic::around(1e3, 1e9).ticks.len(), 7);
    }

    proptest! {
        #[test]
        fn every_value_has_its_place(least in 1.0_f64..1e9, factor in 1.0_f64..1e6, part in 0.0_f64..1.0) {
            let (most, value) = (least * factor, least * factor.powf(part));
            let axis = Logarithmic::around(least, most);
            prop_assert!((0.0..=1.0).contains(&axis.place(value)));
            prop_assert!(axis.ticks.len() <= 12 && axis.ticks.windows(2).all(|pair| pair[0] < pair[1]), "{axis:?}");
            let bars = FromZero::up_to(most);
            prop_assert!((3..=5).contains(&bars.ticks.len()), "{bars:?}");
            prop_assert!(bars.place(most) <= 1.0 + 1e-9 && bars.place(most) > 0.5, "{bars:?}");
        }
    }
}
