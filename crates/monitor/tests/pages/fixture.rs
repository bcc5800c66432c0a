//! A source with fixed values, and a way to ask for a page in one line.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use myelin_monitor::{
    AccountSnapshot, Clocks, Closed, ClusterConfig, ConnSnapshot, GatewayVarz, GatewaysSnapshot, Health,
    InterestSnapshot, JetStreamAccount, JetStreamSnapshot, LeafNodesConfig, LeafSnapshot, MetricsConfig,
    MostFigures, MqttConfig, PageHeader, PageResponse, Pages, Process, QueueSnapshot, RaftGroupSnapshot,
    RouteSnapshot, RuntimeSnapshot, ServerIdentity, ServerSnapshot, SnapshotSource, StoredAccount,
    StreamFigures, StreamParts, StreamSnapshot, SubSnapshot, ThreadSnapshot, Traffic, VarzLimits,
    VarzSettings, WebSocketConfig,
};
use myelin_wire::peer::info::SubjectFilter;
use serde_json::Value;

use crate::jetstream::running::Running;

/// The moment every test happens at.
pub(crate) fn now() -> Timestamp {
    "2026-11-20T12:00:00.5Z".parse().unwrap()
}

/// The moment this many seconds before [`now`].
pub(crate) fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

pub(crate) struct Fixed {
    pub(crate) zone: TimeZone,
    pub(crate) accounts: Vec<&'static str>,
    pub(crate) open: Vec<ConnSnapshot>,
    pub(crate) closed: Vec<ConnSnapshot>,
    pub(crate) subs: Vec<SubSnapshot>,
    pub(crate) interest: InterestSnapshot,
    pub(crate) health: Health,
    pub(crate) jetstream: Option<Running>,
    /// Facts about accounts beyond their names.
    pub(crate) account: AccountSnapshot,
    pub(crate) queues: Vec<QueueSnapshot>,
    pub(crate) threads: Vec<ThreadSnapshot>,
    pub(crate) runtime: RuntimeSnapshot,
    pub(crate) requests: Mutex<BTreeMap<String, u64>>,
    pub(crate) warnings: Mutex<Vec<String>>,
    pub(crate) scraped: Scraped,
    /// The connections that subscriptions were asked for, to see that only a page of them is.
    pub(crate) asked: Mutex<Vec<u64>>,
}

/// Values that only `/metrics` looks at, or beside pages whose tests have sources of their own.
#[derive(Default)]
pub(crate) struct Scraped {
    pub(crate) config: Option<MetricsConfig>,
    pub(crate) figures: Vec<StreamFigures>,
    pub(crate) leafs: Vec<LeafSnapshot>,
    pub(crate) gateways: Option<GatewaysSnapshot>,
    pub(crate) groups: Vec<RaftGroupSnapshot>,
    pub(crate) server: Option<ServerSnapshot>,
}

impl Default for Fixed {
    fn default() -> Self {
        Self {
            zone: TimeZone::UTC,
            accounts: vec!["$G", "$SYS", "A", "B"],
            open: Vec::new(),
            closed: Vec::new(),
            subs: Vec::new(),
            interest: InterestSnapshot::default(),
            health: Health::Ready,
            jetstream: None,
            account: AccountSnapshot { updated: ago(60), ..AccountSnapshot::default() },
            queues: Vec::new(),
            threads: Vec::new(),
            runtime: RuntimeSnapshot::default(),
            requests: Mutex::default(),
            warnings: Mutex::default(),
            scraped: Scraped::default(),
            asked: Mutex::default(),
        }
    }
}

impl Fixed {
    /// The answer to `/page?options`, with the pages at the root.
    pub(crate) fn ask(&self, target: &str) -> PageResponse {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Pages::under("").respond(path, query, self)
    }

    /// The JSON of a page that must be answered with 200.
    pub(crate) fn page(&self, target: &str) -> Value {
        let answer = self.ask(target);
        assert_eq!(answer.status, 200, "{target}: {}", text(&answer));
        assert_eq!(answer.headers[0], ("content-type", "application/json"));
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The text of a page that must be answered with 400.
    pub(crate) fn refusal(&self, target: &str) -> String {
        let answer = self.ask(target);
        assert_eq!(answer.status, 400, "{target}: {}", text(&answer));
        text(&answer)
    }
}

pub(crate) fn text(answer: &PageResponse) -> String {
    String::from_utf8(answer.body.to_vec()).unwrap()
}

impl SnapshotSource for Fixed {
    fn route_filters(&self) -> [Option<SubjectFilter>; 2] {
        [None, None]
    }

