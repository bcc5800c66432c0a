//! Refusals that are told to who asks, beside what a publish hears.

use super::{Bench, config};
use crate::stream::{StorageBudget, StreamFacts, StreamSettings};
use myelin_jsapi::api::why::Holds;
use myelin_jsapi::config::{Discard, StreamConfig};
use myelin_stdx::rng::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A stream with limits, and the budgets that it counts in.
fn any(rng: &mut Rng) -> (StreamConfig, i64, i64) {
    let limit = |rng: &mut Rng, most: u64| {
        if rng.below(2) == 0 { -1 } else { 1 + i64::try_from(rng.below(most)).unwrap() }
    };
    let made = StreamConfig {
        max_msgs: limit(rng, 6),
        max_bytes: limit(rng, 700),
        max_msgs_per_subject: limit(rng, 3),
        discard: if rng.below(3) == 0 { Discard::Old } else { Discard::New },
        sealed: rng.below(20) == 0,
        ..config()
    };
    let discard_new_per_subject =
        made.discard == Discard::New && made.max_msgs_per_subject > 0 && rng.below(2) == 0;
    (StreamConfig { discard_new_per_subject, ..made }, limit(rng, 900), limit(rng, 900))
}

#[test]
fn all_is_refused_exactly_where_it_is_said() {
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let mut rng = Rng::seeded(seed);
        let (config, account, server) = any(&mut rng);
        let budgets = [account, server].map(|limit| Arc::new(StorageBudget::new(limit)));
        let [account, server] = budgets.clone();
        let settings = StreamSettings { account, server, ..StreamSettings::default() };
        let mut bench = Bench::with(config.clone(), settings);
        for at in 0..12 {
            let reader = bench.core.reader();
            let [account, server] = &budgets;
            let facts = StreamFacts { config: &config, reader: &reader, account, server };
            let refusals = facts.refusals();
            let is_all = refusals.iter().any(|(holds, _)| *holds == Holds::All);
            seen.extend(refusals.iter().map(|(_, cause)| cause.word()));
            // A subject that has no messages takes one that costs nobody another.
            let said = bench.publish(&format!("{}", (b'a' + at) as char), &[], "");
            assert_eq!(is_all, said.contains("error"), "seed {seed}, {at}: {refusals:?}, {said}, {config:?}");
            // Of the usual size.
            bench.publish(&format!("s.{}", rng.below(3)), &[], &"x".repeat(rng.below(120) as usize));
        }
    }
    let words = ["account_full", "full", "sealed", "server_full"];
    assert!(words.iter().all(|word| seen.contains(word)), "{seen:?}");
}
