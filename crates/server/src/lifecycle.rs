//! The life of the server: start, serve, lame duck, end.

mod addresses;
mod control;
mod links;
mod listeners;
mod log;
mod pages;

use crate::cluster::GroupPart;
use crate::jetstream::{Capacity, RunningJetStream};
use crate::logging::{Logger, Losses};
use crate::monitoring::Monitor;
use crate::ocsp::Ocsp;
use crate::process::{self, Meter};
use crate::reload::ReadAgain;
use crate::service_manager::{self, ServiceState};
use crate::shard::{Mail, Mailbox, Permits, ShardThread};
use crate::signals::{Signal, Signals, Stop};
use crate::supervise::{self, SupervisedPart};
use crate::system::{self, Reloaded};
use crate::tls::{ClientOffer, ClientTls};
use crate::{
    banner, cluster, gateway, jetstream, lame_duck, leaf, listener, os_error, pidfile, ports, resolver,
    setup, tls, websocket,
};
pub(crate) use control::Control;
use log::BrokerLog;
use myelin_auth::callout::ServerKeys;
use myelin_broker::Broker;
use myelin_conf::Loaded;
use myelin_conf::options::{HandshakeFirst, Options};
use myelin_stdx::entropy::OsEntropy;
use myelin_wire::REFERENCE_VERSION;
use myelin_wire::error::Quoted;
use myelin_wire::info::Info;
use std::fmt;
use std::io::{self, Write as _};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

pub(crate) use addresses::BoundAddresses;
use links::TlsOffers;
pub(crate) use links::link_offer;
use listeners::OtherListeners;
pub(crate) use log::log_config;

/// Level of the JetStream API that INFO reports, with or without JetStream.
pub(crate) const API_LEVEL: i32 = 5;

/// Why the server could not start.
#[derive(Debug)]
pub struct StartError {
    text: String,
    is_logged: bool,
}

impl StartError {
    fn new(text: String) -> Self {
        Self { text, is_logged: false }
    }

