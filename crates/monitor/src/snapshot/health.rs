//! Health of the server, and of the server as a member of a cluster.

/// Whether clients can use the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Clients can connect, and JetStream was not asked for.
    Ready,
    /// Clients can connect, and JetStream runs. How its streams are is asked for with
    /// [`SnapshotSource::stored_accounts`](super::SnapshotSource::stored_accounts).
    WithJetStream,
    /// Clients cannot connect, with the reason as `/healthz` shows it.
    NotReady(String),
    /// Clients can connect, but JetStream was asked for and does not run.
    WithoutJetStream,
}

/// Stream or consumer of this server that is not as its cluster has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAilment {
    /// Its account.
    pub account: String,
    /// The stream.
    pub stream: String,
    /// Cause.
    pub reason: String,
}

/// Health of a server as a member of a cluster with JetStream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterHealth {
    /// Ailment of the meta group. Streams are not looked at then.
    pub meta: Option<String>,
    /// Streams that are not current.
    pub streams: Vec<ClusterAilment>,
}
