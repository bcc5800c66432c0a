//! Three servers that share JetStream: what clients of any of them see of streams with replicas on
//! all, and what becomes of these when servers end and come back.

mod door;
mod everywhere;
mod full_disks;
mod joined;
mod kept;
mod membership;
mod migrating;
mod moving;
mod operators;
mod pages;
mod probes;
mod recovery;
mod servers;
mod sourcing;
mod tokens;

use crate::PATIENCE;
use crate::client::plain;
use crate::jetstream::Home;
use crate::process::{Server, Setup};
use crate::routes::free_port;
use async_nats::{Client, HeaderMap, Message};
use futures_util::StreamExt as _;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How long one request waits for its answer before it is made again.
const ATTEMPT: Duration = Duration::from_secs(2);

/// A server of the cluster, which runs or not.
struct Node {
    name: String,
    config: String,
    setup: Setup,
    server: Option<Server>,
}

/// Three servers with JetStream that all know each other.
struct Trio {
    nodes: Vec<Node>,
    homes: Vec<Home>,
    /// Where servers listen for others.
    ports: Vec<u16>,
}

impl Trio {
    fn start() -> Self {
        Self::start_with("")
    }

    /// Starts them, the first one with more in its configuration.
    fn start_with(more: &str) -> Self {
        let mut trio = Self::prepare(more);
        (0..3).for_each(|at| trio.start_node(at));
        trio
    }

    /// Servers that are not started yet.
    fn prepare(more: &str) -> Self {
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let routes: Vec<_> = ports.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let homes: Vec<Home> = (0..3).map(|_| Home::new()).collect();
        let nodes = homes.iter().zip(&ports).enumerate();
        let nodes = nodes.map(|(at, (home, port))| Self::node(at, (home.path(), *port), &routes.join(", ")));
        let mut nodes: Vec<Node> = nodes.collect();
        nodes[0].config.push_str(more);
        nodes[0].setup = Setup::default().config(&nodes[0].config);
        Self { nodes, homes, ports }
    }

    fn node(at: usize, (store, port): (&Path, u16), routes: &str) -> Node {
        let name = format!("N{at}");
        let config = format!(
            "server_name: {name}\njetstream {{ store_dir: {store:?} }}\n\
             accounts {{ $SYS {{ users: [{{user: admin, password: admin}}] }} }}\n\
             server_tags: [\"az:{at}\", ssd]\n\
             lame_duck_duration: 30s\nlame_duck_grace_period: 1s\n\
             cluster {{ name: C, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}\n"
        );
        let setup = Setup::default().config(&config);
        Node { name, config, setup, server: None }
    }

    /// Has a server that is not started yet keep its streams there.
    fn store_in(&mut self, at: usize, store: &Path) {
        let routes: Vec<_> = self.ports.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        self.nodes[at] = Self::node(at, (store, self.ports[at]), &routes.join(", "));
    }

    /// Starts one more server, which the others have not been told of. Answers its number.
    fn start_another(&mut self) -> usize {
        let (at, port) = (self.nodes.len(), free_port());
        self.homes.push(Home::new());
        self.ports.push(port);
        let routes: Vec<_> = self.ports.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        self.nodes.push(Self::node(at, (self.homes[at].path(), port), &routes.join(", ")));
        self.start_node(at);
        at
    }

    fn start_node(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.server = Some(node.setup.clone().start());
    }

    /// Sends a server a signal that ends it, and waits for that.
    fn end(&mut self, at: usize, signal: Signal) {
        let mut server = self.nodes[at].server.take().expect("it runs");
        server.signal(signal);
        server.wait();
    }

    /// Takes everything from the disk of a server that has ended.
    fn lose_disk(&self, at: usize) {
        let path = self.homes[at].path();
        std::fs::remove_dir_all(path).expect("its folder");
        std::fs::create_dir(path).expect("its folder");
    }

    /// The server of this name.
    fn at(&self, name: &str) -> usize {
        self.nodes.iter().position(|node| node.name == name).expect("a server of the cluster")
    }

    /// Servers that run, from the first one on that is not `not`.
    fn running_but(&self, not: usize) -> Vec<usize> {
        (1..3).map(|step| (not + step) % 3).filter(|at| self.nodes[*at].server.is_some()).collect()
    }

    async fn client(&self, at: usize) -> Client {
        plain(self.nodes[at].server.as_ref().expect("it runs")).await
    }

    async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for at in 0..self.nodes.len() {
            clients.push(self.client(at).await);
        }
        clients
    }
}

