//! A JSON document as the twins of decoders walk over it.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// A document with the fields of its object in their order, repeated ones too.
pub(crate) enum Document {
    Null,
    Object(Vec<(String, Value)>),
    Other,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON document")
            }

            fn visit_unit<E>(self) -> Result<Document, E> {
                Ok(Document::Null)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Document::Object(fields))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Document, E> {
                Ok(Document::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Document, E> {
                Ok(Document::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Document, E> {
                Ok(Document::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Document, E> {
                Ok(Document::Other)
            }

            fn visit_str<E>(self, _: &str) -> Result<Document, E> {
                Ok(Document::Other)
            }
        }
        from.deserialize_any(Reader)
    }
}
