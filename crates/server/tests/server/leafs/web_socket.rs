//! Leaf nodes over WebSocket, with nats-server on either side.

use super::{Site, dialling, exchange};
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{MIXES, Ours, Reference, ServerKind, free_port};
use crate::tls::Lab;
use crate::websocket::peer::{BINARY, Peer, dial, frame};
use rustix::process::Signal;
use std::net::SocketAddr;

/// A hub that listens for WebSocket, too, and the port for that.
fn hub(kind: ServerKind, inner: &str, web_socket: &str, more: &str) -> Option<(Site, u16)> {
    let port = free_port();
    let more = format!("websocket {{ listen: \"127.0.0.1:{port}\"\n{web_socket} }}\n{more}");
    Some((Site::hub(kind, "HUB", inner, &more)?, port))
}

#[test]
fn links_are_web_sockets() {
    let cases = [
        ("compression: accept", "", "off", "compression=false masking=true"),
        ("compression: s2_fast", "", "s2_fast", "compression=false masking=true"),
        ("compression: accept", "ws_no_masking: true", "off", "compression=false masking=false"),
        ("compression: s2_better", "ws_compression: true", "off", "compression=true masking=true"),
        (
            "compression: off",
            "ws_compression: true, ws_no_masking: true",
            "not supported",
            "compression=true masking=false",
        ),
    ];
    for kinds in MIXES {
        for (compression, remote, compressed, line) in cases {
            let Some((hub, port)) = hub(kinds[0], compression, "no_tls: true, compression: true", "") else {
                continue;
            };
            let url = format!("ws://127.0.0.1:{port}");
            let Some(leaf) = dialling(kinds[1], &url, &format!("{compression}\n{remote}")) else { continue };
            exchange([&hub, &leaf], &[0, 10, 200, 70_000, 800_000]);
            for site in [&hub, &leaf] {
                let row = &site.links()[0];
                assert_eq!(row["compression"], compressed, "{kinds:?} {remote}: {row}");
                assert_eq!(row["websocket"], true, "{kinds:?} {remote}: {row}");
            }
            leaf.server.wait_for_log(&format!("Leafnode {line}"));
            let hears = line.split(' ').next().expect("a word");
            hub.server.wait_for_log(&format!("Leafnode {hears}"));
            assert!(hub.server.log().contains(" - lid_ws:"), "{kinds:?}");
        }
    }
}

/// A leaf node that knows one server of a cluster is told where the others have their WebSockets.
#[test]
fn the_other_servers_of_a_cluster_are_found() {
    for kinds in MIXES {
        let routes = free_port();
        let cluster = |listen: &str, dialled: &str| {
            format!("cluster {{ name: C, listen: \"127.0.0.1:{listen}\", routes: [{dialled}] }}")
        };
        let first = cluster(&routes.to_string(), "");
        let second = cluster("-1", &format!("\"nats://127.0.0.1:{routes}\""));
        let (ports, leaf_ports) = ([free_port(), free_port()], [free_port(), free_port()]);
        let start = |at: usize, cluster: &str| {
            let more =
                format!("websocket {{ listen: \"127.0.0.1:{}\", no_tls: true }}\n{cluster}", ports[at]);
            Site::start(kinds[0], &format!("HUB{at}"), Some(leaf_ports[at]), "", &more)
        };
        let (Some(mut one), Some(other)) = (start(0, &first), start(1, &second)) else { continue };
        eventually("a cluster", || one.server.page("/routez")["num_routes"] != 0);
        let Some(leaf) = dialling(kinds[1], &format!("ws://127.0.0.1:{}", ports[0]), "") else { continue };
        one.linked(1);
        one.server.signal(Signal::TERM);
        one.server.wait();
        other.linked(1);
        assert_eq!(other.links()[0]["websocket"], true, "{kinds:?}");
        leaf.linked(1);
    }
}

/// The hub does not compress WebSocket: the link is one without.
#[test]
fn compression_is_only_what_both_want() {
    for kinds in MIXES {
        let Some((hub, port)) = hub(kinds[0], "", "no_tls: true", "") else { continue };
        let url = format!("ws://127.0.0.1:{port}/a/b");
        let Some(leaf) = dialling(kinds[1], &url, "ws_compression: true, compression: s2_fast") else {
            continue;
        };
        exchange([&hub, &leaf], &[0, 10, 200, 70_000, 800_000]);
        assert_eq!(leaf.links()[0]["compression"], "s2_fast", "{kinds:?}");
    }
}

#[test]
fn links_are_secure_web_sockets() {
    let lab = Lab::new();
    let (shown, trusting) = (lab.block(""), lab.block("ca_file: \"@ca.pem\""));
    for kinds in MIXES {
        for remote in ["compression: s2_fast", "ws_compression: true"] {
            let Some((hub, port)) = hub(kinds[0], "", &format!("{shown} compression: true"), "") else {
                continue;
            };
            let url = format!("wss://127.0.0.1:{port}");
            let Some(leaf) = dialling(kinds[1], &url, &format!("{trusting}\n{remote}")) else { continue };
            exchange([&hub, &leaf], &[0, 10, 200, 70_000, 800_000]);
        }
        // Whom the leaf node does not know it does not tell anything.
        let Some((hub, port)) = hub(kinds[0], "", &shown, "") else { continue };
        let Some(leaf) = dialling(kinds[1], &format!("wss://127.0.0.1:{port}"), "") else { continue };
        leaf.server.wait_for_log("TLS leafnode handshake error: ");
        leaf.server.wait_for_log("Leafnode connection closed: ");
        assert!(hub.links().is_empty());
    }
}

