//! Membership of a stream in a group: its member, what others tell it, and what it wants done.
//!
//! Nothing here knows the stream but by the end of its log: `member.rs` brings the two together.

use super::agreement::Agreement;
use super::amnesia::{Amnesia, LostEntries};
use super::asked_consumers::AskedConsumers;
use super::candidacy::Candidacy;
use super::catch_up::CatchUp;
use super::held_publishes::{AskedLeader, HandOver};
use super::late_proposals::LateProposals;
use super::log_origin::LogOrigin;
use super::recent_publishes::PublishKey;
use super::resting::Resting;
use crate::engine::groups::{FrameOutbox, Groups, IncomingReplica, MemberEvent, write_frame};
use crate::engine::host::Timer;
use myelin_jsapi::advisory::damage::ReplicaNews;
use myelin_replica::frame::{FrameBody, GroupPlace, LeadStanding, LogWord, RestWord};
use myelin_replica::{MemberProgress, Members, Peer, RaftMessage, RaftMessageKind, RaftRole};
use myelin_stdx::sync::lock;
use myelin_store::{InstallPoint, StreamId, Timestamp};
use myelin_streams::ReplicaRole;
use myelin_streams::group::{GroupMember, GroupStart, MemberFailed};
use myelin_wire::message_buf::MessageBuf;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// First term of an epoch of a group, beyond all that members of an earlier one can have come to.
pub(in crate::engine) fn first_term(epoch: u32) -> u64 {
    u64::from(epoch.saturating_sub(1)) << 32
}

/// Terms on which a stream becomes a member of its group.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct JoinTerms {
    /// Seed of its draws of election time-outs.
    pub(in crate::engine) seed: u64,
    /// Whether entries count as persisted only when they are synced.
    pub(in crate::engine) is_synced: bool,
    /// Whether its group may have been made in this life of the store.
    pub(in crate::engine) may_be_new: bool,
    /// Whether it may have lost entries that it has confirmed, whatever its store says.
    pub(in crate::engine) is_amnesiac: bool,
    /// Entries that another replica of this life has confirmed, in whose place it stands, and that
    /// it lacks.
    pub(in crate::engine) lost: LostEntries,
    /// Whether members may stand for election though nobody has led the group yet.
    pub(in crate::engine) is_open: bool,
}

impl JoinTerms {
    /// Terms of a member of which nothing else is known; its group is open.
    pub(in crate::engine) fn of(seed: u64, is_synced: bool, may_be_new: bool) -> Self {
        Self { seed, is_synced, may_be_new, is_amnesiac: false, lost: LostEntries::default(), is_open: true }
    }
}

/// Whoever wants to know what becomes of a member.
pub(in crate::engine) trait MemberWatcher: Send + Sync {
    /// More may be committed. Called behind each turn, and must not wait.
    fn committed(&self, account: &str, stream: &str);

    /// Another server leads its group from now on, or none. Called behind a turn: it must not wait.
    fn has_leader(&self, account: &str, stream: &str, leader: Option<Peer>);

    /// The stream has this role from now on. Called on a thread that may wait.
    fn has_role(&self, account: &str, stream: &str, role: ReplicaRole);

    /// The group of the stream, which leads it, has the members that were wanted. Must not wait.
    fn has_members(&self, account: &str, stream: &str);

    /// Nobody leads the group of the stream, which is not open: this replica would stand for
    /// election otherwise. Must not wait.
    fn asks_to_open(&self, account: &str, stream: &str);

    /// Another replica, with what the group has, has taken the place of the one on this server, and
    /// is in the table of its account. Called on the thread of the API.
    fn is_replaced(&self, account: &str, stream: &str);

    /// The next leader of the stream is to say which of these publishes it has taken, that are held
    /// here. Must not wait.
    fn ask_taken(&self, stream: (&str, &str), leader: Peer, asked: (Arc<AskedLeader>, Vec<PublishKey>));

    /// The replica of the stream here is damaged, or not as most of its group are (`news`). Must
    /// not wait.
    fn is_damaged(&self, account: &str, stream: &str, news: ReplicaNews);
}

/// Place of a replica among the streams of its account, which another one can take.
pub(in crate::engine) trait ReplicaPlace: Send + Sync {
    /// Begins a replica that can take this place, of what another server offers: the stream as of a
    /// point, and up to which sequence messages may have lifetimes of which only their headers
    /// tell. Only for threads that may wait.
    ///
    /// # Errors
    /// Words for why the disk refuses it.
    fn stage(&self, offered: (InstallPoint, u64)) -> Result<Box<dyn IncomingReplica>, String>;

