//! The server's log: lines in nats-server's format, to standard error, a file or a syslog daemon.
//!
//! Who logs does not wait for a disk or a pipe: a line is formatted, put into a bounded buffer and
//! written by a thread of its own. When the buffer is full lines are lost and counted, and the loss
//! is itself logged. Nothing here panics or ends the process; a caller that is about to exit calls
//! [`Logger::flush`] first.

mod file;
mod line;
mod recent;
mod syslog;
mod writer;

use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::os_error::words;
use file::LogFile;
use line::{Format, Level};
use myelin_stdx::sync::{read_lock, write_lock};
use myelin_wire::error::Quoted;
use recent::RecentLines;
use writer::{Lines, LogWriter, Sink};

pub(crate) use line::LogClock;
pub(crate) use recent::RecentLine;
pub(crate) use writer::Losses;

/// How and where to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Where to.
    pub destination: Destination,
    /// Time with which each line begins.
    pub clock: LogClock,
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
    /// A syslog daemon. Its records have a form of their own: no clock, no colours.
    Syslog(Syslog),
}

/// Which syslog daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Syslog {
    /// The one of this machine (`syslog: true`).
    Local,
    /// The one at a URL, `udp://host:port`, `tcp://host:port` or `unix:///path` (`remote_syslog`).
    Remote(String),
}

/// Why a log cannot be opened, in the reference's words.
#[derive(Debug)]
pub(crate) enum LogOpenError {
    /// The file.
    File(PathBuf, io::Error),
    /// No syslog daemon answers.
    Connect(String),
    /// A URL of an unknown kind.
    Network(String),
    /// A URL that is none.
    Url(String),
    /// The writing thread.
    Thread(io::Error),
}

impl Display for LogOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => {
                write!(f, "error opening file: open {}: {}", path.display(), words(error))
            }
            Self::Connect(error) => write!(f, "error connecting to syslog: {}", Quoted(error.as_bytes())),
            Self::Network(scheme) => write!(f, "error invalid network type: {}", Quoted(scheme.as_bytes())),
            Self::Url(error) => f.write_str(error),
            Self::Thread(error) => write!(f, "error starting the log: {}", words(error)),
        }
    }
}

impl std::error::Error for LogOpenError {}

/// Takes lines from any thread. Put it into an `Arc` and hand it on.
#[derive(Debug)]
pub(crate) struct Logger {
    /// Held while a line is formatted and queued, so that none gets the form of another
    /// destination.
    format: RwLock<Format>,
    debug: AtomicBool,
    trace: AtomicBool,
    recent: RecentLines,
    writer: LogWriter,
}

impl Logger {
    /// Opens the destination and starts the writing thread.
    ///
    /// # Errors
    /// When the file cannot be opened, no syslog daemon answers or the thread cannot be started.
    pub(crate) fn open(config: &Config) -> Result<Self, LogOpenError> {
        let (sink, format) = destination(config)?;
        Ok(Self {
            writer: LogWriter::start(sink, format.clone()).map_err(LogOpenError::Thread)?,
            format: RwLock::new(format),
            debug: AtomicBool::new(config.debug),
            trace: AtomicBool::new(config.trace),
            recent: RecentLines::default(),
        })
    }

    /// Logs as `config` says from now on; lines so far still go where they were to go.
    ///
    /// # Errors
    /// When the new destination cannot be opened: then nothing has changed.
    pub(crate) fn reconfigure(&self, config: &Config) -> Result<(), LogOpenError> {
        let (sink, format) = destination(config)?;
        let mut held = write_lock(&self.format);
        self.writer.replace(sink, format.clone());
        *held = format;
        self.debug.store(config.debug, Relaxed);
        self.trace.store(config.trace, Relaxed);
        Ok(())
    }

    /// Whether debug lines are written: ask before preparing an expensive one.
    #[must_use]
    pub(crate) fn debug_enabled(&self) -> bool {
        self.debug.load(Relaxed)
    }

