//! The running server as the monitoring pages see it.

use crate::http::{RequestCounts, Scheme};
use crate::logging::Logger;
use crate::process::{self, Meter};
use crate::setup;
use crate::tls::ClientTls;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use myelin_broker::{Account, Broker, ClosedConn, Conn, ConnDetails, Endpoint, Subscription};
use myelin_conf::Loaded;
use myelin_conf::options::{Options, WriteTimeout};
use myelin_monitor::{
    Clocks, Closed, ConnSnapshot, Health, Identity, InterestSnapshot, Limits, LinkCounts, Process,
    ServerSnapshot, Settings, Source, Stamp, SubSnapshot, Traffic,
};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// Feature flags of the reference with their defaults; no option changes them yet.
const FEATURE_FLAGS: [(&str, bool); 4] = [
    ("js_ack_fc_v2", false),
    ("js_api_reply_v2", false),
    ("js_raft_delete_range", true),
    ("js_snapshot_sources", false),
];

/// The ports that were bound.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Addresses {
    pub(crate) client: u16,
    pub(crate) monitoring: Option<(Scheme, SocketAddr)>,
}

/// See the head of this file.
pub(crate) struct Monitor {
    options: Options,
    digest: String,
    broker: Arc<Broker>,
    log: Arc<Logger>,
    meter: Meter,
    start: Timestamp,
    requests: RequestCounts,
    addresses: OnceLock<Addresses>,
    tls: OnceLock<Arc<ClientTls>>,
}

impl Monitor {
    pub(crate) fn new(loaded: &Loaded, broker: Arc<Broker>, log: Arc<Logger>, meter: Meter) -> Arc<Self> {
        Arc::new(Self {
            options: loaded.options.clone(),
            digest: loaded.config_digest.clone().unwrap_or_default(),
            broker,
            log,
            meter,
            start: Timestamp::now(),
            requests: RequestCounts::default(),
            addresses: OnceLock::new(),
            tls: OnceLock::new(),
        })
    }

    /// Says which ports were bound, once they are.
    pub(crate) fn set_addresses(&self, addresses: Addresses) {
        let _ = self.addresses.set(addresses);
    }

    /// Says what clients are offered, if they may speak TLS.
    pub(crate) fn set_tls(&self, tls: Arc<ClientTls>) {
        let _ = self.tls.set(tls);
    }

    fn addresses(&self) -> Addresses {
        self.addresses.get().copied().unwrap_or_default()
    }

    fn identity(&self) -> Identity {
        let info = self.broker.info();
        Identity {
            server_id: info.server_id,
            server_name: info.server_name,
            version: info.version,
            proto: info.proto as u32,
            go: info.go,
            host: info.host,
            port: self.addresses().client,
            tls_required: info.tls_required,
            tls_verify: info.tls_verify,
            auth_required: self.broker.auth().advertised(),
            ..Identity::default()
        }
    }

    fn limits(&self) -> Limits {
        let limits = &self.options.limits;
        let monitoring = self.addresses().monitoring;
        let port = |wanted: Scheme| match monitoring {
            Some((scheme, address)) if scheme == wanted => i32::from(address.port()),
            _ => 0,
        };
        Limits {
            max_connections: i64::from(limits.max_connections),
            max_subscriptions: limits.max_subscriptions.map_or(0, i64::from),
            ping_interval: limits.ping_interval,
            ping_max: i64::from(limits.ping_max),
            http_host: monitoring.map_or_else(String::new, |_| self.options.monitoring_host().to_owned()),
            http_port: port(Scheme::Http),
            http_base_path: self.options.monitoring.base_path.clone(),
            https_port: port(Scheme::Https),
            auth_timeout: self.options.authorization.timeout.as_secs_f64(),
            max_control_line: limits.max_control_line as i32,
            max_payload: i64::from(limits.max_payload),
            max_pending: limits.max_pending as i64,
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            tls_timeout: setup::tls_timeout(&self.options).as_secs_f64(),
            tls_cert_not_after: self.tls.get().and_then(|tls| tls.current.expiry()),
            write_deadline: self.options.limits.write_deadline,
            write_timeout: match self.options.limits.write_timeout {
                WriteTimeout::Default => String::new(),
                WriteTimeout::Close => "close".to_owned(),
                WriteTimeout::Retry => "retry".to_owned(),
            },
            config_digest: self.digest.clone(),
            feature_flags: FEATURE_FLAGS.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect(),
            system_account: self.options.accounts.system_account().unwrap_or_default().to_owned(),
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            pinned_account_fails: 0,
        }
    }

    fn process(&self) -> Process {
        let usage = self.meter.read();
        let cores = process::cores();
        Process {
            mem: usage.resident as i64,
            cores,
            gomaxprocs: cores,
            gomemlimit: None,
            cpu: usage.cpu_percent,
        }
    }

