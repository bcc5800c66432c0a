//! Groups: the members on this server, and what they say to those on other servers.
//!
//! Owns which stream is a member of which group, the way of frames between servers, time for
//! members, and whether other servers are there. What a message does to a member is for
//! [`myelin_streams::group`]; when it does is for the stream's turn (`live/member.rs`). Must never
//! give a member what an earlier life of another server has said.
//!
//! # One message of a member
//!
//! 1. A turn has something to say to another member. It becomes a frame, and leaves in the order of
//!    turns ([`FrameOutbox`]), as a message in the account of all servers' frames, whose links to
//!    other servers carry nothing else. Its subject: who it is for, and who it is from.
//! 2. There a shard hands it to `FrameService`, which leaves it at the member of its group.
//! 3. The same shard works off that stream's turn, and the answer leaves with its next flush.

mod clock;
mod durable;
mod frame_outbox;
mod frames;
mod peers;

use super::JetStream;
use super::host::Host;
use super::live::{LiveStream, MemberEvent};
use durable::{SyncRequests, VoteRequest, VoteRequests};
use frames::FrameService;
use myelin_broker::{Account, Binding, Level, Service};
use myelin_replica::frame::GroupPlace;
use myelin_replica::hard_state::HardState;
use myelin_replica::{GroupId, Peer, Vote};
use myelin_stdx::sync::{lock, read_lock, write_lock};
use myelin_streams::group::GroupVotes;
use peers::Peers;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Instant;

pub(super) use frame_outbox::FrameOutbox;
pub(super) use frames::write_frames;

/// Group under whose name the file of votes keeps what is of the whole store: the number of its
/// life, and as a term the run of the machine in which that was.
const OF_STORE: GroupId = GroupId(0);

/// Facts about this server as one that has replicas.
#[derive(Clone)]
pub struct GroupSettings {
    /// This server.
    pub me: Peer,
    /// The account in which servers publish frames to each other. Nobody else may.
    pub account: Arc<Account>,
}

/// Group of which a stream is to be a member. Its members are always the same ones.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// Which one.
    pub place: GroupPlace,
    /// All members, this server among them.
    pub voters: Vec<Peer>,
}

/// Members of groups on this server.
pub(super) struct Groups {
    pub(super) me: Peer,
    /// The life of the store, a number that grows with each start.
    incarnation: u64,
    account: Arc<Account>,
    host: Arc<dyn Host>,
    began: Instant,
    members: RwLock<BTreeMap<GroupId, Weak<LiveStream>>>,
    peers: Mutex<Peers>,
    votes: VoteRequests,
    syncs: SyncRequests,
    /// Beats since the start.
    beats: AtomicU64,
    /// Held as long as frames are to come.
    binding: Mutex<Option<Arc<Binding>>>,
    me_weak: Weak<Self>,
}

/// Notes that the store begins a new life. In another run of the machine than the last one members
/// may have lost what they have confirmed, unless they confirm nothing before it is synced: whoever
/// reads the file hears of both, or of neither.
fn begin_life(jetstream: &JetStream, votes: &mut GroupVotes) -> std::io::Result<HardState> {
    let before = votes.get(OF_STORE).unwrap_or_default();
    let boot = Vote { term: jetstream.boot.unwrap_or(0), voted_for: None };
    let state = HardState { incarnation: before.incarnation + 1, vote: boot, ..HardState::default() };
    let is_same_run = jetstream.boot.is_some() && boot == before.vote;
    let may_have_lost = !is_same_run && !jetstream.settings.sync_always;
    let forgetful = votes.all().filter(|(group, _)| may_have_lost && *group != OF_STORE);
    let mut changes: Vec<_> =
        forgetful.map(|(group, state)| (group, HardState { is_amnesiac: true, ..state })).collect();
    changes.push((OF_STORE, state));
    votes.set(&changes)?;
    Ok(state)
}

