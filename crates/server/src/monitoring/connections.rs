//! Connections and subscriptions of the broker as snapshots for the pages.

use jiff::Timestamp;
use myelin_auth::ConnectionType;
use myelin_broker::{
    AccessRefusal, ClosedConn, ClosedSub, Conn, ConnDetails, Endpoint, PeerCertificate, RefusedAccess,
    Subscription,
};
use myelin_mesh::LinkState;
use myelin_mesh::leaf::LeafState;
use myelin_monitor::{ClientLibrary, Closed, ConnSnapshot, JwtInfo, PeerCert, SubSnapshot, Tls};
use myelin_monitor::{LeafSnapshot, RefusalSnapshot, RefusedSnapshot, RouteSnapshot};
use std::sync::Arc;
use std::time::SystemTime;

fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_default()
}

fn snapshot(cid: u64, via: ConnectionType, endpoint: &Endpoint, details: ConnDetails) -> ConnSnapshot {
    let (account_tag, claims) = (account_tag(&details), claims(&details));
    ConnSnapshot {
        cid,
        kind: if is_leaf(via) { "Leafnode" } else { "Client" },
        transport: match via {
            ConnectionType::Websocket => "websocket",
            ConnectionType::Mqtt | ConnectionType::MqttWs => "mqtt",
            _ if is_leaf(via) => "",
            _ => "nats",
        },
        ip: endpoint.peer.ip().to_string(),
        port: endpoint.peer.port(),
        start: timestamp(endpoint.start),
        rtt: details.rtt.unwrap_or_default(),
        name: details.name.into(),
        library: ClientLibrary { lang: details.lang.into(), version: details.version.into() },
        tls: details.tls.map(|tls| Tls {
            version: tls.version.to_owned(),
            cipher_suite: tls.cipher_suite,
            first: tls.is_first,
            peer_certs: tls.peer_certs.into_iter().map(peer_cert).collect(),
        }),
        authorized_user: details.user.unwrap_or_default(),
        account_tag,
        claims,
        proxy_key: details.proxy.map(String::from).unwrap_or_default(),
        account: details.account,
        mqtt_client: details.mqtt_client.map(String::from).unwrap_or_default(),
        refused: details.refused.map(|refused| Box::new(refusals(*refused))),
        ..ConnSnapshot::default()
    }
}

fn is_leaf(via: ConnectionType) -> bool {
    matches!(via, ConnectionType::Leafnode | ConnectionType::LeafnodeWs)
}

/// The account's name for people. Compat: of a token's account only.
fn account_tag(details: &ConnDetails) -> String {
    let of_claims = details.claims.as_ref().map(|claims| claims.account().name_tag());
    of_claims.unwrap_or(&details.account).to_owned()
}

/// Keys that vouch for a client which came with a key or a token.
fn claims(details: &ConnDetails) -> Option<JwtInfo> {
    let issuer_key = details.issuer_key.clone()?;
    let user = details.claims.as_ref();
    let jwt = user.and_then(|user| user.shown_token()).unwrap_or_default().to_owned();
    let tags = user.map(|user| user.tags().to_vec()).unwrap_or_default();
    let name = user.map(|user| user.name().to_owned()).unwrap_or_default();
    Some(JwtInfo { jwt, name, issuer_key, tags })
}

fn peer_cert(cert: PeerCertificate) -> PeerCert {
    PeerCert { subject: cert.subject, spki_sha256: cert.spki_sha256, cert_sha256: cert.cert_sha256 }
}

pub(super) fn open(conn: &Arc<Conn>) -> ConnSnapshot {
    let (in_msgs, in_bytes) = conn.received();
    let (out_msgs, out_bytes) = conn.sent();
    ConnSnapshot {
        last_activity: timestamp(conn.last_activity()),
        pending_bytes: conn.pending() as u64,
        in_msgs,
        in_bytes,
        out_msgs,
        out_bytes,
        stalls: conn.stalls(),
        subscriptions: conn.subscription_count() as u32,
        ..snapshot(conn.cid(), conn.via(), &conn.endpoint(), conn.details())
    }
}

/// A link with a leaf node or a hub, as one of the connections. Compat: a hub has no name there.
pub(super) fn open_leaf(link: &LeafState) -> ConnSnapshot {
    let (facts, shown) = (link.facts(), open(link.conn()));
    let name = if facts.did_solicit { String::new() } else { shown.name };
    ConnSnapshot { name, rtt: facts.rtt.unwrap_or_default(), ..shown }
}

pub(super) fn closed(conn: &ClosedConn) -> ConnSnapshot {
    ConnSnapshot {
        last_activity: timestamp(conn.last_activity),
        closed: Some(Closed { stop: timestamp(conn.stop), reason: conn.reason.text().to_owned() }),
        in_msgs: conn.received.0,
        in_bytes: conn.received.1,
        out_msgs: conn.sent.0,
        out_bytes: conn.sent.1,
        stalls: conn.stalls,
        subscriptions: conn.subscriptions as u32,
        ..snapshot(conn.cid, conn.via, &conn.endpoint, conn.details.clone())
    }
}

