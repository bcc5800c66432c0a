//! TLS for clients: what a shard needs to know of it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use myelin_broker::TlsDetails;
use myelin_conf::options::HandshakeFirst;
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, ServerConnection};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Current;
use super::suites::{suite_name, version_name};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct ClientTls {
    pub(crate) current: Arc<Current>,
    /// When the handshake comes.
    pub(crate) first: HandshakeFirst,
    /// Time for the handshake.
    pub(crate) timeout: Duration,
    /// Clients may do without (`allow_non_tls`).
    pub(crate) is_optional: bool,
    /// SHA-256 of the public keys that are accepted, in hex; empty for all.
    pub(crate) pinned: BTreeSet<String>,
}

impl ClientTls {
    /// Whether the peer's public key is one of those that are pinned, where any are.
    pub(crate) fn accepts(&self, connection: &ServerConnection) -> bool {
        self.pinned.is_empty()
            || connection
                .peer_certificates()
                .and_then(|chain| fingerprint(chain.first()?))
                .is_some_and(|print| self.pinned.contains(&print))
    }
}

fn fingerprint(cert: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(cert).ok()?;
    let digest = Sha256::digest(parsed.public_key().raw);
    Some(digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

/// What the handshake agreed on.
pub(crate) fn details(connection: &ServerConnection, is_first: bool) -> TlsDetails {
    TlsDetails {
        version: connection.protocol_version().map_or("", version_name),
        cipher_suite: connection
            .negotiated_cipher_suite()
            .map_or_else(String::new, |suite| suite_name(suite.suite())),
        is_first,
    }
}

/// What went wrong with a handshake. Compat: in Go's words where they are likely to be looked for.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::NoCertificatesPresented => "tls: client didn't provide a certificate".to_owned(),
        Error::InvalidCertificate(wrong) => {
            let reason = match wrong {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    "certificate signed by unknown authority".to_owned()
                }
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => {
                    "certificate has expired or is not yet valid".to_owned()
                }
                other => other.to_string(),
            };
            format!("tls: failed to verify certificate: x509: {reason}")
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => NO_HANDSHAKE.to_owned(),
        Error::AlertReceived(alert) => format!("remote error: tls: {}", alert_words(*alert)),
        other => format!("tls: {other}"),
    }
}

/// For bytes that do not begin a handshake.
pub(crate) const NO_HANDSHAKE: &str = "tls: first record does not look like a TLS handshake";

fn alert_words(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::BadCertificate => "bad certificate".to_owned(),
        AlertDescription::UnknownCA => "unknown certificate authority".to_owned(),
        AlertDescription::CertificateUnknown => "unknown certificate".to_owned(),
        AlertDescription::CertificateExpired => "expired certificate".to_owned(),
        AlertDescription::HandshakeFailure => "handshake failure".to_owned(),
        AlertDescription::ProtocolVersion => "protocol version not supported".to_owned(),
        other => format!("{other:?}"),
    }
}
