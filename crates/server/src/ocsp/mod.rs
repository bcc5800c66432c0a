//! OCSP: proofs that certificates were not revoked, in both directions.
//!
//! For our own certificate a proof is fetched and shown to those who connect (`staple`); for the
//! certificates of clients, leaf nodes and hubs the authority is asked while they wait (`peer`),
//! and its answers are kept (`cache`). Formats are `wire`'s; what is here decides whether an answer
//! can be believed (`proof`) and speaks HTTP with authorities (`fetch`).
//!
//! A handshake never waits for a proof of our own. Waiting for a client's costs that client only.

mod cache;
mod certificate;
mod fetch;
mod peer;
mod peer_proof;
mod proof;
#[cfg(test)]
#[path = "../../tests/server/responder.rs"]
mod responder;
mod staple;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use myelin_conf::options::{LeafRemoteOptions, OcspPeerOptions, Options, TlsOptions};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::logging::Logger;
use crate::supervise::{self, SupervisedPart};
use crate::system::System;
use crate::tls::{LeafOffer, LinkOffer, Staple, TlsTerms, authorities};
use cache::Cache;
pub(crate) use cache::OcspCache;
pub(crate) use certificate::fingerprint;
pub(crate) use myelin_stdx::base64::{decode as from_base64, encode as to_base64};
use peer::Advise;
pub(crate) use peer::{OcspFinding, PeerCheck, PeerKind, verified_chains};
pub(crate) use peer_proof::check_proof;
use staple::{Monitor, Stapling};

/// OCSP in a running server.
pub(crate) struct Ocsp {
    log: Arc<Logger>,
    control: Handle,
    advise: Advise,
    /// Where findings are told, once it is there.
    system: Arc<OnceLock<Arc<System>>>,
    /// Told when the server has to end, because its certificate was revoked.
    end: Arc<Notify>,
    cache: Arc<OcspCache>,
    /// Answers about other servers.
    link_cache: Arc<Cache>,
    monitors: Vec<Monitor>,
    saving: Option<Saving>,
}

/// Limit of the TLS library, for operators (docs/clustering.md, "TLS").
const UNPROVEN: &str = "No OCSP Staple is shown to servers that are dialled, for TLS here has no means: \
                        nats-servers that show one refuse such links, and have to have this server in their \
                        routes";

/// Limit of the TLS library between clusters (docs/gateways.md).
const UNPROVEN_GATEWAY: &str = "No OCSP Staple is shown to servers of other clusters that are dialled, for TLS here \
                                has no means: nats-servers that show one refuse such links";

/// A listener with TLS.
pub(crate) struct TlsListener<'l> {
    pub(crate) tls: &'l TlsOptions,
    /// TLS that is going to be offered.
    pub(crate) terms: &'l mut TlsTerms,
    /// The proof that it shows now.
    pub(crate) present: Option<Arc<Staple>>,
    /// Kind of those who connect there.
    kind: PeerKind,
    /// Whether nobody connects, and the TLS is for dialling.
    only_dials: bool,
}

impl<'l> TlsListener<'l> {
    /// One that is there if both are.
    pub(crate) fn of(
        tls: Option<&'l TlsOptions>,
        terms: Option<&'l mut TlsTerms>,
        present: Option<Arc<Staple>>,
    ) -> Option<Self> {
        Some(Self { tls: tls?, terms: terms?, present, kind: PeerKind::Client, only_dials: false })
    }

    /// The listener for other servers, of the cluster or of others. Compat: authorities are not
    /// asked about those.
    pub(crate) fn of_links(offer: &'l mut LinkOffer, present: Option<Arc<Staple>>) -> Self {
        let kind = offer.kind;
        Self { tls: &offer.options, terms: &mut offer.terms, present, kind, only_dials: false }
    }

    /// TLS for servers that are dialled: nobody sees a proof, theirs have to come.
    pub(crate) fn of_dialled(offer: &'l mut LinkOffer) -> Self {
        Self { only_dials: true, ..Self::of_links(offer, None) }
    }

    /// The listener for leaf nodes. Compat: they are shown no proof.
    pub(crate) fn of_leaf_nodes(
        tls: Option<&'l TlsOptions>,
        offer: Option<&'l mut LeafOffer>,
    ) -> Option<Self> {
        Some(Self {
            tls: tls?,
            terms: &mut offer?.terms,
            present: None,
            kind: PeerKind::LeafNode,
            only_dials: false,
        })
    }
}

