//! Member of a group whose log a stream is: when it hears something, and what follows.
//!
//! Whoever has the stream's core brings the two together at the end ([`LiveStream::advance_member`]):
//! the turn, and a thread to which the core was lent. What others tell the member waits until then.

use super::LiveStream;
use super::amnesia::Amnesia;
use super::resting::Resting;
use super::turn::{StreamWork, TurnResult};
use crate::engine::groups::{CommitWatcher, FrameOutbox, GroupConfig, Groups, write_frame, write_frames};
use myelin_broker::{Level, ServiceShard};
use myelin_jsapi::ApiError;
use myelin_replica::frame::{FrameBody, GroupPlace, LogWord, RestWord};
use myelin_replica::{Peer, RaftMessage, RaftMessageKind, RaftRole, Status, Vote};
use myelin_stdx::sync::lock;
use myelin_store::consumer::GroupConsumers;
use myelin_store::{GroupPosition, Timestamp};
use myelin_streams::ReplicaRole;
use myelin_streams::group::{GroupMember, GroupStart, MemberFailed, Persistence};
use myelin_streams::stream::StreamCore;
use myelin_wire::message_buf::MessageBuf;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// News for a member.
#[derive(Clone, Debug)]
pub(in crate::engine) enum MemberEvent {
    /// Another member of its group of this epoch has said something, to this life of this server.
    Message(u32, u32, RaftMessage),
    /// Another member of its group of this epoch has said where its log ends.
    Log(u32, Peer, LogWord),
    /// The leader of its group of this epoch has nothing to do any more.
    Rest(u32, Peer, RestWord),
    /// Time has passed.
    Tick,
    /// What it was to remember is durable.
    VotePersisted(Vote),
    /// Another server has begun a new life.
    NewLife(Peer, u32),
    /// Another server is gone.
    Lost(Peer),
    /// It is to stand for election, as nobody has led the group.
    Stand,
    /// Another member is to lead.
    HandOver,
}

impl MemberEvent {
    /// Whether a member that rests has something to do because of it. The answer to a last heartbeat
    /// is none.
    fn wakes(&self) -> bool {
        match self {
            Self::Message(.., message) => message.kind != RaftMessageKind::HeartbeatAnswer,
            Self::Tick | Self::Rest(..) => false,
            _ => true,
        }
    }
}

/// Place of a member beside its stream.
#[derive(Default)]
pub(super) struct MemberSeat {
    /// Perf: each turn looks here, and most streams have no group.
    is_taken: AtomicBool,
    /// Whether the member needs no ticks.
    is_resting: AtomicBool,
    inbox: Mutex<Vec<MemberEvent>>,
    member: Mutex<Option<SeatedMember>>,
    role: Mutex<RoleChange>,
    /// Told behind each turn that more may be committed.
    watcher: OnceLock<Weak<dyn CommitWatcher>>,
}

struct SeatedMember {
    member: GroupMember,
    place: GroupPlace,
    groups: Arc<Groups>,
    frames: Arc<FrameOutbox>,
    start: GroupStart,
    /// Lives of other servers, as this member has heard of them.
    lives: BTreeMap<Peer, u32>,
    /// As long as it may have lost what it has confirmed.
    amnesia: Option<Amnesia>,
    /// Other members that want to know where its log ends.
    askers: Vec<Peer>,
    /// Whether it has said last that it may have lost something.
    was_amnesiac: bool,
    resting: Resting,
    /// Whether others are to be told that it rests.
    tells_of_rest: bool,
}

/// Role that the stream is to have and has not yet.
#[derive(Default)]
struct RoleChange {
    wanted: Option<ReplicaRole>,
    /// Whether a thread is at it.
    is_under_way: bool,
}

/// Work that a member wants done after a turn, beside its messages.
#[derive(Default)]
pub(super) struct MemberWork {
    role: Option<ReplicaRole>,
    /// With whether it may have lost what it has confirmed.
    vote: Option<(Vote, bool)>,
    needs_sync: bool,
    /// Its frames have to be sent by whoever held the turn.
    must_send: bool,
}

