//! TLS for clients: what a shard needs to know of it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use myelin_broker::{Greeting, TlsDetails};
use myelin_conf::options::{HandshakeFirst, Options, TlsOptions};
use myelin_stdx::sync::{read_lock, write_lock};
use myelin_wire::info::Info;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, ServerConnection};

use super::links::BadProof;
use super::peer::{describe, names};
use super::rate::Rate;
use super::suites::{suite_name, version_name};
use super::{Offer, Peers, TlsTerms, TrustedCerts, offer};
use crate::ocsp::verified_chains;

/// TLS that new clients are offered now. It can be exchanged while the server runs; connections
/// that exist keep what they have.
#[derive(Debug)]
pub(crate) struct ClientTls {
    offer: RwLock<Option<Arc<ClientOffer>>>,
    rate: Rate,
    /// A proxy may stand in front of clients and say who they are.
    pub(crate) expects_proxy: bool,
}

impl ClientTls {
    /// No TLS, until something else is [set](Self::set).
    pub(crate) fn new(expects_proxy: bool) -> Arc<Self> {
        Arc::new(Self { offer: RwLock::default(), rate: Rate::default(), expects_proxy })
    }

    /// `None` where clients do without TLS.
    pub(crate) fn get(&self) -> Option<Arc<ClientOffer>> {
        read_lock(&self.offer).clone()
    }

    pub(crate) fn set(&self, offer: Option<ClientOffer>) {
        *write_lock(&self.offer) = offer.map(Arc::new);
    }

    /// Whether a handshake by that offer may begin now.
    pub(crate) fn allows(&self, offer: &ClientOffer, now: Instant) -> bool {
        offer.rate_limit.is_none_or(|limit| self.rate.allows(limit, now))
    }

    /// How many handshakes were refused since this was last asked.
    pub(crate) fn take_refused(&self) -> u64 {
        self.rate.take_refused()
    }
}

/// TLS as it is offered to clients.
#[derive(Debug)]
pub(crate) struct ClientOffer {
    pub(crate) terms: TlsTerms,
    /// When the handshake comes.
    pub(crate) first: HandshakeFirst,
    /// Time for the handshake.
    pub(crate) timeout: Duration,
    /// Clients may do without (`allow_non_tls`).
    pub(crate) is_optional: bool,
    /// Clients must show a certificate.
    pub(crate) is_verified: bool,
    /// Handshakes per second.
    rate_limit: Option<u64>,
    /// SHA-256 of the public keys that are accepted, in hex; empty for all.
    pinned: BTreeSet<String>,
    /// Note for the operator.
    pub(crate) note: Option<String>,
}

impl ClientOffer {
    /// `None` for a configuration without a `tls{}`.
    ///
    /// # Errors
    /// When its certificates are no good.
    pub(crate) fn of(options: &Options) -> Result<Option<Self>, String> {
        let Some(tls) = &options.tls else { return Ok(None) };
        Self::new(tls, tls.handshake_first, options.allow_non_tls).map(Some)
    }

    /// The offer of a `tls{}`.
    ///
    /// # Errors
    /// When its certificates are no good.
    pub(crate) fn new(tls: &TlsOptions, first: HandshakeFirst, is_optional: bool) -> Result<Self, String> {
        let Offer { terms, note } = offer(tls, Peers::AsConfigured)?;
        Ok(Self {
            terms,
            first,
            timeout: tls.client_timeout(),
            is_optional,
            is_verified: tls.verify,
            rate_limit: tls.connection_rate_limit,
            pinned: tls.pinned_certs.clone(),
            note,
        })
    }

    /// Greeting of the first INFO.
    pub(crate) fn greeting(&self) -> Greeting {
        Greeting {
            tls_required: !self.is_optional,
            tls_available: self.is_optional,
            tls_verify: self.is_verified,
            hides_ip: false,
        }
    }

    /// Says in later INFO what clients are to do.
    pub(crate) fn advertise(offer: Option<&Self>, info: &mut Info) {
        let greeting = offer.map(Self::greeting).unwrap_or_default();
        info.tls_required = greeting.tls_required;
        info.tls_available = greeting.tls_available;
        info.tls_verify = greeting.tls_verify;
    }

    /// Whether the peer's public key is one of those that are pinned, where any are.
    pub(crate) fn accepts(&self, connection: &ServerConnection) -> bool {
        self.pinned.is_empty()
            || connection
                .peer_certificates()
                .and_then(|chain| describe(chain.first()?))
                .is_some_and(|cert| self.pinned.contains(&cert.spki_sha256))
    }
}

