//! Members, and the network between them.

use myelin_disk::faulty::Survival;
use myelin_replica::{Peer, RaftMessage, RaftMessageKind, RaftRole};
use myelin_stdx::rng::Rng;
use myelin_store::Timestamp;

use super::replica::Replica;
use crate::group::{MemberFailed, Persistence};
use crate::stream::tests::NOW;

/// One group.
pub(super) struct Group {
    pub(super) replicas: Vec<Replica>,
    /// Messages that are on their way.
    pub(super) wire: Vec<RaftMessage>,
    /// Members that nobody hears, and that hear nobody.
    pub(super) isolated: Vec<usize>,
    pub(super) now: Timestamp,
    pub(super) rng: Rng,
    pub(super) are_syncs_held: bool,
    /// How many messages of a thousand the network loses, and as many it repeats.
    pub(super) loss: u64,
}

impl Group {
    pub(super) fn new(size: usize, persistence: Persistence, seed: u64) -> Self {
        Self::with_others(size, 0, persistence, seed)
    }

    /// A group of `size` members, and servers that are none yet.
    pub(super) fn with_others(size: usize, others: usize, persistence: Persistence, seed: u64) -> Self {
        let voters: Vec<Peer> = (1..=size as u64).map(|n| Peer::from_number(n).unwrap()).collect();
        let replicas =
            (0..size + others).map(|number| Replica::new(number, &voters, persistence, NOW)).collect();
        Self {
            replicas,
            wire: Vec::new(),
            isolated: Vec::new(),
            now: NOW,
            rng: Rng::seeded(seed),
            are_syncs_held: false,
            loss: 0,
        }
    }

    pub(super) fn publish(&mut self, number: usize, reply: &str, payload: &str) {
        self.publish_with(number, reply, &[], payload);
    }

    pub(super) fn publish_with(&mut self, number: usize, reply: &str, headers: &[&str], payload: &str) {
        self.publish_messages(number, &[(reply, headers, payload)]);
    }

    pub(super) fn publish_all(&mut self, number: usize, payloads: &[String]) {
        let messages: Vec<(&str, &[&str], &str)> =
            payloads.iter().map(|payload| ("r", &[][..], payload.as_str())).collect();
        self.publish_messages(number, &messages);
    }

    /// Publishes messages with these replies, headers and payloads at once.
    pub(super) fn publish_messages(&mut self, number: usize, messages: &[(&str, &[&str], &str)]) {
        self.now += 1_000_000;
        self.replicas[number].publish(messages, self.now);
        self.advance(number);
    }

    /// Does what a member asks for. One that has failed is opened anew from its disk.
    pub(super) fn advance(&mut self, number: usize) {
        let replica = &mut self.replicas[number];
        let advanced = replica.advance(self.now);
        if advanced.is_ok() && replica.needs_sync && !self.are_syncs_held {
            self.sync(number);
        }
        match advanced {
            Ok(messages) => self.wire.extend(messages),
            Err(failed) => panic!("member {number}: {failed}"),
        }
    }

    pub(super) fn sync(&mut self, number: usize) {
        let now = self.now;
        self.replicas[number].sync(now);
        let messages = self.replicas[number].advance(now).expect("no rule is broken");
        self.wire.extend(messages);
    }

    fn number_of(&self, peer: Peer) -> usize {
        self.replicas.iter().position(|replica| replica.peer() == peer).expect("a member")
    }

    /// Delivers one message.
    pub(super) fn deliver(&mut self, message: RaftMessage) {
        let (from, to) = (self.number_of(message.from), self.number_of(message.to));
        if self.isolated.contains(&from) || self.isolated.contains(&to) || !self.replicas[to].is_alive() {
            return;
        }
        let stepped: Result<(), MemberFailed> = self.replicas[to].member().step(message);
        stepped.expect("no rule is broken");
        self.advance(to);
    }

    /// Delivers any message that is on its way: perhaps not at all, or twice.
    pub(super) fn deliver_any(&mut self) {
        if self.wire.is_empty() {
            return;
        }
        let at = self.rng.below(self.wire.len() as u64) as usize;
        let message = self.wire.remove(at);
        let luck = self.rng.below(1000);
        if luck < self.loss {
            return;
        }
        if luck < 2 * self.loss {
            self.wire.push(message.clone());
        }
        self.deliver(message);
    }

    /// Delivers everything, in order, until nobody says anything any more.
    pub(super) fn until_quiet(&mut self) {
        while !self.wire.is_empty() {
            let message = self.wire.remove(0);
            self.deliver(message);
        }
    }

    /// Has a tick pass for a member.
    pub(super) fn tick(&mut self, number: usize) {
        if self.replicas[number].is_alive() {
            self.replicas[number].member().tick().expect("no rule is broken");
            self.advance(number);
        }
    }