    /// Whether the log, wherever it goes, has said it already.
    pub fn is_logged(&self) -> bool {
        self.is_logged
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StartError {}

fn failed<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> StartError {
    move |error| StartError::new(format!("{what}: {error}"))
}

/// Runs a server to its end.
///
/// # Errors
/// When it cannot start: a port is taken, a file cannot be written, the operating system refuses.
pub fn run(loaded: Loaded, read_again: ReadAgain<'_>) -> Result<(), StartError> {
    let log =
        Logger::open(&log_config(&loaded.options)).map_err(|error| StartError::new(error.to_string()))?;
    let log = Arc::new(log);
    supervise::report_to(&log);
    let result = start(loaded, &log, read_again).map_err(|error| {
        log.fatal(&error);
        StartError { is_logged: true, ..error }
    });
    log.flush();
    let losses = log.losses();
    if losses != Losses::default() {
        // Nobody may read it any more, which is often why.
        let _ = writeln!(
            io::stderr(),
            "myelin-server: the log lost {} lines, {} writes failed",
            losses.dropped_lines,
            losses.failed_writes
        );
    }
    result
}

fn start(loaded: Loaded, log: &Arc<Logger>, read_again: ReadAgain<'_>) -> Result<(), StartError> {
    let control = Control::start().map_err(failed("cannot start threads"))?;
    let signals = {
        let _inside = control.enter();
        Signals::install().map_err(failed("cannot handle signals"))?
    };
    let started = || Server::start(loaded, (log, &control), None);
    let server = supervise::or_end_process(SupervisedPart::Main, started)?;
    supervise::or_end_process(SupervisedPart::Main, || server.serve(&control, signals, read_again));
    Ok(())
}

/// The parts of a running server.
pub(crate) struct Server {
    pub(crate) loaded: Loaded,
    pub(crate) log: Arc<Logger>,
    pub(crate) broker: Arc<Broker>,
    pub(crate) shards: Vec<ShardThread>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) addresses: BoundAddresses,
    pub(crate) client_tls: Arc<ClientTls>,
    pub(crate) ocsp: Ocsp,
    /// Of monitoring over HTTPS.
    pub(crate) monitor_tls: Option<Arc<tls::Current>>,
    pub(crate) jetstream: Option<RunningJetStream>,
    /// Operator mode.
    pub(crate) resolver: Option<resolver::RunningResolver>,
    pub(crate) others: OtherListeners,
    pub(crate) cluster: Option<cluster::RunningCluster>,
    pub(crate) leaf_nodes: Option<leaf::RunningLeafNodes>,
    pub(crate) gateways: Option<gateway::RunningGateways>,
    system: SystemServices,
    accepting: JoinHandle<()>,
}

/// Services of the system account.
struct SystemServices {
    running: Option<system::RunningSystem>,
    /// Reloads that the system account asks for.
    orders: UnboundedReceiver<Reloaded>,
}

impl Server {
    /// `groups`: the server's part in groups of replicas without JetStream, for tests.
    pub(crate) fn start(
        loaded: Loaded,
        (log, control): (&Arc<Logger>, &Control),
        groups: Option<GroupPart>,
    ) -> Result<Self, StartError> {
        let _inside = control.enter();
        let options = &loaded.options;
        let links = links::terms(options, groups.is_some()).map_err(StartError::new)?;
        let keys = ServerKeys::random(&OsEntropy);
        let id = keys.signing.public();
        let name = options.server.name.clone().unwrap_or_else(|| id.clone());
        banner::print(log, &loaded, &name, &id);
        let broker = new_broker(options, keys, name, log)?;
        let is_dynamic = links::form(&broker, links, (options, groups.is_some()));
        let resolver = resolver::start(options, &broker, control.handle(), log).map_err(StartError::new)?;
        let client_tls = ClientTls::new(options.server.proxy_protocol);
        let mut ocsp = Ocsp::new(log, control.handle());
        let mut offers = TlsOffers::of(options).map_err(StartError::new)?;
        let (proofs, tls) = offers.prove(&ocsp, options).map_err(StartError::new)?;
        let monitor_tls = monitor_tls(options, offers.clients.as_ref())?;
        offer_tls(&client_tls, offers.clients.take(), &broker);
        let permits = Permits::new(process::cores());
        let shards = start_shards(&broker, control.handle(), &client_tls, &permits)?;
        let monitor = Monitor::new(&loaded, Arc::clone(&broker), Arc::clone(log), Meter::start());
        monitor.set_ocsp(ocsp.cache());
        let monitoring = pages::start(options, (monitor_tls.as_ref(), &permits), (&monitor, &shards), log)
            .map_err(StartError::new)?;
        let jetstream = start_jetstream(options, &broker, &shards, log)?;
        jetstream.iter().for_each(|running| show_jetstream(running, options, &broker, &monitor));
        let groups = join_groups(groups, jetstream.as_ref(), (options, &broker))?;
        observe_accounts(&broker, monitor.current_jetstream(), &shards);
        let mailboxes: Vec<Mailbox> = shards.iter().map(|shard| shard.mailbox.clone()).collect();
        show_mail(&mailboxes, &monitor);
        let system = SystemServices::start(&broker, &monitor, log, &mailboxes, resolver.as_ref())?;
        system.running.iter().for_each(|running| ocsp.report_to(running.system()));
        let others = OtherListeners::start(options, &mut offers, (&mailboxes, &permits), log)
            .map_err(StartError::new)?;
        let client = listen_for_clients(options, log)?;
        let address = client.local_addr().map_err(failed("no client address"))?;
        advertise(options, &broker, address.port())?;
        monitor.set_addresses(others.ports(address.port()));
        write_pid_file(options)?;
        let parts = (&broker, &mailboxes[..], log, control.handle());
        let leaf_nodes =
            leaf::start(options, parts, tls, (&monitor, &others.websocket)).map_err(StartError::new)?;
        let gateways = gateway::start(options, parts, (&monitor, offers.gateways), groups.as_ref())
            .map_err(StartError::new)?;
        let cluster_parts = cluster::ClusterParts {
            options,
            broker: &broker,
            mailboxes: &mailboxes,
            log,
            control: control.handle(),
            is_dynamic,
            tls: offers.links,
            websocket: others.websocket_address().map(|address| address.port()),
            leaf_nodes: leaf_nodes.as_ref().map(|running| &running.nodes),
            gateways: gateways.as_ref().map(|running| (&running.gateways, running.security())),
            groups,
        };
        let cluster = links::start(cluster_parts, &monitor).map_err(StartError::new)?;
        let accepting = listener::accept(client, mailboxes, ("Client", Arc::clone(log)), Mail::Accept);
        let accepting = supervise::spawn_guarding(accepting);
        client_tls.get().iter().for_each(|offer| announce_tls(offer, log));
        ocsp.take_effect(proofs);
        let addresses = BoundAddresses::new(address, monitoring, others.websocket_address());
        let mut server = Self {
            loaded,
            log: Arc::clone(log),
            broker,
            shards,
            monitor,
            addresses,
            client_tls,
            ocsp,
            monitor_tls,
            jetstream,
            resolver,
            others,
            cluster,
            leaf_nodes,
            gateways,
            system,
            accepting,
        };
        server.write_ports_file();
        log.info("Server is ready");
        Ok(server)
    }

