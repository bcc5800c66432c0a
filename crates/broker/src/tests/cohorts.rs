//! Receivers that share blocks, and what else they get in between.

use super::net::{Net, Peer, assert_idle};

/// Two receivers of `a` with equal sids, and a publisher whose shard knows it.
fn pair(net: &Net) -> (Peer, Peer, Peer) {
    let (mut left, mut right, mut publisher) = (net.peer(0), net.peer(1), net.peer(0));
    left.send("SUB a 1\r\n");
    right.send("SUB a 1\r\n");
    publisher.warm_up("a", &[&left, &right]);
    (left, right, publisher)
}

#[test]
fn receivers_of_equal_frames_share_one_block() {
    let net = Net::new();
    let (left, right, mut publisher) = pair(&net);
    publisher.publish("a", "1");
    publisher.publish("a", "2");
    net.flush(0);
    assert_eq!(left.sink.slices().len(), 1);
    assert_eq!(left.sink.slices(), right.sink.slices(), "the same memory");
    for peer in [&left, &right] {
        assert_eq!(peer.received(), "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\n");
    }
    assert_idle(&net, &[&left, &right, &publisher]);
}

#[test]
fn different_sids_are_not_shared() {
    let net = Net::new();
    let (mut left, mut right, mut publisher) = (net.peer(0), net.peer(0), net.peer(0));
    left.send("SUB a 1\r\n");
    right.send("SUB a 2\r\n");
    publisher.warm_up("a", &[&left, &right]);
    publisher.publish("a", "x");
    net.flush(0);
    assert_eq!(left.received(), "MSG a 1 1\r\nx\r\n");
    assert_eq!(right.received(), "MSG a 2 1\r\nx\r\n");
}

#[test]
fn a_run_over_several_subjects_with_a_sid_each_fills_one_block() {
    let net = Net::new();
    let (mut left, mut right, mut publisher) = pair(&net);
    for peer in [&mut left, &mut right] {
        peer.send("SUB b 2\r\n");
    }
    publisher.warm_up("b", &[&left, &right]);
    publisher.warm_up("a", &[&left, &right]);
    for subject in ["a", "b", "a"] {
        publisher.publish(subject, subject);
    }
    net.flush(0);
    assert_eq!(left.sink.slices().len(), 1);
    assert_eq!(left.sink.slices(), right.sink.slices());
    for peer in [&left, &right] {
        assert_eq!(peer.received(), "MSG a 1 1\r\na\r\nMSG b 2 1\r\nb\r\nMSG a 1 1\r\na\r\n");
    }
}

#[test]
fn a_message_of_ones_own_keeps_its_place() {
    let net = Net::new();
    let (mut left, right, mut publisher) = pair(&net);
    left.send("SUB only.left 2\r\n");
    publisher.warm_up("only.left", &[&left]);
    publisher.warm_up("a", &[&left, &right]);
    for (subject, payload) in [("a", "1"), ("only.left", "2"), ("a", "3"), ("only.left", "4")] {
        publisher.publish(subject, payload);
    }
    net.flush(0);
    let own = |n| format!("MSG only.left 2 1\r\n{n}\r\n");
    let shared = |n| format!("MSG a 1 1\r\n{n}\r\n");
    assert_eq!(left.received(), shared(1) + &own(2) + &shared(3) + &own(4));
    assert_eq!(right.received(), shared(1) + &shared(3));
}

#[test]
fn answers_keep_their_place() {
    let net = Net::new();
    let (mut left, right, mut publisher) = pair(&net);
    publisher.publish("a", "1");
    left.send("PING\r\n");
    publisher.publish("a", "2");
    left.send("SUB b..b 2\r\n");
    publisher.publish("a", "3");
    net.flush(0);
    let shared = |n| format!("MSG a 1 1\r\n{n}\r\n");
    assert_eq!(
        left.received(),
        shared(1) + "PONG\r\n" + &shared(2) + "-ERR 'Invalid Subject'\r\n" + &shared(3)
    );
    assert_eq!(right.received(), shared(1) + &shared(2) + &shared(3));
}

fn sid_of(subject: &str) -> u32 {
    match subject {
        "l" => 1,
        "r" => 2,
        _ => 9,
    }
}

