//! Random lives of groups: what is acknowledged is there, on all replicas, and the same on each.

use std::collections::BTreeMap;

use myelin_disk::faulty::Survival;
use proptest::prelude::*;

use super::group::Group;
use crate::group::Persistence;

/// One step.
fn step(group: &mut Group, published: &mut u64, persistence: Persistence) {
    let size = group.replicas.len() as u64;
    let number = group.rng.below(size) as usize;
    match group.rng.below(1000) {
        0..250 => {
            group.now += 30_000_000;
            group.tick(number);
        }
        250..800 => group.deliver_any(),
        800..960 => {
            let Some(leader) = (0..group.replicas.len()).find(|&one| group.replicas[one].leads()) else {
                return;
            };
            let count = 1 + group.rng.below(4);
            let texts: Vec<String> = (0..count).map(|n| format!("m{}", *published + n)).collect();
            *published += count;
            let length = if group.rng.below(10) == 0 { 30_000 } else { 200 };
            let ids: Vec<String> = texts.iter().map(|text| format!("Nats-Msg-Id: {text}")).collect();
            let payloads = texts.iter().map(|text| {
                let filler = "x".repeat(group.rng.below(length) as usize);
                format!("{text} {filler}")
            });
            let payloads: Vec<String> = payloads.collect();
            let headers: Vec<[&str; 1]> = ids.iter().map(|id| [id.as_str()]).collect();
            let messages: Vec<(&str, &[&str], &str)> = (0..texts.len())
                .map(|at| (texts[at].as_str(), headers[at].as_slice(), payloads[at].as_str()))
                .collect();
            group.publish_messages(leader, &messages);
        }
        960..970 if persistence == Persistence::Synced && group.replicas[number].is_alive() => {
            let survival = match group.rng.below(3) {
                0 => Survival::None,
                1 => Survival::Prefix(group.rng.below(50)),
                _ => Survival::Random(group.rng.below(u64::MAX)),
            };
            group.lose_power(number, survival);
        }
        960..970 if group.replicas[number].is_alive() => group.kill(number),
        970..988 if !group.replicas[number].is_alive() => group.come_back(number),
        988..990 => group.replicas[number].dies_at_vote = true,
        990..993 => group.isolate(number),
        993..1000 => group.join_all(),
        _ => {}
    }
}

/// A life with so many steps, and a quiet time behind it in which all come to the same.
fn live(size: usize, persistence: Persistence, seed: u64, steps: usize) {
    let mut group = Group::new(size, persistence, seed);
    group.loss = group.rng.below(60);
    let mut published = 0;
    for _ in 0..steps {
        step(&mut group, &mut published, persistence);
    }
    group.loss = 0;
    group.join_all();
    group.replicas.iter_mut().for_each(|replica| replica.dies_at_vote = false);
    (0..size).for_each(|number| group.come_back_if_dead(number));
    let leader = group.elect_anyone();
    group.publish(leader, "end", "end");
    let mut rest = 0;
    let is_same = |group: &Group| {
        let places: Vec<_> = group.replicas.iter().map(|one| one.position()).collect();
        places.iter().all(|place| {
            (place.index, place.chain, place.commit) == (places[0].index, places[0].chain, places[0].index)
        })
    };
    while !is_same(&group) {
        group.beat();
        rest += 1;
        assert!(rest < 100, "all come to the same");
    }
    let kept: BTreeMap<u64, String> = group.replicas[0].payloads().into_iter().collect();
    for replica in &group.replicas {
        assert!(replica.payloads().into_iter().eq(kept.clone()), "replica {} differs", replica.number);
    }
    let first = kept.keys().next().copied().unwrap_or(0);
    let said = group.replicas.iter().flat_map(|replica| &replica.said);
    for (text, answer) in said {
        let seq = answer
            .split("\"seq\":")
            .nth(1)
            .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok());
        let seq = seq.unwrap_or_else(|| panic!("{text}: {answer}"));
        let Some(payload) = kept.get(&seq) else {
            assert!(seq < first, "{text} was acknowledged as {seq}, and is not there");
            continue;
        };
        assert_eq!(payload.split(' ').next(), Some(text.as_str()), "message {seq}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn three_streams_keep_what_is_acknowledged(seed in any::<u64>(), steps in 50_usize..1500) {
        live(3, Persistence::Written, seed, steps);
    }

    #[test]
    fn three_streams_keep_what_is_acknowledged_when_power_is_lost(seed in any::<u64>(), steps in 50_usize..1500) {
        live(3, Persistence::Synced, seed, steps);
    }

    #[test]
    fn five_streams_keep_what_is_acknowledged(seed in any::<u64>(), steps in 50_usize..1500) {
        live(5, Persistence::Written, seed, steps);
    }
}
