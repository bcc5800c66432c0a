//! TLS between servers: what a link is offered, whichever side has dialled.

use super::clients::{NAMES, NO_ADDRESSES, NO_NAMES};
use super::outbound::link_config;
use super::peer::{describe, names};
use super::resolver::Staple;
use super::suites::{suite_name, version_name};
use super::{Offer, Peers, TlsTerms, offer, refused};
use crate::ocsp::{PeerKind, check_proof};
use myelin_conf::Url;
use myelin_conf::options::{ClusterOptions, TlsOptions};
use myelin_mesh::PeerCertificate;
use myelin_stdx::sync::{lock, read_lock, write_lock};
use rustls::SignatureScheme;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, CommonState, DigitallySignedStruct, Error, OtherError};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// Time for a handshake where nothing is configured.
pub(crate) const LINK_TIMEOUT: Duration = Duration::from_secs(2);

/// TLS that links are offered now. It can be exchanged while the server runs; links that exist keep
/// what they have.
#[derive(Debug)]
pub(crate) struct LinkTls<O = LinkOffer> {
    offer: RwLock<Option<Arc<O>>>,
}

impl<O> Default for LinkTls<O> {
    fn default() -> Self {
        Self { offer: RwLock::default() }
    }
}

impl<O> LinkTls<O> {
    /// `None` where servers do without TLS.
    pub(crate) fn get(&self) -> Option<Arc<O>> {
        read_lock(&self.offer).clone()
    }

    pub(crate) fn set(&self, offer: Option<O>) {
        *write_lock(&self.offer) = offer.map(Arc::new);
    }
}

/// TLS as it is offered to other servers.
#[derive(Debug)]
pub(crate) struct LinkOffer {
    /// Options of the listener: certificates are always asked for, authorities never.
    pub(crate) options: TlsOptions,
    /// Kind of the servers at the other end.
    pub(crate) kind: PeerKind,
    /// For those who dial.
    pub(crate) terms: TlsTerms,
    /// For those who are dialled.
    pub(crate) dialling: Arc<ClientConfig>,
    /// Time for the handshake.
    pub(crate) timeout: Duration,
    /// SHA-256 of the public keys that are accepted, in hex; empty for all.
    pinned: BTreeSet<String>,
    /// Notes for the operator.
    pub(crate) notes: Vec<String>,
    /// The first host name of the configured routes.
    borrowed: Borrowed,
}

/// The first host name of some servers. Certificates of those that are known by their address only
/// are expected to bear it.
#[derive(Debug)]
pub(crate) struct Borrowed(Mutex<Option<String>>);

impl Borrowed {
    pub(super) fn of(urls: &[Url]) -> Self {
        let mut hosts = urls.iter().map(|url| url.host().to_owned());
        Self(Mutex::new(hosts.find(|host| !is_address(host))))
    }

    /// The name that the certificate of the server at `host` has to bear.
    pub(crate) fn name_of(&self, host: &str) -> String {
        let borrowed = lock(&self.0);
        borrowed.as_ref().filter(|_| is_address(host)).map_or_else(|| host.to_owned(), String::clone)
    }

    /// A certificate does not bear this name. If it was a borrowed one, addresses count from now
    /// on.
    pub(crate) fn is_not_called(&self, name: &str) {
        let mut borrowed = lock(&self.0);
        if borrowed.as_deref() == Some(name) {
            *borrowed = None;
        }
    }
}

impl LinkOffer {
    /// `None` for a cluster without a `tls{}`.
    ///
    /// # Errors
    /// When its certificates are no good.
    pub(crate) fn of(cluster: &ClusterOptions) -> Result<Option<Self>, String> {
        let of = |tls| Self::with(tls, &cluster.routes, (PeerKind::Router, None));
        cluster.tls.as_ref().map(of).transpose()
    }

    /// TLS of a gateway, or for one of the other clusters, which is at these addresses. `own`: the
    /// gateway's, where that cluster has none of its own, with the proof that is shown.
    ///
    /// # Errors
    /// When its certificates are no good.
    pub(crate) fn of_gateway(tls: &TlsOptions, urls: &[Url], own: Option<&Self>) -> Result<Self, String> {
        let proof = own.map(|own| Arc::clone(&own.terms.staple));
        Self::with(tls, urls, (PeerKind::Gateway, proof))
    }

