//! The running server as the monitoring pages see it.
//!
//! What comes from the configuration is one value, replaced as a whole by a reload. Everything else
//! is read from the broker when a page asks: under short locks, copied before it is sorted or
//! rendered, never on a shard.

mod accounts;
mod cluster;
mod configured;
mod connections;
mod figures;
mod gateways;
mod jetstream;
mod queues;

pub(crate) use queues::Count;

use crate::http::RequestCounts;
use crate::jetstream::Current;
use crate::logging::Logger;
use crate::ocsp::OcspCache;
use crate::otlp::{self, PushPlan, Pushes};
use crate::process::{self, Meter};
use crate::supervise::{self, SupervisedPart};
use configured::Configured;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use myelin_auth::ConnectionType;
use myelin_broker::{Account, Broker, Conn, Counters};
use myelin_conf::Loaded;
use myelin_mesh::Mesh;
use myelin_mesh::gateway::Gateways;
use myelin_mesh::leaf::{LeafNodes, LeafState};
use myelin_monitor::{
    AccountSnapshot, Clocks, ClusterConfig, ConnSnapshot, GatewaysSnapshot, Health, InterestSnapshot,
    LeafNodesConfig, LeafSnapshot, LinkCounts, PageHeader, Process, QueueSnapshot, RouteSnapshot,
    RuntimeSnapshot, ServerIdentity, ServerSnapshot, SnapshotSource, SubSnapshot, ThreadSnapshot, Traffic,
    VarzSettings,
};
use myelin_monitor::{
    ClusterHealth, JetStreamAccount, JetStreamSnapshot, MetricsConfig, MostFigures, MqttConfig,
    OcspPeerCache, RaftGroupSnapshot, StoredAccount, StreamFigures, StreamParts, StreamSnapshot,
    WebSocketConfig,
};
use myelin_stdx::mem::MemKind;
use myelin_stdx::sync::{read_lock, write_lock};
use myelin_wire::peer::info::SubjectFilter;
use queues::{WatchedQueues, queue};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, RwLock};

/// The ports that were bound and are shown so.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Addresses {
    pub(crate) client: u16,
    pub(crate) websocket: Option<u16>,
    pub(crate) mqtt: Option<u16>,
}

/// Source of all monitoring pages: the running server.
pub(crate) struct Monitor {
    configured: RwLock<Arc<Configured>>,
    broker: Arc<Broker>,
    log: Arc<Logger>,
    meter: Arc<Meter>,
    start: Timestamp,
    requests: RequestCounts,
    addresses: OnceLock<Addresses>,
    jetstream: Arc<Current>,
    ocsp: OnceLock<Arc<OcspCache>>,
    /// The cluster and the port for routes.
    cluster: OnceLock<(Arc<Mesh>, u16)>,
    /// Leaf nodes and hubs, and the port for leaf nodes.
    leaf_nodes: OnceLock<(Arc<LeafNodes>, Option<u16>)>,
    /// The gateway and its port.
    gateways: OnceLock<(Arc<Gateways>, u16)>,
    queues: WatchedQueues,
    pushes: Arc<Pushes>,
}

impl Monitor {
    /// To be called inside the control runtime, which keeps `meter` going and pushes metrics.
    pub(crate) fn new(loaded: &Loaded, broker: Arc<Broker>, log: Arc<Logger>, meter: Meter) -> Arc<Self> {
        let meter = Arc::new(meter);
        let measured = Arc::clone(&meter);
        supervise::spawn_guarding(async move {
            supervise::persist(SupervisedPart::Meter, || Arc::clone(&measured).run()).await;
        });
        let start = Timestamp::now();
        log.keep_recent(loaded.options.monitoring.dashboard);
        let monitor = Arc::new(Self {
            configured: RwLock::new(Arc::new(Configured::new(loaded, start))),
            broker,
            log,
            meter,
            start,
            requests: RequestCounts::default(),
            addresses: OnceLock::new(),
            jetstream: Arc::default(),
            ocsp: OnceLock::new(),
            cluster: OnceLock::new(),
            leaf_nodes: OnceLock::new(),
            gateways: OnceLock::new(),
            queues: WatchedQueues::default(),
            pushes: Arc::new(Pushes::new(push_plan(loaded))),
        });
        monitor.broker.set_span_sink(monitor.pushes.spans());
        monitor.broker.make_spans(monitor.pushes.wants_spans());
        otlp::start(&monitor.pushes, Arc::clone(&monitor) as _, &monitor.log);
        monitor
    }

