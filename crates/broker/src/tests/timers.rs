//! PINGs, stale connections, the time to authenticate.

use super::net::{Net, Peer, login, user};
use myelin_wire::error::CloseReason;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(10);

fn net() -> Net {
    Net::with(|setup| setup.settings.ping_interval = INTERVAL)
}

/// Lets the time of the session's next deadline come; what it says then, and how long that took.
fn next(net: &Net, peer: &mut Peer, now: &mut Instant) -> (String, Duration) {
    let wait = peer.deadline().duration_since(*now);
    net.advance(wait);
    *now += wait;
    peer.tick();
    (peer.received(), wait)
}

/// A client past its first PING, answered, and the time by the net's clock.
fn settled(net: &Net) -> (Peer, Instant) {
    let mut peer = net.peer(0);
    let mut now = peer.deadline();
    net.advance(now.duration_since(net.now()));
    peer.tick();
    assert_eq!(peer.received(), "PING\r\n");
    peer.send("PONG\r\n");
    now = net.now();
    (peer, now)
}

#[test]
fn the_first_ping_comes_after_two_seconds_and_a_fifth_at_most() {
    let net = net();
    let mut waits = Vec::new();
    for _ in 0..10 {
        let mut peer = net.peer(0);
        // Traffic does not postpone it: it measures the round trip.
        peer.send("SUB a 1\r\n");
        let (said, wait) = next(&net, &mut peer, &mut net.now());
        assert_eq!(said, "PING\r\n");
        assert!((2000..=2400).contains(&wait.as_millis()), "{wait:?}");
        waits.push(wait);
    }
    waits.dedup();
    assert!(waits.len() > 5, "spread, so that clients do not ping together");
}

#[test]
fn nothing_is_said_before_the_deadline() {
    let net = net();
    let mut peer = net.peer(0);
    let wait = peer.deadline().duration_since(net.now());
    net.advance(wait - Duration::from_millis(1));
    peer.tick();
    assert_eq!(peer.received(), "");
    net.advance(Duration::from_millis(1));
    peer.tick();
    assert_eq!(peer.received(), "PING\r\n");
}

#[test]
fn a_short_interval_makes_the_first_ping_early() {
    let net = Net::with(|setup| setup.settings.ping_interval = Duration::from_millis(200));
    let mut peer = net.peer(0);
    let (said, wait) = next(&net, &mut peer, &mut net.now());
    assert_eq!(said, "PING\r\n");
    assert!((200..=240).contains(&wait.as_millis()), "{wait:?}");
}

#[test]
fn a_quiet_client_is_pinged_at_each_interval() {
    let net = net();
    let (mut peer, mut now) = settled(&net);
    for _ in 0..5 {
        assert_eq!(next(&net, &mut peer, &mut now), ("PING\r\n".into(), INTERVAL));
        // An answer is no activity.
        peer.send("PONG\r\n");
    }
    assert_eq!(peer.closed, None);
}

#[test]
fn traffic_postpones_a_ping() {
    let net = net();
    let (mut peer, mut now) = settled(&net);
    for line in ["PUB a 0\r\n\r\n", "SUB b 1\r\n", "UNSUB 1\r\n", "PING\r\n"] {
        net.advance(INTERVAL / 2);
        now += INTERVAL / 2;
        peer.send(line);
        net.flush(0);
        peer.received();
        assert_eq!(next(&net, &mut peer, &mut now).0, "", "{line}");
        assert_eq!(next(&net, &mut peer, &mut now).0, "PING\r\n", "{line}");
        peer.send("PONG\r\n");
    }
}

#[test]
fn what_is_delivered_to_a_client_does_not_postpone_a_ping() {
    let net = net();
    let (mut peer, mut now) = settled(&net);
    let mut publisher = net.peer(1);
    peer.send("SUB a 1\r\n");
    assert_eq!(next(&net, &mut peer, &mut now).0, "PING\r\n");
    peer.send("PONG\r\n");
    publisher.publish("a", "x");
    net.flush(1);
    assert_eq!(next(&net, &mut peer, &mut now).0, "MSG a 1 1\r\nx\r\nPING\r\n");
}

