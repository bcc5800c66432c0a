//! Configuration of the meta group's own stream.

use myelin_jsapi::config::{Storage, StreamConfig};

/// Name of the stream, and the first token of its subjects.
pub(super) const META: &str = "_meta_";
/// Under this key the configuration of the stream keeps the names of the servers.
pub(super) const SERVERS: &str = "servers";

/// The configuration of the stream.
pub(super) fn config(servers: &[String]) -> StreamConfig {
    let mut servers = servers.to_vec();
    servers.sort_unstable();
    servers.dedup();
    StreamConfig {
        name: META.to_owned(),
        subjects: vec![format!("{META}.>")],
        storage: Storage::File,
        max_consumers: -1,
        max_msgs: -1,
        max_bytes: -1,
        max_msgs_per_subject: 1,
        max_msg_size: -1,
        num_replicas: i64::try_from(servers.len()).unwrap_or(i64::MAX),
        metadata: [(SERVERS.to_owned(), servers.join(","))].into(),
        ..StreamConfig::default()
    }
}
