//! Gateways: the listener for servers of other clusters, and dialling them.
//!
//! Which clusters there are and which links stay is decided in `mesh/src/gateway`; a link is served
//! by a shard (`shard/link.rs`), as that of a route. All of this is done on the control runtime.

mod dial;
mod options;

use crate::cluster::{ForeignSecurity, GroupPart};
use crate::listener;
use crate::logging::Logger;
use crate::monitoring::Monitor;
use crate::ocsp::TlsListener;
use crate::os_error;
use crate::shard::{LinkSecurity, LinkWith, Mailbox};
use crate::tls::{LinkOffer, LinkTls, Staple};
use dial::GatewayDialler;
use myelin_broker::Broker;
use myelin_conf::options::{Options, TlsOptions};
use myelin_mesh::gateway::remote::GatewayRemote;
use myelin_mesh::gateway::session::GatewayDial;
use myelin_mesh::gateway::{GatewayHost, Gateways};
use myelin_wire::error::CloseReason;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

pub(crate) use options::{check, name};

/// TLS for the other clusters that have their own, by their names.
type RemoteOffers = BTreeMap<String, Arc<LinkOffer>>;

/// Parts of the server that gateways need.
type GatewayParts<'a> = (&'a Arc<Broker>, &'a [Mailbox], &'a Arc<Logger>, &'a Handle);

/// Gateways of a running server.
pub(crate) struct RunningGateways {
    pub(crate) gateways: Arc<Gateways>,
    /// TLS for those that dial.
    tls: Arc<LinkTls>,
    dialler: Arc<GatewayDialler>,
    log: Arc<Logger>,
    accepting: JoinHandle<()>,
}

/// TLS of the gateway, and for the other clusters.
#[derive(Default)]
pub(crate) struct GatewayOffers {
    own: Option<LinkOffer>,
    /// By the names of those clusters, and whether the TLS is their own.
    remotes: BTreeMap<String, (LinkOffer, bool)>,
}

impl GatewayOffers {
    /// The listener, which shows a proof, and what has TLS of its own for dialling. `present`: the
    /// proof that is shown now.
    pub(crate) fn listeners(
        &mut self,
        present: Option<Arc<Staple>>,
    ) -> impl Iterator<Item = TlsListener<'_>> {
        let own = self.own.as_mut().map(|offer| TlsListener::of_links(offer, present));
        let others = self.remotes.values_mut().filter(|(_, is_own)| *is_own);
        own.into_iter().chain(others.map(|(offer, _)| TlsListener::of_dialled(offer)))
    }

    fn notes(&self) -> impl Iterator<Item = &String> {
        let remotes = self.remotes.values().map(|(offer, _)| offer);
        self.own.iter().chain(remotes).flat_map(|offer| &offer.notes)
    }

    fn into_parts(self) -> (Option<LinkOffer>, RemoteOffers) {
        let remotes = self.remotes.into_iter().map(|(name, (offer, _))| (name, Arc::new(offer)));
        (self.own, remotes.collect())
    }
}

