//! Lives of connections: keep alive, wills, client ids that are fought over, what operators see.

use super::peer::{Peer, hello, id, will};
use super::peer5::hello5;
use super::{address, config, server, servers};
use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use myelin_mqtt::packet::{
    ClientPacket, ConnectPacket, Properties, Qos, ReasonCode, ServerPacket, SubscribeFilters,
    SubscribeOptions, SubscribePacket,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The one connection of that client id, of those in this state.
fn conn(server: &Server, state: &str, client_id: &str) -> Value {
    let page = server.page(&format!("/connz?state={state}&subs=1&mqtt_client={client_id}"));
    assert_eq!(page["num_connections"], 1, "{page}");
    page["connections"][0].clone()
}

#[test]
fn a_client_that_is_silent_for_too_long_is_gone() {
    for server in &servers("", "") {
        let mut watcher = Peer::connect(address(server), "watcher");
        watcher.subscribe(&["gone"]);
        let connect = ConnectPacket { keep_alive: 1, will: will("gone", "silent"), ..hello("silent") };
        let mut peer = Peer::enter(address(server), &connect);
        let begin = Instant::now();
        peer.barrier();
        assert_eq!(peer.rest(), b"");
        // One and a half times; in whole seconds at nats-server.
        assert!(begin.elapsed() >= Duration::from_millis(950), "{:?}", begin.elapsed());
        assert_eq!(watcher.message().shown(), ("gone", "silent"));
        server.wait_for_close("Read Error");
    }
}

#[test]
fn a_will_is_for_those_who_did_not_say_goodbye() {
    for server in &servers("", "") {
        let mut watcher = Peer::connect(address(server), "watcher");
        watcher.subscribe(&["wills/#"]);
        let enter = |client_id, topic| {
            let connect = ConnectPacket { will: will(topic, client_id), ..hello(client_id) };
            Peer::enter(address(server), &connect)
        };
        let mut polite = enter("polite", "wills/polite");
        polite.disconnect();
        polite.rest();
        drop(enter("lost", "wills/lost"));
        assert_eq!(watcher.message().shown(), ("wills/lost", "lost"));
        let mut broken = enter("broken", "wills/broken");
        broken.send_bytes(&[0, 0]);
        assert_eq!(watcher.message().shown(), ("wills/broken", "broken"));
        let _replaced = enter("same", "wills/replaced");
        let mut last = enter("same", "wills/last");
        last.send_bytes(&[0, 0]);
        assert_eq!(watcher.message().shown(), ("wills/last", "same"));
    }
}

#[test]
fn a_will_needs_the_permission_to_publish() {
    let users =
        "authorization { users: [ {user: u, password: p, permissions { publish { deny: denied } } } ] }";
    for server in &servers("", users) {
        let login = |client_id, topic| {
            let (user_name, password) = (Some("u"), Some(&b"p"[..]));
            let connect = ConnectPacket { user_name, password, will: will(topic, "w"), ..hello(client_id) };
            Peer::enter(address(server), &connect)
        };
        let mut watcher = login("watcher", "x");
        watcher.subscribe(&["#"]);
        drop(login("denied", "denied"));
        server.wait_for_log("Publish Violation - Subject \"denied\"");
        drop(login("allowed", "yes"));
        assert_eq!(watcher.message().shown(), ("yes", "w"));
    }
}

#[test]
fn a_client_id_has_one_owner_and_fighters_are_slowed_down() {
    for server in &servers("", "") {
        let at = address(server);
        let mut first = Peer::connect(at, "fought");
        let mut second = Peer::connect(at, "fought");
        assert_eq!(first.rest(), b"");
        server.wait_for_log("since both have the same client ID \"fought\"");
        server.wait_for_close("Duplicate Client ID");
        let begin = Instant::now();
        let mut third = Peer::dial(at);
        assert_eq!(third.greet(&hello("fought")), None);
        assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
        second.barrier();
        // The time is over, and the id can be had again.
        let mut fourth = Peer::connect(at, "fought");
        assert_eq!(second.rest(), b"");
        fourth.barrier();
        // An id whose owner has left is nobody's.
        fourth.disconnect();
        fourth.rest();
        Peer::connect(at, "fought").barrier();
    }
}

#[test]
fn accounts_have_client_ids_of_their_own() {
    let accounts = "accounts { A { jetstream: enabled, users: [{user: a, password: p}] }, \
                    B { jetstream: enabled, users: [{user: b, password: p}] } }";
    for server in &servers("", accounts) {
        let login = |user| {
            let connect = ConnectPacket { user_name: Some(user), password: Some(b"p"), ..hello("same") };
            Peer::enter(address(server), &connect)
        };
        let (mut a, mut b) = (login("a"), login("b"));
        a.barrier();
        b.barrier();
    }
}

#[test]
fn monitoring_shows_them() {
    for server in &servers("max_ack_pending: 77, ack_wait: 7s", "") {
        let mut peer = Peer::connect(address(server), "seen");
        peer.subscribe(&["a/#", "b"]);
        peer.publish("b", "hello");
        peer.message();
        let varz = &server.page("/varz")["mqtt"];
        let port = address(server).port();
        let shown = json!({"host": "127.0.0.1", "port": port, "tls_timeout": 2, "ack_wait": 7_000_000_000_i64,
                           "max_ack_pending": 77});
        assert_eq!(*varz, shown);
        let open = conn(server, "open", "seen");
        for (field, value) in [
            ("kind", json!("Client")),
            ("type", json!("mqtt")),
            ("mqtt_client", json!("seen")),
            ("in_msgs", json!(1)),
            ("subscriptions", json!(3)),
        ] {
            assert_eq!(open[field], value, "{open}");
        }
        let mut subs: Vec<_> = open["subscriptions_list"].as_array().expect("a list").iter().collect();
        subs.sort_by_key(|sub| sub.to_string());
        assert_eq!(subs, ["a", "a.>", "b"]);
        peer.disconnect();
        peer.rest();
        server.wait_for_close("Client Closed");
        let closed = conn(server, "closed", "seen");
        assert_eq!((&closed["reason"], &closed["type"]), (&json!("Client Closed"), &json!("mqtt")));
        assert_eq!(server.page("/connz?mqtt_client=nobody")["num_connections"], 0);
    }
}

/// Lines of the log without addresses and times, of one client.
fn lines(server: &Server) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter_map(|line| line.split_once(" - mid:"));
    let lines = lines.filter(|(_, line)| line.contains("\"logged\""));
    let level = |head: &str| head.split(['[', ']']).nth(3).unwrap_or_default().to_owned();
    let text =
        |line: &str| line.split_once("\"logged\" - ").map(|(_, text)| text.to_owned()).unwrap_or_default();
    lines.map(|(head, line)| format!("{} {}", level(head), text(line))).collect()
}

