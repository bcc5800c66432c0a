//! Long random stories, told to a consumer and to its twin, which must agree on every word, number
//! and delivery.
//!
//! There are always as many, so that a run can be repeated. `MYELIN_RANDOM_SECONDS` tells others
//! for so long, from a seed that is new each time and printed first; `MYELIN_MODEL_SEED` tells one
//! alone. A story that goes wrong is cut down to the operations that matter and printed with its
//! seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime};

use myelin_stdx::rng::Rng;

use super::env::Env;
use super::operation::Operation;

/// Operations of a story.
const LENGTH: usize = 150;
/// The first seed of the stories that are always told.
const SEED: u64 = 1;
/// Stories of a usual run: streams in memory and in files, with all policies.
const STORIES: u64 = 500;
/// Stories told again to cut a bad one down.
const ATTEMPTS: usize = 3000;

/// Index of the operation that went wrong, and why.
type Wrong = (usize, String);

/// Tells the story of a seed, up to the first disagreement.
fn tell(seed: u64) -> Result<(), (Vec<Operation>, Wrong)> {
    let mut rng = Rng::seeded(seed);
    let mut env = Env::new(seed);
    let mut story = Vec::new();
    for step in 0..LENGTH {
        let last = step + 1 == LENGTH;
        let operation = if last { Operation::Drain } else { Operation::any(&mut rng) };
        story.push(operation.clone());
        if let Err(why) = guarded(&mut env, &operation) {
            return Err((story, (step, why)));
        }
    }
    Ok(())
}

fn guarded(env: &mut Env, operation: &Operation) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| env.run(operation))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", text.unwrap_or("(no words)")))
    })
}

/// Tells a shorter story: what goes wrong in it, if that is of the same kind.
fn retell(seed: u64, story: &[Operation], wrong: &str) -> Option<Wrong> {
    let mut env = Env::new(seed);
    let mut told = story.iter().enumerate();
    let found = told.find_map(|(step, operation)| guarded(&mut env, operation).err().map(|why| (step, why)));
    found.filter(|(_, why)| kind(why) == kind(wrong))
}

/// Beginning of a disagreement, up to its numbers.
fn kind(why: &str) -> &str {
    why.split(|msg: char| msg == ':' || msg.is_ascii_digit()).next().unwrap_or(why)
}

/// Leaves out what the disagreement does not need.
fn cut_down(seed: u64, mut story: Vec<Operation>, mut wrong: Wrong) -> (Vec<Operation>, Wrong) {
    let mut attempts = 0;
    let mut piece = story.len().div_ceil(2);
    loop {
        let mut at = 0;
        while at < story.len() && attempts < ATTEMPTS {
            attempts += 1;
            let mut shorter = story.clone();
            shorter.drain(at..(at + piece).min(story.len()));
            match retell(seed, &shorter, &wrong.1) {
                Some(found) => {
                    shorter.truncate(found.0 + 1);
                    (story, wrong) = (shorter, found);
                }
                None => at += piece,
            }
        }
        if piece == 1 || attempts >= ATTEMPTS {
            return (story, wrong);
        }
        piece = piece.div_ceil(2);
    }
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn check(seed: u64) {
    let Err((story, (step, why))) = tell(seed) else { return };
    let env = Env::new(seed);
    let (story, (last, reason)) = cut_down(seed, story, (step, why.clone()));
    let lines: Vec<String> =
        story.iter().enumerate().map(|(step, what)| format!("{step}: {what:?}")).collect();
    panic!(
        "MYELIN_MODEL_SEED={seed}, step {step}: {why}\n{}\ncut down:\n{}\nstep {last}: {reason}",
        env.description(),
        lines.join("\n")
    );
}

#[test]
fn consumers_do_what_their_twin_does() {
    if let Some(seed) = number_from("MYELIN_MODEL_SEED") {
        return check(seed);
    }
    println!("{STORIES} stories from MYELIN_MODEL_SEED={SEED} on");
    // Stories know nothing of each other, so that two are told at once.
    std::thread::scope(|scope| {
        for first in [SEED, SEED + 1] {
            scope.spawn(move || (first..SEED + STORIES).step_by(2).for_each(check));
        }
    });
    let seconds = number_from("MYELIN_RANDOM_SECONDS").unwrap_or(0);
    if seconds > 0 {
        tell_others(Duration::from_secs(seconds));
    }
}

/// Tells stories for some time, from `MYELIN_RANDOM_SEED` or a seed that nobody has chosen.
fn tell_others(time: Duration) {
    let fresh = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is not 1969");
        now.as_secs()
    };
    let first = number_from("MYELIN_RANDOM_SEED").unwrap_or_else(fresh) << 20;
    println!("for {} s stories from MYELIN_MODEL_SEED={first} on", time.as_secs());
    let began = Instant::now();
    let mut seed = first;
    while began.elapsed() < time {
        check(seed);
        seed += 1;
    }
    println!("{} stories", seed - first);
}
