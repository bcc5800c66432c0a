//! Requests with priorities of which some clients are behind.

use crate::consumer::pull::{Pull, Supply, Taker};
use crate::consumer::{Effects, Env, SlowReceiver, TurnCtx};
use myelin_jsapi::consumer::config::{ConsumerConfig, PriorityPolicy};

const SUPPLY: Supply = Supply { pending: 10, redeliveries: 0, outstanding: 0 };

/// Everybody listens, and some are behind.
struct Slow(&'static [&'static str]);

impl Env for Slow {
    fn has_interest(&self, _: &[u8]) -> bool {
        true
    }

    fn listens(&self, _: &[u8], _: Option<&[u8]>) -> bool {
        true
    }

    fn is_congested(&mut self, subject: &[u8]) -> bool {
        self.0.iter().any(|behind| behind.as_bytes() == subject)
    }

    fn awaited_receiver(&self, _: &[u8]) -> Option<SlowReceiver> {
        None
    }

    fn unique_id(&self) -> String {
        "id".into()
    }
}

fn config() -> ConsumerConfig {
    ConsumerConfig {
        priority_policy: PriorityPolicy::Prioritized,
        priority_groups: vec!["G".into()],
        max_waiting: 512,
        ..ConsumerConfig::default()
    }
}

/// Requests of these clients, with their priorities.
fn pull(clients: &[(&str, u8)]) -> Pull {
    let (mut pull, mut effects) = (Pull::new(0), Effects::default());
    for (reply, priority) in clients {
        let body = format!(r#"{{"batch":3,"group":"G","priority":{priority}}}"#);
        let mut env = Slow(&[]);
        let mut turn = TurnCtx::new(0, &mut env, &mut effects);
        pull.ask(&config(), (reply.as_bytes(), body.as_bytes()), SUPPLY, &mut turn);
    }
    assert!(effects.out.is_empty() && pull.len() == clients.len(), "they wait");
    pull
}

/// Gives one message in a turn in which these clients are behind; answers who got it.
fn give(pull: &mut Pull, behind: &'static [&'static str]) -> String {
    let (mut env, mut effects) = (Slow(behind), Effects::default());
    let mut turn = TurnCtx::new(0, &mut env, &mut effects);
    pull.begin();
    match pull.choose(&config(), 1, SUPPLY, &mut turn) {
        Taker::Front => {
            let taker = String::from_utf8_lossy(pull.taker()).into_owned();
            pull.served(&config(), &mut turn);
            taker
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_client_that_was_behind_for_a_moment_has_its_place_again() {
    let mut pull = pull(&[("a", 1), ("b", 2), ("c", 5)]);
    assert_eq!(give(&mut pull, &["a"]), "b");
    assert_eq!(give(&mut pull, &[]), "a");
    assert_eq!(give(&mut pull, &["a", "b", "c"]), "Congested");
    assert_eq!(pull.len(), 3);
    assert_eq!(give(&mut pull, &["a", "b"]), "c");
    let rest: Vec<String> = (0..5).map(|_| give(&mut pull, &[])).collect();
    assert_eq!(rest, ["a", "a", "b", "b", "c"]);
}

#[test]
fn those_of_one_priority_take_turns_however_often_one_is_behind() {
    let mut pull = pull(&[("a", 1), ("b", 1), ("c", 1)]);
    assert_eq!(give(&mut pull, &["a"]), "b");
    let next: Vec<String> = (0..3).map(|_| give(&mut pull, &[])).collect();
    assert_eq!(next, ["c", "b", "a"]);
}
