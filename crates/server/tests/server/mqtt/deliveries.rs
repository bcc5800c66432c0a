//! Messages between MQTT and NATS clients, QoS 0: topics and subjects, permissions, accounts,
//! receivers by the hundred, other servers.

use super::peer::{Peer, id, message};
use super::{address, cluster, server, servers};
use crate::process::Server;
use crate::raw::Raw;
use crate::routes::wait_for_interest;
use myelin_mqtt::packet::{AckPacket, ClientPacket, Exchange};

/// A NATS client that is let in with these fields.
fn nats(server: &Server, fields: &str) -> Raw {
    let mut raw = Raw::open(server.address());
    raw.send(&format!("CONNECT {{\"verbose\":false,\"pedantic\":false,\"headers\":true{fields}}}\r\n"));
    raw.barrier();
    raw
}

/// Header of what an MQTT client has published with this QoS.
fn header(qos: u8) -> String {
    format!("NATS/1.0\r\nNmqtt-Pub:{qos}\r\n\r\n")
}

#[test]
fn topics_are_subjects_both_ways() {
    let pairs = [
        ("a", "a"),
        ("a/b/c", "a.b.c"),
        ("/a", "/.a"),
        ("a/", "a./"),
        ("a//b", "a./.b"),
        ("a.b", "a//b"),
        ("/", "/./"),
    ];
    for server in &servers("", "") {
        let (mut peer, mut raw) = (Peer::connect(address(server), "topics"), nats(server, ""));
        let topics: Vec<_> = pairs.iter().map(|(topic, _)| *topic).collect();
        assert_eq!(peer.subscribe(&topics), vec![0; pairs.len()]);
        raw.subscribe(">", 1);
        raw.barrier();
        for (topic, subject) in pairs {
            peer.publish(topic, "by MQTT");
            assert_eq!(peer.message().shown(), (topic, "by MQTT"), "{topic}");
            let came = raw.message();
            let body = header(0) + "by MQTT";
            assert_eq!((came.subject.as_str(), came.text()), (subject, body.as_str()));
            raw.publish(subject, "by NATS");
            assert_eq!(peer.message().shown(), (topic, "by NATS"), "{topic}");
            raw.message();
        }
    }
}

#[test]
fn filters_match_as_mqtt_says() {
    let cases = [
        ("#", &["a", "a/b", "/"][..], &["$SYS/a", "$x"][..]),
        ("+", &["a"], &["a/b", "$x", "/a"]),
        ("+/b", &["a/b"], &["$x/b", "b", "a/b/c"]),
        ("a/#", &["a", "a/b", "a/b/c"], &["b", "ab"]),
        ("a/+/c", &["a/b/c", "a//c"], &["a/b", "a/b/c/d"]),
        ("$x/#", &["$x", "$x/b"], &["x"]),
        ("+/+", &["/a", "a/b"], &["a"]),
    ];
    for server in &servers("", "") {
        let mut publisher = Peer::connect(address(server), "publisher");
        for (filter, matching, others) in cases {
            let mut peer = Peer::connect(address(server), "subscriber");
            assert_eq!(peer.subscribe(&[filter]), [0], "{filter}");
            others.iter().chain(matching).for_each(|topic| publisher.publish(topic, "x"));
            for topic in matching {
                assert_eq!(peer.message().topic, *topic, "{filter}");
            }
            assert_eq!(peer.barrier(), [], "{filter}");
            peer.disconnect();
            peer.rest();
        }
    }
}

/// Compat: the reference goes on to deliver the level above a `#`.
#[test]
fn nothing_comes_of_a_filter_that_is_given_up() {
    let server = server("", "");
    let mut peer = Peer::connect(address(&server), "gives-up");
    for filter in ["#", "+", "a/#", "a", "$x/#"] {
        peer.subscribe(&[filter]);
        peer.unsubscribe(&[filter]);
        ["a", "a/b", "$x"].into_iter().for_each(|topic| peer.publish(topic, "x"));
        assert_eq!(peer.barrier(), [], "{filter}");
    }
    peer.unsubscribe(&["never"]);
    assert_eq!(server.page("/connz?subs=1")["connections"][0]["subscriptions"], 0);
}

