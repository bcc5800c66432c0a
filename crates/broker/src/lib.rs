//! The broker: accounts, sessions as states, publish and fan-out, staging and outboxes.
//!
//! No socket, thread or clock lives here. A shell (`myelin-server`) owns one [`Shard`] per thread, gives
//! the bytes of each connection to its [`Session`], and calls [`Shard::flush`] once per tick. What several
//! threads share, the [`Broker`] with its accounts and the [`Conn`]s with their outboxes, is behind short
//! locks; everything per message is local to a shard.
//!
//! The order that clients rely on comes from one rule (house.md 3.5): a flush first moves everything that
//! the shard has staged into the outboxes, and only then writes sockets.

mod account;
mod broker;
mod callout;
mod client_events;
mod closed;
mod cluster;
mod conn;
mod directory;
mod imports;
mod jwt_accounts;
mod listener_info;
mod log;
mod message_buf;
mod message_trace;
mod outbox;
mod registry;
mod reply_prefix;
mod server_info;
mod service;
mod session;
mod settings;
mod shard;
mod subscription;
mod trace;
mod traffic;
mod watch;

#[cfg(test)]
mod tests;

pub use account::{Account, AccountLimits};
pub use broker::Broker;
pub use callout::Asking;
pub use client_events::ClientEvents;
pub use closed::{ClosedConn, ClosedSub, PastTraffic};
pub use conn::{Conn, ConnDetails, Endpoint, PeerCertificate, TlsDetails, Transport};
pub use directory::{NextDirectory, SetupError};
pub use imports::{
    Access, AccountConfig, AwaitedAnswer, DEFAULT_RESPONSE_THRESHOLD, Export, Import, Latency, ResponseType,
    ServiceExport, ServiceImport, StreamExport, StreamImport,
};
pub use jwt_accounts::{JwtAccounts, Resolver};
pub use listener_info::{ListenerInfo, WebSocketOrigin};
pub use log::{Level, Log, Span};
pub use message_buf::{MessageBuf, MessageRef};
pub use message_trace::{MessageTrace, TraceDestination, Traced};
pub use outbox::{Drained, Segment};
pub use server_info::{Labels, ServerInfo};
pub use service::{Binding, Role, Service};
pub use session::{AuthTask, Checked, Consumed, Greeting, Refreshed, Removal, Session, StopReason, Verdict};
pub use settings::{Settings, Tracing};
pub use shard::Shard;
pub use subscription::Subscription;
pub use traffic::{Counters, RouteCounts, Traffic};
pub use watch::{Watch, Watcher};
