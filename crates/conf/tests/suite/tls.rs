//! `tls{}`: what is wrong with it, in the reference's words and at its place.

use myelin_conf::load_inspected;
use myelin_conf::options::{HandshakeFirst, TlsIdentity, TlsVersion};

use crate::{ConfigFile, load, reference, run};

/// Configurations that are refused, each for one reason. `FILE` stands for the file's path.
const REFUSED: &[(&str, &str)] = &[
    ("tls: true", "FILE:1:0: interface conversion: interface {} is bool, not map[string]interface {}"),
    ("tls {\n cert_file: 1\n}", "FILE:2:2: error parsing tls config, expected 'cert_file' to be filename"),
    ("tls {\n key_file: 1\n}", "FILE:2:2: error parsing tls config, expected 'key_file' to be filename"),
    ("tls {\n ca_file: []\n}", "FILE:2:2: error parsing tls config, expected 'ca_file' to be filename"),
    ("tls {\n insecure: 1\n}", "FILE:2:2: error parsing tls config, expected 'insecure' to be a boolean"),
    ("tls {\n verify: a\n}", "FILE:2:2: error parsing tls config, expected 'verify' to be a boolean"),
    (
        "tls {\n verify_and_map: 1\n}",
        "FILE:2:2: error parsing tls config, expected 'verify_and_map' to be a boolean",
    ),
    (
        "tls {\n verify_cert_and_check_known_urls: 1\n}",
        "FILE:2:2: error parsing tls config, expected 'verify_cert_and_check_known_urls' to be a boolean",
    ),
    (
        "tls {\n verify_cert_and_check_known_urls: true\n}",
        "FILE:2:2: verify_cert_and_check_known_urls not supported in this context",
    ),
    (
        "tls {\n allow_insecure_cipher_suites: 1\n}",
        "FILE:2:2: error parsing tls config, expected 'allow_insecure_cipher_suites' to be a boolean",
    ),
    (
        "tls {\n cipher_suites: A\n}",
        "FILE:2:2: interface conversion: interface {} is string, not []interface {}",
    ),
    ("tls {\n cipher_suites: []\n}", "FILE:2:2: error parsing tls config, 'cipher_suites' cannot be empty"),
    (
        "tls {\n cipher_suites: [\n  1\n ]\n}",
        "FILE:3:3: interface conversion: interface {} is int64, not string",
    ),
    ("tls {\n cipher_suites: [\n  A\n ]\n}", "FILE:3:3: unrecognized cipher A"),
    (
        "tls {\n cipher_suites: [TLS_RSA_WITH_RC4_128_SHA, TLS_RSA_WITH_AES_128_CBC_SHA]\n}",
        "FILE:1:0: insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: TLS_RSA_WITH_RC4_128_SHA, TLS_RSA_WITH_AES_128_CBC_SHA",
    ),
    (
        "tls {\n curve_preferences: []\n}",
        "FILE:2:2: error parsing tls config, 'curve_preferences' cannot be empty",
    ),
    ("tls {\n curve_preferences: [\n  P256\n ]\n}", "FILE:3:3: unrecognized curve preference P256"),
    (
        "tls {\n timeout: \"5\"\n}",
        "FILE:2:2: error parsing tls config, 'timeout' time: missing unit in duration \"5\"",
    ),
    ("tls {\n timeout: true\n}", "FILE:2:2: error parsing tls config, 'timeout' wrong type"),
    (
        "tls {\n connection_rate_limit: \"1\"\n}",
        "FILE:2:2: error parsing tls config, 'connection_rate_limit' wrong type",
    ),
    (
        "tls {\n pinned_certs: abc\n}",
        "FILE:2:2: error parsing tls config, expected 'pinned_certs' to be a list of hex-encoded sha256 of DER encoded SubjectPublicKeyInfo",
    ),
    (
        "tls {\n pinned_certs: [\n  ABC\n ]\n}",
        "FILE:3:3: error parsing tls config, 'pinned_certs' key abc does not look like hex-encoded sha256 of DER encoded SubjectPublicKeyInfo",
    ),
    (
        "tls {\n pinned_certs: [\n  7\n ]\n}",
        "FILE:3:3: interface conversion: interface {} is int64, not string",
    ),
    ("tls {\n cert_store: 1\n}", "FILE:2:2: expected 'cert_store' to be a valid non-empty string"),
    ("tls {\n cert_store: a\n}", "FILE:2:2: cert store type not implemented"),
    (
        "tls {\n cert_store: WindowsCurrentUser\n}",
        "FILE:2:2: cert_store not compatible with current operating system",
    ),
    ("tls {\n cert_match_by: \"\"\n}", "FILE:2:2: expected 'cert_match_by' to be a valid non-empty string"),
    ("tls {\n cert_match_by: a\n}", "FILE:2:2: cert match by type not implemented"),
    ("tls {\n cert_match: true\n}", "FILE:2:2: expected 'cert_match' to be a valid non-empty string"),
    ("tls {\n cert_match_skip_invalid: 1\n}", "FILE:2:2: expected 'cert_match_skip_invalid' to be a boolean"),
    (
        "tls {\n ca_certs_match: [a, 1 ]\n}",
        "FILE:2:2: error parsing ca_cert_match: unsupported type *conf.token where string is expected",
    ),
    (
        "tls {\n Handshake_First: 1\n}",
        "FILE:2:2: field \"Handshake_First\" should be a boolean or a string, got int64",
    ),
    ("tls {\n first: soon\n}", "FILE:2:2: field \"first\"'s value \"soon\" is invalid"),
    (
        "tls {\n ocsp_peer: 1\n}",
        "FILE:2:2: error parsing ocsp peer config: unsupported type map[string]interface {}",
    ),
    (
        "tls {\n ocsp_peer {\n  a: 1\n }\n}",
        "FILE:2:2: FILE:3:3: error parsing tls peer config, unknown field [\"a\"]",
    ),
    (
        "tls {\n ocsp_peer {\n  verify: 1\n }\n}",
        "FILE:2:2: FILE:3:3: error parsing tls peer config, unknown field [\"verify\"]",
    ),
    (
        "tls {\n ocsp_peer {\n  ca_timeout: \"5\"\n }\n}",
        "FILE:2:2: FILE:3:3: error parsing tls peer config, conversion error: time: missing unit in duration \"5\"",
    ),
    (
        "tls {\n ocsp_peer {\n  allowed_clockskew: \"5\"\n }\n}",
        "FILE:2:2: FILE:3:3: error parsing tls peer config, conversion error: unexpected type",
    ),
    (
        "tls {\n ocsp_peer {\n  cache_ttl_when_next_update_unset: true\n }\n}",
        "FILE:2:2: FILE:3:3: error parsing tls peer config, conversion error: unexpected type",
    ),
    (
        "tls {\n certs: 1\n}",
        "FILE:2:2: error parsing certificates config: unsupported type map[string]interface {}",
    ),
    ("tls {\n certs: [\n  1\n ]\n}", "FILE:3:3: error parsing certificates config: unsupported type int64"),
    (
        "tls {\n certs: [{\n  cert_file: 1.5\n }]\n}",
        "FILE:3:3: error parsing certificates config: unsupported type float64",
    ),
    ("tls {\n certs: [{\n  a: b\n }]\n}", "FILE:3:3: error parsing tls certs config, unknown field \"a\""),
    (
        "tls {\n certificates: [{\n  cert_file: a\n }]\n}",
        "FILE:3:3: error parsing certificates config: both 'cert_file' and 'cert_key' options are required",
    ),
    (
        "tls {\n certs: [{cert_file: a, key_file: b}]\n cert_file: c\n}",
        "FILE:1:0: error parsing tls config, cannot combine 'cert_file' option with 'certs' option",
    ),
    ("tls {\n min_version: 1.2\n}", "FILE:2:2: error parsing tls config: 'min_version' wrong type: 1.2"),
    (
        "tls {\n min_version: \"1.1\"\n}",
        "FILE:2:2: error parsing tls config: unsupported TLS version: TLS 1.1",
    ),
    ("tls {\n min_version: \"2\"\n}", "FILE:2:2: error parsing tls config: unknown version: 2"),
    ("tls {\n something: 1\n}", "FILE:2:2: error parsing tls config, unknown field \"something\""),
    ("tls {\n cert_file: a\n}", "FILE:1:0: missing 'key_file' in TLS configuration"),
    ("tls {\n key_file: a\n}", "FILE:1:0: missing 'cert_file' in TLS configuration"),
];

