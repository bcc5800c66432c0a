//! Amnesia: a member that may have lost entries that it had confirmed, by a loss of power in the
//! default mode, or with its process if its stream is in memory.
//!
//! It takes entries, and neither votes nor leads, until it has what was committed when its leader
//! knew of its new life. Where so few members remember everything that they cannot elect a leader,
//! all that are there say where their logs end ([`LogWord`]), and the one with the most stands for
//! election: what a majority had in memory only, and lost together, is lost.
//!
//! Times are those since the server began: the time of day may jump, and no member may be left
//! out too early.

use myelin_replica::frame::LogWord;
use myelin_replica::{Consensus, Members, Peer};
use myelin_store::Timestamp;
use std::collections::BTreeMap;

/// After so many nanoseconds a majority decides without those that are not there.
const RECOVERY_WAIT: Timestamp = 60_000_000_000;

/// Nanoseconds without a word after which a leader counts as gone.
const SILENCE: Timestamp = 2_000_000_000;

/// Nanoseconds after which a member says again to its leader that it may have lost something.
const SAID_FOR: Timestamp = 2_000_000_000;

/// After so many nanoseconds without a leader a majority that remembers everything needs others to
/// elect one, whatever this member's log says of who votes: an election takes a second or two.
const ELECTED_ALONE: Timestamp = 10_000_000_000;

/// Entries that a member has confirmed in this life of its server, and has lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct LostEntries {
    /// Index of the last one; 0: none.
    pub(in crate::engine) last: u64,
    /// The member's term when it lost them: leaders up to that term may count on them.
    pub(in crate::engine) term: u64,
}

impl LostEntries {
    /// All that a member has confirmed until now, which is about to lose it.
    pub(super) fn of(consensus: &Consensus) -> Self {
        Self { last: consensus.confirmed().1, term: consensus.term() }
    }

    /// Both these and others that it lacks.
    pub(super) fn and(self, others: Self) -> Self {
        Self { last: self.last.max(others.last), term: self.term.max(others.term) }
    }
}

/// Knowledge of a member that may have lost entries about its group.
#[derive(Debug)]
pub(super) struct Amnesia {
    /// When a leader was heard last, or the member began.
    heard: Timestamp,
    /// Index that was committed when the leader knew of this life, once one has said so.
    wanted: Option<u64>,
    /// A leader may count on them before it says that they are committed.
    lost: LostEntries,
    /// Where the logs of other members end.
    logs: BTreeMap<Peer, LogWord>,
    /// The member that has the most: nobody else is voted for.
    chosen: Option<Peer>,
    /// Whether another replica of this life has lost it. A leader knows of that when it has said
    /// where its log ends, in answer to this member's word.
    has_begun_anew: bool,
    /// Leader that it has said so to last, and when.
    said: Option<(Peer, Timestamp)>,
}

/// Decision of members of which too few remember everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AmnesiaDecision {
    /// The member that has the most.
    pub(super) chosen: Peer,
    /// Whether members were missing, which may have had more.
    pub(super) lacks_some: bool,
}

impl Amnesia {
    pub(super) fn new(now: Timestamp) -> Self {
        let lost = LostEntries::default();
        let logs = BTreeMap::new();
        Self { heard: now, wanted: None, lost, logs, chosen: None, has_begun_anew: false, said: None }
    }

    /// Of a member that has lost entries which it has confirmed in this life.
    pub(super) fn behind(lost: LostEntries, now: Timestamp) -> Self {
        Self { lost, ..Self::begun_anew(now) }
    }

    /// Of a member in whose place another one was, perhaps in this life, which has lost everything
    /// or was removed.
    pub(super) fn begun_anew(now: Timestamp) -> Self {
        Self { has_begun_anew: true, ..Self::new(now) }
    }

    /// Entries that it has confirmed in this life, and lost.
    pub(super) fn lost(&self) -> LostEntries {
        self.lost
    }

