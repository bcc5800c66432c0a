//! Other servers: which life of each is known, and whether it is there.

use myelin_replica::Peer;
use myelin_replica::liveness::{Liveness, SupportAnswer, SupportRequest};
use std::collections::BTreeMap;

/// Life of another server in which it has said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerLife {
    /// The one that is known, or the first that is.
    Known,
    /// A later one: what it confirmed before counts no more.
    New,
    /// An earlier one: nobody listens.
    Ended,
}

/// Servers with which this one shares groups.
pub(super) struct Peers {
    liveness: Liveness,
    /// Low halves of the numbers of their lives.
    lives: BTreeMap<Peer, u32>,
}

impl Peers {
    pub(super) fn new(incarnation: u64) -> Self {
        Self { liveness: Liveness::new(incarnation, &[], 0), lives: BTreeMap::new() }
    }

    pub(super) fn know(&mut self, peer: Peer, now: u64) {
        self.liveness.know(peer, now);
    }

    /// Notes that a server has said something in one of its lives.
    pub(super) fn hear(&mut self, peer: Peer, incarnation: u32) -> PeerLife {
        let known = *self.lives.entry(peer).or_insert(incarnation);
        if incarnation == known {
            return PeerLife::Known;
        }
        // Half of what a number can be is ahead of it, however often it has been around.
        if incarnation.wrapping_sub(known) > u32::MAX / 2 {
            return PeerLife::Ended;
        }
        self.lives.insert(peer, incarnation);
        PeerLife::New
    }

    pub(super) fn asked(&mut self, by: Peer, request: SupportRequest, now: u64) -> Option<SupportAnswer> {
        self.liveness.asked(by, request, now)
    }

    pub(super) fn answered(&mut self, by: Peer, answer: SupportAnswer, now: u64) {
        self.liveness.answered(by, answer, now);
    }

    pub(super) fn due(&mut self, now: u64) -> Vec<(Peer, SupportRequest)> {
        self.liveness.due(now)
    }

    pub(super) fn withdrawn(&mut self, now: u64) -> Vec<Peer> {
        self.liveness.withdrawn(now)
    }

    pub(super) fn withdraw(&mut self, peer: Peer) {
        self.liveness.withdraw(peer);
    }

    pub(super) fn is_supported_by(&self, peer: Peer, now: u64) -> bool {
        self.liveness.is_supported_by(peer, now)
    }

    pub(super) fn may_vote(&self, now: u64) -> bool {
        self.liveness.may_vote(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_that_has_ended_is_not_heard_again() {
        let mut peers = Peers::new(1);
        let peer = Peer::from_number(2).expect("not zero");
        assert_eq!(peers.hear(peer, u32::MAX), PeerLife::Known, "the first that is heard");
        assert_eq!(peers.hear(peer, u32::MAX), PeerLife::Known);
        assert_eq!(peers.hear(peer, 0), PeerLife::New, "the number has been around");
        assert_eq!(peers.hear(peer, u32::MAX), PeerLife::Ended);
        assert_eq!(peers.hear(peer, 0), PeerLife::Known);
        let other = Peer::from_number(3).expect("not zero");
        assert_eq!(peers.hear(other, 7), PeerLife::Known, "each has its own");
    }
}