impl MemberSeat {
    /// Whether the stream is a member of a group.
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Acquire)
    }
}

impl SeatedMember {
    fn hear(
        &mut self,
        event: MemberEvent,
        end: Option<RestWord>,
        now: Timestamp,
    ) -> Result<(), MemberFailed> {
        if event.wakes() && self.resting.end() {
            self.member.consensus_mut().wake(false)?;
        }
        match event {
            MemberEvent::Rest(epoch, peer, word) => {
                let consensus = self.member.consensus();
                let is_leader = epoch == self.place.epoch && consensus.leader() == Some(peer);
                let agrees = end == Some(word) && consensus.committed() == word.index;
                if is_leader && agrees && self.amnesia.is_none() {
                    self.resting.begin(word);
                    self.member.consensus_mut().rest();
                }
            }
            MemberEvent::Message(epoch, life, message) => {
                if epoch == self.place.epoch && self.may_hear(&message) {
                    self.note_committed(life, &message);
                    self.member.step(message)?;
                }
            }
            MemberEvent::Log(epoch, peer, word) if epoch == self.place.epoch => self.hear_log(peer, word),
            MemberEvent::Log(..) => {}
            MemberEvent::Tick if self.resting.is_under_way() => {}
            MemberEvent::Tick => {
                if self.groups.may_vote() {
                    self.member.tick()?;
                }
                self.look_at_logs(now)?;
                let is_idle =
                    self.member.consensus().role() == RaftRole::Leader && self.member.consensus().can_rest();
                if self.resting.tick(is_idle, self.member.consensus().last().1)
                    && self.groups.are_there(&self.start.voters)
                    && let Some(end) = end
                {
                    self.resting.begin(end);
                    self.member.consensus_mut().rest();
                    self.tells_of_rest = true;
                }
            }
            MemberEvent::VotePersisted(vote) => self.member.vote_persisted(vote),
            MemberEvent::NewLife(peer, life) => {
                let is_leader = self.member.consensus().leader() == Some(peer);
                let is_news = self.lives.insert(peer, life).is_some();
                if is_leader && is_news {
                    self.member.consensus_mut().wake(true)?;
                }
                self.amnesia.iter_mut().for_each(|amnesia| amnesia.forget(peer));
                self.member.consensus_mut().reset_peer(peer)?;
            }
            MemberEvent::Lost(peer) if self.member.consensus().leader() == Some(peer) => {
                self.member.consensus_mut().wake(true)?;
            }
            MemberEvent::Stand if self.member.consensus().term() == 0 => {
                self.member.consensus_mut().campaign()?;
            }
            MemberEvent::HandOver => self.hand_over()?,
            MemberEvent::Lost(_) | MemberEvent::Stand => {}
        }
        Ok(())
    }

    /// A leader says what is committed, and knows of this life: what it counts on is what this
    /// member has confirmed in this life.
    fn note_committed(&mut self, life: u32, message: &RaftMessage) {
        let is_of_leader =
            message.kind == RaftMessageKind::Append && message.term >= self.member.consensus().term();
        if is_of_leader && life == self.groups.life() {
            self.amnesia.iter_mut().for_each(|amnesia| amnesia.want(message.commit));
        }
    }

    /// Where its log ends.
    fn log(&self) -> LogWord {
        let (term, index) = self.member.consensus().last();
        LogWord { term, index, is_amnesiac: self.amnesia.is_some() }
    }

    fn hear_log(&mut self, peer: Peer, word: LogWord) {
        match &mut self.amnesia {
            Some(amnesia) => amnesia.hear(peer, word),
            None if word.is_amnesiac => self.askers.push(peer),
            None => {}
        }
    }

