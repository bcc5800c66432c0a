//! `myelin-cluster-test`: lets clusters live random lives and says what went wrong.

use clap::Parser;
use myelin_cluster_test::random::{RandomPlan, Shape, live};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Start clusters, trouble them, and compare what clients get with a model.
#[derive(Debug, Parser)]
#[command(name = "myelin-cluster-test")]
struct Flags {
    /// Program of a server; several are used in turns.
    #[arg(long, required = true)]
    program: Vec<PathBuf>,
    /// How many servers.
    #[arg(long, default_value_t = 3)]
    servers: usize,
    /// Not one cluster, but several that are leaf nodes of each other.
    #[arg(long)]
    leafs: bool,
    /// Clusters that are joined by gateways, and leaf nodes of them.
    #[arg(long)]
    gateways: bool,
    /// Modes of compression, of which each server has one.
    #[arg(long, value_delimiter = ',', default_value = "accept,off,s2_fast,s2_better,s2_auto")]
    modes: Vec<String>,
    /// Nothing at all may come twice, not even while links come up: for clusters of Myelin.
    #[arg(long)]
    strict: bool,
    /// For how long, with a new seed every half minute.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The seed of another run, to make its choices again.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let end = Instant::now() + Duration::from_secs(flags.seconds);
    while Instant::now() < end {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = flags.seed.unwrap_or(now.as_nanos() as u64 ^ u64::from(std::process::id()));
        println!("seed {seed}");
        let left = end.saturating_duration_since(Instant::now());
        let plan = RandomPlan {
            programs: flags.program.clone(),
            servers: flags.servers,
            shape: match (flags.gateways, flags.leafs) {
                (true, _) => Shape::Gateways,
                (false, true) => Shape::Leafs,
                (false, false) => Shape::Cluster,
            },
            modes: flags.modes.clone(),
            is_strict: flags.strict,
            seed,
            duration: if flags.seed.is_some() { left } else { left.min(Duration::from_secs(30)) },
            rounds: u64::MAX,
        };
        match live(&plan) {
            Ok(summary) => println!("{summary}"),
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
