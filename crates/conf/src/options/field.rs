//! One field of a configuration block on its way into an option: its name, its place, its typed
//! value.
//!
//! Owns the texts about wrong types and ranges, and the list of diagnostics. A reader of a block is
//! a
//! `match` over [`Field::name`] whose arms read the value as what it must be.

use std::path::PathBuf;
use std::time::Duration;

use super::table::{BlockKind, Class, OptionEntry, missing_text};
use super::tls::TlsOptions;
use crate::diagnostic::{Diagnostic, Position};
use crate::duration;
use crate::value::{Map, Node, Value};

/// A value, or the diagnostic about it.
pub(super) type Read<T> = Result<T, Diagnostic>;

/// All diagnostics of a configuration, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
    /// Options that change nothing here. Unlike warnings, they do not make `-t` fail, for the
    /// reference finds nothing wrong with them.
    pub(crate) notes: Vec<Diagnostic>,
    /// Reasons why a start fails although the file is right: options whose feature does not exist
    /// yet, and values that nobody can run with.
    pub(crate) missing: Vec<Diagnostic>,
    /// Blocks whose certificates are yet to be opened.
    pub(crate) tls: Vec<TlsOptions>,
}

impl Diagnostics {
    /// Notes the error of `read`, if it is one, and returns its value otherwise.
    pub(super) fn keep<T>(&mut self, read: Read<T>) -> Option<T> {
        read.map_err(|error| self.errors.push(error)).ok()
    }

    /// Notes a value that the reference takes for valid and then fails or goes astray with.
    ///
    /// Compat: `-t` calls such a file valid, as the reference does; a start ends with this message.
    pub(super) fn refuse_start(&mut self, diagnostic: Diagnostic) {
        self.missing.push(diagnostic);
    }
}

/// A key and its value.
#[derive(Clone)]
pub(super) struct Field<'a> {
    name: String,
    written: &'a str,
    node: &'a Node,
}

