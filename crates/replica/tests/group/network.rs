//! Members with their disks, and the network between them, in one thread.

use bytes::Bytes;
use myelin_replica::frame::{FrameBody, GroupPlace, PeerFrame};
use myelin_replica::{
    Consensus, GroupId, LogStart, MemberStart, Members, Peer, RaftEntry, RaftMessage, RaftRole, Ready, Vote,
};
use myelin_stdx::rng::Rng;
use std::collections::{BTreeMap, VecDeque};

/// Disk of one member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) vote: Vote,
    pub(crate) entries: Vec<RaftEntry>,
    pub(crate) committed: u64,
}

/// Writes of a member, and messages that must not leave before they are persisted.
pub(crate) struct Pending {
    number: u64,
    after: Vec<RaftMessage>,
    /// The disk as it is then.
    disk: Disk,
}

/// One member: alive or not.
pub(crate) struct Member {
    pub(crate) peer: Peer,
    pub(crate) consensus: Option<Consensus>,
    /// As a kill leaves it; what a loss of power takes if it is not persisted.
    pub(crate) written: Disk,
    pub(crate) persisted: Disk,
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) life: u32,
}

/// A group of members.
pub(crate) struct Network {
    pub(crate) members: Vec<Member>,
    pub(crate) rng: Rng,
    /// Frames on their way, with when they arrive.
    pub(crate) frames: Vec<(u64, Vec<u8>)>,
    pub(crate) now: u64,
    /// Pairs that do not hear each other: from, to.
    pub(crate) cut: Vec<(usize, usize)>,
    /// One in so many frames is lost, and one is repeated.
    pub(crate) loss: u64,
    /// Of each index that anybody knew to be committed, its entry.
    pub(crate) committed: BTreeMap<u64, RaftEntry>,
    /// Leaders of terms.
    pub(crate) leaders: BTreeMap<u64, Peer>,
    /// Lives of members, as members know each other.
    pub(crate) known: BTreeMap<(usize, usize), u32>,
    pub(crate) voters: Vec<Peer>,
}

/// Before the bytes of an entry that says who is a member.
pub(crate) const MEMBERS: &[u8] = b"members ";

pub(crate) fn peer(number: usize) -> Peer {
    Peer::from_number(number as u64 + 1).expect("not zero")
}

impl Network {
    pub(crate) fn new(size: usize, seed: u64) -> Self {
        Self::with_others(size, 0, seed)
    }

    /// A group of `size` members, and servers that are none yet.
    pub(crate) fn with_others(size: usize, others: usize, seed: u64) -> Self {
        let voters: Vec<Peer> = (0..size).map(peer).collect();
        let mut rng = Rng::seeded(seed);
        let members = (0..size + others)
            .map(peer)
            .map(|peer| {
                let disk = Disk::default();
                let consensus = open(peer, &voters, &disk, rng.next_u64(), false);
                let (written, persisted) = (disk.clone(), disk);
                Member {
                    peer,
                    consensus: Some(consensus),
                    written,
                    persisted,
                    pending: VecDeque::new(),
                    life: 1,
                }
            })
            .collect();
        Self {
            members,
            rng,
            frames: Vec::new(),
            now: 0,
            cut: Vec::new(),
            loss: 0,
            committed: BTreeMap::new(),
            leaders: BTreeMap::new(),
            known: BTreeMap::new(),
            voters,
        }
    }

    pub(crate) fn consensus(&mut self, member: usize) -> &mut Consensus {
        self.members[member].consensus.as_mut().expect("the member lives")
    }

    pub(crate) fn is_alive(&self, member: usize) -> bool {
        self.members[member].consensus.is_some()
    }

