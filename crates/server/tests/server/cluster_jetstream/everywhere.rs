//! Answers that any server of the cluster gives, for itself or for all of them.

use super::{
    Trio, api, consume, create, leader, request, same_everywhere, settled, store, store_all, stream, try_api,
    until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

const LAST: &str = "$JS.API.DIRECT.GET.S.S.x";

/// Direct gets need no leader: the one server that is left has what was stored.
#[tokio::test]
async fn a_replica_answers_direct_gets_when_all_others_are_gone() {
    let mut trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("S", 3)).await;
    store(&clients[0], "S.x", "kept").await;
    settled(&clients[0], "S").await;
    let led = trio.at(&leader(&clients[0], "S").await);
    // From each server just one answer comes, wherever it is from.
    for client in &clients {
        let answer = request(client, LAST, "").await.expect("an answer");
        assert_eq!(&answer.payload[..], b"kept");
    }
    let left = (led + 1) % 3;
    // Its replica says so some time after it has begun.
    until("a replica that has caught up", async || {
        let subscribed = request(&clients[left], LAST, "").await?;
        (&subscribed.payload[..] == b"kept").then_some(())
    })
    .await;
    trio.end(led, Signal::KILL);
    trio.end((led + 2) % 3, Signal::KILL);
    let answer =
        until("an answer of the last server", async || request(&clients[left], LAST, "").await).await;
    assert_eq!(&answer.payload[..], b"kept");
}

/// Whoever leads the meta group answers for all servers, with what they have together.
#[tokio::test]
async fn an_account_uses_what_it_uses_on_all_servers() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("S", 3)).await;
    for alone in ["A", "B", "C", "D"] {
        create(&clients[0], &stream(alone, 1)).await;
        store_all(&clients[0], alone, 0..10).await;
        consume(&clients[0], alone, "c").await;
    }
    store_all(&clients[0], "S", 0..10).await;
    let stored = settled(&clients[0], "S").await["state"]["bytes"].as_u64().expect("a number") * (3 + 4);
    for client in &clients {
        until("what all servers use", async || {
            let info = api(client, "INFO", &Value::Null).await;
            let is_all = [&info["streams"], &info["consumers"], &info["storage"]]
                == [&json!(5), &json!(4), &json!(stored)];
            is_all.then_some(())
        })
        .await;
    }
}

/// The stream that copies asks for a consumer where its origin is led.
#[tokio::test]
async fn a_mirror_and_sources_copy_streams_of_other_servers() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    let placed = |config: Value, at: usize| {
        let mut config = config;
        config["placement"] = json!({ "tags": [format!("az:{at}")] });
        config
    };
    create(&clients[0], &placed(stream("O", 1), 0)).await;
    create(&clients[0], &placed(json!({ "name": "W", "subjects": ["W.>"], "retention": "workqueue" }), 2))
        .await;
    store_all(&clients[1], "O", 0..20).await;
    create(&clients[2], &placed(json!({ "name": "M", "mirror": { "name": "O" } }), 1)).await;
    let sources = json!([{ "name": "O" }, { "name": "W" }, { "name": "LATER" }]);
    create(&clients[2], &placed(json!({ "name": "X", "sources": sources }), 1)).await;
    create(&clients[0], &stream("LATER", 3)).await;
    store_all(&clients[1], "LATER", 0..5).await;
    store_all(&clients[1], "W", 0..5).await;
    store_all(&clients[1], "O", 20..25).await;
    for (name, messages) in [("M", 25), ("X", 35), ("W", 0)] {
        until(&format!("{messages} messages of {name}"), async || {
            let info = api(&clients[0], &format!("STREAM.INFO.{name}"), &Value::Null).await;
            (info["state"]["messages"] == messages).then_some(())
        })
        .await;
    }
    let info = api(&clients[0], "STREAM.INFO.M", &Value::Null).await;
    assert!(info["mirror"]["error"].is_null(), "{info}");
    let copied = api(&clients[0], "STREAM.MSG.GET.M", &json!({ "seq": 25 })).await;
    assert_eq!(copied["message"]["subject"], "O.x");
}

