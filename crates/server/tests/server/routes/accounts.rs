//! Accounts over servers: limits, imports, latencies, traces.

use super::{Member, Raw, ServerKind, cluster, pairs, settle, wait_for_interest};
use super::{Ours, Reference};
use crate::eventually;
use crate::process::Server;
use crate::raw::Message;
use serde_json::{Value, json};

/// Logs in as a user whose password is its name.
pub(super) fn login(member: &Member, user: &str) -> Raw {
    let (raw, answer) = try_login(&member.server, user);
    assert_eq!(answer, "PONG", "{user}");
    raw
}

/// Logs in, and gives what the server says to it.
fn try_login(server: &Server, user: &str) -> (Raw, String) {
    let mut raw = Raw::open(server.address());
    let login = format!("\"user\":\"{user}\",\"pass\":\"{user}\",\"name\":\"{user}\"");
    raw.send(&format!(
        "CONNECT {{\"verbose\":false,\"headers\":true,\"no_responders\":true,{login}}}\r\nPING\r\n"
    ));
    let answer = raw.line();
    (raw, answer)
}

/// The next message's text as JSON.
pub(super) fn json_of(message: &Message) -> Value {
    let text = message.text();
    let body = text.rsplit_once("\r\n\r\n").map_or(text, |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Accounts with one that may have three clients.
pub(crate) const LIMITED: &str = "accounts { $SYS { users [{user: s, password: s}] }\n\
    A { users [{user: a, password: a}], limits { max_conn: 3 } } }";
const FULL: &str = "-ERR 'maximum account active connections exceeded'";

/// Whether another client of the account is refused there.
pub(crate) fn is_full(server: &Server) -> bool {
    try_login(server, "a").1 == FULL
}

/// Waits until another client of the account is let in.
pub(crate) fn wait_for_room(server: &Server) {
    eventually("there is room", || try_login(server, "a").1 == "PONG");
}

/// Connections of account A, and the clients that hold them.
#[derive(Default)]
pub(crate) struct Held(Vec<(usize, Raw)>);

impl Held {
    /// Has two clients on the first server and one on the second, and no more: servers that have
    /// let in too many together both end some.
    fn fill(&mut self, servers: [&Server; 2]) -> bool {
        [2, 1].into_iter().zip(servers).enumerate().all(|(at, (wanted, server))| {
            let page = server.page("/connz?acc=A");
            let now = page["num_connections"].as_u64().expect("a number");
            let (raw, answer) = if now < wanted { try_login(server, "a") } else { return now == wanted };
            if answer == "PONG" {
                self.0.push((at, raw));
            }
            false
        })
    }

    /// Waits until these servers have as many as may be, and another is refused at one of them.
    pub(crate) fn wait_until_full(&mut self, servers: [&Server; 2], at: usize) {
        eventually("the account is full", || self.fill(servers) && is_full(servers[at]));
    }

    pub(crate) fn leave(&mut self, server: usize) {
        self.0.retain(|(at, _)| *at != server);
    }
}

fn both(members: &[Member]) -> [&Server; 2] {
    [&members[0].server, &members[1].server]
}

#[test]
fn a_limit_of_connections_holds_for_all_servers() {
    for mut members in pairs(LIMITED) {
        let mut held = Held::default();
        for at in [0, 1] {
            held.wait_until_full(both(&members), at);
        }
        // One leaves, and another may come, wherever.
        held.leave(1);
        wait_for_room(&members[0].server);
        // A server that has gone counts no longer.
        held.wait_until_full(both(&members), 0);
        members[1].server.signal(rustix::process::Signal::TERM);
        members[1].server.wait();
        wait_for_room(&members[0].server);
    }
}

/// Clients that come to all servers at one moment, before these have heard of each other: as many
/// stay as there is room for.
#[test]
fn clients_that_come_everywhere_at_once_fill_the_account() {
    let members = cluster(&[Ours, Ours, Ours], LIMITED).expect("ours");
    for _ in 0..3 {
        let mut clients: Vec<Raw> = (0..9).map(|at| Raw::open(members[at % 3].server.address())).collect();
        clients.iter_mut().for_each(|raw| raw.send("CONNECT {\"user\":\"a\",\"pass\":\"a\"}\r\nPING\r\n"));
        clients.iter_mut().for_each(|raw| drop(raw.line()));
        let now = || members.iter().map(connections_of_a).sum::<u64>();
        let is_full = || members.iter().all(|member| is_full(&member.server));
        eventually("the account is full", || now() == 3 && is_full() && now() == 3);
        drop(clients);
        eventually("all have gone", || now() == 0);
        members.iter().for_each(|member| wait_for_room(&member.server));
    }
}

fn connections_of_a(member: &Member) -> u64 {
    member.server.page("/connz?acc=A")["num_connections"].as_u64().expect("a number")
}

/// Other servers hear of a limited account before its traffic is summed up.
#[test]
fn the_number_of_connections_comes_before_their_traffic() {
    let members = cluster(&[Ours, Ours], LIMITED).expect("ours");
    let mut system = login(&members[0], "s");
    system.send("SUB $SYS.SERVER.ACCOUNT.A.CONNS 1\r\nSUB $SYS.ACCOUNT.A.SERVER.CONNS 2\r\n");
    system.barrier();
    let _client = login(&members[0], "a");
    let told = [(); 3].map(|()| system.message());
    assert_eq!(told.each_ref().map(|message| message.sid.as_str()), ["1", "1", "2"]);
    let told = told.each_ref().map(json_of);
    let keys = told.each_ref().map(|event| event.as_object().expect("an object").keys().collect::<Vec<_>>());
    assert!(keys[0] == keys[1] && keys[1] == keys[2], "{keys:?}");
    for event in &told {
        assert_eq!((&event["acc"], &event["conns"]), (&json!("A"), &json!(1)), "{event}");
    }
}

/// A server that is killed says nothing.
#[test]
fn a_server_that_was_killed_counts_no_longer() {
    let Some(mut members) = cluster(&[Ours, Reference], LIMITED) else { return };
    let mut held = Held::default();
    held.wait_until_full(both(&members), 0);
    members[1].server.signal(rustix::process::Signal::KILL);
    members[1].server.wait();
    wait_for_room(&members[0].server);
}

/// Clients that each server has let in before it knew of the other are too many together.
#[test]
fn a_server_that_joins_learns_what_there_is() {
    for kinds in [[Ours, Ours], [Ours, Reference], [Reference, Ours]] {
        let ports = [super::free_port(), super::free_port()];
        let Some(first) = Member::start(kinds[0], "S0", ports[0], &[], LIMITED) else { continue };
        let _clients: Vec<_> = (0..3).map(|_| login(&first, "a")).collect();
        let Some(second) = Member::start(kinds[1], "S1", ports[1], &ports[..1], LIMITED) else { continue };
        let members = [first, second];
        settle(&members);
        if kinds[1] == Ours {
            // The reference learns it half a minute later.
            eventually("the account is full", || {
                // What came too early was let in, and the first server has ended one for it.
                let page = members[0].server.page("/connz?acc=A");
                page["num_connections"] != 3 || is_full(&members[1].server)
            });
        }
    }
}

const SERVICES: &str = "accounts { $SYS { users [{user: s, password: s}]\n \
    exports [{service: \"$SYS.DEBUG.SUBSCRIBERS\"}] }\n\
    A { users [{user: a, password: a}]\n exports [{service: \"svc.>\", latency: {sampling: 100%, subject: lat}}, \
    {stream: \"st.>\"}, {service: \"tr.>\", allow_trace: true}] }\n\
    B { users [{user: b, password: b}]\n imports [{service: {account: A, subject: svc.x}}, \
    {stream: {account: A, subject: \"st.>\"}, allow_trace: true}, \
    {service: {account: A, subject: tr.x}}, \
    {service: {account: \"$SYS\", subject: \"$SYS.DEBUG.SUBSCRIBERS\"}}] } }";

#[test]
fn imports_reach_over_servers() {
    for members in pairs(SERVICES) {
        for [here, there] in [[0, 1], [1, 0]] {
            let (mut service, mut requester) = (login(&members[there], "a"), login(&members[here], "b"));
            let mut probe = login(&members[here], "a");
            service.send("SUB svc.x q 1\r\n");
            requester.send("SUB inbox 1\r\nSUB st.> 2\r\n");
            requester.barrier();
            wait_for_interest(&mut probe, &mut service);
            for _ in 0..10 {
                requester.send("PUB svc.x inbox 1\r\n?\r\n");
                let request = service.message();
                service.publish(&request.reply.expect("requests have a reply"), "!");
                assert_eq!(requester.message().text(), "!");
            }
            // The exporter's stream, from the server of the service.
            let mut turn = 0;
            eventually("the stream arrives", || {
                turn += 1;
                service.publish("st.1", &turn.to_string());
                service.barrier();
                requester.barrier().iter().any(|message| message.subject == "st.1")
            });
            service.send("UNSUB 1\r\n");
            service.barrier();
            eventually("nobody responds", || {
                requester.send("PUB svc.x inbox 1\r\n?\r\n");
                requester.barrier().iter().any(|message| message.text().contains(" 503"))
            });
        }
    }
}

/// The reply to an imported service comes to the server that imports, and goes on from there, from
/// link to link, to a third one at which it is waited for.
#[test]
fn a_reply_of_an_imported_service_goes_on_to_a_third_server() {
    for kinds in
        [[Ours, Ours, Ours], [Reference, Ours, Ours], [Ours, Reference, Ours], [Ours, Ours, Reference]]
    {
        let Some(members) = cluster(&kinds, SERVICES) else { continue };
        let [mut requester, mut probe] = ["b", "a"].map(|user| login(&members[0], user));
        let (mut service, mut waiting) = (login(&members[1], "a"), login(&members[2], "b"));
        service.subscribe("svc.x", 1);
        waiting.subscribe("inbox", 1);
        wait_for_interest(&mut probe, &mut service);
        wait_for_interest(&mut requester, &mut waiting);
        for turn in 0..10 {
            requester.send("PUB svc.x inbox 1\r\n?\r\n");
            let reply = service.message().reply.expect("requests have a reply");
            service.publish(&reply, &turn.to_string());
            let answer = waiting.message();
            assert_eq!((answer.subject.as_str(), answer.text()), ("inbox", &*turn.to_string()), "{kinds:?}");
        }
        assert!(waiting.barrier().is_empty() && requester.barrier().is_empty(), "{kinds:?}");
    }
}

#[test]
fn a_latency_is_measured_on_both_servers() {
    for members in pairs(SERVICES) {
        for [here, there] in [[0, 1], [1, 0]] {
            let (mut service, mut requester) = (login(&members[there], "a"), login(&members[here], "b"));
            let mut listener = login(&members[there], "a");
            let mut probe = login(&members[here], "a");
            service.subscribe("svc.x", 1);
            listener.subscribe("lat", 2);
            requester.subscribe("inbox", 1);
            requester.barrier();
            wait_for_interest(&mut probe, &mut service);
            wait_for_interest(&mut probe, &mut listener);
            requester.send("PUB svc.x inbox 1\r\n?\r\n");
            let reply = service.message().reply.expect("requests have a reply");
            assert!(reply.ends_with(".T"), "{reply}");
            service.publish(&reply, "!");
            assert_eq!(requester.message().text(), "!");
            let report = json_of(&listener.message());
            let expected = json!({
                "type": "io.nats.server.metric.v1.service_latency", "status": 200, "acc": "B",
                "responder": "a", "server": format!("S{there}"),
            });
            let seen = json!({
                "type": report["type"], "status": report["status"], "acc": report["requestor"]["acc"],
                "responder": report["responder"]["user"], "server": report["responder"]["server"],
            });
            assert_eq!(seen, expected, "{report}");
            let time = |field: &str| report[field].as_i64().expect("nanoseconds");
            assert!(time("total") >= time("service") + time("system"), "{report}");
            assert!(listener.barrier().is_empty(), "one report");
        }
    }
}

/// A trace without what differs each time: the server's name, hops, and of each event what it is.
fn trace_of(message: &Message) -> Value {
    let trace = json_of(message);
    let shown = ["type", "kind", "name", "acc", "subj", "hop", "sub", "queue", "to", "from", "error"];
    let mut events = trace["events"].clone();
    for event in events.as_array_mut().expect("events") {
        event.as_object_mut().expect("an object").retain(|name, _| shown.contains(&name.as_str()));
    }
    json!({
        "server": trace["server"]["name"], "hops": trace["hops"], "size": trace["request"]["msgsize"],
        "hop": trace["request"]["header"]["Nats-Trace-Hop"], "events": events,
    })
}

/// Traces of `count` servers, that of the first one first.
fn traces(client: &mut Raw, count: usize) -> Vec<Value> {
    let mut traces: Vec<_> = (0..count).map(|_| trace_of(&client.message())).collect();
    traces.sort_by_key(|trace| trace["hop"].to_string());
    traces.reverse();
    traces.sort_by_key(|trace| !trace["hop"].is_null());
    traces
}

fn traced(subject: &str, reply: &str, more: &str) -> String {
    let headers = format!("NATS/1.0\r\nNats-Trace-Dest: trace\r\n{more}\r\n");
    let len = headers.len();
    format!("HPUB {subject} {reply} {len} {}\r\n{headers}hello\r\n", len + 5)
}

#[test]
fn a_trace_goes_over_a_hop() {
    for members in pairs(SERVICES) {
        for [here, there] in [[0, 1], [1, 0]] {
            let (mut publisher, mut listener) = (login(&members[here], "a"), login(&members[there], "a"));
            let (mut importer, mut local) = (login(&members[there], "b"), login(&members[here], "a"));
            publisher.subscribe("trace", 9);
            listener.send("SUB t.a 1\r\nSUB t.* q 2\r\n");
            local.send("SUB t.a 1\r\n");
            importer.send("SUB st.x 3\r\n");
            importer.barrier();
            local.barrier();
            wait_for_interest(&mut publisher, &mut listener);
            let (one, two) = (format!("S{here}"), format!("S{there}"));
            let expected = |size: usize| {
                json!([
                    {"server": one, "hops": 1, "size": size, "hop": null, "events": [
                        {"type": "in", "kind": 0, "name": "a", "acc": "A", "subj": "t.a"},
                        {"type": "eg", "kind": 0, "name": "a", "sub": "t.a"},
                        {"type": "eg", "kind": 1, "name": two, "hop": "1"}]},
                    {"server": two, "hops": null, "size": size + 19, "hop": ["1"], "events": [
                        {"type": "in", "kind": 1, "name": one, "acc": "A", "subj": "t.a"},
                        {"type": "eg", "kind": 0, "name": "a", "sub": "t.a"},
                        {"type": "eg", "kind": 0, "name": "a", "sub": "t.*", "queue": "q"}]},
                ])
            };
            publisher.send(&traced("t.a", "", ""));
            assert_eq!(json!(traces(&mut publisher, 2)), expected(41));
            let got: Vec<_> = super::take(&mut listener, 2).iter().map(|m| m.text().to_owned()).collect();
            let marked = "NATS/1.0\r\nNats-Trace-Dest: trace\r\nNats-Trace-Hop: 1\r\n\r\nhello";
            assert_eq!(got, [marked, marked]);
            assert!(!local.message().text().contains("Hop"));
            // Only traced: nobody gets it.
            publisher.send(&traced("t.a", "", "Nats-Trace-Only: true\r\n"));
            assert_eq!(json!(traces(&mut publisher, 2)), expected(64));
            assert!(listener.barrier().is_empty() && local.barrier().is_empty());
            // Into another account by a stream.
            publisher.send(&traced("st.x", "", ""));
            let last = &traces(&mut publisher, 2)[1];
            let imported = json!([
                {"type": "in", "kind": 1, "name": one, "acc": "A", "subj": "st.x"},
                {"type": "se", "acc": "B", "to": "st.x"},
                {"type": "eg", "kind": 0, "name": "b", "acc": "B", "sub": "st.x"}]);
            assert_eq!(last["events"], imported);
            assert!(importer.message().text().ends_with("hello"));
        }
    }
}

#[test]
fn a_trace_comes_back_from_the_account_of_a_service() {
    for members in pairs(SERVICES) {
        for [here, there] in [[0, 1], [1, 0]] {
            let (mut requester, mut service) = (login(&members[here], "b"), login(&members[there], "a"));
            let mut probe = login(&members[here], "a");
            requester.subscribe("trace", 9);
            requester.barrier();
            service.subscribe("tr.x", 1);
            wait_for_interest(&mut probe, &mut service);
            requester.send(&traced("tr.x", "inbox.1", ""));
            let traces = traces(&mut requester, 2);
            let (one, two) = (format!("S{here}"), format!("S{there}"));
            assert_eq!(
                traces[0]["events"],
                json!([
                    {"type": "in", "kind": 0, "name": "b", "acc": "B", "subj": "tr.x"},
                    {"type": "si", "acc": "A", "from": "tr.x", "to": "tr.x"},
                    {"type": "eg", "kind": 1, "name": two, "hop": "1"}])
            );
            assert_eq!(
                traces[1]["events"],
                json!([
                    {"type": "in", "kind": 1, "name": one, "acc": "A", "subj": "tr.x"},
                    {"type": "eg", "kind": 0, "name": "a", "sub": "tr.x"}])
            );
            // The service learns no subject of the requester's account.
            let request = service.message();
            assert!(request.text().contains("Nats-Trace-Dest: _R_."), "{}", request.text());
        }
    }
}

/// A member of a queue group that was chosen here is traced like any other, and a message that is
/// only traced reaches none.
#[test]
fn groups_that_are_spread_are_traced() {
    let mixes: [&[ServerKind]; 3] = [&[Ours, Ours], &[Ours, Reference], &[Reference, Ours]];
    for kinds in mixes {
        let Some(members) = cluster(kinds, SERVICES) else { continue };
        let (mut publisher, mut member) = (login(&members[0], "a"), login(&members[1], "a"));
        publisher.send("SUB trace 9\r\nSUB g q 1\r\n");
        member.send("SUB g q 1\r\n");
        wait_for_interest(&mut publisher, &mut member);
        for _ in 0..8 {
            publisher.send(&traced("g", "", "Nats-Trace-Only: 1\r\n"));
            let first = trace_of(&publisher.message());
            let events = first["events"].as_array().expect("events").len();
            assert_eq!(events, 2, "one member gets it: {first}");
            if first["hops"] == json!(1) || first["hop"] == json!(["1"]) {
                let second = trace_of(&publisher.message());
                assert_eq!(second["events"].as_array().expect("events").len(), 2, "{second}");
            }
        }
        assert!(publisher.barrier().is_empty() && member.barrier().is_empty(), "{kinds:?}");
    }
}

#[test]
fn subscribers_are_counted_on_all_servers() {
    for members in pairs(SERVICES) {
        let (mut one, mut two) = (login(&members[0], "b"), login(&members[1], "b"));
        one.send("SUB foo 1\r\nSUB inbox 9\r\n");
        two.send("SUB foo 1\r\nSUB foo q 2\r\nSUB fo.o 3\r\n");
        wait_for_interest(&mut one, &mut two);
        let mut ask = |what: &str| {
            one.send(&format!("PUB $SYS.DEBUG.SUBSCRIBERS inbox {}\r\n{what}\r\n", what.len()));
            one.message().text().to_owned()
        };
        eventually("all are counted", || ask("foo") == "3");
        assert_eq!((ask("foo q"), ask("*.*"), ask("none")), ("1".into(), "1".into(), "0".into()));
    }
}

/// The mixes of three servers.
const THREE: [[ServerKind; 3]; 4] =
    [[Ours, Ours, Ours], [Ours, Reference, Ours], [Reference, Ours, Reference], [Reference, Reference, Ours]];

/// A message is published on one server and wanted on both others: each tells what became of it
/// there, under a hop of its own.
#[test]
fn a_trace_has_a_hop_for_each_server() {
    for kinds in THREE {
        let Some(members) = cluster(&kinds, SERVICES) else { continue };
        for at in 0..3 {
            let (next, last) = ((at + 1) % 3, (at + 2) % 3);
            let mut publisher = login(&members[at], "a");
            let mut listeners = [next, last].map(|at| login(&members[at], "a"));
            publisher.subscribe("trace", 9);
            publisher.barrier();
            for listener in &mut listeners {
                listener.subscribe("t.>", 1);
                wait_for_interest(&mut publisher, listener);
            }
            publisher.send(&traced("t.a", "", ""));
            let mut got: Vec<_> = (0..3).map(|_| trace_of(&publisher.message())).collect();
            got.sort_by_key(|trace| trace["hops"].is_null());
            let first = &got[0];
            assert_eq!(
                (&first["server"], &first["hops"]),
                (&json!(format!("S{at}")), &json!(2)),
                "{kinds:?}"
            );
            let events = first["events"].as_array().expect("events");
            let mut told: Vec<_> = events
                .iter()
                .filter(|event| event["kind"] == 1)
                .map(|event| (event["name"].to_string(), json!([event["hop"]])))
                .collect();
            told.sort_by_key(|(name, _)| name.clone());
            let mut seen: Vec<_> =
                got[1..].iter().map(|trace| (trace["server"].to_string(), trace["hop"].clone())).collect();
            seen.sort_by_key(|(name, _)| name.clone());
            assert_eq!(told, seen, "{kinds:?} at {at}: {got:?}");
            for trace in &got[1..] {
                let expected = json!([
                    {"type": "in", "kind": 1, "name": format!("S{at}"), "acc": "A", "subj": "t.a"},
                    {"type": "eg", "kind": 0, "name": "a", "sub": "t.>"}]);
                assert_eq!(trace["events"], expected, "{kinds:?} at {at}");
            }
            assert!(listeners.iter_mut().all(|listener| listener.message().text().ends_with("hello")));
            assert!(publisher.barrier().is_empty(), "no more traces");
        }
    }
}

/// Requester, service and whoever reads the report are connected to three servers.
#[test]
fn a_latency_of_two_servers_is_reported_on_a_third() {
    for kinds in THREE {
        let Some(members) = cluster(&kinds, SERVICES) else { continue };
        for at in 0..3 {
            let (there, third) = ((at + 1) % 3, (at + 2) % 3);
            let (mut service, mut requester) = (login(&members[there], "a"), login(&members[at], "b"));
            let (mut listener, mut probe) = (login(&members[third], "a"), login(&members[at], "a"));
            service.subscribe("svc.x", 1);
            listener.subscribe("lat", 2);
            requester.subscribe("inbox", 1);
            requester.barrier();
            wait_for_interest(&mut probe, &mut service);
            wait_for_interest(&mut probe, &mut listener);
            // Whichever server reports, the third hears of it.
            wait_for_interest(&mut service, &mut listener);
            requester.send("PUB svc.x inbox 1\r\n?\r\n");
            let reply = service.message().reply.expect("requests have a reply");
            service.publish(&reply, "!");
            assert_eq!(requester.message().text(), "!");
            let report = json_of(&listener.message());
            assert_eq!(
                (&report["status"], &report["responder"]["server"], &report["requestor"]["acc"]),
                (&json!(200), &json!(format!("S{there}")), &json!("B")),
                "{kinds:?}: {report}"
            );
            let time = |field: &str| report[field].as_i64().expect("nanoseconds");
            assert!(time("total") >= time("service") + time("system"), "{report}");
            assert!(listener.barrier().is_empty(), "one report");
        }
    }
}