    /// Shows a queue between threads from now on.
    pub(crate) fn watch_queue(&self, name: impl Into<Cow<'static, str>>, count: Count) {
        self.queues.add(name.into(), count);
    }

    /// Shows another configuration from now on, loaded at this moment.
    pub(crate) fn replace(&self, loaded: &Loaded) {
        let configured = Arc::new(Configured::new(loaded, Timestamp::now()));
        *write_lock(&self.configured) = configured;
        self.log.keep_recent(self.has_dashboard());
        self.pushes.follow(push_plan(loaded));
        self.broker.make_spans(self.pushes.wants_spans());
    }

    /// Whether clients may connect: the server has begun, and is not in lame duck mode.
    pub(crate) fn takes_clients(&self) -> bool {
        self.addresses.get().is_some() && !self.broker.info().ldm
    }

    /// Whether a client of the dashboard that shows nothing is let in.
    pub(crate) fn lets_in_anybody(&self) -> bool {
        let auth = self.broker.auth();
        let auth = auth.at(ConnectionType::Websocket);
        !auth.required() || auth.no_auth_user.is_some()
    }

    /// Whether the dashboard is served.
    pub(crate) fn has_dashboard(&self) -> bool {
        self.configured().dashboard
    }

    fn configured(&self) -> Arc<Configured> {
        Arc::clone(&read_lock(&self.configured))
    }

    /// Says which ports were bound, once they are.
    pub(crate) fn set_addresses(&self, addresses: Addresses) {
        let _ = self.addresses.set(addresses);
    }

    /// Links with leaf nodes and hubs.
    fn leaf_links(&self) -> Vec<Arc<LeafState>> {
        self.leaf_nodes.get().map(|(nodes, _)| nodes.links()).unwrap_or_default()
    }

    /// The link of this id with a leaf node or a hub.
    pub(crate) fn leaf_node(&self, cid: u64) -> Option<Arc<Conn>> {
        let links = self.leaf_links();
        links.iter().map(|link| link.conn()).find(|conn| conn.cid() == cid).cloned()
    }

    fn subscriptions_of_leaf(&self, link: &LeafState) -> Vec<SubSnapshot> {
        let mut found = Vec::new();
        let account = self.broker.account(&link.facts().account);
        account.iter().for_each(|account| {
            account.for_each_remote(|conn, subject, queue| {
                if conn.cid() == link.conn().cid() {
                    found.push(connections::leaf_subscription(account.name(), conn, subject, queue));
                }
            });
        });
        found
    }

    /// Shows leaf nodes and hubs from now on.
    pub(crate) fn set_leaf_nodes(&self, nodes: Arc<LeafNodes>, port: Option<u16>) {
        let _ = self.leaf_nodes.set((nodes, port));
    }

    /// Shows the gateway and its links from now on.
    pub(crate) fn set_gateways(&self, gateways: Arc<Gateways>, port: u16) {
        let _ = self.gateways.set((gateways, port));
    }

    /// Shows the cluster from now on.
    pub(crate) fn set_cluster(&self, mesh: Arc<Mesh>, port: u16) {
        let _ = self.cluster.set((mesh, port));
    }

    /// Ids of the servers to which there are links.
    pub(crate) fn linked_servers(&self) -> HashSet<String> {
        let links = self.cluster.get().map(|(mesh, _)| mesh.links()).unwrap_or_default();
        links.iter().map(|link| link.facts().remote_id).collect()
    }

    /// The JetStream that is shown, and that accounts may use.
    pub(crate) fn current_jetstream(&self) -> &Arc<Current> {
        &self.jetstream
    }

    /// Shows the cache of OCSP from now on.
    pub(crate) fn set_ocsp(&self, cache: Arc<OcspCache>) {
        let _ = self.ocsp.set(cache);
    }

    /// JetStream's domain, as configured.
    pub(crate) fn domain(&self) -> String {
        self.configured().jetstream.domain.clone()
    }

    fn account_snapshot(
        &self,
        account: &Account,
        moved: &accounts::Moved,
        since: Timestamp,
    ) -> AccountSnapshot {
        let running = self.jetstream.get();
        let jetstream = running.is_some_and(|running| jetstream::is_enabled(&running, account.name()));
        let snapshot = accounts::with_claims(accounts::snapshot(account, moved, since), &self.broker);
        AccountSnapshot { jetstream, ..snapshot }
    }

