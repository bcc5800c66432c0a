//! The monitoring pages, ours and the reference's, of two servers in the same situation.
//!
//! Both are started with the same configuration and lived through by the same clients; then every page is asked for
//! with many queries. Status, headers, keys and their order, and JSON types must agree; so must all values that
//! do not belong to one process. Without a nats-server the test passes and says so.

#[path = "../../../monitor/tests/pages/shape.rs"]
mod shape;

use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use serde_json::Value;
use shape::differences;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const CONFIG: &str = r#"
    server_name: pair
    max_payload: 1000
    max_subscriptions: 50
    ping_interval: "5m"
    write_timeout: retry
    accounts {
        A { users [ { user: a, password: a } ] }
        B { users [ { user: b, password: b } ] }
    }
"#;

/// Keys whose values belong to one process, one moment or one implementation. Their types are compared all the same.
const VARIES: &[&str] = &[
    "server_id",
    "go",
    "host",
    "port",
    "now",
    "start",
    "uptime",
    "mem",
    "cpu",
    "cmdline",
    "memstats",
    "last_activity",
    "idle",
    "stop",
    "rtt",
    "config_load_time",
    "config_digest",
    "update_time",
];

/// Both servers, told and asked the same.
struct Pair {
    ours: Server,
    reference: Server,
}

impl Pair {
    fn start(config: &str) -> Option<Self> {
        let Some(program) = find() else {
            eprintln!("no nats-server found: the monitoring pages were not compared");
            return None;
        };
        let setup = Setup::default().config(config);
        Some(Self { ours: setup.clone().start(), reference: setup.program(program).start() })
    }

    fn each(&self) -> [&Server; 2] {
        [&self.ours, &self.reference]
    }

    /// A client of each that says CONNECT with these fields and then `commands`.
    fn client(&self, fields: &str, commands: &str) -> [Raw; 2] {
        self.each().map(|server| {
            let mut raw = Raw::open(server.address());
            raw.send(&format!("CONNECT {{\"verbose\":false,\"pedantic\":false,{fields}}}\r\n"));
            // The reference counts for no account what comes in one packet with CONNECT.
            raw.barrier();
            raw.send(commands);
            raw.barrier();
            raw
        })
    }

    /// A client of each that says `text` and is closed for it.
    fn closed_for(&self, text: &str) {
        for server in self.each() {
            let mut raw = Raw::open(server.address());
            raw.send(text);
            raw.rest();
        }
    }

    /// Waits until both know of so many closed connections.
    fn await_closed(&self, count: u64) {
        eventually("closed connections", || {
            let totals = self.each().map(|server| server.page("/connz?state=closed")["total"].clone());
            totals.iter().all(|total| *total == count)
        });
    }

    /// Asks both until they agree, for what has just happened may not be counted everywhere yet.
    fn agree(&self, request: &str, disagreements: impl Fn(&Answers) -> Vec<String>) {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let [ours, reference] = self.each().map(|server| Answer::of(server, request));
            let answers = Answers { ours, reference };
            let found = disagreements(&answers);
            if found.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{request}\n{}\n{answers:#?}", found.join("\n"));
        }
    }
}

fn find() -> Option<PathBuf> {
    let named = std::env::var_os("MYELIN_REFERENCE").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join("nats-server"));
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin/nats-server"));
    named.into_iter().chain(in_path).chain(home).find(|program| program.is_file())
}

#[derive(Debug)]
struct Answer {
    status: String,
    headers: Vec<String>,
    body: String,
}

#[derive(Debug)]
struct Answers {
    ours: Answer,
    reference: Answer,
}

impl Answer {
    fn of(server: &Server, request: &str) -> Self {
        let (head, body) = server.exchange(request);
        let mut lines = head.lines();
        let status = lines.next().expect("a status line").to_owned();
        let mut headers: Vec<_> = lines
            .map(str::to_lowercase)
            .filter(|line| {
                !["date:", "content-length:", "connection:"].iter().any(|name| line.starts_with(name))
            })
            .collect();
        headers.sort();
        Self { status, headers, body }
    }

