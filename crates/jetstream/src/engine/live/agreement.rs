//! Agreement of replicas: whether they have made the same of the same log.
//!
//! No entry can be another one on another replica: each says the digest of all before it. What has
//! followed from them is another one only by a bug of ours, and then nobody would notice until
//! another replica leads. So it is compared now and then.
//!
//! # One comparison
//!
//! 1. Some time after something has come into the log its leader names the last entry
//!    ([`CHECK_AFTER`]).
//! 2. Each member draws a digest of its stream as of that entry, and says it to the leader.
//! 3. What a majority has is right. Where all have said theirs and none has one, the leader's is.
//! 4. A member with another one, twice in a row, gets the whole stream, as one that is damaged
//!    does. A leader with another one has a member of the majority lead.
//!
//! Twice, for a replica that has just got the whole stream lacks what was removed meanwhile, until
//! it comes to the entries that say so.

use super::LiveStream;
use super::membership::JoinedMember;
use crate::engine::groups::write_frame;
use myelin_broker::Level;
use myelin_replica::frame::{FrameBody, StateStep, StateWord};
use myelin_replica::{Peer, RaftRole};
#[cfg(test)]
use myelin_stdx::sync::lock;
use myelin_store::StateDigest;
use myelin_wire::message_buf::MessageBuf;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// From the first entry that nobody has compared to the comparison.
const CHECK_AFTER: Duration = Duration::from_secs(30);
/// From a comparison in which somebody differed to the next one.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Comparisons of one member.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    /// The last entry that was compared, or is being, while this member leads.
    compared: u64,
    /// Whether the next comparison was asked for.
    is_planned: bool,
    /// The state of this replica, as of the entry that was compared last.
    own: Option<StateDigest>,
    /// What members have said of the entry that is being compared, this one among them.
    said: BTreeMap<Peer, StateDigest>,
    /// Members that are not as the majority, and those that were not in the comparison before.
    differing: BTreeSet<Peer>,
    suspects: BTreeSet<Peer>,
    /// Words to be sent.
    words: Vec<(Peer, StateWord)>,
    outcome: Option<Outcome>,
}

/// Consequence of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// This replica is not as most are: it is to get what they have.
    Replace { own: StateDigest, wanted: StateWord },
    /// Another one is not, and was told.
    Told(Peer, StateWord),
    /// This one leads and is not as most are: one of those is to lead.
    HandOver(Peer, StateDigest),
}

/// Judgement on what members have said so far.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Too few have said theirs.
    Unknown,
    /// The leader's is right, and these have another one.
    Others(Vec<Peer>),
    /// That of this member is right, and the leader has another one.
    Leader(Peer),
}

/// Judges between members, `voters` in all, of which `me` leads.
fn judge(me: Peer, voters: usize, said: &BTreeMap<Peer, StateDigest>) -> Verdict {
    let Some(own) = said.get(&me) else { return Verdict::Unknown };
    let is_majority =
        |state: &StateDigest| said.values().filter(|other| *other == state).count() * 2 > voters;
    let right = said.iter().find(|(_, state)| is_majority(state));
    match right {
        Some((&peer, state)) if state != own => Verdict::Leader(peer),
        None if said.len() < voters => Verdict::Unknown,
        _ => Verdict::Others(said.iter().filter(|(_, state)| *state != own).map(|(&peer, _)| peer).collect()),
    }
}

impl Agreement {
    /// Compares the state as of an entry, which all others are asked for.
    fn begin(&mut self, index: u64, others: &[Peer]) {
        (self.compared, self.is_planned, self.own) = (index, false, None);
        self.said.clear();
        self.suspects = std::mem::take(&mut self.differing);
        let word = StateWord { step: StateStep::Ask, index, messages: 0, others: 0 };
        self.words.extend(others.iter().map(|&peer| (peer, word)));
    }

