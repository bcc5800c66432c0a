//! TLS between leaf nodes and hubs, with nats-server on either side.

use super::{Site, exchange};
use crate::raw::Raw;
use crate::routes::{MIXES, Ours, Reference, ServerKind};
use crate::tls::Lab;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};

/// A hub and a leaf node of it.
fn pair(kinds: [ServerKind; 2], hub: &str, remote: &str, more: &str) -> Option<[Site; 2]> {
    let hub = Site::hub(kinds[0], "HUB", hub, more)?;
    let leaf = dialling(kinds[1], &hub, "nats://", remote)?;
    Some([hub, leaf])
}

/// A leaf node whose URL begins like this.
fn dialling(kind: ServerKind, hub: &Site, start: &str, remote: &str) -> Option<Site> {
    let port = hub.port;
    let remotes =
        format!("reconnect: \"200ms\"\nremotes: [{{ url: \"{start}127.0.0.1:{port}\"\n{remote} }}]");
    Site::start(kind, "EDGE", None, &remotes, "")
}

#[test]
fn links_are_encrypted() {
    let lab = Lab::new();
    let (shown, trusting) = (lab.block(""), lab.block("ca_file: \"@ca.pem\""));
    for kinds in MIXES {
        for compression in ["accept", "s2_fast"] {
            let of = |block: &str| format!("{block} compression: {compression}");
            let Some(sites) = pair(kinds, &of(&shown), &of(&trusting), "") else { continue };
            exchange(sites.each_ref(), &[300_000]);
            for (site, side) in sites.iter().zip(["server", "client"]) {
                let log = site.server.log();
                let begins = format!("Starting TLS leafnode {side} handshake");
                assert!(log.contains(&begins), "{kinds:?} {begins}: {log}");
                let expected = if compression == "accept" { "off" } else { "s2_fast" };
                assert_eq!(site.links()[0]["compression"], expected, "{kinds:?}");
            }
        }
    }
}

/// The handshake comes before INFO, or either way.
#[test]
fn the_handshake_may_come_first() {
    let lab = Lab::new();
    let hub = |first: &str| lab.block(&format!("handshake_first: {first}, timeout: 2"));
    let remote = |first: &str| lab.block(&format!("ca_file: \"@ca.pem\", handshake_first: {first}"));
    for kinds in MIXES {
        for (at_hub, at_leaf) in [("true", "true"), ("auto", "true"), ("auto", "false")] {
            let Some(sites) = pair(kinds, &hub(at_hub), &remote(at_leaf), "") else { continue };
            exchange(sites.each_ref(), &[300_000]);
        }
        let Some([hub_site, leaf]) = pair(kinds, &hub("false"), &remote("true"), "") else { continue };
        let text = "TLS leafnode handshake error: tls: first record does not look like a TLS handshake";
        leaf.server.wait_for_log(text);
        leaf.server.wait_for_log("Leafnode connection closed: TLS Handshake Failure");
        assert!(hub_site.links().is_empty());
        let Some([hub_site, leaf]) = pair(kinds, &hub("true"), &remote("false"), "") else { continue };
        leaf.server.wait_for_log("Leafnode connection closed: Read Error");
        hub_site.server.wait_for_log("TLS leafnode handshake error: EOF");
        assert!(leaf.links().is_empty());
    }
}

/// Whether the hub is known is the leaf node's business, be it that only the hub wants TLS.
#[test]
fn a_hub_of_another_authority_is_not_linked() {
    let (lab, stranger) = (Lab::new(), Lab::new());
    for kinds in MIXES {
        for remote in ["", &stranger.block("ca_file: \"@ca.pem\"")] {
            let Some([hub, leaf]) = pair(kinds, &lab.block(""), remote, "") else { continue };
            leaf.server.wait_for_log(
                "TLS leafnode handshake error: tls: failed to verify certificate: x509: certificate signed by \
                 unknown authority (",
            );
            leaf.server.wait_for_log("Leafnode connection closed: TLS Handshake Failure");
            hub.server.wait_for_log("TLS leafnode handshake error: remote error: tls: ");
            hub.server.wait_for_log("Leafnode connection closed: TLS Handshake Failure");
            assert!(hub.links().is_empty() && leaf.links().is_empty());
        }
        let Some(sites) = pair(kinds, &lab.block(""), "tls { insecure: true }", "") else { continue };
        exchange(sites.each_ref(), &[300_000]);
    }
}

#[test]
fn a_hub_without_tls_is_not_linked_where_the_remote_wants_it() {
    let lab = Lab::new();
    let trusting = lab.block("ca_file: \"@ca.pem\"");
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", "") else { continue };
        for (scheme, remote) in [("nats://", &trusting[..]), ("tls://", "")] {
            // nats-server takes `tls://` without tls{} for no wish.
            if scheme == "tls://" && kinds[1] == Reference {
                continue;
            }
            let Some(leaf) = dialling(kinds[1], &hub, scheme, remote) else { continue };
            leaf.server.wait_for_log("Leafnode connection closed: TLS Handshake Failure");
            hub.server.wait_for_log("authentication error");
            assert!(hub.links().is_empty(), "{kinds:?} {scheme}");
        }
    }
}

