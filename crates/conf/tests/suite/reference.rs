//! Runs the real nats-server, for tests that compare with it.

use std::path::PathBuf;
use std::process::{Command, Output};

pub(crate) use myelin_compat::implementation::reference_program as find;

/// Runs it in this crate's directory and without the caller's variables.
pub(crate) fn run(program: &PathBuf, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
    command.output().expect("nats-server starts")
}
