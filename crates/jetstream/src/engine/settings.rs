//! Settings of an operator for JetStream on this server.

use myelin_jsapi::consumer;
use myelin_streams::stream::batch::BatchLimits;
use std::time::Duration;

/// JetStream on this server.
#[derive(Clone, Debug)]
pub struct JetStreamSettings {
    /// Domain; empty for none.
    pub domain: String,
    /// Refuse requests with unknown fields.
    pub strict: bool,
    /// The server's name, as streams show it for their leader.
    pub server_name: String,
    /// The server's id.
    pub server_id: String,
    /// Acknowledge when a sync has returned, not before.
    pub sync_always: bool,
    /// Limits, which may change while the server runs.
    pub limits: ServerLimits,
    /// Limit of what may wait for one stream.
    pub backlog: Backlog,
    /// Bytes of an answer to a direct get that asks for many messages and sets no limit: what a
    /// connection may have pending.
    pub max_pending: i64,
    /// Bytes of the largest message that clients may publish.
    pub max_payload: i64,
    /// Requests to the API that may wait.
    pub request_queue_limit: usize,
}

/// Limits of streams and consumers of all accounts: of those that are made or changed from now on.
/// A reload may set others.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Bytes of all memory streams.
    pub max_memory: u64,
    /// Bytes of all file streams.
    pub max_store: u64,
    /// Whether the disk says how many: nobody else has.
    pub is_store_of_disk: bool,
    /// Longest window in which a stream finds duplicates.
    pub duplicate_window: Option<Duration>,
    /// Batches that may be open.
    pub batches: BatchLimits,
    /// Limits of consumers.
    pub consumers: consumer::config::ServerConsumerLimits,
}

/// Limit of what may wait for a stream before publishers are refused.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Messages.
    pub messages: usize,
    /// Bytes of all their parts.
    pub bytes: usize,
}

/// Advice to an operator about a stream that cannot be opened.
pub(super) const REPAIR: &str = "Stop the server and look at it with `myelin store check`";
