//! `myelin dlq`, against our server: the reference has no dead letters.

use crate::servers::{Server, beside};
use crate::{PATIENCE, fail, myelin, succeed};
use myelin_loadgen::admin::answered;
use myelin_loadgen::connection::Connection;
use std::time::Instant;

const DEAD: &str = r#"{"name":"DEAD","subjects":["dlq.>"]}"#;
const ORDERS: &str = r#"{"name":"ORDERS","subjects":["o.>"],"retention":"workqueue"}"#;
const BILLING: &str = r#"{"stream_name":"ORDERS","config":{"durable_name":"billing","ack_policy":"explicit",
    "ack_wait":50000000,"max_deliver":1,"metadata":{"myelin.dlq.stream":"DEAD"}}}"#;

#[test]
fn dead_letters_are_listed_shown_changed_and_given_back() {
    let Some(program) = beside() else { return };
    let server = Server::with_streams(&program, &[]);
    let url = server.url();
    let run = |arguments: &[&str]| succeed(&mut myelin(&[arguments, &["-s", &url]].concat()));
    let ask = |what: &str, body: &str| run(&["request", &format!("$JS.API.{what}"), body, "--raw"]);
    ask("STREAM.CREATE.DEAD", DEAD);
    ask("STREAM.CREATE.ORDERS", ORDERS);
    let refused = ask("CONSUMER.DURABLE.CREATE.ORDERS.billing", &BILLING.replace("DEAD", "ORDERS"));
    assert!(refused.contains("a stream does not take its own dead letters"), "{refused}");
    let made = ask("CONSUMER.DURABLE.CREATE.ORDERS.billing", BILLING);
    assert!(!made.contains("error"), "{made}");
    assert_eq!(run(&["dlq", "list", "DEAD"]), "No dead letters\n");

    for (subject, body) in [("o.b", "one"), ("o.a", "two"), ("o.b", "three")] {
        let id = format!("Nats-Msg-Id:{body}");
        run(&["request", subject, body, "--raw", "-H", "Trace:7", "-H", &id]);
    }
    // Deliveries keep their subject, so that the command takes none for its answer.
    let deliver_all = || {
        let next = "$JS.API.CONSUMER.MSG.NEXT.ORDERS.billing";
        fail(&mut myelin(&["request", next, r#"{"batch":3}"#, "--timeout", "1s", "-s", &url]));
    };
    deliver_all();
    let deadline = Instant::now() + PATIENCE;
    let listed = loop {
        let listed = run(&["dlq", "list", "DEAD"]);
        if listed.lines().count() == 3 {
            break listed;
        }
        assert!(Instant::now() < deadline, "{listed}");
    };
    let first = "#1  ORDERS 1 by billing, exhausted after 1 delivery, o.b, 3 B, died ";
    assert!(listed.starts_with(first), "{listed}");
    let shown = run(&["dlq", "show", "DEAD", "2"]);
    assert!(shown.contains("\nTrace: 7\nMyelin-DLQ-Kept-Nats-Msg-Id: two\n"), "{shown}");
    assert!(shown.ends_with("\n\ntwo\n"), "{shown}");

    assert_eq!(run(&["dlq", "edit", "DEAD", "2", "--body", "second"]), "letter 2 is 4 now\n");
    let mut gone = myelin(&["dlq", "show", "DEAD", "2", "-s", &url]);
    assert!(fail(&mut gone).contains("no message found"));
    let mut unsure = myelin(&["dlq", "replay", "DEAD", "-s", &url]);
    assert!(fail(&mut unsure).contains("use --force"));
    let replayed = run(&["dlq", "replay", "DEAD", "--force", "--rate", "1000", "--from-consumer", "billing"]);
    assert_eq!(replayed, "3 messages published again\n");
    assert_eq!(run(&["dlq", "list", "DEAD"]), "No dead letters\n");
    for (seq, data) in [(4, "b25l"), (5, "c2Vjb25k"), (6, "dGhyZWU=")] {
        let message = ask("STREAM.MSG.GET.ORDERS", &format!(r#"{{"seq":{seq}}}"#));
        assert!(message.contains(&format!(r#""data":"{data}""#)), "in their order: {message}");
    }

    // What is no dead letter stays where it is, also when its sequence is named.
    ask("STREAM.CREATE.PLAIN", r#"{"name":"PLAIN","subjects":["p"]}"#);
    for header in ["Trace:7", "Myelin-DLQ-Subject: "] {
        run(&["request", "p", "mine", "--raw", "-H", header]);
    }
    for seq in ["1", "2"] {
        let mut none = myelin(&["dlq", "replay", "PLAIN", seq, "--force", "-s", &url]);
        assert!(fail(&mut none).contains("is no dead letter"));
        let message = ask("STREAM.MSG.GET.PLAIN", &format!(r#"{{"seq":{seq}}}"#));
        assert!(message.contains(r#""data":"bWluZQ==""#), "{message}");
    }

    deliver_all();
    let deadline = Instant::now() + PATIENCE;
    while run(&["dlq", "list", "DEAD", "--json"]).lines().count() < 3 {
        assert!(Instant::now() < deadline, "they die again");
    }
    let purged = run(&["dlq", "purge", "DEAD", "--force", "--reason", "terminated"]);
    assert_eq!(purged, "0 letters removed from stream DEAD\n");
    assert_eq!(run(&["dlq", "purge", "DEAD", "--force"]), "3 letters removed from stream DEAD\n");
}

#[test]
fn forged_letters_are_passed_over_and_what_is_no_letter_stays() {
    let Some(program) = beside() else { return };
    let server = Server::with_streams(&program, &[]);
    let url = server.url();
    let run = |arguments: &[&str]| succeed(&mut myelin(&[arguments, &["-s", &url]].concat()));
    run(&["request", "$JS.API.STREAM.CREATE.DEAD", DEAD, "--raw"]);
    run(&["request", "$JS.API.STREAM.CREATE.ORDERS", ORDERS, "--raw"]);
    for (n, subject) in (1..).zip(["o.a", "$JS.DLQ.S.c.1.7", "o.b"]) {
        let sequence = format!("Myelin-DLQ-Sequence:{n}");
        let subject = format!("Myelin-DLQ-Subject:{subject}");
        run(&["request", &format!("dlq.{n}"), "body", "--raw", "-H", &sequence, "-H", &subject]);
    }
    let said = fail(&mut myelin(&["dlq", "replay", "DEAD", "--force", "-s", &url]));
    assert!(said.contains("letter 2 is passed over: $JS.DLQ.S.c.1.7 is no subject of a message"), "{said}");
    assert!(said.contains("published again: 2, passed over: 1"), "{said}");
    let stored = run(&["request", "$JS.API.STREAM.MSG.GET.ORDERS", r#"{"seq":2}"#, "--raw"]);
    assert!(stored.contains(r#""subject":"o.b""#), "{stored}");
    assert!(run(&["dlq", "list", "DEAD"]).starts_with("#2 "));

    run(&["request", "dlq.4", "mine", "--raw"]);
    assert_eq!(run(&["dlq", "purge", "DEAD", "--force"]), "1 letter removed from stream DEAD\n");
    assert_eq!(run(&["dlq", "purge", "DEAD", "--force"]), "0 letters removed from stream DEAD\n");
    let left = run(&["request", "$JS.API.STREAM.MSG.GET.DEAD", r#"{"seq":4}"#, "--raw"]);
    assert!(left.contains(r#""data":"bWluZQ==""#), "{left}");
}

/// A message that just fits has no room for the id of a replay, and one that is larger than is
/// taken now keeps nobody from those behind it.
#[test]
fn letters_that_are_too_large_stop_no_replay() {
    const LARGEST: usize = 1024 * 1024;
    let Some(program) = beside() else { return };
    let server = Server::with_streams(&program, &[]);
    let url = server.url();
    let run = |arguments: &[&str]| succeed(&mut myelin(&[arguments, &["-s", &url]].concat()));
    let ask = |what: &str, body: &str| run(&["request", &format!("$JS.API.{what}"), body, "--raw"]);
    ask("STREAM.CREATE.DEAD", DEAD);
    ask("STREAM.CREATE.ORDERS", ORDERS);
    ask("STREAM.CREATE.SMALL", r#"{"name":"SMALL","subjects":["s.>"],"max_msg_size":100}"#);
    let made = ask("CONSUMER.DURABLE.CREATE.ORDERS.billing", BILLING);
    assert!(!made.contains("error"), "{made}");
    let mut publisher = Connection::open(&url.parse().expect("an address")).expect("the server lets it in");
    let mut stored = |subject: &str, headers: &str, body: &[u8]| {
        let answer = publisher.ask_within(subject, headers, body, PATIENCE).expect("an answer");
        assert!(answered(subject, &answer.payload).is_ok(), "{subject}: {}", answer.payload.escape_ascii());
    };
    stored("o.largest", "", &vec![b'x'; LARGEST]);
    stored("o.small", "", b"small");
    let next = "$JS.API.CONSUMER.MSG.NEXT.ORDERS.billing";
    for _ in 0..2 {
        fail(&mut myelin(&["request", next, r#"{"batch":1}"#, "--timeout", "1s", "-s", &url]));
    }
    let deadline = Instant::now() + PATIENCE;
    while run(&["dlq", "list", "DEAD"]).lines().count() < 2 {
        assert!(Instant::now() < deadline, "both die");
    }
    for (subject, size) in [("s.fits", 90), ("s.grown", 101), ("s.last", 10)] {
        let about = format!("Myelin-DLQ-Subject: {subject}\r\n");
        stored(&format!("dlq.{subject}"), &about, &vec![b'x'; size]);
    }
    let replayed = myelin(&["dlq", "replay", "DEAD", "--force", "-s", &url]).output().expect("it ends");
    let said = String::from_utf8_lossy(&replayed.stderr);
    assert!(!replayed.status.success(), "{said}");
    assert!(said.contains("letter 1 is published without an id"), "{said}");
    assert!(said.contains("letter 3 is published without an id"), "{said}");
    assert!(said.contains("letter 4 is passed over: its message is larger than is taken now"), "{said}");
    assert!(said.contains("published again: 4, passed over: 1"), "{said}");
    assert!(run(&["dlq", "list", "DEAD"]).starts_with("#4 "));
    for (stream, messages) in [("ORDERS", 2), ("SMALL", 2)] {
        let info = ask(&format!("STREAM.INFO.{stream}"), "");
        assert!(info.contains(&format!(r#""messages":{messages}"#)), "{info}");
    }
}
