//! Schedules: what is kept beside their messages is for nobody to see, and holds across ends of
//! every kind.

use super::backup::{back_up, restore, start};
use super::{Asker, Home};
use crate::eventually;
use crate::logging::programs;
use crate::process::Server;
use rustix::process::Signal;
use serde_json::{Value, json};

fn scheduling(asker: &mut Asker, more: &Value) {
    let mut config = json!({ "allow_msg_schedules": true, "allow_rollup_hdrs": true });
    config.as_object_mut().expect("it was made as one").extend(more.as_object().cloned().unwrap_or_default());
    asker.create("S", &config);
    for (subject, pattern) in [("S.soon", "@every 1s"), ("S.later", "@at 2199-01-01T00:00:00Z")] {
        let headers = format!("Nats-Schedule: {pattern}\r\nNats-Schedule-Target: S.fired\r\n");
        assert!(asker.publish_with(&headers, subject, "body")["seq"].is_u64());
    }
    eventually("a schedule fires", || asker.number("S", "last_seq") >= 3);
}

/// Everything that tells of consumers, of which clients have made so many.
fn look(server: &Server, consumers: u64) {
    let asker = &mut Asker::connect(server);
    let names = asker.api("CONSUMER.NAMES.S", &Value::Null);
    let list = asker.api("CONSUMER.LIST.S", &Value::Null);
    for (page, what) in [(&names, "names"), (&list, "list")] {
        assert_eq!(page["total"], consumers, "{what}: {page}");
        assert_eq!(page["consumers"].as_array().map_or(0, Vec::len) as u64, consumers, "{what}: {page}");
    }
    let info = asker.api("STREAM.INFO.S", &json!({ "deleted_details": true, "subjects_filter": ">" }));
    assert_eq!(info["state"]["consumer_count"], consumers, "{info}");
    let streams = asker.api("STREAM.LIST", &Value::Null);
    assert_eq!(streams["streams"][0]["state"]["consumer_count"], consumers, "{streams}");
    let account = asker.api("INFO", &Value::Null);
    assert_eq!(account["consumers"], consumers, "{account}");
    let page = server.page("/jsz?accounts=1&streams=1&consumers=1&config=1&direct-consumers=1");
    assert_eq!(page["consumers"], consumers, "{page}");
    let stream = &page["account_details"][0]["stream_detail"][0];
    assert_eq!(stream["state"]["consumer_count"], consumers, "{page}");
    assert_eq!(stream["consumer_detail"].as_array().map_or(0, Vec::len) as u64, consumers, "{page}");
    for page in [names, list, info, streams, account, page] {
        assert!(!page.to_string().contains("schedules of"), "{page}");
    }
}

#[test]
fn nobody_sees_where_schedules_are_kept() {
    let home = Home::new();
    let mut server = home.start("");
    scheduling(&mut Asker::connect(&server), &json!({ "max_consumers": 1 }));
    look(&server, 0);
    for signal in [Signal::KILL, Signal::TERM] {
        server.signal(signal);
        server.wait();
        server.restart();
        look(&server, 0);
    }
    // It is none of the consumers that the stream may have.
    let mut asker = Asker::connect(&server);
    let config = json!({ "durable_name": "C", "ack_policy": "explicit" });
    asker.api("CONSUMER.DURABLE.CREATE.S.C", &json!({ "stream_name": "S", "config": config }));
    look(&server, 1);
    server.signal(Signal::KILL);
    server.restart();
    look(&server, 1);
}

#[test]
fn a_backup_has_nothing_of_where_schedules_are_kept() {
    let programs = programs();
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    scheduling(&mut asker, &json!({}));
    let config = json!({ "durable_name": "C", "ack_policy": "explicit" });
    asker.api("CONSUMER.DURABLE.CREATE.S.C", &json!({ "stream_name": "S", "config": config }));
    let backup = back_up(&mut asker, "S", &json!({ "chunk_size": 1024 }), &mut || {});
    assert_eq!(backup.state["consumer_count"], 1);
    for program in programs {
        let home = Home::new();
        let server = start(&program, home.path(), "");
        let mut asker = Asker::connect(&server);
        let answer = restore(&mut asker, &backup.config, &backup.state, &backup.bytes, 1000);
        assert!(answer.get("error").is_none(), "{answer}");
        assert_eq!(asker.api("CONSUMER.NAMES.S", &Value::Null)["consumers"], json!(["C"]));
        assert_eq!(asker.api("STREAM.INFO.S", &Value::Null)["state"]["consumer_count"], 1);
        // What is scheduled goes on where it was restored.
        let last = asker.number("S", "last_seq");
        eventually("a schedule fires", || asker.number("S", "last_seq") > last);
    }
}

/// Killed again and again while a schedule fires whose messages nobody can find: each time is one
/// sequence.
#[test]
fn a_kill_takes_no_time_away_and_adds_none() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    // What fires takes the place of what has fired, in the same write.
    asker.create(
        "S",
        &json!({ "allow_msg_schedules": true, "allow_rollup_hdrs": true, "max_msgs_per_subject": 1 }),
    );
    let headers = "Nats-Schedule: @every 1s\r\nNats-Schedule-Target: S.fired\r\n";
    asker.publish_with(headers, "S.plan", "body");
    let mut times = Vec::new();
    for round in 1..5 {
        let mut asker = Asker::connect(&server);
        eventually("a schedule fires", || asker.number("S", "last_seq") > round);
        let last = asker.api("STREAM.MSG.GET.S", &json!({ "last_by_subj": "S.fired" }));
        times.push((last["message"]["seq"].clone(), last["message"]["hdrs"].clone()));
        server.signal(Signal::KILL);
        server.restart();
    }
    // No next time is said by two messages.
    for (seq, headers) in &times {
        let others = times.iter().filter(|(other, said)| other != seq && said == headers);
        assert_eq!(others.count(), 0, "{times:?}");
    }
}
