//! `/metrics` of a running server: only where it is configured, in one piece while everything
//! changes, and whatever names clients choose.

use crate::eventually;
use crate::jetstream::{Asker, Home, publish};
use crate::process::{Server, Setup};
use myelin_stdx::sync::lock;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// A server with JetStream and these lines.
fn start(home: &Home, lines: &str) -> Server {
    let jetstream = format!("{lines}\njetstream {{ store_dir: {:?} }}\n", home.path());
    Setup::default().config(&jetstream).start()
}

/// A whole answer, line by line.
fn scrape(server: &Server) -> Vec<String> {
    let (head, body) = server.exchange("/metrics");
    assert!(head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    assert!(body.ends_with("\n# EOF\n"), "{body}");
    body.lines().map(str::to_owned).collect()
}

fn has(lines: &[String], name: &str, label: &str, value: &str) -> bool {
    let begin = format!("{name}{{");
    let end = format!("}} {value}");
    lines.iter().any(|line| line.starts_with(&begin) && line.contains(label) && line.ends_with(&end))
}

#[test]
fn the_page_is_there_when_the_configuration_says_so_and_follows_a_reload() {
    let server = Server::with_config("server_name: x\n");
    assert!(server.exchange("/metrics").0.contains(" 404 "));
    // The port that the system chose stays.
    server.reload("server_name: x\nmetrics: true\n");
    let lines = scrape(&server);
    assert!(has(&lines, "gnatsd_varz_http_req_stats_metrics", "", "1"), "{lines:#?}");
    assert!(has(&lines, "jetstream_server_jetstream_disabled", "server_name=\"x\"", "1"));
    server.reload("server_name: x\nmetrics { prefix: nats }\n");
    assert!(has(&scrape(&server), "nats_varz_connections", "", "0"));
    server.reload("server_name: x\nmetrics { enabled: false }\n");
    assert!(server.exchange("/metrics").0.contains(" 404 "));
}

#[test]
fn streams_and_consumers_are_shown_whatever_they_are_called() {
    let home = Home::new();
    let server = start(&home, "metrics { max_connections: 5, max_consumers: 2 }");
    let mut asker = Asker::connect(&server);
    let name = "a\"}{é";
    asker.create(name, &json!({ "subjects": ["s"], "max_bytes": 1000, "max_msgs": 7 }));
    for n in 1..=3 {
        let config = json!({ "durable_name": format!("c{n}\""), "ack_policy": "explicit", "description": "one\n\"two\"" });
        asker.api(
            &format!("CONSUMER.DURABLE.CREATE.{name}.c{n}\""),
            &json!({ "stream_name": name, "config": config }),
        );
    }
    asker.publish("s", "hello");
    asker.publish("s", "hello");
    asker.api(&format!("STREAM.MSG.DELETE.{name}"), &json!({ "seq": 1, "no_erase": true }));
    let lines = scrape(&server);
    let stream = "stream_name=\"a\\\"}{é\"";
    assert!(has(&lines, "jetstream_stream_total_messages", stream, "1"), "{lines:#?}");
    assert!(has(&lines, "jetstream_stream_limit_bytes", stream, "1000"));
    assert!(has(&lines, "jetstream_stream_limit_messages", stream, "7"));
    assert!(
        has(&lines, "jetstream_consumer_num_pending", "consumer_desc=\"one\\n\\\"two\\\"\"", "1"),
        "{lines:#?}"
    );
    assert!(has(&lines, "myelin_consumer_lag_messages", "consumer_name=\"c2\\\"\"", "1"));
    assert!(!lines.iter().any(|line| line.contains("consumer_name=\"c3")), "only two are shown");
    assert!(has(&lines, "myelin_metrics_left_out", "of=\"consumers\"", "1"));
    assert!(has(&lines, "gnatsd_connz_subscriptions", "cid=\"", "1"));
}

#[test]
fn a_scrape_is_whole_while_everything_changes() {
    let home = Home::new();
    let server = start(&home, "metrics: true");
    let mut asker = Asker::connect(&server);
    let (is_over, seen) = (AtomicBool::new(false), Mutex::new(BTreeSet::new()));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // Should the other side fail, this one ends too.
                let begin = Instant::now();
                while !is_over.load(Relaxed) && begin.elapsed() < Duration::from_secs(60) {
                    let lines = scrape(&server);
                    lock(&seen).insert(lines);
                }
            });
        }
        let mut round = 0;
        eventually("three different answers", || {
            round += 1;
            let name = format!("S{round}");
            asker.create(&name, &json!({}));
            let config = json!({ "durable_name": "c", "ack_policy": "explicit" });
            let request = json!({ "stream_name": name, "config": config });
            asker.api(&format!("CONSUMER.DURABLE.CREATE.{name}.c"), &request);
            asker.publish(&format!("{name}.x"), "hello");
            if round % 8 != 0 {
                asker.api(&format!("STREAM.DELETE.{name}"), &Value::Null);
            }
            lock(&seen).len() >= 3
        });
        is_over.store(true, Relaxed);
    });
}

/// Value of the one sample of a family with this label.
fn value(lines: &[String], name: &str, label: &str) -> Option<f64> {
    let begin = format!("{name}{{");
    let line = lines.iter().find(|line| line.starts_with(&begin) && line.contains(label))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn lag_is_told_in_seconds_and_syncs_are_counted_by_their_time() {
    let (home, begin) = (Home::new(), Instant::now());
    let server = start(&home, "metrics: true");
    let mut asker = Asker::connect(&server);
    asker.create("O", &json!({}));
    asker.api("STREAM.CREATE.M", &json!({ "name": "M", "mirror": { "name": "O" } }));
    for consumer in ["c", "idle"] {
        let config = json!({ "durable_name": consumer, "ack_policy": "explicit", "filter_subject": format!("O.{consumer}") });
        let request = json!({ "stream_name": "O", "config": config });
        asker.api(&format!("CONSUMER.DURABLE.CREATE.O.{consumer}"), &request);
    }
    asker.publish("O.c", "first");
    asker.publish("O.c", "second");
    let reply = asker.reply();
    asker.raw.send_bytes(&publish("$JS.API.CONSUMER.MSG.NEXT.O.c", &reply, "", b"1"));
    assert_eq!(asker.raw.message().subject, "O.c");
    let (c, idle) = ("consumer_name=\"c\"", "consumer_name=\"idle\"");
    let (lag, unacknowledged) =
        ("myelin_consumer_lag_seconds", "myelin_consumer_oldest_unacknowledged_seconds");
    eventually("figures of what was published", || {
        let lines = scrape(&server);
        let behind = value(&lines, lag, c).expect("the second waits");
        let unsettled = value(&lines, unacknowledged, c).expect("the first is not acknowledged");
        assert!(behind <= unsettled && unsettled <= begin.elapsed().as_secs_f64(), "{behind} {unsettled}");
        assert_eq!((value(&lines, lag, idle), value(&lines, unacknowledged, idle)), (Some(0.0), None));
        let of_mirror = value(&lines, "myelin_stream_mirror_lag_seconds", "mirror_name=\"O\"");
        assert!(of_mirror.is_some(), "{lines:#?}");
        let syncs = value(&lines, "myelin_journal_sync_seconds_count", "");
        assert!(syncs <= value(&lines, "myelin_journal_sync_seconds_bucket", "le=\"+Inf\""), "{lines:#?}");
        assert_eq!(value(&lines, "myelin_group_commit_seconds_count", ""), None, "there is no group");
        behind > 0.0 && of_mirror == Some(0.0) && syncs > Some(0.0)
    });
}
