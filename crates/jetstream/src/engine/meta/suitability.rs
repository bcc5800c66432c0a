//! Placement: which servers get a new stream.
//!
//! What other servers are (their tags, their room) they are asked for when it matters, so that
//! nothing old decides.

use super::placement_facts::{Causes, Choice, FactsByServer, tags_suit};
use super::{Meta, peer_of};
use crate::engine::JetStream;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{Placement, StreamConfig};

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
        let replicas = usize::try_from(config.num_replicas).unwrap_or(1).max(1);
        let wanted = config.placement.clone().unwrap_or_default();
        if !wanted.cluster.is_empty() && wanted.cluster != jetstream.host.cluster() {
            return Err(Causes::default().error());
        }
        let view = self.view();
        let is_gone = |server: &String| !self.has(server);
        let all = self.servers();
        let mut servers: Vec<&String> = all.iter().collect();
        servers.sort_by_cached_key(|server| (is_gone(server), view.replicas_on(server), (*server).clone()));
        let mut choice = Choice::new(config, &wanted);
        for server in servers.into_iter().filter(|_| replicas <= all.len()) {
            choice.causes.is_offline |= is_gone(server);
            let replicas_there = i64::try_from(view.replicas_on(server)).unwrap_or(i64::MAX);
            choice.offer(server, facts.get(server), |known| {
                known.max_ha_assets > 0 && replicas > 1 && replicas_there >= known.max_ha_assets
            });
        }
        let Choice { servers: mut chosen, causes, .. } = choice;
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
            if !self.servers().contains(name) {
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
