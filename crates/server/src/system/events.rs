//! Events that the server publishes without being asked: who came, who went, who was turned away,
//! how many there are.
//!
//! On shards it is only looked whether anybody in the system account listens; the rest happens on
//! the room's own thread.

use super::envelope::{moment, now};
use super::{Job, System};
use crate::ocsp::OcspFinding;
use jiff::Timestamp;
use myelin_broker::ServerInfo;
use myelin_broker::{Account, ClientEvents, ClosedConn, Conn, ConnDetails, Endpoint};
use myelin_conf::options::GLOBAL_ACCOUNT;
use myelin_stdx::entropy::OsEntropy;
use myelin_wire::error::CloseReason;
use myelin_wire::json::{compact, is_zero};
use serde::Serialize;
use std::sync::Arc;
use std::time::SystemTime;

const CONNECT: &str = "io.nats.server.advisory.v1.client_connect";
const DISCONNECT: &str = "io.nats.server.advisory.v1.client_disconnect";
const OCSP_REJECT: &str = "io.nats.server.advisory.v1.ocsp_peer_reject";
const OCSP_LINK: &str = "io.nats.server.advisory.v1.ocsp_peer_link_invalid";

/// Beginning of every event.
#[derive(Serialize)]
pub(super) struct EventHeader {
    r#type: &'static str,
    id: String,
    timestamp: String,
    server: ServerInfo,
}

/// The client that an event is about, in the reference's order.
#[derive(Serialize, Default)]
struct EventClient {
    start: String,
    host: String,
    id: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    acc: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    lang: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    ver: String,
    #[serde(skip_serializing_if = "is_zero")]
    rtt: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    stop: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    jwt: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    issuer_key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name_tag: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(flatten)]
    kind: EventClientKind,
}

/// Kind of a client in an event.
#[derive(Serialize, Default)]
struct EventClientKind {
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client_type: &'static str,
    /// Client id of MQTT.
    #[serde(skip_serializing_if = "String::is_empty")]
    client_id: String,
}

#[derive(Serialize)]
struct Moved {
    msgs: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Connected {
    #[serde(flatten)]
    head: EventHeader,
    client: EventClient,
}

#[derive(Serialize)]
struct Disconnected<'a> {
    #[serde(flatten)]
    head: EventHeader,
    client: EventClient,
    sent: Moved,
    received: Moved,
    reason: &'a str,
}

/// A certificate in an event.
#[derive(Serialize)]
struct Certificate {
    subject: String,
    issuer: String,
    fingerprint: String,
    raw: String,
}

#[derive(Serialize)]
struct Rejected {
    r#type: &'static str,
    id: String,
    timestamp: String,
    kind: &'static str,
    peer: Certificate,
    server: ServerInfo,
    reason: String,
}

#[derive(Serialize)]
struct LinkInvalid {
    r#type: &'static str,
    id: String,
    timestamp: String,
    link: Certificate,
    peer: Certificate,
    server: ServerInfo,
    reason: String,
}

/// A client whose connection is over or about to be, as it was then.
pub(super) struct ClosedClient {
    cid: u64,
    endpoint: Endpoint,
    details: ConnDetails,
    client_type: &'static str,
    stop: SystemTime,
    reason: CloseReason,
    /// Reason that a callout service gave, said in place of ours.
    service_reason: Option<String>,
    /// Messages and bytes: from it, to it.
    moved: [(u64, u64); 2],
}

impl ClosedClient {
    fn of(conn: &Conn, reason: CloseReason) -> Self {
        Self {
            cid: conn.cid(),
            endpoint: conn.endpoint(),
            details: conn.details(),
            client_type: client_type(conn.via()),
            stop: SystemTime::now(),
            reason,
            service_reason: None,
            moved: [conn.received(), conn.sent()],
        }
    }

    /// Compat: a leaf node that was let into none has a name for that.
    fn account(&self) -> &str {
        let is_nowhere = self.client_type.is_empty() && self.details.account.is_empty();
        if is_nowhere { NO_ACCOUNT } else { account_of(&self.details) }
    }

    fn client(&self, account: &str) -> EventClient {
        EventClient {
            rtt: self.details.rtt.map_or(0, |rtt| rtt.as_nanos() as u64),
            stop: written(self.stop),
            ..client(self.cid, &self.endpoint, &self.details, self.client_type, account)
        }
    }
}

