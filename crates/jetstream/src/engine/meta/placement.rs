//! Servers for replicas of a stream that is to have more or fewer, or others.

use super::{Assignment, Meta};
use crate::engine::JetStream;
use myelin_jsapi::ApiError;
use serde::Deserialize;
use std::collections::BTreeMap;

/// There are not so many servers.
const TOO_FEW: &str = "no suitable peers for placement";
/// There are, and too few of them are there.
const OFFLINE: &str = "no suitable peers for placement, peer offline";

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
    /// Servers for a stream that is to have so many replicas: of those that it has the leader
    /// first, then those that are there.
    ///
    /// # Errors
    /// There are not so many.
    pub(in crate::engine) async fn place_anew(
        &self,
        jetstream: &JetStream,
        assignment: &Assignment,
        replicas: usize,
    ) -> Result<Vec<String>, ApiError> {
        let leader = self.leader_of(jetstream, assignment).await;
        let mut present = assignment.peers.clone();
        present.sort_by_key(|server| (Some(server) != leader.as_ref(), !self.has(server)));
        present.truncate(replicas);
        self.place_with(&present, replicas, "")
    }

    /// Servers for a stream that is to have no replica on `gone` any more.
    ///
    /// # Errors
    /// No other server is free.
    pub(in crate::engine) fn place_without(
        &self,
        assignment: &Assignment,
        gone: &str,
    ) -> Result<Vec<String>, ApiError> {
        let rest: Vec<String> = assignment.peers.iter().filter(|server| *server != gone).cloned().collect();
        self.place_with(&rest, assignment.peers.len(), gone).map_err(|_| ApiError::PEER_REMAP)
    }

    /// Servers for a stream that has lost some: the rest, and as many more as it wants and there
    /// are.
    pub(super) fn place_again(&self, rest: &[String], replicas: usize) -> Vec<String> {
        let fewer = (rest.len()..=replicas).rev();
        let mut placed = fewer.filter_map(|replicas| self.place_with(rest, replicas, "").ok());
        placed.next().unwrap_or_else(|| rest.to_vec())
    }

    /// As many servers as replicas, `present` among them, and `gone` not. The others have to be
    /// there: a change goes no further without a log on each of those that come.
    fn place_with(&self, present: &[String], replicas: usize, gone: &str) -> Result<Vec<String>, ApiError> {
        let view = self.view();
        let key = |server: &String| (!self.has(server), view.replicas_on(server), server.clone());
        let servers = self.servers();
        let others = servers.iter().filter(|server| !present.contains(server) && *server != gone);
        let mut others: Vec<&String> = others.collect();
        others.sort_by_cached_key(|server| key(server));
        let placed: Vec<String> = present.iter().chain(others).take(replicas).cloned().collect();
        if placed.len() < replicas {
            return Err(ApiError::cluster_no_peers(TOO_FEW));
        }
        let comes = |server: &String| !present.contains(server);
        if placed.iter().any(|server| comes(server) && !self.has(server))
            || placed.iter().filter(|server| self.has(server)).count() * 2 <= replicas
        {
            return Err(ApiError::cluster_no_peers(OFFLINE));
        }
        Ok(placed)
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
