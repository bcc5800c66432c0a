//! JSON as Go's `encoding/json` writes it.
//!
//! Two things differ from what `serde_json` does by itself: `<`, `>`, `&` and the two Unicode line
//! separators are escaped inside strings, and a floating-point number without a fraction has no
//! `.0`.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::raw;
use serde::{Serialize, Serializer};
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

/// `value` indented by two spaces, without a newline at the end.
pub fn pretty(value: &impl Serialize) -> Vec<u8> {
    write(value, GoFormatter(PrettyFormatter::new()))
}

/// `value` indented by three spaces.
pub fn wide(value: &impl Serialize) -> Vec<u8> {
    write(value, GoFormatter(PrettyFormatter::with_indent(b"   ")))
}

/// `value` on one line, without blanks.
pub fn compact(value: &impl Serialize) -> Vec<u8> {
    write(value, GoFormatter(CompactFormatter))
}

/// For `serialize_with`: bytes as a string, UTF-8 or not.
pub fn text<S: Serializer>(text: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let mut json = Vec::with_capacity(text.len() + 2);
    quote(text, &mut json);
    ready(&json, serializer)
}

/// For `serialize_with`: numbers under names that need not be UTF-8, sorted by their bytes.
pub fn counts<S: Serializer>(counts: &BTreeMap<Vec<u8>, u64>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut json = vec![b'{'];
    for (name, count) in counts {
        if json.len() > 1 {
            json.push(b',');
        }
        quote(name, &mut json);
        json.extend_from_slice(format!(":{count}").as_bytes());
    }
    json.push(b'}');
    ready(&json, serializer)
}

/// Writes what is JSON already: byte strings, which JSON does not know, are passed through by
/// [`GoFormatter`].
fn ready<S: Serializer>(json: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(json)
}

/// Appends `text` as a string. What is not UTF-8 is written as Go writes it, `\ufffd` for each
/// byte.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        let valid = compact(&chunk.valid());
        out.extend_from_slice(&valid[1..valid.len() - 1]);
        chunk.invalid().iter().for_each(|_| out.extend_from_slice(b"\\ufffd"));
    }
    out.push(b'"');
}

fn write(value: &impl Serialize, formatter: impl Formatter) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    value.serialize(&mut serializer).expect("pages have string keys, and a Vec takes every write");
    bytes
}

/// For `skip_serializing_if`: Go's `omitempty` for booleans.
pub fn is_false(value: &bool) -> bool {
    !value
}

/// For `skip_serializing_if`: Go's `omitempty` for numbers.
pub fn is_zero<N: PartialEq + Default>(value: &N) -> bool {
    *value == N::default()
}

/// For `serialize_with`: a duration as Go writes one in JSON, in nanoseconds.
pub fn nanoseconds<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
}

/// Leaves the layout to the formatter inside and writes strings and floats itself; byte strings are
/// JSON already.
struct GoFormatter<F>(F);

impl<F: Formatter> Formatter for GoFormatter<F> {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, special) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut chars = special.chars();
            if let Some(c) = chars.next() {
                write!(writer, "\\u{:04x}", u32::from(c))?;
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        raw::write(self, writer, fragment)
    }

    fn write_byte_array<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: &[u8]) -> io::Result<()> {
        writer.write_all(value)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

/// The shortest text that reads back as `value`; scientific below 1e-6 and from 1e21 on.
fn float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        return if size < 1.0 { text } else { text.replace('e', "e+") };
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_safe_inside_html() {
        let text = compact(&"a<b>&\u{2028}\u{2029}\"\\\u{1}\n\u{7f}é");
        let expected = r#""a\u003cb\u003e\u0026\u2028\u2029\"\\\u0001\n"#.to_owned() + "\u{7f}é\"";
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    #[test]
    fn what_is_not_utf_8_is_escaped() {
        #[derive(Serialize)]
        struct Page(
            #[serde(serialize_with = "text")] &'static [u8],
            #[serde(serialize_with = "counts")] Counts,
        );
        type Counts = BTreeMap<Vec<u8>, u64>;
        let counts = [(b"b\xff".to_vec(), 1), (b"b".to_vec(), 2)].into();
        let json = compact(&Page(b"a<\xff\xfe\"b", counts));
        let expected = r#"["a\u003c\ufffd\ufffd\"b",{"b":2,"b\ufffd":1}]"#;
        assert_eq!(String::from_utf8_lossy(&json), expected);
    }

    #[test]
    fn floats_are_written_as_go_does() {
        let expected = [
            (2.0, "2"),
            (0.0, "0"),
            (0.5, "0.5"),
            (-1.25, "-1.25"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (2.5e-7, "2.5e-7"),
            (0.000001, "0.000001"),
        ];
        for (value, text) in expected {
            assert_eq!(compact(&value), text.as_bytes(), "{value}");
        }
    }

    #[test]
    fn empty_objects_and_lists_stay_on_one_line() {
        let value = serde_json::json!({"a": {}, "b": [], "c": [1, {"d": null}]});
        let expected =
            "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": null\n    }\n  ]\n}";
        assert_eq!(String::from_utf8_lossy(&pretty(&value)), expected);
    }

    #[test]
    fn durations_are_nanoseconds() {
        #[derive(Serialize)]
        struct Page(#[serde(serialize_with = "nanoseconds")] Duration);
        assert_eq!(compact(&Page(Duration::from_secs(120))), b"120000000000");
    }
}
