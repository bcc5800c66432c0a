//! The command line, read the way Go's `flag` package reads it.
//!
//! One or two dashes, `-flag value` or `-flag=value`; switches take a value only after `=`; the first
//! argument that is no flag, or `--`, ends the flags. Knows no file and starts nothing.

use std::num::IntErrorKind;

use crate::options::{Options, Port, missing_text, positive};
use crate::secret::Secret;

/// What a flag sets, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flag {
    Host,
    Port,
    ServerName,
    PidFile,
    ConfigFile,
    TestConfig,
    HttpPort,
    LogFile,
    Debug,
    Trace,
    TraceVerbose,
    DebugTrace,
    DebugTraceVerbose,
    Logtime,
    LogtimeUtc,
    LogSizeLimit,
    MaxTracedMsgLen,
    JetStream,
    StoreDir,
    User,
    Password,
    Token,
    ClientAdvertise,
    PortsFileDir,
    Signal,
    Version,
    Help,
    /// Known to nats-server only.
    Unsupported(&'static str),
}

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Switch,
    Number,
    Text,
}

/// Flags of the command line, without dashes, whose feature does not exist yet, and whether they are
/// switches, which take no argument of their own.
const MISSING_FLAGS: &[(&str, bool)] = &[
    ("ms", false),
    ("https_port", false),
    ("s", true),
    ("syslog", true),
    ("r", false),
    ("remote_syslog", false),
    ("profile", false),
    ("routes", false),
    ("cluster", false),
    ("cluster_listen", false),
    ("cluster_advertise", false),
    ("no_advertise", true),
    ("connect_retries", false),
    ("cluster_name", false),
    ("help_tls", true),
    ("tls", true),
    ("tlsverify", true),
    ("tlscert", false),
    ("tlskey", false),
    ("tlscacert", false),
];

const FLAGS: &[(&str, Kind, Flag)] = &[
    ("a", Kind::Text, Flag::Host),
    ("addr", Kind::Text, Flag::Host),
    ("net", Kind::Text, Flag::Host),
    ("p", Kind::Number, Flag::Port),
    ("port", Kind::Number, Flag::Port),
    ("n", Kind::Text, Flag::ServerName),
    ("name", Kind::Text, Flag::ServerName),
    ("server_name", Kind::Text, Flag::ServerName),
    ("P", Kind::Text, Flag::PidFile),
    ("pid", Kind::Text, Flag::PidFile),
    ("c", Kind::Text, Flag::ConfigFile),
    ("config", Kind::Text, Flag::ConfigFile),
    ("t", Kind::Switch, Flag::TestConfig),
    ("m", Kind::Number, Flag::HttpPort),
    ("http_port", Kind::Number, Flag::HttpPort),
    ("l", Kind::Text, Flag::LogFile),
    ("log", Kind::Text, Flag::LogFile),
    ("D", Kind::Switch, Flag::Debug),
    ("debug", Kind::Switch, Flag::Debug),
    ("V", Kind::Switch, Flag::Trace),
    ("trace", Kind::Switch, Flag::Trace),
    ("VV", Kind::Switch, Flag::TraceVerbose),
    ("DV", Kind::Switch, Flag::DebugTrace),
    ("DVV", Kind::Switch, Flag::DebugTraceVerbose),
    ("T", Kind::Switch, Flag::Logtime),
    ("logtime", Kind::Switch, Flag::Logtime),
    ("logtime_utc", Kind::Switch, Flag::LogtimeUtc),
    ("log_size_limit", Kind::Number, Flag::LogSizeLimit),
    ("max_traced_msg_len", Kind::Number, Flag::MaxTracedMsgLen),
    ("js", Kind::Switch, Flag::JetStream),
    ("jetstream", Kind::Switch, Flag::JetStream),
    ("sd", Kind::Text, Flag::StoreDir),
    ("store_dir", Kind::Text, Flag::StoreDir),
    ("user", Kind::Text, Flag::User),
    ("pass", Kind::Text, Flag::Password),
    ("auth", Kind::Text, Flag::Token),
    ("client_advertise", Kind::Text, Flag::ClientAdvertise),
    ("ports_file_dir", Kind::Text, Flag::PortsFileDir),
    ("sl", Kind::Text, Flag::Signal),
    ("signal", Kind::Text, Flag::Signal),
    ("v", Kind::Switch, Flag::Version),
    ("version", Kind::Switch, Flag::Version),
    ("h", Kind::Switch, Flag::Help),
    ("help", Kind::Switch, Flag::Help),
];

