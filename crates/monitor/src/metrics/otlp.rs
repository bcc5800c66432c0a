//! The figures of `/metrics` as requests of OTLP 1 in JSON, to `/v1/metrics` of a collector.
//!
//! Names and labels are those of the page; labels are attributes. What only grows is a monotonic
//! sum, cumulative from the start of the server on, and so are histograms; all else is a gauge. As
//! JSON of OTLP has it, whole numbers of 64 bits are texts, and enumerations numbers.
//!
//! Perf: a collector takes a few megabytes at once, and ten thousand consumers make a hundred; so
//! there are several requests, each made when the one before it was sent.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;

use super::collect;
use super::exposition::{Exposition, Family, HistogramSample, Labels, Number};
use crate::request::Uncounted;
use crate::snapshot::{MetricsConfig, SnapshotSource};

/// Most samples of one request: about a megabyte where each has all the labels of a consumer.
const MAX_SAMPLES: usize = 1_000;

/// Name of what the figures are of, where the configuration has no other.
const SERVICE: &str = "myelin";

/// A cumulative sum, as OTLP numbers it.
const CUMULATIVE: u8 = 2;

/// Requests that are yet to be made of what was read at one moment.
pub struct OtlpRequests {
    figures: Exposition,
    resource: Vec<(String, String)>,
    /// Nanoseconds since 1970 as texts: the start of the server, and that moment.
    times: [String; 2],
    /// Samples that are in requests already.
    done: usize,
}

/// Reads all figures, and makes them into requests. May take as long as a scrape of `/metrics`.
///
/// `resource` stands beside the attributes that every server has, and in place of those with the
/// same name.
pub fn otlp_requests<'a>(
    config: MetricsConfig,
    resource: impl IntoIterator<Item = (&'a str, &'a str)>,
    source: &dyn SnapshotSource,
) -> OtlpRequests {
    let source = Uncounted(source);
    let (header, start) = (source.page_header(), source.server().clocks.start);
    let resource = otlp_resource(header.server_id, resource);
    let times = [start, header.now].map(nanoseconds);
    OtlpRequests { figures: collect(config, &source), resource, times, done: 0 }
}

/// Attributes of the server: those that every server has, and `more` beside them and in place of
/// those with the same name.
pub fn otlp_resource<'a>(
    server_id: String,
    more: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<(String, String)> {
    let mut all = vec![
        ("service.name".to_owned(), SERVICE.to_owned()),
        ("service.version".to_owned(), myelin_stdx::VERSION.to_owned()),
        ("service.instance.id".to_owned(), server_id),
    ];
    for (name, value) in more {
        all.retain(|(known, _)| known != name);
        all.push((name.to_owned(), value.to_owned()));
    }
    all
}

fn nanoseconds(moment: Timestamp) -> String {
    moment.as_nanosecond().max(0).to_string()
}

impl Iterator for OtlpRequests {
    type Item = Vec<u8>;

