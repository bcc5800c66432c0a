//! Whether the certificates of clients, leaf nodes and hubs were revoked (`ocsp_peer`): asks the
//! authorities, or remembers what they said.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use myelin_conf::options::OcspPeerOptions;
use myelin_wire::ocsp::CertStatus;
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};

use super::cache::Cache;
use super::certificate::{fingerprint, paths, question, responders};
use super::fetch;
use super::proof::{self, NO_DELEGATE, Proof};
use crate::logging::Logger;
use crate::tls::subject;

/// Finding about which an advisory is to be sent.
///
/// The reference publishes them as `$SYS.SERVER.<id>.OCSP.PEER.CONN.REJECT` and
/// `….OCSP.PEER.LINK.INVALID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OcspFinding {
    /// A peer was turned away: its certificate, and why.
    Rejected(PeerKind, CertificateDer<'static>, String),
    /// In the path from a client's certificate to its authority one is no good: the client's, that
    /// one, and why.
    LinkInvalid(CertificateDer<'static>, CertificateDer<'static>, String),
}

impl fmt::Display for OcspFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(_, peer, why) => write!(f, "OCSP peer [{}] rejected: {why}", subject(peer)),
            Self::LinkInvalid(peer, link, why) => {
                write!(f, "OCSP link [{}] of peer [{}] invalid: {why}", subject(link), subject(peer))
            }
        }
    }
}

/// Kind of those whose certificates are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerKind {
    Client,
    /// A leaf node that has dialled.
    LeafNode,
    /// A hub that was dialled.
    Hub,
    /// A server of the cluster that has dialled.
    Router,
    /// A server of another cluster that has dialled.
    Gateway,
}

impl PeerKind {
    /// Name in the log and in advisories.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "Client",
            Self::LeafNode | Self::Hub => "Leafnode",
            Self::Router => "Router",
            Self::Gateway => "Gateway",
        }
    }

    /// Side of the handshake.
    fn side(self) -> &'static str {
        if self == Self::Hub { "server" } else { "client" }
    }

    /// Text for who is turned away, where TLS has words.
    fn rejection(self) -> &'static str {
        match self {
            Self::Client | Self::LeafNode => "client not OCSP valid",
            Self::Hub => "server not OCSP valid",
            Self::Router => "Router peer not OCSP valid",
            Self::Gateway => "Gateway peer not OCSP valid",
        }
    }
}

/// Where advisories go.
pub(crate) type Advise = Arc<dyn Fn(&OcspFinding) + Send + Sync>;

/// Checks peers by these options.
pub(crate) struct PeerCheck {
    pub(crate) options: OcspPeerOptions,
    /// Kind of those who are checked.
    pub(crate) kind: PeerKind,
    /// Responder for the certificate of the peer itself, in place of those that it names.
    pub(crate) responder: Option<String>,
    /// Authorities that may sign the certificates of peers.
    pub(crate) trusted: Vec<CertificateDer<'static>>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) log: Arc<Logger>,
    pub(crate) advise: Advise,
}

impl fmt::Debug for PeerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCheck").field("options", &self.options).finish_non_exhaustive()
    }
}

impl PeerCheck {
    /// Looks at the certificates that a peer has shown; TLS has verified them.
    ///
    /// # Errors
    /// When one of them was revoked, or nobody says that it was not.
    pub(crate) async fn verify(&self, shown: &[CertificateDer<'static>]) -> Result<(), String> {
        let rejection = self.kind.rejection().to_owned();
        let Some(peer) = shown.first().filter(|_| !self.trusted.is_empty()) else {
            self.log.error("Peer certificate is nil, rejecting OCSP peer");
            return Err(rejection);
        };
        if self.is_good(peer, shown).await {
            return Ok(());
        }
        self.log.debug("No OCSP valid chains, thus peer is invalid");
        (self.advise)(&OcspFinding::Rejected(self.kind, peer.clone(), rejection.clone()));
        Err(rejection)
    }

    /// Whether there is a way to an authority on which nothing was revoked.
    async fn is_good(&self, peer: &CertificateDer<'static>, shown: &[CertificateDer<'static>]) -> bool {
        let paths = chains(shown, &self.trusted, self.kind);
        let (count, side) = (paths.len(), self.kind.side());
        self.log.debug(format_args!("Peer OCSP enabled: {count} TLS {side} chain(s) will be evaluated"));
        for (number, path) in paths.iter().enumerate() {
            if self.is_good_path(peer, number, path).await {
                return true;
            }
        }
        false
    }

