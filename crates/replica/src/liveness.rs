//! Whether other servers are there: one word a quarter of a second for all groups together.
//!
//! Owns *support*: a server that supports another one neither votes nor stands for election against
//! a leader there. Each asks all others for it, 1.5 s at a time. Must never let the one who asks
//! believe in support that has ended: it counts from when it asked, and by a shorter time, the
//! other from when it was asked. Clocks may differ, and run up to 5 % too fast or too slow.
//!
//! Support that has ended is withdrawn for good: the epoch grows, and what is asked for in an
//! earlier one is refused. A server that starts supports and votes for nobody for as long as its
//! earlier life may have promised.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Peer;

/// Between two words to a server.
pub const INTERVAL: Duration = Duration::from_millis(250);
/// How long support lasts, from when the one who gives it was asked.
pub const SUPPORT: Duration = Duration::from_millis(1_500);
/// How long the one who has it counts on it, from when it asked: 9 tenths.
const COUNTED_ON: Duration = Duration::from_millis(1_350);

/// Asks for support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportRequest {
    /// The life of the store that asks.
    pub incarnation: u64,
    /// In which epoch it asks: what it heard last, 1 at first.
    pub epoch: u64,
    /// When it asks, by its own clock, in nanoseconds: the answer repeats it.
    pub sent: u64,
}

/// Gives support, or says in which epoch it can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportAnswer {
    /// The life of the store that asked.
    pub incarnation: u64,
    /// The epoch now.
    pub epoch: u64,
    /// When it was asked for, as the request says.
    pub sent: u64,
    /// Whether support is given.
    pub is_given: bool,
}

/// The words between this server and all others. Times are nanoseconds of one clock of this
/// process, which never goes back.
#[derive(Clone, Debug)]
pub struct Liveness {
    incarnation: u64,
    /// From when on it may promise and vote.
    free: u64,
    peers: BTreeMap<Peer, PeerLiveness>,
}

#[derive(Clone, Debug, Default)]
struct PeerLiveness {
    /// When it is asked next.
    next: u64,
    /// In which epoch it is asked.
    epoch: u64,
    /// Until when this server may count on its support.
    counted_until: u64,
    given: SupportGiven,
    /// Whether support was for a life that has ended, and nobody was told of it.
    has_new_life: bool,
}

/// Support that this server gives to another one.
#[derive(Clone, Copy, Debug, Default)]
struct SupportGiven {
    incarnation: u64,
    epoch: u64,
    until: Option<u64>,
}

impl Liveness {
    /// A life that begins `now`, with the servers that it knows of.
    #[must_use]
    pub fn new(incarnation: u64, peers: &[Peer], now: u64) -> Self {
        let peers = peers.iter().map(|&peer| (peer, PeerLiveness::new(now))).collect();
        Self { incarnation, free: now + nanoseconds(SUPPORT), peers }
    }

    /// Knows of another server from now on. Nothing happens if it does already.
    pub fn know(&mut self, peer: Peer, now: u64) {
        self.peers.entry(peer).or_insert_with(|| PeerLiveness::new(now));
    }

    /// Words that are due, for whom.
    pub fn due(&mut self, now: u64) -> Vec<(Peer, SupportRequest)> {
        let mut due = Vec::new();
        for (&peer, of) in &mut self.peers {
            if of.next <= now {
                of.next = now + nanoseconds(INTERVAL);
                let request = SupportRequest { incarnation: self.incarnation, epoch: of.epoch, sent: now };
                due.push((peer, request));
            }
        }
        due
    }

