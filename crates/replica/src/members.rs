//! Members of a group, and how one set of them becomes another one.
//!
//! Owns the form in which a group's log says who its members are, and the order of changes: new
//! ones learn first, then two majorities count at once, then the new one alone. Who proposes a
//! change, and when it counts, is for whoever holds the log. Must never answer with a set from
//! which the one before cannot be told to have agreed.

use crate::Peer;

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;
/// A group has no more members of a kind.
const MOST: usize = 255;

/// Members of a group, by what they count for. Each list is in order, and has nobody twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Members that vote, and a majority of which commits.
    pub voters: Vec<Peer>,
    /// While a change is under way: those that voted before it, a majority of which has to agree as
    /// well. Empty otherwise.
    pub outgoing: Vec<Peer>,
    /// Members that get the log, and neither vote nor count.
    pub learners: Vec<Peer>,
}

impl Members {
    /// Members that all vote.
    #[must_use]
    pub fn of(voters: &[Peer]) -> Self {
        Self { voters: in_order(voters.to_vec()), ..Self::default() }
    }

    /// Whether a change from one majority to another one is under way.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether all members vote, in one majority.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.outgoing.is_empty() && self.learners.is_empty()
    }

    /// Whether a peer's vote counts.
    #[must_use]
    pub fn votes(&self, peer: Peer) -> bool {
        self.voters.contains(&peer) || self.outgoing.contains(&peer)
    }

    /// All members, in order.
    #[must_use]
    pub fn all(&self) -> Vec<Peer> {
        in_order([&self.voters[..], &self.outgoing, &self.learners].concat())
    }

    /// Members whose votes count, in order.
    #[must_use]
    pub fn all_voters(&self) -> Vec<Peer> {
        in_order([&self.voters[..], &self.outgoing].concat())
    }

    /// The set in which of those that vote just these do, and all others learn. Where a majority
    /// would have nobody left it stays as it is.
    #[must_use]
    pub fn limited_to(&self, few: &[Peer]) -> Self {
        let limited = |all: &[Peer]| {
            let left: Vec<Peer> = all.iter().copied().filter(|peer| few.contains(peer)).collect();
            if left.is_empty() { all.to_vec() } else { left }
        };
        let (voters, outgoing) = (limited(&self.voters), limited(&self.outgoing));
        let still_votes = |peer: &Peer| voters.contains(peer) || outgoing.contains(peer);
        let learners = self.all().into_iter().filter(|peer| !still_votes(peer)).collect();
        Self { voters, outgoing, learners }
    }

    /// Whether the votes of just the peers for which this holds elect a leader: those of both
    /// majorities, while a change is under way.
    #[must_use]
    pub fn is_enough(&self, votes: impl Fn(&Peer) -> bool) -> bool {
        let is_majority = |all: &[Peer]| all.iter().filter(|&peer| votes(peer)).count() * 2 > all.len();
        is_majority(&self.voters) && (self.outgoing.is_empty() || is_majority(&self.outgoing))
    }

    /// Members whose votes are enough, of those that vote when changes are through.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// The next set on the way to one in which just the peers of `wanted` vote; `None` if there is
    /// nothing to do yet. `has_log` says whether a learner has what it needs to vote.
    #[must_use]
    pub fn next(&self, wanted: &[Peer], has_log: impl Fn(Peer) -> bool) -> Option<Self> {
        if self.is_joint() {
            return Some(Self::of(&self.voters));
        }
        let wanted = in_order(wanted.to_vec());
        if wanted.is_empty() || wanted.len() > MOST {
            return None;
        }
        let missing: Vec<Peer> = wanted.iter().copied().filter(|peer| !self.voters.contains(peer)).collect();
        if missing != self.learners {
            return Some(Self { learners: missing, ..Self::of(&self.voters) });
        }
        let is_reached = self.voters == wanted;
        let can_go_on = !is_reached && missing.iter().all(|&peer| has_log(peer));
        if can_go_on && myelin_stdx::planted::bug(124) {
            return Some(Self::of(&wanted));
        }
        can_go_on.then(|| Self { voters: wanted, outgoing: self.voters.clone(), learners: Vec::new() })
    }

    /// The set as bytes: version, then for each list how many, and their numbers in little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for list in [&self.voters, &self.outgoing, &self.learners] {
            let list = &list[..list.len().min(MOST)];
            // At most 255, see above.
            bytes.push(u8::try_from(list.len()).unwrap_or(u8::MAX));
            list.iter().for_each(|peer| bytes.extend_from_slice(&peer.number().to_le_bytes()));
        }
        bytes
    }

    /// Reads a set. `None` for bytes that none is written as.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&version, mut rest) = bytes.split_first()?;
        let mut lists: [Vec<Peer>; 3] = Default::default();
        for list in &mut lists {
            let (&count, behind) = rest.split_first()?;
            let (numbers, behind) = behind.split_at_checked(usize::from(count) * 8)?;
            for number in numbers.as_chunks::<8>().0 {
                list.push(Peer::from_number(u64::from_le_bytes(*number))?);
            }
            rest = behind;
        }
        let is_in_order = lists.iter().all(|list| list.is_sorted_by(|one, next| one < next));
        let [voters, outgoing, learners] = lists;
        let members = Self { voters, outgoing, learners };
        let both = members.learners.iter().any(|&learner| members.votes(learner));
        let is_sound = version == VERSION && rest.is_empty() && is_in_order && !both;
        (is_sound && !members.voters.is_empty()).then_some(members)
    }
}

