//! `myelin backup` and `restore`: all streams of an account, with their consumers, in a directory,
//! while the servers are at work.
//!
//! Owns exit codes: 0: all is well, 1: a stream is not, 2: it could not begin or go on.
//! `arguments` is what is asked, `contents` knows archives, `place` the directory, `manifest` what
//! a whole backup says of itself, `snapshot` how streams travel, `workers` does several at once;
//! `create`, `check`, `restore` and `compare` are what is done with them.

pub(crate) mod arguments;
mod check;
mod compare;
mod contents;
mod create;
mod error;
mod manifest;
mod place;
mod progress;
mod restore;
mod snapshot;
mod workers;

use std::process::ExitCode;

use crate::backup::arguments::{BackupArguments, RestoreArguments};
use crate::backup::error::BackupError;
use crate::screen::plain;

/// Exit code of a command that could not begin or go on.
const COULD_NOT: u8 = 2;

/// Backs up, or checks a backup.
pub(crate) fn backup(arguments: &BackupArguments) -> ExitCode {
    ended(if arguments.check { check::run(arguments) } else { create::run(arguments) })
}

/// Restores a backup.
pub(crate) fn restore(arguments: &RestoreArguments) -> ExitCode {
    ended(restore::run(arguments))
}

/// The exit code: whether all is well.
fn ended(done: Result<bool, BackupError>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("myelin: error: {}", plain(&error.to_string()));
            ExitCode::from(COULD_NOT)
        }
    }
}
