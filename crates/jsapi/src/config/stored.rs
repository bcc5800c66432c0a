//! A stream's configuration as the store keeps it: one JSON object with everything, and when the
//! stream was made.

use super::StreamConfig;
use crate::json::{self, object};
use myelin_stdx::time::Timestamp;
use myelin_wire::json::compact;
use serde::Serialize;

/// Record of a stream that is kept besides its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// When the stream was made, in nanoseconds.
    pub created: Timestamp,
    /// After defaults, without what only answers carry.
    pub config: StreamConfig,
    /// The stream is being filled from a backup or another store: whoever finds it so after a start
    /// removes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// Messages up to this one may have lifetimes of which their headers alone tell; 0: none has.
    #[serde(skip_serializing_if = "is_zero")]
    pub lifetimes_until: u64,
    /// The number in the store of the stream whose place this one took, as a newer copy of the same
    /// one: whoever finds that one after a start removes it. 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub in_place_of: u64,
    /// Its log is that of a group: where damage has taken the log this says that others may have
    /// what is missing. `false`: it is not, or a version before has written it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_group: bool,
}

object! { Stored, "Stored":
    "created" created "int64",
    "config" config "StreamConfig",
    "unfinished" unfinished "bool",
    "lifetimes_until" lifetimes_until "uint64",
    "in_place_of" in_place_of "uint64",
    "of_group" of_group "bool",
}

fn is_zero(seq: &u64) -> bool {
    *seq == 0
}

impl Stored {
    /// Whether the stream is, or was, one of a group, as far as is known: one of several replicas
    /// always is, whichever version has written it.
    #[must_use]
    pub fn is_of_group(&self) -> bool {
        self.of_group || self.config.num_replicas > 1
    }

    /// The bytes to keep.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        compact(self)
    }

    /// Reads what [`encode`](Self::encode) has written. What a later version has added is ignored:
    /// [`is_supported`](super::is_supported) says whether that is safe.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut stored = Self::default();
        json::lenient(bytes, "Stored", &mut stored)?;
        Ok(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PersistMode, Republish, StreamSource, SubjectTransform};
    use crate::json::Moment;

    #[test]
    fn everything_comes_back() {
        let config = StreamConfig {
            name: "S".into(),
            subjects: vec!["a.>".into()],
            persist_mode: PersistMode::Async,
            sources: vec![StreamSource { opt_start_time: Some(Moment::from(5)), ..Default::default() }],
            subject_transform: Some(SubjectTransform { source: "a<".into(), destination: "b".into() }),
            republish: Some(Republish { headers_only: true, ..Default::default() }),
            metadata: [("k".into(), "v".into())].into(),
            ..Default::default()
        };
        let (unfinished, of_group) = (true, true);
        let stored = Stored { created: -7, config, unfinished, lifetimes_until: 7, in_place_of: 8, of_group };
        assert_eq!(Stored::decode(&stored.encode()).unwrap(), stored);
        assert!(stored.is_of_group() && !Stored::default().is_of_group());
        let before = r#"{"created":1,"config":{"name":"S","num_replicas":3}}"#;
        assert!(Stored::decode(before.as_bytes()).unwrap().is_of_group(), "of a version before");
        assert!(Stored::decode(b"{\"created\":1").is_err());
    }
}
