//! JetStream as the pages show it: what is configured and used, by the server and by account, the
//! streams, and what of it lies in the store.
//!
//! A page asks for as little as it shows: sums of all accounts first, the streams of an account
//! only when they are listed. What a stream looks like is decided where streams live: its pieces
//! come here as encoded JSON.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::cluster::MetaGroup;
use serde_json::value::RawValue;

use myelin_wire::json::{is_false, is_zero, nanoseconds};

/// A JSON value that is encoded already. The pages only lay it out again.
pub type Json = Box<RawValue>;

/// A running JetStream, without its accounts.
#[derive(Debug, Clone, Default)]
pub struct JetStreamSnapshot {
    /// How it is configured.
    pub config: JetStreamConfig,
    /// Limits from the configuration's `limits` block.
    pub limits: VarzJetStreamLimits,
    /// Usage of all accounts together.
    pub stats: JetStreamStats,
    /// The meta group, if the server is a member of one.
    pub meta: Option<MetaGroup>,
    /// Whether this server leads the meta group. A server alone counts as one that does.
    pub leads_meta: bool,
}

/// The configuration that is in force, after defaults.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JetStreamConfig {
    /// Bytes for streams in memory.
    pub max_memory: i64,
    /// Bytes for streams in files.
    pub max_storage: i64,
    /// The folder of the accounts: the configured one with `jetstream` appended. Left out when
    /// empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub store_dir: String,
    /// Written in nanoseconds; left out when zero.
    #[serde(serialize_with = "nanoseconds", skip_serializing_if = "Duration::is_zero")]
    pub sync_interval: Duration,
    /// Whether every write is synced; left out when not.
    #[serde(skip_serializing_if = "is_false")]
    pub sync_always: bool,
    /// Left out when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Compat: set when both maxima are configured and above 0, and for nothing else. Left out when
    /// not.
    #[serde(skip_serializing_if = "is_false")]
    pub compress_ok: bool,
    /// Left out when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unique_tag: String,
    /// Whether requests with unknown fields are refused; left out when not.
    #[serde(skip_serializing_if = "is_false")]
    pub strict: bool,
}

/// The configured limits. Each is left out when 0, which means that none was set.
#[derive(Debug, Clone, Default, Serialize)]
pub struct VarzJetStreamLimits {
    /// Messages in one pull request.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_request_batch: i64,
    /// Unacknowledged messages of one consumer.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_ack_pending: i64,
    /// Replicated streams and consumers.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_ha_assets: i64,
    /// The longest window for duplicates, written in nanoseconds.
    #[serde(serialize_with = "nanoseconds", skip_serializing_if = "Duration::is_zero")]
    pub max_duplicate_window: Duration,
    /// Open batches of one stream.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_batch_inflight_per_stream: i64,
    /// Open batches of all streams.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_batch_inflight_total: i64,
    /// Messages in one batch.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_batch_size: i64,
    /// How long a batch may wait for its end, written in nanoseconds.
    #[serde(serialize_with = "nanoseconds", skip_serializing_if = "Duration::is_zero")]
    pub max_batch_timeout: Duration,
    /// Consumers of a stream that says nothing of its own; the reference's default is 1000.
    #[serde(skip_serializing_if = "is_zero")]
    pub default_max_consumers: i64,
}

/// Usage and reservations: of the whole server or, in `/jsz`, of one account.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct JetStreamStats {
    /// Bytes of streams in memory.
    pub memory: u64,
    /// Bytes of streams in files.
    pub storage: u64,
    /// Bytes of memory that streams with a size limit have set aside.
    pub reserved_memory: u64,
    /// Bytes of files that streams with a size limit have set aside.
    pub reserved_storage: u64,
    /// Accounts that may use JetStream.
    pub accounts: usize,
    /// Replicated streams and consumers.
    pub ha_assets: usize,
    /// Requests to the API.
    pub api: ApiStats,
}

/// Requests to JetStream's API.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct ApiStats {
    /// The level of the API that is offered, 5 in the reference's release.
    pub level: u32,
    /// Requests since the start.
    pub total: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Requests that are being worked on; left out when 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub inflight: u64,
}

/// An account that may use JetStream, with sums over its streams.
#[derive(Debug, Clone, Default)]
pub struct JetStreamAccount {
    /// The name; with JWTs, the public key.
    pub name: String,
    /// The display name: its JWT's, else its name.
    pub tag: String,
    /// Bytes of its streams in memory.
    pub memory: u64,
    /// Bytes of its streams in files.
    pub storage: u64,
    /// Limits of the account; `None` when they are by tier.
    pub allowance: Option<StorageAllowance>,
    /// Its requests to the API since the start.
    pub api_total: u64,
    /// Requests that were answered with an error.
    pub api_errors: u64,
    /// Its streams.
    pub streams: usize,
    /// How many of them this server leads.
    pub streams_led: usize,
    /// Consumers of those that this server leads.
    pub consumers_led: usize,
    /// Consumers of those, without the hidden ones of mirrors and sources.
    pub consumers: usize,
    /// Messages in all of them.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
}

/// Limits of an account; -1 for as much as there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageAllowance {
    /// Bytes in memory.
    pub memory: i64,
    /// Bytes in files.
    pub storage: i64,
}

/// Which costly parts of a stream a page shows. What it does not show need not be filled in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamParts {
    /// The configuration of streams, and inside the consumers the one of consumers.
    pub config: bool,
    /// The consumers that users made.
    pub consumers: bool,
    /// The hidden consumers of mirrors and sources.
    pub direct_consumers: bool,
}

/// One stream.
#[derive(Debug, Clone)]
pub struct StreamSnapshot {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Timestamp,
    /// The configuration as it is stored: without the metadata that answers of the API add
    /// (`_nats.ver`, `_nats.level`). `None` unless it was asked for.
    pub config: Option<Json>,
    /// The object `cluster` of the API's answers: where it is.
    pub cluster: Json,
    /// Whether this server leads it.
    pub is_led_here: bool,
    /// Name of its group; empty where it has none.
    pub raft_group: String,
    /// Its consumers, each with the name of its group; empty unless consumers are asked for.
    pub consumer_raft_groups: Vec<(String, String)>,
    /// The object `state` of the API's answers, without subjects and deleted sequences.
    pub state: Json,
    /// The API's `mirror` object, if it is a mirror.
    pub mirror: Option<Json>,
    /// The API's `sources`, one object each.
    pub sources: Vec<Json>,
    /// The API's consumer info objects; `config` in them as asked for, without added metadata as
    /// above.
    pub consumers: Vec<Json>,
    /// Info objects of the hidden consumers, with `config` as asked for, without added metadata.
    pub direct_consumers: Vec<Json>,
}

/// Streams of one account in the store. `/healthz` compares them with what runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredAccount {
    /// The name of its folder, which is the account's name.
    pub name: String,
    /// Whether there is such an account.
    pub standing: Standing,
    /// Its streams in order of their names.
    pub streams: Vec<StoredStream>,
}

/// Whether an account that has streams in the store can use them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// The account can use them.
    #[default]
    Valid,
    /// There is no account of this name.
    Unknown,
    /// Its JWT is no longer valid.
    Expired,
}

/// A stream in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredStream {
    /// Its name.
    pub name: String,
    /// Failure of the stream, if it has one.
    pub failure: Option<StreamFailure>,
    /// Messages that it had stored and that a damaged disk took, as its `state.lost` counts them.
    pub lost: u64,
}

/// Why a stream does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFailure {
    /// The stream does not run: its files could not be read or make no sense.
    NotRecovered,
    /// The stream runs but cannot write any more, with the reason.
    Write(String),
}
