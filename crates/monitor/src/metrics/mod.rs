//! `/metrics`: the figures of the pages as OpenMetrics, where the configuration asks for it.
//!
//! Compat: nats-server has no such page. Names, labels and values are those that
//! prometheus-nats-exporter makes of its pages (with `-varz -subz -routez -connz -accstatz
//! -accountz -leafz -gatewayz -healthz -jsz=all`), so that dashboards and alerts go on working; its
//! four counters of `connz` are gauges, for OpenMetrics wants another name of a counter. Beside
//! them stand ours, which begin with `myelin_`. Whatever has a row for each of many things is
//! bounded, and `myelin_metrics_left_out` says by how much.
//!
//! The same figures are made into requests of OTLP ([`otlp_requests`]), which the server sends
//! where its configuration names a collector.

mod clients;
mod exposition;
mod jetstream;
mod links;
mod otlp;
mod own;
mod pages;
mod scrape;

use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use myelin_stdx::sync::lock;

use crate::request::Uncounted;
use crate::response::PageResponse;
use crate::snapshot::{MetricsConfig, SnapshotSource};
pub use otlp::{OtlpRequests, otlp_requests, otlp_resource};

use exposition::{Exposition, Family, Labels};
use scrape::Scrape;

/// How old an answer may be that is given again.
const FRESH: SignedDuration = SignedDuration::from_secs(1);

/// The last answer. Whoever asks within a second of it, and while it is still on its way to
/// somebody, gets the same bytes: a thousand scrapes at once cost one, and share its memory, which
/// is tens of megabytes for ten thousand consumers. Nothing is kept for nobody.
#[derive(Debug, Default)]
pub(crate) struct LastScrape(Mutex<Option<(Timestamp, MetricsConfig, Weak<String>)>>);

impl LastScrape {
    /// The last answer if it is fresh, else what `make` does. Meanwhile others wait.
    fn get(
        &self,
        now: Timestamp,
        config: MetricsConfig,
        make: impl FnOnce(MetricsConfig) -> String,
    ) -> SharedText {
        let mut last = lock(&self.0);
        if let Some((made, with, text)) = &*last
            && now.duration_since(*made).abs() < FRESH
            && *with == config
            && let Some(text) = text.upgrade()
        {
            return SharedText(text);
        }
        let text = Arc::new(make(config.clone()));
        *last = Some((now, config, Arc::downgrade(&text)));
        SharedText(text)
    }
}

/// Text of an answer, which several may be sent.
struct SharedText(Arc<String>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

pub(crate) fn answer(last: &LastScrape, source: &dyn SnapshotSource) -> PageResponse {
    let Some(config) = source.metrics() else { return PageResponse::not_found() };
    source.count_request("/metrics");
    let now = source.page_header().now;
    let text = last.get(now, config, |config| text(config, &Uncounted(source)));
    PageResponse::metrics(Bytes::from_owner(text))
}

fn text(config: MetricsConfig, source: &dyn SnapshotSource) -> String {
    collect(config, source).into_text()
}

fn collect(config: MetricsConfig, source: &dyn SnapshotSource) -> Exposition {
    let header = source.page_header();
    let server = Labels::new("server_id", &header.server_id);
    let mut scrape =
        Scrape { source, config, header, server, out: Exposition::default(), left_out: Vec::new() };
    scrape.pages();
    clients::add(&mut scrape);
    links::add(&mut scrape);
    jetstream::add(&mut scrape);
    own::add(&mut scrape);
    let mut left_out =
        Family::gauge("myelin_metrics_left_out", "Rows beyond the configured maxima, by what they are of");
    for (of, count) in &scrape.left_out {
        left_out.add(&scrape.server.and([("of", of)]), *count);
    }
    scrape.out.push(left_out);
    scrape.out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_given_again_for_a_second_while_it_is_needed() {
        let last = LastScrape::default();
        let config = MetricsConfig::default();
        let at = |millis| Timestamp::from_millisecond(millis).unwrap_or_default();
        let get = |millis, config: &MetricsConfig, text: &str| {
            last.get(at(millis), config.clone(), |_| text.to_owned()).0
        };
        let on_its_way = get(5_000, &config, "first");
        assert_eq!(*get(5_999, &config, "second"), "first");
        drop(on_its_way);
        let on_its_way = get(5_999, &config, "third");
        assert_eq!(*on_its_way, "third", "what nobody needs is not kept");
        // A clock that was set back does not make it last for ever.
        let on_its_way = [on_its_way, get(1_000, &config, "fourth")];
        assert_eq!(*on_its_way[1], "fourth");
        assert_eq!(*get(2_000, &config, "fifth"), "fifth");
        let other = MetricsConfig { max_streams: 1, ..config };
        assert_eq!(*get(1_000, &other, "sixth"), "sixth");
    }
}
