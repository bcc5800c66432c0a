//! Figures of one client, and of all clients together, in the lines and columns of `nats bench`.
//!
//! Owns the arithmetic of rates and latencies and the shapes of the report and of the CSV. Prints
//! nothing.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::pubsub::request::new_latencies;
use crate::units::{binary, grouped, with_two_digits};

/// Figures of one client.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Messages done.
    pub messages: u64,
    /// Bytes of all payloads; reported as the original does it, by the size that was asked for.
    pub bytes: u64,
    /// Time at which the first operation began.
    pub start: Instant,
    /// Time at which the last operation was done.
    pub end: Instant,
    /// Empty where the benchmark has no operations that can be timed.
    pub latencies: Latencies,
}

/// Times of operations. Smallest, largest and average are exact, percentiles to three digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    least: u64,
    most: u64,
    sum: f64,
    squares: f64,
}

impl Latencies {
    /// No latency at all.
    pub(crate) fn new() -> Self {
        Self { histogram: new_latencies(), least: u64::MAX, most: 0, sum: 0.0, squares: 0.0 }
    }

    /// Counts an operation that took this long.
    pub fn record(&mut self, time: Duration) {
        self.record_many(time.as_nanos() as u64, 1);
    }

    /// Counts operations that took this many nanoseconds each.
    pub(crate) fn record_many(&mut self, nanoseconds: u64, count: u64) {
        // The histogram begins at 1.
        let _ = self.histogram.record_n(nanoseconds.clamp(1, self.histogram.high()), count);
        self.least = self.least.min(nanoseconds);
        self.most = self.most.max(nanoseconds);
        self.sum += nanoseconds as f64 * count as f64;
        self.squares += (nanoseconds as f64).powi(2) * count as f64;
    }

    fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    fn average(&self) -> f64 {
        self.sum / self.histogram.len().max(1) as f64 / 1e3
    }

    fn deviation(&self) -> f64 {
        let count = self.histogram.len().max(1) as f64;
        (self.squares / count - (self.sum / count).powi(2)).max(0.0).sqrt() / 1e3
    }

    /// A latency in microseconds; never beyond the largest that was seen.
    fn percentile(&self, percent: f64) -> f64 {
        let value = self.histogram.value_at_quantile(percent / 100.0);
        value.clamp(self.least.min(self.most), self.most) as f64 / 1e3
    }

    /// Microseconds: smallest, average, largest, and the four percentiles.
    fn figures(&self) -> [f64; 7] {
        let [p50, p90, p99, p999] = [50.0, 90.0, 99.0, 99.9].map(|percent| self.percentile(percent));
        [self.least as f64 / 1e3, self.average(), self.most as f64 / 1e3, p50, p90, p99, p999]
    }
}

impl Sample {
    fn seconds(&self) -> f64 {
        (self.end.saturating_duration_since(self.start)).as_secs_f64().max(1e-9)
    }

    fn rate(&self) -> u64 {
        (self.messages as f64 / self.seconds()) as u64
    }

    fn throughput(&self) -> f64 {
        self.bytes as f64 / self.seconds()
    }

    fn rates(&self) -> String {
        format!("{} msgs/sec ~ {}/sec", grouped(self.rate()), binary(self.throughput()))
    }

    fn line(&self) -> String {
        if self.latencies.is_empty() {
            return self.rates();
        }
        let names = ["min", "avg", "max", "P50", "P90", "P99", "P99.9"];
        let figures = self.latencies.figures().map(with_two_digits);
        let figures = names.iter().zip(figures).map(|(name, figure)| format!(" ~ {name}: {figure}us"));
        self.rates() + &figures.collect::<String>()
    }
}

/// All clients as if they were one.
pub fn together(samples: &[Sample]) -> Option<Sample> {
    samples.iter().cloned().reduce(|mut all, one| {
        all.messages += one.messages;
        all.bytes += one.bytes;
        all.start = all.start.min(one.start);
        all.end = all.end.max(one.end);
        all.latencies.add(&one.latencies);
        all
    })
}

/// The report for people and for scripts, with the empty lines around it.
pub fn report(label: &str, samples: &[Sample]) -> String {
    let Some(all) = together(samples) else {
        return "\nNo publisher or subscribers. Nothing to report.\n".into();
    };
    if samples.len() == 1 {
        return format!("\nNATS {label} stats: {}\n\n", all.line());
    }
    let mut text = String::from("\n");
    for (number, sample) in samples.iter().enumerate() {
        text += &format!("  [{}] {} ({} msgs)\n", number + 1, sample.line(), grouped(sample.messages));
    }
    text += &format!("\n NATS {label} aggregated stats: {}\n", all.rates());
    text += &format!(" message rates {}\n", distribution(samples));
    if !all.latencies.is_empty() {
        let [least, average, most, p50, p90, p99, p999] = all.latencies.figures().map(with_two_digits);
        let deviation = with_two_digits(all.latencies.deviation());
        text += &format!(
            " latencies per operation min {least}us | avg {average}us | max {most}us | stddev {deviation}us | \
             P50 {p50}us | P90 {p90}us | P99 {p99}us | P99.9: {p999}us\n"
        );
    }
    text + "\n"
}