    /// Has an empty replica take this place soon, if the one that has it has failed: it is in
    /// memory, and cannot be opened anew. The others of its group give what they have.
    fn begin_anew(&self);

    /// Does this, unless the account may not use JetStream now: and it does not begin or end to
    /// meanwhile.
    fn unless_suspended(&self, serve: &dyn Fn());
}

/// Stream that has taken the place of another one.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct ReplacedBy {
    pub(in crate::engine) new: StreamId,
    pub(in crate::engine) old: StreamId,
    /// Whether a start keeps it for certain, and not the old one.
    pub(in crate::engine) is_sure: bool,
    /// Up to which sequence messages may have lifetimes of which only their headers tell.
    pub(in crate::engine) lifetimes_until: u64,
}

/// A stream's part in a group, if it has one.
#[derive(Default)]
pub(super) struct Membership {
    /// Perf: each turn looks here, and most streams have no group.
    pub(super) is_taken: AtomicBool,
    pub(super) inbox: Mutex<Vec<MemberEvent>>,
    pub(super) member: Mutex<Option<JoinedMember>>,
    pub(super) role: Mutex<RoleChange>,
    pub(super) hand_over: HandOver,
    pub(super) asked: AskedConsumers,
    pub(super) late_proposals: LateProposals,
    /// End of its lease, in nanoseconds since the stream was opened; 0: it has none.
    pub(super) lease_until: AtomicU64,
    /// Whether it takes the place of one of this life that has lost everything.
    pub(super) begins_anew: AtomicBool,
    /// Held by whoever gives the stream another role.
    pub(super) changing: Mutex<()>,
    /// Told what becomes of the member.
    pub(super) watcher: OnceLock<Weak<dyn MemberWatcher>>,
    /// Where another one can take its place.
    pub(super) place: OnceLock<Box<dyn ReplicaPlace>>,
    /// The one that has taken it, which a start keeps.
    pub(super) replaced_by: OnceLock<ReplacedBy>,
    /// Looks now and then whether a disk that was full has room.
    pub(super) room_watch: OnceLock<Arc<dyn Timer>>,
    /// Number of the stream in whose place it stands, as long as a start may find that; 0: none.
    pub(super) in_place_of: AtomicU64,
    pub(super) origin: LogOrigin,
}

pub(super) struct JoinedMember {
    pub(super) member: GroupMember,
    pub(super) place: GroupPlace,
    pub(super) groups: Arc<Groups>,
    pub(super) frames: Arc<FrameOutbox>,
    pub(super) start: GroupStart,
    /// Lives of other servers, as this member has heard of them.
    pub(super) lives: BTreeMap<Peer, u32>,
    /// As long as it may have lost what it has confirmed.
    pub(super) amnesia: Option<Amnesia>,
    pub(super) candidacy: Candidacy,
    /// Other members that want to know where its log ends.
    pub(super) askers: Vec<Peer>,
    pub(super) last_said: LastSaid,
    pub(super) resting: Resting,
    /// Peers that are to be the members, as was said last.
    pub(super) wanted: Vec<Peer>,
    /// Members, and servers that may have some, as somebody has told: its log may say less.
    pub(super) told: Vec<Peer>,
    pub(super) catch_up: CatchUp,
    pub(super) agreement: Agreement,
    pub(super) leadership: GroupLeadership,
}

/// State of a member as it was said last, to whom it concerns: a change is news.
#[derive(Default)]
pub(super) struct LastSaid {
    /// Whether it may have lost something; other members.
    pub(super) is_amnesiac: bool,
    /// Whether it rests; whoever has time pass for it.
    pub(super) is_resting: bool,
    /// Whether the members are those that were wanted last; the meta group.
    pub(super) has_members: bool,
    /// Whether its stream has failed; other members.
    pub(super) has_failed: bool,
}

/// Leader of a group as one of its members knows it.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct GroupLeadership {
    pub(in crate::engine) leader: Option<Peer>,
    /// Since when it is, or none is.
    pub(in crate::engine) since: Timestamp,
    /// Whether one was known in this life.
    pub(in crate::engine) has_had_leader: bool,
}

