//! The life of the server: start, serve, lame duck, end.

use crate::http::{self, Scheme};
use crate::logging::{Clock, Config, Destination, Logger, Losses};
use crate::monitoring::{Addresses, Monitor};
use crate::process::{self, Meter};
use crate::shard::{Mail, Mailbox, ShardThread};
use crate::signals::{Signal, Signals, Stop};
use crate::tls::ClientTls;
use crate::{banner, lame_duck, listener, pidfile, ports, setup, tls};
use myelin_broker::{Broker, Level, Log};
use myelin_conf::Loaded;
use myelin_conf::options::{HandshakeFirst, Options};
use myelin_monitor::Pages;
use myelin_wire::REFERENCE_VERSION;
use myelin_wire::info::Info;
use std::fmt::{self, Arguments};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Level of the JetStream API that INFO reports, with or without JetStream.
const API_LEVEL: i32 = 5;

/// Threads for what may take long (large monitoring answers, removals), beside one per core for bcrypt.
const BLOCKING_THREADS: usize = 4;

/// Why the server could not start.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

fn failed<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> StartError {
    move |error| StartError(format!("{what}: {error}"))
}

/// Runs a server to its end.
///
/// # Errors
/// When it cannot start: a port is taken, a file cannot be written, the operating system refuses.
pub fn run(loaded: &Loaded) -> Result<(), StartError> {
    let log = Arc::new(Logger::open(&log_config(&loaded.options)).map_err(failed("cannot open the log"))?);
    let result = start(loaded, &log);
    if let Err(error) = &result {
        log.fatal(error);
    }
    log.flush();
    let losses = log.losses();
    if losses != Losses::default() {
        eprintln!(
            "myelin-server: the log lost {} lines, {} writes failed",
            losses.dropped_lines, losses.failed_writes
        );
    }
    result
}

