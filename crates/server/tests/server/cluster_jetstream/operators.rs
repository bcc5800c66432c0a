//! Operators' views of a cluster's JetStream: advisories about leaders, pages, health.

use super::*;
use crate::client::connect;
use async_nats::{ConnectOptions, Subscriber};

/// A client of the system account.
pub(super) async fn operator(trio: &Trio, at: usize) -> Client {
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
            return serde_json::from_slice(&message.payload).expect("JSON");
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

/// As nats-server shows it: clients wait for a leader there.
#[tokio::test]
async fn a_page_shows_the_meta_group_before_it_is_formed() {
    let mut trio = Trio::prepare("");
    trio.start_node(0);
    let admin = operator(&trio, 0).await;
    let page = request(&admin, "$SYS.REQ.SERVER.PING.JSZ", "{}").await.expect("a page");
    let page: Value = serde_json::from_slice(&page.payload).expect("JSON");
    let meta = &page["data"]["meta_cluster"];
    assert_eq!((&meta["name"], &meta["cluster_size"]), (&json!("C"), &json!(3)), "{meta}");
    assert!(meta.get("leader").is_none() && meta.get("replicas").is_none(), "{meta}");
}

/// The address is none that the server knows of itself.
#[tokio::test]
async fn a_route_that_turns_out_to_lead_to_the_server_itself_stands_for_nobody() {
    let mut trio = Trio::prepare("");
    for node in &mut trio.nodes {
        let elsewhere = node.config.replace("nats://127.0.0.1:", "nats://127.0.0.2:");
        node.config = elsewhere.replace("listen: \"127.0.0.1:", "listen: \"0.0.0.0:");
        node.setup = Setup::default().config(&node.config);
    }
    (0..3).for_each(|at| trio.start_node(at));
    create(&trio.client(0).await, &stream("S", 3)).await;
}

#[tokio::test]
async fn a_server_without_a_meta_leader_is_not_healthy() {
    let mut trio = Trio::start();
    create(&trio.client(0).await, &stream("S", 3)).await;
    trio.end(1, Signal::KILL);
    trio.end(2, Signal::KILL);
    let admin = operator(&trio, 0).await;
    // The stream's group may be the first to notice, and the servers may not be missed yet when
    // there is no leader any more.
    let health = until("it knows of no meta leader, and why", async || {
        let answer = request(&admin, "$SYS.REQ.SERVER.PING.HEALTHZ", "").await?;
        let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
        let why = answer["data"]["error"].as_str()?;
        let is_whole = why.starts_with("JetStream has not established contact with a meta leader")
            && why.contains(": no quorum: N1 unreachable for ")
            && why.contains(", N2 unreachable for ");
        is_whole.then_some(answer)
    })
    .await;
    assert_eq!(health["data"]["status"], "unavailable");
}

#[tokio::test]
async fn streams_are_where_their_placement_says() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("S", 3)).await;
    let placed = |name: &str, replicas: u64, placement: Value| {
        let mut config = stream(name, replicas);
        config["placement"] = placement;
        config
    };
    for at in 0..3 {
        let name = format!("T{at}");
        let made =
            create(&clients[0], &placed(&name, 1, json!({ "tags": [format!("AZ:{at}"), "ssd"] }))).await;
        assert_eq!(made["cluster"]["leader"], format!("N{at}"), "{made}");
    }
    let elsewhere = create(&clients[1], &placed("E", 1, json!({ "tags": ["!az:0", "!az:2"] }))).await;
    assert_eq!(elsewhere["cluster"]["leader"], "N1");
    for (replicas, placement, why) in [
        (3, json!({ "tags": ["az:1"] }), ", tags not matched ['az:1']"),
        (1, json!({ "tags": ["nope"] }), ", tags not matched ['nope']"),
        (3, json!({ "tags": ["!az:1"] }), ", tags excluded ['az:1']"),
        (1, json!({ "cluster": "OTHER" }), ""),
        (5, json!({ "tags": ["ssd"] }), ""),
    ] {
        let refused = try_api(&clients[2], "STREAM.CREATE.X", &placed("X", replicas, placement)).await;
        let text = format!("no suitable peers for placement{why}");
        assert_eq!(
            (&refused["error"]["err_code"], &refused["error"]["description"]),
            (&json!(10005), &json!(text))
        );
    }

    settled(&clients[0], "S").await;
    for at in [0, 1, 2, 0] {
        let name = format!("N{at}");
        let wanted = json!({ "placement": { "preferred": name } });
        let asked = try_api(&clients[1], "STREAM.LEADER.STEPDOWN.S", &wanted).await;
        let refused = format!("preferred server \"{name}\" is already leader");
        assert!(asked["success"] == true || asked["error"]["description"] == refused, "{asked}");
        until("it leads", async || (leader(&clients[2], "S").await == name).then_some(())).await;
    }
    let unknown = json!({ "placement": { "preferred": "N9" } });
    let refused = try_api(&clients[1], "STREAM.LEADER.STEPDOWN.S", &unknown).await;
    assert_eq!(refused["error"]["description"], "preferred server \"N9\" not known");

    let mirror = json!({ "name": "M", "mirror": { "name": "S" }, "num_replicas": 1 });
    create(&clients[0], &mirror).await;
    let alternates = until("the mirror is an alternate", async || {
        api(&clients[0], "STREAM.INFO.S", &Value::Null).await.get("alternates").cloned()
    })
    .await;
    assert_eq!(alternates, json!([{ "name": "S", "cluster": "C" }, { "name": "M", "cluster": "C" }]));

    let admin = operator(&trio, 1).await;
    let purged = request(&admin, "$JS.API.ACCOUNT.PURGE.$G", "").await.expect("an answer");
    let purged: Value = serde_json::from_slice(&purged.payload).unwrap();
    assert_eq!(purged["initiated"], true, "{purged}");
    until("no stream is left", async || {
        let names = api(&clients[2], "STREAM.NAMES", &Value::Null).await;
        (names["total"] == 0).then_some(())
    })
    .await;
}

