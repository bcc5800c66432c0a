//! Flags that say what a stream, a consumer or a bucket is to be like: tables of them, and the
//! configuration that they make.
//!
//! Owns how a flag's text becomes JSON. What may be said together is the server's to judge.

use std::marker::PhantomData;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::units::{Bytes, Time};
use serde_json::{Map, Value, json};

use crate::screen;

/// A flag, the place in the configuration that it sets, and what it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Name without the dashes.
    pub(crate) flag: &'static str,
    /// Place in the configuration, with dots between levels. Objects are merged where it is empty.
    pub(crate) place: &'static str,
    pub(crate) takes: Takes,
    pub(crate) help: &'static str,
}

/// Value of a flag.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Takes {
    Text,
    /// One of these words, with what the configuration says for it.
    Word(&'static [(&'static str, &'static str)]),
    /// A number; -1 is no limit.
    Count,
    /// A number of bytes; -1 is no limit.
    Size,
    /// A length of time; -1 is 0.
    Period,
    /// Texts: more than one, with commas between them or the flag more than once.
    Texts,
    /// `KEY=VALUE`, more than once.
    Pairs,
    /// The name of a stream.
    Origin,
    /// Names of streams.
    Origins,
    /// Nothing: it means this, and the flag of this name the opposite.
    Switch(bool, &'static str),
    /// Whatever this reads.
    Read(fn(&str) -> Result<Value, BenchError>),
}

/// Words for where a stream keeps its messages.
pub(crate) const STORAGE: &[(&str, &str)] = &[("file", "file"), ("memory", "memory")];

/// A table of flags.
pub(crate) trait Settings {
    /// The flags.
    const TABLE: &'static [Setting];
}

/// Flags of a table as they were given.
#[derive(Debug)]
pub(crate) struct SettingFlags<S> {
    given: Vec<(&'static str, Value)>,
    table: PhantomData<fn() -> S>,
}

impl<S> SettingFlags<S> {
    /// Sets what was given in a configuration.
    pub(crate) fn apply(&self, config: &mut Value) {
        for (place, value) in &self.given {
            match value {
                Value::Object(further) if place.is_empty() => {
                    further.iter().for_each(|(name, value)| config[name] = value.clone());
                }
                _ => set(config, place, value.clone()),
            }
        }
    }

    /// Whether something is set in this place.
    pub(crate) fn sets(&self, place: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == place)
    }
}

/// Sets a place whose levels may be missing.
fn set(config: &mut Value, place: &str, value: Value) {
    match place.split_once('.') {
        None => config[place] = value,
        Some((level, rest)) => {
            if !config[level].is_object() {
                config[level] = json!({});
            }
            set(&mut config[level], rest, value);
        }
    }
}

impl Takes {
    fn read(self, text: &str) -> Result<Value, BenchError> {
        let unlimited = |value: i64| (text == "-1").then(|| value.into());
        Ok(match self {
            Self::Text => text.into(),
            Self::Word(words) => match words.iter().find(|(word, _)| *word == text) {
                Some((_, meant)) => (*meant).into(),
                None => return Err(BenchError::Usage(format!("one of {}", said(words)))),
            },
            Self::Count => text.parse::<i64>().map_err(|_| BenchError::Usage("not a number".into()))?.into(),
            Self::Size => match unlimited(-1) {
                Some(value) => value,
                None => text.parse::<Bytes>()?.0.into(),
            },
            Self::Period => match unlimited(0) {
                Some(value) => value,
                None => nanoseconds(text.parse::<Time>()?)?.into(),
            },
            Self::Texts => text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect(),
            Self::Pairs => match text.split_once('=') {
                Some((key, value)) => json!({ key: value }),
                None => return Err(BenchError::Usage("not KEY=VALUE".into())),
            },
            Self::Origin => json!({ "name": text }),
            Self::Origins => json!([{ "name": text }]),
            Self::Switch(is_on, _) => is_on.into(),
            Self::Read(read) => read(text)?,
        })
    }

    fn value_name(self) -> &'static str {
        match self {
            Self::Word(_) => "WORD",
            Self::Count => "NUMBER",
            Self::Size => "BYTES",
            Self::Period => "DURATION",
            Self::Pairs => "KEY=VALUE",
            Self::Origin | Self::Origins => "STREAM",
            Self::Text | Self::Texts | Self::Switch(..) | Self::Read(_) => "VALUE",
        }
    }

    fn is_repeated(self) -> bool {
        matches!(self, Self::Texts | Self::Pairs | Self::Origins)
    }
}

fn said(words: &[(&str, &str)]) -> String {
    words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join("|")
}

/// A length of time as configurations have it.
pub(crate) fn nanoseconds(time: Time) -> Result<i64, BenchError> {
    i64::try_from(time.0.as_nanos()).map_err(|_| BenchError::Usage("longer than 292 years".into()))
}

/// One value of what a flag was given more than once.
fn joined(mut values: impl Iterator<Item = Value>) -> Option<Value> {
    let first = values.next()?;
    Some(values.fold(first, |all, value| match (all, value) {
        (Value::Array(all), Value::Array(more)) => Value::Array(all.into_iter().chain(more).collect()),
        (Value::Object(all), Value::Object(more)) => {
            Value::Object(all.into_iter().chain(more).collect::<Map<_, _>>())
        }
        (_, last) => last,
    }))
}

