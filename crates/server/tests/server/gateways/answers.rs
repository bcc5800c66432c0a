//! Answers that come back under a mapped subject.

use super::{Site, joined, login, pairs, routed};
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{MIXES, free_port};

#[test]
fn a_queue_group_of_requesters_gets_answers_of_another_cluster() {
    for [one, two] in pairs("") {
        for (here, there) in [(&one, &two), (&two, &one)] {
            let (mut a, mut b) = (here.client(), there.client());
            b.subscribe("ask", 1);
            joined(&mut a, &mut b);
            a.send("SUB answers.* group 5\r\nPUB ask answers.1 1\r\n?\r\n");
            let request = b.message();
            assert_eq!(request.reply.as_deref(), Some("answers.1"), "a client sees no mapping");
            b.send("HPUB answers.1 more 12 13\r\nNATS/1.0\r\n\r\n!\r\n");
            let answer = a.message();
            assert_eq!((answer.sid.as_str(), answer.reply.as_deref()), ("5", Some("more")));
        }
    }
}

#[test]
fn answers_find_the_server_that_asked_within_its_cluster() {
    for kinds in MIXES {
        let (ports, routes) = ([free_port(), free_port(), free_port()], [free_port(), free_port()]);
        let remote = [("B", ports[2])];
        // Only the first server is dialled by the other cluster.
        let first = Site::start(kinds[0], ("A1", "A", ports[0]), &remote, "", &routed(routes[0], routes[1]));
        let second = Site::start(kinds[0], ("A2", "A", ports[1]), &remote, "", &routed(routes[1], routes[0]));
        let far = Site::start(kinds[1], ("B1", "B", ports[2]), &[("A", ports[0])], "", "");
        let (Some(first), Some(second), Some(far)) = (first, second, far) else { continue };
        let (mut a1, mut a2, mut b) = (first.client(), second.client(), far.client());
        b.subscribe("ask", 1);
        for a in [&mut a1, &mut a2] {
            joined(a, &mut b);
        }
        for turn in 0..20 {
            for (at, a) in [&mut a1, &mut a2].into_iter().enumerate() {
                let inbox = format!("inbox.{at}.{turn}");
                a.send(&format!("SUB {inbox} 7\r\nPUB ask {inbox} 1\r\n?\r\n"));
                let reply = b.message().reply.expect("a request has a reply");
                b.publish(&reply, "!");
                assert_eq!(a.message().text(), "!");
                a.send("UNSUB 7\r\n");
            }
        }
        for client in [&mut a1, &mut a2] {
            assert!(client.barrier().is_empty(), "each answer once, to whoever has asked");
        }
    }
}

const RESPONDER: &str = r#"authorization { users: [
  {user: c, password: c}
  {user: s, password: s, permissions: {publish: {allow: ["none"]}, subscribe: ">", allow_responses: true}} ] }"#;

/// A right to answer is one for each request: it is used once, wherever the answer goes.
#[test]
fn who_may_only_answer_answers_both_clusters() {
    for [one, two] in pairs(RESPONDER) {
        for (here, there) in [(&one, &two), (&two, &one)] {
            let (mut far, mut near, mut serves) = (login("c", here), login("c", there), login("s", there));
            serves.subscribe("ask", 1);
            joined(&mut far, &mut near);
            for turn in 0..6 {
                let asks = if turn % 3 == 0 { &mut far } else { &mut near };
                asks.send(&format!("SUB inbox.{turn} 3\r\nPUB ask inbox.{turn} 1\r\n?\r\n"));
                let reply = serves.message().reply.expect("a request has a reply");
                serves.publish(&reply, "!");
                let answer = asks.message();
                assert_eq!((answer.subject.as_str(), answer.text()), (&*format!("inbox.{turn}"), "!"));
                asks.send("UNSUB 3\r\n");
            }
        }
    }
}

const ACCOUNTS: &str = r#"accounts {
  X { users: [{user: x, password: x}], exports: [{service: "svc.>"}] }
  Y { users: [{user: y, password: y}], imports: [{service: {account: X, subject: "svc.>"}, to: "my.>"}] } }"#;

/// Asks a service, imported as `my`, so many times, and has it answer each time.
pub(super) fn imported_answers(asks: &mut Raw, serves: &mut Raw, turns: usize) {
    for turn in 0..turns {
        asks.send(&format!("SUB inbox.{turn} 3\r\nPUB my.a inbox.{turn} 1\r\n?\r\n"));
        let request = serves.message();
        assert_eq!(request.subject, "svc.a");
        serves.publish(&request.reply.expect("a request has a reply"), "!");
        let answer = asks.message();
        assert_eq!((answer.subject.as_str(), answer.text()), (&*format!("inbox.{turn}"), "!"));
        asks.send("UNSUB 3\r\n");
    }
}

#[test]
fn a_service_of_another_account_answers_from_another_cluster() {
    for [one, two] in pairs(ACCOUNTS) {
        for (here, there) in [(&one, &two), (&two, &one)] {
            let (mut asks, mut serves, mut probe) = (login("y", here), login("x", there), login("x", here));
            serves.subscribe("svc.>", 1);
            joined(&mut probe, &mut serves);
            imported_answers(&mut asks, &mut serves, 10);
        }
    }
}

#[test]
fn an_answer_after_two_seconds_follows_its_interest() {
    for [one, two] in pairs("") {
        let (mut a, mut b) = (one.client(), two.client());
        b.subscribe("ask", 1);
        joined(&mut a, &mut b);
        a.send("SUB inbox.> 1\r\nPUB ask inbox.1 1\r\n?\r\n");
        b.message();
        let begin = std::time::Instant::now();
        eventually("the mapping is over", || begin.elapsed() > std::time::Duration::from_millis(2200));
        b.publish("inbox.1", "late");
        assert_eq!(a.message().text(), "late");
        a.publish("ask", "no reply");
        b.message();
        a.send("PUB ask inbox.2 1\r\n?\r\n");
        assert_eq!(b.message().reply.as_deref(), Some("inbox.2"));
        b.publish("inbox.2", "!");
        assert_eq!(a.message().text(), "!");
    }
}