    /// Has the system account follow what the configuration says now.
    pub(crate) fn follow_configuration(&mut self) {
        self.system.follow();
    }

    /// Writes the ports file where the options want one. Compat: a server without it is a server.
    pub(crate) fn write_ports_file(&mut self) {
        let Some(directory) = &self.loaded.options.server.ports_file_dir else { return };
        let scheme = if self.broker.info().tls_required { "tls" } else { "nats" };
        let is_secure = self.others.websocket.as_ref().is_some_and(websocket::Listening::is_secure);
        let websocket = self.addresses.websocket.map(|at| (if is_secure { "wss" } else { "ws" }, at));
        let of_links = if self.loaded.options.cluster.tls.is_some() { "tls" } else { "nats" };
        let listeners = ports::Listeners {
            client: (scheme, self.addresses.client),
            monitoring: self.addresses.monitoring.map(|(scheme, at)| (scheme.name(), at)),
            cluster: self.cluster.as_ref().map(|cluster| (of_links, cluster.address)),
            websocket,
            leaf_nodes: self.leaf_nodes.as_ref().and_then(|leafs| leafs.address).map(|at| ("nats", at)),
        };
        let written = ports::write(directory, &listeners);
        self.addresses.ports_file = written.map_err(|error| self.log.error(error)).ok();
    }

    /// Handles signals until one of them ends the server. This runs on the main thread, not on the
    /// runtime's: a reload may read files and open a log here, and holds up nothing but the next
    /// signal.
    fn serve(mut self, control: &Control, mut signals: Signals, read_again: ReadAgain<'_>) {
        service_manager::tell(ServiceState::Ready);
        let revoked = self.ocsp.end();
        control.block_on(async {
            loop {
                let signal = tokio::select! {
                    signal = signals.next() => signal,
                    Some(report_to) = self.system.orders.recv() => {
                        report_to(self.reload(read_again));
                        continue;
                    }
                    () = revoked.notified() => return,
                    () = service_manager::watch() => continue,
                };
                supervise::point(SupervisedPart::Main);
                self.trapped(signal);
                match signal {
                    Signal::Shutdown(_) => return,
                    Signal::LameDuck => return self.lame_duck(&mut signals, read_again).await,
                    Signal::Reopen => self.log.reopen(),
                    Signal::Reload => drop(self.reload(read_again)),
                }
            }
        });
        self.stop();
    }

    fn trapped(&self, signal: Signal) {
        self.log.info(format_args!("Trapped \"{signal}\" signal"));
    }

    /// Lets clients leave in their own time. SIGINT ends it early, SIGTERM does not; the log and
    /// the configuration can still be renewed.
    async fn lame_duck(&mut self, signals: &mut Signals, read_again: ReadAgain<'_>) {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
        self.others.close().await;
        self.leaf_nodes.iter().for_each(leaf::RunningLeafNodes::stop_accepting);
        self.log.debug("Client accept loop exiting..");
        self.log.info("Entering lame duck mode, stop accepting new clients");
        service_manager::tell(ServiceState::LameDuck);
        self.system.running.iter().for_each(system::RunningSystem::enter_lame_duck);
        // This is the main thread, where nobody waits for it.
        self.jetstream.iter().for_each(RunningJetStream::hand_over);
        let leaving = lame_duck::Leaving::of(&self.broker, self.leaf_nodes.as_ref());
        if leaving.connections().is_empty() {
            return;
        }
        leaving.announce(self.cluster.as_ref().map(|cluster| &*cluster.mesh), &self.shards);
        let (log, server) = (Arc::clone(&self.log), &self.loaded.options.server);
        let (duration, grace) = (server.lame_duck_duration, server.lame_duck_grace_period);
        let leaving = leaving.run(&log, duration, grace);
        tokio::pin!(leaving);
        loop {
            tokio::select! {
                () = &mut leaving => return,
                Some(report_to) = self.system.orders.recv() => report_to(self.reload(read_again)),
                () = service_manager::watch() => {}
                signal = signals.next() => {
                    self.trapped(signal);
                    match signal {
                        Signal::Shutdown(Stop::Interrupt) => return,
                        Signal::Reopen => self.log.reopen(),
                        Signal::Reload => drop(self.reload(read_again)),
                        Signal::Shutdown(Stop::Terminate) | Signal::LameDuck => {}
                    }
                }
            }
        }
    }

