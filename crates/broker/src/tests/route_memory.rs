//! Memory of cached routes: what one that takes the place of another gives back.

use super::net::{Net, Peer};

/// Subscribes so often to subjects of two tokens, each time with a long sid of its own: each
/// receiver has its own head then.
fn subscribe(peer: &mut Peer, count: usize) {
    for at in 0..count {
        peer.send(format!("SUB b.* {at:0>3900}\r\n"));
    }
}

/// Publishes until the subjects are in the cache.
fn publish(peer: &mut Peer, subjects: &[String]) {
    for subject in subjects {
        (0..2).for_each(|_| peer.publish(subject, ""));
    }
}

/// Publishes to as many subjects as make sure that each place is taken, and has been taken anew.
fn fill_cache(peer: &mut Peer) {
    publish(peer, &(0..40_000).map(|at| format!("s.{at}")).collect::<Vec<_>>());
}

#[test]
fn what_wide_routes_had_is_given_back_by_those_in_their_places() {
    let net = Net::new();
    let mut peer = net.peer_as(0, r#""echo":false"#);
    subscribe(&mut peer, 256);
    let wide: Vec<String> = (0..8).map(|at| format!("b.{at}")).collect();
    publish(&mut peer, &wide);
    net.flush_all();
    let (held, _) = net.shards[0].borrow().route_bytes();
    assert!(held > 8 * 256 * 3_900 && held < 10 << 20, "wide routes are in the cache: {held}");
    fill_cache(&mut peer);
    net.flush_all();
    let (held, reserved) = net.shards[0].borrow().route_bytes();
    assert!(
        held < 10 << 20,
        "wide routes have gone, and as many others as there is room for have come: {held}"
    );
    assert!(reserved < 4 << 20, "{reserved} bytes are reserved by routes of {held}");
}

#[test]
fn what_one_that_is_too_wide_for_the_cache_has_delivered_is_counted() {
    let net = Net::new();
    let (mut peer, mut other) = (net.peer_as(0, r#""echo":false"#), net.peer(0));
    subscribe(&mut peer, 2_200);
    // What is made for it is made in the place of another one.
    fill_cache(&mut peer);
    let (held, _) = net.shards[0].borrow().route_bytes();
    publish(&mut peer, &["b.1".to_owned()]);
    let (after, _) = net.shards[0].borrow().route_bytes();
    assert!(after <= held, "the route is not kept: {after}");
    other.send("SUB once 7\r\n");
    peer.publish("once", "1");
    other.send("UNSUB 7 1\r\n");
    peer.publish("once", "2");
    net.flush_all();
    assert_eq!(other.received(), "MSG once 7 1\r\n1\r\n");
}
