//! Snapshots that the pages are made from: plain values that the server fills in, and the
//! [`SnapshotSource`] that hands them out.
//!
//! Groups of a page that are copied without change are serialised as they stand, so their field
//! order and names here *are* the page's. A snapshot never points back into the running server.

mod cluster;
mod figures;
mod gateways;
mod health;
mod jetstream;
mod journal;
mod mqtt;
mod runtime;
mod websocket;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

pub use crate::counts::{LinkCounts, Volume};
use crate::imports::ExchangeSnapshot;
use crate::leafz::{LeafNodesConfig, LeafSnapshot};
use crate::routez::{ClusterConfig, RouteSnapshot};
use jiff::{Timestamp, tz::TimeZone};
use myelin_wire::peer::info::SubjectFilter;
use serde::Serialize;

use myelin_wire::json::{is_false, is_zero, nanoseconds};

pub use cluster::{MetaGroup, PeerRow, RaftGroup, RaftGroupSnapshot, RaftPeer, RaftProgress};
pub use figures::{ConsumerFigures, MetricsConfig, MostFigures, SourceFigures, StreamFigures};
pub use gateways::{
    GatewayAccountSnapshot, GatewaySnapshot, GatewayVarz, GatewaysSnapshot, RemoteGatewayVarz,
};
pub use health::{ClusterAilment, ClusterHealth, Health};
pub use jetstream::{
    ApiStats, JetStreamAccount, JetStreamConfig, JetStreamSnapshot, JetStreamStats, Json, Standing,
    StorageAllowance, StoredAccount, StoredStream, StreamFailure, StreamParts, StreamSnapshot,
    VarzJetStreamLimits,
};
pub use journal::JournalSnapshot;
pub use mqtt::MqttConfig;
pub use runtime::{PanicSnapshot, QueueSnapshot, RuntimeSnapshot, ThreadSnapshot};
pub use websocket::WebSocketConfig;

/// Where the pages get their values from. The server implements it; tests use a fixed one.
///
/// Every method may be called from any thread and may take a short lock, but must not wait for a
/// client.
pub trait SnapshotSource: Send + Sync {
    /// Header of the pages.
    fn page_header(&self) -> PageHeader;

    /// Everything that `/varz` shows.
    fn server(&self) -> ServerSnapshot;

    /// Whether an account of this name exists: `/connz?acc=` answers differently when it does not.
    fn has_account(&self, name: &str) -> bool;

    /// The system account's name, if there is such an account.
    fn system_account(&self) -> Option<String>;

    /// The names of all accounts, in the order in which `/accountz` lists them.
    fn account_names(&self) -> Vec<String>;

    /// One account, if it exists.
    fn account(&self, name: &str) -> Option<AccountSnapshot>;

    /// All accounts, in the order of their names in [`account_names`](Self::account_names). Cheaper
    /// than asking for one after the other.
    fn accounts(&self) -> Vec<AccountSnapshot>;

    /// Accounts with connections, in the same order. May give others too, which costs their copies.
    fn accounts_in_use(&self) -> Vec<AccountSnapshot> {
        self.accounts()
    }

    /// The clients of an account that are connected now, or those of all (`""`), in any order. May
    /// give others too, but that costs their copies.
    fn open_connections(&self, account: &str) -> Vec<ConnSnapshot>;

    /// Lists the most recently closed connections of an account, or of all (`""`), in any order;
    /// each has [`ConnSnapshot::closed`].
    fn closed_connections(&self, account: &str) -> Vec<ConnSnapshot>;

    /// The subscriptions of these connections, open or closed, by connection id. It is called with
    /// one page of connections at a time; a connection that is unknown or has no subscription may
    /// be missing.
    fn subscriptions_of(&self, cids: &[u64]) -> HashMap<u64, Vec<SubSnapshot>>;

    /// Hands every local subscription of one account, or of all, to `visit`.
    fn visit_subscriptions(&self, account: Option<&str>, visit: &mut dyn FnMut(SubSnapshot));

    /// The interest index of one account, or the sum over all. An unknown account has an empty one.
    fn interest(&self, account: Option<&str>) -> InterestSnapshot;

    /// Whether clients can connect and JetStream runs.
    fn health(&self) -> Health;

    /// JetStream without its accounts; `None` while it does not run. The other methods about
    /// JetStream are called only when it does.
    fn jetstream(&self) -> Option<JetStreamSnapshot> {
        None
    }

    /// The accounts that may use JetStream, in any order, with sums over their streams.
    fn jetstream_accounts(&self) -> Vec<JetStreamAccount> {
        Vec::new()
    }

