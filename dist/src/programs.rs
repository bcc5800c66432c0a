//! The programs: built with no path of this machine in them, then parted from their symbols.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::DistError;
use crate::tool;
use crate::version::Version;

/// Programs that are shipped.
const NAMES: [&str; 2] = ["myelin", "myelin-server"];

/// Path of the sources as debuggers and panics show it.
const SOURCES: &str = "/usr/src/myelin";

/// Path of what other people wrote.
const REGISTRY: &str = "/usr/src/cargo";

/// A program without symbols, and its symbols.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) stripped: Vec<u8>,
    /// For debuggers, which find `NAME.debug` beside the program or below `/usr/lib/debug`.
    pub(crate) symbols: Vec<u8>,
}

/// Builds the programs in a profile and answers their folder.
pub(crate) fn build(
    root: &Path,
    target: &Path,
    profile: &str,
    version: &Version,
) -> Result<PathBuf, DistError> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    // The later of two that match wins.
    let mapped = [(cargo_home.as_path(), REGISTRY), (root, SOURCES), (target, "/usr/src/myelin/target")];
    let flags = mapped.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let c_flags = mapped.map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    tool::run(
        tool::cargo()
            .args(["build", "--locked", "--profile", profile, "-p", "myelin-server", "-p", "myelin-cli"])
            .arg("--target-dir")
            .arg(target)
            .current_dir(root)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
            .env("CFLAGS", c_flags.join(" "))
            .env("SOURCE_DATE_EPOCH", version.seconds().to_string())
            .env("MYELIN_VERSION", version.text()),
    )?;
    Ok(target.join(profile))
}

/// Takes the programs of a folder apart.
pub(crate) fn parted(folder: &Path) -> Result<Vec<Program>, DistError> {
    NAMES.into_iter().map(|name| part(&folder.join(name), name)).collect()
}

fn part(program: &Path, name: &'static str) -> Result<Program, DistError> {
    let folder = tempfile::tempdir().map_err(DistError::io(Path::new("a temporary folder")))?;
    // The name of this file, and its checksum, go into the program.
    let symbols = folder.path().join(format!("{name}.debug"));
    let stripped = folder.path().join(name);
    tool::run(Command::new("objcopy").arg("--only-keep-debug").args([program, &symbols]))?;
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&symbols);
    tool::run(Command::new("objcopy").arg("--strip-all").arg(link).args([program, &stripped]))?;
    let read = |path: &Path| fs::read(path).map_err(DistError::io(path));
    Ok(Program { name, stripped: read(&stripped)?, symbols: read(&symbols)? })
}
