//! Consumers of a stream in a group, without a server: what a leader decides is told when it is
//! committed, followers come to the same, and a leader that loses has said nothing of what was
//! lost.

mod life;
mod replica;

use life::{Life, STEP};
use myelin_jsapi::config::Retention;
use myelin_jsapi::consumer::config::AckPolicy;
use std::time::{Duration, Instant, SystemTime};

/// A life in which nothing happens by itself: a leader with the consumer `c0`, both committed.
fn quiet(policy: AckPolicy) -> Life {
    let mut life = Life::new(1, Retention::Limits, false);
    life.create(policy);
    life.publish(3);
    life.settle();
    life
}

#[test]
fn a_delivery_leaves_when_its_record_is_committed() {
    let mut life = quiet(AckPolicy::Explicit);
    life.ask(2, false);
    life.deliver();
    life.propose();
    assert_eq!(life.messages(), 0, "nobody has agreed to it");
    life.send_all();
    life.commit_all();
    assert_eq!(life.messages(), 2);
    life.answer(0, "+ACK", true);
    assert_eq!(life.confirmed(), 0);
    life.propose();
    assert_eq!(life.confirmed(), 0);
    life.settle();
    assert_eq!(life.confirmed(), 1);
    // It is acknowledged already, and nothing is to be decided: that is told at once.
    life.answer(0, "+ACK", true);
    assert_eq!(life.confirmed(), 2);
}

#[test]
fn what_nobody_acknowledges_is_sent_at_once() {
    let mut life = quiet(AckPolicy::None);
    life.ask(2, false);
    life.deliver();
    assert_eq!(life.messages(), 2);
}

#[test]
fn the_time_of_an_acknowledgement_counts_from_the_send() {
    let mut life = quiet(AckPolicy::Explicit);
    life.ask(1, false);
    life.deliver();
    life.propose();
    life.ask(1, false);
    for _ in 0..3 * Life::ACK_WAIT / STEP {
        life.pass();
        life.deliver();
    }
    assert_eq!(life.messages(), 0);
    life.settle();
    assert_eq!(life.seqs(), [1, 2]);
    life.ask(1, false);
    for _ in 0..Life::ACK_WAIT / STEP - 1 {
        life.pass();
        life.deliver();
    }
    life.ask(1, false);
    life.settle();
    assert_eq!(life.seqs(), [1, 2, 3], "nothing was due");
    life.pass();
    life.pass();
    life.deliver();
    life.settle();
    assert_eq!(life.seqs(), [1, 2, 3, 1], "it is now");
}

#[test]
fn a_leader_that_loses_says_nothing_of_what_was_lost() {
    let mut life = quiet(AckPolicy::Explicit);
    life.ask(1, false);
    life.deliver();
    life.settle();
    life.answer(0, "+ACK", true);
    life.ask(1, false);
    life.deliver();
    life.propose();
    life.ask(5, false);
    life.change(true);
    assert_eq!((life.messages(), life.confirmed()), (1, 0));
    let told: Vec<_> = life.statuses();
    assert_eq!(told, ["NATS/1.0 409 Leadership Change\r\n\r\n"; 2], "also who had a message in what is lost");
    life.ask(2, false);
    life.deliver();
    life.settle();
    assert_eq!(life.seqs(), [1, 2, 3], "the acknowledgement is lost, and it is not due yet");
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Random lives, with the checks of [`Life`]: always the same, then others for
/// `MYELIN_RANDOM_SECONDS`. `MYELIN_MODEL_SEED` lives one alone.
#[test]
fn random_lives_of_a_leader_and_a_follower() {
    let seeds = number_from("MYELIN_MODEL_SEED").map_or(0..60, |seed| seed..seed + 1);
    seeds.for_each(life::live);
    let time = Duration::from_secs(number_from("MYELIN_RANDOM_SECONDS").unwrap_or(0));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is not 1969");
    let (first, began) = (since.as_secs() << 20, Instant::now());
    println!("others from MYELIN_MODEL_SEED={first} on");
    let others = (first..).take_while(|_| began.elapsed() < time);
    println!("{} others", others.map(life::live).count());
}