    async fn is_good_path(
        &self,
        peer: &CertificateDer<'static>,
        number: usize,
        path: &[CertificateDer<'static>],
    ) -> bool {
        self.log.debug(format_args!("Chain [{number}]: {} total link(s)", path.len()));
        if path.len() == 1 {
            self.log.debug(format_args!("Chain [{number}] is self-signed, thus peer is valid"));
            return true;
        }
        let responders = |cert: &CertificateDer<'_>| match &self.responder {
            Some(url) if cert == peer => vec![url.clone()],
            _ => responders(cert),
        };
        let links = path.windows(2).map(|pair| (&pair[0], &pair[1], responders(&pair[0])));
        let eligible: Vec<_> = links.filter(|(_, _, responders)| !responders.is_empty()).collect();
        if eligible.is_empty() {
            self.log.debug(format_args!("Chain [{number}] has no OCSP eligible links, thus peer is valid"));
            return true;
        }
        self.log.debug(format_args!("Chain [{number}] has {} OCSP eligible link(s)", eligible.len()));
        for (cert, issuer, responders) in eligible {
            if let Err(reason) = self.check(cert, issuer, &responders).await {
                self.log.debug(&reason);
                (self.advise)(&OcspFinding::LinkInvalid(peer.clone(), cert.clone(), reason));
                return false;
            }
        }
        self.log
            .debug(format_args!("Chain [{number}] is OCSP valid for all eligible links, thus peer is valid"));
        true
    }

    /// Whether a certificate is good, or is to be taken for good; else why not.
    async fn check(&self, cert: &[u8], issuer: &[u8], responders: &[String]) -> Result<(), String> {
        let (name, key) = (subject(cert), fingerprint(cert));
        self.log.debug(format_args!("Checking OCSP peer cache for [{name}], key [{key}]"));
        let known = self.remembered(cert, issuer, &name, &key);
        let was_revoked = known.as_ref().is_some_and(|known| known.proof.status == CertStatus::Revoked);
        let proof = match known {
            Some(known) if known.is_current => known.proof,
            _ => match self.ask(cert, issuer, responders, &name, was_revoked).await {
                ProofLookup::Proof(proof) => {
                    self.cache.put(&key, &name, &proof);
                    proof
                }
                ProofLookup::Allowed => return Ok(()),
                ProofLookup::Refused(reason) => return self.unless_only_warned(&name, reason),
            },
        };
        let status = proof.status;
        if status == CertStatus::Good || (status == CertStatus::Unknown && self.options.unknown_is_good) {
            self.log.debug(format_args!("OCSP verify pass for [{name}]"));
            return Ok(());
        }
        self.log.warn(format_args!("OCSP verify fail for [{name}] with CA status [{status}]"));
        self.unless_only_warned(&name, format!("Invalid OCSP response status: {status}"))
    }

    fn unless_only_warned(&self, name: &str, reason: String) -> Result<(), String> {
        if !self.options.warn_only {
            return Err(reason);
        }
        self.log.warn(format_args!("OCSP verify fail for [{name}] but WarnOnly is true so allowing"));
        Ok(())
    }

    fn remembered(&self, cert: &[u8], issuer: &[u8], name: &str, key: &str) -> Option<Remembered> {
        let raw = self.cache.get(key)?;
        let Ok(proof) = proof::read(&raw, cert, issuer, now()) else {
            let what = format_args!("Invalid cached OCSP response for [{name}] with fingerprint [{key}]");
            self.log.debug(what);
            self.cache.delete(key);
            return None;
        };
        let is_current = self.is_current(&proof);
        let what = if is_current { "current" } else { "expired" };
        self.log.debug(format_args!("Cached OCSP response is {what}, status [{}]", proof.status));
        if !is_current {
            self.cache.delete(key);
        }
        Some(Remembered { proof, is_current })
    }

    /// Whether an answer holds now.
    fn is_current(&self, proof: &Proof) -> bool {
        is_current(&self.options, proof)
    }

