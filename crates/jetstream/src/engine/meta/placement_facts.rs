//! Facts about servers by which streams are placed, and whether they suit.

use crate::engine::host::PlacementFacts;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{Placement, Storage, StreamConfig};
use std::collections::{BTreeMap, BTreeSet};

/// Facts about servers by their names.
pub(in crate::engine) type FactsByServer = BTreeMap<String, PlacementFacts>;

/// Causes for which servers do not get a stream.
#[derive(Default)]
pub(super) struct Causes {
    pub(super) is_offline: bool,
    pub(super) lacks_storage: bool,
    pub(super) shares_tag: bool,
    pub(super) has_too_many: bool,
    missing: BTreeSet<String>,
    excluded: BTreeSet<String>,
}

impl Causes {
    /// Adds those for which another cluster's servers do not.
    pub(super) fn add(&mut self, other: Self) {
        let Self { is_offline, lacks_storage, shares_tag, has_too_many, missing, excluded } = other;
        self.is_offline |= is_offline;
        self.lacks_storage |= lacks_storage;
        self.shares_tag |= shares_tag;
        self.has_too_many |= has_too_many;
        self.missing.extend(missing);
        self.excluded.extend(excluded);
    }

    /// Compat: in the reference's words and order.
    pub(super) fn error(&self) -> ApiError {
        let mut text = "no suitable peers for placement".to_owned();
        let flags = [
            (self.is_offline, "peer offline"),
            (self.lacks_storage, "insufficient storage"),
            (self.shares_tag, "server tag not unique"),
            (self.has_too_many, "miscellaneous issue"),
        ];
        for (_, words) in flags.into_iter().filter(|(is_cause, _)| *is_cause) {
            text.push_str(", ");
            text.push_str(words);
        }
        for (words, tags) in [("not matched", &self.missing), ("excluded", &self.excluded)] {
            if !tags.is_empty() {
                let tags: Vec<_> = tags.iter().map(|tag| format!("'{tag}'")).collect();
                text.push_str(&format!(", tags {words} [{}]", tags.join(", ")));
            }
        }
        ApiError::cluster_no_peers(text)
    }
}

/// Servers that are chosen for a stream, one after the other.
pub(super) struct Choice<'a> {
    config: &'a StreamConfig,
    wanted: &'a Placement,
    /// Tags that no two of them share.
    taken: BTreeSet<String>,
    pub(super) servers: Vec<String>,
    /// Causes for which others were not.
    pub(super) causes: Causes,
}

impl<'a> Choice<'a> {
    pub(super) fn new(config: &'a StreamConfig, wanted: &'a Placement) -> Self {
        let (taken, servers, causes) = (BTreeSet::new(), Vec::new(), Causes::default());
        Self { config, wanted, taken, servers, causes }
    }

    /// Takes a server that has the stream, whether it suits or not.
    pub(super) fn keep(&mut self, server: &str, known: Option<&PlacementFacts>) {
        self.taken.extend(known.and_then(PlacementFacts::unique_tag));
        self.servers.push(server.to_owned());
    }

    /// Takes a server if it suits, as far as it is known, and does not have too many already.
    pub(super) fn offer(
        &mut self,
        server: &str,
        known: Option<&PlacementFacts>,
        has_too_many: impl FnOnce(&PlacementFacts) -> bool,
    ) {
        if known.is_none() && needs_facts(self.config) {
            return;
        }
        let nothing = PlacementFacts::default();
        let known = known.unwrap_or(&nothing);
        let is_shared = known.unique_tag().is_some_and(|tag| self.taken.contains(&tag));
        if !suits(known, self.config, self.wanted, &mut self.causes) {
        } else if has_too_many(known) {
            self.causes.has_too_many = true;
        } else if is_shared && !asks_for(self.wanted, known) {
            self.causes.shares_tag = true;
        } else {
            self.keep(server, Some(known));
        }
    }
}

/// Whether other servers have to be asked before a stream is placed.
pub(in crate::engine) fn needs_facts(config: &StreamConfig) -> bool {
    let has_tags = config.placement.as_ref().is_some_and(|placement| placement.tags.is_some());
    has_tags || config.max_bytes > 0
}

/// Whether a server suits a stream; why not is noted: first of all its tags.
fn suits(known: &PlacementFacts, config: &StreamConfig, wanted: &Placement, causes: &mut Causes) -> bool {
    if !tags_suit(known, wanted, causes) {
        return false;
    }
    let free = match config.storage {
        Storage::Memory => known.free_memory,
        Storage::File => known.free_storage,
    };
    let lacks_storage = needs_facts(config) && config.max_bytes > free;
    causes.lacks_storage |= lacks_storage;
    !lacks_storage
}

/// Whether a server's tags suit a placement; why not is noted.
pub(super) fn tags_suit(known: &PlacementFacts, wanted: &Placement, causes: &mut Causes) -> bool {
    let has = |wanted: &str| known.tags.iter().any(|tag| tag.eq_ignore_ascii_case(wanted));
    let mut suits = true;
    for tag in wanted.tags.iter().flatten() {
        match tag.strip_prefix('!') {
            Some(unwanted) if has(unwanted) => {
                causes.excluded.insert(unwanted.to_ascii_lowercase());
                suits = false;
            }
            Some(_) => {}
            None if !has(tag) => {
                causes.missing.insert(tag.to_ascii_lowercase());
                suits = false;
            }
            None => {}
        }
    }
    suits
}

/// Whether a placement names the tag that is else unique.
pub(super) fn asks_for(wanted: &Placement, known: &PlacementFacts) -> bool {
    let unique = known.unique_tag();
    wanted
        .tags
        .iter()
        .flatten()
        .any(|tag| unique.as_ref().is_some_and(|unique| unique.eq_ignore_ascii_case(tag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(tags: &[&str]) -> Placement {
        let tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        Placement { tags: Some(tags), ..Placement::default() }
    }

    #[test]
    fn a_server_suits_that_has_all_tags_and_none_that_is_excluded() {
        let known =
            PlacementFacts { tags: vec!["az:1".to_owned(), "ssd".to_owned()], ..PlacementFacts::default() };
        let suits = |tags: &[&str]| {
            let mut causes = Causes::default();
            (tags_suit(&known, &wanted(tags), &mut causes), causes.error().description)
        };
        assert!(suits(&["AZ:1", "!az:2"]).0);
        let refused = "no suitable peers for placement";
        assert_eq!(suits(&["az:2"]), (false, format!("{refused}, tags not matched ['az:2']").into()));
        assert_eq!(suits(&["ssd", "!az:1"]), (false, format!("{refused}, tags excluded ['az:1']").into()));
    }
}
