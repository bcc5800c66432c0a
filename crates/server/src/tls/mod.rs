//! TLS: from the options to what rustls works with.
//!
//! Owns certificates, keys and the choice of what is offered to peers. Opens no socket: `http` and
//! the client listener do the handshakes. [`inspect`] is how a configuration finds out early that
//! its certificates are no good.

mod alert;
mod clients;
mod files;
mod leaf;
mod links;
mod outbound;
mod peer;
mod rate;
mod refused;
mod resolver;
mod suites;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod verifier;

use std::sync::{Arc, RwLock};

use jiff::Timestamp;
use myelin_conf::options::{TlsOptions, TlsVersion};
use myelin_stdx::sync::{read_lock, write_lock};
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};

use crate::ocsp::PeerCheck;
pub(crate) use alert::bad_certificate;
pub(crate) use clients::{ClientOffer, ClientTls, NO_HANDSHAKE, details, words};
use files::{Authorities, CertifiedKeys};
pub(crate) use leaf::{HubTls, LeafOffer};
pub(crate) use links::{LINK_TIMEOUT, LinkOffer, LinkTls, agreed, is_about_names, peer_certificate};
pub(crate) use outbound::{outbound_config, secure};
pub(crate) use peer::{issuer, subject};
pub(crate) use refused::take_refused;
use resolver::Certificates;
pub(crate) use resolver::Staple;
use rustls::pki_types::CertificateDer;
pub(crate) use verifier::TrustedCerts;

/// Opens every file that a `tls{}` block names.
///
/// # Errors
/// What is wrong with them, in the reference's words.
pub fn inspect(options: &TlsOptions) -> Result<(), String> {
    CertifiedKeys::open(&options.identity)?;
    Authorities::open(options.ca_file.as_deref())?;
    Ok(())
}

/// Authorities that may sign the certificates of peers: those of `ca_file`, or else of the system.
///
/// # Errors
/// When the file is no good.
pub(crate) fn authorities(options: &TlsOptions) -> Result<Vec<CertificateDer<'static>>, String> {
    Ok(Authorities::open(options.ca_file.as_deref())?.anchors().1)
}

/// When the first certificate of a `tls{}` block expires, if its files can be read.
pub(crate) fn expiry(options: &TlsOptions) -> Option<Timestamp> {
    CertifiedKeys::open(&options.identity).ok()?.expiry()
}

/// Demand on those who connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peers {
    /// As the options say.
    AsConfigured,
    /// Never a certificate. Compat: monitoring over HTTPS does not ask, whatever `verify` says.
    Anonymous,
}

/// Terms for those who connect to a listener.
#[derive(Debug, Clone)]
pub(crate) struct TlsTerms {
    pub(crate) config: Arc<ServerConfig>,
    /// Proof that is shown with the first certificate.
    pub(crate) staple: Arc<Staple>,
    /// Authorities that have to sign the certificates of peers; empty where none are demanded.
    pub(crate) trusted: TrustedCerts,
    /// Whether their certificates were revoked, where that is asked.
    pub(crate) revocation: Option<Arc<PeerCheck>>,
}

/// Offer of a listener, and what the operator should know about it.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) terms: TlsTerms,
    /// Names that were configured and are not spoken, in one sentence.
    pub(crate) note: Option<String>,
}

/// Makes the offer of a listener with these options.
///
/// # Errors
/// As [`inspect`], and when nothing is left of what was configured that Myelin speaks.
pub(crate) fn offer(options: &TlsOptions, peers: Peers) -> Result<Offer, String> {
    let (provider, note) = suites::provider(options);
    let provider = Arc::new(provider);
    let identity = CertifiedKeys::open(&options.identity)?;
    let authorities = Authorities::open(options.ca_file.as_deref())?;
    let mut versions = vec![&TLS13];
    if options.min_version == TlsVersion::V1_2 {
        versions.push(&TLS12);
    }
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|error| format!("TLS: {error}"))?;
    let (builder, trusted) = match peers {
        Peers::AsConfigured if options.verify => {
            let (verifier, trusted) = verifier::strict(authorities, &provider)?;
            (builder.with_client_cert_verifier(verifier), trusted)
        }
        _ => (builder.with_no_client_auth(), TrustedCerts::default()),
    };
    let staple = Staple::new(&identity);
    let mut config = builder.with_cert_resolver(Arc::new(Certificates::new(identity, &staple)));
    // Compat: Go has its own order of preference.
    config.ignore_client_order = true;
    // For the alert of those who are asked about.
    config.enable_secret_extraction = asks_about_peers(options);
    resume(&mut config);
    Ok(Offer { terms: TlsTerms { config: Arc::new(config), staple, trusted, revocation: None }, note })
}

/// Makes the offer of monitoring over HTTPS where clients are offered this: their certificate and
/// its proof.
///
/// Compat: whoever connects is asked for no certificate, unless there is a listener whose peers
/// authorities are asked about.
///
/// # Errors
/// As [`offer`].
pub(crate) fn for_monitoring(
    options: &TlsOptions,
    clients: &TlsTerms,
    asks_about_peers: bool,
) -> Result<TlsTerms, String> {
    if asks_about_peers {
        return Ok(clients.clone());
    }
    let TlsTerms { config, .. } = offer(options, Peers::Anonymous)?.terms;
    let mut config = ServerConfig::clone(&config);
    config.cert_resolver = Arc::clone(&clients.config.cert_resolver);
    let staple = Arc::clone(&clients.staple);
    Ok(TlsTerms { config: Arc::new(config), staple, trusted: TrustedCerts::default(), revocation: None })
}

/// Whether authorities are asked about those who connect.
pub(crate) fn asks_about_peers(options: &TlsOptions) -> bool {
    options.ocsp_peer.as_ref().is_some_and(|peers| peers.verify)
}

/// Sessions are resumed by tickets that only this process can read: nothing is remembered for
/// anybody.
fn resume(config: &mut ServerConfig) {
    if let Ok(ticketer) = rustls::crypto::aws_lc_rs::Ticketer::new() {
        config.ticketer = ticketer;
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
}

/// Offer of a listener to new connections. It can be exchanged while the listener runs; connections
/// that exist keep what they have.
#[derive(Debug)]
pub(crate) struct Current(RwLock<TlsTerms>);

impl Current {
    pub(crate) fn new(terms: TlsTerms) -> Arc<Self> {
        Arc::new(Self(RwLock::new(terms)))
    }

    pub(crate) fn get(&self) -> TlsTerms {
        read_lock(&self.0).clone()
    }

    pub(crate) fn set(&self, terms: TlsTerms) {
        *write_lock(&self.0) = terms;
    }
}
