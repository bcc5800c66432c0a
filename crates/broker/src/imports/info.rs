//! `Nats-Request-Info`: who has sent a request that comes from another account.

use crate::broker::Broker;
use crate::conn::Conn;
use crate::kept_details::KeptDetails;
use myelin_auth::ConnectionType;
use myelin_stdx::rfc3339;
use myelin_wire::json::{compact, is_zero};
use serde::Serialize;
use std::time::Duration;

/// The header's name. Nobody but the server may say it.
pub(crate) const HEADER: &[u8] = b"Nats-Request-Info";

/// The header's value, in the reference's order.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct RequestInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    start: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    host: String,
    #[serde(skip_serializing_if = "is_zero")]
    id: u64,
    /// Where the requester is.
    #[serde(skip_serializing_if = "String::is_empty")]
    acc: String,
    /// The last account through which the request came, if it was not the first.
    #[serde(skip_serializing_if = "String::is_empty")]
    svc: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    lang: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    ver: String,
    #[serde(skip_serializing_if = "is_zero")]
    rtt: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    server: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cluster: String,
    /// Other clusters, the nearest first.
    #[serde(rename = "alts", skip_serializing_if = "Vec::is_empty")]
    others: Vec<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client_type: &'static str,
    /// The requester's own reply, where it says more than where to answer.
    #[serde(skip_serializing_if = "String::is_empty")]
    reply: String,
}

/// How replies of fast batches end, which tell the stream what the message is to the batch.
const BATCHED: &[u8] = b".$FI";

impl RequestInfo {
    /// Information about a client in `account`: all of it if that account shares it.
    pub(crate) fn of(broker: &Broker, account: &str, conn: &Conn, is_shared: bool) -> Self {
        let brief = Self::brief(account, conn.look(KeptDetails::rtt).unwrap_or_default());
        // Services have no connection of which there were anything to tell.
        if !is_shared || conn.cid() == 0 {
            return brief;
        }
        let endpoint = conn.endpoint();
        conn.look(|details| Self {
            start: rfc3339::of_system_time(endpoint.start),
            host: endpoint.peer.ip().to_string(),
            id: conn.cid(),
            user: details.user.as_deref().unwrap_or_default().to_owned(),
            name: details.name().to_owned(),
            lang: details.lang().to_owned(),
            ver: details.version().to_owned(),
            server: broker.name().to_owned(),
            cluster: broker.cluster().to_string(),
            others: broker.other_clusters(),
            kind: "Client",
            client_type: if conn.via() == ConnectionType::Websocket { "websocket" } else { "nats" },
            ..brief
        })
    }

    /// Information about a leaf node, for which a server asks whose link with this one is `conn`.
    pub(crate) fn of_leaf_node(broker: &Broker, account: &str, conn: &Conn) -> Self {
        let shown = Self::of(broker, account, conn, true);
        Self { kind: "Leafnode", client_type: "", server: shown.name.clone(), ..shown }
    }

    /// Information for the next account behind `account`.
    pub(crate) fn through(&self, account: &str) -> Self {
        Self { svc: account.to_owned(), ..self.clone() }
    }

    /// With the server's name and its cluster's, which are not shared by all.
    pub(crate) fn with_server(mut self, broker: &Broker) -> Self {
        broker.name().clone_into(&mut self.server);
        self.cluster.clone_from(&broker.cluster());
        self.others = broker.other_clusters();
        self
    }

    /// Information that everybody may have.
    pub(crate) fn brief(account: &str, rtt: Duration) -> Self {
        let rtt = i64::try_from(rtt.as_nanos()).unwrap_or(i64::MAX);
        Self { acc: account.to_owned(), rtt, ..Self::default() }
    }

    /// The last measured round trip in nanoseconds; 0 when there was none.
    pub(crate) fn rtt(&self) -> u64 {
        self.rtt.max(0) as u64
    }

    /// With the reply of a request, if the other account needs to know it.
    pub(crate) fn with_reply(mut self, reply: &[u8]) -> Self {
        if self.svc.is_empty() && reply.ends_with(BATCHED) {
            self.reply = String::from_utf8_lossy(reply).into_owned();
        }
        self
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        compact(self)
    }
}
