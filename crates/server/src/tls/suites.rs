//! Which cipher suites and key exchanges are spoken, in which order of preference.
//!
//! Compat: the order is Go's, whatever the configuration says: it decides what may be used, not
//! what is preferred. Suites of TLS 1.3 cannot be switched off. What Go speaks and rustls does not
//! (CBC, exchange by RSA, P-521, SecP384r1MLKEM1024) is accepted, noted and not offered.

use myelin_conf::options::{Curve, TlsOptions};
use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::{cipher_suite as suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{CipherSuite, ProtocolVersion};

/// TLS 1.3.
const ALWAYS: [SupportedCipherSuite; 3] =
    [suite::TLS13_AES_128_GCM_SHA256, suite::TLS13_AES_256_GCM_SHA384, suite::TLS13_CHACHA20_POLY1305_SHA256];

/// TLS 1.2.
const CHOSEN: [(&str, SupportedCipherSuite); 6] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Names of suites of TLS 1.3 in a configuration.
const ALWAYS_NAMES: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

const GROUPS: [(Curve, &dyn SupportedKxGroup); 5] = [
    (Curve::X25519MlKem768, kx_group::X25519MLKEM768),
    (Curve::SecP256r1MlKem768, kx_group::SECP256R1MLKEM768),
    (Curve::X25519, kx_group::X25519),
    (Curve::P256, kx_group::SECP256R1),
    (Curve::P384, kx_group::SECP384R1),
];

/// The cryptography for a listener, and what is configured and not spoken, in one sentence.
pub(super) fn provider(options: &TlsOptions) -> (CryptoProvider, Option<String>) {
    let mut cipher_suites = ALWAYS.to_vec();
    let is_chosen =
        |name: &str| options.cipher_suites.as_ref().is_none_or(|list| list.iter().any(|s| s.name() == name));
    cipher_suites.extend(CHOSEN.iter().filter(|(name, _)| is_chosen(name)).map(|(_, suite)| *suite));
    let is_wanted =
        |curve: Curve| options.curve_preferences.as_ref().is_none_or(|list| list.contains(&curve));
    let kx_groups = GROUPS.iter().filter(|(curve, _)| is_wanted(*curve)).map(|(_, group)| *group).collect();
    (CryptoProvider { cipher_suites, kx_groups, ..default_provider() }, note(options))
}

fn note(options: &TlsOptions) -> Option<String> {
    let is_offered =
        |name: &str| ALWAYS_NAMES.contains(&name) || CHOSEN.iter().any(|(known, _)| *known == name);
    let suites = options.cipher_suites.iter().flatten().map(|suite| suite.name());
    let curves = options.curve_preferences.iter().flatten();
    let curves = curves.filter(|curve| !GROUPS.iter().any(|(known, _)| known == *curve));
    let missing: Vec<_> =
        suites.filter(|name| !is_offered(name)).chain(curves.map(|curve| curve.name())).collect();
    (!missing.is_empty()).then(|| format!("TLS: Myelin does not offer {}", missing.join(", ")))
}

/// The name that Go has for a suite.
pub(crate) fn suite_name(suite: CipherSuite) -> String {
    let name = suite.as_str().unwrap_or_default();
    name.strip_prefix("TLS13_").map_or_else(|| name.to_owned(), |rest| format!("TLS_{rest}"))
}

/// The name that monitoring has for a version.
pub(crate) fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_3 => "1.3",
        _ => "1.2",
    }
}
