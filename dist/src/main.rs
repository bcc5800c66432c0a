//! `myelin-dist`: the program behind `just dist`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use myelin_dist::{DistError, PackageOrder, Programs, make, verify};

/// Builds what is shipped, from the commit that is checked out.
#[derive(Debug, Parser)]
#[command(name = "myelin-dist")]
struct DistArguments {
    /// Folder that receives the packages, and loses what is in it [default: target/packages]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// Pack the programs of this folder, as they are, rather than build them
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Profile of Cargo.toml that programs are built in; quick is for trying
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Build all once more from a clone in another folder, and compare
    #[arg(long, conflicts_with = "programs")]
    verify: bool,
}

fn main() -> ExitCode {
    match run(&DistArguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("myelin-dist: error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &DistArguments) -> Result<(), DistError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let into = arguments.into.clone().unwrap_or_else(|| target.join("packages"));
    let programs = arguments.programs.as_deref().map_or(Programs::Built(&arguments.profile), Programs::Given);
    let order = PackageOrder { root, target: &target, programs, into: &into, is_quick: false };
    for path in make(&order)? {
        println!("{}", path.display());
    }
    if arguments.verify {
        verify(root, &target, &arguments.profile, &into)?;
        println!("a second build is the same, bit for bit");
    }
    Ok(())
}
