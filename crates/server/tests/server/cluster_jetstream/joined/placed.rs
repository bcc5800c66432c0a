//! Streams of clusters that gateways join: in which one each lies, and how it comes to another one.

use super::super::operators::{back_up, restore};
use super::*;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// A stream that is bound to a cluster.
fn bound(cluster: &str, name: &str, replicas: u64) -> Value {
    let mut config = stream(name, replicas);
    config["placement"] = json!({ "cluster": cluster });
    config
}

async fn info(client: &Client, name: &str) -> Value {
    api(client, &format!("STREAM.INFO.{name}"), &Value::Null).await
}

/// Waits until a stream is in a cluster, and nowhere else. Answers its info.
async fn lies_in(client: &Client, (cluster, name): (&str, &str), replicas: usize) -> Value {
    until(&format!("{name} is in {cluster}"), async || {
        let info = info(client, name).await;
        let place = &info["cluster"];
        let others = place["replicas"].as_array().cloned().unwrap_or_default();
        let is_there = |name: &Value| name.as_str().is_some_and(|name| name.starts_with(cluster));
        let all_there = is_there(&place["leader"]) && others.iter().all(|one| is_there(&one["name"]));
        let is_current = others.len() + 1 == replicas && others.iter().all(|one| one["current"] == true);
        let is_settled = all_there && is_current && place.get("desired").is_none();
        (is_settled && place["name"] == cluster).then_some(info)
    })
    .await
}

#[tokio::test]
async fn a_new_stream_lies_where_its_client_is_or_is_to_be() {
    let joined = Joined::start(&[("A", 3), ("B", 3)]);
    joined.are_there(6).await;
    let clients = [("A", joined.client("A1").await), ("B", joined.client("B2").await)];
    // The client is of the leader's cluster, or of another one, behind each of its servers.
    for led in ["A2", "B3"] {
        joined.lead(led, 6).await;
        joined.are_there(6).await;
        for (own, client) in &clients {
            let other = if *own == "A" { "B" } else { "A" };
            for replicas in [1, 3] {
                let name = format!("{led}{own}{replicas}");
                let made = create(client, &stream(&name, replicas)).await;
                assert_eq!(made["cluster"]["name"], *own, "{made}");
                lies_in(client, (own, &name), usize::try_from(replicas).unwrap()).await;
                let name = format!("{name}far");
                let made = create(client, &bound(other, &name, replicas)).await;
                assert_eq!(made["cluster"]["name"], other, "{made}");
                lies_in(client, (other, &name), usize::try_from(replicas).unwrap()).await;
            }
            // Where the client is are none that suit.
            let name = format!("{led}{own}tag");
            create(client, &within(other, &name, 2)).await;
            lies_in(client, (other, &name), 2).await;
            for (config, words) in [
                (stream("NONE", 5), ""),
                (bound("C", "NONE", 1), ""),
                (within("C", "NONE", 1), ", tags not matched ['in:c']"),
            ] {
                let answer = try_api(client, "STREAM.CREATE.NONE", &config).await;
                assert_eq!(answer["error"]["err_code"], 10005, "{answer}");
                let wanted = format!("no suitable peers for placement{words}");
                assert_eq!(answer["error"]["description"], wanted, "{config}");
            }
        }
    }
}

/// Has messages stored one after the other, each as often as that has to be tried, until it is told
/// to stop. Answers how many.
async fn store_until(client: &Client, stream: &str, stop: &AtomicBool) -> u64 {
    let mut stored = 0;
    while !stop.load(Relaxed) {
        store_all(client, stream, stored..stored + 1).await;
        stored += 1;
    }
    stored
}

