//! JetStream's threads that go on.

use super::{Stage, ask_for};
use crate::eventually;
use crate::jetstream::{Asker, Home, publish};
use serde_json::{Value, json};

pub(super) const CASES: &[&str] = &[
    "js-marks",
    "js-upkeep",
    "js-reads",
    "js-backups",
    "js-api",
    "js-consumer",
    "js-sync",
    "js-alarms",
    "js-due",
];

/// Does something the first time only.
fn once(mut act: impl FnMut()) -> impl FnMut() {
    let mut is_done = false;
    move || {
        if !std::mem::replace(&mut is_done, true) {
            act();
        }
    }
}

#[test]
fn messages_end_and_come_again_after_panics_in_alarms() {
    let home = Home::new();
    let stage = Stage::start(home.setup(""));
    let mut asker = Asker::connect(&stage.server);
    asker.create("S", &json!({ "max_age": 1_000_000_000_u64 }));
    asker.create("W", &json!({ "retention": "workqueue" }));
    // Both of one stream: what is due once is not due again.
    assert!(asker.publish("S.x", "ends")["seq"].is_u64());
    stage.strike("js-due", |_| {});
    eventually("the message has ended", || asker.number("S", "messages") == 0);
    let consumer = json!({ "stream_name": "W", "config": {
        "durable_name": "C", "ack_policy": "explicit", "ack_wait": 300_000_000_u64,
    } });
    asker.api("CONSUMER.DURABLE.CREATE.W.C", &consumer);
    assert!(asker.publish("W.x", "again")["seq"].is_u64());
    let pull = "$JS.API.CONSUMER.MSG.NEXT.W.C";
    let reply = asker.reply();
    asker.raw.send_bytes(&publish(pull, &reply, "", b""));
    let first = asker.raw.message();
    assert!(first.reply.as_deref().is_some_and(|reply| reply.starts_with("$JS.ACK.W.C.1.1.1.")), "{first:?}");
    let reply = asker.reply();
    asker.raw.send_bytes(&publish(pull, &reply, "", br#"{"batch":1,"expires":60000000000}"#));
    stage.strike("js-alarms", |_| {});
    let second = asker.raw.message();
    assert!(
        second.reply.as_deref().is_some_and(|reply| reply.starts_with("$JS.ACK.W.C.2.1.2.")),
        "{second:?}"
    );
    assert_eq!(stage.panics(), 2);
}

#[test]
fn how_far_streams_have_come_is_stated_after_a_panic() {
    let home = Home::new();
    let mut stage = Stage::start(home.setup(""));
    let mut asker = Asker::connect(&stage.server);
    asker.create("S", &json!({}));
    assert!(asker.publish("S.x", "one")["seq"].is_u64());
    stage.strike("js-marks", |_| {});
    assert!(asker.publish("S.x", "two")["seq"].is_u64());
    eventually("the watermarks state it", || home.stated() == 2);
    assert_eq!(stage.panics(), 1);
    stage.server.signal(rustix::process::Signal::TERM);
    assert!(stage.server.wait().success(), "it is stated at the stop, too");
}

#[test]
fn requests_reads_and_backups_go_on_after_panics() {
    let home = Home::new();
    let stage = Stage::start(home.setup(""));
    let mut asker = Asker::connect(&stage.server);
    asker.create("S", &json!({}));
    for n in 0..10 {
        assert!(asker.publish("S.x", &n.to_string())["seq"].is_u64());
    }
    let mut other = Asker::connect(&stage.server);
    let mut unanswered = once(|| other.raw.send("PUB $JS.API.INFO nobody 0\r\n\r\n"));
    stage.strike("js-api", |_| unanswered());
    assert_eq!(asker.api("INFO", &Value::Null)["streams"], 1);
    // A stream that copies another begins with a read.
    let mut copies = once(|| asker.create("T", &json!({ "subjects": [], "sources": [{ "name": "S" }] })));
    stage.strike("js-reads", |_| copies());
    drop(copies);
    eventually("all are copied", || asker.number("T", "messages") == 10);
    let request = json!({ "deliver_subject": "pieces" });
    let mut backs_up = once(|| drop(asker.api("STREAM.SNAPSHOT.S", &request)));
    stage.strike("js-backups", |_| backs_up());
    drop(backs_up);
    asker.raw.subscribe("pieces2", 7);
    asker.raw.barrier();
    let reply = asker.reply();
    let body = json!({ "deliver_subject": "pieces2" }).to_string();
    asker.raw.send_bytes(&publish("$JS.API.STREAM.SNAPSHOT.S", &reply, "", body.as_bytes()));
    let has_piece = (0..2).any(|_| asker.raw.message().subject == "pieces2");
    assert!(has_piece, "another backup comes");
    assert_eq!(stage.panics(), 3);
}

#[test]
fn a_change_is_refused_where_nobody_knows_what_was_written() {
    let home = Home::new();
    let stage = Stage::start(home.setup(""));
    let mut asker = Asker::connect(&stage.server);
    asker.create("S", &json!({}));
    let mut answer = Value::Null;
    stage.strike("js-sync", |_| {
        answer = asker.try_api("STREAM.UPDATE.S", &json!({ "name": "S", "max_msgs": 1 }))
    });
    assert!(answer["error"]["description"].as_str().is_some_and(|why| why.contains("a panic")), "{answer}");
    let answer = asker.api("STREAM.UPDATE.S", &json!({ "name": "S", "max_msgs": 2 }));
    assert_eq!(answer["config"]["max_msgs"], 2, "{answer}");
    assert_eq!(stage.panics(), 1);
}

#[test]
fn upkeep_that_panics_costs_no_message() {
    let home = Home::new();
    let stage = Stage::start(home.setup(""));
    let mut asker = Asker::connect(&stage.server);
    asker.create("S", &json!({}));
    let piece = "x".repeat(512 << 10);
    let mut stored = 0;
    stage.strike("js-upkeep", |_| {
        assert!(stored < 400, "no upkeep after {stored} messages");
        assert!(asker.publish("S.x", &piece)["seq"].is_u64());
        stored += 1;
    });
    for _ in 0..40 {
        assert!(asker.publish("S.x", &piece)["seq"].is_u64());
    }
    assert_eq!(asker.number("S", "messages"), stored + 40);
    assert_eq!(asker.read_all("S").len() as u64, stored + 40);
}

/// A consumer that pins clients asks for a name in its turn: there it panics, and is opened anew.
#[test]
fn a_consumer_that_panicked_is_named_to_whoever_asks() {
    let home = Home::new();
    let stage = Stage::start(home.setup(""));
    let mut asker = Asker::connect(&stage.server);
    asker.create("S", &json!({}));
    assert!(asker.publish("S.x", "one")["seq"].is_u64());
    let consumer = json!({ "stream_name": "S", "config": {
        "durable_name": "C", "ack_policy": "explicit", "priority_policy": "pinned_client",
        "priority_groups": ["A"], "priority_timeout": 60_000_000_000_u64,
    } });
    asker.api("CONSUMER.DURABLE.CREATE.S.C", &consumer);
    assert!(stage.server.page("/debug/vars").get("recent_panics").is_none());
    let before = stage.server.log_len();
    ask_for(stage.folder.path(), "js-consumer");
    let pull = r#"{"batch":1,"expires":60000000000,"group":"A"}"#.as_bytes();
    let reply = asker.reply();
    asker.raw.send_bytes(&publish("$JS.API.CONSUMER.MSG.NEXT.S.C", &reply, "", pull));
    stage.server.wait_for_log_after(before, "Panic in consumer '$G > S > C' (thread ");
    assert_eq!(stage.panics(), 1);
    let vars = stage.server.page("/debug/vars");
    let told = &vars["recent_panics"][0];
    assert_eq!(told["of"], "consumer '$G > S > C'", "{vars}");
    assert_eq!(told["says"], "a test asked for it", "{vars}");
    assert!(told["cost"].as_str().is_some_and(|cost| cost.starts_with("it is opened anew")), "{vars}");
    assert!(told["place"].as_str().is_some_and(|place| place.contains("supervise/mod.rs:")), "{vars}");
    // It goes on for whoever asks again.
    let reply = asker.reply();
    asker.raw.send_bytes(&publish("$JS.API.CONSUMER.MSG.NEXT.S.C", &reply, "", pull));
    assert!(asker.raw.message().text().ends_with("\r\none"));
}