fn start(loaded: &Loaded, log: &Arc<Logger>) -> Result<(), StartError> {
    let control = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(process::cores() + BLOCKING_THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(failed("cannot start threads"))?;
    let signals = {
        let _inside = control.enter();
        Signals::install().map_err(failed("cannot handle signals"))?
    };
    let server = Server::start(loaded, log, &control)?;
    server.serve(&control, signals);
    Ok(())
}

/// The parts of a running server.
struct Server {
    options: Options,
    log: Arc<Logger>,
    broker: Arc<Broker>,
    shards: Vec<ShardThread>,
    accepting: JoinHandle<()>,
    ports_file: Option<PathBuf>,
}

impl Server {
    fn start(loaded: &Loaded, log: &Arc<Logger>, control: &Runtime) -> Result<Self, StartError> {
        let _inside = control.enter();
        let options = loaded.options.clone();
        let id = myelin_stdx::id::server_id();
        let name = options.server.name.clone().unwrap_or_else(|| id.clone());
        banner::print(log, loaded, &name, &id);
        if let Some(path) = &options.server.pid_file {
            pidfile::write(path, std::process::id()).map_err(failed("cannot write the pid file"))?;
        }
        let broker = new_broker(&options, id, name, log)?;
        let tls = client_tls(&options, log)?;
        if let Some(tls) = &tls {
            let is_verified = options.tls.as_ref().is_some_and(|tls| tls.verify);
            broker.update_info(|info| {
                (info.tls_required, info.tls_available) = (!tls.is_optional, tls.is_optional);
                info.tls_verify = is_verified;
            });
        }
        let shards = start_shards(&broker, control.handle(), tls.as_ref())?;
        let monitor = Monitor::new(loaded, Arc::clone(&broker), Arc::clone(log), Meter::start());
        if let Some(tls) = &tls {
            monitor.set_tls(Arc::clone(tls));
        }
        let http = start_monitoring(&options, &monitor, log)?;
        let client = listen(&options.server.host, options.server.port.to_bind(), "client connections", log)?;
        let address = client.local_addr().map_err(failed("no client address"))?;
        broker
            .update_info(|info| advertise(info, address.port(), options.server.client_advertise.as_deref()));
        monitor.set_addresses(Addresses { client: address.port(), monitoring: http });
        let ports_dir = options.server.ports_file_dir.as_deref();
        let client_scheme = if broker.info().tls_required { "tls" } else { "nats" };
        let ports_file = ports_dir.map(|dir| ports::write(dir, (client_scheme, address), http)).transpose();
        let ports_file = ports_file.map_err(failed("cannot write the ports file"))?;
        let mailboxes: Vec<Mailbox> = shards.iter().map(|shard| shard.mailbox.clone()).collect();
        let accepting = control.spawn(listener::accept(client, mailboxes, Arc::clone(log)));
        if let Some(tls) = &tls {
            announce_tls(tls, log);
        }
        log.info("Server is ready");
        Ok(Self { options, log: Arc::clone(log), broker, shards, accepting, ports_file })
    }

    /// Heeds signals until one of them ends the server.
    fn serve(mut self, control: &Runtime, mut signals: Signals) {
        control.block_on(async {
            loop {
                let signal = signals.next().await;
                self.log.info(format_args!("Trapped \"{signal}\" signal"));
                match signal {
                    Signal::Shutdown(_) => return,
                    Signal::LameDuck => return self.lame_duck(&mut signals).await,
                    Signal::Reopen => self.log.reopen(),
                    Signal::Reload => {
                        self.log.warn("Configuration reload is not part of this version of Myelin");
                    }
                }
            }
        });
        self.stop();
    }

    /// Lets clients leave in their own time. SIGINT ends it early, SIGTERM does not.
    async fn lame_duck(&mut self, signals: &mut Signals) {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
        self.log.info("Entering lame duck mode, stop accepting new clients");
        self.broker.enter_lame_duck();
        self.shards.iter().for_each(|shard| shard.mailbox.post(Mail::Announce));
        let server = &self.options.server;
        let leaving =
            lame_duck::run(&self.broker, &self.log, server.lame_duck_duration, server.lame_duck_grace_period);
        tokio::pin!(leaving);
        loop {
            tokio::select! {
                () = &mut leaving => return,
                signal = signals.next() => match signal {
                    Signal::Shutdown(Stop::Interrupt) => return,
                    Signal::Reopen => self.log.reopen(),
                    _ => {}
                },
            }
        }
    }

    fn stop(self) {
        self.log.info("Initiating Shutdown...");
        self.accepting.abort();
        for shard in &self.shards {
            shard.mailbox.post(Mail::Stop);
        }
        self.shards.into_iter().for_each(|shard| shard.join(&self.log));
        if let Some(path) = &self.ports_file {
            ports::remove(path);
        }
        self.log.info("Server Exiting..");
    }
}

fn new_broker(
    options: &Options,
    id: String,
    name: String,
    log: &Arc<Logger>,
) -> Result<Arc<Broker>, StartError> {
    let settings = setup::settings(options);
    let auth = setup::auth(options).map_err(failed("invalid permissions"))?;
    let info = Info {
        server_id: id,
        server_name: name,
        version: REFERENCE_VERSION.to_owned(),
        proto: 1,
        go: format!("myelin {}", crate::MYELIN_VERSION),
        host: options.server.host.clone(),
        headers: settings.headers,
        max_payload: settings.max_payload,
        api_lvl: API_LEVEL,
        xkey: myelin_stdx::id::curve_key(),
        ..Info::default()
    };
    let system = options.accounts.system_account();
    let sink = Arc::new(BrokerLog(Arc::clone(log)));
    Broker::new(settings, auth, &setup::accounts(options), system, info, sink).map_err(failed("accounts"))
}

/// What clients are offered, if the configuration has a `tls{}`.
fn client_tls(options: &Options, log: &Logger) -> Result<Option<Arc<ClientTls>>, StartError> {
    let Some(configured) = &options.tls else { return Ok(None) };
    let offer = tls::offer(configured, tls::Peers::AsConfigured).map_err(StartError)?;
    offer.notes.iter().for_each(|note| log.warn(note));
    Ok(Some(Arc::new(ClientTls {
        current: tls::Current::new(offer),
        first: configured.handshake_first,
        timeout: setup::tls_timeout(options),
        is_optional: options.allow_non_tls,
        pinned: configured.pinned_certs.clone(),
    })))
}

fn announce_tls(tls: &ClientTls, log: &Logger) {
    let is_first = tls.first == HandshakeFirst::Yes;
    let how = if tls.is_optional && !is_first { "available" } else { "required" };
    log.info(format_args!("TLS {how} for client connections"));
    if is_first {
        log.warn("Clients that are not using \"TLS Handshake First\" option will fail to connect");
    }
}

fn start_shards(
    broker: &Arc<Broker>,
    control: &Handle,
    tls: Option<&Arc<ClientTls>>,
) -> Result<Vec<ShardThread>, StartError> {
    let logins = Arc::new(Semaphore::new(process::cores()));
    (0..process::cores())
        .map(|index| ShardThread::start(index, broker, control, &logins, tls))
        .collect::<io::Result<_>>()
        .map_err(failed("cannot start a shard"))
}

fn start_monitoring(
    options: &Options,
    monitor: &Arc<Monitor>,
    log: &Arc<Logger>,
) -> Result<Option<(Scheme, SocketAddr)>, StartError> {
    let (port, scheme) = match (options.monitoring.port, options.monitoring.https_port) {
        (None, None) => return Ok(None),
        (Some(port), None) => (port, Scheme::Http),
        (None, Some(port)) => (port, Scheme::Https),
        (Some(http), Some(https)) => {
            let (http, https) = (http.to_number(), https.to_number());
            let message = format!("can't specify both HTTP ({http}) and HTTPs ({https}) ports");
            return Err(StartError(format!("Can't start monitoring: {message}")));
        }
    };
    let security = match scheme {
        Scheme::Http => None,
        Scheme::Https => Some(monitoring_security(options, log)?),
    };
    let host = options.monitoring_host();
    let listener = listener::bind(host, port.to_bind())
        .map_err(failed("Can't start monitoring: can't listen to the monitor port"))?;
    let address = listener.local_addr().map_err(failed("no monitor address"))?;
    log.info(format_args!("Starting {scheme} monitor on {}", with_port(host, address.port())));
    let (pages, source) = (Pages::under(&options.monitoring.base_path), Arc::clone(monitor));
    let app = move |path: &str, query: &str| pages.respond(path, query, &*source);
    let complaints = Arc::clone(log);
    let complain = move |line: Arguments<'_>| complaints.error(line);
    let site = http::Site::new(Arc::new(app), Arc::new(complain), security);
    tokio::spawn(site.serve(listener, std::future::pending()));
    Ok(Some((scheme, address)))
}

fn monitoring_security(options: &Options, log: &Logger) -> Result<Arc<tls::Current>, StartError> {
    let unable = |error| StartError(format!("Can't start monitoring: {error}"));
    let options =
        options.tls.as_ref().ok_or_else(|| unable("TLS cert and key required for HTTPS".to_owned()))?;
    let offer = tls::offer(options, tls::Peers::Anonymous).map_err(unable)?;
    offer.notes.iter().for_each(|note| log.warn(note));
    Ok(tls::Current::new(offer))
}

/// As in an address: IPv6 in brackets.
fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// What INFO says of where to connect: the bound port, or what the operator wants to be said.
fn advertise(info: &mut Info, port: u16, advertised: Option<&str>) {
    info.port = port;
    let Some(advertised) = advertised else { return };
    match advertised.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
        Some((host, Ok(port))) => {
            info.host = host.trim_matches(['[', ']']).to_owned();
            info.port = port;
        }
        _ => info.host = advertised.to_owned(),
    }
}