    /// Whether this leader does not know yet what was lost.
    pub(super) fn is_unknown_to(&self, leader: Peer) -> bool {
        self.has_begun_anew && !self.logs.contains_key(&leader)
    }

    /// Whether no leader that knows of this life has said what is committed.
    pub(super) fn lacks_word(&self) -> bool {
        self.wanted.is_none()
    }

    /// A leader has said something. Answers whether it is to be told now that this member may have
    /// lost something: it is to have no part in a majority that it is needed for before it votes.
    pub(super) fn hear_leader(&mut self, leader: Peer, now: Timestamp) -> bool {
        self.heard = now;
        let is_told = self.said.is_some_and(|(told, at)| told == leader && now - at < SAID_FOR);
        if !is_told {
            self.said = Some((leader, now));
        }
        !is_told
    }

    /// Whether no leader was heard for so long that none is there.
    pub(super) fn is_leaderless(&self, now: Timestamp) -> bool {
        now - self.heard >= SILENCE
    }

    /// The leader, which knows of this life, has said what is committed.
    pub(super) fn want(&mut self, committed: u64) {
        self.wanted.get_or_insert(committed);
    }

    /// Whether everything is here again that was committed, as is known up to `committed` in this
    /// term, whose first entry is `begin`.
    ///
    /// Leaders of later terms than that of the loss were elected without this member's vote, and
    /// have what was committed before: with an entry of theirs it is here, whatever became of what
    /// this member has confirmed.
    pub(super) fn is_over(&self, committed: u64, (term, begin): (u64, Option<u64>)) -> bool {
        let is_decided = term > self.lost.term && begin.is_some_and(|begin| committed >= begin);
        let awaited = if is_decided { 0 } else { self.lost.last };
        self.wanted.is_some_and(|wanted| committed >= wanted.max(awaited))
    }

    /// Another member has said where its log ends.
    pub(super) fn hear(&mut self, peer: Peer, word: LogWord) {
        self.logs.insert(peer, word);
    }

    /// Another server is gone, or has begun a new life: its log may end elsewhere.
    pub(super) fn forget(&mut self, peer: Peer) {
        self.logs.remove(&peer);
        self.chosen = self.chosen.filter(|chosen| *chosen != peer);
    }

    /// The member that is voted for, if it is decided.
    pub(super) fn chosen(&self) -> Option<Peer> {
        self.chosen
    }