    /// The streams of one account of [`jetstream_accounts`](Self::jetstream_accounts), in any
    /// order. It is called once for an account whose streams are listed, and not at all for sums.
    fn streams(&self, _account: &str, _parts: StreamParts) -> Vec<StreamSnapshot> {
        Vec::new()
    }

    /// Figures of the streams of one account in order of their names, no more than these.
    fn stream_figures(&self, _account: &str, _most: MostFigures) -> Vec<StreamFigures> {
        Vec::new()
    }

    /// How `/metrics` is configured; `None`: there is no such page.
    fn metrics(&self) -> Option<MetricsConfig> {
        None
    }

    /// Accounts in the store's folder, or one of them, in order of their names. Streams in memory
    /// are not there, nor is an account without streams in files.
    fn stored_accounts(&self, _account: Option<&str>) -> Vec<StoredAccount> {
        Vec::new()
    }

    /// Groups of replicas of which this server is a member; empty where it takes part in none.
    fn raft_groups(&self) -> Vec<RaftGroupSnapshot> {
        Vec::new()
    }

    /// Health of the server as a member of a cluster with JetStream; `None`: it is in none.
    fn cluster_health(&self) -> Option<ClusterHealth> {
        None
    }

    /// Work of JetStream that a full disk has kept from being done for a while, in words.
    fn waits_for_room(&self) -> Option<String> {
        None
    }

    /// Whether a stream has a consumer of this name.
    fn has_consumer(&self, _account: &str, _stream: &str, _consumer: &str) -> bool {
        false
    }

    /// Imports and exports that this server allows on links.
    fn route_filters(&self) -> [Option<SubjectFilter>; 2];

    /// Interest of other servers, by the link that brought it.
    fn remote_interest(&self) -> HashMap<u64, Vec<SubSnapshot>>;

    /// Links with leaf nodes and hubs.
    fn leaf_nodes(&self) -> Vec<LeafSnapshot>;

    /// The gateway and its links with other clusters, if there is one.
    fn gateways(&self) -> Option<GatewaysSnapshot> {
        None
    }

    /// Interest of other clusters, by the link that brought it.
    fn gateway_interest(&self) -> HashMap<u64, Vec<SubSnapshot>> {
        HashMap::new()
    }

    /// Links to the other servers of the cluster.
    fn routes(&self) -> Vec<RouteSnapshot>;

    /// The queues between this server's threads, for `/ipqueuesz`.
    fn queues(&self) -> Vec<QueueSnapshot>;

    /// The threads of this process, for `/stacksz`.
    fn threads(&self) -> Vec<ThreadSnapshot>;

    /// Command line and memory of the process, for `/debug/vars`.
    fn runtime(&self) -> RuntimeSnapshot;

    /// Counts a request to a page, named as in varz's `http_req_stats`. Called before the page is
    /// rendered, so that `/varz` shows itself.
    fn count_request(&self, page: &'static str);

    /// Reports something that an operator should read in the log, as a warning.
    fn warn(&self, text: String);
}

/// Header of nearly every page: who answers and when.
#[derive(Debug, Clone)]
pub struct PageHeader {
    /// The server's id, a public server nkey (`N…`).
    pub server_id: String,
    /// The configured name; the id when there is none.
    pub server_name: String,
    /// The name of the server's cluster; empty for none.
    pub cluster: String,
    /// The moment that ages are reckoned from.
    pub now: Timestamp,
    /// The zone in which the start and last activity of a connection are written.
    pub zone: TimeZone,
}

/// Everything that `/varz` shows of a single server.
#[derive(Debug, Clone, Default)]
pub struct ServerSnapshot {
    /// Name, version and addresses.
    pub identity: ServerIdentity,
    /// Limits and listeners of the configuration, as `/varz` shows them.
    pub limits: VarzLimits,
    /// The remaining shown options.
    pub settings: VarzSettings,
    /// Configuration of the cluster.
    pub cluster: ClusterConfig,
    /// Configuration of leaf nodes.
    pub leaf: LeafNodesConfig,
    /// The `gateway` section of `/varz`.
    pub gateway: GatewayVarz,
    /// Configuration of MQTT.
    pub mqtt: MqttConfig,
    /// Configuration of WebSocket.
    pub websocket: WebSocketConfig,
    /// When the server started, loaded its configuration and took this snapshot.
    pub clocks: Clocks,
    /// Resources that the process uses.
    pub process: Process,
    /// Connections, messages and bytes since the start.
    pub traffic: Traffic,
    /// Links closed because they did not read fast enough.
    pub slow_consumers: LinkCounts,
    /// Links closed because they did not answer pings.
    pub stale_connections: LinkCounts,
    /// Requests by page, as counted through [`SnapshotSource::count_request`].
    pub http_req_stats: BTreeMap<String, u64>,
    /// Accounts that somebody is connected to.
    pub active_accounts: usize,
    /// Where authorities' answers about the certificates of clients are kept.
    pub ocsp_peer_cache: Option<OcspPeerCache>,
}

/// The cache of OCSP's answers. Compat: what is zero is left out.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)]
pub struct OcspPeerCache {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub cache_type: &'static str,
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_hits: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_misses: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_responses: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_revoked_responses: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_good_responses: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_unknown_responses: i64,
}

/// Name, version and addresses: the first keys of `/varz`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ServerIdentity {
    /// A public server nkey (`N…`).
    pub server_id: String,
    /// The configured name; the id when there is none.
    pub server_name: String,
    /// The reference's version whose behaviour is offered, e.g. `2.15.2`.
    pub version: String,
    /// The protocol level of INFO, 1.
    pub proto: u32,
    /// The commit that was built; left out when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub git_commit: String,
    /// The Go version that clients of the reference see; the same text as in INFO.
    pub go: String,
    /// The address of the client listener.
    pub host: String,
    /// The bound port of the client listener.
    pub port: u16,
    /// Whether clients must authenticate; left out when not.
    #[serde(skip_serializing_if = "is_false")]
    pub auth_required: bool,
    /// Whether clients must use TLS; left out when not.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_required: bool,
    /// Whether clients must present a certificate; left out when not.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_verify: bool,
    /// Whether that certificate's revocation is asked for by OCSP; left out when not.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_ocsp_peer_verify: bool,
    /// The INFO `ip`, left out when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Addresses advertised to clients, left out when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_urls: Vec<String>,
    /// Addresses advertised to WebSocket clients, left out when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ws_connect_urls: Vec<String>,
}