#[test]
fn the_log_tells_what_happens() {
    for server in &servers("", "") {
        let connect = ConnectPacket { keep_alive: 10, will: will("w", "bye"), ..hello("logged") };
        let mut peer = Peer::enter(address(server), &connect);
        peer.subscribe(&["a/b"]);
        peer.publish("a/b", "hi");
        peer.barrier();
        peer.unsubscribe(&["a/b"]);
        peer.disconnect();
        peer.rest();
        server.wait_for_close("Client Closed");
        let expected = [
            "TRC <<- [CONNECT clientID=logged keepAlive=15s will=(topic=w QoS=0 retain=false) clean]",
            "TRC ->> [CONNACK sp=false rc=0]",
            "DBG Client connected",
            "TRC <<- [SUBSCRIBE [a/b (a.b) QoS=0] pi=1]",
            "TRC ->> [SUBACK pi=1]",
            "TRC <<- [PUBLISH a/b dup=false QoS=0 retain=false size=2]",
            "TRC <<- MSG_PAYLOAD: [\"hi\"]",
            "TRC ->> [PUBLISH a/b dup=false QoS=0 retain=false size=2]",
            "TRC <<- [PINGREQ]",
            "TRC ->> [PINGRESP]",
            "TRC <<- [UNSUBSCRIBE [a/b (a.b)] pi=2]",
            "TRC <-> [DELSUB a.b]",
            "TRC ->> [UNSUBACK pi=2]",
            "TRC <<- [DISCONNECT]",
            "DBG Client connection closed: Client Closed",
        ];
        eventually("the last line", || lines(server).len() >= expected.len());
        assert_eq!(lines(server), expected);
    }
}

#[test]
fn events_name_the_client_id() {
    let accounts = "accounts { SYS { users: [{user: s, password: s}] }, \
                    A { jetstream: enabled, users: [{user: a, password: a}] } }\nsystem_account: SYS";
    for server in &servers("", accounts) {
        let mut raw = Raw::open(server.address());
        raw.send("CONNECT {\"verbose\":false,\"pedantic\":false,\"user\":\"s\",\"pass\":\"s\"}\r\n");
        raw.subscribe("$SYS.ACCOUNT.A.>", 1);
        raw.barrier();
        let connect = ConnectPacket { user_name: Some("a"), password: Some(b"a"), ..hello("told") };
        let mut peer = Peer::enter(address(server), &connect);
        peer.disconnect();
        for kind in [".CONNECT", ".DISCONNECT"] {
            let event = loop {
                let message = raw.message();
                if message.subject.ends_with(kind) {
                    break serde_json::from_slice::<Value>(&message.body).expect("JSON");
                }
            };
            let client = &event["client"];
            assert_eq!((&client["client_type"], &client["client_id"]), (&json!("mqtt"), &json!("told")));
        }
    }
}

