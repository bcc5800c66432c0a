//! Member of a group whose log a stream is: when it hears something, and what follows.
//!
//! Whoever has the stream's core brings the two together at the end
//! ([`LiveStream::advance_member`]): the turn, and a thread to which the core was lent. What others
//! tell the member waits until then.

use super::LiveStream;
use super::agreement::Agreement;
use super::amnesia::{Amnesia, LostEntries};
use super::candidacy::Candidacy;
use super::catch_up::CatchUp;
use super::core_guard::CoreGuard;
use super::full_disk::is_full;
use super::membership::{
    GroupLeadership, JoinTerms, JoinedMember, LastSaid, MemberWatcher, MemberWork, first_term,
};
use super::resting::Resting;
use super::turn::{StreamWork, TurnResult};
use crate::engine::groups::{
    GroupConfig, GroupReplica, Groups, IncomingReplica, InstallProgress, MemberEvent, Recalled, write_frames,
};
use myelin_broker::{Level, ServiceShard};
use myelin_jsapi::ApiError;
use myelin_replica::frame::{GroupPlace, RestWord};
use myelin_replica::{Peer, Status, Vote};
use myelin_stdx::sync::lock;
use myelin_store::consumer::GroupConsumers;
use myelin_store::{GroupPosition, InstallPoint, InstallSource, StoreError};
use myelin_streams::ReplicaRole;
use myelin_streams::group::{GroupMember, GroupStart, MemberFailed, Persistence};
use myelin_streams::stream::{Effects, StreamCore};
use myelin_wire::message_buf::MessageBuf;
use std::io;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Weak};

impl LiveStream {
    /// Makes the stream a member of a group: of a new one if its log is of none. It follows from
    /// here on, until its member is elected. Only for threads that may wait.
    ///
    /// # Errors
    /// The stream is gone or has failed, or what it has stored is no log of a group.
    pub(in crate::engine) fn join(
        self: &Arc<Self>,
        groups: &Arc<Groups>,
        config: &GroupConfig,
        terms: JoinTerms,
    ) -> Result<(), ApiError> {
        // What is behind a hole may contradict itself, too.
        for _ in 0..2 {
            let Err(flaw) = self.try_join(groups, config, terms)? else { return Ok(()) };
            self.mend_log(&flaw, (groups, config))?;
        }
        self.try_join(groups, config, terms)?.map_err(ApiError::stream_general)
    }

    /// Has its member's next life know that it may have lost what it had confirmed. One in memory
    /// has lost everything at each start.
    pub(super) fn mark_amnesiac(&self, groups: &Groups, place: GroupPlace) -> io::Result<()> {
        if self.is_stored() { groups.mark_amnesiac(place) } else { Ok(()) }
    }

