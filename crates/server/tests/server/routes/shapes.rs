//! Pages of both servers of one cluster, path by path: what an operator sees of links, and beside
//! them, has the same shape. And what waits for a link that is not read.

use super::hostile::{CONNECT, INFO, peer};
use super::{Member, Ours, Reference, config, free_port, wait_for_interest};
use crate::eventually;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

/// Pages with something of links on them, and those on which there could be.
const PAGES: [&str; 15] = [
    "/varz",
    "/routez",
    "/routez?subs=1",
    "/routez?subs=detail",
    "/connz?subs=detail&auth=1",
    "/connz?state=closed",
    "/subsz?subs=1&acc=A",
    "/accountz",
    "/accountz?acc=A",
    "/accstatz?unused=1",
    "/gatewayz",
    "/leafz?subs=1",
    "/jsz",
    "/healthz",
    "/ipqueuesz",
];

/// Adds the path and the kind of each value that is neither a list nor an object.
fn collect(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect(value, &format!("{path}/{name}"), into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, &format!("{path}[]"), into)),
        Value::Null => drop(into.insert(format!("{path}: null"))),
        Value::Bool(_) => drop(into.insert(format!("{path}: a boolean"))),
        Value::Number(_) => drop(into.insert(format!("{path}: a number"))),
        Value::String(_) => drop(into.insert(format!("{path}: a string"))),
    }
}

fn shape(member: &Member, page: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    collect(&member.server.page(page), "", &mut all);
    all
}

const ACCOUNTS: &str = "accounts { $SYS { users [{user: s, password: s}] }\n\
    A { users [{user: a, password: a}], mappings { from: to } } }";

#[test]
fn pages_of_servers_in_a_cluster_have_one_shape() {
    let plain = "";
    let much = "compression: s2_fast\naccounts: [A]\nadvertise: \"localhost:7777\"\n\
        authorization { user: u, password: p }\npermissions { import: [\"a.>\", \"probe.>\"], export: { allow: \
        [\"a.>\", \"probe.>\"], deny: \"a.no\" } }";
    for inner in [plain, much] {
        let ports = [free_port(), free_port()];
        let login = if inner == plain { "" } else { "u:p@" };
        let start = |kind: super::ServerKind, at: usize| {
            let routes = format!("routes: [\"nats://{login}127.0.0.1:{}\"]\n{inner}", ports[1 - at]);
            let text = config(&format!("S{at}"), ports[at], &[], &routes, ACCOUNTS);
            let setup = crate::process::Setup::default().program(&kind.program()?).config(&text);
            Some(Member { server: setup.start(), port: ports[at] })
        };
        let (Some(ours), Some(reference)) = (start(Ours, 0), start(Reference, 1)) else { return };
        let members = [ours, reference];
        let count = if inner == plain { 4 } else { 5 };
        members.iter().for_each(|member| eventually("all links", || member.links() == count));
        let mut clients = [0, 1].map(|at| super::accounts::login(&members[at], "a"));
        let [a, b] = &mut clients;
        for client in [&mut *a, &mut *b] {
            client.send("SUB a.x 1\r\nSUB a.y q 2\r\nUNSUB 2 9\r\n");
        }
        wait_for_interest(a, b);
        wait_for_interest(b, a);
        drop(members.each_ref().map(|member| super::accounts::login(member, "a")));
        for page in PAGES {
            let mut differ = Vec::new();
            // What has just happened may not be counted everywhere yet.
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while std::time::Instant::now() < deadline {
                let [ours, reference] = [0, 1].map(|at| shape(&members[at], page));
                differ = ours.symmetric_difference(&reference).cloned().collect();
                if differ.is_empty() {
                    break;
                }
            }
            assert!(differ.is_empty(), "{page} of one only: {differ:#?}");
        }
        // The two count as many subscriptions, their own among them.
        eventually("as many subscriptions", || {
            let [ours, reference] = [0, 1].map(|at| members[at].server.page("/varz"));
            ours["subscriptions"] == reference["subscriptions"]
        });
    }
}

/// A peer that does not read is seen by what waits for it, and by nothing when it has read.
#[test]
fn what_waits_for_a_link_is_shown() {
    const SIZE: usize = 100_000;
    for kind in [Ours, Reference] {
        let more = "write_deadline: \"1m\"";
        let Some(member) = Member::start(kind, "S0", free_port(), &[], more) else { continue };
        let mut stream = peer(&member);
        let info = INFO.replace("\"route_pool_size\":3,", "");
        stream.write_all(format!("{CONNECT}{info}RS+ $G flood\r\n").as_bytes()).expect("it reads");
        let row = |field: &str| member.server.page("/routez")["routes"][0][field].as_u64().unwrap_or(0);
        eventually("interest is there", || row("subscriptions") == 1);
        assert_eq!(row("pending_size"), 0, "{kind:?}");
        let mut publisher = member.client();
        let mut count = 0;
        eventually("something waits", || {
            publisher.publish("flood", &"~".repeat(SIZE));
            publisher.barrier();
            count += 1;
            row("pending_size") > 0
        });
        let mut buffer = vec![0; 1 << 20];
        let mut payload = 0;
        while payload < count * SIZE {
            let n = stream.read(&mut buffer).expect("it is not cut off");
            assert!(n > 0, "{kind:?}: {payload} of {} bytes have come", count * SIZE);
            payload += buffer[..n].iter().filter(|byte| **byte == b'~').count();
        }
        eventually("nothing waits", || row("pending_size") == 0);
        assert_eq!(member.links(), 1);
    }
}
