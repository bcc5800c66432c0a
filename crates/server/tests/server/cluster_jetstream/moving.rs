//! Streams move to other servers while they are published to: what was acknowledged is on all of
//! their servers, whatever comes between.

use super::operators::operator;
use super::*;
use tokio::task::JoinHandle;

/// A publisher at work.
struct Publisher {
    stops: Arc<AtomicBool>,
    task: JoinHandle<u64>,
}

impl Publisher {
    /// Publishes numbers from 0 on, each until it is acknowledged.
    fn start(client: Client, stream: &str) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let (is_over, subject) = (Arc::clone(&stops), format!("{stream}.x"));
        let task = tokio::spawn(async move {
            let (mut count, mut pace) = (0_u64, tokio::time::interval(Duration::from_millis(150)));
            while !is_over.load(Relaxed) {
                let mut headers = HeaderMap::new();
                headers.insert("Nats-Msg-Id", format!("m{count}").as_str());
                let asked = client.request_with_headers(subject.clone(), headers, count.to_string().into());
                let ack = tokio::time::timeout(ATTEMPT, asked).await.ok().and_then(Result::ok);
                let ack: Option<Value> = ack.and_then(|ack| serde_json::from_slice(&ack.payload).ok());
                // Else it is published again.
                count += u64::from(ack.is_some_and(|ack| ack["seq"].is_u64()));
                pace.tick().await;
            }
            count
        });
        Self { stops, task }
    }

    /// Ends it. Answers how many messages were acknowledged.
    async fn end(self) -> u64 {
        self.stops.store(true, Relaxed);
        self.task.await.expect("a publisher")
    }
}

/// Five servers, of which three have streams with these names.
async fn five(streams: &[&str]) -> (Trio, Client) {
    let mut trio = Trio::start();
    let client = trio.client(1).await;
    for name in streams {
        create(&client, &stream(name, 3)).await;
    }
    for wanted in [3, 4] {
        assert_eq!(trio.start_another(), wanted);
    }
    let admin = operator(&trio, 1).await;
    until("five members", async || (servers::cluster_size(&admin).await == 5).then_some(())).await;
    (trio, client)
}

/// Servers that a stream is on, in order, as its leader says.
fn servers_of(info: &Value) -> Vec<String> {
    let replicas = info["cluster"]["replicas"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> =
        replicas.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect();
    names.extend(info["cluster"]["leader"].as_str().map(str::to_owned));
    names.sort();
    names
}

/// Waits until nothing is under way, and all servers have all of a stream.
async fn at_rest(client: &Client, name: &str, is_there: impl Fn(&[String]) -> bool) -> Vec<String> {
    until("a stream is where it is to be", async || {
        let info = settled(client, name).await;
        let names = servers_of(&info);
        (info["cluster"]["desired"].is_null() && names.len() == 3 && is_there(&names)).then_some(names)
    })
    .await
}

/// Asserts that a stream has all that was acknowledged, each message once.
async fn assert_whole(client: &Client, name: &str, published: u64) {
    let all = contents(client, name).await;
    let bodies: BTreeSet<&str> = all.iter().filter_map(|(_, message)| message["data"].as_str()).collect();
    assert_eq!(bodies.len() as u64, published, "each number once");
    assert_eq!(all.len() as u64, published, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_leave_a_server_together_while_they_are_published_to() {
    let names = ["S", "T", "U"];
    let (trio, client) = five(&names).await;
    let mut publishers = Vec::new();
    for name in names {
        publishers.push((name, Publisher::start(trio.client(2).await, name)));
        at_rest(&client, name, |_| true).await;
    }
    let admin = operator(&trio, 1).await;
    let evacuated = servers::system_api(&admin, "SERVER.EVACUATE", &json!({"peer": "N0"})).await;
    assert_eq!(evacuated["success"], true, "{evacuated}");
    let mut replicas = Vec::new();
    for name in names {
        replicas.extend(at_rest(&client, name, |names| !names.contains(&"N0".to_owned())).await);
    }
    let of = |server: &str| replicas.iter().filter(|name| *name == server).count();
    assert!(of("N3") > 0 && of("N4") > 0, "not all go to one server: {replicas:?}");
    for (name, publisher) in publishers {
        let published = publisher.end().await;
        assert_whole(&client, name, published).await;
    }
}

/// A move is cancelled wherever it is just then. One that is through is none any more: the
/// cancellation is refused, and the stream is where it was to go.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_moves_are_cancelled_and_that_loses_a_peer_keeps_what_is_published() {
    let (trio, client) = five(&["S"]).await;
    let publisher = Publisher::start(trio.client(2).await, "S");
    let admin = operator(&trio, 1).await;
    let mut names = at_rest(&client, "S", |_| true).await;
    for round in 0..4 {
        let away = names[round % 3].clone();
        until("the move has begun", async || {
            // A server that has just come may not be known to be there yet.
            let body = json!({ "server": away });
            let moved = servers::system_api(&admin, "ACCOUNT.STREAM.MOVE.$G.S", &body).await;
            moved.get("error").is_none().then_some(())
        })
        .await;
        let back = try_api(&client, "STREAM.CANCEL_MOVE.S", &Value::Null).await;
        names = match back["error"]["err_code"].as_u64() {
            None => at_rest(&client, "S", |now| now == names).await,
            // Or the answer to the cancellation was lost, and this is that of another attempt.
            Some(10129) => at_rest(&client, "S", |now| now == names || !now.contains(&away)).await,
            Some(_) => panic!("{back}"),
        };
    }
    let gone = leader(&client, "S").await;
    until("a peer is removed", async || {
        let removed = try_api(&client, "STREAM.PEER.REMOVE.S", &json!({ "peer": gone })).await;
        // Its answer may be lost with the lead.
        (removed["success"] == true || removed["error"]["err_code"] == 10040).then_some(())
    })
    .await;
    at_rest(&client, "S", |now| !now.contains(&gone)).await;
    let published = publisher.end().await;
    assert!(published > 0);
    assert_whole(&client, "S", published).await;
}
