//! Random lives. Without `MYELIN_RANDOM_SECONDS` only some that are always the same; with it only
//! new ones, from `MYELIN_RANDOM_SEED` or a seed that nobody has chosen.

use crate::programs::{mixes, modes};
use myelin_cluster_test::random::{RandomPlan, live};
use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds of a life, before another seed is taken.
const LIFE: Duration = Duration::from_secs(20);

#[test]
fn clusters_do_what_their_model_does() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("MYELIN_RANDOM_SECONDS").unwrap_or(0);
    for mix in mixes() {
        for (seed, servers) in [(1, 3), (2, 2)].into_iter().filter(|_| seconds == 0) {
            println!("{}: seed {seed}, {servers} servers", mix.name);
            let programs = mix.programs.clone();
            let duration = Duration::from_secs(60);
            let (modes, is_strict) = (modes(), mix.is_strict());
            let plan = RandomPlan { programs, servers, modes, is_strict, seed, duration, rounds: 5 };
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
            let servers = 2 + (seed % 4) as usize;
            println!("{}: seed {seed}, {servers} servers", mix.name);
            let (modes, is_strict) = (modes(), mix.is_strict());
            let (programs, duration, rounds) = (mix.programs, left.min(LIFE), u64::MAX);
            let plan = RandomPlan { programs, servers, modes, is_strict, seed, duration, rounds };
            println!("{}", live(&plan).unwrap_or_else(|why| panic!("{}: {why}", mix.name)));
        }
        if mixes().is_empty() {
            break;
        }
    }
}
