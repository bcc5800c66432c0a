//! Tables and lists of facts, as the verbs print them.
//!
//! Owns how columns are laid out, and that every cell is harmless and in one line.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use myelin_loadgen::units::{binary, grouped, human_time};
use serde_json::Value;

use crate::screen::one_line;

/// Rows below headings, in columns as wide as they must be.
#[derive(Debug)]
pub(crate) struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// Adds a row of as many cells as there are headings.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|cell| one_line(cell)).collect());
    }

    /// The rows, or this line where there are none.
    pub(crate) fn text_or(&self, nothing: &str) -> String {
        if self.rows.len() == 1 { format!("{nothing}\n") } else { self.text() }
    }

    pub(crate) fn text(&self) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> =
            (0..self.rows[0].len()).map(|column| width(column).unwrap_or_default()).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text += cells.join("  ").trim_end();
            text.push('\n');
        }
        text
    }
}

/// Lines of a name and a value. Facts without a value are left out.
pub(crate) fn facts(lines: &[(&str, String)]) -> String {
    let lines = lines.iter().filter(|(_, value)| !value.is_empty());
    let width = lines.clone().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    lines.map(|(name, value)| format!("{name:>width$}: {}\n", one_line(value))).collect()
}

/// Names, one a line.
pub(crate) fn names(values: &[Value]) -> String {
    values.iter().map(|name| one_line(&text(name)) + "\n").collect()
}

/// A text of an answer; nothing where there is none.
pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_owned)
}

/// Texts of an answer, with commas.
pub(crate) fn texts(value: &Value) -> String {
    let texts: Vec<String> = value.as_array().into_iter().flatten().map(text).collect();
    texts.join(", ")
}

/// A number of an answer, with its thousands apart.
pub(crate) fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".into(), grouped)
}

/// A number of bytes of an answer.
pub(crate) fn size(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".into(), |bytes| binary(bytes as f64))
}

/// A limit, which may be none.
pub(crate) fn limit(value: &Value, shown: impl Fn(&Value) -> String) -> String {
    match value.as_i64() {
        None | Some(i64::MIN..=0) => "unlimited".into(),
        Some(_) => shown(value),
    }
}

/// A length of time in an answer, which counts nanoseconds.
pub(crate) fn period(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".into(), |nanos| human_time(Duration::from_nanos(nanos)))
}

/// A moment of an answer. Servers have the year 1 for none.
fn time_in(value: &Value) -> Option<Timestamp> {
    let time: Timestamp = value.as_str()?.parse().ok()?;
    (time.as_second() > 0).then_some(time)
}

/// A moment of an answer, to the second and in local time; nothing for none.
pub(crate) fn moment(value: &Value) -> String {
    time_in(value).map_or_else(String::new, local)
}

/// A moment, to the second and in local time.
pub(crate) fn local(time: Timestamp) -> String {
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The moment that a delivery names in nanoseconds.
pub(crate) fn moment_of(nanos: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or_default()
}

/// The moment so long ago, as configurations have it.
pub(crate) fn before(since: Duration) -> Value {
    let start = SystemTime::now().checked_sub(since).unwrap_or(SystemTime::UNIX_EPOCH);
    myelin_stdx::rfc3339::of_system_time(start).into()
}

/// How long ago a moment of an answer was; `None` for none.
pub(crate) fn passed(value: &Value) -> Option<Duration> {
    let passed = Timestamp::now().duration_since(time_in(value)?);
    Some(Duration::try_from(passed).unwrap_or_default())
}

/// How long ago a moment of an answer was; `never` for none.
pub(crate) fn ago(value: &Value) -> String {
    passed(value).map_or_else(|| "never".into(), human_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_in_their_line() {
        let mut columns = Columns::new(&["Name", "Messages"]);
        assert_eq!(columns.text_or("No streams"), "No streams\n");
        columns.row(["a\u{1b}[1m\nb".into(), "1".into()]);
        assert_eq!(columns.text_or(""), "Name              Messages\na\\u{1b}[1m\\u{a}b  1\n");
        assert_eq!(
            facts(&[("A", "x\r".into()), ("Long", String::new()), ("Bc", "y".into())]),
            " A: x\\u{d}\nBc: y\n"
        );
    }
}
