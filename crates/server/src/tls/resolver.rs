//! Which certificate a peer is shown, and with which proof.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

use jiff::Timestamp;
use myelin_stdx::sync::{read_lock, write_lock};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::files::CertifiedKeys;

/// Compat: the first that bears the name that the peer asks for and is signed in a way that it
/// understands; if there is none, the first.
#[derive(Debug)]
pub(super) struct Certificates {
    keys: Vec<Arc<CertifiedKey>>,
    staple: Arc<Staple>,
}

impl Certificates {
    pub(super) fn new(identity: CertifiedKeys, staple: &Arc<Staple>) -> Self {
        Self { keys: identity.keys, staple: Arc::clone(staple) }
    }

    fn choose(&self, hello: &ClientHello<'_>) -> Option<&Arc<CertifiedKey>> {
        if let [only] = &self.keys[..] {
            return Some(only);
        }
        let suits = |key: &&Arc<CertifiedKey>| {
            key.key.choose_scheme(hello.signature_schemes()).is_some()
                && hello.server_name().is_none_or(|name| bears(key, name))
        };
        self.keys.iter().find(suits).or(self.keys.first())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let chosen = self.choose(&hello)?;
        let stapled = self.staple.of(chosen);
        Some(stapled.unwrap_or_else(|| Arc::clone(chosen)))
    }
}

fn bears(key: &CertifiedKey, name: &str) -> bool {
    let (Ok(name), Some(cert)) = (ServerName::try_from(name), key.cert.first()) else { return false };
    ParsedCertificate::try_from(cert).is_ok_and(|cert| verify_server_name(&cert, &name).is_ok())
}

/// The proof that is shown with the first certificate, while it holds. Compat: the others are shown
/// without.
#[derive(Default)]
pub(crate) struct Staple {
    first: Option<Arc<CertifiedKey>>,
    shown: RwLock<Option<CurrentStaple>>,
    is_wanted: AtomicBool,
}

struct CurrentStaple {
    key: Arc<CertifiedKey>,
    /// When it ends, in seconds since 1970.
    end: Option<i64>,
}

impl fmt::Debug for Staple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Staple")
    }
}

impl Staple {
    pub(super) fn new(identity: &CertifiedKeys) -> Arc<Self> {
        Arc::new(Self { first: identity.keys.first().cloned(), ..Self::default() })
    }

    /// Notes that the certificate is to be shown with a proof.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Relaxed);
    }

    /// Whether it is.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Relaxed)
    }

    /// The first certificate with those that have signed it.
    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        self.first.as_ref().map_or(&[], |key| &key.cert)
    }

    /// Shows this proof from here on.
    pub(crate) fn set(&self, raw: Vec<u8>, end: Option<i64>) {
        let Some(first) = &self.first else { return };
        let key = Arc::new(CertifiedKey { ocsp: Some(raw), ..CertifiedKey::clone(first) });
        *write_lock(&self.shown) = Some(CurrentStaple { key, end });
    }

    /// Goes on with the proof of another, if it is of the same certificate.
    pub(crate) fn inherit(&self, other: &Self) {
        let shown = read_lock(&other.shown);
        if let Some(CurrentStaple { key, end }) = &*shown
            && let Some(raw) = &key.ocsp
            && self.chain().first() == other.chain().first()
        {
            self.set(raw.clone(), *end);
        }
    }

    /// The proof that was set last.
    pub(crate) fn raw(&self) -> Option<Vec<u8>> {
        read_lock(&self.shown).as_ref()?.key.ocsp.clone()
    }

    /// The certificate with its proof, if it is the first one and the proof holds.
    fn of(&self, chosen: &Arc<CertifiedKey>) -> Option<Arc<CertifiedKey>> {
        if !self.first.as_ref().is_some_and(|first| Arc::ptr_eq(first, chosen)) {
            return None;
        }
        let shown = read_lock(&self.shown);
        let shown = shown.as_ref()?;
        let holds = shown.end.is_none_or(|end| Timestamp::now().as_second() <= end);
        holds.then(|| Arc::clone(&shown.key))
    }
}
