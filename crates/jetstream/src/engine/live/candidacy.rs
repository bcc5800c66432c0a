//! Candidacy of a member: whether it may become its group's leader, as far as that is not for votes
//! to say.
//!
//! A member is *set aside* where clients cannot reach its server, where its stream lacks messages
//! that it had, and where its disk is full: another one leads, or nobody does for a while. A group
//! that nobody has led yet is *open* when the meta group has said that its stream stays: before,
//! only the first server of the stream may stand for election, as it alone may take that back
//! (`meta/refused.rs`).

use myelin_replica::Peer;
use myelin_replica::frame::LeadStanding;
use std::collections::{BTreeMap, BTreeSet};

/// Ticks without a leader after which a member asks for its group to be opened, at least: twice as
/// many as an election takes, for the first server may have many streams to make at once.
const ASKS_AFTER: u64 = 20;

/// Ticks for which a member that hears nothing of its leader does not stand for election because
/// its server supports the leader's: as many as an election takes. The leader's server is there,
/// and so is what it counts on; but its member may be gone, or stand still.
const HELD_BACK: u64 = 10;

/// Ticks without a leader after which a member leads though its stream lacks messages: a minute, in
/// which others would have stood for election that have them.
const DAMAGED_WAITS: u64 = 600;

/// Ticks without a leader after which a member leads though its disk is full: others would have
/// stood for election that have room. What makes room needs a leader, too.
const FULL_WAITS: u64 = 30;

/// Ticks after which the disk of another member is full no more, unless it says so again: each
/// second it does, and what it says may be lost.
const FULL_COUNTS: u64 = 50;

/// Ticks after which another member has lost nothing any more, unless it says so again: each two
/// seconds it does, and what it says may be lost.
const FORGETFUL_COUNTS: u64 = 50;

/// Ticks without a word of a leader after which a member asks for one that takes no lead, and so
/// does not stand for election: as many as an idle leader has before it rests.
const MISSES_AFTER: u64 = 20;

/// Ticks without a word of a leader after which a member that may stand for election asks for one,
/// and as many later again: two heartbeats, and half of what an election takes.
const MISSES_WORD_AFTER: u64 = 5;

/// Whether a member may lead.
#[derive(Debug, Default)]
pub(super) struct Candidacy {
    /// Whether it takes no lead, as clients cannot reach its server.
    pub(super) is_aside: bool,
    /// Whether its stream lacks messages that it had.
    is_damaged: bool,
    /// Whether its disk has no room for what its group stores.
    is_full: bool,
    /// Ticks without a leader.
    leaderless: u64,
    /// Other members that take no lead for one of these reasons, as they have said.
    pub(super) others_aside: BTreeSet<Peer>,
    /// Members among them whose disk is full, and for how many ticks that counts.
    others_full: BTreeMap<Peer, u64>,
    /// Other members that may have lost something, as they have said, and for how many ticks that
    /// counts.
    others_forgetful: BTreeMap<Peer, u64>,
    /// Whether the group is not open.
    waits: bool,
    /// Ticks that it has waited since it asked last.
    ticks: u64,
    /// Whether it has asked.
    has_asked: bool,
    /// Whether it is to ask now.
    is_asking: bool,
    /// Ticks for which it was held back since it has heard of its leader.
    held: u64,
    /// Ticks since its leader has said something, or it has asked.
    unheard: u64,
}

impl Candidacy {
    pub(super) fn new(is_open: bool, is_aside: bool, is_damaged: bool) -> Self {
        Self { waits: !is_open, is_aside, is_damaged, ..Self::default() }
    }

    /// Its stream lacks messages from now on.
    pub(super) fn set_damaged(&mut self) {
        self.is_damaged = true;
    }

    /// Whether its stream lacks messages that it had.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Its disk has no room from now on, or has again. Answers whether that is new.
    pub(super) fn set_full(&mut self, is_full: bool) -> bool {
        std::mem::replace(&mut self.is_full, is_full) != is_full
    }

    /// Whether its disk has no room.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether so many of the members that vote have no room that those who have are no majority:
    /// nothing that is decided now would be agreed to.
    pub(super) fn is_majority_full(&self, me: Peer, voters: &[Peer]) -> bool {
        // Who is alone knows best what its own disk takes.
        if !self.is_full && self.others_full.is_empty() || voters.len() == 1 {
            return false;
        }
        let is_full =
            |peer: &&Peer| if **peer == me { self.is_full } else { self.others_full.contains_key(peer) };
        voters.iter().filter(is_full).count() * 2 >= voters.len()
    }

    /// Word for others of whether it takes the lead.
    pub(super) fn standing(&self) -> LeadStanding {
        match (self.is_full, self.is_aside || self.is_damaged) {
            (true, _) => LeadStanding::Full,
            (false, true) => LeadStanding::Aside,
            (false, false) => LeadStanding::Ready,
        }
    }

