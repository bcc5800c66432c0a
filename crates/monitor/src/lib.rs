//! The monitoring answers: `/varz`, `/connz` and their sisters, and the index page.
//!
//! This room turns plain snapshots into the bytes that nats-server would answer: same keys, same order,
//! same rules for what is left out, same error texts. It owns no connection, clock or counter: everything
//! comes from a [`Source`], which the server implements, and [`Pages::respond`] is a pure function of it. It never
//! knows about sockets or HTTP framing: an [`Answer`] is a status, headers and a body.

mod accountz;
mod accstatz;
mod answer;
mod connz;
mod exchange;
mod expvar;
mod gatewayz;
mod healthz;
mod index;
mod ipqueuesz;
mod jsz;
mod leafz;
mod page;
mod query;
mod raftz;
pub mod request;
mod routez;
mod snapshot;
mod stacksz;
mod subsz;
mod text;
mod varz;
mod window;

pub use answer::Answer;
pub use exchange::{
    ExchangeSnapshot, ExportSnapshot, ImportSnapshot, Kind, LatencySnapshot, MappingSnapshot,
};
pub use page::Pages;
pub use snapshot::{
    AccountClaims, AccountSnapshot, Allowance, ApiStats, Claims, ClaimsIssue, Clocks, Closed, ClusterConfig,
    ConnSnapshot, Health, Identity, InterestSnapshot, JetStreamAccount, JetStreamConfig, JetStreamLimits,
    JetStreamSnapshot, JetStreamStats, JournalSnapshot, Json, Limits, LinkCounts, OcspPeerCache, PeerCert,
    Process, QueueSnapshot, RuntimeSnapshot, ServerSnapshot, Settings, Source, Stamp, Standing,
    StoredAccount, StoredStream, StreamFailure, StreamParts, StreamSnapshot, SubSnapshot, ThreadSnapshot,
    Tls, Traffic, Volume, WebSocketConfig,
};
