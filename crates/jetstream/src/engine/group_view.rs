//! Groups as monitoring shows them: what this server knows of each that it is a member of.

use super::meta::{Assignment, Meta, peer_of};
use super::{JetStream, LiveStream, reasons};
use myelin_broker::Level;
use myelin_jsapi::api::consumer::ConsumerInfo;
use myelin_jsapi::api::info::{ClusterInfo, ReplicaInfo};
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_replica::Status;
use myelin_store::Timestamp;
use myelin_streams::consumer::account_hash;
use std::sync::Arc;

/// Group of which this server is a member.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// Account of the stream; empty for the meta group.
    pub account: String,
    /// Name as tools show it.
    pub name: String,
    /// Peer id of this server.
    pub me: String,
    /// How this server's member sees it.
    pub status: Status,
    /// Peer id of the leader; empty for none.
    pub leader: String,
    /// Since when this server leads it; 0 where it does not.
    pub leader_since: Timestamp,
    /// Whether a leader was known in this life.
    pub has_had_leader: bool,
    /// Whom this server has voted for in its term; empty for nobody.
    pub voted_for: String,
    /// Term of its last entry.
    pub last_term: u64,
    /// All members, by name.
    pub replicas: Vec<ReplicaInfo>,
}

/// Meta group as this server sees it.
#[derive(Clone, Debug, Default)]
pub struct MetaView {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the leader; empty for none.
    pub leader: String,
    /// Peer id of the leader; empty for none.
    pub peer: String,
    /// Whether this server leads it.
    pub leads: bool,
    /// Members but this one, by name; all of them where nobody leads.
    pub replicas: Vec<ReplicaInfo>,
    /// Number of members.
    pub size: usize,
    /// Requests that wait for a decision.
    pub pending: u64,
}

/// Why a stream of this server is not as it should be in its cluster.
#[derive(Clone, Debug)]
pub struct StreamAilment {
    /// Its account.
    pub account: String,
    /// The stream.
    pub stream: String,
    /// Cause, in the reference's words where it has any.
    pub reason: String,
}

impl StreamAilment {
    fn of(live: &LiveStream, reason: &str) -> Self {
        let (account, stream) = (live.account_name().to_owned(), live.name().to_owned());
        Self { account, stream, reason: reason.to_owned() }
    }
}

/// Health of a server as a member of its cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterHealth {
    /// Ailment of the meta group.
    pub meta: Option<String>,
    /// Streams that are not current, or not here, or not served.
    pub streams: Vec<StreamAilment>,
}

/// Name of the group of a consumer: of its stream's replicas, and for tools that tell groups by
/// their names another one than that of any other consumer. It stays the same.
fn group_of_consumer(
    of_stream: &str,
    stream: &StreamConfig,
    (name, config): (&str, &ConsumerConfig),
) -> String {
    let is_in_memory = config.mem_storage || stream.storage == Storage::Memory;
    let (replicas, storage) = (config.replicas(stream), if is_in_memory { 'M' } else { 'F' });
    let id = of_stream.rsplit_once('-').map_or(of_stream, |(_, id)| id);
    format!("C-R{replicas}{storage}-{}", account_hash(&format!("{id} {name}")))
}

impl JetStream {
    /// Groups of which this server is a member, the meta group first; `None` where it takes part in
    /// none.
    pub fn groups(&self) -> Option<Vec<GroupView>> {
        let meta = self.meta()?;
        let live = meta.live();
        let mut groups: Vec<_> =
            self.group_view(&meta, ("", "_meta_"), &live, &meta.servers()).into_iter().collect();
        for account in self.accounts() {
            for live in account.streams() {
                let name = account.account().name();
                let Some(assignment) = meta.view().get(name, live.name()) else { continue };
                groups.extend(self.group_view(
                    &meta,
                    (name, &assignment.group.name),
                    &live,
                    &assignment.peers,
                ));
            }
        }
        Some(groups)
    }

    fn group_view(
        &self,
        meta: &Meta,
        (account, name): (&str, &str),
        live: &LiveStream,
        servers: &[String],
    ) -> Option<GroupView> {
        let (status, leadership) = (live.group_status()?, live.group_leadership()?);
        let (vote, last_term) = live.group_vote()?;
        let me = peer_of(&self.settings.server_name)?;
        Some(GroupView {
            account: account.to_owned(),
            name: name.to_owned(),
            me: me.to_string(),
            leader: leadership.leader.map(|leader| leader.to_string()).unwrap_or_default(),
            leader_since: if leadership.leader == Some(me) { leadership.since } else { 0 },
            has_had_leader: leadership.has_had_leader,
            voted_for: vote.voted_for.map(|peer| peer.to_string()).unwrap_or_default(),
            last_term,
            replicas: self.replicas_of(meta, live, servers),
            status,
        })
    }