/// Role that the stream is to have and has not yet.
#[derive(Default)]
pub(super) struct RoleChange {
    pub(super) wanted: Option<ReplicaRole>,
    /// Whether a thread is at it.
    pub(super) is_under_way: bool,
}

/// Work that a member wants done after a turn, beside its messages.
#[derive(Default)]
pub(super) struct MemberWork {
    pub(super) role: Option<ReplicaRole>,
    /// The leader, where that has changed.
    pub(super) leader: Option<Option<Peer>>,
    /// Whether a vote was left that is to be written.
    pub(super) has_voted: bool,
    pub(super) needs_sync: bool,
    /// Whether the group has the members from now on that were wanted.
    pub(super) has_members: bool,
    /// Whether another member is to lead: this one leaves its group.
    pub(super) hands_over: bool,
    /// Whether its group is to be opened.
    pub(super) asks_to_open: bool,
    /// Its frames have to be sent by whoever held the turn.
    pub(super) must_send: bool,
}

impl Membership {
    /// The stream is a member from here on.
    pub(super) fn take(&self, joined: JoinedMember) {
        *lock(&self.member) = Some(joined);
        self.is_taken.store(true, Release);
        // Who has taken back before that the group is set aside has not told it.
        if let Some(joined) = &mut *lock(&self.member) {
            joined.candidacy.is_aside = joined.groups.is_aside(joined.place.group);
        }
    }

    /// Whether the stream is a member of a group.
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Acquire)
    }
}

impl JoinedMember {
    pub(super) fn hear(
        &mut self,
        event: MemberEvent,
        end: Option<RestWord>,
        now: Timestamp,
    ) -> Result<(), MemberFailed> {
        if self.wakes(&event) && self.resting.end() {
            self.member.consensus_mut().wake(false)?;
        }
        match event {
            MemberEvent::Rest(epoch, peer, word) => self.hear_rest((epoch, peer, word), end),
            MemberEvent::Message(epoch, life, message) => {
                if epoch == self.place.epoch && self.may_hear(&message) {
                    self.note_leader(life, &message, now);
                    self.member.step(message)?;
                }
            }
            MemberEvent::Log(epoch, peer, word) if epoch == self.place.epoch => self.hear_log(peer, word)?,
            MemberEvent::Log(..) => {}
            MemberEvent::Compare => self.compare_states(),
            MemberEvent::State(epoch, peer, word) if epoch == self.place.epoch => self.hear_state(peer, word),
            MemberEvent::State(..) => {}
            MemberEvent::Tick if self.resting.is_under_way() => {}
            MemberEvent::Tick => self.tick(end)?,
            MemberEvent::VotePersisted(vote) => self.member.vote_persisted(vote),
            MemberEvent::NewLife(peer, life) => self.hear_of_life(peer, life)?,
            MemberEvent::Lost(peer) => self.hear_of_loss(peer)?,
            MemberEvent::Want(peers) => {
                self.member.want_members(&peers);
                (self.wanted, self.last_said.has_members) = (peers, false);
            }
            MemberEvent::Founders(peers) => self.be_founded_by(peers)?,
            MemberEvent::Rescue(few) => self.member.consensus_mut().rescue(few)?,
            MemberEvent::Recover(epoch, few) => self.recover(epoch, few)?,
            MemberEvent::Stand if self.may_stand_at_once() => self.member.consensus_mut().campaign()?,
            MemberEvent::Open => self.open()?,
            MemberEvent::SetAside(is_aside) => {
                self.candidacy.is_aside = is_aside;
                // Nobody is to hand over to a member that would not take it.
                self.tell_others();
            }
            MemberEvent::Damaged => {
                self.candidacy.set_damaged();
                self.tell_others();
            }
            MemberEvent::Room(has_room) => {
                self.candidacy.set_full(!has_room);
                self.tell_others();
            }
            MemberEvent::HandOver(heir) => self.hand_over(heir)?,
            MemberEvent::Installing(peer, index) => self.member.hold_log(peer, index, now),
            MemberEvent::Installed(peer) => self.member.consensus_mut().reset_peer(peer)?,
            MemberEvent::Lapsed(peer) => self.hear_of_lapse(peer)?,
            MemberEvent::Stand => {}
        }
        Ok(())
    }

