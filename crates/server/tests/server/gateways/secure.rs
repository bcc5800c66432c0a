//! TLS between clusters, with nats-server on either side.

use super::{Site, joined};
use crate::process::Setup;
use crate::responder::Says;
use crate::routes::secure::Proofs;
use crate::routes::{MIXES, Ours, Reference, ServerKind, free_port};
use crate::tls::Lab;
use crate::{PATIENCE, eventually};
use std::io::Read as _;
use std::net::TcpStream;

/// A server of a cluster with these in its `gateway{}`.
fn start(kind: ServerKind, (name, port): (&str, u16), inner: &str) -> Option<Site> {
    let text =
        format!("server_name: {name}1\ngateway {{ name: {name}, listen: \"127.0.0.1:{port}\"\n{inner} }}");
    let setup = Setup::default().program(&kind.program()?).config(&text).flags(&["-D"]);
    Some(Site { server: setup.start(), port })
}

/// Two clusters, of which the second dials the first by this host name.
fn two(kinds: [ServerKind; 2], inner: [&str; 2], host: &str) -> Option<[Site; 2]> {
    let ports = [free_port(), free_port()];
    let dials = format!("{}\ngateways: [{{ name: A, url: \"nats://{host}:{}\" }}]", inner[1], ports[0]);
    Some([start(kinds[0], ("A", ports[0]), inner[0])?, start(kinds[1], ("B", ports[1]), &dials)?])
}

/// How many links a server has with other clusters.
fn links(site: &Site) -> usize {
    let page = site.server.page("/gatewayz");
    let count = |field: &str| page[field].as_object().map_or(0, serde_json::Map::len);
    count("inbound_gateways") + count("outbound_gateways")
}

