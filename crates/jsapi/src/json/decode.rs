//! One checked value into one typed place, with Go's faults.
//!
//! Go goes on after a value of the wrong type or an unknown field and tells the first of them at
//! the end; a type that reads itself (an enum, a time) ends everything at once. [`JsonReader`]
//! keeps the first, [`Abort`] is the other.

use myelin_wire::json::{Value, ValueKind};
use std::collections::BTreeMap;

/// The fault of a type that reads itself.
#[derive(Debug)]
pub struct Abort(pub(crate) String);

/// Value that can be read from JSON. `null` leaves it as it is unless its type says otherwise.
pub trait Decode {
    /// Reads `value`; `go_type` is what Go calls the type of this place.
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort>;
}

/// Object that reads its members by name.
pub(crate) trait Object {
    /// Go's name of the type.
    const NAME: &'static str;

    /// Reads the member `key`. `None`: there is no such field. `owner` is the type that faults
    /// name: this one, or the one that this one is embedded in.
    fn member(
        &mut self,
        owner: &'static str,
        key: &str,
        value: Value<'_>,
        reader: &mut JsonReader,
    ) -> Option<Result<(), Abort>>;
}

/// Where the reading is and what was wrong first.
pub struct JsonReader {
    strict: bool,
    fault: Option<String>,
    /// The type whose field is being read.
    owner: &'static str,
    /// The fields that lead here.
    path: Vec<&'static str>,
}

impl JsonReader {
    /// `strict`: unknown fields are faults.
    pub(crate) fn new(strict: bool) -> Self {
        Self { strict, fault: None, owner: "", path: Vec::new() }
    }

    /// Reads `value` into `target` and gives the fault that Go would tell.
    pub(crate) fn read<T: Decode>(
        mut self,
        target: &mut T,
        value: Value<'_>,
        go_type: &str,
    ) -> Result<(), String> {
        target.decode(value, go_type, &mut self).map_err(|abort| abort.0)?;
        self.fault.map_or(Ok(()), Err)
    }

    /// Reads something inside of the field `name` of `owner`.
    pub(crate) fn field<R>(
        &mut self,
        owner: &'static str,
        name: &'static str,
        read: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let outer = std::mem::replace(&mut self.owner, owner);
        self.path.push(name);
        let result = read(self);
        self.path.pop();
        self.owner = outer;
        result
    }

    /// Notes that a value does not fit; `shown` is what Go calls it.
    pub(crate) fn mismatch(&mut self, shown: &str, go_type: &str) {
        if self.fault.is_none() {
            self.fault = Some(self.mismatched(shown, go_type));
        }
    }

    /// The words for a value that does not fit.
    pub(crate) fn mismatched(&self, shown: &str, go_type: &str) -> String {
        if self.path.is_empty() {
            return format!("json: cannot unmarshal {shown} into Go value of type {go_type}");
        }
        let (owner, path) = (self.owner, self.path.join("."));
        format!("json: cannot unmarshal {shown} into Go struct field {owner}.{path} of type {go_type}")
    }

    fn unknown(&mut self, key: &str) {
        if self.strict && self.fault.is_none() {
            let key = myelin_wire::error::Quoted(key.as_bytes());
            self.fault = Some(format!("json: unknown field {key}"));
        }
    }

    /// Reads all members of an object.
    pub(crate) fn object<T: Object>(
        &mut self,
        target: &mut T,
        value: Value<'_>,
        go_type: &str,
    ) -> Result<(), Abort> {
        match value.kind() {
            ValueKind::Null => {}
            ValueKind::Object => {
                for (key, value) in value.members() {
                    let key = key.string();
                    match target.member(T::NAME, &key, value, self) {
                        Some(read) => read?,
                        None => self.unknown(&key),
                    }
                }
            }
            other => self.mismatch(other.name(), go_type),
        }
        Ok(())
    }

    fn number<N: std::str::FromStr>(&mut self, target: &mut N, value: Value<'_>, go_type: &str) {
        let text = String::from_utf8_lossy(value.text());
        match (value.kind(), text.parse()) {
            (ValueKind::Null, _) => {}
            (ValueKind::Number, Ok(number)) => *target = number,
            (ValueKind::Number, Err(_)) => self.mismatch(&format!("number {text}"), go_type),
            (other, _) => self.mismatch(other.name(), go_type),
        }
    }
}

