//! Probes of servers that share JetStream: who may be stopped, and who is nevertheless well.

use super::*;

impl Trio {
    /// Status and body of a probe, of a server that runs.
    pub(super) fn probe(&self, at: usize, page: &str) -> (bool, Value) {
        let (head, body) = self.nodes[at].server.as_ref().expect("it runs").exchange(page);
        let body = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{page}: {error}: {body}"));
        (head.contains(" 200 "), body)
    }

    async fn until_safe(&self) {
        until("each may be stopped", async || (0..3).all(|at| self.probe(at, "/stopz").0).then_some(()))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_not_stopped_while_another_one_is_away() {
    let mut trio = Trio::start();
    let client = trio.client(0).await;
    create(&client, &stream("S", 3)).await;
    store_all(&client, "S", 0..10).await;
    trio.until_safe().await;
    trio.end(2, Signal::KILL);
    let needed = until("the first is needed", async || {
        let (is_safe, body) = trio.probe(0, "/stopz");
        let groups = body["needed_here"].as_array().cloned().unwrap_or_default();
        (!is_safe && groups.iter().any(|group| group["stream"] == "S")).then_some(groups)
    })
    .await;
    let group = needed.iter().find(|group| group["stream"] == "S").expect("it is there");
    assert_eq!((&group["current"], &group["needed"]), (&json!(1), &json!(2)), "{group}");
    assert!(group["behind"].to_string().contains("\"N2\""), "{group}");
    for page in ["/livez", "/startupz", "/readyz"] {
        let (is_well, body) = trio.probe(0, page);
        assert!(is_well, "{page}: {body}");
    }
    trio.start_node(2);
    trio.until_safe().await;
}

/// A consumer of a stream that nobody leads is told so, by the replica that is left.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_why_says_so() {
    let mut trio = Trio::start();
    let client = trio.client(0).await;
    create(&client, &stream("S", 3)).await;
    store_all(&client, "S", 0..3).await;
    consume(&client, "S", "c").await;
    // Whoever is asked, its leader answers.
    for other in trio.clients().await {
        let said = api(&other, "MYELIN.WHY.CONSUMER.S.c", &Value::Null).await;
        assert_eq!(said["causes"][0]["cause"], "no_pull_waits", "{said}");
        let said = api(&other, "MYELIN.WHY.STREAM.S", &Value::Null).await;
        assert_eq!(said["server"].as_str(), Some(&*leader(&client, "S").await), "{said}");
    }
    trio.end(1, Signal::KILL);
    trio.end(2, Signal::KILL);
    for what in ["CONSUMER.S.c", "STREAM.S"] {
        let said = until("the replica that is left says why", async || {
            let answer = request(&client, &format!("$JS.API.MYELIN.WHY.{what}"), "").await?;
            let said: Value = serde_json::from_slice(&answer.payload).ok()?;
            (said["causes"][0]["cause"] == "no_quorum").then_some(said)
        })
        .await;
        let cause = &said["causes"][0];
        assert_eq!((&cause["holds"], &cause["numbers"]["heard"]), (&json!("all"), &json!(1)), "{said}");
        assert_eq!(cause["numbers"]["away"], json!(["N1", "N2"]), "{said}");
    }
}