#[test]
fn a_wrong_block_is_refused_in_the_references_words() {
    for (text, expected) in REFUSED {
        let file = ConfigFile::new(text);
        let error = load(&["-t", "-c", &file.path()]).expect_err(text).to_string();
        let expected = format!("myelin-server: {}", expected.replace("FILE", &file.path()));
        assert!(error.lines().any(|line| line == expected), "{text}\n{error}\n{expected}");
    }
}

#[test]
fn these_are_the_references_words() {
    let Some(program) = reference::find() else { return };
    for (text, expected) in REFUSED {
        let file = ConfigFile::new(text);
        let output = reference::run(&program, &["-t", "-c", &file.path()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = expected.replace("FILE", &file.path());
        assert!(said.lines().any(|line| line.ends_with(&expected)), "{text}\n{said}\n{expected}");
    }
}

/// Configurations that are right.
const ACCEPTED: &[&str] = &[
    "tls {}",
    "tls { timeout: 0.5 }",
    "tls { timeout: \"5s\", connection_rate_limit: 5 }",
    "tls { handshake_first: auto }",
    "tls { handshake_first: \"300ms\" }",
    "tls { immediate: OFF }",
    "tls { pinned_certs: [] }",
    "tls { pinned_certs: [\"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\"] }",
    "tls { ocsp_peer: false }",
    "tls { ocsp_peer { verify: true, ca_timeout: 2, allowed_clockskew: \"1s\", warn_only: true,\n unknown_is_good: true, allow_when_ca_unreachable: true, cache_ttl_when_next_update_unset: -1 } }",
    "tls { certs: [] }",
    "tls { min_version: \"1.3\" }",
    "tls { allow_insecure_cipher_suites: true, cipher_suites: [TLS_RSA_WITH_RC4_128_SHA] }",
    "tls { curve_preferences: [X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024, X25519, CurveP256, CurveP384, CurveP521] }",
    "tls { cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA] }",
    "https: \"127.0.0.1:8222\"",
    "https_port: 8222",
    "allow_non_tls: true",
];

#[test]
fn right_blocks_are_accepted() {
    for text in ACCEPTED {
        let file = ConfigFile::new(text);
        assert!(load(&["-t", "-c", &file.path()]).is_ok(), "{text}");
    }
}

#[test]
fn the_reference_accepts_them_too() {
    let Some(program) = reference::find() else { return };
    for text in ACCEPTED {
        let file = ConfigFile::new(text);
        let output = reference::run(&program, &["-t", "-c", &file.path()]);
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn tls(block: &str) -> myelin_conf::options::TlsOptions {
    let loaded = myelin_conf::load_text(format!("tls {{ {block} }}").as_bytes(), &|_| None).expect(block);
    loaded.options.tls.expect("a block")
}

#[test]
fn fields_become_typed_options() {
    use std::time::Duration;
    assert_eq!(tls("timeout: 0.5").timeout, Some(Duration::from_millis(500)));
    assert_eq!(tls("timeout: 0").timeout, None);
    assert_eq!(tls("timeout: -1").timeout, Some(Duration::ZERO));
    assert_eq!(tls("timeout: \"1m\"").timeout, Some(Duration::from_secs(60)));
    assert_eq!(tls("first: auto").handshake_first, HandshakeFirst::Within(Duration::from_millis(50)));
    assert_eq!(tls("first: 0s").handshake_first, HandshakeFirst::Yes);
    assert_eq!(tls("first: off").handshake_first, HandshakeFirst::No);
    assert_eq!(tls("min_version: \"1.3\"").min_version, TlsVersion::V1_3);
    assert_eq!(tls("").min_version, TlsVersion::V1_2);
    let mapped = tls("verify_and_map: true");
    assert!(mapped.verify && mapped.verify_and_map);
    assert!(matches!(tls("cert_file: a, key_file: b").identity, TlsIdentity::One(_)));
    assert!(
        matches!(tls("certs: [{cert_file: a, key_file: b}]").identity, TlsIdentity::Several(list) if list.len() == 1)
    );
    let pinned = tls("pinned_certs: [\"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\"]");
    assert!(pinned.pinned_certs.contains("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"));
}

#[test]
fn an_inspector_complains_at_the_place_of_the_block() {
    let file = ConfigFile::new("port: -1\n  tls { cert_file: a, key_file: b }");
    let args = ["-t".to_owned(), "-c".to_owned(), file.path()];
    let error = load_inspected(&args, &|_| None, &|_| Err("no such certificate".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), format!("myelin-server: {}:2:3: no such certificate", file.path()));
}

#[test]
fn without_a_block_there_is_no_tls() {
    let file = ConfigFile::new("port: -1");
    assert_eq!(run(&["-c", &file.path()]).options.tls, None);
}
