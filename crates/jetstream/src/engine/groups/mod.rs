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
mod day_clocks;
mod durable;
mod frame_outbox;
mod frames;
mod installs;
mod life;
mod members;
mod peers;
mod replica;

use super::host::Host;
use super::scrub::Scrubber;
use clock::PeerWords;
use durable::{SyncRequests, VoteRequests};
use frames::FrameService;
pub(super) use installs::InstallProgress;
use installs::Installs;
use life::StoreLife;
use members::MemberTable;
use myelin_broker::{Account, Binding, Level, LinkedPeer, Service};
use myelin_replica::frame::GroupPlace;
use myelin_replica::hard_state::HardState;
use myelin_replica::{GroupId, Peer, Vote};
use myelin_stdx::histogram::Latencies;
use myelin_stdx::sync::{lock, read_lock, write_lock};
use myelin_store::{Store, Timestamp};
use myelin_streams::group::{DamagedVotes, GroupVotes, KeptLogBounds};
use myelin_wire::message_buf::MessageBuf;
use peers::Peers;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::{Duration, Instant};

pub(super) use frame_outbox::FrameOutbox;
pub(super) use frames::{write_frame, write_frames};
pub(super) use replica::{GroupReplica, IncomingReplica, MemberEvent};

/// Bytes that may wait for another server before it gets no more entries.
const MOST_WAITING: usize = 32 << 20;

/// Facts about this server as one that has replicas.
#[derive(Clone)]
pub struct GroupSettings {
    /// This server.
    pub me: Peer,
    /// The account in which servers publish frames to each other. Nobody else may.
    pub account: Arc<Account>,
    /// The account in which they publish what is large. Nobody else may.
    pub bulk: Arc<Account>,
    /// How much of a group's log stays for members that are behind.
    pub kept_log: KeptLogBounds,
}

/// Group of which a stream is to be a member.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// Which one.
    pub place: GroupPlace,
    /// Members that voted when the group was made. Who is one now stands in its log.
    pub voters: Vec<Peer>,
}

/// Memory of a member of its group, as the store has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recalled {
    pub(super) vote: Vote,
    /// Whether it may have lost its vote, or entries that it had confirmed, synced or not.
    pub(super) has_forgotten: bool,
    /// Whether a loss of power may have taken what it had confirmed and not synced.
    pub(super) may_lack_unsynced: bool,
    /// Whether its next life will know, too, that it has forgotten something.
    pub(super) is_written_down: bool,
}

/// Members of groups on this server.
pub(super) struct Groups {
    pub(super) me: Peer,
    lived: StoreLife,
    pub(super) account: Arc<Account>,
    host: Arc<dyn Host>,
    members: Arc<MemberTable>,
    peers: Mutex<Peers>,
    votes: VoteRequests,
    syncs: SyncRequests,
    /// Beats since the start.
    beats: AtomicU64,
    /// Whether the server is about to end.
    is_leaving: AtomicBool,
    /// Held as long as frames are to come.
    binding: Mutex<Option<Arc<Binding>>>,
    observer: RwLock<Option<Weak<dyn GroupsObserver>>>,
    /// Messages to members that are not here yet: other servers may be quicker to make a group.
    early: Mutex<Vec<(GroupId, MemberEvent)>>,
    installs: Arc<Installs>,
    words: Arc<PeerWords>,
    me_weak: Weak<Self>,
}

/// Whoever wants to look at the groups now and then.
pub(super) trait GroupsObserver: Send + Sync {
    /// Some two seconds have passed. Called on a thread that may wait.
    fn passes(&self);

    /// Nobody knows yet which groups are older than this server's disk, and some 50 ms have
    /// passed. Called on a thread that may wait.
    fn looks_at_disk(&self);
}

