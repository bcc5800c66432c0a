//! The broker: accounts, sessions as states, publish and fan-out, staging and outboxes.
//!
//! No socket, thread or clock lives here. A shell (`myelin-server`) owns one [`Shard`] per thread,
//! gives the bytes of each connection to its [`Session`], and calls [`Shard::flush`] once per tick.
//! What several threads share, the [`Broker`] with its accounts and the [`Conn`]s with their
//! outboxes, is behind short locks; everything per message is local to a shard.
//!
//! The order that clients rely on comes from one rule (contracts.md C5): a flush first moves
//! everything that the shard has staged into the outboxes, and only then writes sockets.
//!
//! A publish goes through `session/publish.rs` (checks), `shard/route.rs` (targets with the
//! permissions decided, cached), `shard/fanout.rs` (one loop over the targets), `shard/staging.rs`
//! (bytes for each receiver until the flush) and `outbox.rs` (bytes on their way to a socket). What
//! only some messages meet has a file of its own and costs the others nothing:
//! `shard/service_import.rs` (another account), `shard/fanout/traced.rs` (a trace),
//! `shard/service_queue.rs` (a stream or another service).
//!
//! Files import downwards: plain data (`conn_details.rs`, `imports/config.rs`), connections with
//! their parts and subscriptions, services, accounts with their imports, links, the broker, shards,
//! sessions. A service sees its shard by a trait ([`Serving`]), an account tells other servers by
//! one (`cluster.rs`), and an outbox does not know what waits for it (`waiter.rs`).
//!
//! # Where to look
//!
//! - What a verb does: `session/`, a file per family. What the log says of a client:
//!   `protocol_log.rs` and `session/{protocol_log,label,redact,refusal}.rs`.
//! - Who gets a message: `shard/route.rs`, `shard/fanout.rs`. Who may: `shard/rules.rs`.
//! - What accounts let each other have: `imports/`, `shard/service_import.rs`.
//!   Complaints about their configuration: `conf/src/options/accounts/imports.rs`.
//! - Which accounts' tokens are in force, and what follows from another one: `jwt_accounts.rs`,
//!   `session/reload.rs`.
//! - Who hears that somebody begins or ends to listen: `watch.rs`.
//! - Other servers of the cluster: `link/`, `shard/{remote,routed}.rs`. What servers say to each
//!   other for themselves: [`Broker::internal_account`].
//! - What is told of a traced message: `message_trace.rs`, `shard/fanout/traced.rs`; what a
//!   collector is told of one that another system traces: `message_trace/spans.rs`.
//! - What a session knows of WebSocket and other ways in: `listener_info.rs`. Who the server is in
//!   events: `server_info.rs`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::iter_over_hash_type))]

mod abilities;
mod account;
mod auth_and_accounts;
mod broker;
mod callout;
mod client_events;
mod closed;
mod closing;
mod cluster;
mod conn;
mod conn_details;
mod conn_shared;
mod delivery_rights;
mod elsewhere;
mod gateway_replies;
mod imports;
mod jwt_accounts;
mod kept_details;
mod link;
mod listener_info;
mod log;
mod message_trace;
mod mqtt5_client;
mod mqtt5_requests;
mod mqtt_clients;
mod mqtt_copy;
mod mqtt_inbox;
mod mqtt_message;
mod mqtt_nats_side;
mod mqtt_origin;
mod mqtt_storage;
mod mqtt_streams;
mod mqtt_will;
mod outbox;
mod protocol_log;
mod registry;
mod reply_prefix;
mod server_info;
mod service;
mod service_batch;
mod session;
mod settings;
mod shard;
mod sought_accounts;
mod subscription;
mod token_ends;
mod traffic;
mod unguessable;
mod waiter;
mod watch;

#[cfg(test)]
mod tests;

pub use account::Account;
pub use auth_and_accounts::{SetupError, StagedAuthAndAccounts};
pub use broker::Broker;
pub use callout::PendingCallout;
pub use client_events::ClientEvents;
pub use closed::{ClosedConn, ClosedSub, PastTraffic};
pub use cluster::LinkTerms;
pub use conn::{Conn, Transport};
pub use conn_details::{AccessRefusal, ConnDetails, Endpoint, PeerCertificate, RefusedAccess, TlsDetails};
pub use elsewhere::ConnectionCount;
pub use imports::{
    Access, AccountConfig, AccountLimits, AwaitedAnswer, DEFAULT_RESPONSE_THRESHOLD, Export, Import,
    LatencyConfig, ResponseType, ServiceExport, ServiceImport, StreamExport, StreamImport, TraceDestination,
};
pub use jwt_accounts::{JwtAccounts, Resolver};
pub use link::announcements::Announcing;
pub use link::gateway_announcements::GatewayAnnouncing;
pub use link::gateway_end::{GatewayAccount, GatewaySide, GatewayTerms, InterestMode};
pub use link::leaf::LeafFault;
pub use link::leaf_announcements::LeafAnnouncing;
pub use link::leaf_end::{LeafDenials, LeafDialler, LeafPermissions, LeafRole, LeafTerms};
pub use link::leaf_login::LeafLogin;
pub use link::linked_peer::{LinkedPeer, PeerObserver, SaidPeer};
pub use link::{Link, LinkRemoval, LinkScope};
pub use listener_info::{ListenerInfo, WebSocketOrigin};
pub use log::{Level, Log, Span};
pub use message_trace::MessageTrace;
pub use message_trace::spans::{MessageSpan, SpanRole, SpanSink, SpanValue};
pub use mqtt_origin::{MqttOrigin, MqttTerms};
pub use mqtt_storage::MqttStorage;
pub use outbox::{Drained, Segment};
pub use server_info::{Labels, ServerInfo};
pub use service::{Binding, Reach, Service, ServiceShard, Serving, TraceRole, Watcher};
pub use service_batch::{ServiceBatch, StoredAs, TraceRecord, Traced};
pub use session::{
    AuthTask, Checked, Consumed, Greeting, Refreshed, Removal, Session, SessionStatus, StopReason,
};
pub use settings::{LinkWrites, ProtocolLogSettings, Settings, WritesByKind};
pub use shard::asking_cluster::{ASKER, ASKING_CLUSTER};
pub use shard::{AwaitedReceiver, LatencyEvent, Shard};
pub use sought_accounts::SoughtAccounts;
pub use subscription::Subscription;
pub use token_ends::TokenOwner;
pub use traffic::{ConnKind, Counters, RouteCounts, Traffic};
pub use watch::Watch;
