//! Clusters with JetStream that gateways join: they have one meta group, whose leader answers
//! clients of all of them.

mod placed;

use super::{
    ATTEMPT, Node, api, consume, create, leader, request, settled, store, store_all, stream, take, try_api,
    until,
};
use crate::cable::Cable;
use crate::client::{connect, plain};
use crate::jetstream::Home;
use crate::process::Setup;
use crate::routes::free_port;
use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt as _;
use rustix::process::Signal;
use serde_json::{Value, json};

/// Servers of some clusters, each of which is dialled by others over a cable.
struct Joined {
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    _homes: Vec<Home>,
}

impl Joined {
    /// Clusters of these names with so many servers, each with more in its `gateway{}`. None of
    /// them is started yet.
    fn prepare(clusters: &[(&str, usize)]) -> Self {
        let all =
            clusters.iter().flat_map(|(of, size)| (1..=*size).map(move |at| (*of, format!("{of}{at}"))));
        let all: Vec<(&str, String)> = all.collect();
        let ports = || all.iter().map(|_| free_port()).collect::<Vec<_>>();
        let (routes, gateways) = (ports(), ports());
        let homes: Vec<Home> = all.iter().map(|_| Home::new()).collect();
        let cables: Vec<Cable> = gateways.iter().map(|port| Cable::to(*port)).collect();
        let urls = |of: &str, ports: &[u16]| {
            let own = all.iter().zip(ports).filter(|((cluster, _), _)| *cluster == of);
            own.map(|(_, port)| format!("\"nats://127.0.0.1:{port}\"")).collect::<Vec<_>>().join(", ")
        };
        let dialled: Vec<u16> = cables.iter().map(|cable| cable.port).collect();
        let remotes =
            clusters.iter().map(|(of, _)| format!("{{ name: {of}, urls: [{}] }}", urls(of, &dialled)));
        let remotes = remotes.collect::<Vec<_>>().join(", ");
        let node = |at: usize| {
            let (cluster, name) = &all[at];
            let config = format!(
                "server_name: {name}\njetstream {{ store_dir: {:?} }}\nserver_tags: [\"in:{cluster}\"]\n\
                 accounts {{ $SYS {{ users: [{{user: admin, password: admin}}] }} }}\n\
                 cluster {{ name: {cluster}, listen: \"127.0.0.1:{}\", routes: [{}] }}\n\
                 gateway {{ name: {cluster}, listen: \"127.0.0.1:{}\", advertise: \"127.0.0.1:{}\"\n\
                 gateways: [{remotes}] }}\n",
                homes[at].path(),
                routes[at],
                urls(cluster, &routes),
                gateways[at],
                dialled[at],
            );
            let setup = Setup::default().config(&config);
            Node { name: name.clone(), config, setup, server: None }
        };
        Self { nodes: (0..all.len()).map(node).collect(), cables, _homes: homes }
    }

    fn start(clusters: &[(&str, usize)]) -> Self {
        let mut joined = Self::prepare(clusters);
        joined.start_cluster("");
        joined
    }

    fn find(&self, name: &str) -> &Node {
        self.nodes.iter().find(|node| node.name == name).expect("a server of the clusters")
    }

    /// Starts the servers whose names begin so.
    fn start_cluster(&mut self, cluster: &str) {
        for node in self.nodes.iter_mut().filter(|node| node.name.starts_with(cluster)) {
            node.server = Some(node.setup.clone().start());
        }
    }

    fn kill(&mut self, name: &str) {
        let node = self.nodes.iter_mut().find(|node| node.name == name).expect("a server");
        let mut server = node.server.take().expect("it runs");
        server.signal(Signal::KILL);
        server.wait();
    }

    async fn client(&self, name: &str) -> Client {
        plain(self.find(name).server.as_ref().expect("it runs")).await
    }