impl Groups {
    /// Takes part in groups from now on: a new life begins, which is durable.
    ///
    /// # Errors
    /// Words for why the file of votes cannot be read or written.
    pub(super) fn begin(
        store: &Store,
        host: &Arc<dyn Host>,
        scrubber: &Arc<Scrubber>,
        (settings, boot): (GroupSettings, Option<u64>),
    ) -> Result<Arc<Self>, String> {
        let GroupSettings { me, account, bulk, kept_log } = settings;
        let (mut votes, damaged) = GroupVotes::open(store, boot).map_err(|error| error.to_string())?;
        let host = Arc::clone(host);
        let has_lost_votes = damaged.is_some();
        let (state, is_amnesiac) =
            life::begin(&mut votes, (boot, has_lost_votes), host.now()).map_err(|error| error.to_string())?;
        if let Some(DamagedVotes { at, kept }) = &damaged {
            let kept = kept.display();
            let line = format_args!(
                "JetStream: the file of votes was damaged at byte {at} (kept as {kept}): replicas vote when they \
                 have what was committed"
            );
            host.log(Level::Error, line);
        }
        if is_amnesiac || has_lost_votes {
            let line = "JetStream: the machine has ended without this server: replicas vote when they \
                        have what was committed";
            host.log(Level::Warn, format_args!("{line}"));
        }
        let lived = StoreLife::of(&state, is_amnesiac || has_lost_votes, host.instant());
        let members = Arc::new(MemberTable::new(scrubber));
        let installs = Installs::begin(&members, &host, (me, lived.short()), (&bulk, kept_log));
        let groups = Arc::new_cyclic(|me_weak| Self {
            me,
            lived,
            account,
            members,
            peers: Mutex::new(Peers::new(state.incarnation)),
            votes: VoteRequests::new(votes),
            syncs: SyncRequests::new(Arc::clone(store.journal())),
            beats: AtomicU64::new(0),
            is_leaving: AtomicBool::new(false),
            binding: Mutex::default(),
            observer: RwLock::new(None),
            early: Mutex::default(),
            installs,
            words: Arc::new(PeerWords(Weak::clone(me_weak))),
            me_weak: Weak::clone(me_weak),
            host,
        });
        let service: Arc<dyn Service> = Arc::new(FrameService(Arc::downgrade(&groups)));
        let binding = groups.account.bind(format!("{me}.*").as_bytes(), service);
        *lock(&groups.binding) = Some(binding);
        groups.begin_clock();
        Ok(groups)
    }

    /// Has somebody told that time passes.
    pub(super) fn observe(&self, observer: Weak<dyn GroupsObserver>) {
        *write_lock(&self.observer) = Some(observer);
    }

    fn observer(&self) -> Option<Arc<dyn GroupsObserver>> {
        read_lock(&self.observer).as_ref().and_then(Weak::upgrade)
    }

    /// Whether another server is there: it supports this one, as far as is known.
    pub(super) fn is_there(&self, peer: Peer) -> bool {
        lock(&self.peers).is_there(peer, self.nanoseconds())
    }

    /// Until when another server supports this one, if it ever has: groups that are led here get no
    /// other leader by it.
    pub(super) fn supported_until(&self, peer: Peer) -> Option<Instant> {
        let until = lock(&self.peers).supported_until(peer);
        (until > 0).then(|| self.lived.began + Duration::from_nanos(until))
    }

    /// Nanoseconds since another server was there for certain; 0 where it is not known to have
    /// been.
    pub(super) fn heard_ago(&self, peer: Peer) -> i64 {
        let ago = lock(&self.peers).heard_ago(peer, self.nanoseconds());
        i64::try_from(ago.unwrap_or(0)).unwrap_or(i64::MAX)
    }

    /// Another member of a group that is led here lacks what is no more in the log. For turns.
    pub(super) fn install_wanted(&self, group: GroupId, to: Peer) {
        self.installs.wanted(group, to);
    }

    /// How far the stream is that a member here gets from another server. `tells`: whoever asks
    /// writes that to the log, if it is due.
    pub(super) fn install_progress(&self, group: GroupId, tells: bool) -> Option<InstallProgress> {
        self.installs.progress(group, tells)
    }

    /// Counts how long entries of groups that are led here wait until they are committed.
    pub(super) fn commit_waits(&self) -> Arc<Latencies> {
        Arc::clone(&self.members.commit_waits)
    }

