//! Which path leads to which page.

use crate::answer::Answer;
use crate::query::{Plus, Query, decode};
use crate::snapshot::Source;
use crate::{connz, healthz, index, subsz, varz};

/// What is behind a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Index,
    Varz,
    Connz,
    Subsz,
    Healthz,
    /// The reference has this page, we do not yet: answered with 404.
    Later,
}

/// Every path of the reference.
const PAGES: &[(&str, Page)] = &[
    ("/", Page::Index),
    ("/varz", Page::Varz),
    ("/connz", Page::Connz),
    ("/subsz", Page::Subsz),
    ("/subscriptionsz", Page::Subsz),
    ("/healthz", Page::Healthz),
    ("/routez", Page::Later),
    ("/gatewayz", Page::Later),
    ("/leafz", Page::Later),
    ("/accountz", Page::Later),
    ("/accstatz", Page::Later),
    ("/jsz", Page::Later),
    ("/raftz", Page::Later),
    ("/ipqueuesz", Page::Later),
    ("/stacksz", Page::Later),
    ("/debug/vars", Page::Later),
];

/// The pages under one base path.
#[derive(Debug, Clone)]
pub struct Pages {
    /// Empty, or `/` and at least one name without a slash at its end.
    base: String,
}

impl Pages {
    /// The pages under `http_base_path`, given as configured: empty, `mon`, `/mon/` and `//mon` all work.
    #[must_use]
    pub fn under(http_base_path: &str) -> Self {
        let names = http_base_path.split('/').filter(|name| !name.is_empty());
        Self { base: names.map(|name| format!("/{name}")).collect() }
    }

    /// Answers a request for `path` (still percent-encoded, without the `?`) with the options in `query`.
    ///
    /// It never fails: an unknown path is a 404, an option that cannot be understood a 400. It may take
    /// milliseconds for thousands of connections, so call it where that hurts nobody.
    #[must_use]
    pub fn respond(&self, path: &str, query: &str, source: &dyn Source) -> Answer {
        let query = Query::parse(query);
        let answer = match self.page(path) {
            Some(Page::Index) => Ok(index::answer(&self.base, source)),
            Some(Page::Varz) => Ok(varz::answer(source)),
            Some(Page::Connz) => connz::answer(&query, source),
            Some(Page::Subsz) => subsz::answer(&query, source),
            Some(Page::Healthz) => healthz::answer(&query, source),
            Some(Page::Later) | None => Ok(Answer::not_found()),
        };
        answer.unwrap_or_else(|bad| Answer::bad_request(bad.to_string()))
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
