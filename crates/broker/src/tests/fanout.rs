//! Receivers of a message and the form in which each gets it: echo, verbose answers, headers,
//! subjects that nobody may use.

use super::net::{Net, assert_idle};

#[test]
fn without_echo_the_publisher_gets_nothing_of_its_own() {
    let net = Net::new();
    let mut peer = net.peer_as(0, r#""echo":false"#);
    peer.send("SUB a 1\r\nSUB a q 2\r\n");
    for _ in 0..3 {
        peer.publish("a", "x");
    }
    peer.send("PING\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "PONG\r\n");
}

#[test]
fn without_echo_the_others_of_a_cohort_still_get_it() {
    let net = Net::new();
    let (mut left, mut right, mut third) = (net.peer_as(0, r#""echo":false"#), net.peer(0), net.peer(1));
    for peer in [&mut left, &mut right, &mut third] {
        peer.send("SUB a 1\r\n");
    }
    let mut stranger = net.peer(0);
    stranger.warm_up("a", &[&left, &right, &third]);
    right.publish("a", "1");
    left.publish("a", "2");
    right.publish("a", "3");
    net.flush(0);
    let frame = |n| format!("MSG a 1 1\r\n{n}\r\n");
    assert_eq!(left.received(), frame(1) + &frame(3));
    for peer in [&right, &third] {
        assert_eq!(peer.received(), frame(1) + &frame(2) + &frame(3));
    }
    assert_eq!(left.conn().subscriptions()[0].delivered(), 4, "two to warm up, two of the others'");
}

#[test]
fn echo_is_the_default() {
    let net = Net::new();
    let mut peer = net.peer(0);
    peer.send("SUB a 1\r\nPUB a 1\r\nx\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "MSG a 1 1\r\nx\r\n");
}

#[test]
fn ok_comes_before_ones_own_message() {
    let net = Net::new();
    let mut peer = net.peer_as(0, r#""verbose":true"#);
    peer.send("SUB a 1\r\nPUB a 1\r\nx\r\nPING\r\nSUB a 1\r\nUNSUB 7\r\nUNSUB 1\r\nPUB a 0\r\n\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "+OK\r\n+OK\r\nMSG a 1 1\r\nx\r\nPONG\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
}

#[test]
fn a_pedantic_error_comes_before_ok_and_stops_nothing() {
    let net = Net::new();
    let mut peer = net.peer_as(0, r#""verbose":true,"pedantic":true"#);
    peer.send("SUB a.* 1\r\nPUB a.* 1\r\nx\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "+OK\r\n-ERR 'Invalid Publish Subject'\r\n+OK\r\nMSG a.* 1 1\r\nx\r\n");
}

#[test]
fn a_subject_with_an_empty_token_reaches_nobody() {
    let net = Net::new();
    let mut peer = net.peer(0);
    peer.send("SUB > 1\r\nPUB a..b 1\r\nx\r\nPUB .a 1\r\nx\r\nPUB a. 1\r\nx\r\nPING\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "PONG\r\n");
}

#[test]
fn odd_spacing_is_rendered_anew_and_digits_are_repeated() {
    let net = Net::new();
    let mut peer = net.peer(0);
    peer.send(
        "SUB > 1\r\nPUB  a \t r   1 \r\nx\r\npub b 02\nhi\r\nHPUB  c  r 012   014\r\nNATS/1.0\r\n\r\nhi\r\n",
    );
    net.flush(0);
    assert_eq!(
        peer.received(),
        "MSG a 1 r 1\r\nx\r\nMSG b 1 02\r\nhi\r\nHMSG c 1 r 012 014\r\nNATS/1.0\r\n\r\nhi\r\n"
    );
}

#[test]
fn headers_are_stripped_for_clients_without() {
    let net = Net::new();
    let (mut with, mut without, mut publisher) =
        (net.peer(0), net.peer_as(1, r#""headers":false"#), net.peer(0));
    for peer in [&mut with, &mut without] {
        peer.send("SUB a 1\r\n");
    }
    for _ in 0..3 {
        publisher.send("HPUB a r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n");
    }
    publisher.send("HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\nHPUB a 0 2\r\nhi\r\n");
    net.flush(0);
    let whole = "HMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n".repeat(3);
    assert_eq!(with.received(), whole + "HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\nMSG a 1 2\r\nhi\r\n");
    let stripped = "MSG a 1 r 2\r\nhi\r\n".repeat(3);
    assert_eq!(without.received(), stripped + "MSG a 1 0\r\n\r\nMSG a 1 2\r\nhi\r\n");
    assert_eq!((with.conn().sent(), without.conn().sent()), ((5, 56), (5, 8)), "payload bytes as delivered");
}

#[test]
fn cohorts_with_and_without_headers_are_apart() {
    let net = Net::new();
    let modern = [net.peer(0), net.peer(0)];
    let old = [(); 2].map(|()| net.peer_as(0, r#""headers":false"#));
    let mut publisher = net.peer(0);
    let mut all: Vec<_> = modern.into_iter().chain(old).collect();
    for peer in &mut all {
        peer.send("SUB a 1\r\n");
    }
    publisher.warm_up("a", &all.iter().collect::<Vec<_>>());
    publisher.send("HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPUB a 1\r\nx\r\n");
    net.flush(0);
    assert_eq!(all[0].sink.slices(), all[1].sink.slices());
    assert_eq!(all[2].sink.slices(), all[3].sink.slices());
    for (i, peer) in all.iter().enumerate() {
        let first = if i < 2 { "HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n" } else { "MSG a 1 2\r\nhi\r\n" };
        assert_eq!(peer.received(), format!("{first}MSG a 1 1\r\nx\r\n"));
    }
}

#[test]
fn reserved_subjects_and_replies_are_refused() {
    let net = Net::new();
    let mut peer = net.peer_as(0, r#""verbose":true"#);
    peer.send("SUB > 1\r\n");
    net.flush(0);
    peer.received();
    for subject in ["$GR.x", "_GR_.x", "$NRG.x"] {
        // Twice and more: the answer of a cached route is the same.
        for _ in 0..3 {
            peer.publish(subject, "x");
            net.flush(0);
            assert_eq!(
                peer.received(),
                format!("-ERR 'Permissions Violation for Publish to \"{subject}\"'\r\n")
            );
        }
    }
    for reply in ["_R_.x", "$JS.ACK.x", "_GR_.x", "$GR.x"] {
        peer.send(format!("PUB a {reply} 0\r\n\r\n"));
        net.flush(0);
        let text = "Permissions Violation for Publish with Reply of";
        assert_eq!(peer.received(), format!("-ERR '{text} \"{reply}\"'\r\n"));
    }
    for line in ["_R_.x", "$JS.ACK.x", "_GR_", "$GR", "a $NRG.x", "a _R_", "$SYS.x"] {
        peer.send(format!("PUB {line} 0\r\n\r\n"));
        net.flush(0);
        assert!(peer.received().starts_with("+OK\r\nMSG "), "{line}");
    }
}

#[test]
fn a_duplicate_sid_is_ignored() {
    let net = Net::new();
    let mut peer = net.peer(0);
    peer.send("SUB a 1\r\nSUB b 1\r\nPUB a 1\r\n1\r\nPUB b 1\r\n2\r\nUNSUB 1\r\nSUB b 1\r\nPUB b 1\r\n3\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "MSG a 1 1\r\n1\r\nMSG b 1 1\r\n3\r\n");
}

#[test]
fn a_second_connect_drops_all_subscriptions() {
    let net = Net::new();
    let (mut peer, mut other) = (net.peer(0), net.peer(1));
    peer.send("SUB a 1\r\nSUB a q 2\r\n");
    other.send("SUB a 1\r\n");
    let mut publisher = net.peer(1);
    publisher.warm_up("a", &[&peer, &other]);
    peer.connect(r#""name":"again""#);
    assert_eq!(peer.conn().subscription_count(), 0);
    publisher.publish("a", "1");
    // The sids are free again.
    peer.send("SUB a 1\r\n");
    publisher.publish("a", "2");
    net.flush_all();
    assert_eq!(peer.received(), "MSG a 1 1\r\n2\r\n");
    assert_eq!(other.received(), "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\n");
}

#[test]
fn subscriptions_from_before_the_first_connect_stay() {
    let net = Net::new();
    let (mut early, mut publisher) = (net.stranger(0), net.peer(0));
    early.send("SUB a 1\r\n");
    early.connect(r#""name":"late""#);
    publisher.publish("a", "x");
    net.flush(0);
    assert_eq!(early.received(), "+OK\r\nMSG a 1 1\r\nx\r\n");
}

#[test]
fn what_a_late_connect_says_of_headers_holds_for_earlier_subscriptions() {
    let net = Net::new();
    let (mut early, mut other, mut publisher) = (net.stranger(0), net.stranger(1), net.peer(0));
    for peer in [&mut early, &mut other] {
        peer.send("SUB a 1\r\n");
    }
    net.flush_all();
    publisher.warm_up("a", &[&early, &other]);
    early.connect(r#""name":"late""#);
    publisher.send("HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n");
    net.flush_all();
    assert_eq!(early.received(), "HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n");
    assert_eq!(other.received(), "MSG a 1 2\r\nhi\r\n");
}

#[test]
fn a_large_message_for_many_is_copied_once() {
    let net = Net::new();
    let payload = "z".repeat(6000);
    let mut many: Vec<_> = (0..20).map(|n| (n, net.peer(n % 2))).collect();
    for (n, peer) in &mut many {
        peer.send(format!("SUB a {n}\r\n"));
    }
    let mut publisher = net.peer(0);
    publisher.publish("a", &payload);
    net.flush(0);
    let first = many[0].1.sink.slices();
    for (n, peer) in &many {
        assert_eq!(peer.sink.slices().last(), first.last(), "the same memory");
        assert!(peer.received() == format!("MSG a {n} 6000\r\n{payload}\r\n"));
    }
    assert_idle(&net, &many.iter().map(|(_, peer)| peer).collect::<Vec<_>>());
}
