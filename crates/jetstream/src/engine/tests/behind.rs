//! Publishers wait for a stream whose log is filled faster than it can be sealed.

use super::house::{House, copy, source, stream};
use myelin_broker::Service;
use myelin_disk::faulty::FaultyDisk;
use myelin_store::{StoreOptions, Unsealed};

/// Messages that may wait to be sealed.
const MOST: usize = 2000;

fn house() -> House {
    let unsealed = Unsealed { messages: MOST, ..Unsealed::default() };
    House::with(&FaultyDisk::new(1), StoreOptions { unsealed, ..StoreOptions::new("/store") })
}

/// Publishes to subjects that are all different, for as long as nobody is asked to wait or all are
/// through.
fn rush(house: &mut House, subjects: std::ops::Range<usize>) -> usize {
    let begin = subjects.start;
    for n in subjects.clone() {
        if house.stream("S").is_behind() {
            return n - begin;
        }
        house.say(&format!("S.{n}"), "", &"x".repeat(1000));
        house.flush();
    }
    subjects.len()
}

#[test]
fn a_rush_waits_for_the_seals() {
    let mut house = house();
    // Small segments: 128 KiB.
    house.create(myelin_jsapi::config::StreamConfig { max_bytes: 1 << 20, ..stream("S") });
    // Nobody seals.
    let published = rush(&mut house, 0..10 * MOST);
    assert!((MOST..2 * MOST).contains(&published), "{published} messages");
    house.settle();
    assert!(!house.stream("S").is_behind(), "all is sealed");
    assert_eq!(rush(&mut house, published..published + MOST), MOST, "it goes on");
}

#[test]
fn a_rush_waits_until_subjects_that_are_gone_can_be_given_back() {
    let mut house = house();
    // All but ten messages are gone at once, and a segment has 64 KiB: some sixty messages.
    house.create(myelin_jsapi::config::StreamConfig { max_msgs: 10, max_bytes: 1 << 19, ..stream("S") });
    let mut published = 0;
    // Jobs keep up, but there is always one more segment to seal.
    while !house.stream("S").is_behind() && published < 10 * MOST {
        rush(&mut house, published..published + 130);
        published += 130;
        house.run_job();
        while house.step_without_jobs() {}
    }
    assert!((MOST..3 * MOST).contains(&published), "{published} messages");
    house.settle();
    assert!(!house.stream("S").is_behind(), "no segment waits");
}

#[test]
fn copies_wait_for_the_seals_too() {
    let mut house = house();
    house.create(stream("S"));
    for n in 0..5 * MOST {
        house.say(&format!("S.{n}"), "", &"x".repeat(1000));
        house.flush();
    }
    house.settle();
    house.make(myelin_jsapi::config::StreamConfig { max_bytes: 1 << 20, ..copy("C", &[source("S", "")]) });
    while house.step_without_jobs() {}
    // Until its mark is stated nothing of it is released.
    assert!(house.state_first_marks());
    while house.step_without_jobs() {}
    let (_, copied) = house.contents("C");
    assert!((MOST as u64..3 * MOST as u64).contains(&copied), "{copied} messages");
    for _ in 0..100 {
        house.settle();
        house.pass(1_000_000_000 / 50);
    }
    assert_eq!(house.contents("C").1, 5 * MOST as u64);
}
