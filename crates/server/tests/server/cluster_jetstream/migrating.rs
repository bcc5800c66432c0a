//! Leaders of streams go elsewhere while the link of their server to a hub is down.

use super::*;

/// Asks that a stream be led by a server of this name.
async fn ask_for_leader(client: &Client, stream: &str, name: &str) -> Value {
    let body = json!({ "placement": { "preferred": name } });
    try_api(client, &format!("STREAM.LEADER.STEPDOWN.{stream}"), &body).await
}

async fn until_led_by(client: &Client, stream: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    until("another leader", async || Some(leader(client, stream).await).filter(|name| is_wanted(name))).await
}

/// Follows a stream that the first server leads: when the hub of that server ends, and when
/// it is back.
async fn leaders_move(migrate: &str) {
    let port = free_port();
    let hub = Setup::default().config(&format!("leafnodes {{ listen: \"127.0.0.1:{port}\" }}\n"));
    let running = hub.clone().start();
    let trio = Trio::start_with(&format!(
        "leafnodes {{ reconnect: 1, remotes: [{{ url: \"nats-leaf://127.0.0.1:{port}\", \
         jetstream_cluster_migrate: {migrate} }}] }}\n"
    ));
    let client = trio.client(1).await;
    create(&client, &stream("S", 3)).await;
    settled(&client, "S").await;
    until("N0 leads", async || {
        ask_for_leader(&client, "S", "N0").await;
        (leader(&client, "S").await == "N0").then_some(())
    })
    .await;
    store_all(&client, "S", 0..10).await;
    drop(running);
    until_led_by(&client, "S", |name| name != "N0").await;
    store_all(&client, "S", 10..20).await;
    // It takes no lead, even if it is asked for.
    ask_for_leader(&client, "S", "N0").await;
    store_all(&client, "S", 20..30).await;
    assert_ne!(leader(&client, "S").await, "N0");
    let _back = hub.start();
    until("N0 leads again", async || {
        ask_for_leader(&client, "S", "N0").await;
        (leader(&client, "S").await == "N0").then_some(())
    })
    .await;
    let bodies: BTreeSet<_> =
        contents(&client, "S").await.into_iter().map(|(_, message)| message["data"].to_string()).collect();
    assert_eq!(bodies.len(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_move_while_the_hub_of_their_server_is_away() {
    leaders_move("true").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_move_when_the_hub_of_their_server_has_been_away_for_a_while() {
    leaders_move("{ leader_migrate_delay: 300ms }").await;
}
