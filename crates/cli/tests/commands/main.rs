//! Drives `myelin bench` and the verbs around it against our server and, where it is installed, the
//! reference, with small counts, and compares every line with what the official `nats bench`
//! prints.
//!
//! `MYELIN_RECORD=1` records those lines anew in `shapes.txt`, with the official command and the
//! reference.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod api;
mod backup;
mod buckets;
mod cluster;
mod dlq;
mod hostile;
mod leaders;
mod paths;
mod pipes;
mod secure;
mod server;
#[path = "../servers/mod.rs"]
mod servers;
mod shapes;
mod steps;
mod streams;
mod top;
mod why;

use std::process::{Command, Output};
use std::time::Duration;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// `myelin` without anything from the environment that says where a server is.
fn myelin(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_myelin"));
    command.args(arguments).env("XDG_CONFIG_HOME", "/nowhere");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NATS_") {
            command.env_remove(name);
        }
    }
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{command:?}\n{stdout}{stderr}");
    stdout
}

/// Standard error of a command that must fail with exit code 1.
#[track_caller]
fn fail(command: &mut Command) -> String {
    fail_with(1, command)
}

/// Standard error of a command that must fail with this exit code.
#[track_caller]
fn fail_with(code: i32, command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}\n{stdout}{stderr}");
    stderr
}
