//! Other servers: which life of each is known, and whether it is there.

use super::day_clocks::DayClocks;
use myelin_broker::LinkedPeer;
use myelin_replica::Peer;
use myelin_replica::frame::TimeWord;
use myelin_replica::liveness::{Liveness, SupportAnswer, SupportRequest};
use myelin_store::Timestamp;
use std::collections::BTreeMap;

/// Life of another server in which it has said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerLife {
    /// The one that is known.
    Known,
    /// A later one, or the first that is heard: what it confirmed before counts no more.
    New,
    /// An earlier one, by so many: nobody listens.
    Ended(u32),
}

/// Servers with which this one shares groups.
pub(super) struct Peers {
    liveness: Liveness,
    /// Low halves of the numbers of their lives.
    lives: BTreeMap<Peer, u32>,
    /// Links for frames.
    links: BTreeMap<Peer, LinkedPeer>,
    /// Clusters as links have said last; `None`: this server's.
    clusters: BTreeMap<Peer, Option<String>>,
    clocks: DayClocks,
}

impl Peers {
    pub(super) fn new(incarnation: u64) -> Self {
        let (lives, links, clusters) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (liveness, clocks) = (Liveness::new(incarnation, &[], 0), DayClocks::default());
        Self { liveness, lives, links, clusters, clocks }
    }

    pub(super) fn know(&mut self, peer: Peer, now: u64) {
        self.liveness.know(peer, now);
    }

    /// Notes that a server has said something in one of its lives.
    pub(super) fn hear(&mut self, peer: Peer, incarnation: u32) -> PeerLife {
        let Some(&known) = self.lives.get(&peer) else {
            self.lives.insert(peer, incarnation);
            return PeerLife::New;
        };
        if incarnation == known {
            return PeerLife::Known;
        }
        // Half of what a number can be is ahead of it, however often it has been around.
        if incarnation.wrapping_sub(known) > u32::MAX / 2 {
            return PeerLife::Ended(known.wrapping_sub(incarnation));
        }
        self.lives.insert(peer, incarnation);
        PeerLife::New
    }

    /// There is a link to a server.
    pub(super) fn link(&mut self, peer: Peer, link: &LinkedPeer) {
        self.links.insert(peer, link.clone());
    }

    /// A link has ended. Answers whether it was the one to that server.
    pub(super) fn unlink(&mut self, peer: Peer, link: &LinkedPeer) -> bool {
        let is_last = self.links.get(&peer).is_some_and(|known| known.is_same_link(link));
        if is_last {
            self.links.remove(&peer);
        }
        is_last
    }

    /// A server has said of which cluster it is; `None`: of this server's.
    pub(super) fn is_of(&mut self, peer: Peer, cluster: Option<&str>) {
        self.clusters.insert(peer, cluster.map(str::to_owned));
    }

    /// The cluster of a server that was linked in this life: `Some(None)` is this server's.
    pub(super) fn cluster_of(&self, peer: Peer) -> Option<Option<&str>> {
        self.clusters.get(&peer).map(Option::as_deref)
    }

    /// Bytes that wait for a server's socket.
    pub(super) fn waiting(&self, peer: Peer) -> usize {
        self.links.get(&peer).map_or(0, LinkedPeer::waiting)
    }

    /// Lives of all that were heard.
    pub(super) fn lives(&self) -> &BTreeMap<Peer, u32> {
        &self.lives
    }

    pub(super) fn asked(&mut self, by: Peer, request: SupportRequest, now: u64) -> Option<SupportAnswer> {
        self.liveness.asked(by, request, now)
    }

    pub(super) fn hear_time(&mut self, peer: Peer, word: TimeWord, now: u64) {
        self.clocks.hear(peer, word, now);
    }

    pub(super) fn median_clock(&mut self, day: Timestamp, now: u64) -> Option<Timestamp> {
        let median = self.clocks.median(day, now);
        self.clocks.ahead = median.map_or(0, |median| day.saturating_sub(median));
        median
    }

    pub(super) fn clock_ahead(&self) -> Timestamp {
        self.clocks.ahead
    }

    pub(super) fn begins_anew(&self, by: Peer, answer: SupportAnswer, now: u64) -> bool {
        self.liveness.begins_anew(by, answer, now)
    }

    pub(super) fn answered(&mut self, by: Peer, answer: SupportAnswer, now: u64) {
        self.liveness.answered(by, answer, now);
    }

    pub(super) fn begin_life(&mut self, incarnation: u64) {
        self.liveness.begin_life(incarnation);
    }

    pub(super) fn supported_until(&self, peer: Peer) -> u64 {
        self.liveness.supported_until(peer)
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

    pub(super) fn is_there(&self, peer: Peer, now: u64) -> bool {
        self.liveness.is_supported_by(peer, now)
    }

    pub(super) fn heard_ago(&self, peer: Peer, now: u64) -> Option<u64> {
        self.liveness.answered_ago(peer, now)
    }

    pub(super) fn has_promised_nothing(&mut self) {
        self.liveness.has_promised_nothing();
    }

    pub(super) fn supports(&self, peer: Peer, now: u64) -> bool {
        self.liveness.supports(peer, now)
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
        assert_eq!(peers.hear(peer, u32::MAX), PeerLife::New, "the first that is heard");
        assert_eq!(peers.hear(peer, u32::MAX), PeerLife::Known);
        assert_eq!(peers.hear(peer, 0), PeerLife::New, "the number has been around");
        assert_eq!(peers.hear(peer, u32::MAX), PeerLife::Ended(1));
        assert_eq!(peers.hear(peer, 0), PeerLife::Known);
        let other = Peer::from_number(3).expect("not zero");
        assert_eq!(peers.hear(other, 7), PeerLife::New, "each has its own");
    }
}
