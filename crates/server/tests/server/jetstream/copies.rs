//! Many streams that copy, and origins that change: what is copied goes on, once each, and nothing
//! waits for it.

use super::{Asker, Home, publish};
use crate::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

const SOURCES: usize = 100;
const EACH: usize = 60;
const STEPS: usize = 5;

fn sources(names: &[String]) -> Value {
    names.iter().map(|name| json!({ "name": name })).collect()
}

/// Ends when a stream has so many messages; one more would be one too many.
fn reaches(asker: &mut Asker, stream: &str, messages: usize) {
    eventually(&format!("{stream} has {messages}"), || asker.number(stream, "messages") >= messages as u64);
    assert_eq!(asker.number(stream, "last_seq"), messages as u64, "{stream}");
}

#[test]
fn a_hundred_sources_of_one_stream_survive_the_process() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    let names: Vec<String> = (0..SOURCES).map(|number| format!("O{number}")).collect();
    for name in &names {
        asker.create(name, &json!({}));
    }
    let config = json!({ "subjects": [], "sources": sources(&names) });
    asker.create("ALL", &config);
    let few = json!({ "subjects": [], "sources": sources(&names), "max_msgs": 2 });
    asker.create("FEW", &few);
    for half in 0..2 {
        for at in 0..EACH / 2 {
            for name in &names {
                let body = format!("{name} {half} {at}");
                asker.raw.send_bytes(&publish(&format!("{name}.x"), "nobody", "", body.as_bytes()));
            }
        }
        asker.raw.barrier();
        if half == 0 {
            server.signal(Signal::KILL);
            server.wait();
            server = home.start("");
            asker = Asker::connect(&server);
        }
    }
    reaches(&mut asker, "ALL", SOURCES * EACH);
    let mut payloads: Vec<Vec<u8>> = asker.read_all("ALL").into_iter().map(|m| m.payload).collect();
    payloads.sort();
    payloads.dedup();
    assert_eq!(payloads.len(), SOURCES * EACH);
    eventually("the small one has had all", || asker.number("FEW", "last_seq") >= (SOURCES * EACH) as u64);
    assert_eq!(asker.number("FEW", "last_seq"), (SOURCES * EACH) as u64);
}

#[test]
fn a_chain_of_mirrors_is_the_first_stream_five_times() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("M0", &json!({}));
    for step in 1..=STEPS {
        let mirror = json!({ "subjects": [], "mirror": { "name": format!("M{}", step - 1) } });
        asker.create(&format!("M{step}"), &mirror);
    }
    for round in 0..3 {
        for at in 0..500 {
            asker.raw.send_bytes(&publish("M0.x", "nobody", "", format!("{round} {at}").as_bytes()));
        }
        // A hole in the middle, which all have.
        let last = asker.publish("M0.x", "gone")["seq"].as_u64().expect("it is acknowledged");
        asker.api("STREAM.MSG.DELETE.M0", &json!({ "seq": last }));
        asker.publish("M0.x", "last");
        server.signal(Signal::KILL);
        server.wait();
        server = home.start("");
        asker = Asker::connect(&server);
    }
    let first = asker.read_all("M0");
    let end = asker.number("M0", "last_seq");
    for step in 1..=STEPS {
        let name = format!("M{step}");
        eventually(&format!("{name} has all"), || asker.number(&name, "last_seq") == end);
        let mut mirrored = asker.read_all(&name);
        // What was deleted may have been copied before.
        mirrored.retain(|message| message.payload != b"gone");
        assert_eq!(mirrored, first, "{name}");
    }
}

#[test]
fn a_stream_that_begins_to_keep_only_what_is_wanted_is_copied_on() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("O", &json!({}));
    asker.create("S", &json!({ "subjects": [], "sources": [{ "name": "O" }] }));
    asker.create("M", &json!({ "subjects": [], "mirror": { "name": "O" } }));
    asker.publish("O.1", "1");
    reaches(&mut asker, "S", 1);
    let config = |retention: &str| json!({ "name": "O", "subjects": ["O.>"], "retention": retention });
    asker.api("STREAM.UPDATE.O", &config("interest"));
    for at in 2..=50 {
        asker.publish(&format!("O.{at}"), "x");
    }
    for copy in ["S", "M"] {
        reaches(&mut asker, copy, 50);
    }
    eventually("the origin keeps nothing", || asker.number("O", "messages") == 0);
    let names = asker.api("CONSUMER.NAMES.O", &Value::Null)["consumers"].clone();
    assert_eq!(names.as_array().map(Vec::len), Some(2), "{names}");
    // And back: it keeps everything, and nobody stands for the others.
    asker.api("STREAM.UPDATE.O", &config("limits"));
    asker.publish("O.51", "x");
    for copy in ["S", "M"] {
        reaches(&mut asker, copy, 51);
    }
    eventually("nobody stands for them", || asker.number("O", "consumer_count") == 0);
    assert_eq!(asker.number("O", "messages"), 1);
}

