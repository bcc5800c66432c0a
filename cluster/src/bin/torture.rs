//! `myelin-torture`: three servers that share JetStream, troubled under load, or replaced by
//! another version; says what was lost.

use clap::Parser;
use myelin_cluster_test::torture::{TorturePlan, UpgradePlan, torture, upgrade};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Trouble three servers that share JetStream, and count what they have promised and do not keep.
#[derive(Debug, Parser)]
#[command(name = "myelin-torture")]
struct Flags {
    /// Program of the servers.
    #[arg(long)]
    program: PathBuf,
    /// For how long the load runs.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds between two troubles.
    #[arg(long, default_value_t = 20)]
    every: u64,
    /// Kill all servers together at times, too.
    #[arg(long)]
    all: bool,
    /// Five servers, whose streams get more replicas, fewer and others all the time.
    #[arg(long)]
    members: bool,
    /// Begin with this program, and replace it by `--program` and back, server by server.
    #[arg(long)]
    upgrade_from: Option<PathBuf>,
    /// With `--upgrade-from`: how often all are replaced.
    #[arg(long, default_value_t = 2)]
    rounds: u64,
    /// With `--upgrade-from`: one server without a cluster.
    #[arg(long)]
    alone: bool,
    /// The seed of another run, to make its choices again.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = flags.seed.unwrap_or(now.as_nanos() as u64 ^ u64::from(std::process::id()));
    println!("seed {seed}");
    let kept = match flags.upgrade_from {
        Some(before) => upgrade(&UpgradePlan {
            before,
            after: flags.program,
            rounds: flags.rounds,
            seed,
            is_alone: flags.alone,
        }),
        None => torture(&plan_of(flags, seed)),
    };
    match kept {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn plan_of(flags: Flags, seed: u64) -> TorturePlan {
    TorturePlan {
        program: flags.program,
        duration: Duration::from_secs(flags.seconds),
        interval: Duration::from_secs(flags.every),
        seed,
        kills_all: flags.all,
        changes_members: flags.members,
    }
}
