//! The meta group: which streams there are in the cluster, on which servers, with which
//! configuration.
//!
//! Owns the *assignments*: each is a message of the internal stream `_meta_`, of which all servers
//! of the cluster that take part in groups have a replica. Whoever leads it decides on requests
//! that make, change and remove streams; every server does what is committed, in order. What a
//! stream answers is for the stream's own leader. Must never remove anything for want of an
//! assignment: only a committed one that says so does.
//!
//! # One stream is made
//!
//! 1. `STREAM.CREATE` reaches all servers; the meta leader checks it, chooses servers, and
//!    publishes the assignment to `_meta_` (`engine/calls/clustered.rs`). The others are silent.
//! 2. When it is committed each server looks at it (`Meta::apply`); those that are named make a
//!    replica, and the first of them stands for election.
//! 3. Whoever leads the stream first answers the client (`Meta::answer_pending`).

mod account_use;
mod answers;
mod asked_before;
mod assignment;
mod candidates;
mod changing;
mod clocks;
mod clusters;
mod doubt;
mod doubts;
mod formation;
mod founding;
mod gather;
mod greeting;
mod kept_facts;
mod late_answers;
mod leadership;
mod own_config;
mod placement;
mod placement_facts;
mod proposals;
mod reconcile;
mod refused;
mod repairs;
mod rescue;
mod restored;
mod restored_stream;
mod retries;
mod roster;
mod servers;
mod shown;
mod stalled_groups;
mod suitability;
mod view;

use super::account::AccountStreams;
use super::cluster::ClusterMember;
use super::groups::{GroupConfig, Groups, GroupsObserver};
use super::live::{AskedLeader, AskedWord, JoinTerms, LiveStream, MemberWatcher, PublishKey};
use super::waits::Waiters;
use super::{CallScope, JetStream};
use answers::Answers;
use assignment::{write_behind, write_on};
use doubts::Doubts;
pub use founding::FoundingTerms;
use gather::{AskService, AskedService, FactsService};
use kept_facts::KeptFacts;
use myelin_broker::{Level, Service};
use myelin_jsapi::advisory::damage::ReplicaNews;
use myelin_jsapi::config::{AccountLimits, StreamConfig};
use myelin_replica::frame::GroupPlace;
use myelin_replica::{GroupId, Peer};
use myelin_stdx::sync::lock;
use myelin_store::{Message, ReadError, Seq, Wait};
use myelin_streams::ReplicaRole;
use own_config::{META, SERVERS, config};
pub use repairs::ReplicaRepairs;
use restored_stream::RestoredStream;
use retries::{Looks, MetaFaults};
pub use roster::peer_of;
use roster::{Rescue, Roster, ServerRecord, peers_of};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

pub(super) use assignment::{AnswerKind, Asked, AssignedGroup, Assignment, StreamKey};
pub(super) use placement::PlaceTerms;
use placement_facts::needs_facts;
pub(super) use restored_stream::RestoredPlace;
pub(super) use view::{AccountView, Assignments};

/// The group of the stream. No stream has this id.
const META_GROUP: GroupId = GroupId(1);
/// A proposal that is not committed after so long is answered for no longer.
const PROPOSAL_WAIT: Duration = Duration::from_secs(10);
/// A leader that has not seen yet what is committed answers after so long as things look.
const CATCH_UP_WAIT: Duration = Duration::from_secs(2);
/// A member that has heard of no leader for so long asks whether it is one.
const UNHEARD: Duration = Duration::from_secs(4);
/// A group counts as one without a leader when it has had none for so long.
pub(super) const LEADERLESS: Duration = Duration::from_secs(10);

/// The meta group as this server sees it.
pub(super) struct Meta {
    jetstream: Weak<JetStream>,
    groups: Arc<Groups>,
    /// The stream, and its account, which is nobody else's.
    live: Mutex<Arc<LiveStream>>,
    account: Arc<AccountStreams>,
    /// This server's name.
    name: String,
    /// Names of the servers that founded the group, with commas: they tell it from others.
    founders: String,
    members: MetaMembers,
    view: Mutex<Assignments>,
    waits: Waiters,
    answers: Answers,
    looks: Looks,
    leader_seen: LeaderSeen,
    watched: leadership::Watched,
    faults: MetaFaults,
    /// Streams that were restored here and are not yet as they are to be.
    restored: Mutex<Vec<RestoredStream>>,
    me: Weak<Self>,
}

