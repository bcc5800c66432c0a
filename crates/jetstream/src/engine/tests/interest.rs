//! Consumers of streams with interest come to their end: what only they wanted goes.

use super::house::{House, stream};
use crate::engine::waits::block_on;
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::config::{Retention, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_store::Timestamp;
use myelin_wire::message_buf::MessageBuf;

const SECOND: Timestamp = 1_000_000_000;

fn wants(name: &str, filters: &[&str], inactive_threshold: Timestamp) -> ConsumerConfig {
    ConsumerConfig {
        durable_name: name.into(),
        name: name.into(),
        filter_subjects: filters.iter().map(|&filter| filter.into()).collect(),
        ack_policy: AckPolicy::Explicit,
        inactive_threshold,
        ..ConsumerConfig::default()
    }
}

/// Consumers `C0` to `C4` of two subjects each, one of which is `LAST`'s, too, and a message of
/// each subject.
fn house(inactive_threshold: Timestamp) -> House {
    let mut house = House::on(&FaultyDisk::new(1));
    house.create(StreamConfig { retention: Retention::Interest, ..stream("I") });
    for at in 0..5 {
        let filters = [format!("I.a.{at}"), format!("I.b.{at}")];
        let config = wants(&format!("C{at}"), &[&filters[0], &filters[1]], inactive_threshold);
        house.consume("I", config);
    }
    house.consume("I", wants("LAST", &["I.b.*"], 0));
    for at in 0..5 {
        house.publish(&format!("I.a.{at}"));
        house.publish(&format!("I.b.{at}"));
        house.publish(&format!("I.c.{at}"));
    }
    house.settle();
    assert_eq!(house.contents("I"), (10, 15));
    house
}

#[test]
fn whoever_removes_a_consumer_sees_at_once_what_is_left() {
    let house = house(0);
    let live = house.stream("I");
    for (name, left) in [("C3", 9), ("C0", 8), ("LAST", 6)] {
        let consumer = live.consumers().find(name).expect("it is there");
        let deleted = live.consumers().delete_and_wait(&consumer, &mut MessageBuf::default());
        assert_eq!((deleted, house.contents("I").0), (Ok(true), left), "without {name}");
    }
}

#[test]
fn a_consumer_that_wants_other_messages_lets_go_of_those_before() {
    let mut house = house(0);
    let live = house.stream("I");
    let consumer = live.consumers().find("C1").expect("it is there");
    let other = wants("C1", &["I.a.4", "I.b.1"], 0);
    block_on(live.consumers().update(&consumer, other)).expect("the disk works");
    house.settle();
    assert_eq!(house.contents("I").0, 9);
}

#[test]
fn consumers_that_nobody_uses_leave_what_they_wanted_to_one_look_where_alarms_go_off() {
    let mut house = house(SECOND);
    house.pass(2 * SECOND);
    assert_eq!(house.consumers("I"), ["LAST"]);
    assert_eq!(house.contents("I").0, 10, "the thread of the API has not looked for it");
    house.pass(SECOND / 1000);
    assert_eq!(house.contents("I").0, 5);
}
