//! A work queue whose consumer was begun anew behind messages that nobody has had: they stay for
//! whoever goes back.

use super::house::{House, stream};
use crate::engine::waits::block_on;
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_jsapi::config::{Retention, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};

fn queue(disk: &FaultyDisk, messages: usize) -> House {
    let mut house = House::on(disk);
    house.create(StreamConfig { retention: Retention::WorkQueue, ..stream("W") });
    let config = ConsumerConfig {
        durable_name: "C".into(),
        name: "C".into(),
        ack_policy: AckPolicy::Explicit,
        ..ConsumerConfig::default()
    };
    house.consume("W", config);
    (0..messages).for_each(|_| house.publish("W.x"));
    house.listen("inbox");
    house
}

fn reset(house: &mut House, seq: u64) -> u64 {
    let live = house.stream("W");
    let consumer = live.consumers().find("C").expect("it is there");
    let (seq, _) = block_on(live.consumers().reset(&consumer, seq)).expect("it may");
    house.settle();
    seq
}

/// The end of one server and the beginning of the next.
fn again(house: House, disk: &mut FaultyDisk, is_killed: bool) -> House {
    if !is_killed {
        house.jetstream.close().expect("the disk works");
    }
    drop(house);
    *disk = if is_killed { disk.kill() } else { disk.power_cycle(Survival::All) };
    let mut house = House::on(disk);
    // It looks for what nobody needs.
    house.pass(1_000_000_000);
    house.listen("inbox");
    house
}

fn take(house: &mut House, many: usize) {
    house.say("$JS.API.CONSUMER.MSG.NEXT.W.C", "inbox", &many.to_string());
    house.settle();
}

#[test]
fn what_was_passed_over_is_there_after_a_restart() {
    for is_killed in [false, true] {
        let mut disk = FaultyDisk::new(1);
        let mut house = queue(&disk, 5);
        assert_eq!(reset(&mut house, 4), 4);
        house = again(house, &mut disk, is_killed);
        assert_eq!(house.contents("W"), (5, 5), "killed: {is_killed}");
        // What is acknowledged from then on goes, and stays away.
        take(&mut house, 1);
        house.say("$JS.ACK.W.C.1.4.1.1700000000000000000.0", "", "");
        house.settle();
        assert_eq!(house.contents("W").0, 4);
        // Another configuration does not change what is kept.
        let live = house.stream("W");
        let config = live.consumers().config("C").expect("it is there");
        assert_eq!(config.places.passed, 3);
        house = again(house, &mut disk, is_killed);
        assert_eq!(house.contents("W").0, 4);
        // Who goes back gets it, and passes nothing over any more.
        reset(&mut house, 1);
        house = again(house, &mut disk, is_killed);
        assert_eq!(house.stream("W").consumers().config("C").expect("it is there").places.passed, 0);
        take(&mut house, 1);
        house.say("$JS.ACK.W.C.1.1.1.1700000000000000000.0", "", "");
        house.settle();
        assert_eq!(house.contents("W").0, 3);
    }
}

#[test]
fn an_update_keeps_what_was_passed_over() {
    let mut disk = FaultyDisk::new(1);
    let mut house = queue(&disk, 3);
    reset(&mut house, 3);
    let live = house.stream("W");
    let consumer = live.consumers().find("C").expect("it is there");
    let config = live.consumers().config("C").expect("it is there");
    let other = ConsumerConfig { description: "other".into(), ..(*config).clone() };
    live.consumers().update_and_wait(&consumer, other).expect("it may");
    drop((live, consumer));
    house = again(house, &mut disk, false);
    assert_eq!(house.contents("W").0, 3);
}

#[test]
fn a_reset_that_is_refused_changes_nothing() {
    let mut disk = FaultyDisk::new(1);
    let mut house = queue(&disk, 3);
    reset(&mut house, 3);
    let live = house.stream("W");
    let consumer = live.consumers().find("C").expect("it is there");
    let config = live.consumers().config("C").expect("it is there");
    let bounded = ConsumerConfig {
        deliver_policy: myelin_jsapi::consumer::config::DeliverPolicy::ByStartSequence,
        opt_start_seq: 2,
        ..(*config).clone()
    };
    live.consumers().update_and_wait(&consumer, bounded).expect("it may");
    block_on(live.consumers().reset(&consumer, 1)).expect_err("below where it begins");
    assert_eq!(live.consumers().config("C").expect("it is there").places.passed, 2);
    drop((live, consumer));
    house = again(house, &mut disk, false);
    assert_eq!(house.contents("W").0, 3);
}