    pub(crate) fn stop(self) {
        self.log.info("Initiating Shutdown...");
        service_manager::tell(ServiceState::Stopping);
        if let Some(jetstream) = &self.jetstream {
            jetstream.hand_over();
            jetstream.announce_shutdown();
        }
        if let Some(system) = self.system.running {
            system.stop();
        }
        self.leaf_nodes.iter().for_each(leaf::RunningLeafNodes::stop);
        self.gateways.iter().for_each(gateway::RunningGateways::stop);
        self.cluster.iter().for_each(cluster::RunningCluster::stop);
        self.others.abort();
        if !self.accepting.is_finished() {
            self.accepting.abort();
            self.log.debug("Client accept loop exiting..");
        }
        for shard in &self.shards {
            shard.mailbox.post(Mail::Stop);
        }
        self.shards.into_iter().for_each(|shard| shard.join(&self.log));
        if let Some(jetstream) = self.jetstream {
            jetstream.stop(&self.log);
        }
        if let Some(path) = &self.addresses.ports_file {
            ports::remove(path);
        }
        self.ocsp.save();
        self.log.info("Server Exiting..");
    }
}

/// The server's part in groups of replicas, if it has one.
fn join_groups(
    of_test: Option<GroupPart>,
    jetstream: Option<&RunningJetStream>,
    (options, broker): (&Options, &Broker),
) -> Result<Option<GroupPart>, StartError> {
    let joined = jetstream.map(|running| running.join_groups(options, broker)).transpose();
    Ok(of_test.or(joined.map_err(failed("Can't start JetStream"))?.flatten()))
}

/// Offers TLS to clients, and says so in INFO.
fn offer_tls(client_tls: &ClientTls, offer: Option<ClientOffer>, broker: &Broker) {
    client_tls.set(offer);
    broker.update_info(|info| ClientOffer::advertise(client_tls.get().as_deref(), info));
}

/// Behind all that may fail: the file may be that of a server whose ports it wants.
fn write_pid_file(options: &Options) -> Result<(), StartError> {
    let Some(path) = &options.server.pid_file else { return Ok(()) };
    pidfile::write(path, std::process::id()).map_err(failed("Could not write pidfile"))
}

fn new_broker(
    options: &Options,
    keys: ServerKeys,
    name: String,
    log: &Arc<Logger>,
) -> Result<Arc<Broker>, StartError> {
    let settings = setup::settings(options);
    let auth = setup::auth(options).map_err(failed("invalid permissions"))?;
    let info = Info {
        server_id: keys.signing.public(),
        server_name: name,
        version: REFERENCE_VERSION.to_owned(),
        proto: 1,
        go: format!("myelin {}", crate::MYELIN_VERSION),
        host: options.server.host.clone(),
        cluster: options.cluster.name.clone().unwrap_or_default(),
        headers: settings.headers,
        max_payload: settings.max_payload,
        api_lvl: API_LEVEL,
        xkey: keys.curve.public(),
        ..Info::default()
    };
    let system = options.accounts.system_account();
    let sink = Arc::new(BrokerLog(Arc::clone(log)));
    let accounts = setup::accounts(options).map_err(failed("mappings"))?;
    let broker = Broker::new(settings, auth, &accounts, system, info, Arc::new(OsEntropy), sink)
        .map_err(failed("accounts"))?;
    leaf::show_cluster(options, &broker);
    broker.set_labels(setup::labels(options));
    broker.set_mqtt_storage(setup::mqtt_storage(options));
    broker.set_keys(keys);
    setup::check_callout(options).iter().for_each(|complaint| log.error(complaint));
    Ok(broker)
}

impl SystemServices {
    fn start(
        broker: &Arc<Broker>,
        monitor: &Arc<Monitor>,
        log: &Arc<Logger>,
        mailboxes: &[Mailbox],
        resolver: Option<&resolver::RunningResolver>,
    ) -> Result<Self, StartError> {
        let (order, orders) = unbounded_channel();
        let running = system::RunningSystem::start(system::SystemParts {
            broker: Arc::clone(broker),
            monitor: Arc::clone(monitor),
            log: Arc::clone(log),
            mailboxes: mailboxes.to_vec(),
            orders: order,
            tokens: resolver.map(|resolver| Arc::clone(resolver.tokens())),
        })
        .map_err(failed("cannot start threads"))?;
        Ok(Self { running, orders })
    }

