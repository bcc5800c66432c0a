//! Streams that have lost most of their servers for good go on with those that are left, when an
//! operator says so.

use super::operators::operator;
use super::servers::{cluster_size, system_api};
use super::*;

/// Five servers, a stream of three replicas with so many messages, and which servers have it.
async fn five_with_a_stream(messages: u64) -> (Trio, Vec<usize>) {
    let mut trio = Trio::start();
    trio.start_another();
    trio.start_another();
    let (client, admin) = (trio.client(0).await, operator(&trio, 0).await);
    until("five members", async || (cluster_size(&admin).await == 5).then_some(())).await;
    create(&client, &stream("S", 3)).await;
    store_all(&client, "S", 0..messages).await;
    let info = settled(&client, "S").await;
    let mut have = vec![trio.at(info["cluster"]["leader"].as_str().expect("it is led"))];
    let replicas = info["cluster"]["replicas"].as_array().expect("replicas");
    have.extend(replicas.iter().map(|replica| trio.at(replica["name"].as_str().expect("a name"))));
    (trio, have)
}

/// Everything that servers say to a request for a plan, once the meta leader is among them and sees
/// these servers lost.
async fn plan(admin: &Client, lost: usize) -> (Value, Vec<Value>) {
    let body = json!({ "account": "$G", "stream": "S" }).to_string();
    until("a plan", async || {
        let inbox = admin.new_inbox();
        let mut answers = admin.subscribe(inbox.clone()).await.ok()?;
        admin.publish_with_reply("$JS.API.MYELIN.RECOVER.PLAN", inbox, body.clone().into()).await.ok()?;
        let (mut group, mut replicas) = (None, Vec::new());
        while let Ok(Some(answer)) = tokio::time::timeout(Duration::from_millis(500), answers.next()).await {
            let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
            group = group.or(answer.get("group").cloned());
            replicas.extend(answer.get("replica").map(|_| answer.clone()));
        }
        group
            .filter(|group| group["lost"].as_array().map(Vec::len) == Some(lost))
            .map(|group| (group, replicas))
    })
    .await
}

/// The answer to an order to go on with those that are left, once the meta leader sees so many
/// servers lost.
async fn recovered(admin: &Client, lost: usize) -> Value {
    until("it is recovered", async || {
        let (group, _) = plan(admin, lost).await;
        let lost: Vec<&Value> = group["lost"].as_array()?.iter().map(|lost| &lost["name"]).collect();
        let order = json!({ "account": "$G", "stream": "S", "lost": lost, "plan": group["plan"] });
        let answer = request(admin, "$JS.API.MYELIN.RECOVER.STREAM", &order.to_string()).await?;
        let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
        (answer["success"] == true).then_some(answer)
    })
    .await
}

