//! TLS as a client: what this server offers where it is the one that connects.

use super::files::{Authorities, CertifiedKeys};
use super::links::Proven;
use super::resolver::Staple;
use super::suites;
use crate::ocsp::PeerKind;
use myelin_conf::options::{TlsOptions, TlsVersion};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// With nothing configured: the system's authorities, and no certificate of our own.
///
/// # Errors
/// When the files that the options name are no good.
pub(crate) fn outbound_config(options: Option<&TlsOptions>) -> Result<ClientConfig, String> {
    let default = TlsOptions::default();
    config(options.unwrap_or(&default), None)
}

/// Speaks TLS on a connection to this host.
///
/// # Errors
/// When the host has no name that a certificate could have, or does not prove to be it.
pub(crate) async fn secure(
    stream: TcpStream,
    host: &str,
    config: &Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::clone(config));
    connector.connect(name, stream).await.map_err(|error| format!("tls: {error}"))
}

/// For other servers: who is dialled has to show a proof where this server shows one itself.
///
/// # Errors
/// As [`outbound_config`].
pub(super) fn link_config(
    options: &TlsOptions,
    proof: (&Arc<Staple>, PeerKind),
) -> Result<ClientConfig, String> {
    config(options, Some(proof))
}

/// For hubs. Compat: between leaf nodes and hubs no proof is shown, nor asked for.
///
/// # Errors
/// As [`outbound_config`].
pub(super) fn hub_config(options: &TlsOptions) -> Result<ClientConfig, String> {
    link_config(options, (&Staple::new(&CertifiedKeys::open(&options.identity)?), PeerKind::Hub))
}

fn config(options: &TlsOptions, proof: Option<(&Arc<Staple>, PeerKind)>) -> Result<ClientConfig, String> {
    let provider = Arc::new(suites::provider(options).0);
    let authorities = Authorities::open(options.ca_file.as_deref())?;
    let identity = CertifiedKeys::open(&options.identity)?;
    let mut versions = vec![&TLS13];
    if options.min_version == TlsVersion::V1_2 {
        versions.push(&TLS12);
    }
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|error| format!("TLS: {error}"))?
        .dangerous();
    let mut trusted = Vec::new();
    let mut verifier: Arc<dyn ServerCertVerifier> = if options.insecure {
        Arc::new(Anybody(provider))
    } else {
        let (store, certs) = authorities.anchors();
        trusted = certs;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider);
        verifier.build().map_err(|error| format!("TLS: {error}"))?
    };
    if let Some((staple, kind)) = proof {
        verifier = Arc::new(Proven { verifier, trusted, staple: Arc::clone(staple), kind });
    }
    let builder = builder.with_custom_certificate_verifier(verifier);
    Ok(match identity.keys.first() {
        Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(key)))),
        None => builder.with_no_client_auth(),
    })
}

/// `insecure`: whoever answers is taken for who was called, if only it has the key of the
/// certificate that it shows.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