    /// Has members that may have lost something find a leader, where they have none.
    fn look_at_logs(&mut self, now: Timestamp) -> Result<(), MemberFailed> {
        let Some(amnesia) = &self.amnesia else { return Ok(()) };
        if self.member.consensus().leader().is_some() || !self.groups.may_vote() {
            return Ok(());
        }
        let me = self.groups.me;
        self.askers.extend(self.start.voters.iter().filter(|&&voter| voter != me));
        let Some(decision) = amnesia.decide((me, self.log()), &self.start.voters, now) else { return Ok(()) };
        if decision.lacks_some {
            self.groups.warn_of_loss(self.place.group);
        }
        self.remember();
        if decision.stands {
            self.member.consensus_mut().campaign()?;
        }
        Ok(())
    }

    /// It votes from here on.
    fn remember(&mut self) {
        self.amnesia = None;
        self.member.consensus_mut().recovered();
    }

    /// Has others rest that have what this leader has.
    fn tell_of_rest(&mut self, end: Option<RestWord>, out: &mut MessageBuf) {
        if !std::mem::take(&mut self.tells_of_rest) || !self.resting.is_under_way() {
            return;
        }
        let Some(end) = end else { return };
        for &peer in self.start.voters.iter().filter(|&&peer| peer != self.groups.me) {
            write_frame(&self.groups, peer, FrameBody::Rest(self.place, end), out);
        }
    }

    /// Writes down for others where its log ends, if they are to know.
    fn answer_askers(&mut self, out: &mut MessageBuf) {
        let word = self.log();
        for peer in self.askers.drain(..) {
            write_frame(&self.groups, peer, FrameBody::Log(self.place, word), out);
        }
    }

    /// Hands over to the member that has the most of the log.
    fn hand_over(&mut self) -> Result<(), MemberFailed> {
        let me = self.groups.me;
        let others = self.member.status().members.into_iter().filter(|member| member.peer != me);
        let heir = others.max_by_key(|member| (member.is_active, member.matched));
        if let Some(heir) = heir {
            self.member.consensus_mut().transfer(heir.peer)?;
        }
        Ok(())
    }

    /// A server that has just begun does not vote, but where a leader hands over.
    fn may_hear(&self, message: &RaftMessage) -> bool {
        let asks = matches!(message.kind, RaftMessageKind::PreVote | RaftMessageKind::Vote);
        !asks || message.is_transfer || self.groups.may_vote()
    }
}

impl LiveStream {
    /// Makes the stream a member of a group: of a new one if its log is of none. It follows from
    /// here on, until its member is elected. Only for threads that may wait.
    ///
    /// # Errors
    /// The stream is gone or has failed, or what it has stored is no log of this group.
    pub(in crate::engine) fn take_seat(
        self: &Arc<Self>,
        groups: &Arc<Groups>,
        config: &GroupConfig,
        (seed, is_synced): (u64, bool),
    ) -> Result<(), ApiError> {
        let GroupConfig { place, voters } = config;
        if !self.consumers.is_of_group() {
            let position =
                GroupPosition { epoch: place.epoch.into(), term: 0, index: 0, chain: 0, commit: 0 };
            self.join_group(position, GroupConsumers::in_memory(0))?;
        }
        self.set_role(ReplicaRole::Follower);
        let (vote, is_amnesiac) = groups.recall(place.group, self.is_stored());
        // What is synced before it is confirmed is not lost.
        let is_amnesiac = is_amnesiac && !is_synced;
        let start = GroupStart {
            me: groups.me,
            voters: voters.clone(),
            vote,
            is_amnesiac,
            seed,
            persistence: if is_synced { Persistence::Synced } else { Persistence::Written },
        };
        let mut guard = self.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
        let (core, _) = guard.parts();
        let member = GroupMember::open(core, start.clone()).map_err(ApiError::stream_general)?;
        let seated = SeatedMember {
            member,
            place: *place,
            groups: Arc::clone(groups),
            frames: groups.outbox(),
            start,
            lives: groups.lives(),
            amnesia: is_amnesiac.then(|| Amnesia::new(self.scope.host.now())),
            askers: Vec::new(),
            was_amnesiac: is_amnesiac,
            resting: Resting::default(),
            tells_of_rest: false,
        };
        *lock(&self.seat.member) = Some(seated);
        self.seat.is_taken.store(true, Release);
        drop(guard);
        groups.add(config, self);
        Ok(())
    }

