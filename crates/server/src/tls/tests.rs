//! Certificates good and bad, and handshakes with a client that checks them.

use std::sync::Arc;
use std::time::Duration;

use myelin_conf::options::TlsOptions;
use myelin_wire::der::{DerReader, tag};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, NamedGroup, ServerConnection};

use super::suites::{suite_name, version_name};
use super::testing::TestAuthority;
use super::*;

/// A handshake in memory: what the server knows at its end.
fn handshake(offer: Offer, client: ClientConfig, name: &str) -> Result<ServerConnection, String> {
    let mut server = ServerConnection::new(Arc::clone(&offer.terms.config)).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    while server.is_handshaking() || client.is_handshaking() || client.wants_write() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets().map_err(|error| format!("server: {error}"))?;
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets().map_err(|error| format!("client: {error}"))?;
    }
    Ok(server)
}

fn offered(options: &TlsOptions) -> Offer {
    offer(options, Peers::AsConfigured).unwrap()
}

#[test]
fn files_that_are_no_good_are_named_in_gos_words() {
    let lab = TestAuthority::new();
    lab.sign("other", &["localhost"]);
    lab.write("empty.pem", b"");
    lab.write(
        "params.pem",
        b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n",
    );
    lab.write("bad.key", b"-----BEGIN PRIVATE KEY-----\nBggqhkjOPQMBBw==\n-----END PRIVATE KEY-----\n");
    lab.write("bad.pem", b"-----BEGIN CERTIFICATE-----\nBggqhkjOPQMBBw==\n-----END CERTIFICATE-----\n");
    let pair = "error parsing X509 certificate/key pair: ";
    let cases = [
        ("none.pem", "server.key", format!("{pair}open @none.pem: no such file or directory")),
        ("server.pem", "none.key", format!("{pair}open @none.key: no such file or directory")),
        ("", "server.key", format!("{pair}read @: is a directory")),
        ("empty.pem", "server.key", format!("{pair}tls: failed to find any PEM data in certificate input")),
        ("server.pem", "empty.pem", format!("{pair}tls: failed to find any PEM data in key input")),
        (
            "server.key",
            "server.pem",
            format!(
                "{pair}tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"
            ),
        ),
        (
            "params.pem",
            "server.key",
            format!(
                "{pair}tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [EC PARAMETERS]"
            ),
        ),
        (
            "server.pem",
            "params.pem",
            format!(
                "{pair}tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [EC PARAMETERS]"
            ),
        ),
        (
            "server.pem",
            "ca.pem",
            format!("{pair}tls: found a certificate rather than a key in the PEM for the private key"),
        ),
        ("server.pem", "bad.key", format!("{pair}tls: failed to parse private key")),
        ("bad.pem", "server.key", format!("{pair}x509: malformed certificate")),
        ("server.pem", "other.key", format!("{pair}tls: private key does not match public key")),
    ];
    for (cert, key, expected) in cases {
        let block = format!("cert_file: \"@{cert}\", key_file: \"@{key}\"");
        let error = inspect(&lab.options(&block)).expect_err(&block);
        let expected = expected.replace('@', &lab.path("").display().to_string());
        assert_eq!(error, expected);
    }
    let ca = |file: &str| inspect(&lab.options(&format!("ca_file: \"@{file}\"")));
    assert_eq!(ca("server.key").unwrap_err(), "failed to parse root ca certificate");
    assert!(ca("none.pem").unwrap_err().ends_with("none.pem: no such file or directory"));
    assert_eq!(ca("ca.pem"), Ok(()));
    let list = lab.options("certs: [{cert_file: \"@server.pem\", key_file: \"@server.key\"}, {cert_file: \"@empty.pem\", key_file: \"@server.key\"}]");
    let number = "error parsing X509 certificate/key pair 2/2: tls: failed to find any PEM data";
    assert!(inspect(&list).unwrap_err().starts_with(number));
    assert_eq!(inspect(&lab.server()), Ok(()));
}

#[test]
fn a_client_that_trusts_the_authority_connects() {
    let lab = TestAuthority::new();
    let server = handshake(offered(&lab.server()), lab.client(None), "localhost").unwrap();
    let suite = server.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite_name(suite), "TLS_AES_128_GCM_SHA256", "Go prefers it, the client another");
    assert_eq!(version_name(server.protocol_version().unwrap()), "1.3");
    let group = server.negotiated_key_exchange_group().unwrap().name();
    assert_eq!(group, NamedGroup::X25519MLKEM768);
    assert!(handshake(offered(&lab.server()), lab.client(None), "elsewhere").is_err());
}

#[test]
fn versions_suites_and_curves_are_what_is_configured() {
    let lab = TestAuthority::new();
    let with =
        |more: &str| lab.options(&format!("cert_file: \"@server.pem\", key_file: \"@server.key\", {more}"));
    let old = || lab.client_of(&[&TLS12], None);
    let server = handshake(offered(&with("")), old(), "localhost").unwrap();
    let suite = server.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite_name(suite), "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    assert_eq!(version_name(server.protocol_version().unwrap()), "1.2");
    let chosen = with(
        "cipher_suites: [TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA]",
    );
    let offer = offered(&chosen);
    let note = "TLS: Myelin does not offer TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA";
    assert_eq!(offer.note.as_deref(), Some(note));
    let server = handshake(offer, old(), "localhost").unwrap();
    let suite = server.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite_name(suite), "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
    assert!(handshake(offered(&with("min_version: \"1.3\"")), old(), "localhost").is_err());
    let offer = offered(&with("curve_preferences: [CurveP521, CurveP384]"));
    assert_eq!(offer.note.as_deref(), Some("TLS: Myelin does not offer CurveP521"));
    let server = handshake(offer, lab.client(None), "localhost").unwrap();
    assert_eq!(server.negotiated_key_exchange_group().unwrap().name(), NamedGroup::secp384r1);
    assert!(super::offer(&with("curve_preferences: [CurveP521]"), Peers::AsConfigured).is_err());
}