    /// As [`LiveStream::join`]. `Ok(Err(_))`: what its log lacks, without which it may be one.
    fn try_join(
        self: &Arc<Self>,
        groups: &Arc<Groups>,
        config: &GroupConfig,
        JoinTerms { seed, is_synced, may_be_new, is_amnesiac: has_forgotten, lost, is_open }: JoinTerms,
    ) -> Result<Result<(), MemberFailed>, ApiError> {
        let GroupConfig { place, voters } = config;
        self.refuse_if_replaced()?;
        let has_log = self.has_log()?;
        let has_others = voters.iter().any(|&voter| voter != groups.me);
        if !self.consumers.is_of_group() {
            self.begin_log(place, has_others)?;
        }
        self.set_role(ReplicaRole::Follower);
        let recalled = groups.recall(place.group, has_log, may_be_new);
        let (is_damaged, is_another) = (self.is_damaged(), !has_log && recalled.vote.term > 0);
        let is_forgetful = has_forgotten || is_damaged;
        let is_amnesiac =
            self.recall_amnesia((groups, place), &recalled, is_forgetful, is_synced && has_log)?;
        let start = GroupStart {
            me: groups.me,
            voters: voters.clone(),
            vote: recalled.vote,
            is_amnesiac,
            is_damaged: is_damaged && has_others,
            seed,
            persistence: if is_synced { Persistence::Synced } else { Persistence::Written },
            kept_log: groups.kept_log(),
            commit_waits: groups.commit_waits(),
        };
        let mut guard = self.lock_synced(groups, &start).ok_or(ApiError::STREAM_NOT_FOUND)?;
        let member = match GroupMember::open(guard.parts().0, start.clone()) {
            Err(flaw @ (MemberFailed::Hole(_) | MemberFailed::Contradiction)) => return Ok(Err(flaw)),
            opened => opened.map_err(ApiError::stream_general)?,
        };
        let joined = JoinedMember {
            member,
            place: *place,
            groups: Arc::clone(groups),
            frames: groups.outbox(),
            start,
            lives: groups.lives(),
            amnesia: is_amnesiac.then(|| self.begin_amnesia(lost, is_another, groups.uptime())),
            candidacy: Candidacy::new(is_open, groups.is_aside(place.group), is_damaged),
            askers: Vec::new(),
            last_said: LastSaid { is_amnesiac, has_members: true, ..LastSaid::default() },
            wanted: Vec::new(),
            told: Vec::new(),
            resting: Resting::default(),
            catch_up: CatchUp::default(),
            agreement: Agreement::default(),
            leadership: GroupLeadership { leader: None, since: self.scope.host.now(), has_had_leader: false },
        };
        self.membership.take(joined);
        drop(guard);
        self.appear(groups, config);
        Ok(Ok(()))
    }

    /// Is known as a member from here on.
    fn appear(self: &Arc<Self>, groups: &Arc<Groups>, config: &GroupConfig) {
        groups.add(config, &(Arc::clone(self) as Arc<dyn GroupReplica>));
        // Some may have begun before it was known here.
        groups.lives().into_iter().for_each(|(peer, life)| self.tell(MemberEvent::NewLife(peer, life)));
        self.begin_mending(groups, config);
    }

    /// Whether it may have lost what it had confirmed. Its next life knows of that, too, for it may
    /// begin before everything is here again. `has_forgotten`: something is known to be lost;
    /// `is_synced`: what it confirms is synced before.
    fn recall_amnesia(
        &self,
        (groups, place): (&Groups, &GroupPlace),
        recalled: &Recalled,
        has_forgotten: bool,
        is_synced: bool,
    ) -> Result<bool, ApiError> {
        // What damage has taken it may have confirmed, and a vote promised, synced or not. What is
        // synced before it is confirmed is not lost with power.
        let has_forgotten = has_forgotten || recalled.has_forgotten;
        let is_amnesiac = has_forgotten || recalled.may_lack_unsynced && !is_synced;
        if has_forgotten && !recalled.is_written_down {
            self.mark_amnesiac(groups, *place).map_err(ApiError::stream_general)?;
        }
        Ok(is_amnesiac)
    }

