//! Tests only: an authority and what it has signed, as files, and clients that trust it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use myelin_conf::load_text;
use myelin_conf::options::TlsOptions;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// An authority and what it has signed, as files.
pub(crate) struct TestAuthority {
    dir: tempfile::TempDir,
    ca: Issuer<'static, KeyPair>,
}

impl TestAuthority {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(dir.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let lab = Self { dir, ca: Issuer::new(params, key) };
        lab.sign("server", &["localhost"]);
        lab
    }

    /// Writes `NAME.pem` and `NAME.key` for these host names.
    pub(crate) fn sign(&self, name: &str, hosts: &[&str]) {
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign_params(name, &params, &KeyPair::generate().unwrap());
    }

    /// Writes `NAME.pem` for these host names and a key that is there already.
    pub(crate) fn sign_key(&self, name: &str, hosts: &[&str], key: &KeyPair) {
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        self.sign_params(name, &CertificateParams::new(hosts).unwrap(), key);
    }

    fn sign_params(&self, name: &str, params: &CertificateParams, key: &KeyPair) {
        self.write(&format!("{name}.pem"), params.signed_by(key, &self.ca).unwrap().pem().as_bytes());
        self.write(&format!("{name}.key"), key.serialize_pem().as_bytes());
    }

    /// A certificate that nobody but itself has signed.
    pub(crate) fn sign_itself(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        self.write(&format!("{name}.pem"), params.self_signed(&key).unwrap().pem().as_bytes());
        self.write(&format!("{name}.key"), key.serialize_pem().as_bytes());
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The options of a block in which `@NAME` stands for the path of a file.
    pub(crate) fn options(&self, block: &str) -> TlsOptions {
        let text = format!("tls {{ {} }}", block.replace('@', &format!("{}/", self.dir.path().display())));
        load_text(text.as_bytes(), &|_| None).unwrap().options.tls.unwrap()
    }

    pub(crate) fn server(&self) -> TlsOptions {
        self.options("cert_file: \"@server.pem\", key_file: \"@server.key\"")
    }

    /// A client that trusts the authority and shows the named certificate.
    pub(crate) fn client(&self, shown: Option<&str>) -> ClientConfig {
        self.client_of(&[&TLS13, &TLS12], shown)
    }

    pub(crate) fn client_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        shown: Option<&str>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let builder = builder.unwrap().with_root_certificates(roots);
        match shown {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let cert = CertificateDer::from_pem_file(self.path(&format!("{name}.pem"))).unwrap();
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).unwrap();
                builder.with_client_auth_cert(vec![cert], key).unwrap()
            }
        }
    }
}
