//! Facts about a connection, for monitoring, events and callout services: plain data.

use myelin_auth::ClientCertificate;
use myelin_auth::callout::ClientTls;
use myelin_auth::operator::ClaimedUser;
use myelin_stdx::base64;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Where a connection comes from and when it came.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    /// The peer.
    pub peer: SocketAddr,
    /// When it was accepted.
    pub start: SystemTime,
}

/// Publishes and subscriptions of a connection that its permissions have refused.
#[derive(Debug, Clone, Default)]
pub struct RefusedAccess {
    /// How many since it connected.
    pub count: u64,
    /// The last of them, oldest first; at most eight.
    pub last: VecDeque<AccessRefusal>,
}

/// A publish or a subscription that was refused.
#[derive(Debug, Clone)]
pub struct AccessRefusal {
    /// When.
    pub at: SystemTime,
    /// The error that the client got, with the subject; at most 256 bytes of it.
    pub error: String,
    /// The deny rule that covers the subject, as it was written; `None` where no allow rule covers
    /// it.
    pub denied_by: Option<String>,
}

impl RefusedAccess {
    const KEPT: usize = 8;
    const MAX_TEXT: usize = 256;

    pub(crate) fn note(&mut self, mut refusal: AccessRefusal) {
        let end = refusal.error.floor_char_boundary(Self::MAX_TEXT);
        refusal.error.truncate(end);
        self.count += 1;
        if self.last.len() == Self::KEPT {
            self.last.pop_front();
        }
        self.last.push_back(refusal);
    }
}

/// Details of a connection for monitoring, beyond counters.
#[derive(Debug, Clone, Default)]
pub struct ConnDetails {
    /// CONNECT's `name`.
    pub name: Box<str>,
    /// CONNECT's `lang`.
    pub lang: Box<str>,
    /// CONNECT's `version`.
    pub version: Box<str>,
    /// User that logged in; never a secret.
    pub user: Option<String>,
    /// Key of the issuer of a login with an nkey or a token.
    pub issuer_key: Option<String>,
    /// User that logged in with a token.
    pub claims: Option<Arc<ClaimedUser>>,
    /// Expiry that the auth callout has set.
    pub expires: Option<SystemTime>,
    /// The public key of the trusted proxy through which it came.
    pub proxy: Option<Box<str>>,
    /// The account's name.
    pub account: String,
    /// The client id of MQTT, if it speaks that.
    pub mqtt_client: Option<Box<str>>,
    /// The last measured round trip.
    pub rtt: Option<Duration>,
    /// TLS parameters of the handshake, if there was one.
    pub tls: Option<Box<TlsDetails>>,
    /// Refusals by its permissions, if there was one.
    pub refused: Option<Box<RefusedAccess>>,
}

/// TLS under a connection.
#[derive(Debug, Clone)]
pub struct TlsDetails {
    /// `1.2` or `1.3`.
    pub version: &'static str,
    /// As in the registry of TLS.
    pub cipher_suite: String,
    /// The handshake came before INFO.
    pub is_first: bool,
    /// Certificates that the peer has shown, its own first.
    pub peer_certs: Vec<PeerCertificate>,
    /// Chains of certificates in DER, each from the peer's own to an authority that vouches for it:
    /// where a callout service may have to be told.
    pub chains: Arc<[Vec<Box<[u8]>>]>,
    /// Names in the first of these certificates.
    pub certificate: Option<Arc<ClientCertificate>>,
}

impl TlsDetails {
    /// TLS as a callout service is told of it. Certificates that were not verified are not taken
    /// here.
    pub(crate) fn for_callout(&self) -> ClientTls {
        ClientTls {
            version: self.version.to_owned(),
            cipher: self.cipher_suite.clone(),
            certs: Vec::new(),
            verified_chains: self
                .chains
                .iter()
                .map(|chain| chain.iter().map(|cert| pem(cert)).collect())
                .collect(),
        }
    }
}

/// A certificate in PEM, as Go writes it.
fn pem(der: &[u8]) -> String {
    let digits = base64::encode(der);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = digits.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text.extend([line, "\n"]);
        rest = after;
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

/// A certificate in the words of monitoring.
#[derive(Debug, Clone)]
pub struct PeerCertificate {
    /// Subject of the certificate, as RFC 2253 writes names.
    pub subject: String,
    /// SHA-256 of the public key with its algorithm, in hex.
    pub spki_sha256: String,
    /// SHA-256 of the whole certificate, in hex.
    pub cert_sha256: String,
}