impl<S: Settings> Args for SettingFlags<S> {
    fn augment_args(mut command: Command) -> Command {
        for setting in S::TABLE {
            let takes = setting.takes;
            let help = match takes {
                Takes::Word(words) => format!("{} ({})", setting.help, said(words)),
                _ => setting.help.to_owned(),
            };
            let argument = Arg::new(setting.flag).long(setting.flag).help(help);
            let Takes::Switch(_, opposite) = takes else {
                let action = if takes.is_repeated() { ArgAction::Append } else { ArgAction::Set };
                let argument = argument.action(action).allow_negative_numbers(true);
                let parsed = move |text: &str| takes.read(text).map_err(|error| error.to_string());
                command = command.arg(argument.value_name(takes.value_name()).value_parser(parsed));
                continue;
            };
            let negative = Arg::new(opposite).long(opposite).hide(true);
            command = command
                .arg(argument.action(ArgAction::SetTrue).overrides_with(opposite))
                .arg(negative.action(ArgAction::SetTrue).overrides_with(setting.flag));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Settings> FromArgMatches for SettingFlags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for setting in S::TABLE {
            let value = match setting.takes {
                Takes::Switch(is_on, opposite) => {
                    let said = |flag: &str, value: bool| matches.get_flag(flag).then_some(Value::Bool(value));
                    said(setting.flag, is_on).or_else(|| said(opposite, !is_on))
                }
                _ => matches.get_many::<Value>(setting.flag).and_then(|values| joined(values.cloned())),
            };
            given.extend(value.map(|value| (setting.place, value)));
        }
        Ok(Self { given, table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The configuration in a file: a JSON object, or one that has it as its `config`.
pub(crate) fn in_file(file: &Path) -> Result<Value, BenchError> {
    let bad = |error: String| BenchError::Usage(format!("{}: {error}", file.display()));
    let text = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
    let value: Value = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
    match (&value["config"], &value) {
        (Value::Object(config), _) => Ok(Value::Object(config.clone())),
        (_, Value::Object(_)) => Ok(value),
        _ => Err(bad("not an object".into())),
    }
}

/// Shows in what one configuration differs from another, and asks whether that is wanted. Says
/// whether it is to be done.
pub(crate) fn agreed(old: &Value, new: &Value, is_forced: bool, is_tried: bool) -> Result<bool, BenchError> {
    let lines = differences(old, new);
    if lines.is_empty() {
        screen::show("No difference\n")?;
        return Ok(false);
    }
    screen::show(&lines)?;
    if !is_tried {
        screen::confirm(is_forced, "Really change it?")?;
    }
    Ok(!is_tried)
}

fn differences(old: &Value, new: &Value) -> String {
    let none = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    let mut lines = String::new();
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    for name in names.filter(|name| old.get(*name) != new.get(*name)) {
        for (sign, side) in [('-', old), ('+', new)] {
            if let Some(value) = side.get(name) {
                lines += &format!("{sign} {}\n", screen::one_line(&format!("{name}: {value}")));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Few;

    impl Settings for Few {
        const TABLE: &'static [Setting] = &[
            Setting { flag: "subjects", place: "subjects", takes: Takes::Texts, help: "" },
            Setting { flag: "cluster", place: "placement.cluster", takes: Takes::Text, help: "" },
            Setting { flag: "max-age", place: "max_age", takes: Takes::Period, help: "" },
            Setting { flag: "ack", place: "no_ack", takes: Takes::Switch(false, "no-ack"), help: "" },
            Setting { flag: "metadata", place: "metadata", takes: Takes::Pairs, help: "" },
            Setting { flag: "kind", place: "kind", takes: Takes::Word(&[("work", "workqueue")]), help: "" },
        ];
    }

    fn given(line: &str) -> Result<Value, clap::Error> {
        let command = SettingFlags::<Few>::augment_args(Command::new("x"));
        let matches = command.try_get_matches_from(line.split(' '))?;
        let mut config = json!({});
        SettingFlags::<Few>::from_arg_matches(&matches)?.apply(&mut config);
        Ok(config)
    }

    #[test]
    fn flags_make_a_configuration() {
        assert_eq!(given("x").unwrap(), json!({}));
        let line =
            "x --subjects a,b --subjects c --cluster C --max-age 1s --no-ack --metadata a=b --metadata c=d=e";
        let config = json!({"subjects": ["a", "b", "c"], "placement": {"cluster": "C"}, "max_age": 1_000_000_000,
            "no_ack": true, "metadata": {"a": "b", "c": "d=e"}});
        assert_eq!(given(line).unwrap(), config);
        assert_eq!(
            given("x --no-ack --ack --kind work --max-age -1").unwrap(),
            json!({"no_ack": false, "kind": "workqueue", "max_age": 0})
        );
        for wrong in ["--kind other", "--max-age 5", "--metadata a"] {
            assert!(given(&format!("x {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_differs_is_shown() {
        let (old, new) = (json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3, "c": "x"}));
        assert_eq!(differences(&old, &new), "- b: 2\n+ b: 3\n+ c: \"x\"\n");
    }
}
