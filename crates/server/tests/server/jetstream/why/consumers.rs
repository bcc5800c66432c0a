//! Causes that hold deliveries back.

use super::*;
use std::time::{Duration, Instant};

const HOUR: u64 = 3_600_000_000_000;

#[test]
fn nobody_wants_messages_or_may_have_them() {
    let mut scene = Scene::start();
    scene.filled("S", 3, 100);
    scene.consumer("S", "idle", json!({}));
    assert_eq!(scene.first("CONSUMER.S.idle", ("no_pull_waits", "all"))["pending"], 3);

    scene.asker.api("CONSUMER.PAUSE.S.idle", &json!({ "pause_until": "2100-01-01T00:00:00Z" }));
    assert_eq!(scene.first("CONSUMER.S.idle", ("paused", "all"))["until"], "2100-01-01T00:00:00Z");
    // What follows it is said, too.
    assert_eq!(scene.words("CONSUMER.S.idle"), ["paused", "no_pull_waits"]);

    scene.consumer("S", "push", json!({ "deliver_subject": "out.push" }));
    assert_eq!(scene.first("CONSUMER.S.push", ("nobody_listens", "all"))["subject"], "out.push");

    // A subscription without the queue group is none.
    scene.asker.raw.subscribe("out.group", 2);
    scene.consumer("S", "group", json!({ "deliver_subject": "out.group", "deliver_group": "workers" }));
    assert_eq!(scene.first("CONSUMER.S.group", ("nobody_listens", "all"))["group"], "workers");
}

#[test]
fn acknowledgements_are_missing() {
    let mut scene = Scene::start();
    scene.filled("S", 3, 100);
    scene.consumer("S", "full", json!({ "max_ack_pending": 1 }));
    let inbox = scene.asker.reply();
    scene.pull("S", "full", &inbox, &json!({ "batch": 3, "expires": HOUR }));
    let numbers = scene.first("CONSUMER.S.full", ("max_ack_pending", "all"));
    assert_eq!(
        (&numbers["pending"], &numbers["limit"], &numbers["oldest"]),
        (&json!(1), &json!(1), &json!(1))
    );

    scene.filled("ONE", 1, 100);
    scene.consumer("ONE", "later", json!({}));
    let subject = scene.take("ONE", "later");
    scene.asker.ask(&subject, &format!("-NAK {{\"delay\": {HOUR}}}"));
    let numbers = scene.first("CONSUMER.ONE.later", ("redelivery_waits", "some"));
    assert_eq!(numbers["messages"], 1);
    let said = scene.asker.api("MYELIN.WHY.CONSUMER.ONE.later", &Value::Null);
    let says = said["causes"][0]["says"].as_str().expect("a text");
    assert!(says.contains("(in 59m") || says.contains("(in 1h"), "{says}");

    scene.consumer("ONE", "once", json!({ "max_deliver": 1, "ack_wait": 50_000_000 }));
    scene.take("ONE", "once");
    let numbers = scene.first("CONSUMER.ONE.once", ("deliveries_exhausted", "some"));
    assert_eq!((&numbers["messages"], &numbers["first"]), (&json!(1), &json!(1)));
}

#[test]
fn receivers_do_not_keep_up() {
    let mut scene = Scene::start();
    scene.filled("BIG", 300, 100_000);
    // It never reads.
    let mut slow = Raw::connect(&scene.server);
    slow.subscribe("out.slow", 7);
    slow.barrier();
    scene.consumer("BIG", "slow", json!({ "deliver_subject": "out.slow", "ack_policy": "none" }));
    let numbers = scene.first("CONSUMER.BIG.slow", ("receiver_behind", "all"));
    assert!(numbers["bytes"].as_u64() > Some(0) && numbers["bound"] == 1 << 20, "{numbers}");
    let conns = scene.server.page("/connz?subs=1");
    let conns = conns["connections"].as_array().expect("a list").clone();
    let conn = conns.iter().find(|conn| conn["cid"] == numbers["cid"]).expect("it is one of them");
    assert!(conn["subscriptions_list"].to_string().contains("out.slow"), "{conn}");

    // A client that pulls and does not read.
    scene.consumer("BIG", "lazy", json!({ "max_ack_pending": -1 }));
    let mut lazy = Raw::connect(&scene.server);
    lazy.subscribe("lazy", 7);
    lazy.barrier();
    scene.pull("BIG", "lazy", "lazy", &json!({ "batch": 300, "expires": HOUR }));
    scene.first("CONSUMER.BIG.lazy", ("receiver_behind", "all"));
}

#[test]
fn flow_control_is_not_answered() {
    let mut scene = Scene::start();
    scene.filled("S", 50, 100_000);
    let mut deaf = Raw::connect(&scene.server);
    deaf.subscribe("out.flow", 7);
    deaf.barrier();
    let flow =
        json!({ "deliver_subject": "out.flow", "flow_control": true, "idle_heartbeat": 60_000_000_000_u64 });
    scene.consumer("S", "flow", flow);
    // Two mebibytes may be on their way; it reads them, and answers nothing.
    let mut read = 0;
    while read <= 2 << 20 {
        read += deaf.message().body.len();
    }
    let numbers = scene.first("CONSUMER.S.flow", ("flow_control", "all"));
    assert_eq!(numbers["window"], 2 << 20);
}

