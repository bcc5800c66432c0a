//! Random lives. Without `MYELIN_RANDOM_SECONDS` only some that are always the same; with it only
//! new ones, from `MYELIN_RANDOM_SEED` or a seed that nobody has chosen.

use crate::programs::{Mix, mixes, modes};
use myelin_cluster_test::random::{RandomPlan, Shape, live};
use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a life is, before another seed is taken: topologies of leaf nodes differ more.
const LIFE: Duration = Duration::from_secs(20);
const LIFE_WITH_LEAFS: Duration = Duration::from_secs(6);

#[test]
fn clusters_do_what_their_model_does() {
    live_at_random(Shape::Cluster, &[(1, 3), (2, 2)]);
}

#[test]
fn leaf_nodes_do_what_their_model_does() {
    live_at_random(Shape::Leafs, &[(1, 4), (7, 6)]);
}

#[test]
fn super_clusters_do_what_their_model_does() {
    live_at_random(Shape::Gateways, &[(3, 6)]);
}

/// Lives the lives of these seeds, with so many servers, or new ones.
fn live_at_random(shape: Shape, known: &[(u64, usize)]) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("MYELIN_RANDOM_SECONDS").unwrap_or(0);
    let plan = |mix: &Mix, seed, servers| {
        println!("{}: seed {seed}, {servers} servers, {shape:?}", mix.name);
        let (programs, modes, is_strict) = (mix.programs.clone(), modes(), mix.is_strict());
        let rounds = match shape {
            Shape::Cluster => 5,
            Shape::Leafs => 11,
            Shape::Gateways => 1,
        };
        let duration = Duration::from_secs(60);
        RandomPlan { programs, servers, shape, modes, is_strict, seed, duration, rounds }
    };
    for mix in mixes() {
        for (seed, servers) in known.iter().filter(|_| seconds == 0) {
            let plan = plan(&mix, *seed, *servers);
            println!("{}", live(&plan).unwrap_or_else(|why| panic!("{}: {why}", mix.name)));
        }
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut seeds = (number("MYELIN_RANDOM_SEED").unwrap_or_else(fresh) << 20)..;
    'all: loop {
        for mix in mixes() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break 'all;
            }
            let seed = seeds.next().expect("there are more seeds than time");
            let servers = 2 + (seed % 4) as usize + usize::from(shape != Shape::Cluster);
            let duration = left.min(if shape == Shape::Cluster { LIFE } else { LIFE_WITH_LEAFS });
            let plan = RandomPlan { duration, rounds: u64::MAX, ..plan(&mix, seed, servers) };
            println!("{}", live(&plan).unwrap_or_else(|why| panic!("{}: {why}", mix.name)));
        }
        if mixes().is_empty() {
            break;
        }
    }
}
