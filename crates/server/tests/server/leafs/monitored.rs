//! Leaf nodes as operators see them and deal with them: pages, events, KICK, lame duck mode.

use super::Site;
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{Ours, Reference, ServerKind, wait_for_interest};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

const ACCOUNTS: &str = "accounts { A { users: [{user: a, password: a}] }, \
                        SYS { users: [{user: sys, password: sys}] } }\nsystem_account: SYS";

/// A hub of either kind.
fn hubs(more: &str) -> impl Iterator<Item = (ServerKind, Site)> {
    let text = format!("{ACCOUNTS}\n{more}");
    [Ours, Reference]
        .into_iter()
        .filter_map(move |kind| Some((kind, Site::hub(kind, "HUB", "compression: off", &text)?)))
}

/// A leaf node of account A that says this behind CONNECT.
fn leaf(hub: &Site, name: &str, said: &str) -> Raw {
    let before = hub.links().len();
    let mut raw = Raw::open(SocketAddr::from(([127, 0, 0, 1], hub.port)));
    let login = format!("\"user\":\"a\",\"pass\":\"a\",\"name\":\"{name}\",\"version\":\"2.15.0\"");
    raw.send(&format!("CONNECT {{{login}}}\r\n{said}"));
    hub.linked(before + 1);
    raw
}

/// A client of the system account with these subscriptions.
fn operator(hub: &Site, subjects: &[&str]) -> Raw {
    let mut raw = Raw::open(hub.server.address());
    raw.send("CONNECT {\"user\":\"sys\",\"pass\":\"sys\",\"verbose\":false}\r\nSUB inbox 1\r\n");
    subjects.iter().for_each(|subject| raw.subscribe(subject, 2));
    raw.barrier();
    raw
}

fn document(raw: &mut Raw) -> Value {
    serde_json::from_slice(&raw.message().body).expect("a document")
}

/// Rows of `/connz` that are of leaf nodes.
fn rows(hub: &Site, query: &str) -> Vec<Value> {
    let page = hub.server.page(&format!("/connz?auth=1&{query}"));
    let rows = page["connections"].as_array().cloned().unwrap_or_default();
    rows.into_iter().filter(|row| row["kind"] == "Leafnode").collect()
}

#[test]
fn pages_of_connections_list_leaf_nodes() {
    for (kind, hub) in hubs("") {
        let raw = leaf(&hub, "EDGE", "LS+ foo\r\nLS+ bar q 2\r\n");
        let mut of_open = Value::Null;
        eventually("both subscriptions", || {
            of_open = rows(&hub, "subs=1").pop().unwrap_or_default();
            of_open["subscriptions"] == 2
        });
        let shown = |row: &Value| {
            ["kind", "type", "name", "version", "authorized_user", "account", "name_tag", "subscriptions"]
                .map(|field| row.get(field).cloned().unwrap_or_default())
        };
        let expected = [
            json!("Leafnode"),
            Value::Null,
            json!("EDGE"),
            json!("2.15.0"),
            json!("a"),
            json!("A"),
            json!("A"),
            json!(2),
        ];
        assert_eq!(shown(&of_open), expected, "{kind:?}: {of_open}");
        let mut subjects: Vec<_> = of_open["subscriptions_list"].as_array().expect("a list").clone();
        subjects.sort_by_key(ToString::to_string);
        assert_eq!(subjects, ["bar", "foo"], "{kind:?}");
        assert_eq!(rows(&hub, "acc=A").len(), 1, "{kind:?}");
        assert_eq!(rows(&hub, "acc=SYS").len(), 0, "{kind:?}");
        let cid = of_open["cid"].as_u64().expect("an id");
        assert_eq!(rows(&hub, &format!("cid={cid}")).len(), 1, "{kind:?}");
        drop(raw);
        let mut of_closed = Value::Null;
        eventually("the link has ended", || {
            of_closed = rows(&hub, "state=closed").pop().unwrap_or_default();
            of_closed["cid"] == cid
        });
        assert_eq!(shown(&of_closed), expected, "{kind:?}: {of_closed}");
        // What it has not read makes the system reset the connection.
        let reason = of_closed["reason"].as_str().expect("a reason");
        assert!(["Client Closed", "Read Error"].contains(&reason), "{kind:?}: {reason}");
        assert!(of_closed["stop"].is_string(), "{kind:?}: {of_closed}");
        assert_eq!(rows(&hub, "").len(), 0, "{kind:?}");
    }
}