#[test]
fn a_reload_changes_what_may_change() {
    let store = tempfile::tempdir().expect("a temporary folder");
    let users = |more: &str| format!("authorization {{ users: [ {{user: u, password: p {more}}} ] }}");
    let text = |block: &str, around: &str| config(block, around, &store);
    let server = Setup::default().config(&text("", &users(""))).start();
    let connect = ConnectPacket { user_name: Some("u"), password: Some(b"p"), ..hello("kept") };
    let mut peer = Peer::enter(address(&server), &connect);
    assert_eq!(peer.subscribe(&["a", "b"]), [0, 0]);
    let lines = server.reload(&text("ack_wait: 3s", &users("")));
    assert!(lines.iter().any(|line| line.contains("Reloaded: MQTT ack_wait = 3s")), "{lines:?}");
    let lines = server.reload(&text("ack_wait: 3s, host: localhost", &users("")));
    assert!(lines.iter().any(|line| line.contains("config reload not supported for MQTT")), "{lines:?}");
    let lines = server.reload(&text("ack_wait: 3s", &users(", permissions { subscribe { deny: a } }")));
    assert!(lines.iter().any(|line| line.contains("Reloaded server configuration")), "{lines:?}");
    eventually("the forbidden subscription ends", || {
        peer.publish("a", "x");
        peer.publish("b", "x");
        let topics: Vec<_> = peer.barrier().into_iter().map(|message| message.topic).collect();
        topics == ["b"]
    });
    let lines = server.reload(&text("ack_wait: 3s", &users("").replace("password: p", "password: q")));
    assert!(lines.iter().any(|line| line.contains("Reloaded server configuration")), "{lines:?}");
    assert_eq!(peer.rest(), b"");
    server.wait_for_close("Authentication Failure");
}

/// Configuration with a user `u`, who may subscribe to that only, and `v`, who may to everything.
fn with_restricted_user(allow: &str, store: &tempfile::TempDir) -> String {
    let restricted = format!("{{user: u, password: p, permissions {{ subscribe {{ allow: [{allow}] }} }} }}");
    let users = format!("authorization {{ users: [ {restricted}, {{user: v, password: p}} ] }}");
    config("", &users, store)
}

/// Messages that are stored for a session obey new permissions as those do that are passed on.
#[test]
fn a_reload_takes_stored_messages_away() {
    let store = tempfile::tempdir().expect("a temporary folder");
    let text = |allow: &str| with_restricted_user(allow, &store);
    let server = Setup::default().config(&text("\">\"")).start();
    let as_user = |name: &'static str, id: &'static str| {
        let connect = ConnectPacket { user_name: Some(name), password: Some(b"p"), ..hello(id) };
        Peer::enter(address(&server), &connect)
    };
    let (mut peer, mut publisher) = (as_user("u", "reader"), as_user("v", "writer"));
    assert_eq!(peer.subscribe_with(&[("secret/#", Qos::AtLeastOnce), ("open/#", Qos::AtLeastOnce)]), [1, 1]);
    let mut topics = || {
        publisher.publish_1("secret/x", "x");
        publisher.publish_1("open/x", "x");
        let mut topics: Vec<String> = Vec::new();
        eventually("what nobody forbids", || {
            for (came, number) in peer.all_came() {
                peer.puback(number);
                topics.extend(came.split(' ').nth(1).map(str::to_owned));
            }
            topics.iter().any(|topic| topic == "open/x")
        });
        topics
    };
    assert_eq!(topics(), ["secret/x", "open/x"]);
    let lines = server.reload(&text("\"open.>\", \"open\""));
    assert!(lines.iter().any(|line| line.contains("Reloaded server configuration")), "{lines:?}");
    server.wait_for_log("Removed sub \"secret.>\"");
    assert_eq!(topics(), ["open/x"]);
}