#[test]
fn messages_have_a_pace() {
    let mut scene = Scene::start();
    scene.asker.create("S", &json!({ "storage": "memory", "max_msg_size": 1000 }));
    for _ in 0..5 {
        scene.asker.publish("S.a", &"x".repeat(900));
    }
    scene.asker.raw.subscribe("out.rate", 7);
    // One such message a minute.
    scene.consumer("S", "rate", json!({ "deliver_subject": "out.rate", "rate_limit_bps": 8 * 16 }));
    assert_eq!(scene.first("CONSUMER.S.rate", ("rate_limit", "all"))["bits_per_second"], 8 * 16);

    scene.filled("PACE", 1, 100);
    let began = Instant::now();
    eventually("some time has passed", || began.elapsed() > Duration::from_secs(3));
    scene.asker.publish("PACE.a", "later");
    scene.consumer("PACE", "pace", json!({ "replay_policy": "original" }));
    let inbox = scene.asker.reply();
    scene.pull("PACE", "pace", &inbox, &json!({ "batch": 2, "expires": HOUR }));
    assert!(scene.first("CONSUMER.PACE.pace", ("original_pace", "all"))["next_at"].is_string());
}

#[test]
fn requests_ask_for_something_else() {
    let mut scene = Scene::start();
    scene.filled("S", 3, 1000);
    let group =
        json!({ "priority_groups": ["g"], "priority_policy": "pinned_client", "priority_timeout": HOUR });
    scene.consumer("S", "pinned", group);
    let inbox = scene.asker.reply();
    let mut request = json!({ "batch": 1, "group": "g", "expires": HOUR });
    scene.pull("S", "pinned", &inbox, &request);
    request["batch"] = json!(2);
    scene.pull("S", "pinned", &inbox, &request);
    let numbers = scene.first("CONSUMER.S.pinned", ("pinned_elsewhere", "all"));
    assert!(numbers["group"] == "g" && numbers["id"].is_string(), "{numbers}");

    let group = json!({ "priority_groups": ["g"], "priority_policy": "overflow" });
    scene.consumer("S", "overflow", group);
    let inbox = scene.asker.reply();
    request["min_pending"] = json!(1000);
    scene.pull("S", "overflow", &inbox, &request);
    let numbers = scene.first("CONSUMER.S.overflow", ("too_few_for_requests", "all"));
    assert_eq!((&numbers["pending"], &numbers["min_pending"]), (&json!(3), &json!(1000)));

    scene.consumer("S", "small", json!({}));
    let inbox = scene.asker.reply();
    scene.pull("S", "small", &inbox, &json!({ "batch": 1, "max_bytes": 500, "expires": HOUR }));
    let numbers = scene.first("CONSUMER.S.small", ("requests_too_small", "all"));
    assert!(numbers["size"].as_u64() > Some(1000) && numbers["largest"] == 500, "{numbers}");
}

#[test]
fn there_is_nothing_to_deliver() {
    let mut scene = Scene::start();
    scene.filled("S", 3, 100);
    scene.consumer("S", "filter", json!({ "filter_subject": "S.other" }));
    let numbers = scene.first("CONSUMER.S.filter", ("filter_matches_nothing", "nothing"));
    assert_eq!((&numbers["filters"], &numbers["messages"]), (&json!(["S.other"]), &json!(3)));

    scene.consumer("S", "begins", json!({ "deliver_policy": "by_start_sequence", "opt_start_seq": 10 }));
    let numbers = scene.first("CONSUMER.S.begins", ("begins_later", "nothing"));
    assert_eq!((&numbers["start"], &numbers["last"]), (&json!(10), &json!(3)));

    scene.consumer("S", "reads", json!({ "ack_policy": "none" }));
    let inbox = scene.asker.reply();
    scene.pull("S", "reads", &inbox, &json!({ "batch": 3, "expires": HOUR }));
    assert_eq!(scene.first("CONSUMER.S.reads", ("caught_up", "nothing"))["delivered"], 3);

    scene.asker.create("EMPTY", &json!({}));
    scene.consumer("EMPTY", "C", json!({}));
    scene.first("CONSUMER.EMPTY.C", ("stream_empty", "nothing"));
}

#[test]
fn nothing_is_said_of_one_whom_nothing_holds_back_and_nothing_is_done_to_it() {
    let mut scene = Scene::start();
    scene.filled("S", 1, 100);
    scene.consumer("S", "C", json!({}));
    let inbox = scene.asker.reply();
    scene.pull("S", "C", &inbox, &json!({ "batch": 10, "expires": HOUR }));
    for _ in 0..10 {
        scene.asker.api("MYELIN.WHY.CONSUMER.S.C", &Value::Null);
    }
    let info = scene.asker.api("CONSUMER.INFO.S.C", &Value::Null);
    assert_eq!((&info["num_waiting"], &info["num_ack_pending"]), (&json!(1), &json!(1)), "{info}");
}
