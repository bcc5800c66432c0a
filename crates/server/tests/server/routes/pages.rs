//! Pages on which an operator sees a cluster.

use super::{Member, Ours, Raw, Reference, ServerKind, cluster, settle};
use crate::eventually;
use serde_json::Value;

/// Names of the members of an object.
fn names(value: &Value) -> Vec<&String> {
    value.as_object().expect("an object").keys().collect()
}

#[test]
fn links_are_listed() {
    let Some(members) = cluster(&[Ours, Reference], "") else { return };
    let [ours, reference] = [0, 1].map(|at| members[at].server.page("/routez"));
    assert_eq!(names(&ours), names(&reference));
    let row = |page: &Value, has_account: bool| {
        let routes = page["routes"].as_array().expect("routes").clone();
        routes.into_iter().find(|route| route.get("account").is_some() == has_account).expect("such a route")
    };
    for has_account in [false, true] {
        let (own, other) = (row(&ours, has_account), row(&reference, has_account));
        let timed = |value: &Value| {
            let mut names: Vec<_> = names(value).into_iter().filter(|name| *name != "rtt").cloned().collect();
            names.sort();
            names
        };
        assert_eq!(timed(&own), timed(&other));
        assert_eq!((&own["did_solicit"], &other["did_solicit"]), (&Value::Bool(false), &Value::Bool(true)));
        assert_eq!(own["compression"], "off");
    }
    let [ours, reference] = [0, 1].map(|at| members[at].server.page("/varz"));
    for field in ["routes", "remotes"] {
        assert_eq!(ours[field], reference[field], "{field}");
    }
    let fields = |page: &Value| {
        let mut fields: Vec<String> = names(&page["cluster"]).into_iter().cloned().collect();
        fields.retain(|field| field != "urls");
        fields.sort();
        fields
    };
    assert_eq!(fields(&ours), fields(&reference));
    for field in ["name", "addr", "auth_timeout", "tls_timeout", "pool_size"] {
        assert_eq!(ours["cluster"][field], reference["cluster"][field], "{field}");
    }
}

const SYSTEM: &str = "accounts { $SYS { users [{user: s, password: s}] } }";

/// A request of an operator reaches all servers, whichever it is sent to.
#[test]
fn all_servers_answer_an_operator() {
    for kinds in [&[Ours, Ours, Ours][..], &[Ours, Reference, Ours], &[Reference, Ours]] {
        let Some(members) = cluster(kinds, SYSTEM) else { continue };
        settle(&members);
        for member in &members {
            assert_eq!(who_answers(member, members.len()), expected(kinds));
        }
    }
}

fn expected(kinds: &[ServerKind]) -> Vec<String> {
    (0..kinds.len()).map(|at| format!("S{at}")).collect()
}

fn who_answers(member: &Member, count: usize) -> Vec<String> {
    let mut raw = Raw::open(member.server.address());
    raw.send("CONNECT {\"verbose\":false,\"headers\":true,\"user\":\"s\",\"pass\":\"s\"}\r\n");
    raw.barrier();
    let mut found = Vec::new();
    let mut turn = 0;
    eventually("all servers answer", || {
        turn += 1;
        raw.send(&format!("SUB inbox.{turn} {turn}\r\nPUB $SYS.REQ.SERVER.PING inbox.{turn} 0\r\n\r\n"));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(2);
        let mut names = Vec::new();
        while names.len() < count && std::time::Instant::now() < deadline {
            for message in raw.barrier() {
                if message.subject == format!("inbox.{turn}") {
                    let answer: Value = serde_json::from_str(message.text()).expect("JSON");
                    names.push(answer["server"]["name"].as_str().expect("a name").to_owned());
                }
            }
        }
        names.sort();
        found = names;
        found.len() == count
    });
    found
}
