//! Description of a stream by name and configuration, from a text that an operator has kept: for a
//! store that has lost it.

use super::import::alone;
use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::config::stored::Stored;
use myelin_jsapi::json::{self, parse_moment};
use myelin_store::meta::Meta;
use myelin_store::{StreamId, Timestamp};
use serde_json::Value;

/// A stream as the text describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDescription {
    /// Account of the stream, if the text says so.
    pub account: Option<String>,
    /// Name of the stream.
    pub name: String,
    /// Its directory in the store, if the text says so.
    pub directory: Option<StreamId>,
    /// Bytes that the store keeps for the server.
    pub blob: Vec<u8>,
    /// When it was made.
    pub created: Timestamp,
}

/// Reads a configuration, or what `nats stream info --json` and `myelin stream info` print, which
/// has it as `config` beside `created`. Beside either may stand `account` and `directory`. Without
/// `created` the stream was made `now`.
///
/// # Errors
/// What is wrong with the text.
pub fn read(text: &[u8], now: Timestamp) -> Result<StreamDescription, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let word = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let body = value.get("config").filter(|config| config.is_object()).unwrap_or(&value);
    let mut config = StreamConfig::default();
    json::lenient(body.to_string().as_bytes(), "StreamConfig", &mut config)?;
    if config.name.is_empty() {
        return Err(
            "it has no name: the configuration of a stream is wanted, or what its info prints".to_owned()
        );
    }
    let config = alone(config)?;
    let created = match word("created") {
        Some(text) => parse_moment(text.as_bytes())?.timestamp(),
        None => now,
    };
    let directory = match word("directory") {
        Some(text) => Some(
            directory(&text).ok_or_else(|| format!("{text:?} is no directory of a stream: 16 hex digits"))?,
        ),
        None => None,
    };
    let name = config.name.clone();
    // Nobody knows any more of which messages only the headers tell when they end.
    let lifetimes_until = if config.allow_msg_ttl { u64::MAX } else { 0 };
    let blob = Stored { created, config, lifetimes_until, ..Stored::default() }.encode();
    Ok(StreamDescription { account: word("account"), name, directory, blob, created })
}

/// The stream whose directory has this name.
#[must_use]
pub fn directory(text: &str) -> Option<StreamId> {
    let is_name = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_name).map(StreamId)
}

/// How the store opens a stream that it has described in `meta`.
#[must_use]
pub fn storage_config(meta: &Meta) -> myelin_store::StreamConfig {
    let stored = Stored::decode(&meta.config);
    stored.map_or_else(
        |_| myelin_store::StreamConfig::default(),
        |stored| crate::stream::storage_config(&stored.config, false),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_and_an_info_say_the_same() {
        let bare = read(br#"{"name":"S","subjects":["a.>"],"max_msgs":7}"#, 5).unwrap();
        assert_eq!((bare.name.as_str(), bare.account.as_deref(), bare.created), ("S", None, 5));
        let info = read(
            br#"{"type":"io.nats.jetstream.api.v1.stream_info_response","account":"A","directory":"00000000000000ff",
                "config":{"name":"S","subjects":["a.>"],"max_msgs":7,"num_replicas":3},
                "created":"1970-01-01T00:00:00.000000005Z","state":{"messages":3}}"#,
            9,
        )
        .unwrap();
        assert_eq!(
            info,
            StreamDescription { account: Some("A".into()), directory: Some(StreamId(255)), ..bare }
        );
        let stored = Stored::decode(&info.blob).unwrap();
        assert_eq!((stored.config.max_msgs, stored.config.num_replicas, stored.created), (7, 1, 5));
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        for text in [
            &b"[]"[..],
            b"{}",
            b"x",
            br#"{"name":"S","storage":"memory"}"#,
            br#"{"name":"S","directory":"7"}"#,
        ] {
            assert!(read(text, 1).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }
}
