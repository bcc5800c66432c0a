//! Instructions, as `valgrind --tool=callgrind` counts them.
//!
//! The program runs itself twice for each row, with a number of messages and with twice as many:
//! the difference is what the messages cost, without the start.

use std::io;
use std::path::Path;
use std::process::Command;

/// Whether there is a valgrind on this machine.
pub(crate) fn is_here() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Instructions per message of a row.
///
/// # Errors
/// The row failed, or valgrind said something else than it does.
pub(crate) fn per_message(row: &str, messages: usize) -> io::Result<f64> {
    let folder = tempfile::tempdir()?;
    let once = total(row, messages, folder.path())?;
    let twice = total(row, 2 * messages, folder.path())?;
    Ok((twice as f64 - once as f64) / messages as f64)
}

fn total(row: &str, messages: usize, folder: &Path) -> io::Result<u64> {
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
        .arg(std::env::current_exe()?)
        .args(["--run", row, "--messages", &messages.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(io::Error::other(format!("row {row} failed:\n{said}")));
    }
    collected(&said)
        .ok_or_else(|| io::Error::other(format!("valgrind does not say what it counted:\n{said}")))
}

/// Number in the line `==PID== Collected : N`.
fn collected(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::collected;

    #[test]
    fn the_count_is_read() {
        let said = "==7== Events    : Ir\n==7== Collected : 812345\n==7== \n==7== I   refs:      812,345\n";
        assert_eq!(collected(said), Some(812_345));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }
}