/// Servers of the group, as this one knows it.
struct MetaMembers {
    roster: Mutex<Roster>,
    /// Whether this server was removed from the group.
    is_out: AtomicBool,
    /// Whether that was while it ran: it comes back when it is started anew.
    was_put_out: AtomicBool,
    /// Whether a server is being removed.
    is_removing: AtomicBool,
    /// Whether servers were heard of that are of another group.
    is_strange: AtomicBool,
    /// Members that the leader wants, as it has said last.
    wanted: Mutex<Vec<Peer>>,
    /// Facts about them by which streams are placed.
    facts: Mutex<KeptFacts>,
    /// A rescue that is under way.
    rescue: Mutex<Option<Rescue>>,
    /// When it was told last that the clock here is not as theirs, while that is so.
    clock_told: Mutex<Option<Instant>>,
}

impl MetaMembers {
    fn new(founders: Vec<String>) -> Self {
        let [is_out, was_put_out, is_removing, is_strange] = [false; 4].map(AtomicBool::new);
        let (roster, wanted) = (Mutex::new(Roster::new(founders)), Mutex::default());
        let (facts, rescue, clock_told) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { roster, is_out, was_put_out, is_removing, is_strange, wanted, facts, rescue, clock_told }
    }
}

/// Moments at which leaders of the group were known, and not.
struct LeaderSeen {
    /// Since when no leader is known.
    leaderless: Mutex<Option<Instant>>,
    /// When a leader was known last, as was looked now and then.
    last: Mutex<Instant>,
    /// Whether this server had everything that it knew to be committed while one was known: at the
    /// last look, and at two looks in a row in this life.
    is_current: AtomicBool,
    has_been_current: AtomicBool,
    /// Requests that wait until it is known who leads.
    doubts: Doubts,
}

impl LeaderSeen {
    fn new(now: Instant) -> Self {
        let (leaderless, last) = (Mutex::new(Some(now)), Mutex::new(now));
        let [is_current, has_been_current] = [false; 2].map(AtomicBool::new);
        Self { leaderless, last, is_current, has_been_current, doubts: Doubts::default() }
    }
}

/// Whether a request is for this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Answered here.
    Here,
    /// Another server answers, or nobody.
    Silent,
    /// Nobody may be able to answer, but this server may be in a moment: [`Meta::certain`].
    InDoubt,
    /// Nobody can answer.
    Unavailable,
    /// No server that has the stream is there.
    Offline,
}

impl Meta {
    /// Takes part in the meta group from now on. `founders`: names of all of its servers when it
    /// was made; later those are known already. `servers`: those that are members now. `is_new`:
    /// this server has been a member of it in no earlier life.
    ///
    /// # Errors
    /// Words for why the stream cannot be opened or made.
    pub(super) fn begin(
        jetstream: &Arc<JetStream>,
        groups: &Arc<Groups>,
        (founders, servers): (&[String], &[String]),
        is_new: bool,
    ) -> Result<Arc<Self>, String> {
        let account = AccountStreams::new(jetstream, &groups.account, Some(AccountLimits::default()));
        let found = lock(&jetstream.found.by_account).remove(groups.account.name()).unwrap_or_default();
        found.into_iter().for_each(|stream| account.restore(stream));
        let live = match account.stream(META) {
            Some(live) => live,
            None => {
                let made = account.create(jetstream, config(founders), jetstream.host.now());
                let live = made.map_err(|error| error.to_string())?;
                jetstream.settle().map_err(|error| error.to_string())?;
                live
            }
        };
        let known = live.config().metadata.get(SERVERS).cloned().unwrap_or_default();
        let founders: Vec<String> = known.split(',').map(str::to_owned).collect();
        let voters = peers_of(&founders);
        // Servers that were told of others than these are no members of this group.
        let epoch = crc32c::crc32c(known.as_bytes()).max(1);
        let place = GroupPlace { group: META_GROUP, epoch };
        let (seed, is_synced) = (jetstream.seed(), jetstream.settings.sync_always);
        let terms = JoinTerms::of(seed, is_synced, is_new);
        is_new.then(|| groups.has_promised_nothing());
        live.join(groups, &GroupConfig { place, voters }, terms).map_err(|error| error.to_string())?;
        let stands_first = is_new && founders.first() == Some(&jetstream.settings.server_name);
        let meta = Arc::new_cyclic(|me| Self {
            jetstream: Arc::downgrade(jetstream),
            groups: Arc::clone(groups),
            live: Mutex::new(live),
            account,
            name: jetstream.settings.server_name.clone(),
            founders: known,
            members: MetaMembers::new(founders),
            view: Mutex::default(),
            waits: Waiters::default(),
            answers: Answers::new(jetstream),
            looks: Looks::default(),
            leader_seen: LeaderSeen::new(jetstream.host.instant()),
            watched: leadership::Watched::default(),
            faults: MetaFaults::default(),
            restored: Mutex::default(),
            me: Weak::clone(me),
        });
        groups.observe(Arc::downgrade(&meta) as Weak<dyn GroupsObserver>);
        meta.bind_services();
        meta.faults.found.store(meta.live().reader().last_logged(), Release);
        meta.live().watch_member(Arc::downgrade(&meta) as Weak<dyn MemberWatcher>);
        // What is there from earlier lives was answered then.
        meta.apply(false);
        // Without a log it cannot know who has come since, and may have more than it has.
        meta.tell_servers(servers);
        if stands_first {
            meta.live().stand_first();
        }
        Ok(meta)
    }

