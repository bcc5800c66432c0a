//! Options of logging: what is logged, and where to.

use std::path::PathBuf;

use super::field::{Diagnostics, Field, Read};

/// The log's level, look and destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggingOptions {
    /// Log `[DBG]` lines.
    pub debug: bool,
    /// Log `[TRC]` lines.
    pub trace: bool,
    /// Trace the system account as well.
    pub trace_verbose: bool,
    /// Trace only the headers of messages, not their payload.
    pub trace_headers: bool,
    /// Begin each line with the time. Default true.
    pub logtime: bool,
    /// Whether times in the log are UTC instead of local time.
    pub logtime_utc: bool,
    /// File to write instead of standard error.
    pub log_file: Option<PathBuf>,
    /// Bytes after which the log file is rotated; `None` never rotates.
    pub log_size_limit: Option<u64>,
    /// Log files to keep when rotating, the current one included; `None` keeps all.
    pub log_max_num: Option<u64>,
    /// Bytes of a message that a trace line shows; `None` shows all.
    pub max_traced_msg_len: Option<u32>,
    /// Log to the system's log.
    pub syslog: bool,
    /// Log to the syslog server at this URL (`udp://host:port`), which implies `syslog`.
    pub remote_syslog: Option<String>,
    /// A failed attempt to link to another server is logged the first time and then every so many
    /// times. Default 3600.
    pub connect_error_reports: u32,
    /// A failed attempt to restore a link that was up before is logged the first time and then
    /// every so many times. Default 1: every time.
    pub reconnect_error_reports: u32,
}

impl Default for LoggingOptions {
    fn default() -> Self {
        Self {
            debug: false,
            trace: false,
            trace_verbose: false,
            trace_headers: false,
            logtime: true,
            logtime_utc: false,
            log_file: None,
            log_size_limit: None,
            log_max_num: None,
            max_traced_msg_len: None,
            syslog: false,
            remote_syslog: None,
            connect_error_reports: 3600,
            reconnect_error_reports: 1,
        }
    }
}

impl LoggingOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "debug" => self.debug = field.boolean()?,
            "trace" => self.trace = field.boolean()?,
            // Compat: these two switch tracing itself on or off as well; the last of them wins.
            "trace_verbose" => (self.trace_verbose, self.trace) = (field.boolean()?, field.boolean()?),
            "trace_headers" => (self.trace_headers, self.trace) = (field.boolean()?, field.boolean()?),
            "logtime" => self.logtime = field.boolean()?,
            "logtime_utc" => self.logtime_utc = field.boolean()?,
            "logfile" | "log_file" => self.log_file = field.optional_path()?,
            "logfile_size_limit" | "log_size_limit" => self.log_size_limit = positive(field.integer()?),
            "logfile_max_num" | "log_max_num" => self.log_max_num = positive(field.integer()?),
            "syslog" => self.syslog = field.boolean()?,
            "remote_syslog" => self.remote_syslog = field.optional_text()?,
            "connect_error_reports" => {
                self.connect_error_reports = field.count_or(Self::default().connect_error_reports, report)?;
            }
            "reconnect_error_reports" => {
                self.reconnect_error_reports =
                    field.count_or(Self::default().reconnect_error_reports, report)?;
            }
            "max_traced_msg_len" => self.max_traced_msg_len = field.limit()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Zero and negative numbers switch a limit off.
pub(crate) fn positive(number: i64) -> Option<u64> {
    u64::try_from(number).ok().filter(|&number| number > 0)
}
