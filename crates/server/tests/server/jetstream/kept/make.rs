//! Makes a store with a given server: streams of all kinds, consumers in the middle of their work,
//! and a kill.

use super::super::backup::{fill, shapes};
use super::super::{Asker, Home, publish, setup_in};
use super::{archive, assert_same, contents, end_and_start_again};
use crate::eventually;
use crate::process::Server;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A time to live that ends after whoever reads this: nanoseconds, and as a header says it.
const LONG: i64 = 100 * 365 * 24 * 3_600 * 1_000_000_000;

/// Has `program` write a store and packs it as `into.store`, beside what it said of it.
pub(super) fn make(program: &Path, lines: &str, into: &Path) {
    let home = Home::new();
    let mut server = setup_in(home.path(), lines).program(program).start();
    first_half(&mut Asker::connect(&server), lines.contains("key"));
    // What follows is behind sealed segments, manifests and logs that were written anew.
    end_and_start_again(&mut server, Signal::TERM);
    second_half(&server);
    let expected = contents(&server);
    server.signal(Signal::KILL);
    server.wait();
    let packed = archive::pack(home.path()).expect("files");
    // The one that wrote it must find it, too; else something was still on its way.
    let again = Home::new();
    archive::unpack(&packed, again.path()).expect("an archive");
    let server = setup_in(again.path(), lines).program(program).start();
    assert_same(&expected, &contents(&server), "what was written");
    fs::write(into.with_extension("store"), packed).expect("a folder of the repository");
    let text = serde_json::to_string_pretty(&expected).expect("JSON");
    fs::write(into.with_extension("json"), text + "\n").expect("a folder of the repository");
}

fn first_half(asker: &mut Asker, is_encrypted: bool) {
    // What is encrypted cannot be made small by git: a few streams are enough.
    let shapes = shapes()
        .into_iter()
        .filter(|(name, _)| *name != "MEMORY" && (!is_encrypted || ["FILE", "PACKED"].contains(name)));
    for (name, config) in shapes {
        fill(asker, name, &config);
    }
    if !is_encrypted {
        large(asker);
    }
    asker.create("EMPTY", &json!({ "first_seq": 1000 }));
    asker.create("PURGED", &json!({ "allow_rollup_hdrs": true }));
    (0..5).for_each(|_| drop(asker.publish("PURGED.a", "x")));
    asker.api("STREAM.PURGE.PURGED", &Value::Null);
    bucket(asker);
    counter(asker);
    schedules(asker);
    asker.create("ASYNC", &json!({ "persist_mode": "async" }));
    (0..20).for_each(|n| drop(asker.publish("ASYNC.a", &n.to_string())));
    asker.create("INTEREST", &json!({ "retention": "interest" }));
    consumers(asker);
    if is_encrypted {
        return;
    }
    asker.api("STREAM.CREATE.MIRROR", &json!({ "name": "MIRROR", "mirror": { "name": "FILE" } }));
    let sources = json!([{ "name": "SHORT" }, { "name": "PACKED", "filter_subject": "PACKED.1.*" }]);
    asker.api("STREAM.CREATE.SOURCED", &json!({ "name": "SOURCED", "sources": sources }));
    let all = asker.number("FILE", "messages");
    eventually("the mirror has all", || asker.number("MIRROR", "messages") == all);
    let expected = asker.number("SHORT", "messages") + pending(asker, "PACKED", "PACKED.1.*");
    eventually("the sources are copied", || asker.number("SOURCED", "messages") >= expected);
}

/// Segments have 128 KiB: some are full.
fn large(asker: &mut Asker) {
    asker.create("LARGE", &json!({ "compression": "s2", "max_bytes": 1 << 20, "max_age": LONG }));
    asker.create("BULK", &json!({ "max_bytes": 1 << 20 }));
    for n in 0..150_u32 {
        for name in ["LARGE", "BULK"] {
            asker.publish(&format!("{name}.{}", n % 5), &format!("{n:04}").repeat(500));
        }
    }
    for seq in [20, 21, 33, 40, 60] {
        asker.api("STREAM.MSG.DELETE.LARGE", &json!({ "seq": seq }));
    }
}

