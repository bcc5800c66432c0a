//! Which path leads to which page.

use std::sync::Arc;

use crate::metrics::LastScrape;
use crate::query::{Plus, Query, decode};
use crate::response::PageResponse;
use crate::snapshot::SnapshotSource;
use crate::{
    accountz, accstatz, connz, expvar, gatewayz, healthz, index, ipqueuesz, jsz, leafz, metrics, probes,
    raftz, routez, stacksz, subsz, varz,
};

/// Page behind a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Index,
    Varz,
    Connz,
    Routez,
    Gatewayz,
    Leafz,
    Subsz,
    Accountz,
    Accstatz,
    Jsz,
    Healthz,
    Livez,
    Startupz,
    Readyz,
    Stopz,
    Metrics,
    Raftz,
    Ipqueuesz,
    Stacksz,
    Expvar,
}

/// Every path of the reference, and our own.
const PAGES: &[(&str, Page)] = &[
    ("/", Page::Index),
    ("/varz", Page::Varz),
    ("/connz", Page::Connz),
    ("/routez", Page::Routez),
    ("/gatewayz", Page::Gatewayz),
    ("/leafz", Page::Leafz),
    ("/subsz", Page::Subsz),
    ("/subscriptionsz", Page::Subsz),
    ("/accountz", Page::Accountz),
    ("/accstatz", Page::Accstatz),
    ("/jsz", Page::Jsz),
    ("/healthz", Page::Healthz),
    ("/livez", Page::Livez),
    ("/startupz", Page::Startupz),
    ("/readyz", Page::Readyz),
    ("/stopz", Page::Stopz),
    ("/metrics", Page::Metrics),
    ("/raftz", Page::Raftz),
    ("/ipqueuesz", Page::Ipqueuesz),
    ("/stacksz", Page::Stacksz),
    ("/debug/vars", Page::Expvar),
];

/// Effort that an answer takes, and so where it may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// None to speak of: it looks at the server itself only, and may be made anywhere.
    None,
    /// About as much as a page, but whoever asks draws conclusions from silence: it must not wait
    /// behind pages.
    Probe,
    /// Milliseconds for thousands of connections, or more.
    Page,
}

/// The pages under one base path.
#[derive(Debug, Clone)]
pub struct Pages {
    /// Empty, or `/` and at least one name without a slash at its end.
    base: String,
    last_scrape: Arc<LastScrape>,
}

impl Pages {
    /// The pages under `http_base_path`, given as configured: empty, `mon`, `/mon/` and `//mon` all
    /// work.
    #[must_use]
    pub fn under(http_base_path: &str) -> Self {
        let names = http_base_path.split('/').filter(|name| !name.is_empty());
        Self { base: names.map(|name| format!("/{name}")).collect(), last_scrape: Arc::default() }
    }

    /// Answers a request for `path` (still percent-encoded, without the `?`) with the options in
    /// `query`.
    ///
    /// It never fails: an unknown path is a 404, an option that cannot be understood a 400. It may
    /// take milliseconds for thousands of connections, so call it where that hurts nobody.
    #[must_use]
    pub fn respond(&self, path: &str, query: &str, source: &dyn SnapshotSource) -> PageResponse {
        let query = Query::parse(query);
        let answer = match self.page(path) {
            Some(Page::Index) => Ok(index::answer(&self.base, source)),
            Some(Page::Varz) => Ok(varz::answer(source)),
            Some(Page::Connz) => connz::answer(&query, source),
            Some(Page::Routez) => routez::answer(&query, source),
            Some(Page::Gatewayz) => gatewayz::answer(&query, source),
            Some(Page::Leafz) => leafz::answer(&query, source),
            Some(Page::Subsz) => subsz::answer(&query, source),
            Some(Page::Accountz) => accountz::answer(&query, source),
            Some(Page::Accstatz) => accstatz::answer(&query, source),
            Some(Page::Jsz) => jsz::answer(&query, source),
            Some(Page::Healthz) => healthz::answer(&query, source),
            Some(Page::Livez) => Ok(probes::live(source)),
            Some(Page::Startupz) => Ok(probes::startup(source)),
            Some(Page::Readyz) => Ok(probes::ready(source)),
            Some(Page::Stopz) => Ok(probes::stop(source)),
            Some(Page::Metrics) => Ok(metrics::answer(&self.last_scrape, source)),
            Some(Page::Raftz) => Ok(raftz::answer(&query, source)),
            Some(Page::Ipqueuesz) => ipqueuesz::answer(&query, source),
            Some(Page::Stacksz) => Ok(stacksz::answer(source)),
            Some(Page::Expvar) => Ok(expvar::answer(source)),
            None => Ok(PageResponse::not_found()),
        };
        answer.unwrap_or_else(|bad| PageResponse::bad_request(bad.to_string()))
    }

    /// Effort of the answer to a request for `path`.
    #[must_use]
    pub fn effort(&self, path: &str) -> Effort {
        match self.page(path) {
            Some(Page::Livez | Page::Startupz) => Effort::None,
            Some(Page::Readyz | Page::Stopz) => Effort::Probe,
            _ => Effort::Page,
        }
    }

    fn page(&self, path: &str) -> Option<Page> {
        let path = decode(path, Plus::IsItself)?;
        if path == self.base {
            return Some(Page::Index);
        }
        let inside = path.strip_prefix(&self.base)?;
        let known = PAGES.iter().find(|(known, _)| *known == inside).map(|&(_, page)| page);
        known.filter(|page| *page != Page::Index || self.base.is_empty())
    }
}
