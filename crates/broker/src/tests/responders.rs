//! The 503 for requests that nobody gets.

use super::net::{Net, Peer};

const ON: &str = r#""no_responders":true"#;

/// Bytes that a client gets after it has sent `lines`; it subscribes to `reply` and takes 503.
fn answer(fields: &str, lines: &str) -> String {
    let net = Net::new();
    let mut peer = net.peer_as(0, &format!("{ON},{fields}"));
    peer.send("SUB reply 7\r\n");
    peer.send(lines);
    net.flush(0);
    peer.received()
}

const NOBODY: &str = "HMSG reply 7 33 33\r\nNATS/1.0 503\r\nNats-Subject: a\r\n\r\n\r\n";
const PLAIN: &str = r#""lang":"test""#;

#[test]
fn a_request_that_nobody_gets_is_answered() {
    assert_eq!(answer(PLAIN, "PUB a reply 1\r\nx\r\n"), NOBODY);
    assert_eq!(answer(PLAIN, &"PUB a reply 1\r\nx\r\n".repeat(4)), NOBODY.repeat(4));
}

#[test]
fn ok_comes_first() {
    let text = answer(r#""verbose":true"#, "PUB a reply 1\r\nx\r\n");
    assert_eq!(text.trim_start_matches("+OK\r\n"), NOBODY);
    assert!(text.starts_with("+OK\r\n+OK\r\n"));
}

#[test]
fn only_requests_are_answered_and_only_where_wanted() {
    assert_eq!(answer(PLAIN, "PUB a 1\r\nx\r\nPUB a elsewhere 1\r\nx\r\n"), "");
    assert_eq!(answer(r#""no_responders":false"#, "PUB a reply 1\r\nx\r\n"), "");
}

#[test]
fn a_subject_with_an_empty_token_is_answered() {
    let text = answer(PLAIN, "PUB a..b reply 1\r\nx\r\n");
    assert_eq!(text, "HMSG reply 7 36 36\r\nNATS/1.0 503\r\nNats-Subject: a..b\r\n\r\n\r\n");
}

#[test]
fn ones_own_subscription_without_echo_is_nobody() {
    let text = answer(r#""echo":false"#, &("SUB a 1\r\n".to_owned() + &"PUB a reply 1\r\nx\r\n".repeat(3)));
    assert_eq!(text, NOBODY.repeat(3));
    let text = answer(r#""echo":false"#, &("SUB a q 1\r\n".to_owned() + &"PUB a reply 1\r\nx\r\n".repeat(3)));
    assert_eq!(text, NOBODY.repeat(3));
}

#[test]
fn a_queue_subscription_on_the_reply_gets_no_503() {
    let net = Net::new();
    let mut peer = net.peer_as(0, ON);
    peer.send("SUB reply q 1\r\nPUB a reply 0\r\n\r\nPING\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "PONG\r\n");
}

#[test]
fn the_503_goes_to_the_publisher_only() {
    let net = Net::new();
    let (mut other, mut peer) = (net.peer_as(0, ON), net.peer_as(0, ON));
    other.send("SUB reply 1\r\n");
    peer.send("SUB reply 7\r\nPUB a reply 0\r\n\r\n");
    net.flush(0);
    assert_eq!((other.received().as_str(), peer.received().as_str()), ("", NOBODY));
}

#[test]
fn a_listener_of_the_other_shard_is_somebody() {
    let net = Net::new();
    let (mut other, mut peer) = (net.peer(1), net.peer_as(0, ON));
    peer.send("SUB reply 7\r\n");
    let request = |peer: &mut Peer| {
        peer.send("PUB a reply 0\r\n\r\n");
        net.flush_all();
        peer.received()
    };
    assert_eq!(request(&mut peer), NOBODY);
    other.send("SUB a 1\r\n");
    assert_eq!(request(&mut peer), "");
    assert_eq!(other.received(), "MSG a 1 reply 0\r\n\r\n");
    other.send("UNSUB 1\r\n");
    assert_eq!(request(&mut peer), NOBODY);
    other.send("SUB a q 2\r\n");
    assert_eq!(request(&mut peer), "");
    other.leave();
    assert_eq!(request(&mut peer), NOBODY);
}

#[test]
fn a_503_does_not_count() {
    let net = Net::new();
    let mut peer = net.peer_as(0, ON);
    peer.send("SUB reply 7\r\nUNSUB 7 1\r\nPUB a reply 0\r\n\r\nPUB a reply 0\r\n\r\nPUB reply 1\r\nx\r\n");
    peer.send("PUB reply 1\r\nx\r\n");
    net.flush(0);
    assert_eq!(peer.received(), NOBODY.repeat(2) + "MSG reply 7 1\r\nx\r\n");
    assert_eq!(peer.conn().sent(), (1, 1));
}