/// Messages of a stream with a subject.
fn pending(asker: &mut Asker, stream: &str, subject: &str) -> u64 {
    let info = asker.api(&format!("STREAM.INFO.{stream}"), &json!({ "subjects_filter": subject }));
    let subjects = info["state"]["subjects"].as_object().expect("it was asked for");
    subjects.values().filter_map(Value::as_u64).sum()
}

/// A bucket as clients make it, with lifetimes of keys.
fn bucket(asker: &mut Asker) {
    let config = json!({
        "name": "KV_BUCKET", "subjects": ["$KV.BUCKET.>"], "max_msgs_per_subject": 5, "allow_rollup_hdrs": true,
        "deny_delete": true, "allow_direct": true, "discard": "new", "allow_msg_ttl": true,
        "subject_delete_marker_ttl": LONG,
    });
    asker.api("STREAM.CREATE.KV_BUCKET", &config);
    for n in 0..60 {
        let headers = if n % 11 == 0 { "Nats-TTL: 262800h\r\n" } else { "" };
        let ack = asker.publish_with(headers, &format!("$KV.BUCKET.key{}", n % 7), &n.to_string());
        assert!(ack["seq"].is_u64(), "{ack}");
    }
    asker.publish_with("KV-Operation: DEL\r\n", "$KV.BUCKET.key3", "");
    asker.publish_with("KV-Operation: PURGE\r\nNats-Rollup: sub\r\n", "$KV.BUCKET.key5", "");
}

fn counter(asker: &mut Asker) {
    asker.create("COUNTER", &json!({ "allow_msg_counter": true }));
    for n in 0..20 {
        let ack = asker.publish_with(&format!("Nats-Incr: {}\r\n", n - 3), &format!("COUNTER.{}", n % 3), "");
        assert!(ack["val"].is_string(), "{ack}");
    }
}

fn schedules(asker: &mut Asker) {
    asker.create("SCHEDULES", &json!({ "allow_msg_schedules": true, "allow_rollup_hdrs": true }));
    for name in ["one", "two"] {
        let headers = "Nats-Schedule: @at 2199-01-01T00:00:00Z\r\nNats-Schedule-Target: SCHEDULES.fired\r\n";
        let ack = asker.publish_with(headers, &format!("SCHEDULES.{name}"), "later");
        assert!(ack["seq"].is_u64(), "{ack}");
    }
}

/// Of the kinds that [`fill`] does not make.
fn consumers(asker: &mut Asker) {
    let wait = 3_600_000_000_000_u64;
    let mut create = |stream: &str, name: &str, config: Value| {
        let mut whole = json!({ "ack_wait": wait, "inactive_threshold": LONG });
        whole
            .as_object_mut()
            .expect("it was made as one")
            .extend(config.as_object().cloned().unwrap_or_default());
        asker.api(
            &format!("CONSUMER.CREATE.{stream}.{name}"),
            &json!({ "stream_name": stream, "config": whole }),
        );
    };
    create("FILE", "ALL", json!({ "durable_name": "ALL", "ack_policy": "all" }));
    create("FILE", "EPHEMERAL", json!({ "name": "EPHEMERAL", "ack_policy": "explicit" }));
    let push = json!({ "durable_name": "PUSH", "ack_policy": "explicit", "deliver_subject": "pushed", "max_deliver": 5 });
    create("FILE", "PUSH", push);
    let group = json!({
        "durable_name": "GROUP", "ack_policy": "none", "deliver_subject": "grouped", "deliver_group": "g",
    });
    create("FILE", "GROUP", group);
    create("INTEREST", "ONE", json!({ "durable_name": "ONE", "ack_policy": "explicit" }));
}

