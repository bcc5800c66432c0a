//! Families of metrics as text: OpenMetrics, which `prometheus-client` writes.
//!
//! Everything is collected first and written family by family, as the format wants it. A row of a
//! table goes into several families with the same labels.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, GaugeValueEncoder, LabelSetEncoder, MetricEncoder,
    NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// No sample at all.
    Absent,
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

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(number) => number.encode(encoder),
            Self::Signed(number) => number.encode(encoder),
            Self::Float(number) => number.encode(encoder),
            Self::Absent => Err(fmt::Error),
        }
    }
}

/// Names and values that tell one row from another.
///
/// Perf: ten thousand consumers have ten samples each with seventeen labels. All labels but the
/// last value are kept as they are written, so that a sample copies one piece of text.
#[derive(Debug, Clone)]
pub(super) struct Labels(Arc<LabelText>);

#[derive(Debug, Clone, Default)]
struct LabelText {
    /// Everything up to the last name, escaped: `a="x",b`.
    beginning: String,
    /// Value of the last name, not escaped.
    last: String,
}

impl Labels {
    /// One label.
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self(Arc::new(LabelText { beginning: name.to_owned(), last: value.to_owned() }))
    }

    /// Appends more of them. Names are our own; values may hold anything.
    pub(super) fn and<const N: usize>(&self, more: [(&str, &str); N]) -> Self {
        let mut text = LabelText::clone(&self.0);
        for (name, value) in more {
            text.beginning.push_str("=\"");
            push_escaped(&mut text.beginning, &text.last);
            text.beginning.push_str("\",");
            text.beginning.push_str(name);
            value.clone_into(&mut text.last);
        }
        Self(Arc::new(text))
    }

    /// Names with their values, as they were given.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let mut rest = Some(self.0.beginning.as_str());
        std::iter::from_fn(move || {
            let text = rest.take()?;
            // Names have no equals sign.
            let Some((name, value)) = text.split_once("=\"") else {
                return Some((text, Cow::Borrowed(self.0.last.as_str())));
            };
            let (value, length) = unescaped(value);
            // Behind a quoted value there is always a comma, and the next name.
            rest = text.get(name.len() + 2 + length + 2..);
            Some((name, Cow::Owned(value)))
        })
    }

    /// Bytes of their text, about.
    fn size(&self) -> usize {
        self.0.beginning.len() + self.0.last.len()
    }
}

fn push_escaped(text: &mut String, value: &str) {
    for char in value.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(char),
        }
    }
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

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut label = encoder.encode_label();
        let mut name = label.encode_label_key()?;
        name.write_str(&self.0.beginning)?;
        let mut value = name.encode_label_value()?;
        value.write_str(&self.0.last)?;
        value.finish()
    }
}

/// Samples of one name.
#[derive(Debug)]
pub(super) struct Family {
    name: String,
    help: Cow<'static, str>,
    kind: MetricType,
    samples: Vec<(Labels, Number)>,
}

impl Family {
    /// A gauge.
    pub(super) fn gauge(name: impl Into<String>, help: impl Into<Cow<'static, str>>) -> Self {
        let (name, help) = (name.into(), help.into());
        Self { name, help, kind: MetricType::Gauge, samples: Vec::new() }
    }

    /// A counter: `_total` is appended to the name of its samples.
    pub(super) fn counter(name: impl Into<String>, help: &'static str) -> Self {
        Self { kind: MetricType::Counter, ..Self::gauge(name, help) }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, labels: &Labels, value: impl Into<Number>) {
        let value = value.into();
        if value != Number::Absent {
            self.samples.push((labels.clone(), value));
        }
    }

    /// Adds a sample and returns the family.
    pub(super) fn with(mut self, labels: &Labels, value: impl Into<Number>) -> Self {
        self.add(labels, value);
        self
    }

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, value) in &self.samples {
            let mut sample = encoder.encode_family(labels)?;
            match (self.kind, value) {
                (MetricType::Counter, Number::Unsigned(count)) => {
                    sample.encode_counter::<NoLabelSet, _, f64>(count, None)?;
                }
                _ => sample.encode_gauge(value)?,
            }
        }
        Ok(())
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
        self.kind == MetricType::Counter
    }

    pub(super) fn samples(&self) -> &[(Labels, Number)] {
        &self.samples
    }

    /// Bytes of its text, about.
    fn size(&self) -> usize {
        let line = |(labels, _): &(Labels, Number)| self.name.len() + labels.size() + 32;
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
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        // Writing to a String cannot fail.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.families() {
            family.encode(encoder.encode_descriptor(&family.name, &family.help, None, family.kind)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_values_stay_inside_their_quotes() {
        let hostile = "a\"} 1\nx{y=\"\\";
        let labels = Labels::new("first", hostile).and([("middle", hostile), ("last", hostile)]);
        let mut text = Exposition::default();
        text.push(Family::gauge("one", "One").with(&labels, 7_u64));
        let escaped = "a\\\"} 1\\nx{y=\\\"\\\\";
        let line = format!("one{{first=\"{escaped}\",middle=\"{escaped}\",last=\"{escaped}\"}} 7\n");
        assert_eq!(text.into_text(), format!("# HELP one One\n# TYPE one gauge\n{line}# EOF\n"));
        let pairs: Vec<_> = labels.pairs().map(|(name, value)| (name, value.into_owned())).collect();
        let pair = |name| (name, hostile.to_owned());
        assert_eq!(pairs, [pair("first"), pair("middle"), pair("last")]);
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