/// Starts the gateway that the options have, if they have one.
///
/// # Errors
/// When the port cannot be had, or an option makes no sense.
pub(crate) fn start(
    options: &Options,
    (broker, mailboxes, log, control): GatewayParts<'_>,
    (monitor, offers): (&Monitor, GatewayOffers),
    groups: Option<&GroupPart>,
) -> Result<Option<RunningGateways>, String> {
    let Some(name) = name(options) else { return Ok(None) };
    let gateway = &options.gateway;
    let (host, port) = (&gateway.listener.host, gateway.listener.port.map_or(0, |port| port.to_bind()));
    let listener = listener::bind(host, port).map_err(|error| {
        let reason = os_error::listening(host, port, &error);
        format!("Error listening on gateway port: {port} - {reason}")
    })?;
    let address = listener.local_addr().map_err(|error| format!("no address for gateways: {error}"))?;
    let shown = os_error::with_port(host, address.port());
    log.info(format_args!("Gateway name is {name}"));
    log.info(format_args!("Listening for gateways connections on {shown}"));
    let config = options::config(options, (broker, groups), address.port())?;
    let what = if gateway.advertise.is_some() { "Advertise address" } else { "Address" };
    let is = if gateway.advertise.is_some() { "is set to" } else { "is" };
    log.info(format_args!("{what} for gateway {name:?} {is} {}", config.url));
    offers.notes().for_each(|note| log.warn(note));
    let (offer, remotes) = offers.into_parts();
    let tls = Arc::<LinkTls>::default();
    tls.set(offer);
    let dialler = Arc::new(GatewayDialler::new(mailboxes, log, control, (&tls, remotes)));
    let gateways = Gateways::new(config, Arc::new(Solicitor(Arc::clone(&dialler))));
    dialler.begin(&gateways);
    let of = Arc::clone(&gateways);
    let offered = Arc::clone(&tls);
    let link = move || {
        let security = offered.get().map(|offer| LinkSecurity::Gateway(offer, None));
        (LinkWith::Gateway(Arc::clone(&of), GatewayDial::Accepted), security)
    };
    let accepting = listener::accept_links(listener, ("Gateway", log), mailboxes.to_vec(), link);
    gateways.solicit();
    monitor.set_gateways(Arc::clone(&gateways), address.port());
    Ok(Some(RunningGateways { gateways, tls, dialler, log: Arc::clone(log), accepting }))
}

impl RunningGateways {
    /// TLS by which servers of other clusters are dialled.
    pub(crate) fn security(&self) -> ForeignSecurity {
        let dialler = Arc::clone(&self.dialler);
        Arc::new(move |cluster, host| dialler.security(cluster, host))
    }

    /// Other certificates for links that begin from now on. Links of servers whose keys are no
    /// longer among those that are `pinned` end; `None` where the pins are as before.
    pub(crate) fn reload(&self, offers: GatewayOffers, pinned: Option<&BTreeSet<String>>) {
        let (offer, remotes) = offers.into_parts();
        self.tls.set(offer);
        self.dialler.set_remotes(remotes);
        let Some(pinned) = pinned.filter(|pinned| !pinned.is_empty()) else { return };
        self.gateways.end_foreign_strangers(pinned);
        let links = self.gateways.outbound().into_iter().chain(self.gateways.inbound());
        let strangers: Vec<_> = links.filter(|link| !pinned.contains(&link.facts().key)).collect();
        if !strangers.is_empty() {
            let count = strangers.len();
            self.log.info(format_args!("Disconnect {count} gateways due to pinned certs reload"));
            strangers.iter().for_each(|link| link.conn().close(CloseReason::TlsHandshake));
        }
    }

    /// The proof that is shown to those that dial.
    pub(crate) fn staple(&self) -> Option<Arc<Staple>> {
        self.tls.get().map(|offer| Arc::clone(&offer.terms.staple))
    }

    /// No link is accepted or dialled any more.
    pub(crate) fn stop(&self) {
        self.gateways.stop();
        self.accepting.abort();
    }
}

/// TLS that the options have for gateways.
///
/// # Errors
/// When its certificates are no good.
pub(crate) fn offers(options: &Options) -> Result<GatewayOffers, String> {
    let gateway = &options.gateway;
    let own = gateway.tls.as_ref().map(|tls| LinkOffer::of_gateway(tls, &[], None)).transpose()?;
    let mut remotes = BTreeMap::new();
    for remote in &gateway.gateways {
        if let Some(tls) = remote.tls.as_ref().or(gateway.tls.as_ref()) {
            // Compat: pins are the gateway's.
            let pinned_certs = gateway.tls.as_ref().map(|tls| tls.pinned_certs.clone()).unwrap_or_default();
            let tls = TlsOptions { pinned_certs, ..tls.clone() };
            let is_own = remote.tls.is_some();
            let offer = LinkOffer::of_gateway(&tls, &remote.urls, own.as_ref().filter(|_| !is_own))?;
            remotes.insert(remote.name.clone(), (offer, is_own));
        }
    }
    Ok(GatewayOffers { own, remotes })
}

/// Services for gateways: dialling.
struct Solicitor(Arc<GatewayDialler>);

impl GatewayHost for Solicitor {
    fn dial(&self, remote: Arc<GatewayRemote>, is_first: bool) {
        self.0.dial(remote, is_first);
    }
}
