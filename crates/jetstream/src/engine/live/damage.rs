//! Damage of a replica: where others of its group have what it lacks, it gets the whole stream from
//! its leader, and the damaged one is removed when the new one is whole.
//!
//! Until then it takes entries and votes, and neither leads nor answers direct gets.

use super::LiveStream;
use super::membership::JoinedMember;
use crate::engine::groups::{GroupConfig, GroupReplica, Groups, MemberEvent};
use myelin_broker::Level;
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::damage::ReplicaNews;
use myelin_replica::frame::GroupPlace;
use myelin_replica::{GroupId, Peer};
use myelin_stdx::os_error::words;
use myelin_stdx::sync::lock;
use myelin_store::StoreError;
use myelin_streams::group::MemberFailed;
use myelin_streams::stream::StreamCore;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a replica that leads waits for another one to take the lead before it goes on without
/// what is damaged.
const ALONE_AFTER: Duration = Duration::from_secs(60);

impl LiveStream {
    /// Something of it is missing or cannot be read: if it is a member of a group, that is to give
    /// it what it lacks.
    pub(in crate::engine) fn note_damage(&self) {
        if self.health.note_damage(self.scope.host.instant())
            && let Some(me) = self.me.upgrade()
        {
            // Whoever has met the damage may have the stream's core, or its member.
            self.scope.host.spawn_sync(Box::new(move || me.see_to_damage()));
        }
    }

    /// The device refuses to read something of it, which others of its group have.
    pub(super) fn note_unreadable(&self, error: &io::Error) {
        if !self.is_damaged() {
            let (account, name) = (self.scope.account.name(), &self.scope.name);
            let line = format_args!("JetStream stream '{account} > {name}' cannot be read: {}", words(error));
            self.scope.host.log(Level::Error, line);
            self.note_damage();
        }
    }

    /// A stream that has failed because its consumers are not as its group has them has something
    /// else stored than the others.
    pub(super) fn note_divergence(&self, core: &StreamCore) {
        if core.has_diverged() {
            self.note_disagreement();
        }
    }

    /// Most replicas of its group are not as this one is, though they have the same log: it is to
    /// get what they have.
    pub(super) fn note_disagreement(&self) {
        self.health.note_disagreement();
        self.note_damage();
    }

    /// Has what damage has left of its log be that of a member, which is to get everything anew,
    /// where others of its group have that.
    pub(super) fn mend_log(
        &self,
        flaw: &MemberFailed,
        (groups, GroupConfig { place, voters }): (&Groups, &GroupConfig),
    ) -> Result<(), ApiError> {
        if voters.iter().all(|&voter| voter == groups.me) {
            // Nobody else has what is lost.
            return Err(ApiError::stream_general(flaw));
        }
        let mut guard = self.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
        let mended = match flaw {
            MemberFailed::Hole(missing) => self.cut_before(*missing, (groups, *place), guard.parts().0),
            _ => self.begin_behind(flaw, (groups, *place)),
        };
        mended.map_err(ApiError::stream_general)
    }

    /// As [`LiveStream::mend_log`], of a member that is opened anew. Answers whether that is what
    /// ails it.
    pub(super) fn mend_core(
        &self,
        flaw: &MemberFailed,
        joined: &JoinedMember,
        core: &mut StreamCore,
    ) -> Result<bool, MemberFailed> {
        let whose = (&*joined.groups, joined.place);
        match flaw {
            _ if !joined.has_other_voters() => return Ok(false),
            MemberFailed::Hole(missing) => self.cut_before(*missing, whose, core)?,
            MemberFailed::Contradiction => self.begin_behind(flaw, whose)?,
            _ => return Ok(false),
        }
        if joined.start.lacks_sync(core.store()) {
            joined.groups.sync_now();
        }
        Ok(true)
    }

    /// Damage has taken an entry that may not be committed: the log of its member ends before that,
    /// as one whose end is lost. What it had confirmed behind it others have, or will be.
    fn cut_before(
        &self,
        missing: u64,
        (groups, place): (&Groups, GroupPlace),
        core: &mut StreamCore,
    ) -> Result<(), StoreError> {
        // Amnesia first: the log looks whole from then on.
        self.mark_amnesiac(groups, place).map_err(StoreError::Io)?;
        core.take_back(missing, self.scope.host.now())?;
        let what = format_args!("lacks the entry {missing} of its group's log: it goes on before that");
        self.note_lost_entries(&what);
        Ok(())
    }

