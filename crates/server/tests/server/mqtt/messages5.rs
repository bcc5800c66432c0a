//! Messages of MQTT 5: properties and headers, topic aliases, requests and answers, reasons.

use super::peer::{Peer, hello, id, message};
use super::peer5::hello5;
use super::{address, config, server};
use crate::eventually;
use crate::process::Setup;
use crate::raw::Raw;
use crate::routes::{free_port, wait_for_interest};
use myelin_mqtt::packet::{ClientPacket, ConnectPacket, Exchange, Property, PublishPacket, ReasonCode};
use std::num::NonZeroU16;

fn alias(number: u16) -> Property<'static> {
    Property::TopicAlias(NonZeroU16::new(number).expect("not zero"))
}

#[test]
fn properties_are_headers_for_nats_and_unaltered_for_mqtt() {
    let server = server("", "");
    let at = address(&server);
    let (mut five, mut three, mut raw) =
        (Peer::connect5(at, "5"), Peer::connect(at, "3"), Raw::connect(&server));
    five.listen5(&["a/b"]);
    three.subscribe(&["a/b"]);
    raw.subscribe("a.b", 1);
    raw.barrier();
    let mut publisher = Peer::connect5(at, "p");
    let properties = [
        Property::PayloadFormat(true),
        Property::MessageExpiry(60),
        Property::ContentType("text/plain"),
        Property::ResponseTopic("answers/here"),
        Property::User(("Color", "red")),
        Property::User(("Color", "blue")),
        Property::User(("with blank", "=\r\n%")),
    ];
    publisher.publish5("a/b", "hi", &properties);
    let came = five.came5();
    let mut expected: Vec<_> = properties.iter().map(|property| format!("{property:?}")).collect();
    // The response topic stands behind what headers say.
    let response = expected.remove(3);
    expected.push(response);
    assert_eq!((&*came.topic, &*came.payload, came.properties), ("a/b", "hi", expected));
    assert_eq!(three.message().shown(), ("a/b", "hi"));
    let came = raw.message();
    let headers = "NATS/1.0\r\nNmqtt-Pub:0\r\nNmqtt-Payload-Format: 1\r\nNmqtt-Expiry: 60\r\n\
                   Content-Type: text/plain\r\nColor: red\r\nColor: blue\r\n\
                   Nmqtt-User: with%20blank=%3d%0d%0a%25\r\n\r\nhi";
    assert_eq!((came.text(), came.reply.as_deref()), (headers, Some("answers.here")));
    // Nothing is added to what says nothing.
    publisher.publish5("a/b", "plain", &[]);
    assert_eq!(five.came5().properties, Vec::<String>::new());
    assert_eq!(raw.message().text(), "NATS/1.0\r\nNmqtt-Pub:0\r\n\r\nplain");
}

#[test]
fn headers_of_nats_are_properties() {
    let server = server("", "");
    let (mut five, mut raw) = (Peer::connect5(address(&server), "5"), Raw::connect(&server));
    five.listen5(&["a"]);
    raw.send("HPUB a back.to 53 55\r\nNATS/1.0\r\nColor: red\r\nNats-TTL: 5m\r\nNats-Msg-Id:7\r\n\r\nhi\r\n");
    raw.barrier();
    let came = five.came5();
    let expected = [
        "User((\"Color\", \"red\"))",
        "MessageExpiry(300)",
        "User((\"Nats-Msg-Id\", \"7\"))",
        "ResponseTopic(\"back/to\")",
    ];
    assert_eq!((&*came.payload, &came.properties[..]), ("hi", &expected.map(str::to_owned)[..]));
}

#[test]
fn a_nats_service_answers_a_requester_of_mqtt() {
    let server = server("", "");
    let (mut requester, mut service) = (Peer::connect5(address(&server), "requester"), Raw::connect(&server));
    service.subscribe("time", 1);
    service.barrier();
    requester.listen5(&["answers/me"]);
    // Without correlation data the answer goes to the response topic itself.
    requester.publish5("time", "?", &[Property::ResponseTopic("answers/me")]);
    let reply = service.message().reply.expect("a reply subject");
    assert_eq!(reply, "answers.me");
    service.publish(&reply, "one");
    let came = requester.came5();
    assert_eq!((&*came.topic, &*came.payload, came.properties.len()), ("answers/me", "one", 0));
    // With it the answer brings it back, although the service does not know of it.
    for data in [&b"first"[..], b"second"] {
        let properties = [Property::ResponseTopic("answers/me"), Property::CorrelationData(data)];
        requester.publish5("time", "?", &properties);
    }
    let [first, second] =
        [service.message(), service.message()].map(|request| request.reply.expect("a reply"));
    assert!(first.starts_with("_INBOX.") && first != second, "{first} {second}");
    service.publish(&second, "two");
    service.send(&format!("HPUB {first} 21 24\r\nNATS/1.0\r\nUnit: s\r\n\r\none\r\n"));
    for (payload, expected) in [
        ("two", vec![format!("{:?}", Property::CorrelationData(b"second"))]),
        (
            "one",
            vec!["User((\"Unit\", \"s\"))".to_owned(), format!("{:?}", Property::CorrelationData(b"first"))],
        ),
    ] {
        let came = requester.came5();
        assert_eq!((&*came.topic, &*came.payload, came.properties), ("answers/me", payload, expected));
    }
    // Nothing comes of an answer to nothing.
    service.publish(&format!("{second}9"), "?");
    service.barrier();
    assert!(requester.barrier().is_empty());
}

