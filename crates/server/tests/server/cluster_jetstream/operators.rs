//! What operators see of a cluster's JetStream: advisories about leaders, pages, health.

use super::*;
use crate::client::connect;
use async_nats::{ConnectOptions, Subscriber};

/// A client of the system account.
async fn operator(trio: &Trio, at: usize) -> Client {
    let options = ConnectOptions::with_user_and_password("admin".to_owned(), "admin".to_owned());
    connect(trio.nodes[at].server.as_ref().expect("it runs"), options).await.0
}

/// Answers of all three servers to a request of the system account.
async fn pages(admin: &Client, page: &str, options: &Value) -> Vec<Value> {
    until("three servers answer", async || {
        let inbox = admin.new_inbox();
        let mut answers = admin.subscribe(inbox.clone()).await.ok()?;
        let subject = format!("$SYS.REQ.SERVER.PING.{page}");
        admin.publish_with_reply(subject, inbox, options.to_string().into()).await.ok()?;
        let mut found: Vec<Value> = Vec::new();
        while found.len() < 3 {
            let answer = tokio::time::timeout(ATTEMPT, answers.next()).await.ok()??;
            found.push(serde_json::from_slice(&answer.payload).ok()?);
        }
        found.iter().all(|answer| answer.get("data").is_some()).then_some(found)
    })
    .await
}

/// The next advisory under this subject, skipping others.
async fn advisory(advisories: &mut Subscriber, subject: &str) -> Value {
    let subject = format!("$JS.EVENT.ADVISORY.{subject}");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let message = tokio::time::timeout_at(deadline, advisories.next()).await;
        let message = message.unwrap_or_else(|_| panic!("no {subject}")).expect("connected");
        if message.subject.as_str() == subject {
            return serde_json::from_slice(&message.payload).unwrap();
        }
    }
}