#[test]
fn accounts_that_have_leaf_nodes_only_are_in_use() {
    for (kind, hub) in hubs("") {
        let in_use = |hub: &Site| {
            let page = hub.server.page("/accstatz");
            let rows = page["account_statz"].as_array().cloned().unwrap_or_default();
            rows.into_iter().find(|row| row["acc"] == "A")
        };
        assert_eq!(in_use(&hub), None, "{kind:?}");
        let _leaf = leaf(&hub, "EDGE", "");
        let row = in_use(&hub).expect("the account is there");
        assert_eq!((&row["conns"], &row["leafnodes"]), (&json!(0), &json!(1)), "{kind:?}: {row}");
        let mut operator = operator(&hub, &[]);
        operator.send("PUB $SYS.REQ.SERVER.PING.STATSZ inbox 0\r\n\r\n");
        let statz = document(&mut operator);
        // The operator's own is the other.
        assert_eq!(statz["statsz"]["active_accounts"], 2, "{kind:?}: {statz}");
    }
}

#[test]
fn a_leaf_node_is_kicked() {
    for (kind, hub) in hubs("") {
        let raw = leaf(&hub, "EDGE", "");
        let cid = hub.links()[0]["id"].as_u64().expect("an id");
        let mut operator = operator(&hub, &[]);
        let id = hub.server.page("/varz")["server_id"].as_str().expect("an id").to_owned();
        let order = |cid: u64| {
            let body = format!("{{\"cid\":{cid}}}");
            format!("PUB $SYS.REQ.SERVER.{id}.KICK inbox {}\r\n{body}\r\n", body.len())
        };
        operator.send(&order(cid));
        let answer = document(&mut operator);
        assert_eq!(answer.get("error"), None, "{kind:?}: {answer}");
        raw.rest();
        hub.linked(0);
        hub.server.wait_for_log("Leafnode connection closed: Kicked");
        operator.send(&order(cid));
        let answer = document(&mut operator);
        assert_eq!(answer["error"]["description"], "no such client or leafnode id", "{kind:?}");
    }
}

#[test]
fn the_system_account_hears_of_refused_leaf_nodes() {
    for (kind, hub) in hubs("") {
        let mut heard = operator(&hub, &["$SYS.SERVER.*.CLIENT.AUTH.ERR"]);
        let said = "\"pass\":\"wrong\",\"name\":\"EDGE\",\"version\":\"2.15.0\"";
        for (said, user) in [
            (format!("CONNECT {{\"user\":\"a\",{said}}}\r\n"), json!("a")),
            (format!("CONNECT {{\"nkey\":\"UABC\",{said}}}\r\n"), json!("UABC")),
            (format!("CONNECT {{{said}}}\r\n"), Value::Null),
            (format!("CONNECT {{\"auth_token\":\"t0ken\",{said}}}\r\n"), json!("[REDACTED]")),
            ("PING\r\n".to_owned(), Value::Null),
        ] {
            let mut raw = Raw::open(SocketAddr::from(([127, 0, 0, 1], hub.port)));
            raw.send(&said);
            let event = document(&mut heard);
            assert_eq!(event["type"], "io.nats.server.advisory.v1.client_disconnect", "{kind:?}: {event}");
            assert_eq!(event["reason"], "Authentication Failure", "{kind:?}: {event}");
            let fields = ["acc", "user", "name", "ver", "name_tag", "kind", "client_type"];
            let shown = fields.map(|field| event["client"].get(field).cloned().unwrap_or_default());
            let is_named = said.starts_with("CONNECT");
            let name = if is_named { json!("EDGE") } else { Value::Null };
            let version = if is_named { json!("2.15.0") } else { Value::Null };
            let expected = [json!("N/A"), user, name, version, Value::Null, json!("Leafnode"), Value::Null];
            assert_eq!(shown, expected, "{kind:?}: {event}");
            assert!(raw.rest().contains("-ERR 'Authorization Violation'"));
        }
    }
}

#[test]
fn leaf_nodes_leave_one_by_one_in_lame_duck_mode() {
    for (kind, mut hub) in hubs("lame_duck_duration: 30s\nlame_duck_grace_period: 2s") {
        let leafs = ["ONE", "TWO", "THREE"].map(|name| leaf(&hub, name, ""));
        let begun = Instant::now();
        hub.server.signal(Signal::USR2);
        hub.server.wait_for_log("Entering lame duck mode");
        eventually("nobody is accepted", || TcpStream::connect(("127.0.0.1", hub.port)).is_err());
        assert_eq!(hub.links().len(), 3, "{kind:?}: they stay for the grace period");
        let ended = leafs.map(|raw| {
            raw.rest();
            begun.elapsed()
        });
        let most = ended.iter().max().expect("there are three");
        assert!(most.as_millis() > 2500, "{kind:?}: {ended:?} is all at once");
        assert_eq!(hub.server.wait().code(), Some(0), "{kind:?}");
    }
}

