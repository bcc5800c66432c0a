//! Which certificate a peer is shown.

use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::files::Identity;

/// Compat: the first that bears the name that the peer asks for and is signed in a way that it understands;
/// if there is none, the first.
#[derive(Debug)]
pub(super) struct Certificates(Vec<Arc<CertifiedKey>>);

impl Certificates {
    pub(super) fn new(identity: Identity) -> Self {
        Self(identity.keys)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let [only] = &self.0[..] {
            return Some(Arc::clone(only));
        }
        let suits = |key: &&Arc<CertifiedKey>| {
            key.key.choose_scheme(hello.signature_schemes()).is_some()
                && hello.server_name().is_none_or(|name| bears(key, name))
        };
        self.0.iter().find(suits).or(self.0.first()).map(Arc::clone)
    }
}

fn bears(key: &CertifiedKey, name: &str) -> bool {
    let (Ok(name), Some(cert)) = (ServerName::try_from(name), key.cert.first()) else { return false };
    ParsedCertificate::try_from(cert).is_ok_and(|cert| verify_server_name(&cert, &name).is_ok())
}
