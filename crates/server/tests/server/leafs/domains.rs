//! JetStream of a hub and of its leaf node: whose API answers a request, by which name.

use super::Site;
use crate::eventually;
use crate::process::{PROGRAM, Setup};
use crate::raw::{Message, Raw};
use crate::routes::{MIXES, Ours, Reference, ServerKind, free_port, wait_for_interest};
use tempfile::TempDir;

/// A hub and a leaf node with JetStream.
#[derive(Clone, Copy, Debug)]
struct Row {
    shares_system: bool,
    /// Domains of hub and leaf node; empty for none.
    domains: [&'static str; 2],
    /// Whether the account that they share has JetStream.
    is_on: bool,
}

/// Servers that answer requests of hub and leaf node by the plain name, by that of D and of E.
type Answers = [[Option<&'static str>; 2]; 3];

const H: Option<&str> = Some("HUB");
const S: Option<&str> = Some("EDGE");

/// As nats-server 2.15.2 has it, with the system account shared or not, the hub alone or in a
/// cluster of three.
const EXPECTED: [([&str; 2], Answers); 3] = [
    (["D", "D"], [[H, S], [H, S], [None, None]]),
    (["D", "E"], [[H, S], [H, H], [S, S]]),
    (["", ""], [[H, S], [None, None], [None, None]]),
];

/// The rows with a hub of this domain.
fn rows(domain: &str) -> impl Iterator<Item = (Row, Answers)> {
    let of_hub = EXPECTED.into_iter().filter(move |(domains, _)| domains[0] == domain);
    of_hub.flat_map(|(domains, answers)| {
        [true, false].into_iter().flat_map(move |shares_system| {
            let row = move |is_on| Row { shares_system, domains, is_on };
            [(row(true), answers), (row(false), [[None; 2]; 3])]
        })
    })
}

impl Row {
    /// Name and password of the account's user.
    fn user(self) -> &'static str {
        if self.is_on { "a" } else { "b" }
    }
}

/// JetStream with a store in that folder, an account that has it and one that has not.
fn jetstream(domain: &str, store: &TempDir) -> String {
    let domain = if domain.is_empty() { String::new() } else { format!(", domain: {domain}") };
    let store = store.path();
    format!(
        "jetstream {{ store_dir: {store:?}{domain} }}\nsystem_account: SYS\n\
         accounts {{ A {{ jetstream: enabled, users: [{{user: a, password: a}}] }}, \
         B {{ users: [{{user: b, password: b}}] }}, SYS {{ users: [{{user: sys, password: sys}}] }} }}"
    )
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A hub of one server or of a cluster. Leaf nodes dial the first.
struct Hub {
    sites: Vec<Site>,
    _stores: Vec<TempDir>,
}

impl Hub {
    /// `None`: there is no nats-server to be it.
    fn start(kind: ServerKind, domain: &str, size: usize) -> Option<Self> {
        let (ports, stores): (Vec<u16>, Vec<_>) = (0..size).map(|_| (free_port(), folder())).unzip();
        let routes: Vec<_> = ports.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let routes = routes.join(", ");
        let start = |at: usize| {
            let mut more = jetstream(domain, &stores[at]);
            if size > 1 {
                let port = ports[at];
                more +=
                    &format!("\ncluster {{ name: HC, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}");
            }
            Site::hub(kind, &format!("H{at}"), "", &more)
        };
        let sites: Vec<_> = (0..size).map(start).collect::<Option<_>>()?;
        if size > 1 {
            eventually("a leader", || {
                sites[0].server.page("/jsz")["meta_cluster"]["leader"]
                    .as_str()
                    .is_some_and(|name| !name.is_empty())
            });
        }
        let mut client = Client::new(&sites[0], "a", "made");
        // What is asked of a new cluster may find nobody.
        eventually("a stream", || {
            client.ask_for_stream("HUB");
            client.raw.barrier().iter().any(is_made)
        });
        Some(Self { sites, _stores: stores })
    }

    /// A leaf node of the first server, as a row says, once both know each other.
    fn leaf(&self, kind: ServerKind, row: Row, store: &TempDir) -> Option<Site> {
        let (hub, user) = (&self.sites[0], row.user());
        hub.linked(0);
        let (port, account) = (hub.port, user.to_uppercase());
        let remote = |user: &str, account: &str| {
            format!("{{ url: \"nats://{user}:{user}@127.0.0.1:{port}\", account: {account} }}")
        };
        let system = if row.shares_system { remote("sys", "SYS") } else { String::new() };
        let remotes = format!("remotes: [{}, {system}]", remote(user, &account));
        let leaf = Site::start(kind, "EDGE", None, &remotes, &jetstream(row.domains[1], store))?;
        let links = if row.shares_system { 2 } else { 1 };
        hub.linked(links);
        leaf.linked(links);
        Some(leaf)
    }
}

/// A client that asks, with an inbox of its own.
struct Client {
    raw: Raw,
    inbox: &'static str,
    asked: usize,
}

impl Client {
    fn new(site: &Site, user: &str, inbox: &'static str) -> Self {
        let mut raw = Raw::open(site.server.address());
        raw.send(&format!(
            "CONNECT {{\"user\":\"{user}\",\"pass\":\"{user}\",\"verbose\":false,\"headers\":true,\
             \"no_responders\":true}}\r\nSUB {inbox}.> 1\r\n"
        ));
        raw.barrier();
        Self { raw, inbox, asked: 0 }
    }

    /// Sends a request. Returns where its answer comes.
    fn ask(&mut self, subject: &str, body: &str) -> String {
        self.asked += 1;
        let (inbox, len) = (format!("{}.{}", self.inbox, self.asked), body.len());
        self.raw.send(&format!("PUB {subject} {inbox} {len}\r\n{body}\r\n"));
        inbox
    }

    /// Asks for a stream of a server's name there.
    fn ask_for_stream(&mut self, name: &str) {
        let config = format!("{{\"name\":\"{name}\",\"subjects\":[\"of.{name}\"]}}");
        self.ask(&format!("$JS.API.STREAM.CREATE.{name}"), &config);
    }

    /// Servers whose streams are named by the API behind this prefix.
    fn answers(&mut self, other: &mut Raw, prefix: &str, is_expected: bool) -> Vec<&'static str> {
        let inbox = self.ask(&format!("{prefix}.STREAM.NAMES"), "");
        let mut all = Vec::new();
        if is_expected {
            // It may be slower than the round.
            all.push(self.raw.message());
        }
        // A round over the link, and one to the server here: what would have come has come.
        let round = self.ask("echo", "");
        let asked = other.message().reply.expect("it is asked");
        other.publish(&asked, "");
        while all.last().is_none_or(|message| message.subject != round) {
            all.push(self.raw.message());
        }
        all.extend(self.raw.barrier());
        let of_api = |message: &&Message| message.subject == inbox;
        let names =
            |text: &str| ["HUB", "EDGE"].into_iter().find(|name| text.contains(&format!("\"{name}\"")));
        all.iter().filter(of_api).filter_map(|message| names(message.text())).collect()
    }
}

fn is_made(answer: &Message) -> bool {
    answer.text().contains("stream_create_response") && !answer.text().contains("\"error\"")
}

fn check(hub: &Hub, kind: ServerKind, (row, expected): (Row, Answers)) {
    let store = folder();
    let Some(leaf) = hub.leaf(kind, row, &store) else { return };
    let mut clients =
        [Client::new(&hub.sites[0], row.user(), "at.hub"), Client::new(&leaf, row.user(), "at.leaf")];
    if row.is_on {
        clients[1].ask_for_stream("EDGE");
        let made = clients[1].raw.message();
        assert!(is_made(&made), "{made:?}");
    }
    for side in [0, 1] {
        let [here, there] = &mut clients;
        let (asking, other) = if side == 0 { (here, there) } else { (there, here) };
        other.raw.send("SUB echo 2\r\n");
        wait_for_interest(&mut asking.raw, &mut other.raw);
        wait_for_interest(&mut other.raw, &mut asking.raw);
        for (number, prefix) in ["$JS.API", "$JS.D.API", "$JS.E.API"].into_iter().enumerate() {
            let expected: Vec<_> = expected[number][side].into_iter().collect();
            let mut got = Vec::new();
            if expected.is_empty() {
                got = asking.answers(&mut other.raw, prefix, false);
            } else {
                // The first requests may find nobody.
                eventually("an answer of the API", || {
                    got = asking.answers(&mut other.raw, prefix, true);
                    !got.is_empty()
                });
            }
            assert_eq!(got, expected, "{row:?}, leaf node {kind:?}, {prefix} asked from side {side}");
        }
        other.raw.send("UNSUB 2\r\n");
        other.raw.barrier();
    }
}

fn check_rows(hub_kind: ServerKind, size: usize, leaf_kind: ServerKind) {
    for domain in ["D", ""] {
        let Some(hub) = Hub::start(hub_kind, domain, size) else { return };
        for row in rows(domain) {
            check(&hub, leaf_kind, row);
        }
    }
}

#[test]
fn each_side_answers_for_its_own_domain() {
    for [hub, leaf] in MIXES {
        check_rows(hub, 1, leaf);
    }
}

#[test]
fn so_it_does_where_the_hub_is_a_cluster() {
    check_rows(Reference, 3, Ours);
}

/// An account without JetStream uses that of a domain, and what is put into a bucket by the name of
/// the domain is in the bucket.
#[test]
fn an_account_may_use_another_domain_by_default() {
    let hub = Hub::start(Ours, "D", 1).expect("it is built");
    let port = hub.sites[0].port;
    let remotes = format!("remotes: [{{ url: \"nats://a:a@127.0.0.1:{port}\", account: A }}]");
    let more = "default_js_domain { A: D }\naccounts { A { users: [{user: a, password: a}] } }";
    let leaf = Site::start(Ours, "EDGE", None, &remotes, more).expect("it is built");
    hub.sites[0].linked(1);
    leaf.linked(1);
    let (mut here, mut there) =
        (Client::new(&leaf, "a", "at.leaf"), Client::new(&hub.sites[0], "a", "at.hub"));
    there.ask("$JS.API.STREAM.CREATE.KV_b", "{\"name\":\"KV_b\",\"subjects\":[\"$KV.b.>\"]}");
    assert!(there.raw.message().text().contains("\"KV_b\""));
    there.raw.send("SUB echo 2\r\n");
    wait_for_interest(&mut here.raw, &mut there.raw);
    wait_for_interest(&mut there.raw, &mut here.raw);
    eventually("the API of the hub", || here.answers(&mut there.raw, "$JS.API", true) == ["HUB"]);
    here.ask("$KV.b.key", "value");
    let put = here.raw.message();
    assert!(put.text().contains("\"stream\":\"KV_b\""), "{put:?}");
}

/// JetStream with this hint, beside a remote with these in it.
fn extending(hint: &str, remote: &str, store: &TempDir) -> String {
    let store = store.path();
    let hint = if hint.is_empty() { String::new() } else { format!(", extension_hint: {hint}") };
    format!(
        "jetstream {{ store_dir: {store:?}{hint} }}\nsystem_account: SYS\naccounts {{ SYS {{}} }}\n\
         leafnodes {{ remotes: [{{ url: \"nats://127.0.0.1:1\", {remote} }}] }}"
    )
}

const NOTICES: [&str; 2] = [
    "Standalone server started in clustered mode do not support extending domains",
    "Manually disable standalone mode by setting the JetStream Option \"extension_hint: will_extend\"",
];

#[test]
fn a_jetstream_that_could_be_a_part_of_its_hubs_says_that_it_is_not() {
    let kinds = [Ours, Reference];
    for program in kinds.into_iter().filter_map(ServerKind::program) {
        let (system, denying) = ("account: SYS", "account: SYS, deny_imports: [\"$NRG.>\"]");
        for (hint, remote, is_told) in [
            ("", system, true),
            ("no_extend", system, true),
            // Without a cluster nobody looks at what else it says.
            ("Will_Extend", system, true),
            ("perhaps", system, true),
            ("", denying, false),
            // Nothing could be extended.
            ("will_extend", denying, false),
            ("will_extend", "account: \"$G\"", false),
        ] {
            let store = folder();
            let text = extending(hint, remote, &store);
            let server = Setup::default().program(&program).config(&text).start();
            server.wait_for_log("Server is ready");
            let log = server.log();
            let told = NOTICES.map(|notice| log.contains(notice));
            assert_eq!(told, [is_told; 2], "{program:?}, {hint:?}, {remote:?}");
        }
    }
}

#[test]
fn one_that_would_be_a_part_of_its_hubs_does_not_start() {
    let (store, home) = (folder(), folder());
    let path = home.path().join("nats.conf");
    let text = format!("listen: \"127.0.0.1:-1\"\n{}", extending("will_extend", "account: SYS", &store));
    std::fs::write(&path, text).expect("a file");
    let output = std::process::Command::new(PROGRAM).arg("-c").arg(&path).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    let why = "\"extension_hint: will_extend\" with a remote of the system account needs a JetStream of several \
               servers, which this version of Myelin does not have";
    assert!(said.contains(why), "{said}");
}
