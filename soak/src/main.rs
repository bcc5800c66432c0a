//! `myelin-soak`: loads a server for some minutes and says what grew.

use clap::Parser;
use myelin_soak::{Plan, fresh_seed, run};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Load a server with everything at once, and fail if anything grows that should not.
#[derive(Debug, Parser)]
#[command(name = "myelin-soak")]
struct Flags {
    /// Duration, in minutes.
    #[arg(default_value_t = 5.0)]
    minutes: f64,
    /// The server's program; without it the `myelin-server` beside this one.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Connections a second that come and go.
    #[arg(long, default_value_t = 50)]
    visitors: u32,
    /// Messages a second for each stream with a limit.
    #[arg(long, default_value_t = 300)]
    rate: u32,
    /// The seed of another run, to make its choices again.
    #[arg(long)]
    seed: Option<u64>,
    /// Only loads whose names contain this, to find out who it was.
    #[arg(long)]
    only: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    let plan = Plan {
        server: flags.server.unwrap_or_else(beside),
        duration: Duration::from_secs_f64(flags.minutes * 60.0),
        visitors: flags.visitors,
        rate: flags.rate,
        seed: flags.seed.unwrap_or_else(fresh_seed),
        only: flags.only,
    };
    // Interrupted, it drops what it has: the server ends, and its folder goes.
    let ended = tokio::select! {
        ended = run(&plan, |line| println!("{line}")) => ended,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    match ended {
        Ok(verdict) => {
            print!("{verdict}");
            if verdict.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The server that was built with this program.
fn beside() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    this.with_file_name("myelin-server")
}
