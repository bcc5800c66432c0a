//! Leaf nodes: the listener for them, and dialling the hubs of which this server is one.
//!
//! Logins, and what a link is for, are decided in `mesh/src/leaf`; a link is served by a shard
//! (`shard/link.rs`), as that of a route. All of this is done on the control runtime.

mod dial;
mod options;
mod proxy;
pub(crate) mod timeout;

use crate::jetstream::Current;
use crate::listener;
use crate::logging::Logger;
use crate::monitoring::Monitor;
use crate::ocsp::PeerCheck;
use crate::os_error;
use crate::shard::{LinkSecurity, LinkWith, Mailbox};
use crate::tls::{LeafOffer, LinkTls};
use crate::websocket::Listening;
use dial::{Dialler, Means};
use myelin_broker::Broker;
use myelin_conf::options::{LeafNodeOptions, LeafRemoteOptions, ListenerOptions, Options};
use myelin_mesh::leaf::config::LeafConfig;
use myelin_mesh::leaf::remote::LeafRemote;
use myelin_mesh::leaf::session::LeafSide;
use myelin_mesh::leaf::{LeafHost, LeafNodes};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

pub(crate) use options::{check, is_wanted, may_extend, show_cluster};

/// Leaf nodes and hubs of a running server.
pub(crate) struct RunningLeafNodes {
    pub(crate) nodes: Arc<LeafNodes>,
    /// Where leaf nodes are accepted.
    pub(crate) address: Option<SocketAddr>,
    /// TLS that leaf nodes are offered.
    pub(crate) tls: Arc<LinkTls<LeafOffer>>,
    remotes: Vec<DialledRemote>,
    dialler: Arc<Dialler>,
    accepting: Option<JoinHandle<()>>,
}

/// A hub that is dialled, and the options that it is from.
pub(crate) struct DialledRemote {
    options: LeafRemoteOptions,
    remote: Arc<LeafRemote>,
}

/// Leaf nodes and hubs as other options have them, ready to take effect.
pub(crate) struct PreparedLeafNodes {
    config: LeafConfig,
    remotes: Vec<DialledRemote>,
    /// How many failed attempts to dial make one error in the log.
    reports: [u32; 2],
}

/// Checks of whether the certificates of hubs were revoked, in the order of the remotes.
pub(crate) type HubChecks = Vec<Option<Arc<PeerCheck>>>;

/// TLS with leaf nodes and hubs, beside what is in the options.
#[derive(Default)]
pub(crate) struct LeafSecurity {
    /// For leaf nodes.
    pub(crate) offer: Option<LeafOffer>,
    pub(crate) hubs: HubChecks,
}

/// Parts of the server that leaf nodes need.
#[derive(Clone, Copy)]
pub(crate) struct LeafParts<'a> {
    broker: &'a Arc<Broker>,
    mailboxes: &'a [Mailbox],
    log: &'a Arc<Logger>,
    control: &'a Handle,
    /// The leaders of its streams may have to move as long as a hub is not there.
    jetstream: &'a Arc<Current>,
}

/// Parts that the server has from its start on.
type ServerParts<'a> = (&'a Arc<Broker>, &'a [Mailbox], &'a Arc<Logger>, &'a Handle);

impl<'a> LeafParts<'a> {
    pub(crate) fn new((broker, mailboxes, log, control): ServerParts<'a>, monitor: &'a Monitor) -> Self {
        Self { broker, mailboxes, log, control, jetstream: monitor.current_jetstream() }
    }
}

/// Starts what the options have of leaf nodes and hubs, and shows it to monitoring and the listener
/// for WebSocket.
///
/// # Errors
/// When the port cannot be had, or an option makes no sense.
pub(crate) fn start(
    options: &Options,
    parts: ServerParts<'_>,
    security: LeafSecurity,
    (monitor, web_socket): (&Monitor, &Option<Listening>),
) -> Result<Option<RunningLeafNodes>, String> {
    if !is_wanted(options) {
        return Ok(None);
    }
    let running = RunningLeafNodes::start(options, LeafParts::new(parts, monitor), security)?;
    monitor.set_leaf_nodes(Arc::clone(&running.nodes), running.address.map(|address| address.port()));
    // Compat: over WebSocket leaf nodes are accepted only where they are over TCP.
    if let Some(listening) = web_socket.as_ref().filter(|_| running.address.is_some()) {
        listening.accept_leaf_nodes(&running.nodes);
    }
    Ok(Some(running))
}