    /// The meta group; `None` where the server is alone.
    pub fn meta_group(&self) -> Option<MetaView> {
        let Some(meta) = self.meta() else {
            // Compat: one that is still to be formed has no leader.
            let search = self.cluster.search.get()?;
            let (cluster, size) = (self.host.cluster(), search.expected());
            return Some(MetaView { cluster, size, ..MetaView::default() });
        };
        let live = meta.live();
        let leadership = live.group_leadership()?;
        let leader = leadership.leader;
        let mut replicas = self.replicas_of(&meta, &live, &meta.servers());
        let leads = meta.leads();
        replicas.retain(|replica| leader.is_none() || replica.name != self.settings.server_name);
        Some(MetaView {
            cluster: self.host.cluster(),
            leader: leader.map(|leader| meta.name_of(leader)).unwrap_or_default(),
            peer: leader.map(|leader| leader.to_string()).unwrap_or_default(),
            leads,
            size: meta.servers().len(),
            pending: 0,
            replicas,
        })
    }

    /// Whether this server was removed from its cluster, and is no member again.
    pub fn was_removed(&self) -> bool {
        self.meta().is_some_and(|meta| meta.is_out())
    }

    /// Whether this server takes part in a cluster's JetStream.
    pub fn is_clustered(&self) -> bool {
        self.cluster.groups.get().is_some()
    }

    /// Health of the server as a member of its cluster; `None`: it is in none, and lacks none.
    pub fn cluster_health(&self) -> Option<ClusterHealth> {
        if self.cluster.groups.get().is_none() {
            let streams = self.unled();
            return (!streams.is_empty()).then_some(ClusterHealth { meta: None, streams });
        }
        let no_contact = |why: &str| {
            let meta = format!("JetStream has not established contact with a meta leader{why}");
            Some(ClusterHealth { meta: Some(meta), streams: Vec::new() })
        };
        let Some(meta) = self.meta() else { return no_contact("") };
        let meta_live = meta.live();
        let status = meta_live.group_status();
        let has_leader = status.as_ref().is_some_and(|status| status.leader.is_some());
        if !has_leader {
            return no_contact(&self.why_leaderless(&meta, &meta_live, &meta.servers()));
        }
        let is_behind = meta.is_behind() || status.is_some_and(|status| status.is_amnesiac);
        let meta_ails = if meta_live.is_full() {
            Some("JetStream has no space left on the device for its meta group")
        } else {
            is_behind.then_some("JetStream is not current with the meta leader")
        };
        let streams = meta.assigned_here().into_iter().filter_map(|assignment| {
            let (account, stream) = (&assignment.key.account, &assignment.key.stream);
            let live = self.account(account).and_then(|account| account.stream(stream));
            let reason = match live {
                None => "stream not found".to_owned(),
                // It is among those that are not served.
                Some(live) if live.created() != assignment.created => return None,
                Some(live) => self.ailment(&meta, &live, &assignment)?,
            };
            Some(StreamAilment { account: account.clone(), stream: stream.clone(), reason })
        });
        let streams = streams.chain(self.unserved(&meta)).collect();
        Some(ClusterHealth { meta: meta_ails.map(str::to_owned), streams })
    }

    /// Streams of groups on a server that is in no cluster: nobody leads them.
    fn unled(&self) -> Vec<StreamAilment> {
        let served = self.accounts().into_iter().filter(|account| account.limits().is_some());
        let streams = served.flat_map(|account| account.streams());
        let why = "it is of a group, and this server is in no cluster";
        streams.filter(|live| !live.role().leads()).map(|live| StreamAilment::of(&live, why)).collect()
    }

    /// Says in the log which streams nobody leads as this server is in no cluster.
    pub fn tell_unled(&self) {
        for StreamAilment { account, stream, reason } in self.unled() {
            let what = "takes no messages, and has no consumers";
            let line = format_args!("JetStream stream '{account} > {stream}' {what}: {reason}");
            self.host.log(Level::Warn, line);
        }
    }

    /// Streams that were here when the server came to the cluster, which has others of their names.
    fn unserved(&self, meta: &Meta) -> Vec<StreamAilment> {
        let streams = self.accounts().into_iter().flat_map(|account| account.streams());
        let is_another = |live: &Arc<LiveStream>| {
            let assignment = meta.view().get(live.account_name(), live.name());
            assignment.is_some_and(|assignment| {
                assignment.created != live.created() && !assignment.replaces.contains(&live.created())
            })
        };
        let why = "the cluster has another stream of its name, and this one is not served";
        streams.filter(is_another).map(|live| StreamAilment::of(&live, why)).collect()
    }