    /// Whether it takes no lead now.
    pub(super) fn declines(&self) -> bool {
        self.is_aside
            || self.is_damaged && self.leaderless < DAMAGED_WAITS
            || self.is_full && self.leaderless < FULL_WAITS
    }

    /// Time has passed, with a leader or without.
    pub(super) fn note_tick(&mut self, has_leader: bool) {
        self.leaderless = if has_leader { 0 } else { self.leaderless + 1 };
        self.others_full.values_mut().for_each(|left| *left -= 1);
        while let Some((&peer, _)) = self.others_full.iter().find(|(_, left)| **left == 0) {
            self.forget(peer);
        }
        self.others_forgetful.values_mut().for_each(|left| *left -= 1);
        self.others_forgetful.retain(|_, left| *left > 0);
    }

    /// Another member has said whether it takes the lead.
    pub(super) fn hear(&mut self, peer: Peer, standing: LeadStanding) {
        self.forget(peer);
        if standing != LeadStanding::Ready {
            self.others_aside.insert(peer);
        }
        if standing == LeadStanding::Full {
            self.others_full.insert(peer, FULL_COUNTS);
        }
    }

    /// Another member has said whether it may have lost something.
    pub(super) fn hear_of_memory(&mut self, peer: Peer, is_amnesiac: bool) {
        if is_amnesiac {
            self.others_forgetful.insert(peer, FORGETFUL_COUNTS);
        } else {
            self.others_forgetful.remove(&peer);
        }
    }

    /// Other members that may have lost something, and so vote for nobody as long as there is a
    /// leader.
    pub(super) fn forgetful(&self) -> impl Iterator<Item = Peer> {
        self.others_forgetful.keys().copied()
    }

    /// Whether a leader hands over to this member, as far as was heard of it.
    pub(super) fn may_inherit(&self, peer: Peer) -> bool {
        !self.others_aside.contains(&peer) && !self.others_forgetful.contains_key(&peer)
    }

    /// Nothing is heard of another member any more: what it is, it says when it is asked to lead.
    pub(super) fn forget(&mut self, peer: Peer) {
        self.others_aside.remove(&peer);
        self.others_full.remove(&peer);
    }

    /// Whether the group is not open, as far as was said.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// Time has passed without a leader. `draw`: a number that is another one for each member, so
    /// that not all of them ask at once.
    pub(super) fn tick(&mut self, draw: u64) {
        self.ticks += 1;
        if self.ticks > ASKS_AFTER + draw % ASKS_AFTER {
            (self.ticks, self.has_asked, self.is_asking) = (0, true, true);
        }
    }

    /// Time has passed for a member that is about to stand for election against a leader whose
    /// server this one supports, or for another one. Answers whether it is held back.
    pub(super) fn holds_back(&mut self, stands_against: bool) -> bool {
        self.held = if stands_against { self.held + 1 } else { 0 };
        self.held > 0 && self.held <= HELD_BACK
    }

    /// Its leader has said something.
    pub(super) fn hear_leader(&mut self) {
        self.unheard = 0;
    }

    /// Time has passed for a member that takes no lead. Answers whether it asks the others, whose
    /// group may rest: nobody else would notice that it has not heard everything.
    pub(super) fn misses_leader(&mut self) -> bool {
        self.unheard += 1;
        let misses = self.unheard >= MISSES_AFTER;
        if misses {
            self.unheard = 0;
        }
        misses
    }

    /// Time has passed for a follower that may stand for election, and whose leader's server is
    /// there. Answers whether it asks the leader for a word.
    pub(super) fn misses_word(&mut self) -> bool {
        self.unheard += 1;
        self.unheard.is_multiple_of(MISSES_WORD_AFTER)
    }

    /// Whether support for its leader's server still keeps it from elections.
    pub(super) fn is_bound(&self) -> bool {
        self.held <= HELD_BACK
    }

    /// Whether it asks for its group to be opened.
    pub(super) fn take_question(&mut self) -> bool {
        std::mem::take(&mut self.is_asking)
    }

