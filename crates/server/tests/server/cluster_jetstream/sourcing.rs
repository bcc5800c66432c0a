//! Mirrors and sources whose own servers change, or those of what they copy.

use super::{Trio, api, create, leader, settled, store_all, stream, try_api, until};
use async_nats::Client;
use serde_json::{Value, json};

/// A stream of one server.
fn placed(mut config: Value, at: usize) -> Value {
    config["placement"] = json!({ "tags": [format!("az:{at}")] });
    config
}

fn keeping(name: &str, retention: &str, replicas: u64) -> Value {
    let mut config = stream(name, replicas);
    config["retention"] = json!(retention);
    config
}

/// Waits until streams have so many messages.
async fn have(client: &Client, wanted: &[(&str, u64)]) {
    for (name, messages) in wanted {
        until(&format!("{messages} messages of {name}"), async || {
            let info = api(client, &format!("STREAM.INFO.{name}"), &Value::Null).await;
            (info["state"]["messages"] == *messages).then_some(())
        })
        .await;
    }
}

/// Has a server lead a stream.
async fn lead(client: &Client, name: &str, at: usize) {
    settled(client, name).await;
    let server = format!("N{at}");
    until(&format!("{server} leads {name}"), async || {
        let wanted = json!({ "placement": { "preferred": server } });
        try_api(client, &format!("STREAM.LEADER.STEPDOWN.{name}"), &wanted).await;
        (leader(client, name).await == server).then_some(())
    })
    .await;
}

/// The server of the origin reads its log while it leads the copy, and sends it to others while
/// these do.
#[tokio::test]
async fn a_work_queue_is_copied_whoever_leads_the_copy_and_whoever_leads_the_queue() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &placed(keeping("W", "workqueue", 1), 0)).await;
    create(&clients[0], &json!({ "name": "X", "sources": [{ "name": "W" }], "num_replicas": 3 })).await;
    let mut all = 0;
    for at in [0, 1, 0] {
        lead(&clients[0], "X", at).await;
        store_all(&clients[2], "W", all..all + 5).await;
        all += 5;
        have(&clients[0], &[("X", all), ("W", 0)]).await;
    }
    api(&clients[0], "STREAM.UPDATE.W", &keeping("W", "workqueue", 3)).await;
    for at in [1, 0] {
        lead(&clients[0], "W", at).await;
        store_all(&clients[2], "W", all..all + 5).await;
        all += 5;
        have(&clients[0], &[("X", all), ("W", 0)]).await;
    }
}

#[tokio::test]
async fn a_stream_that_begins_to_keep_by_interest_keeps_what_copies_elsewhere_lack() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &placed(stream("O", 1), 0)).await;
    let copy = |room: i64| {
        let sources = json!([{ "name": "O" }]);
        placed(json!({ "name": "X", "sources": sources, "max_msgs": room, "discard": "new" }), 1)
    };
    create(&clients[0], &copy(1)).await;
    store_all(&clients[0], "O", 0..10).await;
    have(&clients[0], &[("X", 1)]).await;
    api(&clients[0], "STREAM.UPDATE.O", &placed(keeping("O", "interest", 1), 0)).await;
    api(&clients[0], "STREAM.UPDATE.X", &copy(-1)).await;
    have(&clients[0], &[("X", 10), ("O", 0)]).await;
    store_all(&clients[0], "O", 10..15).await;
    have(&clients[0], &[("X", 15), ("O", 0)]).await;
}

/// Any server may have made it.
#[tokio::test]
async fn the_consumer_of_a_copy_goes_with_it() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &placed(keeping("I", "interest", 1), 0)).await;
    create(&clients[0], &json!({ "name": "X", "sources": [{ "name": "I" }], "num_replicas": 3 })).await;
    let mut all = 0;
    for at in [1, 0] {
        lead(&clients[0], "X", at).await;
        store_all(&clients[2], "I", all..all + 5).await;
        all += 5;
        have(&clients[0], &[("X", all), ("I", 0)]).await;
    }
    api(&clients[0], "STREAM.DELETE.X", &Value::Null).await;
    until("no consumer", async || {
        let names = api(&clients[0], "CONSUMER.NAMES.I", &Value::Null).await;
        (names["total"] == 0).then_some(())
    })
    .await;
}
