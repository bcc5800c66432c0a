//! State that all shards share: accounts, the rules of authentication, who is connected, counters.

use crate::account::Account;
use crate::auth_and_accounts::{AuthAndAccounts, SetupError, StagedAuthAndAccounts};
use crate::callout::Callouts;
use crate::client_events::ClientEvents;
use crate::closed::{ClosedConn, PastTraffic};
use crate::cluster::{Announcer, Cluster, LinkTerms};
use crate::conn::{Conn, Origin, Transport};
use crate::conn_details::Endpoint;
use crate::conn_shared::ConnShared;
use crate::imports::{AccountConfig, Awaited, Import, ServiceLink, Ticket, UnansweredRequest};
use crate::jwt_accounts::JwtAccounts;
use crate::link::end::LinkEnd;
use crate::link::links::Links;
use crate::listener_info::WebSocketOrigin;
use crate::log::{Level, LimitedLog, Log, write_of_link};
use crate::message_trace::MessageTrace;
use crate::message_trace::spans::{SpanSink, SpanSwitch};
use crate::mqtt_origin::MqttOrigin;
use crate::mqtt_storage::MqttStorage;
use crate::registry::Registry;
use crate::server_info::{Labels, OwnIdentity, ServerInfo};
use crate::service::ServiceTarget;
use crate::settings::Settings;
use crate::traffic::{AllTraffic, ConnKind, Counters, RouteCounts, Traffic};
use crate::unguessable::UniqueNames;
use arc_swap::ArcSwap;
use myelin_auth::AuthConfig;
use myelin_stdx::entropy::Entropy;
use myelin_stdx::mem::Accountant;
use myelin_stdx::sync::lock;
use myelin_wire::error::CloseReason;
use myelin_wire::info::Info;
use myelin_wire::message_buf::MessageRef;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};

/// Broker: what all shards share.
pub struct Broker {
    settings: ArcSwap<Settings>,
    auth_and_accounts: ArcSwap<AuthAndAccounts>,
    pub(crate) trusted: OnceLock<JwtAccounts>,
    pub(crate) callouts: OnceLock<Arc<Callouts>>,
    client_events: OnceLock<Arc<dyn ClientEvents>>,
    pub(crate) registry: Registry,
    conn_shared: Arc<ConnShared>,
    traffic: AllTraffic,
    pub(crate) log: LimitedLog,
    /// Stands for whatever publishes and is no client.
    services: Arc<Conn>,
    pub(crate) identity: Arc<OwnIdentity>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) links: Arc<Links>,
    /// Accounts whose services have been asked from others.
    asked: Mutex<AskedAccounts>,
    /// Spans of messages, for a collector.
    pub(crate) spans: SpanSwitch,
    /// Source of what nobody can guess: nonces, keys, names.
    names: UniqueNames,
}

/// Accounts that may owe answers, when it was last looked for those that nobody waits for, and who
/// imports from whom.
#[derive(Default)]
struct AskedAccounts {
    accounts: Vec<Weak<Account>>,
    /// Accounts that requests with mapped replies have come for.
    mapped: Vec<Weak<Account>>,
    swept: Option<Instant>,
    /// By the name of an exporter, who has imported from it since the start.
    importers: BTreeMap<String, BTreeSet<String>>,
}

/// How often answers that nobody waits for are looked for: each time in a part of them.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