    /// The page without what the order of a hash table decides, and with client ids counted from 1.
    fn page(&self, order: Order) -> Value {
        let mut page: Value = serde_json::from_str(&self.body).unwrap_or(Value::Null);
        settle(&mut page, order);
        page
    }
}

/// Whether the rows of a page stand in an order that was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Kept,
    /// By name: rows that are equal in the order asked for come in any.
    Any,
}

fn settle(value: &mut Value, order: Order) {
    match value {
        Value::Object(fields) => {
            fields.shift_remove("git_commit");
            for name in ["imports", "exports"] {
                fields.shift_remove(name);
            }
            for (name, value) in fields.iter_mut() {
                settle(value, order);
                let is_ordered = name == "connections" && order == Order::Kept;
                if let (false, Some(list)) = (is_ordered, value.as_array_mut()) {
                    list.retain(|item| !is_of_a_service(item));
                    list.sort_by_key(key);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|item| settle(item, order)),
        _ => {}
    }
}

/// What to sort an item by: something that is the same on both servers.
fn key(item: &Value) -> String {
    let named = ["name", "sid", "acc"].iter().filter_map(|name| item.get(name)).map(Value::to_string);
    let named: String = named.collect();
    if named.is_empty() { item.to_string() } else { named }
}

/// A subscription that the reference makes for its own services.
fn is_of_a_service(item: &Value) -> bool {
    let subject = item.get("subject").and_then(Value::as_str).unwrap_or_default();
    subject.starts_with("$SYS") || subject.starts_with("_R_")
}

impl Answers {
    /// Where the answers differ in what every page must agree in.
    fn framing(&self) -> Vec<String> {
        let (ours, reference) = (&self.ours, &self.reference);
        let mut found = Vec::new();
        if ours.status != reference.status {
            found.push(format!("{} is not {}", ours.status, reference.status));
        }
        let is_chunked = |line: &&String| !line.starts_with("transfer-encoding");
        if !ours.headers.iter().eq(reference.headers.iter().filter(is_chunked)) {
            found.push(format!("{:?} are not {:?}", ours.headers, reference.headers));
        }
        found
    }

    /// Where two pages differ.
    fn pages(&self, order: Order, ignored: &[&str]) -> Vec<String> {
        let (ours, reference) = (self.ours.page(order), self.reference.page(order));
        let mut found = self.framing();
        if self.ours.status.contains(" 200 ") {
            found.extend(differences(&ours, &reference));
            let bases = [first_cid(&ours), first_cid(&reference)];
            values("", &ours, &reference, bases, ignored, &mut found);
        } else if self.ours.body != self.reference.body {
            found.push(format!("{:?} is not {:?}", self.ours.body, self.reference.body));
        }
        found
    }
}

/// The smallest client id on a page: the reference gives the first ones to its own clients.
fn first_cid(page: &Value) -> u64 {
    fn walk(value: &Value, least: &mut u64) {
        match value {
            Value::Object(fields) => {
                if let Some(cid) = fields.get("cid").and_then(Value::as_u64) {
                    *least = cid.min(*least);
                }
                fields.values().for_each(|value| walk(value, least));
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, least)),
            _ => {}
        }
    }
    let mut least = u64::MAX;
    walk(page, &mut least);
    least
}

/// Collects the values that differ; `bases` are what client ids are counted from.
fn values(path: &str, a: &Value, b: &Value, bases: [u64; 2], ignored: &[&str], found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for (name, value) in a {
                let Some(other) = b.get(name) else { continue };
                // What was left unsent at the end is a matter of moments.
                let is_leftover = name == "pending_bytes" && a.contains_key("stop");
                if is_leftover || VARIES.contains(&name.as_str()) || ignored.contains(&name.as_str()) {
                    continue;
                }
                let path = format!("{path}/{name}");
                match (name.as_str(), value.as_u64(), other.as_u64()) {
                    ("cid", Some(a), Some(b)) if a - bases[0] == b - bases[1] => {}
                    _ => values(&path, value, other, bases, ignored, found),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                values(&format!("{path}/{index}"), a, b, bases, ignored, found);
            }
        }
        _ if a != b => found.push(format!("{path}: {a} is not {b}")),
        _ => {}
    }
}

