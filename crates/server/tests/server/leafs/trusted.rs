//! Leaf nodes that come through trusted proxies.

use super::Site;
use crate::process::Setup;
use crate::proxies::key;
use crate::raw::Raw;
use crate::routes::{Ours, Reference, ServerKind, free_port};
use serde_json::{Value, json};
use std::net::TcpStream;

/// Options of a hub at this port that trusts the proxies with these keys.
fn trusting(keys: &[u8], port: u16, inner: &str, more: &str) -> String {
    let keys: Vec<String> = keys.iter().map(|&n| format!("{{key: {}}}", key(n).public())).collect();
    let proxies =
        if keys.is_empty() { String::new() } else { format!("proxies {{ trusted: [{}] }}", keys.join(", ")) };
    format!(
        "server_name: HUB\nleafnodes {{ listen: \"127.0.0.1:{port}\", compression: off\n{inner} }}\n{more}\n{proxies}\n"
    )
}

fn hub(kind: ServerKind, keys: &[u8], inner: &str, more: &str) -> Option<Site> {
    let port = free_port();
    Site::configured(Setup::default(), kind, &trusting(keys, port, inner, more), port)
}

/// A leaf node of user `l` that comes through the proxy with this key, or through none.
fn through(hub: &Site, proxy: Option<u8>) -> Raw {
    let mut raw = Raw::over(TcpStream::connect(("127.0.0.1", hub.port)).expect("the hub listens"));
    let line = raw.line();
    let info: Value = serde_json::from_str(line.strip_prefix("INFO ").expect("INFO")).expect("JSON");
    let signed = |n: u8| key(n).sign(info["nonce"].as_str().expect("a nonce").as_bytes());
    let signature = proxy.map_or_else(String::new, |n| format!(",\"proxy_sig\":\"{}\"", signed(n)));
    raw.send(&format!("CONNECT {{\"user\":\"l\",\"pass\":\"p\",\"name\":\"EDGE\"{signature}}}\r\n"));
    raw
}

#[test]
fn users_of_leaf_nodes_come_through_trusted_proxies() {
    for kind in [Ours, Reference] {
        for (inner, is_needed) in [
            ("authorization { users: [{user: l, password: p, proxy_required: true}] }", true),
            ("authorization { user: l, password: p, proxy_required: true }", true),
            ("authorization { users: [{user: l, password: p}] }", false),
        ] {
            let Some(hub) = hub(kind, &[1, 2], inner, "") else { continue };
            let leaf = through(&hub, Some(2));
            hub.linked(1);
            assert_eq!(hub.links()[0]["proxy"], json!({"key": key(2).public()}), "{kind:?} {inner}");
            drop(leaf);
            hub.linked(0);
            let stranger = through(&hub, Some(3)).rest();
            assert!(stranger.contains("-ERR 'Authorization Violation'"), "{kind:?} {inner}: {stranger}");
            let free = through(&hub, None);
            if is_needed {
                let refused = free.rest();
                assert!(refused.contains("-ERR 'Authorization Violation'"), "{kind:?} {inner}: {refused}");
            } else {
                hub.linked(1);
                assert!(hub.links()[0].get("proxy").is_none_or(Value::is_null), "{kind:?}");
            }
        }
    }
}

/// A proxy that is trusted no more takes its leaf nodes with it, also the last one, be they users
/// of clients or of their own.
#[test]
fn a_leaf_node_goes_with_the_proxy_through_which_it_came() {
    let users = "authorization { users: [{user: l, password: p}] }";
    for kind in [Ours, Reference] {
        for (inner, more) in [(users, ""), ("", users)] {
            for others in [&[2][..], &[]] {
                // Without the block the reload of the reference ends in a panic.
                let is_last = others.is_empty() && kind == Reference;
                let Some(hub) = hub(kind, &[1, 2], inner, more).filter(|_| !is_last) else { continue };
                let leaf = through(&hub, Some(1));
                hub.linked(1);
                hub.server.reload(&trusting(others, hub.port, inner, more));
                let said = leaf.rest();
                assert!(said.contains("-ERR 'Authorization Violation'"), "{kind:?} {others:?}: {said}");
                hub.linked(0);
            }
        }
    }
}