    /// Replicated streams and consumers of this server.
    pub fn ha_assets(&self) -> usize {
        let meta = usize::from(self.cluster.meta.get().is_some());
        let streams = self.accounts().into_iter().flat_map(|account| account.streams());
        let of_stream = |live: Arc<LiveStream>| 1 + live.consumer_count();
        streams.filter(|live| live.is_of_group()).map(of_stream).sum::<usize>() + meta
    }

    /// Where a stream is, as monitoring shows it, and since when it is led here.
    ///
    /// Compat: this server is not among the replicas, unless nobody leads; the leader is.
    pub fn place_of(&self, live: &LiveStream) -> ClusterInfo {
        self.cluster_info_beside(live, |replica, leader| {
            leader.is_empty() || replica != self.settings.server_name
        })
    }

    /// Name of the group of a stream's replicas, as tools show it, also where there is one replica
    /// only; `None` where the server is in no cluster.
    pub fn raft_group_of(&self, live: &LiveStream) -> Option<String> {
        let assignment = self.meta()?.view().get(live.account_name(), live.name())?;
        Some(assignment.group.name.clone())
    }

    /// Name of the group of a consumer's replicas, as [`raft_group_of`](Self::raft_group_of) says
    /// it of its stream's.
    pub fn raft_group_of_consumer(&self, live: &LiveStream, info: &ConsumerInfo) -> Option<String> {
        let (of_stream, config) = (self.raft_group_of(live)?, info.config.as_ref()?);
        Some(group_of_consumer(&of_stream, &live.config(), (&info.name, config)))
    }

    /// Place of a consumer of a stream: with the stream, in a group of its own name; `None` where
    /// its configuration is not known.
    ///
    /// Compat: one that is to have one replica shows its leader alone. Here it is where the others
    /// are, and goes on where they do.
    pub fn place_of_known(
        &self,
        (place, stream): (&ClusterInfo, &StreamConfig),
        info: &ConsumerInfo,
    ) -> Option<ClusterInfo> {
        let (name, config) = (&info.name, info.config.as_ref()?);
        if place.raft_group.is_empty() || config.replicas(stream) <= 1 {
            let (name, leader) = (place.name.clone(), place.leader.clone());
            return Some(ClusterInfo { name, leader, ..ClusterInfo::default() });
        }
        let raft_group = group_of_consumer(&place.raft_group, stream, (name, config));
        Some(ClusterInfo { raft_group, ..place.clone() })
    }

    /// Whether this server leads a stream: one that has no group it always leads.
    pub fn leads(&self, live: &LiveStream) -> bool {
        live.role().leads()
    }

    /// Why a replica is not current; `None`: it is.
    fn ailment(&self, meta: &Meta, live: &LiveStream, assignment: &Assignment) -> Option<String> {
        let Some(status) = live.group_status() else {
            let why = || meta.why_failed(assignment).map(|why| format!(": {why}")).unwrap_or_default();
            return assignment.has_group().then(|| format!("replica is no member of its group{}", why()));
        };
        if let Some(progress) = live.install_progress(false) {
            return Some(format!("stream catching up: {}", meta.on_its_way(&progress)));
        }
        if live.is_full() {
            return Some("no space left on the device".to_owned());
        }
        if status.leader.is_none() {
            return Some(format!(
                "group has no leader{}",
                self.why_leaderless(meta, live, &assignment.peers)
            ));
        }
        if live.is_damaged() {
            return Some(
                "stream catching up: it gets all of its group's stream, for what it has lost".to_owned(),
            );
        }
        let behind = live.behind().map(reasons::behind);
        if status.is_amnesiac {
            let how_far = behind.map(|behind| format!(" ({behind})")).unwrap_or_default();
            let why = "it waits for what was committed before a loss of power";
            return Some(format!("stream catching up: {why}{how_far}"));
        }
        behind.map(|behind| format!("stream catching up: {behind}"))
    }

    /// The servers without which a group cannot have a leader, to be said behind that it has none:
    /// empty where enough are there.
    fn why_leaderless(&self, meta: &Meta, live: &LiveStream, servers: &[String]) -> String {
        let away = reasons::away(&self.replicas_of(meta, live, servers));
        if live.lacks_quorum() && !away.is_empty() { format!(": no quorum: {away}") } else { String::new() }
    }
}
