//! The file that names this process to scripts.

use crate::os_error;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Writes `pid` in decimal into the file at `path`, replacing what was there; a new file is for its
/// owner alone.
///
/// Compat: no newline at the end, and the file stays when the server stops.
///
/// # Errors
/// Whatever the file system says, for the log: no such folder, no permission, no space.
pub(crate) fn write(path: &Path, pid: u32) -> Result<(), String> {
    write_file(path, pid).map_err(|error| format!("open {}: {}", path.display(), os_error::words(&error)))
}

fn write_file(path: &Path, pid: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(pid.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_holds_the_pid_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.pid");
        std::fs::write(&path, "a much longer text than a pid").unwrap();
        write(&path, 1234).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1234");
    }

    #[test]
    fn a_new_file_is_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.pid");
        write(&path, 1).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no/such.pid");
        let error = write(&path, 1).unwrap_err();
        assert_eq!(error, format!("open {}: no such file or directory", path.display()));
    }
}
