//! Makes a cluster with a given server: streams of groups and one without replicas, consumers in
//! the middle of their work, a server that lacks the last, and a kill.

use super::recorder::Recorder;
use super::*;

/// A time that ends after whoever reads this, in nanoseconds.
const LONG: u64 = 100 * 365 * 24 * 3_600 * 1_000_000_000;

/// Has `program` write three stores and packs them as `into/N0.store` and so on, beside what the
/// cluster said, and what its servers said to each other.
pub(super) async fn make(program: &Path, into: &Path) {
    let (mut trio, recorders) = prepare(program);
    (0..3).for_each(|at| trio.start_node(at));
    let client = trio.client(0).await;
    create_all(&client).await;
    first_half(&client).await;
    // What follows is behind a start of each server.
    for at in 0..3 {
        trio.end(at, Signal::TERM);
        trio.start_node(at);
        wait_for_all(&trio.client(0).await).await;
    }
    // This one comes back when the others have no log of what it lacks: as a whole, and by entries.
    trio.end(2, Signal::KILL);
    let client = trio.client(0).await;
    second_half(&client).await;
    let expected = all_digests(&client).await;
    assert_eq!(expected.len(), 7, "{:?}", expected.keys());
    (0..2).for_each(|at| trio.end(at, Signal::KILL));
    for (at, home) in trio.homes.iter().enumerate() {
        let packed = archive::pack(home.path()).expect("files");
        fs::write(into.join(format!("N{at}.store")), packed).expect("a folder of the repository");
    }
    let text = serde_json::to_string_pretty(&expected).expect("JSON");
    fs::write(into.join("expected.json"), text + "\n").expect("a folder of the repository");
    let links = tempfile::tempdir().expect("a folder");
    for (number, (account, said)) in recorders.iter().flat_map(Recorder::said).enumerate() {
        fs::create_dir_all(links.path().join(account)).expect("a folder");
        fs::write(links.path().join(account).join(format!("{number:02}")), said).expect("a file");
    }
    fs::write(into.join("links"), archive::pack(links.path()).expect("files")).expect("a folder");
}

/// Servers of this program that reach each other through recorders only.
fn prepare(program: &Path) -> (Trio, Vec<Recorder>) {
    let mut trio = Trio::prepare("");
    let recorders: Vec<Recorder> = trio.ports.iter().map(|port| Recorder::before(*port)).collect();
    for node in &mut trio.nodes {
        let mut config = node.config.clone();
        for (port, recorder) in trio.ports.iter().zip(&recorders) {
            config = config
                .replace(&format!("nats://127.0.0.1:{port}"), &format!("nats://127.0.0.1:{}", recorder.port));
            let own = format!("listen: \"127.0.0.1:{port}\"");
            let advertised = format!("{own}, advertise: \"127.0.0.1:{}\"", recorder.port);
            config = config.replace(&own, &advertised);
        }
        node.setup = Setup::default().config(&config).program(program);
    }
    (trio, recorders)
}

async fn create_all(client: &Client) {
    create(client, &stream("FILE", 3)).await;
    create(client, &stream("MOVED", 1)).await;
    create(client, &stream(SINGLE, 1)).await;
    for (name, more) in [
        ("PACKED", json!({ "compression": "s2", "allow_atomic": true })),
        ("WORK", json!({ "retention": "workqueue" })),
        ("PURGED", json!({ "max_age": LONG })),
        (
            "KV_B",
            json!({
                "subjects": ["$KV.B.>"], "max_msgs_per_subject": 2, "allow_rollup_hdrs": true, "deny_delete": true,
            }),
        ),
    ] {
        let mut config = stream(name, 3);
        config
            .as_object_mut()
            .expect("it was made as one")
            .extend(more.as_object().cloned().unwrap_or_default());
        create(client, &config).await;
    }
    for (stream, consumer) in [("FILE", "BUSY"), ("FILE", "NEW"), ("WORK", "W"), (SINGLE, "BUSY")] {
        let config = json!({
            "durable_name": consumer, "ack_policy": "explicit", "ack_wait": LONG, "inactive_threshold": LONG,
        });
        let request = json!({ "stream_name": stream, "config": config });
        api(client, &format!("CONSUMER.DURABLE.CREATE.{stream}.{consumer}"), &request).await;
    }
}

async fn wait_for_all(client: &Client) {
    for name in ["FILE", "MOVED", "PACKED", "WORK", "PURGED", "KV_B"] {
        settled(client, name).await;
    }
}

async fn first_half(client: &Client) {
    for name in ["FILE", "MOVED", SINGLE, "PACKED", "WORK", "PURGED"] {
        store_all(client, name, 0..20).await;
    }
    values(client, 0..20).await;
    let mut config = stream("MOVED", 3);
    config["num_replicas"] = json!(3);
    api(client, "STREAM.UPDATE.MOVED", &config).await;
    wait_for_all(client).await;
    api(client, "STREAM.MSG.DELETE.FILE", &json!({ "seq": 7 })).await;
    api(client, "STREAM.PURGE.PURGED", &json!({ "seq": 11 })).await;
    work(client, "FILE", "BUSY").await;
    work(client, "WORK", "W").await;
    atomic_batch(client, "first").await;
}

async fn second_half(client: &Client) {
    for name in ["FILE", "MOVED", "PACKED", "WORK", "PURGED"] {
        store_all(client, name, 20..30).await;
    }
    values(client, 20..30).await;
    api(client, "STREAM.MSG.DELETE.FILE", &json!({ "seq": 25, "no_erase": true })).await;
    work(client, "FILE", "BUSY").await;
    work(client, "WORK", "W").await;
    atomic_batch(client, "second").await;
}

async fn values(client: &Client, numbers: std::ops::Range<u64>) {
    for number in numbers {
        store(client, &format!("$KV.B.key{}", number % 4), &number.to_string()).await;
    }
}

/// Pulls four messages; acknowledges the first one, and has the second one come again.
async fn work(client: &Client, stream: &str, consumer: &str) {
    let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
    let mut replies = Vec::new();
    while replies.len() < 4 {
        let message = pull(client, &subject, r#"{"batch":1,"expires":1000000000}"#).await;
        let Some(reply) = message.and_then(|message| message.reply) else { continue };
        if replies.len() == 1 {
            client.publish(reply.clone(), "-NAK".into()).await.expect("it is connected");
        }
        replies.push(reply);
    }
    let acknowledged = request(client, &replies[0], "+ACK").await;
    assert!(acknowledged.is_some_and(|answer| answer.status.is_none()), "{stream}: it is confirmed");
}

async fn atomic_batch(client: &Client, id: &str) {
    for number in 1..=3 {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Batch-Id", id);
        headers.insert("Nats-Batch-Sequence", number.to_string().as_str());
        if number == 3 {
            headers.insert("Nats-Batch-Commit", "1");
        }
        let asked = client.request_with_headers("PACKED.batch", headers, format!("{id} {number}").into());
        let ack = tokio::time::timeout(ATTEMPT, asked).await.expect("in time").expect("an answer");
        let ack: Value = serde_json::from_slice(&ack.payload).unwrap_or_default();
        assert!(ack.get("error").is_none() && (number < 3 || ack["seq"].is_u64()), "{id} {number}: {ack}");
    }
}
