//! A stored message as JetStream's API gives it to whoever asks for one.

use jiff::Timestamp;
use myelin_stdx::base64;
use serde_json::Value;

use crate::table::text;

/// A message as the API gives it.
pub(crate) struct ViewedMessage {
    pub(crate) sequence: u64,
    pub(crate) time: Timestamp,
    pub(crate) subject: String,
    pub(crate) header: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl ViewedMessage {
    pub(crate) fn of(answer: &Value) -> Self {
        let message = &answer["message"];
        let bytes =
            |name: &str| base64::decode(message[name].as_str().unwrap_or_default()).unwrap_or_default();
        Self {
            sequence: message["seq"].as_u64().unwrap_or_default(),
            time: text(&message["time"]).parse().unwrap_or_default(),
            subject: text(&message["subject"]),
            header: bytes("hdrs"),
            payload: bytes("data"),
        }
    }
}
