//! Texts that clients send.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use std::fmt;

/// A string in which bytes that are not UTF-8 and escapes that are no characters become replacement
/// characters instead of errors, as in Go.
#[derive(Debug)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Lossy;
        impl Visitor<'_> for Lossy {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        from.deserialize_bytes(Lossy)
    }
}