    /// How much of a group's log stays for members that are behind.
    pub(super) fn kept_log(&self) -> KeptLogBounds {
        self.installs.kept_log()
    }

    /// Forgets a member whose replica goes. Its group may go on, and it may be one again.
    pub(super) fn remove(&self, group: GroupId) {
        self.members.remove(group);
    }

    /// Forgets a group whose stream is removed for good, and its vote as soon as it is durable that
    /// it is.
    pub(super) fn forget(&self, group: GroupId) {
        self.members.forget(group);
        let Some(groups) = self.me_weak.upgrade().filter(|_| self.votes.add_removed(group)) else { return };
        self.host.spawn_sync(Box::new(move || {
            let forgotten = groups.votes.forget(|| groups.syncs.try_round(groups.host.now()));
            if let Err(error) = forgotten {
                let line =
                    format_args!("JetStream: votes of groups that are gone cannot be removed: {error}");
                groups.host.log(Level::Warn, line);
            }
        }));
    }

    /// Has these servers be asked whether they are there.
    pub(super) fn know(&self, peers: &[Peer]) {
        let (now, mut known) = (self.nanoseconds(), lock(&self.peers));
        peers.iter().filter(|&&peer| peer != self.me).for_each(|&peer| known.know(peer, now));
    }

    /// Makes a stream known as a member of a group.
    pub(super) fn add(&self, config: &GroupConfig, live: &Arc<dyn GroupReplica>) {
        self.know(&config.voters);
        self.members.add(config.place.group, live);
        let mut early = lock(&self.early);
        let of_group = early.extract_if(.., |(group, _)| *group == config.place.group);
        of_group.for_each(|(_, event)| live.tell(event));
    }

    /// Memory of a member of a group. Without a log (`has_log`) it has forgotten what it had, if it
    /// has voted, or its group may be older than the disk (not `may_be_new`).
    pub(super) fn recall(&self, group: GroupId, has_log: bool, may_be_new: bool) -> Recalled {
        let state = self.votes.get(group);
        let may_have_had_one = state.map_or(!may_be_new, |state| state.vote.term > 0);
        let is_damaged = state.is_some_and(|state| state.is_damaged);
        // Who has a log has voted, or heard of a leader's term, which it has forgotten.
        let has_forgotten = is_damaged || may_have_had_one && (!has_log || state.is_none());
        // Nothing of a group can be lost that was made behind the loss of power.
        let is_marked = state.map_or(self.lived.is_amnesiac && !may_be_new, |state| state.is_amnesiac);
        let vote =
            state.filter(|_| !myelin_stdx::planted::bug(132)).map_or(Vote::default(), |state| state.vote);
        Recalled {
            vote,
            has_forgotten: has_forgotten && !myelin_stdx::planted::bug(110),
            may_lack_unsynced: is_marked && !myelin_stdx::planted::bug(110),
            is_written_down: is_damaged && is_marked,
        }
    }

    /// Writes down that a member may have lost what it had confirmed, until it has said itself that
    /// it has everything again ([`Groups::leave_vote`]). Only for threads that may wait.
    ///
    /// # Errors
    /// Of the disk: the next life would not know.
    pub(super) fn mark_amnesiac(&self, place: GroupPlace) -> io::Result<()> {
        self.votes.mark_amnesiac(place, self.lived.number())
    }

    /// Whether something that was made at this time was made in this life, by the time of day.
    pub(super) fn has_begun_before(&self, time: Timestamp) -> bool {
        time >= self.host.now().saturating_sub(self.uptime())
    }

    /// Everything is synced, and nothing comes any more: the next life has lost nothing.
    ///
    /// # Errors
    /// The disk: the next one takes itself for one that may have.
    pub(super) fn end_life(&self) -> io::Result<()> {
        self.votes.end_life()
    }

    /// Tells the operator that a group goes on without members that may have had more than it has.
    pub(super) fn warn_of_loss(&self, group: GroupId) {
        let line = "goes on without members that did not come back after a loss of power: \
                    messages that were acknowledged may be lost";
        self.host.log(Level::Error, format_args!("JetStream: the group {:016x} {line}", group.0));
    }

