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
mod answers;
mod broker;
mod callout;
mod cluster;
mod conn;
mod directory;
mod ended;
mod entrance;
mod exchange;
mod log;
mod message_trace;
mod outbox;
mod parcel;
mod registry;
mod server_info;
mod service;
mod session;
mod settings;
mod shard;
mod subscription;
mod trace;
mod traffic;
mod trusted;
mod watch;
mod witness;

#[cfg(test)]
mod tests;

pub use account::{Account, AccountLimits};
pub use broker::Broker;
pub use callout::Asking;
pub use conn::{Conn, ConnDetails, Endpoint, PeerCertificate, Sink, TlsDetails};
pub use directory::{NextDirectory, SetupError};
pub use ended::{ClosedConn, ClosedSub, PastTraffic};
pub use entrance::{Door, Entrance};
pub use exchange::{
    Access, AccountConfig, AwaitedAnswer, DEFAULT_RESPONSE_THRESHOLD, Export, Import, Latency, ResponseType,
    ServiceExport, ServiceImport, StreamExport, StreamImport,
};
pub use log::{Level, Log, Span};
pub use message_trace::{MessageTrace, TraceDestination, Traced};
pub use outbox::{Drained, Segment};
pub use parcel::{Letter, Parcel};
pub use server_info::{Labels, ServerInfo};
pub use service::{Binding, Role, Service};
pub use session::{AuthTask, Checked, Consumed, Greeting, Refreshed, Removal, Session, Verdict, Why};
pub use settings::{Settings, Tracing};
pub use shard::Shard;
pub use subscription::Subscription;
pub use traffic::{Counters, RouteCounts, Traffic};
pub use trusted::{Resolver, TrustedAccounts};
pub use watch::{Watch, Watcher};
pub use witness::Witness;
