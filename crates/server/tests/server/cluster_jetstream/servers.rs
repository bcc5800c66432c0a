//! Servers come to a cluster and are removed from it.

use super::operators::operator;
use super::*;

/// How many servers the meta group has, as its leader shows.
pub(super) async fn cluster_size(admin: &Client) -> u64 {
    until("the meta leader shows its group", async || {
        let inbox = admin.new_inbox();
        let mut answers = admin.subscribe(inbox.clone()).await.ok()?;
        let body = json!({ "leader_only": true }).to_string();
        admin.publish_with_reply("$SYS.REQ.SERVER.PING.JSZ", inbox, body.into()).await.ok()?;
        let answer = tokio::time::timeout(ATTEMPT, answers.next()).await.ok()??;
        let page: Value = serde_json::from_slice(&answer.payload).ok()?;
        page["data"]["meta_cluster"]["cluster_size"].as_u64()
    })
    .await
}

pub(super) async fn system_api(admin: &Client, operation: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = request(admin, &format!("$JS.API.{operation}"), &body).await.expect("an answer");
    serde_json::from_slice(&answer.payload).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fourth_server_gets_a_replica_and_is_removed_with_what_it_has() {
    let mut trio = Trio::start();
    let client = trio.client(0).await;
    create(&client, &stream("S", 3)).await;
    store_all(&client, "S", 0..20).await;
    let admin = operator(&trio, 0).await;
    assert_eq!(cluster_size(&admin).await, 3);
    let fourth = trio.start_another();
    until("four members", async || (cluster_size(&admin).await == 4).then_some(())).await;
    until("four replicas", async || {
        let answer = try_api(&client, "STREAM.UPDATE.S", &stream("S", 4)).await;
        answer.get("error").is_none().then_some(())
    })
    .await;
    let replicas = async |wanted: usize| {
        until(&format!("{wanted} other replicas"), async || {
            let info = request(&client, "$JS.API.STREAM.INFO.S", "").await?;
            let info: Value = serde_json::from_slice(&info.payload).ok()?;
            let replicas = info["cluster"]["replicas"].as_array().cloned().unwrap_or_default();
            let is_there = |replica: &Value| replica["current"] == true && replica["pending"].is_null();
            (replicas.len() == wanted && replicas.iter().all(is_there)).then_some(info)
        })
        .await
    };
    let info = replicas(3).await;
    assert_eq!(info["state"]["messages"], 20, "{info}");
    for (body, code) in [
        (Value::Null, 10003),
        (json!({}), 10003),
        (json!("what"), 10025),
        (json!({"peer": "nobody"}), 10044),
        (json!({"peer": "N3", "peer_id": "nobody"}), 10044),
    ] {
        let refused = system_api(&admin, "SERVER.REMOVE", &body).await;
        assert_eq!(refused["error"]["err_code"], code, "{body}: {refused}");
        assert_eq!(refused["type"], "io.nats.jetstream.api.v1.meta_server_remove_response");
    }
    trio.end(fourth, Signal::KILL);
    let removed = system_api(&admin, "SERVER.REMOVE", &json!({"peer": "N3"})).await;
    assert_eq!(removed["success"], true, "{removed}");
    until("three members", async || (cluster_size(&admin).await == 3).then_some(())).await;
    let info = replicas(2).await;
    assert!(!info["cluster"].to_string().contains("N3"), "{info}");
    store_all(&client, "S", 20..30).await;
    // It is told that it was removed, and takes no part.
    trio.start_node(fourth);
    let other = trio.client(fourth).await;
    until("the streams that there are", async || {
        let names = request(&other, "$JS.API.STREAM.NAMES", "").await?;
        names.payload.windows(5).any(|window| window == b"[\"S\"]").then_some(())
    })
    .await;
    assert_eq!(cluster_size(&admin).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_leave_a_server_that_is_evacuated() {
    let mut trio = Trio::start();
    let client = trio.client(0).await;
    create(&client, &stream("S", 3)).await;
    store_all(&client, "S", 0..10).await;
    let admin = operator(&trio, 0).await;
    trio.start_another();
    until("four members", async || (cluster_size(&admin).await == 4).then_some(())).await;
    until("its replica at another server", async || {
        // What has another place is moved: the fourth server may not be known to be there yet.
        let evacuated = system_api(&admin, "SERVER.EVACUATE", &json!({"peer": "N1"})).await;
        assert_eq!(evacuated["success"], true, "{evacuated}");
        assert_eq!(evacuated["type"], "io.nats.jetstream.api.v1.meta_server_evacuate_response");
        let info = request(&client, "$JS.API.STREAM.INFO.S", "").await?;
        let info: Value = serde_json::from_slice(&info.payload).ok()?;
        let names = info["cluster"].to_string();
        let replicas = info["cluster"]["replicas"].as_array()?;
        let is_there = replicas.iter().all(|replica| replica["current"] == true);
        (replicas.len() == 2 && is_there && !names.contains("N1")).then_some(())
    })
    .await;
    assert_eq!(cluster_size(&admin).await, 4, "it stays a member");
    let removed = system_api(&admin, "SERVER.REMOVE", &json!({"peer": "N1"})).await;
    assert_eq!(removed["success"], true, "{removed}");
    until("it is known not to be healthy", async || {
        let (_, page) = trio.probe(1, "/healthz?js-enabled-only=true");
        (page["error"] == "JetStream not enabled (10076)").then_some(())
    })
    .await;
}
