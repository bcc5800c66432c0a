//! Permissions at publish and at delivery, answers that are allowed, and accounts.

use super::net::{Net, Peer, login, permissions, user};
use myelin_auth::{Permissions, ResponseRule};
use myelin_wire::error::CloseReason;
use std::num::NonZeroU32;
use std::time::Duration;

const ANY: [&[&str]; 2] = [&[], &[]];

/// Everybody in the global account: `root` may do everything, `ann` what `limited` says.
fn with_ann(limited: Option<Permissions>) -> Net {
    Net::with(|setup| setup.users([user("root", "$G", None), user("ann", "$G", limited)]))
}

fn violation(subject: &str) -> String {
    format!("-ERR 'Permissions Violation for Publish to \"{subject}\"'\r\n")
}

#[test]
fn a_denied_publish_reaches_nobody() {
    let net = with_ann(permissions([&["ok.>"], &["ok.not"]], ANY, None));
    let (mut ann, mut root) = (net.peer_as(0, &login("ann")), net.peer_as(0, &login("root")));
    root.send("SUB > 1\r\n");
    for subject in ["ok.a", "ok.not", "other"] {
        // The route of `root` must not serve `ann`, nor the other way round.
        for _ in 0..3 {
            root.publish(subject, "r");
            ann.publish(subject, "a");
        }
        net.flush(0);
        let (allowed, text) = (subject == "ok.a", root.received());
        assert_eq!(text.matches("\r\nr\r\n").count(), 3, "{subject}");
        assert_eq!(text.matches("\r\na\r\n").count(), if allowed { 3 } else { 0 }, "{subject}");
        assert_eq!(ann.received(), if allowed { String::new() } else { violation(subject).repeat(3) });
    }
}

