//! Random lives. Without `MYELIN_RANDOM_SECONDS` only some that are always the same.

use crate::programs::{mixes, modes};
use myelin_cluster_test::random::{RandomPlan, live};
use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds of a life, before another seed is taken.
const LIFE: Duration = Duration::from_secs(20);

#[test]
fn clusters_do_what_their_model_does() {
    for mix in mixes() {
        for (seed, servers) in [(1, 3), (2, 2)] {
            println!("{}: seed {seed}, {servers} servers", mix.name);
            let programs = mix.programs.clone();
            let duration = Duration::from_secs(60);
            let (modes, is_strict) = (modes(), mix.is_strict());
            let plan = RandomPlan { programs, servers, modes, is_strict, seed, duration, rounds: 5 };
            println!("{}", live(&plan).unwrap_or_else(|why| panic!("{}: {why}", mix.name)));
        }
    }
    let seconds = env::var("MYELIN_RANDOM_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    'all: loop {
        for mix in mixes() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break 'all;
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let seed = now.as_nanos() as u64;
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