fn exchange(sites: &[Site; 2]) {
    let (mut a, mut b) = (sites[0].client(), sites[1].client());
    joined(&mut a, &mut b);
    b.subscribe("plain", 1);
    crate::routes::wait_for_interest(&mut a, &mut b);
    let body: String = (0..300_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    a.publish("plain", &body);
    assert_eq!(b.message().text(), body);
}

/// Both show a certificate, whatever is configured, and both ways are encrypted.
#[test]
fn links_are_encrypted_both_ways() {
    let lab = Lab::new();
    for kinds in MIXES {
        for more in ["", ", verify: true", ", timeout: 5"] {
            let block = lab.block(&format!("ca_file: \"@ca.pem\"{more}"));
            let Some(sites) = two(kinds, [&block, &block], "localhost") else { continue };
            exchange(&sites);
            for site in &sites {
                for line in ["Starting TLS gateway server handshake", "Starting TLS gateway client handshake"]
                {
                    site.server.wait_for_log(line);
                }
                let log = site.server.log();
                assert!(log.contains("TLS handshake complete"), "{kinds:?}: {log}");
                assert!(log.contains("TLS version 1.3, cipher suite TLS_AES_128"), "{kinds:?}: {log}");
            }
        }
    }
}

#[test]
fn a_cluster_of_another_authority_is_not_linked() {
    let (lab, stranger) = (Lab::new(), Lab::new());
    let (known, unknown) = (lab.block("ca_file: \"@ca.pem\""), stranger.block("ca_file: \"@ca.pem\""));
    for kinds in MIXES {
        let Some([a, b]) = two(kinds, [&known, &unknown], "localhost") else { continue };
        b.server.wait_for_log(
            "TLS gateway handshake error: tls: failed to verify certificate: x509: certificate signed by \
             unknown authority",
        );
        b.server.wait_for_log("Gateway connection closed: TLS Handshake Failure");
        a.server.wait_for_log("TLS gateway handshake error: remote error: tls: ");
        assert_eq!([links(&a), links(&b)], [0, 0], "{kinds:?}");
    }
    // `insecure` is about what the dialled server shows only.
    let insecure = stranger.block("insecure: true");
    for kinds in MIXES {
        let Some([a, b]) = two(kinds, [&known, &insecure], "localhost") else { continue };
        b.server
            .wait_for_log("TLS certificate chain and hostname of solicited gateways will not be verified.");
        a.server.wait_for_log("TLS gateway handshake error: tls: failed to verify certificate");
        assert_eq!(links(&a), 0, "{kinds:?}");
    }
}

/// A cluster without TLS is not linked where the other side has it.
#[test]
fn a_cluster_without_tls_is_not_linked() {
    let lab = Lab::new();
    let block = lab.block("ca_file: \"@ca.pem\", timeout: 1");
    for kinds in MIXES {
        let Some([a, b]) = two(kinds, [&block, ""], "localhost") else { continue };
        a.server.wait_for_log("Gateway connection closed: TLS Handshake Failure");
        assert_eq!([links(&a), links(&b)], [0, 0], "{kinds:?}");
    }
}

/// The certificate of a server that was dialled by its address bears the first host name that is
/// configured for its cluster.
#[test]
fn a_certificate_bears_the_name_of_the_server() {
    let lab = Lab::new();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    params.is_ca = rcgen::IsCa::NoCa;
    lab.sign_as("server", &params);
    let block = lab.block("ca_file: \"@ca.pem\"");
    for kinds in MIXES {
        let Some([a, b]) = two(kinds, [&block, &block], "127.0.0.1") else { continue };
        b.server.wait_for_log(
            "TLS gateway handshake error: tls: failed to verify certificate: x509: cannot validate certificate \
             for 127.0.0.1 because it doesn't contain any IP SANs",
        );
        assert_eq!(links(&a), 0, "{kinds:?}");
    }
}

/// A name in the certificate is the gateway's user, or that of a configured address of another
/// cluster. Passwords do not count then.
#[test]
fn certificates_let_clusters_in() {
    let lab = Lab::new();
    let block = |more: &str| lab.block(&format!("ca_file: \"@ca.pem\"{more}"));
    let (map, known) = (", verify_and_map: true", ", verify_cert_and_check_known_urls: true");
    let remote = |host: &str| format!("gateways: [{{ name: B, url: \"nats://{host}:1\" }}]");
    for kinds in MIXES {
        for (rule, more, is_in) in [
            (map, "authorization { user: localhost, password: x }".to_owned(), true),
            (map, "authorization { user: nobody, password: x }".to_owned(), false),
            (map, String::new(), false),
            (known, remote("localhost"), true),
            (known, remote("elsewhere"), false),
        ] {
            let inner = format!("{}\n{more}", block(rule));
            let Some(sites) = two(kinds, [&inner, &block("")], "localhost") else { continue };
            let line = if is_in { "Inbound gateway connection from \"B\"" } else { "authentication error" };
            sites[0].server.wait_for_log(line);
            if !is_in {
                assert_eq!(links(&sites[0]), 0, "{kinds:?} {rule} {more}");
            }
        }
    }
}

/// Keys are pinned for all clusters; a reload that pins others ends links.
#[test]
fn keys_are_pinned() {
    let lab = Lab::new();
    let pin = lab.sign("server");
    let other = lab.sign("other");
    let block = |pin: &str| lab.block(&format!("ca_file: \"@ca.pem\", pinned_certs: [\"{pin}\"]"));
    let plain = lab.block("ca_file: \"@ca.pem\"");
    for kinds in MIXES {
        let Some(sites) = two(kinds, [&block(&other), &plain], "localhost") else { continue };
        sites[0].server.wait_for_log("TLS gateway handshake error: certificate not pinned");
        assert_eq!(links(&sites[0]), 0, "{kinds:?}");
        drop(sites);
        let Some(sites) = two(kinds, [&block(&pin), &plain], "localhost") else { continue };
        exchange(&sites);
        let file = std::fs::read_to_string(sites[0].server.config_file()).expect("it is there");
        let lines = sites[0].server.reload(&file.replace(&pin, &other));
        let lines = lines.join("\n");
        assert!(lines.contains("Reloaded server configuration"), "{kinds:?}: {lines}");
        sites[0].server.wait_for_log("TLS gateway handshake error: certificate not pinned");
    }
}

/// Other certificates hold for links that begin after a reload, whichever side dials: those of
/// other files, and others in the same files.
#[test]
fn certificates_are_exchanged_by_a_reload() {
    for kinds in MIXES {
        for in_place in [false, true] {
            let lab = Lab::new();
            let pin = lab.sign("new");
            let plain = lab.block("ca_file: \"@ca.pem\"");
            let pinning = lab.block(&format!("ca_file: \"@ca.pem\", pinned_certs: [\"{pin}\"]"));
            let Some(sites) = two(kinds, [&plain, &pinning], "localhost") else { continue };
            sites[1].server.wait_for_log("TLS gateway handshake error: certificate not pinned");
            assert_eq!(links(&sites[1]), 0, "{kinds:?}");
            let mut file = std::fs::read_to_string(sites[0].server.config_file()).expect("it is there");
            if in_place {
                for end in ["pem", "key"] {
                    let (new, old) = (lab.file(&format!("new.{end}")), lab.file(&format!("server.{end}")));
                    std::fs::copy(new, old).expect("the folder takes files");
                }
            } else {
                file = file.replace("server.pem", "new.pem").replace("server.key", "new.key");
            }
            let lines = sites[0].server.reload(&file).join("\n");
            assert!(lines.contains("Reloaded server configuration"), "{kinds:?}: {lines}");
            eventually("both ways are linked", || links(&sites[1]) == 2);
            exchange(&sites);
        }
    }
}

/// A peer that begins no handshake gets nothing, not even INFO.
#[test]
fn who_does_not_begin_a_handshake_hears_nothing() {
    let lab = Lab::new();
    let block = lab.block("ca_file: \"@ca.pem\", timeout: 1");
    for kind in [Ours, Reference] {
        let Some(site) = start(kind, ("A", free_port()), &block) else { continue };
        let mut silent = TcpStream::connect(("127.0.0.1", site.port)).expect("it listens");
        silent.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut said = Vec::new();
        silent.read_to_end(&mut said).expect("the end");
        assert!(said.is_empty(), "{kind:?}");
        site.server.wait_for_log("Gateway connection closed: TLS Handshake Failure");
    }
}

/// Two clusters of which the second dials the first; each has a TLS block and what stands beside
/// its gateway.
fn proven(kinds: [ServerKind; 2], blocks: [&str; 2], more: [&str; 2]) -> Option<[Site; 2]> {
    let ports = [free_port(), free_port()];
    let start = |at: usize, remotes: &str| {
        let (name, port) = (["A", "B"][at], ports[at]);
        let text = format!(
            "server_name: {name}1\n{}\ngateway {{ name: {name}, listen: \"127.0.0.1:{port}\", \
             advertise: \"localhost:{port}\"\n{}\ngateways: [{remotes}] }}",
            more[at], blocks[at]
        );
        let setup = Setup::default().program(&kinds[at].program()?).config(&text).flags(&["-D"]);
        Some(Site { server: setup.start(), port })
    };
    let remote = format!("{{ name: A, url: \"nats://localhost:{}\" }}", ports[0]);
    Some([start(0, "")?, start(1, &remote)?])
}

const ALWAYS: &str = "ocsp { mode: always }";

/// Where servers show proofs that their certificates hold, each wants one of the others. Who dials
/// shows it with its certificate, which the TLS library cannot: so a nats-server turns Myelin away
/// that dials, and Myelin asks the authority about who dials.
#[test]
fn clusters_show_each_other_proofs() {
    for kinds in [[Reference, Reference], [Ours, Ours], [Reference, Ours]] {
        let lab = Proofs::new();
        let blocks = [lab.block((1, false)), lab.block((2, false))];
        let Some(sites) = proven(kinds, [&blocks[0], &blocks[1]], [ALWAYS; 2]) else { continue };
        if kinds == [Reference, Ours] {
            sites[0].server.wait_for_log("TLS gateway handshake error: Gateway peer missing OCSP Staple");
            assert_eq!(links(&sites[0]), 0);
            continue;
        }
        exchange(&sites);
        for site in sites.iter().filter(|_| kinds[0] == Ours) {
            site.server.wait_for_log("No OCSP Staple is shown to servers of other clusters");
        }
    }
}

#[test]
fn a_cluster_without_a_good_proof_is_not_linked() {
    for kinds in MIXES {
        let lab = Proofs::new();
        lab.responder.say(3, Says::Revoked);
        let text = "bad status for OCSP Staple from Gateway peer: revoked";
        let none = "Gateway peer missing OCSP Staple";
        for (serial, more, expected) in [((1, false), "", none), ((3, true), "ocsp: true", text)] {
            let blocks = [lab.block(serial), lab.block((2, false))];
            let Some([a, b]) = proven(kinds, [&blocks[0], &blocks[1]], [more, ALWAYS]) else { continue };
            b.server.wait_for_log(&format!("TLS gateway handshake error: {expected}"));
            assert_eq!([links(&a), links(&b)], [0, 0], "{kinds:?}");
        }
    }
}

/// A certificate that was revoked does not let in who dials with it.
#[test]
fn a_cluster_that_dials_is_asked_about() {
    let lab = Proofs::new();
    lab.responder.say(2, Says::Revoked);
    let blocks = [lab.block((1, false)), lab.block((2, false))];
    let sites = proven([Ours, Ours], [&blocks[0], &blocks[1]], [ALWAYS, ""]).expect("they start");
    sites[0].server.wait_for_log("TLS gateway handshake error: Gateway peer not OCSP valid");
    assert_eq!(links(&sites[1]), 0);
    // A reload that ends its own proofs lets everybody in again.
    let file = std::fs::read_to_string(sites[0].server.config_file()).expect("it is there");
    sites[0].server.reload(&file.replace(ALWAYS, ""));
    exchange(&sites);
}