fn in_order(mut peers: Vec<Peer>) -> Vec<Peer> {
    peers.sort_unstable();
    peers.dedup();
    peers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(numbers: &[u64]) -> Vec<Peer> {
        numbers.iter().filter_map(|&number| Peer::from_number(number)).collect()
    }

    fn set(voters: &[u64], outgoing: &[u64], learners: &[u64]) -> Members {
        Members { voters: peers(voters), outgoing: peers(outgoing), learners: peers(learners) }
    }

    #[test]
    fn few_can_count_in_the_place_of_all() {
        let peer = |name: &str| Peer::parse(name).expect("eight characters");
        let [a, b, c, d] = ["aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"].map(peer);
        let all = Members { voters: vec![a, b, c], outgoing: Vec::new(), learners: vec![d] };
        let few = all.limited_to(&[b, d]);
        assert_eq!(few, Members { voters: vec![b], outgoing: Vec::new(), learners: vec![a, c, d] });
        assert_eq!((all.quorum(), few.quorum()), (2, 1));
        let joint = Members { voters: vec![b, c], outgoing: vec![a, c], learners: Vec::new() };
        let few = joint.limited_to(&[c]);
        assert_eq!(few, Members { voters: vec![c], outgoing: vec![c], learners: vec![a, b] });
        assert_eq!(joint.limited_to(&[d]), joint, "nobody would be left");
    }

    #[test]
    fn a_change_goes_by_learners_and_two_majorities() {
        let wanted = peers(&[5, 2, 4]);
        let none = |_| false;
        let begin = set(&[1, 2, 3], &[], &[]);
        let learning = begin.next(&wanted, none).expect("others come");
        assert_eq!(learning, set(&[1, 2, 3], &[], &[4, 5]));
        assert_eq!(learning.next(&wanted, none), None, "nobody has the log");
        assert_eq!(learning.next(&wanted, |peer| peer == peers(&[4])[0]), None, "one lacks it");
        let joint = learning.next(&wanted, |_| true).expect("all have it");
        assert_eq!(joint, set(&[2, 4, 5], &[1, 2, 3], &[]));
        assert_eq!(joint.next(&peers(&[1]), none), Some(Members::of(&wanted)), "it is ended first");
        let end = Members::of(&wanted);
        assert_eq!(end.next(&wanted, |_| true), None);
        assert!(end.is_settled() && !joint.is_settled() && !learning.is_settled());
    }

    #[test]
    fn a_wish_that_changes_lets_learners_go() {
        let learning = set(&[1], &[], &[2, 3]);
        assert_eq!(learning.next(&peers(&[1]), |_| true), Some(Members::of(&peers(&[1]))));
        assert_eq!(learning.next(&[], |_| true), None, "nobody wants a group of nobody");
        let fewer = set(&[1, 2, 3], &[], &[]).next(&peers(&[2]), |_| false);
        assert_eq!(fewer, Some(set(&[2], &[1, 2, 3], &[])), "nobody has to learn");
    }

    #[test]
    fn a_set_is_read_as_it_was_written_and_nothing_else_is() {
        let members = set(&[1, 2, 9], &[2, 3], &[4]);
        let bytes = members.to_bytes();
        assert_eq!(Members::from_bytes(&bytes), Some(members));
        for end in 0..bytes.len() {
            assert_eq!(Members::from_bytes(&bytes[..end]), None);
        }
        assert_eq!(Members::from_bytes(&[&bytes[..], &[0]].concat()), None);
        for other in [set(&[], &[], &[1]), set(&[1], &[], &[1]), set(&[2, 1], &[], &[])] {
            assert_eq!(Members::from_bytes(&other.to_bytes()), None, "{other:?}");
        }
    }
}