    fn traffic(&self) -> Traffic {
        let (connections, total_connections) = self.broker.connection_counts();
        let [in_msgs, in_bytes, out_msgs, out_bytes] = self.broker.traffic();
        Traffic {
            connections,
            total_connections,
            in_msgs,
            in_bytes,
            in_client_msgs: in_msgs,
            in_client_bytes: in_bytes,
            out_msgs,
            out_bytes,
            out_client_msgs: out_msgs,
            out_client_bytes: out_bytes,
            stalled_clients: self.broker.counters().stalls.load(Relaxed),
            subscriptions: self.broker.accounts().iter().map(|a| a.subscriptions()).sum::<usize>() as u32,
            ..Traffic::default()
        }
    }

    fn selected(&self, name: Option<&str>) -> impl Iterator<Item = Arc<Account>> {
        self.broker
            .accounts()
            .into_iter()
            .filter(move |account| name.is_none_or(|name| account.name() == name))
    }
}

impl Source for Monitor {
    fn stamp(&self) -> Stamp {
        Stamp { server_id: self.broker.info().server_id, now: Timestamp::now(), zone: TimeZone::system() }
    }

    fn server(&self) -> ServerSnapshot {
        let counters = self.broker.counters();
        let clients = |n: &std::sync::atomic::AtomicU64| LinkCounts {
            clients: n.load(Relaxed),
            ..LinkCounts::default()
        };
        ServerSnapshot {
            identity: self.identity(),
            limits: self.limits(),
            settings: self.settings(),
            clocks: Clocks { start: self.start, now: Timestamp::now(), config_load: self.start },
            process: self.process(),
            traffic: self.traffic(),
            slow_consumers: clients(&counters.slow_consumers),
            stale_connections: clients(&counters.stale_connections),
            http_req_stats: self.requests.snapshot(),
        }
    }

    fn has_account(&self, name: &str) -> bool {
        self.broker.account(name).is_some()
    }

    fn open_connections(&self) -> Vec<ConnSnapshot> {
        self.broker.connections().iter().map(open).collect()
    }

    fn closed_connections(&self) -> Vec<ConnSnapshot> {
        self.broker.closed_connections().iter().map(closed).collect()
    }

    fn subscriptions_of(&self, cids: &[u64]) -> HashMap<u64, Vec<SubSnapshot>> {
        let wanted = self.broker.connections().into_iter().filter(|conn| cids.contains(&conn.cid()));
        wanted
            .map(|conn| {
                let account = conn.details().account;
                let subs = conn.subscriptions();
                (conn.cid(), subs.iter().map(|sub| subscription(sub, &account)).collect())
            })
            .collect()
    }

    fn visit_subscriptions(&self, account: Option<&str>, visit: &mut dyn FnMut(SubSnapshot)) {
        for account in self.selected(account) {
            account.for_each_subscription(|sub| visit(subscription(sub, account.name())));
        }
    }

    fn interest(&self, account: Option<&str>) -> InterestSnapshot {
        let subscriptions: usize = self.selected(account).map(|account| account.subscriptions()).sum();
        InterestSnapshot { num_subscriptions: subscriptions as u32, ..InterestSnapshot::default() }
    }

    fn health(&self) -> Health {
        Health::Ready
    }

    fn count_request(&self, page: &'static str) {
        self.requests.count(page);
    }

    fn warn(&self, text: String) {
        self.log.warn(text);
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_default()
}

fn snapshot(cid: u64, endpoint: &Endpoint, details: ConnDetails) -> ConnSnapshot {
    ConnSnapshot {
        cid,
        kind: "Client",
        transport: "nats",
        ip: endpoint.peer.ip().to_string(),
        port: endpoint.peer.port(),
        start: timestamp(endpoint.start),
        rtt: details.rtt.unwrap_or_default(),
        name: details.name,
        lang: details.lang,
        version: details.version,
        tls_version: details.tls.as_ref().map_or("", |tls| tls.version),
        tls_first: details.tls.as_ref().is_some_and(|tls| tls.is_first),
        tls_cipher_suite: details.tls.map_or_else(String::new, |tls| tls.cipher_suite),
        authorized_user: details.user.unwrap_or_default(),
        account_tag: details.account.clone(),
        account: details.account,
        ..ConnSnapshot::default()
    }
}

fn open(conn: &Arc<Conn>) -> ConnSnapshot {
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
        ..snapshot(conn.cid(), conn.endpoint(), conn.details())
    }
}

fn closed(conn: &ClosedConn) -> ConnSnapshot {
    ConnSnapshot {
        last_activity: timestamp(conn.last_activity),
        closed: Some(Closed { stop: timestamp(conn.stop), reason: conn.reason.text().to_owned() }),
        in_msgs: conn.received.0,
        in_bytes: conn.received.1,
        out_msgs: conn.sent.0,
        out_bytes: conn.sent.1,
        stalls: conn.stalls,
        subscriptions: conn.subscriptions as u32,
        ..snapshot(conn.cid, &conn.endpoint, conn.details.clone())
    }
}

fn subscription(sub: &Subscription, account: &str) -> SubSnapshot {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
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
