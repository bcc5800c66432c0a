//! The WebSocket listener: TLS, the upgrade of a connection, and then it goes to a shard, where it
//! is a client like others.
//!
//! All that comes before the client protocol happens on the control runtime: what strangers send
//! here never reaches a shard. Owns the rules of the upgrade; the format is `wire`'s, frames under
//! a connection are `shard/websocket.rs`.

mod channel;
mod handshake;

pub(crate) use handshake::date;

use crate::budget::StrangerBudget;
use crate::listener::{Acceptor, bind, place};
use crate::logging::Logger;
use crate::os_error;
use crate::setup;
use crate::shard::{AcceptedLeaf, LinkUpgrade, LinkWith, Mail, Mailbox, NewLink, Permits};
use crate::supervise::{self, SupervisedPart};
use crate::tls::{Offer, Peers, Staple, TlsTerms, TrustedCerts, offer};
use handshake::{UpgradeFailure, shake};
use myelin_auth::ConnectionType;
use myelin_broker::{ListenerInfo, MqttTerms};
use myelin_conf::options::{Options, TlsOptions, WebSocketOptions};
use myelin_mesh::leaf::LeafNodes;
use myelin_mesh::leaf::session::LeafSide;
use myelin_stdx::sync::{read_lock, write_lock};
use myelin_wire::websocket::upgrade::{CookieNames, Origin, Upgrade, UpgradeRules, UpgradeTarget};
use rustls::ServerConnection;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Connections that are being upgraded at once: those beyond wait to be accepted. With the longest
/// request it bounds what strangers can make the server hold.
const UPGRADES: usize = 1024;

/// Time for the TLS handshake and the request, where the configuration sets none.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection that has become a WebSocket, on its way to a shard.
pub(crate) struct Upgraded {
    /// Taken out by who serves it.
    pub(crate) stream: Option<TcpStream>,
    pub(crate) peer: SocketAddr,
    pub(crate) security: Option<ServerConnection>,
    /// Authorities of which one has signed the peer's certificate.
    pub(crate) trusted: TrustedCerts,
    /// Budget of the connection before it is authenticated.
    pub(crate) budget: StrangerBudget,
    pub(crate) listener_info: Arc<ListenerInfo>,
    /// Where the client speaks MQTT.
    pub(crate) mqtt: Option<MqttTerms>,
    pub(crate) upgrade: Upgrade,
}

/// TLS that new connections are offered. It can be exchanged while the listener runs.
pub(crate) struct Security {
    pub(crate) terms: TlsTerms,
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

/// Facts that an upgrade needs.
struct Site {
    rules: UpgradeRules,
    listener_info: Arc<ListenerInfo>,
    /// Terms of clients that speak MQTT, if there may be any.
    mqtt: Option<MqttTerms>,
    security: Option<RwLock<Arc<Security>>>,
    timeout: Duration,
    /// The longest CONNECT, as when the server started.
    max_control_line: usize,
    /// Places for what takes computing, shared with the clients' handshakes.
    permits: Permits,
    /// Leaf nodes, once they are accepted.
    leaf_nodes: OnceLock<Arc<LeafNodes>>,
    log: Arc<Logger>,
}

impl Site {
    fn security(&self) -> Option<Arc<Security>> {
        let security = self.security.as_ref()?;
        Some(Arc::clone(&read_lock(security)))
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
        permits: &Permits,
        log: &Arc<Logger>,
    ) -> Result<Option<Self>, String> {
        let websocket = &options.websocket;
        let Some(port) = websocket.listener.port else { return Ok(None) };
        let (host, port) = (websocket.listener.host.as_str(), port.to_bind());
        let listener = bind(host, port).map_err(|error| {
            let reason = os_error::listening(host, port, &error);
            format!("Unable to listen for websocket connections: {reason}")
        })?;
        let address = listener.local_addr().map_err(|error| format!("no websocket address: {error}"))?;
        announce(host, address.port(), security.as_ref().map(|(_, notes)| notes.as_slice()), log);
        if let Some(advertise) = &websocket.advertise {
            myelin_conf::advertised(advertise, address.port())
                .map_err(|error| format!("Unable to get websocket connect URLs: {error}"))?;
        }
        let site = Arc::new(Site {
            rules: rules(options, security.is_some())?,
            mqtt: setup::mqtt_terms(options),
            listener_info: listener_info(websocket, address.port(), security.is_some()),
            security: security.map(|(security, _)| RwLock::new(Arc::new(security))),
            timeout: websocket.handshake_timeout.unwrap_or(PATIENCE),
            max_control_line: options.limits.max_control_line as usize,
            permits: permits.clone(),
            leaf_nodes: OnceLock::new(),
            log: Arc::clone(log),
        });
        let acceptor = Acceptor::new(listener, Arc::clone(log));
        let accepting = supervise::spawn_guarding(accept(acceptor, shards, Arc::clone(&site)));
        Ok(Some(Self { site, address, accepting }))
    }