    /// This member, which leads, has heard of a state, its own or another one's.
    fn hear(&mut self, (peer, state): (Peer, StateDigest), (me, voters): (Peer, &[Peer])) {
        if state.index != self.compared || !voters.contains(&peer) {
            return;
        }
        self.said.insert(peer, state);
        match judge(me, voters.len(), &self.said) {
            Verdict::Unknown => {}
            Verdict::Others(peers) => {
                let Some(&StateDigest { index, messages, others }) = self.said.get(&me) else { return };
                let word = StateWord { step: StateStep::Differs, index, messages, others };
                for peer in peers {
                    if self.differing.insert(peer) && self.suspects.contains(&peer) {
                        self.words.push((peer, word));
                        self.outcome = Some(Outcome::Told(peer, word));
                    }
                }
            }
            Verdict::Leader(peer) => {
                if self.differing.insert(me) && self.suspects.contains(&me) {
                    self.outcome = Some(Outcome::HandOver(peer, state));
                }
            }
        }
    }

    /// This member does not lead: what it had compared says nothing of when it leads again.
    fn follow(&mut self) {
        if self.compared > 0 {
            self.compared = 0;
            self.said.clear();
            self.differing.clear();
        }
    }

    /// Somebody differs, or it is not known who does, as far as this comparison has come.
    fn is_in_doubt(&self) -> bool {
        let mut states = self.said.values();
        let first = states.next();
        states.any(|state| Some(state) != first)
    }
}

impl JoinedMember {
    /// Compares the stream of this member, which leads, with those of the others.
    pub(super) fn compare_states(&mut self) {
        self.agreement.is_planned = false;
        let consensus = self.member.consensus();
        if consensus.role() != RaftRole::Leader || self.candidacy.is_damaged() {
            return;
        }
        let (index, me) = (consensus.last().1, self.groups.me);
        let mut others = consensus.members().all_voters();
        others.retain(|&peer| peer != me);
        self.agreement.begin(index, &others);
        if !others.is_empty() {
            self.member.draw_state_at(index);
        }
    }

    /// Another member asks for the state of this one, says its own, or how this one differs.
    pub(super) fn hear_state(&mut self, peer: Peer, word: StateWord) {
        let consensus = self.member.consensus();
        let is_of_leader = consensus.leader() == Some(peer) && consensus.role() == RaftRole::Follower;
        let StateWord { step, index, messages, others } = word;
        match step {
            StateStep::Ask if is_of_leader && !self.candidacy.is_damaged() => {
                self.member.draw_state_at(index)
            }
            StateStep::Drawn if consensus.role() == RaftRole::Leader => {
                let voters = consensus.members().all_voters();
                let state = StateDigest { index, messages, others };
                self.agreement.hear((peer, state), (self.groups.me, &voters));
            }
            StateStep::Differs if is_of_leader => {
                let own = self.agreement.own.filter(|own| own.index == index);
                let own = own.filter(|own| (own.messages, own.others) != (messages, others));
                self.agreement.outcome = own.map(|own| Outcome::Replace { own, wanted: word });
            }
            StateStep::Ask | StateStep::Drawn | StateStep::Differs => {}
        }
    }

    /// Takes what the stream has drawn, plans the next comparison, and writes what is to be said.
    fn advance_agreement(&mut self, out: &mut MessageBuf) {
        let (consensus, me) = (self.member.consensus(), self.groups.me);
        let (leads, leader, last) =
            (consensus.role() == RaftRole::Leader, consensus.leader(), consensus.last().1);
        if let Some(state) = self.member.take_drawn_state() {
            self.agreement.own = Some(state);
            let StateDigest { index, messages, others } = state;
            if leads {
                let voters = self.member.consensus().members().all_voters();
                self.agreement.hear((me, state), (me, &voters));
            } else if let Some(leader) = leader {
                let word = StateWord { step: StateStep::Drawn, index, messages, others };
                self.agreement.words.push((leader, word));
            }
        }
        if !leads {
            self.agreement.follow();
        } else if !self.agreement.is_planned {
            let is_in_doubt = self.agreement.is_in_doubt();
            if is_in_doubt || last > self.agreement.compared {
                self.agreement.is_planned = true;
                let pause = if is_in_doubt { AGAIN_AFTER } else { CHECK_AFTER };
                self.groups.compare_later(self.place.group, pause);
            }
        }
        for (peer, word) in self.agreement.words.drain(..) {
            write_frame(&self.groups, peer, FrameBody::State(self.place, word), out);
        }
    }
}