    /// The core, with its log synced if a member that begins with it needs that.
    fn lock_synced(&self, groups: &Groups, start: &GroupStart) -> Option<CoreGuard<'_>> {
        if start.persistence == Persistence::Synced {
            // Most of it before anybody waits for the core.
            groups.sync_now();
        }
        let mut guard = self.lock_core()?;
        if start.lacks_sync(guard.parts().0.store()) {
            groups.sync_now();
        }
        Some(guard)
    }

    /// Begins an empty log of a group, of which others may have more. A stream with sequences has
    /// lost its own, which damage has taken: where there are others it gets all from them.
    pub(super) fn begin_log(&self, place: &GroupPlace, has_others: bool) -> Result<(), ApiError> {
        if self.reader().state().totals.last_seq > 0 {
            let what = "it has sequences that are of no group";
            if !has_others {
                return Err(ApiError::stream_general(what));
            }
            self.health.note_damage(self.scope.host.instant());
            let (account, name) = (self.scope.account.name(), &self.scope.name);
            let line =
                format_args!("JetStream stream '{account} > {name}' has lost the log of its group: {what}");
            self.scope.host.log(Level::Error, line);
        }
        let position = GroupPosition { epoch: place.epoch.into(), term: 0, index: 0, chain: 0, commit: 0 };
        self.join_group(position, GroupConsumers::in_memory(0))?;
        self.direct.withdraw(&self.scope);
        self.direct.offer(&self.scope, self.view.leads(), self.config().allow_direct);
        Ok(())
    }

    /// `lost`: what another replica had confirmed in its place. `is_another`: one without a log has
    /// a vote, and may have been removed in this life; what that has confirmed counts as long as
    /// its leader does not hear of this one. `now`: since the server began.
    fn begin_amnesia(&self, lost: LostEntries, is_another: bool, now: myelin_store::Timestamp) -> Amnesia {
        match lost.last {
            0 if is_another || self.membership.begins_anew.load(Acquire) => Amnesia::begun_anew(now),
            0 => Amnesia::new(now),
            _ => Amnesia::behind(lost, now),
        }
    }

    /// Whether its log has entries of a group. Only for threads that may wait.
    fn has_log(&self) -> Result<bool, ApiError> {
        let mut guard = self.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
        Ok(guard.parts().0.store().group().is_some_and(|position| position.index > 0))
    }

    /// How its member sees its group; `None` if it has none.
    pub fn group_status(&self) -> Option<Status> {
        lock(&self.membership.member).as_ref().map(|joined| joined.member.status())
    }

    /// Index up to which its member knows the log to be committed, and the one that it has yet to
    /// reach, where that is behind its leader.
    pub(in crate::engine) fn behind(&self) -> Option<(u64, u64)> {
        let now = self.scope.host.now();
        lock(&self.membership.member).as_ref().and_then(|joined| joined.behind(now))
    }

    /// How far the stream is that it gets from another server as a whole. `tells`: whoever asks
    /// writes that to the log, if it is due.
    pub(in crate::engine) fn install_progress(&self, tells: bool) -> Option<InstallProgress> {
        let membership = lock(&self.membership.member);
        let joined = membership.as_ref()?;
        let (groups, group) = (Arc::clone(&joined.groups), joined.place.group);
        drop(membership);
        groups.install_progress(group, tells)
    }

    /// Its vote, and the term of the last entry in its log.
    pub(in crate::engine) fn group_vote(&self) -> Option<(Vote, u64)> {
        let membership = lock(&self.membership.member);
        let consensus = membership.as_ref()?.member.consensus();
        Some((consensus.vote(), consensus.last().0))
    }

    /// Leader of its group, and since when it leads.
    pub(in crate::engine) fn group_leadership(&self) -> Option<GroupLeadership> {
        lock(&self.membership.member).as_ref().map(|joined| joined.leadership)
    }

    /// Whether too few members of its group are there to elect a leader, as far as is known.
    pub(in crate::engine) fn lacks_quorum(&self) -> bool {
        let membership = lock(&self.membership.member);
        let Some(joined) = membership.as_ref() else { return false };
        let voters = &joined.member.consensus().members().voters;
        let there = voters.iter().filter(|&&peer| peer == joined.groups.me || joined.groups.is_there(peer));
        there.count() * 2 <= voters.len()
    }

    /// Members of its group that vote, as far as is known; none where it has no group.
    pub(in crate::engine) fn voters(&self) -> Vec<Peer> {
        let membership = lock(&self.membership.member);
        membership.as_ref().map_or_else(Vec::new, |joined| joined.member.consensus().members().all_voters())
    }

    /// Has the first member of a new group stand for election at once. Only for threads that may
    /// wait.
    pub(in crate::engine) fn stand_first(&self) {
        self.tell(MemberEvent::Stand);
        self.serve_off_shard();
    }

    /// Has its member stand for election as any other, though nobody has led its group yet. It has
    /// to be served then.
    pub(in crate::engine) fn open_group(&self) {
        self.tell(MemberEvent::Open);
    }

    /// Has its member see what was left for it. Only for threads that may wait.
    pub(in crate::engine) fn serve_member(&self) {
        self.serve_off_shard();
    }

    /// Whether its member needs no ticks.
    #[cfg(test)]
    pub(in crate::engine) fn is_resting(&self) -> bool {
        lock(&self.membership.member).as_ref().is_some_and(|joined| joined.last_said.is_resting)
    }

    /// Has other members be those that have founded its group, for when it is opened anew. Answers
    /// who it was.
    #[cfg(test)]
    pub(in crate::engine) fn set_founders(&self, peers: Vec<Peer>) -> Vec<Peer> {
        let mut membership = lock(&self.membership.member);
        membership
            .as_mut()
            .map(|joined| std::mem::replace(&mut joined.start.voters, peers))
            .unwrap_or_default()
    }

    /// Servers that have, or may have, members of its group, as it was told.
    #[cfg(test)]
    pub(in crate::engine) fn told(&self) -> Vec<Peer> {
        lock(&self.membership.member).as_ref().map_or_else(Vec::new, |joined| joined.told.clone())
    }

    /// Last entry that its member has confirmed in this life and is known to have lost; 0: none.
    #[cfg(test)]
    pub(in crate::engine) fn lost_entry(&self) -> u64 {
        let membership = lock(&self.membership.member);
        membership.as_ref().and_then(|joined| Some(joined.amnesia.as_ref()?.lost().last)).unwrap_or(0)
    }

    /// News that wait for its member.
    #[cfg(test)]
    pub(in crate::engine) fn waiting_news(&self) -> usize {
        lock(&self.membership.inbox).len()
    }

    /// Has its member see what was left for it, and answers the rest of the work, which comes when
    /// the turn is over.
    #[cfg(test)]
    pub(in crate::engine) fn serve_member_by_half(self: &Arc<Self>) -> impl FnOnce() + use<> {
        let (after, live) = (self.submit(StreamWork::Member, MessageBuf::default()), Arc::clone(self));
        move || live.apply_effects_off_shard(after)
    }

    /// Has just these peers be the members of its group, as soon as may be. Only for threads that
    /// may wait.
    pub(in crate::engine) fn want_members(&self, peers: Vec<Peer>) {
        self.tell(MemberEvent::Want(peers));
        self.serve_off_shard();
    }

    /// Says who votes where its log does not say who does. It has to be served then.
    pub(in crate::engine) fn found_by(&self, peers: Vec<Peer>) {
        self.tell(MemberEvent::Founders(peers));
    }

    /// Has just these members count of those that vote; `None`: all again. Only for threads that
    /// may wait.
    pub(in crate::engine) fn rescue(&self, few: Option<Vec<Peer>>) {
        self.tell(MemberEvent::Rescue(few));
        self.serve_off_shard();
    }

    /// Has its group go on in an epoch; `few`: with just these of those that vote, as it has lost
    /// the others for good. Only for threads that may wait.
    pub(in crate::engine) fn recover(&self, epoch: u32, few: Option<Vec<Peer>>) {
        self.tell(MemberEvent::Recover(epoch, few));
        self.serve_off_shard();
    }

    /// Whether its log ends in an epoch of its group before this one. Only for threads that may
    /// wait.
    pub(in crate::engine) fn is_of_epoch_before(&self, epoch: u32) -> bool {
        let Some(mut guard) = self.lock_core() else { return false };
        guard.parts().0.store().group().is_some_and(|end| end.index > 0 && end.term < first_term(epoch))
    }

    /// Tells which servers have, or may have, members of its group: where a member may have lost
    /// what its log says of that, it looks for what these have.
    pub(in crate::engine) fn tell_members(&self, peers: Vec<Peer>) {
        lock(&self.membership.member).iter_mut().for_each(|joined| joined.told.clone_from(&peers));
    }

    /// Whether this replica leads its group, and just these peers are its members.
    pub(in crate::engine) fn leads_members(&self, peers: &[Peer]) -> bool {
        let membership = lock(&self.membership.member);
        self.role().leads() && membership.as_ref().is_some_and(|joined| joined.member.has_members(peers))
    }

    /// Has somebody told what becomes of its member. To be called once.
    pub(in crate::engine) fn watch_member(&self, watcher: Weak<dyn MemberWatcher>) {
        let _ = self.membership.watcher.set(watcher);
    }

    /// Whether all entries of its group are of one term: nobody has led it before who leads it now.
    /// Only for threads that may wait.
    pub(in crate::engine) fn has_one_term(&self) -> bool {
        let Some(mut guard) = self.lock_core() else { return false };
        let outline = guard.parts().0.store().log_outline();
        outline.is_ok_and(|outline| outline.is_none_or(|log| log.base.0 <= 1 && log.terms.len() <= 1))
    }

    /// Brings the stream and its member to the same point: for whoever has the core, before it goes
    /// back.
    pub(super) fn advance_member(&self, core: &mut StreamCore, after: &mut TurnResult) {
        let mut membership = lock(&self.membership.member);
        let Some(joined) = &mut *membership else { return };
        if core.store().failure().is_some() {
            // It is opened anew together with its stream, and hears nothing until then.
            lock(&self.membership.inbox).clear();
            self.note_divergence(core);
            return self.tell_of_failure(joined, after);
        }
        let support = self.support_for_lease(joined);
        let events = std::mem::take(&mut *lock(&self.membership.inbox));
        let now = self.scope.host.now();
        let end = end_of_log(core);
        let heard = self.hear_all(joined, core, (events, after.effects.is_full), (end, now));
        let advanced = heard.and_then(|()| joined.member.advance(core, now, &mut after.effects));
        let advanced = advanced.and_then(|work| {
            if joined.resting.is_past(joined.member.consensus().last().1) && joined.resting.end() {
                joined.member.consensus_mut().wake(false)?;
            }
            Ok(work)
        });
        joined.note_rest();
        self.renew_lease(joined, support);
        match advanced {
            Ok(work) => {
                let mut frames = MessageBuf::default();
                joined.amnesia.is_some().then(|| joined.answer_askers(&mut frames));
                let consensus = joined.member.consensus();
                let term = (consensus.term(), consensus.begin_of_term());
                let sender = (joined.place, &joined.lives, term.1);
                write_frames(&joined.groups, sender, work.messages, &mut frames);
                let (committed, group) = (consensus.committed(), joined.place.group);
                let lacking = joined.member.consensus_mut().lacking();
                lacking.into_iter().for_each(|peer| joined.groups.install_wanted(group, peer));
                if joined.amnesia.as_ref().is_some_and(|amnesia| amnesia.is_over(committed, term)) {
                    joined.remember();
                }
                joined.answer_askers(&mut frames);
                joined.tell_of_rest(end, &mut frames);
                self.look_at_agreement(joined, &mut frames);
                let is_amnesiac = joined.amnesia.is_some();
                let was_amnesiac = std::mem::replace(&mut joined.last_said.is_amnesiac, is_amnesiac);
                let remembered = (was_amnesiac != is_amnesiac).then(|| joined.member.consensus().vote());
                after.member.has_members |= joined.notices_members();
                after.member.hands_over = work.hands_over;
                after.member.asks_to_open |= joined.candidacy.take_question();
                if let Some(vote) = work.vote.or(remembered) {
                    let replica = Weak::clone(&self.me) as Weak<dyn GroupReplica>;
                    joined.groups.leave_vote(joined.place, (vote, is_amnesiac), replica);
                    after.member.has_voted = true;
                }
                let MemberWork { role, leader, needs_sync, must_send, .. } = &mut after.member;
                *leader = joined.note_change_of_leader(now).or(*leader);
                *must_send |= joined.frames.add(&mut frames);
                *role = work.role.or(*role);
                *needs_sync = work.needs_sync;
            }
            Err(failed) => self.end_with_member(&failed, (joined, core), after),
        }
    }

    /// Its member has failed: the stream does, too, and both are opened anew.
    fn end_with_member(
        &self,
        failed: &MemberFailed,
        (joined, core): (&mut JoinedMember, &mut StreamCore),
        after: &mut TurnResult,
    ) {
        core.store().give_up(&format!("as a member of its group: {failed}"));
        core.released(&mut after.effects);
        if is_full(failed) {
            self.note_full(joined);
        }
        self.tell_of_failure(joined, after);
    }

    /// Has others go on without its member, which has failed with its stream.
    fn tell_of_failure(&self, joined: &mut JoinedMember, after: &mut TurnResult) {
        let mut frames = MessageBuf::default();
        joined.end_with_stream(&mut frames);
        joined.note_rest();
        after.member.must_send |= joined.frames.add(&mut frames);
    }

    /// Opens its member anew, with a stream that was.
    pub(super) fn reopen_member(&self, core: &mut StreamCore, effects: &mut Effects) {
        let mut membership = lock(&self.membership.member);
        let Some(joined) = &mut *membership else { return };
        lock(&self.membership.inbox).clear();
        if joined.start.lacks_sync(core.store()) {
            joined.groups.sync_now();
        }
        let vote = joined.groups.recall(joined.place.group, true, true).vote;
        let (confirmed, lost) =
            (joined.member.consensus().confirmed(), LostEntries::of(joined.member.consensus()));
        let open = |core: &mut StreamCore, is_amnesiac| {
            let is_damaged = self.is_damaged() && joined.has_other_voters();
            GroupMember::open(core, GroupStart { vote, is_amnesiac, is_damaged, ..joined.start.clone() })
        };
        let is_amnesiac = joined.amnesia.is_some();
        let mut has_hole = false;
        let reopened = open(core, is_amnesiac).or_else(|flaw| {
            has_hole = self.mend_core(&flaw, joined, core)?;
            if !has_hole {
                return Err(flaw);
            }
            open(core, true)
        });
        let opened = reopened.and_then(|member| {
            let (term, index) = confirmed;
            let has_it = !has_hole
                && (index == 0
                    || member.consensus().has_entry(index, term)
                    || myelin_stdx::planted::bug(117));
            if !has_it && !has_hole {
                self.mark_amnesiac(&joined.groups, joined.place).map_err(StoreError::Io)?;
            }
            Ok((has_it, if has_it || has_hole || is_amnesiac { member } else { open(core, true)? }))
        });
        match opened {
            Ok((has_it, mut member)) => {
                member.want_members(&joined.wanted);
                joined.member = member;
                if !has_it {
                    self.forget(joined, lost);
                }
                joined.last_said.has_failed = false;
                // The order to compare may have come meanwhile, to nobody.
                joined.agreement = Agreement::default();
                // Some may have been told that its disk is full.
                joined.tell_others();
            }
            Err(failed) => {
                // It fails with its stream, which is opened anew later: it hears nothing till then.
                core.store().give_up(&format!("as a member of its group: {failed}"));
                core.released(effects);
            }
        }
    }

    /// Notes that its member has lost entries that it had confirmed in this life, which is written
    /// down.
    fn forget(&self, joined: &mut JoinedMember, lost: LostEntries) {
        let before = joined.amnesia.as_ref().map(Amnesia::lost).unwrap_or_default();
        joined.amnesia = Some(Amnesia::behind(lost.and(before), joined.groups.uptime()));
        joined.last_said.is_amnesiac = true;
        let (account, name) = (self.scope.account.name(), &self.scope.name);
        let line = format_args!(
            "JetStream stream '{account} > {name}' has lost entries that it had confirmed: it votes when it has \
             what was committed"
        );
        self.scope.host.log(Level::Warn, line);
    }

    /// Sees to what its member wants done, but for its frames.
    pub(super) fn apply_member_work(&self, work: &mut MemberWork) {
        if let Some(watcher) = self.membership.watcher.get().and_then(Weak::upgrade) {
            watcher.committed(self.scope.account.name(), &self.scope.name);
            if let Some(leader) = work.leader.take() {
                watcher.has_leader(self.scope.account.name(), &self.scope.name, leader);
            }
            if std::mem::take(&mut work.has_members) {
                watcher.has_members(self.scope.account.name(), &self.scope.name);
            }
            if std::mem::take(&mut work.asks_to_open) {
                watcher.asks_to_open(self.scope.account.name(), &self.scope.name);
            }
        }
        let membership = lock(&self.membership.member);
        let (Some(joined), Some(me)) = (&*membership, self.me.upgrade()) else { return };
        let groups = Arc::clone(&joined.groups);
        let has_caught_up = self.direct.is_awaited() && joined.has_caught_up(self.scope.host.now());
        drop(membership);
        if has_caught_up && self.direct.may_open() {
            let me = Arc::clone(&me);
            self.scope.host.spawn_sync(Box::new(move || me.direct.open(&me.scope, me.config().allow_direct)));
        }
        let replica: Arc<dyn GroupReplica> = Arc::clone(&me) as Arc<dyn GroupReplica>;
        if std::mem::take(&mut work.has_voted) {
            groups.write_votes();
        }
        if std::mem::take(&mut work.needs_sync) {
            groups.sync(&replica);
        }
        if std::mem::take(&mut work.hands_over) && !self.membership.hand_over.is_under_way() {
            let me = Arc::clone(&me);
            self.scope.host.spawn_sync(Box::new(move || me.hand_over()));
        }
        if let Some(role) = work.role.take() {
            let mut change = lock(&self.membership.role);
            change.wanted = Some(role);
            if !std::mem::replace(&mut change.is_under_way, true) {
                drop(change);
                self.scope.host.spawn_sync(Box::new(move || me.change_role()));
            }
        }
    }

    /// Whether the stream may begin to decide, as far as it is for its member to say.
    pub(super) fn may_lead(&self, core: &StreamCore) -> bool {
        lock(&self.membership.member).as_ref().is_none_or(|joined| joined.member.may_lead(core))
    }

    /// Gives the stream a role that it has not. One thread at a time does.
    pub(super) fn take_role(self: &Arc<Self>, role: ReplicaRole) {
        let _alone = lock(&self.membership.changing);
        if role != self.role() {
            self.set_role(role);
        }
    }

    /// Gives the stream the role that its member wants, and the one that it wants then.
    fn change_role(self: &Arc<Self>) {
        loop {
            let wanted = {
                let mut change = lock(&self.membership.role);
                change.is_under_way = change.wanted.is_some();
                change.wanted.take()
            };
            let Some(role) = wanted else { return };
            self.take_role(role);
            self.serve_off_shard();
            let watcher = self.membership.watcher.get().and_then(Weak::upgrade);
            watcher.into_iter().for_each(|watcher| {
                watcher.has_role(self.scope.account.name(), &self.scope.name, self.role())
            });
        }
    }

    /// Publishes its member's frames on a shard, if this turn has to.
    pub(super) fn send_frames(&self, work: &mut MemberWork, shard: Option<&mut ServiceShard>) {
        if !std::mem::take(&mut work.must_send) {
            return;
        }
        let frames = lock(&self.membership.member).as_ref().map(|joined| Arc::clone(&joined.frames));
        match (frames, shard) {
            (Some(frames), Some(shard)) => frames.send(shard),
            (Some(frames), None) => frames.send_elsewhere(),
            (None, _) => {}
        }
    }
}

