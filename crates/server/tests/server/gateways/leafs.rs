//! Leaf nodes of clusters that are joined by gateways.

use super::{Site, joined};
use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::routes::{Ours, Reference, ServerKind, free_port, wait_for_interest};

/// Accounts as leaf nodes of nats-server want them there: without a system account it tells its hub
/// of what it does for itself.
const SYSTEM: &str = "accounts { SYS {} }\nsystem_account: SYS";

/// The cluster A, the cluster B with a leaf node, and that: what they are.
pub(super) const MIXES: [[ServerKind; 3]; 5] = [
    [Ours, Ours, Ours],
    [Ours, Ours, Reference],
    [Reference, Ours, Ours],
    [Ours, Reference, Ours],
    [Reference, Ours, Reference],
];

fn start(kinds: [ServerKind; 3]) -> Option<(Site, Site, Server)> {
    start_with(kinds, "")
}

/// `more`: of the leaf node's configuration.
pub(super) fn start_with([first, hub, leaf]: [ServerKind; 3], more: &str) -> Option<(Site, Site, Server)> {
    let (ports, leafs) = ([free_port(), free_port()], free_port());
    let a = Site::start(first, ("A1", "A", ports[0]), &[("B", ports[1])], "", SYSTEM)?;
    let listen = format!("{SYSTEM}\nleafnodes {{ listen: \"127.0.0.1:{leafs}\" }}");
    let b = Site::start(hub, ("B1", "B", ports[1]), &[("A", ports[0])], "", &listen)?;
    let edge = leaf_node(leaf, leafs, more)?;
    eventually("the leaf node is there", || {
        b.server.page("/leafz")["leafs"].as_array().is_some_and(|links| links.len() == 1)
    });
    Some((a, b, edge))
}

/// A leaf node of the hub behind this port.
pub(super) fn leaf_node(kind: ServerKind, hub: u16, more: &str) -> Option<Server> {
    let text = format!(
        "server_name: EDGE\n{SYSTEM}\n{more}\n\
         leafnodes {{ reconnect: \"200ms\", remotes: [{{ url: \"nats://127.0.0.1:{hub}\" }}] }}"
    );
    Some(Setup::default().program(&kind.program()?).config(&text).flags(&["-D"]).start())
}

/// Asks a service a few times, each time under a fresh inbox that nobody else had.
fn ask(asks: &mut Raw, serves: &mut Raw, (whose, turns): (&str, usize)) {
    for turn in 0..turns {
        let inbox = format!("_INBOX.{whose}.{turn}");
        asks.send(&format!("SUB {inbox} 7\r\nPUB svc {inbox} 1\r\n?\r\n"));
        let request = serves.message();
        assert_eq!(request.reply.as_deref(), Some(&*inbox), "nobody sees the mapped reply");
        serves.publish(&inbox, "!");
        let answer = asks.message();
        assert_eq!((answer.subject.as_str(), answer.text()), (&*inbox, "!"));
        asks.send("UNSUB 7\r\n");
    }
    assert!(asks.barrier().is_empty(), "each answer once");
}

#[test]
fn a_service_behind_a_leaf_node_answers_another_cluster() {
    for kinds in MIXES {
        let Some((a, b, edge)) = start(kinds) else { continue };
        let (mut asks, mut middle, mut serves) = (a.client(), b.client(), Raw::connect(&edge));
        serves.subscribe("svc", 1);
        wait_for_interest(&mut asks, &mut serves);
        joined(&mut asks, &mut middle);
        ask(&mut asks, &mut serves, ("far", 20));
        ask(&mut middle, &mut serves, ("near", 5));
    }
}

#[test]
fn clients_of_a_leaf_node_ask_another_cluster() {
    for kinds in MIXES {
        let Some((a, b, edge)) = start(kinds) else { continue };
        let (mut serves, mut middle, mut asks) = (a.client(), b.client(), Raw::connect(&edge));
        serves.subscribe("svc", 1);
        wait_for_interest(&mut asks, &mut serves);
        joined(&mut serves, &mut middle);
        ask(&mut asks, &mut serves, ("far", 20));
        ask(&mut middle, &mut serves, ("near", 5));
    }
}
