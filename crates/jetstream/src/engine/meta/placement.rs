//! Servers for replicas of a stream that is to have more or fewer, or others.

use super::candidates::PlacedStream;
use super::placement_facts::{Causes, FactsByServer, asks_for, needs_facts, tags_suit};
use super::suitability::{clusters_for, replicas_of};
use super::{Assignment, Meta};
use crate::engine::JetStream;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Terms on which servers are chosen for a stream that is there.
pub(in crate::engine) struct PlaceTerms<'a> {
    /// The configuration that the stream is to have.
    pub(in crate::engine) config: &'a StreamConfig,
    /// Facts about servers, as far as they matter.
    pub(in crate::engine) facts: &'a FactsByServer,
    /// Servers that are not to be chosen.
    pub(in crate::engine) not: &'a [String],
    /// The cluster of those that are.
    pub(in crate::engine) cluster: &'a str,
    /// Replicas that servers are about to get besides those that they have.
    pub(super) more: &'a ServerLoads,
}

/// Replicas that servers are about to get, by their names: of streams that are moved together.
#[derive(Default)]
pub(super) struct ServerLoads(BTreeMap<String, usize>);

pub(super) static NONE: ServerLoads = ServerLoads(BTreeMap::new());

impl ServerLoads {
    pub(super) fn of(&self, server: &str) -> usize {
        self.0.get(server).copied().unwrap_or(0)
    }

    /// Counts servers that a stream gets which it does not have.
    pub(super) fn count(&mut self, has: &Assignment, placed: &[String]) {
        for server in placed.iter().filter(|server| !has.is_on(server)) {
            *self.0.entry(server.clone()).or_default() += 1;
        }
    }
}