    fn remote_interest(&self) -> HashMap<u64, Vec<SubSnapshot>> {
        HashMap::new()
    }

    fn leaf_nodes(&self) -> Vec<LeafSnapshot> {
        self.scraped.leafs.clone()
    }

    fn gateways(&self) -> Option<GatewaysSnapshot> {
        self.scraped.gateways.clone()
    }

    fn raft_groups(&self) -> Vec<RaftGroupSnapshot> {
        self.scraped.groups.clone()
    }

    fn metrics(&self) -> Option<MetricsConfig> {
        self.scraped.config.clone()
    }

    fn stream_figures(&self, account: &str, most: MostFigures) -> Vec<StreamFigures> {
        let mut left = most.consumers;
        let mut figures: Vec<_> = self.scraped.figures.iter().take(most.streams).cloned().collect();
        for stream in &mut figures {
            stream.consumers.truncate(left);
            left -= stream.consumers.len();
        }
        if account == "A" { figures } else { Vec::new() }
    }

    fn routes(&self) -> Vec<RouteSnapshot> {
        Vec::new()
    }

    fn page_header(&self) -> PageHeader {
        PageHeader {
            server_id: "NSERVER".to_owned(),
            server_name: "name".to_owned(),
            cluster: String::new(),
            now: now(),
            zone: self.zone.clone(),
        }
    }

    fn server(&self) -> ServerSnapshot {
        let server = self.scraped.server.clone().unwrap_or_else(server);
        ServerSnapshot { http_req_stats: self.requests.lock().unwrap().clone(), ..server }
    }

    fn has_account(&self, name: &str) -> bool {
        self.accounts.contains(&name)
    }

    fn system_account(&self) -> Option<String> {
        self.accounts.contains(&"$SYS").then(|| "$SYS".to_owned())
    }

    fn account_names(&self) -> Vec<String> {
        self.accounts.iter().map(|name| (*name).to_owned()).collect()
    }

    fn account(&self, name: &str) -> Option<AccountSnapshot> {
        let account = || AccountSnapshot {
            name: name.to_owned(),
            tag: name.to_owned(),
            is_system: name == "$SYS",
            interest: self.interest,
            clients: self.account.clients + self.open.iter().filter(|conn| conn.account == name).count(),
            ..self.account.clone()
        };
        self.has_account(name).then(account)
    }

    fn accounts(&self) -> Vec<AccountSnapshot> {
        self.accounts.iter().filter_map(|name| self.account(name)).collect()
    }

    fn open_connections(&self, _: &str) -> Vec<ConnSnapshot> {
        self.open.clone()
    }

    fn closed_connections(&self, _: &str) -> Vec<ConnSnapshot> {
        self.closed.clone()
    }

    fn subscriptions_of(&self, cids: &[u64]) -> HashMap<u64, Vec<SubSnapshot>> {
        self.asked.lock().unwrap().extend_from_slice(cids);
        let mut found: HashMap<u64, Vec<SubSnapshot>> = HashMap::new();
        for sub in self.subs.iter().filter(|sub| cids.contains(&sub.cid)) {
            found.entry(sub.cid).or_default().push(sub.clone());
        }
        found
    }

    fn visit_subscriptions(&self, account: Option<&str>, visit: &mut dyn FnMut(SubSnapshot)) {
        self.subs
            .iter()
            .filter(|sub| account.is_none_or(|name| sub.account == name))
            .cloned()
            .for_each(visit);
    }

