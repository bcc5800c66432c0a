//! Encryption of a connection: when there is some, whom we trust, and who we are by certificate.
//!
//! Owns the settings (`--tlsca`, `--tlscert`, `--tlskey`, `--tlsfirst`) and the one configuration
//! that all connections of an address share, made when the first of them needs it. rustls does the
//! rest. Opens no socket.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use myelin_stdx::sync::lock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::BenchError;

/// How connections to a server are encrypted.
#[derive(Debug, Default)]
pub struct Tls {
    settings: TlsSettings,
    config: Mutex<Option<Arc<ClientConfig>>>,
}

/// Settings of encryption, as the flags ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The authorities, instead of those of the system.
    pub authorities: Option<PathBuf>,
    /// Our own certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Whether the handshake comes before the server's greeting.
    pub is_first: bool,
    /// Whether a connection without encryption is refused.
    pub is_required: bool,
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl Eq for Tls {}

impl Tls {
    /// TLS with these settings, if the server offers it or needs it.
    pub fn new(settings: TlsSettings) -> Self {
        Self { settings, config: Mutex::new(None) }
    }

    /// TLS with the system's certificates, whatever the server offers.
    pub fn required() -> Self {
        Self::new(TlsSettings { is_required: true, ..TlsSettings::default() })
    }

    /// Whether the handshake comes before anything else.
    pub fn is_first(&self) -> bool {
        self.settings.is_first
    }

    /// Whether we insist on encryption. Naming certificates or authorities insists, as it does for
    /// official clients.
    pub(crate) fn is_required(&self) -> bool {
        let TlsSettings { authorities, certificate, is_first, is_required } = &self.settings;
        *is_required || *is_first || authorities.is_some() || certificate.is_some()
    }

    /// A session with the server of this name in which nothing has been said yet.
    pub(crate) fn session(&self, host: &str) -> Result<ClientConnection, BenchError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| BenchError::Address(format!("{host:?} is no name that a certificate can have")))?;
        ClientConnection::new(self.config()?, name).map_err(|error| BenchError::Tls(error.to_string()))
    }

    fn config(&self) -> Result<Arc<ClientConfig>, BenchError> {
        let mut config = lock(&self.config);
        match &*config {
            Some(config) => Ok(Arc::clone(config)),
            None => Ok(Arc::clone(config.insert(Arc::new(self.settings.config()?)))),
        }
    }
}

impl TlsSettings {
    fn config(&self) -> Result<ClientConfig, BenchError> {
        let trusted = ClientConfig::builder().with_root_certificates(self.roots()?);
        let Some((certificate, key)) = &self.certificate else {
            return Ok(trusted.with_no_client_auth());
        };
        let bad =
            |error: rustls::pki_types::pem::Error| BenchError::Tls(format!("{}: {error}", key.display()));
        let key = PrivateKeyDer::from_pem_file(key).map_err(bad)?;
        trusted
            .with_client_auth_cert(certificates(certificate)?, key)
            .map_err(|error| BenchError::Tls(error.to_string()))
    }

    fn roots(&self) -> Result<RootCertStore, BenchError> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(file) => {
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(|error| BenchError::Tls(error.to_string()))?;
                }
            }
            // What the system has but cannot read is no reason to fail: the server's authority may
            // be among the others.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        Ok(roots)
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, BenchError> {
    let bad = |error| BenchError::Tls(format!("{}: {error}", file.display()));
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(bad)?.collect();
    match certificates.map_err(bad)? {
        none if none.is_empty() => Err(BenchError::Tls(format!("{} holds no certificate", file.display()))),
        some => Ok(some),
    }
}
