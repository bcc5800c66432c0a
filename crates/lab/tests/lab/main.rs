//! Drives the built `myelin-lab` against real servers: the reference where it is installed, else
//! ours.
//!
//! Small counts: this proves that rows, rounds, controls and reports work together, not how fast
//! anything is.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod compare;
mod consumers;
#[path = "../../../cli/tests/servers/mod.rs"]
mod servers;
mod store;
mod streams;
mod table;

use std::process::{Command, Output};

/// `myelin-lab` with these arguments.
fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_myelin-lab"));
    command.args(arguments);
    command
}

fn stdout(output: &Output) -> String {
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