    /// Decides, if enough is known: `None` if it is not, or nothing has changed. `mine`: where this
    /// member's log ends; `counted`: the members by that log, of those that vote one is chosen;
    /// `members`: these, and all that may have become members since, whose logs have to be known,
    /// too.
    pub(super) fn decide(
        &mut self,
        (me, mine): (Peer, LogWord),
        (counted, members): (&Members, &[Peer]),
        now: Timestamp,
    ) -> Option<AmnesiaDecision> {
        let is_healthy = |peer: &Peer, votes: bool| {
            let log = self.logs.get(peer).filter(|_| *peer != me);
            log.is_some_and(|log| !log.is_amnesiac && (log.is_voter || !votes))
        };
        let elect_alone = counted.is_enough(|peer| is_healthy(peer, true));
        let silence = now - self.heard;
        if elect_alone && silence < ELECTED_ALONE {
            return None;
        }
        // Some are to vote, and nothing in their logs says that they do.
        let are_some_learning = counted.is_enough(|peer| is_healthy(peer, false));
        let voters = counted.all_voters();
        let others = members.iter().filter(|&&member| member != me);
        let known = 1 + others.filter(|member| self.logs.contains_key(member)).count();
        let is_late = silence >= RECOVERY_WAIT && known * 2 > members.len() && !elect_alone;
        if known < members.len() && !is_late {
            return None;
        }
        // Others may have been members once, or are to become some: nobody elects them.
        let votes = self.logs.iter().filter(|(peer, log)| members.contains(peer) && log.is_voter);
        let mine = mine.is_voter.then_some((mine.term, mine.index, me));
        let votes = votes.map(|(&peer, &log)| (log.term, log.index, peer)).chain(mine);
        let (term, index, chosen) = votes.clone().filter(|(.., peer)| voters.contains(peer)).max()?;
        let (of_term, of_index, of_all) = votes.max()?;
        if (of_term, of_index) > (term, index) {
            // It votes by a log that goes further, and knows who else does: it is voted for, and
            // nobody stands by what the group once was.
            self.chosen = Some(of_all);
            return None;
        }
        let is_longer = |log: &LogWord| (log.term, log.index) > (term, index);
        if are_some_learning && members.iter().filter_map(|member| self.logs.get(member)).any(is_longer) {
            // It may have what was confirmed, and elects somebody when it knows that it votes.
            return None;
        }
        let is_news = self.chosen.replace(chosen) != Some(chosen);
        is_news.then_some(AmnesiaDecision { chosen, lacks_some: known < members.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_replica::frame::LeadStanding;

    fn peer(number: u64) -> Peer {
        Peer::from_number(number).expect("not zero")
    }

    fn log(term: u64, index: u64, is_amnesiac: bool) -> LogWord {
        LogWord { term, index, is_amnesiac, is_voter: true, standing: LeadStanding::Ready }
    }

    fn all(numbers: &[u64]) -> Members {
        Members::of(&numbers.iter().copied().map(peer).collect::<Vec<_>>())
    }

    const NOW: Timestamp = 1_000;

    #[test]
    fn it_is_over_when_what_was_committed_is_here() {
        let mut amnesia = Amnesia::new(NOW);
        let is_over = |amnesia: &Amnesia, committed| amnesia.is_over(committed, (1, None));
        assert!(!is_over(&amnesia, u64::MAX), "nobody has said what is committed");
        amnesia.want(7);
        amnesia.want(100);
        assert!(!is_over(&amnesia, 6) && is_over(&amnesia, 7), "the first word counts");
    }

    #[test]
    fn what_was_confirmed_in_this_life_has_to_be_decided_first() {
        let mut amnesia = Amnesia::behind(LostEntries { last: 9, term: 3 }, NOW);
        amnesia.want(7);
        let leader = (3, Some(5));
        assert!(!amnesia.is_over(8, leader) && amnesia.is_over(9, leader), "it may be about to commit it");
    }

    #[test]
    fn what_was_lost_twice_is_lost_together() {
        let lost = LostEntries { last: 110, term: 3 }.and(LostEntries { last: 100, term: 4 });
        assert_eq!(lost, LostEntries { last: 110, term: 4 });
    }

    #[test]
    fn what_was_confirmed_to_a_leader_that_was_cut_off_is_decided_by_an_entry_of_a_later_one() {
        let mut amnesia = Amnesia::behind(LostEntries { last: 9, term: 3 }, NOW);
        assert!(!amnesia.is_over(8, (4, Some(8))), "it does not know of the loss");
        amnesia.want(6);
        assert!(!amnesia.is_over(7, (4, None)), "it may know less than what was committed");
        assert!(!amnesia.is_over(7, (4, Some(8))) && amnesia.is_over(8, (4, Some(8))));
    }

    #[test]
    fn the_longest_log_of_all_is_chosen() {
        let voters = [peer(1), peer(2), peer(3)];
        let mut amnesia = Amnesia::new(NOW);
        let decide =
            |amnesia: &mut Amnesia, mine| amnesia.decide((peer(1), mine), (&all(&[1, 2, 3]), &voters), NOW);
        amnesia.hear(peer(2), log(3, 9, true));
        assert_eq!(decide(&mut amnesia, log(3, 9, true)), None, "one is not there");
        amnesia.hear(peer(3), log(2, 20, false));
        let chosen = |number| Some(AmnesiaDecision { chosen: peer(number), lacks_some: false });
        assert_eq!(decide(&mut amnesia, log(3, 10, true)), chosen(1));
        assert_eq!(decide(&mut amnesia, log(3, 10, true)), None, "that is known");
        assert_eq!(decide(&mut amnesia, log(3, 8, true)), chosen(2));
        amnesia.forget(peer(2));
        assert_eq!(amnesia.chosen(), None);
        assert_eq!(decide(&mut amnesia, log(3, 10, true)), None, "it has another life now");
        amnesia.hear(peer(2), log(3, 9, true));
        assert_eq!(decide(&mut amnesia, log(3, 9, true)), chosen(2), "the greater id of two that are equal");
    }

    #[test]
    fn nobody_is_chosen_who_does_not_vote() {
        let mut amnesia = Amnesia::new(NOW);
        amnesia.hear(peer(2), log(3, 9, true));
        amnesia.hear(peer(4), LogWord { is_voter: false, ..log(3, 20, true) });
        let voters = [peer(1), peer(2)];
        let decision = amnesia.decide((peer(1), log(3, 8, true)), (&all(&[1, 2]), &voters), NOW);
        assert_eq!(decision, Some(AmnesiaDecision { chosen: peer(2), lacks_some: false }));
    }

    #[test]
    fn a_member_that_came_back_does_not_decide_by_what_its_group_once_was() {
        let mut amnesia = Amnesia::new(NOW);
        let assigned = [peer(1), peer(2), peer(3)];
        // It was alone, where its log has come to.
        let decide = |amnesia: &mut Amnesia, after| {
            amnesia.decide((peer(1), log(7, 2368, true)), (&all(&[1]), &assigned), NOW + after)
        };
        assert_eq!(decide(&mut amnesia, 0), None, "nobody has said anything");
        amnesia.hear(peer(2), log(17, 9000, false));
        assert_eq!(decide(&mut amnesia, 0), None, "one is not there");
        assert_eq!(decide(&mut amnesia, 2 * RECOVERY_WAIT), None, "another one has more");
        amnesia.hear(peer(3), log(17, 9001, false));
        assert_eq!((decide(&mut amnesia, 0), amnesia.chosen()), (None, Some(peer(3))));
        // Where all have lost everything behind that, it is the one.
        amnesia.hear(peer(2), log(7, 2300, true));
        amnesia.hear(peer(3), log(7, 2368, true));
        let chosen = AmnesiaDecision { chosen: peer(1), lacks_some: false };
        assert_eq!(decide(&mut amnesia, 0), Some(chosen));
    }

    /// A group whose only member took in two others: one has lost all, and one has got nothing yet.
    #[test]
    fn members_that_are_to_vote_elect_nobody_as_long_as_they_do_not() {
        let members = [peer(1), peer(2), peer(3)];
        let mine = LogWord { is_voter: false, ..log(0, 0, true) };
        let mut amnesia = Amnesia::new(NOW);
        let decide =
            |amnesia: &mut Amnesia| amnesia.decide((peer(1), mine), (&all(&[1, 2, 3]), &members), NOW);
        amnesia.hear(peer(2), log(4, 7, false));
        amnesia.hear(peer(3), LogWord { is_voter: false, ..log(5, 1, false) });
        assert_eq!(decide(&mut amnesia), None, "it has more than who votes");
        amnesia.hear(peer(3), LogWord { is_voter: false, ..log(0, 0, false) });
        let chosen = AmnesiaDecision { chosen: peer(2), lacks_some: false };
        assert_eq!(decide(&mut amnesia), Some(chosen));
    }

    /// A group of three becomes one of one, whose power is lost: the others are a majority.
    #[test]
    fn who_is_needed_in_one_of_two_majorities_decides() {
        let members = [peer(1), peer(2), peer(3)];
        let joint = Members { voters: vec![peer(1)], outgoing: members.to_vec(), learners: Vec::new() };
        let mut amnesia = Amnesia::new(NOW);
        amnesia.hear(peer(2), log(3, 9, false));
        amnesia.hear(peer(3), log(3, 9, false));
        let mut decide = |mine, counted: &Members| {
            amnesia.decide((peer(1), mine), (counted, &members), NOW).map(|one| one.chosen)
        };
        assert_eq!(decide(log(3, 10, true), &all(&[1, 2, 3])), None, "they need nobody else");
        assert_eq!(decide(log(3, 10, true), &joint), Some(peer(1)));
        assert_eq!(decide(log(3, 8, true), &joint), Some(peer(3)));
    }

    /// A majority may need one that has forgotten: a group of three is to become one of it alone,
    /// and it has lost the entry that says so.
    #[test]
    fn members_that_remember_everything_elect_alone_if_they_can() {
        let voters = [peer(1), peer(2), peer(3)];
        let mut amnesia = Amnesia::new(NOW);
        amnesia.hear(peer(2), log(3, 16, false));
        let decide = |amnesia: &mut Amnesia, mine, after| {
            let decision = amnesia.decide((peer(1), mine), (&all(&[1, 2, 3]), &voters), NOW + after);
            decision.map(|one| one.chosen)
        };
        amnesia.hear(peer(3), log(3, 16, false));
        let mine = log(2, 13, true);
        assert_eq!(decide(&mut amnesia, mine, ELECTED_ALONE - 1), None, "they have not had the time");
        assert_eq!(decide(&mut amnesia, mine, ELECTED_ALONE), Some(peer(3)));
        assert_eq!(decide(&mut amnesia, log(3, 17, true), ELECTED_ALONE), Some(peer(1)));
        amnesia.forget(peer(2));
        assert_eq!(decide(&mut amnesia, mine, 2 * RECOVERY_WAIT), Some(peer(3)), "one is no majority");
        let five = [1, 2, 3, 4, 5].map(peer);
        amnesia.forget(peer(3));
        [2, 3, 4].into_iter().for_each(|number| amnesia.hear(peer(number), log(3, 16, false)));
        let late = NOW + 2 * RECOVERY_WAIT;
        let decision = amnesia.decide((peer(1), mine), (&all(&[1, 2, 3, 4, 5]), &five), late);
        assert_eq!(decision, None, "one is not there, and three need no help");
    }

    #[test]
    fn a_majority_decides_when_it_has_waited_long() {
        let voters = [peer(1), peer(2), peer(3)];
        let mut amnesia = Amnesia::new(NOW);
        let decide = |amnesia: &mut Amnesia, after| {
            amnesia.decide((peer(1), log(1, 1, true)), (&all(&[1, 2, 3]), &voters), NOW + 1 + after)
        };
        assert_eq!(decide(&mut amnesia, 10 * RECOVERY_WAIT), None, "one is no majority");
        amnesia.hear(peer(2), log(1, 0, true));
        amnesia.hear_leader(peer(3), NOW + 1);
        assert_eq!(decide(&mut amnesia, RECOVERY_WAIT - 1), None, "a leader was there until then");
        let chosen = AmnesiaDecision { chosen: peer(1), lacks_some: true };
        assert_eq!(decide(&mut amnesia, RECOVERY_WAIT), Some(chosen));
    }

    #[test]
    fn a_leader_that_is_not_heard_any_more_is_gone() {
        let mut amnesia = Amnesia::new(NOW);
        assert!(!amnesia.is_leaderless(NOW + SILENCE - 1) && amnesia.is_leaderless(NOW + SILENCE));
        amnesia.hear_leader(peer(2), NOW + SILENCE);
        assert!(!amnesia.is_leaderless(NOW + SILENCE + 1));
    }

    #[test]
    fn each_leader_is_told_at_once_and_now_and_then() {
        let mut amnesia = Amnesia::new(NOW);
        let mut is_told = |number, after| amnesia.hear_leader(peer(number), NOW + after);
        assert_eq!([is_told(2, 0), is_told(2, SAID_FOR - 1), is_told(3, SAID_FOR - 1)], [true, false, true]);
        assert_eq!([is_told(3, SAID_FOR), is_told(3, 2 * SAID_FOR - 1)], [false, true]);
    }
}