impl From<&ClosedConn> for ClosedClient {
    fn from(record: &ClosedConn) -> Self {
        Self {
            cid: record.cid,
            endpoint: record.endpoint,
            details: record.details.clone(),
            client_type: client_type(record.via),
            stop: record.stop,
            reason: record.reason,
            service_reason: None,
            moved: [record.received, record.sent],
        }
    }
}

/// Kind of a client's transport; empty for a leaf node, which is no client.
fn client_type(via: myelin_auth::ConnectionType) -> &'static str {
    match via {
        myelin_auth::ConnectionType::Websocket => "websocket",
        myelin_auth::ConnectionType::Mqtt | myelin_auth::ConnectionType::MqttWs => "mqtt",
        myelin_auth::ConnectionType::Leafnode | myelin_auth::ConnectionType::LeafnodeWs => "",
        _ => "nats",
    }
}

fn written(at: SystemTime) -> String {
    moment(Timestamp::try_from(at).unwrap_or_default())
}

/// The account of a leaf node that is in none.
const NO_ACCOUNT: &str = "N/A";

/// Compat: who belongs to no account is said to be in the global one.
fn account_of(details: &ConnDetails) -> &str {
    if details.account.is_empty() { GLOBAL_ACCOUNT } else { &details.account }
}

fn client(
    cid: u64,
    endpoint: &Endpoint,
    details: &ConnDetails,
    client_type: &'static str,
    account: &str,
) -> EventClient {
    let user = details.claims.as_ref();
    let own_tag = if account == NO_ACCOUNT { "" } else { account };
    let tag = user.map_or(own_tag, |user| user.account().name_tag());
    EventClient {
        start: written(endpoint.start),
        host: endpoint.peer.ip().to_string(),
        id: cid,
        acc: account.to_owned(),
        user: details.user.clone().unwrap_or_default(),
        name: details.name.to_string(),
        lang: details.lang.to_string(),
        ver: details.version.to_string(),
        jwt: user.and_then(|user| user.shown_token()).unwrap_or_default().to_owned(),
        issuer_key: details.issuer_key.clone().unwrap_or_default(),
        name_tag: tag.to_owned(),
        tags: user.map(|user| user.tags().to_vec()).unwrap_or_default(),
        kind: EventClientKind {
            kind: if client_type.is_empty() { "Leafnode" } else { "Client" },
            client_type,
            client_id: details.mqtt_client.as_deref().unwrap_or_default().to_owned(),
        },
        ..EventClient::default()
    }
}

impl ClientEvents for System {
    fn connected(&self, conn: &Arc<Conn>, account: &Arc<Account>) {
        let subject = format!("$SYS.ACCOUNT.{}.CONNECT", account.name());
        if self.is_heard(&subject) {
            self.note(Job::Connected(subject, Arc::clone(conn)));
        }
    }

    fn disconnected(&self, record: &ClosedConn) {
        let subject = format!("$SYS.ACCOUNT.{}.DISCONNECT", account_of(&record.details));
        if self.is_heard(&subject) {
            self.note(Job::Disconnected(subject, Box::new(record.into())));
        }
    }

    fn leaf_node_gone(&self, conn: &Arc<Conn>, reason: CloseReason) {
        let subject = conn.with_details(|details| format!("$SYS.ACCOUNT.{}.DISCONNECT", account_of(details)));
        if self.is_heard(&subject) {
            self.note(Job::Disconnected(subject, Box::new(ClosedClient::of(conn, reason))));
        }
    }

    /// Compat: other clusters are told, for servers that do not tell all interest at once begin to
    /// do so then.
    fn leaf_node_joined(&self, account: &Arc<Account>) {
        let subject = format!("$SYS.ACCOUNT.{}.LEAFNODE.CONNECT", account.name());
        if self.broker.has_gateway() && self.is_heard(&subject) {
            self.note(Job::LeafNode(subject, account.name().to_owned()));
        }
    }

