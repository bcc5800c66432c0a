//! Simulation of a cluster: three or five servers of the shipped code in one thread, with a meta
//! group and one to eight streams that are groups, on faulty disks and clocks that differ, and a
//! network that delays, loses, reorders and repeats what they say. Clients stand beside them, and a
//! plain model of what these were told.
//!
//! `node` is a server, `network` what is between servers, `world` who goes on next; `operations` is
//! what clients do, `faults` what goes wrong, `checks` what holds, and `history` a checker for
//! linearizability.

mod changes;
mod checks;
mod coups;
mod doubts;
mod elections;
mod fast;
mod faults;
pub mod history;
mod model;
mod moves;
mod network;
mod node;
mod operations;
mod plan;
mod rest;
mod scenes;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use self::doubts::damage_disks;
pub use self::moves::changes_members;
use self::plan::LIFETIME;
use self::world::{SECOND, World};
use crate::{Run, Wrong};

/// One operation in so many is followed by a fault.
const FAULTS: u64 = 12;
/// Turns of servers between two operations, at most.
const TURNS: u64 = 40;

/// Runs a seed for so many operations of clients.
///
/// # Errors
/// Something did not hold.
pub fn run(seed: u64, operations: u64) -> Result<Run, Box<Wrong>> {
    // A run that goes wrong is repeated for its story.
    attempt(seed, operations, false).map_err(|wrong| match attempt(seed, operations, true) {
        Err(again) if again.why == wrong.why => again,
        other => {
            let other = other.map(|_| ()).map_err(|wrong| wrong.why);
            let why = format!("{}; and not the same again, but {other:?}", wrong.why);
            Box::new(Wrong { why, ..*wrong })
        }
    })
}

/// Runs a seed, and tells what happened at last, however it went.
#[must_use]
pub fn tell(seed: u64, operations: u64) -> Vec<String> {
    let mut world = World::new(seed, true);
    // How it went stands in the last lines.
    let _ = catch_unwind(AssertUnwindSafe(|| story(&mut world, operations)));
    world.summary()
}

/// The command that runs a seed again.
#[must_use]
pub fn again(seed: u64, operations: u64) -> String {
    format!("cargo run --profile sim -p myelin-sim -- --cluster --repeat {seed} --operations {operations}")
}

/// Runs a seed once.
pub(crate) fn attempt(seed: u64, operations: u64, tells: bool) -> Result<Run, Box<Wrong>> {
    let mut world = World::new(seed, tells);
    let result = catch_unwind(AssertUnwindSafe(|| story(&mut world, operations)));
    let why = match result {
        Ok(Ok(())) => return Ok(Run { counts: world.counts, trace: world.trace() }),
        Ok(Err(why)) => why,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("a panic: {}", text.unwrap_or("(no words)"))
        }
    };
    // What has panicked may panic again while it is looked at.
    let story = catch_unwind(AssertUnwindSafe(|| world.summary())).unwrap_or_default();
    Err(Box::new(Wrong { operation: world.counts.operations, why, story }))
}

fn story(world: &mut World, operations: u64) -> Result<(), String> {
    form(world)?;
    world.network.loss = world.plan.loss;
    for _ in 0..operations {
        world.operate()?;
        world.move_some();
        let turns = world.rng.below(TURNS);
        world.turns(turns)?;
        if world.rng.below(FAULTS) == 0 {
            world.fault()?;
        }
        world.scene()?;
        world.check()?;
    }
    world.heal()?;
    world.end_moves()?;
    world.settle()?;
    world.publish_last()?;
    world.settle()?;
    for stream in 0..world.streams.len() {
        world.check_contents(stream)?;
        world.drain(stream)?;
    }
    if world.plan.has_lifetimes() {
        world.pass(4 * LIFETIME * SECOND)?;
    }
    world.settle()?;
    let mut before = Vec::new();
    for stream in 0..world.streams.len() {
        before.push(world.check_contents(stream)?);
    }
    if world.plan.has_memory() {
        return Ok(());
    }
    for number in world.all() {
        world.kill(number);
    }
    world.heal()?;
    world.settle()?;
    for (stream, before) in before.iter().enumerate() {
        let after = world.check_contents(stream)?;
        let differs = before.lines().zip(after.lines()).find(|(one, other)| one != other);
        if let Some(differs) = differs {
            return Err(format!("S{stream}: a start of all changes something: {differs:?}"));
        }
    }
    Ok(())
}

/// Servers form a cluster, with its streams and consumers.
fn form(world: &mut World) -> Result<(), String> {
    for number in world.all() {
        world.start(number)?;
    }
    for _ in 0..120 {
        world.pass(SECOND)?;
        let is_ready =
            |model: &model::StreamModel| model.is_made && model.is_consumed == model.plan.has_consumer;
        if world.streams.iter().all(is_ready) {
            return world.settle();
        }
        (0..world.streams.len()).for_each(|stream| world.make(stream));
    }
    Err("streams and consumers are not made".to_owned())
}
