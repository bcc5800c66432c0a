//! Servers for a stream that is to have more replicas, fewer, or others.

use super::suitability::{FactsByServer, needs_facts};
use super::{Assignment, Meta, peer_of};
use crate::engine::JetStream;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;
use serde::Deserialize;
use std::collections::BTreeMap;

/// As much of another server's answer as says who leads a stream.
#[derive(Deserialize)]
struct LedStream {
    cluster: Option<LedGroup>,
}

#[derive(Deserialize)]
struct LedGroup {
    leader: Option<String>,
}

impl Meta {
    /// Servers for a stream that is to have this configuration: of those that it has the leader
    /// first, then those that are there.
    ///
    /// # Errors
    /// There are not so many that suit.
    pub(in crate::engine) async fn place_anew(
        &self,
        jetstream: &JetStream,
        assignment: &Assignment,
        config: &StreamConfig,
    ) -> Result<Vec<String>, ApiError> {
        let replicas = usize::try_from(config.num_replicas).unwrap_or(1).max(1);
        let leader = self.leader_of(jetstream, assignment).await;
        let mut present = assignment.peers.clone();
        present.sort_by_key(|server| (Some(server) != leader.as_ref(), !self.has(server)));
        if replicas <= present.len() {
            present.truncate(replicas);
            return Ok(present);
        }
        let facts = self.facts_for(jetstream, config).await;
        self.place_beside(jetstream, (config, &facts), (&present, ""))
    }

    /// Servers for a stream that is to have no replica on `gone` any more.
    ///
    /// # Errors
    /// No other server is free.
    pub(in crate::engine) async fn place_without(
        &self,
        jetstream: &JetStream,
        assignment: &Assignment,
        gone: &str,
    ) -> Result<Vec<String>, ApiError> {
        let rest: Vec<String> = assignment.peers.iter().filter(|server| *server != gone).cloned().collect();
        let facts = self.facts_for(jetstream, &assignment.config).await;
        let placed = self.place_beside(jetstream, (&assignment.config, &facts), (&rest, gone));
        let placed =
            placed.ok().filter(|placed| placed.iter().all(|one| rest.contains(one) || self.has(one)));
        placed.ok_or(ApiError::PEER_REMAP)
    }

    /// Facts about servers, where they matter for a stream.
    pub(in crate::engine) async fn facts_for(
        &self,
        jetstream: &JetStream,
        config: &StreamConfig,
    ) -> FactsByServer {
        if needs_facts(config) || self.has_unique_tags() {
            self.facts(jetstream).await
        } else {
            FactsByServer::new()
        }
    }

    /// Whether a server is there, as far as this one knows.
    fn has(&self, server: &str) -> bool {
        server == self.name || peer_of(server).is_some_and(|peer| self.groups.is_there(peer))
    }

    /// The server that leads a stream, as far as somebody says.
    async fn leader_of(&self, jetstream: &JetStream, assignment: &Assignment) -> Option<String> {
        let (account, stream) = (&assignment.key.account, &assignment.key.stream);
        if !assignment.has_group() {
            return assignment.peers.first().cloned();
        }
        let live = jetstream.account(account).and_then(|account| account.stream(stream));
        if let Some(leader) = live.and_then(|live| live.group_status()?.leader) {
            return Some(self.name_of(leader));
        }
        let asked = assignment.servers().find(|server| **server != self.name && self.has(server))?;
        let question: BTreeMap<_, _> = [(asked.clone(), vec![stream.clone()])].into();
        let found = self.gather(jetstream, account, question).await.remove(stream)?;
        serde_json::from_str::<LedStream>(found.get()).ok()?.cluster?.leader
    }
}