/// Requests that nobody can decide are refused in the words of the request; how a stream stands its
/// last server still says.
#[tokio::test]
async fn the_last_server_says_what_it_knows() {
    let mut trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("S", 3)).await;
    store_all(&clients[0], "S", 0..5).await;
    settled(&clients[0], "S").await;
    trio.end(1, Signal::KILL);
    trio.end(2, Signal::KILL);
    let ask = async |subject: &str| {
        let answer = request(&clients[0], &format!("$JS.API.{subject}"), "").await?;
        serde_json::from_slice::<Value>(&answer.payload).ok()
    };
    for (subject, kind) in [
        ("STREAM.NAMES", "stream_names"),
        ("STREAM.INFO.NOPE", "stream_info"),
        ("STREAM.PURGE.S", "stream_purge"),
        ("CONSUMER.NAMES.S", "consumer_names"),
    ] {
        let answer =
            until(subject, async || ask(subject).await.filter(|answer| answer["error"]["err_code"] == 10008))
                .await;
        assert_eq!(answer["type"], format!("io.nats.jetstream.api.v1.{kind}_response"), "{answer}");
    }
    let info = until("an answer without a leader", async || {
        ask("STREAM.INFO.S").await.filter(|info| info["cluster"]["leader"].is_null())
    })
    .await;
    assert_eq!(info["state"]["messages"], 5, "{info}");
    assert_eq!(info["cluster"]["replicas"].as_array().map(Vec::len), Some(3), "{info}");
}

/// Consumers may say how many replicas they are to have; the answers are the reference's.
#[tokio::test]
async fn consumers_show_the_replicas_that_they_are_to_have() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("S", 3)).await;
    let again = create(&clients[1], &stream("S", 3)).await;
    assert!(again["did_create"].is_null(), "it was there: {again}");
    settled(&clients[0], "S").await;
    let make = async |name: &str, replicas: u64, is_durable: bool| {
        let durable = if is_durable { name } else { "" };
        let config = json!({ "name": name, "durable_name": durable, "ack_policy": "explicit", "num_replicas": replicas });
        let request = json!({ "stream_name": "S", "config": config });
        try_api(&clients[2], &format!("CONSUMER.CREATE.S.{name}"), &request).await
    };
    for (name, replicas, is_durable, group) in [
        ("three", 3, true, "C-R3F-"),
        ("own", 0, true, "C-R3F-"),
        ("one", 1, true, ""),
        ("short", 0, false, ""),
    ] {
        let cluster = make(name, replicas, is_durable).await["cluster"].clone();
        let shown = cluster["raft_group"].as_str().unwrap_or_default();
        assert!(shown.starts_with(group) && shown.is_empty() == group.is_empty(), "{name}: {cluster}");
        assert_eq!(cluster["replicas"].is_null(), group.is_empty(), "{name}: {cluster}");
        let reset = api(&clients[0], &format!("CONSUMER.RESET.S.{name}"), &Value::Null).await;
        assert_eq!(reset["cluster"]["leader"], cluster["leader"], "{reset}");
    }
    assert_eq!(make("five", 5, true).await["error"]["err_code"], 10126);
    let none = api(&clients[1], "CONSUMER.LIST.NOPE", &Value::Null).await;
    assert_eq!(none["limit"], 256, "{none}");
    let beyond = api(&clients[1], "STREAM.NAMES", &json!({ "offset": 9 })).await;
    assert_eq!(beyond["streams"], json!([]), "{beyond}");
}

/// Others lead what it has led; it follows, and has all of it when it is switched on again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_jetstream_is_switched_off_lets_others_lead() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("S", 3)).await;
    store_all(&clients[0], "S", 0..10).await;
    settled(&clients[0], "S").await;
    let off = trio.at(&leader(&clients[0], "S").await);
    let node = &trio.nodes[off];
    let server = node.server.as_ref().expect("it runs");
    let without: Vec<&str> = node.config.lines().filter(|line| !line.starts_with("jetstream")).collect();
    let lines = server.reload(&without.join("\n"));
    assert!(lines.iter().any(|line| line.contains("Reloaded server configuration")), "{lines:?}");
    let other = &clients[(off + 1) % 3];
    store_all(other, "S", 10..20).await;
    assert_ne!(leader(other, "S").await, node.name);
    assert_eq!(api(&clients[off], "STREAM.INFO.S", &Value::Null).await["state"]["messages"], 20);
    server.reload(&node.config);
    assert_eq!(same_everywhere(other, "S").await, 20, "it leads again, too");
}
