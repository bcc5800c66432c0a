//! A life of two replicas with their clients, and what must hold in it.

use super::replica::{BEGIN, Replica, States, config, is_needed};
use crate::consumer::AckSubject;
use myelin_jsapi::config::Retention;
use myelin_jsapi::consumer::config::AckPolicy;
use myelin_stdx::rng::Rng;
use myelin_store::{Purge, Seq, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::{BTreeMap, BTreeSet};

/// The shortest time that passes.
pub(super) const STEP: i64 = 100_000_000;

/// Pull request as its client knows it.
struct Request {
    consumer: String,
    left: u64,
    has_ended: bool,
    /// Whether its consumer was deleted since: a client that asks again and again hears that by it,
    /// whatever it has got.
    may_hear_of_end: bool,
}

/// Delivery that a client can answer.
struct Delivery {
    consumer: String,
    ack: String,
    seq: Seq,
}

/// Two replicas and their clients.
pub(super) struct Life {
    seed: u64,
    replicas: [Replica; 2],
    leader: usize,
    term: u64,
    now: Timestamp,
    retention: Retention,
    made: u64,
    asked: u64,
    requests: BTreeMap<String, Request>,
    deliveries: Vec<Delivery>,
    statuses: Vec<String>,
    confirmations: usize,
    /// Acknowledgements whose answer was given.
    done: BTreeSet<(String, Seq)>,
    /// The earliest time at which a message may come again.
    due: BTreeMap<(String, Seq), Timestamp>,
    /// Messages that a client has asked for again, which may come twice until then: one was on its
    /// way.
    asked_again: BTreeMap<(String, Seq), Timestamp>,
    /// Messages that were acknowledged, whatever became of that.
    answered: BTreeSet<(String, Seq)>,
    /// States at each index, as the first replica had them.
    states: BTreeMap<u64, States>,
    /// Messages that are there, and those that somebody wanted removed.
    there: BTreeSet<Seq>,
    /// The last message that was committed.
    newest: Seq,
    removed: BTreeSet<Seq>,
}

impl Life {
    pub(super) const ACK_WAIT: i64 = 10 * STEP;

    pub(super) fn new(seed: u64, retention: Retention, is_file: bool) -> Self {
        let replicas = [0, 1].map(|at| Replica::new(retention, is_file, seed * 2 + at));
        let mut life = Self {
            seed,
            replicas,
            leader: 0,
            term: 1,
            now: BEGIN,
            retention,
            made: 0,
            asked: 0,
            requests: BTreeMap::new(),
            deliveries: Vec::new(),
            statuses: Vec::new(),
            confirmations: 0,
            done: BTreeSet::new(),
            due: BTreeMap::new(),
            asked_again: BTreeMap::new(),
            answered: BTreeSet::new(),
            states: BTreeMap::new(),
            there: BTreeSet::new(),
            newest: 0,
            removed: BTreeSet::new(),
        };
        life.replicas[0].lead(1, BEGIN);
        life
    }

    fn leader(&mut self) -> &mut Replica {
        &mut self.replicas[self.leader]
    }

    fn follower(&mut self) -> &mut Replica {
        &mut self.replicas[1 - self.leader]
    }

    fn names(&mut self) -> Vec<String> {
        self.leader().live.keys().cloned().collect()
    }

    // What clients do.

    pub(super) fn create(&mut self, policy: AckPolicy) {
        let (name, now) = (format!("c{}", self.made), self.now);
        self.made += 1;
        self.leader().create(config(&name, policy, Self::ACK_WAIT), now);
    }

    pub(super) fn publish(&mut self, count: u64) {
        let mut msgs = MessageBuf::default();
        (0..count)
            .for_each(|_| msgs.push(MessageRef { subject: b"a", payload: b"x", ..MessageRef::default() }));
        let now = self.now;
        self.leader().stream_turn(now, |core, effects| core.publish(&msgs, now, effects));
    }

    pub(super) fn ask(&mut self, batch: u64, no_wait: bool) {
        for name in self.names() {
            self.ask_one(&name, batch, no_wait);
        }
    }

    fn ask_one(&mut self, name: &str, batch: u64, no_wait: bool) {
        self.asked += 1;
        let (reply, now) = (format!("inbox.{}", self.asked), self.now);
        let request =
            Request { consumer: name.to_owned(), left: batch, has_ended: false, may_hear_of_end: false };
        self.requests.insert(reply.clone(), request);
        let body = format!(r#"{{"batch":{batch},"expires":{},"no_wait":{no_wait}}}"#, 20 * STEP);
        self.leader().turn(name, now, |core, turn| core.ask(reply.as_bytes(), body.as_bytes(), turn));
        self.hear();
    }

    pub(super) fn deliver(&mut self) {
        let now = self.now;
        for name in self.names() {
            self.leader().deliver(&name, now);
        }
        self.hear();
    }

    /// Answers to a delivery.
    pub(super) fn answer(&mut self, at: usize, body: &str, wants_reply: bool) {
        let Delivery { consumer, ack, seq } = &self.deliveries[at];
        let (consumer, ack, seq) = (consumer.clone(), ack.clone(), *seq);
        let is_final = matches!(body, "+ACK" | "+TERM");
        let reply = match (wants_reply, is_final) {
            (false, _) => String::new(),
            (true, true) => format!("done.{consumer}.{seq}"),
            (true, false) => "heard".to_owned(),
        };
        let now = self.now;
        if is_final {
            self.answered.insert((consumer.clone(), seq));
        }
        if body.starts_with("-NAK") {
            self.asked_again.insert((consumer.clone(), seq), now + Self::ACK_WAIT);
        }
        self.leader().turn(&consumer, now, |core, turn| {
            let msg = MessageRef {
                subject: ack.as_bytes(),
                reply: reply.as_bytes(),
                payload: body.as_bytes(),
                ..MessageRef::default()
            };
            let subject = AckSubject::read(ack.as_bytes()).expect("a delivery's");
            core.acknowledge(&subject, &msg, turn);
        });
        self.hear();
    }

    fn remove(&mut self, rng: &mut Rng) {
        let now = self.now;
        let Some(&seq) = self.there.iter().nth(rng.below(self.there.len().max(1) as u64) as usize) else {
            return;
        };
        let all = rng.below(4) == 0;
        self.removed.extend(self.there.iter().filter(|one| if all { **one <= seq } else { **one == seq }));
        self.leader().stream_turn(now, |core, effects| {
            if all {
                let mut purge = Purge { through: seq, ..Purge::default() };
                core.purge(&mut purge, now, effects).expect("a healthy disk");
            } else {
                core.delete(seq, now, effects).expect("a healthy disk");
            }
        });
    }

    // What the group does.

    pub(super) fn pass(&mut self) {
        self.now += STEP;
        let now = self.now;
        self.leader().stream_turn(now, |core, effects| core.due(now, effects));
    }

    pub(super) fn propose(&mut self) {
        let now = self.now;
        self.leader().propose(now);
        self.hear();
    }

    fn send(&mut self, most: usize) {
        let now = self.now;
        for _ in 0..most {
            let Some(entry) = self.leader().unsent.pop_front() else { return };
            self.follower().core.store_mut().append_decided(&entry, now).expect("it is the next");
        }
    }

    pub(super) fn send_all(&mut self) {
        self.send(usize::MAX);
    }

    /// Commits the next entry, if both have it.
    fn commit_one(&mut self) -> bool {
        let (now, next) = (self.now, self.leader().commit() + 1);
        if next > self.leader().index() || next > self.follower().index() {
            return false;
        }
        self.leader().committed(next, now);
        self.check(self.leader);
        self.hear();
        true
    }

    pub(super) fn commit_all(&mut self) {
        while self.commit_one() {}
    }

    /// The follower hears how far its leader has come.
    fn tell(&mut self, rng: Option<&mut Rng>) {
        let (now, to) = (self.now, self.leader().commit());
        let to = to.min(self.follower().index());
        let from = self.follower().commit();
        let to = rng.map_or(to, |rng| from + rng.below(to.saturating_sub(from) + 1));
        if to > from {
            self.follower().committed(to, now);
            self.check(1 - self.leader);
        }
    }

    /// All that is decided is committed everywhere.
    pub(super) fn settle(&mut self) {
        for _ in 0..4 {
            self.propose();
            self.send_all();
            self.commit_all();
            self.tell(None);
        }
    }

    /// Another one leads, or the same one again.
    pub(super) fn change(&mut self, is_other: bool) {
        let now = self.now;
        if !is_other {
            self.send_all();
        }
        self.leader().follow(now);
        self.hear();
        for (reply, request) in &self.requests {
            assert!(request.has_ended, "seed {}: {reply} of {} hears nothing", self.seed, request.consumer);
        }
        if is_other {
            let last = self.follower().index();
            self.leader().core.take_back(last + 1, now).expect("it is not committed");
            self.leader = 1 - self.leader;
        }
        self.due.clear();
        self.term += 1;
        let (term, last) = (self.term, self.leader().index());
        for index in self.leader().commit() + 1..=last {
            self.leader().committed(index, now);
            self.check(self.leader);
        }
        self.leader().lead(term, now);
        self.hear();
    }

    // What must hold.

    /// Looks at a replica that has applied more.
    fn check(&mut self, at: usize) {
        let (seed, replica) = (self.seed, &self.replicas[at]);
        let index = replica.core.applied_consumers().expect("it is in a group").applied();
        let states = replica.states();
        let is_first = self.states.last_key_value().is_none_or(|(last, _)| *last < index);
        let known = self.states.entry(index).or_insert_with(|| states.clone());
        assert_eq!(*known, states, "seed {seed}: replica {at} at {index}");
        if !is_first {
            return;
        }
        let last = replica.core.reader().state().totals.last_seq;
        for (name, state) in &states {
            let (floor, delivered) = (state.ack_floor().stream, state.delivered().stream);
            assert!(floor <= delivered && delivered <= last, "seed {seed}: {name} is beyond its stream");
        }
        self.there.extend(self.newest + 1..=last);
        self.newest = self.newest.max(last);
        let gone: Vec<Seq> = self.there.iter().copied().filter(|seq| !replica.has(*seq)).collect();
        for seq in gone {
            self.there.remove(&seq);
            // Of a work queue's consumers, which are there one after the other, any may settle it.
            let is_settled = |name: &String| {
                self.retention == Retention::WorkQueue
                    && self.answered.iter().any(|(by, of)| *of == seq && by != name)
            };
            let mut needing = states.iter().filter(|(_, state)| is_needed(state, seq));
            let needs = needing.find(|(name, _)| !is_settled(name));
            assert!(
                self.removed.contains(&seq) || needs.is_none(),
                "seed {seed}, {:?}, at {index}: {seq} is gone, and {needs:?} needs it",
                self.retention
            );
        }
    }

    /// Clients hear what was sent since.
    fn hear(&mut self) {
        let (seed, now) = (self.seed, self.now);
        let sent = std::mem::take(&mut self.leader().sent);
        let states = self.leader().states();
        for one in sent {
            let key = |seq| (one.consumer.clone(), seq);
            if let Some(rest) = one.to.strip_prefix("done.") {
                let (name, seq) = rest.split_once('.').expect("it was written so");
                let seq: Seq = seq.parse().expect("a number");
                let is_pending = states.get(name).is_some_and(|state| state.pending().get(seq).is_some());
                assert!(!is_pending, "seed {seed}: {name} is told of {seq}, which is not committed");
                self.done.insert(key(seq));
                self.confirmations += 1;
                continue;
            }
            let Some(request) = self.requests.get_mut(&one.to) else { continue };
            let is_end =
                one.status.starts_with("NATS/1.0 409 ") && std::mem::take(&mut request.may_hear_of_end);
            let has_ended = request.has_ended && !is_end;
            assert!(!has_ended, "seed {seed}: {} hears {} behind its end", one.to, one.status);
            if one.ack.is_empty() {
                request.has_ended |= !one.status.starts_with("NATS/1.0 100 ");
                self.statuses.push(one.status);
                continue;
            }
            request.left -= 1;
            request.has_ended |= request.left == 0;
            let ack = AckSubject::read(one.ack.as_bytes()).expect("a delivery's");
            let seq = ack.seq;
            assert!(seq <= self.newest, "seed {seed}: {seq} is not committed");
            assert!(
                !self.done.contains(&key(seq)),
                "seed {seed}: {seq} was acknowledged at {}",
                one.consumer
            );
            if self.replicas[self.leader]
                .live
                .get(&one.consumer)
                .is_some_and(|core| core.config().ack_policy != AckPolicy::None)
            {
                let delivered = states.get(&one.consumer).map(|state| state.delivered().consumer);
                assert!(delivered >= Some(ack.delivery), "seed {seed}: {} is not committed", one.ack);
            }
            let due = self.due.insert(key(seq), now + Self::ACK_WAIT);
            let is_asked = self.asked_again.get(&key(seq)).is_some_and(|until| now <= *until);
            assert!(is_asked || due.is_none_or(|due| due <= now), "seed {seed}: {seq} comes again too early");
            self.deliveries.push(Delivery { consumer: one.consumer.clone(), ack: one.ack, seq });
        }
    }

    pub(super) fn messages(&self) -> usize {
        self.deliveries.len()
    }

    pub(super) fn seqs(&self) -> Vec<Seq> {
        self.deliveries.iter().map(|delivery| delivery.seq).collect()
    }

    pub(super) fn confirmed(&self) -> usize {
        self.confirmations
    }

    pub(super) fn statuses(&mut self) -> Vec<String> {
        std::mem::take(&mut self.statuses)
    }

    fn step(&mut self, rng: &mut Rng) {
        let names = self.names();
        let name = names.get(rng.below(names.len().max(1) as u64) as usize).cloned();
        match rng.below(40) {
            0..4 => self.publish(1 + rng.below(3)),
            4..8 => {
                if let Some(name) = name {
                    self.ask_one(&name, 1 + rng.below(4), rng.below(3) == 0);
                }
            }
            8..14 => self.deliver(),
            14..20 => {
                let all = self.deliveries.len() as u64;
                if all > 0 {
                    let at = all - 1 - rng.below(all.min(8));
                    let body = ["+ACK", "+ACK", "+ACK", "-NAK", "+WPI", "+TERM"][rng.below(6) as usize];
                    self.answer(at as usize, body, rng.below(2) == 0);
                }
            }
            20..25 => self.propose(),
            25..29 => self.send(1 + rng.below(4) as usize),
            29..33 => {
                for _ in 0..=rng.below(4) {
                    self.commit_one();
                }
            }
            33 => self.tell(Some(rng)),
            34..37 => self.pass(),
            37 => {
                let most = if self.retention == Retention::WorkQueue { 1 } else { 3 };
                if names.len() < most {
                    let policies =
                        [AckPolicy::Explicit, AckPolicy::Explicit, AckPolicy::All, AckPolicy::None];
                    // Messages of a work queue, or of interest, are acknowledged one by one here.
                    let kinds = if self.retention == Retention::Limits { 4 } else { 2 };
                    self.create(policies[rng.below(kinds) as usize]);
                } else if rng.below(3) == 0
                    && let Some(name) = name
                {
                    let now = self.now;
                    let of_it = self.requests.values_mut().filter(|request| request.consumer == name);
                    of_it.for_each(|request| request.may_hear_of_end = true);
                    self.leader().delete(&name, now);
                    self.hear();
                }
            }
            38 => {
                if rng.below(3) == 0 {
                    self.remove(rng);
                }
            }
            _ => {
                if rng.below(3) == 0 {
                    self.change(rng.below(4) > 0);
                }
            }
        }
    }
}

/// A random life, which ends in peace: all is delivered and acknowledged.
pub(super) fn live(seed: u64) {
    println!("MYELIN_MODEL_SEED={seed}");
    let mut rng = Rng::seeded(seed);
    let retention = [Retention::Limits, Retention::Interest, Retention::WorkQueue][rng.below(3) as usize];
    let mut life = Life::new(seed, retention, rng.below(3) == 0);
    for _ in 0..400 {
        life.step(&mut rng);
    }
    life.settle();
    for _ in 0..40 {
        life.ask(20, false);
        life.deliver();
        life.settle();
        for at in 0..life.deliveries.len() {
            life.answer(at, "+ACK", false);
        }
        life.settle();
        for _ in 0..11 {
            life.pass();
        }
        life.deliver();
    }
    life.settle();
    let states = life.leader().states();
    assert_eq!(states, life.follower().states(), "seed {seed}");
    // Nobody has to be delivered one that was removed.
    let last = life.there.last().copied().unwrap_or(0);
    let names: Vec<&String> = states.keys().collect();
    assert_eq!(names, life.names().iter().collect::<Vec<_>>(), "seed {seed}: these are there, and served");
    for (name, state) in &states {
        assert!(state.pending().is_empty(), "seed {seed}: {name} awaits acknowledgements: {state:?}");
        assert!(state.delivered().stream >= last, "seed {seed}: {name} has not had {last}");
    }
}
