//! Placement: which servers get a new stream.
//!
//! What other servers are (their tags, their room) they are asked for when it matters, so that
//! nothing old decides.

use super::candidates::PlacedStream;
use super::placement_facts::{Causes, FactsByServer, tags_suit};
use super::{Meta, peer_of, placement};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{Placement, StreamConfig};

/// Clusters in which a stream may be, the first that has servers for it counts: the one that is
/// asked for, or those of who asks.
pub(super) fn clusters_for<'a>(config: &'a StreamConfig, asking: &'a [String]) -> Vec<&'a str> {
    match &config.placement {
        Some(Placement { cluster, .. }) if !cluster.is_empty() => vec![cluster],
        _ => asking.iter().map(String::as_str).collect(),
    }
}

/// Replicas that a stream is to have.
pub(super) fn replicas_of(config: &StreamConfig) -> usize {
    usize::try_from(config.num_replicas).unwrap_or(1).max(1)
}

impl Meta {
    /// Servers for a new stream, all of one cluster: those that are there first, then those with
    /// the fewest replicas. `asking`: the cluster of the client that asks, and others, the nearest
    /// first.
    ///
    /// # Errors
    /// No cluster has so many that suit.
    pub(in crate::engine) fn place_stream(
        &self,
        config: &StreamConfig,
        facts: &FactsByServer,
        asking: &[String],
    ) -> Result<Vec<String>, ApiError> {
        let candidates = self.candidates(facts, &placement::NONE);
        let mut causes = Causes::default();
        for cluster in clusters_for(config, asking) {
            match (PlacedStream { config, cluster, replicas: replicas_of(config) }).choose(&candidates) {
                Ok(chosen) => return Ok(chosen),
                Err(refused) => causes.add(refused),
            }
        }
        Err(causes.error())
    }

    /// A replica of a stream that suits a placement and does not lead it.
    ///
    /// # Errors
    /// None does, in the reference's words.
    pub(in crate::engine) fn successor(
        &self,
        (wanted, facts): (&Placement, &FactsByServer),
        (leader, servers): (&str, &[String]),
    ) -> Result<String, ApiError> {
        if !wanted.preferred.is_empty() {
            let name = &wanted.preferred;
            if !self.servers().contains(name) {
                return Err(ApiError::cluster_no_peers(format!("preferred server \"{name}\" not known")));
            }
            if name == leader {
                let text = format!("preferred server \"{name}\" is already leader");
                return Err(ApiError::cluster_no_peers(text));
            }
        }
        let is_of_cluster =
            |server: &String| wanted.cluster.is_empty() || self.cluster_of(server) == wanted.cluster;
        let suits = |server: &&String| {
            let is_there = peer_of(server).is_some_and(|peer| self.groups.is_there(peer));
            let known = facts.get(*server).cloned().unwrap_or_default();
            let is_preferred = wanted.preferred.is_empty() || wanted.preferred == **server;
            is_there
                && **server != leader
                && is_of_cluster(server)
                && is_preferred
                && tags_suit(&known, wanted, &mut Causes::default())
        };
        let found = servers.iter().find(suits);
        found.cloned().ok_or_else(|| ApiError::cluster_no_peers("no replacement peer connected"))
    }
}