/// A link that is cut is a new WebSocket afterwards; addresses without WebSocket are not dialled.
#[test]
fn a_lost_web_socket_is_dialled_again() {
    for kinds in MIXES {
        let Some((hub, port)) = hub(kinds[0], "", "no_tls: true", "") else { continue };
        let Some(leaf) = dialling(kinds[1], &format!("ws://127.0.0.1:{port}"), "") else { continue };
        exchange([&hub, &leaf], &[0, 10, 200, 70_000, 800_000]);
        drop(hub);
        let again = format!("websocket {{ listen: \"127.0.0.1:{port}\", no_tls: true }}");
        leaf.server.wait_for_log("Leafnode connection closed: ");
        let Some(hub) = Site::hub(kinds[0], "HUB", "", &again) else { continue };
        exchange([&hub, &leaf], &[0, 10, 200, 70_000, 800_000]);
        assert!(!leaf.server.log().contains(&format!("remote server on \"127.0.0.1:{}\"", hub.port)));
    }
}

/// Leaf nodes without credentials are the `no_auth_user` of the WebSocket's block; a user may be
/// for other ways in only.
#[test]
fn leaf_nodes_over_web_socket_have_users() {
    let users = "accounts {\n\
        A { users: [{user: a, password: a}, {user: t, password: t, allowed_connection_types: [LEAFNODE]}] }\n\
        B { users: [{user: b, password: b}, {user: w, password: w, allowed_connection_types: [LEAFNODE_WS]}] } }\n\
        no_auth_user: a";
    let cases = [("", Some("B")), ("a:a@", Some("A")), ("w:w@", Some("B")), ("t:t@", None)];
    for kinds in MIXES {
        for (login, account) in cases {
            let Some((hub, port)) = hub(kinds[0], "", "no_tls: true, no_auth_user: b", users) else {
                continue;
            };
            let Some(leaf) = dialling(kinds[1], &format!("ws://{login}127.0.0.1:{port}"), "") else {
                continue;
            };
            match account {
                Some(account) => {
                    hub.linked(1);
                    assert_eq!(hub.links()[0]["account"], account, "{kinds:?} {login}");
                }
                None => {
                    hub.server.wait_for_log("authentication error - User \"t\"");
                    leaf.server.wait_for_log("Leafnode Error 'Authorization Violation'");
                    assert!(hub.links().is_empty());
                }
            }
        }
    }
}

#[test]
fn hubs_that_are_no_web_socket_are_not_linked() {
    for kinds in MIXES {
        let Some(hub_site) = Site::hub(kinds[0], "HUB", "", "") else { continue };
        let Some(leaf) = dialling(kinds[1], &format!("ws://127.0.0.1:{}", hub_site.port), "") else {
            continue;
        };
        leaf.server.wait_for_log("Error soliciting websocket connection: malformed HTTP status code \"{");
        leaf.server.wait_for_log("Leafnode connection closed: Read Error");
        assert!(hub_site.links().is_empty() && leaf.links().is_empty());
        // The other way round.
        let Some((hub_site, port)) = hub(kinds[0], "", "no_tls: true", "") else { continue };
        let Some(leaf) = dialling(kinds[1], &format!("nats://127.0.0.1:{port}"), "") else { continue };
        leaf.server.wait_for_log("Leafnode connection closed: Read Error");
        assert!(hub_site.links().is_empty());
        // A server that has no leaf nodes, but WebSocket.
        let port = free_port();
        let more = format!("websocket {{ listen: \"127.0.0.1:{port}\", no_tls: true }}");
        let Some(none) = Site::start(kinds[0], "NONE", None, "", &more) else { continue };
        let Some(_leaf) = dialling(kinds[1], &format!("ws://127.0.0.1:{port}"), "") else { continue };
        none.server.wait_for_log("Not configured to accept leaf node connections");
    }
}

/// A stranger that speaks WebSocket wrongly loses its own link, and is told why.
#[test]
fn frames_that_make_no_sense_end_the_link() {
    for kind in [Ours, Reference] {
        let Some((hub, port)) = hub(kind, "", "no_tls: true, compression: true", "") else { continue };
        let upgraded = || {
            let stream = dial(SocketAddr::from(([127, 0, 0, 1], port)));
            let mut peer = Peer::over_path(stream, "/leafnode", "");
            let info = peer.info();
            assert_eq!(info["info_on_connect"], true, "{info}");
            assert!(info["nonce"].is_string(), "{info}");
            peer
        };
        let mut peer = upgraded();
        // Without a mask.
        let _ = peer.try_send(b"\x82\x06PING\r\n");
        let rest = peer.rest();
        if kind == Ours {
            assert_eq!(rest.closed_with().map(|(status, _)| status), Some(1002));
        }
        let mut peer = upgraded();
        let _ = peer.try_send(&frame(BINARY, b"PING\r\n"));
        let lines = peer.rest().lines();
        assert!(lines.iter().any(|line| line == "-ERR 'Authorization Violation'"), "{kind:?}: {lines:?}");
        // Others go on.
        let mut raw = Raw::connect(&hub.server);
        raw.barrier();
        assert!(hub.links().is_empty());
    }
}