/// Three clients that stay, with different counts of everything, and five that have left or were closed.
fn live(pair: &Pair) -> [[Raw; 2]; 3] {
    let one = pair.client(
        r#""user":"a","pass":"a","name":"one","lang":"rust","version":"1.2.3","headers":true"#,
        "SUB foo.* 1\r\nSUB bar q 2\r\nUNSUB 2 5\r\nSUB gone 3\r\nUNSUB 3\r\nPUB foo.x 2\r\nhi\r\n",
    );
    let two = pair.client(
        r#""user":"a","pass":"a","name":"two <&>","lang":"go","version":"0.0.1""#,
        "SUB foo.> 9\r\nPUB foo.y 5\r\nhello\r\nPUB bar 1\r\nx\r\nPUB nobody 3\r\nabc\r\n",
    );
    let three = pair.client(
        r#""user":"b","pass":"b","name":"three""#,
        "SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nPUB a 20\r\n01234567890123456789\r\nPUB a 0\r\n\r\n",
    );
    drop(pair.client(
        r#""user":"b","pass":"b","name":"left","lang":"c","version":"9""#,
        "SUB z 1\r\nSUB z.> q 2\r\nUNSUB 2 7\r\nPUB z 4\r\nzzzz\r\n",
    ));
    pair.await_closed(1);
    let who = r#"CONNECT {"user":"a","pass":"a","name":"offender"}"#;
    let long = "x".repeat(5000);
    for (count, text) in [
        (2, r#"CONNECT {"user":"a","pass":"wrong","name":"stranger"}"#.to_owned()),
        (3, format!("{who}\r\nPUB large 2000")),
        (4, format!("{who}\r\nNONSENSE")),
        (5, format!("{who}\r\nPUB {long}")),
    ] {
        pair.closed_for(&format!("{text}\r\n"));
        pair.await_closed(count);
    }
    [one, two, three]
}

#[test]
fn pages_agree_with_the_reference() {
    let Some(pair) = Pair::start(CONFIG) else { return };
    let _stay = live(&pair);
    for (request, order, ignored) in requests() {
        pair.agree(&request, |answers| answers.pages(order, ignored));
    }
}

/// Every page with many queries: the request, the order of its rows, and keys whose values are not compared.
fn requests() -> Vec<(String, Order, &'static [&'static str])> {
    let mut list = Vec::new();
    let mut add = |page: &str, queries: &[&str], order: Order, ignored: &'static [&'static str]| {
        list.extend(queries.iter().map(|query| (format!("/{page}{query}"), order, ignored)));
    };
    add("varz", &["", "?x=1"], Order::Any, &["subscriptions"]);
    add("connz", CONNZ, Order::Kept, &[]);
    add("connz", CONNZ_IN_ANY_ORDER, Order::Any, &[]);
    add("routez", &["", "?subs=1", "?subs=Detail", "?subs=x"], Order::Any, &[]);
    add("gatewayz", &["", "?accs=1&gw_name=x", "?acc_name=A&subs=detail", "?accs=x"], Order::Any, &[]);
    add("leafz", &["", "?subs=1&acc=A", "?subs=x"], Order::Any, &[]);
    add("subsz", SUBSZ, Order::Any, SERVICES);
    add("subscriptionsz", &["", "?subs=1&acc=A&test=bar"], Order::Any, SERVICES);
    add("accountz", &["", "?acc=A", "?acc=$G", "?acc=$SYS", "?acc=nope"], Order::Any, SERVICES);
    add("accstatz", &["", "?unused=1", "?unused=0", "?unused=x"], Order::Any, SERVICES);
    add("jsz", JSZ, Order::Any, &[]);
    add("healthz", HEALTHZ, Order::Any, &[]);
    add("raftz", &["", "?acc=A", "?group=x"], Order::Any, &[]);
    add("ipqueuesz", &["", "?all=0", "?all=x", "?all=1&queues=none"], Order::Any, &[]);
    add("debug/vars", &["", "?x"], Order::Any, &[]);
    add("", &["nope", "debug", "varz/", "?x"], Order::Any, &[]);
    list
}