    async fn operator(&self, name: &str) -> Client {
        let options = ConnectOptions::with_user_and_password("admin".to_owned(), "admin".to_owned());
        connect(self.find(name).server.as_ref().expect("it runs"), options).await.0
    }

    /// The meta group as a server's page has it: its leader and size.
    fn meta_of(&self, name: &str) -> (String, u64) {
        let page = self.find(name).server.as_ref().expect("it runs").page("/jsz");
        let meta = &page["meta_cluster"];
        let leader = meta["leader"].as_str().unwrap_or_default().to_owned();
        (leader, meta["cluster_size"].as_u64().unwrap_or_default())
    }

    /// Waits until all that run know the same leader of a group of so many. Answers its name.
    async fn agrees(&self, size: u64) -> String {
        until("all servers know one leader", async || {
            let running = self.nodes.iter().filter(|node| node.server.is_some());
            let known: Vec<_> = running.map(|node| self.meta_of(&node.name)).collect();
            let (leader, _) = known[0].clone();
            let is_one = known.iter().all(|(of, of_size)| *of == leader && *of_size == size);
            (is_one && !leader.is_empty()).then_some(leader)
        })
        .await
    }

    /// Waits until all agree on a leader, which has heard of all.
    async fn are_there(&self, size: u64) {
        until("the leader has heard of all", async || {
            let leader = self.agrees(size).await;
            let page = self.find(&leader).server.as_ref().expect("it runs").page("/jsz");
            let others = page["meta_cluster"]["replicas"].as_array().cloned().unwrap_or_default();
            let is_there = |one: &Value| one["current"] == true && one.get("offline").is_none();
            (others.iter().filter(|one| is_there(one)).count() as u64 + 1 == size).then_some(())
        })
        .await;
    }

    /// Has this server lead the meta group.
    async fn lead(&self, name: &str, size: u64) {
        let admin = self.operator(name).await;
        until("the server leads", async || {
            let body = json!({ "placement": { "preferred": name } }).to_string();
            request(&admin, "$JS.API.META.LEADER.STEPDOWN", &body).await?;
            (self.agrees(size).await == name).then_some(())
        })
        .await;
    }
}

/// A stream with so many replicas, all of them on servers of one cluster.
fn within(cluster: &str, name: &str, replicas: u64) -> Value {
    let mut config = stream(name, replicas);
    config["placement"] = json!({ "tags": [format!("in:{cluster}")] });
    config
}

/// Answers of the API to one request, all of them: another request is answered behind them.
async fn answers(client: &Client, subject: &str, body: &str) -> Vec<Value> {
    let (mut heard, first) = until("an answer", async || {
        let inbox = client.new_inbox();
        let mut heard = client.subscribe(inbox.clone()).await.ok()?;
        client.publish_with_reply(subject.to_owned(), inbox, body.to_owned().into()).await.ok()?;
        let first = tokio::time::timeout(ATTEMPT, heard.next()).await.ok()??;
        Some((heard, first))
    })
    .await;
    let mut all = vec![serde_json::from_slice(&first.payload).expect("JSON")];
    // From where the first one came, and from all others that may answer.
    for operation in ["INFO", "STREAM.NAMES", "INFO"] {
        api(client, operation, &Value::Null).await;
    }
    while let Ok(Some(more)) = tokio::time::timeout(std::time::Duration::ZERO, heard.next()).await {
        all.push(serde_json::from_slice(&more.payload).expect("JSON"));
    }
    all
}