    /// Some ticks for everybody, with all that is said then.
    pub(super) fn beat(&mut self) {
        for _ in 0..8 {
            self.now += 100_000_000;
            (0..self.replicas.len()).for_each(|number| self.tick(number));
            self.until_quiet();
        }
    }

    /// Has a member lead, after time enough that the others vote for it.
    pub(super) fn elect(&mut self, number: usize) -> usize {
        for _ in 0..100 {
            if self.replicas[number].leads() {
                return number;
            }
            for other in (0..self.replicas.len()).filter(|other| *other != number) {
                self.tick(other);
            }
            self.until_quiet();
            if !self.replicas[number].leads() {
                self.replicas[number].member().consensus_mut().campaign().expect("no rule is broken");
                self.advance(number);
                self.until_quiet();
            }
        }
        panic!("member {number} is not elected");
    }

    /// Has a member be elected, of whose entries nobody hears.
    pub(super) fn elect_alone(&mut self, number: usize) {
        self.wire.clear();
        for other in (0..self.replicas.len()).filter(|other| *other != number) {
            (0..20).for_each(|_| self.tick(other));
        }
        self.wire.clear();
        self.replicas[number].member().consensus_mut().campaign().expect("no rule is broken");
        self.advance(number);
        while !self.wire.is_empty() {
            let message = self.wire.remove(0);
            if message.kind.is_of_election() {
                self.deliver(message);
            }
        }
        assert_eq!(self.replicas[number].member().status().role, RaftRole::Leader);
    }

    /// Has a leader be heard by one other member only, and its answers.
    pub(super) fn talk(&mut self, leader: usize, other: usize) {
        let peers = [self.replicas[leader].peer(), self.replicas[other].peer()];
        for _ in 0..6 {
            self.tick(leader);
            while !self.wire.is_empty() {
                let message = self.wire.remove(0);
                if peers.contains(&message.from) && peers.contains(&message.to) {
                    self.deliver(message);
                }
            }
        }
    }

    /// Waits for a leader that the others follow.
    pub(super) fn elect_anyone(&mut self) -> usize {
        for _ in 0..200 {
            self.beat();
            let leading = |number: &usize| self.replicas[*number].leads();
            if let Some(leader) = (0..self.replicas.len()).find(leading) {
                return leader;
            }
        }
        panic!("nobody is elected");
    }

    /// Has these be the members, as all that lead hear.
    pub(super) fn want(&mut self, numbers: &[usize]) -> Vec<Peer> {
        let wanted: Vec<Peer> = numbers.iter().map(|&number| self.replicas[number].peer()).collect();
        let alive = self.replicas.iter_mut().filter(|replica| replica.is_alive());
        alive.for_each(|replica| replica.member().want_members(&wanted));
        wanted
    }

    /// Beats until just these are members.
    pub(super) fn change_to(&mut self, numbers: &[usize]) {
        for _ in 0..100 {
            let wanted = self.want(numbers);
            self.beat();
            let mut leading = self.replicas.iter_mut().filter(|replica| replica.leads());
            if leading.any(|leader| leader.member().has_members(&wanted)) {
                return;
            }
        }
        panic!("{numbers:?} are not the members");
    }

    pub(super) fn isolate(&mut self, number: usize) {
        self.isolated.push(number);
    }

    pub(super) fn join_all(&mut self) {
        self.isolated.clear();
    }

    pub(super) fn kill(&mut self, number: usize) {
        self.replicas[number].kill();
    }

    pub(super) fn lose_power(&mut self, number: usize, survival: Survival) {
        self.replicas[number].lose_power(survival);
    }

    pub(super) fn come_back(&mut self, number: usize) {
        self.replicas[number].come_back(self.now);
        let me = self.replicas[number].peer();
        // Others hear that it has a new life.
        for other in 0..self.replicas.len() {
            if other != number && self.replicas[other].is_alive() {
                let member = self.replicas[other].member().consensus_mut();
                member.reset_peer(me).expect("no rule is broken");
            }
        }
        self.wire.retain(|message| message.to != me && message.from != me);
        self.advance(number);
    }

    pub(super) fn come_back_if_dead(&mut self, number: usize) {
        if !self.replicas[number].is_alive() {
            self.come_back(number);
        }
    }

    pub(super) fn count_entries_in_flight(&self) -> usize {
        let of = |message: &&RaftMessage| message.to == self.replicas[1].peer();
        self.wire.iter().filter(of).map(|message| message.entries.len()).sum()
    }

    /// Has a member hear of the first entries only that are on their way to it.
    pub(super) fn deliver_entries(&mut self, number: usize, count: usize) {
        let to = self.replicas[number].peer();
        let is_meant = |message: &RaftMessage| message.to == to && message.kind == RaftMessageKind::Append;
        let mut left = count;
        for mut message in std::mem::take(&mut self.wire) {
            if is_meant(&message) && left > 0 {
                message.entries.truncate(left);
                left -= message.entries.len();
                self.deliver(message);
            }
        }
        self.wire.clear();
    }
}
