//! A server without JetStream beside three that share it.

use super::{Trio, consume, create, request, store_all, stream, take, until};
use crate::client::plain;
use crate::process::Setup;
use serde_json::Value;

/// A request of its client to the API goes out in the client's account and through the system
/// account.
#[tokio::test]
async fn a_server_without_jetstream_is_a_door_to_the_cluster() {
    let trio = Trio::start();
    create(&trio.client(0).await, &stream("S", 3)).await;
    let door = Setup::default()
        .config(&format!(
            "server_name: door\naccounts {{ $SYS {{ users: [{{user: admin, password: admin}}] }} }}\n\
             cluster {{ name: C, listen: \"127.0.0.1:-1\", routes: [\"nats://127.0.0.1:{}\"] }}\n",
            trio.ports[0]
        ))
        .start();
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
