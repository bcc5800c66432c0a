//! Logins of leaf nodes, and the accounts that come of them.

use super::Site;
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{MIXES, wait_for_interest};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

const ACCOUNTS: &str =
    "accounts { A { users: [{user: a, password: a}] }, B { users: [{user: b, password: b}] } }";

/// Errors that a hub answers this with until it ends the link.
fn answer(hub: &Site, connect: &str) -> String {
    let mut raw = Raw::open(SocketAddr::from(([127, 0, 0, 1], hub.port)));
    raw.send(connect);
    let all = raw.rest();
    all.split_inclusive("\r\n").filter(|line| line.starts_with("-ERR")).collect()
}

#[test]
fn users_of_a_hub_bind_a_leaf_node_to_their_account() {
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", ACCOUNTS) else { continue };
        let port = hub.port;
        let remotes = format!(
            "remotes: [{{ url: \"nats://a:a@127.0.0.1:{port}\", account: A }}, \
             {{ url: \"nats://b:b@127.0.0.1:{port}\", account: B }}]"
        );
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, ACCOUNTS) else { continue };
        hub.linked(2);
        leaf.linked(2);
        let login =
            |user: &str| format!("CONNECT {{\"user\":\"{user}\",\"pass\":\"{user}\",\"verbose\":false}}\r\n");
        let client = |site: &Site, user: &str| {
            let mut raw = Raw::open(site.server.address());
            raw.send(&login(user));
            raw.barrier();
            raw
        };
        let (mut here_a, mut here_b) = (client(&leaf, "a"), client(&leaf, "b"));
        let (mut there_a, mut there_b) = (client(&hub, "a"), client(&hub, "b"));
        there_a.subscribe("s", 1);
        there_b.subscribe("s", 1);
        wait_for_interest(&mut here_a, &mut there_a);
        wait_for_interest(&mut here_b, &mut there_b);
        here_a.publish("s", "of a");
        here_b.publish("s", "of b");
        assert_eq!((there_a.message().text(), there_b.message().text()), ("of a", "of b"));
        here_a.barrier();
        here_b.barrier();
        assert!(there_a.barrier().is_empty() && there_b.barrier().is_empty(), "accounts stay apart");
    }
}

#[test]
fn varz_shows_how_leaf_nodes_and_hubs_are_configured() {
    for kinds in MIXES {
        let inner = "authorization { timeout: 3, users: [{user: edge, password: secret, account: A}] }";
        let Some(hub) = Site::hub(kinds[0], "HUB", inner, ACCOUNTS) else { continue };
        let port = hub.port;
        let remotes = format!(
            "remotes: [{{ url: \"nats://edge:secret@127.0.0.1:{port}\", account: A, deny_imports: [a.b] }}]"
        );
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, ACCOUNTS) else { continue };
        let shown = hub.server.page("/varz")["leaf"].clone();
        let listener = json!({ "host": "127.0.0.1", "port": port, "auth_timeout": 3.0, "tls_timeout": 2.0 });
        assert_eq!(numbers(&shown), numbers(&listener));
        let remote = json!({
            "local_account": "A", "urls": [format!("127.0.0.1:{port}")], "deny": { "imports": ["a.b"] },
        });
        assert_eq!(leaf.server.page("/varz")["leaf"], json!({ "remotes": [remote] }));
    }
}

/// Text of JSON without the difference between `2` and `2.0`.
fn numbers(shown: &Value) -> String {
    shown.to_string().replace(".0,", ",").replace(".0}", "}")
}

#[test]
fn leaf_nodes_may_have_users_of_their_own() {
    let inner = "authorization { users: [{user: edge, password: secret, account: A}] }";
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", inner, ACCOUNTS) else { continue };
        let port = hub.port;
        let remotes = format!("remotes: [{{ url: \"nats://edge:secret@127.0.0.1:{port}\" }}]");
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, "") else { continue };
        hub.linked(1);
        assert_eq!(hub.links()[0]["account"], "A");
        leaf.linked(1);
        assert_eq!(
            answer(&hub, "CONNECT {\"user\":\"a\",\"pass\":\"a\"}\r\n"),
            "-ERR 'Authorization Violation'\r\n"
        );
    }
}

#[test]
fn a_leaf_node_that_is_not_let_in_tries_again() {
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", ACCOUNTS) else { continue };
        let port = hub.port;
        let remotes =
            format!("reconnect: \"100ms\"\nremotes: [{{ url: \"nats://a:wrong@127.0.0.1:{port}\" }}]");
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, "") else { continue };
        eventually("it tries more than once", || {
            leaf.server.log().matches("Leafnode Error 'Authorization Violation'").count() > 1
        });
        assert!(hub.links().is_empty());
    }
}