impl Groups {
    /// Takes part in groups from now on: a new life begins, which is durable.
    ///
    /// # Errors
    /// Words for why the file of votes cannot be read or written.
    pub(super) fn begin(jetstream: &JetStream, settings: GroupSettings) -> Result<Arc<Self>, String> {
        let GroupSettings { me, account } = settings;
        let mut votes = GroupVotes::open(&jetstream.store).map_err(|error| error.to_string())?;
        let state = begin_life(jetstream, &mut votes).map_err(|error| error.to_string())?;
        let host = Arc::clone(&jetstream.host);
        let began = host.instant();
        let groups = Arc::new_cyclic(|me_weak| Self {
            me,
            incarnation: state.incarnation,
            account,
            began,
            members: RwLock::default(),
            peers: Mutex::new(Peers::new(state.incarnation)),
            votes: VoteRequests::new(votes),
            syncs: SyncRequests::new(Arc::clone(jetstream.journal())),
            beats: AtomicU64::new(0),
            binding: Mutex::default(),
            me_weak: Weak::clone(me_weak),
            host,
        });
        let service: Arc<dyn Service> = Arc::new(FrameService(Arc::downgrade(&groups)));
        let binding = groups.account.bind(format!("{me}.*").as_bytes(), service);
        *lock(&groups.binding) = Some(binding);
        groups.arm();
        Ok(groups)
    }

    /// Makes a stream known as a member of a group.
    pub(super) fn add(&self, config: &GroupConfig, live: &Arc<LiveStream>) {
        let now = self.nanoseconds();
        let mut peers = lock(&self.peers);
        config.voters.iter().filter(|&&peer| peer != self.me).for_each(|&peer| peers.know(peer, now));
        drop(peers);
        write_lock(&self.members).insert(config.place.group, Arc::downgrade(live));
    }

    /// State that a member of a group remembers; `None`: nothing yet.
    pub(super) fn state(&self, group: GroupId) -> Option<HardState> {
        self.votes.get(group)
    }

    /// Outbox for the frames of one member.
    pub(super) fn outbox(&self) -> Arc<FrameOutbox> {
        FrameOutbox::new(&self.account, &self.host)
    }

    /// The life of the store, as frames have it: the low half.
    fn incarnation(&self) -> u32 {
        (self.incarnation & u64::from(u32::MAX)) as u32
    }

    /// Nanoseconds since this life began, by the clock that only goes forward.
    pub(super) fn nanoseconds(&self) -> u64 {
        let passed = self.host.instant().saturating_duration_since(self.began);
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether this server may vote, and stand for election: what its earlier life has promised is
    /// over.
    pub(super) fn may_vote(&self) -> bool {
        lock(&self.peers).may_vote(self.nanoseconds())
    }

    /// Whether all these servers have answered this one lately.
    pub(super) fn are_there(&self, peers: &[Peer]) -> bool {
        let (now, known) = (self.nanoseconds(), lock(&self.peers));
        peers.iter().all(|&peer| peer == self.me || known.is_supported_by(peer, now))
    }

    fn member(&self, group: GroupId) -> Option<Arc<LiveStream>> {
        read_lock(&self.members).get(&group)?.upgrade()
    }

    fn members(&self) -> Vec<Arc<LiveStream>> {
        read_lock(&self.members).values().filter_map(Weak::upgrade).collect()
    }

    /// Has a vote made durable, and the member told; and whether the member may have lost what it
    /// has confirmed.
    pub(super) fn persist_vote(
        self: &Arc<Self>,
        place: GroupPlace,
        (vote, is_amnesiac): (Option<Vote>, bool),
        live: &Arc<LiveStream>,
    ) {
        let request = VoteRequest::new(place, (vote, is_amnesiac), self.incarnation, live);
        if self.votes.add(request) {
            self.write_votes();
        }
    }

    fn write_votes(self: &Arc<Self>) {
        let groups = Arc::clone(self);
        self.host.spawn_sync(Box::new(move || {
            if let Err(error) = groups.votes.write() {
                groups
                    .host
                    .log(Level::Error, format_args!("JetStream: votes of groups cannot be written: {error}"));
            }
        }));
    }

    /// Has what a stream has written synced, and its member told.
    pub(super) fn sync(self: &Arc<Self>, live: &Arc<LiveStream>) {
        if self.syncs.add(live) {
            let groups = Arc::clone(self);
            self.host.spawn_sync(Box::new(move || groups.syncs.run(groups.host.now())));
        }
    }

    /// Syncs everything that is written. For threads that may wait.
    pub(super) fn sync_now(&self) {
        // Where it fails a member that counts on it does not begin, and says why.
        self.syncs.round(self.host.now());
    }

    /// Another server's process has ended, or nobody can say that it has not: its connections are
    /// closed.
    pub(super) fn is_unlinked(&self, peer: Peer) {
        lock(&self.peers).withdraw(peer);
        self.tell_all(MemberEvent::Lost(peer));
    }

    /// Has all members hear of something, on a thread that may wait.
    fn tell_all(&self, event: MemberEvent) {
        for member in self.members() {
            member.tell_member(event.clone());
            member.serve_member_off_shard();
        }
    }
}
