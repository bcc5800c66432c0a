//! Groups of replicas in monitoring's words.

use super::jetstream::rfc3339;
use myelin_jetstream::{GroupView, JetStream, MetaView, StreamAilment};
use myelin_jsapi::api::info::ReplicaInfo;
use myelin_monitor::{
    ClusterAilment, ClusterHealth, MetaGroup, PeerRow, RaftGroup, RaftGroupSnapshot, RaftPeer, RaftProgress,
};
use myelin_replica::RaftRole;
use std::time::Duration;

/// The meta group.
pub(super) fn meta_group(meta: MetaView) -> MetaGroup {
    let MetaView { cluster, leader, peer, replicas, size, pending, .. } = meta;
    MetaGroup {
        name: cluster,
        leader,
        peer,
        replicas: replicas.into_iter().map(row).collect(),
        cluster_size: size,
        quorum_needed: size / 2 + 1,
        pending,
        ..MetaGroup::default()
    }
}

fn row(replica: ReplicaInfo) -> PeerRow {
    let ReplicaInfo { name, current, offline, active, lag, peer, pending } = replica;
    PeerRow { name, current, offline, active, lag, peer, pending }
}

/// Groups of which this server is a member. `system`: name of the system account.
pub(super) fn raft_groups(jetstream: &JetStream, system: &str) -> Vec<RaftGroupSnapshot> {
    let groups = jetstream.groups().unwrap_or_default();
    groups.into_iter().map(|view| raft_group(view, system)).collect()
}

fn raft_group(view: GroupView, system: &str) -> RaftGroupSnapshot {
    let GroupView { account, name, me, status, replicas, .. } = view;
    let size = replicas.len();
    let others = replicas.into_iter().filter(|replica| replica.peer != me);
    let peers = others.map(|replica| {
        let member = status.members.iter().find(|member| member.peer.to_string() == replica.peer);
        let row = RaftPeer {
            name: replica.name,
            known: true,
            last_replicated_index: member.map_or(0, |member| member.matched),
            last_seen: Duration::from_nanos(replica.active.unsigned_abs()),
            is_current: replica.current,
            is_offline: replica.offline,
            lag: replica.lag.unsigned_abs(),
        };
        (replica.peer, row)
    });
    let group = RaftGroup {
        state: match status.role {
            RaftRole::Leader => "LEADER",
            RaftRole::Follower => "FOLLOWER",
            RaftRole::Candidate => "CANDIDATE",
        },
        size,
        quorum_needed: size / 2 + 1,
        progress: RaftProgress {
            committed: status.committed,
            applied: status.committed,
            catching_up: status.is_amnesiac,
        },
        leader: view.leader,
        leader_since: if view.leader_since > 0 { rfc3339(view.leader_since) } else { String::new() },
        ever_had_leader: view.has_had_leader,
        term: status.term,
        voted_for: view.voted_for,
        pterm: view.last_term,
        pindex: status.last,
        system_account: true,
        traffic_account: system.to_owned(),
        queues: Default::default(),
        peers: peers.collect(),
        id: me,
    };
    let account = if account.is_empty() { system.to_owned() } else { account };
    RaftGroupSnapshot { account, name, group }
}

/// Health of the server as a member of its cluster.
pub(super) fn health(jetstream: &JetStream) -> Option<ClusterHealth> {
    let health = jetstream.cluster_health()?;
    let ailment = |StreamAilment { account, stream, reason }| ClusterAilment { account, stream, reason };
    Some(ClusterHealth { meta: health.meta, streams: health.streams.into_iter().map(ailment).collect() })
}
