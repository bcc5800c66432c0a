//! Causes that hold publishes back, or cost messages.

use super::super::disk::SmallDisk;
use super::super::setup_in;
use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Makes a stream with this limit, and publishes until it refuses.
fn full(scene: &mut Scene, name: &str, limit: Value) {
    let mut config = json!({ "storage": "memory", "discard": "new" });
    config.as_object_mut().expect("an object").extend(limit.as_object().expect("an object").clone());
    scene.asker.create(name, &config);
    while scene.asker.publish(&format!("{name}.a"), &"x".repeat(100))["error"].is_null() {}
}

#[test]
fn a_stream_refuses_what_comes() {
    let mut scene = Scene::start();
    full(&mut scene, "MSGS", json!({ "max_msgs": 2 }));
    let numbers = scene.first("STREAM.MSGS", ("full", "all"));
    assert_eq!(numbers, json!({ "name": "max_msgs", "used": 2, "limit": 2 }));

    // A small message would still be taken, one like the others is not.
    full(&mut scene, "BYTES", json!({ "max_bytes": 300 }));
    let numbers = scene.first("STREAM.BYTES", ("full", "some"));
    assert_eq!((&numbers["name"], &numbers["limit"]), (&json!("max_bytes"), &json!(300)));

    full(&mut scene, "EACH", json!({ "max_msgs_per_subject": 1, "discard_new_per_subject": true }));
    let numbers = scene.first("STREAM.EACH", ("full", "some"));
    assert_eq!((&numbers["name"], &numbers["first"]), (&json!("max_msgs_per_subject"), &json!("EACH.a")));

    scene.asker.create("SEALED", &json!({ "sealed": false }));
    let mut config = scene.asker.api("STREAM.INFO.SEALED", &Value::Null)["config"].clone();
    config["sealed"] = json!(true);
    scene.asker.api("STREAM.UPDATE.SEALED", &config);
    scene.first("STREAM.SEALED", ("sealed", "all"));
}

#[test]
fn a_stream_copies_another() {
    let mut scene = Scene::start();
    scene.filled("S", 2, 100);
    scene.asker.api("STREAM.CREATE.MIRROR", &json!({ "name": "MIRROR", "mirror": { "name": "S" } }));
    assert_eq!(scene.first("STREAM.MIRROR", ("mirror", "all"))["origin"], "S");
    scene.asker.api("STREAM.DELETE.S", &Value::Null);
    let numbers = scene.first("STREAM.MIRROR", ("origin_behind", "some"));
    assert_eq!(numbers["origin"], "S");

    let lost =
        json!({ "name": "SOURCED", "sources": [{ "name": "NOWHERE", "external": { "api": "$JS.no.API" } }] });
    scene.asker.api("STREAM.CREATE.SOURCED", &lost);
    assert_eq!(scene.first("STREAM.SOURCED", ("origin_behind", "some"))["origin"], "NOWHERE");
}

#[test]
fn budgets_are_used_up() {
    let home = Home::new();
    let account = "accounts { A: { jetstream: { max_mem: 1000, max_file: 1000 }, users: [{user: a, password: a}] } }\n\
        no_auth_user: a\n";
    let server =
        Setup::default().config(&format!("jetstream {{ store_dir: {:?} }}\n{account}", home.path())).start();
    let asker = Asker::connect(&server);
    let mut scene = Scene { server, asker, _home: home };
    full(&mut scene, "S", json!({}));
    let numbers = scene.first("STREAM.S", ("account_full", "some"));
    assert_eq!(numbers["limit"], 1000);

    let mut scene = Scene::with("max_mem: 2000");
    full(&mut scene, "S", json!({}));
    let numbers = scene.first("STREAM.S", ("server_full", "all"));
    assert!(numbers["limit"] == 2000 && numbers["used"].as_u64() > Some(2000), "{numbers}");
}

#[test]
fn messages_go_or_stay_for_nobody() {
    let mut scene = Scene::start();
    scene.asker.create("OLD", &json!({ "storage": "memory", "max_msgs": 2 }));
    for _ in 0..3 {
        scene.asker.publish("OLD.a", "x");
    }
    let numbers = scene.first("STREAM.OLD", ("discards_oldest", "some"));
    assert_eq!((&numbers["name"], &numbers["used"]), (&json!("max_msgs"), &json!(2)));

    scene.asker.create("WORK", &json!({ "storage": "memory", "retention": "workqueue" }));
    scene.asker.publish("WORK.a", "x");
    scene.asker.publish("WORK.b", "x");
    scene.consumer("WORK", "a", json!({ "filter_subject": "WORK.a" }));
    let numbers = scene.first("STREAM.WORK", ("interest_gone", "some"));
    assert_eq!(numbers, json!({ "messages": 1, "consumers": 1 }));
    scene.consumer("WORK", "b", json!({ "filter_subject": "WORK.b" }));
    assert_eq!(scene.words("STREAM.WORK"), [""; 0]);

    scene.asker.create("UNUSED", &json!({}));
    let numbers = scene.first("STREAM.UNUSED", ("nothing_published", "nothing"));
    assert_eq!(numbers["subjects"], json!(["UNUSED.>"]));
}

#[test]
fn a_full_disk_is_named() {
    let Some(disk) = SmallDisk::new(20) else { return };
    let server = setup_in(disk.path(), "max_file: 1GB").start();
    let asker = Asker::connect(&server);
    let mut scene = Scene { server, asker, _home: Home::new() };
    scene.asker.create("S", &json!({}));
    disk.fill();
    let mut refused = Value::Null;
    while refused.is_null() {
        refused = scene.asker.publish("S.a", &"x".repeat(100_000))["error"].clone();
    }
    assert!(scene.first("STREAM.S", ("waits_for_disk", "all"))["error"].is_string(), "{refused}");
}

/// Whoever holds the turn of the stream leaves no room for others.
#[test]
fn publishes_that_wait_are_named() {
    let mut scene = Scene::with("max_buffered_msgs: 1");
    scene.asker.create("S", &json!({}));
    let mut flood = Raw::connect(&scene.server);
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let floods = std::thread::spawn(move || {
        let chunk = publish("S.a", "", "", &[b'x'; 100]).repeat(1000);
        while !ends.load(Relaxed) {
            flood.send_bytes(&chunk);
            flood.barrier();
        }
    });
    let numbers = scene.first("STREAM.S", ("publishers_wait", "some"));
    is_over.store(true, Relaxed);
    floods.join().expect("it was read");
    assert!(numbers["messages"].as_u64() >= Some(1), "{numbers}");
}