    /// Whether something happens in the group with an event, so that whoever rests does so no more:
    /// with the answer to a last heartbeat nothing does.
    ///
    /// A heartbeat without news may have been sent before its leader said that it rests: woken by
    /// that, this member would hear nothing more, and elect another one.
    fn wakes(&self, event: &MemberEvent) -> bool {
        let consensus = self.member.consensus();
        match event {
            MemberEvent::Message(.., message) if message.kind == RaftMessageKind::Heartbeat => {
                myelin_stdx::planted::bug(138)
                    || consensus.leader() != Some(message.from)
                    || message.term != consensus.term()
                    || message.commit > consensus.committed()
            }
            MemberEvent::Message(.., message) => message.kind != RaftMessageKind::HeartbeatAnswer,
            MemberEvent::Tick | MemberEvent::Rest(..) | MemberEvent::Lapsed(_) => false,
            // The answer to that may be that nothing has happened.
            MemberEvent::Compare | MemberEvent::State(..) => false,
            _ => true,
        }
    }

    /// Another server is not heard of any more.
    fn hear_of_loss(&mut self, peer: Peer) -> Result<(), MemberFailed> {
        self.candidacy.forget(peer);
        if let Some(amnesia) = &mut self.amnesia {
            amnesia.forget(peer);
        } else if self.member.consensus().leader() == Some(peer) {
            self.member.consensus_mut().wake(true)?;
        }
        Ok(())
    }

    /// The group is open: who has asked for that stands for election.
    fn open(&mut self) -> Result<(), MemberFailed> {
        let has_asked = self.candidacy.open();
        if has_asked && self.may_stand_at_once() && self.groups.may_vote() && self.may_take_lead() {
            self.member.consensus_mut().campaign()?;
        }
        Ok(())
    }

    /// A leader is there. Where it knows of this life, what it says to be committed counts on what
    /// this member has confirmed in this life.
    pub(super) fn note_leader(&mut self, life: u32, message: &RaftMessage, now: Timestamp) {
        let is_append = message.kind == RaftMessageKind::Append;
        let is_of_leader = is_append || message.kind == RaftMessageKind::Heartbeat;
        let is_current = is_of_leader && message.term >= self.member.consensus().term();
        if is_current && is_append {
            self.catch_up.hear_all(message.commit, self.member.consensus().committed(), now);
        } else if is_current {
            self.catch_up.hear(message.commit, now);
        }
        if is_current {
            self.candidacy.hear_leader();
        }
        let Some(amnesia) = &mut self.amnesia else { return };
        if is_current {
            let is_to_be_told = amnesia.hear_leader(message.from, self.groups.uptime());
            self.askers.extend(is_to_be_told.then_some(message.from));
            if is_append && life == self.groups.life() && !amnesia.is_unknown_to(message.from) {
                amnesia.want(message.commit);
            }
        }
    }

    /// Answers who leads, where that is news.
    pub(super) fn note_change_of_leader(&mut self, now: Timestamp) -> Option<Option<Peer>> {
        let leader = self.member.consensus().leader();
        let known = &mut self.leadership;
        if leader == known.leader {
            return None;
        }
        let has_had_leader = known.has_had_leader || leader.is_some();
        *known = GroupLeadership { leader, since: now, has_had_leader };
        Some(leader)
    }

    /// Whether this follower has had all that its leader had.
    pub(super) fn has_caught_up(&self, now: Timestamp) -> bool {
        let committed = self.member.consensus().committed();
        let lacks_none = self.amnesia.is_none() && !self.candidacy.is_damaged();
        lacks_none && (self.resting.is_under_way() || self.catch_up.is_over(committed, now))
    }

    /// Index up to which it knows its log to be committed, and the one that it has yet to reach, if
    /// it is behind its leader.
    pub(super) fn behind(&self, now: Timestamp) -> Option<(u64, u64)> {
        let consensus = self.member.consensus();
        let committed = consensus.committed();
        let lacks = self.catch_up.lacks(committed, now).filter(|_| consensus.role() != RaftRole::Leader);
        lacks.map(|wanted| (committed, wanted))
    }

    /// Where its log ends.
    fn log(&self) -> LogWord {
        let consensus = self.member.consensus();
        let (term, index) = consensus.last();
        let is_voter = consensus.members().all_voters().contains(&self.groups.me);
        let (is_amnesiac, standing) = (self.amnesia.is_some(), self.candidacy.standing());
        LogWord { term, index, is_amnesiac, is_voter, standing }
    }

