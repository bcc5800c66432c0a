//! Counters (ADR-49): what the last message of a subject says, and what the next one has to say.
//!
//! A message of a counter has its increment in a header and the new total as its payload. In a
//! stream with sources a header keeps what each of them said last, so that only the difference is
//! added: a source may be counted from any message on. Nothing here knows a stream.

mod decimal;

pub use decimal::Decimal;

use crate::ApiError;
use std::collections::BTreeMap;

use myelin_wire::{header, json};
use serde_json::Value;

/// The totals of other streams, in a message of a counter.
pub const SOURCES: &[u8] = b"Nats-Counter-Sources";
/// The increment of a message.
pub const INCREMENT: &[u8] = b"Nats-Incr";

/// By stream and subject, what a source said last.
type Sources = BTreeMap<String, BTreeMap<String, String>>;

/// Value of a counter, with the parts that come from its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    total: Decimal,
    sources: Sources,
}

/// A message of a counter that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl From<Broken> for ApiError {
    fn from(_: Broken) -> Self {
        Self::MESSAGE_COUNTER_BROKEN
    }
}

impl Counter {
    /// Reads what a message says.
    ///
    /// # Errors
    /// It is no message of a counter.
    pub fn read(headers: &[u8], payload: &[u8]) -> Result<Self, Broken> {
        let total = read_total(payload)?;
        let sources = match header::get(headers, SOURCES) {
            None | Some(b"") => Sources::new(),
            Some(text) => read_sources(text)?,
        };
        Ok(Self { total, sources })
    }

    /// Counts a message of the stream's own.
    pub fn add(&mut self, increment: &Decimal) {
        self.total = self.total.plus(increment);
    }

    /// Counts a message that comes from another stream, where `payload` was its total on `subject`.
    /// Answers the increment that it is here.
    ///
    /// # Errors
    /// The payload is no total. Nothing has changed.
    pub fn add_sourced(&mut self, stream: &str, subject: &str, payload: &[u8]) -> Result<Decimal, Broken> {
        let total = read_total(payload)?;
        let of_stream = self.sources.entry(stream.to_owned()).or_default();
        let before = of_stream.insert(subject.to_owned(), total.to_string()).unwrap_or_default();
        let increment = total.minus(&Decimal::parse_beginning(before.as_bytes()));
        self.add(&increment);
        Ok(increment)
    }

    /// Writes the payload of the next message.
    pub fn write_payload(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{{\"val\":\"{}\"}}", self.total).as_bytes());
    }

    /// The header that says what sources have said, if any has.
    #[must_use]
    pub fn sources(&self) -> Option<Vec<u8>> {
        (!self.sources.is_empty()).then(|| json::compact(&self.sources))
    }
}

/// Reads a payload.
///
/// Compat: what is between the quotes counts as far as it is a number.
fn read_total(payload: &[u8]) -> Result<Decimal, Broken> {
    if let Some(text) = payload.strip_prefix(b"{\"val\":\"").and_then(|rest| rest.strip_suffix(b"\"}"))
        && let Some(total) = Decimal::parse(text)
    {
        return Ok(total);
    }
    let fields = match serde_json::from_slice(payload) {
        Ok(Value::Object(fields)) => fields,
        Ok(Value::Null) => return Ok(Decimal::default()),
        _ => return Err(Broken),
    };
    match fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("val")) {
        Some((_, Value::String(text))) => Ok(Decimal::parse_beginning(text.as_bytes())),
        Some((_, Value::Null)) | None => Ok(Decimal::default()),
        Some(_) => Err(Broken),
    }
}

