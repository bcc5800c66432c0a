//! Families of metrics as text: OpenMetrics, as `prometheus-client` writes it, with which a test
//! compares it.
//!
//! Everything is collected first and written family by family, as the format wants it. A row of a
//! table goes into several families with the same labels.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use myelin_stdx::histogram::HistogramCounts;

/// Value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// Of a histogram.
    HistogramSample(Box<HistogramSample>),
    /// No sample at all.
    Absent,
}

/// How often something was how large.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HistogramSample {
    /// Upper bounds of the buckets; the last one has none.
    pub(super) bounds: Vec<f64>,
    /// How often something fell into each bucket.
    pub(super) counts: Vec<u64>,
    /// Sum of all of it.
    pub(super) sum: f64,
}

impl HistogramSample {
    /// Of nanoseconds, in seconds.
    pub(super) fn of_times(counts: &HistogramCounts) -> Number {
        Self::scaled(counts, |nanos| Duration::from_nanos(nanos).as_secs_f64())
    }

    /// Of sizes, as they are.
    pub(super) fn of_sizes(counts: &HistogramCounts) -> Number {
        Self::scaled(counts, |size| size as f64)
    }

    fn scaled(counts: &HistogramCounts, scale: impl Fn(u64) -> f64) -> Number {
        let HistogramCounts { bounds, counts, sum } = counts;
        if counts.is_empty() {
            return Number::Absent;
        }
        let bounds = bounds.iter().map(|bound| scale(*bound)).collect();
        Number::HistogramSample(Box::new(Self { bounds, counts: counts.clone(), sum: scale(*sum) }))
    }

    /// How much was counted.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn write(&self, name: &str, labels: &Labels, text: &mut String) {
        let labels = &labels.0;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}_sum{{{labels}}} {:?}", self.sum);
        let _ = writeln!(text, "{name}_count{{{labels}}} {}", self.total());
        let comma = if labels.is_empty() { "" } else { "," };
        let mut up_to = 0;
        for (at, count) in self.counts.iter().enumerate() {
            up_to += count;
            let bound = self.bounds.get(at).map_or_else(|| "+Inf".to_owned(), |bound| format!("{bound:?}"));
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"{comma}{labels}}} {up_to}");
        }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Unsigned(number)
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Self {
        Self::Unsigned(number.into())
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Self {
        Self::Unsigned(number as u64)
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self::Signed(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Number {
    fn from(is_so: bool) -> Self {
        Self::Unsigned(is_so.into())
    }
}

/// In seconds.
impl From<Duration> for Number {
    fn from(duration: Duration) -> Self {
        Self::Float(duration.as_secs_f64())
    }
}

impl<T: Into<Number>> From<Option<T>> for Number {
    fn from(number: Option<T>) -> Self {
        number.map_or(Self::Absent, Into::into)
    }
}

impl Number {
    fn write(&self, name: &str, labels: &Labels, text: &mut String) {
        if let Self::HistogramSample(spread) = self {
            return spread.write(name, labels, text);
        }
        for part in [name, "{", &labels.0, "} "] {
            text.push_str(part);
        }
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Unsigned(number) => writeln!(text, "{number}"),
            Self::Signed(number) => writeln!(text, "{number}"),
            Self::Float(number) => writeln!(text, "{number:?}"),
            Self::HistogramSample(_) | Self::Absent => Ok(()),
        };
    }
}

/// Names and values that tell one row from another.
///
/// Perf: ten thousand consumers have a dozen samples each with seventeen labels. They are kept as
/// they are written, so that what a stream and its consumers have in common is escaped once, and a
/// sample copies one piece of text.
#[derive(Debug, Clone)]
pub(super) struct Labels(Arc<str>);

impl Labels {
    /// One label.
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self::appended("", [(name, value)])
    }

    /// Appends more of them. Names are our own; values may hold anything.
    pub(super) fn and<const N: usize>(&self, more: [(&str, &str); N]) -> Self {
        Self::appended(&self.0, more)
    }

    fn appended<const N: usize>(before: &str, more: [(&str, &str); N]) -> Self {
        let around = ",=\"\"".len();
        let added: usize = more.iter().map(|(name, value)| name.len() + value.len() + around).sum();
        let mut text = String::with_capacity(before.len() + added);
        text.push_str(before);
        for (name, value) in more {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(name);
            text.push_str("=\"");
            push_escaped(&mut text, value);
            text.push('"');
        }
        Self(text.into())
    }

    /// Names with their values, as they were given.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, String)> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            // Names have no equals sign.
            let (name, value) = rest.split_once("=\"")?;
            let (value, length) = unescaped(value);
            // Behind a quoted value there is a comma and the next name, or nothing.
            rest = rest.get(name.len() + 2 + length + 2..).unwrap_or_default();
            Some((name, value))
        })
    }
}

fn push_escaped(text: &mut String, value: &str) {
    let mut rest = value;
    while let Some(at) = rest.find(['\\', '"', '\n']) {
        text.push_str(&rest[..at]);
        text.push_str(match rest.as_bytes()[at] {
            b'\\' => "\\\\",
            b'"' => "\\\"",
            _ => "\\n",
        });
        rest = &rest[at + 1..];
    }
    text.push_str(rest);
}