/// Messages of the stream, once it has so many other replicas that are current.
async fn messages(client: &Client, others: usize) -> Option<u64> {
    let info = request(client, "$JS.API.STREAM.INFO.S", "").await?;
    let info: Value = serde_json::from_slice(&info.payload).ok()?;
    let replicas = info["cluster"]["replicas"].as_array()?;
    let is_whole = replicas.len() == others && replicas.iter().all(|replica| replica["current"] == true);
    (is_whole && info["cluster"]["desired"].is_null()).then(|| info["state"]["messages"].as_u64())?
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_with_the_one_replica_that_is_left() {
    let (mut trio, have) = five_with_a_stream(30).await;
    let left = have[1];
    let (client, admin) = (trio.client(left).await, operator(&trio, left).await);
    let body = json!({ "account": "$G", "stream": "S", "lost": [], "plan": "" });
    let refused = until("the meta leader answers", async || {
        let answer = request(&admin, "$JS.API.MYELIN.RECOVER.STREAM", &body.to_string()).await?;
        serde_json::from_slice::<Value>(&answer.payload).ok()
    })
    .await;
    assert!(refused["error"]["description"].to_string().contains("look at it again"), "{refused}");
    let lost = [have[0], have[2]];
    lost.iter().for_each(|at| trio.end(*at, Signal::KILL));

    let (group, replicas) = plan(&admin, 2).await;
    assert_eq!(group["lacks_majority"], true, "{group}");
    let own = replicas.iter().find(|answer| answer["server"] == trio.nodes[left].name.as_str());
    assert_eq!(own.expect("the one that is left")["replica"]["last_seq"], 30);
    let names: Vec<&str> = lost.iter().map(|at| trio.nodes[*at].name.as_str()).collect();
    let order =
        |lost: &[&str]| json!({ "account": "$G", "stream": "S", "lost": lost, "plan": group["plan"] });
    let refused = system_api(&admin, "MYELIN.RECOVER.STREAM", &order(&names[..1])).await;
    assert!(refused["error"]["description"].to_string().contains("those that are away"), "{refused}");
    let done = system_api(&admin, "MYELIN.RECOVER.STREAM", &order(&names)).await;
    assert_eq!(
        (&done["success"], &done["servers"]),
        (&json!(true), &json!([trio.nodes[left].name])),
        "{done}"
    );
    // It is led again, has what was acknowledged, and gets replicas on the servers that are free.
    store_all(&client, "S", 30..40).await;
    until("three replicas", async || (messages(&client, 2).await? == 40).then_some(())).await;

    // Both come back with their disks: what they have of before counts no more, for anybody.
    lost.iter().for_each(|at| trio.start_node(*at));
    store_all(&client, "S", 40..50).await;
    for at in 0..5 {
        let client = trio.client(at).await;
        until("all messages, at any server", async || (messages(&client, 2).await? == 50).then_some(()))
            .await;
    }
    for at in lost {
        let server = trio.nodes[at].server.as_ref().expect("it runs");
        until("its old replica is gone", async || {
            let page = server.page("/jsz?streams=true");
            (page["streams"] == 0).then_some(())
        })
        .await;
    }
}

/// Servers that have nothing of a stream, and to which operators have moved it first, do not count:
/// only those that voted do.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_recovered_whatever_was_tried_before() {
    let (mut trio, have) = five_with_a_stream(20).await;
    let left = have[0];
    let (client, admin) = (trio.client(left).await, operator(&trio, left).await);
    let lost = [have[1], have[2]];
    lost.iter().for_each(|at| {
        trio.end(*at, Signal::KILL);
        trio.lose_disk(*at);
    });
    let names: Vec<String> = lost.iter().map(|at| trio.nodes[*at].name.clone()).collect();
    plan(&admin, 2).await;
    try_api(&client, "STREAM.PEER.REMOVE.S", &json!({ "peer": names[0] })).await;
    for name in &names {
        until("it is removed", async || {
            let answer =
                request(&admin, "$JS.API.SERVER.REMOVE", &json!({ "peer": name }).to_string()).await?;
            let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
            (answer["success"] == true || answer["error"]["err_code"] == 10044).then_some(())
        })
        .await;
    }
    until("it is assigned to others, and stands still", async || {
        let (group, _) = plan(&admin, 2).await;
        let assigned =
            group["assigned"].as_array()?.iter().filter(|name| !names.iter().any(|lost| *name == lost));
        (assigned.count() == 3 && group["lacks_majority"] == true).then_some(())
    })
    .await;
    let done = recovered(&admin, 2).await;
    assert_eq!(done["servers"], json!([trio.nodes[left].name]), "{done}");
    store_all(&client, "S", 20..30).await;
    until("three replicas", async || (messages(&client, 2).await? == 30).then_some(())).await;
    // One that begins anew keeps to what was decided.
    trio.end(left, Signal::KILL);
    trio.start_node(left);
    let client = trio.client(left).await;
    store_all(&client, "S", 30..35).await;
    until("three replicas", async || (messages(&client, 2).await? == 35).then_some(())).await;
}

/// The servers that are given up had a majority, and acknowledged what the others never heard of.
/// They come back together, and get replicas of the stream again.
#[tokio::test(flavor = "multi_thread")]
async fn what_servers_that_were_given_up_have_of_before_counts_no_more() {
    let (mut trio, have) = five_with_a_stream(20).await;
    let client = trio.client(have[0]).await;
    until("five replicas", async || {
        let answer = try_api(&client, "STREAM.UPDATE.S", &stream("S", 5)).await;
        answer.get("error").is_none().then_some(())
    })
    .await;
    until("five replicas that are current", async || messages(&client, 4).await).await;
    let (left, lost) = ([have[1], have[2]], (0..5).filter(|at| *at != have[1] && *at != have[2]));
    let lost: Vec<usize> = lost.collect();
    left.iter().for_each(|at| trio.end(*at, Signal::KILL));
    store_all(&trio.client(lost[0]).await, "S", 20..30).await;
    lost.iter().for_each(|at| trio.end(*at, Signal::KILL));
    left.iter().for_each(|at| trio.start_node(*at));

    let (client, admin) = (trio.client(left[0]).await, operator(&trio, left[0]).await);
    let admins = [admin.clone(), operator(&trio, left[1]).await];
    until("the meta group is led again", async || {
        for admin in &admins {
            // Refused as long as one of those that are lost is taken for the leader.
            request(admin, "$JS.API.META.RESCUE", r#"{"quorum_needed":2}"#).await;
        }
        let names = request(&client, "$JS.API.STREAM.NAMES", "").await?;
        names.payload.windows(5).any(|window| window == b"[\"S\"]").then_some(())
    })
    .await;
    let done = recovered(&admin, 3).await;
    assert_eq!(done["servers"].as_array().map(Vec::len), Some(2), "{done}");
    store_all(&client, "S", 100..105).await;
    lost.iter().for_each(|at| trio.start_node(*at));
    until("five replicas", async || (messages(&client, 4).await? == 25).then_some(())).await;
    for at in lost {
        let server = trio.nodes[at].server.as_ref().expect("it runs");
        until("the group's messages", async || {
            let page = server.page("/jsz?streams=true&accounts=true");
            let state = &page["account_details"][0]["stream_detail"][0]["state"];
            (state["messages"] == 25 && state["last_seq"] == 25).then_some(())
        })
        .await;
    }
    store_all(&client, "S", 105..110).await;
}
