//! `myelin-elections`: how long a stream with three replicas is without a leader when its leader
//! ends.

use clap::Parser;
use myelin_cluster_test::elections::{Ending, elections};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// End the leader of a stream again and again, and print how long nobody acknowledged.
#[derive(Debug, Parser)]
#[command(name = "myelin-elections")]
struct Flags {
    /// Programs of the servers, one or more, each tried with each ending.
    #[arg(long, required = true)]
    program: Vec<PathBuf>,
    /// How often each.
    #[arg(long, default_value_t = 30)]
    times: usize,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let endings = [(Ending::Killed, "SIGKILL"), (Ending::Silent, "SIGSTOP"), (Ending::Stopped, "SIGTERM")];
    for (ending, name) in endings {
        for program in &flags.program {
            match elections(program, ending, flags.times, 1) {
                Ok(gaps) => print(name, &program.display().to_string(), &gaps),
                Err(why) => {
                    eprintln!("{name} {}: {why}", program.display());
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// One row: the median, the ninth tenth, the ninety-ninth hundredth and the longest.
fn print(ending: &str, program: &str, gaps: &[Duration]) {
    let at = |hundredth: usize| {
        let at = (gaps.len() * hundredth).div_ceil(100).saturating_sub(1);
        gaps.get(at).map_or(0, Duration::as_millis)
    };
    println!(
        "{ending} {program}: p50 {} ms, p90 {} ms, p99 {} ms, longest {} ms, {} times",
        at(50),
        at(90),
        at(99),
        at(100),
        gaps.len()
    );
}