#[tokio::test]
async fn clients_of_each_cluster_use_streams_wherever_the_meta_leader_is() {
    let joined = Joined::start(&[("A", 3), ("B", 3)]);
    joined.agrees(6).await;
    let clients = [joined.client("A1").await, joined.client("B2").await];
    for led in ["A2", "B3"] {
        joined.lead(led, 6).await;
        for (at, client) in clients.iter().enumerate() {
            let (other, placed) = (&clients[1 - at], ["A", "B"]);
            for (cluster, replicas) in
                [(placed[at], 1), (placed[1 - at], 1), (placed[at], 3), (placed[1 - at], 3)]
            {
                let name = format!("S{led}{at}{cluster}{replicas}");
                let config = within(cluster, &name, replicas);
                until("the API is heard of", async || request(client, "$JS.API.INFO", "").await).await;
                let made =
                    answers(client, &format!("$JS.API.STREAM.CREATE.{name}"), &config.to_string()).await;
                assert_eq!(made.len(), 1, "{led}: {made:?}");
                assert_eq!(made[0]["config"]["name"], *name, "{made:?}");
                store_all(client, &name, 0..5).await;
                store_all(other, &name, 5..10).await;
                for asks in [client, other] {
                    let info = answers(asks, &format!("$JS.API.STREAM.INFO.{name}"), "").await;
                    assert_eq!((info.len(), &info[0]["state"]["messages"]), (1, &json!(10)), "{info:?}");
                    let names = answers(asks, "$JS.API.STREAM.NAMES", "").await;
                    assert_eq!((names.len(), &names[0]["streams"]), (1, &json!([name])), "{names:?}");
                }
                consume(other, &name, "c").await;
                assert_eq!(take(other, (&name, "c"), 5).await, ["0", "1", "2", "3", "4"]);
                assert_eq!(take(client, (&name, "c"), 5).await, ["5", "6", "7", "8", "9"]);
                let gone = answers(other, &format!("$JS.API.STREAM.DELETE.{name}"), "").await;
                assert_eq!((gone.len(), &gone[0]["success"]), (1, &json!(true)), "{gone:?}");
                let gone = try_api(client, &format!("STREAM.INFO.{name}"), &Value::Null).await;
                assert_eq!(gone["error"]["err_code"], 10059, "{gone}");
            }
        }
    }
}

/// The clusters are started one after the other, and cannot hear each other before: no group is
/// founded until a server of each has been heard, and then one.
#[tokio::test]
async fn no_cluster_founds_a_group_before_it_has_heard_the_other() {
    let mut joined = Joined::prepare(&[("A", 3), ("B", 2)]);
    joined.cables.iter().for_each(Cable::unplug);
    joined.start_cluster("");
    for name in ["A1", "B1"] {
        let server = joined.find(name).server.as_ref().expect("it runs");
        let other = if name == "A1" { "B" } else { "A" };
        server.wait_for_log(&format!(
            "JetStream is in no cluster yet, and waits for a server with JetStream of cluster {other:?}"
        ));
        assert_eq!(joined.meta_of(name).0, "");
    }
    joined.cables.iter().for_each(Cable::plug);
    joined.agrees(5).await;
}