    fn account_snapshots(&self, is_wanted: impl Fn(&Account) -> bool) -> Vec<AccountSnapshot> {
        let (moved, since) = (accounts::Moved::of(&self.broker), self.configured().since);
        let accounts = accounts::ordered(&self.broker, is_wanted);
        accounts.iter().map(|account| self.account_snapshot(account, &moved, since)).collect()
    }

    fn identity(&self) -> ServerIdentity {
        let info = self.broker.info();
        ServerIdentity {
            server_id: info.server_id,
            server_name: info.server_name,
            version: info.version,
            proto: info.proto as u32,
            go: info.go,
            host: info.host,
            port: self.addresses.get().copied().unwrap_or_default().client,
            auth_required: self.broker.auth().required(),
            tls_required: info.tls_required,
            tls_verify: info.tls_verify,
            tls_ocsp_peer_verify: info.tls_required && self.configured().asks_about_peers,
            connect_urls: info.connect_urls,
            ws_connect_urls: self.broker.websocket_urls(),
            ..ServerIdentity::default()
        }
    }

    fn ocsp_peer_cache(&self) -> Option<OcspPeerCache> {
        let stats = self.ocsp.get()?.stats()?;
        Some(OcspPeerCache {
            cache_type: "local",
            cache_hits: stats.hits,
            cache_misses: stats.misses,
            cached_responses: stats.responses,
            cached_revoked_responses: stats.revokes,
            cached_good_responses: stats.goods,
            cached_unknown_responses: stats.unknowns,
        })
    }

    fn settings(&self, configured: &Configured) -> VarzSettings {
        let fails = self.broker.auth().trust().map_or(0, |trust| trust.pinned_failures());
        VarzSettings { pinned_account_fails: fails, ..configured.settings.clone() }
    }

    fn process(&self) -> Process {
        let usage = self.meter.read();
        Process {
            mem: usage.resident as i64,
            cores: process::cores_of_machine(),
            gomaxprocs: process::cores(),
            gomemlimit: None,
            cpu: usage.cpu_percent,
        }
    }

    /// Subscriptions of clients and of the server itself here, and of other servers.
    fn subscriptions(&self) -> usize {
        let accounts = self.broker.accounts();
        accounts.iter().map(|account| accounts::subscriptions(account).0).sum()
    }

    fn traffic(&self) -> Traffic {
        let (connections, total_connections) = self.broker.connection_counts();
        let [in_msgs, in_bytes, out_msgs, out_bytes] = self.broker.traffic();
        let [link_in, link_in_bytes, link_out, link_out_bytes] = self.broker.link_traffic();
        let mesh = self.cluster.get().map(|(mesh, _)| mesh);
        Traffic {
            connections,
            total_connections,
            in_msgs,
            in_bytes,
            leafnodes: self.leaf_nodes.get().map_or(0, |(nodes, _)| nodes.links().len()),
            routes: mesh.map_or(0, |mesh| mesh.links().len()),
            remotes: mesh.map_or(0, |mesh| mesh.servers()),
            in_client_msgs: in_msgs.saturating_sub(link_in),
            in_client_bytes: in_bytes.saturating_sub(link_in_bytes),
            out_msgs,
            out_bytes,
            out_client_msgs: out_msgs.saturating_sub(link_out),
            out_client_bytes: out_bytes.saturating_sub(link_out_bytes),
            stalled_clients: self.broker.counters().stalls.load(Relaxed),
            dropped_for_slow: self.broker.counters().stall_drops.load(Relaxed),
            subscriptions: self.subscriptions() as u32,
        }
    }
}

/// Where metrics are to be pushed, with the maxima of the block `metrics`, or their defaults.
fn push_plan(loaded: &Loaded) -> Option<PushPlan> {
    let monitoring = &loaded.options.monitoring;
    let options = monitoring.otlp.clone()?;
    Some(PushPlan { options, metrics: figures::configured(&monitoring.metrics.clone().unwrap_or_default()) })
}

/// Connections of each kind that did not read fast enough.
fn slow(counters: &Counters) -> LinkCounts {
    let Counters { slow_consumers, slow_links, slow_gateways, slow_leaf_nodes, .. } = counters;
    by_kind([slow_consumers, slow_links, slow_gateways, slow_leaf_nodes])
}