/// Asks until there is something.
async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The answer to a request, if one comes.
async fn request(client: &Client, subject: &str, body: &str) -> Option<Message> {
    let asked = client.request(subject.to_owned(), body.to_owned().into());
    tokio::time::timeout(ATTEMPT, asked).await.ok()?.ok()
}

/// The message that a pull brings, if one comes: under its own subject, so that no inbox of many
/// requests would know it.
async fn pull(client: &Client, subject: &str, body: &str) -> Option<Message> {
    let inbox = client.new_inbox();
    let mut messages = client.subscribe(inbox.clone()).await.ok()?;
    client.publish_with_reply(subject.to_owned(), inbox, body.to_owned().into()).await.ok()?;
    tokio::time::timeout(ATTEMPT, messages.next()).await.ok()?
}

/// Answer of the API, be it a refusal; asked again where nobody answers or nobody can.
async fn try_api(client: &Client, operation: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    until(operation, async || {
        let answer = request(client, &format!("$JS.API.{operation}"), &body).await?;
        let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
        (answer["error"]["err_code"] != 10008).then_some(answer)
    })
    .await
}

/// Answer of the API, which must not refuse.
async fn api(client: &Client, operation: &str, body: &Value) -> Value {
    let answer = try_api(client, operation, body).await;
    assert!(answer.get("error").is_none(), "{operation} {body}: {answer}");
    answer
}

fn stream(name: &str, replicas: u64) -> Value {
    json!({ "name": name, "subjects": [format!("{name}.>")], "num_replicas": replicas, "allow_direct": true })
}

async fn create(client: &Client, config: &Value) -> Value {
    let name = config["name"].as_str().expect("a name");
    api(client, &format!("STREAM.CREATE.{name}"), config).await
}

/// Has a message stored, once, however often that has to be tried. Answers its sequence.
async fn store(client: &Client, subject: &str, body: &str) -> u64 {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", format!("{subject} {body}"));
    until("a message is acknowledged", async || {
        let (subject, body) = (subject.to_owned(), body.to_owned());
        let asked = client.request_with_headers(subject, headers.clone(), body.into());
        let ack = tokio::time::timeout(ATTEMPT, asked).await.ok()?.ok()?;
        let ack: Value = serde_json::from_slice(&ack.payload).ok()?;
        ack["seq"].as_u64().filter(|_| ack.get("error").is_none())
    })
    .await
}

/// Stores messages whose bodies are these numbers.
async fn store_all(client: &Client, stream: &str, numbers: std::ops::Range<u64>) {
    for number in numbers {
        store(client, &format!("{stream}.x"), &number.to_string()).await;
    }
}

/// Makes a durable pull consumer with explicit acknowledgements.
async fn consume(client: &Client, stream: &str, consumer: &str) {
    let config = json!({
        "durable_name": consumer, "ack_policy": "explicit", "ack_wait": 5_000_000_000_u64,
        "deliver_policy": "all", "max_ack_pending": 1000,
    });
    let request = json!({ "stream_name": stream, "config": config });
    api(client, &format!("CONSUMER.DURABLE.CREATE.{stream}.{consumer}"), &request).await;
}

/// Takes messages and has each acknowledgement confirmed, until `count` are. Answers their bodies.
async fn take(client: &Client, (stream, consumer): (&str, &str), count: usize) -> Vec<String> {
    let mut taken = Vec::new();
    let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
    let body = json!({ "batch": 1, "expires": 1_000_000_000_u64 }).to_string();
    while taken.len() < count {
        let body = until("a message is delivered and its acknowledgement confirmed", async || {
            let message = pull(client, &next, &body).await?;
            let reply = message.reply.clone()?;
            request(client, &reply, "+ACK").await?;
            Some(String::from_utf8_lossy(&message.payload).into_owned())
        })
        .await;
        taken.push(body);
    }
    taken
}

fn numbers(range: std::ops::Range<u64>) -> BTreeSet<String> {
    range.map(|number| number.to_string()).collect()
}

/// Info of a stream once all of its replicas are there and have all of it.
async fn settled(client: &Client, name: &str) -> Value {
    until("all replicas have everything", async || {
        let info = api(client, &format!("STREAM.INFO.{name}"), &Value::Null).await;
        let replicas = info["cluster"]["replicas"].as_array().cloned().unwrap_or_default();
        let has_all = replicas.len() == 2 && replicas.iter().all(|one| one["current"] == true);
        (has_all && info["cluster"]["leader"].as_str().is_some_and(|name| !name.is_empty())).then_some(info)
    })
    .await
}