    /// When the next word is due; `None` if there is nobody.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        self.peers.values().map(|of| of.next).min()
    }

    /// Another server asks. `None`: it gets no answer, as it is not known, is of an earlier life,
    /// or this server has just started.
    pub fn asked(&mut self, by: Peer, request: SupportRequest, now: u64) -> Option<SupportAnswer> {
        let may_promise = self.may_vote(now);
        let of = self.peers.get_mut(&by)?;
        let given = &mut of.given;
        if request.incarnation < given.incarnation || !may_promise {
            return None;
        }
        if request.incarnation > given.incarnation {
            of.has_new_life |= given.until.is_some();
            *given = SupportGiven { incarnation: request.incarnation, epoch: 1, until: None };
        }
        given.expire(now);
        // A later epoch is one that an earlier life of this server has told: this one has withdrawn
        // nothing in it. The other server goes to no earlier one, and would be refused for good.
        given.epoch = given.epoch.max(request.epoch);
        let is_given = request.epoch == given.epoch;
        if is_given {
            given.until = Some(now + nanoseconds(SUPPORT));
        }
        let SupportRequest { incarnation, sent, .. } = request;
        Some(SupportAnswer { incarnation, epoch: given.epoch, sent, is_given })
    }

    /// This server begins a new life in the same process: others have heard of a later one than
    /// it had taken itself for. What it has promised holds on.
    pub fn begin_life(&mut self, incarnation: u64) {
        self.incarnation = incarnation;
    }

    /// Whether with this answer support begins, at first or after a time without: what members of
    /// the other server have confirmed until then counts no more, as they may follow somebody else
    /// since. Members here are to hear of it before the answer is [taken](Self::answered).
    #[must_use]
    pub fn begins_anew(&self, by: Peer, answer: SupportAnswer, now: u64) -> bool {
        self.is_heard(answer, now)
            && self.peers.get(&by).is_some_and(|of| of.is_given_by(answer) && answer.sent >= of.counted_until)
    }

    /// Another server has answered.
    pub fn answered(&mut self, by: Peer, answer: SupportAnswer, now: u64) {
        let is_heard = self.is_heard(answer, now);
        let Some(of) = self.peers.get_mut(&by).filter(|_| is_heard) else { return };
        if of.is_given_by(answer) {
            let sent = if myelin_stdx::planted::bug(123) { now } else { answer.sent };
            of.counted_until = of.counted_until.max(sent + nanoseconds(COUNTED_ON));
        } else if answer.epoch > of.epoch {
            of.epoch = answer.epoch;
            of.counted_until = of.counted_until.min(now);
            of.next = now;
        }
    }

    fn is_heard(&self, answer: SupportAnswer, now: u64) -> bool {
        answer.incarnation == self.incarnation && answer.sent <= now
    }

    /// Whether this server supports another one: no vote against a leader there.
    #[must_use]
    pub fn supports(&self, peer: Peer, now: u64) -> bool {
        self.peers.get(&peer).and_then(|of| of.given.until).is_some_and(|until| now < until)
    }

    /// Whether another server supports this one, as far as can be known.
    #[must_use]
    pub fn is_supported_by(&self, peer: Peer, now: u64) -> bool {
        self.peers.get(&peer).is_some_and(|of| now < of.counted_until)
    }

    /// Until when another server supports this one, as far as can be known; 0 where it never has.
    #[must_use]
    pub fn supported_until(&self, peer: Peer) -> u64 {
        self.peers.get(&peer).map_or(0, |of| of.counted_until)
    }

    /// Nanoseconds since the last word to another server that it has answered with its support;
    /// `None` if it has answered none.
    #[must_use]
    pub fn answered_ago(&self, peer: Peer, now: u64) -> Option<u64> {
        let until = self.peers.get(&peer)?.counted_until;
        (until > 0).then(|| now.saturating_sub(until - nanoseconds(COUNTED_ON)))
    }

    /// Whether this server may vote at all, and stand for election: an earlier life of it has
    /// promised nothing any more.
    #[must_use]
    pub fn may_vote(&self, now: u64) -> bool {
        now >= self.free
    }

    /// No earlier life of this server has promised anything that still counts: none of the servers
    /// that it is linked with leads a group. It may promise and vote from now on.
    pub fn has_promised_nothing(&mut self) {
        self.free = 0;
    }

    /// Servers whose support has ended since the last call: groups that are led there need another
    /// leader.
    pub fn withdrawn(&mut self, now: u64) -> Vec<Peer> {
        let ended = |(&peer, of): (&Peer, &mut PeerLiveness)| {
            let has_ended = std::mem::take(&mut of.has_new_life) | of.given.expire(now);
            has_ended.then_some(peer)
        };
        self.peers.iter_mut().filter_map(ended).collect()
    }

    /// Another server's process has ended: its connections are closed, and nobody takes new ones.
    /// Support for it ends at once. `false` if there was none.
    pub fn withdraw(&mut self, peer: Peer) -> bool {
        let given = self.peers.get_mut(&peer).map(|of| &mut of.given);
        given.is_some_and(|given| given.end())
    }
}

impl PeerLiveness {
    fn new(now: u64) -> Self {
        Self { next: now, epoch: 1, ..Self::default() }
    }

    fn is_given_by(&self, answer: SupportAnswer) -> bool {
        answer.is_given && answer.epoch == self.epoch
    }
}

impl SupportGiven {
    /// Ends support whose time is over.
    fn expire(&mut self, now: u64) -> bool {
        self.until.is_some_and(|until| until <= now) && self.end()
    }