impl Broker {
    /// A broker with the given accounts beside the global one, which always exists. Nonces, keys
    /// and unique names are drawn from `entropy`.
    ///
    /// # Errors
    /// When two accounts share a name.
    pub fn new(
        settings: Settings,
        auth: AuthConfig,
        accounts: &[AccountConfig],
        system_account: Option<&str>,
        info: Info,
        entropy: Arc<dyn Entropy>,
        log: Arc<dyn Log>,
    ) -> Result<Arc<Self>, SetupError> {
        let conn_shared = Arc::new(ConnShared::seeded(&*entropy));
        let auth_and_accounts = AuthAndAccounts::new(auth, accounts, system_account)?;
        auth_and_accounts.cluster.set_seed(&*entropy);
        auth_and_accounts.cluster.set_name(&info.cluster);
        Ok(Arc::new(Self {
            cluster: Arc::clone(&auth_and_accounts.cluster),
            identity: OwnIdentity::new(info),
            asked: Mutex::default(),
            spans: SpanSwitch::default(),
            names: UniqueNames::new(entropy),
            settings: ArcSwap::from_pointee(settings),
            auth_and_accounts: ArcSwap::from_pointee(auth_and_accounts),
            trusted: OnceLock::new(),
            callouts: OnceLock::new(),
            client_events: OnceLock::new(),
            registry: Registry::default(),
            services: Conn::of_services(&conn_shared),
            conn_shared,
            traffic: AllTraffic::default(),
            links: Links::new(Arc::clone(&log)),
            log: LimitedLog::new(log),
        }))
    }

    /// The limits and timings in force. Shards keep a copy for the data path.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Replaces the limits and timings. Shards and sessions apply them from [`Shard::refresh`] and
    /// [`Session::refresh`] on.
    ///
    /// [`Shard::refresh`]: crate::Shard::refresh
    /// [`Session::refresh`]: crate::Session::refresh
    pub fn set_settings(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
    }

    /// The rules of authentication.
    pub fn auth(&self) -> Arc<AuthConfig> {
        Arc::clone(&self.auth_and_accounts.load().auth)
    }

    /// Prepares other rules of authentication and accounts; changes nothing yet.
    ///
    /// # Errors
    /// When two accounts share a name.
    pub fn stage_auth_and_accounts(
        &self,
        auth: AuthConfig,
        accounts: &[AccountConfig],
    ) -> Result<StagedAuthAndAccounts, SetupError> {
        self.auth_and_accounts.load().next(auth, accounts)
    }

    /// Replaces the rules of authentication and the accounts in one step. Accounts that stay keep
    /// what is in them and get their new limits; those that are gone take nobody in, and their
    /// connections end when their sessions are refreshed. Of those that have too many connections
    /// now, the newest end.
    pub fn set_auth_and_accounts(&self, next: StagedAuthAndAccounts) {
        let before = self.auth_and_accounts.swap(Arc::new(next.take_effect()));
        let now = self.auth_and_accounts.load();
        for gone in before.accounts().filter(|account| now.account(account.name()).is_none()) {
            gone.announced.close_for_gateways(gone.name());
        }
        for account in now.accounts() {
            if before.account(account.name()).is_none() {
                account.announced.reopen_for_gateways(account.name());
            }
            if let Some(most) = account.limits().max_connections
                && account.connections() > most
            {
                self.close_newest(account.name(), most);
            }
        }
    }

    /// An account by name.
    pub fn account(&self, name: &str) -> Option<Arc<Account>> {
        self.configured_account(name).or_else(|| self.trusted()?.account(name))
    }

    /// An account that does not come from a token, be it that it has one besides.
    pub(crate) fn configured_account(&self, name: &str) -> Option<Arc<Account>> {
        self.auth_and_accounts.load().account(name).cloned()
    }

    /// An account of the server itself, by which it talks to others of its cluster over
    /// [links](crate::LinkScope::Internal) that are for nothing else. No client, leaf node, token
    /// or configuration can name, enter or import from it, and it is in no list of accounts.
    pub fn internal_account(&self, name: &str) -> Option<Arc<Account>> {
        self.internal_accounts().into_iter().find(|account| account.name() == name)
    }

    /// Makes [internal](Self::internal_account) accounts. To be called once, at the start.
    pub fn make_internal_accounts(&self, names: &[&str]) {
        self.auth_and_accounts.load().make_internal(names);
    }

    /// All accounts of the server itself.
    pub fn internal_accounts(&self) -> Vec<Arc<Account>> {
        self.auth_and_accounts.load().internal().to_vec()
    }

    /// The system account, if there is one.
    pub fn system_account(&self) -> Option<Arc<Account>> {
        let auth_and_accounts = self.auth_and_accounts.load();
        auth_and_accounts.system_account().and_then(|name| auth_and_accounts.account(name)).cloned()
    }

