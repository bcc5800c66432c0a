//! Programs that are run: cargo, git, binutils.

use std::process::{Command, Stdio};

use crate::error::DistError;

/// Runs a program and takes what it prints. What it complains about goes to the terminal.
pub(crate) fn output(command: &mut Command) -> Result<String, DistError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stderr(Stdio::inherit()).output().map_err(|error| DistError::Tool(name, error))?;
    if !done.status.success() {
        return Err(DistError::Failed(format!("{command:?}, {}", done.status)));
    }
    String::from_utf8(done.stdout).map_err(|_| DistError::Unexpected(format!("{command:?}: no text")))
}

/// Runs a program whose output is for whoever watches.
pub(crate) fn run(command: &mut Command) -> Result<(), DistError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| DistError::Tool(name, error))?;
    if status.success() { Ok(()) } else { Err(DistError::Failed(format!("{command:?}, {status}"))) }
}

/// Cargo: the one that runs this program, else the one on the path.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
