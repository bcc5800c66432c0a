//! The monitoring answers: `/varz`, `/connz` and their sisters, and the index page.
//!
//! This room turns plain snapshots into the bytes that nats-server would answer: same keys, same
//! order, same rules for what is left out, same error texts. It owns no connection, clock or
//! counter: everything comes from a [`SnapshotSource`], which the server implements, and
//! [`Pages::respond`] is a pure function of it. It never knows about sockets or HTTP framing: an
//! [`PageResponse`] is a status, headers and a body.

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
mod page;
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
pub use page::Pages;
pub use response::PageResponse;
pub use routez::{ClusterConfig, RouteSnapshot};
pub use snapshot::{
    AccountClaims, AccountSnapshot, ApiStats, ClaimsIssue, Clocks, Closed, ClusterAilment, ClusterHealth,
    ConnSnapshot, GatewayAccountSnapshot, GatewaySnapshot, GatewayVarz, GatewaysSnapshot, Health,
    InterestSnapshot, JetStreamAccount, JetStreamConfig, JetStreamSnapshot, JetStreamStats, JournalSnapshot,
    Json, JwtInfo, LinkCounts, MetaGroup, MqttConfig, OcspPeerCache, PageHeader, PeerCert, PeerRow, Process,
    QueueSnapshot, RaftGroup, RaftGroupSnapshot, RaftPeer, RaftProgress, RemoteGatewayVarz, RuntimeSnapshot,
    ServerIdentity, ServerSnapshot, SnapshotSource, Standing, StorageAllowance, StoredAccount, StoredStream,
    StreamFailure, StreamParts, StreamSnapshot, SubSnapshot, ThreadSnapshot, Tls, Traffic,
    VarzJetStreamLimits, VarzLimits, VarzSettings, Volume, WebSocketConfig,
};
