//! Offer of direct gets: which replicas of a stream answer them.
//!
//! In a cluster who leads the stream does, and each replica that has once had what its leader had,
//! as members of one queue group: one of them answers, the one where the request was made if there
//! is one. What a replica says may be old, also when it has lost its leader. A server alone is the
//! only one to answer.

use super::LiveStream;
use crate::engine::direct::DirectGets;
use crate::engine::own_bindings::OwnBindings;
use myelin_broker::{Binding, Reach, Service};
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, Mutex};

/// Queue group of those who answer. Compat: so the reference calls it.
const ANSWERERS: &[u8] = b"_sys_";

/// So many nanoseconds after a first word of its leader a follower has heard of all that it lacks.
const SETTLING: Timestamp = 1_000_000_000;

/// Whether a replica answers direct gets, and by which bindings.
#[derive(Default)]
pub(super) struct DirectOffer {
    state: Mutex<OfferState>,
    bindings: OwnBindings,
    /// Whether a replica is to answer when it has caught up. Perf: each turn of a member looks
    /// here.
    is_awaited: AtomicBool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum OfferState {
    /// Nothing is received.
    #[default]
    Closed,
    /// A follower that may lack something.
    Awaited,
    Open,
}

impl DirectOffer {
    /// Whether somebody is to look whether the replica has caught up.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Acquire)
    }
}

/// Progress of a follower towards its leader's log, since it has joined.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    /// When it has heard of a leader first.
    heard: Option<Timestamp>,
    /// Index up to which leaders have said that the log is committed.
    wanted: u64,
}

impl CatchUp {
    /// A leader says up to where the log is committed.
    pub(super) fn hear(&mut self, commit: u64, now: Timestamp) {
        self.heard.get_or_insert(now);
        self.wanted = self.wanted.max(commit);
    }

    /// Whether the follower, which knows its log to be committed up to there, has had all that its
    /// leader had.
    pub(super) fn is_over(&self, committed: u64, now: Timestamp) -> bool {
        self.heard.is_some_and(|since| now - since >= SETTLING) && committed >= self.wanted
    }
}

impl LiveStream {
    /// Answers direct gets as its configuration has it, from now on: a follower when it has caught
    /// up, or goes on with it.
    pub(super) fn offer_direct_gets(&self) {
        let mut state = lock(&self.direct_offer.state);
        if self.view.leads() {
            *state = OfferState::Open;
        } else if *state == OfferState::Closed {
            *state = OfferState::Awaited;
        }
        self.direct_offer.is_awaited.store(*state == OfferState::Awaited, Release);
        let bindings = if *state == OfferState::Open { self.bind_direct_gets() } else { Vec::new() };
        self.direct_offer.bindings.replace(&self.scope.account, &bindings);
    }

    /// The replica is a member of a group from now on of whose log it has nothing.
    pub(super) fn await_direct_gets(&self) {
        self.withdraw_direct_gets();
        self.offer_direct_gets();
    }

    /// A follower has caught up. Answers whether it is to be [told](Self::open_direct_gets): once.
    pub(super) fn may_open_direct_gets(&self) -> bool {
        self.direct_offer.is_awaited.swap(false, AcqRel)
    }

    /// Answers direct gets, if that was awaited.
    pub(super) fn open_direct_gets(&self) {
        let mut state = lock(&self.direct_offer.state);
        if *state == OfferState::Awaited {
            *state = OfferState::Open;
            self.direct_offer.bindings.replace(&self.scope.account, &self.bind_direct_gets());
        }
    }

    /// Answers none any more.
    pub(super) fn withdraw_direct_gets(&self) {
        let mut state = lock(&self.direct_offer.state);
        *state = OfferState::Closed;
        self.direct_offer.is_awaited.store(false, Release);
        self.direct_offer.bindings.replace(&self.scope.account, &[]);
    }

    fn bind_direct_gets(&self) -> Vec<Arc<Binding>> {
        if self.config().allow_direct { self.answer_direct_gets_of(&self.scope.name) } else { Vec::new() }
    }

    /// Answers direct gets that are for its origin, as a mirror may.
    pub(in crate::engine) fn bind_as_mirror(&self, origin: &str) -> Vec<Arc<Binding>> {
        self.answer_direct_gets_of(origin)
    }

    fn answer_direct_gets_of(&self, stream: &str) -> Vec<Arc<Binding>> {
        let account = &self.scope.account;
        let is_shared = self.scope.host.reach() == Reach::Everywhere;
        let bind = |subject: &String| {
            let direct: Arc<DirectGets> = Arc::clone(&self.direct);
            let direct = direct as Arc<dyn Service>;
            match is_shared {
                true => account.bind_member(subject.as_bytes(), ANSWERERS, direct),
                false => account.bind(subject.as_bytes(), direct),
            }
        };
        self.scope.direct_subjects(stream).iter().map(bind).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_has_caught_up_when_it_has_what_it_has_heard_of_for_a_while() {
        let mut catch_up = CatchUp::default();
        assert!(!catch_up.is_over(7, SETTLING), "it has heard of no leader");
        catch_up.hear(0, 10);
        assert!(!catch_up.is_over(7, SETTLING), "more may be on its way");
        assert!(catch_up.is_over(7, SETTLING + 10));
        catch_up.hear(9, 20);
        catch_up.hear(8, 30);
        assert!(!catch_up.is_over(8, 2 * SETTLING) && catch_up.is_over(9, 2 * SETTLING));
    }
}
