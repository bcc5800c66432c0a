//! `/livez`, `/startupz`, `/readyz` and `/stopz`: what orchestrators ask, each with a status that
//! says whether, and a body that says what is missing.
//!
//! `/healthz` is one answer to four questions. A server that is restarted because its peers are
//! away makes things worse, and one that gets no clients because a replica catches up helps nobody.
//! So these look at the server alone; only whether it may be stopped depends on others.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::healthz::{Checked, Depth, Failure, LostMessages, look};
use crate::response::PageResponse;
use crate::snapshot::{MostFigures, RaftGroupSnapshot, SnapshotSource, StreamFigures};
use myelin_wire::json::is_zero;

/// Whether the process answers. Nothing else counts: whoever is told "no" ends it.
pub(crate) fn live(source: &dyn SnapshotSource) -> PageResponse {
    source.count_request("/livez");
    Probe::default().answer()
}

/// Whether the start is over: clients are listened to, and JetStream has opened its store if it is
/// to run. Peers may still be missing.
pub(crate) fn startup(source: &dyn SnapshotSource) -> PageResponse {
    source.count_request("/startupz");
    let Checked { failures, .. } = look(Depth::JetStream, source);
    // Perf: asked only while the server starts, for it sums up all connections and accounts.
    let seconds = if failures.is_empty() { 0 } else { seconds_since_start(source) };
    Probe { waits: failures, seconds, ..Probe::default() }.answer()
}

fn seconds_since_start(source: &dyn SnapshotSource) -> u64 {
    let clocks = source.server().clocks;
    u64::try_from(clocks.now.duration_since(clocks.start).as_secs()).unwrap_or(0)
}

/// Whether clients should be sent here: the server listens, is not about to stop, and its JetStream
/// runs if it is to. What ails of streams is said and changes nothing.
pub(crate) fn ready(source: &dyn SnapshotSource) -> PageResponse {
    source.count_request("/readyz");
    let waits = look(Depth::JetStream, source).failures;
    if !waits.is_empty() {
        return Probe { waits, ..Probe::default() }.answer();
    }
    let Checked { failures: ailing, lost } = look(Depth::Whole, source);
    Probe { ailing, lost, ..Probe::default() }.answer()
}

/// Whether the server may be stopped without a group losing its majority.
pub(crate) fn stop(source: &dyn SnapshotSource) -> PageResponse {
    source.count_request("/stopz");
    let streams = streams(source);
    let names: BTreeMap<_, _> = streams
        .iter()
        .filter(|(_, stream)| !stream.raft_group.is_empty())
        .map(|(account, stream)| ((account.as_str(), stream.raft_group.as_str()), stream.name.as_str()))
        .collect();
    let groups = source.raft_groups();
    let needed_here = groups.iter().filter_map(|snapshot| {
        let name = names.get(&(snapshot.account.as_str(), snapshot.name.as_str()));
        NeededHere::of(snapshot, name.copied().unwrap_or_default())
    });
    let pausing = groups.iter().filter(|snapshot| needs_all(snapshot)).count();
    let alone = streams.iter().filter(|(_, stream)| stream.raft_group.is_empty());
    let in_memory = alone.clone().filter(|(_, stream)| stream.is_in_memory);
    Probe {
        needed_here: needed_here.collect(),
        pausing: alone.count() + pausing,
        memory_messages: in_memory.map(|(_, stream)| stream.messages).sum(),
        ..Probe::default()
    }
    .answer()
}

/// All streams of this server, each with its account.
fn streams(source: &dyn SnapshotSource) -> Vec<(String, StreamFigures)> {
    if source.jetstream().is_none() {
        return Vec::new();
    }
    let most = MostFigures { streams: usize::MAX, consumers: 0 };
    let of_account = |name: String| {
        let streams = source.stream_figures(&name, most);
        streams.into_iter().map(move |stream| (name.clone(), stream))
    };
    source.jetstream_accounts().into_iter().flat_map(|account| of_account(account.name)).collect()
}

/// Body of an answer: what is empty is left out.
#[derive(Default, Serialize)]
struct Probe {
    /// Failures that decide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits: Vec<Failure>,
    /// Since when.
    #[serde(skip_serializing_if = "is_zero")]
    seconds: u64,
    /// Groups that would lose their majority.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needed_here: Vec<NeededHere>,
    /// Failures that do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ailing: Vec<Failure>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost: Vec<LostMessages>,
    /// Streams and groups that no other servers can go on with, now or ever: they pause while this
    /// one is away.
    #[serde(skip_serializing_if = "is_zero")]
    pausing: usize,
    /// Messages of streams without another replica that are in memory only, and go with the server.
    #[serde(skip_serializing_if = "is_zero")]
    memory_messages: u64,
}

impl Probe {
    fn answer(&self) -> PageResponse {
        #[derive(Serialize)]
        struct ProbeBody<'a> {
            status: &'static str,
            #[serde(flatten)]
            probe: &'a Probe,
        }
        let is_well = self.waits.is_empty() && self.needed_here.is_empty();
        let (code, status) = if is_well { (200, "ok") } else { (503, "unavailable") };
        PageResponse::line(code, &ProbeBody { status, probe: self })
    }
}

/// Group that has no majority of current members without this server.
#[derive(Serialize)]
struct NeededHere {
    account: String,
    /// Its stream; left out of the meta group.
    #[serde(skip_serializing_if = "String::is_empty")]
    stream: String,
    group: String,
    /// Other members that have everything, as far as this server knows.
    current: usize,
    /// How many of them there have to be.
    needed: usize,
    /// Others that have not, with the entries that each lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    behind: Vec<Behind>,
}

/// Whether a group of one or two members pauses without any of them, whatever the others have. To
/// wait until that changes would be to wait forever.
fn needs_all(snapshot: &RaftGroupSnapshot) -> bool {
    snapshot.group.quorum_needed >= snapshot.group.size
}

/// Member that does not count yet.
#[derive(Serialize)]
struct Behind {
    name: String,
    /// Whether it is not there.
    offline: bool,
    /// Entries that it has not confirmed, as the leader knows.
    lag: u64,
}

impl NeededHere {
    fn of(snapshot: &RaftGroupSnapshot, stream: &str) -> Option<Self> {
        let group = &snapshot.group;
        let current = group.peers.values().filter(|peer| peer.is_current).count();
        if needs_all(snapshot) || current >= group.quorum_needed {
            return None;
        }
        let behind = group.peers.values().filter(|peer| !peer.is_current).map(|peer| Behind {
            name: peer.name.clone(),
            offline: peer.is_offline,
            lag: peer.lag,
        });
        Some(Self {
            account: snapshot.account.clone(),
            stream: stream.to_owned(),
            group: snapshot.name.clone(),
            current,
            needed: group.quorum_needed,
            behind: behind.collect(),
        })
    }
}