    /// Accepts leaf nodes, too, from now on.
    pub(crate) fn accept_leaf_nodes(&self, nodes: &Arc<LeafNodes>) {
        let _ = self.site.leaf_nodes.set(Arc::clone(nodes));
    }

    /// Whether it speaks TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.site.security.is_some()
    }

    /// Proof that is shown to new connections.
    pub(crate) fn staple(&self) -> Option<Arc<Staple>> {
        Some(Arc::clone(&self.site.security()?.terms.staple))
    }

    /// Offers this to new connections from now on.
    pub(crate) fn set_security(&self, new: Security) {
        if let Some(current) = &self.site.security {
            *write_lock(current) = Arc::new(new);
        }
    }

    /// Takes no more connections. Those that are being upgraded come to their end.
    pub(crate) async fn close(&mut self) {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
    }

    /// Takes no more connections, and does not wait for the task that took them.
    pub(crate) fn abort(&self) {
        self.accepting.abort();
    }
}

fn announce(host: &str, port: u16, notes: Option<&[String]>, log: &Logger) {
    let scheme = if notes.is_some() { "wss" } else { "ws" };
    log.info(format_args!(
        "Listening for websocket clients on {scheme}://{}",
        os_error::with_port(host, port)
    ));
    match notes {
        Some(notes) => notes.iter().for_each(|note| log.warn(note)),
        None => log.warn("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!"),
    }
}

fn rules(options: &Options, is_secure: bool) -> Result<UpgradeRules, String> {
    let takes_mqtt = options.mqtt.listener.port.is_some();
    let options = &options.websocket;
    let origins = options.allowed_origins.iter().map(|origin| Origin::parse(origin));
    Ok(UpgradeRules {
        is_secure,
        takes_mqtt,
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

fn listener_info(options: &WebSocketOptions, port: u16, is_secure: bool) -> Arc<ListenerInfo> {
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
    let permits = Arc::new(Semaphore::new(UPGRADES));
    let shards: Arc<[Mailbox]> = shards.into();
    supervise::persist(SupervisedPart::AcceptWebSocket, || accept_all(&acceptor, &permits, &shards, &site))
        .await;
}

async fn accept_all(
    acceptor: &Acceptor,
    permits: &Arc<Semaphore>,
    shards: &Arc<[Mailbox]>,
    site: &Arc<Site>,
) {
    loop {
        let Ok(place) = Arc::clone(permits).acquire_owned().await else { return };
        let (stream, peer) = acceptor.next().await;
        let (site, shards) = (Arc::clone(site), Arc::clone(shards));
        supervise::spawn(SupervisedPart::Upgrade, async move {
            serve(stream, peer, &site, &shards).await;
            drop(place);
        });
    }
}

async fn serve(stream: tokio::net::TcpStream, peer: SocketAddr, site: &Site, shards: &[Mailbox]) {
    match shake(stream, peer, site).await {
        Ok(upgraded) if upgraded.upgrade.target == UpgradeTarget::LeafNode => {
            place_leaf_node(upgraded, site, shards);
        }
        Ok(upgraded) => self::place(shards, Mail::Upgraded(Box::new(upgraded))),
        Err(UpgradeFailure::Refused(refusal)) if refusal.reason.is_some() => {
            site.log.error(format_args!("{peer} - {refusal}"));
        }
        Err(UpgradeFailure::Tls(error)) => {
            site.log.error(format_args!("websocket: TLS handshake error from {peer}: {error}"));
        }
        // Whoever says nothing, or no HTTP, is not worth a line.
        Err(UpgradeFailure::Refused(_) | UpgradeFailure::Gone) => {}
    }
}

/// Hands a leaf node to a shard. Compat: where there are none, it is upgraded before it finds out.
fn place_leaf_node(mut upgraded: Upgraded, site: &Site, shards: &[Mailbox]) {
    let Some(nodes) = site.leaf_nodes.get() else {
        return site.log.error("Not configured to accept leaf node connections");
    };
    let Some(stream) = upgraded.stream.take() else { return };
    let Upgraded { peer, security, trusted, upgrade, .. } = upgraded;
    let with = LinkWith::LeafNode(Arc::clone(nodes), LeafSide::Accepted);
    let upgrade = Some(LinkUpgrade::Accepted(Box::new(AcceptedLeaf { upgrade, security, trusted })));
    place(shards, Mail::Link(Box::new(NewLink { stream, peer, with, security: None, upgrade })));
}
