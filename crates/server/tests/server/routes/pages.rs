//! Pages on which an operator sees a cluster.

use super::{
    MIXES, Member, Ours, Raw, Reference, ServerKind, cluster, config, free_port, settle, wait_for_interest,
};
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

/// Interest of the other side, by subject and in detail, as the reference shows it.
#[test]
fn interest_of_links_is_listed() {
    for kinds in MIXES {
        let Some(members) = cluster(&kinds, "") else { continue };
        let (mut a, mut b) = (members[0].client(), members[1].client());
        b.send("SUB one 1\r\nSUB two q 2\r\n");
        wait_for_interest(&mut a, &mut b);
        let of_all = |name: &str, path: &str| {
            let page = members[0].server.page(path);
            let routes = page["routes"].as_array().cloned().unwrap_or_default();
            let lists = routes.into_iter().filter_map(|route| route[name].as_array().cloned());
            lists.flatten().collect::<Vec<Value>>()
        };
        let subjects = of_all("subscriptions_list", "/routez?subs=1");
        assert!(subjects.iter().any(|subject| subject == "one"), "{kinds:?}: {subjects:?}");
        let details = of_all("subscriptions_list_detail", "/routez?subs=detail");
        let two = details.iter().find(|detail| detail["subject"] == "two").expect("such a detail");
        assert_eq!(
            (&two["qgroup"], &two["sid"]),
            (&Value::from("q"), &Value::from("R $G two q")),
            "{kinds:?}"
        );
        assert_eq!(names(two), ["subject", "qgroup", "sid", "msgs", "cid"], "{kinds:?}");
        assert!(of_all("subscriptions_list", "/routez").is_empty());
    }
}

/// The protocol log shows what the other server says, and what it is told.
#[test]
fn links_are_in_the_protocol_log() {
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let start = |at: usize, routes: &[u16]| {
            let text = config(&format!("S{at}"), ports[at], routes, "", "");
            let setup = crate::process::Setup::default().program(&kinds[at].program()?).config(&text);
            Some(Member { server: setup.flags(&["-DV"]).start(), port: ports[at] })
        };
        let (Some(a), Some(b)) = (start(0, &[]), start(1, &[ports[0]])) else { continue };
        let members = [a, b];
        settle(&members);
        let (mut a, mut b) = (members[0].client(), members[1].client());
        b.subscribe("logged", 1);
        wait_for_interest(&mut a, &mut b);
        a.send("PUB logged re 2\r\nhi\r\nHPUB logged 12 14\r\nNATS/1.0\r\n\r\nhi\r\n");
        super::take(&mut b, 2);
        b.send("UNSUB 1\r\nSUB grouped q 2\r\n");
        wait_for_interest(&mut a, &mut b);
        a.send("PUB grouped re 2\r\nhi\r\nPUB grouped 2\r\nhi\r\n");
        super::take(&mut b, 2);
        b.send("UNSUB 2\r\n");
        let of_client = "->> [MSG logged 1 re 2]";
        eventually(of_client, || {
            let log = members[1].server.log();
            log.lines().any(|line| line.contains(of_client) && line.contains(" - cid:"))
        });
        for (at, text) in [
            (1, "->> [RS+ $G logged]"),
            (0, "->> [RMSG $G logged re 2]"),
            (0, "->> MSG_PAYLOAD: [\"hi\"]"),
            (0, "->> [HMSG $G logged 12 14]"),
            (0, "->> MSG_PAYLOAD: [\"NATS/1.0\\r\\n\\r\\nhi\"]"),
            (1, "->> [RS- $G logged]"),
            (1, "->> [RS+ $G grouped q 1]"),
            (0, "->> [RMSG $G grouped + re q 2]"),
            (0, "->> [RMSG $G grouped | q 2]"),
            (1, "->> [RS- $G grouped q]"),
            (0, "<<- [CONNECT {\"echo\":true,"),
            (0, "<<- [RS+ $G logged]"),
            (1, "<<- [RMSG $G logged re 2]"),
            (1, "<<- MSG_PAYLOAD: [\"hi\"]"),
            (0, "Router Ping Timer"),
            (0, "->> [PING]"),
            (1, "<<- [PING]"),
            (1, "->> [PONG]"),
        ] {
            eventually(text, || {
                let log = members[at].server.log();
                log.lines().any(|line| line.contains(text) && line.contains(" - rid:"))
            });
        }
        assert!(!members[0].server.log().contains("<<- [INFO"), "{kinds:?}");
    }
}

