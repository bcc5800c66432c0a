//! `/routez`: the links to other servers of the cluster.

use jiff::Timestamp;
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::query::{BadQuery, Query, Subs};
use crate::response::PageResponse;
use crate::snapshot::{SnapshotSource, SubSnapshot};
use crate::text::{age, optional_utc, round_trip, utc};
use myelin_wire::json::{is_zero, nanoseconds};
use myelin_wire::peer::info::SubjectFilter;

/// One link to another server.
#[derive(Debug, Clone)]
pub struct RouteSnapshot {
    /// Number of the connection.
    pub rid: u64,
    /// Id of the other server.
    pub remote_id: String,
    /// Its name.
    pub remote_name: String,
    /// Whether this server dials it.
    pub did_solicit: bool,
    /// Whether it is configured here.
    pub is_configured: bool,
    /// Address of the other end.
    pub peer: SocketAddr,
    /// When the link began.
    pub start: Timestamp,
    /// When something was last heard.
    pub last_activity: Timestamp,
    /// The last measured round trip.
    pub rtt: Option<Duration>,
    /// Bytes that wait for it.
    pub pending_size: usize,
    /// Messages received and sent, then bytes of those.
    pub msgs: [u64; 2],
    /// Bytes of those.
    pub bytes: [u64; 2],
    /// Interest of the other side.
    pub subscriptions: usize,
    /// The account to which it is dedicated.
    pub account: Option<String>,
    /// How it is compressed.
    pub compression: &'static str,
    /// Imports and exports that the other side allows.
    pub filters: [Option<SubjectFilter>; 2],
}

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    let subs = Subs::read(query)?;
    // Compat: unlike most pages, this one does not count a request with an unreadable value.
    source.count_request("/routez");
    let page_header = source.page_header();
    let routes = source.routes();
    let mut wanted = if subs == Subs::None { HashMap::new() } else { source.remote_interest() };
    let [import, export] = source.route_filters();
    Ok(PageResponse::page(&Routez {
        server_id: &page_header.server_id,
        server_name: &page_header.server_name,
        now: utc(page_header.now),
        import,
        export,
        num_routes: routes.len(),
        routes: routes
            .iter()
            .map(|route| {
                let wanted = wanted.remove(&route.rid).unwrap_or_default();
                RouteRow { interest: InterestList::of(subs, wanted), ..RouteRow::of(route, page_header.now) }
            })
            .collect(),
    }))
}

#[derive(Serialize)]
struct Routez<'a> {
    server_id: &'a str,
    server_name: &'a str,
    now: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<SubjectFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    export: Option<SubjectFilter>,
    num_routes: usize,
    routes: Vec<RouteRow<'a>>,
}

#[derive(Serialize)]
struct RouteRow<'a> {
    rid: u64,
    remote_id: &'a str,
    remote_name: &'a str,
    did_solicit: bool,
    is_configured: bool,
    ip: String,
    port: u16,
    #[serde(flatten)]
    times: RouteTimes,
    #[serde(flatten)]
    filters: RouteFilters<'a>,
    pending_size: usize,
    #[serde(flatten)]
    traffic: RouteTraffic,
    subscriptions: usize,
    #[serde(flatten)]
    interest: InterestList,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<&'a str>,
    compression: &'a str,
}

/// Interest of the other side, as far as it is asked for.
#[derive(Default, Serialize)]
pub(crate) struct InterestList {
    #[serde(rename = "subscriptions_list", skip_serializing_if = "Vec::is_empty")]
    subjects: Vec<String>,
    #[serde(rename = "subscriptions_list_detail", skip_serializing_if = "Vec::is_empty")]
    details: Vec<InterestDetail>,
}

#[derive(Serialize)]
struct InterestDetail {
    subject: String,
    #[serde(rename = "qgroup", skip_serializing_if = "String::is_empty")]
    queue: String,
    sid: String,
    msgs: u64,
    cid: u64,
}

impl InterestList {
    pub(crate) fn of(subs: Subs, wanted: Vec<SubSnapshot>) -> Self {
        match subs {
            Subs::None => Self::default(),
            Subs::Subjects => {
                Self { subjects: wanted.into_iter().map(|sub| sub.subject).collect(), details: Vec::new() }
            }
            Subs::Detail => {
                let detail = |sub: SubSnapshot| InterestDetail {
                    subject: sub.subject,
                    queue: sub.queue,
                    sid: sub.sid,
                    msgs: sub.msgs,
                    cid: sub.cid,
                };
                Self { subjects: Vec::new(), details: wanted.into_iter().map(detail).collect() }
            }
        }
    }
}

#[derive(Serialize)]
struct RouteFilters<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<&'a SubjectFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    export: Option<&'a SubjectFilter>,
}

#[derive(Serialize)]
struct RouteTraffic {
    in_msgs: u64,
    out_msgs: u64,
    in_bytes: u64,
    out_bytes: u64,
}

#[derive(Serialize)]
struct RouteTimes {
    start: String,
    last_activity: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    rtt: String,
    uptime: String,
    idle: String,
}

impl<'a> RouteRow<'a> {
    fn of(route: &'a RouteSnapshot, now: Timestamp) -> Self {
        Self {
            rid: route.rid,
            remote_id: &route.remote_id,
            remote_name: &route.remote_name,
            did_solicit: route.did_solicit,
            is_configured: route.is_configured,
            ip: route.peer.ip().to_string(),
            port: route.peer.port(),
            times: RouteTimes {
                start: utc(route.start),
                last_activity: utc(route.last_activity),
                rtt: route.rtt.map(round_trip).unwrap_or_default(),
                uptime: age(route.start, now),
                idle: age(route.last_activity, now),
            },
            filters: RouteFilters { import: route.filters[0].as_ref(), export: route.filters[1].as_ref() },
            pending_size: route.pending_size,
            traffic: RouteTraffic {
                in_msgs: route.msgs[0],
                out_msgs: route.msgs[1],
                in_bytes: route.bytes[0],
                out_bytes: route.bytes[1],
            },
            subscriptions: route.subscriptions,
            interest: InterestList::default(),
            account: route.account.as_deref(),
            compression: route.compression,
        }
    }
}

/// The `cluster` section of `/varz`; what is empty or zero is left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ClusterConfig {
    /// The name in force.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The address for routes, if one is configured.
    #[serde(rename = "addr", skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The port for routes, as it is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_port: Option<u16>,
    /// Seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub auth_timeout: f64,
    /// `host:port` of configured routes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// Seconds for a handshake, with or without TLS.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_timeout: f64,
    /// Whether servers speak TLS, and then whether they have to show certificates: they do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls_required: bool,
    /// Always what `tls_required` is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls_verify: bool,
    /// Connections between two servers; -1 for one.
    #[serde(skip_serializing_if = "is_zero")]
    pub pool_size: i64,
    /// Written in nanoseconds.
    #[serde(skip_serializing_if = "Duration::is_zero", serialize_with = "nanoseconds")]
    pub write_deadline: Duration,
    /// Reaction when the write deadline passes.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub write_timeout: &'static str,
    /// When the certificate for other servers expires.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_utc")]
    pub tls_cert_not_after: Option<Timestamp>,
}
