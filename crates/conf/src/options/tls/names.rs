//! The names of versions, cipher suites and key exchanges.

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

impl TlsVersion {
    pub(super) fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "1.2" => Ok(TlsVersion::V1_2),
            "1.3" => Ok(TlsVersion::V1_3),
            "1.0" | "1.1" => Err(format!("unsupported TLS version: TLS {name}")),
            _ => Err(format!("unknown version: {name}")),
        }
    }
}

/// A cipher suite that Go knows. Myelin does not speak all of them: `server` says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CipherSuite(&'static str);

/// Names of cipher suites that nats-server takes without being asked twice.
const SECURE: [&str; 13] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// Names of cipher suites that need `allow_insecure_cipher_suites`.
const INSECURE: [&str; 12] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

impl CipherSuite {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        SECURE.iter().chain(&INSECURE).find(|known| **known == name).map(|known| Self(known))
    }

    /// As in the registry of TLS.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    pub(super) fn is_insecure(self) -> bool {
        INSECURE.contains(&self.0)
    }
}

/// A way to exchange keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Curve {
    X25519MlKem768,
    SecP256r1MlKem768,
    SecP384r1MlKem1024,
    X25519,
    P256,
    P384,
    P521,
}

const CURVES: [(&str, Curve); 7] = [
    ("X25519MLKEM768", Curve::X25519MlKem768),
    ("SecP256r1MLKEM768", Curve::SecP256r1MlKem768),
    ("SecP384r1MLKEM1024", Curve::SecP384r1MlKem1024),
    ("X25519", Curve::X25519),
    ("CurveP256", Curve::P256),
    ("CurveP384", Curve::P384),
    ("CurveP521", Curve::P521),
];

impl Curve {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        CURVES.iter().find(|(known, _)| *known == name).map(|(_, curve)| *curve)
    }

    /// As in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        CURVES.iter().find(|(_, curve)| *curve == self).map_or("", |(name, _)| name)
    }
}