#[test]
fn overlapping_filters_deliver_once_each() {
    for server in &servers("", "") {
        let mut peer = Peer::connect(address(server), "twice");
        peer.subscribe(&["a/b", "a/#", "a/b"]);
        peer.publish("a/b", "x");
        assert_eq!(peer.barrier().len(), 2);
    }
}

#[test]
fn exchanges_come_to_their_end_and_duplicates_are_dropped() {
    for server in &servers("", "") {
        let (mut peer, mut raw) = (Peer::connect(address(server), "exchanges"), nats(server, ""));
        raw.subscribe("q", 1);
        raw.barrier();
        let one = ClientPacket::Publish(myelin_mqtt::packet::PublishPacket {
            exchange: Exchange::AtLeastOnce(id(9)),
            ..message("q", b"one")
        });
        assert_eq!(peer.exchange(&one), ("PUBACK", 9));
        let two = ClientPacket::Publish(myelin_mqtt::packet::PublishPacket {
            exchange: Exchange::ExactlyOnce(id(9)),
            ..message("q", b"two")
        });
        for _ in 0..2 {
            assert_eq!(peer.exchange(&two), ("PUBREC", 9));
        }
        for _ in 0..2 {
            assert_eq!(peer.exchange(&ClientPacket::PubRel(AckPacket::success(id(9)))), ("PUBCOMP", 9));
        }
        assert_eq!(peer.exchange(&two), ("PUBREC", 9));
        peer.exchange(&ClientPacket::PubRel(AckPacket::success(id(9))));
        peer.publish("q", "end");
        let bodies: Vec<_> = (0..4).map(|_| raw.message().text().to_owned()).collect();
        assert_eq!(bodies, [header(1) + "one", header(2) + "two", header(2) + "two", header(0) + "end"]);
    }
}

