//! Which servers there are to play against: where their programs are found.
//!
//! The only place that decides whether one side of the comparison is skipped, and says why.

use crate::transcript::Side;
use std::env;
use std::ffi::OsStr;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release whose behaviour the transcripts record.
pub const REFERENCE_VERSION: &str = "v2.15.2";

/// A program that can be played against.
#[derive(Debug, Clone)]
pub struct Implementation {
    /// Which of the two it is.
    pub side: Side,
    /// Where its program is.
    pub program: PathBuf,
}

/// The reference server, from `NATS_SERVER`, `PATH`, `~/go/bin` or `$(go env GOPATH)/bin`.
///
/// # Errors
/// A sentence saying why it is skipped.
pub fn reference() -> Result<Implementation, String> {
    let found = env::var_os("NATS_SERVER").map(PathBuf::from).into_iter().chain(candidates());
    let mut seen = Vec::new();
    for program in found.filter(|path| path.is_file()) {
        match version(&program) {
            Some(version) if version == REFERENCE_VERSION => {
                return Ok(Implementation { side: Side::Reference, program });
            }
            other => seen.push(format!("{} is {}", program.display(), other.as_deref().unwrap_or("broken"))),
        }
    }
    let seen = if seen.is_empty() { String::new() } else { format!(" ({})", seen.join(", ")) };
    Err(format!("nats-server {REFERENCE_VERSION} was not found{seen}"))
}

/// The reference server's program. Says so on standard output when there is none.
pub fn reference_program() -> Option<PathBuf> {
    reference().inspect_err(|why| println!("skipped: {why}")).ok().map(|reference| reference.program)
}

/// Our server, from `MYELIN_SERVER`; without that, and under cargo, it is built anew, so that
/// nobody tests yesterday's program by accident.
///
/// # Errors
/// A sentence saying why it is skipped.
///
/// # Panics
/// When the server does not compile: then nothing was tested, which must not look like success.
pub fn myelin() -> Result<Implementation, String> {
    let given = env::var_os("MYELIN_SERVER").map(PathBuf::from);
    let program = match (given, env::var_os("CARGO")) {
        (Some(program), _) => program,
        (None, Some(cargo)) => build(&cargo),
        (None, None) => return Err("MYELIN_SERVER is not set and this is not cargo".into()),
    };
    Ok(Implementation { side: Side::Myelin, program })
}

/// Builds our server with `cargo`, into the target directory and with the profile of the running
/// program (`target/debug/deps/transcripts-…`), and returns its path.
fn build(cargo: &OsStr) -> PathBuf {
    let this = env::current_exe().expect("a running program has a path");
    let profile_folder = this.ancestors().nth(2).expect("cargo runs tests from target/PROFILE/deps");
    let target = profile_folder.parent().expect("a profile's folder is in the target directory");
    let profile = match profile_folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "myelin-server", "--profile", profile, "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .status();
    match built {
        Ok(status) if status.success() => profile_folder.join("myelin-server"),
        other => panic!("cannot build myelin-server: {other:?}"),
    }
}

fn candidates() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path: Vec<PathBuf> = env::split_paths(&path).collect();
    let in_home = env::home_dir().map(|home| home.join("go/bin"));
    in_path
        .into_iter()
        .chain(in_home)
        .chain(iter::once_with(go_path).flatten())
        .map(|folder| folder.join("nats-server"))
}

fn go_path() -> Option<PathBuf> {
    let said = Command::new("go").args(["env", "GOPATH"]).output().ok()?;
    let path = String::from_utf8(said.stdout).ok()?;
    (!path.trim().is_empty()).then(|| Path::new(path.trim()).join("bin"))
}

/// The version that a server program tells about itself (`nats-server: v2.15.2`).
fn version(program: &Path) -> Option<String> {
    let said = Command::new(program).arg("-v").output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    text.split_whitespace().last().map(str::to_owned)
}