impl<'a> PlaceTerms<'a> {
    pub(in crate::engine) fn new(
        config: &'a StreamConfig,
        facts: &'a FactsByServer,
        (not, cluster): (&'a [String], &'a str),
    ) -> Self {
        Self { config, facts, not, cluster, more: &NONE }
    }
}

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
    /// Facts about servers, where they matter for such a stream.
    pub(in crate::engine) async fn facts_for(
        &self,
        jetstream: &JetStream,
        config: &StreamConfig,
    ) -> FactsByServer {
        if self.asks_for(config) { self.facts(jetstream).await } else { FactsByServer::new() }
    }

    /// Servers for a stream that is to have so many replicas: of those that it has the leader
    /// first, then those that are there.
    ///
    /// # Errors
    /// There are not so many that suit.
    pub(in crate::engine) async fn place_anew(
        &self,
        jetstream: &JetStream,
        (assignment, config): (&Assignment, &StreamConfig),
        replicas: usize,
    ) -> Result<Vec<String>, ApiError> {
        let leader = self.leader_of(jetstream, assignment).await;
        let facts = self.facts_for(jetstream, config).await;
        let mut present = assignment.peers.clone();
        let leaves = |server: &String| assignment.leaves.contains(server);
        present.sort_by_key(|server| (Some(server) != leader.as_ref(), leaves(server), !self.has(server)));
        present.truncate(replicas);
        let cluster = self.cluster_of_stream(assignment);
        let terms = PlaceTerms::new(config, &facts, (&assignment.leaves, &cluster));
        self.place_with(&present, replicas, &terms)
    }

    /// Servers for a stream that is to be where another placement says: of a cluster as for a new
    /// one, those that it has and that suit, and others.
    ///
    /// # Errors
    /// No cluster has so many that suit.
    pub(in crate::engine) async fn place_moved(
        &self,
        jetstream: &JetStream,
        (assignment, config): (&Assignment, &StreamConfig),
        asking: &[String],
    ) -> Result<Vec<String>, ApiError> {
        let facts = self.facts_for(jetstream, config).await;
        let wanted = config.placement.clone().unwrap_or_default();
        let mut causes = Causes::default();
        for cluster in clusters_for(config, asking) {
            let mut taken = BTreeSet::new();
            let stays = |server: &&String| {
                if self.cluster_of(server) != cluster {
                    return false;
                }
                let Some(known) = facts.get(*server) else { return !needs_facts(config) };
                let is_alone =
                    known.unique_tag().is_none_or(|tag| taken.insert(tag)) || asks_for(&wanted, known);
                is_alone && tags_suit(known, &wanted, &mut Causes::default())
            };
            let present: Vec<String> = assignment.peers.iter().filter(stays).cloned().collect();
            let terms = PlaceTerms::new(config, &facts, (&assignment.leaves, cluster));
            match self.choose_with(&present, replicas_of(config), &terms) {
                Ok(placed) => return Ok(placed),
                Err(refused) => causes.add(refused),
            }
        }
        Err(causes.error())
    }

    /// Servers for a stream that is to have no replica on `gone` any more, which is none of the
    /// terms' own.
    ///
    /// # Errors
    /// No other server is free that suits.
    pub(in crate::engine) fn place_without(
        &self,
        assignment: &Assignment,
        gone: &str,
        terms: &PlaceTerms<'_>,
    ) -> Result<Vec<String>, ApiError> {
        let rest: Vec<String> = assignment.peers.iter().filter(|server| *server != gone).cloned().collect();
        let mut not = terms.not.to_vec();
        not.push(gone.to_owned());
        self.place_with(&rest, assignment.peers.len(), &PlaceTerms { not: &not, ..*terms })
    }

    /// Servers for a stream that an operator has leave `gone`: of its cluster, and where that has
    /// none and no cluster is asked for, all of another one.
    ///
    /// # Errors
    /// No other server is free that suits.
    pub(in crate::engine) fn place_away(
        &self,
        known: &Assignment,
        gone: &str,
        (config, facts): (&StreamConfig, &FactsByServer),
    ) -> Result<Vec<String>, ApiError> {
        let own = self.cluster_of_stream(known);
        let near = self.place_without(known, gone, &PlaceTerms::new(config, facts, (&known.leaves, &own)));
        let is_bound = config.placement.as_ref().is_some_and(|placement| !placement.cluster.is_empty());
        let others = self.clusters().into_iter().filter(|cluster| *cluster != own && !is_bound);
        let mut far = others.filter_map(|cluster| {
            let terms = PlaceTerms::new(config, facts, (&known.leaves, &cluster));
            self.place_with(&[], known.peers.len(), &terms).ok()
        });
        near.or_else(|error| far.next().ok_or(error))
    }

    /// Servers for a stream that has lost some: the rest, and as many more as it wants and there
    /// are.
    pub(super) fn place_again(
        &self,
        rest: &[String],
        replicas: usize,
        terms: &PlaceTerms<'_>,
    ) -> Vec<String> {
        let fewer = (rest.len()..=replicas).rev();
        let mut placed = fewer.filter_map(|replicas| self.place_with(rest, replicas, terms).ok());
        placed.next().unwrap_or_else(|| rest.to_vec())
    }

    /// As many servers as replicas, `present` among them, and others that suit. Those have to be
    /// there: a change goes no further without a log on each of those that come.
    pub(in crate::engine) fn place_with(
        &self,
        present: &[String],
        replicas: usize,
        terms: &PlaceTerms<'_>,
    ) -> Result<Vec<String>, ApiError> {
        self.choose_with(present, replicas, terms).map_err(|causes| causes.error())
    }

    fn choose_with(
        &self,
        present: &[String],
        replicas: usize,
        terms: &PlaceTerms<'_>,
    ) -> Result<Vec<String>, Causes> {
        let PlaceTerms { config, facts, not, cluster, more } = *terms;
        let wanted = PlacedStream { config, cluster, replicas };
        wanted.choose_beside(present, not, (&self.candidates(facts, more), facts))
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
        let found = self.gather(jetstream, (account, false), question).await.remove(stream)?;
        serde_json::from_str::<LedStream>(found.get()).ok()?.cluster?.leader
    }
}