    /// Answers other servers. As long as the account of frames is there, which is for ever.
    fn bind_services(&self) {
        let asked = format!("_ask_.{}", self.groups.me);
        let service: Arc<dyn Service> = Arc::new(AskService(Weak::clone(&self.me)));
        let _ = self.groups.account.bind(asked.as_bytes(), service);
        let asked: Arc<dyn Service> = Arc::new(AskedService(Weak::clone(&self.me)));
        let _ = self.groups.account.bind(AskedWord::subject(self.groups.me).as_bytes(), asked);
        let facts: Arc<dyn Service> = Arc::new(FactsService(Weak::clone(&self.me)));
        let _ = self.groups.account.bind(self.facts_subject().as_bytes(), facts);
    }

    /// Whether this server decides.
    pub(super) fn leads(&self) -> bool {
        self.live().role().leads()
    }

    pub(super) fn view(&self) -> MutexGuard<'_, Assignments> {
        lock(&self.view)
    }

    /// Whether other servers have to be asked before such a stream is placed.
    pub(super) fn asks_for(&self, config: &StreamConfig) -> bool {
        needs_facts(config) || self.has_unique_tags()
    }

    /// Whether servers have to be asked for the tags that replicas must not share.
    fn has_unique_tags(&self) -> bool {
        let facts = self.jetstream.upgrade().map(|jetstream| jetstream.host.placement_facts());
        facts.is_some_and(|facts| !facts.unique_prefix.is_empty() || facts.max_ha_assets > 0)
    }

    /// Whether this server has not seen yet what it knows to be committed.
    pub(super) fn is_behind(&self) -> bool {
        self.live().released() > self.view().seen()
    }

    /// Waits until this server has seen what it knows now to be committed.
    pub(super) async fn catch_up(&self) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let (target, deadline) = (self.live().released(), jetstream.host.instant() + CATCH_UP_WAIT);
        let is_over = || {
            let has_seen = self.view().seen() >= target;
            (has_seen || !self.leads() || jetstream.host.instant() >= deadline).then_some(())
        };
        self.waits.until(is_over).await;
    }

    /// Streams of which this server has a replica.
    pub(super) fn assigned_here(&self) -> Vec<Arc<Assignment>> {
        self.view().on_server(&self.name)
    }

    /// The meta stream.
    pub(super) fn live(&self) -> Arc<LiveStream> {
        Arc::clone(&lock(&self.live))
    }

    /// Nanoseconds since another server was there for certain.
    pub(super) fn heard_ago(&self, peer: Peer) -> i64 {
        self.groups.heard_ago(peer)
    }

    /// Whether another server is there, as far as this one knows.
    pub(super) fn is_there(&self, peer: Peer) -> bool {
        self.groups.is_there(peer)
    }

    /// Whether none of the servers is there that have a stream.
    fn is_offline(&self, assignment: &Assignment) -> bool {
        !assignment.peers.iter().any(|server| self.has(server))
    }

    /// Whether too few servers are there of those that have a stream for one to lead it.
    pub(super) fn lacks_quorum(&self, assignment: &Assignment) -> bool {
        assignment.peers.iter().filter(|server| self.has(server)).count() * 2 <= assignment.peers.len()
    }

    /// Whether a server of the group is there, this one or another, as far as this one knows: one
    /// that was removed and runs still is not.
    pub(super) fn has(&self, server: &str) -> bool {
        let is_there = || peer_of(server).is_some_and(|peer| self.groups.is_there(peer));
        server == self.name || is_there() && lock(&self.members.roster).removed(server).is_none()
    }

    /// Whether a server of the group is there or was until a moment ago: one that is slow for a
    /// second is not away.
    pub(super) fn was_there_lately(&self, server: &str) -> bool {
        let ago = || peer_of(server).map_or(0, |peer| self.groups.heard_ago(peer)).unsigned_abs();
        let is_removed = lock(&self.members.roster).removed(server).is_some();
        // Of one that was never heard there is no time.
        self.has(server) || !is_removed && (1..LEADERLESS.as_nanos() as u64).contains(&ago())
    }

    /// The name of a server; as nats-server says it of one that it does not know.
    pub(super) fn name_of(&self, peer: Peer) -> String {
        let known = lock(&self.members.roster).name_of(peer).cloned();
        known.unwrap_or_else(|| format!("Server name unknown at this time (peerID: {peer})"))
    }

    /// Whether a request that is for the meta leader is for this server.
    pub(super) fn route_to_leader(&self) -> Route {
        if self.leads() {
            // Another server may lead already, and answers then.
            return if self.live().leads_surely() { Route::Here } else { Route::InDoubt };
        }
        if self.is_out() {
            return Route::Silent;
        }
        let leader = self.live().group_status().and_then(|status| status.leader);
        let Some(jetstream) = self.jetstream.upgrade() else { return Route::Silent };
        let now = jetstream.host.instant();
        let mut leaderless = lock(&self.leader_seen.leaderless);
        if let Some(leader) = leader {
            *leaderless = None;
            return self.route_to(leader);
        }
        let since = *leaderless.get_or_insert(now);
        if now.saturating_duration_since(since) < LEADERLESS { Route::InDoubt } else { Route::Unavailable }
    }

    /// Whether a request may be for this server, where this is the leader that it knows and it does
    /// not lead itself.
    fn route_to(&self, leader: Peer) -> Route {
        // Elected here, and to lead in a moment, or handing over; or there may be another one soon.
        let is_certain = leader != self.groups.me && self.is_there(leader);
        if is_certain { Route::Silent } else { Route::InDoubt }
    }

    /// Whether a request that is about a stream is for this server.
    pub(super) fn route_to_stream(&self, account: &AccountStreams, stream: &str) -> Route {
        let assignment = self.view().get(account.account().name(), stream);
        let local = account.stream(stream);
        if let (Some(assignment), Some(live)) = (&assignment, &local)
            && (assignment.created != live.created() || !assignment.is_on(&self.name))
        {
            // Another stream of its name, which is not served.
            return Route::Silent;
        }
        match local {
            _ if self.is_out()
                && !local.as_ref().is_some_and(|live| live.role().leads() && live.is_of_group()) =>
            {
                Route::Silent
            }
            Some(live) if live.role().leads() => {
                if live.leads_surely() {
                    Route::Here
                } else {
                    Route::InDoubt
                }
            }
            Some(live) => {
                let leader = live.group_status().map(|status| status.leader);
                let is_young = || live.began_within(LEADERLESS);
                match leader {
                    None => Route::Silent,
                    Some(Some(leader)) => self.route_to(leader),
                    Some(None) if is_young() => Route::InDoubt,
                    Some(None) => Route::Unavailable,
                }
            }
            // Its leader may be there, and answers then.
            None if !self.leads() && assignment.as_ref().is_some_and(|known| !self.lacks_quorum(known)) => {
                Route::Silent
            }
            None if !self.leads() => self.route_to_leader(),
            None if !self.live().leads_surely() => Route::InDoubt,
            None => match assignment {
                None => Route::Here,
                Some(assignment) if self.is_offline(&assignment) => Route::Offline,
                Some(_) => Route::Silent,
            },
        }
    }

    fn note_server(&self, jetstream: &JetStream, seq: Seq, message: &Message<'_>) {
        match ServerRecord::decode(message.payload) {
            Some(record) => lock(&self.members.roster).set(record, seq, message.timestamp),
            None => {
                let line = format_args!("JetStream: the record {seq} of a server is not understood");
                jetstream.host.log(Level::Error, line);
            }
        }
    }

    /// Notes that an assignment cannot be read. Answers whether nobody ever reads it again.
    fn is_lost(&self, jetstream: &JetStream, seq: Seq, error: &ReadError) -> bool {
        if self.faults.unread.swap(seq, AcqRel) != seq {
            let line = format_args!("JetStream: the assignment {seq} cannot be read: {error}");
            jetstream.host.log(Level::Error, line);
        }
        matches!(error, ReadError::Damaged(_))
    }

    /// Looks at what was committed since the last time.
    fn apply(&self, are_answered: bool) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let _turn = lock(&self.looks.turn);
        let reader = self.live().reader();
        let mut last = reader.release().seq();
        let (mut changed, mut has_servers, mut buffer) = (Vec::new(), false, Vec::new());
        let first = self.view().seen() + 1;
        for seq in first..=last {
            let read = reader.get(seq, Wait::Allowed, &mut buffer);
            let message = match read {
                Ok(Some(message)) => message,
                // A later one is about the same stream.
                Ok(None) => continue,
                Err(error) if self.is_lost(&jetstream, seq, &error) => continue,
                Err(_) => {
                    // What follows may build on it: it is looked at again.
                    last = seq - 1;
                    break;
                }
            };
            if message.subject.starts_with(roster::SUBJECTS.as_bytes()) {
                self.note_server(&jetstream, seq, &message);
                has_servers = true;
                continue;
            }
            match Assignment::decode(message.payload) {
                Some(assignment) => {
                    let committed = (assignment, seq, message.timestamp);
                    self.note_assignment(committed, are_answered, &mut changed);
                }
                None => {
                    let line = format_args!("JetStream: no assignment that this version knows: {seq}");
                    jetstream.host.log(Level::Error, line);
                }
            }
        }
        self.view().see(last);
        self.note_old_groups();
        if has_servers {
            // Whoever removes this server waits for just this.
            self.waits.wake();
            self.see_servers(&jetstream, are_answered);
        }
        let has_new = changed.iter().any(|(assignment, ..)| !assignment.is_removed);
        self.carry_out_all(&jetstream, changed);
        if has_new {
            // Those of other servers, too.
            jetstream.seek_origins();
        }
        self.waits.wake();
    }

    /// Notes which groups may be older than this server's disk, once it knows all that there were
    /// when it came: its replica of the meta stream has everything that was committed.
    fn note_old_groups(&self) {
        if !self.groups.is_disk_unknown() {
            return;
        }
        // In this order: it is amnesiac until all is here that was committed, and this server is
        // behind until it has looked at that.
        let status = self.live().group_status();
        if status.is_some_and(|status| !status.is_amnesiac) && !self.is_behind() {
            self.groups.note_old_groups(self.view().latest());
        }
    }

    /// Whether this is the meta stream.
    fn is_meta(&self, account: &str, stream: &str) -> bool {
        stream == META && account == self.groups.account.name()
    }

    /// Has something done on the thread of the API.
    fn on_api(&self, act: impl FnOnce(&Self, &Arc<JetStream>) + Send + 'static) {
        let (Some(meta), Some(jetstream)) = (self.me.upgrade(), self.jetstream.upgrade()) else { return };
        let task = move || {
            if let Some(jetstream) = meta.jetstream.upgrade() {
                act(&meta, &jetstream);
            }
        };
        jetstream.host.spawn_api(CallScope::Nothing, Box::new(task));
    }
}

