//! A group whose messages go to one client at a time.

use super::spoken::{Listeners, lines};
use crate::consumer::pull::{Pull, Supply, Taker};
use crate::consumer::{ConsumerEvent, Effects, TurnCtx};
use myelin_jsapi::advisory::consumer::Unpinned;
use myelin_jsapi::consumer::config::{ConsumerConfig, PriorityPolicy};

const SECOND: i64 = 1_000_000_000;
const SUPPLY: Supply = Supply { pending: 10, redeliveries: 0, outstanding: 0 };

fn config() -> ConsumerConfig {
    ConsumerConfig {
        priority_policy: PriorityPolicy::PinnedClient,
        priority_groups: vec!["A".into()],
        priority_timeout: 10 * SECOND,
        max_waiting: 512,
        ..ConsumerConfig::default()
    }
}

/// A pull, and what it says.
struct Bench {
    config: ConsumerConfig,
    pull: Pull,
    effects: Effects,
    env: Listeners,
}

impl Bench {
    fn new() -> Self {
        let (effects, env) = (Effects::default(), Listeners::default());
        Self { config: config(), pull: Pull::new(0), effects, env }
    }

    fn ask(&mut self, reply: &str, body: &str, now: i64) {
        let mut turn = TurnCtx::new(now, &mut self.env, &mut self.effects);
        self.pull.ask(&self.config, (reply.as_bytes(), body.as_bytes()), SUPPLY, &mut turn);
    }

    /// Gives one message to a request; answers its reply subject, or `None` if none can take it.
    fn give(&mut self, now: i64) -> Option<String> {
        let mut turn = TurnCtx::new(now, &mut self.env, &mut self.effects);
        if self.pull.choose(&self.config, 1, SUPPLY, &mut turn) != Taker::Front {
            return None;
        }
        let taker = String::from_utf8_lossy(self.pull.taker()).into_owned();
        self.pull.served(&self.config, &mut turn);
        Some(taker)
    }

    fn unpin_if_due(&mut self, now: i64) -> bool {
        self.pull.unpin_if_due(&mut TurnCtx::new(now, &mut self.env, &mut self.effects));
        self.pull.pin.is_none()
    }
}

#[test]
fn one_client_gets_all_until_it_is_not_heard_of() {
    let mut bench = Bench::new();
    bench.ask("one", r#"{"group":"A","batch":2}"#, 0);
    bench.ask("two", r#"{"group":"A","batch":2}"#, 0);
    assert_eq!(bench.give(SECOND).as_deref(), Some("one"));
    let pin = bench.pull.pin.clone().unwrap();
    assert_eq!((pin.group.as_str(), pin.since, pin.until), ("A", SECOND, 11 * SECOND));
    assert_eq!(bench.give(SECOND).as_deref(), Some("one"), "the other is passed over");
    assert_eq!(bench.give(SECOND), None, "and gets nothing when the one wants no more");

    bench.ask("three", r#"{"group":"A","id":"stranger"}"#, SECOND);
    assert_eq!(lines(&bench.effects), ["three: 423 Nats-Pin-Id mismatch"]);
    let redeliveries = format!(r#"{{"group":"A","id":"{}"}}"#, pin.id);
    bench.ask("one", &redeliveries, 5 * SECOND);
    assert!(!bench.unpin_if_due(11 * SECOND), "it was heard of");
    assert!(bench.unpin_if_due(15 * SECOND));
    let told = [
        ConsumerEvent::Pinned { group: "A".into(), id: pin.id.clone() },
        ConsumerEvent::Unpinned { group: "A".into(), reason: Unpinned::Timeout },
    ];
    assert_eq!(bench.effects.events, told);

    assert_eq!(bench.give(16 * SECOND).as_deref(), Some("two"));
    assert_ne!(bench.pull.pin.as_ref().map(|pin| &pin.id), Some(&pin.id));
    assert_eq!(bench.give(16 * SECOND).as_deref(), Some("two"));
}

#[test]
fn one_that_was_pinned_before_is_told_so() {
    let mut bench = Bench::new();
    bench.ask("one", r#"{"group":"A","batch":3}"#, 0);
    assert_eq!(bench.give(0).as_deref(), Some("one"));
    assert!(bench.unpin_if_due(10 * SECOND));
    bench.ask("two", r#"{"group":"A","batch":3}"#, 10 * SECOND);
    assert_eq!(bench.give(10 * SECOND).as_deref(), Some("two"));
    let left = "Nats-Pending-Messages: 2, Nats-Pending-Bytes: 0";
    assert_eq!(lines(&bench.effects), [format!("one: 423 Nats-Wrong-Pin-Id, {left}")]);
}