    pub(crate) fn system_name(&self) -> Option<String> {
        self.auth_and_accounts.load().system_account().map(str::to_owned)
    }

    /// Sets who receives the events of clients from now on. Only the first call counts.
    pub fn set_client_events(&self, client_events: Arc<dyn ClientEvents>) {
        let _ = self.client_events.set(client_events);
    }

    pub(crate) fn client_events(&self) -> Option<&dyn ClientEvents> {
        self.client_events.get().map(|client_events| &**client_events)
    }

    /// A living connection.
    pub fn connection(&self, cid: u64) -> Option<Arc<Conn>> {
        self.registry.get(cid)
    }

    /// All accounts, in no order.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        let auth_and_accounts = self.auth_and_accounts.load();
        let configured = auth_and_accounts.accounts().cloned();
        let trusted = self.trusted().map(JwtAccounts::accounts).unwrap_or_default();
        // The system account is in both.
        let trusted =
            trusted.into_iter().filter(|account| auth_and_accounts.account(account.name()).is_none());
        configured.chain(trusted).collect()
    }

    /// Replaces what is said about one account, whose name stays, and has imports follow: its own,
    /// and those of accounts that import from it. For accounts that come one by one, with their
    /// tokens; [`set_auth_and_accounts`](Self::set_auth_and_accounts) does the same for all that
    /// are configured.
    pub fn configure_account(&self, account: &Arc<Account>, config: AccountConfig) {
        let importers = {
            let importers = &mut lock(&self.asked).importers;
            for exporter in config.imports.iter().map(Import::account) {
                importers.entry(exporter.to_owned()).or_default().insert(config.name.clone());
            }
            importers.get(account.name()).cloned().unwrap_or_default()
        };
        account.configure(config);
        let find = |name: &str| self.account(name);
        account.link(&find);
        let others = importers.iter().filter(|name| *name != account.name());
        others.filter_map(|name| self.account(name)).for_each(|importer| importer.link(&find));
    }

    /// The name of the server's own account; empty if it has none.
    pub(crate) fn system_account_name(&self) -> String {
        self.auth_and_accounts.load().system_account().unwrap_or_default().to_owned()
    }

    /// Labels of the server that events show beside its name.
    pub fn labels(&self) -> Arc<Labels> {
        self.identity.labels()
    }

    /// Replaces that.
    pub fn set_labels(&self, labels: Labels) {
        self.identity.set_labels(labels);
    }

    /// The server, as it speaks `now`. Events and answers are one sequence: each has the next
    /// number.
    pub fn server_info(&self, now: SystemTime) -> ServerInfo {
        self.identity.server_info(now)
    }

    /// The server's name.
    pub fn name(&self) -> &str {
        self.identity.name()
    }

    /// Notes that `exporter` is asked by another account, and writes where its answer is to go.
    pub(crate) fn await_answer(
        &self,
        exporter: &Arc<Account>,
        awaited: Awaited,
        reply: &mut Vec<u8>,
    ) -> Ticket {
        exporter.imports.replies.open(awaited, reply, self.entropy(), |pattern| {
            exporter.bind_receiver(pattern, ServiceTarget::Requesters);
            lock(&self.asked).accounts.push(Arc::downgrade(exporter));
        })
    }

    /// Has what other servers tell of a traced request to `link`'s exporter come to where the trace
    /// goes, and writes where they are to send it.
    pub(crate) fn await_traces(
        &self,
        trace: &MessageTrace,
        link: &Arc<ServiceLink>,
        now: Instant,
        destination: &mut Vec<u8>,
    ) {
        let (requester, reply) = trace.destination();
        let (exporter, link) = (Arc::clone(&link.exporter), Arc::clone(link));
        let awaited = Awaited { link, requester, reply, since: now, tracked: None, is_trace: true };
        let _ = self.await_answer(&exporter, awaited, destination);
    }

    /// Notes that the account remembers mapped replies, which are to be forgotten in time.
    pub(crate) fn note_mapped(&self, account: &Arc<Account>) {
        let mut asked = lock(&self.asked);
        if !asked.mapped.iter().any(|known| std::ptr::eq(known.as_ptr(), &raw const **account)) {
            asked.mapped.push(Arc::downgrade(account));
        }
    }

    /// Forgets some of the answers that nobody waits for any more, now and then; answers which of
    /// them were measured.
    pub(crate) fn forget_answers(&self, now: Instant) -> Vec<UnansweredRequest<Awaited>> {
        let accounts = {
            let mut asked = lock(&self.asked);
            if asked.swept.is_some_and(|swept| now.saturating_duration_since(swept) < SWEEP_EVERY) {
                return Vec::new();
            }
            asked.swept = Some(now);
            asked.accounts.retain(|account| account.strong_count() > 0);
            asked.mapped.retain(|account| {
                let account = account.upgrade();
                account.is_some_and(|account| account.gateway_replies.forget(now))
            });
            asked.accounts.clone()
        };
        let accounts = accounts.iter().filter_map(Weak::upgrade);
        accounts.flat_map(|account| account.imports.replies.sweep(now)).collect()
    }

    /// Where nonces, keys and names come from.
    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.names.entropy()
    }

    /// A name of 22 characters that no other has, for what is published once.
    pub(crate) fn unique_id(&self) -> String {
        self.names.unique()
    }

    /// Time of day at that moment, in milliseconds since 1970.
    pub(crate) fn unix_ms(&self, moment: Instant) -> u64 {
        let wall = self.wall(moment).duration_since(SystemTime::UNIX_EPOCH);
        wall.map_or(0, |wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
    }

    /// Time of day at that moment. It is not set anew when the machine's is.
    pub(crate) fn wall(&self, moment: Instant) -> SystemTime {
        self.identity.wall(moment)
    }

    /// Hears whether a message for a service acknowledges one that has spans.
    #[inline]
    pub(crate) fn hear_acknowledgement(&self, from: &Conn, msg: &MessageRef<'_>) {
        if self.spans.awaits_acknowledgements() {
            self.spans.hear_acknowledgement((from, msg), |moment| self.wall(moment));
        }
    }

    /// Sets where spans of messages go, once they are [made](Self::make_spans). Only the first call
    /// counts.
    pub fn set_span_sink(&self, sink: Arc<dyn SpanSink>) {
        self.spans.set_sink(sink, self.entropy());
    }

    /// Whether spans are made from now on, of messages whose header `traceparent` says that another
    /// system traces them.
    pub fn make_spans(&self, is_on: bool) {
        self.spans.turn(is_on);
    }

    /// Ends connections until there are at most `max`, and returns how many. Which ones is left to
    /// chance.
    pub fn shed(&self, max: usize) -> usize {
        let conns = self.registry.open();
        let surplus = conns.len().saturating_sub(max);
        conns.iter().take(surplus).for_each(|conn| conn.close(CloseReason::MaximumConnections));
        surplus
    }

    /// INFO as it is for everybody. Fields about one connection are empty.
    pub fn info(&self) -> Info {
        self.identity.info()
    }

    /// Changes what INFO says from now on.
    pub fn update_info(&self, update: impl FnOnce(&mut Info)) {
        self.identity.update_info(update);
    }

    /// The name of the server's cluster; empty for none.
    pub fn cluster(&self) -> Arc<String> {
        self.cluster.name()
    }

    /// Changes it: in INFO and events, and in what mappings say of clusters.
    pub fn set_cluster(&self, name: &str) {
        self.cluster.set_name(name);
        self.update_info(|info| name.clone_into(&mut info.cluster));
        self.accounts().iter().for_each(|account| account.cluster_changed());
    }

    /// Enters lame duck mode: INFO says so from now on.
    pub fn enter_lame_duck(&self) {
        self.identity.enter_lame_duck();
    }

    /// The server is one of a cluster. To be called before anybody can subscribe: what was
    /// subscribed before is announced to nobody.
    pub fn form_cluster(&self, terms: LinkTerms) {
        self.cluster.form(terms, Arc::clone(&self.links) as Arc<dyn Announcer>);
    }

    /// The server takes leaf nodes, or becomes one. To be called once.
    pub fn form_leaf_nodes(&self) {
        self.cluster.form_leaf_nodes();
        // At the start imports and mappings of the configuration are there, later all that clients
        // want.
        self.accounts().iter().for_each(|account| account.count_for_leafs());
    }

    /// Whether the server is one of a cluster.
    pub fn is_clustered(&self) -> bool {
        self.cluster.has_others()
    }

    /// Sets the short name by which other servers address what is for this one.
    pub fn set_node(&self, node: &str) {
        self.cluster.set_node(node);
    }

    /// Addresses of the cluster's servers that clients of WebSocket are told.
    pub fn websocket_urls(&self) -> Vec<String> {
        self.cluster.websocket_urls().to_vec()
    }

    /// Tells clients of WebSocket these addresses from their next INFO on.
    pub fn set_websocket_urls(&self, urls: Vec<String>) {
        self.cluster.set_websocket_urls(urls);
    }

    /// Links to other servers whose handshake is over.
    pub fn links(&self) -> Vec<Arc<Conn>> {
        Vec::clone(&self.links.all())
    }

    /// Makes the shared half of a connection to another server.
    pub fn connect_link(&self, endpoint: Endpoint, sink: Box<dyn Transport>) -> Arc<Conn> {
        let cid = self.conn_shared.next_cid();
        Conn::new(cid, endpoint, Origin::Link(Box::default()), sink, &self.conn_shared)
    }

    /// Makes the shared half of a link with a server of another cluster.
    pub fn connect_gateway(&self, endpoint: Endpoint, sink: Box<dyn Transport>) -> Arc<Conn> {
        let cid = self.conn_shared.next_cid();
        Conn::new(cid, endpoint, Origin::Link(Box::new(LinkEnd::of_gateway())), sink, &self.conn_shared)
    }

    /// Outdates the routes of all accounts: something has changed that no interest tells of.
    pub(crate) fn outdate_routes(&self) {
        self.accounts().iter().for_each(|account| account.invalidate_all());
    }

    /// An account has another count of leaf nodes and hubs.
    pub fn leaf_nodes_changed(&self, account: &str) {
        if let (Some(client_events), Some(account)) = (self.client_events(), self.account(account)) {
            client_events.count_changed(&account);
        }
    }

    /// Makes the shared half of a link with a leaf node or a hub.
    pub fn connect_leaf(
        &self,
        endpoint: Endpoint,
        sink: Box<dyn Transport>,
        is_web_socket: bool,
    ) -> Arc<Conn> {
        let cid = self.conn_shared.next_cid();
        let end = Box::new(LinkEnd::of_leaf_node(is_web_socket));
        Conn::new(cid, endpoint, Origin::Link(end), sink, &self.conn_shared)
    }

    /// Makes the shared half of a new connection.
    pub fn connect(&self, endpoint: Endpoint, sink: Box<dyn Transport>) -> Arc<Conn> {
        self.connect_by(None, endpoint, sink)
    }

    /// Makes the shared half of a new connection, which may have come by another listener than the
    /// clients' own.
    pub fn connect_by(
        &self,
        websocket_origin: Option<Box<WebSocketOrigin>>,
        endpoint: Endpoint,
        sink: Box<dyn Transport>,
    ) -> Arc<Conn> {
        let cid = self.conn_shared.next_cid();
        let origin = websocket_origin.map_or(Origin::Client, Origin::WebSocket);
        Conn::new(cid, endpoint, origin, sink, &self.conn_shared)
    }

    /// Makes the shared half of a new connection that speaks MQTT.
    pub fn connect_mqtt(
        &self,
        origin: MqttOrigin,
        endpoint: Endpoint,
        sink: Box<dyn Transport>,
    ) -> Arc<Conn> {
        let cid = self.conn_shared.next_cid();
        Conn::new(cid, endpoint, Origin::Mqtt(Box::new(origin)), sink, &self.conn_shared)
    }

    /// Sets how sessions and messages of MQTT are stored from now on.
    pub fn set_mqtt_storage(&self, storage: MqttStorage) {
        self.registry.mqtt_stores.set_storage(storage);
    }

    /// Living connections.
    pub fn connections(&self) -> Vec<Arc<Conn>> {
        self.registry.open()
    }

    /// Traffic of the connections of each account, those that have ended included. An account
    /// without connections may be missing.
    pub fn traffic_by_account(&self) -> Vec<(String, PastTraffic)> {
        self.registry.traffic()
    }

    /// Ended connections that are still remembered, oldest first.
    pub fn closed_connections(&self) -> Vec<Arc<ClosedConn>> {
        self.registry.closed()
    }

    /// Remembers a link with a leaf node or a hub that has ended at this moment. Compat: monitoring
    /// lists it among clients.
    pub fn remember_leaf_node(&self, conn: &Conn, stop: SystemTime, reason: CloseReason) {
        // Compat: a hub has no name there.
        let mut details = conn.details();
        if conn.leaf().is_some_and(|leaf| !leaf.is_accepted) {
            details.name = Box::default();
        }
        let record = ClosedConn {
            cid: conn.cid(),
            endpoint: conn.endpoint(),
            via: conn.via(),
            stop,
            reason,
            details,
            last_activity: conn.last_activity(),
            received: conn.received(),
            sent: conn.sent(),
            subscriptions: conn.subscription_count(),
            subs: Arc::default(),
            stalls: conn.stalls(),
        };
        self.registry.remember(record, self.settings().max_closed_clients);
    }

    /// Connections now, and since the start.
    pub fn connection_counts(&self) -> (usize, u64) {
        self.registry.counts()
    }

    pub(crate) fn services(&self) -> &Arc<Conn> {
        &self.services
    }

    /// Rare events.
    pub fn counters(&self) -> &Counters {
        &self.traffic.counters
    }

    /// Messages and bytes in, then out, over all shards.
    pub fn traffic(&self) -> [u64; 4] {
        self.traffic.sum()
    }

    /// Of [`traffic`](Self::traffic), what comes from and goes to other servers.
    pub fn link_traffic(&self) -> [u64; 4] {
        self.traffic.links()
    }

    /// How the route caches of all shards do together.
    pub fn route_counts(&self) -> RouteCounts {
        self.traffic.routes()
    }

    /// Memory that the data path holds at the moment.
    pub fn memory(&self) -> &Accountant {
        &self.conn_shared.memory
    }

    pub(crate) fn add_shard(&self) -> Arc<Traffic> {
        self.traffic.add_shard()
    }

    /// Where lines go.
    pub fn log(&self) -> &dyn Log {
        self.log.sink()
    }

    /// A line about one connection, in the reference's form.
    pub fn log_for(&self, level: Level, conn: &Conn, line: fmt::Arguments<'_>) {
        let log = self.log();
        if log.enabled(level) {
            // Compat: behind a proxy the log goes on to call it by its socket.
            let (peer, cid, label) = (conn.peer(), conn.cid(), conn.label());
            if conn.is_link() {
                let kind = match conn.kind() {
                    ConnKind::LeafNode if conn.is_web_socket_link() => "lid_ws",
                    ConnKind::LeafNode => "lid",
                    ConnKind::Gateway => "gid",
                    _ => "rid",
                };
                return write_of_link(log, level, (&peer, kind, cid), line);
            }
            let name = conn.name();
            log.write(level, format_args!("{name}{label} - {line}"));
        }
    }
}

impl Drop for Broker {
    /// Accounts hold each other by what they import, one may import from itself, and both hold who
    /// waits for an answer; a connection whose session has not ended and its subscriptions hold
    /// each other, too, as do an account and its streams. Nobody publishes any more, so all of it
    /// is let go of: else a broker that is dropped would stay in memory.
    fn drop(&mut self) {
        self.registry.open().iter().for_each(|conn| drop(conn.take_subscriptions()));
        let accounts = self.accounts();
        accounts.iter().for_each(Account::unlink);
        accounts.iter().chain(&self.internal_accounts()).for_each(|account| account.forget_services());
        let asked = std::mem::take(&mut lock(&self.asked).accounts);
        asked.iter().filter_map(Weak::upgrade).for_each(|account| account.imports.replies.forget_all());
    }
}
