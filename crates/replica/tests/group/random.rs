//! Random lives of groups.

use crate::network::Network;
use proptest::prelude::*;

/// A life with `steps` steps, and a quiet time behind it in which everything has to come right.
fn live(size: usize, seed: u64, steps: usize) -> Network {
    let mut network = Network::new(size, seed);
    network.loss = 4 + network.rng.below(40);
    let mut proposed = 0_u64;
    for _ in 0..steps {
        let member = network.rng.below(size as u64) as usize;
        match network.rng.below(100) {
            0..40 => network.tick(),
            40..70 => {
                let steps = 1 + network.rng.below(8) as usize;
                network.persist(member, steps);
            }
            70..90 => {
                proposed += 1;
                let length = network.rng.below(5_000) as usize;
                let data = format!("{proposed} {}", "x".repeat(length));
                network.propose(member, data.as_bytes());
            }
            90 => {
                let loses_power = network.rng.below(2) == 0;
                network.die(member, loses_power);
            }
            91..96 if !network.is_alive(member) => network.come_back(member),
            96 => {
                let other = network.rng.below(size as u64) as usize;
                network.cut.push((member, other));
                if network.rng.below(2) == 0 {
                    network.cut.push((other, member));
                }
            }
            97 => network.cut.clear(),
            98 if network.is_alive(member) => {
                let other = network.rng.below(size as u64) as usize;
                let to = network.voters[other];
                network.consensus(member).transfer(to).expect("no rule is broken");
                network.settle(member);
            }
            _ => {}
        }
    }
    network.cut.clear();
    network.loss = 0;
    (0..size).filter(|&member| !network.is_alive(member)).collect::<Vec<_>>().into_iter().for_each(
        |member| {
            network.come_back(member);
        },
    );
    network.until(400, "one entry that all have", |network| {
        let has_end = network.committed.values().any(|entry| &*entry.data == b"the end");
        if let Some(leader) = network.leader().filter(|_| !has_end) {
            network.propose(leader, b"the end");
        }
        let ends: Vec<u64> = network.members.iter().map(|member| member.written.committed).collect();
        has_end && ends.iter().all(|end| *end == ends[0])
    });
    let logs: Vec<_> = network.members.iter().map(|member| &member.written).collect();
    let end = logs[0].committed as usize;
    assert!(logs.iter().all(|log| log.entries[..end] == logs[0].entries[..end]), "all have the same log");
    network
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn three_members_keep_what_is_committed(seed in any::<u64>(), steps in 50_usize..600) {
        live(3, seed, steps);
    }

    #[test]
    fn five_members_keep_what_is_committed(seed in any::<u64>(), steps in 50_usize..600) {
        live(5, seed, steps);
    }

    #[test]
    fn a_group_of_one_keeps_what_is_committed(seed in any::<u64>(), steps in 50_usize..300) {
        live(1, seed, steps);
    }
}

/// The library draws time-outs from a source of its own, which nothing may depend on.
#[test]
fn the_same_seed_is_the_same_life() {
    for seed in 0..10 {
        let (one, other) = (live(3, seed, 400), live(3, seed, 400));
        assert_eq!((one.now, &one.leaders, &one.committed), (other.now, &other.leaders, &other.committed));
    }
}

/// A life has elections, deaths and losses: else it shows nothing.
#[test]
fn lives_are_eventful() {
    let lives: Vec<Network> = (100..120).map(|seed| live(3, seed, 600)).collect();
    let leaders: usize = lives.iter().map(|life| life.leaders.len()).sum();
    let committed: usize = lives.iter().map(|life| life.committed.len()).sum();
    let deaths: u32 = lives.iter().flat_map(|life| &life.members).map(|member| member.life - 1).sum();
    assert!(
        leaders > 40 && committed > 250 && deaths > 40,
        "{leaders} leaders, {committed} entries, {deaths} deaths"
    );
}