/// Pieces of a backup of a stream.
pub(super) async fn back_up(client: &Client, name: &str) -> (Value, Vec<Vec<u8>>) {
    let inbox = client.new_inbox();
    let mut pieces = client.subscribe(inbox.clone()).await.expect("a subscription");
    let answer = api(client, &format!("STREAM.SNAPSHOT.{name}"), &json!({ "deliver_subject": inbox })).await;
    let mut all = Vec::new();
    loop {
        let piece = tokio::time::timeout(PATIENCE, pieces.next()).await.expect("a piece").expect("connected");
        if piece.payload.is_empty() {
            return (answer, all);
        }
        all.push(piece.payload.to_vec());
        if let Some(reply) = piece.reply {
            client.publish(reply, "".into()).await.expect("it is connected");
        }
    }
}

/// Has a stream restored from its backup. Answers the answer to the last piece.
pub(super) async fn restore(client: &Client, name: &str, (backup, pieces): (Value, Vec<Vec<u8>>)) -> Value {
    let body = json!({ "config": backup["config"], "state": backup["state"] });
    let restore = api(client, &format!("STREAM.RESTORE.{name}"), &body).await;
    let subject = restore["deliver_subject"].as_str().expect("a subject").to_owned();
    for piece in pieces {
        // Another cluster hears of the interest in it when it does.
        let taken = until("the first piece is taken", async || {
            client.request(subject.clone(), piece.clone().into()).await.ok()
        });
        let taken = taken.await;
        assert!(taken.payload.is_empty(), "{taken:?}");
    }
    let done = client.request(subject, "".into()).await.expect("an answer");
    serde_json::from_slice(&done.payload).expect("JSON")
}

#[tokio::test]
async fn a_restored_stream_gets_its_replicas() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("S", 3)).await;
    store_all(&clients[1], "S", 0..20).await;
    let backup = back_up(&clients[1], "S").await;
    api(&clients[0], "STREAM.DELETE.S", &Value::Null).await;
    let done = restore(&clients[2], "S", backup).await;
    assert_eq!(done["state"]["messages"], 20, "{done}");
    let settled = settled(&clients[0], "S").await;
    assert_eq!((&settled["state"]["messages"], &settled["config"]["num_replicas"]), (&json!(20), &json!(3)));
    store_all(&clients[1], "S", 20..30).await;
}

#[tokio::test]
async fn a_backup_is_restored_through_any_server() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("ONE", 1)).await;
    store_all(&clients[1], "ONE", 0..20).await;
    for client in &clients {
        let (backup, pieces) = back_up(client, "ONE").await;
        api(client, "STREAM.DELETE.ONE", &Value::Null).await;
        let done = restore(client, "ONE", (backup, pieces)).await;
        assert_eq!(done["state"]["messages"], 20, "{done}");
        for other in &clients {
            assert_eq!(api(other, "STREAM.INFO.ONE", &Value::Null).await["state"]["messages"], 20);
        }
        until("the cluster knows it", async || {
            let names = api(client, "STREAM.NAMES", &Value::Null).await;
            (names["streams"] == json!(["ONE"])).then_some(())
        })
        .await;
    }
}