    /// Compat: who owns accounts is told in the account where the client was before: the global
    /// one. Where a callout service decides it is the service's account.
    fn auth_failed(&self, conn: &Arc<Conn>, reason: CloseReason, service: Option<(&Arc<Account>, String)>) {
        let (to_account, why) = match service {
            Some((account, why)) => (Some(Arc::clone(account)), Some(why)),
            // Compat: a leaf node was in none before.
            None if !conn.is_leaf_link() && conn.with_details(|details| details.account.is_empty()) => {
                (self.broker.account(GLOBAL_ACCOUNT), None)
            }
            None => (None, None),
        };
        if let Some(account) = to_account.filter(|account| account.has_interest(AUTH_ERROR.as_bytes())) {
            let mut departed = ClosedClient::of(conn, reason);
            departed.service_reason = why;
            if departed.service_reason.is_some() {
                account.name().clone_into(&mut departed.details.account);
            }
            self.note(Job::AuthFailed(account, AUTH_ERROR.to_owned(), Box::new(departed)));
        }
        let subject = format!("$SYS.SERVER.{}.CLIENT.AUTH.ERR", self.id);
        if self.is_heard(&subject) {
            let departed = Box::new(ClosedClient::of(conn, reason));
            self.note(Job::AuthFailed(Arc::clone(&self.account), subject, departed));
        }
    }

    fn count_changed(&self, account: &Arc<Account>) {
        self.note_count(account);
    }
}

/// In an account: one of its clients was turned away.
const AUTH_ERROR: &str = "$SYS.ACCOUNT.CLIENT.AUTH.ERR";

impl System {
    pub(super) fn head(&self, kind: &'static str) -> EventHeader {
        EventHeader {
            r#type: kind,
            id: myelin_stdx::id::unique(&OsEntropy, 22),
            timestamp: now(),
            server: self.server_info(),
        }
    }

    pub(super) fn publish_connect(&self, subject: &str, conn: &Conn) {
        let details = conn.details();
        let via = client_type(conn.via());
        let client = client(conn.cid(), &conn.endpoint(), &details, via, account_of(&details));
        self.publish_event(&self.account, subject, &compact(&Connected { head: self.head(CONNECT), client }));
    }

    pub(super) fn publish_disconnect(&self, to: &Arc<Account>, subject: &str, departed: &ClosedClient) {
        let [(sent, sent_bytes), (received, received_bytes)] = departed.moved;
        let event = Disconnected {
            head: self.head(DISCONNECT),
            client: departed.client(departed.account()),
            sent: Moved { msgs: sent, bytes: sent_bytes },
            received: Moved { msgs: received, bytes: received_bytes },
            reason: departed.service_reason.as_deref().unwrap_or_else(|| departed.reason.text()),
        };
        self.publish_event(to, subject, &compact(&event));
    }

    /// The server itself: what it says at its end.
    pub(super) fn publish_server_event(&self, what: &str) {
        let subject = format!("$SYS.SERVER.{}.{what}", self.id);
        if self.is_heard(&subject) {
            self.publish_event(&self.account, &subject, &compact(&self.server_info()));
        }
    }

    /// Publishes a finding about the certificate of a peer.
    pub(crate) fn advise(&self, finding: &OcspFinding) {
        let what = match finding {
            OcspFinding::Rejected(..) => "OCSP.PEER.CONN.REJECT",
            OcspFinding::LinkInvalid(..) => "OCSP.PEER.LINK.INVALID",
        };
        let subject = format!("$SYS.SERVER.{}.{what}", self.id);
        if self.is_heard(&subject) {
            self.note(Job::Ocsp(subject, finding.clone()));
        }
    }

    pub(super) fn publish_ocsp(&self, subject: &str, finding: OcspFinding) {
        let (id, timestamp) = (myelin_stdx::id::unique(&OsEntropy, 22), now());
        let server = self.server_info();
        let body = match finding {
            OcspFinding::Rejected(kind, peer, reason) => compact(&Rejected {
                r#type: OCSP_REJECT,
                id,
                timestamp,
                kind: kind.name(),
                peer: certificate(&peer),
                server,
                reason,
            }),
            OcspFinding::LinkInvalid(peer, link, reason) => compact(&LinkInvalid {
                r#type: OCSP_LINK,
                id,
                timestamp,
                link: certificate(&link),
                peer: certificate(&peer),
                server,
                reason,
            }),
        };
        self.publish_event(&self.account, subject, &body);
    }
}

fn certificate(der: &[u8]) -> Certificate {
    Certificate {
        subject: crate::tls::subject(der),
        issuer: crate::tls::issuer(der),
        fingerprint: crate::ocsp::fingerprint(der),
        raw: crate::ocsp::to_base64(der),
    }
}