    /// How its member sees its group; `None` if it has none.
    pub fn group_status(&self) -> Option<Status> {
        lock(&self.seat.member).as_ref().map(|seated| seated.member.status())
    }

    /// Has the first member of a new group stand for election at once. Only for threads that may
    /// wait.
    pub(in crate::engine) fn stand_first(&self) {
        self.tell_member(MemberEvent::Stand);
        self.serve_member_off_shard();
    }

    /// Has another member lead, if this one does and there is one. Only for threads that may wait.
    pub(in crate::engine) fn hand_over(&self) {
        self.tell_member(MemberEvent::HandOver);
        self.serve_member_off_shard();
    }

    /// Has somebody told, behind each turn, that more may be committed. To be called once.
    pub(in crate::engine) fn watch_commits(&self, watcher: Weak<dyn CommitWatcher>) {
        let _ = self.seat.watcher.set(watcher);
    }

    /// Whether all entries of its group are of one term: nobody has led it before who leads it now.
    /// Only for threads that may wait.
    pub(in crate::engine) fn has_one_term(&self) -> bool {
        let Some(mut guard) = self.lock_core() else { return false };
        let outline = guard.parts().0.store().log_outline();
        outline.is_ok_and(|outline| outline.is_none_or(|log| log.base.0 == 0 && log.terms.len() <= 1))
    }

    /// Whether its member needs no ticks.
    pub(in crate::engine) fn is_member_resting(&self) -> bool {
        self.seat.is_resting.load(Acquire)
    }

    /// Leaves news for its member. Somebody has to [serve](Self::serve_member) it then.
    pub(in crate::engine) fn tell_member(&self, event: MemberEvent) {
        lock(&self.seat.inbox).push(event);
    }

    /// Has its member see what was left for it. For shards that hold no turn.
    pub(in crate::engine) fn serve_member(&self, shard: &mut ServiceShard) {
        let after = self.submit(StreamWork::Member, shard.spare_buf());
        let spare = self.deliver(after, shard);
        shard.keep_buf(spare);
    }

    /// Has its member see what was left for it. For threads that may wait.
    pub(in crate::engine) fn serve_member_off_shard(&self) {
        self.submit_and_wait(StreamWork::Member);
    }

    /// Brings the stream and its member to the same point: for whoever has the core, before it goes
    /// back.
    pub(super) fn advance_member(&self, core: &mut StreamCore, after: &mut TurnResult) {
        let mut seat = lock(&self.seat.member);
        let Some(seated) = &mut *seat else { return };
        if core.store().failure().is_some() {
            // It is opened anew together with its stream.
            return;
        }
        let events = std::mem::take(&mut *lock(&self.seat.inbox));
        let now = self.scope.host.now();
        let end = end_of_log(core);
        let heard = events.into_iter().try_for_each(|event| seated.hear(event, end, now));
        let advanced = heard.and_then(|()| seated.member.advance(core, now, &mut after.effects));
        let advanced = advanced.and_then(|work| {
            if seated.resting.is_past(seated.member.consensus().last().1) && seated.resting.end() {
                seated.member.consensus_mut().wake(false)?;
            }
            Ok(work)
        });
        self.seat.is_resting.store(seated.resting.is_under_way(), Release);
        match advanced {
            Ok(work) => {
                let mut frames = MessageBuf::default();
                write_frames(&seated.groups, (seated.place, &seated.lives), work.messages, &mut frames);
                let committed = seated.member.consensus().committed();
                if seated.amnesia.as_ref().is_some_and(|amnesia| amnesia.is_over(committed)) {
                    seated.remember();
                }
                seated.answer_askers(&mut frames);
                seated.tell_of_rest(end, &mut frames);
                let is_amnesiac = seated.amnesia.is_some();
                let is_news = std::mem::replace(&mut seated.was_amnesiac, is_amnesiac) != is_amnesiac;
                let remembered = is_news.then(|| seated.member.consensus().vote());
                let MemberWork { role, vote, needs_sync, must_send } = &mut after.member;
                *must_send |= seated.frames.add(&mut frames);
                *role = work.role.or(*role);
                *vote = work.vote.or(remembered).map(|vote| (vote, is_amnesiac)).or(*vote);
                *needs_sync = work.needs_sync;
            }
            Err(failed) => {
                core.store().give_up(&format!("as a member of its group: {failed}"));
                core.released(&mut after.effects);
            }
        }
    }