    /// The member that leads the highest term, if one does.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leads = |(at, member): (usize, &Member)| {
            let status = member.consensus.as_ref()?.status();
            (status.role == RaftRole::Leader).then_some((status.term, at))
        };
        self.members.iter().enumerate().filter_map(leads).max().map(|(_, at)| at)
    }

    /// A tick of every member, and what follows from it.
    pub(crate) fn tick(&mut self) {
        self.now += 10;
        for member in 0..self.members.len() {
            if self.is_alive(member) {
                self.consensus(member).tick().expect("no rule is broken");
                self.settle(member);
            }
        }
        self.deliver();
    }

    /// Ticks until `is_so`, which must be within `ticks`.
    pub(crate) fn until(&mut self, ticks: usize, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        for _ in 0..ticks {
            if is_so(self) {
                return;
            }
            self.tick();
            (0..self.members.len()).for_each(|member| self.persist(member, usize::MAX));
        }
        panic!("{what} is not so after {ticks} ticks");
    }

    /// Does what a member wants to be done, but for persisting.
    pub(crate) fn settle(&mut self, member: usize) {
        while let Some(ready) = self.consensus(member).ready().expect("no rule is broken") {
            self.take(member, ready);
            self.fetch(member);
        }
        self.fetch(member);
        let status = self.consensus(member).status();
        if status.role == RaftRole::Leader {
            let leader = *self.leaders.entry(status.term).or_insert(self.members[member].peer);
            assert_eq!(leader, self.members[member].peer, "term {} has one leader", status.term);
        }
    }

    fn take(&mut self, at: usize, ready: Ready) {
        let member = &mut self.members[at];
        let mut changed = None;
        if let Some(vote) = ready.vote {
            member.written.vote = vote;
        }
        if let Some(first) = ready.append.first() {
            let kept = first.index as usize - 1;
            assert!(first.index > member.written.committed, "nothing that is committed is taken back");
            member.written.entries.truncate(kept);
            assert_eq!(member.written.entries.len(), kept, "no gap");
            member.written.entries.extend(ready.append.iter().cloned());
        }
        if let Some(commit) = ready.commit {
            let before = member.written.committed;
            assert!(commit > before, "commit never goes back");
            member.written.committed = commit;
            for index in before + 1..=commit {
                let entry = &member.written.entries[index as usize - 1];
                let known = self.committed.entry(index).or_insert_with(|| entry.clone());
                assert_eq!(known, entry, "what is committed never changes");
                changed = entry.data.strip_prefix(MEMBERS).and_then(Members::from_bytes).or(changed);
            }
        }
        let disk = member.written.clone();
        member.pending.push_back(Pending { number: ready.number, after: ready.after, disk });
        ready.now.into_iter().for_each(|message| self.send(at, message));
        if let Some(members) = changed {
            self.consensus(at).set_members(&members).expect("no rule is broken");
        }
    }

    /// Has the leader, if there is one that can, go one step towards a group of `wanted`. Answers
    /// whether that is reached.
    pub(crate) fn change(&mut self, wanted: &[Peer]) -> bool {
        let Some(leader) = self.leader() else { return false };
        let consensus = self.consensus(leader);
        let members = consensus.members().clone();
        if members == Members::of(wanted) {
            return true;
        }
        let status = consensus.status();
        if status.committed < status.last || !consensus.can_propose() {
            return false;
        }
        if members.is_joint() && !members.voters.contains(&peer(leader)) {
            let others = status.members.iter().filter(|other| members.voters.contains(&other.peer));
            let heir = others.max_by_key(|other| (other.is_active, other.matched)).expect("somebody votes");
            consensus.transfer(heir.peer).expect("no rule is broken");
            self.settle(leader);
        } else if let Some(next) = members.next(wanted, |learner| consensus.has_log(learner)) {
            self.propose(leader, &[MEMBERS, &next.to_bytes()].concat());
        }
        false
    }

    /// Gives a member what it wants of its own log.
    fn fetch(&mut self, at: usize) {
        for wanted in self.consensus(at).wanted() {
            let entries = &self.members[at].written.entries;
            let found = entries[wanted.from as usize - 1..wanted.to as usize - 1].to_vec();
            self.consensus(at).fetched(wanted.id, found).expect("no rule is broken");
        }
    }

    /// The disk of a member comes up to `steps` of what it has to persist.
    pub(crate) fn persist(&mut self, at: usize, steps: usize) {
        for _ in 0..steps {
            let Some(pending) = self.members[at].pending.pop_front() else { break };
            self.members[at].persisted = pending.disk;
            if let Some(consensus) = &mut self.members[at].consensus {
                consensus.persisted(pending.number).expect("no rule is broken");
                pending.after.into_iter().for_each(|message| self.send(at, message));
                self.settle(at);
            }
        }
    }

    fn send(&mut self, from: usize, message: RaftMessage) {
        let place = GroupPlace { group: GroupId(1), epoch: 1 };
        let body = FrameBody::Raft(place, message);
        let frame = PeerFrame { incarnation: self.members[from].life, known_life: 0, body };
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let copies = match self.loss {
            0 => 1,
            loss => match self.rng.below(loss) {
                0 => 0,
                1 => 2,
                _ => 1,
            },
        };
        for _ in 0..copies {
            let delay = if self.loss == 0 { 1 } else { 1 + self.rng.below(30) };
            self.frames.push((self.now + delay, bytes.clone()));
        }
    }

    /// Delivers what has arrived, and what that leads to at once.
    pub(crate) fn deliver(&mut self) {
        while let Some(at) = self.frames.iter().position(|(when, _)| *when <= self.now) {
            let (_, bytes) = self.frames.remove(at);
            self.arrive(bytes);
        }
    }

    fn arrive(&mut self, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let (frame, size) = PeerFrame::read(&bytes, 1 << 27).expect("a frame").expect("it is whole");
        assert_eq!(size, bytes.len());
        let FrameBody::Raft(_, message) = frame.body else { panic!("no message") };
        let number = |peer: Peer| peer.number() as usize - 1;
        let (from, to) = (number(message.from), number(message.to));
        if self.cut.contains(&(from, to)) || !self.is_alive(to) {
            return;
        }
        let known = self.known.entry((to, from)).or_insert(frame.incarnation);
        if frame.incarnation < *known {
            return;
        }
        if frame.incarnation > *known {
            *known = frame.incarnation;
            let peer = message.from;
            self.consensus(to).reset_peer(peer).expect("no rule is broken");
        }
        self.consensus(to).step(message).expect("no rule is broken");
        self.settle(to);
    }

    /// A member ends. What was written stays, or (a loss of power) what was persisted alone.
    pub(crate) fn die(&mut self, at: usize, loses_power: bool) {
        let member = &mut self.members[at];
        member.consensus = None;
        member.pending.clear();
        if loses_power {
            member.written = member.persisted.clone();
        } else {
            member.persisted = member.written.clone();
        }
    }

    pub(crate) fn come_back(&mut self, at: usize) {
        let seed = self.rng.next_u64();
        let member = &mut self.members[at];
        member.life += 1;
        member.consensus = Some(open(member.peer, &self.voters, &member.persisted, seed, false));
    }

    /// Has the leader, or who takes itself for one, propose.
    pub(crate) fn propose(&mut self, at: usize, data: &[u8]) -> Option<u64> {
        let consensus = self.members[at].consensus.as_mut()?;
        if !consensus.can_propose() {
            return None;
        }
        let index = consensus.status().last + 1;
        consensus.propose(index, Bytes::copy_from_slice(data)).expect("it can");
        self.settle(at);
        Some(index)
    }
}

pub(crate) fn open(peer: Peer, voters: &[Peer], disk: &Disk, seed: u64, is_amnesiac: bool) -> Consensus {
    let mut terms: Vec<(u64, u64)> = Vec::new();
    for entry in &disk.entries {
        if terms.last().is_none_or(|&(_, term)| term < entry.term) {
            terms.push((entry.index, entry.term));
        }
    }
    let tail = disk.entries[disk.committed as usize..].to_vec();
    let log = LogStart { base: (0, 0), terms, committed: disk.committed, tail };
    let committed = &disk.entries[..disk.committed as usize];
    let said = committed.iter().rev().find_map(|entry| entry.data.strip_prefix(MEMBERS));
    let members = said.map_or_else(|| Some(Members::of(voters)), Members::from_bytes).expect("a set");
    let start = MemberStart { me: peer, members, vote: disk.vote, log, is_amnesiac, seed };
    Consensus::open(&start).expect("a sound log")
}