/// Hands every field of a block that is in the table to `set`, which answers whether it reads that
/// field, and reports the fields that are unknown, without meaning or ahead of their time.
pub(super) fn read_block(
    map: &Map,
    scope: BlockKind,
    report: &mut Diagnostics,
    mut set: impl FnMut(&Field<'_>, &mut Diagnostics) -> Read<bool>,
) {
    for (key, node) in map.iter() {
        let field = Field::new(key, node);
        let Some(entry) = scope.find(field.name()) else {
            if !node.is_used_variable {
                report.errors.push(field.diagnostic(scope.unknown(field.written())));
            }
            continue;
        };
        let errors = report.errors.len();
        let missing = report.missing.len();
        let is_read = set(&field, report);
        if report.keep(is_read) == Some(false) {
            report.errors.push(field.diagnostic(format!("nobody reads {key:?}")));
        }
        if report.errors.len() == errors {
            report.classify(entry, &field, missing);
        }
    }
}

impl Diagnostics {
    /// Notes what the table says of a field that was read without a diagnostic. What is said of a
    /// block stands for all that is `missing` in it.
    fn classify(&mut self, entry: &OptionEntry, field: &Field<'_>, missing: usize) {
        match entry.class {
            Class::NoMeaning(why) => {
                let name = field.written();
                self.notes.push(field.diagnostic(format!("{name:?} has no effect in Myelin: {why}")));
            }
            Class::Missing(feature) if field.asks_for_something() => {
                self.missing.truncate(missing);
                self.missing.push(field.diagnostic(missing_text(field.written(), feature)));
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

    pub(super) fn diagnostic(&self, message: impl Into<String>) -> Diagnostic {
        diagnostic_at(&self.node.position, message)
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
                Err(self.diagnostic(format!("{} value can not be negative", self.written)))
            }
            number if number > max => Err(self.diagnostic(format!("{} value is too big", self.written))),
            number => Ok(number),
        }
    }

    /// A number of things; the reference counts them in 31 bits.
    pub(super) fn count(&self) -> Read<u32> {
        let number = self.count_up_to(i64::from(i32::MAX))?;
        Ok(u32::try_from(number).expect("a count of 31 bits"))
    }

    /// A count for which 0 means the default. Nobody can run with a negative one.
    pub(super) fn count_or(&self, default: u32, report: &mut Diagnostics) -> Read<u32> {
        match self.integer()? {
            0 => Ok(default),
            number if number < 0 => {
                report.refuse_start(self.diagnostic(format!("{} value can not be negative", self.written)));
                Ok(default)
            }
            _ => Ok(self.clamped()?),
        }
    }

    /// A limit that 0 and negative numbers switch off.
    pub(super) fn limit(&self) -> Read<Option<u32>> {
        Ok(Some(self.clamped()?).filter(|&number| number > 0))
    }

    /// A number from zero to what 31 bits hold; what is beyond is moved there.
    fn clamped(&self) -> Read<u32> {
        let number = self.integer()?.clamp(0, i64::from(i32::MAX));
        Ok(u32::try_from(number).expect("a count of 31 bits"))
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

    /// A list of texts.
    pub(super) fn texts(&self) -> Read<Vec<String>> {
        let Value::Array(items) = self.value() else { return self.mismatch("an array", self.value()) };
        let text = |item: &Node| match &item.value {
            Value::Text(text) => Ok(text.clone()),
            other => {
                let (name, found) = (self.written, other.type_name());
                Err(diagnostic_at(&item.position, format!("items of {name:?} must be strings, not {found}")))
            }
        };
        items.iter().map(text).collect()
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
            .map_err(|error| self.diagnostic(format!("error parsing {}: {error}", self.name)))
    }

    /// A duration in Go's notation that is not negative.
    pub(super) fn duration(&self) -> Read<Duration> {
        let nanos = u64::try_from(self.signed_duration()?);
        nanos.map(Duration::from_nanos).map_err(|_| self.negative_duration())
    }

    /// A duration that older configurations give in whole seconds, for which 0 means the default.
    /// Nobody can run with a negative one.
    pub(super) fn duration_or(&self, default: Duration, report: &mut Diagnostics) -> Read<Duration> {
        match self.lenient_duration(&self.name, report)? {
            0 => Ok(default),
            nanos => Ok(u64::try_from(nanos).map(Duration::from_nanos).unwrap_or_else(|_| {
                report.refuse_start(self.negative_duration());
                default
            })),
        }
    }

    /// A duration that older configurations give in whole seconds; 0 and less mean that none was
    /// chosen. Diagnostics call the field `name`.
    pub(super) fn chosen_duration(&self, name: &str, report: &mut Diagnostics) -> Read<Option<Duration>> {
        let nanos = self.lenient_duration(name, report)?;
        Ok(u64::try_from(nanos).ok().filter(|&nanos| nanos > 0).map(Duration::from_nanos))
    }

    /// Nanoseconds, possibly negative, from a duration or, with a warning, from whole seconds.
    pub(super) fn lenient_duration(&self, name: &str, report: &mut Diagnostics) -> Read<i64> {
        match self.value() {
            Value::Integer(seconds) => {
                let reason = format!("{name} should be converted to a duration");
                report.warnings.push(self.diagnostic(format!("invalid use of field {name:?}: {reason}")));
                Ok(seconds.saturating_mul(1_000_000_000))
            }
            _ => duration::parse(self.text()?)
                .map_err(|error| self.diagnostic(format!("error parsing {name}: {error}"))),
        }
    }

    /// The time for a login: seconds, or a duration in Go's notation; `None` for 0. `what` is the
    /// block that errors name.
    pub(super) fn login_timeout(&self, what: &str, report: &mut Diagnostics) -> Read<Option<Duration>> {
        let fail = |reason: &str| self.diagnostic(format!("error parsing {what} config, 'timeout' {reason}"));
        let seconds = self.value().seconds();
        let seconds = seconds.map_err(|error| fail(error.as_deref().unwrap_or("wrong type")))?;
        if seconds > 60.0 {
            report.warnings.push(self.invalid_use(&format!(
                "timeout of {} ({seconds:.6} seconds) is high, consider keeping it under 60 seconds. \
                 possibly caused by unquoted duration; use '1m' instead of 1m, for example",
                self.value().shown()
            )));
        }
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_else(|_| {
            report.refuse_start(fail("must be a number of seconds from zero"));
            Duration::ZERO
        });
        Ok(Some(timeout).filter(|timeout| !timeout.is_zero()))
    }

    /// One text or a list of texts; diagnostics call them `what`.
    pub(super) fn text_or_texts(&self, what: &str, report: &mut Diagnostics) -> Read<Vec<String>> {
        let fail = |node: &Node, place: &str| {
            let found = node.value.go_type();
            diagnostic_at(&node.position, format!("error parsing {what}: unsupported type {place}{found}"))
        };
        match self.value() {
            Value::Text(text) => Ok(vec![text.clone()]),
            Value::Array(items) => {
                let text = |item: &Node| match &item.value {
                    Value::Text(text) => Ok(text.clone()),
                    _ => Err(fail(item, "in array ")),
                };
                Ok(items.iter().filter_map(|item| report.keep(text(item))).collect())
            }
            _ => Err(fail(self.node, "")),
        }
    }

    /// A list.
    pub(super) fn items(&self) -> Read<&'a [Node]> {
        match self.value() {
            Value::Array(items) => Ok(items),
            other => self.mismatch("a list", other),
        }
    }

    /// A block; `expected` is what the reference says that it expects.
    pub(super) fn block(&self, expected: &str) -> Read<&'a Map> {
        match self.value() {
            Value::Map(map) => Ok(map),
            other => Err(self.diagnostic(format!("{expected}, got {}", other.go_type()))),
        }
    }

    /// The warning about a value that is accepted but should be written differently.
    pub(super) fn invalid_use(&self, reason: &str) -> Diagnostic {
        self.diagnostic(format!("invalid use of field {:?}: {reason}", self.written))
    }

    fn negative_duration(&self) -> Diagnostic {
        self.diagnostic(format!("invalid {}, needs to be positive", self.name))
    }

    fn mismatch<T>(&self, expected: &str, found: &Value) -> Read<T> {
        Err(self.diagnostic(format!(
            "field {:?} must be {expected}, not {}",
            self.written,
            found.type_name()
        )))
    }
}

pub(super) fn diagnostic_at(position: &Position, message: impl Into<String>) -> Diagnostic {
    Diagnostic { position: Some(position.clone()), message: message.into() }
}
