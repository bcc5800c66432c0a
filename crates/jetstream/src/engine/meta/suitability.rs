//! Placement: which servers get a stream.
//!
//! What other servers are (their tags, their room) they are asked for when it matters, so that
//! nothing old decides.

use super::{Meta, peer_of};
use crate::engine::JetStream;
use crate::engine::host::PlacementFacts;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{Placement, Storage, StreamConfig};
use std::collections::{BTreeMap, BTreeSet};

/// Facts about servers by their names.
pub(in crate::engine) type FactsByServer = BTreeMap<String, PlacementFacts>;

/// Causes for which servers do not get a stream.
#[derive(Default)]
struct Causes {
    is_offline: bool,
    lacks_storage: bool,
    shares_tag: bool,
    has_too_many: bool,
    missing: BTreeSet<String>,
    excluded: BTreeSet<String>,
}

impl Causes {
    /// Compat: in the reference's words and order.
    fn error(&self) -> ApiError {
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

impl Meta {
    /// Servers for a new stream: those that are there first, then those with the fewest replicas.
    ///
    /// # Errors
    /// There are not so many that suit.
    pub(in crate::engine) fn place_stream(
        &self,
        jetstream: &JetStream,
        config: &StreamConfig,
        facts: &FactsByServer,
    ) -> Result<Vec<String>, ApiError> {
        self.place_beside(jetstream, (config, facts), (&[], ""))
    }

    /// Servers for a stream that has replicas on `present`, which it keeps, and is to have none on
    /// `gone`.
    ///
    /// # Errors
    /// There are not so many that suit.
    pub(in crate::engine) fn place_beside(
        &self,
        jetstream: &JetStream,
        (config, facts): (&StreamConfig, &FactsByServer),
        (present, gone): (&[String], &str),
    ) -> Result<Vec<String>, ApiError> {
        let replicas = usize::try_from(config.num_replicas).unwrap_or(1).max(1);
        let mut causes = Causes::default();
        let wanted = config.placement.clone().unwrap_or_default();
        if !wanted.cluster.is_empty() && wanted.cluster != jetstream.host.cluster() {
            return Err(causes.error());
        }
        let view = self.view();
        let is_gone = |server: &String| {
            *server != self.name && peer_of(server).is_none_or(|peer| !self.groups.is_there(peer))
        };
        let is_free = |server: &&String| !present.contains(server) && **server != gone;
        let mut servers: Vec<&String> = self.servers.iter().filter(is_free).collect();
        servers.sort_by_cached_key(|server| (is_gone(server), view.replicas_on(server), (*server).clone()));
        let mut chosen: Vec<String> = present.to_vec();
        let tag_of = |server: &String| facts.get(server).and_then(PlacementFacts::unique_tag);
        let mut taken: BTreeSet<_> = present.iter().filter_map(tag_of).collect();
        for server in servers.into_iter().filter(|_| replicas <= self.servers.len()) {
            let known = facts.get(server);
            causes.is_offline |= is_gone(server);
            if known.is_none() && needs_facts(config) {
                continue;
            }
            let known = known.cloned().unwrap_or_default();
            let replicas_there = i64::try_from(view.replicas_on(server)).unwrap_or(i64::MAX);
            let unique = known.unique_tag();
            if !suits(&known, config, &wanted, &mut causes) {
            } else if known.max_ha_assets > 0 && replicas > 1 && replicas_there >= known.max_ha_assets {
                causes.has_too_many = true;
            } else if unique.as_ref().is_some_and(|tag| taken.contains(tag)) && !asks_for(&wanted, &known) {
                causes.shares_tag = true;
            } else {
                taken.extend(unique);
                chosen.push(server.clone());
            }
        }
        chosen.truncate(replicas);
        let there = chosen.iter().filter(|server| !is_gone(server)).count();
        if chosen.len() < replicas || there * 2 <= replicas { Err(causes.error()) } else { Ok(chosen) }
    }

    /// A replica of a stream that suits a placement and does not lead it.
    ///
    /// # Errors
    /// None does, in the reference's words.
    pub(in crate::engine) fn successor(
        &self,
        jetstream: &JetStream,
        (wanted, facts): (&Placement, &FactsByServer),
        (leader, servers): (&str, &[String]),
    ) -> Result<String, ApiError> {
        if !wanted.preferred.is_empty() {
            let name = &wanted.preferred;
            if !self.servers.contains(name) {
                return Err(ApiError::cluster_no_peers(format!("preferred server \"{name}\" not known")));
            }
            if name == leader {
                let text = format!("preferred server \"{name}\" is already leader");
                return Err(ApiError::cluster_no_peers(text));
            }
        }
        let is_of_cluster = wanted.cluster.is_empty() || wanted.cluster == jetstream.host.cluster();
        let suits = |server: &&String| {
            let is_there = peer_of(server).is_some_and(|peer| self.groups.is_there(peer));
            let known = facts.get(*server).cloned().unwrap_or_default();
            let is_preferred = wanted.preferred.is_empty() || wanted.preferred == **server;
            is_there
                && **server != leader
                && is_preferred
                && tags_suit(&known, wanted, &mut Causes::default())
        };
        let found = servers.iter().filter(|_| is_of_cluster).find(suits);
        found.cloned().ok_or_else(|| ApiError::cluster_no_peers("no replacement peer connected"))
    }
}

/// Whether other servers have to be asked before a stream is placed.
pub(super) fn needs_facts(config: &StreamConfig) -> bool {
    let has_tags = config.placement.as_ref().is_some_and(|placement| placement.tags.is_some());
    has_tags || config.max_bytes > 0
}

fn suits(known: &PlacementFacts, config: &StreamConfig, wanted: &Placement, causes: &mut Causes) -> bool {
    let free = match config.storage {
        Storage::Memory => known.free_memory,
        Storage::File => known.free_storage,
    };
    if needs_facts(config) && config.max_bytes > free {
        causes.lacks_storage = true;
        return false;
    }
    tags_suit(known, wanted, causes)
}

fn tags_suit(known: &PlacementFacts, wanted: &Placement, causes: &mut Causes) -> bool {
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
fn asks_for(wanted: &Placement, known: &PlacementFacts) -> bool {
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
