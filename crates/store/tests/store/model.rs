//! The model test: long random stories, told to a stream and to its twin, which must agree on
//! everything. Every fourth variant leads a group: a follower that takes its entries must agree,
//! too.
//!
//! There are always as many, so that a run can be repeated. `MYELIN_RANDOM_SECONDS` tells others
//! for so long, from a seed that is new each time and printed first; `MYELIN_MODEL_SEED` tells one
//! alone. A story that goes wrong is cut down to the operations that matter and printed with its
//! seed.

mod compare;
mod follower;
mod operation;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime};

use myelin_stdx::rng::Rng;

use operation::Operation;
use world::World;

/// Operations of a story.
const LENGTH: usize = 160;
/// The first seed of the stories that are always told.
const SEED: u64 = 1;
/// Stories of a usual run: some of each variant of a stream.
const STORIES: u64 = 28 * world::VARIANTS;
/// Stories told again to cut a bad one down.
const ATTEMPTS: usize = 6000;

/// Index of the operation that went wrong, and why.
type Wrong = (usize, String);

/// Tells the story of a seed, up to the first disagreement.
fn tell(seed: u64) -> Result<(), (Vec<Operation>, Wrong)> {
    let mut rng = Rng::seeded(seed);
    let mut world = World::new(seed);
    let mut story = Vec::new();
    for step in 0..LENGTH {
        let last = step + 1 == LENGTH;
        let operation = if last { Operation::Compare(seed) } else { Operation::any(&mut rng, &world.twin) };
        story.push(operation.clone());
        if let Err(why) = guarded(&mut world, &operation) {
            return Err((story, (step, why)));
        }
    }
    Ok(())
}

fn guarded(world: &mut World, operation: &Operation) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| world.run(operation))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", text.unwrap_or("(no words)")))
    })
}

fn retell(seed: u64, story: &[Operation]) -> Option<Wrong> {
    let mut world = World::new(seed);
    story
        .iter()
        .enumerate()
        .find_map(|(step, operation)| guarded(&mut world, operation).err().map(|why| (step, why)))
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
            match retell(seed, &shorter) {
                Some(found) => {
                    shorter.truncate(found.0 + 1);
                    (story, wrong) = (shorter, found);
                }
                None => at += piece,
            }
        }
        if piece == 1 || attempts >= ATTEMPTS {
            break;
        }
        piece = piece.div_ceil(2);
    }
    for at in 0..story.len() {
        let mut message = 0;
        while let Some(shorter) = without_message(&story, at, message) {
            match retell(seed, &shorter).filter(|found| found.0 + 1 == story.len()) {
                Some(found) => (story, wrong) = (shorter, found),
                None => message += 1,
            }
        }
    }
    (story, wrong)
}

/// The story without one message of an append. `None` if there is no such message.
fn without_message(story: &[Operation], at: usize, message: usize) -> Option<Vec<Operation>> {
    let mut shorter = story.to_vec();
    let Operation::Append { messages, .. } = &mut shorter[at] else { return None };
    (message < messages.len()).then(|| messages.remove(message))?;
    Some(shorter)
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn check(seed: u64) {
    let Err((story, (step, why))) = tell(seed) else { return };
    let world = World::new(seed);
    let (story, (last, reason)) = cut_down(seed, story, (step, why.clone()));
    let lines: Vec<String> =
        story.iter().enumerate().map(|(step, what)| format!("{step}: {what:?}")).collect();
    panic!(
        "MYELIN_MODEL_SEED={seed}, step {step}: {why}\n{}\ncut down:\n{}\nstep {last}: {reason}",
        world.description(),
        lines.join("\n")
    );
}

#[test]
fn streams_do_what_their_twin_does() {
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
