//! `/metrics`: the figures of the pages as OpenMetrics, where the configuration asks for it.
//!
//! Compat: nats-server has no such page. Names, labels and values are those that
//! prometheus-nats-exporter makes of its pages (with `-varz -subz -routez -connz -accstatz
//! -accountz -leafz -gatewayz -healthz -jsz=all`), so that dashboards and alerts go on working; its
//! four counters of `connz` are gauges, for OpenMetrics wants another name of a counter. Beside
//! them stand ours, which begin with `myelin_`. Whatever has a row for each of many things is
//! bounded, and `myelin_metrics_left_out` says by how much.

mod core;
mod exposition;
mod jetstream;
mod links;
mod own;
mod pages;

use std::sync::Mutex;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use myelin_stdx::sync::lock;

use crate::request::Uncounted;
use crate::response::PageResponse;
use crate::snapshot::{MetricsConfig, PageHeader, SnapshotSource};
use crate::{query::Query, routez, subsz, varz};
use exposition::{Exposition, Family, Labels};

/// How old an answer may be that is given again.
const FRESH: SignedDuration = SignedDuration::from_secs(1);

/// The last answer. Whoever asks within a second of it gets the same bytes: a thousand scrapes at
/// once cost one, and share its memory, which is tens of megabytes for ten thousand consumers.
#[derive(Debug, Default)]
pub(crate) struct LastScrape(Mutex<Option<(Timestamp, MetricsConfig, Bytes)>>);

impl LastScrape {
    /// The last answer if it is fresh, else what `make` does. Meanwhile others wait.
    fn get(&self, now: Timestamp, config: MetricsConfig, make: impl FnOnce(MetricsConfig) -> Bytes) -> Bytes {
        let mut last = lock(&self.0);
        if let Some((made, with, text)) = &*last
            && now.duration_since(*made).abs() < FRESH
            && *with == config
        {
            return text.clone();
        }
        let text = make(config.clone());
        *last = Some((now, config, text.clone()));
        text
    }
}

pub(crate) fn answer(last: &LastScrape, source: &dyn SnapshotSource) -> PageResponse {
    let Some(config) = source.metrics() else { return PageResponse::not_found() };
    source.count_request("/metrics");
    let now = source.page_header().now;
    PageResponse::metrics(last.get(now, config, |config| text(config, &Uncounted(source)).into()))
}

fn text(config: MetricsConfig, source: &dyn SnapshotSource) -> String {
    let header = source.page_header();
    let server = Labels::new("server_id", &header.server_id);
    let mut scrape =
        Scrape { source, config, header, server, out: Exposition::default(), left_out: Vec::new() };
    scrape.pages();
    core::add(&mut scrape);
    links::add(&mut scrape);
    jetstream::add(&mut scrape);
    own::add(&mut scrape);
    let mut left_out =
        Family::gauge("myelin_metrics_left_out", "Rows beyond the configured maxima, by what they are of");
    for (of, count) in &scrape.left_out {
        left_out.add(&scrape.server.and([("of", of)]), *count);
    }
    scrape.out.push(left_out);
    scrape.out.into_text()
}

/// One answer in the making.
struct Scrape<'a> {
    source: &'a dyn SnapshotSource,
    config: MetricsConfig,
    header: PageHeader,
    /// The label that everything has.
    server: Labels,
    out: Exposition,
    /// How many rows were left out, by what they are of.
    left_out: Vec<(&'static str, usize)>,
}

impl Scrape<'_> {
    /// Beginning of the names of everything but JetStream.
    fn core(&self) -> String {
        self.begin("gnatsd")
    }

    /// Beginning of a name where the configuration wants no other.
    fn begin(&self, usual: &str) -> String {
        if self.config.prefix.is_empty() { usual.to_owned() } else { self.config.prefix.clone() }
    }

    fn pages(&mut self) {
        let (query, begin) = (Query::default(), self.core());
        let pages = [
            ("varz", Ok(varz::answer(self.source))),
            ("subsz", subsz::answer(&query, self.source)),
            ("routez", routez::answer(&query, self.source)),
        ];
        for (name, page) in pages {
            // Without options nothing is refused.
            let Ok(page) = page else { continue };
            pages::add(&page.body, &format!("{begin}_{name}"), &self.server, &mut self.out);
        }
    }

    /// Cuts rows down to a maximum and notes how many went.
    fn bound<T>(&mut self, of: &'static str, rows: &mut Vec<T>, max: usize) {
        self.note_left_out(of, rows.len().saturating_sub(max));
        rows.truncate(max);
    }

    /// Notes rows that are not shown.
    fn note_left_out(&mut self, of: &'static str, count: usize) {
        self.left_out.push((of, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_given_again_for_a_second() {
        let last = LastScrape::default();
        let config = MetricsConfig::default();
        let at = |millis| Timestamp::from_millisecond(millis).unwrap_or_default();
        let get = |millis, config: &MetricsConfig, text: &'static str| {
            last.get(at(millis), config.clone(), |_| Bytes::from_static(text.as_bytes()))
        };
        assert_eq!(get(5_000, &config, "first"), "first");
        assert_eq!(get(5_999, &config, "second"), "first");
        // A clock that was set back does not make it last for ever.
        assert_eq!(get(1_000, &config, "third"), "third");
        assert_eq!(get(2_000, &config, "fourth"), "fourth");
        let other = MetricsConfig { max_streams: 1, ..config };
        assert_eq!(get(2_000, &other, "fifth"), "fifth");
    }
}
