//! `.hgrm`: the percentile listing that HdrHistogram's own plotting pages read.
//!
//! Owns the format: four columns with values in milliseconds, and three lines of totals. Compat: as
//! the Java library prints it, five steps for every halving of the distance to 100 %.

use std::fmt::Write;

use crate::results::Distribution;

const STEPS: u32 = 5;

/// Buckets are this many to each power of two in a histogram of three digits.
const SUB_BUCKETS: u32 = 2048;

/// A distribution in the text form of HdrHistogram, in milliseconds.
pub fn text(latencies: &Distribution) -> String {
    let histogram = latencies.histogram();
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut line = |nanoseconds: u64, percent: f64, count: u64| {
        let (value, quantile) = (milliseconds(nanoseconds as f64), percent / 100.0);
        let _ = write!(text, "{value:12.3} {quantile:2.12} {count:10}");
        let _ = match quantile < 1.0 {
            true => writeln!(text, " {:14.2}", 1.0 / (1.0 - quantile)),
            false => writeln!(text),
        };
    };
    // In percent, as the Java library counts: in parts of one, sums of tenths would be beyond a
    // sample now and then.
    let (total, mut percent, mut count) = (histogram.len(), 0.0, 0);
    for step in histogram.iter_recorded() {
        count += step.count_at_value();
        while 100.0 * count as f64 / total as f64 >= percent {
            line(step.value_iterated_to(), percent, count);
            percent += increment(percent);
            if count == total {
                break;
            }
        }
    }
    if total > 0 {
        line(histogram.max(), 100.0, total);
    }
    let (mean, deviation) = (milliseconds(histogram.mean()), milliseconds(histogram.stdev()));
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let (max, count) = (milliseconds(histogram.max() as f64), histogram.len());
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {count:12}]");
    let buckets = histogram.buckets();
    let _ = writeln!(text, "#[Buckets = {buckets:12}, SubBuckets     = {SUB_BUCKETS:12}]");
    text
}

/// Percent from one line to the next.
fn increment(percent: f64) -> f64 {
    let halvings = (100.0 / (100.0 - percent)).log2().floor() + 1.0;
    100.0 / (f64::from(STEPS) * halvings.exp2())
}

fn milliseconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_of_known_data() {
        let mut latencies = Distribution::default();
        (1..=1000).for_each(|step| latencies.record(step * 1_000_000));
        let text = text(&latencies);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        let columns = |line: &str| -> Vec<f64> {
            line.split_whitespace().map(|column| column.parse().unwrap()).collect()
        };
        let half = lines.iter().find(|line| line.contains(" 0.500000000000 ")).unwrap();
        let [value, _, count, inverse] = columns(half)[..] else { panic!("{half}") };
        assert!((499.0..=501.0).contains(&value) && (499.0..=501.0).contains(&count), "{half}");
        assert_eq!(inverse, 2.0);
        // Three tenths of a thousand are three hundred.
        let listed = lines.iter().find(|line| line.contains(" 0.300000000000 ")).unwrap();
        assert_eq!(columns(listed)[2], 300.0, "{listed}");
        let last = lines.iter().rfind(|line| !line.starts_with('#')).unwrap();
        assert_eq!(columns(last)[1..], [1.0, 1000.0], "{last}");
        assert!(text.contains("#[Max     =     10") && text.ends_with("2048]\n"), "{text}");
        assert!(text.contains("Total count    =         1000]"), "{text}");
    }

    #[test]
    fn nothing_is_listed_of_nothing() {
        let text = text(&Distribution::default());
        assert!(text.contains("Total count    =            0]"), "{text}");
    }
}