fn read_sources(text: &[u8]) -> Result<Sources, Broken> {
    type Read = BTreeMap<String, Option<BTreeMap<String, Option<String>>>>;
    let read: Option<Read> = serde_json::from_slice(text).map_err(|_| Broken)?;
    let subjects = |subjects: Option<BTreeMap<String, Option<String>>>| {
        let totals = subjects.unwrap_or_default().into_iter();
        totals.map(|(subject, total)| (subject, total.unwrap_or_default())).collect()
    };
    Ok(read.unwrap_or_default().into_iter().map(|(stream, read)| (stream, subjects(read))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(counter: &Counter) -> String {
        let mut out = Vec::new();
        counter.write_payload(&mut out);
        String::from_utf8(out).expect("digits")
    }

    fn number(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).expect("a number")
    }

    #[test]
    fn a_total_is_read_and_written() {
        for text in [r#"{"val":"0"}"#, r#"{"val":"-12"}"#, r#"{"val":"123456789012345678901234567890"}"#] {
            assert_eq!(payload(&Counter::read(b"", text.as_bytes()).unwrap()), text);
        }
    }

    #[test]
    fn others_may_write_a_total_differently() {
        for (text, total) in [
            (r#" { "VAL" : "7" , "x": [1] } "#, "7"),
            (r#"{"val":"12x"}"#, "12"),
            (r#"{"val":null}"#, "0"),
            ("{}", "0"),
            ("null", "0"),
        ] {
            let counter = Counter::read(b"", text.as_bytes()).unwrap();
            assert_eq!(payload(&counter), format!(r#"{{"val":"{total}"}}"#), "{text}");
        }
        for text in ["", "x", "1", "[]", r#"{"val":1}"#, r#"{"val":"1""#, "\"1\""] {
            assert_eq!(Counter::read(b"", text.as_bytes()), Err(Broken), "{text}");
        }
    }

    #[test]
    fn what_sources_said_must_be_readable() {
        let headers = |value: &str| format!("NATS/1.0\r\nNats-Counter-Sources: {value}\r\n\r\n");
        let read = |value: &str| Counter::read(headers(value).as_bytes(), b"{}");
        for value in ["x", "[]", r#"{"S":1}"#, r#"{"S":{"a":1}}"#] {
            assert_eq!(read(value), Err(Broken), "{value}");
        }
        for value in ["", "null", "{}"] {
            assert_eq!(read(value).unwrap().sources(), None, "{value}");
        }
        let value = r#"{"S":{"a":"5"},"T":{"b":"-1"}}"#;
        assert_eq!(read(value).unwrap().sources().unwrap(), value.as_bytes());
    }

    #[test]
    fn of_a_source_the_difference_counts() {
        let mut counter = Counter::default();
        counter.add(&number("10"));
        let mut hear = |stream, total: &str| {
            let said = format!(r#"{{"val":"{total}"}}"#);
            let increment = counter.add_sourced(stream, "s.a", said.as_bytes()).unwrap();
            (increment.to_string(), payload(&counter))
        };
        assert_eq!(hear("A", "5"), ("5".into(), r#"{"val":"15"}"#.into()));
        assert_eq!(hear("B", "1"), ("1".into(), r#"{"val":"16"}"#.into()));
        assert_eq!(hear("A", "7"), ("2".into(), r#"{"val":"18"}"#.into()));
        // The same message once more, and one that was missed in between.
        assert_eq!(hear("A", "7"), ("0".into(), r#"{"val":"18"}"#.into()));
        assert_eq!(hear("A", "-3"), ("-10".into(), r#"{"val":"8"}"#.into()));
        let sources = counter.sources().unwrap();
        assert_eq!(sources, br#"{"A":{"s.a":"-3"},"B":{"s.a":"1"}}"#);
        let before = counter.clone();
        assert_eq!(counter.add_sourced("A", "s.a", b"x"), Err(Broken));
        assert_eq!(counter, before);
    }

    #[test]
    fn a_message_brings_sources_to_the_next() {
        let mut counter = Counter::default();
        counter.add_sourced("A", "a", br#"{"val":"5"}"#).unwrap();
        let sources = String::from_utf8(counter.sources().unwrap()).unwrap();
        let headers = format!("NATS/1.0\r\nNats-Incr: 5\r\nNats-Counter-Sources: {sources}\r\n\r\n");
        assert_eq!(Counter::read(headers.as_bytes(), payload(&counter).as_bytes()).unwrap(), counter);
    }
}