#[test]
fn a_hub_may_want_certificates() {
    let lab = Lab::new();
    lab.sign("edge");
    let hub = lab.block("ca_file: \"@ca.pem\", verify: true");
    let shown = lab.block("ca_file: \"@ca.pem\"");
    let ca = lab.file("ca.pem");
    let none = format!("tls {{ ca_file: \"{}\" }}", ca.display());
    for kinds in MIXES {
        let Some(sites) = pair(kinds, &hub, &shown, "") else { continue };
        exchange(sites.each_ref(), &[300_000]);
        drop(sites);
        let Some([hub, leaf]) = pair(kinds, &hub, &none, "") else { continue };
        hub.server.wait_for_log("TLS leafnode handshake error: tls: client didn't provide a certificate");
        leaf.server.wait_for_log("Leafnode connection closed: ");
        assert!(hub.links().is_empty());
    }
}

#[test]
fn keys_are_pinned() {
    let lab = Lab::new();
    let (pin, other) = (lab.sign("server"), lab.sign("other"));
    let block =
        |pin: &str| lab.block(&format!("ca_file: \"@ca.pem\", verify: true, pinned_certs: [\"{pin}\"]"));
    let plain = lab.block("ca_file: \"@ca.pem\", verify: true");
    for kinds in MIXES {
        let Some(sites) = pair(kinds, &block(&pin), &block(&pin), "") else { continue };
        exchange(sites.each_ref(), &[300_000]);
        for inner in [[&block(&other)[..], &plain], [&plain, &block(&other)]] {
            let Some(sites) = pair(kinds, inner[0], inner[1], "") else { continue };
            let at = usize::from(inner[0] == plain);
            // nats-server does not look at the key of its hub.
            if at == 1 && kinds[1] == Reference {
                continue;
            }
            sites[at].server.wait_for_log("TLS leafnode handshake error: certificate not pinned");
            assert!(sites[0].links().is_empty(), "{kinds:?}");
        }
    }
}

/// A name in the certificate is a user, one of the leaf nodes' own or one of the server's.
#[test]
fn certificates_bind_to_accounts() {
    let lab = Lab::new();
    let hub = lab.block("ca_file: \"@ca.pem\", verify_and_map: true");
    let shown = lab.block("ca_file: \"@ca.pem\"");
    let own = "authorization { users: [{user: localhost, password: x, account: A}] }";
    let single = "authorization { user: who, password: x, account: A }";
    let accounts = |user: &str| {
        format!("accounts {{ A {{ users: [{{user: {user}}}] }}, B {{ users: [{{user: b, password: b}}] }} }}")
    };
    for kinds in MIXES {
        let cases = [
            ("", "localhost", "", true),
            // Whoever has a password must send it too.
            (own, "other", "any:x@", true),
            (own, "other", "localhost:y@", false),
            ("", "nobody", "", false),
            // A single user is not looked for in the certificate.
            (single, "other", "who:x@", true),
            (single, "other", "localhost:x@", false),
        ];
        for (own, user, login, is_in) in cases {
            let inner = format!("{hub}\n{own}");
            let Some(hub) = Site::hub(kinds[0], "HUB", &inner, &accounts(user)) else { continue };
            let url = format!("nats://{login}");
            let Some(_leaf) = dialling(kinds[1], &hub, &url, &shown) else { continue };
            if is_in {
                hub.linked(1);
                assert_eq!(hub.links()[0]["account"], "A", "{kinds:?}");
            } else {
                hub.server.wait_for_log("authentication error");
                assert!(hub.links().is_empty());
            }
        }
    }
}

/// A hub that wants TLS tells nobody anything, and is told nothing, in the clear.
#[test]
fn nobody_comes_in_without_a_handshake() {
    let lab = Lab::new();
    for kind in [Ours, Reference] {
        let Some(hub) = Site::hub(kind, "HUB", &lab.block("timeout: 0.5"), "") else { continue };
        for said in ["CONNECT {\"name\":\"a\"}\r\nPING\r\n", ""] {
            let mut raw = Raw::open(SocketAddr::from(([127, 0, 0, 1], hub.port)));
            raw.send(said);
            let got = raw.rest();
            assert!(got.is_empty() || !got.contains("PONG"), "{kind:?}: {got}");
            assert!(!got.contains("connect_info"), "{kind:?}: {got}");
        }
        hub.server.wait_for_log("Leafnode connection closed: TLS Handshake Failure");
        assert!(hub.links().is_empty());
    }
}

/// Bytes behind the INFO of a hub that wants TLS are not taken for some that came over TLS.
#[test]
fn a_leaf_node_takes_nothing_in_the_clear_where_tls_is_required() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let remotes = format!("remotes: [{{ url: \"nats://u:secret@127.0.0.1:{port}\" }}]");
    let leaf = Site::start(Ours, "EDGE", None, &remotes, "").expect("ours is there");
    let (mut stream, _) = listener.accept().expect("it dials");
    let info = "INFO {\"server_id\":\"H\",\"server_name\":\"HUB\",\"tls_required\":true,\"client_id\":5,\"info_on_connect\":true}\r\n";
    stream.write_all(format!("{info}{info}").as_bytes()).expect("it reads");
    assert_eq!(Raw::over(stream).rest(), "");
    leaf.server.wait_for_log("something has come in the clear behind INFO");
}
