//! Memory of what is gone is given back, also when nothing comes any more.

use super::house::{House, copy, source, stream};
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::lock;
use myelin_store::StreamUsage;
use myelin_store::consumer::AckRules;
use myelin_wire::message_buf::MessageBuf;
use std::sync::Arc;

const SECOND: i64 = 1_000_000_000;

fn usage(house: &House, name: &str) -> StreamUsage {
    let live = house.stream(name);
    let mut guard = live.lock_core().expect("the stream is there");
    guard.parts().0.store().usage()
}

#[test]
fn a_stream_in_memory_that_rests_forgets_its_subjects() {
    let mut house = House::new();
    house.create(StreamConfig {
        storage: Storage::Memory,
        max_age: 10 * SECOND,
        allow_msg_ttl: false,
        ..stream("S")
    });
    let subject = "x".repeat(200);
    for n in 0..20_000 {
        house.say(&format!("S.{subject}.{n}"), "", "");
        if n % 100 == 0 {
            house.settle();
        }
    }
    house.settle();
    let full = usage(&house, "S");
    assert_eq!(house.contents("S").0, 20_000);
    assert!(full.index_subjects >= 20_000, "{full:?}");
    for _ in 0..100 {
        house.pass(SECOND);
    }
    let rests = usage(&house, "S");
    assert_eq!(house.contents("S").0, 0);
    // Those of the last segment, which is not closed, stay.
    assert!(rests.index_subjects < 5_000, "{rests:?}");
    assert!(rests.index_bytes < full.index_bytes / 3, "{full:?}, then {rests:?}");
}

#[test]
fn a_stream_that_is_deleted_with_its_consumers_and_sources_leaves_nothing_to_complain_of() {
    let mut house = House::new();
    house.create(stream("S"));
    house.create(copy("COPY", &[source("S", "")]));
    for n in 0..100 {
        house.say(&format!("S.{n}"), "", "");
    }
    let name = "reader".to_owned();
    house.consume("COPY", ConsumerConfig { durable_name: name.clone(), name, ..Default::default() });
    house.settle();
    assert_eq!(house.contents("COPY").0, 100);
    let copy = house.stream("COPY");
    house.delete("COPY");
    // Its files go before somebody who was about to note how far a source is comes to it.
    while house.run_job() {}
    let noted = copy.consumers().note_position("source of: S", AckRules::default(), Some(&[1]));
    noted.expect("nobody needs it any more");
    house.settle();
    assert_eq!(*lock(&house.host.warnings), [""; 0]);
}

#[test]
fn consumers_that_are_deleted_while_they_wait_leave_nothing() {
    let mut house = House::new();
    house.create(stream("S"));
    house.listen("inbox");
    let mut gone = Vec::new();
    for n in 0..40 {
        let name = format!("c{n}");
        let filter_subject = if n % 2 == 0 { String::new() } else { "S.a".into() };
        house.consume(
            "S",
            ConsumerConfig {
                durable_name: name.clone(),
                name: name.clone(),
                ack_policy: AckPolicy::Explicit,
                filter_subject,
                ..ConsumerConfig::default()
            },
        );
        house.say(&format!("$JS.API.CONSUMER.MSG.NEXT.S.{name}"), "inbox", "3");
        house.settle();
        let live = house.stream("S");
        let consumer = live.consumers().find(&name).expect("it was just made");
        gone.push(std::sync::Arc::downgrade(&consumer));
        assert!(
            live.consumers().delete_and_wait(&consumer, &mut MessageBuf::default()).expect("the disk works")
        );
        drop(consumer);
        house.settle();
    }
    // The shard's cache of routes lets go of them by and by, and who is to be rung is forgotten by
    // whoever rings.
    house.pass(SECOND);
    assert!(gone.iter().all(|consumer| consumer.strong_count() == 0), "somebody holds a consumer");
    assert_eq!(house.stream("S").consumers().waiting(), (0, 0));
}