fn find(name: &str) -> Option<(Kind, Flag)> {
    let supported = FLAGS.iter().find(|(n, ..)| *n == name).map(|&(_, kind, flag)| (kind, flag));
    supported.or_else(|| {
        let &(name, is_switch) = MISSING_FLAGS.iter().find(|(n, _)| *n == name)?;
        Some((if is_switch { Kind::Switch } else { Kind::Text }, Flag::Unsupported(name)))
    })
}

#[derive(Clone, PartialEq)]
enum Setting {
    Switch(bool),
    Number(i64),
    Text(String),
}

/// A command line whose flags are known and have values of the right type.
pub(crate) struct Flags {
    /// In the order of the command line; a later one wins.
    settings: Vec<(Flag, Setting)>,
    /// What follows the flags.
    words: Vec<String>,
}

impl Flags {
    /// Reads arguments without the program's name. The error is the one line that Go prints.
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let mut settings = Vec::new();
        let mut args = args.iter();
        while let Some(argument) = args.as_slice().first() {
            if argument.len() < 2 || !argument.starts_with('-') {
                break;
            }
            args.next();
            if argument == "--" {
                break;
            }
            settings.push(parse_flag(argument, &mut args)?);
        }
        Ok(Self { settings, words: args.cloned().collect() })
    }

    pub(crate) fn asks_version(&self) -> bool {
        self.switch(Flag::Version)
    }

    pub(crate) fn asks_help(&self) -> bool {
        self.switch(Flag::Help)
    }

    pub(crate) fn asks_test(&self) -> bool {
        self.switch(Flag::TestConfig)
    }

    pub(crate) fn config_file(&self) -> Option<&str> {
        self.text(Flag::ConfigFile)
    }

    pub(crate) fn signal(&self) -> Option<&str> {
        self.text(Flag::Signal)
    }

    /// The first argument that is no flag.
    pub(crate) fn word(&self) -> Option<&str> {
        self.words.first().map(String::as_str)
    }

    /// The complaint about the first flag that only nats-server has.
    pub(crate) fn check_supported(&self) -> Result<(), String> {
        self.settings.iter().try_for_each(|(flag, _)| match flag {
            Flag::Unsupported(name) => Err(missing_text(&format!("-{name}"), "a feature")),
            _ => Ok(()),
        })
    }

    /// Puts the flags over `options`.
    pub(crate) fn apply(&self, options: &mut Options) -> Result<(), String> {
        for (flag, setting) in &self.settings {
            match setting {
                Setting::Switch(on) => set_switch(options, *flag, *on),
                Setting::Number(number) => set_number(options, *flag, *number)?,
                Setting::Text(text) => set_text(options, *flag, text),
            }
        }
        self.apply_combined(options);
        Ok(())
    }

    /// Compat: the flags that stand for several come after all others, in this order.
    fn apply_combined(&self, options: &mut Options) {
        let logging = &mut options.logging;
        if let Some(Setting::Switch(on)) = self.last(Flag::DebugTrace) {
            (logging.debug, logging.trace) = (*on, *on);
        }
        if let Some(Setting::Switch(on)) = self.last(Flag::DebugTraceVerbose) {
            (logging.debug, logging.trace, logging.trace_verbose) = (*on, *on, *on);
        }
        if let Some(Setting::Switch(on)) = self.last(Flag::TraceVerbose) {
            (logging.trace, logging.trace_verbose) = (*on, *on);
        }
    }

    fn switch(&self, wanted: Flag) -> bool {
        self.last(wanted) == Some(&Setting::Switch(true))
    }

    fn text(&self, wanted: Flag) -> Option<&str> {
        match self.last(wanted) {
            Some(Setting::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    fn last(&self, wanted: Flag) -> Option<&Setting> {
        self.settings.iter().rev().find(|(flag, _)| *flag == wanted).map(|(_, setting)| setting)
    }
}

fn parse_flag(argument: &str, rest: &mut std::slice::Iter<'_, String>) -> Result<(Flag, Setting), String> {
    let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')).unwrap_or(argument);
    if body.starts_with(['-', '=']) {
        return Err(format!("bad flag syntax: {argument}"));
    }
    let (name, value) = body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value)));
    let (kind, flag) = find(name).ok_or_else(|| format!("flag provided but not defined: -{name}"))?;
    let setting = if kind == Kind::Switch {
        let value = value.unwrap_or("true");
        let on = switch(value)
            .ok_or_else(|| format!("invalid boolean value {value:?} for -{name}: parse error"))?;
        Setting::Switch(on)
    } else {
        let value = value.or_else(|| rest.next().map(String::as_str));
        let value = value.ok_or_else(|| format!("flag needs an argument: -{name}"))?;
        match kind {
            Kind::Number => {
                let invalid = |reason| format!("invalid value {value:?} for flag -{name}: {reason}");
                Setting::Number(number(value).map_err(invalid)?)
            }
            _ => Setting::Text(value.to_owned()),
        }
    };
    Ok((flag, setting))
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// An integer in Go's notation: decimal, `0x`, `0o` or `0`, `0b`. Underscores are not accepted.
fn number(text: &str) -> Result<i64, &'static str> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    if digits.starts_with(['+', '-']) {
        return Err("parse error");
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "parse error",
    })
}