    /// Body of the next request.
    fn next(&mut self) -> Option<Vec<u8>> {
        let (mut before, mut room) = (self.done, MAX_SAMPLES);
        let mut metrics = Vec::new();
        for family in self.figures.families() {
            let samples = family.samples();
            let left = samples.get(before..).unwrap_or_default();
            before = before.saturating_sub(samples.len());
            let taken = &left[..left.len().min(room)];
            if !taken.is_empty() {
                metrics.push(Metric::new(family, taken, &self.times));
            }
            room -= taken.len();
            if room == 0 {
                break;
            }
        }
        self.done += MAX_SAMPLES - room;
        if metrics.is_empty() {
            return None;
        }
        let attributes = self.resource.iter().map(|(name, value)| Attribute::new(name, value.into()));
        let scope = Scope { name: SERVICE, version: myelin_stdx::VERSION };
        let request = OtlpRequest {
            resource_metrics: [ResourceMetrics {
                resource: Resource { attributes: attributes.collect() },
                scope_metrics: [ScopeMetrics { scope, metrics }],
            }],
        };
        // Nothing here can fail to become JSON.
        serde_json::to_vec(&request).ok()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtlpRequest<'a> {
    resource_metrics: [ResourceMetrics<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics<'a> {
    resource: Resource<'a>,
    scope_metrics: [ScopeMetrics<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct ScopeMetrics<'a> {
    scope: Scope,
    metrics: Vec<Metric<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Metric<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    #[serde(flatten)]
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Data<'a> {
    #[serde(rename_all = "camelCase")]
    Gauge { data_points: Vec<Point<'a>> },
    #[serde(rename_all = "camelCase")]
    Sum { data_points: Vec<Point<'a>>, aggregation_temporality: u8, is_monotonic: bool },
    #[serde(rename_all = "camelCase")]
    Histogram { data_points: Vec<SpreadPoint<'a>>, aggregation_temporality: u8 },
}

impl<'a> Metric<'a> {
    fn new(family: &'a Family, samples: &'a [(Labels, Number)], times: &'a [String; 2]) -> Self {
        let [start, now] = times;
        let (name, description) = (family.sample_name(), family.help());
        if family.is_histogram() {
            let point = |(labels, value): &'a (Labels, Number)| {
                let Number::HistogramSample(spread) = value else { return None };
                Some(SpreadPoint::new(labels, spread, [start, now]))
            };
            let data_points = samples.iter().filter_map(point).collect();
            let data = Data::Histogram { data_points, aggregation_temporality: CUMULATIVE };
            return Self { name, description, data };
        }
        let start = family.is_counter().then_some(start.as_str());
        let point = |(labels, value): &'a (Labels, Number)| {
            let value = PointValue::of(value)?;
            Some(Point {
                attributes: Attributes(labels),
                start_time_unix_nano: start,
                time_unix_nano: now,
                value,
            })
        };
        let data_points = samples.iter().filter_map(point).collect();
        let data = if family.is_counter() {
            Data::Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true }
        } else {
            Data::Gauge { data_points }
        };
        Self { name, description, data }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Point<'a> {
    attributes: Attributes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time_unix_nano: Option<&'a str>,
    time_unix_nano: &'a str,
    #[serde(flatten)]
    value: PointValue,
}

/// Point of a histogram. Buckets do not count those before them here.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpreadPoint<'a> {
    attributes: Attributes<'a>,
    start_time_unix_nano: &'a str,
    time_unix_nano: &'a str,
    count: String,
    sum: f64,
    bucket_counts: Vec<String>,
    explicit_bounds: &'a [f64],
}

impl<'a> SpreadPoint<'a> {
    fn new(labels: &'a Labels, spread: &'a HistogramSample, [start, now]: [&'a str; 2]) -> Self {
        Self {
            attributes: Attributes(labels),
            start_time_unix_nano: start,
            time_unix_nano: now,
            count: spread.total().to_string(),
            sum: spread.sum,
            bucket_counts: spread.counts.iter().map(u64::to_string).collect(),
            explicit_bounds: &spread.bounds,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum PointValue {
    /// A signed number of 64 bits, as a text.
    AsInt(String),
    AsDouble(f64),
}

impl PointValue {
    /// `None` for what JSON has no number for.
    fn of(number: &Number) -> Option<Self> {
        match *number {
            Number::Unsigned(number) => Some(
                i64::try_from(number)
                    .map_or(Self::AsDouble(number as f64), |number| Self::AsInt(number.to_string())),
            ),
            Number::Signed(number) => Some(Self::AsInt(number.to_string())),
            Number::Float(number) => number.is_finite().then_some(Self::AsDouble(number)),
            Number::HistogramSample(_) | Number::Absent => None,
        }
    }
}

struct Attributes<'a>(&'a Labels);

impl Serialize for Attributes<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.pairs().map(|(name, value)| Attribute::new(name, value.into())))
    }
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: Text<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Text<'a> {
    string_value: Cow<'a, str>,
}

impl<'a> Attribute<'a> {
    fn new(key: &'a str, string_value: Cow<'a, str>) -> Self {
        Self { key, value: Text { string_value } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn requests(figures: Exposition) -> Vec<Json> {
        let times = ["5".to_owned(), "7".to_owned()];
        let resource = vec![("service.name".to_owned(), "s".to_owned())];
        let requests = OtlpRequests { figures, resource, times, done: 0 };
        requests.map(|body| serde_json::from_slice(&body).expect("JSON")).collect()
    }

    fn metrics(request: &Json) -> &Vec<Json> {
        request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("a list")
    }

    #[test]
    fn kinds_and_numbers_are_those_of_the_specification() {
        let labels = Labels::new("a", "x\"\n").and([("b", "y")]);
        let mut figures = Exposition::default();
        figures
            .push(Family::gauge("g", "G").with(&labels, -1_i64).with(&labels, u64::MAX).with(&labels, 0.5));
        figures.push(Family::gauge("none", "N"));
        figures.push(Family::gauge("odd", "O").with(&labels, f64::NAN).with(&labels, true));
        figures.push(Family::counter("c", "C").with(&labels, 3_u64));
        let spread = HistogramSample { bounds: vec![0.5, 1.0], counts: vec![2, 0, 1], sum: 9.25 };
        figures.push(Family::histogram("h", "H").with(&labels, Number::HistogramSample(Box::new(spread))));
        let requests = requests(figures);
        let [request] = &requests[..] else { panic!("{requests:?}") };
        let attributes = json!([{"key": "a", "value": {"stringValue": "x\"\n"}}, {"key": "b", "value": {"stringValue": "y"}}]);
        let point =
            |key: &str, value: Json| json!({"attributes": attributes, "timeUnixNano": "7", key: value});
        let mut sum = point("asInt", json!("3"));
        sum["startTimeUnixNano"] = json!("5");
        let expected = json!([
            {"name": "g", "description": "G", "gauge": {"dataPoints": [
                point("asInt", json!("-1")), point("asDouble", json!(u64::MAX as f64)), point("asDouble", json!(0.5)),
            ]}},
            {"name": "odd", "description": "O", "gauge": {"dataPoints": [point("asInt", json!("1"))]}},
            {"name": "c_total", "description": "C", "sum": {
                "dataPoints": [sum], "aggregationTemporality": 2, "isMonotonic": true,
            }},
            {"name": "h", "description": "H", "histogram": {
                "dataPoints": [{
                    "attributes": attributes, "startTimeUnixNano": "5", "timeUnixNano": "7", "count": "3",
                    "sum": 9.25, "bucketCounts": ["2", "0", "1"], "explicitBounds": [0.5, 1.0],
                }],
                "aggregationTemporality": 2,
            }},
        ]);
        assert_eq!(json!(metrics(request)), expected);
        let resource = json!({"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]});
        assert_eq!(request["resourceMetrics"][0]["resource"], resource);
    }

    #[test]
    fn a_request_is_bounded_and_nothing_is_sent_twice() {
        let (mut figures, mut expected) = (Exposition::default(), Vec::new());
        for (family, count) in [("a", MAX_SAMPLES - 1), ("b", 2 * MAX_SAMPLES), ("c", MAX_SAMPLES + 1)] {
            let mut rows = Family::gauge(family, "");
            for row in 0..count {
                rows.add(&Labels::new("row", &row.to_string()), row);
                expected.push(format!("{family}{row}"));
            }
            figures.push(rows);
        }
        let requests = requests(figures);
        let mut found = Vec::new();
        for request in &requests {
            let before = found.len();
            for metric in metrics(request) {
                let points = metric["gauge"]["dataPoints"].as_array().expect("a list");
                let name = metric["name"].as_str().expect("a text");
                found.extend(
                    points.iter().map(|point| format!("{name}{}", point["asInt"].as_str().expect("a text"))),
                );
            }
            assert_eq!(found.len() - before, MAX_SAMPLES);
        }
        assert_eq!(found, expected);
    }
}