/// Changes that are ready to take effect.
#[derive(Default)]
pub(crate) struct StagedOcsp {
    staplings: Vec<Stapling>,
    cache: Option<Arc<Cache>>,
    /// Checks of hubs, in the order of the remotes.
    pub(crate) hubs: Vec<Option<Arc<PeerCheck>>>,
    /// Why there is no proof of our own where there should be one. No reason not to go on with a
    /// server that runs.
    pub(crate) complaint: Option<String>,
}

impl Ocsp {
    pub(crate) fn new(log: &Arc<Logger>, control: &Handle) -> Self {
        let (lines, system) = (Arc::clone(log), Arc::new(OnceLock::<Arc<System>>::new()));
        let listener = Arc::clone(&system);
        let advise = Arc::new(move |finding: &OcspFinding| {
            lines.debug(finding);
            listener.get().into_iter().for_each(|system| system.advise(finding));
        });
        Self {
            log: Arc::clone(log),
            control: control.clone(),
            advise,
            system,
            end: Arc::new(Notify::new()),
            cache: Arc::default(),
            link_cache: Cache::in_memory(log),
            monitors: Vec::new(),
            saving: None,
        }
    }

    /// Has findings told in the system account from now on.
    pub(crate) fn report_to(&self, system: &Arc<System>) {
        let _ = self.system.set(Arc::clone(system));
    }

    /// Told when the server has to end.
    pub(crate) fn end(&self) -> Arc<Notify> {
        Arc::clone(&self.end)
    }

    pub(crate) fn cache(&self) -> Arc<OcspCache> {
        Arc::clone(&self.cache)
    }