fn set_switch(options: &mut Options, flag: Flag, on: bool) {
    match flag {
        Flag::Debug => options.logging.debug = on,
        Flag::Trace => options.logging.trace = on,
        Flag::Logtime => options.logging.logtime = on,
        Flag::LogtimeUtc => options.logging.logtime_utc = on,
        Flag::JetStream => options.jetstream.enabled = on,
        _ => {}
    }
}

fn set_number(options: &mut Options, flag: Flag, number: i64) -> Result<(), String> {
    let port = || Port::from_number(number).ok_or_else(|| format!("invalid port {number}"));
    match flag {
        Flag::Port => options.server.port = Port::or_default(port()?),
        Flag::HttpPort => options.monitoring.port = port()?,
        Flag::LogSizeLimit => options.logging.log_size_limit = positive(number),
        Flag::MaxTracedMsgLen => {
            options.logging.max_traced_msg_len =
                positive(number).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        }
        _ => {}
    }
    Ok(())
}

/// An empty text is the same as no flag at all.
fn set_text(options: &mut Options, flag: Flag, text: &str) {
    let given = (!text.is_empty()).then(|| text.to_owned());
    match flag {
        Flag::Host => options.server.set_host(text),
        Flag::ServerName => options.server.name = given,
        Flag::PidFile => options.server.pid_file = given.map(Into::into),
        Flag::ClientAdvertise => options.server.client_advertise = given,
        Flag::PortsFileDir => options.server.ports_file_dir = given.map(Into::into),
        Flag::LogFile => options.logging.log_file = given.map(Into::into),
        Flag::StoreDir => options.jetstream.store_dir = given.map(Into::into),
        Flag::User => options.authorization.user = given,
        Flag::Password => options.authorization.password = given.map(Secret::new),
        Flag::Token => options.authorization.token = given.map(Secret::new),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_name_is_listed_twice() {
        let names = FLAGS.iter().map(|(name, ..)| name).chain(MISSING_FLAGS.iter().map(|(name, _)| name));
        let mut seen = HashSet::new();
        let twice: Vec<_> = names.filter(|name| !seen.insert(**name)).collect();
        assert!(twice.is_empty(), "{twice:?}");
        // What nats-server 2.15.2 defines.
        assert_eq!(seen.len(), 64);
    }

    #[test]
    fn numbers_are_in_go_notation() {
        for (text, value) in [
            ("0", Ok(0)),
            ("-1", Ok(-1)),
            ("+5", Ok(5)),
            ("0x1F", Ok(31)),
            ("0X1f", Ok(31)),
            ("0b101", Ok(5)),
            ("0o17", Ok(15)),
            ("017", Ok(15)),
            ("-0x10", Ok(-16)),
            ("-9223372036854775808", Ok(i64::MIN)),
            ("9223372036854775808", Err("value out of range")),
            ("0x", Err("parse error")),
            ("08", Err("parse error")),
            ("", Err("parse error")),
            ("-", Err("parse error")),
            ("--1", Err("parse error")),
            ("1k", Err("parse error")),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