#[test]
fn who_is_no_leaf_node_is_told_so() {
    let cases = [
        ("CONNECT {\"lang\":\"go\"}\r\n", "attempted to connect to leaf node port"),
        ("CONNECT {\"cluster\":\"a b\"}\r\n", "cluster name cannot contain spaces"),
        ("CONNECT {\"cluster\":\"_\"}\r\n", "cluster name is reserved"),
        ("CONNECT {\"gateway\":\"G\"}\r\n", "Rejecting connection from gateway \"G\" on the leafnode port"),
        ("CONNECT {\"cluster\":\"HC\"}\r\n", "remote leafnode has same cluster name"),
        (
            "CONNECT {\"version\":\"2.8.9\"}\r\n",
            "connection rejected since minimum version required is \"2.9.0\"",
        ),
        ("LS+ a\r\n", "Authorization Violation"),
        ("PING\r\n", "Authorization Violation"),
        ("CONNECT {\"version\":\"2.9.1\"}\r\nNONSENSE\r\n", "Unknown Protocol Operation"),
        ("CONNECT {\"version\":\"2.9.1\"}\r\nLS+ a b\r\n", ""),
        ("CONNECT {\"version\":\"2.9.1\"}\r\nLMSG a 2000000\r\n", "Maximum Payload Violation"),
        ("CONNECT {junk\r\n", ""),
    ];
    for kind in [crate::routes::Ours, crate::routes::Reference] {
        let inner = "min_version: 2.9.0";
        let more = "cluster { name: HC }";
        let Some(hub) = Site::hub(kind, "HUB", inner, more) else { continue };
        for (said, expected) in cases {
            let expected = if expected.is_empty() { String::new() } else { format!("-ERR '{expected}'\r\n") };
            assert_eq!(answer(&hub, said), expected, "{kind:?}: {said}");
        }
    }
}

#[test]
fn permissions_of_a_leaf_nodes_user_hold_on_both_sides() {
    let users = "accounts { A { users: [{user: a, password: a, permissions { \
                 publish { allow: [\"pub.>\"], deny: [pub.no] }, subscribe: [\"sub.>\"] }}, {user: c, password: c}] } }";
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", users) else { continue };
        let port = hub.port;
        let remotes = format!("remotes: [{{ url: \"nats://a:a@127.0.0.1:{port}\" }}]");
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, "") else { continue };
        hub.linked(1);
        leaf.linked(1);
        let mut there = Raw::open(hub.server.address());
        there.send("CONNECT {\"user\":\"c\",\"pass\":\"c\",\"verbose\":false}\r\nSUB > 1\r\n");
        there.barrier();
        let mut here = leaf.client();
        here.send("SUB > 1\r\nSUB sub.a 2\r\nSUB other 3\r\n");
        here.barrier();
        eventually("a message may go up", || {
            here.send("PUB other 1\r\nx\r\nPUB pub.no 1\r\nx\r\nPUB pub.yes 1\r\nx\r\n");
            here.barrier();
            let got = there.barrier();
            assert!(got.iter().all(|message| message.subject == "pub.yes"), "{got:?}");
            !got.is_empty()
        });
        here.send("UNSUB 1\r\n");
        here.barrier();
        here.barrier();
        eventually("a message may come down", || {
            there.send("PUB other 1\r\nx\r\nPUB sub.a 1\r\nx\r\n");
            there.barrier();
            let got = here.barrier();
            assert!(got.iter().all(|message| message.subject != "other"), "{got:?}");
            got.iter().any(|message| message.subject == "sub.a")
        });
        // A leaf node that does what it may not is cut off.
        let violation = |what: &str, to: &str| {
            let got = answer(&hub, &format!("CONNECT {{\"user\":\"a\",\"pass\":\"a\"}}\r\n{what}"));
            assert_eq!(got, format!("-ERR 'Permissions Violation for {to}'\r\n"));
        };
        violation("LS+ other\r\n", "Subscription to \"other\"");
        violation("LMSG pub.no 1\r\nx\r\n", "Publish to \"pub.no\"");
    }
}

/// Name that would be a word of lines to routes, and more than one line there.
const LINES: &str = "x\\tB\\tz\\r\\nRMSG\\tB\\tsecret\\t2\\r\\nhi\\r\\nLS+\\ty";

#[test]
fn a_cluster_whose_name_is_no_word_is_refused() {
    let hub = Site::hub(crate::routes::Ours, "HUB", "", "").expect("ours");
    let long = "x".repeat(256);
    for (name, text) in [
        (LINES, "cannot contain control characters"),
        ("a\\u0000b", "cannot contain control characters"),
        (&*long, "is too long"),
    ] {
        let expected = format!("-ERR 'cluster name {text}'\r\n");
        assert_eq!(answer(&hub, &format!("CONNECT {{\"cluster\":\"{name}\"}}\r\n")), expected);
    }
    assert!(hub.links().is_empty());
    let long = &long[1..];
    let mut raw = Raw::open(SocketAddr::from(([127, 0, 0, 1], hub.port)));
    raw.send(&format!("CONNECT {{\"cluster\":\"{long}\"}}\r\n"));
    hub.linked(1);
}

#[test]
fn a_hub_whose_clusters_name_is_no_word_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("nats://{}", listener.local_addr().expect("bound"));
    let leaf = super::dialling(crate::routes::Ours, &url, "").expect("ours");
    let (mut socket, _) = listener.accept().expect("it dials");
    let info = format!("INFO {{\"client_id\":1,\"leafnode_urls\":[\"h:1\"],\"cluster\":\"{LINES}\"}}\r\n");
    socket.write_all(info.as_bytes()).expect("it reads");
    let mut said = String::new();
    socket.read_to_string(&mut said).expect("it ends the link");
    assert!(said.contains("-ERR 'cluster name cannot contain control characters'\r\n"), "{said}");
    assert!(!said.contains("CONNECT"), "{said}");
    assert!(leaf.links().is_empty());
}