/// The limits and monitoring listeners in `/varz`, as configured (not as bound).
#[derive(Debug, Clone, Default, Serialize)]
pub struct VarzLimits {
    /// Clients at once.
    pub max_connections: i64,
    /// Subscriptions per connection; left out when 0, which means no limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_subscriptions: i64,
    /// Written in nanoseconds.
    #[serde(serialize_with = "nanoseconds")]
    pub ping_interval: Duration,
    /// Unanswered pings before a connection is stale.
    pub ping_max: i64,
    /// The address of the monitoring listener.
    pub http_host: String,
    /// As configured: -1 when a random port was asked for, 0 when off.
    pub http_port: i32,
    /// As configured, empty when unset.
    pub http_base_path: String,
    /// As configured, 0 when off.
    pub https_port: i32,
    /// Seconds.
    pub auth_timeout: f64,
    /// Bytes.
    pub max_control_line: i32,
    /// Bytes.
    pub max_payload: i64,
    /// Bytes queued for one connection.
    pub max_pending: i64,
}

/// Options that `/varz` shows after the limits.
#[derive(Debug, Clone, Default)]
pub struct VarzSettings {
    /// Seconds.
    pub tls_timeout: f64,
    /// How long one write to a socket may take.
    pub write_deadline: Duration,
    /// Reaction at the write deadline (`close`, `retry`); empty, and left out, for the default.
    pub write_timeout: String,
    /// `sha256:…` of the configuration file, empty without one.
    pub config_digest: String,
    /// The server's tags.
    pub tags: Vec<String>,
    /// The server's metadata.
    pub metadata: BTreeMap<String, String>,
    /// The merged feature flags.
    pub feature_flags: BTreeMap<String, bool>,
    /// The system account's name; left out when empty.
    pub system_account: String,
    /// The JWTs of the operators that are trusted.
    pub operator_jwts: Vec<String>,
    /// Claims of the operators' tokens.
    pub operator_claims: Vec<serde_json::Value>,
    /// Logins refused because their issuer was not pinned; left out when 0.
    pub pinned_account_fails: u64,
    /// The keys of trusted proxies; left out when none are configured.
    pub trusted_proxies: Option<Vec<String>>,
    /// When the certificate of the client listener expires; left out without one.
    pub tls_cert_not_after: Option<Timestamp>,
}

/// The moments that `/varz` shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clocks {
    /// When the server started.
    pub start: Timestamp,
    /// When the snapshot was taken.
    pub now: Timestamp,
    /// When the configuration was last loaded.
    pub config_load: Timestamp,
}

/// Resources that the process uses.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Process {
    /// Resident bytes.
    pub mem: i64,
    /// Cores the process may use.
    pub cores: usize,
    /// Threads that run the data path; the reference's GOMAXPROCS.
    pub gomaxprocs: usize,
    /// A memory limit in bytes; left out when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gomemlimit: Option<i64>,
    /// Percent of one core, one decimal.
    pub cpu: f64,
}

