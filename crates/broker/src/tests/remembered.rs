//! History for monitoring: connections that have ended and their subscriptions, traffic of
//! accounts, hits of the route caches.

use super::net::{Net, login, user};
use crate::closed::ClosedSub;
use myelin_wire::error::CloseReason;

#[test]
fn subscriptions_of_an_ended_connection_are_remembered() {
    let net = Net::new();
    let mut peer = net.peer(0);
    peer.send("SUB a.* 1\r\nSUB bb queue long-sid\r\nUNSUB long-sid 9\r\nPUB a.x 1\r\nx\r\n");
    net.flush(0);
    peer.leave();
    let closed = net.broker.closed_connections();
    assert_eq!((closed.len(), closed[0].subscriptions), (1, 2));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let row = |sub: &ClosedSub| (text(sub.subject()), sub.queue().map(text), text(sub.sid()), sub.delivered);
    let mut rows: Vec<_> = closed[0].subs.iter().map(row).collect();
    rows.sort();
    let expected = [
        ("a.*".to_owned(), None, "1".to_owned(), 1),
        ("bb".to_owned(), Some("queue".to_owned()), "long-sid".to_owned(), 0),
    ];
    assert_eq!(rows, expected);
}

/// A connection with `count` subscriptions that ends; how many of them are remembered of each ended
/// one.
fn end_with(net: &Net, count: usize) -> Vec<usize> {
    let mut peer = net.peer(0);
    let lines: String = (0..count).map(|sid| format!("SUB many {sid}\r\n")).collect();
    peer.send(lines);
    if let Some(removal) = peer.end_slowly() {
        removal.run();
    }
    let closed = net.broker.closed_connections();
    assert_eq!(closed.last().map(|conn| conn.subscriptions), Some(count), "the count is whole");
    closed.iter().map(|conn| conn.subs.len()).collect()
}

#[test]
fn there_is_an_end_to_what_is_remembered() {
    let net = Net::with(|setup| setup.settings.max_closed_clients = 30);
    assert_eq!(end_with(&net, ClosedSub::KEPT + 1), [ClosedSub::KEPT]);
    let mut kept = Vec::new();
    for _ in 0..25 {
        kept = end_with(&net, ClosedSub::KEPT);
    }
    let full = 100_000 / ClosedSub::KEPT;
    let expected: Vec<_> = std::iter::repeat_n(0, 26 - full).chain([ClosedSub::KEPT].repeat(full)).collect();
    assert_eq!(kept, expected, "the oldest have forgotten");
    // Records that drop out take their share with them, whether they have forgotten or not.
    for _ in 0..40 {
        kept = end_with(&net, 1);
    }
    assert_eq!(kept, [1; 30]);
    for _ in 0..24 {
        kept = end_with(&net, ClosedSub::KEPT);
    }
    assert_eq!(kept.iter().sum::<usize>(), 6 + 24 * ClosedSub::KEPT);
}

#[test]
fn traffic_of_an_account_outlives_its_connections() {
    let net = Net::with(|setup| setup.users([user("a", "A", None), user("b", "B", None)]));
    let (mut staying, mut leaving) = (net.peer_as(0, &login("a")), net.peer_as(1, &login("a")));
    staying.send("SUB x 1\r\n");
    for peer in [&mut staying, &mut leaving] {
        peer.publish("x", "four");
    }
    net.flush_all();
    let sums = || {
        let moved = net.broker.traffic_by_account();
        let of_a: Vec<_> = moved.iter().filter(|(name, _)| name == "A").collect();
        assert_eq!(of_a.len(), 1, "{moved:?}");
        (of_a[0].1.received, of_a[0].1.sent)
    };
    assert_eq!(sums(), ((2, 8), (2, 8)));
    leaving.leave();
    assert_eq!(sums(), ((2, 8), (2, 8)));
    staying.leave();
    assert_eq!(sums(), ((2, 8), (2, 8)));
}

#[test]
fn a_stranger_is_remembered_by_what_it_said() {
    let net = Net::with(|setup| setup.users([user("a", "A", None)]));
    let mut stranger = net.stranger(0);
    stranger.send(
        "CONNECT {\"user\":\"a\",\"pass\":\"wrong\",\"name\":\"n\",\"lang\":\"l\",\"version\":\"v\"}\r\n",
    );
    let closed = net.broker.closed_connections();
    let details = &closed[0].details;
    assert_eq!(closed[0].reason, CloseReason::AuthenticationFailure);
    assert_eq!((&*details.name, &*details.lang, &*details.version), ("n", "l", "v"));
    assert_eq!((details.user.as_deref(), details.account.as_str()), (Some("a"), ""));
}

#[test]
fn caches_tell_how_they_do() {
    let net = Net::new();
    let mut peers = [net.peer(0), net.peer(1), net.peer(0)];
    for peer in &mut peers {
        peer.send("SUB a 1\r\n");
    }
    let account = net.broker.account("$G").unwrap();
    assert_eq!((account.subscriptions(), account.subscribed()), (3, 3));
    for _ in 0..10 {
        peers[0].publish("a", "x");
    }
    net.flush_all();
    let counts = net.broker.route_counts();
    // The first look-up finds nothing and keeps nothing, the second one is kept.
    assert_eq!((counts.misses, counts.cached, counts.fanout, counts.widest), (2, 1, 3, 3));
    peers[1].leave();
    assert_eq!((account.subscriptions(), account.subscribed()), (2, 3));
    peers[0].publish("a", "x");
    net.flush_all();
    let counts = net.broker.route_counts();
    assert_eq!((counts.misses, counts.cached, counts.fanout, counts.widest), (3, 1, 2, 3));
}
