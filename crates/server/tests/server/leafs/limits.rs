//! Limits that hold for leaf nodes: of their account, of their user, and after a reload.

use super::Site;
use crate::callout::{AUTH, configured, hear, key, publish, service};
use crate::raw::Raw;
use crate::routes::{Ours, Reference, free_port};
use myelin_stdx::nkey::Role;
use serde_json::json;
use std::net::SocketAddr;

/// A leaf node that says this to a hub.
fn played(port: u16, said: &str) -> Raw {
    let mut raw = Raw::open(SocketAddr::from(([127, 0, 0, 1], port)));
    raw.send(said);
    raw
}

/// Errors on the way to a PONG, or to the end of the link.
fn errors(raw: &mut Raw, until: &str) -> Vec<String> {
    let lines = std::iter::from_fn(|| Some(raw.line())).take_while(|line| line != until);
    lines.filter(|line| line.starts_with("-ERR")).collect()
}

fn message(len: usize) -> String {
    format!("LMSG s {len}\r\n{}\r\n", "x".repeat(len))
}

#[test]
fn the_largest_message_of_an_account_holds_for_its_leaf_nodes() {
    let accounts = "accounts { A { users: [{user: a, password: a}], limits: { max_payload: 10 } } }";
    for kind in [Ours, Reference] {
        let Some(hub) = Site::hub(kind, "HUB", "compression: off", accounts) else { continue };
        let mut leaf = played(hub.port, "CONNECT {\"user\":\"a\",\"pass\":\"a\"}\r\n");
        leaf.send(&format!("{}PING\r\n", message(10)));
        assert_eq!(errors(&mut leaf, "PONG"), [""; 0], "{kind:?}");
        leaf.send(&message(11));
        assert!(leaf.rest().contains("-ERR 'Maximum Payload Violation'\r\n"), "{kind:?}");
        hub.linked(0);
    }
}

#[test]
fn a_reload_of_the_largest_message_holds_for_links_that_are_there() {
    let port = free_port();
    let hub = Site::start(Ours, "HUB", Some(port), "compression: off", "").expect("ours");
    let mut leaf = played(port, &format!("CONNECT {{}}\r\n{}PING\r\n", message(11)));
    assert_eq!(errors(&mut leaf, "PONG"), [""; 0]);
    let leafs = format!("leafnodes {{ listen: \"127.0.0.1:{port}\", compression: off }}");
    hub.server.reload(&format!("server_name: HUB\n{leafs}\nmax_payload: 10"));
    // The links hear of it a moment later than the log.
    crate::eventually("the link ends", || {
        let _ = leaf.try_send(message(11).as_bytes());
        hub.links().is_empty()
    });
    hub.server.wait_for_log("Leafnode parser ERROR: Maximum Payload Violation");
}

/// Safer than the reference, as for clients: what a service says of them it does not look at.
#[test]
fn limits_of_a_user_hold_for_leaf_nodes() {
    let issuer = key(Role::Account, 1);
    let hub = Site::hub(Ours, "HUB", "compression: off", &configured("", 5)).expect("ours");
    let mut asked = service(&hub.server, AUTH);
    let mut leaf = played(hub.port, "CONNECT {\"user\":\"leaf\",\"pass\":\"secret\"}\r\n");
    let question = hear(&mut asked, None);
    let limits = json!({"subs": 1, "data": -1, "payload": 10});
    let answer = question.admit(&issuer, &issuer, json!({"aud": "APP", "name": "x", "nats": limits}));
    publish(&mut asked, &question.reply, answer.as_bytes());
    hub.linked(1);
    leaf.send(&format!("LS+ a\r\nLS+ b\r\n{}PING\r\n", message(10)));
    assert_eq!(errors(&mut leaf, "PONG"), ["-ERR 'maximum subscriptions exceeded'"]);
    leaf.send(&message(11));
    assert!(leaf.rest().contains("-ERR 'Maximum Payload Violation'\r\n"));
}