#[test]
fn acknowledgements_have_a_receiver_while_there_are_consumers() {
    let mut house = House::new();
    house.create(stream("S"));
    let has_receiver = |house: &House| {
        let subjects = ["$JS.ACK.S.c.1.1.1.1.0", "$JS.FC.S.c.x"];
        subjects.map(|subject| house.account.has_interest(subject.as_bytes()))
    };
    assert_eq!(has_receiver(&house), [false, false]);
    for name in ["c", "d"] {
        let (durable_name, name) = (name.to_owned(), name.to_owned());
        house.consume("S", ConsumerConfig { durable_name, name, ..ConsumerConfig::default() });
    }
    for is_left in [true, false] {
        assert_eq!(has_receiver(&house), [true, true]);
        let live = house.stream("S");
        let consumer = live.consumers().find(if is_left { "c" } else { "d" }).expect("it was made");
        assert!(
            live.consumers().delete_and_wait(&consumer, &mut MessageBuf::default()).expect("the disk works")
        );
    }
    assert_eq!(has_receiver(&house), [false, false]);
}

#[test]
fn a_consumer_that_nobody_uses_asks_for_its_end_once() {
    let mut house = House::new();
    house.create(stream("S"));
    house.listen("inbox");
    house.consume(
        "S",
        ConsumerConfig {
            durable_name: "c".into(),
            name: "c".into(),
            ack_policy: AckPolicy::Explicit,
            inactive_threshold: SECOND,
            ..ConsumerConfig::default()
        },
    );
    house.settle();
    for _ in 0..3 {
        let waiting: Vec<_> = (0..20).map(|_| house.pass_while_busy(SECOND / 2)).collect();
        assert_eq!(waiting.last(), Some(&(1, 0)), "{waiting:?}");
        // Somebody comes at the last moment, and goes.
        house.say("$JS.API.CONSUMER.MSG.NEXT.S.c", "inbox", r#"{"batch":1,"expires":600000000}"#);
        house.settle();
        assert_eq!(house.consumers("S"), ["c"]);
    }
    for _ in 0..10 {
        house.pass(SECOND);
    }
    assert!(house.consumers("S").is_empty());
}

/// A shard that has sent a stream's last message must not be the one that frees its files.
#[test]
fn files_of_a_deleted_stream_are_closed_where_one_may_wait() {
    let mut house = House::new();
    house.create(stream("S"));
    house.publish("S.x");
    let held = house.stream("S").reader();
    house.delete("S");
    house.pass(SECOND);
    house.jetstream.write_watermarks().expect("a healthy disk");
    assert!(!house.run_job(), "somebody still reads it");
    drop(held);
    house.jetstream.write_watermarks().expect("a healthy disk");
    assert!(house.run_job());
    house.jetstream.write_watermarks().expect("a healthy disk");
    assert!(!house.run_job());
}

#[test]
fn streams_and_consumers_go_with_their_broker() {
    let mut house = House::new();
    house.create(StreamConfig { allow_direct: true, ..stream("S") });
    let pull = ConsumerConfig { durable_name: "C".into(), name: "C".into(), ..ConsumerConfig::default() };
    let push = ConsumerConfig {
        durable_name: "D".into(),
        name: "D".into(),
        deliver_subject: "d".into(),
        ..ConsumerConfig::default()
    };
    house.consume("S", pull);
    house.consume("S", push);
    house.create(copy("K", &[source("S", "")]));
    house.publish("S.a");
    let streams: Vec<_> = house.streams().streams().iter().map(Arc::downgrade).collect();
    let consumers: Vec<_> = house.stream("S").consumers().all().iter().map(Arc::downgrade).collect();
    assert_eq!((streams.len(), consumers.len()), (2, 2));
    drop(house);
    assert!(streams.iter().all(|stream| stream.strong_count() == 0));
    assert!(consumers.iter().all(|consumer| consumer.strong_count() == 0));
}