#[test]
fn a_leaf_node_that_asks_and_does_not_read_takes_no_memory() {
    let hub = Site::hub(Ours, "HUB", "compression: off", ACCOUNTS).expect("ours");
    let mut leaf = leaf(&hub, "EDGE", "");
    let pings = "PING\r\n".repeat(100_000);
    for _ in 0..30 {
        leaf.send(&pings);
    }
    leaf.send("LS+ last\r\n");
    crate::eventually("all of it is read", || hub.links()[0]["subscriptions"] == 1);
    let page = hub.server.page("/connz");
    let pending = page["connections"][0]["pending_bytes"].as_u64().expect("the row of the link");
    assert!(pending < 2 * 1024 * 1024, "{pending} bytes wait");
}

/// Messages over links count apart, and with all others of the account.
#[test]
fn accounts_show_the_traffic_of_leaf_nodes() {
    for kind in [Ours, Reference] {
        let Some(hub) = Site::hub(kind, "HUB", "", "") else { continue };
        let Some(leaf) = Site::leaf(kind, "EDGE", &hub, "", "") else { continue };
        let sites = [hub, leaf];
        let mut clients = sites.each_ref().map(Site::client);
        for (at, subject) in ["up", "down"].iter().enumerate() {
            clients[at].subscribe(subject, 1);
        }
        let [above, below] = &mut clients;
        wait_for_interest(above, below);
        wait_for_interest(below, above);
        let counted = || {
            sites.each_ref().map(|site| {
                let page = site.server.page("/accstatz?unused=1");
                let all = page["account_statz"].as_array().cloned().unwrap_or_default();
                let own = all.into_iter().find(|row| row["acc"] == "$G").unwrap_or_default();
                ["received", "sent"].map(|way| {
                    ["/leafs/msgs", "/leafs/bytes", "/msgs"]
                        .map(|what| own[way].pointer(what).and_then(Value::as_u64).unwrap_or(0))
                })
            })
        };
        let before = counted();
        (0..5).for_each(|_| above.publish("down", "abc"));
        (0..4).for_each(|_| below.publish("up", "ab"));
        // Of all, what clients publish and get counts, too.
        let expected = [[[4, 8, 9], [5, 15, 9]], [[5, 15, 9], [4, 8, 9]]];
        eventually("the counts of both", || {
            let now = counted();
            let grown = |site: usize, way: usize| {
                std::array::from_fn(|what| now[site][way][what] - before[site][way][what])
            };
            [[grown(0, 0), grown(0, 1)], [grown(1, 0), grown(1, 1)]] == expected
        });
    }
}

/// A leaf node that is in no cluster is called its own name where it says who it is, not where it
/// shows its configuration.
#[test]
fn a_leaf_node_without_a_cluster_says_its_name_for_that() {
    let hub = Site::hub(Ours, "HUB", "", "").expect("ours is there");
    for kind in [Ours, Reference] {
        let Some(edge) = Site::leaf(kind, "EDGE", &hub, "", ACCOUNTS) else { continue };
        hub.linked(1);
        let greeting = Raw::over(TcpStream::connect(edge.server.address()).expect("it listens")).line();
        assert!(greeting.contains("\"cluster\":\"EDGE\""), "{kind:?}: {greeting}");
        let mut sys = operator(&edge, &[]);
        let filter = "{\"cluster\":\"EDGE\"}";
        sys.send(&format!("PUB $SYS.REQ.SERVER.PING.VARZ inbox {}\r\n{filter}\r\n", filter.len()));
        let answer = document(&mut sys);
        assert_eq!(answer["server"]["cluster"], "EDGE", "{kind:?}: {answer}");
        assert_eq!(answer["data"]["cluster"].get("name"), None, "{kind:?}: {answer}");
        // The protocol of leaf nodes is as it was.
        assert_eq!(hub.links()[0]["name"], "EDGE", "{kind:?}");
        drop(edge);
        hub.linked(0);
    }
    let greeting = Raw::over(TcpStream::connect(hub.server.address()).expect("it listens")).line();
    assert!(!greeting.contains("\"cluster\""), "{greeting}");
}