async fn leader(client: &Client, name: &str) -> String {
    until("a leader", async || {
        let info = api(client, &format!("STREAM.INFO.{name}"), &Value::Null).await;
        info["cluster"]["leader"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
    })
    .await
}

/// Every message that the leader of a stream has, by sequence.
async fn contents(client: &Client, name: &str) -> Vec<(u64, Value)> {
    let state = api(client, &format!("STREAM.INFO.{name}"), &Value::Null).await["state"].clone();
    let (first, last) =
        (state["first_seq"].as_u64().expect("a number"), state["last_seq"].as_u64().expect("a number"));
    let mut all = Vec::new();
    for seq in first..=last {
        let answer = try_api(client, &format!("STREAM.MSG.GET.{name}"), &json!({ "seq": seq })).await;
        if answer["error"]["err_code"] != 10037 {
            all.push((seq, answer["message"].clone()));
        }
    }
    all
}

/// Has each server lead a stream, and asserts that all of them have the same messages. Answers
/// their number.
async fn same_everywhere(client: &Client, name: &str) -> usize {
    let (mut led, mut found) = (BTreeSet::new(), None);
    let deadline = Instant::now() + PATIENCE * 2;
    while led.len() < 3 {
        assert!(Instant::now() < deadline, "only {led:?} have led");
        let now = settled(client, name).await["cluster"]["leader"].as_str().expect("a name").to_owned();
        if led.insert(now.clone()) {
            let all = contents(client, name).await;
            let found = found.get_or_insert_with(|| all.clone());
            assert_eq!(*found, all, "{name} at {now}");
        }
        until("another leader", async || {
            api(client, &format!("STREAM.LEADER.STEPDOWN.{name}"), &Value::Null).await;
            let asked = Instant::now();
            while asked.elapsed() < ATTEMPT {
                if leader(client, name).await != now {
                    return Some(());
                }
            }
            None
        })
        .await;
    }
    found.map_or(0, |all| all.len())
}

#[tokio::test]
async fn a_stream_goes_on_when_its_leader_is_killed() {
    let mut trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("S", 3)).await;
    store_all(&clients[1], "S", 0..40).await;
    consume(&clients[2], "S", "c").await;
    let before = take(&clients[2], ("S", "c"), 15).await;

    let led = leader(&clients[0], "S").await;
    let killed = trio.at(&led);
    trio.end(killed, Signal::KILL);
    let [one, other] = trio.running_but(killed)[..] else { panic!("two servers run") };
    store_all(&clients[one], "S", 40..80).await;
    assert_ne!(leader(&clients[other], "S").await, led);
    let after = take(&clients[other], ("S", "c"), 65).await;
    let all: BTreeSet<String> = before.iter().chain(&after).cloned().collect();
    assert_eq!(all, numbers(0..80));
    assert_eq!(before.len() + after.len(), 80, "what is confirmed does not come again");

    trio.start_node(killed);
    let back = trio.client(killed).await;
    assert_eq!(settled(&back, "S").await["state"]["messages"], 80);
    assert_eq!(same_everywhere(&back, "S").await, 80);
}

/// Its segments are compressed soon, and are no log from then on: what a server lacks that comes
/// with an empty disk it gets as a whole.
#[tokio::test]
async fn a_server_with_a_new_disk_gets_the_streams_again() {
    let mut trio = Trio::start();
    let clients = trio.clients().await;
    let mut config = stream("S", 3);
    (config["compression"], config["max_bytes"]) = (json!("s2"), json!(2_000_000));
    create(&clients[0], &config).await;
    let large = "x".repeat(16_000);
    for number in 0..300 {
        store(&clients[1], "S.x", &format!("{number} {large}")).await;
    }
    consume(&clients[2], "S", "c").await;
    let before = take(&clients[2], ("S", "c"), 5).await;
    let victim = trio.running_but(trio.at(&leader(&clients[0], "S").await))[0];
    trio.end(victim, Signal::KILL);
    trio.lose_disk(victim);
    let other = trio.running_but(victim)[0];
    for number in 300..310 {
        store(&clients[other], "S.x", &format!("{number} {large}")).await;
    }

    trio.start_node(victim);
    let back = trio.client(victim).await;
    let state = settled(&back, "S").await["state"].clone();
    assert_eq!(state["last_seq"], 310);
    let led = trio.at(&leader(&back, "S").await);
    if led != victim {
        trio.end(led, Signal::KILL);
    }
    let messages = contents(&back, "S").await;
    assert_eq!(Some(messages.len() as u64), state["messages"].as_u64(), "with one of those that had it gone");
    let next = take(&back, ("S", "c"), 1).await;
    assert!(!before.contains(&next[0]), "what was confirmed does not come again");
    if led != victim {
        trio.start_node(led);
    }
    assert_eq!(same_everywhere(&back, "S").await, messages.len());
}

