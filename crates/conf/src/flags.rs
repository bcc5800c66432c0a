//! The command line, read the way Go's `flag` package reads it.
//!
//! One or two dashes, `-flag value` or `-flag=value`; switches take a value only after `=`; the
//! first argument that is no flag, or `--`, ends the flags. Knows no file and starts nothing.

mod address;
mod apply;
mod notation;
mod table;

use myelin_wire::error::Quoted;
use table::{Flag, find};

/// Kind of a flag: what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlagKind {
    Switch,
    Number,
    Text,
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
    /// Words behind the flags.
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

    /// Names of all flags, without dashes, and whether they take a value.
    #[cfg(test)]
    pub(crate) fn known() -> impl Iterator<Item = (&'static str, bool)> {
        table::FLAGS
            .iter()
            .flat_map(|(names, kind, _)| names.iter().map(move |name| (*name, *kind != FlagKind::Switch)))
    }

    pub(crate) fn asks_version(&self) -> bool {
        self.switch(Flag::Version)
    }

    pub(crate) fn asks_help(&self) -> bool {
        self.switch(Flag::Help)
    }

    pub(crate) fn asks_help_tls(&self) -> bool {
        self.switch(Flag::HelpTls)
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

    /// The configuration that a reload would read.
    pub(crate) fn checks_reload(&self) -> Option<&str> {
        self.text(Flag::CheckReload)
    }

    /// The first argument that is no flag.
    pub(crate) fn word(&self) -> Option<&str> {
        self.words.first().map(String::as_str)
    }

    fn switch(&self, wanted: Flag) -> bool {
        self.last(wanted) == Some(&Setting::Switch(true))
    }

    fn number(&self, wanted: Flag) -> Option<i64> {
        match self.last(wanted) {
            Some(Setting::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// A text that is not empty.
    fn text(&self, wanted: Flag) -> Option<&str> {
        match self.last(wanted) {
            Some(Setting::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    fn is_given(&self, wanted: Flag) -> bool {
        self.last(wanted).is_some()
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
    if kind == FlagKind::Switch {
        let value = value.unwrap_or("true");
        let on = notation::switch(value).ok_or_else(|| {
            format!("invalid boolean value {} for -{name}: parse error", Quoted(value.as_bytes()))
        })?;
        return Ok((flag, Setting::Switch(on)));
    }
    let value = value.or_else(|| rest.next().map(String::as_str));
    let value = value.ok_or_else(|| format!("flag needs an argument: -{name}"))?;
    let setting = match kind {
        FlagKind::Number => {
            let invalid =
                |reason| format!("invalid value {} for flag -{name}: {reason}", Quoted(value.as_bytes()));
            Setting::Number(notation::number(value).map_err(invalid)?)
        }
        _ => Setting::Text(value.to_owned()),
    };
    Ok((flag, setting))
}
