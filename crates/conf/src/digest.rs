//! The fingerprint of a parsed configuration, equal to the one nats-server shows.
//!
//! It is the SHA-256 of the tree written the way Go's `encoding/json` writes it: keys sorted by
//! bytes, `<`, `>` and `&` escaped, a final newline. Comments, order and layout do not change it.

use std::fmt::Write as _;

use myelin_wire::json::compact;
use sha2::{Digest as _, Sha256};

use crate::value::{Map, Value};

/// `sha256:` and 64 hexadecimal digits.
pub(crate) fn digest(map: &Map) -> String {
    let mut json = String::new();
    write_map(&mut json, map);
    json.push('\n');
    let hash = Sha256::digest(json.as_bytes());
    hash.iter().fold("sha256:".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all text");
        text
    })
}

fn write_value(json: &mut String, value: &Value) {
    match value {
        Value::Boolean(boolean) => json.push_str(if *boolean { "true" } else { "false" }),
        Value::Integer(integer) => json.push_str(&integer.to_string()),
        Value::Float(float) => json.push_str(&in_utf8(compact(float))),
        Value::Text(text) | Value::DateTime(text) => write_text(json, text),
        Value::Map(map) => write_map(json, map),
        Value::Array(items) => {
            json.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    json.push(',');
                }
                write_value(json, &item.value);
            }
            json.push(']');
        }
    }
}

fn write_map(json: &mut String, map: &Map) {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    json.push('{');
    for (at, (key, node)) in entries.into_iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        write_text(json, key);
        json.push(':');
        write_value(json, &node.value);
    }
    json.push('}');
}

/// Text in quotes; what stands for bytes that were no UTF-8 is escaped, as Go does it.
fn write_text(json: &mut String, text: &str) {
    json.push_str(&in_utf8(compact(&text)).replace(char::REPLACEMENT_CHARACTER, "\\ufffd"));
}

/// Text of what was encoded.
fn in_utf8(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("JSON of texts and numbers is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_like_go() {
        for (number, text) in [
            (1.0, "1"),
            (1.5, "1.5"),
            (-0.25, "-0.25"),
            (0.000001, "0.000001"),
            (0.0000001, "1e-7"),
            (1e20, "100000000000000000000"),
            (1.5e21, "1.5e+21"),
            (0.0, "0"),
        ] {
            assert_eq!(in_utf8(compact(&number)), text);
        }
    }

    #[test]
    fn strings_are_escaped_for_html() {
        let mut json = String::new();
        write_text(&mut json, "<a>&\"\\\u{1}\u{8}\n\u{7f}\u{2028}é");
        assert_eq!(json, "\"\\u003ca\\u003e\\u0026\\\"\\\\\\u0001\\b\\n\u{7f}\\u2028é\"");
    }
}
