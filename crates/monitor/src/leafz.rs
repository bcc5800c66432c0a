//! `/leafz`: links with leaf nodes, and with the hubs to which this server is one.

use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::query::{BadQuery, Query};
use crate::response::PageResponse;
use crate::snapshot::SnapshotSource;
use crate::text::{round_trip, utc};

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
