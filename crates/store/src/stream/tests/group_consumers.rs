//! Records of consumers in the log of a group, from the leader's proposal to another life.

use super::*;
use crate::consumer::{AckRules, ConsumerState, Consumers, DeliverySeq, Delta, GroupConsumers};
use crate::record::ConsumerRecord;
use std::collections::BTreeMap;

/// A stream with the consumers that it has applied.
struct Replica {
    bench: Bench,
    stream: Stream,
    consumers: GroupConsumers,
}

fn small() -> StreamConfig {
    StreamConfig { segment_bytes: Some(600), ..StreamConfig::default() }
}

impl Replica {
    fn new() -> Self {
        let (bench, stream) = member(small());
        Self { bench, stream, consumers: GroupConsumers::in_memory(0) }
    }

    fn apply(&mut self, index: u64) {
        self.stream.committed(index);
        for (index, records) in self.stream.committed_consumers(self.consumers.applied()) {
            self.consumers.apply(index, records).unwrap();
        }
    }

    fn states(&self) -> BTreeMap<String, ConsumerState> {
        self.consumers.iter().map(|(_, (name, _, _, state))| (name.to_owned(), state.clone())).collect()
    }

    /// Another process, which knows of consumers what `image` does.
    fn restart(self, image: GroupConsumers) -> Self {
        let Self { mut bench, mut stream, .. } = self;
        stream.flush().unwrap();
        drop(stream);
        let (stream, report) = bench.reopen(small());
        assert_eq!(report.notices, []);
        Self { bench, stream, consumers: image }
    }
}

fn states(consumers: &Consumers) -> BTreeMap<String, ConsumerState> {
    consumers.iter().map(|(_, consumer)| (consumer.name().to_owned(), consumer.state().clone())).collect()
}

/// Decides and proposes, with a message each time.
fn lead(replica: &mut Replica, decided: &mut Consumers, n: u64) {
    put(&mut replica.stream, "a", "some bytes to fill a segment", n as i64).unwrap();
    let id = decided.find("C").unwrap_or_else(|| {
        decided.create("C", AckRules::default(), b"config").unwrap();
        decided.find("C").unwrap()
    });
    let delivery = DeliverySeq(n);
    decided.apply_one(id, Delta::Delivered { delivery, seq: n, count: 1, timestamp: n as i64 }).unwrap();
    if n > 2 {
        decided.apply_one(id, Delta::Acknowledged { delivery: DeliverySeq(n - 2), seq: n - 2 }).unwrap();
    }
    let records = decided.take_records();
    replica.stream.propose_consumers(&records, n as i64).unwrap();
}

fn run_jobs(stream: &mut Stream) {
    while let Some(job) = stream.next_job(40) {
        let done = job.run();
        stream.finish(done, 40).unwrap();
    }
}

#[test]
fn what_a_leader_proposes_happens_at_its_commit_on_every_replica() {
    let (mut leader, mut follower) = (Replica::new(), Replica::new());
    let mut decided = leader.consumers.lead();
    for n in 1..=10 {
        lead(&mut leader, &mut decided, n);
        for entry in leader.stream.take_decided() {
            follower.stream.append_decided(&entry, 99).unwrap();
        }
        assert_ne!(leader.states(), states(&decided), "it is not committed");
        let index = leader.stream.group().unwrap().index;
        assert_eq!(follower.stream.group().unwrap().chain, leader.stream.group().unwrap().chain);
        for replica in [&mut leader, &mut follower] {
            replica.apply(index);
        }
        assert_eq!(leader.states(), states(&decided));
        assert_eq!(follower.states(), states(&decided));
        assert_eq!((leader.consumers.applied(), follower.consumers.applied()), (index, index));
    }
    assert_eq!(contents(&follower.stream), contents(&leader.stream));
}

#[test]
fn a_start_applies_the_entries_behind_its_image() {
    for image_at in [0, 6, 14] {
        let mut leader = Replica::new();
        let mut decided = leader.consumers.lead();
        let mut image = GroupConsumers::in_memory(0);
        for n in 1..=10 {
            lead(&mut leader, &mut decided, n);
            let index = leader.stream.group().unwrap().index;
            leader.apply(index - 2);
            if index == image_at {
                leader.apply(index);
                for (index, records) in leader.stream.committed_consumers(0) {
                    image.apply(index, records).unwrap();
                }
                leader.stream.consumers_imaged(index);
            }
        }
        run_jobs(&mut leader.stream);
        let index = leader.stream.group().unwrap().index;
        assert_eq!(index, 20, "each message and each change is an entry");
        let mut leader = leader.restart(image);
        let known = leader.stream.group().unwrap().commit;
        leader.apply(0);
        assert!(leader.consumers.applied() <= known, "what is not known to be committed may be taken back");
        leader.apply(index);
        assert_eq!(leader.states(), states(&decided), "image at {image_at}");
        // And on.
        let mut decided = leader.consumers.lead();
        lead(&mut leader, &mut decided, 11);
        leader.apply(index + 2);
        assert_eq!(leader.states(), states(&decided));
    }
}

#[test]
fn segments_whose_records_no_image_has_stay_open() {
    let mut leader = Replica::new();
    let mut decided = leader.consumers.lead();
    (1..=30).for_each(|n| lead(&mut leader, &mut decided, n));
    leader.apply(60);
    run_jobs(&mut leader.stream);
    assert!(leader.stream.closed.len() > 2);
    assert!(leader.stream.closed[0].last_index > 1, "a start would not find them in a sealed segment");
    let second = leader.stream.closed[1].last_index;
    leader.stream.consumers_imaged(second);
    run_jobs(&mut leader.stream);
    assert!(leader.stream.closed[0].last_index > second);
    let image = std::mem::replace(&mut leader.consumers, GroupConsumers::in_memory(0));
    let mut leader = leader.restart(image);
    leader.apply(60);
    assert_eq!(leader.states(), states(&decided));
    leader.stream.consumers_imaged(60);
    assert!(leader.stream.next_job(60).is_some());
}

#[test]
fn nothing_is_proposed_without_a_group_and_nothing_is_no_entry() {
    let bench = Bench::new();
    let mut alone = bench.create(small());
    let record = ConsumerRecord { consumer: 1, kind: 4, payload: Vec::new().into() };
    assert!(alone.propose_consumers(&[record], 1).is_err());
    let mut member = Replica::new();
    member.stream.propose_consumers(&[], 1).unwrap();
    assert_eq!(member.stream.group().unwrap().index, 0);
}
