//! Events and requests of the system account that cross gateways.

use super::{Site, joined, login};
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{MIXES, ServerKind, free_port};
use serde_json::{Value, json};

const ACCOUNTS: &str = "system_account: \"$SYS\"\naccounts { $SYS { users: [{user: s, password: s}] }\n X { users: [{user: x, password: x}] } }";

fn start(kinds: [ServerKind; 2], more: [&str; 2]) -> Option<[Site; 2]> {
    let ports = [free_port(), free_port()];
    let more = more.map(|more| format!("{ACCOUNTS}\n{more}"));
    let a = Site::start(kinds[0], ("A1", "A", ports[0]), &[("B", ports[1])], "", &more[0])?;
    let b = Site::start(kinds[1], ("B1", "B", ports[1]), &[("A", ports[0])], "", &more[1])?;
    joined(&mut login("s", &a), &mut login("s", &b));
    Some([a, b])
}

fn json_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("JSON")
}

/// An operator who listens to this, with a queue group or without, where the other cluster knows.
fn listening(site: &Site, other: &Site, wish: &str) -> Raw {
    let mut raw = login("s", site);
    raw.send(&format!("SUB {wish} 1\r\nSUB inbox 2\r\n"));
    crate::routes::wait_for_interest(&mut login("s", other), &mut raw);
    raw
}

fn event(raw: &mut Raw) -> (String, Value) {
    loop {
        let message = raw.message();
        if message.sid == "1" {
            return (message.subject.clone(), json_of(&message.body));
        }
    }
}

/// Clients of another cluster are seen to come and go, by one operator or by one of a group.
#[test]
fn clients_of_another_cluster_are_seen_to_come_and_go() {
    for kinds in MIXES {
        let Some([a, b]) = start(kinds, [""; 2]) else { continue };
        for group in ["", " group"] {
            let mut raw = listening(&a, &b, &format!("$SYS.ACCOUNT.X.*{group}"));
            let client = login("x", &b);
            let (subject, connected) = event(&mut raw);
            assert_eq!(subject, "$SYS.ACCOUNT.X.CONNECT");
            let server = &connected["server"];
            assert_eq!((&server["name"], &server["cluster"]), (&json!("B1"), &json!("B")), "{kinds:?}");
            drop(client);
            let (subject, gone) = event(&mut raw);
            assert_eq!(subject, "$SYS.ACCOUNT.X.DISCONNECT");
            assert_eq!(gone["client"]["id"], connected["client"]["id"]);
        }
    }
}

#[test]
fn a_server_of_another_cluster_is_seen_to_go() {
    for kinds in MIXES {
        let Some([a, b]) = start(kinds, [""; 2]) else { continue };
        let mut raw = listening(&a, &b, "$SYS.SERVER.*.SHUTDOWN");
        b.server.signal(rustix::process::Signal::TERM);
        assert_eq!(event(&mut raw).1["name"], "B1", "{kinds:?}");
    }
}

/// A leaf node that joins an account is told of to other clusters; servers without a gateway say
/// nothing of it.
#[test]
fn a_leaf_node_that_joins_is_told_of() {
    let mut seen: Vec<Value> = Vec::new();
    for kinds in MIXES {
        let port = free_port();
        let leafs = format!("leafnodes {{ listen: \"127.0.0.1:{port}\" }}");
        let Some([a, b]) = start(kinds, ["", &leafs]) else { continue };
        let mut raw = listening(&a, &b, "$SYS.ACCOUNT.*.LEAFNODE.CONNECT");
        let mut leaf = Raw::open(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
        leaf.send("CONNECT {\"version\":\"2.15.2\",\"user\":\"x\",\"pass\":\"x\",\"name\":\"E\",\"cluster\":\"E\"}\r\nPING\r\n");
        let (subject, mut told) = event(&mut raw);
        assert_eq!(subject, "$SYS.ACCOUNT.X.LEAFNODE.CONNECT");
        assert_eq!(told["server"]["name"], "B1");
        told["server"] = Value::Null;
        seen.push(told);
    }
    assert!(seen.iter().all(|told| *told == json!({"server": null, "acc": "X"})), "{seen:?}");
}

fn ask(raw: &mut Raw, subject: &str, body: &str) -> Value {
    raw.barrier();
    raw.send(&format!("PUB {subject} inbox {}\r\n{body}\r\n", body.len()));
    loop {
        let message = raw.message();
        if message.sid == "2" {
            return json_of(&message.body);
        }
    }
}

/// The options of GATEWAYZ: what is asked for is shown, and nothing else.
#[test]
fn gateways_are_shown_as_they_are_asked_for() {
    for kinds in MIXES {
        let Some([a, b]) = start(kinds, [""; 2]) else { continue };
        let mut raw = listening(&a, &b, "nothing");
        let mut wanting = login("x", &a);
        wanting.send("SUB plain 1\r\nSUB work group 2\r\n");
        wanting.barrier();
        let mut page = |more: &str| {
            let body = format!("{{\"server_name\":\"B1\"{more}}}");
            ask(&mut raw, "$SYS.REQ.SERVER.PING.GATEWAYZ", &body)["data"].take()
        };
        let accounts = |page: &Value, way: &str| match way {
            "in" => page["inbound_gateways"]["A"][0]["accounts"].clone(),
            _ => page["outbound_gateways"]["A"]["accounts"].clone(),
        };
        eventually("the interest is known", || {
            let page = page(r#","account_name":"X""#);
            accounts(&page, "out")[0]["num_subs"] == 2 && !accounts(&page, "in")[0].is_null()
        });
        let plain = page("");
        assert_eq!([accounts(&plain, "out"), accounts(&plain, "in")], [Value::Null, Value::Null]);
        assert_eq!(page(r#","name":"A""#)["outbound_gateways"]["A"]["configured"], true);
        let none = page(r#","name":"Z""#);
        assert_eq!((&none["outbound_gateways"], &none["inbound_gateways"]), (&Value::Null, &json!({})));
        let all = page(r#","accounts":true"#);
        let mut names: Vec<_> =
            accounts(&all, "out").as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
        names.sort_by_key(Value::to_string);
        assert_eq!(names, ["$G", "$SYS", "X"].map(Value::from), "{kinds:?}");
        let subjects = page(r#","account_name":"X","subscriptions":true"#);
        let mut listed = accounts(&subjects, "out")[0]["subscriptions_list"].as_array().unwrap().clone();
        listed.sort_by_key(Value::to_string);
        assert_eq!(listed, ["plain", "work"].map(Value::from), "{kinds:?}");
        assert_eq!(accounts(&subjects, "in")[0]["subscriptions_list"], Value::Null);
        let details = page(r#","account_name":"X","subscriptions_detail":true"#);
        let listed = accounts(&details, "out")[0]["subscriptions_list_detail"].as_array().unwrap().clone();
        assert!(listed.iter().any(|one| one["subject"] == "work" && one["qgroup"] == "group"), "{listed:?}");
        let one = &accounts(&details, "out")[0];
        assert_eq!((&one["num_subs"], &one["num_queue_subs"]), (&json!(2), &json!(1)), "{kinds:?}");
        assert_eq!(
            (&one["interest_mode"], &one["interest_only_threshold"]),
            (&json!("Interest-Only"), &json!(1000))
        );
    }
}
