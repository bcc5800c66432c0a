//! Checks the certificates of those who connect.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::files::Authorities;
use super::refused;

/// A verifier that demands a certificate which one of the authorities has signed, and the
/// certificates of these authorities.
pub(super) fn strict(
    authorities: Authorities,
    provider: &Arc<CryptoProvider>,
) -> Result<(Arc<dyn ClientCertVerifier>, TrustedCerts), String> {
    let (store, trusted) = authorities.anchors();
    let trusted: TrustedCerts = trusted.into();
    if store.is_empty() {
        return Err("TLS: there is no authority to verify certificates with".to_owned());
    }
    let chains = WebPkiClientVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
        .build()
        .map_err(|error| format!("TLS: {error}"))?;
    Ok((Arc::new(Verifier { chains, trusted: Arc::clone(&trusted) }), trusted))
}

/// Certificates of authorities that may sign those of clients.
pub(crate) type TrustedCerts = Arc<[CertificateDer<'static>]>;

/// Compat: a certificate that is itself one of the authorities is good as the peer's own, which
/// webpki refuses. Home-made certificates are often like that. And an issuer who has the name of an
/// authority but not its key is unknown, where webpki speaks of a bad signature.
#[derive(Debug)]
struct Verifier {
    chains: Arc<dyn ClientCertVerifier>,
    trusted: TrustedCerts,
}

impl Verifier {
    /// Whether the certificate is trusted by itself, valid now and meant for clients.
    fn trusts(&self, cert: &CertificateDer<'_>, now: UnixTime) -> bool {
        if !self.trusted.iter().any(|trusted| trusted == cert) {
            return false;
        }
        let Ok((_, parsed)) = X509Certificate::from_der(cert) else { return false };
        let (begin, end) =
            (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp());
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let usage = parsed.extended_key_usage().ok().flatten();
        (begin..=end).contains(&now) && usage.is_none_or(|usage| usage.value.client_auth || usage.value.any)
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        cert: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified =
            match self.chains.verify_client_cert(cert, chain, now) {
                Err(Error::InvalidCertificate(
                    CertificateError::Other(_) | CertificateError::UnknownIssuer,
                )) if self.trusts(cert, now) => Ok(ClientCertVerified::assertion()),
                // Compat: an authority that only bears the name of a known one is as unknown as any
                // other, and the client hears that.
                Err(Error::InvalidCertificate(CertificateError::BadSignature)) => {
                    Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
                }
                verified => verified,
            };
        refused::note(verified, cert, chain)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
