//! Streams that exist for one run: made with a name of their own, looked at, deleted.
//!
//! Owns their names and how they are configured.

use serde_json::{Value, json};

use crate::admin::{Admin, Counts};
use crate::error::BenchError;
use crate::target_server::Target;
use crate::token;

/// Where a stream keeps its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LoadStorage {
    /// In files.
    File,
    /// In memory.
    Memory,
    /// Files, written behind the acknowledgements (`persist_mode: async`).
    FileAsync,
}

/// Feature that a stream must allow besides plain publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Nothing,
    AtomicBatches,
    FastBatches,
    DirectGets,
}

/// The streams of one run.
pub(crate) struct Streams {
    admin: Admin,
    names: Vec<String>,
}

impl Streams {
    /// Makes this many streams, each with the subjects below its name.
    pub(crate) fn create(
        server: impl Into<Target>,
        count: usize,
        storage: LoadStorage,
        replicas: usize,
        feature: Feature,
    ) -> Result<Self, BenchError> {
        let mut streams = Self { admin: Admin::open(server)?, names: Vec::new() };
        for _ in 0..count {
            let name = format!("BENCH{}", token::unique(8));
            streams.admin.create_stream(&configuration(&name, storage, replicas, feature))?;
            streams.names.push(name);
        }
        Ok(streams)
    }

    /// Names of the streams.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Counts of the stream of this name.
    pub(crate) fn counts(&mut self, name: &str) -> Result<Counts, BenchError> {
        self.admin.counts(name)
    }

    /// Deletes the streams.
    pub(crate) fn delete(mut self) -> Result<(), BenchError> {
        self.names.iter().try_for_each(|name| self.admin.delete_stream(name))
    }
}

fn configuration(name: &str, storage: LoadStorage, replicas: usize, feature: Feature) -> Value {
    let mut configuration = json!({
        "name": name,
        "subjects": [format!("{name}.>")],
        "storage": if storage == LoadStorage::Memory { "memory" } else { "file" },
    });
    if replicas > 1 {
        configuration["num_replicas"] = replicas.into();
    }
    if storage == LoadStorage::FileAsync {
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
        assert_eq!(configuration("S", LoadStorage::Memory, 1, Feature::Nothing), plain);
        let fast = json!({
            "name": "S", "subjects": ["S.>"], "storage": "file", "persist_mode": "async", "allow_batched": true,
            "num_replicas": 3,
        });
        assert_eq!(configuration("S", LoadStorage::FileAsync, 3, Feature::FastBatches), fast);
    }
}
