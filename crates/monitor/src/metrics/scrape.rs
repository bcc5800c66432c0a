//! One answer in the making: where it is from, how it is configured, and what is in it so far.

use super::exposition::{Exposition, Labels};
use super::pages;
use crate::query::Query;
use crate::snapshot::{MetricsConfig, PageHeader, SnapshotSource};
use crate::{routez, subsz, varz};

/// One answer in the making.
pub(super) struct Scrape<'a> {
    pub(super) source: &'a dyn SnapshotSource,
    pub(super) config: MetricsConfig,
    pub(super) header: PageHeader,
    /// The label that everything has.
    pub(super) server: Labels,
    pub(super) out: Exposition,
    /// How many rows were left out, by what they are of.
    pub(super) left_out: Vec<(&'static str, usize)>,
}

impl Scrape<'_> {
    /// Beginning of the names of everything but JetStream.
    pub(super) fn core(&self) -> String {
        self.begin("gnatsd")
    }

    /// Beginning of a name where the configuration wants no other.
    pub(super) fn begin(&self, usual: &str) -> String {
        if self.config.prefix.is_empty() { usual.to_owned() } else { self.config.prefix.clone() }
    }

    pub(super) fn pages(&mut self) {
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
    pub(super) fn bound<T>(&mut self, of: &'static str, rows: &mut Vec<T>, max: usize) {
        self.note_left_out(of, rows.len().saturating_sub(max));
        rows.truncate(max);
    }

    /// Notes rows that are not shown.
    pub(super) fn note_left_out(&mut self, of: &'static str, count: usize) {
        self.left_out.push((of, count));
    }
}