    /// The group is open. Answers whether this member has asked for that.
    pub(super) fn open(&mut self) -> bool {
        self.waits = false;
        std::mem::take(&mut self.has_asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_takes_no_lead_asks_when_it_has_heard_of_no_leader_for_long() {
        let mut candidacy = Candidacy::new(true, true, false);
        assert!((1..MISSES_AFTER).all(|_| !candidacy.misses_leader()));
        candidacy.hear_leader();
        assert!((1..MISSES_AFTER).all(|_| !candidacy.misses_leader()), "it has heard of one");
        assert!(candidacy.misses_leader());
        assert!((1..MISSES_AFTER).all(|_| !candidacy.misses_leader()), "it has asked");
    }

    #[test]
    fn a_follower_asks_its_leader_for_a_word_before_it_stands_for_election() {
        let mut candidacy = Candidacy::new(true, false, false);
        let mut asks = |ticks: u64| (0..ticks).filter(|_| candidacy.misses_word()).count();
        assert_eq!([asks(MISSES_WORD_AFTER - 1), asks(1), asks(2 * MISSES_WORD_AFTER)], [0, 1, 2]);
        candidacy.hear_leader();
        assert!((1..MISSES_WORD_AFTER).all(|_| !candidacy.misses_word()), "it has heard of it");
    }

    #[test]
    fn a_member_that_waits_asks_again_and_again_until_its_group_is_open() {
        let mut candidacy = Candidacy::new(false, false, false);
        let mut asks = || {
            (1..).find(|_| {
                candidacy.tick(13);
                candidacy.take_question()
            })
        };
        assert_eq!([asks(), asks()], [Some(34); 2]);
        assert!(candidacy.waits() && candidacy.open());
        assert!(!candidacy.waits() && !candidacy.open(), "it is known");
        assert!(!Candidacy::new(true, true, false).waits());
    }

    #[test]
    fn a_member_whose_stream_lacks_messages_leads_when_nobody_else_has_for_a_minute() {
        let mut candidacy = Candidacy::new(true, false, true);
        (0..2 * DAMAGED_WAITS).for_each(|_| candidacy.note_tick(true));
        (1..DAMAGED_WAITS).for_each(|_| candidacy.note_tick(false));
        assert!(candidacy.declines());
        candidacy.note_tick(false);
        assert!(
            !candidacy.declines() && candidacy.standing() == LeadStanding::Aside,
            "others come first as ever"
        );
        candidacy.note_tick(true);
        assert!(candidacy.declines());
    }

    #[test]
    fn a_member_whose_disk_is_full_leads_when_nobody_else_has_for_a_while() {
        let mut candidacy = Candidacy::new(true, false, false);
        assert!(candidacy.set_full(true) && !candidacy.set_full(true), "it is new once");
        (1..FULL_WAITS).for_each(|_| candidacy.note_tick(false));
        assert!(candidacy.declines() && candidacy.standing() == LeadStanding::Full);
        candidacy.note_tick(false);
        assert!(!candidacy.declines(), "others come first");
        assert!(candidacy.set_full(false) && candidacy.standing() == LeadStanding::Ready);
    }

    #[test]
    fn who_has_lost_something_inherits_nothing_until_it_says_otherwise_or_nothing() {
        let [one, two] = ["server-B", "server-C"].map(|name| Peer::parse(name).expect("a name"));
        let mut candidacy = Candidacy::new(true, false, false);
        [one, two].into_iter().for_each(|peer| candidacy.hear_of_memory(peer, true));
        candidacy.hear(one, LeadStanding::Ready);
        assert!(!candidacy.may_inherit(one) && candidacy.forgetful().eq([one, two]));
        candidacy.hear_of_memory(one, false);
        assert!(candidacy.may_inherit(one) && candidacy.forgetful().eq([two]));
        (1..FORGETFUL_COUNTS).for_each(|_| candidacy.note_tick(true));
        assert!(!candidacy.may_inherit(two));
        candidacy.note_tick(true);
        assert!(candidacy.may_inherit(two));
        candidacy.hear(two, LeadStanding::Full);
        assert!(!candidacy.may_inherit(two));
    }

    #[test]
    fn a_majority_is_full_when_those_that_are_not_are_none() {
        let [me, one, two] =
            ["server-A", "server-B", "server-C"].map(|name| Peer::parse(name).expect("a name"));
        let voters = [me, one, two];
        let mut candidacy = Candidacy::new(true, false, false);
        let mut is_full = |peer, standing| {
            candidacy.hear(peer, standing);
            candidacy.is_majority_full(me, &voters)
        };
        assert!(!is_full(one, LeadStanding::Full) && !is_full(two, LeadStanding::Aside));
        assert!(is_full(two, LeadStanding::Full) && !is_full(one, LeadStanding::Ready));
        candidacy.set_full(true);
        assert!(candidacy.is_majority_full(me, &voters) && !candidacy.is_majority_full(me, &[me]));
        (1..FULL_COUNTS).for_each(|_| candidacy.note_tick(true));
        assert!(candidacy.is_majority_full(me, &voters));
        candidacy.hear(two, LeadStanding::Full);
        candidacy.note_tick(true);
        assert!(candidacy.is_majority_full(me, &voters), "it has said so again");
        (1..FULL_COUNTS).for_each(|_| candidacy.note_tick(true));
        assert!(!candidacy.is_majority_full(me, &voters) && candidacy.others_aside.is_empty());
    }
}