/// Keys whose values count what the reference subscribes to and imports for its own services, which are still to
/// come here, and its caches, which are one for each account.
const SERVICES: &[&str] = &[
    "subscriptions",
    "num_subscriptions",
    "num_cache",
    "num_inserts",
    "num_removes",
    "num_matches",
    "cache_hit_rate",
    "max_fanout",
    "avg_fanout",
];

const CONNZ: &[&str] = &[
    "",
    "?auth=1",
    "?auth=true&subs=1",
    "?subs=detail",
    "?subs=DETAIL&auth=1",
    "?state=open",
    "?state=closed&sort=cid",
    "?state=closed&sort=stop",
    "?state=closed&sort=stop&auth=1&subs=1",
    "?state=closed&sort=cid&auth=1&subs=detail",
    "?state=all&sort=cid",
    "?state=ANY&sort=start&limit=3&offset=2",
    "?sort=cid",
    "?sort=start",
    "?sort=msgs_from",
    "?sort=bytes_from",
    "?sort=bytes_to",
    "?user=a&auth=1",
    "?user=nobody",
    "?acc=B",
    "?acc=A&user=a&state=all",
    "?acc=nope",
    "?acc=$G",
    "?acc=$G&state=closed",
    "?offset=1",
    "?offset=1&limit=1",
    "?offset=100",
    "?offset=-1&limit=-1",
    "?limit=0",
    "?limit=2",
    "?cid=4000000000",
    "?cid=0",
    "?cid=x",
    "?mqtt_client=x",
    "?sort=stop",
    "?sort=reason&state=open",
    "?sort=nope",
    "?state=nope",
    "?auth=nope",
];

/// Rows that may be equal in the order asked for.
const CONNZ_IN_ANY_ORDER: &[&str] = &[
    "?sort=pending",
    "?sort=subs",
    "?sort=msgs_to",
    "?sort=last",
    "?sort=idle",
    "?sort=uptime",
    "?sort=rtt",
    "?state=closed&sort=reason",
];

const SUBSZ: &[&str] = &[
    "",
    "?acc=A",
    "?acc=nope",
    "?subs=1&acc=nope",
    "?subs=1&test=foo.x",
    "?subs=1&test=foo.x&acc=A",
    "?subs=1&test=foo.x.y&acc=A",
    "?subs=1&test=a&acc=B&limit=1",
    "?test=foo.*",
    "?subs=x",
    "?limit=x",
    "?offset=x",
    "?limit=0&offset=-3",
];

const JSZ: &[&str] = &[
    "",
    "?acc=A",
    "?accounts=1",
    "?streams=1&consumers=1&direct-consumers=1&config=1&raft=1",
    "?limit=1&offset=1",
    "?leader-only=1",
    "?stream-leader-only=1",
    "?accounts=x",
    "?limit=x",
];

const HEALTHZ: &[&str] = &[
    "",
    "?js-enabled=1",
    "?js-enabled-only=1",
    "?js-server-only=1",
    "?js-meta-only=1",
    "?details=1",
    "?account=A&stream=S&consumer=C",
    "?stream=S",
    "?consumer=C&details=1",
    "?account=nope",
    "?details=x",
];

#[test]
fn one_connection_is_found_by_its_id() {
    let Some(pair) = Pair::start(CONFIG) else { return };
    let _stay = live(&pair);
    let cids = pair.each().map(|server| first_cid(&server.page("/connz?sort=cid")));
    for query in ["", "&auth=1&subs=detail", "&state=closed", "&state=all", "&user=b", "&acc=A", "&limit=5"] {
        let [ours, reference] = [0, 1].map(|at| {
            let server = pair.each()[at];
            Answer::of(server, &format!("/connz?cid={}{query}", cids[at]))
        });
        assert_eq!(Answers { ours, reference }.pages(Order::Kept, &[]), Vec::<String>::new(), "{query}");
    }
}

