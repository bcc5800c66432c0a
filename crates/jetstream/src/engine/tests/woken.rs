//! Consumers whose filter changes, and what is told of consumers before the power fails.

use super::house::{House, refuse_reads, stream};
use crate::engine::Host;
use crate::engine::api_request::ApiRequest;
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig, DeliverPolicy};
use myelin_stdx::sync::lock;
use myelin_store::StoreOptions;
use myelin_wire::message_buf::MessageRef;

const SECOND: i64 = 1_000_000_000;
const NEXT: &str = "$JS.API.CONSUMER.MSG.NEXT.S.C";

fn durable(filter: &str) -> ConsumerConfig {
    ConsumerConfig {
        name: "C".into(),
        durable_name: "C".into(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: SECOND,
        max_waiting: 512,
        filter_subject: filter.into(),
        ..ConsumerConfig::default()
    }
}

fn update(house: &mut House, config: ConsumerConfig) {
    let live = house.stream("S");
    let consumer = live.consumers().find("C").expect("it was made");
    live.consumers().update_and_wait(&consumer, config).expect("it may");
    house.settle();
}

#[test]
fn a_consumer_that_waits_when_its_filter_goes_hears_of_everything_from_then_on() {
    let mut house = House::new();
    house.create(stream("S"));
    house.consume("S", durable("S.a"));
    let heard = house.record("inbox");
    house.say(NEXT, "inbox", r#"{"batch":2,"expires":60000000000}"#);
    house.settle();
    assert_eq!(house.stream("S").consumers().waiting(), (0, 1));
    update(&mut house, durable(""));
    assert_eq!(house.stream("S").consumers().waiting(), (1, 0));
    house.publish("S.b");
    let subjects = || lock(&heard).iter().map(|one| one.payload.clone()).collect::<Vec<_>>();
    assert_eq!(subjects(), ["x"]);
    // And the other way round: what it does not want does not wake it, what it wants does.
    update(&mut house, durable("S.a"));
    assert_eq!(house.stream("S").consumers().waiting(), (0, 1));
    house.publish("S.b");
    house.publish("S.a");
    assert_eq!(subjects(), ["x", "x"]);
}

#[test]
fn what_is_delivered_again_is_read_from_the_disk_whatever_the_filter_says_now() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    house.consume("S", durable("S.a"));
    let heard = house.record("inbox");
    house.publish("S.a");
    house.say(NEXT, "inbox", "1");
    house.settle();
    assert_eq!(lock(&heard).len(), 1);
    update(&mut house, durable("S.b"));
    house.publish("S.b");
    disk.evict();
    house.say(NEXT, "inbox", r#"{"batch":2,"expires":60000000000}"#);
    house.pass(2 * SECOND);
    let replies: Vec<String> =
        lock(&heard).iter().map(|one| format!("{}{}", one.reply, one.headers)).collect();
    assert_eq!(replies.len(), 3, "{replies:?}");
}

#[test]
fn a_message_that_cannot_be_read_is_tried_again_later_and_not_at_once() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    house.consume("S", durable(""));
    house.publish("S.a");
    house.settle();
    drop(house);
    let disk = disk.kill();
    let mut house = House::on(&disk);
    let heard = house.record("inbox");
    // Nobody knows that without waiting.
    disk.chill(true);
    refuse_reads(&disk, true);
    house.say(NEXT, "inbox", r#"{"batch":1,"expires":60000000000}"#);
    assert!((0..1000).any(|_| !house.step_without_jobs()), "it asks the disk again and again");
    assert_eq!(lock(&heard).len(), 0);
    refuse_reads(&disk, false);
    disk.chill(false);
    house.pass(2 * SECOND);
    assert_eq!(lock(&heard).len(), 1);
}

/// Each count of what is left, which failed there, took the place of the table that the next
/// message is found in, and another thread brought that back, for ever.
#[test]
fn who_cannot_count_what_is_left_is_delivered_what_can_be_read() {
    let disk = FaultyDisk::new(1);
    let options =
        || StoreOptions { table_bytes: 0, segment_bytes: Some(2048), ..StoreOptions::new("/store") };
    let mut house = House::with(&disk, options());
    house.create(stream("S"));
    for _ in 0..24 {
        house.say("S.a", "", &"x".repeat(500));
        house.settle();
    }
    let deliver_policy = DeliverPolicy::ByStartSequence;
    house.consume("S", ConsumerConfig { deliver_policy, opt_start_seq: 15, ..durable("S.*") });
    drop(house);
    let disk = disk.kill();
    let mut house = House::with(&disk, options());
    let heard = house.record("inbox");
    let files = disk.files().into_keys().filter(|path| path.extension().is_some_and(|end| end == "seg"));
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert!(files.len() > 4, "{files:?}");
    let unreadable = &files[files.len() - 2];
    disk.fail_reads(unreadable, 0..u64::MAX).expect("it is there");
    // It has counted before, and has to count anew.
    let (live, now) = (house.stream("S"), house.host.now());
    let mut guard = live.lock_core().expect("nobody else has it");
    guard.parts().0.store_mut().delete(16, now).expect("the disk works");
    drop(guard);
    house.settle();
    house.say(NEXT, "inbox", r#"{"batch":4,"expires":60000000000}"#);
    assert!((0..1000).any(|_| !house.step_without_jobs()), "it reads tables again and again");
    assert_eq!(lock(&heard).len(), 4);
    // What is left is counted again when it can be.
    disk.fail_reads(unreadable, 0..0).expect("it is there");
    house.pass(2 * SECOND);
    house.say(NEXT, "inbox", "1");
    house.pass(2 * SECOND);
    let replies: Vec<_> = lock(&heard).iter().map(|one| one.reply.clone()).collect();
    assert!(replies.last().is_some_and(|last| last.ends_with(".5")), "{replies:?}");
}

#[test]
fn the_first_message_of_a_stream_ends_though_nothing_else_ever_happens() {
    let disk = FaultyDisk::new(1);
    let aged = |name: &str| StreamConfig { max_age: SECOND, ..stream(name) };
    let mut house = House::on(&disk);
    house.create(aged("S"));
    house.create(aged("T"));
    house.publish("S.a");
    assert_eq!(house.contents("S"), (1, 1));
    for _ in 0..3 {
        house.pass(SECOND);
    }
    assert_eq!(house.contents("S"), (0, 1));
    // So does the first one of a stream that a start has found empty.
    let mut house = House::on(&disk.kill());
    house.publish("T.a");
    for _ in 0..3 {
        house.pass(SECOND);
    }
    assert_eq!(house.contents("T"), (0, 1));
}

#[test]
fn consumers_are_made_and_deleted_for_good_before_that_is_answered() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    house.jetstream.settle().expect("a healthy disk");
    let ask = |house: &mut House, verb: &str, name: &str, body: &str| {
        let subject = format!("$JS.API.CONSUMER.{verb}.S.{name}");
        let (subject, payload, reply) = (subject.as_bytes(), body.as_bytes(), &b"inbox"[..]);
        let request = MessageRef { subject, payload, reply, ..MessageRef::default() };
        let answers = house.jetstream.answer(&ApiRequest::new(&house.account, request, None));
        let answers: Vec<String> =
            answers.iter().map(|one| String::from_utf8_lossy(one.payload).into_owned()).collect();
        assert!(answers.iter().all(|answer| !answer.contains("error")), "{answers:?}");
        house.jetstream.settle().expect("a healthy disk");
    };
    let body = |name: &str| {
        format!(r#"{{"stream_name":"S","config":{{"durable_name":"{name}","ack_policy":"explicit"}}}}"#)
    };
    for name in ["one", "two", "three"] {
        ask(&mut house, "DURABLE.CREATE", name, &body(name));
    }
    ask(&mut house, "DELETE", "two", "");
    // A time that is centuries ago is over.
    ask(&mut house, "PAUSE", "one", r#"{"pause_until":"1700-01-01T00:00:00Z"}"#);
    let house = House::on(&disk.power_cycle(Survival::None));
    let mut names = house.consumers("S");
    names.sort();
    assert_eq!(names, ["one", "three"]);
}
