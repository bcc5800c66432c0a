//! Answers that come back under a mapped subject.

use super::{Site, joined, login, pairs, routed};
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{MIXES, Ours, free_port, wait_for_interest};
use serde_json::Value;

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

const MEASURED: &str = r#"accounts {
  X { users: [{user: x, password: x}], exports: [{service: "svc.>", latency: {sampling: 100%, subject: lat}}] }
  Y { users: [{user: y, password: y}], imports: [{service: {account: X, subject: "svc.a"}}] } }"#;

/// Asks a service that is measured, and looks at the report: `there` answers, and says so.
fn measured(here: &Site, there: &Site, name: &str) {
    let (mut asks, mut serves) = (login("y", here), login("x", there));
    let (mut listens, mut probe) = (login("x", there), login("x", here));
    serves.subscribe("svc.a", 1);
    listens.subscribe("lat", 2);
    asks.subscribe("inbox", 1);
    asks.barrier();
    joined(&mut probe, &mut serves);
    wait_for_interest(&mut probe, &mut listens);
    // What may ask for a trace takes another way.
    let headers = "NATS/1.0\r\nNats-Trace-Dest: trace\r\n\r\n";
    let traced = format!("HPUB svc.a inbox {} {}\r\n{headers}?\r\n", headers.len(), headers.len() + 1);
    for request in ["PUB svc.a inbox 1\r\n?\r\n", &traced] {
        asks.send(request);
        let reply = serves.message().reply.expect("a request has a reply");
        assert!(reply.ends_with(".T"), "{reply}");
        serves.publish(&reply, "!");
        assert_eq!(asks.message().text(), "!");
        let report: Value = serde_json::from_slice(&listens.message().body).expect("JSON");
        let shown = |part: &str, field: &str| report[part][field].as_str().unwrap_or_default().to_owned();
        let seen = [shown("responder", "user"), shown("responder", "server"), shown("requestor", "acc")];
        assert_eq!(seen, ["x", name, "Y"], "{report}");
        let time = |field: &str| report[field].as_i64().expect("nanoseconds");
        assert!(time("total") >= time("service") + time("system"), "{report}");
    }
    assert!(listens.barrier().is_empty(), "one report for each");
}

#[test]
fn a_latency_is_measured_in_both_clusters() {
    for [one, two] in pairs(MEASURED) {
        measured(&one, &two, "B1");
        measured(&two, &one, "A1");
    }
}

/// Requests and answers cross a gateway, and a route within the cluster of one side.
#[test]
fn a_latency_is_measured_behind_the_server_with_the_gateway() {
    for kinds in MIXES {
        let (ports, routes) = ([free_port(), free_port(), free_port()], [free_port(), free_port()]);
        let (to_a, to_b) = ([("A", ports[0])], [("B", ports[2])]);
        let more = |own, other| format!("{}\n{MEASURED}", routed(own, other));
        let first = Site::start(kinds[0], ("A1", "A", ports[0]), &to_b, "", &more(routes[0], routes[1]));
        let second = Site::start(kinds[1], ("A2", "A", ports[1]), &to_b, "", &more(routes[1], routes[0]));
        let far = Site::start(Ours, ("B1", "B", ports[2]), &to_a, "", MEASURED);
        let (Some(first), Some(second), Some(far)) = (first, second, far) else { continue };
        joined(&mut login("x", &first), &mut login("x", &second));
        for (site, name) in [(&first, "A1"), (&second, "A2")] {
            measured(&far, site, name);
            measured(site, &far, "B1");
        }
    }
}

/// An answer of a service is for the account that has asked: who else listens to it in another
/// cluster does not get it.
#[test]
fn an_answer_of_a_service_does_not_go_on_to_other_clusters() {
    for [one, two] in pairs(ACCOUNTS) {
        for (here, there) in [(&one, &two), (&two, &one)] {
            let (mut asks, mut serves, mut near) = (login("y", here), login("x", there), login("x", here));
            let mut far = login("x", there);
            serves.subscribe("svc.>", 1);
            near.subscribe("_R_.>", 2);
            far.send("SUB _R_.> 2\r\nSUB end 3\r\n");
            joined(&mut near, &mut serves);
            joined(&mut near, &mut far);
            imported_answers(&mut asks, &mut serves, 3);
            let answers: Vec<_> = (0..3).map(|_| near.message().text().to_owned()).collect();
            assert_eq!(answers, ["!"; 3]);
            // What went back would come ahead of this.
            near.publish("end", "");
            assert_eq!(far.message().subject, "end");
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