#[test]
fn a_server_without_accounts_shows_the_global_one() {
    let Some(pair) = Pair::start("server_name: pair\nhttp_base_path: mon") else { return };
    let _stays = pair.client(r#""name":"one","lang":"rust""#, "SUB a 1\r\nPUB a 2\r\nhi\r\n");
    for (request, ignored) in [
        ("/mon/varz", ["subscriptions", "http_base_path"].as_slice()),
        ("/mon/connz?auth=1&subs=detail", &[]),
        ("/mon/connz?acc=$G&auth=1", &[]),
        ("/mon/accountz", &[]),
        ("/mon/accountz?acc=$G", SERVICES),
        ("/mon/accstatz?unused=1", SERVICES),
        ("/mon/healthz", &[]),
        ("/varz", &[]),
        ("/mon/", &[]),
        ("/", &[]),
    ] {
        pair.agree(request, |answers| answers.pages(Order::Any, ignored));
    }
    pair.agree("/mon", |answers| {
        let [ours, reference] = [&answers.ours, &answers.reference].map(|answer| links(&answer.body));
        if ours == reference { answers.framing() } else { vec![format!("{ours:?} are not {reference:?}")] }
    });
}

/// Where the links of an index lead and what they are called.
fn links(html: &str) -> Vec<(String, String)> {
    let after = |text: &str, from: char| text.split_once(from).map_or("", |(_, rest)| rest).to_owned();
    let links = html.split("<a href=").skip(1).map(|link| {
        let target = link.trim_start_matches('"').split([' ', '>', '"']).next().unwrap_or_default();
        let label = after(link, '>');
        (target.to_owned(), label.split('<').next().unwrap_or_default().trim().to_owned())
    });
    // The reference also links to its source, with its version as a label.
    links.filter(|(target, _)| !target.contains("github.com")).collect()
}

#[test]
fn the_process_is_shown_as_it_is() {
    let server = Setup::default().flags(&["--user", "ann", "--pass", "s3cret"]).start();
    let vars = server.page("/debug/vars");
    let line: Vec<_> = vars["cmdline"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(line.windows(2).any(|pair| pair == ["--pass", "[REDACTED]"]), "{line:?}");
    assert!(!vars.to_string().contains("s3cret"));
    assert!(vars["memstats"]["HeapInuse"].as_u64() > Some(100_000), "{}", vars["memstats"]["HeapInuse"]);
    let (_, stacks) = server.exchange("/stacksz");
    assert!(stacks.contains("shard-0\n") && stacks.contains("control\n"), "{stacks}");
    let varz = server.page("/varz");
    assert!(varz["mem"].as_u64() > Some(1_000_000) && varz["cores"].as_u64() >= varz["gomaxprocs"].as_u64());
}

#[test]
fn processor_time_is_that_of_the_last_second() {
    let server = Server::start();
    let mut raw = Raw::connect(&server);
    let batch = "PUB a 1\r\nx\r\n".repeat(10_000);
    let used = || server.page("/varz")["cpu"].as_f64().expect("a number");
    let mut peak = 0.0;
    eventually("a busy server", || {
        (0..20).for_each(|_| raw.send(&batch));
        raw.barrier();
        peak = used();
        peak > 30.0
    });
    // It is still asked, so it does not rest altogether.
    eventually("a server that is busy no longer", || used() < peak / 2.0);
}

#[test]
fn lame_duck_mode_is_not_healthy() {
    let config = "lame_duck_duration: 30s\nlame_duck_grace_period: 20s\n";
    let Some(pair) = Pair::start(config) else { return };
    let _stays = pair.client(r#""name":"one""#, "");
    for server in pair.each() {
        server.signal(rustix::process::Signal::USR2);
        server.wait_for_log("Entering lame duck mode");
    }
    for query in ["", "?details=1", "?js-server-only=1"] {
        pair.agree(&format!("/healthz{query}"), |answers| answers.pages(Order::Any, &[]));
    }
}