#[test]
fn a_connection_may_be_in_several_cohorts() {
    let net = Net::new();
    let (mut left, mut both, mut right, mut publisher) = (net.peer(0), net.peer(1), net.peer(0), net.peer(0));
    left.send("SUB l 1\r\nSUB all 9\r\n");
    both.send("SUB l 1\r\nSUB r 2\r\nSUB all 9\r\n");
    right.send("SUB r 2\r\nSUB all 9\r\n");
    publisher.warm_up("l", &[&left, &both]);
    publisher.warm_up("r", &[&right, &both]);
    publisher.warm_up("all", &[&left, &both, &right]);
    let sequence = ["l", "r", "all", "r", "l", "l", "all", "all", "r"];
    for (n, subject) in sequence.iter().enumerate() {
        publisher.publish(subject, &n.to_string());
    }
    net.flush(0);
    for (peer, listens) in [(&left, &["l", "all"][..]), (&both, &["l", "r", "all"]), (&right, &["r", "all"])]
    {
        let expected: String = sequence
            .iter()
            .enumerate()
            .filter(|(_, subject)| listens.contains(subject))
            .map(|(n, subject)| format!("MSG {subject} {} 1\r\n{n}\r\n", sid_of(subject)))
            .collect();
        assert_eq!(peer.received(), expected);
    }
}

#[test]
fn a_member_that_subscribes_twice_gets_both_frames() {
    let net = Net::new();
    let (mut left, right, mut publisher) = pair(&net);
    left.send("SUB * 2\r\n");
    for _ in 0..3 {
        publisher.publish("a", "x");
    }
    net.flush(0);
    let text = left.received();
    assert_eq!(text.matches("MSG a 1 1\r\nx\r\n").count(), 3);
    assert_eq!(text.matches("MSG a 2 1\r\nx\r\n").count(), 3);
    assert_eq!(right.received(), "MSG a 1 1\r\nx\r\n".repeat(3));
}

#[test]
fn long_runs_are_handed_over_in_blocks_of_64_kib() {
    let net = Net::new();
    let (left, right, mut publisher) = pair(&net);
    let payload = |n: usize| format!("{n:04}").repeat(256);
    for n in 0..200 {
        publisher.publish("a", &payload(n));
    }
    net.flush(0);
    assert_eq!(left.sink.slices(), right.sink.slices());
    let blocks = left.sink.slices();
    assert!((3..=5).contains(&blocks.len()), "{} blocks", blocks.len());
    assert!(blocks.iter().all(|(_, len)| *len < 66 * 1024));
    let expected: String = (0..200).map(|n| format!("MSG a 1 1024\r\n{}\r\n", payload(n))).collect();
    assert!(left.received() == expected && right.received() == expected);
    assert_idle(&net, &[&left, &right, &publisher]);
}

#[test]
fn a_payload_too_large_to_copy_keeps_its_place() {
    let net = Net::new();
    let (left, right, mut publisher) = pair(&net);
    let large = "y".repeat(40 * 1024);
    for payload in ["1", &large, "2", &large, "3"] {
        publisher.publish("a", payload);
    }
    net.flush(0);
    let expected: String = ["1", &large, "2", &large, "3"]
        .iter()
        .map(|payload| format!("MSG a 1 {}\r\n{payload}\r\n", payload.len()))
        .collect();
    let (left_slices, right_slices) = (left.sink.slices(), right.sink.slices());
    let shared = left_slices.iter().filter(|slice| right_slices.contains(slice)).map(|(_, len)| len);
    assert!(shared.sum::<usize>() > 2 * large.len(), "the large payloads are not copied");
    assert!(left.received() == expected && right.received() == expected);
}

#[test]
fn a_member_that_unsubscribes_in_mid_block_has_what_came_before() {
    let net = Net::new();
    let (mut left, right, mut publisher) = pair(&net);
    publisher.publish("a", "1");
    left.send("UNSUB 1\r\n");
    publisher.publish("a", "2");
    net.flush(0);
    assert_eq!(left.received(), "MSG a 1 1\r\n1\r\n");
    assert_eq!(right.received(), "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\n");
}

#[test]
fn a_member_that_ends_in_mid_block_disturbs_nobody() {
    let net = Net::new();
    let (mut left, right, mut publisher) = pair(&net);
    publisher.publish("a", "1");
    left.leave();
    publisher.publish("a", "2");
    net.flush(0);
    assert_eq!(right.received(), "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\n");
    // A newcomer may take the slot of the one that left.
    let mut newcomer = net.peer(0);
    newcomer.send("SUB a 1\r\n");
    for n in ["3", "4", "5"] {
        publisher.publish("a", n);
    }
    net.flush(0);
    let expected: String = [3, 4, 5].map(|n| format!("MSG a 1 1\r\n{n}\r\n")).concat();
    assert_eq!(right.received(), expected);
    assert_eq!(newcomer.received(), expected);
    assert_idle(&net, &[&left, &right, &newcomer]);
}