/// Whether `key` names the field `name`: case does not count. Go folds two characters outside of
/// ASCII into it.
pub(crate) fn same_name(name: &str, key: &str) -> bool {
    let folded = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    name.chars().eq(key.chars().map(folded))
}

/// How a type reads its members: `"name" field "type in Go"` for each, in order, and at last
/// `embeds field`, if Go embeds that.
macro_rules! object {
    ($type:ty, $go:literal: $($name:literal $field:ident $go_type:literal,)* $(embeds $part:ident)?) => {
        impl $crate::json::Object for $type {
            const NAME: &'static str = $go;

            fn member(
                &mut self,
                owner: &'static str,
                key: &str,
                value: myelin_wire::json::Value<'_>,
                reader: &mut $crate::json::JsonReader,
            ) -> Option<Result<(), $crate::json::Abort>> {
                $(if $crate::json::same_name($name, key) {
                    let read = |reader: &mut $crate::json::JsonReader| {
                        $crate::json::Decode::decode(&mut self.$field, value, $go_type, reader)
                    };
                    return Some(reader.field(owner, $name, read));
                })*
                $(if let Some(read) = $crate::json::embedded(&mut self.$part, owner, key, value, reader) {
                    return Some(read);
                })?
                None
            }
        }

        impl $crate::json::Decode for $type {
            fn decode(
                &mut self,
                value: myelin_wire::json::Value<'_>,
                go_type: &str,
                reader: &mut $crate::json::JsonReader,
            ) -> Result<(), $crate::json::Abort> {
                reader.object(self, value, go_type)
            }
        }
    };
}
pub(crate) use object;

/// Reads a member of what is embedded in `owner`.
pub(crate) fn embedded<T: Object>(
    part: &mut T,
    owner: &'static str,
    key: &str,
    value: Value<'_>,
    reader: &mut JsonReader,
) -> Option<Result<(), Abort>> {
    reader.field(owner, T::NAME, |reader| part.member(owner, key, value, reader))
}

/// One of a few words, as the reference's enums are read.
pub(crate) fn word<T: Copy>(value: Value<'_>, words: &[(&str, T)]) -> Result<T, Abort> {
    let found = words.iter().find(|(word, _)| word.as_bytes() == value.text());
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let quoted = myelin_wire::error::Quoted(value.text());
        Abort(format!("can not unmarshal {quoted}"))
    })
}

impl Decode for bool {
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        match value.kind() {
            ValueKind::Null => {}
            ValueKind::Bool => *self = value.text() == b"true",
            other => reader.mismatch(other.name(), go_type),
        }
        Ok(())
    }
}

impl Decode for String {
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        match value.kind() {
            ValueKind::Null => {}
            ValueKind::String => *self = value.string().into_owned(),
            other => reader.mismatch(other.name(), go_type),
        }
        Ok(())
    }
}

impl Decode for i64 {
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        reader.number(self, value, go_type);
        Ok(())
    }
}

impl Decode for i32 {
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        reader.number(self, value, go_type);
        Ok(())
    }
}

impl Decode for u64 {
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        reader.number(self, value, go_type);
        Ok(())
    }
}

/// A pointer in Go: `null` makes it nil.
impl<T: Decode + Default> Decode for Option<T> {
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        if value.kind() == ValueKind::Null {
            *self = None;
            return Ok(());
        }
        self.get_or_insert_default().decode(value, go_type.trim_start_matches('*'), reader)
    }
}

impl<T: Decode + Default> Decode for Vec<T> {
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        match value.kind() {
            ValueKind::Null => self.clear(),
            ValueKind::Array => {
                self.clear();
                let go_type = go_type.trim_start_matches("[]").trim_start_matches('*');
                for element in value.elements() {
                    let mut read = T::default();
                    read.decode(element, go_type, reader)?;
                    self.push(read);
                }
            }
            other => reader.mismatch(other.name(), go_type),
        }
        Ok(())
    }
}

impl Decode for BTreeMap<String, String> {
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        match value.kind() {
            ValueKind::Null => self.clear(),
            ValueKind::Object => {
                for (key, value) in value.members() {
                    let mut text = String::new();
                    text.decode(value, "string", reader)?;
                    self.insert(key.string().into_owned(), text);
                }
            }
            other => reader.mismatch(other.name(), go_type),
        }
        Ok(())
    }
}