fn distribution(samples: &[Sample]) -> String {
    let rates: Vec<u64> = samples.iter().map(Sample::rate).collect();
    let average = rates.iter().sum::<u64>() / rates.len() as u64;
    let squares: f64 = rates.iter().map(|&rate| (rate as f64 - average as f64).powi(2)).sum();
    let deviation = (squares / rates.len() as f64).sqrt() as u64;
    let least = rates.iter().min().copied().unwrap_or_default();
    let most = rates.iter().max().copied().unwrap_or_default();
    let [least, average, most, deviation] = [least, average, most, deviation].map(grouped);
    format!("min {least} | avg {average} | max {most} | stddev {deviation} msgs")
}

/// One line per client under the original's heading; `prefix` is `P` for publishers and `S` for the
/// others.
pub fn csv(run: &str, prefix: &str, samples: &[Sample]) -> String {
    let has_latencies = samples.iter().any(|sample| !sample.latencies.is_empty());
    let mut text = "#RunID,ClientID,MsgCount,MsgBytes,MsgsPerSec,BytesPerSec,DurationSecs".to_owned();
    if has_latencies {
        for name in ["Min", "Avg", "Max", "P50", "P90", "P99", "P99.9", "StdDev"] {
            text += &format!(",{name}LatencyMicroSecs");
        }
    }
    for (number, sample) in samples.iter().enumerate() {
        let Sample { messages, bytes, latencies, .. } = sample;
        let (rate, throughput, seconds) = (sample.rate(), sample.throughput(), sample.seconds());
        text += &format!("\n{run},{prefix}{number},{messages},{bytes},{rate},{throughput:.6},{seconds:.6}");
        if has_latencies {
            for figure in latencies.figures().iter().chain([&latencies.deviation()]) {
                text += &format!(",{figure:.6}");
            }
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(messages: u64, milliseconds: u64, latencies: &[u64]) -> Sample {
        let start = Instant::now();
        let mut recorded = Latencies::new();
        latencies.iter().for_each(|&time| recorded.record(Duration::from_nanos(time)));
        let end = start + Duration::from_millis(milliseconds);
        Sample { messages, bytes: messages * 128, start, end, latencies: recorded }
    }

    #[test]
    fn one_client_is_one_line() {
        let text = report("X", &[sample(1000, 10, &[])]);
        assert_eq!(text, "\nNATS X stats: 100,000 msgs/sec ~ 12 MiB/sec\n\n");
        let text = report("X", &[sample(2, 10, &[1500, 2500])]);
        let expected = "\nNATS X stats: 200 msgs/sec ~ 25 KiB/sec ~ min: 1.5us ~ avg: 2us ~ max: 2.5us ~ P50: 1.5us ~ \
            P90: 2.5us ~ P99: 2.5us ~ P99.9: 2.5us\n\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn several_clients_have_a_line_each_and_their_sum() {
        let text = report("X", &[sample(500, 10, &[1000]), sample(500, 10, &[3000])]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("  [1] 50,000 msgs/sec ~ 6.1 MiB/sec ~ min: 1us ~ "), "{text}");
        assert!(lines[2].ends_with(" (500 msgs)"), "{text}");
        assert!(lines[4].starts_with(" NATS X aggregated stats: "), "{text}");
        assert_eq!(lines[5], " message rates min 50,000 | avg 50,000 | max 50,000 | stddev 0 msgs");
        assert!(
            lines[6].starts_with(" latencies per operation min 1us | avg 2us | max 3us | stddev 1us | P50 "),
            "{text}"
        );
    }

    #[test]
    fn the_csv_has_the_columns_of_the_original() {
        let text = csv("R", "P", &[sample(1000, 10, &[])]);
        let expected = "#RunID,ClientID,MsgCount,MsgBytes,MsgsPerSec,BytesPerSec,DurationSecs\n\
            R,P0,1000,128000,100000,12800000.000000,0.010000\n";
        assert_eq!(text, expected);
        let text = csv("R", "S", &[sample(1, 10, &[1000])]);
        assert!(text.lines().next().unwrap().ends_with("P99.9LatencyMicroSecs,StdDevLatencyMicroSecs"));
        assert!(text.ends_with(",1.000000,1.000000,1.000000,1.000000,1.000000,1.000000,1.000000,0.000000\n"));
    }
}