fn listen(host: &str, port: u16, what: &str, log: &Logger) -> Result<TcpListener, StartError> {
    let listener =
        listener::bind(host, port).map_err(failed(format_args!("Error listening on port: {host}:{port}")))?;
    let port = listener.local_addr().map_err(failed("no address"))?.port();
    log.info(format_args!("Listening for {what} on {}", with_port(host, port)));
    Ok(listener)
}

fn log_config(options: &Options) -> Config {
    let logging = &options.logging;
    Config {
        destination: match &logging.log_file {
            None => Destination::Stderr,
            Some(path) => Destination::File {
                path: path.clone(),
                size_limit: logging.log_size_limit.unwrap_or(0),
                max_files: logging.log_max_num.unwrap_or(0) as usize,
            },
        },
        clock: match (logging.logtime, logging.logtime_utc) {
            (false, _) => Clock::Off,
            (true, true) => Clock::Utc,
            (true, false) => Clock::Local,
        },
        debug: logging.debug,
        trace: logging.trace,
    }
}

/// The log as the broker sees it.
struct BrokerLog(Arc<Logger>);

impl Log for BrokerLog {
    fn enabled(&self, level: Level) -> bool {
        match level {
            Level::Debug => self.0.debug_enabled(),
            Level::Trace => self.0.trace_enabled(),
            Level::Error | Level::Warn | Level::Info => true,
        }
    }

    fn write(&self, level: Level, line: Arguments<'_>) {
        match level {
            Level::Error => self.0.error(line),
            Level::Warn => self.0.warn(line),
            Level::Info => self.0.info(line),
            Level::Debug => self.0.debug(line),
            Level::Trace => self.0.trace(line),
        }
    }
}
