//! Simulation: one server of the shipped code in one thread, on virtual time and on a disk that
//! fails, beside a plain model of what its clients know.
//!
//! A seed says everything: how the server and its streams are configured, what clients do, which
//! of the server's threads goes on next, when it is killed, when power is lost and what of the
//! unsynced survives, when the disk is full and when the clock jumps. Equal seeds give equal runs,
//! to the byte. From the shell down to the sockets it is the code that ships: broker, JetStream
//! with its API, streams, consumers and store; `host` and `server` are in the place of
//! threads, and `disk/src/faulty` in the place of a disk.
//!
//! Checked with every answer and delivery: no sequence is given to two messages, ever, over all
//! lives of the server; nothing is there that nobody published, or that was refused, or twice; a
//! confirmed acknowledgement is kept; expected sequences and duplicates are told truly; nothing
//! panics. Checked at rest, after every death and at the end: everything acknowledged is there
//! unless somebody or a limit may have removed it (after a loss of power in the default mode: but
//! what came in the last 100 ms); what was removed stays away; batches are whole; limits hold;
//! every request was answered; consumers deliver everything; a restart changes nothing.

mod answers;
mod checks;
mod clock;
pub mod cluster;
mod copies;
mod copy_model;
mod extras;
mod faults;
mod held;
mod host;
pub mod ledger;
mod message;
mod model;
mod operations;
mod plan;
pub mod planted;
mod protocol;
mod publications;
mod server;
mod specials;
mod tally;
mod taste;
mod trouble;
mod walk;
mod watch;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use extras::Pace;
use world::{Tells, World};

pub use world::Counts;

/// Nanoseconds in which each message ends that does so by itself.
const LIFETIMES: u64 = 12_000_000_000;
/// Turns of the server's threads between two operations, at most.
const TURNS: u64 = 12;

/// A run that went wrong.
#[derive(Debug)]
pub struct Wrong {
    /// After so many operations.
    pub operation: u64,
    /// The check that did not hold.
    pub why: String,
    /// The streams of the run, and the server's last lines.
    pub story: Vec<String>,
}

/// A run that went well: what happened in it, and a hash of all that was sent to clients.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Counts of what happened.
    pub counts: Counts,
    /// Equal for equal runs.
    pub trace: u64,
}

/// Kind of world that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// One server.
    Server,
    /// Three or five servers of one cluster.
    Cluster,
}

impl Simulated {
    /// Runs a seed for so many operations of clients.
    ///
    /// # Errors
    /// Something did not hold.
    pub fn run(self, seed: u64, operations: u64) -> Result<Run, Box<Wrong>> {
        match self {
            Self::Server => run(seed, operations),
            Self::Cluster => cluster::run(seed, operations),
        }
    }

    /// Runs a seed once, and tells nothing of what went wrong but why.
    pub(crate) fn attempt(self, seed: u64, operations: u64) -> Result<Run, Box<Wrong>> {
        match self {
            Self::Server => attempt(seed, operations, Tells::Nothing),
            Self::Cluster => cluster::attempt(seed, operations, false),
        }
    }

    /// Runs a seed, and tells what happened at last, however it went.
    #[must_use]
    pub fn tell(self, seed: u64, operations: u64) -> Vec<String> {
        match self {
            Self::Server => tell(seed, operations),
            Self::Cluster => cluster::tell(seed, operations),
        }
    }

    /// The command that runs a seed again.
    #[must_use]
    pub fn again(self, seed: u64, operations: u64) -> String {
        match self {
            Self::Server => again(seed, operations),
            Self::Cluster => cluster::again(seed, operations),
        }
    }

    /// Word for it in the ledger.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Cluster => "cluster",
        }
    }
}

/// Runs a seed for so many operations of clients.
///
/// # Errors
/// Something did not hold.
pub fn run(seed: u64, operations: u64) -> Result<Run, Box<Wrong>> {
    // A run that goes wrong is repeated for its story, which costs as much as the run itself.
    attempt(seed, operations, Tells::Nothing).map_err(|wrong| match attempt(seed, operations, Tells::Last) {
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
    be_silent_of_planned_panics();
    let mut world = World::new(seed, Tells::Everything);
    // How it went stands in the last lines.
    let _ = catch_unwind(AssertUnwindSafe(|| story(&mut world, operations)));
    world.summary()
}

/// Keeps panics that are a part of the run from being printed.
fn be_silent_of_planned_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload_as_str() != Some(watch::PLANNED) {
                usual(info);
            }
        }));
    });
}

fn attempt(seed: u64, operations: u64, tells: Tells) -> Result<Run, Box<Wrong>> {
    be_silent_of_planned_panics();
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
    Err(Box::new(Wrong { operation: world.counts.operations, why, story: world.summary() }))
}

/// The command that runs a seed again.
#[must_use]
pub fn again(seed: u64, operations: u64) -> String {
    format!("cargo run --profile sim -p myelin-sim -- --repeat {seed} --operations {operations}")
}

fn story(world: &mut World, operations: u64) -> Result<(), String> {
    world.start()?;
    let pace = Pace::draw(world.seed());
    for _ in 0..operations {
        world.operate()?;
        let turns = world.rng.below(TURNS);
        world.turns(turns)?;
        if world.rng.below(pace.faults) == 0 {
            world.fault()?;
        }
        if world.rng.below(pace.checks) == 0 {
            world.check()?;
        }
    }
    // Nothing that was planned happens any more, and what ends by itself has ended.
    world.kill()?;
    world.go_on_for(LIFETIMES)?;
    world.drain()?;
    let before = world.digest()?;
    world.restart()?;
    world.check()?;
    let after = world.digest()?;
    if before == after {
        return Ok(());
    }
    let differs = before.lines().zip(after.lines()).find(|(one, other)| one != other);
    Err(format!("a restart changes something: {differs:?}"))
}