pub(super) fn subscriptions(conn: &Conn) -> Vec<SubSnapshot> {
    let account = conn.details().account;
    conn.subscriptions().iter().map(|sub| subscription(sub, &account)).collect()
}

pub(super) fn subscriptions_of_closed(conn: &ClosedConn) -> Vec<SubSnapshot> {
    conn.subs.iter().map(|sub| closed_subscription(sub, conn)).collect()
}

fn refusals(refused: RefusedAccess) -> RefusedSnapshot {
    let refusal =
        |AccessRefusal { at, error, denied_by }| RefusalSnapshot { at: timestamp(at), error, denied_by };
    RefusedSnapshot { count: refused.count, last: refused.last.into_iter().map(refusal).collect() }
}

pub(super) fn subscription(sub: &Subscription, account: &str) -> SubSnapshot {
    SubSnapshot {
        account: account.to_owned(),
        account_tag: account.to_owned(),
        subject: text(sub.subject()),
        queue: sub.queue().map(text).unwrap_or_default(),
        sid: text(sub.sid()),
        msgs: sub.delivered(),
        max: sub.max(),
        cid: sub.conn().cid(),
    }
}

/// A subscription of the server itself, which no connection has. Compat: the reference numbers
/// them.
pub(super) fn own_subscription(subject: &[u8], account: &str) -> SubSnapshot {
    SubSnapshot {
        account: account.to_owned(),
        account_tag: account.to_owned(),
        subject: text(subject),
        ..SubSnapshot::default()
    }
}

/// Compat: the limit of a subscription is not shown once its connection has ended.
fn closed_subscription(sub: &ClosedSub, conn: &ClosedConn) -> SubSnapshot {
    SubSnapshot {
        account: conn.details.account.clone(),
        account_tag: conn.details.account.clone(),
        subject: text(sub.subject()),
        queue: sub.queue().map(text).unwrap_or_default(),
        sid: text(sub.sid()),
        msgs: sub.delivered,
        max: 0,
        cid: conn.cid,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Interest of another server. Compat: its id is what the reference finds it by; `account` is none
/// on a link that is dedicated to one.
pub(super) fn remote_subscription(
    account: Option<&str>,
    conn: &Conn,
    subject: &[u8],
    queue: Option<(&[u8], u32)>,
) -> SubSnapshot {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (subject, queue) = (text(subject), queue.map_or_else(String::new, |(queue, _)| text(queue)));
    let words = [Some("R"), account, Some(&subject), Some(&*queue).filter(|queue| !queue.is_empty())];
    let sid = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
    SubSnapshot { subject, queue, sid, cid: conn.cid(), ..SubSnapshot::default() }
}

/// Interest of a leaf node or a hub. Compat: its id is what the reference finds it by.
pub(super) fn leaf_subscription(
    account: &str,
    conn: &Conn,
    subject: &[u8],
    queue: Option<(&[u8], u32)>,
) -> SubSnapshot {
    let (subject, queue) = (text(subject), queue.map_or_else(String::new, |(queue, _)| text(queue)));
    let sid = if queue.is_empty() { subject.clone() } else { format!("{subject} {queue}") };
    SubSnapshot {
        account: account.to_owned(),
        account_tag: account.to_owned(),
        subject,
        queue,
        sid,
        cid: conn.cid(),
        ..SubSnapshot::default()
    }
}

/// A link with a leaf node or a hub.
pub(super) fn leaf_node(link: &LeafState) -> LeafSnapshot {
    let (conn, facts) = (link.conn(), link.facts());
    let ((in_msgs, in_bytes), (out_msgs, out_bytes)) = (conn.received(), conn.sent());
    LeafSnapshot {
        id: conn.cid(),
        name: facts.name,
        is_spoke: facts.is_spoke,
        is_isolated: facts.is_isolated,
        account: facts.account,
        peer: conn.endpoint().peer,
        rtt: facts.rtt,
        msgs: [in_msgs, out_msgs],
        bytes: [in_bytes, out_bytes],
        subscriptions: facts.subscriptions,
        compression: facts.compression,
        is_web_socket: conn.is_web_socket_link(),
        proxy: facts.proxy,
    }
}

/// A link to another server.
pub(super) fn route(link: &LinkState) -> RouteSnapshot {
    let (conn, facts) = (link.conn(), link.facts());
    let (endpoint, (in_msgs, in_bytes), (out_msgs, out_bytes)) =
        (conn.endpoint(), conn.received(), conn.sent());
    RouteSnapshot {
        rid: conn.cid(),
        remote_id: facts.remote_id,
        remote_name: facts.remote_name,
        did_solicit: facts.did_solicit,
        is_configured: facts.is_explicit,
        peer: endpoint.peer,
        start: timestamp(endpoint.start),
        last_activity: timestamp(conn.last_activity()),
        rtt: facts.rtt,
        pending_size: conn.pending(),
        msgs: [in_msgs, out_msgs],
        bytes: [in_bytes, out_bytes],
        subscriptions: facts.subscriptions,
        account: facts.account,
        compression: facts.compression,
        filters: facts.filters,
    }
}