    /// Follows what the configuration says now.
    fn follow(&mut self) {
        self.running.iter_mut().for_each(system::RunningSystem::offer_log);
    }
}

/// Applies an account's token beyond the broker: to JetStream, and to the account's connections.
fn observe_accounts(broker: &Arc<Broker>, jetstream: &Arc<jetstream::Current>, shards: &[ShardThread]) {
    let Some(trusted) = broker.trusted() else { return };
    let jetstream = Arc::clone(jetstream);
    let mailboxes: Vec<Mailbox> = shards.iter().map(|shard| shard.mailbox.clone()).collect();
    trusted.observe(move |account, trusted| {
        jetstream.inspect(|jetstream| {
            match trusted {
                // Why an account may not is in the log.
                Some(trusted) => drop(jetstream.enable(account, jetstream::limits_of_claims(trusted))),
                None => jetstream.disable(account.name()),
            }
            jetstream.enable_refused();
        });
        // Whoever takes an account away has its connections looked at when all that goes with it is
        // done: before, a client that is not concerned by this might meet the half of a reload.
        if trusted.is_some() && account.connections() + account.leaf_nodes() > 0 {
            mailboxes.iter().for_each(|mailbox| mailbox.post(Mail::Refresh));
        }
    });
}

fn announce_tls(offer: &ClientOffer, log: &Logger) {
    offer.note.iter().for_each(|note| log.warn(note));
    let is_first = offer.first == HandshakeFirst::Yes;
    let how = if offer.is_optional && !is_first { "available" } else { "required" };
    log.info(format_args!("TLS {how} for client connections"));
    if is_first {
        log.warn("Clients that are not using \"TLS Handshake First\" option will fail to connect");
    }
}

fn start_jetstream(
    options: &Options,
    broker: &Arc<Broker>,
    shards: &[ShardThread],
    log: &Arc<Logger>,
) -> Result<Option<RunningJetStream>, StartError> {
    if !options.jetstream.enabled {
        return Ok(None);
    }
    let began = std::time::Instant::now();
    banner::announce_jetstream(log, &options.jetstream);
    let prepared = jetstream::prepare(&jetstream::directory(&options.jetstream));
    let capacity = Capacity::of(&options.jetstream);
    banner::print_capacity(log, &options.jetstream, capacity);
    let running = prepared.and_then(|()| {
        banner::print_jetstream(log, &options.jetstream, capacity);
        if leaf::may_extend(options) {
            banner::warn_of_extension(log);
        }
        let mailboxes = shards.iter().map(|shard| shard.mailbox.clone()).collect();
        RunningJetStream::start(options, capacity, broker, mailboxes, log)
    });
    log.info(format_args!("Took {:?} to start JetStream", began.elapsed()));
    Ok(Some(running.map_err(failed("Can't start JetStream"))?))
}

/// Lets monitoring see what waits for the shards.
fn show_mail(mailboxes: &[Mailbox], monitor: &Monitor) {
    for (index, mailbox) in mailboxes.iter().cloned().enumerate() {
        monitor.watch_queue(format!("Shard {index} mail"), Box::new(move || mailbox.waiting()));
    }
}

/// Lets monitoring see a JetStream that has just been started.
fn show_jetstream(running: &RunningJetStream, options: &Options, broker: &Broker, monitor: &Monitor) {
    running.queues().into_iter().for_each(|(name, count)| monitor.watch_queue(name, count));
    switch_jetstream(Some(running), options, broker, monitor);
}

/// Tells clients and monitoring whether there is JetStream.
fn switch_jetstream(
    running: Option<&RunningJetStream>,
    options: &Options,
    broker: &Broker,
    monitor: &Monitor,
) {
    monitor.current_jetstream().set(running.map(RunningJetStream::jetstream));
    let domain = running.and(options.jetstream.domain.clone()).unwrap_or_default();
    broker.update_info(|info| (info.jetstream, info.domain) = (running.is_some(), domain));
}

impl Server {
    /// After a reload: JetStream as the options in force have it.
    pub(crate) fn apply_jetstream_options(&mut self) {
        let options = &self.loaded.options;
        match &mut self.jetstream {
            Some(running) if !options.jetstream.enabled => {
                switch_jetstream(None, options, &self.broker, &self.monitor);
                running.suspend(&self.log);
            }
            Some(running) => {
                // First: whoever gets or loses a token meanwhile is not missed.
                self.monitor.current_jetstream().set(Some(running.jetstream()));
                let was_suspended = running.resume(options, &self.broker);
                if was_suspended {
                    self.log.info("Restarting JetStream");
                    switch_jetstream(Some(running), options, &self.broker, &self.monitor);
                }
            }
            None if options.jetstream.enabled => {
                self.log.info("Restarting JetStream");
                match start_jetstream(options, &self.broker, &self.shards, &self.log) {
                    Ok(running) => {
                        if let Some(running) = &running {
                            show_jetstream(running, options, &self.broker, &self.monitor);
                            // Whoever got or lost a token while it started was not heard by it.
                            running.sync_accounts(options, &self.broker);
                        }
                        self.jetstream = running;
                    }
                    // Compat: the reload holds all the same.
                    Err(error) => self.log.warn(format_args!("{error}")),
                }
            }
            None => {}
        }
    }
}

fn start_shards(
    broker: &Arc<Broker>,
    control: &Handle,
    tls: &Arc<ClientTls>,
    permits: &Permits,
) -> Result<Vec<ShardThread>, StartError> {
    (0..process::cores())
        .map(|index| ShardThread::start(index, broker, control, permits, tls))
        .collect::<io::Result<_>>()
        .map_err(failed("cannot start a shard"))
}

/// TLS for monitoring, where it is served over HTTPS.
fn monitor_tls(
    options: &Options,
    clients: Option<&ClientOffer>,
) -> Result<Option<Arc<tls::Current>>, StartError> {
    let unable = |error| StartError::new(format!("Can't start monitoring: {error}"));
    let Some(https) = options.monitoring.https_port else { return Ok(None) };
    if let Some(http) = options.monitoring.port {
        let (http, https) = (http.to_number(), https.to_number());
        return Err(unable(format!("can't specify both HTTP ({http}) and HTTPs ({https}) ports")));
    }
    let terms = monitor_terms(options, clients).map_err(unable)?;
    terms
        .map(|terms| Some(tls::Current::new(terms)))
        .ok_or_else(|| unable("TLS cert and key required for HTTPS".to_owned()))
}

/// TLS that monitoring offers where clients are offered this.
///
/// # Errors
/// When files are no good.
pub(crate) fn monitor_terms(
    options: &Options,
    clients: Option<&ClientOffer>,
) -> Result<Option<tls::TlsTerms>, String> {
    let (Some(tls), Some(clients)) = (&options.tls, clients) else { return Ok(None) };
    let asks = [Some(tls), options.websocket.tls.as_ref(), options.mqtt.tls.as_ref()]
        .into_iter()
        .flatten()
        .any(tls::asks_about_peers);
    tls::for_monitoring(tls, &clients.terms, asks).map(Some)
}

/// Address of the server in INFO: the configured host and the bound port, or what the operator
/// wants to be said.
///
/// # Errors
/// When that cannot be read: what was written, and why.
pub(crate) fn advertised(options: &Options, port: u16) -> Result<(String, u16), (String, String)> {
    let Some(text) = &options.server.client_advertise else { return Ok((options.server.host.clone(), port)) };
    myelin_conf::advertised(text, port).map_err(|error| (text.clone(), error.to_string()))
}

/// Puts the address of the server into INFO.
fn advertise(options: &Options, broker: &Broker, port: u16) -> Result<(), StartError> {
    let advertised = advertised(options, port).map_err(|(value, error)| {
        let what = "Error setting server INFO with ClientAdvertise value of";
        StartError::new(format!("{what} {value}, err={error}"))
    })?;
    broker.update_info(|info| (info.host, info.port) = advertised);
    Ok(())
}

fn listen_for_clients(options: &Options, log: &Logger) -> Result<TcpListener, StartError> {
    let server = &options.server;
    let listener = listen(&server.host, server.port.to_bind(), "client connections", log)?;
    if server.proxy_protocol {
        log.info("PROXY protocol enabled for client connections");
    }
    Ok(listener)
}

fn listen(host: &str, port: u16, what: &str, log: &Logger) -> Result<TcpListener, StartError> {
    let listener = listener::bind(host, port).map_err(|error| {
        let (place, reason) = (os_error::with_port(host, port), os_error::listening(host, port, &error));
        StartError::new(format!("Error listening on port: {place}, {}", Quoted(reason.as_bytes())))
    })?;
    let port = listener.local_addr().map_err(failed("no address"))?.port();
    log.info(format_args!("Listening for {what} on {}", os_error::with_port(host, port)));
    Ok(listener)
}