    /// Lives of other servers, as their frames have said.
    pub(super) fn lives(&self) -> BTreeMap<Peer, u32> {
        lock(&self.peers).lives().clone()
    }

    /// The life of this store, as frames have it: the low half.
    pub(super) fn life(&self) -> u32 {
        self.lived.short()
    }

    /// Outbox for the frames of one member.
    pub(super) fn outbox(&self) -> Arc<FrameOutbox> {
        FrameOutbox::new(&self.account, &self.host)
    }

    /// Time since this life began.
    pub(super) fn age(&self) -> Duration {
        self.host.instant().saturating_duration_since(self.lived.began)
    }

    /// The life of the store.
    pub(super) fn incarnation(&self) -> u64 {
        self.lived.number()
    }

    /// Nanoseconds since this life began, by the clock that only goes forward.
    fn nanoseconds(&self) -> u64 {
        let passed = self.host.instant().saturating_duration_since(self.lived.began);
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Time since this life began, for whoever waits for something and must not go by the time of
    /// day.
    pub(super) fn uptime(&self) -> Timestamp {
        i64::try_from(self.nanoseconds()).unwrap_or(i64::MAX)
    }

    /// Whether this server may vote, and stand for election: what its earlier life has promised is
    /// over.
    pub(super) fn may_vote(&self) -> bool {
        myelin_stdx::planted::bug(135) || lock(&self.peers).may_vote(self.nanoseconds())
    }

    /// Whether this server supports another one: no vote, and nobody who stands, against a leader
    /// there.
    pub(super) fn supports(&self, peer: Peer) -> bool {
        lock(&self.peers).supports(peer, self.nanoseconds())
    }

    /// The server is about to end, or to give nobody JetStream: it takes no lead any more.
    pub(super) fn leave(&self) {
        self.is_leaving.store(true, Relaxed);
    }

    /// The server goes on, and may lead again.
    pub(super) fn come_back(&self) {
        self.is_leaving.store(false, Relaxed);
    }

    /// Whether the server is about to end, or gives nobody JetStream for now.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Relaxed)
    }

    /// This server takes no lead in a group, as clients of this account cannot reach it.
    pub(in crate::engine) fn set_aside(&self, group: GroupId, account: &str) {
        self.members.set_aside(group, account);
    }

    /// Whether this server takes no lead in a group.
    pub(in crate::engine) fn is_aside(&self, group: GroupId) -> bool {
        self.members.is_aside(group)
    }

    /// The replica here of a group lacks messages that it had: its leader is asked for all. Answers
    /// whether that is new.
    pub(in crate::engine) fn note_damaged(&self, group: GroupId) -> bool {
        self.members.set_damaged(group, true)
    }

    /// Whether the stream of a group is on its way to another server.
    pub(in crate::engine) fn is_sending(&self, group: GroupId, to: Peer) -> bool {
        self.installs.is_sending(group, to)
    }

    /// Clients of an account can reach this server again.
    pub(in crate::engine) fn come_back_in(&self, account: &str) {
        self.members.come_back(account);
    }

    /// Whoever founds a group in this life with servers that have none: what an earlier life of
    /// this one has promised counts nowhere.
    pub(in crate::engine) fn has_promised_nothing(&self) {
        lock(&self.peers).has_promised_nothing();
    }

    fn member(&self, group: GroupId) -> Option<Arc<dyn GroupReplica>> {
        self.members.get(group)
    }

    fn members(&self) -> Vec<Arc<dyn GroupReplica>> {
        self.members.all()
    }

    /// Leaves a vote that is to be made durable, and of which its member is told then. Called in
    /// the member's turn: of two votes that are left the later one counts.
    pub(super) fn leave_vote(
        &self,
        place: GroupPlace,
        (vote, is_amnesiac): (Vote, bool),
        live: Weak<dyn GroupReplica>,
    ) {
        let (epoch, incarnation) = (place.epoch, self.lived.number());
        // Synced or not: the member has counted that in.
        let is_damaged = is_amnesiac;
        let state = HardState { epoch, vote, incarnation, is_amnesiac, is_damaged, ..HardState::default() };
        self.votes.add(place.group, state, live);
    }