impl GroupReplica for LiveStream {
    fn tell(&self, event: MemberEvent) {
        lock(&self.membership.inbox).push(event);
    }

    fn serve_on(&self, shard: &mut ServiceShard) {
        let after = self.submit(StreamWork::Member, shard.spare_buf());
        let spare = self.deliver(after, shard);
        shard.keep_buf(spare);
    }

    fn serve_off_shard(&self) {
        self.submit_and_wait(StreamWork::Member);
    }

    fn wants_whole(&self) -> Option<(GroupPlace, Vec<Peer>)> {
        self.lacking()
    }

    fn is_gone(&self) -> bool {
        self.core.is_gone()
    }

    fn install_source(&self, to: Peer) -> Option<(GroupPlace, InstallSource, u64)> {
        self.draw_install(to)
    }

    fn begin_install(
        &self,
        place: GroupPlace,
        point: InstallPoint,
        lifetimes_until: u64,
    ) -> Result<Box<dyn IncomingReplica>, String> {
        self.stage_install(place, (point, lifetimes_until))
    }
}

/// Where the log of a stream's group ends.
fn end_of_log(core: &StreamCore) -> Option<RestWord> {
    let GroupPosition { term, index, chain, .. } = core.store().group()?;
    Some(RestWord { term, index, chain })
}
