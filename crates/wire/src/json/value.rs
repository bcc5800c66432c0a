//! A walk through a JSON value whose syntax has been checked.
//!
//! A [`Value`] borrows its text. Nothing is built but strings, and those only when asked for.

use super::syntax::{SyntaxFault, check, skip_blanks, value_end};
use std::borrow::Cow;

/// Kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// Any number.
    Number,
    /// Any string.
    String,
    /// A list.
    Array,
    /// Members with names.
    Object,
}

impl ValueKind {
    /// As Go calls it when it complains.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// The text of one value without blanks around it. Always sound, for only checked text becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a>(&'a [u8]);

impl<'a> Value<'a> {
    /// The value that `json` is.
    ///
    /// # Errors
    /// When it is none, or more than one.
    pub fn parse(json: &'a [u8]) -> Result<Self, SyntaxFault> {
        check(json)?;
        Ok(Self(json.trim_ascii()))
    }

    /// The first value at or after `at`, which moves behind it. `None` when nothing but blanks is
    /// left.
    ///
    /// # Errors
    /// When what is left does not begin with a whole value.
    pub fn next(json: &'a [u8], at: &mut usize) -> Result<Option<Self>, SyntaxFault> {
        let start = skip_blanks(json, *at);
        if start == json.len() {
            return Ok(None);
        }
        *at = value_end(json, start)?;
        Ok(Some(Self(&json[start..*at])))
    }

    /// As it was written.
    #[must_use]
    pub fn text(self) -> &'a [u8] {
        self.0
    }

    /// Kind of the value.
    #[must_use]
    pub fn kind(self) -> ValueKind {
        match self.0.first() {
            Some(b'n') => ValueKind::Null,
            Some(b't' | b'f') => ValueKind::Bool,
            Some(b'"') => ValueKind::String,
            Some(b'[') => ValueKind::Array,
            Some(b'{') => ValueKind::Object,
            _ => ValueKind::Number,
        }
    }

    /// Names and values of an object; nothing for other kinds.
    pub fn members(self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        let mut parts = ValueParts::of(self, ValueKind::Object);
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// Elements of a list; nothing for other kinds.
    pub fn elements(self) -> impl Iterator<Item = Value<'a>> {
        ValueParts::of(self, ValueKind::Array)
    }

    /// The characters of a string; nothing for other kinds. What is not UTF-8, or half of a
    /// surrogate pair, becomes U+FFFD, one for each byte.
    #[must_use]
    pub fn string(self) -> Cow<'a, str> {
        if self.kind() != ValueKind::String {
            return Cow::Borrowed("");
        }
        let inside = &self.0[1..self.0.len() - 1];
        match std::str::from_utf8(inside) {
            Ok(text) if !inside.contains(&b'\\') => Cow::Borrowed(text),
            _ => Cow::Owned(unescape(inside)),
        }
    }
}

/// The values directly inside of another, keys included.
struct ValueParts<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> ValueParts<'a> {
    fn of(value: Value<'a>, wanted: ValueKind) -> Self {
        let json = if value.kind() == wanted { &value.0[..value.0.len() - 1] } else { &[] };
        Self { json, at: 1 }
    }
}

impl<'a> Iterator for ValueParts<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let value = Value::next(self.json, &mut self.at).ok()??;
        // A comma or a colon follows, or the end.
        self.at = skip_blanks(self.json, self.at) + 1;
        Some(value)
    }
}

fn unescape(inside: &[u8]) -> String {
    let mut out = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        push_lossy(&rest[..at], &mut out);
        let (c, length) = escaped(&rest[at + 1..]);
        out.push(c);
        rest = &rest[at + 1 + length..];
    }
    push_lossy(rest, &mut out);
    out
}

/// Appends text. Compat: one U+FFFD for each wrong byte, where Rust makes one for each run.
fn push_lossy(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// The character of an escape and how many bytes it takes behind the backslash.
fn escaped(text: &[u8]) -> (char, usize) {
    let plain = match text.first() {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(text),
        other => char::from(other.copied().unwrap_or_default()),
    };
    (plain, 1)
}

fn unicode(text: &[u8]) -> (char, usize) {
    let first = hex(text);
    let second = text.get(5..).filter(|rest| rest.starts_with(b"\\u")).map(|rest| hex(&rest[1..]));
    let pair = second.filter(|low| (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(low));
    match pair.and_then(|low| char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00))) {
        Some(c) => (c, 11),
        None => (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 5),
    }
}

/// The number behind a `u`.
fn hex(text: &[u8]) -> u32 {
    let digits = text.get(1..5).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_elements_are_walked() {
        let value = Value::parse(br#" { "a" : [ 1 , "x,]" ] , "b":{}} "#).unwrap();
        let members: Vec<_> = value.members().map(|(k, v)| (k.string(), v.kind())).collect();
        assert_eq!(members, [("a".into(), ValueKind::Array), ("b".into(), ValueKind::Object)]);
        let list = value.members().next().unwrap().1;
        let texts: Vec<_> = list.elements().map(Value::text).collect();
        assert_eq!(texts, [&b"1"[..], b"\"x,]\""]);
        assert_eq!(Value::parse(b"[]").unwrap().elements().count(), 0);
        assert_eq!(Value::parse(b"{}").unwrap().members().count(), 0);
        assert_eq!(Value::parse(b"7").unwrap().elements().count(), 0);
    }

    #[test]
    fn strings_are_read_as_go_reads_them() {
        for (json, text) in [
            (&br#""plain""#[..], "plain"),
            (br#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
            (br#""\u00e9\ud83d\ude00""#, "é😀"),
            (br#""\ud83dx\ude00""#, "\u{fffd}x\u{fffd}"),
            (br#""\ud83d\u0041""#, "\u{fffd}A"),
            (b"\"\xff\xc3(\"", "\u{fffd}\u{fffd}("),
        ] {
            assert_eq!(Value::parse(json).unwrap().string(), text);
        }
    }

    #[test]
    fn a_row_of_values_is_read_one_by_one() {
        let json = b" {} 12 x";
        let mut at = 0;
        assert_eq!(Value::next(json, &mut at).unwrap().unwrap().kind(), ValueKind::Object);
        assert_eq!(Value::next(json, &mut at).unwrap().unwrap().kind(), ValueKind::Number);
        assert_eq!(Value::next(json, &mut at).unwrap_err().offset(), Some(8));
        assert_eq!(Value::next(b"  ", &mut 0), Ok(None));
    }
}
