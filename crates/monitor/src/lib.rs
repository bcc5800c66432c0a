//! The monitoring answers: `/varz`, `/connz` and their sisters, the index page; and of our own,
//! `/metrics` and what orchestrators ask.
//!
//! This room turns plain snapshots into the bytes that nats-server would answer: same keys, same
//! order, same rules for what is left out, same error texts. It owns no connection, clock or
//! counter: everything comes from a [`SnapshotSource`], which the server implements, and
//! [`Pages::respond`] is a pure function of it, but that scrapes within a second share an answer.
//! It never knows about sockets or HTTP framing: a [`PageResponse`] is a status, headers and a
//! body.

mod accountz;
mod accstatz;
mod connz;
mod counts;
mod expvar;
mod gatewayz;
mod healthz;
mod imports;
mod index;
mod ipqueuesz;
mod jsz;
mod leafz;
mod metrics;
mod page;
mod probes;
mod query;
mod raftz;
pub mod request;
mod response;
mod routez;
mod snapshot;
mod stacksz;
mod subsz;
mod text;
mod varz;
mod window;

pub use imports::{
    ExchangeSnapshot, ExportSnapshot, ExportType, ImportSnapshot, LatencySnapshot, MappingSnapshot,
};
pub use leafz::{DenyRules, LeafNodesConfig, LeafRemoteConfig, LeafSnapshot};
pub use metrics::{OtlpRequests, otlp_requests, otlp_resource};
pub use page::{Effort, Pages};
pub use response::PageResponse;
pub use routez::{ClusterConfig, RouteSnapshot};
pub use snapshot::{
    AccountClaims, AccountSnapshot, ApiStats, ClaimsIssue, ClientLibrary, Clocks, Closed, ClusterAilment,
    ClusterHealth, ConnSnapshot, ConsumerFigures, GatewayAccountSnapshot, GatewaySnapshot, GatewayVarz,
    GatewaysSnapshot, Health, InterestSnapshot, JetStreamAccount, JetStreamConfig, JetStreamSnapshot,
    JetStreamStats, JournalSnapshot, Json, JwtInfo, LinkCounts, MetaGroup, MetricsConfig, MostFigures,
    MqttConfig, OcspPeerCache, PageHeader, PanicSnapshot, PeerCert, PeerRow, Process, QueueSnapshot,
    RaftGroup, RaftGroupSnapshot, RaftPeer, RaftProgress, RefusalSnapshot, RefusedSnapshot,
    RemoteGatewayVarz, RuntimeSnapshot, ServerIdentity, ServerSnapshot, SnapshotSource, SourceFigures,
    Standing, StorageAllowance, StoredAccount, StoredStream, StreamFailure, StreamFigures, StreamParts,
    StreamSnapshot, SubSnapshot, ThreadSnapshot, Tls, Traffic, VarzJetStreamLimits, VarzLimits, VarzSettings,
    Volume, WebSocketConfig,
};