    /// Whether trace lines are written: ask before preparing an expensive one.
    #[must_use]
    pub(crate) fn trace_enabled(&self) -> bool {
        self.trace.load(Relaxed)
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

    /// `[FTL]`: the server cannot go on. It is written before this returns; ending is the caller's
    /// part.
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

    /// Counts of lines that could not be written since the start.
    #[must_use]
    pub(crate) fn losses(&self) -> Losses {
        self.writer.losses()
    }

    /// Keeps the last lines from now on, or none.
    pub(crate) fn keep_recent(&self, is_wanted: bool) {
        self.recent.keep(is_wanted);
    }

    /// The last lines behind number `after`, if they are kept.
    pub(crate) fn recent(&self, after: u64) -> Vec<RecentLine> {
        self.recent.after(after)
    }

    fn write(&self, level: Level, text: &dyn Display) {
        self.recent.note(level, text);
        let format = read_lock(&self.format);
        self.writer.append(&format.line(level, text));
    }
}

fn destination(config: &Config) -> Result<(Box<dyn Sink>, Format), LogOpenError> {
    let pid = std::process::id();
    match &config.destination {
        Destination::Stderr => {
            Ok((Box::new(Stderr), Format::new(config.clock, pid, io::stderr().is_terminal())))
        }
        Destination::File { path, size_limit, max_files } => {
            let format = Format::new(config.clock, pid, false);
            let file = LogFile::open(path.clone(), *size_limit, *max_files, format.clone());
            Ok((Box::new(file.map_err(|error| LogOpenError::File(path.clone(), error))?), format))
        }
        Destination::Syslog(which) => {
            let (sink, origin) = syslog::open(which)?;
            Ok((Box::new(sink), Format::record(origin, pid)))
        }
    }
}

struct Stderr;

impl Sink for Stderr {
    fn write(&mut self, lines: &Lines) -> io::Result<()> {
        io::stderr().write_all(lines.text())
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
        Config { destination, clock: LogClock::Off, debug: false, trace: false }
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
        let path = folder.path().join("no/such/log");
        let error = Logger::open(&to_file(&path)).unwrap_err().to_string();
        assert_eq!(error, format!("error opening file: open {}: no such file or directory", path.display()));
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
    fn a_log_can_move_while_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let log = Logger::open(&to_file(&old)).unwrap();
        log.info("before");
        log.debug("hidden");
        log.reconfigure(&Config { debug: true, trace: true, ..to_file(&new) }).unwrap();
        log.info("after");
        log.debug("shown");
        log.trace("shown too");
        assert!(log.flush());
        let pid = std::process::id();
        assert_eq!(fs::read_to_string(&old).unwrap(), format!("[{pid}] [INF] before\n"));
        let after = format!("[{pid}] [INF] after\n[{pid}] [DBG] shown\n[{pid}] [TRC] shown too\n");
        assert_eq!(fs::read_to_string(&new).unwrap(), after);
    }

    #[test]
    fn a_log_can_move_to_a_syslog_daemon() {
        let daemon = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        daemon.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let url = format!("udp://{}", daemon.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let config = Config { trace: true, ..to_file(&folder.path().join("log")) };
        let log = Logger::open(&config).unwrap();
        let destination = Destination::Syslog(Syslog::Remote(url));
        log.reconfigure(&Config { destination, ..config }).unwrap();
        let say: [(&str, &dyn Fn()); 5] = [
            ("<5>", &|| log.info("x")),
            ("<4>", &|| log.warn("x")),
            ("<3>", &|| log.error("x")),
            ("<2>", &|| log.fatal("x")),
            ("<5>", &|| log.trace("x")),
        ];
        for (priority, say) in say {
            say();
            let mut buffer = [0; 256];
            let n = daemon.recv(&mut buffer).unwrap();
            let record = String::from_utf8_lossy(&buffer[..n]);
            assert!(record.starts_with(priority) && record.ends_with("]: x\n"), "{record}");
        }
        log.reopen();
        let mut buffer = [0; 256];
        let n = daemon.recv(&mut buffer).unwrap();
        let record = String::from_utf8_lossy(&buffer[..n]);
        assert!(record.ends_with(": File log re-open ignored, not a file logger\n"), "{record}");
    }

    #[test]
    fn a_log_that_cannot_move_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Logger::open(&to_file(&path)).unwrap();
        let nowhere = Config { debug: true, ..to_file(&folder.path().join("no/such/log")) };
        assert!(log.reconfigure(&nowhere).is_err());
        log.debug("hidden");
        log.info("still here");
        assert!(log.flush());
        assert!(fs::read_to_string(&path).unwrap().ends_with("] [INF] still here\n"));
        assert!(!log.debug_enabled());
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