    /// Says to all other members where its log ends, and how it stands.
    pub(super) fn tell_others(&mut self) {
        let voters = self.member.consensus().members().all_voters();
        self.askers.extend(voters.into_iter().filter(|&voter| voter != self.groups.me));
    }

    fn hear_log(&mut self, peer: Peer, word: LogWord) -> Result<(), MemberFailed> {
        self.candidacy.hear(peer, word.standing);
        self.candidacy.hear_of_memory(peer, word.is_amnesiac);
        if word.standing != LeadStanding::Ready && self.member.consensus().is_handing_over() {
            // It does not take the lead: to this member itself means that nobody is to.
            self.member.consensus_mut().transfer(self.groups.me)?;
            self.hand_over(None)?;
        }
        match &mut self.amnesia {
            Some(amnesia) => amnesia.hear(peer, word),
            None if word.is_amnesiac => {
                self.askers.push(peer);
                let members = self.member.status().members;
                // Without a leader's word it asks: the group rests, or it has less than it had
                // confirmed. Only an append tells it what is committed.
                let is_counted = |other: &MemberProgress| other.peer == peer && other.matched > 0;
                if members.iter().any(is_counted) {
                    self.member.consensus_mut().reset_peer(peer)?;
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Has members that may have lost something find a leader, where they have none: all vote for
    /// the one with the most, and for nobody else.
    fn look_at_logs(&mut self) -> Result<(), MemberFailed> {
        let (me, mine, now) = (self.groups.me, self.log(), self.groups.uptime());
        let is_open = self.is_open();
        let Some(amnesia) = &mut self.amnesia else { return Ok(()) };
        let mut others = self.member.consensus().members().all_voters();
        // Who leads may be none of those that its log knows.
        let leader = self.member.consensus().leader();
        others.extend(leader.filter(|leader| !others.contains(leader)));
        // What the leader said before it knew of this life does not count, and it has perhaps
        // nothing else to say.
        let asks = |one| amnesia.is_unknown_to(one) || leader == Some(one) && amnesia.lacks_word();
        self.askers.extend(others.into_iter().filter(|&one| one != me && asks(one)));
        if !amnesia.is_leaderless(now) || !self.groups.may_vote() || !is_open {
            return Ok(());
        }
        let assigned: BTreeSet<Peer> = self.wanted.iter().chain(&self.told).copied().collect();
        let mut counted = self.member.consensus().members().clone();
        if mine.index == 0 && !assigned.is_empty() {
            // Without a log it knows those who have founded the group: others may have all of it.
            counted = Members::of(&assigned.iter().copied().collect::<Vec<_>>());
        }
        let voters = counted.all_voters();
        if !voters.contains(&me) {
            return Ok(());
        }
        // A member that was removed and came back has the log from its beginning, which tells of
        // members as they were then: others may have decided a lot since, without these.
        let members: Vec<Peer> =
            voters.iter().chain(&assigned).copied().collect::<BTreeSet<_>>().into_iter().collect();
        self.askers.extend(members.iter().filter(|&&member| member != me));
        let decision = amnesia.decide((me, mine), (&counted, &members), now);
        self.member.consensus_mut().vote_for(amnesia.chosen())?;
        let Some(decision) = decision else { return Ok(()) };
        if decision.lacks_some {
            self.groups.warn_of_loss(self.place.group);
        }
        if decision.chosen == me {
            self.remember();
            self.member.consensus_mut().campaign()?;
        }
        Ok(())
    }

    /// Votes from here on, as its leader is told: it may be needed for a majority now.
    pub(super) fn remember(&mut self) {
        self.amnesia = None;
        self.member.consensus_mut().recovered();
        self.askers.extend(self.member.consensus().leader().filter(|&leader| leader != self.groups.me));
    }

    /// Has others rest that have what this leader has.
    pub(super) fn tell_of_rest(&mut self, end: Option<RestWord>, out: &mut MessageBuf) {
        if !self.resting.take_news() || !self.resting.is_under_way() {
            return;
        }
        let Some(end) = end else { return };
        for &peer in self.member.consensus().members().voters.iter().filter(|&&peer| peer != self.groups.me) {
            write_frame(&self.groups, peer, FrameBody::Rest(self.place, end), out);
        }
    }

    /// Has time pass for it, or stand still, as it rests.
    pub(super) fn note_rest(&mut self) {
        let is_resting = self.resting.is_under_way();
        if std::mem::replace(&mut self.last_said.is_resting, is_resting) != is_resting {
            self.groups.rests(self.place.group, is_resting);
        }
    }

    /// Its stream has failed: others that rest are woken, once. While this server is there nobody
    /// else would notice that the group has no leader any more.
    pub(super) fn end_with_stream(&mut self, out: &mut MessageBuf) {
        self.resting = Resting::default();
        if !std::mem::replace(&mut self.last_said.has_failed, true) {
            self.askers.clear();
            self.tell_others();
            self.answer_askers(out);
        }
    }

    /// Writes down for others where its log ends, if they are to know. One that may have lost
    /// something says so before it confirms anything.
    pub(super) fn answer_askers(&mut self, out: &mut MessageBuf) {
        if self.askers.is_empty() {
            return;
        }
        let word = self.log();
        for peer in self.askers.drain(..) {
            write_frame(&self.groups, peer, FrameBody::Log(self.place, word), out);
        }
    }

    /// The leader has nothing to do any more: whoever has just its log neither.
    fn hear_rest(&mut self, (epoch, peer, word): (u32, Peer, RestWord), end: Option<RestWord>) {
        let consensus = self.member.consensus();
        let is_of_leader = epoch == self.place.epoch && consensus.leader() == Some(peer);
        let agrees = end == Some(word) && consensus.committed() == word.index;
        if is_of_leader && (agrees || myelin_stdx::planted::bug(136)) && self.amnesia.is_none() {
            self.resting.begin(word);
            self.member.consensus_mut().rest();
        }
    }

    /// Time has passed for a member that does not rest.
    fn tick(&mut self, end: Option<RestWord>) -> Result<(), MemberFailed> {
        self.candidacy.note_tick(self.has_living_leader());
        // Who gives nobody JetStream follows, and never stands for election.
        let may_stand = self.may_take_lead() || self.member.consensus().role() == RaftRole::Leader;
        let stands_against = self.member.consensus().is_about_to_stand() && self.supports_leader();
        if !self.candidacy.holds_back(stands_against) && self.groups.may_vote() && may_stand {
            self.member.tick()?;
        }
        if !may_stand && self.is_open() && self.candidacy.misses_leader() {
            self.tell_others();
        }
        let asks = may_stand && self.supports_leader() && self.candidacy.misses_word();
        if asks && !myelin_stdx::planted::bug(138) {
            // It rests, perhaps, and what it said of that was lost: this wakes it, while it counts
            // on this server's support.
            self.askers.extend(self.member.consensus().leader());
        }
        if !self.is_open() {
            self.candidacy.tick(self.start.seed);
        }
        self.look_at_logs()?;
        let consensus = self.member.consensus();
        let is_idle = consensus.role() == RaftRole::Leader && consensus.can_rest();
        if self.resting.tick(is_idle, consensus.last().1)
            && self.groups.are_there(&self.member.consensus().members().voters)
            && let Some(end) = end
        {
            self.resting.begin_as_leader(end);
            self.member.consensus_mut().rest();
        }
        Ok(())
    }

    /// Whether it knows a leader, and that one's server is there. Who takes no lead sees of no
    /// leader that it is gone: no time passes for it.
    fn has_living_leader(&self) -> bool {
        let consensus = self.member.consensus();
        consensus.leader().is_some() && (consensus.role() != RaftRole::Follower || self.supports_leader())
    }

    /// Another server has begun a new life: what it has confirmed counts no more.
    fn hear_of_life(&mut self, peer: Peer, life: u32) -> Result<(), MemberFailed> {
        let was_leader = self.member.consensus().leader() == Some(peer);
        let is_another = self.lives.insert(peer, life).is_some();
        if was_leader && is_another {
            self.member.consensus_mut().wake(true)?;
        }
        self.candidacy.hear(peer, LeadStanding::Ready);
        self.candidacy.hear_of_memory(peer, false);
        self.amnesia.iter_mut().for_each(|amnesia| amnesia.forget(peer));
        if myelin_stdx::planted::bug(111) {
            return Ok(());
        }
        Ok(self.member.consensus_mut().reset_peer(peer)?)
    }

    /// Another server had not supported this one for a while: who leads counts on what it has
    /// confirmed in its term only when that is confirmed anew.
    fn hear_of_lapse(&mut self, peer: Peer) -> Result<(), MemberFailed> {
        if self.member.consensus().role() != RaftRole::Leader {
            return Ok(());
        }
        if self.resting.end() {
            self.member.consensus_mut().wake(false)?;
        }
        Ok(self.member.consensus_mut().reset_peer(peer)?)
    }

    /// Goes by other founders, where its log says nothing: it was made a member by an assignment
    /// that counts no more.
    fn be_founded_by(&mut self, peers: Vec<Peer>) -> Result<(), MemberFailed> {
        if self.member.consensus().last().1 == 0 {
            self.member.consensus_mut().set_members(&Members::of(&peers))?;
        }
        self.start.voters = peers;
        Ok(())
    }

    /// Goes on in an epoch of its group: what members of an earlier one say counts no more.
    fn recover(&mut self, epoch: u32, few: Option<Vec<Peer>>) -> Result<(), MemberFailed> {
        self.place.epoch = self.place.epoch.max(epoch);
        // Also a member that has just begun: messages of a term so far from its own are none to it.
        self.member.consensus_mut().begin_epoch(first_term(self.place.epoch))?;
        Ok(self.member.consensus_mut().rescue(few)?)
    }

    /// Hands over to another member: to this one, if it is named.
    fn hand_over(&mut self, heir: Option<Peer>) -> Result<(), MemberFailed> {
        let (groups, candidacy) = (&self.groups, &self.candidacy);
        let any = || self.member.heir(|peer| groups.is_there(peer) && candidacy.may_inherit(peer));
        let heir = heir.or_else(|| any().filter(|&heir| candidacy.may_inherit(heir)));
        if let Some(heir) = heir {
            self.member.consensus_mut().transfer(heir)?;
        }
        Ok(())
    }

    /// Whether another member that votes may lead, as far as is known: not all of them are set
    /// aside, or may have lost something.
    pub(super) fn has_heir(&self) -> bool {
        let voters = &self.member.consensus().members().voters;
        let mut others = voters.iter().filter(|&&peer| peer != self.groups.me);
        others.any(|&peer| self.candidacy.may_inherit(peer))
    }

    /// Whether this member may lead when it does not: its server goes on, clients can reach it, and
    /// the group is open.
    fn may_take_lead(&self) -> bool {
        !self.groups.is_leaving() && !self.candidacy.declines() && self.is_open()
    }

    /// Whether members may stand for election: the meta group has said that the stream stays, or
    /// somebody has stood already, as only they may.
    fn is_open(&self) -> bool {
        let consensus = self.member.consensus();
        !self.candidacy.waits() || consensus.term() > 0 || consensus.last().1 > 0
    }

    /// Whether nobody can lead but this member, or nobody has led yet.
    fn may_stand_at_once(&self) -> bool {
        let consensus = self.member.consensus();
        self.is_open() && consensus.term() == 0 || consensus.members().all_voters() == [self.groups.me]
    }

    /// Whether the members are those that were wanted, as is new, and this one leads them.
    pub(super) fn notices_members(&mut self) -> bool {
        let has_members = !self.wanted.is_empty()
            && self.member.consensus().role() == RaftRole::Leader
            && self.member.has_members(&self.wanted);
        has_members && !std::mem::replace(&mut self.last_said.has_members, has_members)
    }

    /// A server that has just begun does not vote, but where a leader hands over; and one that is
    /// about to end takes no lead.
    fn may_hear(&mut self, message: &RaftMessage) -> bool {
        if message.kind == RaftMessageKind::TimeoutNow && !self.may_take_lead() {
            // The leader need not wait for this member.
            self.askers.push(message.from);
            return false;
        }
        let asks = matches!(message.kind, RaftMessageKind::PreVote | RaftMessageKind::Vote);
        if !asks || message.is_transfer {
            return true;
        }
        let leader = self.member.consensus().leader();
        let is_against = leader != Some(message.from) && self.candidacy.is_bound() && self.supports_leader();
        !is_against && self.groups.may_vote()
    }

    /// Whether it follows a leader whose server this one supports, and which may count on that.
    fn supports_leader(&self) -> bool {
        let consensus = self.member.consensus();
        let leader = consensus.leader().filter(|_| consensus.role() == RaftRole::Follower);
        leader.is_some_and(|leader| self.groups.supports(leader))
    }
}
