//! `/leafz`: links with leaf nodes, and with the hubs to which this server is one.

use jiff::Timestamp;
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::query::{BadQuery, Query};
use crate::response::PageResponse;
use crate::snapshot::SnapshotSource;
use crate::text::{optional_utc, round_trip, utc};
use myelin_wire::json::{is_zero, nanoseconds};

/// One link with a leaf node or a hub.
#[derive(Debug, Clone)]
pub struct LeafSnapshot {
    /// Number of the connection.
    pub id: u64,
    /// Name of the other server.
    pub name: String,
    /// Whether this server is the leaf node.
    pub is_spoke: bool,
    /// Whether the other side does not hear of what leaf nodes want.
    pub is_isolated: bool,
    /// The account here.
    pub account: String,
    /// Address of the other end.
    pub peer: SocketAddr,
    /// The last measured round trip.
    pub rtt: Option<Duration>,
    /// Messages received and sent.
    pub msgs: [u64; 2],
    /// Bytes of those.
    pub bytes: [u64; 2],
    /// Interest of the other side.
    pub subscriptions: usize,
    /// How it is compressed.
    pub compression: String,
    /// Whether it is a WebSocket.
    pub is_web_socket: bool,
    /// Key of the trusted proxy through which it came.
    pub proxy: Option<String>,
}

/// The `leaf` section of `/varz`; what is empty or zero is left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LeafNodesConfig {
    /// The address for leaf nodes, if one is configured.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The port for leaf nodes, as it is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub auth_timeout: f64,
    /// Seconds for a handshake, with or without TLS.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_timeout: f64,
    /// Whether leaf nodes have to speak TLS.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls_required: bool,
    /// Whether they have to show certificates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls_verify: bool,
    /// Hubs that are dialled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remotes: Vec<LeafRemoteConfig>,
    /// Written in nanoseconds. Compat: that of routes.
    #[serde(skip_serializing_if = "Duration::is_zero", serialize_with = "nanoseconds")]
    pub write_deadline: Duration,
    /// Reaction when the write deadline passes. Compat: that of routes.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub write_timeout: &'static str,
    /// When the certificate for leaf nodes expires.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_utc")]
    pub tls_cert_not_after: Option<Timestamp>,
}

/// A hub that is dialled, in `/varz`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LeafRemoteConfig {
    /// The account here.
    pub local_account: String,
    /// Seconds for a handshake with TLS.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_timeout: f64,
    /// `host:port` of its servers.
    pub urls: Vec<String>,
    /// Subjects that do not cross the link, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<DenyRules>,
}

/// Subjects that do not cross a link.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DenyRules {
    /// Not sent to the hub.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<String>,
    /// Not taken from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
}

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    source.count_request("/leafz");
    let lists = query.flag("subs")?;
    let account = query.text("acc");
    let page_header = source.page_header();
    let mut leafs = source.leaf_nodes();
    leafs.retain(|leaf| account.is_empty() || leaf.account == account);
    let mut wanted = if lists { source.remote_interest() } else { HashMap::new() };
    let rows = leafs.iter().map(|leaf| {
        let wanted = wanted.remove(&leaf.id).unwrap_or_default();
        LeafRow {
            subscriptions_list: wanted.into_iter().map(|sub| sub.subject).collect(),
            ..LeafRow::of(leaf)
        }
    });
    Ok(PageResponse::page(&Leafz {
        server_id: &page_header.server_id,
        now: utc(page_header.now),
        leafnodes: leafs.len(),
        leafs: rows.collect(),
    }))
}

#[derive(Serialize)]
struct Leafz<'a> {
    server_id: &'a str,
    now: String,
    leafnodes: usize,
    leafs: Vec<LeafRow<'a>>,
}

#[derive(Serialize)]
struct LeafTraffic {
    in_msgs: u64,
    out_msgs: u64,
    in_bytes: u64,
    out_bytes: u64,
}

#[derive(Serialize)]
struct LeafRow<'a> {
    id: u64,
    name: &'a str,
    is_spoke: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_isolated: bool,
    account: &'a str,
    ip: String,
    port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt: Option<String>,
    #[serde(flatten)]
    traffic: LeafTraffic,
    subscriptions: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscriptions_list: Vec<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    compression: &'a str,
    #[serde(rename = "websocket", skip_serializing_if = "std::ops::Not::not")]
    is_web_socket: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<ProxyKey<'a>>,
}

#[derive(Serialize)]
struct ProxyKey<'a> {
    key: &'a str,
}

impl<'a> LeafRow<'a> {
    fn of(leaf: &'a LeafSnapshot) -> Self {
        Self {
            id: leaf.id,
            name: &leaf.name,
            is_spoke: leaf.is_spoke,
            is_isolated: leaf.is_isolated,
            account: &leaf.account,
            ip: leaf.peer.ip().to_string(),
            port: leaf.peer.port(),
            rtt: leaf.rtt.map(round_trip),
            traffic: LeafTraffic {
                in_msgs: leaf.msgs[0],
                out_msgs: leaf.msgs[1],
                in_bytes: leaf.bytes[0],
                out_bytes: leaf.bytes[1],
            },
            subscriptions: leaf.subscriptions,
            subscriptions_list: Vec::new(),
            compression: &leaf.compression,
            is_web_socket: leaf.is_web_socket,
            proxy: leaf.proxy.as_deref().map(|key| ProxyKey { key }),
        }
    }
}
