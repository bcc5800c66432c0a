//! How numbers look: three digits and a unit.

use crate::results::stat::Spread;
use crate::results::{Figure, Percentile};

/// A number with three significant digits and, where it is large, a unit sign.
pub(super) fn number(value: f64) -> String {
    crate::units::figure(value)
}

/// A time with three significant digits in the unit that suits it.
pub(super) fn time(nanoseconds: f64) -> String {
    // A value that rounds to a thousand of a unit is one of the next.
    let (value, unit) = match nanoseconds {
        time if time >= 9.995e8 => (time / 1e9, "s"),
        time if time >= 9.995e5 => (time / 1e6, "ms"),
        time if time >= 999.5 => (time / 1e3, "us"),
        time => (time, "ns"),
    };
    let decimals = match value {
        value if value >= 99.95 || unit == "ns" => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// A median with its range, if there is more than one value. Times bring their unit.
pub(super) fn spread(figure: &Figure) -> String {
    let shown = |value: f64| if is_time(figure) { time(value * 1e3) } else { number(value) };
    match figure.spread() {
        None => "-".into(),
        Some(Spread { median, .. }) if figure.values.len() == 1 => shown(median),
        Some(Spread { median, least, most }) => {
            format!("{} ({}..{})", shown(median), shown(least), shown(most))
        }
    }
}

/// A figure's name with the unit of the numbers that `spread` gives.
pub(super) fn label(figure: &Figure) -> String {
    match is_time(figure) {
        true => figure.name.clone(),
        false => format!("{}, {}", figure.name, figure.unit),
    }
}

/// Unit to put behind the text of `spread`; empty for times, which bring theirs.
pub(super) fn unit(figure: &Figure) -> String {
    if is_time(figure) { String::new() } else { format!(" {}", figure.unit) }
}

fn is_time(figure: &Figure) -> bool {
    figure.unit == "us"
}

/// A percentile; of no samples there is none.
pub(super) fn percentile(percentile: &Percentile, samples: u64) -> String {
    match samples {
        0 => "-".into(),
        _ => time(percentile.nanoseconds as f64),
    }
}

pub(super) fn ratio(times: f64) -> String {
    format!("{times:.2}x")
}

/// A whole number with commas between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Better;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let shown: Vec<String> =
            [1.0, 940.0, 999.6, 12_345.0, 99_960.0, 104_500.0, 999_600.0, 2.5e6, 1e9, 6.2e10]
                .map(time)
                .to_vec();
        let expected = [
            "1 ns", "940 ns", "1.00 us", "12.3 us", "100 us", "104 us", "1.00 ms", "2.50 ms", "1.00 s",
            "62.0 s",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_range_is_shown_where_there_is_one() {
        let figure = |values: &[f64]| spread(&Figure::new("x", "s", Better::Low, values.to_vec()));
        assert_eq!(figure(&[2.0, 1.0, 4.0]), "2.00 (1.00..4.00)");
        assert_eq!((figure(&[2.0]), figure(&[])), ("2.00".into(), "-".into()));
        let time = Figure::new("latency p99", "us", Better::Low, vec![1500.0, 20.0, 2e6]);
        assert_eq!(spread(&time), "1.50 ms (20.0 us..2.00 s)");
        assert_eq!((label(&time), unit(&time)), ("latency p99".into(), String::new()));
        let rate = Figure::new("rate", "msgs/s", Better::High, vec![1.0]);
        assert_eq!((label(&rate), unit(&rate)), ("rate, msgs/s".into(), " msgs/s".into()));
        assert_eq!([0, 1_234_567].map(grouped), ["0", "1,234,567"]);
    }
}
