//! Dead letters on one server whose process ends at every point of what it asks of its disk, and
//! other streams than there should be.

use super::house::{Heard, House, stream};
use crate::engine::Host;
use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};
use myelin_jsapi::config::{Discard, Retention, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::lock;
use myelin_store::Wait;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

const SECOND: i64 = 1_000_000_000;
/// Messages, of which each third is terminated and another third never answered.
const MESSAGES: u64 = 9;

/// Consumer whose dead letters go to the stream D.
pub(super) fn moving() -> ConsumerConfig {
    ConsumerConfig {
        name: "C".into(),
        durable_name: "C".into(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: SECOND,
        max_deliver: 2,
        metadata: [("myelin.dlq.stream".to_owned(), "D".to_owned())].into(),
        ..ConsumerConfig::default()
    }
}

/// Stream for dead letters.
pub(super) fn letters() -> StreamConfig {
    StreamConfig { subjects: vec!["dlq.>".into()], ..stream("D") }
}

pub(super) fn queue() -> StreamConfig {
    StreamConfig { retention: Retention::WorkQueue, ..stream("S") }
}

/// Sequences of which there are dead letters, with how many there are of each.
pub(super) fn moved(house: &House) -> BTreeMap<u64, u64> {
    let reader = house.stream("D").reader();
    let totals = reader.state().totals;
    let mut moved = BTreeMap::new();
    for seq in totals.first_seq..=totals.last_seq {
        let mut buffer = Vec::new();
        let Ok(Some(found)) = reader.get(seq, Wait::Allowed, &mut buffer) else { continue };
        let origin = myelin_wire::header::get(found.headers, b"Myelin-DLQ-Sequence");
        let origin = origin.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        *moved.entry(origin.expect("it says where it is from")).or_default() += 1;
    }
    moved
}

pub(super) fn seq_of(heard: &Heard) -> Option<u64> {
    heard.reply.split('.').nth(5)?.parse().ok()
}

/// A client: acknowledges a third, terminates a third, and says nothing of the rest.
fn answer_all(house: &mut House, heard: &Mutex<Vec<Heard>>) {
    let deliveries = std::mem::take(&mut *lock(heard));
    for delivery in deliveries {
        let Some(seq) = seq_of(&delivery) else { continue };
        match seq % 3 {
            0 => house.say(&delivery.reply, "", "+ACK"),
            1 => house.say(&delivery.reply, "", "+TERM bad"),
            _ => {}
        }
    }
    house.settle();
}

/// Lets time pass, and the journal make its rounds, which fail where the disk is off.
fn pass(house: &mut House, time: i64) {
    house.pass(time);
    let now = house.host.now().unsigned_abs();
    for _ in 0..8 {
        let _ = house.jetstream.journal().round_now(&|| now);
        house.settle();
    }
}

/// Asks and answers until nothing comes any more.
fn work(house: &mut House, rounds: usize) {
    lock(&house.host.requests).get_or_insert_default();
    let heard: Arc<Mutex<Vec<Heard>>> = house.record("to.me");
    for _ in 0..rounds {
        house.say("$JS.API.CONSUMER.MSG.NEXT.S.C", "to.me", r#"{"batch":9,"expires":700000000}"#);
        house.settle();
        answer_all(house, &heard);
        pass(house, SECOND * 3 / 4);
    }
}

/// A first life that makes what is missing, publishes and works. `None`: its disk is off.
fn begin(house: &mut House) -> Option<()> {
    let now = house.host.now();
    for config in [queue(), letters()] {
        house.streams().create(&house.jetstream, config, now).ok()?;
    }
    house.jetstream.settle().ok()?;
    house.settle();
    house.try_consume("S", moving()).ok()?;
    for _ in 0..MESSAGES {
        house.publish("S.a");
    }
    pass(house, 0);
    Some(())
}

fn dead() -> BTreeMap<u64, u64> {
    (1..=MESSAGES).filter(|seq| seq % 3 != 0).map(|seq| (seq, 1)).collect()
}

#[test]
fn each_dead_message_moves_once_and_leaves_its_queue() {
    let mut house = House::new();
    begin(&mut house).expect("a healthy disk");
    work(&mut house, 12);
    assert_eq!(moved(&house), dead());
    assert_eq!(house.contents("S"), (0, MESSAGES));
}

fn on(disk: &FaultyDisk, now: i64, always: bool) -> House {
    House::member(disk, (7, now), (always, None))
}

/// All is set up; from then on the process, or the power, ends at each point of what is asked of
/// the disk.
fn end_everywhere(always: bool, survivals: &[Option<Survival>]) {
    let disk = FaultyDisk::new(1);
    let mut house = on(&disk, 0, always);
    begin(&mut house).expect("a healthy disk");
    house.end();
    let ready = disk.power_cycle(Survival::All);
    let disk = ready.kill();
    let mut house = on(&disk, 0, always);
    let began = disk.points();
    work(&mut house, 12);
    house.end();
    let points = disk.points() - began;
    assert!(points > 20, "{points}");
    for (point, survival) in (0..points).flat_map(|point| survivals.iter().map(move |left| (point, left))) {
        let disk = ready.kill();
        let mut house = on(&disk, 0, always);
        disk.fail_at(disk.points() + point, DiskFault::Crash);
        work(&mut house, 12);
        let now = house.host.now.load(Relaxed);
        house.end();
        let left = survival.map_or_else(|| disk.kill(), |survival| disk.power_cycle(survival));
        let mut house = on(&left, now, always);
        pass(&mut house, 5 * SECOND);
        work(&mut house, 24);
        assert_eq!(moved(&house), dead(), "at {point}, {survival:?}");
        assert_eq!(house.contents("S").0, 0, "at {point}, {survival:?}");
        house.end();
    }
}

#[test]
fn each_dead_message_moves_once_wherever_the_process_ends() {
    end_everywhere(false, &[None]);
}

#[test]
fn each_dead_message_moves_once_wherever_power_is_lost() {
    end_everywhere(true, &[Some(Survival::None), Some(Survival::All)]);
}

#[test]
fn a_stream_that_is_full_or_missing_loses_nothing() {
    let mut house = House::new();
    let small = StreamConfig { max_msgs: 2, discard: Discard::New, ..letters() };
    house.create(queue());
    house.consume("S", moving());
    for _ in 0..MESSAGES {
        house.publish("S.a");
    }
    work(&mut house, 20);
    assert_eq!(house.contents("S"), (dead().len() as u64, MESSAGES), "they stay");
    assert_eq!(house.host.warnings_with("does not take its dead letters: nobody takes dlq.S.C."), 1);
    house.create(small.clone());
    pass(&mut house, 60 * SECOND);
    pass(&mut house, 60 * SECOND);
    assert_eq!(moved(&house).len(), 2);
    assert_eq!(house.host.warnings_with("maximum messages exceeded (10077)"), 1);
    house.update(StreamConfig { max_msgs: -1, ..small }).expect("it may be larger");
    pass(&mut house, 60 * SECOND);
    pass(&mut house, 60 * SECOND);
    assert_eq!(moved(&house), dead());
    assert_eq!(house.contents("S"), (0, MESSAGES));
}