#[test]
fn a_work_queue_that_is_made_anew_keeps_what_was_not_copied() {
    let home = Home::new();
    let server = home.start("sync_interval: always");
    let mut asker = Asker::connect(&server);
    let queue = json!({ "retention": "workqueue" });
    asker.create("W", &queue);
    asker.create("S", &json!({ "subjects": [], "sources": [{ "name": "W" }] }));
    let mut count = 0;
    for round in 0..5 {
        for at in 0..200 {
            asker.raw.send_bytes(&publish("W.x", "nobody", "", format!("{round} {at}").as_bytes()));
        }
        asker.publish("W.x", "last");
        count += 201;
        eventually("the queue is empty", || asker.number("W", "messages") == 0);
        reaches(&mut asker, "S", count);
        asker.api("STREAM.DELETE.W", &Value::Null);
        asker.create("W", &queue);
    }
}

#[test]
fn a_first_message_that_was_not_given_out_yet_is_waited_for() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("O", &json!({}));
    asker.publish("O.x", "1");
    let origin = json!({ "name": "O", "opt_start_seq": 4 });
    asker.create("M", &json!({ "subjects": [], "mirror": origin }));
    asker.create("S", &json!({ "subjects": [], "sources": [origin] }));
    eventually("the mirror begins there", || asker.number("M", "last_seq") == 3);
    for at in 2..=5 {
        asker.publish("O.x", &at.to_string());
    }
    for copy in ["M", "S"] {
        eventually(&format!("{copy} has two"), || asker.number(copy, "messages") == 2);
        let payloads: Vec<Vec<u8>> = asker.read_all(copy).into_iter().map(|m| m.payload).collect();
        assert_eq!(payloads, [b"4", b"5"], "{copy}");
    }
}

#[test]
fn a_source_that_is_added_to_a_large_stream_begins_behind_all_of_it() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("BIG", &json!({}));
    asker.create("O", &json!({}));
    asker.publish("O.x", "1");
    let body = vec![b'x'; 32];
    let message = publish("BIG.x", "nobody", "A: b\r\n", &body);
    for _ in 0..200_000 {
        asker.raw.send_bytes(&message);
    }
    asker.raw.barrier();
    let without = asker.api("STREAM.INFO.BIG", &Value::Null)["config"].clone();
    let mut config = without.clone();
    config["sources"] = json!([{ "name": "O" }]);
    asker.api("STREAM.UPDATE.BIG", &config);
    reaches(&mut asker, "BIG", 200_001);
    // One that was there before goes on behind its last message, which is far back.
    asker.api("STREAM.UPDATE.BIG", &without);
    for _ in 0..100_000 {
        asker.raw.send_bytes(&message);
    }
    asker.publish("O.x", "2");
    asker.api("STREAM.UPDATE.BIG", &config);
    reaches(&mut asker, "BIG", 300_002);
}

#[test]
fn a_copy_that_has_room_again_goes_on_at_once() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("O", &json!({}));
    for at in 0..100 {
        asker.publish("O.x", &at.to_string());
    }
    let full = json!({ "subjects": [], "max_msgs": 5, "discard": "new" });
    let with = |what: &str, origin: Value| {
        let mut config = full.clone();
        config[what] = origin;
        config
    };
    asker.create("S", &with("sources", json!([{ "name": "O" }])));
    asker.create("M", &with("mirror", json!({ "name": "O" })));
    for copy in ["S", "M"] {
        for done in (0..100).step_by(5) {
            eventually(&format!("{copy} is full"), || asker.number(copy, "messages") == 5);
            assert_eq!(asker.number(copy, "last_seq"), done + 5);
            asker.api(&format!("STREAM.PURGE.{copy}"), &Value::Null);
        }
        let payloads = asker.number(copy, "last_seq");
        assert_eq!(payloads, 100, "{copy}");
    }
}