/// Connections, messages and bytes, in `/varz`' order up to `out_client_bytes`.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Traffic {
    /// Clients connected now.
    pub connections: usize,
    /// Clients accepted since the start.
    pub total_connections: u64,
    /// Routes connected now.
    pub routes: usize,
    /// Servers reached by routes.
    pub remotes: usize,
    /// Leaf nodes connected now.
    pub leafnodes: usize,
    /// Messages received from links of every kind.
    pub in_msgs: u64,
    /// Bytes of those, headers and payload.
    pub in_bytes: u64,
    /// Messages received from clients.
    pub in_client_msgs: u64,
    /// Bytes of those.
    pub in_client_bytes: u64,
    /// Messages sent to links of every kind.
    pub out_msgs: u64,
    /// Bytes of those.
    pub out_bytes: u64,
    /// Messages sent to clients.
    pub out_client_msgs: u64,
    /// Bytes of those.
    pub out_client_bytes: u64,
    /// Times a publisher was held back; written after the slow and stale counts.
    #[serde(skip)]
    pub stalled_clients: u64,
    /// Messages that were dropped for receivers that are far behind; not in `/varz`.
    #[serde(skip)]
    pub dropped_for_slow: u64,
    /// Subscriptions of all accounts, the system account's own included.
    #[serde(skip)]
    pub subscriptions: u32,
}

/// One client connection, open or closed.
#[derive(Debug, Clone, Default)]
pub struct ConnSnapshot {
    /// The connection id.
    pub cid: u64,
    /// `Client`, `Leafnode`, …; left out when empty.
    pub kind: &'static str,
    /// `nats`, `websocket`, `mqtt`; left out when empty.
    pub transport: &'static str,
    /// The peer's address, without brackets.
    pub ip: String,
    /// The peer's port.
    pub port: u16,
    /// When it was accepted.
    pub start: Timestamp,
    /// When it last sent or received a message or subscribed.
    pub last_activity: Timestamp,
    /// When and why it ended; `None` while it is open.
    pub closed: Option<Closed>,
    /// The last measured round trip, zero when none was.
    pub rtt: Duration,
    /// Bytes queued for it.
    pub pending_bytes: u64,
    /// Messages received from it.
    pub in_msgs: u64,
    /// Messages sent to it.
    pub out_msgs: u64,
    /// Bytes received from it.
    pub in_bytes: u64,
    /// Bytes sent to it.
    pub out_bytes: u64,
    /// Times it was held back as a publisher; left out when 0.
    pub stalls: u64,
    /// How many subscriptions it has.
    pub subscriptions: u32,
    /// CONNECT's `name`; left out when empty.
    pub name: String,
    /// The client's library.
    pub library: ClientLibrary,
    /// The user as shown with `auth=1`: a user name or nkey, `[REDACTED]` for a token, or empty.
    pub authorized_user: String,
    /// The account's name, always set for a client that has one.
    pub account: String,
    /// The account's display name: its JWT's, else its name.
    pub account_tag: String,
    /// The user's JWT and what it says; shown with `auth=1`.
    pub claims: Option<JwtInfo>,
    /// How it is encrypted; `None` for a plain connection or during the handshake.
    pub tls: Option<Tls>,
    /// The MQTT client id; left out when empty.
    pub mqtt_client: String,
    /// The key of the trusted proxy that it came through; left out when empty.
    pub proxy_key: String,
    /// Refusals by its permissions, if there were any; shown where they are asked for.
    pub refused: Option<Box<RefusedSnapshot>>,
}

/// The library of a client, as its CONNECT names it; what is empty is left out.
#[derive(Debug, Clone, Default)]
pub struct ClientLibrary {
    /// CONNECT's `lang`.
    pub lang: String,
    /// CONNECT's `version`.
    pub version: String,
}

/// Publishes and subscriptions that the permissions of a connection have refused. Not in the
/// reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedSnapshot {
    /// How many since it connected.
    pub count: u64,
    /// The last of them, oldest first.
    pub last: Vec<RefusalSnapshot>,
}

/// A publish or a subscription that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalSnapshot {
    /// When.
    pub at: Timestamp,
    /// The error that the client got, which names the subject.
    pub error: String,
    /// The deny rule that covers the subject; `None` where no allow rule covers it.
    pub denied_by: Option<String>,
}

