//! Lease of a leader: until when nobody else can lead its group, as far as it knows.
//!
//! A server that was silent for longer than an election leads nothing any more, and finds that out
//! only when it hears of another leader. What it would refuse or show meanwhile may be older than
//! what that one has answered. So a leader takes publishes, and answers for its stream, only as
//! long as a majority that has confirmed its term supports its server; support comes with the words
//! between servers, for all groups together. Publishes that come without it are held.

use super::LiveStream;
use super::membership::JoinedMember;
use super::turn::{StreamWork, TurnResult};
use myelin_broker::ServiceBatch;
use myelin_replica::{Peer, RaftRole};
use myelin_streams::stream::StreamCore;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;

/// Until when other members support this server.
pub(super) type Support = BTreeMap<Peer, u64>;

impl LiveStream {
    /// Whether this replica leads, and nobody else can. Only for threads that may wait.
    pub(in crate::engine) fn leads_surely(&self) -> bool {
        if !self.role().leads() {
            return false;
        }
        if !self.is_in_lease() {
            self.submit_and_wait(StreamWork::Member);
        }
        self.role().leads() && self.is_in_lease()
    }

    /// Whether nobody else can lead, as was known at the last look.
    ///
    /// Perf: one comparison for each batch of publishes.
    pub(super) fn is_in_lease(&self) -> bool {
        !self.membership.is_taken() || self.now_of_lease() < self.membership.lease_until.load(Acquire)
    }

    /// Looks anew where the lease is over. For whoever has the core.
    pub(super) fn renews_lease(&self, core: &mut StreamCore, after: &mut TurnResult) -> bool {
        self.advance_member(core, after);
        self.is_in_lease()
    }

    fn now_of_lease(&self) -> u64 {
        self.nanoseconds_at(self.scope.host.instant())
    }

    fn nanoseconds_at(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.scope.opened).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Support of other servers, where the lease has to be renewed. To be asked before the member
    /// hears its news: support that was given anew counts only behind the news that it had lapsed.
    pub(super) fn support_for_lease(&self, joined: &JoinedMember) -> Option<Support> {
        let consensus = joined.member.consensus();
        if consensus.role() != RaftRole::Leader || self.is_in_lease() {
            return None;
        }
        let until = |peer: &Peer| joined.groups.supported_until(*peer).map(|at| self.nanoseconds_at(at));
        let voters = consensus.members().all_voters();
        Some(voters.into_iter().filter_map(|peer| Some((peer, until(&peer)?))).collect())
    }

    /// Notes until when nobody else can lead.
    pub(super) fn renew_lease(&self, joined: &JoinedMember, support: Option<Support>) {
        let consensus = joined.member.consensus();
        let lease = &self.membership.lease_until;
        // Whoever is to lead may be elected however sure this one was.
        if consensus.role() != RaftRole::Leader || consensus.is_handing_over() {
            lease.store(0, Release);
        } else if let Some(support) = support {
            let until = consensus.sure_until(|peer| support.get(&peer).copied().unwrap_or(0));
            lease.store(until, Release);
        }
    }

    /// Holds publishes until it is known whether this replica leads. Gives them back where they
    /// need not be held.
    pub(super) fn hold_in_doubt(&self, msgs: ServiceBatch) -> Option<ServiceBatch> {
        let Some(me) = self.me.upgrade() else { return Some(msgs) };
        if self.membership.hand_over.begin() {
            me.doubt();
        }
        self.membership.hand_over.hold(msgs)
    }
}