/// Connections of each kind that did not answer pings.
fn stale(counters: &Counters) -> LinkCounts {
    let Counters { stale_connections, stale_links, stale_gateways, stale_leaf_nodes, .. } = counters;
    by_kind([stale_connections, stale_links, stale_gateways, stale_leaf_nodes])
}

fn by_kind(counters: [&AtomicU64; 4]) -> LinkCounts {
    let [clients, routes, gateways, leafs] = counters.map(|counter| counter.load(Relaxed));
    LinkCounts { clients, routes, gateways, leafs }
}

/// Whether an account has clients or leaf nodes.
fn is_in_use(account: &Account) -> bool {
    account.connections() + account.leaf_nodes() > 0
}

impl SnapshotSource for Monitor {
    fn page_header(&self) -> PageHeader {
        let info = self.broker.info();
        PageHeader {
            server_id: info.server_id,
            server_name: info.server_name,
            cluster: info.cluster,
            now: Timestamp::now(),
            zone: TimeZone::system(),
        }
    }

    fn server(&self) -> ServerSnapshot {
        let configured = self.configured();
        let counters = self.broker.counters();
        let bound = self.addresses.get().copied().unwrap_or_default();
        ServerSnapshot {
            identity: self.identity(),
            limits: configured.limits.clone(),
            settings: self.settings(&configured),
            cluster: ClusterConfig {
                name: self.broker.cluster().to_string(),
                cluster_port: self.cluster.get().map(|(_, port)| *port),
                ..configured.cluster.clone()
            },
            gateway: gateways::varz(&configured.gateway, self.gateways.get()),
            leaf: LeafNodesConfig {
                port: self.leaf_nodes.get().and_then(|(_, port)| *port),
                ..configured.leaf.clone()
            },
            mqtt: MqttConfig { port: bound.mqtt, ..configured.mqtt.clone() },
            websocket: WebSocketConfig { port: bound.websocket, ..configured.websocket.clone() },
            clocks: Clocks { start: self.start, now: Timestamp::now(), config_load: configured.since },
            process: self.process(),
            traffic: self.traffic(),
            slow_consumers: slow(counters),
            stale_connections: stale(counters),
            http_req_stats: self.requests.snapshot(),
            active_accounts: self.broker.accounts().iter().filter(|a| is_in_use(a)).count(),
            ocsp_peer_cache: self.ocsp_peer_cache(),
        }
    }

    fn has_account(&self, name: &str) -> bool {
        self.broker.account(name).is_some()
    }

    fn system_account(&self) -> Option<String> {
        self.broker.system_account().map(|account| account.name().to_owned())
    }

    fn account_names(&self) -> Vec<String> {
        accounts::ordered(&self.broker, |_| true).iter().map(|account| account.name().to_owned()).collect()
    }

    fn account(&self, name: &str) -> Option<AccountSnapshot> {
        let account = self.broker.account(name)?;
        let moved = accounts::Moved::of(&self.broker);
        let snapshot = self.account_snapshot(&account, &moved, self.configured().since);
        Some(AccountSnapshot { exchange: accounts::exchange(&account, &self.broker), ..snapshot })
    }

    fn accounts(&self) -> Vec<AccountSnapshot> {
        self.account_snapshots(|_| true)
    }

    fn accounts_in_use(&self) -> Vec<AccountSnapshot> {
        self.account_snapshots(is_in_use)
    }

    fn open_connections(&self, account: &str) -> Vec<ConnSnapshot> {
        let of_account = |conn: &Arc<Conn>| account.is_empty() || conn.is_in_account(account);
        let mut open = self.broker.connections();
        open.retain(of_account);
        let leafs = self.leaf_links();
        let leafs =
            leafs.iter().filter(|link| of_account(link.conn())).map(|link| connections::open_leaf(link));
        open.iter().map(connections::open).chain(leafs).collect()
    }

    fn closed_connections(&self, account: &str) -> Vec<ConnSnapshot> {
        let closed = self.broker.closed_connections();
        let of_account = closed.iter().filter(|conn| account.is_empty() || conn.details.account == account);
        of_account.map(|conn| connections::closed(conn)).collect()
    }