/// Parameters that the handshake agreed on. `trusted`: where a callout service may have to be told
/// the chains from the peer to an authority, the authorities.
pub(crate) fn details(
    connection: &ServerConnection,
    is_first: bool,
    trusted: Option<&TrustedCerts>,
) -> TlsDetails {
    let shown = connection.peer_certificates().unwrap_or_default();
    let chains = trusted.map_or_else(Vec::new, |trusted| verified_chains(shown, trusted));
    TlsDetails {
        version: connection.protocol_version().map_or("", version_name),
        cipher_suite: connection
            .negotiated_cipher_suite()
            .map_or_else(String::new, |suite| suite_name(suite.suite())),
        is_first,
        peer_certs: shown.iter().filter_map(describe).collect(),
        chains: chains.iter().map(|chain| chain.iter().map(|cert| (**cert).into()).collect()).collect(),
        certificate: shown.first().and_then(|own| names(own)).map(Arc::new),
    }
}

/// Text for a handshake that failed. Compat: in Go's words where they are likely to be looked for.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) if other.0.is::<BadProof>() => {
            other.0.to_string()
        }
        Error::NoCertificatesPresented => "tls: client didn't provide a certificate".to_owned(),
        Error::InvalidCertificate(wrong) => {
            let reason = match wrong {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    "certificate signed by unknown authority".to_owned()
                }
                CertificateError::Expired | CertificateError::NotValidYet => OUT_OF_TIME.to_owned(),
                CertificateError::ExpiredContext { time, not_after } => {
                    format!("{OUT_OF_TIME}: current time {} is after {}", shown(*time), shown(*not_after))
                }
                CertificateError::NotValidYetContext { time, not_before } => {
                    format!("{OUT_OF_TIME}: current time {} is before {}", shown(*time), shown(*not_before))
                }
                CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                    "certificate specifies an incompatible key usage".to_owned()
                }
                CertificateError::NotValidForNameContext { expected, presented } => {
                    other_names(&expected.to_str(), presented)
                }
                // What the library has no name for is its own `Debug`, which is nobody's language.
                CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity" => {
                    "certificate signed by unknown authority".to_owned()
                }
                CertificateError::Other(other) => other.0.to_string(),
                other => other.to_string(),
            };
            format!("tls: failed to verify certificate: x509: {reason}")
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => NO_HANDSHAKE.to_owned(),
        Error::PeerIncompatible(
            PeerIncompatible::SupportedVersionsExtensionRequired
            // What those leave out that are older than TLS 1.2.
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => "tls: client offered only unsupported versions".to_owned(),
        Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
            "tls: no cipher suite supported by both client and server".to_owned()
        }
        Error::AlertReceived(alert) => format!("remote error: tls: {}", alert_words(*alert)),
        other => format!("tls: {other}"),
    }
}

const OUT_OF_TIME: &str = "certificate has expired or is not yet valid";

fn shown(time: UnixTime) -> String {
    let time = i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(String::new, |time| time.to_string())
}

/// Beginnings of what is said of a certificate that bears another name than that of the server that
/// was dialled.
pub(super) const NAMES: &str = "certificate is valid for ";
pub(super) const NO_ADDRESSES: &str = "cannot validate certificate for ";
pub(super) const NO_NAMES: &str = "certificate is not valid for any names, but wanted to match ";

/// Says which names a certificate bears instead of the expected one.
fn other_names(expected: &str, presented: &[String]) -> String {
    let bare = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
        inner.trim_matches('"').to_owned()
    };
    let is_address = expected.parse::<IpAddr>().is_ok();
    // Names of the other kind do not count.
    let kind = if is_address { "IpAddress(" } else { "DnsName(" };
    let counts = |name: &&String| name.starts_with(kind);
    let presented: Vec<_> = presented.iter().filter(counts).map(bare).collect();
    if presented.is_empty() && is_address {
        return format!("{NO_ADDRESSES}{expected} because it doesn't contain any IP SANs");
    }
    if presented.is_empty() {
        return format!("{NO_NAMES}{expected}");
    }
    format!("{NAMES}{}, not {expected}", presented.join(", "))
}

/// For bytes that do not begin a handshake.
pub(crate) const NO_HANDSHAKE: &str = "tls: first record does not look like a TLS handshake";

fn alert_words(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::BadCertificate => "bad certificate".to_owned(),
        AlertDescription::UnknownCA => "unknown certificate authority".to_owned(),
        AlertDescription::CertificateUnknown => "unknown certificate".to_owned(),
        AlertDescription::CertificateExpired => "expired certificate".to_owned(),
        AlertDescription::CertificateRevoked => "revoked certificate".to_owned(),
        AlertDescription::DecodeError => "error decoding message".to_owned(),
        AlertDescription::DecryptError => "error decrypting message".to_owned(),
        AlertDescription::ProtocolVersion => "protocol version not supported".to_owned(),
        AlertDescription::InsufficientSecurity => "insufficient security level".to_owned(),
        AlertDescription::BadRecordMac => "bad record MAC".to_owned(),
        AlertDescription::NoApplicationProtocol => "no application protocol".to_owned(),
        other => spaced(&format!("{other:?}")),
    }
}

/// `UnexpectedMessage` as words: "unexpected message".
fn spaced(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}
