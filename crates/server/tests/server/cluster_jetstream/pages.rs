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
