//! Clients that wait for messages hear what becomes of their requests, and those who answer to
//! nobody that they do.

use super::{Asker, Home, publish};
use crate::raw::{Message, Raw};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A client that waits at `inbox`.
fn listener(server: &crate::process::Server) -> Raw {
    let mut raw = Raw::connect(server);
    raw.subscribe("inbox", 1);
    raw.barrier();
    raw
}

fn ask_for_messages(raw: &mut Raw, request: &Value) {
    let request = request.to_string();
    raw.send_bytes(&publish("$JS.API.CONSUMER.MSG.NEXT.S.C", "inbox", "", request.as_bytes()));
}

fn make_consumer(asker: &mut Asker, mut config: Value) {
    config["durable_name"] = json!("C");
    asker.api("CONSUMER.CREATE.S.C", &json!({ "stream_name": "S", "config": config }));
}

/// The status line of a message without a body.
fn status(message: &Message) -> &str {
    message.text().lines().next().unwrap_or_default()
}

#[test]
fn who_waits_for_enough_gets_it_once_it_is_there() {
    let home = Home::new();
    let server = home.start("");
    let (mut asker, mut waiting) = (Asker::connect(&server), listener(&server));
    asker.create("S", &json!({ "storage": "memory" }));
    let group = json!({ "ack_policy": "explicit", "priority_policy": "overflow", "priority_groups": ["g"] });
    for filter in [json!({}), json!({ "filter_subject": "S.x" })] {
        let mut config = group.clone();
        config
            .as_object_mut()
            .expect("it was made as one")
            .extend(filter.as_object().cloned().expect("one too"));
        make_consumer(&mut asker, config);
        asker.publish("S.x", "1");
        let request = json!({ "batch": 1, "expires": 60_000_000_000_u64, "group": "g", "min_pending": 3 });
        ask_for_messages(&mut waiting, &request);
        waiting.barrier();
        asker.publish("S.x", "2");
        assert_eq!(waiting.barrier().len(), 0, "two are too few");
        asker.publish("S.x", "3");
        assert_eq!(waiting.message().text(), "1");
        asker.api("CONSUMER.DELETE.S.C", &Value::Null);
        asker.api("STREAM.PURGE.S", &Value::Null);
    }
}

#[test]
fn who_waits_hears_of_the_end_of_the_consumer_and_of_the_server() {
    let home = Home::new();
    let mut server = home.start("");
    let (mut asker, mut waiting) = (Asker::connect(&server), listener(&server));
    asker.create("S", &json!({ "storage": "memory" }));
    let request = json!({ "batch": 7, "expires": 60_000_000_000_u64 });
    // Many times: whether a shard or the thread of the API ends it is a matter of luck.
    for _ in 0..20 {
        make_consumer(&mut asker, json!({ "ack_policy": "explicit" }));
        ask_for_messages(&mut waiting, &request);
        waiting.barrier();
        asker.api("CONSUMER.DELETE.S.C", &Value::Null);
        assert_eq!(status(&waiting.message()), "NATS/1.0 409 Consumer Deleted");
    }
    make_consumer(&mut asker, json!({ "ack_policy": "explicit" }));
    ask_for_messages(&mut waiting, &request);
    waiting.barrier();
    server.signal(Signal::TERM);
    let message = waiting.message();
    assert_eq!(status(&message), "NATS/1.0 409 Server Shutdown");
    assert!(message.text().contains("Nats-Pending-Messages: 7\r\nNats-Pending-Bytes: 0\r\n"), "{message:?}");
    server.wait();
}

#[test]
fn who_does_not_want_to_wait_does_not_where_acknowledgements_are_missing() {
    let home = Home::new();
    let server = home.start("");
    let (mut asker, mut waiting) = (Asker::connect(&server), listener(&server));
    asker.create("S", &json!({ "storage": "memory" }));
    make_consumer(&mut asker, json!({ "ack_policy": "explicit", "max_ack_pending": 1 }));
    asker.publish("S.x", "1");
    asker.publish("S.x", "2");
    let request = json!({
        "batch": 5, "no_wait": true, "expires": 60_000_000_000_u64, "idle_heartbeat": 50_000_000,
    });
    ask_for_messages(&mut waiting, &request);
    assert_eq!(waiting.message().text(), "1");
    assert_eq!(status(&waiting.message()), "NATS/1.0 404 No Messages");
}

#[test]
fn acknowledgements_to_nobody_are_answered_so() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({ "storage": "memory" }));
    asker.publish("S.x", "1");
    let nobody = |asker: &mut Asker| {
        let answer = asker.ask("$JS.ACK.S.C.1.1.1.1763000000000000000.0", "");
        assert_eq!(status(&answer), "NATS/1.0 503");
        assert!(answer.text().contains("\r\nNats-Subject: $JS.ACK.S.C.1.1.1."), "{answer:?}");
    };
    nobody(&mut asker);
    make_consumer(&mut asker, json!({ "ack_policy": "none" }));
    nobody(&mut asker);
}

#[test]
fn a_stream_gets_no_limits_that_its_consumers_exceed() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({ "storage": "memory" }));
    make_consumer(&mut asker, json!({ "ack_policy": "explicit", "max_ack_pending": 20 }));
    let update = |limits: Value| json!({ "name": "S", "subjects": ["S.>"], "allow_direct": true, "storage": "memory", "consumer_limits": limits });
    let refused = asker.try_api("STREAM.UPDATE.S", &update(json!({ "max_ack_pending": 19 })));
    assert_eq!(refused["error"]["err_code"], 10069);
    assert_eq!(refused["error"]["description"], "change to limits violates consumers: C");
    asker.api("STREAM.UPDATE.S", &update(json!({ "max_ack_pending": 20 })));
}
