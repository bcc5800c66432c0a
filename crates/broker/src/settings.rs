//! The broker's own small configuration: what the rules of a session need to know.

use std::time::Duration;

/// Limits and timings, with the reference's defaults.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Longest argument part of a control line, in bytes.
    pub max_control_line: usize,
    /// Largest payload in bytes, headers included.
    pub max_payload: u32,
    /// Bytes that may wait for one receiver before it is cut off as a slow consumer.
    pub max_pending: usize,
    /// Client connections at once; `None` is unlimited.
    pub max_connections: Option<usize>,
    /// Subscriptions of one connection; `None` is unlimited.
    pub max_subscriptions: Option<usize>,
    /// Tokens of a subscription's subject; `None` is unlimited.
    pub max_sub_tokens: Option<usize>,
    /// Quiet time after which the server sends PING.
    pub ping_interval: Duration,
    /// Unanswered PINGs that are tolerated.
    pub ping_max: u32,
    /// Time for a client to authenticate.
    pub auth_timeout: Duration,
    /// How long a blocked socket may make no progress.
    pub write_deadline: Duration,
    /// Whether headers are offered to clients.
    pub headers: bool,
    /// Drop for a receiver that is far behind instead of pausing its publishers.
    pub no_fast_producer_stall: bool,
    /// Whether a receiver that exceeds `write_deadline` is given another one instead of being cut
    /// off.
    pub retry_writes: bool,
    /// Deadlines of links to other servers, in place of `write_deadline` and `retry_writes`.
    pub link_writes: WritesByKind,
    /// Closed connections that monitoring remembers.
    pub max_closed_clients: usize,
    /// Parts of messages that the protocol log shows.
    pub protocol_log: ProtocolLogSettings,
}

/// Time for which another server may take nothing, and whether its link ends then.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkWrites {
    /// `None` is that of clients.
    pub deadline: Option<Duration>,
    /// Whether the link is cut off then. By default it is given more time: what waits for it is
    /// lost otherwise.
    pub closes: bool,
    /// Bytes that may wait for a server that has dialled; `None` is no bound. Above that the link
    /// ends.
    pub max_pending: Option<usize>,
}

/// Times for which other servers may take nothing, by what they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct WritesByKind {
    /// Links of routes, to other servers of the cluster.
    pub routes: LinkWrites,
    /// Leaf nodes and hubs.
    pub leaf_nodes: LinkWrites,
    /// Servers of other clusters.
    pub gateways: LinkWrites,
}

impl Settings {
    /// Bytes staged and waiting for one receiver from which on consumers deliver nothing more to
    /// it: see [`Shard::is_congested`](crate::Shard::is_congested).
    pub fn max_backlog(&self) -> usize {
        MAX_BACKLOG.min(self.max_pending / 4).max(2)
    }
}

/// The most that it may be. Less where little may be pending: no consumer's receiver is cut off for
/// what it asked for.
const MAX_BACKLOG: usize = 1024 * 1024;

/// How much of a message the protocol log shows.
#[derive(Debug, Clone, Default)]
pub struct ProtocolLogSettings {
    /// Bytes after which a payload is cut; `None` shows all.
    pub max_payload: Option<usize>,
    /// Headers only.
    pub headers_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_control_line: 4096,
            max_payload: 1024 * 1024,
            max_pending: 64 * 1024 * 1024,
            max_connections: Some(65536),
            max_subscriptions: None,
            max_sub_tokens: None,
            ping_interval: Duration::from_secs(120),
            ping_max: 2,
            auth_timeout: Duration::from_secs(2),
            write_deadline: Duration::from_secs(10),
            headers: true,
            no_fast_producer_stall: false,
            retry_writes: false,
            link_writes: WritesByKind::default(),
            max_closed_clients: 10_000,
            protocol_log: ProtocolLogSettings::default(),
        }
    }
}
