//! Seeds that always run, and seeds of today's clock for `MYELIN_RANDOM_SECONDS`.

use std::time::{Duration, Instant, SystemTime};

/// Operations of clients in a run.
const OPERATIONS: u64 = 400;
/// Seeds of a usual run.
const SEEDS: u64 = 24;
/// Seeds that have found something, with so many operations, and what that was. What a seed does
/// changes with what is drawn: what those of before have found (docs/simulation/found.md) has
/// tests of its own where it was a fault of the server.
const KEPT: [(u64, u64, &str); 27] = [
    (0, 1_400, "equal seeds gave unequal runs: a cache that forgets at random held a removed consumer"),
    (
        10,
        2_000,
        "a stream with sources that had lost all of its messages passed over older ones of its origin",
    ),
    (48, 2_000, "as 10"),
    (
        1_882_948_344_217_610,
        500,
        "a stream whose deletion panicked lost what only the journal had, and gave its sequences out again",
    ),
    (1_882_949_846_827_371, 400, "a purge was not replayed behind a packed segment that is lost"),
    (1_882_948_221_534_539, 400, "a purge that failed half-way kept from readers what it had removed"),
    (1_882_948_221_534_826, 400, "a new consumer got what the one before it had acknowledged"),
    (1_882_948_344_217_799, 1_100, "a consumer was not made because a round had failed for the log before"),
    (1_882_950_525_255_689, 1_300, "nobody told of messages that had gone with their frame"),
    (1_882_948_344_217_848, 2_000, "none: a message that consumers give up died with its client"),
    (1_882_965_829_222_479, 400, "none: a disk failed again while the look at everything had it healed"),
    (
        1_882_965_670_887_927,
        2_000,
        "none: power took a removal by a limit, and a consumer had passed over it",
    ),
    (1_882_965_670_888_009, 2_000, "none: what died with a client was acknowledged with what came behind it"),
    (
        1_882_975_480_316_087,
        200,
        "what no round had taken was not synced where a stream could not be opened anew",
    ),
    (1_882_965_670_887_822, 1_400, "a purge of lost sequences removed messages behind them"),
    (1_882_976_472_270_246, 400, "none: a rollup met a file that could be read again when it was answered"),
    (
        1_882_976_629_555_289,
        400,
        "none: power took a delivery with flow control, where messages are always synced",
    ),
    (1_882_976_629_555_306, 1_000, "none: two pauses were asked for at once"),
    (
        1_882_987_277_844_488,
        1_100,
        "power took a deletion from behind the closed segment whose message was erased",
    ),
    (
        1_882_987_848_269_824,
        200,
        "a consumer whose end was refused came back, without what was not written of it",
    ),
    (1_882_991_535_063_054, 2_200, "none: a work queue let go of what it had told as lost"),
    (
        165,
        300,
        "a consumer that looked through more tables than fit into memory, and found nothing, never rested",
    ),
    (14, 400, "a footer did not say which sequences a start had passed over"),
    (1_883_022_501_609_964, 400, "a full disk took a rollup and not the removal of what was before it"),
    (70_155, 1_500, "a tighter limit took all that was there for what had been lost to damage"),
    (
        70_535,
        100,
        "a segment began where a catalog ended that could not follow, and took an acknowledged message",
    ),
    (
        62_351,
        5_800,
        "a consumer waited for two tables in turn, of which memory holds one, at a damaged message",
    ),
];

fn check(seed: u64, operations: u64) {
    if let Err(wrong) = myelin_sim::run(seed, operations) {
        let story: Vec<&String> = wrong.story.iter().rev().take(200).rev().collect();
        let again = myelin_sim::again(seed, operations);
        panic!("after {} operations: {}\n{story:#?}\nto repeat it: {again}", wrong.operation, wrong.why);
    }
}

#[test]
fn nothing_goes_wrong_in_simulations() {
    (0..SEEDS).for_each(|seed| check(seed, OPERATIONS));
}

#[test]
fn seeds_that_found_something_go_well() {
    KEPT.iter().for_each(|(seed, operations, _)| check(*seed, *operations));
}

/// Without the variable it has nothing to do.
#[test]
fn simulations_of_seeds_that_nobody_has_chosen_go_well() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seconds = number("MYELIN_RANDOM_SECONDS").unwrap_or(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is not 1969");
    let first = number("MYELIN_RANDOM_SEED").unwrap_or(now.as_secs()) << 20;
    println!("for {seconds} s simulations from seed {first} on");
    let (began, mut seed) = (Instant::now(), first);
    while began.elapsed() < Duration::from_secs(seconds) {
        check(seed, OPERATIONS);
        seed += 1;
    }
    println!("{} simulations", seed - first);
}

#[test]
fn equal_seeds_give_equal_runs() {
    let trace = |seed: u64| myelin_sim::run(seed, 300).map(|run| (run.trace, run.counts.turns));
    for seed in [3, 4] {
        let (one, other) = (trace(seed).expect("it goes well"), trace(seed).expect("it goes well"));
        assert_eq!(one, other);
    }
    assert_ne!(trace(3).expect("it goes well"), trace(4).expect("it goes well"));
}
