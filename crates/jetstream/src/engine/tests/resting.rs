//! Streams of an account that may not use JetStream for a while.

use super::house::{House, stream};
use myelin_jsapi::config::{AccountLimits, Retention, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};

/// A work queue with three messages, which its consumer has delivered.
fn queue() -> House {
    let mut house = House::new();
    house.create(StreamConfig { retention: Retention::WorkQueue, ..stream("W") });
    let durable = |name: &str| ConsumerConfig {
        durable_name: name.into(),
        name: name.into(),
        ack_policy: AckPolicy::Explicit,
        ..ConsumerConfig::default()
    };
    house.consume("W", durable("C"));
    for _ in 0..3 {
        house.publish("W.x");
    }
    house.listen("inbox");
    house.say("$JS.API.CONSUMER.MSG.NEXT.W.C", "inbox", "3");
    house.settle();
    assert_eq!(pending(&house), (3, 0), "all are delivered");
    house
}

/// How many messages await an acknowledgement, and up to which all are acknowledged.
fn pending(house: &House) -> (u64, u64) {
    let live = house.stream("W");
    let consumer = live.consumers().find("C").expect("it is there");
    let info = live.consumers().info(&consumer).expect("it lives");
    (info.num_ack_pending, info.ack_floor.stream_seq)
}

fn acknowledge(house: &mut House, seq: u64) {
    house.say(&format!("$JS.ACK.W.C.1.{seq}.{seq}.1700000000000000000.0"), "", "");
}

#[test]
fn an_acknowledgement_that_is_on_its_way_when_they_begin_to_rest_counts_once() {
    let mut house = queue();
    acknowledge(&mut house, 1);
    house.jetstream.disable("$G");
    acknowledge(&mut house, 2);
    house.settle();
    assert_eq!((pending(&house), house.contents("W").0), ((2, 1), 2), "of the second nobody has heard");
    let account = house.account.clone();
    house.jetstream.enable(&account, Some(AccountLimits::default())).expect("it is promised nothing");
    // Whoever was not answered says it again.
    acknowledge(&mut house, 1);
    acknowledge(&mut house, 2);
    house.settle();
    assert_eq!((pending(&house), house.contents("W").0), ((1, 2), 1));
}