    /// Prepares what these options ask for, and adds to the terms of listeners what belongs there.
    /// May wait for an authority.
    ///
    /// # Errors
    /// When clients cannot be checked.
    pub(crate) fn prepare<'l>(
        &self,
        options: &Options,
        listeners: impl IntoIterator<Item = TlsListener<'l>>,
    ) -> Result<StagedOcsp, String> {
        let (mut next, mut has_proven) = (StagedOcsp::default(), false);
        for TlsListener { tls, terms, present, kind, only_dials } in listeners {
            if kind != PeerKind::LeafNode
                && let Err(error) = self.staple(
                    options,
                    (tls, kind.name()),
                    (terms, present),
                    (only_dials, &mut next.staplings),
                )
            {
                next.complaint.get_or_insert(error);
            }
            if matches!(kind, PeerKind::Router | PeerKind::Gateway) && terms.staple.is_wanted() {
                // Who dials can show no proof to rustls, so it is asked for.
                terms.revocation = Some(Arc::new(self.link_check(options, (tls, kind))?));
                has_proven |= kind == PeerKind::Gateway;
                if kind == PeerKind::Router && !options.cluster.routes.is_empty() {
                    self.log.warn(UNPROVEN);
                }
            }
            let Some(peers) = tls.ocsp_peer.as_ref().filter(|peers| peers.verify) else { continue };
            self.log.debug(format_args!("Plugging TLS OCSP peer for [{}]", kind.name()));
            if !tls.verify {
                let text =
                    "OCSP peer verification for client connections requires TLS verify (mTLS) to be enabled";
                return Err(text.to_owned());
            }
            terms.revocation = Some(Arc::new(self.peer_check(options, (tls, kind), peers, &mut next)?));
        }
        if has_proven {
            self.log.warn(UNPROVEN_GATEWAY);
        }
        for remote in &options.leaf_nodes.remotes {
            let check = self.hub_check(options, remote, &mut next)?;
            next.hubs.push(check.map(Arc::new));
        }
        Ok(next)
    }

    fn hub_check(
        &self,
        options: &Options,
        remote: &LeafRemoteOptions,
        next: &mut StagedOcsp,
    ) -> Result<Option<PeerCheck>, String> {
        let Some(tls) = &remote.tls else { return Ok(None) };
        let Some(peers) = tls.ocsp_peer.as_ref().filter(|peers| peers.verify) else { return Ok(None) };
        let kind = PeerKind::Hub;
        self.log.debug(format_args!("Plugging TLS OCSP peer for [{}]", kind.name()));
        let check = self.peer_check(options, (tls, kind), peers, next)?;
        // Compat: who is not verified has no way to an authority.
        let trusted = if tls.insecure { Vec::new() } else { check.trusted };
        Ok(Some(PeerCheck { trusted, ..check }))
    }

    fn peer_check(
        &self,
        options: &Options,
        (tls, kind): (&TlsOptions, PeerKind),
        peers: &OcspPeerOptions,
        next: &mut StagedOcsp,
    ) -> Result<PeerCheck, String> {
        let cache = next.cache.get_or_insert_with(|| self.open(options));
        Ok(PeerCheck {
            options: peers.clone(),
            kind,
            responder: None,
            trusted: authorities(tls)?,
            cache: Arc::clone(cache),
            log: Arc::clone(&self.log),
            advise: Arc::clone(&self.advise),
        })
    }

    /// Finds the first proof for a listener's certificate, where there is to be one.
    fn staple(
        &self,
        options: &Options,
        (tls, kind): (&TlsOptions, &'static str),
        (terms, present): (&TlsTerms, Option<Arc<Staple>>),
        (only_dials, staplings): (bool, &mut Vec<Stapling>),
    ) -> Result<(), String> {
        let Some(stapling) = Stapling::of(options, (tls, kind), &terms.staple, &self.log)? else {
            return Ok(());
        };
        terms.staple.want();
        if only_dials {
            return Ok(());
        }
        if let Some(present) = present {
            terms.staple.inherit(&present);
        }
        let begun = self.wait_for(stapling.begin());
        staplings.push(stapling);
        begun
    }

    /// The check of servers that dial this one, whose own certificate is shown with a proof.
    fn link_check(
        &self,
        options: &Options,
        (tls, kind): (&TlsOptions, PeerKind),
    ) -> Result<PeerCheck, String> {
        let stapling = options.ocsp.stapling.as_ref();
        Ok(PeerCheck {
            options: OcspPeerOptions { verify: true, ..OcspPeerOptions::default() },
            kind,
            responder: stapling.and_then(|stapling| stapling.url.clone()),
            trusted: authorities(tls)?,
            cache: Arc::clone(&self.link_cache),
            log: Arc::clone(&self.log),
            advise: Arc::new(|_| {}),
        })
    }

    /// The cache that these options want: the one that is there, if it is the same.
    fn open(&self, options: &Options) -> Arc<Cache> {
        let wanted = options.ocsp.cache.clone().unwrap_or_default();
        let present = self.cache.get().filter(|cache| *cache.options() == wanted);
        present.unwrap_or_else(|| Cache::open(wanted, &self.log))
    }

    /// Runs what was prepared, in place of what ran before.
    pub(crate) fn take_effect(&mut self, next: StagedOcsp) {
        let _inside = self.control.enter();
        self.save();
        self.monitors.clear();
        let watched = next.staplings.into_iter().map(|stapling| stapling.watch(Arc::clone(&self.end)));
        self.monitors.extend(watched);
        self.saving = next.cache.as_ref().and_then(Saving::start);
        self.cache.set(next.cache);
    }

    /// Writes down what the cache holds.
    pub(crate) fn save(&self) {
        if let Some(cache) = self.cache.get() {
            cache.save();
        }
    }

    /// Waits here for what runs on the control runtime, on which this thread may stand.
    fn wait_for<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        supervise::elsewhere(SupervisedPart::OcspWait, || self.control.block_on(future))
    }
}

/// Writes the cache down now and then, for as long as it lives.
struct Saving(JoinHandle<()>);

impl Saving {
    fn start(cache: &Arc<Cache>) -> Option<Self> {
        let interval = cache.save_interval()?;
        let cache = Arc::clone(cache);
        Some(Self(supervise::spawn_guarding(async move {
            supervise::persist(SupervisedPart::OcspCache, || Self::save_always(&cache, interval)).await;
        })))
    }

    async fn save_always(cache: &Arc<Cache>, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            let cache = Arc::clone(cache);
            supervise::blocking(SupervisedPart::OcspCache, move || cache.save()).await;
        }
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        self.0.abort();
    }
}
