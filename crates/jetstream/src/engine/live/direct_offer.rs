//! Offer of direct gets: which replicas of a stream answer them.
//!
//! In a cluster who leads the stream does, and each replica that has once had what its leader had,
//! as members of one queue group: one of them answers, the one where the request was made if there
//! is one. What a replica says may be old, also when it has lost its leader. A server alone is the
//! only one to answer.

use super::scope::StreamScope;
use crate::engine::direct::DirectGets;
use crate::engine::own_bindings::OwnBindings;
use myelin_broker::{Binding, Reach, Service};
use myelin_stdx::sync::lock;
use myelin_store::StreamReader;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, Mutex};

/// Queue group of those who answer. Compat: so the reference calls it.
const ANSWERERS: &[u8] = b"_sys_";

/// Whether a replica answers direct gets, and by which bindings.
pub(super) struct DirectOffer {
    gets: Arc<DirectGets>,
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
    /// Offers nothing yet.
    pub(super) fn of(gets: Arc<DirectGets>) -> Self {
        let (state, bindings, is_awaited) = (Mutex::default(), OwnBindings::default(), AtomicBool::default());
        Self { gets, state, bindings, is_awaited }
    }

    /// Reads from another reader from now on.
    pub(super) fn set_reader(&self, reader: StreamReader) {
        self.gets.set_reader(reader);
    }

    /// Whether somebody is to look whether the replica has caught up.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Acquire)
    }

    /// Answers from now on, as the stream's configuration has it: a follower when it has caught up,
    /// or goes on with it.
    pub(super) fn offer(&self, scope: &StreamScope, leads: bool, is_allowed: bool) {
        let mut state = lock(&self.state);
        if leads {
            *state = OfferState::Open;
        } else if *state == OfferState::Closed {
            *state = OfferState::Awaited;
        }
        self.is_awaited.store(*state == OfferState::Awaited, Release);
        let is_open = *state == OfferState::Open && is_allowed;
        let bindings = if is_open { self.bind(scope, &scope.name) } else { Vec::new() };
        self.bindings.replace(&scope.account, &bindings);
    }

    /// A follower has caught up. Answers whether that is to be [told](Self::open): once.
    pub(super) fn may_open(&self) -> bool {
        self.is_awaited.swap(false, AcqRel)
    }

    /// Answers from now on, if that was awaited.
    pub(super) fn open(&self, scope: &StreamScope, is_allowed: bool) {
        let mut state = lock(&self.state);
        if *state == OfferState::Awaited {
            *state = OfferState::Open;
            let bindings = if is_allowed { self.bind(scope, &scope.name) } else { Vec::new() };
            self.bindings.replace(&scope.account, &bindings);
        }
    }

    /// Answers none any more.
    pub(super) fn withdraw(&self, scope: &StreamScope) {
        let mut state = lock(&self.state);
        *state = OfferState::Closed;
        self.is_awaited.store(false, Release);
        self.bindings.replace(&scope.account, &[]);
    }

    /// Has what is here answer direct gets from a stream: itself, or the origin of a mirror.
    pub(super) fn bind(&self, scope: &StreamScope, stream: &str) -> Vec<Arc<Binding>> {
        let is_shared = scope.host.reach() == Reach::Everywhere;
        let bind = |subject: &String| {
            let gets: Arc<DirectGets> = Arc::clone(&self.gets);
            let gets = gets as Arc<dyn Service>;
            match is_shared {
                true => scope.account.bind_member(subject.as_bytes(), ANSWERERS, gets),
                false => scope.account.bind(subject.as_bytes(), gets),
            }
        };
        scope.direct_subjects(stream).iter().map(bind).collect()
    }
}
