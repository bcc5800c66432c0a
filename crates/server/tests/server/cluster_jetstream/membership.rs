//! A stream gets more replicas, fewer and others, with clients at work.

use super::{Trio, api, request, stream, try_api, until};
use async_nats::{Client, HeaderMap};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Publishes until told to stop, each message until it is acknowledged. Answers how many were.
async fn publish_until(client: Client, stops: Arc<AtomicBool>) -> u64 {
    let mut count = 0;
    while !stops.load(Relaxed) {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("m{count}").as_str());
        let asked = client.request_with_headers("S.a".to_owned(), headers, "text".into());
        let answer = tokio::time::timeout(super::ATTEMPT, asked).await;
        let answer = answer.ok().and_then(Result::ok);
        let answer: Option<Value> = answer.and_then(|answer| serde_json::from_slice(&answer.payload).ok());
        // Else the message is published again.
        count += u64::from(answer.is_some_and(|answer| answer["seq"].is_u64()));
    }
    count
}

/// Waits until so many other servers have the stream, all that they need of it.
async fn wait_for_replicas(client: &Client, others: usize) -> Value {
    until(&format!("{others} other replicas"), async || {
        let info = request(client, "$JS.API.STREAM.INFO.S", "").await?;
        let info: Value = serde_json::from_slice(&info.payload).ok()?;
        let replicas = info["cluster"]["replicas"].as_array().cloned().unwrap_or_default();
        let is_there = |replica: &Value| replica["current"] == true && replica["pending"].is_null();
        // Before the change is over the members of before have to agree, too.
        let is_over = info["cluster"]["desired"].is_null();
        (is_over && replicas.len() == others && replicas.iter().all(is_there)).then_some(info)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_gets_replicas_and_loses_them_while_it_is_published_to() {
    let mut trio = Trio::start();
    let clients = trio.clients().await;
    api(&clients[0], "STREAM.CREATE.S", &stream("S", 1)).await;
    let consumer = json!({"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}});
    api(&clients[0], "CONSUMER.DURABLE.CREATE.S.C", &consumer).await;
    let stops = Arc::new(AtomicBool::new(false));
    let publisher = tokio::spawn(publish_until(clients[1].clone(), Arc::clone(&stops)));
    until("messages of one server", async || {
        let info = api(&clients[0], "STREAM.INFO.S", &Value::Null).await;
        (info["state"]["messages"].as_u64()? > 200).then_some(())
    })
    .await;
    let answer = api(&clients[2], "STREAM.UPDATE.S", &stream("S", 3)).await;
    assert_eq!(answer["config"]["num_replicas"], 3, "{answer}");
    let info = wait_for_replicas(&clients[0], 2).await;
    stops.store(true, Relaxed);
    let published = publisher.await.expect("a publisher");
    let leader = trio.at(info["cluster"]["leader"].as_str().expect("it is led"));
    trio.end(leader, Signal::KILL);
    let other = &clients[(leader + 1) % 3];
    let info = until("all messages at another server", async || {
        let info = api(other, "STREAM.INFO.S", &Value::Null).await;
        (info["state"]["messages"] == published).then_some(info)
    })
    .await;
    assert_ne!(info["cluster"]["leader"], trio.nodes[leader].name.as_str());
    let info = api(other, "CONSUMER.INFO.S.C", &Value::Null).await;
    assert_eq!(info["num_pending"], published, "{info}");
    trio.start_node(leader);
    wait_for_replicas(other, 2).await;
    api(other, "STREAM.UPDATE.S", &stream("S", 1)).await;
    let info = wait_for_replicas(other, 0).await;
    let answer = request(other, "S.a", "of one again").await.expect("it is led");
    let answer: Value = serde_json::from_slice(&answer.payload).expect("JSON");
    assert_eq!(answer["seq"], published + 1, "{info}");
    let gone = try_api(other, "STREAM.PEER.REMOVE.S", &json!({"peer": "nobody"})).await;
    assert_eq!(gone["error"]["err_code"], 10040, "{gone}");
}