#[tokio::test]
async fn advisories_tell_who_leads() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    let admin = operator(&trio, 1).await;
    // From here on there is a meta leader.
    create(&clients[0], &stream("FIRST", 1)).await;
    let mut own = clients[0].subscribe("$JS.EVENT.ADVISORY.>").await.unwrap();
    let mut all = admin.subscribe("$JS.EVENT.ADVISORY.>").await.unwrap();
    // Until other servers know who listens.
    until("advisories of all servers", async || {
        for client in &clients {
            client.publish("$JS.EVENT.ADVISORY.probe", "".into()).await.ok()?;
            tokio::time::timeout(ATTEMPT, own.next()).await.ok()??;
        }
        api(&clients[1], "STREAM.LEADER.STEPDOWN.FIRST", &Value::Null).await;
        Some(())
    })
    .await;
    create(&clients[2], &stream("S", 3)).await;
    let first = advisory(&mut own, "STREAM.LEADER_ELECTED.S").await;
    assert_eq!(first["type"], "io.nats.jetstream.advisory.v1.stream_leader_elected");
    assert_eq!((first.get("account"), first["replicas"].as_array().map(Vec::len)), (None, Some(3)));
    let created = advisory(&mut own, "STREAM.CREATED.S").await;
    assert_eq!(created["action"], "create");
    consume(&clients[2], "S", "c").await;
    let of_consumer = advisory(&mut own, "CONSUMER.LEADER_ELECTED.S.c").await;
    assert_eq!((&of_consumer["leader"], &of_consumer["consumer"]), (&first["leader"], &json!("c")));
    settled(&clients[0], "S").await;
    api(&clients[0], "STREAM.LEADER.STEPDOWN.S", &Value::Null).await;
    let second = advisory(&mut own, "STREAM.LEADER_ELECTED.S").await;
    assert_ne!(second["leader"], first["leader"]);
    advisory(&mut own, "CONSUMER.LEADER_ELECTED.S.c").await;
    api(&clients[0], "STREAM.DELETE.S", &Value::Null).await;
    assert_eq!(advisory(&mut own, "STREAM.DELETED.S").await["action"], "delete");

    let of_system = advisory(&mut all, "STREAM.LEADER_ELECTED.S").await;
    assert_eq!((&of_system["account"], &of_system["leader"]), (&json!("$G"), &first["leader"]));
    let asked = request(&admin, "$JS.API.META.LEADER.STEPDOWN", "").await.expect("an answer");
    assert!(String::from_utf8_lossy(&asked.payload).contains(r#""success":true"#));
    let of_meta = advisory(&mut all, "DOMAIN.LEADER_ELECTED").await;
    assert_eq!((of_meta["leader"].as_str().map(str::len), &of_meta["cluster"]), (Some(8), &json!("C")));
}

#[tokio::test]
async fn pages_show_groups_and_who_leads_them() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    let admin = operator(&trio, 0).await;
    create(&clients[0], &stream("S", 3)).await;
    consume(&clients[0], "S", "c").await;
    let place = settled(&clients[0], "S").await["cluster"].clone();
    assert!(place["leader_since"].is_string() && place["system_account"] == true, "{place}");
    assert_eq!(place["traffic_account"], "$SYS");

    let wanted = json!({ "accounts": true, "streams": true, "consumer": true, "raft": true });
    let shown = pages(&admin, "JSZ", &wanted).await;
    let count = |key: &str| shown.iter().filter_map(|page| page["data"][key].as_u64()).sum::<u64>();
    assert_eq!((count("streams_leader"), count("consumers_leader")), (1, 1), "{shown:?}");
    let mut led = 0;
    for page in shown.iter().map(|page| &page["data"]) {
        let meta = &page["meta_cluster"];
        assert_eq!(
            (&meta["name"], &meta["cluster_size"], &meta["quorum_needed"]),
            (&json!("C"), &json!(3), &json!(2))
        );
        assert_eq!(meta["leader"], shown[0]["data"]["meta_cluster"]["leader"]);
        assert_eq!(meta["replicas"].as_array().map(Vec::len), Some(2), "{meta}");
        let stream = &page["account_details"][0]["stream_detail"][0];
        assert_eq!(stream["stream_raft_group"], place["raft_group"]);
        assert_eq!(stream["cluster"]["leader"], place["leader"]);
        led += u64::from(stream["cluster"].get("leader_since").is_some());
    }
    assert_eq!(led, 1, "one leads");

    let groups = pages(&admin, "RAFTZ", &json!({ "account": "$G" })).await;
    let name = place["raft_group"].as_str().expect("a name");
    let states = groups.iter().map(|page| page["data"]["$G"][name]["state"].as_str().unwrap_or_default());
    assert_eq!(states.filter(|state| *state == "LEADER").count(), 1, "{groups:?}");
    let of_meta = pages(&admin, "RAFTZ", &json!({})).await;
    assert!(of_meta.iter().all(|page| page["data"]["$SYS"]["_meta_"]["size"] == 3), "{of_meta:?}");
    let health = pages(&admin, "HEALTHZ", &json!({})).await;
    assert!(health.iter().all(|page| page["data"]["status"] == "ok"), "{health:?}");
}

#[tokio::test]
async fn a_server_without_a_meta_leader_is_not_healthy() {
    let mut trio = Trio::start();
    create(&trio.client(0).await, &stream("S", 3)).await;
    trio.end(1, Signal::KILL);
    trio.end(2, Signal::KILL);
    let admin = operator(&trio, 0).await;
    let health = until("its health has changed", async || {
        let answer = request(&admin, "$SYS.REQ.SERVER.PING.HEALTHZ", "").await?;
        let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
        (answer["data"]["status"] != "ok").then_some(answer)
    })
    .await;
    let why = "JetStream has not established contact with a meta leader";
    assert_eq!((&health["data"]["status"], &health["data"]["error"]), (&json!("unavailable"), &json!(why)));
}