    /// Has everything synced that is written. For threads that may wait.
    pub(super) fn sync_now(&self) {
        self.syncs.round(self.host.now());
    }

    /// Has all votes written that were left, unless somebody is on the way to.
    pub(super) fn write_votes(self: &Arc<Self>) {
        if !self.votes.claim() {
            return;
        }
        let groups = Arc::clone(self);
        self.host.spawn_sync(Box::new(move || {
            let written = groups.votes.write();
            let was_told = groups.votes.is_refused.swap(written.is_err(), Relaxed);
            if let Err(error) = written
                && !was_told
            {
                let line = format_args!("JetStream: votes of groups cannot be written: {error}");
                groups.host.log(Level::Error, line);
            }
        }));
    }

    /// Has what a stream has written synced, and its member told.
    pub(super) fn sync(self: &Arc<Self>, live: &Arc<dyn GroupReplica>) {
        if self.syncs.add(live) {
            let groups = Arc::clone(self);
            self.host.spawn_sync(Box::new(move || groups.syncs.run(groups.host.now())));
        }
    }

    /// Whether so much waits for another server that it gets no more entries for now.
    fn is_behind(&self, peer: Peer) -> bool {
        lock(&self.peers).waiting(peer) > MOST_WAITING
    }

    /// There is a link for frames to another server.
    pub(super) fn is_linked(&self, peer: Peer, link: &LinkedPeer) {
        lock(&self.peers).link(peer, link);
    }

    /// Another server has said of which cluster it is; `None`: of this server's.
    pub(super) fn is_of(&self, peer: Peer, cluster: Option<&str>) {
        lock(&self.peers).is_of(peer, cluster);
    }

    /// The cluster of a server that was linked in this life.
    pub(super) fn cluster_of(&self, peer: Peer) -> Option<String> {
        let known = lock(&self.peers).cluster_of(peer).map(|foreign| foreign.map(str::to_owned));
        known.map(|foreign| foreign.unwrap_or_else(|| self.host.cluster()))
    }

    /// The link for frames to another server has ended. Answers whether there is no other one.
    pub(super) fn is_unlinked(&self, peer: Peer, link: &LinkedPeer) -> bool {
        lock(&self.peers).unlink(peer, link)
    }

    /// Another server's process has ended, or nobody can say that it has not: its connections are
    /// closed.
    pub(super) fn is_lost(&self, peer: Peer) {
        lock(&self.peers).withdraw(peer);
        self.tell_all(MemberEvent::Lost(peer));
    }

    /// Has time pass for all members that do not rest.
    fn tick(&self) {
        for member in self.members.awake() {
            member.tell(MemberEvent::Tick);
            member.serve_off_shard();
        }
    }

    /// A member of this server rests from now on, or does not any more: time passes for it only
    /// then. Called in the member's turn.
    pub(super) fn rests(&self, group: GroupId, is_resting: bool) {
        self.members.rests(group, is_resting);
    }

    /// Replicas of a group that is led here are to be compared after some time.
    pub(super) fn compare_later(&self, group: GroupId, after: Duration) {
        self.members.compare_at(group, self.host.instant() + after);
    }

    /// Whether all of these servers support this one: one that is lost is noticed without a word in
    /// each group.
    pub(super) fn are_there(&self, peers: &[Peer]) -> bool {
        let (table, now) = (lock(&self.peers), self.nanoseconds());
        peers.iter().all(|&peer| peer == self.me || table.is_there(peer, now))
    }

    /// Sends messages to other servers, if there are any: publishes them in the account of frames.
    pub(in crate::engine) fn publish(&self, out: MessageBuf) {
        if !out.is_empty() {
            self.host.publish(&self.account, out);
        }
    }

    /// Has all members hear of something, on a thread that may wait.
    fn tell_all(&self, event: MemberEvent) {
        for member in self.members() {
            member.tell(event.clone());
            member.serve_off_shard();
        }
    }
}
