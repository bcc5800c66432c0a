//! Streams that exist for one run: made with a name of their own, looked at, deleted.
//!
//! Owns the connection that asks for it. Every answer with an error ends the run.

use serde_json::{Value, json};

use crate::bench::address::Address;
use crate::bench::connection::Connection;
use crate::bench::error::BenchError;
use crate::bench::jetstream::inbox;

/// Where a stream keeps its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Storage {
    File,
    Memory,
    /// Files, written behind the acknowledgements (`persist_mode: async`).
    FileAsync,
}

/// What a stream must allow besides plain publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Nothing,
    AtomicBatches,
    FastBatches,
    DirectGets,
}

/// The streams of one run.
pub(crate) struct Streams {
    connection: Connection,
    names: Vec<String>,
}

impl Streams {
    /// Makes this many streams, each with the subjects below its name.
    pub(crate) fn create(
        address: &Address,
        count: usize,
        storage: Storage,
        feature: Feature,
    ) -> Result<Self, BenchError> {
        let connection = Connection::open(address)?;
        let mut streams = Self { connection, names: Vec::new() };
        for _ in 0..count {
            let name = format!("BENCH{}", inbox::unique(8));
            streams.ask("CREATE", &name, &configuration(&name, storage, feature))?;
            streams.names.push(name);
        }
        Ok(streams)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Messages and subjects of a stream.
    pub(crate) fn counts(&mut self, name: &str) -> Result<(u64, u64), BenchError> {
        let info = self.ask("INFO", name, &Value::Null)?;
        let count = |what: &str| info["state"][what].as_u64();
        count("messages")
            .zip(count("num_subjects").or(Some(0)))
            .ok_or_else(|| BenchError::Protocol(format!("the state of stream {name}: {info}")))
    }

    pub(crate) fn delete(mut self) -> Result<(), BenchError> {
        let names = std::mem::take(&mut self.names);
        names.iter().try_for_each(|name| self.ask("DELETE", name, &Value::Null).map(drop))
    }

    fn ask(&mut self, verb: &str, name: &str, body: &Value) -> Result<Value, BenchError> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.connection.request(&format!("$JS.API.STREAM.{verb}.{name}"), body.as_bytes())?;
        answered(name, &answer)
    }
}

/// The answer to a request about a stream or a consumer, which must not be an error.
pub(crate) fn answered(about: &str, answer: &[u8]) -> Result<Value, BenchError> {
    if answer.is_empty() {
        return Err(BenchError::Refused("there is no JetStream".into()));
    }
    let answer: Value = serde_json::from_slice(answer)
        .map_err(|error| BenchError::Protocol(format!("the answer about {about}: {error}")))?;
    match &answer["error"] {
        Value::Null => Ok(answer),
        error => Err(BenchError::Refused(format!("{about}: {error}"))),
    }
}

fn configuration(name: &str, storage: Storage, feature: Feature) -> Value {
    let mut configuration = json!({
        "name": name,
        "subjects": [format!("{name}.>")],
        "storage": if storage == Storage::Memory { "memory" } else { "file" },
    });
    if storage == Storage::FileAsync {
        configuration["persist_mode"] = "async".into();
    }
    match feature {
        Feature::Nothing => {}
        Feature::AtomicBatches => configuration["allow_atomic"] = true.into(),
        Feature::FastBatches => configuration["allow_batched"] = true.into(),
        Feature::DirectGets => configuration["allow_direct"] = true.into(),
    }
    configuration
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_what_is_wanted_and_no_more() {
        let plain = json!({"name": "S", "subjects": ["S.>"], "storage": "memory"});
        assert_eq!(configuration("S", Storage::Memory, Feature::Nothing), plain);
        let fast = json!({
            "name": "S", "subjects": ["S.>"], "storage": "file", "persist_mode": "async", "allow_batched": true,
        });
        assert_eq!(configuration("S", Storage::FileAsync, Feature::FastBatches), fast);
    }
}