/// The value at the beginning of a text, up to the quotation mark that ends it, and how many bytes
/// it takes there.
fn unescaped(text: &str) -> (String, usize) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, at),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                other => value.extend(other.map(|(_, char)| char)),
            },
            char => value.push(char),
        }
    }
    (value, text.len())
}

/// Kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    Histogram,
}

/// Samples of one name.
#[derive(Debug)]
pub(super) struct Family {
    name: String,
    help: Cow<'static, str>,
    kind: Kind,
    samples: Vec<(Labels, Number)>,
}

impl Family {
    /// A gauge.
    pub(super) fn gauge(name: impl Into<String>, help: impl Into<Cow<'static, str>>) -> Self {
        let (name, help) = (name.into(), help.into());
        Self { name, help, kind: Kind::Gauge, samples: Vec::new() }
    }

    /// A counter: `_total` is appended to the name of its samples.
    pub(super) fn counter(name: impl Into<String>, help: &'static str) -> Self {
        Self { kind: Kind::Counter, ..Self::gauge(name, help) }
    }

    /// A histogram, whose samples are each a [`HistogramSample`].
    pub(super) fn histogram(name: impl Into<String>, help: &'static str) -> Self {
        Self { kind: Kind::Histogram, ..Self::gauge(name, help) }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, labels: &Labels, value: impl Into<Number>) {
        let value = value.into();
        debug_assert!(
            matches!(value, Number::HistogramSample(_)) == (self.kind == Kind::Histogram)
                || value == Number::Absent,
            "a histogram has nothing but spreads"
        );
        if value != Number::Absent {
            self.samples.push((labels.clone(), value));
        }
    }

    /// Adds a sample and returns the family.
    pub(super) fn with(mut self, labels: &Labels, value: impl Into<Number>) -> Self {
        self.add(labels, value);
        self
    }

    fn write(&self, text: &mut String) {
        let kind = match self.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        // Writing to a String cannot fail.
        let _ = write!(text, "# HELP {0} {1}\n# TYPE {0} {kind}\n", self.name, self.help);
        let name = self.sample_name();
        for (labels, value) in &self.samples {
            value.write(&name, labels, text);
        }
    }

    /// Name of its samples.
    pub(super) fn sample_name(&self) -> Cow<'_, str> {
        if self.is_counter() { format!("{}_total", self.name).into() } else { (&*self.name).into() }
    }

    pub(super) fn help(&self) -> &str {
        &self.help
    }

    /// Whether its samples only grow, from the start of the server on.
    pub(super) fn is_counter(&self) -> bool {
        self.kind == Kind::Counter
    }

    /// Whether its samples are histograms.
    pub(super) fn is_histogram(&self) -> bool {
        self.kind == Kind::Histogram
    }

    pub(super) fn samples(&self) -> &[(Labels, Number)] {
        &self.samples
    }

    /// Bytes of its text, about.
    fn size(&self) -> usize {
        let line = |(labels, _): &(Labels, Number)| self.name.len() + labels.0.len() + 32;
        self.name.len() * 2 + self.help.len() + 32 + self.samples.iter().map(line).sum::<usize>()
    }
}

/// Gauges that get a sample each from every row.
#[derive(Debug)]
pub(super) struct GaugeTable<const N: usize>([Family; N]);

impl<const N: usize> GaugeTable<N> {
    /// Gauges whose names begin with `begin` and go on with the first of each pair; the second says
    /// what they are.
    pub(super) fn new(begin: &str, columns: [(&'static str, &'static str); N]) -> Self {
        Self(columns.map(|(name, help)| Family::gauge(format!("{begin}_{name}"), help)))
    }

    /// Adds a row.
    pub(super) fn row(&mut self, labels: &Labels, values: [Number; N]) {
        for (family, value) in self.0.iter_mut().zip(values) {
            family.add(labels, value);
        }
    }
}

/// All families of one answer, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Exposition(Vec<Family>);

impl Exposition {
    /// Appends a family. One without samples is not written.
    pub(super) fn push(&mut self, family: Family) {
        self.0.push(family);
    }

    /// Appends the families of a table.
    pub(super) fn push_table<const N: usize>(&mut self, table: GaugeTable<N>) {
        self.0.extend(table.0);
    }