/// The ports file tells of the port for routes.
#[test]
fn the_ports_file_has_the_port_for_routes() {
    for kind in [Ours, Reference] {
        let folder = tempfile::tempdir().expect("a folder");
        let more = format!("ports_file_dir: \"{}\"", folder.path().display());
        let port = free_port();
        let Some(member) = Member::start(kind, "S0", port, &[], &more) else { continue };
        eventually("the ports file", || {
            let files = std::fs::read_dir(folder.path()).expect("a folder");
            let text =
                files.filter_map(Result::ok).find_map(|file| std::fs::read_to_string(file.path()).ok());
            let ports = text.and_then(|text| serde_json::from_str::<Value>(&text).ok());
            ports.is_some_and(|ports| ports["cluster"][0] == format!("nats://127.0.0.1:{port}"))
        });
        drop(member);
    }
}

/// Clients of WebSocket, and operators, are told the addresses of all servers for such clients.
#[test]
fn clients_of_websocket_are_told_of_all_servers() {
    for kinds in MIXES {
        let more = "websocket { listen: \"127.0.0.1:-1\", no_tls: true }";
        let Some(members) = cluster(&kinds, more) else { continue };
        let mut expected: Vec<String> =
            members.iter().map(|member| crate::websocket::address(&member.server).to_string()).collect();
        expected.sort();
        for member in &members {
            eventually("addresses of both", || {
                let address = crate::websocket::address(&member.server);
                let info = crate::websocket::peer::Peer::open(address, "").info();
                let urls = info["connect_urls"].as_array().cloned().unwrap_or_default();
                let mut urls: Vec<_> = urls.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                urls.sort();
                urls == expected
            });
            let page = member.server.page("/varz");
            let mut shown: Vec<_> = page["ws_connect_urls"].as_array().cloned().unwrap_or_default();
            shown.sort_by_key(ToString::to_string);
            assert_eq!(shown, expected, "{kinds:?}");
        }
    }
}

/// Subscriptions of an account are those of clients, of the server itself and of other servers, on
/// all pages alike.
#[test]
fn subscriptions_of_servers_are_counted() {
    let more =
        "accounts {\n $SYS { users [{user: s, password: s}] }\n A { users [{user: a, password: a}] }\n}";
    let Some(members) = cluster(&[Ours, Reference], more) else { return };
    let count = |member: &Member| {
        let page = member.server.page("/accountz?acc=A");
        page["account_detail"]["subscriptions"].as_u64().expect("a number")
    };
    let before = count(&members[0]);
    assert_eq!(before, 4, "the services of the system account that every account imports");
    assert_eq!(count(&members[1]), before);
    let mut client = super::accounts::login(&members[0], "a");
    client.send("SUB one 1\r\nSUB two q 2\r\n");
    client.barrier();
    for member in &members {
        eventually("the client's are counted", || count(member) == before + 2);
        let page = member.server.page("/subsz?acc=A&subs=1");
        assert_eq!(page["num_subscriptions"], before + 2, "{page}");
        let listed = page["subscriptions_list"].as_array().expect("subscriptions");
        assert!(listed.iter().any(|sub| sub["subject"] == "$SYS.REQ.USER.INFO"), "{page}");
    }
    let [ours, reference] = [0, 1].map(|at| members[at].server.page("/varz")["subscriptions"].as_u64());
    assert!(ours.expect("a number") > 40 && reference.expect("a number") > 40, "{ours:?} {reference:?}");
}
