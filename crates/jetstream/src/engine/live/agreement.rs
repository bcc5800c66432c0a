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

use myelin_replica::Peer;
use myelin_replica::frame::{StateStep, StateWord};
use myelin_store::StateDigest;
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
    pub(super) own: Option<StateDigest>,
    /// States that members have said of the entry that is being compared, this one among them.
    said: BTreeMap<Peer, StateDigest>,
    /// Members that are not as the majority, and those that were not in the comparison before.
    differing: BTreeSet<Peer>,
    suspects: BTreeSet<Peer>,
    /// Words to be sent.
    pub(super) words: Vec<(Peer, StateWord)>,
    /// To be seen to, in this order: several members may differ.
    pub(super) consequences: Vec<Consequence>,
}

/// Step that a comparison leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    /// This replica is not as most are: it is to get what they have.
    Replace { own: StateDigest, wanted: StateDigest },
    /// Another one is not as of this entry, and was told.
    Told(Peer, u64),
    /// The leader here is not as most are as of this entry: one of those is to lead.
    HandOver(Peer, u64),
}

/// Word that says a state.
pub(super) fn word_of(step: StateStep, state: StateDigest) -> StateWord {
    let StateDigest { index, messages, others } = state;
    StateWord { step, index, messages, others }
}

/// Judgement on what members have said so far.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Too few have said theirs.
    Unknown,
    /// The leader's is right, and these have another one.
    Others(Vec<Peer>),
    /// The leader has another one than most, as this member has it.
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
    pub(super) fn begin(&mut self, index: u64, others: &[Peer]) {
        (self.compared, self.own) = (index, None);
        self.said.clear();
        self.suspects = std::mem::take(&mut self.differing);
        let word = StateWord { step: StateStep::Ask, index, messages: 0, others: 0 };
        self.words.extend(others.iter().map(|&peer| (peer, word)));
    }

    /// This member, which leads, has heard of a state, its own or another one's.
    pub(super) fn hear(&mut self, (peer, state): (Peer, StateDigest), (me, voters): (Peer, &[Peer])) {
        if state.index != self.compared || !voters.contains(&peer) {
            return;
        }
        self.said.insert(peer, state);
        match judge(me, voters.len(), &self.said) {
            Verdict::Unknown => {}
            Verdict::Others(peers) => {
                let Some(&own) = self.said.get(&me) else { return };
                for peer in peers {
                    if self.differing.insert(peer) && self.suspects.contains(&peer) {
                        self.words.push((peer, word_of(StateStep::Differs, own)));
                        self.consequences.push(Consequence::Told(peer, own.index));
                    }
                }
            }
            Verdict::Leader(peer) => {
                if self.differing.insert(me) && self.suspects.contains(&me) {
                    self.consequences.push(Consequence::HandOver(peer, state.index));
                }
            }
        }
    }

    /// This member does not lead: what it had compared says nothing of when it leads again.
    pub(super) fn follow(&mut self) {
        if self.compared > 0 {
            self.compared = 0;
            self.said.clear();
            self.differing.clear();
        }
    }

    /// Plans the next comparison, if there is something to compare: `last` is the last entry of
    /// the log. Answers when it is to be.
    pub(super) fn plan(&mut self, last: u64) -> Option<Duration> {
        if self.is_planned {
            return None;
        }
        let is_in_doubt = self.is_in_doubt();
        self.is_planned = is_in_doubt || last > self.compared;
        self.is_planned.then_some(if is_in_doubt { AGAIN_AFTER } else { CHECK_AFTER })
    }

    /// The comparison that was planned is due.
    pub(super) fn is_due(&mut self) {
        self.is_planned = false;
    }

    /// Whether somebody differs, or it is not known who does, as far as this comparison has come.
    fn is_in_doubt(&self) -> bool {
        let mut states = self.said.values();
        let first = states.next();
        states.any(|state| Some(state) != first)
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

    #[test]
    fn each_of_several_members_that_differ_is_told_of() {
        let [a, b, c] = peers();
        let [d, e] = ["server-D", "server-E"].map(|name| Peer::parse(name).expect("a name"));
        let mut agreement = Agreement::default();
        for _ in 1..=2 {
            agreement.begin(7, &[b, c, d, e]);
            let said = [(a, state(1)), (d, state(2)), (e, state(3)), (b, state(1)), (c, state(1))];
            said.into_iter().for_each(|said| agreement.hear(said, (a, &[a, b, c, d, e])));
        }
        assert_eq!(agreement.consequences, [Consequence::Told(d, 7), Consequence::Told(e, 7)]);
    }
}
