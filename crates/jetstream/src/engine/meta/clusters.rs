//! Clusters of the group's servers: gateways may join several, and all replicas of a stream are in
//! one of them.
//!
//! A server that is linked, or was in this life, has said of which it is. Of one that is away since
//! before that the meta stream says it: the leader notes there what has changed, once the group has
//! servers of more than one cluster. So a group of one cluster has no word of it on its disks; and
//! a server of which nothing is known is of this one's.

use super::roster::ServerRecord;
use super::{Assignment, JetStream, Meta, peer_of};
use myelin_stdx::sync::lock;
use std::collections::BTreeSet;

impl Meta {
    /// The name of a server's cluster.
    pub(in crate::engine) fn cluster_of(&self, server: &str) -> String {
        let noted = || lock(&self.members.roster).cluster_of(server).map(str::to_owned);
        self.said_cluster(server).or_else(noted).unwrap_or_else(|| self.own_cluster())
    }

    /// The cluster in which a stream is until it is in another one.
    pub(in crate::engine) fn cluster_for_now(&self, assignment: &Assignment) -> String {
        let Assignment { peers, before, .. } = assignment;
        // One that goes back never was elsewhere.
        let stays =
            |one: &&String| !peers.first().is_some_and(|first| before.contains(first)) || peers.contains(one);
        let first = before.iter().find(stays);
        first.map_or_else(|| self.cluster_of_stream(assignment), |server| self.cluster_of(server))
    }

    /// The cluster in which a stream is, or is to be.
    pub(in crate::engine) fn cluster_of_stream(&self, assignment: &Assignment) -> String {
        assignment.servers().next().map_or_else(|| self.own_cluster(), |server| self.cluster_of(server))
    }

    /// Names of all clusters that have a server in the group.
    pub(in crate::engine) fn clusters(&self) -> BTreeSet<String> {
        self.servers().iter().map(|server| self.cluster_of(server)).collect()
    }

    fn own_cluster(&self) -> String {
        self.jetstream.upgrade().map(|jetstream| jetstream.host.cluster()).unwrap_or_default()
    }

    /// The cluster that a server has said to be of, in this life.
    fn said_cluster(&self, server: &str) -> Option<String> {
        if server == self.name {
            return Some(self.own_cluster());
        }
        self.groups.cluster_of(peer_of(server)?)
    }

    /// Notes in the meta stream of which clusters servers are, if there are several and this server
    /// leads the group.
    pub(super) fn note_clusters(&self, jetstream: &JetStream) {
        if !self.leads() || self.is_behind() {
            return;
        }
        let said = |server: &String| Some((server.clone(), self.said_cluster(server)?));
        let said: Vec<_> = self.servers().iter().filter_map(said).collect();
        let own = jetstream.host.cluster();
        let has_others = said.iter().any(|(_, cluster)| *cluster != own);
        let news: Vec<ServerRecord> = {
            let roster = lock(&self.members.roster);
            let is_news = |(server, cluster): &(String, String)| {
                (has_others || roster.has_clusters()) && roster.cluster_of(server) != Some(cluster)
            };
            let record = |(server, cluster): (String, String)| {
                ServerRecord::of_cluster(&server, cluster, jetstream.seed())
            };
            said.into_iter().filter(is_news).map(record).collect()
        };
        news.iter().for_each(|record| self.propose_record(record));
    }
}

impl JetStream {
    /// Another server that takes part in groups is linked, of this name: of which cluster it is;
    /// `None`: of this server's.
    pub fn server_is_of(&self, name: &str, cluster: Option<&str>) {
        let groups = self.cluster.groups.get();
        if let (Some(groups), Some(peer)) = (groups, peer_of(name)) {
            groups.is_of(peer, cluster);
        }
    }
}
