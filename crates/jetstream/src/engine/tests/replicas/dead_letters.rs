//! Dead letters between two streams on several servers each: what is on its way between them is
//! lost, late or there twice, and leaders change on both sides.

use super::super::cluster::Cluster;
use super::super::dead_letters::{letters, moved, moving, queue, seq_of};
use super::super::house::{Heard, House};
use super::consumers::ask;
use myelin_stdx::base64;
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use myelin_store::Wait;
use myelin_wire::message_buf::MessageRef;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const MESSAGES: u64 = 12;

type Recording = Arc<Mutex<Vec<Heard>>>;

/// Two groups of servers, and what is on its way between them.
struct Pair {
    source: Cluster,
    target: Cluster,
    /// Dead letters, and looks for them.
    letters: Vec<Recording>,
    answers: Vec<Recording>,
    rng: Rng,
    /// How many of a hundred are lost on their way.
    losses: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut pair = Self {
            source: Cluster::seeded(3, queue(), false, seed),
            target: Cluster::seeded(3, letters(), false, seed + 50),
            letters: Vec::new(),
            answers: Vec::new(),
            rng: Rng::seeded(seed),
            losses: 20,
        };
        (0..3).for_each(|number| pair.listen_at_source(number));
        (0..3).for_each(|number| pair.listen_at_target(number));
        let leader = pair.source.elect();
        pair.target.elect();
        pair.source.house(leader).consume("S", moving());
        pair.source.settle();
        for n in 0..MESSAGES {
            pair.source.publish(leader, &format!("m{n}"));
        }
        pair.pass(4);
        pair
    }

    fn listen_at_source(&mut self, number: usize) {
        let house = self.source.house(number);
        self.letters.extend([house.record("dlq.>"), house.record("$JS.API.STREAM.MSG.GET.D")]);
    }

    fn listen_at_target(&mut self, number: usize) {
        let house = self.target.house(number);
        self.answers.push(house.record("$JS.DLQ.>"));
    }

    /// Takes what has left one side, without what is lost.
    fn take(&mut self, is_of_source: bool) -> Vec<Heard> {
        let recordings = if is_of_source { &self.letters } else { &self.answers };
        let all: Vec<Heard> = recordings.iter().flat_map(|heard| std::mem::take(&mut *lock(heard))).collect();
        all.into_iter().filter(|_| self.rng.below(100) >= self.losses).collect()
    }

    /// Brings what is on its way to whoever leads on the other side.
    fn carry(&mut self) {
        let letters = self.take(true);
        let mut found = Vec::new();
        if let Some(leader) = self.target.leader() {
            for heard in &letters {
                if heard.subject.starts_with("dlq.") {
                    send(&mut self.target, leader, heard);
                } else {
                    found.push(look_for(self.target.house(leader), heard));
                }
            }
            self.target.settle();
        }
        let answers = self.take(false);
        for number in (0..3).filter(|number| self.source.leads(*number)).collect::<Vec<_>>() {
            found.iter().chain(&answers).for_each(|heard| send(&mut self.source, number, heard));
        }
        self.source.settle();
    }

    fn pass(&mut self, beats: usize) {
        for _ in 0..beats {
            self.source.pass(1);
            self.target.pass(1);
            self.carry();
        }
    }

    /// A client of the leader: terminates every other message, and says nothing of the rest.
    fn consume(&mut self) {
        let Some(leader) = self.source.leader() else { return };
        ask(&mut self.source, leader, "C", 5);
        self.source.settle();
        for heard in self.source.delivered(leader) {
            if seq_of(&heard).is_some_and(|seq| seq % 2 == 0) {
                self.source.house(leader).say(&heard.reply, "", "+TERM bad");
            }
        }
        self.source.settle();
    }

    /// Ends a leader's process, cuts it off, or has it hand over.
    fn trouble(&mut self) {
        let is_source = self.rng.below(2) == 0;
        let side = if is_source { &mut self.source } else { &mut self.target };
        side.isolated.clear();
        let Some(leader) = side.leader() else { return };
        match self.rng.below(4) {
            0 => side.isolated.push(leader),
            1 => side.house(leader).stream(if is_source { "S" } else { "D" }).hand_over(),
            _ => {
                side.kill(leader);
                side.begin(leader);
                if is_source { self.listen_at_source(leader) } else { self.listen_at_target(leader) }
            }
        }
    }
}

/// The API's answer to a look for the last message of a subject: here is no meta group, without
/// which it does not answer.
fn look_for(house: &House, request: &Heard) -> Heard {
    let wanted = request.payload.split('"').nth(3).expect("it names a subject");
    let reader = house.stream("D").reader();
    let headers_of = |seq: u64| {
        let mut buffer = Vec::new();
        let found = reader.get(seq, Wait::Allowed, &mut buffer).expect("a healthy disk");
        let is_it = found.filter(|message| message.subject == wanted.as_bytes());
        is_it.map(|message| base64::encode(message.headers))
    };
    let found = (1..=reader.state().totals.last_seq).find_map(|seq| Some((seq, headers_of(seq)?)));
    let payload = match found {
        Some((seq, headers)) => {
            format!(r#"{{"message":{{"subject":"{wanted}","seq":{seq},"hdrs":"{headers}"}}}}"#)
        }
        None => r#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#.to_owned(),
    };
    Heard { subject: request.reply.clone(), reply: String::new(), headers: String::new(), payload }
}

fn send(cluster: &mut Cluster, number: usize, heard: &Heard) {
    cluster.house(number).send(MessageRef {
        subject: heard.subject.as_bytes(),
        reply: heard.reply.as_bytes(),
        headers: heard.headers.as_bytes(),
        payload: heard.payload.as_bytes(),
        ..MessageRef::default()
    });
}

#[test]
fn each_dead_message_moves_once_while_leaders_change_on_both_sides() {
    let all: BTreeMap<u64, u64> = (1..=MESSAGES).map(|seq| (seq, 1)).collect();
    for seed in 1..=8 {
        let mut pair = Pair::new(seed);
        for _ in 0..24 {
            pair.consume();
            let beats = 1 + pair.rng.below(20) as usize;
            pair.pass(beats);
            pair.trouble();
        }
        pair.losses = 0;
        pair.source.isolated.clear();
        pair.target.isolated.clear();
        // Pauses have grown up to a minute.
        for _ in 0..200 {
            pair.consume();
            pair.pass(20);
            if pair.source.contents().iter().all(|(messages, _)| *messages == 0) {
                break;
            }
        }
        let leader = pair.source.elect();
        let live = pair.source.house(leader).stream("S");
        let consumer = live.consumers().find("C").expect("it is there");
        let why = live.consumers().ask_why(&consumer).wait();
        let leader = pair.target.elect();
        assert_eq!(moved(pair.target.house(leader)), all, "seed {seed}");
        assert_eq!(
            pair.source.contents(),
            [(0, MESSAGES); 3],
            "seed {seed}: they leave their queue: {why:?}"
        );
    }
}
