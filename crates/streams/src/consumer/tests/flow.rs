//! Flow control: what may be on its way without an answer.

use super::spoken::lines;
use crate::consumer::Effects;
use crate::consumer::push::Push;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};

const MIB: i64 = 1024 * 1024;

fn config(ack_policy: AckPolicy) -> ConsumerConfig {
    ConsumerConfig {
        deliver_subject: "out".into(),
        flow_control: true,
        idle_heartbeat: 10,
        ack_policy,
        ..ConsumerConfig::default()
    }
}

/// The last question.
fn asked(push: &Push) -> Vec<u8> {
    push.awaited().expect("it asks").to_vec()
}

#[test]
fn the_window_stalls_and_doubles() {
    let (config, mut effects) = (config(AckPolicy::Explicit), Effects::default());
    let mut push = Push::new("S", "C", &config, 1);
    push.sent(&config, MIB, false, &mut effects);
    assert!(push.awaited().is_none(), "half of the window");
    push.sent(&config, 1, false, &mut effects);
    let question = asked(&push);
    assert!(question.starts_with(b"$JS.FC.S.C."));
    assert_eq!(lines(&effects), ["out: 100 FlowControl Request"]);
    push.sent(&config, MIB - 1, false, &mut effects);
    assert!(!push.is_stalled(), "the window is full, and not more than that");
    push.sent(&config, 1, false, &mut effects);
    assert!(push.is_stalled());
    assert!(!push.answered(b"$JS.FC.S.C.else") && push.is_stalled());
    assert!(push.answered(&question) && !push.is_stalled());
    assert!(!push.answered(&question), "once");
    // What was sent behind the question is still on its way, and 4 MiB may be.
    push.sent(&config, 3 * MIB, false, &mut effects);
    assert!(!push.is_stalled());
    push.sent(&config, 1, false, &mut effects);
    assert!(push.is_stalled());
    assert_eq!(effects.out.len(), 2, "one question at a time");
}

#[test]
fn the_window_has_an_end() {
    let (config, mut effects) = (config(AckPolicy::Explicit), Effects::default());
    let mut push = Push::new("S", "C", &config, 1);
    for _ in 0..10 {
        push.sent(&config, 17 * MIB, false, &mut effects);
        let question = asked(&push);
        assert!(push.answered(&question));
    }
    push.sent(&config, 32 * MIB, false, &mut effects);
    assert!(!push.is_stalled());
    push.sent(&config, 1, false, &mut effects);
    assert!(push.is_stalled());
}

#[test]
fn acknowledgements_by_flow_control_are_asked_for_when_no_more_may_go() {
    let (config, mut effects) = (config(AckPolicy::FlowControl), Effects::default());
    let mut push = Push::new("S", "C", &config, 1);
    push.sent(&config, 1, false, &mut effects);
    assert!(push.awaited().is_none());
    push.sent(&config, 1, true, &mut effects);
    assert!(push.awaited().is_some());
}

#[test]
fn a_sign_of_life_says_what_is_waited_for() {
    let (config, mut effects) = (config(AckPolicy::Explicit), Effects::default());
    let mut push = Push::new("S", "C", &config, 1);
    push.is_active = true;
    push.beat_later(&config, 0);
    push.beat_if_due(&config, (3, 4), false, 9, &mut effects);
    assert!(effects.out.is_empty());
    push.beat_if_due(&config, (3, 4), false, 10, &mut effects);
    assert_eq!(lines(&effects), ["out: 100 Idle Heartbeat, Nats-Last-Consumer: 3, Nats-Last-Stream: 4"]);
    assert_eq!(push.next_beat(), Some(20));
    push.ask(&config, &mut effects);
    let question = String::from_utf8(asked(&push)).unwrap();
    push.beat_if_due(&config, (3, 4), false, 20, &mut effects);
    let beat = format!(
        "out: 100 Idle Heartbeat, Nats-Last-Consumer: 3, Nats-Last-Stream: 4, Nats-Consumer-Stalled: {question}"
    );
    assert_eq!(lines(&effects).last(), Some(&beat));
}
