//! A stream that is given to another server as a whole, and one that gets another's.

use super::LiveStream;
use super::amnesia::LostEntries;
use super::membership::{JoinTerms, JoinedMember, MemberWatcher, ReplacedBy, ReplicaPlace};
use crate::engine::groups::{GroupConfig, Groups, IncomingReplica};
use myelin_jsapi::ApiError;
use myelin_replica::frame::GroupPlace;
use myelin_replica::{GroupId, Peer, RaftRole};
use myelin_stdx::sync::lock;
use myelin_store::{GroupPosition, InstallPoint, InstallSource};
use myelin_streams::group::Persistence;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Weak};

/// Membership that a stream has given up, for the one that takes its place.
pub(in crate::engine) struct LeftGroup {
    pub(in crate::engine) config: GroupConfig,
    pub(in crate::engine) terms: JoinTerms,
    pub(in crate::engine) groups: Arc<Groups>,
    pub(in crate::engine) watcher: Option<Weak<dyn MemberWatcher>>,
}

impl LiveStream {
    /// Says where another one can take its place.
    pub(in crate::engine) fn set_place(&self, place: Box<dyn ReplicaPlace>) {
        let _ = self.membership.place.set(place);
    }

    /// From here on another one stands in its place, and it is a member of no group any more.
    pub(in crate::engine) fn set_replaced_by(&self, by: ReplacedBy) {
        let _ = self.membership.replaced_by.set(by);
    }

    /// The stream that stands in its place.
    pub(in crate::engine) fn replaced_by(&self) -> Option<ReplacedBy> {
        self.membership.replaced_by.get().copied()
    }

    /// Refuses to be a member where another stream stands in its place: what it would confirm from
    /// then on that one has not.
    pub(super) fn refuse_if_replaced(&self) -> Result<(), ApiError> {
        match self.replaced_by() {
            Some(_) => Err(ApiError::stream_general("another one stands in its place")),
            None => Ok(()),
        }
    }

    /// Notes in the place of which stream it stands: 0 for none.
    pub(in crate::engine) fn set_in_place_of(&self, old: u64) {
        self.membership.in_place_of.store(old, Relaxed);
    }

    /// Number of the stream in whose place it stands; 0 for none. A start that finds both goes by
    /// that, so it is written down with every configuration.
    pub(in crate::engine) fn in_place_of(&self) -> u64 {
        self.membership.in_place_of.load(Relaxed)
    }

    /// The stream as a whole, as far as it is committed, if this replica leads and lacks nothing
    /// itself. Entries behind that are kept for the other server. Only for threads that may wait.
    pub(super) fn draw_install(&self, to: Peer) -> Option<(GroupPlace, InstallSource, u64)> {
        if self.is_damaged() {
            return None;
        }
        let mut guard = self.lock_core()?;
        let (core, _) = guard.parts();
        if core.store().failure().is_some() {
            return None;
        }
        let (source, lifetimes_until) = (core.install_source()?, core.lifetimes_until());
        let mut membership = lock(&self.membership.member);
        let leads = |joined: &&mut JoinedMember| joined.member.consensus().role() == RaftRole::Leader;
        let joined = membership.as_mut().filter(leads)?;
        joined.member.hold_log(to, source.point().position.index, self.scope.host.now());
        Some((joined.place, source, lifetimes_until))
    }

    /// Begins a stream that can take this one's place. Only for threads that may wait.
    ///
    /// # Errors
    /// Words for why not: it has what is offered, or the disk refuses.
    pub(super) fn stage_install(
        &self,
        place: GroupPlace,
        (point, lifetimes_until): (InstallPoint, u64),
    ) -> Result<Box<dyn IncomingReplica>, String> {
        let (own, committed) = {
            let membership = lock(&self.membership.member);
            let joined = membership.as_ref().ok_or("it is no member now")?;
            (joined.place, joined.member.consensus().committed())
        };
        if own != place {
            return Err("it is a member of another group".to_owned());
        }
        if committed >= point.position.index && !self.is_damaged() {
            return Err("it has all of it".to_owned());
        }
        let here = self.membership.place.get().ok_or("its account is gone")?;
        here.stage((point, lifetimes_until))
    }

    /// Is a member of its group no more, if that is committed up to `point` and this member lacks
    /// the entry there. Whatever it has behind that, it has confirmed to nobody who counts it. One
    /// that lacks messages to damage may have confirmed more than there is up to the point, which
    /// the one in its place has to have before it votes. Only for threads that may wait.
    pub(in crate::engine) fn leave_behind(&self, point: GroupPosition) -> Option<LeftGroup> {
        let is_damaged = self.is_damaged();
        // No turn is under way while this thread has the core.
        let guard = self.lock_core()?;
        let mut membership = lock(&self.membership.member);
        let is_behind = membership.as_ref().is_some_and(|joined| {
            let consensus = joined.member.consensus();
            let has_it = consensus.committed() >= point.index || consensus.has_entry(point.index, point.term);
            (!has_it || is_damaged) && consensus.role() != RaftRole::Leader
        });
        let joined = membership.take_if(|_| is_behind)?;
        drop(membership);
        let lost = LostEntries::of(joined.member.consensus());
        let mut left = self.leave(joined);
        drop(guard);
        if is_damaged {
            left.terms = JoinTerms { is_amnesiac: true, lost, ..left.terms };
        }
        Some(left)
    }

    /// The group of which it is a member.
    pub(in crate::engine) fn group(&self) -> Option<GroupId> {
        lock(&self.membership.member).as_ref().map(|joined| joined.place.group)
    }

    /// Ends its membership, if the stream has failed and others may have what it had: to them a
    /// member that takes its place is one that has lost that. Only for threads that may wait.
    pub(in crate::engine) fn leave_failed(&self) -> Option<LeftGroup> {
        let mut guard = self.lock_core()?;
        let has_failed = guard.parts().0.store().failure().is_some();
        let mut membership = lock(&self.membership.member);
        let has_others = |joined: &JoinedMember| joined.member.consensus().members().all_voters().len() > 1;
        let joined = membership.take_if(|joined| has_failed && has_others(joined))?;
        drop(membership);
        let mut left = self.leave(joined);
        drop(guard);
        left.terms.is_amnesiac = true;
        Some(left)
    }

    /// Is no member any more. For whoever has the core.
    fn leave(&self, joined: JoinedMember) -> LeftGroup {
        self.membership.is_taken.store(false, Release);
        lock(&self.membership.inbox).clear();
        lock(&self.membership.role).wanted = None;
        self.direct.withdraw(&self.scope);
        self.view.set_mended(false);
        joined.groups.remove(joined.place.group);
        let terms = JoinTerms {
            seed: joined.start.seed,
            is_synced: joined.start.persistence == Persistence::Synced,
            may_be_new: false,
            is_amnesiac: joined.amnesia.is_some(),
            lost: LostEntries::default(),
            is_open: !joined.candidacy.waits(),
        };
        LeftGroup {
            config: GroupConfig { place: joined.place, voters: joined.start.voters },
            terms,
            groups: joined.groups,
            watcher: self.membership.watcher.get().cloned(),
        }
    }
}
