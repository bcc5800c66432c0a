//! How often each page was asked for: varz's `http_req_stats`.

use myelin_stdx::sync::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Requests by page since the start: varz's `http_req_stats`.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<&'static str, u64>>);

impl RequestCounts {
    /// Counts one request to `page`.
    pub(crate) fn count(&self, page: &'static str) {
        *lock(&self.0).entry(page).or_default() += 1;
    }

    /// The counts so far.
    #[must_use]
    pub(crate) fn snapshot(&self) -> BTreeMap<String, u64> {
        let counts = lock(&self.0);
        counts.iter().map(|(page, count)| ((*page).to_owned(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_page() {
        let counts = RequestCounts::default();
        for page in ["/varz", "/", "/varz"] {
            counts.count(page);
        }
        let expected = BTreeMap::from([("/".to_owned(), 1), ("/varz".to_owned(), 2)]);
        assert_eq!(counts.snapshot(), expected);
    }
}
