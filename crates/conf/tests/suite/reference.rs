//! Finds the real nats-server and runs it, for tests that compare with it.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The reference program on PATH, in `~/go/bin` or in Go's own place. Says so when there is none.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.extend(std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin")));
    directories.extend(go_path().map(|gopath| gopath.join("bin")));
    let found = directories.into_iter().map(|dir| dir.join("nats-server")).find(|program| program.is_file());
    let found = found.filter(is_reference_version);
    if found.is_none() {
        println!("skipped: no nats-server 2.15.2 found");
    }
    found
}

fn go_path() -> Option<PathBuf> {
    let output = Command::new("go").args(["env", "GOPATH"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (!text.trim().is_empty()).then(|| PathBuf::from(text.trim()))
}

/// Another program of that name (Myelin itself, say) proves nothing.
fn is_reference_version(program: &PathBuf) -> bool {
    let output = Command::new(program).arg("-v").output();
    output.is_ok_and(|output| output.stdout == b"nats-server: v2.15.2\n")
}

/// Runs it in this crate's directory and without the caller's variables.
pub(crate) fn run(program: &PathBuf, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
    command.output().expect("nats-server starts")
}