    fn subscriptions_of(&self, cids: &[u64]) -> HashMap<u64, Vec<SubSnapshot>> {
        let wanted: HashSet<u64> = cids.iter().copied().collect();
        let open = self.broker.connections();
        let mut found: HashMap<_, _> = open
            .iter()
            .filter(|conn| wanted.contains(&conn.cid()))
            .map(|conn| (conn.cid(), connections::subscriptions(conn)))
            .collect();
        let leafs = self.leaf_links();
        for link in leafs.iter().filter(|link| wanted.contains(&link.conn().cid())) {
            found.insert(link.conn().cid(), self.subscriptions_of_leaf(link));
        }
        if found.len() < wanted.len() {
            let closed = self.broker.closed_connections();
            let closed = closed.iter().filter(|conn| wanted.contains(&conn.cid));
            found.extend(closed.map(|conn| (conn.cid, connections::subscriptions_of_closed(conn))));
        }
        found
    }

    fn visit_subscriptions(&self, account: Option<&str>, visit: &mut dyn FnMut(SubSnapshot)) {
        for account in accounts::selected(&self.broker, account) {
            account.for_each_subscription(|sub| visit(connections::subscription(sub, account.name())));
            account.for_each_own(|subject| visit(connections::own_subscription(subject, account.name())));
        }
    }

    fn interest(&self, account: Option<&str>) -> InterestSnapshot {
        match account {
            None => accounts::whole_interest(&self.broker),
            Some(name) => self.broker.account(name).map_or_else(InterestSnapshot::default, |account| {
                accounts::interest(&account, &accounts::Moved::of(&self.broker))
            }),
        }
    }

    /// Compat: in lame duck mode nobody can connect any more, and so the server is not healthy.
    fn health(&self) -> Health {
        if !self.takes_clients() {
            return Health::NotReady("failed to be ready for connections after 1ms: server".to_owned());
        }
        match (self.jetstream.get(), self.configured().wants_jetstream) {
            // Compat: one that was removed from its cluster answers nothing of JetStream.
            (Some(running), _) if running.was_removed() => Health::WithoutJetStream,
            (Some(_), _) => Health::WithJetStream,
            (None, true) => Health::WithoutJetStream,
            (None, false) => Health::Ready,
        }
    }

    fn jetstream(&self) -> Option<JetStreamSnapshot> {
        self.jetstream.get().map(|running| jetstream::snapshot(&running, &self.configured()))
    }

    fn jetstream_accounts(&self) -> Vec<JetStreamAccount> {
        self.jetstream.get().map_or_else(Vec::new, |running| jetstream::accounts(&running, &self.broker))
    }

    fn streams(&self, account: &str, parts: StreamParts) -> Vec<StreamSnapshot> {
        self.jetstream.get().map_or_else(Vec::new, |running| jetstream::streams(&running, account, parts))
    }

    fn stream_figures(&self, account: &str, most: MostFigures) -> Vec<StreamFigures> {
        self.jetstream.get().map_or_else(Vec::new, |running| figures::streams(&running, account, most))
    }

    fn metrics(&self) -> Option<MetricsConfig> {
        self.configured().metrics.clone()
    }

    fn stored_accounts(&self, account: Option<&str>) -> Vec<StoredAccount> {
        self.jetstream.get().map_or_else(Vec::new, |running| jetstream::stored(&running, account))
    }

    fn raft_groups(&self) -> Vec<RaftGroupSnapshot> {
        let system = self.system_account().unwrap_or_default();
        self.jetstream.get().map_or_else(Vec::new, |running| cluster::raft_groups(&running, &system))
    }

    fn cluster_health(&self) -> Option<ClusterHealth> {
        cluster::health(&*self.jetstream.get()?)
    }

    fn waits_for_room(&self) -> Option<String> {
        let jetstream = self.jetstream.get()?;
        jetstream::waits_for_room(&jetstream)
    }

    fn has_consumer(&self, account: &str, stream: &str, consumer: &str) -> bool {
        let running = self.jetstream.get();
        running.is_some_and(|running| jetstream::has_consumer(&running, account, stream, consumer))
    }

    fn route_filters(&self) -> [Option<SubjectFilter>; 2] {
        self.cluster.get().map_or([None, None], |(mesh, _)| {
            let info = &mesh.config().info;
            [info.import.clone(), info.export.clone()]
        })
    }