    /// Damage has taken entries that are committed, and what is left contradicts itself: the log of
    /// its member begins behind them.
    fn begin_behind(
        &self,
        flaw: &MemberFailed,
        (groups, place): (&Groups, GroupPlace),
    ) -> Result<(), StoreError> {
        self.mark_amnesiac(groups, place).map_err(StoreError::Io)?;
        self.note_lost_entries(&format_args!(
            "lacks entries of its group's log, and goes on behind them: {flaw}"
        ));
        Ok(())
    }

    fn note_lost_entries(&self, what: &dyn std::fmt::Display) {
        let (account, name) = (self.scope.account.name(), &self.scope.name);
        self.scope.host.log(Level::Error, format_args!("JetStream stream '{account} > {name}' {what}"));
        self.note_damage();
    }

    fn see_to_damage(&self) {
        let membership = lock(&self.membership.member);
        let Some(joined) = membership.as_ref() else { return };
        let (groups, group) = (Arc::clone(&joined.groups), joined.place.group);
        drop(membership);
        self.is_mended_by(&groups, group);
        self.tell(MemberEvent::Damaged);
        self.serve_off_shard();
        if !self.role().leads() {
            self.direct.withdraw(&self.scope);
        }
    }

    /// Begins its time as a member of a group: others, if there are some, have what is damaged
    /// here, or will be.
    pub(super) fn begin_mending(&self, groups: &Groups, GroupConfig { place, voters }: &GroupConfig) {
        self.view.set_mended(voters.iter().any(|&voter| voter != groups.me));
        if self.is_damaged() {
            self.is_mended_by(groups, place.group);
        }
    }

    /// Has its group asked for everything from now on.
    pub(super) fn is_mended_by(&self, groups: &Groups, group: GroupId) {
        if groups.note_damaged(group) {
            let (account, name) = (self.scope.account.name(), &self.scope.name);
            let (why, news) = match self.health.disagrees() {
                true => ("for it is not as the others are", ReplicaNews::Disagreed),
                false => ("for what it has lost", ReplicaNews::Damaged),
            };
            let line = format_args!(
                "JetStream stream '{account} > {name}' does not lead its group, {why}, until it has all from \
                 another server"
            );
            self.scope.host.log(Level::Warn, line);
            if let Some(watcher) = self.membership.watcher.get().and_then(Weak::upgrade) {
                watcher.is_damaged(account, name, news);
            }
        }
    }

    /// Whether it lacks something that it had stored: messages, or the states of consumers as its
    /// group has them. It does until another replica has taken its place, though what it lacks be
    /// removed meanwhile: nobody knows what stood beside that.
    pub(in crate::engine) fn is_damaged(&self) -> bool {
        self.health.is_damaged()
    }

    /// Its group and the other members, as long as it is damaged. One that leads has another member
    /// lead, if there is one.
    pub(super) fn lacking(&self) -> Option<(GroupPlace, Vec<Peer>)> {
        if !self.is_damaged() {
            return None;
        }
        if self.can_hand_over()
            && let Some(me) = self.me.upgrade()
        {
            me.hand_over();
        }
        let membership = lock(&self.membership.member);
        let joined = membership.as_ref()?;
        let (place, voters) = (joined.place, joined.member.consensus().members().all_voters());
        drop(membership);
        if voters.len() == 1
            || self.role().leads() && self.health.is_damaged_for(ALONE_AFTER, self.scope.host.instant())
        {
            // Nobody is there who has more.
            self.view.set_mended(false);
        }
        Some((place, voters))
    }

    /// Whether another member of its group is about to get the whole stream from here, as far as is
    /// known.
    pub(in crate::engine) fn is_sent_to(&self, peer: Peer) -> bool {
        let membership = lock(&self.membership.member);
        membership.as_ref().is_some_and(|joined| joined.groups.is_sending(joined.place.group, peer))
    }
}
