//! A server without JetStream beside three that share it.

use super::{Trio, api, consume, create, request, servers, store_all, stream, take, until};
use crate::client::{connect, plain};
use crate::process::{Server, Setup};
use async_nats::{ConnectOptions, StatusCode};
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};

/// Starts a server of the cluster that has no JetStream.
fn door(trio: &Trio) -> Server {
    let config = format!(
        "server_name: door\naccounts {{ $SYS {{ users: [{{user: admin, password: admin}}] }} }}\n\
         cluster {{ name: C, listen: \"127.0.0.1:-1\", routes: [\"nats://127.0.0.1:{}\"] }}\n",
        trio.ports[0]
    );
    Setup::default().config(&config).start()
}

/// A request of its client to the API goes out in the client's account and through the system
/// account.
#[tokio::test]
async fn a_server_without_jetstream_is_a_door_to_the_cluster() {
    let trio = Trio::start();
    create(&trio.client(0).await, &stream("S", 3)).await;
    let door = door(&trio);
    let client = plain(&door).await;
    until("the door hears of the API", async || request(&client, "$JS.API.INFO", "").await).await;
    for _ in 0..20 {
        let answer = request(&client, "$JS.API.INFO", "").await.expect("an answer");
        let answer: Value = serde_json::from_slice(&answer.payload).expect("JSON");
        assert!(answer.get("error").is_none(), "{answer}");
    }
    store_all(&client, "S", 0..10).await;
    consume(&client, "S", "c").await;
    assert_eq!(take(&client, ("S", "c"), 10).await.len(), 10);
}

/// Requests that only the system account may make are not answered for clients of a server without
/// JetStream, although they cross the cluster in that account.
#[tokio::test]
async fn clients_of_a_door_may_not_do_what_operators_may() {
    let trio = Trio::start();
    create(&trio.client(0).await, &stream("S", 3)).await;
    let door = door(&trio);
    let client = plain(&door).await;
    until("the door hears of the API", async || request(&client, "$JS.API.INFO", "").await).await;
    let options = ConnectOptions::with_user_and_password("admin".to_owned(), "admin".to_owned());
    let admin = connect(&door, options).await.0;
    let meta = async || {
        let page = trio.nodes[0].server.as_ref().expect("it runs").page("/jsz");
        page["meta_cluster"]["leader"].as_str().unwrap_or_default().to_owned()
    };
    let led = meta().await;
    let mut answers = client.subscribe("nobody").await.expect("it is subscribed to");
    for (operation, body) in [
        ("ACCOUNT.PURGE.$G", Value::Null),
        ("META.LEADER.STEPDOWN", Value::Null),
        ("META.RESCUE", json!({ "quorum_needed": 1 })),
        ("SERVER.REMOVE", json!({ "peer": "N1" })),
        ("SERVER.EVACUATE", json!({ "peer": "N1" })),
        // An account may do so with its own.
        ("ACCOUNT.STREAM.MOVE.OTHER.S", json!({ "server": "N1" })),
        ("ACCOUNT.STREAM.CANCEL_MOVE.OTHER.S", Value::Null),
        ("MYELIN.RECOVER.PLAN", Value::Null),
    ] {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let asked = client.publish_with_reply(format!("$JS.API.{operation}"), "nobody", body.into());
        asked.await.expect("it is sent");
    }
    // Asked behind all that, on the same ways.
    let servers = servers::cluster_size(&admin).await;
    let info = api(&client, "STREAM.INFO.S", &Value::Null).await;
    assert_eq!(servers, 3, "no server was removed");
    assert_eq!(info["cluster"]["replicas"].as_array().map(Vec::len), Some(2), "{info}");
    assert_eq!(meta().await, led, "the meta leader has not stepped down");
    while let Some(Some(answer)) = answers.next().now_or_never() {
        // The door itself knows of nobody for some of it.
        assert_eq!(answer.status, Some(StatusCode::NO_RESPONDERS), "{answer:?}");
    }
    let purged = servers::system_api(&admin, "ACCOUNT.PURGE.$G", &Value::Null).await;
    assert_eq!(purged["initiated"], true, "an operator may, from there: {purged}");
}