    /// Whether there is a family of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|family| family.name == name)
    }

    /// All families that have samples.
    pub(super) fn families(&self) -> impl Iterator<Item = &Family> {
        self.0.iter().filter(|family| !family.samples.is_empty())
    }

    /// The text.
    pub(super) fn into_text(self) -> String {
        let mut text = String::with_capacity(self.0.iter().map(Family::size).sum());
        self.families().for_each(|family| family.write(&mut text));
        text.push_str("# EOF\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_stdx::histogram::{Histogram, Latencies, SIZES};
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
    use prometheus_client::metrics::MetricType;
    use prometheus_client::registry::Registry;
    use std::fmt;

    #[test]
    fn hostile_values_stay_inside_their_quotes() {
        let hostile = "a\"} 1\nx{y=\"\\";
        let labels = Labels::new("first", hostile).and([("middle", hostile), ("last", hostile)]);
        let mut text = Exposition::default();
        text.push(Family::gauge("one", "One").with(&labels, 7_u64));
        let escaped = "a\\\"} 1\\nx{y=\\\"\\\\";
        let line = format!("one{{first=\"{escaped}\",middle=\"{escaped}\",last=\"{escaped}\"}} 7\n");
        assert_eq!(text.into_text(), format!("# HELP one One\n# TYPE one gauge\n{line}# EOF\n"));
        let pairs: Vec<_> = labels.pairs().collect();
        let pair = |name| (name, hostile.to_owned());
        assert_eq!(pairs, [pair("first"), pair("middle"), pair("last")]);
    }

    /// Families as the library of Prometheus's own people writes them.
    #[derive(Debug)]
    struct Library(Exposition);

    impl Collector for Library {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            for family in self.0.families() {
                let kind = match family.kind {
                    Kind::Gauge => MetricType::Gauge,
                    Kind::Counter => MetricType::Counter,
                    Kind::Histogram => MetricType::Histogram,
                };
                let mut encoder = encoder.encode_descriptor(&family.name, &family.help, None, kind)?;
                for (labels, value) in &family.samples {
                    let labels: Vec<_> = labels.pairs().collect();
                    let mut sample = encoder.encode_family(&labels)?;
                    match (family.kind, value) {
                        (Kind::Counter, Number::Unsigned(count)) => {
                            sample.encode_counter::<NoLabelSet, _, f64>(count, None)?;
                        }
                        (_, Number::Unsigned(number)) => sample.encode_gauge(number)?,
                        (_, Number::Signed(number)) => sample.encode_gauge(number)?,
                        (_, Number::Float(number)) => sample.encode_gauge(number)?,
                        (_, Number::HistogramSample(spread)) => {
                            let bounds = spread.bounds.iter().copied().chain([f64::INFINITY]);
                            let buckets: Vec<_> = bounds.zip(spread.counts.iter().copied()).collect();
                            sample.encode_histogram::<NoLabelSet>(
                                spread.sum,
                                spread.total(),
                                &buckets,
                                None,
                            )?;
                        }
                        (_, Number::Absent) => panic!("no sample at all"),
                    }
                }
            }
            Ok(())
        }
    }

    fn exposition() -> Exposition {
        let hostile = "a\"} 1\nx{y=\"\\é\u{202e}";
        let mut all = Exposition::default();
        let labels = Labels::new("server", "s").and([("empty", ""), ("hostile", hostile)]);
        let numbers =
            [0_u64.into(), u64::MAX.into(), i64::MIN.into(), 0.5.into(), 1.0.into(), (-0.001).into()];
        let columns =
            [("zero", "Z"), ("max", "M"), ("min", "Least"), ("half", ""), ("one", "1"), ("less", "L")];
        let mut table = GaugeTable::new("t", columns);
        table.row(&labels, numbers.clone());
        table.row(&labels.and([("row", "2")]), numbers);
        all.push_table(table);
        let times = Latencies::default();
        [90_000, 700_000, 40_000_000, 9_000_000_000].into_iter().for_each(|time| times.add(time));
        let sizes = Histogram::new(&SIZES);
        [9, 5_000_000].into_iter().for_each(|size| sizes.add(size));
        let family = Family::histogram("times", "T");
        all.push(family.with(&labels, HistogramSample::of_times(&times.counts())));
        all.push(Family::histogram("sizes", "S").with(&labels, HistogramSample::of_sizes(&sizes.counts())));
        all.push(
            Family::histogram("none", "Never")
                .with(&labels, HistogramSample::of_sizes(&HistogramCounts::default())),
        );
        all.push(Family::counter("c", "Counts").with(&labels, 3_u64));
        all.push(Family::gauge("empty", "Not written"));
        all
    }

    #[test]
    fn the_text_is_that_of_the_library() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Library(exposition())));
        let mut expected = String::new();
        text::encode(&mut expected, &registry).unwrap();
        assert_eq!(exposition().into_text(), expected);
    }

    #[test]
    fn numbers_are_whole_where_they_are_and_absent_ones_leave_no_line() {
        let labels = Labels::new("a", "b");
        let mut table = GaugeTable::new("t", [("max", "M"), ("none", "N"), ("less", "L"), ("part", "P")]);
        let none: Option<u64> = None;
        table.row(&labels, [u64::MAX.into(), none.into(), (-1_i64).into(), 0.5.into()]);
        let mut text = Exposition::default();
        text.push_table(table);
        text.push(Family::counter("c", "C").with(&labels, 3_u64));
        let text = text.into_text();
        for line in [
            "t_max{a=\"b\"} 18446744073709551615",
            "t_less{a=\"b\"} -1",
            "t_part{a=\"b\"} 0.5",
            "c_total{a=\"b\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("t_none"), "{text}");
        assert!(text.contains("# TYPE c counter\n"), "{text}");
    }
}