#[test]
fn answers_to_a_thousand_requests_of_qos_2_are_awaited() {
    let server = server("", "");
    let (mut requester, mut service) = (Peer::connect5(address(&server), "requester"), Raw::connect(&server));
    service.subscribe("time", 1);
    service.barrier();
    requester.listen5(&["answers/me"]);
    let ask = |requester: &mut Peer, number: u32| {
        let data = number.to_string();
        let properties = [Property::ResponseTopic("answers/me"), Property::CorrelationData(data.as_bytes())];
        assert_eq!(requester.send5(("time", "?"), (2, false), &properties), ReasonCode::Success);
    };
    let mut replies = Vec::new();
    for number in 0..1024 {
        ask(&mut requester, number);
        replies.push(service.message().reply.expect("a reply subject"));
    }
    service.publish(&replies[0], "late");
    let came = requester.came5();
    assert_eq!(came.properties, [format!("{:?}", Property::CorrelationData(b"0"))]);
    // One more takes the place of the first.
    ask(&mut requester, 1024);
    service.message();
    service.publish(&replies[0], "too late");
    service.barrier();
    assert!(requester.barrier().is_empty());
}

#[test]
fn a_service_on_another_server_answers_a_requester_of_mqtt() {
    let ports = [free_port(), free_port()];
    let start = |at: usize| {
        let (port, other) = (ports[at], ports[1 - at]);
        let routes = format!("routes: [\"nats://127.0.0.1:{other}\"]");
        let cluster = format!("cluster {{ name: C, host: \"127.0.0.1\", port: {port}, {routes} }}");
        let store = tempfile::tempdir().expect("a temporary folder");
        let config = config("", &cluster, &store).replace("server_name: m", &format!("server_name: m{at}"));
        (Setup::default().config(&config).start(), store)
    };
    let servers = [start(0), start(1)];
    let [(one, _), (two, _)] = &servers;
    let (mut here, mut service) = (Raw::connect(one), Raw::connect(two));
    wait_for_interest(&mut here, &mut service);
    service.subscribe("time", 1);
    service.barrier();
    let mut requester = Peer::connect5(address(one), "requester");
    requester.listen5(&["answers/me"]);
    let properties = [Property::ResponseTopic("answers/me"), Property::CorrelationData(b"far")];
    // Interest is on its way in both directions.
    eventually("an answer from the other server", || {
        requester.publish5("time", "?", &properties);
        requester.barrier();
        for request in service.barrier() {
            service.publish(&request.reply.expect("a reply subject"), "noon");
        }
        service.barrier();
        requester.barrier().iter().any(|answer| answer.shown() == ("answers/me", "noon"))
    });
}

#[test]
fn a_responder_of_mqtt_answers_a_requester_of_nats_and_of_mqtt() {
    let server = server("", "");
    let at = address(&server);
    let (mut responder, mut raw) = (Peer::connect5(at, "responder"), Raw::connect(&server));
    responder.listen5(&["time"]);
    raw.subscribe("_INBOX.x.>", 1);
    raw.send("PUB time _INBOX.x.1 1\r\n?\r\n");
    raw.barrier();
    assert_eq!(responder.came5().properties, ["ResponseTopic(\"_INBOX/x/1\")"]);
    responder.publish5("_INBOX/x/1", "noon", &[]);
    assert_eq!(raw.message().text(), "NATS/1.0\r\nNmqtt-Pub:0\r\n\r\nnoon");
    let mut requester = Peer::connect5(at, "requester");
    requester.listen5(&["answers/me"]);
    let properties = [Property::ResponseTopic("answers/me"), Property::CorrelationData(&[0, 255])];
    requester.publish5("time", "?", &properties);
    // Unaltered, as the specification says.
    let came = responder.came5().properties;
    let expected = [properties[1], properties[0]].map(|property| format!("{property:?}"));
    assert_eq!(came, expected);
    responder.publish5("answers/me", "noon", &[properties[1]]);
    let came = requester.came5();
    assert_eq!((&*came.topic, came.properties), ("answers/me", vec![format!("{:?}", properties[1])]));
}