#[tokio::test]
async fn everything_is_there_after_all_servers_were_stopped() {
    let mut trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[1], &stream("S", 3)).await;
    create(&clients[1], &stream("ONE", 1)).await;
    store_all(&clients[2], "S", 0..30).await;
    store_all(&clients[2], "ONE", 0..10).await;
    consume(&clients[0], "S", "c").await;
    consume(&clients[0], "ONE", "c").await;
    let before = take(&clients[0], ("S", "c"), 10).await;
    take(&clients[0], ("ONE", "c"), 4).await;
    (0..3).for_each(|at| trio.end(at, Signal::TERM));

    (0..3).for_each(|at| trio.start_node(at));
    let clients = trio.clients().await;
    assert_eq!(settled(&clients[0], "S").await["state"]["messages"], 30);
    store_all(&clients[1], "S", 30..40).await;
    let after = take(&clients[2], ("S", "c"), 30).await;
    let all: BTreeSet<String> = before.iter().chain(&after).cloned().collect();
    assert_eq!(all, numbers(0..40));
    assert_eq!(take(&clients[1], ("ONE", "c"), 6).await, ["4", "5", "6", "7", "8", "9"]);
    assert_eq!(same_everywhere(&clients[0], "S").await, 40);
}

#[tokio::test]
async fn any_server_takes_requests_about_streams() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    let made = create(&clients[0], &stream("S", 3)).await;
    // The same again is no error, another one with its name is.
    for client in &clients {
        let again = create(client, &stream("S", 3)).await;
        assert_eq!((&again["created"], &again["config"]), (&made["created"], &made["config"]));
        let other = json!({ "name": "S", "subjects": ["S.>"], "num_replicas": 3, "max_msgs": 5 });
        let refused = try_api(client, "STREAM.CREATE.S", &other).await;
        assert_eq!(refused["error"]["err_code"], 10058, "{refused}");
    }
    for (at, client) in clients.iter().enumerate() {
        let name = format!("D{at}");
        create(client, &stream(&name, if at == 0 { 1 } else { 3 })).await;
        let deleted = api(&clients[(at + 1) % 3], &format!("STREAM.DELETE.{name}"), &Value::Null).await;
        assert_eq!(deleted["success"], true);
        for client in &clients {
            let refused = try_api(client, &format!("STREAM.INFO.{name}"), &Value::Null).await;
            assert_eq!(refused["error"]["err_code"], 10059, "{refused}");
        }
        // Another one of its name begins with nothing.
        let made = create(&clients[(at + 2) % 3], &stream(&name, 3)).await;
        assert_eq!(made["state"]["messages"], 0);
    }
}