    fn remote_interest(&self) -> HashMap<u64, Vec<SubSnapshot>> {
        let mut found: HashMap<u64, Vec<SubSnapshot>> = HashMap::new();
        let links = self.cluster.get().map(|(mesh, _)| mesh.links()).unwrap_or_default();
        let dedicated = links.iter().filter(|link| link.facts().account.is_some());
        let dedicated: HashSet<u64> = dedicated.map(|link| link.conn().cid()).collect();
        for account in self.broker.accounts().into_iter().chain(self.broker.internal_accounts()) {
            account.for_each_remote(|conn, subject, queue| {
                let name = Some(account.name()).filter(|_| !dedicated.contains(&conn.cid()));
                let wanted = connections::remote_subscription(name, conn, subject, queue);
                found.entry(conn.cid()).or_default().push(wanted);
            });
        }
        found
    }

    fn leaf_nodes(&self) -> Vec<LeafSnapshot> {
        let links = self.leaf_links();
        let mut leafs: Vec<_> = links.iter().map(|link| connections::leaf_node(link)).collect();
        leafs.sort_by_key(|leaf| leaf.id);
        leafs
    }

    fn gateways(&self) -> Option<GatewaysSnapshot> {
        self.gateways.get().map(|(gateways, _)| gateways::snapshot(gateways))
    }

    fn gateway_interest(&self) -> HashMap<u64, Vec<SubSnapshot>> {
        self.gateways
            .get()
            .map_or_else(HashMap::new, |(gateways, _)| gateways::interest(gateways, &self.broker))
    }

    fn routes(&self) -> Vec<RouteSnapshot> {
        let links = self.cluster.get().map(|(mesh, _)| mesh.links()).unwrap_or_default();
        let mut routes: Vec<_> = links.iter().map(|link| connections::route(link)).collect();
        routes.sort_by_key(|route| route.rid);
        routes
    }

    /// Compat: under the names of the reference's queues, as far as there is something like them.
    fn queues(&self) -> Vec<QueueSnapshot> {
        let mut queues = self.queues.snapshot();
        for account in self.jetstream.get().iter().flat_map(|jetstream| jetstream.accounts()) {
            let name = account.account().name();
            let streams = account.streams();
            let of_stream = streams.iter().map(|stream| {
                queue(format!("[ACC:{name}] stream '{}' messages", stream.name()), stream.waiting())
            });
            queues.extend(of_stream);
        }
        queues
    }

    fn threads(&self) -> Vec<ThreadSnapshot> {
        process::threads()
    }

    fn runtime(&self) -> RuntimeSnapshot {
        let running = self.jetstream.get();
        let journal = running.as_ref().map(|running| jetstream::journal(running));
        let repairs = running.as_ref().map(|running| running.repairs()).unwrap_or_default();
        let commit_waits = running.as_ref().and_then(|running| running.commit_waits());
        let clock_ahead = running.map_or(0, |running| running.clock_ahead());
        RuntimeSnapshot {
            panics: supervise::panics(),
            recent_panics: supervise::recent_panics(),
            journal,
            held: vec![("outboxes", self.broker.memory().used(MemKind::Outbox))],
            commit_waits,
            clock_ahead,
            replicas_damaged: repairs.damaged,
            replicas_disagreed: repairs.disagreed,
            replicas_repaired: repairs.repaired,
            pushes: self.pushes.counts(),
            spans: self.pushes.span_counts(),
            ..process::runtime()
        }
    }

    fn count_request(&self, page: &'static str) {
        self.requests.count(page);
    }

    fn warn(&self, text: String) {
        self.log.warn(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_and_stale_connections_are_counted_by_kind() {
        let counters = Counters::default();
        for (slow, stale, count) in [
            (&counters.slow_consumers, &counters.stale_connections, 1),
            (&counters.slow_links, &counters.stale_links, 2),
            (&counters.slow_gateways, &counters.stale_gateways, 3),
            (&counters.slow_leaf_nodes, &counters.stale_leaf_nodes, 4),
        ] {
            slow.store(count, Relaxed);
            stale.store(count + 10, Relaxed);
        }
        let shown = |counts: LinkCounts| [counts.clients, counts.routes, counts.gateways, counts.leafs];
        assert_eq!(shown(slow(&counters)), [1, 2, 3, 4]);
        assert_eq!(shown(stale(&counters)), [11, 12, 13, 14]);
    }
}
