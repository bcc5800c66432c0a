//! Log of the server: where the options want it, and as the broker writes to it.

use crate::logging::{Config, Destination, LogClock, Logger, Syslog};
use myelin_broker::{Level, Log};
use myelin_conf::options::{LoggingOptions, Options};
use std::fmt::Arguments;
use std::sync::Arc;

/// Configuration of the log, from the options.
pub(crate) fn log_config(options: &Options) -> Config {
    let logging = &options.logging;
    Config {
        destination: destination(logging),
        clock: match (logging.logtime, logging.logtime_utc) {
            (false, _) => LogClock::Off,
            (true, true) => LogClock::Utc,
            (true, false) => LogClock::Local,
        },
        debug: logging.debug,
        trace: logging.trace,
    }
}

/// Compat: a file comes before a remote syslog, and that before the local one.
fn destination(logging: &LoggingOptions) -> Destination {
    if let Some(path) = &logging.log_file {
        return Destination::File {
            path: path.clone(),
            size_limit: logging.log_size_limit.unwrap_or(0),
            max_files: logging.log_max_num.unwrap_or(0) as usize,
        };
    }
    match &logging.remote_syslog {
        Some(url) => Destination::Syslog(Syslog::Remote(url.clone())),
        None if logging.syslog => Destination::Syslog(Syslog::Local),
        None => Destination::Stderr,
    }
}

/// The log as the broker sees it.
pub(super) struct BrokerLog(pub(super) Arc<Logger>);

impl Log for BrokerLog {
    fn enabled(&self, level: Level) -> bool {
        match level {
            Level::Debug => self.0.debug_enabled(),
            Level::Trace => self.0.trace_enabled(),
            Level::Error | Level::Warn | Level::Info => true,
        }
    }

    fn write(&self, level: Level, line: Arguments<'_>) {
        match level {
            Level::Error => self.0.error(line),
            Level::Warn => self.0.warn(line),
            Level::Info => self.0.info(line),
            Level::Debug => self.0.debug(line),
            Level::Trace => self.0.trace(line),
        }
    }
}