    fn end(&mut self) -> bool {
        let was_given = self.until.take().is_some();
        if was_given {
            self.epoch += 1;
        }
        was_given
    }
}

/// A duration of this room, all of which are short.
const fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs() * 1_000_000_000 + duration.subsec_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_stdx::rng::Rng;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn peer(number: u64) -> Peer {
        Peer::from_number(number).expect("not zero")
    }

    /// Two servers that have been there for long enough.
    fn pair() -> (Liveness, Liveness, u64) {
        let (one, other) = (Liveness::new(1, &[peer(2)], 0), Liveness::new(1, &[peer(1)], 0));
        (one, other, nanoseconds(SUPPORT))
    }

    /// The first asks the second, which answers.
    fn ask(one: &mut Liveness, other: &mut Liveness, now: u64) -> Option<SupportAnswer> {
        let (_, request) = one.due(now).pop().expect("due");
        let answer = other.asked(peer(1), request, now)?;
        one.answered(peer(2), answer, now);
        Some(answer)
    }

    #[test]
    fn support_lasts_as_long_as_it_is_asked_for() {
        let (mut one, mut other, start) = pair();
        for now in (start..start + 5_000 * MS).step_by(250_000_000) {
            assert!(ask(&mut one, &mut other, now).is_some_and(|answer| answer.is_given));
            assert!(one.is_supported_by(peer(2), now) && other.supports(peer(1), now));
            assert_eq!((one.next_due(), other.withdrawn(now)), (Some(now + 250 * MS), Vec::new()));
        }
        let last = start + 4_750 * MS;
        assert!(one.is_supported_by(peer(2), last + 1_349 * MS));
        assert!(!one.is_supported_by(peer(2), last + 1_350 * MS));
        assert!(other.supports(peer(1), last + 1_499 * MS));
        assert!(!other.supports(peer(1), last + 1_500 * MS));
        assert_eq!(other.withdrawn(last + 1_499 * MS), []);
        assert_eq!(other.withdrawn(last + 1_500 * MS), [peer(1)]);
        assert_eq!(other.withdrawn(last + 1_500 * MS), [], "told once");
    }

    #[test]
    fn what_is_withdrawn_is_asked_for_anew() {
        let (mut one, mut other, start) = pair();
        let late = start + 2_000 * MS;
        let (_, on_its_way) = one.due(start).pop().expect("due");
        assert!(other.asked(peer(1), on_its_way, start).is_some_and(|answer| answer.is_given));
        let refused = ask(&mut one, &mut other, late).expect("an answer");
        assert_eq!((refused.is_given, refused.epoch), (false, 2));
        assert!(!one.is_supported_by(peer(2), late) && !other.supports(peer(1), late));
        assert!(ask(&mut one, &mut other, late).is_some_and(|answer| answer.is_given), "at once");
        let again = other.asked(peer(1), on_its_way, late).expect("an answer");
        assert!(!again.is_given, "asked for in an earlier epoch");
    }

    #[test]
    fn a_server_whose_process_has_ended_loses_support_at_once() {
        let (mut one, mut other, start) = pair();
        assert!(!other.withdraw(peer(1)), "it had none");
        ask(&mut one, &mut other, start);
        assert!(other.withdraw(peer(1)) && !other.supports(peer(1), start));
        let mut next_life = Liveness::new(2, &[peer(2)], start);
        assert!(ask(&mut next_life, &mut other, start).is_some_and(|answer| answer.is_given));
        assert_eq!(ask(&mut one, &mut other, start + 250 * MS), None, "of an earlier life");
        let mut third_life = Liveness::new(3, &[peer(2)], start);
        assert_eq!(other.withdrawn(start), []);
        ask(&mut third_life, &mut other, start);
        assert_eq!(other.withdrawn(start), [peer(1)], "what the second life led needs another leader");
        assert_eq!(other.withdrawn(start), [], "told once");
    }

    /// Support that was refused once may be given much later, when the one who gives it has voted
    /// for somebody else meanwhile.
    #[test]
    fn support_that_begins_anew_is_told_from_support_that_goes_on() {
        let (mut one, mut other, start) = pair();
        let mut begins = |other: &mut Liveness, now| {
            let (_, request) = one.due(now).pop().expect("due");
            let answer = other.asked(peer(1), request, now).expect("an answer");
            let begins = one.begins_anew(peer(2), answer, now);
            one.answered(peer(2), answer, now);
            (answer.is_given, begins)
        };
        assert_eq!(begins(&mut other, start), (true, true), "at first");
        assert_eq!(begins(&mut other, start + 1_000 * MS), (true, false));
        assert!(other.withdraw(peer(1)));
        assert_eq!(begins(&mut other, start + 1_250 * MS), (false, false));
        assert_eq!(begins(&mut other, start + 1_260 * MS), (true, true), "it was withdrawn early");
        let late = start + 9_000 * MS;
        assert_eq!(begins(&mut other, late), (false, false));
        assert_eq!(begins(&mut other, late + 5_000 * MS), (true, true), "it was not given since");
    }

    #[test]
    fn an_answer_of_an_epoch_that_has_ended_gives_nothing() {
        let (mut one, mut other, start) = pair();
        let (_, request) = one.due(start).pop().expect("due");
        let late = other.asked(peer(1), request, start).expect("an answer");
        assert!(late.is_given && other.withdraw(peer(1)));
        assert!(ask(&mut one, &mut other, start + 250 * MS).is_some_and(|answer| !answer.is_given));
        one.answered(peer(2), late, start + 260 * MS);
        assert!(!one.is_supported_by(peer(2), start + 260 * MS));
    }

    /// The one that asks was away for a while, and then the one that gives was started anew.
    #[test]
    fn a_server_that_has_forgotten_an_epoch_gives_support_again() {
        let (mut one, mut other, start) = pair();
        ask(&mut one, &mut other, start);
        let late = start + 2_000 * MS;
        ask(&mut one, &mut other, late);
        assert!(ask(&mut one, &mut other, late).is_some_and(|answer| answer.is_given && answer.epoch == 2));
        let mut next_life = Liveness::new(2, &[peer(1)], late);
        let now = late + 1_500 * MS;
        assert!(ask(&mut one, &mut next_life, now).is_some_and(|answer| answer.is_given));
        assert!(one.is_supported_by(peer(2), now) && next_life.supports(peer(1), now));
    }

    #[test]
    fn a_server_that_starts_promises_nothing() {
        let (mut one, mut other) = (Liveness::new(1, &[peer(2)], 0), Liveness::new(1, &[peer(1)], 0));
        assert!(!other.may_vote(1_499 * MS));
        assert_eq!(ask(&mut one, &mut other, 1_499 * MS), None);
        assert!(other.may_vote(1_500 * MS));
        let answer_of_another_life = SupportAnswer { incarnation: 0, epoch: 1, sent: 0, is_given: true };
        one.answered(peer(2), answer_of_another_life, 1_500 * MS);
        assert!(!one.is_supported_by(peer(2), 1_500 * MS));
    }

    proptest! {
        /// Whoever is counted on gives support then: with clocks that begin anywhere and run up to
        /// 5 % too fast or too slow, and words that take their time, are lost, and come twice.
        #[test]
        fn nobody_counts_on_support_that_has_ended(seed in any::<u64>()) {
            let mut rng = Rng::seeded(seed);
            let clocks = [0, 1].map(|_| (rng.below(1 << 50), 950 + rng.below(101)));
            let at = |clock: usize, now: u64| clocks[clock].0 + now / 1_000 * clocks[clock].1;
            let mut one = Liveness::new(1, &[peer(2)], at(0, 0));
            let mut other = Liveness::new(1, &[peer(1)], at(1, 0));
            let (mut asks, mut answers) = (Vec::new(), Vec::new());
            let mut counted = 0;
            let slow = rng.below(2) * 3_000;
            for now in (0..40_000_u64).step_by(10).map(|ms| ms * MS) {
                for (_, request) in one.due(at(0, now)) {
                    for _ in 0..rng.below(3) {
                        asks.push((now + rng.below(100 + slow) * MS, request));
                    }
                }
                asks.retain(|&(arrives, request)| {
                    if arrives == now / MS * MS
                        && let Some(answer) = other.asked(peer(1), request, at(1, now))
                    {
                        answers.push((now + rng.below(100 + slow) / 10 * 10 * MS, answer));
                    }
                    arrives > now
                });
                answers.retain(|&(arrives, answer)| {
                    if arrives <= now {
                        one.answered(peer(2), answer, at(0, now));
                    }
                    arrives > now
                });
                if one.is_supported_by(peer(2), at(0, now)) {
                    counted += 1;
                    prop_assert!(other.supports(peer(1), at(1, now)), "at {now}");
                }
                other.withdrawn(at(1, now));
            }
            prop_assert!(counted > 0 || slow > 0, "words that come in time are counted on");
        }
    }
}
