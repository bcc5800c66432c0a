//! The `tls{}` block, which clients, clusters, gateways, leaf nodes, WebSocket, MQTT and resolvers
//! share.
//!
//! Owns what the block means and the texts about it. Opens no certificate: whoever loads a
//! configuration may hand in an inspector that does, so that a missing file is an error at the
//! block's place.

mod names;
mod ocsp_peer;
mod read;

pub use names::{CipherSuite, Curve, TlsVersion};
pub use ocsp_peer::OcspPeerOptions;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::diagnostic::Position;

/// User of these options: who speaks TLS with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::options) enum TlsUse {
    Client,
    Cluster,
    /// The gateway's listener and its remotes.
    Gateway,
    LeafNodes,
    LeafRemote,
    LeafProxy,
    WebSocket,
    Mqtt,
    Resolver,
    Otlp,
}

impl TlsUse {
    /// Whether peers are found by configured URLs, so that certificates can be checked against
    /// them.
    fn has_known_urls(self) -> bool {
        matches!(self, TlsUse::Cluster | TlsUse::Gateway)
    }
}

/// A certificate with its chain, and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, then those that signed it.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
}

/// Certificate that we show to prove who we are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TlsIdentity {
    /// Nothing: only those who connect can do without.
    #[default]
    Anonymous,
    /// `cert_file` and `key_file`.
    One(CertificateFiles),
    /// `certs`: the first that suits the peer.
    Several(Vec<CertificateFiles>),
}

/// When the handshake comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HandshakeFirst {
    /// After INFO.
    #[default]
    No,
    /// Before it.
    Yes,
    /// Before it if the peer begins one within this time.
    Within(Duration),
}

/// TLS as configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// Certificates and keys.
    pub identity: TlsIdentity,
    /// File of authorities that may sign a peer's certificate.
    pub ca_file: Option<PathBuf>,
    /// As a client: take any certificate.
    pub insecure: bool,
    /// The peer must show a certificate.
    pub verify: bool,
    /// The peer's certificate says which user it is; implies `verify`.
    pub verify_and_map: bool,
    /// A certificate must name one of the URLs that are configured; implies `verify`.
    pub verify_known_urls: bool,
    /// For the handshake; `None` for the default of the listener.
    pub timeout: Option<Duration>,
    /// Handshakes per second; `None` for no limit.
    pub connection_rate_limit: Option<u64>,
    /// Oldest version that is spoken.
    pub min_version: TlsVersion,
    /// Suites for TLS 1.2; `None` for the default. Compat: those of TLS 1.3 are always all offered.
    pub cipher_suites: Option<Vec<CipherSuite>>,
    /// Key exchanges; `None` for the default.
    pub curve_preferences: Option<Vec<Curve>>,
    /// SHA-256 of the public keys that are accepted, in lower case hex; empty for all.
    pub pinned_certs: BTreeSet<String>,
    /// When the handshake comes.
    pub handshake_first: HandshakeFirst,
    /// Ask the peer's CA whether its certificate was revoked.
    pub ocsp_peer: Option<OcspPeerOptions>,
    /// Where the block stands; `None` when it comes from flags.
    pub position: Option<Position>,
}

impl TlsOptions {
    /// Time for the handshake with a client where none is configured.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

    /// Time for the handshake with a client.
    pub fn client_timeout(&self) -> Duration {
        self.timeout.unwrap_or(Self::DEFAULT_TIMEOUT)
    }

    /// Options that the flags `-tls`, `-tlscert`, `-tlskey`, `-tlscacert` and `-tlsverify` ask for;
    /// empty is absent.
    ///
    /// # Errors
    /// When certificate or key is missing.
    pub fn from_flags(cert: &str, key: &str, ca: &str, verify: bool) -> Result<Self, String> {
        if cert.is_empty() {
            return Err("TLS Server certificate must be present and valid".to_owned());
        }
        if key.is_empty() {
            return Err("TLS Server private key must be present and valid".to_owned());
        }
        let files = CertificateFiles { cert_file: cert.into(), key_file: key.into() };
        let ca_file = (!ca.is_empty()).then(|| ca.into());
        Ok(Self { identity: TlsIdentity::One(files), ca_file, verify, ..Self::default() })
    }
}

/// Opens the files that a block names and says what is wrong with them.
pub type InspectTls<'e> = &'e dyn Fn(&TlsOptions) -> Result<(), String>;
