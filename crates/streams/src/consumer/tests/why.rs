//! Why nothing is delivered, where the random lives beside the twin (`model`) do not come: pushing,
//! pace, priorities.

use super::turns::{Bench, SECOND, config, stream, stream_with_pauses};
use crate::consumer::ConsumerCore;
use myelin_jsapi::api::why::{ConsumerCause, Holds};
use myelin_jsapi::consumer::config::{ConsumerConfig, PriorityPolicy, ReplayPolicy};
use myelin_stdx::rng::Rng;
use myelin_wire::message_buf::MessageRef;
use std::collections::BTreeSet;

/// Words of the causes, the first in front.
fn words(bench: &mut Bench) -> Vec<(Holds, &'static str)> {
    bench.turn(ConsumerCore::why).iter().map(|(holds, cause)| (*holds, cause.word())).collect()
}

fn pushes() -> ConsumerConfig {
    ConsumerConfig { deliver_subject: "out".into(), ..config() }
}

/// Consumers of all kinds that the random lives have not.
fn kinds() -> Vec<ConsumerConfig> {
    let group = |priority_policy| ConsumerConfig {
        priority_policy,
        priority_groups: vec!["g".into()],
        priority_timeout: 3 * SECOND,
        ..config()
    };
    vec![
        pushes(),
        ConsumerConfig { deliver_group: "q".into(), max_ack_pending: 2, ..pushes() },
        ConsumerConfig { flow_control: true, idle_heartbeat: SECOND, ..pushes() },
        ConsumerConfig { rate_limit_bps: 8 * 150, ..pushes() },
        ConsumerConfig { rate_limit_bps: 8 * 150, max_deliver: 2, ..config() },
        ConsumerConfig { replay_policy: ReplayPolicy::Original, ..config() },
        ConsumerConfig { replay_policy: ReplayPolicy::Original, rate_limit_bps: 8 * 100, ..pushes() },
        group(PriorityPolicy::Overflow),
        group(PriorityPolicy::PinnedClient),
    ]
}

fn step(bench: &mut Bench, rng: &mut Rng) {
    let requests = [
        r#"{"batch":2,"group":"g"}"#,
        r#"{"batch":1,"group":"g","min_pending":4}"#,
        r#"{"batch":1,"group":"g","min_ack_pending":2,"expires":2000000000}"#,
        r#"{"batch":3,"group":"g","max_bytes":160,"expires":3000000000}"#,
        r#"{"batch":1,"group":"g","id":"id"}"#,
    ];
    match rng.below(8) {
        0 => bench.clients.are_away = rng.below(3) == 0,
        1 => bench.clients.are_behind = rng.below(3) == 0,
        2 => bench.now += SECOND / 2 * rng.below(4) as i64,
        3 => {
            let acked = format!("$JS.ACK.S.C.1.{}.1.1.1", 1 + rng.below(8));
            let message = MessageRef { subject: acked.as_bytes(), payload: b"+ACK", ..MessageRef::default() };
            let subject = crate::consumer::AckSubject::read(acked.as_bytes()).expect("it is one");
            bench.turn(|core, turn| core.acknowledge(&subject, &message, turn));
        }
        _ if bench.core.config().is_push() => bench.now += SECOND / 5,
        _ => {
            let request = requests[rng.below(requests.len() as u64) as usize];
            bench.turn(|core, turn| core.ask(b"inbox", request.as_bytes(), turn));
        }
    }
    bench.turn(ConsumerCore::listen);
    bench.turn(ConsumerCore::due);
}

#[test]
fn all_is_held_back_exactly_where_a_turn_delivers_nothing() {
    let mut seen = BTreeSet::new();
    for seed in 0..600 {
        let mut rng = Rng::seeded(seed);
        let kinds = kinds();
        let config = kinds[seed as usize % kinds.len()].clone();
        let mut bench = Bench::new(&stream_with_pauses(&["a"; 8], SECOND / 3), config.clone());
        for at in 0..40 {
            step(&mut bench, &mut rng);
            let why = bench.turn(ConsumerCore::why);
            let before = bench.deliveries();
            bench.deliver();
            let delivered = bench.deliveries() > before;
            let holds_all = why.first().is_some_and(|(holds, _)| *holds == Holds::All);
            let is_end = why.iter().any(|(holds, _)| *holds == Holds::Nothing);
            assert_eq!(holds_all, !delivered && !is_end, "seed {seed}, step {at}, {config:?}: {why:?}");
            assert!(!is_end || !delivered, "seed {seed}, step {at}: {why:?}");
            seen.extend(why.iter().map(|(_, cause)| cause.word()));
        }
    }
    for word in [
        "nobody_listens",
        "rate_limit",
        "original_pace",
        "receiver_behind",
        "max_ack_pending",
        "pinned_elsewhere",
        "too_few_for_requests",
        "requests_too_small",
        "no_pull_waits",
        "deliveries_exhausted",
        "redelivery_waits",
        "caught_up",
    ] {
        assert!(seen.contains(word), "{word} is not tested: {seen:?}");
    }
}

#[test]
fn a_request_that_was_too_small_is_named_until_somebody_else_asks() {
    let mut bench = Bench::new(&stream(&["a", "a"]), config());
    assert_eq!(words(&mut bench), [(Holds::All, "no_pull_waits")]);
    assert_eq!(bench.ask(1, r#"{"batch":1,"max_bytes":50}"#), [0; 0]);
    let why = bench.turn(ConsumerCore::why);
    assert!(
        matches!(why[..], [(Holds::All, ConsumerCause::RequestsTooSmall { largest: 50, size })] if size > 50)
    );
    assert_eq!(bench.ask(1, "1"), [1]);
    assert_eq!(words(&mut bench), [(Holds::All, "no_pull_waits"), (Holds::Some, "redelivery_waits")]);
    // Enough for one, and full then: that is how such requests end.
    assert_eq!(bench.ask(1, r#"{"batch":2,"max_bytes":160}"#), [2]);
    let why = words(&mut bench);
    assert_eq!(why[..2], [(Holds::Some, "redelivery_waits"), (Holds::Nothing, "caught_up")]);
}

#[test]
fn a_disk_that_cannot_be_read_is_named() {
    let mut bench = Bench::new(&stream(&["a"]), config());
    bench.turn(|core, turn| core.ask(b"inbox", b"1", turn));
    let now = bench.now;
    bench.core.hold_reads(now);
    assert_eq!(words(&mut bench), [(Holds::All, "waits_for_disk")]);
    bench.now += 2 * SECOND;
    bench.turn(ConsumerCore::due);
    assert_eq!(words(&mut bench), []);
    assert_eq!(bench.deliver(), [1]);
}

#[test]
fn what_is_said_changes_nothing() {
    let mut bench = Bench::new(&stream(&["a", "a"]), config());
    bench.turn(|core, turn| core.ask(b"inbox", br#"{"batch":1,"expires":1000}"#, turn));
    bench.now += SECOND;
    for _ in 0..3 {
        assert_eq!(words(&mut bench), [(Holds::All, "no_pull_waits")], "it has expired");
    }
    assert!(bench.effects.out.is_empty(), "nobody is told");
}