/// A member of a share that may not have it any more leaves what comes to the others.
#[test]
fn a_reload_takes_a_share_away() {
    let store = tempfile::tempdir().expect("a temporary folder");
    let text = |allow: &str| with_restricted_user(allow, &store);
    let server = Setup::default().config(&text("\">\"")).start();
    let as_user = |name: &'static str, id: &'static str| {
        let connect = ConnectPacket { user_name: Some(name), password: Some(b"p"), ..hello5(id) };
        Peer::enter(address(&server), &connect)
    };
    let (mut loser, mut member, mut publisher) = (as_user("u", "1"), as_user("v", "2"), as_user("v", "3"));
    for peer in [&mut loser, &mut member] {
        assert_eq!(peer.subscribe_with(&[("$share/g/secret/#", Qos::AtLeastOnce)]), [1]);
    }
    server.reload(&text("\"open.>\""));
    server.wait_for_log("Removed sub \"secret.>\" using queue \"g\"");
    loser.all_came();
    for number in 0..100 {
        publisher.send5(("secret/x", &number.to_string()), (1, false), &[]);
    }
    let mut count = 0;
    eventually("the other member has all", || {
        let came = member.all_came();
        came.iter().for_each(|(_, number)| member.puback(*number));
        count += came.len();
        count >= 100
    });
    assert_eq!(loser.all_came(), []);
}

#[test]
fn lame_duck_closes_them_and_takes_no_more() {
    let server = server("", "lame_duck_duration: 30s, lame_duck_grace_period: 1s");
    let at = address(&server);
    let mut peer = Peer::connect(at, "leaving");
    server.signal(Signal::USR2);
    assert_eq!(peer.rest(), b"");
    assert!(std::net::TcpStream::connect(at).is_err());
}

#[test]
fn connections_are_counted() {
    let server = server("", "max_connections: 2");
    let (_one, _two) = (Peer::connect(address(&server), "1"), Peer::connect(address(&server), "2"));
    let mut third = Peer::dial(address(&server));
    assert_eq!(third.rest(), b"");
    server.wait_for_close("Maximum Connections Exceeded");
}

#[test]
fn an_id_is_given_to_who_has_none() {
    for server in &servers("", "") {
        let (mut one, mut two) = (Peer::connect(address(server), ""), Peer::connect(address(server), ""));
        one.barrier();
        two.barrier();
        let page = server.page("/connz");
        let ids: Vec<_> =
            page["connections"].as_array().expect("a list").iter().map(|c| &c["mqtt_client"]).collect();
        assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
        assert!(ids.iter().all(|id| id.as_str().is_some_and(|id| id.len() == 22)), "{ids:?}");
        assert_eq!(
            Peer::dial(address(server)).greet(&ConnectPacket { clean: false, ..hello("") }),
            Some(ReasonCode::ClientIdNotValid)
        );
    }
}

/// The time of a client does not run while the server itself waits for JetStream.
#[test]
fn who_is_not_listened_to_is_not_missed() {
    let server = server("js_domain: slow\njs_api_timeout: 25s", "");
    let at = address(&server);
    let (let_go, gate) = std::sync::mpsc::channel();
    // Another name of the API, which is slow with consumers.
    let mut api = Raw::connect(&server);
    api.subscribe("$JS.slow.API.>", 1);
    api.barrier();
    std::thread::spawn(move || {
        loop {
            let asked = api.message();
            let (to, reply) = (asked.subject.replacen(".slow", "", 1), asked.reply.unwrap_or_default());
            let is_slow = to.contains("CONSUMER.CREATE");
            if is_slow && gate.recv().is_err() {
                return;
            }
            let body = String::from_utf8(asked.body).expect("JSON");
            api.send(&format!("PUB {to} {reply} {}\r\n{body}\r\n", body.len()));
            if is_slow {
                return;
            }
        }
    });
    let mut waits = Peer::enter(at, &ConnectPacket { keep_alive: 1, ..hello("waits") });
    let mut silent = Peer::enter(at, &ConnectPacket { keep_alive: 1, ..hello("silent") });
    let mut raw = Vec::new();
    let options = SubscribeOptions { max_qos: Qos::AtLeastOnce, ..SubscribeOptions::default() };
    SubscribeFilters::push("a", options, &mut raw);
    let (properties, filters) = (Properties::EMPTY, SubscribeFilters::of(&raw));
    let packet = SubscribePacket { packet_id: id(1), properties, filters };
    waits.send(&ClientPacket::Subscribe(packet));
    waits.send(&ClientPacket::PingReq);
    silent.barrier();
    assert_eq!(silent.rest(), b"", "its time has passed");
    let_go.send(()).expect("it waits");
    assert_eq!(waits.with_packet(|packet| matches!(packet, ServerPacket::SubAck(_))), Some(true));
}