#[test]
fn certificates_of_clients_are_checked() {
    let lab = TestAuthority::new();
    lab.sign("client", &["client"]);
    lab.sign_itself("stranger");
    let strict = "cert_file: \"@server.pem\", key_file: \"@server.key\", verify: true, ca_file: \"@ca.pem\"";
    let strict = lab.options(strict);
    let connect = |offer: Offer, shown| handshake(offer, lab.client(shown), "localhost");
    let server = connect(offered(&strict), Some("client")).unwrap();
    assert_eq!(server.peer_certificates().unwrap().len(), 1);
    assert!(connect(offered(&strict), None).unwrap_err().starts_with("server: "));
    assert!(connect(offered(&strict), Some("stranger")).unwrap_err().starts_with("server: "));
    // Monitoring never asks.
    assert!(connect(offer(&strict, Peers::Anonymous).unwrap(), None).is_ok());
    // A stranger who stands in the file of authorities is none.
    let known = TlsOptions { ca_file: Some(lab.path("stranger.pem")), ..strict };
    assert!(connect(offered(&known), Some("stranger")).is_ok());
}

#[test]
fn the_certificate_that_bears_the_name_is_shown() {
    let lab = TestAuthority::new();
    lab.sign("a", &["a.example"]);
    lab.sign("b", &["b.example"]);
    let options = lab.options(
        "certs: [{cert_file: \"@a.pem\", key_file: \"@a.key\"}, {cert_file: \"@b.pem\", key_file: \"@b.key\"}]",
    );
    for name in ["a.example", "b.example"] {
        handshake(offered(&options), lab.client(None), name).expect(name);
    }
    assert!(handshake(offered(&options), lab.client(None), "c.example").is_err());
}

/// PEM of a key in the form that was usual before PKCS#8, whose inner part it is.
fn older_form(key: &rcgen::KeyPair, label: &str) -> String {
    let whole = key.serialize_der();
    let mut parts = DerReader::new(&whole).within(tag::SEQUENCE).unwrap();
    parts.next(tag::INTEGER).unwrap();
    parts.next(tag::SEQUENCE).unwrap();
    let inner = crate::ocsp::to_base64(parts.next(tag::OCTET_STRING).unwrap().content);
    let lines: Vec<_> = inner.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[test]
fn keys_may_have_any_of_the_forms_that_people_have() {
    let lab = TestAuthority::new();
    let options = lab.server();
    for (algorithm, label) in [
        (&rcgen::PKCS_RSA_SHA256, Some("RSA PRIVATE KEY")),
        (&rcgen::PKCS_ECDSA_P256_SHA256, Some("EC PRIVATE KEY")),
        (&rcgen::PKCS_ECDSA_P384_SHA384, Some("EC PRIVATE KEY")),
        (&rcgen::PKCS_ED25519, None),
    ] {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        lab.sign_key("server", &["localhost"], &key);
        handshake(offered(&options), lab.client(None), "localhost").unwrap();
        let Some(label) = label else { continue };
        let older = older_form(&key, label);
        // As openssl writes it, with the curve in front.
        let curve = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
        for text in [older.clone(), format!("{curve}{older}")] {
            lab.write("server.key", text.as_bytes());
            handshake(offered(&options), lab.client(None), "localhost").unwrap();
        }
        let head = format!("BEGIN {label}-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n");
        lab.write("server.key", older.replace(&format!("BEGIN {label}-----\n"), &head).as_bytes());
        assert!(inspect(&options).unwrap_err().contains("tls: failed to parse private key: it is encrypted"));
    }
}

#[test]
fn what_is_current_can_be_exchanged() {
    let lab = TestAuthority::new();
    let current = Current::new(offered(&lab.server()).terms);
    let before = current.get();
    current.set(offered(&lab.server()).terms);
    assert!(!Arc::ptr_eq(&before.config, &current.get().config));
}

#[test]
fn refused_certificates_are_spoken_of_in_gos_words() {
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let name = |host: &str| ServerName::try_from(host.to_owned()).unwrap();
    let presented = || vec!["DnsName(\"localhost\")".to_owned(), "DnsName(\"a.b\")".to_owned()];
    let mut addressed = presented();
    addressed.push("IpAddress(127.0.0.1)".to_owned());
    for (error, expected) in [
        (
            CertificateError::ExpiredContext { time: at(1_700_000_000), not_after: at(1_600_000_000) },
            "certificate has expired or is not yet valid: current time 2023-11-14T22:13:20Z is after \
             2020-09-13T12:26:40Z",
        ),
        (
            CertificateError::NotValidYetContext { time: at(1_600_000_000), not_before: at(1_700_000_000) },
            "certificate has expired or is not yet valid: current time 2020-09-13T12:26:40Z is before \
             2023-11-14T22:13:20Z",
        ),
        (CertificateError::InvalidPurpose, "certificate specifies an incompatible key usage"),
        (
            CertificateError::NotValidForNameContext { expected: name("10.0.0.1"), presented: presented() },
            "cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            CertificateError::NotValidForNameContext {
                expected: name("10.0.0.1"),
                presented: addressed.clone(),
            },
            "certificate is valid for 127.0.0.1, not 10.0.0.1",
        ),
        (
            CertificateError::NotValidForNameContext { expected: name("x.y"), presented: addressed },
            "certificate is valid for localhost, a.b, not x.y",
        ),
    ] {
        let expected = format!("tls: failed to verify certificate: x509: {expected}");
        assert_eq!(words(&Error::InvalidCertificate(error)), expected);
    }
}
