//! Leaf nodes that take nothing for a while: `write_deadline` and `write_timeout` of `leafnodes{}`.

use super::Site;
use crate::raw::Raw;
use crate::routes::Ours;
use std::net::SocketAddr;

const COUNT: usize = 20_000;

/// A leaf node that takes nothing, of a hub with these in its blocks, and 20 MB for it.
fn flooded(inner: &str, more: &str) -> (Site, Raw) {
    let hub = Site::hub(Ours, "HUB", &format!("compression: off\n{inner}"), more).expect("ours is there");
    let mut leaf = Raw::open(SocketAddr::from(([127, 0, 0, 1], hub.port)));
    leaf.send("CONNECT {\"name\":\"one\",\"cluster\":\"one\"}\r\nLS+ flood\r\n");
    crate::eventually("interest is there", || hub.links().iter().any(|link| link["subscriptions"] == 1));
    let mut publisher = hub.client();
    for _ in 0..COUNT / 1000 {
        publisher.send(&format!("PUB flood 1000\r\n{}\r\n", "x".repeat(1000)).repeat(1000));
        publisher.barrier();
    }
    (hub, leaf)
}

#[test]
fn a_leaf_node_that_pauses_loses_nothing() {
    // Neither what holds for clients nor what holds for routes is about it.
    let (hub, mut leaf) = flooded("write_deadline: \"200ms\"", "cluster { write_timeout: close }");
    hub.server.wait_for_log("Slow Consumer State: WriteDeadline");
    let mut got = 0;
    while got < COUNT {
        got += usize::from(leaf.line().starts_with("LMSG flood "));
    }
    assert_eq!(hub.links().len(), 1);
    let varz = hub.server.page("/varz");
    assert!(varz["slow_consumer_stats"]["leafs"].as_u64() >= Some(1), "{varz}");
}

#[test]
fn a_leaf_node_that_pauses_is_cut_off_where_that_is_configured() {
    let (hub, _leaf) = flooded("write_deadline: \"200ms\", write_timeout: close", "");
    hub.server.wait_for_log("Leafnode connection closed: Slow Consumer (Write Deadline)");
    hub.linked(0);
}
