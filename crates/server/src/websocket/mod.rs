//! The WebSocket listener: TLS, the upgrade of a connection, and then it goes to a shard, where it is a client like
//! others.
//!
//! All that comes before the client protocol happens on the control runtime: what strangers send here never reaches a
//! shard. Owns the rules of the upgrade; the format is `wire`'s, frames under a connection are `shard/websocket.rs`.

mod channel;
mod handshake;

use crate::budget::Budget;
use crate::fault;
use crate::listener::{Acceptor, bind, place};
use crate::logging::Logger;
use crate::shard::{Mail, Mailbox, Permits};
use crate::supervise::{self, Part};
use crate::tls::{Offer, Peers, Staple, Terms, offer};
use handshake::{Failure, shake};
use myelin_auth::ConnectionType;
use myelin_broker::ListenerInfo;
use myelin_conf::options::{Options, TlsOptions, WebSocketOptions};
use myelin_wire::websocket::upgrade::{CookieNames, Origin, Rules, Upgrade};
use rustls::ServerConnection;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Connections that are being upgraded at once: those beyond wait to be accepted. With the longest request it bounds what
/// strangers can make the server hold.
const UPGRADES: usize = 1024;

/// Time for the TLS handshake and the request, where the configuration sets none.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection that has become a WebSocket, on its way to a shard.
pub(crate) struct Upgraded {
    /// Taken out by who serves it.
    pub(crate) stream: Option<TcpStream>,
    pub(crate) peer: SocketAddr,
    pub(crate) security: Option<ServerConnection>,
    /// What it may still send before it is known who it is.
    pub(crate) budget: Budget,
    pub(crate) door: Arc<ListenerInfo>,
    pub(crate) upgrade: Upgrade,
}

/// What new connections are offered. It can be exchanged while the listener runs.
pub(crate) struct Security {
    pub(crate) terms: Terms,
    /// SHA-256 of the public keys that are accepted, in hex; empty for all.
    pinned: BTreeSet<String>,
}

impl Security {
    /// `None` where there is no WebSocket, or no TLS for it. Notes are for the operator.
    ///
    /// # Errors
    /// When its certificates are no good.
    pub(crate) fn of(options: &Options) -> Result<Option<(Self, Vec<String>)>, String> {
        let websocket = &options.websocket;
        match &websocket.tls {
            Some(tls) if websocket.listener.port.is_some() => Self::from(tls).map(Some),
            _ => Ok(None),
        }
    }

    fn from(tls: &TlsOptions) -> Result<(Self, Vec<String>), String> {
        let Offer { terms, note } = offer(tls, Peers::AsConfigured)?;
        Ok((Self { terms, pinned: tls.pinned_certs.clone() }, Vec::from_iter(note)))
    }
}

/// What an upgrade needs to know.
struct Site {
    rules: Rules,
    door: Arc<ListenerInfo>,
    security: Option<RwLock<Arc<Security>>>,
    timeout: Duration,
    /// The longest CONNECT, as when the server started.
    max_control_line: usize,
    /// Places for what takes computing, shared with the clients' handshakes.
    places: Permits,
    log: Arc<Logger>,
}