    fn with(
        tls: &TlsOptions,
        urls: &[Url],
        (kind, proof): (PeerKind, Option<Arc<Staple>>),
    ) -> Result<Self, String> {
        let whom = if kind == PeerKind::Gateway { "gateways" } else { "routes" };
        // Compat: between servers both sides have to show a certificate, whatever is configured.
        let options = TlsOptions { verify: true, ocsp_peer: None, ..tls.clone() };
        let Offer { mut terms, note } = offer(&options, Peers::AsConfigured)?;
        terms.staple = proof.unwrap_or(terms.staple);
        let mut notes: Vec<_> = note.into_iter().collect();
        if tls.ocsp_peer.is_some() {
            // Compat: nor has it in the reference, which does not say so.
            notes.push("\"ocsp_peer\" has no effect between servers".to_owned());
        }
        if tls.insecure {
            // Compat: the reference's words.
            notes.push(format!(
                "TLS certificate chain and hostname of solicited {whom} will not be verified. \
                 DO NOT USE IN PRODUCTION!"
            ));
        }
        let dialling = Arc::new(link_config(tls, (&terms.staple, kind))?);
        let timeout = tls.timeout.unwrap_or(LINK_TIMEOUT);
        let borrowed = Borrowed::of(urls);
        let pinned = tls.pinned_certs.clone();
        Ok(Self { options, kind, terms, dialling, timeout, pinned, notes, borrowed })
    }

    /// The name that the certificate of the server at `host` has to bear.
    pub(crate) fn name_of(&self, host: &str) -> String {
        self.borrowed.name_of(host)
    }

    /// A certificate does not bear this name.
    pub(crate) fn is_not_called(&self, name: &str) {
        self.borrowed.is_not_called(name);
    }

    /// Whether the other side's public key is one of those that are pinned, where any are.
    pub(crate) fn accepts(&self, certificate: Option<&PeerCertificate>) -> bool {
        self.pinned.is_empty() || certificate.is_some_and(|shown| self.pinned.contains(&shown.key))
    }
}

fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

/// Verifier of the servers that are dialled. Compat: where the certificate of this server is shown
/// with a proof, theirs has to be, too.
#[derive(Debug)]
pub(super) struct Proven {
    pub(super) verifier: Arc<dyn ServerCertVerifier>,
    /// Authorities that it trusts; none where anybody is taken.
    pub(super) trusted: Vec<CertificateDer<'static>>,
    pub(super) staple: Arc<Staple>,
    pub(super) kind: PeerKind,
}

/// Fault of a proof that a server has shown, in words for the log.
#[derive(Debug)]
pub(super) struct BadProof(String);

impl fmt::Display for BadProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadProof {}

impl ServerCertVerifier for Proven {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        proof: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(own, chain, name, proof, now);
        let verified = refused::note(verified, own, chain)?;
        if self.staple.is_wanted() {
            let shown: Vec<_> =
                std::iter::once(own).chain(chain).map(|cert| cert.clone().into_owned()).collect();
            check_proof(proof, &shown, &self.trusted, self.kind).map_err(|why| {
                let why: Arc<dyn std::error::Error + Send + Sync> = Arc::new(BadProof(why));
                Error::InvalidCertificate(CertificateError::Other(OtherError(why)))
            })?;
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Certificate that was shown in a handshake, if that can be read.
pub(crate) fn peer_certificate(shown: Option<&[CertificateDer<'_>]>) -> Option<PeerCertificate> {
    let first = shown?.first()?;
    let key = describe(first)?.spki_sha256;
    Some(PeerCertificate { names: Arc::new(names(first)?), key })
}

/// Version and cipher suite that a handshake agreed on, as the log has them.
pub(crate) fn agreed(state: &CommonState) -> String {
    let version = state.protocol_version().map_or("", version_name);
    let suite = state.negotiated_cipher_suite().map_or_else(String::new, |suite| suite_name(suite.suite()));
    format!("TLS version {version}, cipher suite {suite}")
}

/// Whether a handshake failed, by its text, because the certificate bears another name.
pub(crate) fn is_about_names(words: &str) -> bool {
    [NAMES, NO_ADDRESSES, NO_NAMES].iter().any(|about| words.contains(about))
}