impl ClusterMember for Meta {
    fn meta_stream(&self) -> Arc<LiveStream> {
        self.live()
    }

    fn account_is_there(&self, account: &str) {
        let account = account.to_owned();
        self.on_api(move |meta, jetstream| {
            let assigned = meta.view().of_account(&account);
            assigned.iter().for_each(|assignment| meta.reconcile(jetstream, assignment, false));
        });
    }
}

impl GroupsObserver for Meta {
    fn looks_at_disk(&self) {
        self.note_old_groups();
    }

    fn passes(&self) {
        // Some may have waited for too long.
        self.waits.wake();
        let has_leader = self.live().group_status().is_some_and(|status| status.leader.is_some());
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        self.look_at_quorums(&jetstream);
        self.look_at_clock(&jetstream);
        if self.is_behind() {
            self.committed(self.groups.account.name(), META);
        }
        self.look_at_uses(&jetstream);
        self.on_api(|meta, jetstream| meta.look_at_rescue(jetstream));
        self.replicate_restored(&jetstream);
        self.retry(&jetstream);
        let now = jetstream.host.instant();
        if has_leader {
            *lock(&self.leader_seen.last) = now;
            let is_current = !self.is_behind();
            if self.leader_seen.is_current.swap(is_current, AcqRel) && is_current {
                self.leader_seen.has_been_current.store(true, Release);
            }
            self.on_api(|meta, jetstream| {
                meta.want_servers();
                meta.note_clusters(jetstream);
                meta.replace_servers(jetstream);
                meta.offer_local(jetstream);
                meta.report_changes(jetstream);
            });
        } else if now.saturating_duration_since(*lock(&self.leader_seen.last)) >= UNHEARD
            && !self.members.was_put_out.load(Acquire)
        {
            jetstream.ask_for_meta();
        }
    }
}

