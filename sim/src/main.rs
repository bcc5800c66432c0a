//! `myelin-sim`: runs seeds, and says which of them went wrong.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;

/// Runs a server of the shipped code on virtual time, with faults, seed after seed.
#[derive(Debug, Parser)]
#[command(name = "myelin-sim")]
struct Args {
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
}

fn main() -> ExitCode {
    let args = Args::parse();
    let first = args.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_secs() << 20
    });
    println!("seeds from {first} on, {} operations each", args.operations);
    let began = Instant::now();
    let goes_on = |done: u64| match args.seconds {
        Some(seconds) => began.elapsed() < Duration::from_secs(seconds),
        None => done < args.seeds,
    };
    let (mut done, mut failed) = (0, 0);
    let mut totals = myelin_sim::Counts::default();
    while goes_on(done) {
        let seed = first.wrapping_add(done);
        match myelin_sim::run(seed, args.operations) {
            Ok(run) => totals.add(run.counts),
            Err(wrong) => {
                failed += 1;
                println!("\nafter {} operations: {}", wrong.operation, wrong.why);
                wrong.story.iter().for_each(|line| println!("    {line}"));
                println!("to repeat it: myelin-sim --seed {seed} --operations {}", args.operations);
            }
        }
        done += 1;
    }
    println!("{done} seeds in {:.1} s, {failed} went wrong: {totals:?}", began.elapsed().as_secs_f64());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