#[test]
fn after_ping_max_unanswered_pings_a_client_is_stale() {
    let net = net();
    let mut peer = net.peer(0);
    let mut now = net.now();
    assert_eq!(next(&net, &mut peer, &mut now).0, "PING\r\n");
    assert_eq!(next(&net, &mut peer, &mut now).0, "PING\r\n");
    assert_eq!(next(&net, &mut peer, &mut now).0, "-ERR 'Stale Connection'\r\n");
    assert_eq!(peer.closed, Some(CloseReason::StaleConnection));
    assert_eq!(net.broker.counters().stale_connections.load(Relaxed), 1);
}

#[test]
fn a_pong_resets_the_count_and_measures() {
    let net = net();
    let mut peer = net.peer(0);
    let mut now = net.now();
    for _ in 0..4 {
        assert_eq!(next(&net, &mut peer, &mut now).0, "PING\r\n");
        assert_eq!(next(&net, &mut peer, &mut now).0, "PING\r\n");
        net.advance(Duration::from_millis(30));
        now += Duration::from_millis(30);
        peer.send("PONG\r\n");
    }
    assert_eq!(peer.closed, None);
    assert_eq!(peer.conn().details().rtt, Some(Duration::from_millis(30)));
}

fn guarded() -> Net {
    Net::with(|setup| {
        setup.users([user("ann", "$G", None)]);
        setup.settings.auth_timeout = Duration::from_secs(1);
    })
}

#[test]
fn who_does_not_authenticate_in_time_is_cut_off() {
    let net = guarded();
    let mut peer = net.stranger(0);
    peer.send("CONN");
    assert_eq!(
        next(&net, &mut peer, &mut net.now()),
        ("-ERR 'Authentication Timeout'\r\n".into(), Duration::from_secs(1))
    );
    assert_eq!(peer.closed, Some(CloseReason::AuthenticationTimeout));
}

#[test]
fn a_connect_in_time_ends_the_timeout() {
    let net = guarded();
    let mut peer = net.stranger(0);
    net.advance(Duration::from_millis(999));
    peer.connect(&login("ann"));
    let (said, wait) = next(&net, &mut peer, &mut net.now());
    assert_eq!((said.as_str(), peer.closed), ("PING\r\n", None));
    assert!((2000..=2400).contains(&wait.as_millis()), "counted from CONNECT: {wait:?}");
}

#[test]
fn without_authentication_there_is_no_timeout() {
    let net = Net::new();
    let mut peer = net.stranger(0);
    let (said, _) = next(&net, &mut peer, &mut net.now());
    assert_eq!((said.as_str(), peer.closed), ("", None), "no early PING before CONNECT");
    let (said, _) = next(&net, &mut peer, &mut net.now());
    assert_eq!((said.as_str(), peer.closed), ("PING\r\n", None));
}

#[test]
fn who_must_authenticate_first_is_not_pinged() {
    let net = Net::with(|setup| {
        setup.users([user("ann", "$G", None)]);
        setup.settings.auth_timeout = Duration::from_secs(60);
    });
    let mut peer = net.stranger(0);
    for _ in 0..3 {
        let (said, _) = next(&net, &mut peer, &mut net.now());
        assert!(!said.contains("PING"), "{said}");
    }
}

#[test]
fn the_second_info_comes_once_after_the_first_ping_of_the_client() {
    let net = Net::new();
    let mut peer = net.peer_as(0, r#""protocol":1"#);
    peer.send("PING\r\n");
    net.flush(0);
    let text = peer.received();
    assert!(text.starts_with("PONG\r\nINFO {") && text.contains("\"connect_info\":true"), "{text}");
    peer.send("PING\r\n");
    peer.connect(r#""protocol":1"#);
    peer.send("PING\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "PONG\r\nPONG\r\n");
}
