//! `myelin-sim`: runs seeds, and says which of them went wrong.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use myelin_sim::ledger::{self, Entry};
use myelin_sim::planted;
use myelin_sim::{Counts, Simulated};

/// Allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs a server of the shipped code on virtual time, with faults, seed after seed.
#[derive(Debug, Parser)]
#[command(name = "myelin-sim")]
struct Args {
    /// Runs clusters of three and five servers, instead of one server.
    #[arg(long)]
    cluster: bool,
    /// Has disks of clusters lose what was confirmed, too. What that finds is open.
    #[arg(long)]
    damage: bool,
    /// The first seed. Without it, one that nobody has chosen.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds to run.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Runs seeds for so many seconds, however many they are.
    #[arg(long)]
    seconds: Option<u64>,
    /// Operations of clients in each run.
    #[arg(long, default_value_t = 2_000)]
    operations: u64,
    /// Runs one seed again, and prints its whole story if it goes wrong.
    #[arg(long, conflicts_with_all = ["seed", "seeds", "seconds"])]
    repeat: Option<u64>,
    /// With `--repeat`: prints the story of a seed that goes well, too.
    #[arg(long, requires = "repeat")]
    tell: bool,
    /// Adds a line about this run to a file, as docs/simulation/ledger.tsv.
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// Ends with the first seed that goes wrong.
    #[arg(long)]
    stop: bool,
    /// Wakes the planted bug with this number (built with `--cfg planted`).
    #[arg(long)]
    planted: Option<u32>,
    /// Looks for each planted bug, for 10 minutes of the processor at most, and prints a row of a
    /// table for it. Of those that are named with `--planted`, if one is.
    #[arg(long)]
    find: bool,
}

/// Lines of a story that are printed, unless one seed is run again.
const LINES: usize = 60;

impl Args {
    fn first(&self) -> u64 {
        self.repeat.or(self.seed).unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            now.as_secs() << 20
        })
    }

    fn tell(&self, seed: u64, wrong: &myelin_sim::Wrong) {
        println!("\nseed {seed}: after {} operations: {}", wrong.operation, wrong.why);
        let lines = if self.repeat.is_some() { usize::MAX } else { LINES };
        let story = &wrong.story;
        story[story.len().saturating_sub(lines)..].iter().for_each(|line| println!("    {line}"));
        println!("to repeat it: {}", self.world().again(seed, self.operations));
    }

    fn world(&self) -> Simulated {
        if self.cluster { Simulated::Cluster } else { Simulated::Server }
    }
}

/// How long a planted bug is looked for.
const LONGEST: Duration = Duration::from_secs(600);

fn find(args: &Args) -> ExitCode {
    let first = args.seed.unwrap_or(0);
    let mut missed = 0;
    let world = args.world();
    let wanted = |number: u32| args.planted.is_none_or(|planted| planted == number);
    for bug in planted::bugs_of(world).iter().filter(|bug| wanted(bug.number)) {
        let Some(found) = planted::find(world, bug.number, first, args.operations, LONGEST) else {
            eprintln!("no bug is planted in this build: RUSTFLAGS='--cfg planted'");
            return ExitCode::FAILURE;
        };
        let seconds = found.took.as_secs_f64();
        let how = match found.seed {
            Some((seed, why)) => format!("{seed} | {seconds:.1} | {why}"),
            None => {
                missed += 1;
                format!("**none of {}** | {seconds:.0} |", found.seeds)
            }
        };
        println!("| {} | {} | {} | {how} |", bug.number, bug.what, bug.like);
    }
    println!("{missed} were not found");
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.damage {
        myelin_sim::cluster::damage_disks();
    }
    if args.find {
        return find(&args);
    }
    if let Some(number) = args.planted
        && !myelin_stdx::planted::wake(number)
    {
        eprintln!("no bug is planted in this build: RUSTFLAGS='--cfg planted'");
        return ExitCode::FAILURE;
    }
    let first = args.first();
    if args.tell {
        args.world().tell(first, args.operations).iter().for_each(|line| println!("{line}"));
    }
    println!("seeds from {first} on, {} operations each", args.operations);
    let began = Instant::now();
    let goes_on = |done: u64| match args.seconds {
        Some(seconds) => began.elapsed() < Duration::from_secs(seconds),
        None => done < args.seeds,
    };
    let (mut done, mut failed) = (0, 0);
    let mut totals = Counts::default();
    while goes_on(done) && (failed == 0 || !args.stop) {
        let seed = first.wrapping_add(done);
        match args.world().run(seed, args.operations) {
            Ok(run) => {
                totals.add(run.counts);
                if args.repeat.is_some() {
                    println!("it goes well; its trace is {:016x}", run.trace);
                }
            }
            Err(wrong) => {
                failed += 1;
                args.tell(seed, &wrong);
            }
        }
        done += 1;
    }
    println!("{done} seeds in {:.1} s, {failed} went wrong: {totals:?}", began.elapsed().as_secs_f64());
    if let Some(path) = &args.ledger
        && let Err(error) =
            ledger::add(path, &Entry { world: args.world(), first, seeds: done, failed, counts: totals })
    {
        eprintln!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