#[tokio::test]
async fn a_stream_moves_between_clusters_under_its_publishers_and_consumers() {
    let joined = Joined::start(&[("A", 3), ("B", 3)]);
    joined.are_there(6).await;
    let (a, b) = (joined.client("A1").await, joined.client("B1").await);
    for replicas in [3, 1] {
        let name = if replicas == 3 { "S3" } else { "S1" };
        let count = usize::try_from(replicas).unwrap();
        create(&a, &stream(name, replicas)).await;
        consume(&b, name, "c").await;
        let stop = AtomicBool::new(false);
        let moves = async {
            for to in ["B", "A", "B"] {
                let moved = api(&a, &format!("STREAM.UPDATE.{name}"), &bound(to, name, replicas)).await;
                let from = if to == "A" { "B" } else { "A" };
                assert_eq!(moved["cluster"]["desired"]["name"], to, "{moved}");
                assert_eq!(moved["cluster"]["name"], from, "{moved}");
                lies_in(&b, (to, name), count).await;
                take(&b, (name, "c"), 5).await;
            }
            stop.store(true, Relaxed);
        };
        let (stored, ()) = tokio::join!(store_until(&a, name, &stop), moves);
        assert_eq!(info(&b, name).await["state"]["messages"], stored, "all, and each once");
        let place = api(&a, &format!("CONSUMER.INFO.{name}.c"), &Value::Null).await["cluster"].clone();
        assert_eq!(place["name"], "B", "{place}");
    }
}

#[tokio::test]
async fn a_mirror_in_another_cluster_is_an_alternate_for_clients_there() {
    let joined = Joined::start(&[("A", 3), ("B", 2)]);
    joined.are_there(5).await;
    let (a, b) = (joined.client("A1").await, joined.client("B1").await);
    create(&a, &stream("S", 3)).await;
    let mirror = json!({ "name": "M", "num_replicas": 2, "mirror": { "name": "S" } });
    create(&b, &mirror).await;
    store_all(&a, "S", 0..10).await;
    until("the mirror has everything", async || {
        (info(&a, "M").await["state"]["messages"] == 10).then_some(())
    })
    .await;
    lies_in(&b, ("B", "M"), 2).await;
    let (own, far) = (json!({ "name": "S", "cluster": "A" }), json!({ "name": "M", "cluster": "B" }));
    assert_eq!(info(&a, "S").await["alternates"], json!([own, far]));
    assert_eq!(info(&b, "S").await["alternates"], json!([far, own]));
}

#[tokio::test]
async fn a_restored_stream_comes_to_the_cluster_of_who_restores_it() {
    let joined = Joined::start(&[("A", 3), ("B", 2)]);
    joined.are_there(5).await;
    joined.lead("B1", 5).await;
    joined.are_there(5).await;
    let a = joined.client("A1").await;
    create(&a, &stream("S", 3)).await;
    store_all(&a, "S", 0..20).await;
    let backup = back_up(&a, "S").await;
    api(&a, "STREAM.DELETE.S", &Value::Null).await;
    let done = restore(&a, "S", backup).await;
    assert_eq!(done["state"]["messages"], 20, "{done}");
    let found = lies_in(&a, ("A", "S"), 3).await;
    assert_eq!((&found["state"]["messages"], &found["config"]["num_replicas"]), (&json!(20), &json!(3)));
    store_all(&a, "S", 20..25).await;
}

#[tokio::test]
async fn a_server_of_the_named_cluster_leads_the_meta_group() {
    let joined = Joined::start(&[("A", 2), ("B", 2)]);
    joined.are_there(4).await;
    let admin = joined.operator("A1").await;
    for cluster in ["B", "A", "B"] {
        let body = json!({ "placement": { "cluster": cluster } }).to_string();
        until("a server of the cluster leads", async || {
            request(&admin, "$JS.API.META.LEADER.STEPDOWN", &body).await?;
            joined.agrees(4).await.starts_with(cluster).then_some(())
        })
        .await;
    }
    let body = json!({ "placement": { "cluster": "C" } }).to_string();
    let refused = request(&admin, "$JS.API.META.LEADER.STEPDOWN", &body).await.expect("an answer");
    let refused: Value = serde_json::from_slice(&refused.payload).unwrap();
    assert_eq!(refused["error"]["description"], "no replacement peer connected", "{refused}");
}