#[tokio::test]
async fn what_has_its_quorum_in_a_cluster_that_is_cut_off_goes_on_there() {
    let joined = Joined::start(&[("A", 3), ("B", 2)]);
    joined.are_there(5).await;
    let (a, b) = (joined.client("A1").await, joined.client("B1").await);
    create(&a, &within("B", "FAR", 1)).await;
    create(&b, &within("A", "NEAR", 3)).await;
    create(&b, &within("B", "BOTH", 2)).await;
    store(&a, "FAR.x", "0").await;
    joined.cables.iter().for_each(Cable::unplug);
    store_all(&b, "FAR", 1..10).await;
    store_all(&b, "BOTH", 0..10).await;
    store_all(&a, "NEAR", 0..10).await;
    // A majority of the meta group is in A, and decides there.
    create(&a, &within("A", "NEW", 3)).await;
    until("the meta group has no leader in B", async || {
        let body = within("B", "NONE", 1).to_string();
        let answer = request(&b, "$JS.API.STREAM.CREATE.NONE", &body).await?;
        let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
        assert_eq!((&answer["error"]["code"], &answer["error"]["err_code"]), (&json!(503), &json!(10008)));
        Some(())
    })
    .await;
    store_all(&b, "BOTH", 10..20).await;

    joined.cables.iter().for_each(Cable::plug);
    joined.agrees(5).await;
    for (name, messages) in [("FAR", 10), ("BOTH", 20), ("NEAR", 10), ("NEW", 0)] {
        for client in [&a, &b] {
            until("each cluster has the other's streams", async || {
                let info = request(client, &format!("$JS.API.STREAM.INFO.{name}"), "").await?;
                let info: Value = serde_json::from_slice(&info.payload).ok()?;
                (info["state"]["messages"] == messages).then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_cluster_goes_on_when_the_servers_of_another_one_end() {
    let mut joined = Joined::start(&[("A", 3), ("B", 2)]);
    joined.agrees(5).await;
    joined.lead("B1", 5).await;
    let a = joined.client("A1").await;
    create(&a, &within("A", "S", 3)).await;
    for name in ["B1", "B2"] {
        joined.kill(name);
        until("others go on", async || (joined.agrees(5).await != name).then_some(())).await;
        store_all(&a, "S", 0..10).await;
        create(&a, &within("A", &format!("AFTER{name}"), 3)).await;
    }
    joined.start_cluster("B");
    joined.agrees(5).await;
    let b = joined.client("B2").await;
    assert_eq!(settled(&b, "S").await["state"]["messages"], 10);
    assert!(leader(&b, "AFTERB2").await.starts_with('A'));
}

/// A cluster that had a meta group before it got a gateway keeps it, and a new cluster joins that.
#[tokio::test]
async fn servers_of_a_new_cluster_join_the_group_that_is_there() {
    let mut joined = Joined::prepare(&[("A", 3), ("B", 2)]);
    let gateway = |node: &Node| node.config.find("gateway {").expect("it has one");
    for node in &mut joined.nodes[..3] {
        node.setup = Setup::default().config(&node.config[..gateway(node)]);
    }
    joined.start_cluster("A");
    joined.agrees(3).await;
    let a = joined.client("A1").await;
    create(&a, &stream("OLD", 3)).await;
    store_all(&a, "OLD", 0..10).await;
    for name in ["A1", "A2", "A3"] {
        joined.kill(name);
    }
    for node in &mut joined.nodes[..3] {
        node.setup = Setup::default().config(&node.config);
    }
    joined.start_cluster("");
    joined.agrees(5).await;
    let b = joined.client("B1").await;
    assert_eq!(settled(&b, "OLD").await["state"]["messages"], 10);
    create(&b, &within("B", "NEW", 2)).await;
}

/// Clusters of which each has founded a meta group of its own meet: neither takes anything of the
/// other, and both go on.
#[tokio::test]
async fn two_groups_that_meet_stay_two() {
    let mut joined = Joined::prepare(&[("A", 2), ("B", 2)]);
    for node in &mut joined.nodes {
        let gateway = node.config.find("gateway {").expect("it has one");
        node.setup = Setup::default().config(&node.config[..gateway]);
    }
    joined.start_cluster("");
    let (a, b) = (joined.client("A1").await, joined.client("B1").await);
    for (client, name) in [(&a, "OFA"), (&b, "OFB")] {
        create(client, &stream(name, 2)).await;
        store_all(client, name, 0..10).await;
    }
    for name in ["A1", "A2", "B1", "B2"] {
        joined.kill(name);
    }
    for node in &mut joined.nodes {
        node.setup = Setup::default().config(&node.config);
    }
    joined.start_cluster("");
    for name in ["A1", "A2", "B1", "B2"] {
        let server = joined.find(name).server.as_ref().expect("it runs");
        server.wait_for_log("the store of this server is of another cluster");
        until("each has its own leader", async || {
            let (leader, size) = joined.meta_of(name);
            (leader.starts_with(&name[..1]) && size == 2).then_some(())
        })
        .await;
    }
    for (name, stream) in [("A1", "OFA"), ("B1", "OFB")] {
        let client = joined.client(name).await;
        store_all(&client, stream, 10..20).await;
    }
}