/// Publishes and deletes what the journal still holds when the server is killed, and leaves
/// consumers in the middle of their work.
fn second_half(server: &Server) {
    let asker = &mut Asker::connect(server);
    let names = asker.api("STREAM.NAMES", &Value::Null)["streams"].clone();
    let has = |name: &&str| names.as_array().is_some_and(|names| names.contains(&json!(name)));
    for n in 0..12 {
        for name in
            ["FILE", "PACKED", "SHORT", "WORK", "LARGE", "INTEREST", "PURGED"].iter().filter(|name| has(name))
        {
            let ack = asker.publish_with("Part: second\r\n", &format!("{name}.{n}.x"), &format!("{n} more"));
            assert!(ack["seq"].is_u64(), "{name}: {ack}");
        }
        asker.publish(&format!("$KV.BUCKET.more{}", n % 4), &n.to_string());
        asker.publish_with("Nats-Incr: 2\r\n", "COUNTER.1", "");
    }
    first_consumers(asker);
    for (stream, seq) in [("FILE", 100), ("FILE", 305), ("PACKED", 290)] {
        asker.try_api(&format!("STREAM.MSG.DELETE.{stream}"), &json!({ "seq": seq, "no_erase": true }));
    }
    if has(&"LARGE") {
        asker.api("STREAM.MSG.DELETE.LARGE", &json!({ "seq": 70 }));
        asker.api("STREAM.PURGE.SHORT", &json!({ "filter": "SHORT.3.*" }));
        work(asker, "WORK", "BUSY");
        let last = asker.number("FILE", "last_seq");
        eventually("the mirror has all", || asker.number("MIRROR", "last_seq") == last);
    }
    for (stream, consumer) in [("FILE", "ALL"), ("FILE", "EPHEMERAL"), ("FILE", "BUSY"), ("INTEREST", "ONE")]
    {
        work(asker, stream, consumer);
    }
    push(server, "pushed");
    let names = asker.api("CONSUMER.NAMES.FILE", &Value::Null);
    assert_eq!(names["total"], 6, "{names}");
    eventually("nobody listens any more", || {
        asker.api("CONSUMER.INFO.FILE.PUSH", &Value::Null)["push_bound"].as_bool() != Some(true)
    });
}

/// Streams with their first consumers, which no start has seen: one has worked, one has not.
fn first_consumers(asker: &mut Asker) {
    for (stream, consumer) in [("WORKED", "BUSY"), ("MADE", "NEW")] {
        asker.create(stream, &json!({}));
        let config = json!({
            "durable_name": consumer, "ack_policy": "explicit", "ack_wait": 3_600_000_000_000_u64,
        });
        let create = format!("CONSUMER.DURABLE.CREATE.{stream}.{consumer}");
        asker.api(&create, &json!({ "stream_name": stream, "config": config }));
    }
    (0..8).for_each(|n| drop(asker.publish("WORKED.a", &n.to_string())));
    work(asker, "WORKED", "BUSY");
}

/// Pulls some, acknowledges some, and leaves one to come again that has come again.
fn work(asker: &mut Asker, stream: &str, consumer: &str) {
    let mut replies = Vec::new();
    for _ in 0..6 {
        let reply = asker.reply();
        let request = json!({ "batch": 1, "no_wait": true }).to_string();
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        asker.raw.send_bytes(&publish(&next, &reply, "", request.as_bytes()));
        replies.extend(asker.raw.message().reply);
        if let [_, again] = &replies[..] {
            asker.raw.publish(again, "-NAK");
            asker.raw.barrier();
        }
    }
    assert!(replies.len() >= 3, "{stream}: {consumer}: {replies:?}");
    asker.ask(&replies[0], "+ACK");
}

/// Listens where a consumer delivers, acknowledges two messages and goes.
fn push(server: &Server, subject: &str) {
    let mut asker = Asker::connect(server);
    asker.raw.subscribe(subject, 9);
    let mut replies = Vec::new();
    while replies.len() < 5 {
        let message = asker.raw.message();
        if message.sid == "9" {
            replies.extend(message.reply);
        }
    }
    for reply in &replies[..2] {
        asker.ask(reply, "+ACK");
    }
}