/// Fields of its user's JWT that a connection shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JwtInfo {
    /// The JWT as it may be shown: a bearer token not at all. Left out when empty.
    pub jwt: String,
    /// The user's name in it: what a closed connection is tagged with.
    pub name: String,
    /// The key that signed it; left out when empty.
    pub issuer_key: String,
    /// The user's tags.
    pub tags: Vec<String>,
}

/// How a connection is encrypted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// `1.2` or `1.3`.
    pub version: String,
    /// The suite as IANA and Go name it, e.g. `TLS_AES_128_GCM_SHA256`.
    pub cipher_suite: String,
    /// The peer's certificates, its own first; shown with `auth=1`.
    pub peer_certs: Vec<PeerCert>,
    /// Whether the handshake came before INFO.
    pub first: bool,
}

/// One certificate of a peer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PeerCert {
    /// The subject, as RFC 2253 writes names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// SHA-256 of the public key's structure, in hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub spki_sha256: String,
    /// SHA-256 of the certificate, in hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_sha256: String,
}

/// How a connection ended.
#[derive(Debug, Clone)]
pub struct Closed {
    /// When.
    pub stop: Timestamp,
    /// The reference's words, e.g. `Client Closed`.
    pub reason: String,
}

/// One subscription.
#[derive(Debug, Clone, Default)]
pub struct SubSnapshot {
    /// The account's name; not shown for an open connection.
    pub account: String,
    /// The account's display name: its JWT's, else its name.
    pub account_tag: String,
    /// The subject or pattern.
    pub subject: String,
    /// The queue group, empty when none.
    pub queue: String,
    /// The client's subscription id.
    pub sid: String,
    /// Messages delivered.
    pub msgs: u64,
    /// Ends after this many messages; 0 for never.
    pub max: u64,
    /// The connection's id.
    pub cid: u64,
}

/// One account.
#[derive(Debug, Clone, Default)]
pub struct AccountSnapshot {
    /// The name; with JWTs, the public key.
    pub name: String,
    /// The display name: its JWT's, else its name.
    pub tag: String,
    /// Whether it is the system account.
    pub is_system: bool,
    /// When it was configured last.
    pub updated: Timestamp,
    /// Clients connected now.
    pub clients: usize,
    /// Leaf nodes connected now.
    pub leafnodes: usize,
    /// Messages that its clients have published since the start.
    pub received: Volume,
    /// Messages that were delivered to its clients since the start.
    pub sent: Volume,
    /// Messages that came from leaf nodes and hubs since the start.
    pub received_from_leafs: Volume,
    /// Messages that went to them.
    pub sent_to_leafs: Volume,
    /// Clients of it that were closed because they did not read fast enough.
    pub slow_consumers: u64,
    /// Its interest index.
    pub interest: InterestSnapshot,
    /// Whether it may use JetStream, and JetStream runs.
    pub jetstream: bool,
    /// Exports and imports; empty where nobody asks for them.
    pub exchange: ExchangeSnapshot,
    /// Claims of its JWT, if it has one.
    pub claims: Option<AccountClaims>,
}

/// An account's JWT.
#[derive(Debug, Clone, Default)]
pub struct AccountClaims {
    /// The token; left out when empty.
    pub jwt: String,
    /// The key that signed it.
    pub issuer_key: String,
    /// The account's tags.
    pub tags: Vec<String>,
    /// All that it says.
    pub decoded: serde_json::Value,
    /// Issues of the token.
    pub issues: Vec<ClaimsIssue>,
    /// Users that are revoked, and until when they were issued.
    pub revoked: BTreeMap<String, Timestamp>,
    /// Whether it has expired.
    pub is_expired: bool,
    /// Whether all that it imports is there.
    pub is_complete: bool,
}

/// Something wrong with a JWT.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ClaimsIssue {
    /// What.
    pub description: String,
    /// The JWT is worth nothing.
    #[serde(rename = "blocking", skip_serializing_if = "is_false")]
    pub is_blocking: bool,
    /// Whether the issue will pass, or came, with time.
    #[serde(rename = "time_check", skip_serializing_if = "is_false")]
    pub is_about_time: bool,
}

/// The state of an interest index, or of several summed.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct InterestSnapshot {
    /// Subscriptions held.
    pub num_subscriptions: u32,
    /// Cached results.
    pub num_cache: u32,
    /// Subscriptions ever inserted.
    pub num_inserts: u64,
    /// Subscriptions ever removed.
    pub num_removes: u64,
    /// Look-ups.
    pub num_matches: u64,
    /// Share of look-ups answered by the cache, 0 to 1.
    pub cache_hit_rate: f64,
    /// The largest cached result.
    pub max_fanout: u32,
    /// The mean size of a cached result.
    pub avg_fanout: f64,
}
