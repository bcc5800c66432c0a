//! A log file that becomes a backup when it grows too large.
//!
//! A backup's name is the file's with the moment behind it:
//! `server.log.2026.11.20.11.07.08.657241000`.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::line::{Format, Level, backup_stamp};
use super::writer::{Lines, Sink};
use crate::os_error::words;

#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Bytes in the file.
    size: u64,
    /// As configured; 0 for none.
    size_limit: u64,
    /// The limit now: raised when rotation fails, so that it is not tried for every line.
    next_limit: u64,
    max_files: usize,
    format: Format,
}

impl LogFile {
    pub(super) fn open(path: PathBuf, size_limit: u64, max_files: usize, format: Format) -> io::Result<Self> {
        let (file, size) = append_to(&path)?;
        let mut log = Self { path, file, size, size_limit, next_limit: size_limit, max_files, format };
        log.check_at_start()?;
        Ok(log)
    }

    /// Rotates a file that is too large when it is opened. Compat: the reference removes no backups
    /// here, nor ever after its file was opened again: it forgets how many to keep. We do not.
    fn check_at_start(&mut self) -> io::Result<()> {
        if self.size_limit == 0 || self.size <= self.size_limit {
            return Ok(());
        }
        self.append_line(Level::Info, "Rotating logfile...")?;
        self.rotate()
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        self.file.write_all(text)?;
        self.size += text.len() as u64;
        Ok(())
    }

    fn append_line(&mut self, level: Level, text: &str) -> io::Result<()> {
        let line = self.format.line(level, &text);
        self.append(line.as_bytes())
    }

    /// A line about a rotation. Compat: it ends in CR and LF.
    fn append_notice(&mut self, level: Level, text: &str) -> io::Result<()> {
        let mut line = self.format.line(level, &text);
        line.insert(line.len() - 1, '\r');
        self.append(line.as_bytes())
    }

    /// Makes a backup of the file and begins a new one. If that fails the old one is written on, up
    /// to twice the size.
    fn rotate(&mut self) -> io::Result<()> {
        let backup = with_suffix(&self.path, &backup_stamp());
        match fs::rename(&self.path, &backup).and_then(|()| append_to(&self.path)) {
            Ok((file, size)) => {
                (self.file, self.size, self.next_limit) = (file, size, self.size_limit);
                self.append_notice(Level::Info, &format!("Rotated log, backup saved as {backup:?}"))?;
                self.purge()
            }
            Err(error) => {
                self.next_limit = self.next_limit.saturating_mul(2);
                let text = format!(
                    "Unable to rotate the logfile ({}), will attempt next rotation at size {}",
                    words(&error),
                    self.next_limit
                );
                self.append_notice(Level::Error, &text)
            }
        }
    }

    /// Removes the oldest backups beyond the number to keep.
    fn purge(&mut self) -> io::Result<()> {
        if self.max_files == 0 {
            return Ok(());
        }
        let backups = backups_of(&self.path);
        let surplus = backups.len().saturating_sub(self.max_files - 1);
        for backup in &backups[..surplus] {
            let name = backup.file_name().unwrap_or_default();
            if let Err(error) = fs::remove_file(backup) {
                let error = format!("remove {}: {}", backup.display(), words(&error));
                let text = format!(
                    "Unable to remove backup log file {name:?} ({error}), will attempt next rotation"
                );
                return self.append_notice(Level::Error, &text);
            }
            self.append_notice(Level::Info, &format!("Purged log file {name:?}"))?;
        }
        Ok(())
    }
}

impl Sink for LogFile {
    fn write(&mut self, lines: &Lines) -> io::Result<()> {
        if self.size_limit == 0 {
            return self.append(lines.text());
        }
        for line in lines.iter() {
            self.append(line)?;
            if self.size > self.next_limit {
                self.rotate()?;
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<bool> {
        (self.file, self.size) = append_to(&self.path)?;
        self.check_at_start()?;
        Ok(true)
    }
}

/// Opens a file for appending, not readable by others if it is new; with its size.
fn append_to(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    let file = options.open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// The backups beside a log file, oldest first.
fn backups_of(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_backup =
        |entry: &str| entry.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')).is_some_and(is_stamp);
    let mut backups: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_backup))
        .map(|entry| entry.path())
        .collect();
    backups.sort_unstable();
    backups
}

/// Whether a text has the form that [`backup_stamp`] gives: nothing else is ever removed.
fn is_stamp(text: &str) -> bool {
    let parts = text.split('.').map(|part| (part.len(), part.bytes().all(|byte| byte.is_ascii_digit())));
    parts.eq([4, 2, 2, 2, 2, 2, 9].map(|length| (length, true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::LogClock;

    fn open(path: &Path, size_limit: u64, max_files: usize) -> LogFile {
        LogFile::open(path.to_owned(), size_limit, max_files, Format::new(LogClock::Off, 1, false)).unwrap()
    }

    fn lines(text: &str) -> Lines {
        let mut lines = Lines::default();
        text.split_inclusive('\n').for_each(|line| lines.push(line));
        lines
    }

    #[test]
    fn a_file_beyond_its_limit_becomes_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = open(&path, 200, 0);
        let line = "x".repeat(100) + "\n";
        log.write(&lines(&line.repeat(3))).unwrap();
        let backups = backups_of(&path);
        assert_eq!(backups.len(), 1);
        assert_eq!(fs::read_to_string(&backups[0]).unwrap(), line.repeat(2));
        let expected = format!("[1] [INF] Rotated log, backup saved as {:?}\r\n{line}", backups[0]);
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn only_so_many_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let others = ["log.1", "log.2026.1.02.03.04.05.000000000", "blog.2020.01.02.03.04.05.000000000"];
        for other in others {
            fs::write(folder.path().join(other), "mine").unwrap();
        }
        let oldest = folder.path().join("log.2020.01.02.03.04.05.000000000");
        fs::write(&oldest, "old").unwrap();
        let mut log = open(&path, 300, 3);
        for _ in 0..4 {
            log.write(&lines(&("x".repeat(301) + "\n"))).unwrap();
        }
        assert_eq!(backups_of(&path).len(), 2);
        assert!(!oldest.exists());
        assert!(fs::read_to_string(&path).unwrap().contains("[INF] Purged log file \"log.20"));
        assert!(others.iter().all(|other| folder.path().join(other).exists()));
    }

    #[test]
    fn a_file_that_was_too_large_before_is_rotated_when_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "x".repeat(300) + "\n").unwrap();
        let mut log = open(&path, 200, 0);
        let backups = backups_of(&path);
        assert!(fs::read_to_string(&backups[0]).unwrap().ends_with("x\n[1] [INF] Rotating logfile...\n"));
        fs::write(&path, "x".repeat(300) + "\n").unwrap();
        log.reopen().unwrap();
        assert_eq!(backups_of(&path).len(), 2);
    }

    #[test]
    fn a_rotation_that_fails_is_put_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = open(&path, 200, 0);
        // The file is gone, so that it cannot be renamed; the open handle goes on.
        fs::remove_file(&path).unwrap();
        log.write(&lines(&("x".repeat(250) + "\n"))).unwrap();
        assert_eq!(log.next_limit, 400);
        let size = log.size;
        assert!(size > 251, "the failure is logged");
        log.write(&lines("y\n")).unwrap();
        assert_eq!(log.size, size + 2);
    }

    #[test]
    fn a_new_file_is_appended_to_and_closed_to_others() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        open(&path, 0, 0).write(&lines("1\n")).unwrap();
        open(&path, 0, 0).write(&lines("2\n")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o007, 0);
    }
}