#[tokio::test]
async fn one_server_answers_each_request_about_a_stream_that_is_not_there() {
    const ASKED: usize = 30;
    let trio = Trio::start();
    let clients = trio.clients().await;
    // From here on there is a meta leader, and the inboxes are known.
    create(&clients[0], &stream("S", 3)).await;
    for client in &clients {
        let mut answers = client.subscribe("answers.>").await.unwrap();
        until("an answer to the inbox", async || {
            let asked = client.publish_with_reply("$JS.API.STREAM.INFO.S", "answers.probe", "".into());
            asked.await.unwrap();
            tokio::time::timeout(ATTEMPT, answers.next()).await.ok()?
        })
        .await;
        for operation in ["STREAM.INFO.NONE", "CONSUMER.INFO.NONE.c", "STREAM.MSG.GET.NONE"] {
            let (subject, mut found) = (format!("$JS.API.{operation}"), Vec::new());
            for number in 0..ASKED {
                let reply = format!("answers.{operation}.{number}");
                let body = if operation.contains("MSG") { r#"{"seq":1}"# } else { "" };
                client.publish_with_reply(subject.clone(), reply, body.into()).await.unwrap();
            }
            // An answer too many to an earlier request comes before the last of the next ones.
            while !found.contains(&format!("answers.{operation}.{}", ASKED - 1)) {
                let answer = tokio::time::timeout(PATIENCE, answers.next()).await;
                let answer = answer.expect("an answer to each request").expect("the connection is open");
                if answer.subject.starts_with(&format!("answers.{operation}.")) {
                    let said: Value = serde_json::from_slice(&answer.payload).unwrap();
                    assert_eq!(said["error"]["err_code"], 10059, "{operation}: {said}");
                    found.push(answer.subject.to_string());
                }
            }
            let different: BTreeSet<_> = found.iter().collect();
            assert_eq!((found.len(), different.len()), (ASKED, ASKED), "{operation}: {found:?}");
        }
    }
}

#[tokio::test]
async fn the_last_message_of_a_subject_is_read_through_all_servers() {
    let trio = Trio::start();
    let clients = trio.clients().await;
    for replicas in [1, 3] {
        let name = format!("KV{replicas}");
        let mut config = stream(&name, replicas);
        config["max_msgs_per_subject"] = json!(1);
        create(&clients[0], &config).await;
        for round in 0..5 {
            for key in 0..4 {
                store(&clients[(key + round) % 3], &format!("{name}.{key}"), &round.to_string()).await;
            }
            for (at, client) in clients.iter().enumerate() {
                for key in 0..4 {
                    // A replica that is not the leader may be a little behind.
                    until("what was put is got", async || {
                        let get = format!("$JS.API.DIRECT.GET.{name}.{name}.{key}");
                        let got = request(client, &get, "").await?;
                        (got.payload == round.to_string().as_bytes()).then_some(())
                    })
                    .await;
                    let got = json!({ "last_by_subj": format!("{name}.{key}") });
                    let got = api(client, &format!("STREAM.MSG.GET.{name}"), &got).await;
                    assert_eq!(got["message"]["subject"], format!("{name}.{key}"), "through {at}");
                }
            }
        }
        let state = api(&clients[1], &format!("STREAM.INFO.{name}"), &Value::Null).await["state"].clone();
        assert_eq!((&state["messages"], &state["last_seq"]), (&json!(4), &json!(20)));
    }
}

/// Publishes one message after the other, each with one retry at most, until it is told to stop.
/// Answers how many were stored, and what went wrong twice in a row.
async fn publish_until(client: Client, subject: &'static str, stop: Arc<AtomicBool>) -> (u64, Vec<String>) {
    let (mut stored, mut failed) = (0, Vec::new());
    while !stop.load(Relaxed) {
        let publish = async || {
            let answer = client.request(subject, "x".into()).await.map_err(|error| error.to_string())?;
            let answer: Value = serde_json::from_slice(&answer.payload).map_err(|error| error.to_string())?;
            answer["seq"].as_u64().ok_or_else(|| answer.to_string())
        };
        match publish().await {
            Ok(_) => stored += 1,
            Err(_) => match publish().await {
                Ok(_) => stored += 1,
                Err(error) => failed.push(error),
            },
        }
    }
    (stored, failed)
}

#[tokio::test]
async fn a_publisher_notices_no_server_that_is_stopped() {
    let mut trio = Trio::start();
    let clients = trio.clients().await;
    create(&clients[0], &stream("S", 3)).await;
    for signal in [Signal::TERM, Signal::INT, Signal::USR2] {
        let client = trio.client(0).await;
        settled(&client, "S").await;
        let led = trio.at(&leader(&client, "S").await);
        let elsewhere = trio.client(trio.running_but(led)[0]).await;
        let stop = Arc::new(AtomicBool::new(false));
        let publishing = tokio::spawn(publish_until(elsewhere.clone(), "S.x", Arc::clone(&stop)));
        let before = settled(&elsewhere, "S").await["state"]["messages"].as_u64();
        let mut server = trio.nodes[led].server.take().expect("it runs");
        server.signal(signal);
        tokio::task::spawn_blocking(move || server.wait()).await.unwrap();
        // Some are stored by another leader.
        until("messages at another leader", async || {
            let info = api(&elsewhere, "STREAM.INFO.S", &Value::Null).await;
            let is_led = info["cluster"]["leader"] != trio.nodes[led].name.as_str();
            (is_led && info["state"]["messages"].as_u64() > before.map(|before| before + 50)).then_some(())
        })
        .await;
        stop.store(true, Relaxed);
        let (_, failed) = publishing.await.unwrap();
        assert_eq!(failed, Vec::<String>::new(), "{signal:?}");
        trio.start_node(led);
    }
}
