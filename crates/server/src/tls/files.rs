//! Certificates and keys from files.
//!
//! Owns the texts about files that are missing or no good. Compat: they are Go's.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use myelin_conf::options::{CertificateFiles, TlsIdentity};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Certificates with their keys, in the order of the configuration.
#[derive(Debug, Default)]
pub(super) struct CertifiedKeys {
    pub(super) keys: Vec<Arc<CertifiedKey>>,
}

impl CertifiedKeys {
    pub(super) fn open(identity: &TlsIdentity) -> Result<Self, String> {
        let keys = match identity {
            TlsIdentity::Anonymous => Vec::new(),
            TlsIdentity::One(files) => {
                let wrong = |error| format!("error parsing X509 certificate/key pair: {error}");
                vec![Arc::new(pair(files).map_err(wrong)?)]
            }
            TlsIdentity::Several(list) => {
                let numbered = list.iter().zip(1..).map(|(files, number)| {
                    let count = list.len();
                    pair(files).map(Arc::new).map_err(|error| {
                        format!("error parsing X509 certificate/key pair {number}/{count}: {error}")
                    })
                });
                numbered.collect::<Result<_, _>>()?
            }
        };
        Ok(Self { keys })
    }
}

impl CertifiedKeys {
    /// When the first certificate expires.
    pub(super) fn expiry(&self) -> Option<Timestamp> {
        let (_, cert) = X509Certificate::from_der(self.keys.first()?.cert.first()?).ok()?;
        Timestamp::from_second(cert.validity().not_after.timestamp()).ok()
    }
}

fn pair(files: &CertificateFiles) -> Result<CertifiedKey, String> {
    let cert = read(&files.cert_file)?;
    let key = read(&files.key_file)?;
    let chain = chain(&cert)?;
    let key = private_key(&key)?;
    let first = parse(chain.first().map_or(&[], |cert| cert.as_ref()))?;
    let key = any_supported_type(&key).map_err(|_| "tls: failed to parse private key".to_owned())?;
    if let Some(public) = key.public_key() {
        check_match(&first, &public)?;
    }
    Ok(CertifiedKey::new(chain, key))
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    let parsed = X509Certificate::from_der(der);
    parsed.map(|(_, cert)| cert).map_err(|_| "x509: malformed certificate".to_owned())
}

fn check_match(cert: &X509Certificate<'_>, public: &[u8]) -> Result<(), String> {
    let shown = cert.public_key();
    if shown.raw == public {
        return Ok(());
    }
    let of_key = x509_parser::x509::SubjectPublicKeyInfo::from_der(public);
    let is_same_type = of_key.is_ok_and(|(_, key)| key.algorithm.algorithm == shown.algorithm.algorithm);
    Err(if is_same_type {
        "tls: private key does not match public key".to_owned()
    } else {
        "tls: private key type does not match public key type".to_owned()
    })
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    // A block that is damaged is skipped, as if it were not there.
    let certs: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
    if !certs.is_empty() {
        return Ok(certs);
    }
    let labels = labels(pem);
    Err(match &labels[..] {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if only.ends_with("PRIVATE KEY") => "tls: failed to find certificate PEM data in certificate \
            input, but did find a private key; PEM inputs may have been switched"
            .to_owned(),
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of \
             the following types: [{}]",
            labels.join(" ")
        ),
    })
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if is_encrypted(pem) {
        // Compat: the reference says no more than that it cannot parse it.
        let advice = "it is encrypted, and nobody is asked for its password: store it without one";
        return Err(format!("tls: failed to parse private key: {advice}"));
    }
    if let Ok(key) = PrivateKeyDer::from_pem_slice(pem) {
        return Ok(key);
    }
    let labels = labels(pem);
    Err(match &labels[..] {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        ["CERTIFICATE"] => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        labels if labels.iter().any(|label| *label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY")) => {
            "tls: failed to parse private key".to_owned()
        }
        _ => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping \
             PEM blocks of the following types: [{}]",
            labels.join(" ")
        ),
    })
}

/// Whether the first key in the file is encrypted, in either of the two ways.
fn is_encrypted(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    let mut blocks = text.split("-----BEGIN ").skip(1).filter_map(|block| block.split_once("-----"));
    let key = blocks.find(|(label, _)| label.ends_with("PRIVATE KEY"));
    key.is_some_and(|(label, body)| {
        let mut head = body.lines().take_while(|line| !line.starts_with("-----END"));
        label == "ENCRYPTED PRIVATE KEY" || head.any(|line| line.trim_end() == "Proc-Type: 4,ENCRYPTED")
    })
}

/// Labels of the blocks of a PEM file.
fn labels(pem: &[u8]) -> Vec<&str> {
    let text = std::str::from_utf8(pem).unwrap_or_default();
    let begins = text.lines().filter_map(|line| line.strip_prefix("-----BEGIN "));
    let labels = begins.filter_map(|line| line.trim_end().strip_suffix("-----"));
    labels.filter(|label| text.contains(&format!("-----END {label}-----"))).collect()
}

/// Authorities that may sign the certificates of peers.
#[derive(Debug, Default)]
pub(super) struct Authorities {
    /// As they stand in the file; `None` for those of the system.
    pub(super) certs: Option<Vec<CertificateDer<'static>>>,
}

impl Authorities {
    pub(super) fn open(file: Option<&Path>) -> Result<Self, String> {
        let Some(file) = file else { return Ok(Self::default()) };
        let pem = read(file)?;
        let found = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
        let certs: Vec<_> = found.filter(|cert| parse(cert).is_ok()).collect();
        if certs.is_empty() {
            return Err("failed to parse root ca certificate".to_owned());
        }
        Ok(Self { certs: Some(certs) })
    }

    /// The anchors of trust, and the certificates that they were made from.
    pub(super) fn anchors(self) -> (RootCertStore, Vec<CertificateDer<'static>>) {
        let certs = self.certs.unwrap_or_else(|| rustls_native_certs::load_native_certs().certs);
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(certs.iter().cloned());
        (store, certs)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| {
        let (verb, what) = match error.kind() {
            io::ErrorKind::NotFound => ("open", "no such file or directory".to_owned()),
            io::ErrorKind::PermissionDenied => ("open", "permission denied".to_owned()),
            io::ErrorKind::NotADirectory => ("open", "not a directory".to_owned()),
            io::ErrorKind::IsADirectory => ("read", "is a directory".to_owned()),
            _ => ("open", error.to_string()),
        };
        format!("{verb} {}: {what}", path.display())
    })
}