impl Site {
    fn security(&self) -> Option<Arc<Security>> {
        let security = self.security.as_ref()?;
        Some(Arc::clone(&security.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A running listener.
pub(crate) struct Listening {
    site: Arc<Site>,
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Listening {
    /// Listens where the options say so, with this security. To be called on the control runtime.
    ///
    /// # Errors
    /// Why the server cannot start.
    pub(crate) fn start(
        options: &Options,
        security: Option<(Security, Vec<String>)>,
        shards: Vec<Mailbox>,
        places: &Permits,
        log: &Arc<Logger>,
    ) -> Result<Option<Self>, String> {
        let websocket = &options.websocket;
        let Some(port) = websocket.listener.port else { return Ok(None) };
        let (host, port) = (websocket.listener.host.as_str(), port.to_bind());
        let listener = bind(host, port).map_err(|error| {
            let reason = fault::listening(host, port, &error);
            format!("Unable to listen for websocket connections: {reason}")
        })?;
        let address = listener.local_addr().map_err(|error| format!("no websocket address: {error}"))?;
        announce(host, address.port(), security.as_ref().map(|(_, notes)| notes.as_slice()), log);
        if let Some(advertise) = &websocket.advertise {
            myelin_conf::advertised(advertise, address.port())
                .map_err(|error| format!("Unable to get websocket connect URLs: {error}"))?;
        }
        let site = Arc::new(Site {
            rules: rules(websocket, security.is_some())?,
            door: door(websocket, address.port(), security.is_some()),
            security: security.map(|(security, _)| RwLock::new(Arc::new(security))),
            timeout: websocket.handshake_timeout.unwrap_or(PATIENCE),
            max_control_line: options.limits.max_control_line as usize,
            places: places.clone(),
            log: Arc::clone(log),
        });
        let acceptor = Acceptor::new(listener, Arc::clone(log));
        let accepting = supervise::spawn_guarding(accept(acceptor, shards, Arc::clone(&site)));
        Ok(Some(Self { site, address, accepting }))
    }

    /// Whether it speaks TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.site.security.is_some()
    }

    /// What proof is shown to new connections.
    pub(crate) fn staple(&self) -> Option<Arc<Staple>> {
        Some(Arc::clone(&self.site.security()?.terms.staple))
    }

    /// Offers this to new connections from now on.
    pub(crate) fn set_security(&self, new: Security) {
        if let Some(current) = &self.site.security {
            *current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        }
    }

    /// Takes no more connections. Those that are being upgraded come to their end.
    pub(crate) async fn close(&mut self) {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
    }

    /// The same without waiting for it.
    pub(crate) fn abort(&self) {
        self.accepting.abort();
    }
}

fn announce(host: &str, port: u16, notes: Option<&[String]>, log: &Logger) {
    let scheme = if notes.is_some() { "wss" } else { "ws" };
    log.info(format_args!("Listening for websocket clients on {scheme}://{}", fault::with_port(host, port)));
    match notes {
        Some(notes) => notes.iter().for_each(|note| log.warn(note)),
        None => log.warn("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!"),
    }
}

fn rules(options: &WebSocketOptions, is_secure: bool) -> Result<Rules, String> {
    let origins = options.allowed_origins.iter().map(|origin| Origin::parse(origin));
    Ok(Rules {
        is_secure,
        same_origin: options.same_origin,
        allowed_origins: origins
            .collect::<Result<_, _>>()
            .map_err(|error| format!("error parsing allowed origin: {error}"))?,
        compression: options.compression,
        headers: options.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect(),
        cookies: CookieNames {
            jwt: options.jwt_cookie.clone(),
            user: options.user_cookie.clone(),
            pass: options.pass_cookie.clone(),
            token: options.token_cookie.clone(),
        },
    })
}

fn door(options: &WebSocketOptions, port: u16, is_secure: bool) -> Arc<ListenerInfo> {
    Arc::new(ListenerInfo {
        via: ConnectionType::Websocket,
        host: options.listener.host.clone(),
        port,
        is_secure,
        ping_interval: options.ping_interval,
        auth_timeout: options.authorization.timeout,
    })
}

/// Accepts until it is dropped.
async fn accept(acceptor: Acceptor, shards: Vec<Mailbox>, site: Arc<Site>) {
    let places = Arc::new(Semaphore::new(UPGRADES));
    let shards: Arc<[Mailbox]> = shards.into();
    supervise::persist(Part::AcceptWebSocket, || accept_all(&acceptor, &places, &shards, &site)).await;
}

async fn accept_all(acceptor: &Acceptor, places: &Arc<Semaphore>, shards: &Arc<[Mailbox]>, site: &Arc<Site>) {
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else { return };
        let (stream, peer) = acceptor.next().await;
        let (site, shards) = (Arc::clone(site), Arc::clone(shards));
        supervise::spawn(Part::Upgrade, async move {
            serve(stream, peer, &site, &shards).await;
            drop(place);
        });
    }
}

async fn serve(stream: tokio::net::TcpStream, peer: SocketAddr, site: &Site, shards: &[Mailbox]) {
    match shake(stream, peer, site).await {
        Ok(upgraded) => self::place(shards, Mail::Upgraded(Box::new(upgraded))),
        Err(Failure::Refused(refusal)) if refusal.reason.is_some() => {
            site.log.error(format_args!("{peer} - {refusal}"));
        }
        Err(Failure::Tls(error)) => {
            site.log.error(format_args!("websocket: TLS handshake error from {peer}: {error}"));
        }
        Err(Failure::LeafNode) => site.log.error("Not configured to accept leaf node connections"),
        // Whoever says nothing, or no HTTP, is not worth a line.
        Err(Failure::Refused(_) | Failure::Gone) => {}
    }
}
