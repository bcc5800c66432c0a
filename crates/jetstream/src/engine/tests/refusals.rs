//! Refusals of a disk become refusals to clients, and nothing else changes.

use super::house::{House, copy, refuse_reads, source, stream};
use crate::engine::waits::block_on;
use myelin_disk::faulty::{DiskFault, FaultyDisk};
use myelin_jsapi::config::{Retention, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::lock;
use myelin_store::cipher::CipherKind;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::{StoreOptions, Wait};
use myelin_wire::message_buf::MessageBuf;
use std::io::ErrorKind;

const SECOND: i64 = 1_000_000_000;

fn durable(name: &str) -> ConsumerConfig {
    let ack_policy = AckPolicy::Explicit;
    ConsumerConfig { durable_name: name.into(), name: name.into(), ack_policy, ..ConsumerConfig::default() }
}

#[test]
fn a_stream_that_cannot_be_deleted_keeps_its_consumers() {
    let mut refused = 0;
    for ahead in 0..6 {
        let disk = FaultyDisk::new(1);
        let mut house = House::on(&disk);
        house.create(stream("S"));
        house.consume("S", durable("C"));
        house.publish("S.a");
        house.settle();
        let (streams, live) = (house.streams(), house.stream("S"));
        disk.fail_at(disk.points() + ahead, DiskFault::Error(ErrorKind::Other));
        let mut out = MessageBuf::default();
        if block_on(streams.delete(&house.jetstream, &live, &mut out)).is_ok() {
            continue;
        }
        refused += 1;
        assert_eq!((out.len(), house.consumers("S")), (0, vec!["C".to_owned()]), "{ahead}");
        drop((streams, live, house));
        let house = House::on(&disk.kill());
        assert_eq!(house.consumers("S"), ["C"], "{ahead}");
    }
    assert!(refused > 0);
}

/// A work queue whose consumer has acknowledged all that it has, which cannot be removed because
/// its file cannot be read.
fn unread_work_queue(disk: &FaultyDisk, consumer: ConsumerConfig) -> House {
    let mut house = House::on(disk);
    house.create(StreamConfig { retention: Retention::WorkQueue, ..stream("S") });
    let ask = format!("$JS.API.CONSUMER.MSG.NEXT.S.{}", consumer.name);
    house.consume("S", consumer);
    let heard = house.record("inbox");
    house.publish("S.a");
    house.say(&ask, "inbox", "1");
    house.settle();
    let ack = lock(&heard)[0].reply.clone();
    refuse_reads(disk, true);
    house.say(&ack, "", "+ACK");
    house.settle();
    house
}

/// A consumer was removed while the file could not be read of a message that it had acknowledged,
/// and the process ended: the next consumer got it.
#[test]
fn a_consumer_of_a_work_queue_is_not_deleted_before_what_it_has_acknowledged() {
    let disk = FaultyDisk::new(1);
    let house = unread_work_queue(&disk, durable("C"));
    let (live, mut out) = (house.stream("S"), MessageBuf::default());
    let consumer = live.consumers().find("C").expect("it is there");
    let refused = block_on(live.consumers().delete(&consumer, &mut out));
    assert!(refused.is_err() && out.is_empty());
    assert_eq!((house.consumers("S"), house.contents("S").0), (vec!["C".to_owned()], 1));
    refuse_reads(&disk, false);
    assert_eq!(block_on(live.consumers().delete(&consumer, &mut out)), Ok(true));
    assert_eq!((house.consumers("S"), house.contents("S").0), (vec![], 0));
}

#[test]
fn a_consumer_whose_end_was_refused_stays_away_once_its_stream_is_opened_anew() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    house.consume("S", durable("C"));
    house.publish("S.a");
    house.settle();
    let live = house.stream("S");
    let consumer = live.consumers().find("C").expect("it was made");
    disk.fail_at(disk.points(), DiskFault::ErrorsFrom(ErrorKind::Other));
    house.publish("S.a");
    house.settle();
    let ended = live.consumers().delete_and_wait(&consumer, &mut MessageBuf::default());
    assert!(ended.is_err(), "the disk does not have it");
    disk.heal();
    if let Some(mut guard) = live.lock_core() {
        guard.parts().0.store().give_up("a test asked for it");
    }
    house.jetstream.repair(live.account_name(), live.name());
    house.settle();
    drop((live, consumer, house));
    let house = House::on(&disk.kill());
    assert_eq!(house.consumers("S"), [""; 0]);
}

