//! One field of a configuration block on its way into an option: its name, its place, its typed value.
//!
//! Owns the texts about wrong types and ranges, and the list of complaints. A reader of a block is a
//! `match` over [`Field::name`] whose arms read the value as what it must be.

use std::path::PathBuf;
use std::time::Duration;

use super::table::{Class, Entry, Scope, missing_text};
use crate::diagnostic::{Diagnostic, Position};
use crate::duration;
use crate::value::{Map, Node, Value};

/// A value, or the complaint about it.
pub(super) type Read<T> = Result<T, Diagnostic>;

/// Everything the configuration is to be blamed for, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
    /// Options that are right, and whose feature does not exist yet.
    pub(crate) missing: Vec<Diagnostic>,
}

impl Report {
    /// Notes the error of `read`, if it is one, and returns its value otherwise.
    pub(super) fn keep<T>(&mut self, read: Read<T>) -> Option<T> {
        read.map_err(|error| self.errors.push(error)).ok()
    }
}

/// A key and its value.
#[derive(Clone)]
pub(super) struct Field<'a> {
    name: String,
    written: &'a str,
    node: &'a Node,
}

/// Hands every field of a block that is in the table to `set`, which answers whether it reads that field,
/// and reports the fields that are unknown, without meaning or ahead of their time.
pub(super) fn read_block(
    map: &Map,
    scope: Scope,
    report: &mut Report,
    mut set: impl FnMut(&Field<'_>, &mut Report) -> Read<bool>,
) {
    for (key, node) in map.iter() {
        let field = Field::new(key, node);
        let Some(entry) = scope.find(field.name()) else {
            if !node.is_used_variable {
                report.errors.push(field.complaint(scope.unknown(field.written())));
            }
            continue;
        };
        let errors = report.errors.len();
        let missing = report.missing.len();
        let is_read = set(&field, report);
        if report.keep(is_read) == Some(false) && !matches!(entry.class, Class::Missing(_)) {
            report.errors.push(field.complaint(format!("nobody reads {key:?}")));
        }
        if report.errors.len() == errors {
            report.classify(entry, &field, missing);
        }
    }
}

impl Report {
    /// Notes what the table says of a field that was read without complaint. What is said of a block
    /// stands for all that is `missing` in it.
    fn classify(&mut self, entry: &Entry, field: &Field<'_>, missing: usize) {
        match entry.class {
            Class::NoMeaning(why) => {
                let name = field.written();
                self.warnings.push(field.complaint(format!("{name:?} has no effect in Myelin: {why}")));
            }
            Class::Missing(feature) if field.asks_for_something() => {
                self.missing.truncate(missing);
                self.missing.push(field.complaint(missing_text(field.written(), feature)));
            }
            _ => {}
        }
    }
}

impl<'a> Field<'a> {
    pub(super) fn new(key: &'a str, node: &'a Node) -> Self {
        Self { name: key.to_lowercase(), written: key, node }
    }

    /// The name in lower case, for matching.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The name as the operator wrote it.
    pub(super) fn written(&self) -> &'a str {
        self.written
    }

    pub(super) fn node(&self) -> &'a Node {
        self.node
    }

    pub(super) fn value(&self) -> &'a Value {
        &self.node.value
    }

    /// Whether the value is more than a way to write "no".
    fn asks_for_something(&self) -> bool {
        match self.value() {
            Value::Boolean(on) => *on,
            Value::Text(text) => !text.is_empty(),
            Value::Map(map) => !map.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        }
    }

    pub(super) fn complaint(&self, message: impl Into<String>) -> Diagnostic {
        complaint_at(&self.node.position, message)
    }

    pub(super) fn boolean(&self) -> Read<bool> {
        match self.value() {
            Value::Boolean(boolean) => Ok(*boolean),
            other => self.mismatch("a boolean", other),
        }
    }

    pub(super) fn integer(&self) -> Read<i64> {
        match self.value() {
            Value::Integer(integer) => Ok(*integer),
            other => self.mismatch("an integer", other),
        }
    }

    /// A number from zero to `max`.
    pub(super) fn count_up_to(&self, max: i64) -> Read<i64> {
        match self.integer()? {
            number if number < 0 => {
                Err(self.complaint(format!("{} value can not be negative", self.written)))
            }
            number if number > max => Err(self.complaint(format!("{} value is too big", self.written))),
            number => Ok(number),
        }
    }

    /// A number of things; the reference counts them in 31 bits.
    pub(super) fn count(&self) -> Read<u32> {
        let number = self.count_up_to(i64::from(i32::MAX))?;
        Ok(u32::try_from(number).expect("a count of 31 bits"))
    }

    /// A count for which 0 means the default.
    pub(super) fn count_or(&self, default: u32) -> Read<u32> {
        self.count().map(|number| if number == 0 { default } else { number })
    }

    /// A limit that 0 and negative numbers switch off.
    pub(super) fn limit(&self) -> Read<Option<u32>> {
        if self.integer()? <= 0 { Ok(None) } else { self.count().map(Some) }
    }

    pub(super) fn text(&self) -> Read<&'a str> {
        match self.value() {
            Value::Text(text) => Ok(text),
            other => self.mismatch("a string", other),
        }
    }

    /// Text for which empty is the same as absent.
    pub(super) fn optional_text(&self) -> Read<Option<String>> {
        self.text().map(|text| (!text.is_empty()).then(|| text.to_owned()))
    }

    /// A path for which empty is the same as absent.
    pub(super) fn optional_path(&self) -> Read<Option<PathBuf>> {
        Ok(self.optional_text()?.map(PathBuf::from))
    }

    pub(super) fn map(&self) -> Read<&'a Map> {
        match self.value() {
            Value::Map(map) => Ok(map),
            other => self.mismatch("a map", other),
        }
    }

    /// A duration in Go's notation, possibly negative, in nanoseconds.
    pub(super) fn signed_duration(&self) -> Read<i64> {
        duration::parse(self.text()?)
            .map_err(|error| self.complaint(format!("error parsing {}: {error}", self.name)))
    }

    /// A duration in Go's notation that is not negative.
    pub(super) fn duration(&self) -> Read<Duration> {
        let nanos = u64::try_from(self.signed_duration()?);
        nanos.map(Duration::from_nanos).map_err(|_| self.negative_duration())
    }

    /// A duration that older configurations give in whole seconds, for which 0 means the default.
    pub(super) fn duration_or(&self, default: Duration, report: &mut Report) -> Read<Duration> {
        let duration = match self.value() {
            Value::Integer(seconds) => {
                let name = &self.name;
                report.warnings.push(self.invalid_use(&format!("{name} should be converted to a duration")));
                let seconds = u64::try_from(*seconds).map_err(|_| self.negative_duration())?;
                Duration::from_secs(seconds)
            }
            _ => self.duration()?,
        };
        Ok(if duration.is_zero() { default } else { duration })
    }

    /// The warning about a value that is accepted but should be written differently.
    pub(super) fn invalid_use(&self, reason: &str) -> Diagnostic {
        self.complaint(format!("invalid use of field {:?}: {reason}", self.written))
    }

    fn negative_duration(&self) -> Diagnostic {
        self.complaint(format!("invalid {}, needs to be positive", self.name))
    }

    fn mismatch<T>(&self, expected: &str, found: &Value) -> Read<T> {
        Err(self.complaint(format!("field {:?} must be {expected}, not {}", self.written, found.type_name())))
    }
}

pub(super) fn complaint_at(position: &Position, message: impl Into<String>) -> Diagnostic {
    Diagnostic { position: Some(position.clone()), message: message.into() }
}
