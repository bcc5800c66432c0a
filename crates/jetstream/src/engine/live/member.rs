//! Member of a group whose log a stream is: when it hears something, and what follows.
//!
//! Whoever has the stream's core brings the two together at the end ([`LiveStream::advance_member`]):
//! the turn, and a thread to which the core was lent. What others tell the member waits until then.

use super::LiveStream;
use super::amnesia::Amnesia;
use super::turn::{StreamWork, TurnResult};
use crate::engine::groups::{FrameOutbox, GroupConfig, Groups, write_frames};
use myelin_broker::{Level, ServiceShard};
use myelin_jsapi::ApiError;
use myelin_replica::frame::GroupPlace;
use myelin_replica::{Peer, RaftMessage, RaftMessageKind, Status, Vote};
use myelin_stdx::sync::lock;
use myelin_store::GroupPosition;
use myelin_store::consumer::GroupConsumers;
use myelin_streams::ReplicaRole;
use myelin_streams::group::{GroupMember, GroupStart, MemberFailed, Persistence};
use myelin_streams::stream::StreamCore;
use myelin_wire::message_buf::MessageBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex};

/// News for a member.
#[derive(Clone, Debug)]
pub(in crate::engine) enum MemberEvent {
    /// Another member of its group of this epoch has said something.
    Message(u32, RaftMessage),
    /// Time has passed.
    Tick,
    /// Vote that it was to remember is durable.
    VotePersisted(Vote),
    /// Another server has begun a new life.
    NewLife(Peer),
    /// Another server is gone.
    Lost(Peer),
}

/// Place of a member beside its stream.
#[derive(Default)]
pub(super) struct MemberSeat {
    /// Perf: each turn looks here, and most streams have no group.
    is_taken: AtomicBool,
    inbox: Mutex<Vec<MemberEvent>>,
    member: Mutex<Option<SeatedMember>>,
    role: Mutex<RoleChange>,
}

struct SeatedMember {
    member: GroupMember,
    place: GroupPlace,
    groups: Arc<Groups>,
    frames: Arc<FrameOutbox>,
    start: GroupStart,
    amnesia: Option<Amnesia>,
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
    vote: Option<Vote>,
    /// Whether it has again what it has confirmed, which is to be remembered.
    is_recovered: bool,
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
    fn hear(&mut self, event: MemberEvent) -> Result<(), MemberFailed> {
        match event {
            MemberEvent::Message(epoch, message) => {
                if epoch == self.place.epoch && self.may_hear(&message) {
                    if let Some(amnesia) = &mut self.amnesia {
                        amnesia.hear(&message, self.member.consensus(), self.groups.nanoseconds());
                    }
                    self.member.step(message)?;
                }
            }
            MemberEvent::Tick if self.groups.may_vote() => self.member.tick()?,
            MemberEvent::Tick => {}
            MemberEvent::VotePersisted(vote) => self.member.vote_persisted(vote),
            MemberEvent::NewLife(peer) => self.member.consensus_mut().reset_peer(peer)?,
            MemberEvent::Lost(peer) if self.member.consensus().leader() == Some(peer) => {
                self.member.consensus_mut().wake(true)?;
            }
            MemberEvent::Lost(_) => {}
        }
        Ok(())
    }

    /// Has it vote again, if it may. Answers whether that is so from now on, and whether it is
    /// because nobody is left who would remember.
    fn recover(&mut self) -> Option<bool> {
        let amnesia = self.amnesia.as_ref()?;
        let is_over = amnesia.is_over(self.member.consensus());
        let is_in_vain =
            || amnesia.is_in_vain(self.groups.nanoseconds(), self.groups.are_there(&self.start.voters));
        if !is_over && !is_in_vain() {
            return None;
        }
        self.member.consensus_mut().recovered();
        (self.start.is_amnesiac, self.amnesia) = (false, None);
        Some(!is_over)
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
        let known = groups.state(place.group);
        // A stream in memory is as it was before it was a member.
        let is_amnesiac = known.is_some_and(|state| state.is_amnesiac || !self.is_stored());
        let start = GroupStart {
            me: groups.me,
            voters: voters.clone(),
            vote: known.unwrap_or_default().vote,
            is_amnesiac,
            seed,
            persistence: if is_synced { Persistence::Synced } else { Persistence::Written },
        };
        if is_synced {
            // What a member begins with counts as synced.
            groups.sync_now();
        }
        let mut guard = self.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
        let (core, _) = guard.parts();
        let member = GroupMember::open(core, start.clone()).map_err(ApiError::stream_general)?;
        let seated = SeatedMember {
            member,
            place: *place,
            groups: Arc::clone(groups),
            frames: groups.outbox(),
            amnesia: is_amnesiac.then(|| Amnesia::new(groups.nanoseconds())),
            start,
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
        let heard = events.into_iter().try_for_each(|event| seated.hear(event));
        let advanced = heard.and_then(|()| seated.member.advance(core, now, &mut after.effects));
        match advanced {
            Ok(work) => {
                if let Some(is_lost) = seated.recover() {
                    after.member.is_recovered = true;
                    self.report_recovery(is_lost);
                }
                let mut frames = MessageBuf::default();
                write_frames(&seated.groups, seated.place, work.messages, &mut frames);
                let MemberWork { role, vote, needs_sync, must_send, .. } = &mut after.member;
                *must_send |= seated.frames.add(&mut frames);
                *role = work.role.or(*role);
                *vote = work.vote.or(*vote);
                *needs_sync = work.needs_sync;
            }
            Err(failed) => {
                core.store().give_up(&format!("as a member of its group: {failed}"));
                core.released(&mut after.effects);
            }
        }
    }

    /// Whether the stream may begin to decide, as far as it is for its member to say.
    pub(super) fn may_lead(&self, core: &StreamCore) -> bool {
        lock(&self.seat.member).as_ref().is_none_or(|seated| seated.member.may_lead(core))
    }

    fn report_recovery(&self, is_lost: bool) {
        if is_lost {
            let (account, name) = (self.scope.account.name(), &self.scope.name);
            let line = format_args!(
                "JetStream stream '{account} > {name}' has no leader, and too few of its replicas have been \
                 running on: it goes on with what they have; what was acknowledged last may be lost"
            );
            self.scope.host.log(Level::Error, line);
        }
    }

    /// Opens its member anew, with a stream that was.
    pub(super) fn reopen_member(&self, core: &mut StreamCore) {
        let mut seat = lock(&self.seat.member);
        let Some(seated) = &mut *seat else { return };
        lock(&self.seat.inbox).clear();
        if seated.start.persistence == Persistence::Synced {
            seated.groups.sync_now();
        }
        let vote = seated.groups.state(seated.place.group).unwrap_or_default().vote;
        let start = GroupStart { vote, ..seated.start.clone() };
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
        let seat = lock(&self.seat.member);
        let (Some(seated), Some(me)) = (&*seat, self.me.upgrade()) else { return };
        let (groups, place, is_amnesiac) =
            (Arc::clone(&seated.groups), seated.place, seated.amnesia.is_some());
        drop(seat);
        let vote = work.vote.take();
        if std::mem::take(&mut work.is_recovered) || vote.is_some() {
            groups.persist_vote(place, (vote, is_amnesiac), &me);
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
