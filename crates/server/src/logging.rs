//! The server's log: lines in nats-server's format, to standard error or a file.
//!
//! Who logs never waits for a disk or a pipe: a line is formatted, put into a bounded buffer and written by a
//! thread of its own. When the buffer is full, lines are dropped, counted, and the loss is itself logged.
//! Nothing here panics or ends the process; a caller that is about to exit calls [`Logger::flush`] first.

mod file;
mod line;
mod writer;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use file::LogFile;
use line::{Format, Level};
use writer::{Sink, Writer};

pub(crate) use line::Clock;
pub(crate) use writer::Losses;

/// How and where to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Where to.
    pub destination: Destination,
    /// What moment each line begins with.
    pub clock: Clock,
    /// Whether debug lines are written.
    pub debug: bool,
    /// Whether trace lines are written.
    pub trace: bool,
}

/// Where a log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Standard error; labels are coloured when it is a terminal.
    Stderr,
    /// A file, appended to. It is replaced when it grows beyond a limit.
    File {
        /// Its path; backups are put beside it.
        path: PathBuf,
        /// Bytes after which it becomes a backup; 0 for never.
        size_limit: u64,
        /// How many files to keep, the current one included; 0 for all.
        max_files: usize,
    },
}

/// Takes lines from any thread. Put it into an `Arc` and hand it on.
#[derive(Debug)]
pub(crate) struct Logger {
    format: Format,
    debug: bool,
    trace: bool,
    writer: Writer,
}

impl Logger {
    /// Opens the destination and starts the writing thread.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread not started.
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        let colour = config.destination == Destination::Stderr && io::stderr().is_terminal();
        let format = Format::new(config.clock, std::process::id(), colour);
        let sink: Box<dyn Sink> = match &config.destination {
            Destination::Stderr => Box::new(Stderr),
            Destination::File { path, size_limit, max_files } => {
                Box::new(LogFile::open(path.clone(), *size_limit, *max_files, format.clone())?)
            }
        };
        Self::over(sink, format, config)
    }

    fn over(sink: Box<dyn Sink>, format: Format, config: &Config) -> io::Result<Self> {
        Ok(Self {
            writer: Writer::start(sink, format.clone())?,
            format,
            debug: config.debug,
            trace: config.trace,
        })
    }

    /// Whether debug lines are written: ask before preparing an expensive one.
    #[must_use]
    pub(crate) fn debug_enabled(&self) -> bool {
        self.debug
    }

    /// Whether trace lines are written: ask before preparing an expensive one.
    #[must_use]
    pub(crate) fn trace_enabled(&self) -> bool {
        self.trace
    }

    /// `[INF]`: something happened that operators expect to read.
    pub(crate) fn info(&self, text: impl Display) {
        self.write(Level::Info, &text);
    }

    /// `[WRN]`: something that may need attention.
    pub(crate) fn warn(&self, text: impl Display) {
        self.write(Level::Warn, &text);
    }

    /// `[ERR]`: something went wrong and the server goes on.
    pub(crate) fn error(&self, text: impl Display) {
        self.write(Level::Error, &text);
    }

    /// `[FTL]`: the server cannot go on. It is written before this returns; ending is the caller's part.
    pub(crate) fn fatal(&self, text: impl Display) {
        self.write(Level::Fatal, &text);
        self.flush();
    }

    /// `[DBG]`, when enabled; otherwise `text` is not even formatted.
    pub(crate) fn debug(&self, text: impl Display) {
        if self.debug_enabled() {
            self.write(Level::Debug, &text);
        }
    }

    /// `[TRC]`, when enabled; otherwise `text` is not even formatted.
    pub(crate) fn trace(&self, text: impl Display) {
        if self.trace_enabled() {
            self.write(Level::Trace, &text);
        }
    }

    /// Opens the log file again, so that it can be moved away first, and logs that it did.
    pub(crate) fn reopen(&self) {
        self.writer.reopen();
    }

    /// Waits until all lines so far are written, at most a second. Returns whether they are.
    pub(crate) fn flush(&self) -> bool {
        self.writer.flush()
    }

    /// What could not be written since the start.
    #[must_use]
    pub(crate) fn losses(&self) -> Losses {
        self.writer.losses()
    }

    fn write(&self, level: Level, text: &dyn Display) {
        self.writer.append(&self.format.line(level, text));
    }
}

struct Stderr;

impl Sink for Stderr {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        io::stderr().write_all(lines)
    }

    fn reopen(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn to_file(path: &Path) -> Config {
        let destination = Destination::File { path: path.to_owned(), size_limit: 0, max_files: 0 };
        Config { destination, clock: Clock::Off, debug: false, trace: false }
    }

    #[test]
    fn lines_of_enabled_levels_reach_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Logger::open(&Config { debug: true, trace: true, ..to_file(&path) }).unwrap();
        log.info(format_args!("one {}", 1));
        log.debug("two");
        log.trace("three");
        log.warn("four");
        log.error("five");
        assert!(log.flush());
        let pid = std::process::id();
        let expected: String = ["INF] one 1", "DBG] two", "TRC] three", "WRN] four", "ERR] five"]
            .iter()
            .map(|line| format!("[{pid}] [{line}\n"))
            .collect();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn a_disabled_line_is_not_formatted() {
        struct Explosive;
        impl Display for Explosive {
            fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                panic!("formatted")
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let log = Logger::open(&to_file(&folder.path().join("log"))).unwrap();
        log.debug(Explosive);
        log.trace(Explosive);
        assert!(log.flush());
    }

    #[test]
    fn a_fatal_line_is_written_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Logger::open(&to_file(&path)).unwrap();
        log.fatal("over");
        assert!(fs::read_to_string(&path).unwrap().ends_with("[FTL] over\n"));
    }

    #[test]
    fn a_moved_file_is_replaced_on_reopen() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
        let log = Logger::open(&to_file(&path)).unwrap();
        log.info("before");
        assert!(log.flush());
        fs::rename(&path, &moved).unwrap();
        log.reopen();
        assert!(log.flush());
        log.info("after");
        assert!(log.flush());
        assert!(fs::read_to_string(&moved).unwrap().ends_with("before\n"));
        let lines = fs::read_to_string(&path).unwrap();
        assert!(lines.contains("[INF] File log re-opened\n") && lines.ends_with("after\n"), "{lines}");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = Logger::open(&to_file(&folder.path().join("no/such/log"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_full_disk_is_counted() {
        let log = Logger::open(&to_file(Path::new("/dev/full"))).unwrap();
        log.info("lost");
        assert!(log.flush());
        assert_eq!(log.losses().failed_writes, 1);
        log.info("lost too");
        assert!(log.flush());
        assert_eq!(log.losses().failed_writes, 2);
    }

    #[test]
    fn dropping_the_logger_writes_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Logger::open(&to_file(&path)).unwrap();
        log.info("last");
        drop(log);
        assert!(fs::read_to_string(&path).unwrap().ends_with("last\n"));
    }
}
