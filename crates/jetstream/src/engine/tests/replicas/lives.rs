//! Random lives of servers whose streams are one group, from a seed.

use super::super::cluster::{Cluster, Parcel};
use super::super::house::{Heard, stream};
use super::consumers::{ask, consumer, seq_of};
use myelin_disk::faulty::{DiskFault, Survival};
use myelin_jsapi::config::{Retention, Storage, StreamConfig};
use myelin_stdx::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

/// Rules of one life.
#[derive(Clone, Copy, Debug)]
struct Rules {
    size: usize,
    sync_always: bool,
    is_queue: bool,
    in_memory: bool,
    disks_fail: bool,
}

/// Publish of a client, and what it knows of it.
struct Publish {
    payload: String,
    id: Option<String>,
    expected: Option<u64>,
    /// How often it was sent.
    sent: u64,
    acknowledged: Option<u64>,
}

struct Life {
    cluster: Cluster,
    rng: Rng,
    rules: Rules,
    seed: u64,
    wire: Vec<Parcel>,
    /// Frames of a thousand that are lost, and as many that are repeated.
    loss: u64,
    is_ordered: bool,
    publishes: Vec<Publish>,
    answers: usize,
    leaders: BTreeMap<u64, usize>,
    /// Deliveries that wait to be acknowledged.
    hands: Vec<Heard>,
    delivered: BTreeMap<u64, String>,
    /// Messages of which an acknowledgement was sent, and those of which one was confirmed.
    settled: BTreeSet<u64>,
    confirmed: BTreeSet<u64>,
    has_consumer: bool,
    /// The last server that has lost what it had confirmed, perhaps.
    weak: Option<usize>,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let in_memory = rng.below(6) == 0;
        let rules = Rules {
            size: if rng.below(3) == 0 { 5 } else { 3 },
            sync_always: !in_memory && rng.below(2) == 0,
            is_queue: rng.below(3) == 0,
            in_memory,
            disks_fail: !in_memory && rng.below(4) == 0,
        };
        let config = StreamConfig {
            duplicate_window: 3_600_000_000_000,
            retention: if rules.is_queue { Retention::WorkQueue } else { Retention::Limits },
            storage: if in_memory { Storage::Memory } else { Storage::File },
            ..stream("S")
        };
        let cluster = Cluster::seeded(rules.size, config, rules.sync_always, seed);
        let loss = if rng.below(2) == 0 { 0 } else { rng.below(60) };
        let is_ordered = rng.below(2) == 0;
        Self {
            cluster,
            rng,
            rules,
            seed,
            wire: Vec::new(),
            loss,
            is_ordered,
            publishes: Vec::new(),
            answers: 0,
            leaders: BTreeMap::new(),
            hands: Vec::new(),
            delivered: BTreeMap::new(),
            settled: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            has_consumer: false,
            weak: None,
        }
    }

    fn any(&mut self) -> usize {
        self.rng.below(self.rules.size as u64) as usize
    }

    /// Somebody whose stream leads, as far as it knows.
    fn any_leader(&mut self) -> Option<usize> {
        let leading: Vec<_> = (0..self.rules.size).filter(|number| self.cluster.leads(*number)).collect();
        let at = self.rng.below(leading.len().max(1) as u64) as usize;
        leading.get(at).copied()
    }

    fn step(&mut self) {
        let number = self.any();
        match self.rng.below(1000) {
            0..60 => (0..self.rules.size).for_each(|number| self.cluster.beat(number)),
            60..250 => self.cluster.beat(number),
            250..600 => self.deliver_any(),
            600..680 => self.some_work(number),
            680..780 => self.publish(),
            780..860 => self.consume(),
            860..900 => self.publish_again(),
            900..985 => (0..self.rules.size).for_each(|number| self.cluster.settle_one(number)),
            _ => self.trouble(number),
        }
        self.wire.extend(self.cluster.collect());
        self.check();
    }

    fn deliver_any(&mut self) {
        if self.wire.is_empty() {
            return;
        }
        let at = if self.is_ordered { 0 } else { self.rng.below(self.wire.len() as u64) as usize };
        let parcel = self.wire.remove(at);
        let luck = self.rng.below(1000);
        if luck < self.loss {
            return;
        }
        if luck < 2 * self.loss {
            self.wire.push(parcel.clone());
        }
        let to = parcel.to;
        self.cluster.carry(parcel);
        if self.rng.below(4) > 0 && self.cluster.runs(to) {
            self.cluster.house(to).settle();
        }
    }

    fn some_work(&mut self, number: usize) {
        if !self.cluster.runs(number) {
            return;
        }
        let luck = self.rng.below(4);
        let house = self.cluster.house(number);
        match luck {
            0 => drop(house.run_sync()),
            1 => drop(house.step_without_jobs()),
            2 => drop(house.run_job()),
            _ => drop(house.run_repairs()),
        }
    }

    fn publish(&mut self) {
        let Some(leader) = self.any_leader() else { return };
        let name = self.publishes.len();
        let filler = if self.rng.below(10) == 0 { 3000 } else { 50 };
        let payload = format!("m{name} {}", "x".repeat(self.rng.below(filler) as usize));
        let id = (self.rng.below(2) == 0).then(|| format!("id{name}"));
        let last = self.cluster.house(leader).contents("S").1;
        let expected = (self.rng.below(5) == 0).then_some(last);
        self.publishes.push(Publish { payload, id, expected, sent: 0, acknowledged: None });
        self.send(leader, name);
        if self.rng.below(2) == 0 {
            self.cluster.settle_one(leader);
        }
    }

    fn send(&mut self, leader: usize, name: usize) {
        let publish = &mut self.publishes[name];
        publish.sent += 1;
        let mut headers = Vec::new();
        headers.extend(publish.id.iter().map(|id| format!("Nats-Msg-Id: {id}")));
        headers.extend(publish.expected.iter().map(|seq| format!("Nats-Expected-Last-Sequence: {seq}")));
        let (headers, payload) = (headers.join("\r\n"), publish.payload.clone());
        self.cluster.say_with(leader, &format!("acks.p{name}"), &headers, &payload);
    }

    /// A client has heard nothing, and tries again under the same id.
    fn publish_again(&mut self) {
        let Some(leader) = self.any_leader() else { return };
        if self.publishes.is_empty() {
            return;
        }
        let name = self.rng.below(self.publishes.len() as u64) as usize;
        if self.publishes[name].id.is_some() {
            self.send(leader, name);
        }
    }

    fn consume(&mut self) {
        let Some(leader) = self.any_leader() else { return };
        if !self.has_consumer || !self.cluster.house(leader).consumers("S").contains(&"C".to_owned()) {
            if !self.has_consumer {
                self.has_consumer = true;
                self.cluster.house(leader).consume("S", consumer("C"));
            }
            return;
        }
        if self.rng.below(2) == 0 {
            let batch = 1 + self.rng.below(5);
            ask(&mut self.cluster, leader, "C", batch);
            return;
        }
        if !self.hands.is_empty() {
            let at = self.rng.below(self.hands.len() as u64) as usize;
            let heard = self.hands.remove(at);
            self.acknowledge(leader, &heard);
        }
    }

    fn acknowledge(&mut self, leader: usize, heard: &Heard) {
        let Some(seq) = seq_of(heard) else { return };
        self.settled.insert(seq);
        self.cluster.house(leader).say(&heard.reply, &format!("acks.c{seq}"), "+ACK");
    }

    /// Whether what this server has confirmed may be lost: no other one is without it.
    fn may_forget(&mut self, number: usize) -> bool {
        if self.weak.is_some_and(|weak| weak != number && !self.remembers(weak)) {
            return false;
        }
        self.weak = Some(number);
        true
    }

    /// Whether a server has all again that it can have confirmed.
    fn remembers(&mut self, number: usize) -> bool {
        self.cluster.runs(number) && {
            let status = self.cluster.house(number).stream("S").group_status();
            status.is_some_and(|status| !status.is_amnesiac)
        }
    }

    fn trouble(&mut self, number: usize) {
        let luck = self.rng.below(15);
        if luck < 5 {
            if !self.cluster.runs(number) {
                self.cluster.begin(number);
            }
            return;
        }
        if luck < 8 {
            return self.cluster.isolated.clear();
        }
        match luck {
            8..10 if self.cluster.isolated.len() + 1 < self.rules.size => self.cluster.isolated.push(number),
            10..12 if self.cluster.runs(number) => {
                if self.rules.in_memory && !self.may_forget(number) {
                    return;
                }
                self.wire.retain(|parcel| parcel.to != number);
                self.cluster.kill(number);
            }
            12..14 if self.cluster.runs(number) => {
                if !self.rules.sync_always && (self.rules.disks_fail || !self.may_forget(number)) {
                    return;
                }
                let survival = match self.rng.below(4) {
                    0 => Survival::None,
                    1 => Survival::All,
                    2 => Survival::Prefix(self.rng.below(50)),
                    _ => Survival::Random(self.rng.below(u64::MAX)),
                };
                self.wire.retain(|parcel| parcel.to != number);
                self.cluster.lose_power(number, survival);
            }
            14 if self.rules.disks_fail && self.cluster.runs(number) => {
                let after = self.rng.below(20);
                let disk = self.cluster.disk(number);
                disk.fail_at(disk.points() + after, DiskFault::Error(ErrorKind::Other));
            }
            _ => {}
        }
    }

    /// A quiet time, in which all come to the same.
    fn calm(&mut self) {
        self.cluster.isolated.clear();
        self.mend();
        std::mem::take(&mut self.wire).into_iter().for_each(|parcel| self.cluster.carry(parcel));
        self.cluster.settle();
        for _ in 0..40 {
            self.cluster.pass(10);
            self.mend();
            self.check();
            let has_leader = self.cluster.leader().is_some();
            let contents = self.cluster.contents();
            let is_same = contents.iter().all(|one| *one == contents[0]);
            if has_leader && is_same && self.is_persisted() {
                return;
            }
        }
        panic!("{}: they do not come to the same: {:#?}", self.words(), self.cluster.statuses());
    }

    /// Begins those anew whose stream has failed twice within a minute: an operator does it.
    fn mend(&mut self) {
        for number in 0..self.rules.size {
            let has_failed = self.cluster.runs(number)
                && self.cluster.house(number).stream("S").failure().is_some()
                && self.rules.disks_fail;
            if has_failed {
                self.cluster.kill(number);
                self.cluster.begin(number);
            }
        }
    }

    /// Whether all members have the same committed log.
    fn is_persisted(&mut self) -> bool {
        let running: Vec<_> = (0..self.rules.size).filter(|number| self.cluster.runs(*number)).collect();
        let places = running.into_iter().map(|number| {
            let status = self.cluster.house(number).stream("S").group_status().expect("it is a member");
            (status.last, status.committed, status.is_amnesiac)
        });
        let places: Vec<_> = places.collect();
        places.iter().all(|place| *place == (places[0].0, places[0].0, false))
    }

    fn words(&self) -> String {
        format!("seed {} {:?}", self.seed, self.rules)
    }

    /// Rules that hold at every moment.
    fn check(&mut self) {
        for (number, term) in self.cluster.raft_leaders() {
            let known = *self.leaders.entry(term).or_insert(number);
            assert_eq!(known, number, "{}: two lead in term {term}", self.words());
        }
        for number in 0..self.rules.size {
            for heard in self.cluster.delivered(number) {
                let Some(seq) = seq_of(&heard) else { continue };
                let is_known = self.confirmed.contains(&seq);
                assert!(
                    !is_known,
                    "{}: {seq} comes again, and its acknowledgement was confirmed",
                    self.words()
                );
                let before = self.delivered.insert(seq, heard.payload.clone());
                let is_same = before.is_none_or(|before| before == heard.payload);
                assert!(is_same, "{}: {seq} has changed", self.words());
                self.hands.push(heard);
            }
        }
        let answers = self.cluster.answers();
        if answers.len() == self.answers {
            return;
        }
        // Those of servers do not come in order: all are looked at.
        self.answers = answers.len();
        for (to, payload) in answers {
            if let Some(seq) = to.strip_prefix("acks.c").and_then(|seq| seq.parse().ok()) {
                self.confirmed.insert(seq);
            } else if let Some(name) = to.strip_prefix("acks.p").and_then(|name| name.parse::<usize>().ok()) {
                self.answered(name, &payload);
            }
        }
    }

    fn answered(&mut self, name: usize, payload: &str) {
        // An empty one says that nobody was there who takes it.
        if payload.is_empty() || payload.contains("error") {
            return;
        }
        let digits = payload.split("\"seq\":").nth(1).expect(payload);
        let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
        let seq = digits.parse().expect(payload);
        let known = self.publishes[name].acknowledged.unwrap_or(seq);
        // The id of a message that is gone from the queue is not in the log any more: who leads
        // since a start may take it once more.
        let may_come_again = self.rules.is_queue && self.settled.contains(&known.min(seq));
        assert!(known == seq || may_come_again, "{}: {name} is {known} and {seq}", self.words());
        self.publishes[name].acknowledged = Some(known.max(seq));
    }

    /// All have the same at the end, and it is what clients know.
    fn end(&mut self) {
        self.loss = 0;
        for number in 0..self.rules.size {
            // A fault that comes now would be one of the judgement.
            self.cluster.disk(number).forget_plans();
            if !self.cluster.runs(number) {
                self.cluster.begin(number);
            }
        }
        self.calm();
        let end = self.publishes.len();
        self.publishes.push(Publish {
            payload: "end".into(),
            id: None,
            expected: None,
            sent: 0,
            acknowledged: None,
        });
        for _ in 0..3 {
            // A leader that is not sure holds it, and may say later that nobody has taken it.
            if self.publishes[end].acknowledged.is_none() {
                let leader = self.cluster.elect();
                self.send(leader, end);
                self.calm();
                self.cluster.pass(100);
                self.check();
            }
        }
        assert!(self.publishes[end].acknowledged.is_some(), "{}: nothing is acknowledged", self.words());
        self.check_contents();
        self.drain();
        self.check_contents();
        if !self.rules.in_memory {
            (0..self.rules.size).for_each(|number| self.cluster.kill(number));
            (0..self.rules.size).for_each(|number| self.cluster.begin(number));
            self.calm();
            self.check_contents();
        }
    }

    /// Everything that is left is delivered, and acknowledged.
    fn drain(&mut self) {
        if !self.has_consumer {
            return;
        }
        let leader = self.cluster.elect();
        if !self.cluster.house(leader).consumers("S").contains(&"C".to_owned()) {
            return;
        }
        let all: Vec<u64> = self.cluster.payloads(leader).into_iter().map(|(seq, _)| seq).collect();
        ask(&mut self.cluster, leader, "C", 100_000);
        for _ in 0..40 {
            self.cluster.pass(12);
            self.check();
            assert_eq!(self.cluster.leader(), Some(leader), "{}: it leads on", self.words());
            for heard in std::mem::take(&mut self.hands) {
                self.acknowledge(leader, &heard);
                if self.rng.below(8) == 0 {
                    self.cluster.settle();
                }
            }
            self.cluster.settle();
            self.check();
            if self.pending(leader) == (0, 0) {
                break;
            }
        }
        assert_eq!(self.pending(leader), (0, 0), "{}: it delivers everything", self.words());
        for seq in &all {
            assert!(self.delivered.contains_key(seq), "{}: {seq} was never delivered", self.words());
            // Who has confirmed it may have ended before it could say so.
            assert!(self.settled.contains(seq), "{}: {seq} was never acknowledged", self.words());
        }
        self.calm();
        if self.rules.is_queue {
            let left = self.cluster.payloads(leader);
            assert!(left.is_empty(), "{}: {left:?} stays in the queue", self.words());
        }
    }

    /// How many messages the consumer has not delivered, and how many await their acknowledgement.
    fn pending(&mut self, leader: usize) -> (u64, u64) {
        let consumers = std::sync::Arc::clone(self.cluster.house(leader).stream("S").consumers());
        let live = consumers.find("C").expect("it is there");
        let info = consumers.info(&live).expect("it lives");
        (info.num_pending, info.num_ack_pending)
    }

    fn check_contents(&mut self) {
        let kept = self.cluster.payloads(0);
        for number in 1..self.rules.size {
            assert_eq!(self.cluster.payloads(number), kept, "{}: server {number} differs", self.words());
        }
        let kept: BTreeMap<u64, String> = kept.into_iter().collect();
        let mut copies: BTreeMap<&str, u64> = BTreeMap::new();
        kept.values().for_each(|payload| *copies.entry(payload).or_default() += 1);
        for publish in &self.publishes {
            let Publish { payload, acknowledged, expected, .. } = publish;
            let found = copies.remove(payload.as_str()).unwrap_or(0);
            assert!(found <= 1, "{}: {payload} is there {found} times", self.words());
            let Some(seq) = acknowledged else { continue };
            if let Some(expected) = expected {
                let between = kept.range(expected + 1..*seq).count();
                assert_eq!(
                    between,
                    0,
                    "{}: {payload} was to be behind {expected}, and is {seq}",
                    self.words()
                );
            }
            match kept.get(seq) {
                Some(there) => assert_eq!(there, payload, "{}: message {seq}", self.words()),
                None => assert!(
                    self.rules.is_queue && self.settled.contains(seq),
                    "{}: {payload} was acknowledged as {seq}, and is not there",
                    self.words()
                ),
            }
        }
        assert!(copies.is_empty(), "{}: nobody has published {copies:?}", self.words());
        for (seq, payload) in &self.delivered {
            let there = kept.get(seq).unwrap_or(payload);
            assert_eq!(there, payload, "{}: {seq} was delivered otherwise", self.words());
            let is_lost = !kept.contains_key(seq) && !self.settled.contains(seq);
            assert!(!is_lost, "{}: {seq} was delivered, and is not there", self.words());
        }
    }
}

fn live(seed: u64) {
    let mut life = Life::new(seed);
    let steps = 1500 + life.rng.below(2500);
    (0..steps).for_each(|_| life.step());
    life.end();
}

#[test]
fn random_lives_keep_what_was_acknowledged() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("MYELIN_LIVES_FROM").unwrap_or(1);
    let count = number("MYELIN_LIVES").unwrap_or(6);
    let mut failed = Vec::new();
    for seed in first..first + count {
        if std::panic::catch_unwind(|| live(seed)).is_err() {
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "seeds that fail: {failed:?}");
}