#[test]
fn a_denied_publish_is_not_confirmed_and_gets_no_503() {
    let net = with_ann(permissions([&[], &["no"]], ANY, None));
    let fields = format!(r#""verbose":true,"no_responders":true,{}"#, login("ann"));
    let mut ann = net.peer_as(0, &fields);
    ann.send("SUB reply 1\r\nPUB no reply 0\r\n\r\n");
    net.flush(0);
    assert_eq!(ann.received(), "+OK\r\n".to_owned() + &violation("no"));
}

#[test]
fn a_denied_subscription_is_refused() {
    let net = with_ann(permissions(ANY, [&[], &["no", "half q"]], None));
    let mut ann = net.peer_as(0, &login("ann"));
    ann.send("SUB no 1\r\nSUB half q 2\r\nSUB half p 3\r\nSUB half 4\r\nSUB a _sys_ 5\r\n");
    net.flush(0);
    let text = "-ERR 'Permissions Violation for Subscription to";
    assert_eq!(
        ann.received(),
        format!(
            "{text} \"no\"'\r\n{text} \"half\" using queue \"q\"'\r\n{text} \"a\" using queue \"_sys_\"'\r\n"
        )
    );
    assert_eq!(ann.conn().subscription_count(), 2);
}

#[test]
fn a_deny_rule_under_a_wildcard_filters_deliveries() {
    let net = with_ann(permissions(ANY, [&[], &["a.no"]], None));
    let mut peers =
        [net.peer_as(0, &login("ann")), net.peer_as(1, &login("root")), net.peer_as(1, &login("root"))];
    for peer in &mut peers {
        peer.send("SUB a.* 1\r\n");
    }
    let mut publisher = net.peer_as(0, &login("root"));
    for _ in 0..3 {
        publisher.publish("a.no", "x");
        publisher.publish("a.yes", "y");
    }
    net.flush(0);
    assert_eq!(peers[0].received(), "MSG a.yes 1 1\r\ny\r\n".repeat(3));
    for peer in &peers[1..] {
        assert_eq!(peer.received(), "MSG a.no 1 1\r\nx\r\nMSG a.yes 1 1\r\ny\r\n".repeat(3));
    }
}

#[test]
fn a_filtered_queue_member_leaves_the_message_to_the_others() {
    let net = with_ann(permissions(ANY, [&[], &["a.no", "a.half q"]], None));
    let (mut ann, mut root) = (net.peer_as(0, &login("ann")), net.peer_as(0, &login("root")));
    ann.send("SUB a.* q 1\r\n");
    root.send("SUB a.* q 1\r\n");
    for subject in ["a.no", "a.half"] {
        for _ in 0..20 {
            root.publish(subject, "x");
        }
        net.flush(0);
        assert_eq!((ann.received().len(), root.received().matches("MSG").count()), (0, 20), "{subject}");
    }
}

#[test]
fn a_filtered_receiver_is_no_responder() {
    let net = with_ann(permissions(ANY, [&[], &["a.no"]], None));
    let mut ann = net.peer_as(0, &login("ann"));
    ann.send("SUB > 1\r\n");
    let mut root = net.peer_as(0, &format!(r#""no_responders":true,{}"#, login("root")));
    root.send("SUB reply 7\r\nPUB a.no reply 0\r\n\r\n");
    net.flush(0);
    assert!(root.received().starts_with("HMSG reply 7 36 36\r\nNATS/1.0 503\r\n"));
}

/// `ann` listens on `ask` and may answer as the rule says; `root` asks.
fn service(max: Option<u32>, ttl: Option<Duration>) -> (Net, Peer, Peer) {
    let rule = ResponseRule { max: max.and_then(NonZeroU32::new), ttl };
    let net = with_ann(permissions(ANY, ANY, Some(rule)));
    let (mut ann, mut root) = (net.peer_as(0, &login("ann")), net.peer_as(1, &login("root")));
    ann.send("SUB ask 1\r\n");
    root.send("SUB inbox.* 1\r\n");
    (net, ann, root)
}

/// One answer of `ann` to `reply`; whether it was let through.
fn answers(net: &Net, ann: &mut Peer, root: &Peer, reply: &str) -> bool {
    net.flush_all();
    ann.received();
    ann.publish(reply, "x");
    net.flush_all();
    match (root.received().as_str(), ann.received().as_str()) {
        ("", refusal) => {
            assert_eq!(refusal, violation(reply));
            false
        }
        (answer, "") => {
            assert_eq!(answer, format!("MSG {reply} 1 1\r\nx\r\n"));
            true
        }
        both => panic!("{both:?}"),
    }
}

#[test]
fn a_request_may_be_answered_once() {
    let (net, mut ann, mut root) = service(Some(1), None);
    assert!(!answers(&net, &mut ann, &root, "inbox.0"), "nobody asked");
    for reply in ["inbox.1", "inbox.2", "inbox.3"] {
        root.send(format!("PUB ask {reply} 0\r\n\r\n"));
        assert!(answers(&net, &mut ann, &root, reply));
        assert!(!answers(&net, &mut ann, &root, reply), "the answer was given");
    }
}

#[test]
fn the_rule_says_how_often_and_how_long() {
    let (net, mut ann, mut root) = service(Some(3), Some(Duration::from_secs(5)));
    root.send("PUB ask inbox.1 0\r\n\r\n");
    assert!(answers(&net, &mut ann, &root, "inbox.1"));
    net.advance(Duration::from_secs(4));
    assert!(answers(&net, &mut ann, &root, "inbox.1"));
    net.advance(Duration::from_secs(2));
    assert!(!answers(&net, &mut ann, &root, "inbox.1"), "too late");
}

#[test]
fn only_who_was_asked_may_answer() {
    let (net, mut ann, mut root) = service(None, None);
    let mut other = net.peer_as(1, &login("ann"));
    root.send("PUB ask inbox.1 0\r\n\r\n");
    assert!(!answers(&net, &mut other, &root, "inbox.1"));
    for _ in 0..5 {
        assert!(answers(&net, &mut ann, &root, "inbox.1"));
    }
}

#[test]
fn a_second_connect_may_lead_to_another_account() {
    let net = Net::with(|setup| setup.users([user("a", "A", None), user("b", "B", None)]));
    let (mut mover, mut left, mut right) =
        (net.peer_as(0, &login("a")), net.peer_as(1, &login("a")), net.peer_as(1, &login("b")));
    mover.send("SUB x 1\r\n");
    left.publish("x", "1");
    mover.connect(&login("b"));
    left.publish("x", "2");
    mover.send("SUB x 1\r\n");
    left.publish("x", "3");
    right.publish("x", "4");
    net.flush_all();
    assert_eq!(mover.received(), "MSG x 1 1\r\n1\r\nMSG x 1 1\r\n4\r\n");
    let count = |name| net.broker.account(name).unwrap().connections();
    assert_eq!((count("A"), count("B")), (1, 2));
    assert_eq!(mover.conn().details().account, "B");
}

#[test]
fn a_second_connect_changes_permissions() {
    let net = with_ann(permissions([&[], &["a"]], [&[], &["b"]], None));
    let (mut peer, mut root) = (net.peer_as(0, &login("root")), net.peer_as(0, &login("root")));
    root.send("SUB a 1\r\n");
    peer.publish("a", "1");
    peer.connect(&login("ann"));
    peer.send("PUB a 1\r\n2\r\nSUB * 1\r\n");
    root.send("PUB b 1\r\n3\r\nPUB c 1\r\n4\r\n");
    net.flush(0);
    assert_eq!(root.received(), "MSG a 1 1\r\n1\r\n");
    assert_eq!(peer.received(), violation("a") + "MSG c 1 1\r\n4\r\n");
    peer.connect(&login("root"));
    peer.publish("a", "5");
    net.flush(0);
    assert_eq!(root.received(), "MSG a 1 1\r\n5\r\n");
}

#[test]
fn accounts_do_not_hear_each_other() {
    let net = Net::with(|setup| setup.users([user("a", "A", None), user("b", "B", None)]));
    let mut peers = ["a", "b"].map(|name| net.peer_as(0, &login(name)));
    for peer in &mut peers {
        peer.send("SUB x 1\r\nSUB > 2\r\nSUB x q 3\r\n");
    }
    // Equal subjects in turn: the routes of both accounts are in the cache.
    for n in 0..5 {
        for (name, peer) in ["a", "b"].into_iter().zip(&mut peers) {
            peer.publish("x", &format!("{name}{n}"));
        }
    }
    net.flush(0);
    for (name, peer) in ["a", "b"].into_iter().zip(&peers) {
        let text = peer.received();
        let payloads: Vec<&str> = text.lines().skip(1).step_by(2).collect();
        let expected: Vec<String> = (0..15).map(|i| format!("{name}{}", i / 3)).collect();
        assert_eq!(payloads, expected);
    }
}

#[test]
fn the_system_account_may_use_raft_subjects() {
    let net = Net::with(|setup| {
        setup.system_account = Some("SYS".into());
        setup.users([user("s", "SYS", None), user("a", "A", None)]);
    });
    for (name, allowed) in [("s", true), ("a", false)] {
        let mut peer = net.peer_as(0, &login(name));
        peer.send("SUB $NRG.x 1\r\nPUB $NRG.x 0\r\n\r\n");
        net.flush(0);
        let expected = if allowed { "MSG $NRG.x 1 0\r\n\r\n".to_owned() } else { violation("$NRG.x") };
        assert_eq!(peer.received(), expected);
    }
}

#[test]
fn strangers_are_turned_away() {
    let net = with_ann(None);
    for first in
        ["PING\r\n", "CONNECT {\"user\":\"ann\",\"pass\":\"wrong\"}\r\n", "CONNECT {\"user\":\"eve\"}\r\n"]
    {
        let mut peer = net.stranger(0);
        peer.send(first);
        assert_eq!(peer.received(), "-ERR 'Authorization Violation'\r\n");
        assert_eq!(peer.closed, Some(CloseReason::AuthenticationFailure));
        assert_eq!(net.broker.connections().len(), 0);
    }
}