/// A stream could not be removed, and stayed without what was answered meanwhile.
#[test]
fn consumers_of_a_stream_that_is_being_removed_are_neither_made_nor_changed() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    house.consume("S", durable("C"));
    house.settle();
    let live = house.stream("S");
    let consumer = live.consumers().find("C").expect("it was made");
    live.consumers().suspend_log();
    let changed = ConsumerConfig { max_ack_pending: 7, ..durable("C") };
    assert!(house.try_consume("S", durable("D")).is_err());
    assert!(live.consumers().update_and_wait(&consumer, changed.clone()).is_err());
    assert!(live.consumers().delete_and_wait(&consumer, &mut MessageBuf::default()).is_err());
    live.consumers().resume_log();
    house.consume("S", durable("C"));
    let consumer = live.consumers().find("C").expect("it was made");
    assert!(live.consumers().update_and_wait(&consumer, changed).is_ok());
}

#[test]
fn a_consumer_that_nobody_uses_ends_when_what_it_has_acknowledged_can_be_removed() {
    let disk = FaultyDisk::new(1);
    let unused = ConsumerConfig { inactive_threshold: 2 * SECOND, ..durable("C") };
    let mut house = unread_work_queue(&disk, unused);
    for _ in 0..60 {
        house.pass(SECOND);
        assert_eq!(house.consumers("S"), ["C"]);
    }
    refuse_reads(&disk, false);
    (0..3).for_each(|_| house.pass(SECOND));
    assert_eq!((house.consumers("S"), house.contents("S").0), (vec![], 0));
}

/// A log that cannot be gone on with is written by the start, not by the shard that comes first.
#[test]
fn a_start_writes_an_encrypted_log_of_consumers_anew() {
    let keys = || {
        let current = MasterKey::derive(b"key");
        Some(Keys { kind: CipherKind::Aes256Gcm, current, previous: None })
    };
    let options = || StoreOptions { keys: keys(), ..StoreOptions::new("/store") };
    let disk = FaultyDisk::new(1);
    let mut house = House::with(&disk, options());
    house.create(stream("S"));
    house.consume("S", durable("C"));
    drop(house);
    let house = House::with(&disk.kill(), options());
    assert_eq!(house.consumers("S"), ["C"]);
    let live = house.stream("S");
    let (states, _) = live.consumers().log().expect("the server runs");
    assert!(!lock(states).is_dirty());
}

/// A source reader brings into memory what follows; meanwhile its origin is made anew.
#[test]
fn a_place_that_was_found_in_an_origin_says_nothing_of_another_one() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("A"));
    ["A.a", "A.a", "A.b"].iter().for_each(|subject| house.publish(subject));
    house.settle();
    disk.chill(true);
    house.make(copy("S", &[source("A", "A.b")]));
    let warm = loop {
        if let Some(task) = lock(&house.host.reads).pop_front() {
            break task;
        }
        assert!(house.step_without_jobs(), "it reads");
    };
    house.delete("A");
    house.create(stream("A"));
    house.settle();
    warm();
    disk.chill(false);
    house.publish("A.b");
    house.settle();
    let reader = house.stream("S").reader();
    let found = reader.get(1, Wait::Allowed, &mut Vec::new()).expect("it can be read").is_some();
    assert!(found, "the first message of the second origin is copied");
}