#[test]
fn answers_are_for_those_who_may_listen() {
    let users =
        "authorization { users: [ {user: u, password: p, permissions { subscribe: \"allowed\" } } ] }";
    let server = server("", users);
    let connect = ConnectPacket { user_name: Some("u"), password: Some(b"p"), ..hello5("u") };
    let mut peer = Peer::enter(address(&server), &connect);
    let mut three = Peer::enter(
        address(&server),
        &ConnectPacket { user_name: Some("u"), password: Some(b"p"), ..hello("3") },
    );
    assert_eq!(three.subscribe(&["allowed"]), [0]);
    for (topic, is_inbox) in [("denied", false), ("allowed", true)] {
        peer.publish5("allowed", "?", &[Property::ResponseTopic(topic), Property::CorrelationData(b"c")]);
        assert_eq!(three.message().shown().1, "?");
        let page = server.page("/connz?subs=1&mqtt_client=u");
        assert_eq!(page["connections"][0]["subscriptions"], u8::from(is_inbox), "{page}");
    }
}

#[test]
fn topics_have_aliases_both_ways() {
    let server = server("", "");
    let at = address(&server);
    let mut watcher = Peer::dial(at);
    assert_eq!(watcher.greet5(&hello5("w"), &[Property::TopicAliasMaximum(2)]).0, ReasonCode::Success);
    watcher.listen5(&["#"]);
    let mut peer = Peer::connect5(at, "p");
    let mut expect = |topic: &str, payload: &str, alias: Option<u16>| {
        let came = watcher.came5();
        let alias = alias.map(|number| format!("TopicAlias({number})")).into_iter().collect::<Vec<_>>();
        assert_eq!((&*came.topic, &*came.payload, came.properties), (topic, payload, alias));
    };
    peer.publish5("a/b", "1", &[alias(16)]);
    expect("a/b", "1", Some(1));
    peer.publish5("", "2", &[alias(16)]);
    expect("", "2", Some(1));
    // An alias may be given another topic.
    peer.publish5("c", "3", &[alias(16)]);
    expect("c", "3", Some(2));
    peer.publish5("", "4", &[alias(16)]);
    expect("", "4", Some(2));
    // The client takes no more than two.
    peer.publish5("d", "5", &[]);
    expect("d", "5", None);
    peer.publish5("a/b", "6", &[]);
    expect("", "6", Some(1));
    peer.publish5("", "7", &[alias(17)]);
    assert_eq!(peer.parting().0, ReasonCode::TopicAliasInvalid);
    let mut peer = Peer::connect5(at, "p");
    peer.publish5("", "8", &[alias(16)]);
    assert_eq!(peer.parting().0, ReasonCode::ProtocolError);
}

#[test]
fn acknowledgements_say_what_became_of_a_message() {
    let users =
        "authorization { users: [ {user: u, password: p, permissions { publish { deny: denied } } } ] }";
    let server = server("", users);
    let connect = ConnectPacket { user_name: Some("u"), password: Some(b"p"), ..hello5("u") };
    let mut peer = Peer::enter(address(&server), &connect);
    let mut watcher = Peer::enter(address(&server), &ConnectPacket { client_id: "w", ..connect });
    watcher.listen5(&["heard"]);
    for (number, topic, reason) in [
        (2, "heard", ReasonCode::Success),
        // A session that sleeps may want it.
        (3, "unheard", ReasonCode::Success),
        (4, "denied", ReasonCode::NotAuthorized),
    ] {
        let once = PublishPacket { exchange: Exchange::AtLeastOnce(id(1)), ..message(topic, b"x") };
        assert_eq!(peer.exchange5(&ClientPacket::Publish(once)), ("PUBACK", reason), "{topic}");
        let twice = PublishPacket { exchange: Exchange::ExactlyOnce(id(number)), ..message(topic, b"x") };
        assert_eq!(peer.exchange5(&ClientPacket::Publish(twice)), ("PUBREC", reason), "{topic}");
    }
    // A refusal has ended the exchange of QoS 2.
    let release = |number| ClientPacket::PubRel(myelin_mqtt::packet::AckPacket::success(id(number)));
    assert_eq!(peer.exchange5(&release(4)), ("PUBCOMP", ReasonCode::PacketIdNotFound));
    assert_eq!(peer.exchange5(&release(2)), ("PUBCOMP", ReasonCode::Success));
    assert_eq!([watcher.came5().payload, watcher.came5().payload], ["x", "x"]);
}

#[test]
fn a_hundred_receivers_of_both_versions_get_everything() {
    let server = server("", "");
    let at = address(&server);
    let mut receivers: Vec<_> = (0..50)
        .flat_map(|n| {
            let mut three = Peer::connect(at, &format!("3-{n}"));
            three.subscribe(&["a/#"]);
            let mut five = Peer::connect5(at, &format!("5-{n}"));
            // Two filters, one message.
            five.listen5(&["a/#", "a/b"]);
            [three, five]
        })
        .collect();
    let mut publisher = Peer::connect5(at, "p");
    let large = "x".repeat(10_000);
    for payload in ["small", &large] {
        for number in 0..20 {
            publisher.publish5("a/b", &format!("{number} {payload}"), &[Property::User(("n", "1"))]);
        }
    }
    for receiver in &mut receivers {
        for payload in ["small", &large] {
            for number in 0..20 {
                let came = receiver.came5();
                assert_eq!((&*came.topic, came.payload), ("a/b", format!("{number} {payload}")));
            }
        }
        assert!(receiver.barrier().is_empty());
    }
}