impl RunningLeafNodes {
    /// Begins without a listener and without remotes, in a server that has had neither.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub(crate) fn begin(options: &Options, parts: LeafParts<'_>) -> Result<Self, String> {
        let leaf_nodes = LeafNodeOptions {
            listener: ListenerOptions::default(),
            remotes: Vec::new(),
            ..options.leaf_nodes.clone()
        };
        let idle = Options { leaf_nodes, ..options.clone() };
        Self::start(&idle, parts, LeafSecurity::default())
    }

    fn start(options: &Options, parts: LeafParts<'_>, security: LeafSecurity) -> Result<Self, String> {
        let LeafParts { broker, mailboxes, log, .. } = parts;
        let LeafSecurity { offer, hubs } = security;
        let listener = listen(options, log)?;
        let address = listener.as_ref().map(TcpListener::local_addr).transpose();
        let address = address.map_err(|error| format!("no address for leaf nodes: {error}"))?;
        let config = options::config(options, broker, address.map(|address| address.port()))?;
        let remotes = options::remotes(options, &config, &hubs)?;
        let tls = Arc::<LinkTls<LeafOffer>>::default();
        offer.iter().flat_map(|offer| &offer.note).for_each(|note| log.warn(note));
        tls.set(offer);
        let dialler = Arc::new(Dialler::new(parts, options));
        let host = Arc::new(LeafNodeHost { broker: Arc::clone(broker), dialler: Arc::clone(&dialler) });
        let nodes = LeafNodes::new(config, host);
        dialler.begin(&nodes);
        let accepting = listener.map(|listener| {
            let (of, offered) = (Arc::clone(&nodes), Arc::clone(&tls));
            let link = move || {
                let security = offered.get().map(LinkSecurity::LeafNode);
                (LinkWith::LeafNode(Arc::clone(&of), LeafSide::Accepted), security)
            };
            listener::accept_links(listener, ("Leafnode", log), mailboxes.to_vec(), link)
        });
        remotes.iter().for_each(|dialled| dialler.dial(Arc::clone(&dialled.remote), true));
        Ok(Self { nodes, address, tls, remotes, dialler, accepting })
    }

    /// Reads what other options have of leaf nodes and hubs.
    ///
    /// # Errors
    /// When something makes no sense, or is not there yet.
    pub(crate) fn prepare(
        &self,
        options: &Options,
        broker: &Broker,
        hubs: &HubChecks,
    ) -> Result<PreparedLeafNodes, String> {
        check(options)?;
        let config = options::config(options, broker, self.address.map(|address| address.port()))?;
        let remotes = options::remotes(options, &config, hubs)?;
        Ok(PreparedLeafNodes { config, remotes, reports: dial::reports(options) })
    }

    /// Takes over other options: links whose terms are the same are not touched.
    pub(crate) fn reload(&mut self, prepared: PreparedLeafNodes) {
        let PreparedLeafNodes { config, remotes, reports } = prepared;
        self.nodes.reload(config);
        self.dialler.set_reports(reports);
        let mut before = std::mem::take(&mut self.remotes);
        for wanted in remotes {
            let id = wanted.options.identity();
            let known = before.iter().position(|old| old.options.identity() == id);
            let known = known.map(|at| before.swap_remove(at));
            match known {
                Some(known) if known.options.is_with_other_tls(&wanted.options) => {
                    Means::exchange(&known.remote, &wanted.remote);
                    self.remotes.push(DialledRemote { remote: known.remote, ..wanted });
                }
                known => {
                    // Compat: what is linked on other terms from now on is dialled after a wait.
                    let is_first = known.is_none();
                    known.iter().for_each(|known| self.nodes.remove(&known.remote));
                    self.dialler.dial(Arc::clone(&wanted.remote), is_first);
                    self.remotes.push(wanted);
                }
            }
        }
        before.iter().for_each(|old| self.nodes.remove(&old.remote));
    }

    /// No link is accepted or dialled any more.
    pub(crate) fn stop(&self) {
        self.nodes.stop();
        self.remotes.iter().for_each(|dialled| dialled.remote.remove());
        self.stop_accepting();
    }

    /// No link is accepted any more.
    pub(crate) fn stop_accepting(&self) {
        self.accepting.iter().for_each(JoinHandle::abort);
    }
}

fn listen(options: &Options, log: &Logger) -> Result<Option<TcpListener>, String> {
    let leaf_nodes = &options.leaf_nodes;
    let Some(port) = leaf_nodes.listener.port else { return Ok(None) };
    let (host, port) = (&leaf_nodes.listener.host, port.to_bind());
    let listener = listener::bind(host, port).map_err(|error| {
        let reason = os_error::listening(host, port, &error);
        format!("Error listening on leafnode port: {port} - {reason}")
    })?;
    let bound = listener.local_addr().map_err(|error| format!("no address for leaf nodes: {error}"))?;
    let shown = os_error::with_port(host, bound.port());
    log.info(format_args!("Listening for leafnode connections on {shown}"));
    Ok(Some(listener))
}

/// Services for leaf nodes: dialling, and events of accounts.
struct LeafNodeHost {
    broker: Arc<Broker>,
    dialler: Arc<Dialler>,
}

impl LeafHost for LeafNodeHost {
    fn dial_again(&self, remote: Arc<LeafRemote>) {
        self.dialler.dial(remote, false);
    }

    fn count_changed(&self, account: &str) {
        self.broker.leaf_nodes_changed(account);
    }
}