    /// Opens its member anew, with a stream that was.
    pub(super) fn reopen_member(&self, core: &mut StreamCore) {
        let mut seat = lock(&self.seat.member);
        let Some(seated) = &mut *seat else { return };
        lock(&self.seat.inbox).clear();
        let (vote, _) = seated.groups.recall(seated.place.group, self.is_stored());
        let start = GroupStart { vote, is_amnesiac: seated.amnesia.is_some(), ..seated.start.clone() };
        match GroupMember::open(core, start) {
            Ok(member) => seated.member = member,
            Err(error) => {
                let (account, name) = (self.scope.account.name(), &self.scope.name);
                let line = format_args!("JetStream stream '{account} > {name}' is no member now: {error}");
                self.scope.host.log(Level::Error, line);
            }
        }
    }

    /// Sees to what its member wants done, but for its frames.
    pub(super) fn apply_member_work(&self, work: &mut MemberWork) {
        if let Some(watcher) = self.seat.watcher.get().and_then(Weak::upgrade) {
            watcher.committed();
        }
        let seat = lock(&self.seat.member);
        let (Some(seated), Some(me)) = (&*seat, self.me.upgrade()) else { return };
        let (groups, place) = (Arc::clone(&seated.groups), seated.place);
        drop(seat);
        if let Some(vote) = work.vote.take() {
            groups.persist_vote(place, vote, &me);
        }
        if std::mem::take(&mut work.needs_sync) {
            groups.sync(&me);
        }
        if let Some(role) = work.role.take() {
            let mut change = lock(&self.seat.role);
            change.wanted = Some(role);
            if !std::mem::replace(&mut change.is_under_way, true) {
                drop(change);
                self.scope.host.spawn_sync(Box::new(move || me.change_role()));
            }
        }
    }

    /// Gives the stream the role that its member wants, and the one that it wants then.
    fn change_role(self: &Arc<Self>) {
        loop {
            let wanted = {
                let mut change = lock(&self.seat.role);
                change.is_under_way = change.wanted.is_some();
                change.wanted.take()
            };
            let Some(role) = wanted else { return };
            if role != self.role() {
                self.set_role(role);
            }
            self.serve_member_off_shard();
            let groups = lock(&self.seat.member).as_ref().map(|seated| Arc::clone(&seated.groups));
            groups.into_iter().for_each(|groups| groups.has_role(self, self.role()));
        }
    }

    /// Publishes its member's frames on a shard, if this turn has to.
    pub(super) fn send_frames(&self, work: &mut MemberWork, shard: Option<&mut ServiceShard>) {
        if !std::mem::take(&mut work.must_send) {
            return;
        }
        let frames = lock(&self.seat.member).as_ref().map(|seated| Arc::clone(&seated.frames));
        match (frames, shard) {
            (Some(frames), Some(shard)) => frames.send(shard),
            (Some(frames), None) => frames.send_elsewhere(),
            (None, _) => {}
        }
    }
}

/// Where the log of a stream's group ends.
fn end_of_log(core: &StreamCore) -> Option<RestWord> {
    let GroupPosition { term, index, chain, .. } = core.store().group()?;
    Some(RestWord { term, index, chain })
}