impl MemberWatcher for Meta {
    fn ask_taken(&self, stream: (&str, &str), leader: Peer, asked: (Arc<AskedLeader>, Vec<PublishKey>)) {
        self.ask_next_leader(stream, leader, asked);
    }

    fn is_replaced(&self, account: &str, stream: &str) {
        if self.is_meta(account, stream) {
            let Some(anew) = self.account.stream(stream) else { return };
            let before = std::mem::replace(&mut *lock(&self.live), anew);
            if before.is_damaged() {
                // Assignments that it lacked are among those that come before the last one seen.
                self.view().see_again();
            }
            self.apply(false);
            self.tell_servers(&[]);
            return;
        }
        let assignment = self.view().get(account, stream);
        let home = self.jetstream.upgrade().and_then(|jetstream| jetstream.account(account));
        let anew = home.and_then(|home| home.stream(stream));
        if let (Some(assignment), Some(anew)) = (assignment, anew) {
            anew.tell_members(self.peers_with(&assignment));
            anew.want_members(peers_of(&assignment.peers));
        }
    }

    fn has_leader(&self, account: &str, stream: &str, leader: Option<Peer>) {
        if self.is_meta(account, stream) {
            self.is_led_elsewhere(leader);
        }
        self.waits.wake();
    }

    fn has_role(&self, account: &str, stream: &str, role: ReplicaRole) {
        match (self.is_meta(account, stream), role.leads()) {
            (true, true) => {
                self.is_leading();
                self.on_api(|meta, _| meta.want_servers());
            }
            (true, false) => {
                self.want_nothing();
                self.waits.send_away();
            }
            (false, true) => self.is_led_here(account, stream),
            (false, false) => {}
        }
        self.waits.wake();
    }

    fn is_damaged(&self, account: &str, stream: &str, news: ReplicaNews) {
        let (account, stream) = (account.to_owned(), stream.to_owned());
        self.on_api(move |meta, jetstream| meta.report_replica(jetstream, (&account, &stream), news));
    }

    fn asks_to_open(&self, account: &str, stream: &str) {
        let key = StreamKey::new(account, stream);
        self.on_api(move |meta, jetstream| meta.keep(jetstream, &key));
    }

    fn has_members(&self, account: &str, stream: &str) {
        let (account, stream) = (account.to_owned(), stream.to_owned());
        self.on_api(move |meta, jetstream| meta.report_change(jetstream, &account, &stream));
    }

    fn committed(&self, account: &str, stream: &str) {
        if !self.is_meta(account, stream)
            || self.live().released() <= self.view().seen()
            || self.looks.is_queued.swap(true, AcqRel)
        {
            return;
        }
        self.on_api(|meta, _| {
            meta.looks.is_queued.store(false, Release);
            meta.apply(true);
        });
    }
}