const RIGHTS: &str = "authorization { users: [
    { user: u, password: p, permissions {
        publish { allow: [ok, \"in.>\"], deny: \"in.no\" }, subscribe { allow: [ok, \"in.>\"], deny: \"in.no\" } } },
    { user: all, password: p } ] }";

#[test]
fn permissions_are_asked_at_subscribe_at_publish_and_at_delivery() {
    for server in &servers("", RIGHTS) {
        let login = |client_id, user| {
            let connect = super::peer::hello(client_id);
            let connect =
                myelin_mqtt::packet::ConnectPacket { user_name: Some(user), password: Some(b"p"), ..connect };
            Peer::enter(address(server), &connect)
        };
        let (mut peer, mut other) = (login("few", "u"), login("all", "all"));
        assert_eq!(peer.subscribe(&["ok", "no", "in/no", "in/+", "#"]), [0, 0x80, 0x80, 0, 0x80]);
        server.wait_for_log("Subscription Violation - Subject \"no\", SID no");
        assert_eq!(other.subscribe(&["#"]), [0]);
        for topic in ["no", "in/no", "ok", "in/yes"] {
            peer.publish(topic, "mine");
        }
        server.wait_for_log("Publish Violation - Subject \"in.no\"");
        let topics = |messages: Vec<super::peer::Delivered>| -> Vec<String> {
            messages.into_iter().map(|message| message.topic).collect()
        };
        let came = [other.message(), other.message()].map(|message| message.topic);
        assert_eq!(came, ["ok", "in/yes"]);
        assert_eq!(topics(vec![peer.message(), peer.message()]), ["ok", "in/yes"]);
        other.publish("in/no", "denied");
        other.publish("in/yes", "allowed");
        other.barrier();
        assert_eq!(peer.message().shown(), ("in/yes", "allowed"));
        assert_eq!(topics(peer.barrier()), Vec::<String>::new());
    }
}

/// Ours alone: the reference takes no notice of `refused`.
#[test]
fn refusals_are_shown_to_whoever_asks() {
    let server = server("", RIGHTS);
    let connect = super::peer::hello("few");
    let connect =
        myelin_mqtt::packet::ConnectPacket { user_name: Some("u"), password: Some(b"p"), ..connect };
    let mut peer = Peer::enter(address(&server), &connect);
    assert_eq!(peer.subscribe(&["no"]), [0x80]);
    peer.publish("in/no", "mine");
    peer.barrier();
    let refused = &server.page("/connz?refused=1&mqtt_client=few")["connections"][0]["refused"];
    let rules = [0, 1].map(|at| refused["last"][at]["denied_by"].as_str());
    assert_eq!(rules, [None, Some("in.no")], "{refused}");
    assert_eq!(refused["count"], 2);
}

const ACCOUNTS: &str = "accounts {
    A { jetstream: enabled, users: [{user: a, password: p}], exports: [{stream: \"out.>\"}, {service: \"ask\"}],
        mappings { \"from.*\": \"to.{{wildcard(1)}}\" } },
    B { jetstream: enabled, users: [{user: b, password: p}],
        imports: [{stream: {account: A, subject: \"out.>\"}, prefix: his}, {service: {account: A, subject: ask}}] } }";

#[test]
fn accounts_let_each_other_have_what_they_export() {
    for server in &servers("", ACCOUNTS) {
        let login = |client_id, user| {
            let connect = super::peer::hello(client_id);
            let password = Some(&b"p"[..]);
            let connect = myelin_mqtt::packet::ConnectPacket { user_name: Some(user), password, ..connect };
            Peer::enter(address(server), &connect)
        };
        let (mut a, mut b) = (login("first", "a"), login("other", "b"));
        let mut second = login("third", "b");
        a.subscribe(&["ask", "to/+"]);
        b.subscribe(&["#"]);
        second.subscribe(&["his/out/#"]);
        a.publish("out/x", "stream");
        for peer in [&mut b, &mut second] {
            assert_eq!(peer.message().shown(), ("his/out/x", "stream"));
        }
        b.publish("ask", "service");
        assert_eq!(a.message().shown(), ("ask", "service"));
        assert_eq!(b.message().shown(), ("ask", "service"));
        a.publish("from/here", "mapped");
        assert_eq!(a.message().shown(), ("to/here", "mapped"));
    }
}

#[test]
fn headers_of_nats_stay_in_nats() {
    for server in &servers("", "") {
        let (mut peer, mut raw) = (Peer::connect(address(server), "headers"), nats(server, ""));
        peer.subscribe(&["h"]);
        raw.send("HPUB h 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n");
        assert_eq!(peer.message().shown(), ("h", "hi"));
        raw.send("HPUB h 18 18\r\nNATS/1.0\r\nA: b\r\n\r\n\r\nPUB h reply 2\r\nyo\r\n");
        assert_eq!(peer.message().shown(), ("h", ""));
        assert_eq!(peer.message().shown(), ("h", "yo"));
    }
}

/// Small and large messages to many, in order, whoever publishes them.
#[test]
fn a_hundred_receivers_get_everything_in_order() {
    let server = server("", "");
    let mut peers: Vec<_> = (0..100)
        .map(|at| {
            let mut peer = Peer::connect(address(&server), &format!("peer{at}"));
            let filter = ["wide/#", "wide/+", "+/x", "wide/x"][at % 4];
            assert_eq!(peer.subscribe(&[filter]), [0]);
            peer
        })
        .collect();
    let (mut publisher, mut raw) = (Peer::connect(address(&server), "publisher"), nats(&server, ""));
    let sizes = [0, 1, 127, 128, 5000, 20_000, 200_000];
    for round in 0..4_usize {
        for size in sizes {
            let payload = format!("{round}{}", "x".repeat(size));
            publisher.publish("wide/x", &payload);
        }
    }
    publisher.barrier();
    raw.publish("wide.x", "last");
    raw.barrier();
    for peer in &mut peers {
        for round in 0..4_usize {
            for size in sizes {
                let came = peer.message();
                let expected = format!("{round}{}", "x".repeat(size));
                assert!(came.payload == expected.as_bytes(), "{round} {size} {}", came.payload.len());
            }
        }
        assert_eq!(peer.message().shown(), ("wide/x", "last"));
    }
}

/// Compat: what a push consumer delivers is not for MQTT clients.
#[test]
fn deliveries_of_consumers_are_for_nats_clients() {
    for server in &servers("", "") {
        let (mut peer, mut raw) = (Peer::connect(address(server), "consumer"), nats(server, ""));
        peer.subscribe(&["deliver/to"]);
        raw.subscribe("inbox.>", 1);
        let mut ask = |subject: &str, body: &str| {
            raw.send(&format!("PUB {subject} inbox.x {}\r\n{body}\r\n", body.len()));
            let answer = raw.message();
            assert!(!answer.text().contains("error"), "{}", answer.text());
        };
        ask("$JS.API.STREAM.CREATE.S", r#"{"name":"S","subjects":["s"]}"#);
        let consumer =
            r#"{"stream_name":"S","config":{"deliver_subject":"deliver.to","ack_policy":"explicit"}}"#;
        ask("$JS.API.CONSUMER.CREATE.S", consumer);
        ask("s", "stored");
        raw.subscribe("deliver.to", 2);
        raw.publish("deliver.to", "by a client");
        assert_eq!(peer.message().shown(), ("deliver/to", "by a client"));
    }
}

#[test]
fn interest_crosses_a_cluster() {
    let servers = cluster();
    let [(one, _), (two, _)] = &servers;
    let (mut here, mut there) = (nats(one, ""), nats(two, ""));
    wait_for_interest(&mut here, &mut there);
    let mut peer = Peer::connect(address(two), "far");
    peer.subscribe(&["far/#"]);
    there.barrier();
    let mut publisher = Peer::connect(address(one), "near");
    // The interest is on its way: the first that arrives is followed by all others.
    let mut count = 0;
    peer.barrier();
    crate::eventually("a message from the other server", || {
        count += 1;
        publisher.publish("far/x", &count.to_string());
        publisher.barrier();
        !peer.barrier().is_empty()
    });
    publisher.publish("far", "parent");
    crate::eventually("the parent level", || {
        peer.barrier().iter().any(|message| message.shown() == ("far", "parent"))
    });
}

/// Sparkplug B: a death has the time of its delivery, a certificate is retained.
#[test]
fn births_and_deaths_of_devices_are_known() {
    for server in &servers("", "") {
        let mut peer = Peer::connect(address(server), "sparkplug");
        peer.subscribe(&["spBv1.0/#", "$sparkplug/certificates/#"]);
        // Field 1, a varint: 1; field 3: 7.
        peer.send(&ClientPacket::Publish(message("spBv1.0/g/NDEATH/e", &[8, 1, 0x18, 7])));
        let death = peer.message();
        assert_eq!((&death.topic[..], death.payload[0]), ("spBv1.0/g/NDEATH/e", 8));
        assert!(death.payload.len() > 6 && death.payload.ends_with(&[0x18, 7]), "{death:?}");
        peer.send(&ClientPacket::Publish(message("spBv1.0/g/NDATA/e", &[8, 1])));
        assert_eq!(peer.message().payload, [8, 1]);
        let mut raw = nats(server, "");
        raw.publish("$sparkplug.certificates.spBv1//0.g.NBIRTH.e", "born");
        raw.barrier();
        assert_eq!(peer.take(2)[0], 0x31);
    }
}
