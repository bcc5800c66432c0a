//! Users by certificate, on ours and on the reference.

use rcgen::{CertificateParams, DistinguishedName, DnType, SanType};

use crate::logging::programs;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::tls::{Lab, Secure, greeted};

/// A certificate with these alternative names (`email:`, `dns:`, `uri:`) and this subject, in the
/// order in which it is to stand there.
pub(crate) fn params(alternatives: &[&str], subject: &[(&str, &str)]) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("what a test needs");
    for name in alternatives {
        let (kind, name) = name.split_once(':').expect("what a test needs");
        let text = name.try_into().expect("what a test needs");
        params.subject_alt_names.push(match kind {
            "email" => SanType::Rfc822Name(text),
            "dns" => SanType::DnsName(text),
            _ => SanType::URI(text),
        });
    }
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        let kind = match *kind {
            "CN" => DnType::CommonName,
            "OU" => DnType::OrganizationalUnitName,
            "O" => DnType::OrganizationName,
            // The library has room for one of each kind.
            "O again" => DnType::CustomDnType(vec![2, 5, 4, 10]),
            "DC" => DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 25]),
            "UID" => DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 1]),
            other => panic!("{other}"),
        };
        params.distinguished_name.push(kind, *value);
    }
    params
}

/// User that the server makes of a client with this CONNECT; `None` if the connection ends.
fn enter(server: &Server, mut client: Secure, connect: &str) -> Option<String> {
    client.send(&format!("CONNECT {connect}\r\n"));
    client.barrier().ok()?;
    let page = server.page("/connz?auth=1&sort=start");
    let connections = page["connections"].as_array().expect("what a test needs");
    Some(connections.last().expect("what a test needs")["authorized_user"].as_str().unwrap_or("").to_owned())
}

fn users(list: &[&str]) -> String {
    let list: Vec<_> = list.iter().map(|user| format!("{{ user: {user} }}")).collect();
    format!("authorization {{ users: [ {} ] }}\n", list.join(", "))
}

/// Alternative names and subject of a certificate, the user that it names, and what the log says.
type Case =
    (&'static [&'static str], &'static [(&'static str, &'static str)], Option<&'static str>, &'static str);

#[test]
fn a_certificate_names_its_user() {
    let lab = Lab::new();
    let cases: &[Case] = &[
        (
            &["email:e@x", "dns:h.x"],
            &[("CN", "c")],
            Some("e@x"),
            "Using email found in cert for auth [\"e@x\"]",
        ),
        (
            &["email:z@x", "dns:h.x"],
            &[("CN", "c")],
            Some("h.x"),
            "Using SAN found in cert for auth [\"h.x\"]",
        ),
        (&["uri:spiffe://x/u"], &[("CN", "c")], Some("spiffe://x/u"), "Using URI found in cert"),
        (&[], &[("O", "o"), ("CN", "c")], Some("CN=c,O=o"), "Using DistinguishedNameMatch for auth"),
        (&[], &[("CN", "d"), ("O", "o")], Some("CN=d,O=o"), "Using DistinguishedNameMatch for auth"),
        (&[], &[("DC", "x"), ("OU", "a, b"), ("CN", "f")], Some("CN=f,OU=a\\\\, b,DC=x"), "Using Dist"),
        (&[], &[("CN", "g"), ("UID", "u")], Some("CN=g"), "Using certificate subject for auth [\"CN=g\"]"),
        (&["dns:other"], &[("CN", "other")], None, "User in cert [\"CN=other\"], not found"),
        (&[], &[("CN", "c")], None, "not found"),
        (&[], &[("O", "o"), ("O again", "o"), ("CN", "c")], None, "not found"),
        (&[], &[], None, "User required in cert, none found"),
    ];
    for (number, (alternatives, subject, ..)) in cases.iter().enumerate() {
        lab.sign_as(&number.to_string(), &params(alternatives, subject));
    }
    let names = [
        "\"e@x\"",
        "h.x",
        "\"spiffe://x/u\"",
        "\"CN=c,O=o\"",
        "\"O=o, cn=d\"",
        "\"CN=f,OU=a\\\\, b,DC=x\"",
        "\"CN=g\"",
        "x",
    ];
    let config = format!("{}{}", users(&names), lab.block("verify_and_map: true, ca_file: \"@ca.pem\""));
    for program in programs() {
        let server = Setup::default().program(&program).config(&config).flags(&["-D"]).start();
        for (number, (_, _, user, line)) in cases.iter().enumerate() {
            let before = server.log_len();
            let entered =
                enter(&server, lab.secure(&server, Some(&number.to_string())), "{\"verbose\":false}");
            // A name is shown as it is configured.
            let user =
                user.map(|user| if user == "CN=d,O=o" { "O=o, cn=d" } else { user }.replace("\\\\", "\\"));
            assert_eq!(entered, user, "{} {number}: {}", program.display(), server.log());
            server.wait_for_log_after(before, line);
        }
        // Whoever it says it is.
        let client = lab.secure(&server, Some("0"));
        assert_eq!(enter(&server, client, "{\"user\":\"x\",\"verbose\":false}").as_deref(), Some("e@x"));
        server.wait_for_log("[WRN] User \"x\" found in connect proto, but user required from cert");
        // Users without passwords are no secret that was written down.
        assert!(!server.log().contains("Plaintext passwords"), "{}", program.display());
    }
}

