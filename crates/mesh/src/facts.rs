//! Facts about a link with another server of the cluster, as pages and other links know them.

use crate::config::RouteUrl;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::{PeerInfo, SubjectFilter};
use std::time::Duration;

/// Facts about a link, for whoever lists links.
#[derive(Debug, Clone, Default)]
pub struct LinkFacts {
    /// Id of the other server.
    pub remote_id: String,
    /// Its name.
    pub remote_name: String,
    /// Whether this server dialled, or is to dial again.
    pub did_solicit: bool,
    /// Whether the other server is configured here.
    pub is_explicit: bool,
    /// The account to which it is dedicated.
    pub account: Option<String>,
    /// Place in the pool, once it has one.
    pub place: Option<usize>,
    /// Where the other server can be dialled.
    pub url: Option<RouteUrl>,
    /// The other server knows no pool, or this one does not.
    pub has_no_pool: bool,
    /// A surplus link: another one has its place, so this one is not dialled again.
    pub is_surplus: bool,
    /// Both may have refused the other's link: it is dialled again in any case.
    pub retries: bool,
    /// Interest of the other side.
    pub subscriptions: usize,
    /// The last measured round trip.
    pub rtt: Option<Duration>,
    /// SHA-256 of the public key that the other side has shown, in hex.
    pub key: Option<String>,
    /// Compression as it is on this link, or why there is none; empty before that is known.
    pub compression: &'static str,
    /// Imports and exports that the other side allows, as its INFO has them.
    pub filters: [Option<SubjectFilter>; 2],
    /// Addresses of the other server.
    pub urls: ToldUrls,
}

/// Reason why a server is dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialCause {
    /// First dial, without a link before: the first attempt is made at once.
    New,
    /// End of its link: the attempt comes a moment later, which is partly random, and for a
    /// configured server a second more.
    Ended,
    /// Reload of this server, which has ended its link: that is to have another place. The attempt
    /// comes after a short moment, which is partly random: both servers may have been reloaded.
    Reloaded,
}

impl DialCause {
    /// Reason to dial again when a link has ended, for this reason where this server has one.
    pub(crate) fn after(closed: Option<CloseReason>) -> Self {
        match closed {
            Some(CloseReason::RouteRemoved) => Self::Reloaded,
            _ => Self::Ended,
        }
    }
}

/// Addresses of another server of the cluster, as its INFO has them.
#[derive(Debug, Clone, Default)]
pub struct ToldUrls {
    /// Addresses for clients, and for those of WebSocket.
    pub clients: [Vec<String>; 2],
    /// Address for leaf nodes.
    pub leaf_nodes: Option<String>,
    /// Address for other clusters.
    pub gateway: Option<String>,
}

impl ToldUrls {
    pub(crate) fn of(info: &PeerInfo) -> Self {
        Self {
            clients: [info.connect_urls.clone(), info.ws_connect_urls.clone()],
            // Compat: a server says its own address only, and nothing is made of more.
            gateway: Some(info.gateway_url.clone()).filter(|url| !url.is_empty()),
            leaf_nodes: <[String; 1]>::try_from(info.leafnode_urls.clone()).ok().map(|[url]| url),
        }
    }
}
