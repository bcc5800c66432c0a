//! The request's JSON by the rules of Go's decoder, which clients have come to rely on.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use myelin_stdx::time::Timestamp;
use myelin_wire::json::Text;

use super::{GetRequest, MalformedGet};
use crate::json::parse_moment;

/// Reads an object, or null, onto `request`.
pub(super) fn read(request: &mut GetRequest, json: &[u8]) -> Result<(), MalformedGet> {
    if has_raw_control(json) {
        return Err(MalformedGet);
    }
    let mut json = serde_json::Deserializer::from_slice(json);
    json.deserialize_option(Onto(request)).and_then(|()| json.end()).map_err(|_| MalformedGet)
}

/// Whether a control character stands in a string: the lossy reading of strings would let it pass.
fn has_raw_control(json: &[u8]) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            0..=31 if in_string => return true,
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    false
}

fn set_field<'de, A: MapAccess<'de>>(
    request: &mut GetRequest,
    name: &str,
    fields: &mut A,
) -> Result<(), A::Error> {
    match name {
        "seq" => set(&mut request.seq, fields),
        "last_by_subj" => set_text(&mut request.last_for, fields),
        "next_by_subj" => set_text(&mut request.next_for, fields),
        "batch" => set(&mut request.batch, fields),
        "max_bytes" => set(&mut request.max_bytes, fields),
        "start_time" => set_time(&mut request.start_time, fields),
        "multi_last" => set_texts(&mut request.multi_last, fields),
        "up_to_seq" => set(&mut request.up_to_seq, fields),
        "up_to_time" => set_time(&mut request.up_to_time, fields),
        "no_hdr" => set(&mut request.no_headers, fields),
        // Skipped whatever it holds, at any depth, without recursion.
        _ => fields.next_value::<IgnoredAny>().map(drop),
    }
}

fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(field: &mut T, fields: &mut A) -> Result<(), A::Error> {
    if let Some(value) = fields.next_value::<Option<T>>()? {
        *field = value;
    }
    Ok(())
}

fn set_text<'de, A: MapAccess<'de>>(field: &mut Vec<u8>, fields: &mut A) -> Result<(), A::Error> {
    if let Some(Text(text)) = fields.next_value::<Option<Text>>()? {
        *field = text.into_bytes();
    }
    Ok(())
}

/// Compat: a null within the list is an empty text, a null instead of it an empty list.
fn set_texts<'de, A: MapAccess<'de>>(field: &mut Vec<Vec<u8>>, fields: &mut A) -> Result<(), A::Error> {
    let texts = fields.next_value::<Option<Vec<Option<Text>>>>()?.unwrap_or_default();
    *field =
        texts.into_iter().map(|text| text.map_or_else(Vec::new, |Text(text)| text.into_bytes())).collect();
    Ok(())
}

fn set_time<'de, A: MapAccess<'de>>(field: &mut Option<Timestamp>, fields: &mut A) -> Result<(), A::Error> {
    *field = match fields.next_value::<Option<Text>>()? {
        Some(Text(text)) => {
            Some(parse_moment(text.as_bytes()).map_err(A::Error::custom)?.wrapping_timestamp())
        }
        None => None,
    };
    Ok(())
}

/// Compat: names match without regard to case, also by the two characters outside of ASCII that
/// fold to one within.
fn fold(name: &str) -> String {
    let fold = |c| match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    name.chars().map(fold).collect()
}

/// Reads an object, or null, onto what is there.
struct Onto<'a>(&'a mut GetRequest);

impl<'de> Visitor<'de> for Onto<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, object: D) -> Result<(), D::Error> {
        object.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(Text(mut name)) = fields.next_key()? {
            if name.bytes().any(|byte| !matches!(byte, b'a'..=b'z' | b'_')) {
                name = fold(&name);
            }
            set_field(self.0, &name, &mut fields)?;
        }
        Ok(())
    }
}