#[test]
fn a_user_with_a_password_needs_both() {
    let lab = Lab::new();
    lab.sign_as("client", &params(&["email:e@x"], &[]));
    let config = "authorization { users: [ { user: \"e@x\", password: secret } ] }\n";
    let config = format!("{config}{}", lab.block("verify_and_map: true, ca_file: \"@ca.pem\""));
    for program in programs() {
        let server = Setup::default().program(&program).config(&config).start();
        let enter = |connect| enter(&server, lab.secure(&server, Some("client")), connect);
        assert_eq!(enter("{\"verbose\":false}"), None);
        assert_eq!(enter("{\"verbose\":false,\"pass\":\"secret\"}").as_deref(), Some("e@x"));
        assert!(server.log().contains("Plaintext passwords detected"));
    }
}

#[test]
fn a_reload_may_begin_to_map() {
    let lab = Lab::new();
    lab.sign_as("known", &params(&["email:e@x"], &[]));
    lab.sign_as("unknown", &params(&["email:f@x"], &[]));
    let users = users(&["\"e@x\"", "\"f@x\""]);
    let block = |more: &str| format!("{users}{}", lab.block(&format!("{more}: true, ca_file: \"@ca.pem\"")));
    for program in programs() {
        let server = Setup::default().program(&program).config(&block("verify")).start();
        let mut clients = ["known", "unknown"].map(|name| {
            let mut client = lab.secure(&server, Some(name));
            client.send("CONNECT {\"verbose\":false,\"user\":\"f@x\"}\r\n");
            client.barrier().unwrap();
            client
        });
        server.reload(&block("verify_and_map"));
        clients.iter_mut().for_each(|client| drop(client.barrier().expect("is somebody")));
        let page = server.page("/connz?auth=1&sort=cid");
        let user = |at: usize| page["connections"][at]["authorized_user"].clone();
        // The reference looks at nobody again for that.
        let is_ours = program == std::path::Path::new(crate::process::PROGRAM);
        assert_eq!([user(0), user(1)], [if is_ours { "e@x" } else { "f@x" }, "f@x"], "{}", program.display());
    }
}

#[test]
fn where_tls_is_optional_nobody_comes_in_without_a_certificate() {
    let lab = Lab::new();
    lab.sign_as("client", &params(&["email:e@x"], &[]));
    let block = lab.block("verify_and_map: true, ca_file: \"@ca.pem\", timeout: \"200ms\"");
    let config = format!("{}no_auth_user: \"e@x\"\nallow_non_tls: true\n{block}", users(&["\"e@x\""]));
    for program in programs() {
        let server = Setup::default().program(&program).config(&config).start();
        assert!(greeted(&server).1.contains("\"tls_available\":true"));
        for said in ["CONNECT {\"user\":\"e@x\"}\r\n", "CONNECT {}\r\n", "PUB a 1\r\na\r\n"] {
            let mut plain = Raw::open(server.address());
            plain.send(said);
            assert_eq!(plain.rest(), "-ERR 'Authorization Violation'\r\n", "{} {said}", program.display());
        }
        let entered = enter(&server, lab.secure(&server, Some("client")), "{\"verbose\":false}");
        assert_eq!(entered.as_deref(), Some("e@x"));
    }
}

/// A client that sends no CONNECT is the user that its certificate names, and only where there is a
/// `no_auth_user`.
#[test]
fn a_certificate_names_who_sends_no_connect() {
    let lab = Lab::new();
    lab.sign_as("known", &params(&["email:e@x"], &[]));
    lab.sign_as("unknown", &params(&["email:f@x"], &[]));
    let users = "authorization { users: [ {user: \"e@x\", permissions: {publish: mapped}}, {user: guest, password: p, permissions: {publish: silent}} ] }";
    let tls = lab.block("verify_and_map: true, ca_file: \"@ca.pem\"");
    let mapped = "-ERR 'Permissions Violation for Publish to \"silent\"'\r\n+OK\r\n";
    for program in programs() {
        for (more, known) in [("no_auth_user: guest", mapped), ("", "-ERR 'Authorization Violation'\r\n")] {
            let config = format!("{users}\n{more}\n{tls}");
            let server = Setup::default().program(&program).config(&config).start();
            for (name, expected) in [("known", known), ("unknown", "-ERR 'Authorization Violation'\r\n")] {
                let mut client = lab.secure(&server, Some(name));
                client.send("PUB silent 0\r\n\r\nPUB mapped 0\r\n\r\nPING\r\n");
                let said = String::from_utf8_lossy(&client.until_pong_or_end()).into_owned();
                assert_eq!(
                    said.trim_end_matches("PONG\r\n"),
                    expected,
                    "{} {name} {more}",
                    program.display()
                );
            }
        }
    }
}