impl LiveStream {
    /// The entry as of which its state was drawn last.
    #[cfg(test)]
    pub(in crate::engine) fn compared_at(&self) -> Option<u64> {
        lock(&self.membership.member).as_ref()?.agreement.own.map(|own| own.index)
    }

    /// Brings comparisons with other replicas on, and sees to what they have shown. For whoever has
    /// the core.
    pub(super) fn look_at_agreement(&self, joined: &mut JoinedMember, out: &mut MessageBuf) {
        joined.advance_agreement(out);
        let Some(outcome) = joined.agreement.outcome.take() else { return };
        let (account, name) = (self.scope.account.name(), &self.scope.name);
        let totals = self.reader().state().totals;
        let (first, last) = (totals.first_seq, totals.last_seq);
        let has = format!("it has {} messages, {first} to {last}", totals.messages);
        let log = |what: std::fmt::Arguments<'_>| {
            let line = format_args!("JetStream stream '{account} > {name}' {what} ({has})");
            self.scope.host.log(Level::Error, line);
        };
        match outcome {
            Outcome::Replace { own, wanted } => {
                let StateDigest { index, messages, .. } = own;
                let part = if messages == wanted.messages { "consumers or settings" } else { "messages" };
                log(format_args!("has other {part} than most of its group as of entry {index}"));
                self.note_disagreement();
            }
            Outcome::Told(peer, word) => {
                let index = word.index;
                log(format_args!("is another one on server {peer} as of entry {index}, which gets it anew"));
            }
            Outcome::HandOver(peer, state) => {
                let index = state.index;
                log(format_args!("is not as on most servers as of entry {index}: server {peer} is to lead"));
                if let Some(me) = self.me.upgrade() {
                    self.scope.host.spawn_sync(Box::new(move || me.hand_over_to(Some(peer))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers() -> [Peer; 3] {
        ["server-A", "server-B", "server-C"].map(|name| Peer::parse(name).expect("a name"))
    }

    fn state(messages: u64) -> StateDigest {
        StateDigest { index: 7, messages, others: 0 }
    }

    #[test]
    fn a_majority_is_right_and_the_leader_where_there_is_none() {
        let [a, b, c] = peers();
        let judged = |said: &[(Peer, u64)]| {
            judge(a, 3, &said.iter().map(|&(peer, messages)| (peer, state(messages))).collect())
        };
        assert_eq!(judged(&[(b, 1), (c, 1)]), Verdict::Unknown, "the leader has not drawn its own");
        assert_eq!(judged(&[(a, 1), (b, 2)]), Verdict::Unknown);
        assert_eq!(judged(&[(a, 1), (b, 1)]), Verdict::Others(Vec::new()));
        assert_eq!(judged(&[(a, 1), (b, 1), (c, 2)]), Verdict::Others(vec![c]));
        assert_eq!(judged(&[(a, 1), (b, 2), (c, 2)]), Verdict::Leader(b));
        assert_eq!(judged(&[(a, 1), (b, 2), (c, 3)]), Verdict::Others(vec![b, c]));
    }

    #[test]
    fn a_member_that_differs_is_told_the_second_time() {
        let [a, b, c] = peers();
        let mut agreement = Agreement::default();
        for round in 1..=2 {
            agreement.begin(7, &[b, c]);
            assert_eq!(agreement.words.drain(..).count(), 2, "both are asked");
            let said = [(a, state(1)), (b, state(1)), (c, state(2)), (c, state(2))];
            said.into_iter().for_each(|said| agreement.hear(said, (a, &[a, b, c])));
            let told: Vec<Peer> = agreement.words.drain(..).map(|(peer, _)| peer).collect();
            assert_eq!(told, if round == 1 { vec![] } else { vec![c] });
            assert!(agreement.is_in_doubt());
        }
        agreement.begin(7, &[b, c]);
        agreement.begin(7, &[b, c]);
        agreement.words.clear();
        agreement.hear((a, state(1)), (a, &[a, b, c]));
        agreement.hear((b, state(1)), (a, &[a, b, c]));
        agreement.hear((c, state(2)), (a, &[a, b, c]));
        assert!(agreement.words.is_empty(), "it was not different in the one before");
    }
}