    fn interest(&self, account: Option<&str>) -> InterestSnapshot {
        match account {
            Some(name) if !self.has_account(name) => InterestSnapshot::default(),
            _ => self.interest,
        }
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn jetstream(&self) -> Option<JetStreamSnapshot> {
        self.jetstream.as_ref().map(|running| running.snapshot.clone())
    }

    fn jetstream_accounts(&self) -> Vec<JetStreamAccount> {
        self.jetstream.as_ref().map_or_else(Vec::new, |running| running.accounts.clone())
    }

    fn streams(&self, account: &str, parts: StreamParts) -> Vec<StreamSnapshot> {
        self.jetstream.as_ref().map_or_else(Vec::new, |running| running.streams(account, parts))
    }

    fn stored_accounts(&self, account: Option<&str>) -> Vec<StoredAccount> {
        self.jetstream.as_ref().map_or_else(Vec::new, |running| running.stored_accounts(account))
    }

    fn waits_for_room(&self) -> Option<String> {
        self.jetstream.as_ref()?.waits_for_room.clone()
    }

    fn has_consumer(&self, account: &str, stream: &str, consumer: &str) -> bool {
        self.jetstream.as_ref().is_some_and(|running| running.has_consumer(account, stream, consumer))
    }

    fn queues(&self) -> Vec<QueueSnapshot> {
        self.queues.clone()
    }

    fn threads(&self) -> Vec<ThreadSnapshot> {
        self.threads.clone()
    }

    fn runtime(&self) -> RuntimeSnapshot {
        self.runtime.clone()
    }

    fn count_request(&self, page: &'static str) {
        *self.requests.lock().unwrap().entry(page.to_owned()).or_default() += 1;
    }

    fn warn(&self, text: String) {
        self.warnings.lock().unwrap().push(text);
    }
}

/// A server as the reference shows one that runs on a configuration file with users.
pub(crate) fn server() -> ServerSnapshot {
    ServerSnapshot {
        cluster: ClusterConfig::default(),
        leaf: LeafNodesConfig::default(),
        gateway: GatewayVarz::default(),
        mqtt: MqttConfig::default(),
        websocket: WebSocketConfig::default(),
        identity: ServerIdentity {
            server_id: "NSERVER".to_owned(),
            server_name: "NSERVER".to_owned(),
            version: "2.15.2".to_owned(),
            proto: 1,
            go: "go1.26".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 4222,
            auth_required: true,
            ..ServerIdentity::default()
        },
        limits: VarzLimits {
            max_connections: 65_536,
            ping_interval: Duration::from_secs(120),
            ping_max: 2,
            http_host: "127.0.0.1".to_owned(),
            http_port: 8222,
            auth_timeout: 2.0,
            max_control_line: 4_096,
            max_payload: 1_048_576,
            max_pending: 67_108_864,
            ..VarzLimits::default()
        },
        settings: VarzSettings {
            tls_timeout: 2.0,
            write_deadline: Duration::from_secs(10),
            config_digest: "sha256:00".to_owned(),
            feature_flags: ["js_ack_fc_v2", "js_api_reply_v2", "js_raft_delete_range", "js_snapshot_sources"]
                .into_iter()
                .map(|name| (name.to_owned(), name == "js_raft_delete_range"))
                .collect(),
            system_account: "$SYS".to_owned(),
            ..VarzSettings::default()
        },
        clocks: Clocks { start: ago(93_784), now: now(), config_load: ago(60) },
        process: Process { mem: 5_000_000, cores: 2, gomaxprocs: 2, gomemlimit: None, cpu: 0.5 },
        traffic: Traffic { connections: 1, total_connections: 2, subscriptions: 3, ..Traffic::default() },
        ..ServerSnapshot::default()
    }
}

/// A plain open client of account `A`.
pub(crate) fn client(cid: u64) -> ConnSnapshot {
    ConnSnapshot {
        cid,
        kind: "Client",
        transport: "nats",
        ip: "127.0.0.1".to_owned(),
        port: 50_000,
        start: ago(100),
        last_activity: ago(10),
        rtt: Duration::from_micros(496),
        authorized_user: "a".to_owned(),
        account: "A".to_owned(),
        account_tag: "A".to_owned(),
        ..ConnSnapshot::default()
    }
}

/// A client that left this many seconds ago.
pub(crate) fn gone(cid: u64, seconds: i64, reason: &str) -> ConnSnapshot {
    let closed = Closed { stop: ago(seconds), reason: reason.to_owned() };
    ConnSnapshot { closed: Some(closed), last_activity: ago(seconds + 5), ..client(cid) }
}

/// A subscription of a client in `account`.
pub(crate) fn sub(cid: u64, account: &str, subject: &str) -> SubSnapshot {
    SubSnapshot {
        account: account.to_owned(),
        account_tag: account.to_owned(),
        subject: subject.to_owned(),
        sid: "1".to_owned(),
        cid,
        ..SubSnapshot::default()
    }
}
