//! Pages of servers that share JetStream: each tells of what it was assigned, be it led elsewhere,
//! in memory, or without replicas, and of accounts as a whole.
//!
//! What is expected is what nats-server 2.15.2 says in the same place.

use super::*;

impl Trio {
    fn page(&self, at: usize, path: &str) -> Value {
        self.nodes[at].server.as_ref().expect("it runs").page(path)
    }

    /// Streams of the account of all clients, as a server lists them.
    fn listed(&self, at: usize, more: &str) -> Vec<Value> {
        let page = self.page(at, &format!("/jsz?acc=$G&streams=1&consumers=1&raft=1{more}"));
        page["account_details"][0]["stream_detail"].as_array().cloned().unwrap_or_default()
    }

    fn one_listed(&self, at: usize, name: &str, more: &str) -> Value {
        let all = self.listed(at, more);
        all.into_iter().find(|stream| stream["name"] == name).unwrap_or_default()
    }
}

/// A stream that is at one server.
fn placed(name: &str, at: usize) -> Value {
    let mut config = stream(name, 1);
    config["placement"] = json!({ "tags": [format!("az:{at}")] });
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_of_streams_in_memory_and_of_accounts_elsewhere() {
    let trio = Trio::start();
    let client = trio.client(0).await;
    let mut one = placed("M1", 1);
    one["storage"] = json!("memory");
    create(&client, &one).await;
    let healthy = |at: usize, query: &str| trio.probe(at, &format!("/healthz?account=$G{query}")).0;
    for at in 0..3 {
        until("the account is found", async || healthy(at, "").then_some(())).await;
        until("one server has it", async || (healthy(at, "&stream=M1") == (at == 1)).then_some(())).await;
    }
    let mut three = stream("M3", 3);
    three["storage"] = json!("memory");
    create(&client, &three).await;
    for at in 0..3 {
        until("each has a replica", async || healthy(at, "&stream=M3").then_some(())).await;
        let (_, found) = trio.probe(at, "/healthz?account=$G&stream=NONE");
        assert_eq!(found["error"], "JetStream stream \"NONE\" not found on account \"$G\"");
        let (_, found) = trio.probe(at, "/healthz?account=NONE");
        assert_eq!(found["error"], "JetStream account \"NONE\" not found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_asset_has_a_group_and_those_that_copy_are_apart() {
    let trio = Trio::start();
    let client = trio.client(0).await;
    create(&client, &placed("O", 1)).await;
    consume(&client, "O", "c").await;
    consume(&client, "O", "d").await;
    store_all(&client, "O", 0..3).await;
    let mut copy = placed("X", 2);
    copy["sources"] = json!([{ "name": "O" }]);
    create(&client, &copy).await;
    let names = |stream: &Value, list: &str| {
        let all = stream[list].as_array().cloned().unwrap_or_default();
        let names = all.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned());
        names.collect::<Vec<_>>()
    };
    let listed = until("the consumer that copies", async || {
        let stream = trio.one_listed(1, "O", "&direct-consumers=1");
        (names(&stream, "direct_consumer_detail").len() == 1).then_some(stream)
    })
    .await;
    assert_eq!(names(&listed, "consumer_detail"), ["c", "d"], "{listed}");
    let listed = trio.one_listed(1, "O", "");
    assert!(listed.get("direct_consumer_detail").is_none(), "{listed}");
    assert_eq!((names(&listed, "consumer_detail").len(), &listed["state"]["consumer_count"]), (2, &json!(2)));
    // A group of one, which tools know streams and consumers by.
    assert!(listed["stream_raft_group"].as_str().is_some_and(|name| name.starts_with("S-R1F-")), "{listed}");
    let groups = listed["consumer_raft_groups"].as_array().expect("groups");
    let of_consumers: Vec<_> = groups.iter().filter_map(|group| group["raft_group"].as_str()).collect();
    assert_eq!(names(&listed, "consumer_raft_groups"), ["c", "d"], "{listed}");
    assert!(of_consumers.iter().all(|name| name.starts_with("C-R1F-") && name.len() == 14), "{listed}");
    assert_ne!(of_consumers[0], of_consumers[1], "{listed}");
    for consumer in listed["consumer_detail"].as_array().expect("consumers") {
        assert_eq!(consumer["cluster"], json!({ "name": "C", "leader": "N1" }), "{consumer}");
    }
    // The meta group's own log is no stream of anybody.
    for at in 0..3 {
        let bytes: u64 =
            trio.listed(at, "").iter().filter_map(|stream| stream["state"]["bytes"].as_u64()).sum();
        for (page, path) in [("/jsz", "/storage"), ("/varz", "/jetstream/stats/storage")] {
            assert_eq!(trio.page(at, page).pointer(path), Some(&json!(bytes)), "{page} of {at}");
        }
    }
}

/// Limits of an account are those of all servers together, and so is what is shown beside them.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_with_limits_shows_what_it_uses_on_all_servers() {
    let mut trio = Trio::prepare("");
    for node in &mut trio.nodes {
        let account =
            "accounts { A { jetstream { max_mem: 1M, max_file: 10M }, users: [{user: a, password: a}] },";
        node.config = format!("{}no_auth_user: a\n", node.config.replace("accounts {", account));
        node.setup = Setup::default().config(&node.config);
    }
    (0..3).for_each(|at| trio.start_node(at));
    let client = trio.client(0).await;
    create(&client, &stream("S", 3)).await;
    create(&client, &placed("O", 1)).await;
    store_all(&client, "S", 0..3).await;
    store_all(&client, "O", 0..3).await;
    let bytes = |info: &Value| info["state"]["bytes"].as_u64().expect("a number");
    let alone = api(&client, "STREAM.INFO.O", &Value::Null).await;
    let stored = bytes(&settled(&client, "S").await) * 3 + bytes(&alone);
    for at in 0..3 {
        until("what all servers store", async || {
            let detail = trio.page(at, "/jsz?acc=A")["account_details"][0].clone();
            (detail["storage"] == stored).then_some(())
        })
        .await;
    }
}

/// Health checks ask every server that has a replica, whichever leads the stream.
#[tokio::test(flavor = "multi_thread")]
async fn followers_tell_of_the_consumers_of_their_streams() {
    let trio = Trio::start_with("metrics: true\n");
    let client = trio.client(0).await;
    create(&client, &stream("S", 3)).await;
    consume(&client, "S", "c").await;
    consume(&client, "S", "d").await;
    store_all(&client, "S", 0..5).await;
    assert_eq!(take(&client, ("S", "c"), 2).await, ["0", "1"]);
    let led = leader(&client, "S").await;
    let shown = |at: usize| {
        let stream = trio.one_listed(at, "S", "");
        let consumers = stream["consumer_detail"].as_array().cloned().unwrap_or_default();
        let positions = consumers.iter().map(|one| {
            let place = (one["cluster"]["leader"].clone(), one["ack_floor"]["stream_seq"].clone());
            (one["name"].clone(), place, one["num_pending"].clone())
        });
        let groups = stream["consumer_raft_groups"].as_array().map_or(0, Vec::len);
        (positions.collect::<Vec<_>>(), groups, stream["state"]["consumer_count"].clone())
    };
    let of = |name: &str, floor: u64, pending: u64| (json!(name), (json!(led), json!(floor)), json!(pending));
    let expected = (vec![of("c", 2, 3), of("d", 0, 5)], 2, json!(2));
    for at in 0..3 {
        until("each shows both", async || (shown(at) == expected).then_some(())).await;
        for (consumer, is_there) in [("c", true), ("d", true), ("e", false)] {
            let (is_well, body) =
                trio.probe(at, &format!("/healthz?account=$G&stream=S&consumer={consumer}"));
            assert_eq!(is_well, is_there, "{at}: {body}");
        }
        let page = trio.page(at, "/jsz");
        assert_eq!((&page["consumers"], &page["ha_assets"]), (&json!(2), &json!(4)), "{at}");
    }
    let (_, metrics) = trio.nodes[0].server.as_ref().expect("it runs").exchange("/metrics");
    for name in ["c", "d"] {
        let row = format!("consumer_name=\"{name}\"");
        assert!(metrics.lines().any(|line| line.contains(&row)), "{metrics}");
    }
}