    /// Asks the authority.
    async fn ask(
        &self,
        cert: &[u8],
        issuer: &[u8],
        responders: &[String],
        name: &str,
        was_revoked: bool,
    ) -> ProofLookup {
        let raw = match self.fetch(cert, issuer, responders).await {
            Ok(raw) => raw,
            Err(error) => {
                let what = format_args!("Attempt to obtain OCSP response from CA responder for [{name}]");
                self.log.warn(format_args!("{what} failed: {error}"));
                return self.unreachable(name, was_revoked);
            }
        };
        match proof::read(&raw, cert, issuer, now()) {
            Ok(proof) if self.is_current(&proof) => ProofLookup::Proof(proof),
            Ok(_) => {
                let what = format_args!("New OCSP CA response obtained for [{name}] but not current");
                self.log.warn(what);
                ProofLookup::Refused("OCSP response not in effectivity window".to_owned())
            }
            Err(error) if error == NO_DELEGATE => {
                let reason = format!("Invalid OCSP response delegation: {name}");
                self.log.warn(&reason);
                ProofLookup::Refused(reason)
            }
            Err(error) => {
                self.log.error(format_args!("Could not parse OCSP CA response for [{name}]: {error}"));
                ProofLookup::Refused("Failed OCSP response parse".to_owned())
            }
        }
    }

    fn unreachable(&self, name: &str, was_revoked: bool) -> ProofLookup {
        if !self.options.warn_only && self.options.allow_when_ca_unreachable {
            let what =
                format_args!("Failed to obtain OCSP CA response for [{name}] but AllowWhenCAUnreachable set");
            if !was_revoked {
                self.log.warn(format_args!("{what}; no cached revocation so allowing"));
                return ProofLookup::Allowed;
            }
            self.log.warn(format_args!("{what}; cached revocation exists so rejecting"));
        }
        ProofLookup::Refused("Failed OCSP response fetch".to_owned())
    }

    async fn fetch(&self, cert: &[u8], issuer: &[u8], responders: &[String]) -> Result<Vec<u8>, String> {
        let question = question(cert, issuer).ok_or("invalid chain link")?;
        let patience = self.options.ca_timeout;
        let mut last = "no available OCSP servers".to_owned();
        for url in responders {
            self.log.debug(format_args!("Trying OCSP responder url [{url}]"));
            last = match fetch::get(url, &question, patience).await {
                Ok(reply) if reply.status == StatusCode::OK && !reply.body.is_empty() => {
                    return Ok(reply.body);
                }
                Ok(reply) => format!("bad OCSP responder http status: [{}]", reply.status.as_u16()),
                Err(error) => error,
            };
        }
        Err(format!("exhausted OCSP responders: {last}"))
    }
}

/// Whether an answer holds now, by these options.
pub(super) fn is_current(options: &OcspPeerOptions, proof: &Proof) -> bool {
    let seconds = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 4);
    let skew = seconds(options.allowed_clockskew);
    let ttl = seconds(options.cache_ttl_when_next_update_unset);
    let end = proof.next_update.unwrap_or_else(|| proof.this_update.saturating_add(ttl));
    let now = now();
    end >= now.saturating_sub(skew) && proof.this_update <= now.saturating_add(skew)
}

/// Chains from the certificate that a client has shown first to the authorities that vouch for it.
/// TLS has verified it.
pub(crate) fn verified_chains(
    shown: &[CertificateDer<'static>],
    trusted: &[CertificateDer<'static>],
) -> Vec<Vec<CertificateDer<'static>>> {
    chains(shown, trusted, PeerKind::Client)
}

fn chains(
    shown: &[CertificateDer<'static>],
    trusted: &[CertificateDer<'static>],
    kind: PeerKind,
) -> Vec<Vec<CertificateDer<'static>>> {
    let mut paths = paths(shown, trusted);
    if paths.len() > 1 {
        // TLS has found one of them good, and does not say which.
        paths.retain(|path| holds(path, kind));
    }
    paths
}

/// Whether TLS would accept a peer by this way, the last on which is trusted.
fn holds(path: &[CertificateDer<'static>], kind: PeerKind) -> bool {
    let ([leaf, between @ ..], Some(root)) = (path, path.last()) else { return false };
    if between.is_empty() {
        return true;
    }
    let mut roots = RootCertStore::empty();
    if roots.add(root.clone()).is_err() {
        return false;
    }
    let (between, now, provider) = (&between[..between.len() - 1], UnixTime::now(), default_provider());
    if kind == PeerKind::Hub {
        let algorithms = provider.signature_verification_algorithms.all;
        return ParsedCertificate::try_from(leaf).is_ok_and(|leaf| {
            verify_server_cert_signed_by_trust_anchor(&leaf, &roots, between, now, algorithms).is_ok()
        });
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider));
    verifier.build().is_ok_and(|verifier| verifier.verify_client_cert(leaf, between, now).is_ok())
}

struct Remembered {
    proof: Proof,
    is_current: bool,
}

enum ProofLookup {
    Proof(Proof),
    /// There is no answer, and that is to be taken for a good one.
    Allowed,
    Refused(String),
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX / 4)
}
