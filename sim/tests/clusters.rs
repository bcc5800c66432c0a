//! Seeds of clusters that always run, and seeds of today's clock for `MYELIN_RANDOM_SECONDS`.

use std::time::{Duration, Instant, SystemTime};

use myelin_sim::Simulated;
use myelin_sim::cluster;

/// Operations of clients in a run.
const OPERATIONS: u64 = 200;
/// Seeds of a usual run.
const SEEDS: u64 = 4;

#[track_caller]
fn live(seed: u64, operations: u64) {
    if let Err(wrong) = cluster::run(seed, operations) {
        let story = wrong.story[wrong.story.len().saturating_sub(60)..].join("\n    ");
        let again = Simulated::Cluster.again(seed, operations);
        panic!("seed {seed}: after {} operations: {}\n    {story}\n{again}", wrong.operation, wrong.why);
    }
}

#[test]
fn clusters_keep_what_they_promise() {
    (1..=SEEDS).for_each(|seed| live(seed, OPERATIONS));
    let seconds = std::env::var("MYELIN_RANDOM_SECONDS").ok().and_then(|text| text.parse().ok());
    let begun = Instant::now();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut seed = now.as_secs() << 20;
    while begun.elapsed() < Duration::from_secs(seconds.unwrap_or(0)) {
        // What is open of changes of members is for `.ci/nightly sim`: docs/simulation.md.
        if cluster::changes_members(seed) {
            seed += 1;
            continue;
        }
        println!("seed {seed}: {}", Simulated::Cluster.again(seed, OPERATIONS));
        live(seed, OPERATIONS);
        seed += 1;
    }
}

/// Their faults stand in docs/simulation/found.md.
#[test]
fn seeds_that_found_something_stay_well() {
    for (seed, operations) in [
        (13, 400),
        (21, 400),
        (55, 400),
        (65, 400),
        (137, 400),
        (257, 400),
        (456, 400),
        (536, 400),
        (1000, 400),
    ] {
        live(seed, operations);
    }
}

#[test]
fn equal_seeds_give_equal_runs_of_clusters() {
    for seed in [1, 2] {
        let traces =
            [0, 1].map(|_| cluster::run(seed, OPERATIONS).map(|run| run.trace).map_err(|wrong| wrong.why));
        assert_eq!(traces[0], traces[1], "seed {seed}");
        assert!(traces[0].is_ok(), "{:?}", traces[0]);
    }
}
