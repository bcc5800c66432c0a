//! Connections of MQTT 5: CONNACK, the reasons with which they end, and what is not granted.

use super::peer::{Peer, hello, id, message, will};
use super::peer5::{hello5, with};
use super::{address, server, servers, start};
use crate::process::Setup;
use myelin_mqtt::packet::{
    AckPacket, AuthPacket, ClientPacket, ConnectPacket, Exchange, Properties, Property, PublishPacket,
    ReasonCode, Will,
};
use rustix::process::Signal;
use std::num::{NonZeroU16, NonZeroU32};
use std::time::{Duration, Instant};

#[test]
fn without_5_in_its_protocols_it_is_refused_as_by_nats_server() {
    let ours = server("protocols: [3]", "");
    let reference = servers("", "").into_iter().skip(1);
    for server in [ours].into_iter().chain(reference) {
        let mut peer = Peer::dial(address(&server));
        peer.send_bytes(&[0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 0, 0, 0, 0]);
        assert_eq!(peer.rest(), [0x20, 2, 0, 1]);
        server.wait_for_log("unacceptable protocol version of 5");
    }
}

#[test]
fn a_connack_says_what_is_granted() {
    let server = server("", "max_payload: 1000");
    let at = address(&server);
    let common = ["ReceiveMaximum(1024)", "MaximumPacketSize(66544)"];
    let greet = |client_id, properties: &[_]| Peer::dial(at).greet5(&hello5(client_id), properties);
    let (reason, said) = greet("a", &[]);
    assert_eq!((reason, &said[..2]), (ReasonCode::Success, &common.map(str::to_owned)[..]));
    assert_eq!(said[2..], ["TopicAliasMaximum(16)"]);
    // An expiry that is granted as it is asked for is not said.
    assert_eq!(greet("b", &[Property::SessionExpiry(10)]).1, said);
    let (_, said) = greet("", &[]);
    let assigned = said.iter().find_map(|said| said.strip_prefix("AssignedClientId(\"")).expect("an id");
    assert_eq!(assigned.len(), 22 + "\")".len());
}

#[test]
fn a_connack_says_that_qos_2_is_rejected() {
    let server = server("reject_qos2_publish: true", "");
    let mut peer = Peer::dial(address(&server));
    let (reason, said) = peer.greet5(&hello5("q"), &[]);
    assert_eq!(reason, ReasonCode::Success);
    assert!(said.contains(&"MaximumQos(AtLeastOnce)".to_owned()), "{said:?}");
    peer.send(&ClientPacket::Publish(PublishPacket {
        exchange: Exchange::ExactlyOnce(id(1)),
        ..message("a", b"")
    }));
    assert_eq!(peer.parting().0, ReasonCode::QosNotSupported);
}

#[test]
fn a_connect_is_refused_with_a_reason() {
    let users = "authorization { users: [ {user: u, password: p} ] }";
    let server = server("", users);
    let connect = ConnectPacket { user_name: Some("u"), password: Some(b"p"), ..hello5("c") };
    for (connect, properties, reason) in [
        (ConnectPacket { password: Some(b"q"), ..connect }, &[][..], ReasonCode::BadUserNameOrPassword),
        (hello5("c"), &[], ReasonCode::NotAuthorized),
        (connect, &[Property::AuthMethod("SCRAM-SHA-1")], ReasonCode::BadAuthenticationMethod),
        (ConnectPacket { client_id: "a b", ..connect }, &[], ReasonCode::ClientIdNotValid),
    ] {
        let mut peer = Peer::dial(address(&server));
        assert_eq!(peer.greet5(&connect, properties).0, reason, "{connect:?}");
        assert_eq!(peer.rest(), b"");
    }
    // A number that is there twice.
    let mut peer = Peer::dial(address(&server));
    let twice = [Property::ReceiveMaximum(NonZeroU16::MIN), Property::ReceiveMaximum(NonZeroU16::MIN)];
    assert_eq!(peer.greet5(&connect, &twice).0, ReasonCode::ProtocolError);
    assert_eq!(peer.rest(), b"");
}

#[test]
fn a_full_account_says_so() {
    let server = server(
        "",
        "max_connections: 5\naccounts { A { jetstream: enabled, users: [{user: a, password: p}], limits { max_connections: 1 } } }",
    );
    let connect =
        |client_id| ConnectPacket { user_name: Some("a"), password: Some(b"p"), ..hello5(client_id) };
    let _one = Peer::enter(address(&server), &connect("1"));
    let mut two = Peer::dial(address(&server));
    assert_eq!(two.greet5(&connect("2"), &[]).0, ReasonCode::QuotaExceeded);
    assert_eq!(two.rest(), b"");
}

#[test]
fn the_end_of_a_connection_has_a_reason() {
    let server = server("", "max_payload: 1000");
    let at = address(&server);
    let auth = AuthPacket { reason: ReasonCode::ReAuthenticate, properties: Properties::EMPTY };
    let large = vec![b'x'; 1001];
    let huge = vec![b'x'; 70_000];
    for (packet, reason) in [
        (ClientPacket::Auth(auth), ReasonCode::BadAuthenticationMethod),
        (ClientPacket::Connect(hello5("again")), ReasonCode::ProtocolError),
        (ClientPacket::Publish(message("a", &large)), ReasonCode::PacketTooLarge),
        (ClientPacket::Publish(message("a", &huge)), ReasonCode::PacketTooLarge),
        (ClientPacket::Publish(message("a/+", b"")), ReasonCode::TopicNameInvalid),
    ] {
        let mut peer = Peer::connect5(at, "ending");
        peer.send(&packet);
        assert_eq!(peer.parting().0, reason, "{packet:?}");
    }
    for (bytes, reason) in [
        (&[0u8, 0][..], ReasonCode::MalformedPacket),
        (&[0x30, 0x80, 0x80, 0x80, 0x80, 1], ReasonCode::MalformedPacket),
        (&[0x36, 0], ReasonCode::MalformedPacket),
        (&[0xd0, 0], ReasonCode::ProtocolError),
        // An alias of 0, and a PUBLISH with neither topic nor alias.
        (&[0x30, 6, 0, 0, 3, 0x23, 0, 0], ReasonCode::TopicAliasInvalid),
        (&[0x30, 3, 0, 0, 0], ReasonCode::ProtocolError),
    ] {
        let mut peer = Peer::connect5(at, "ending");
        peer.send_bytes(bytes);
        assert_eq!(peer.parting().0, reason, "{bytes:x?}");
    }
}

#[test]
fn whoever_loses_its_client_id_is_told() {
    let server = server("", "");
    let at = address(&server);
    let mut first = Peer::connect5(at, "fought");
    let mut second = Peer::connect5(at, "fought");
    assert_eq!(first.parting(), (ReasonCode::SessionTakenOver, Vec::new()));
    // Two that fight are slowed down.
    let mut third = Peer::dial(at);
    assert_eq!(third.greet5(&hello5("fought"), &[]).0, ReasonCode::ServerBusy);
    assert_eq!(third.rest(), b"");
    second.barrier();
}

#[test]
fn whoever_is_silent_for_too_long_is_told() {
    let server = server("", "");
    let mut watcher = Peer::connect(address(&server), "watcher");
    watcher.subscribe(&["gone"]);
    let connect = ConnectPacket { keep_alive: 1, will: will("gone", "silent"), ..hello5("silent") };
    let mut peer = Peer::enter(address(&server), &connect);
    let begin = Instant::now();
    assert_eq!(peer.parting().0, ReasonCode::KeepAliveTimeout);
    assert!(begin.elapsed() >= Duration::from_millis(950), "{:?}", begin.elapsed());
    assert_eq!(watcher.message().shown(), ("gone", "silent"));
}

#[test]
fn a_client_may_leave_its_will() {
    let server = server("", "");
    let at = address(&server);
    let mut watcher = Peer::connect5(at, "watcher");
    watcher.listen5(&["wills/#"]);
    let properties =
        with(&[Property::User(("a", "1")), Property::WillDelay(100), Property::ContentType("t")]);
    let enter = |topic| {
        let will = will(topic, "bye").map(|will| Will { properties: properties.properties(), ..will });
        Peer::enter(at, &ConnectPacket { will, ..hello5("leaver") })
    };
    let mut polite = enter("wills/polite");
    polite.leave5(ReasonCode::Success, &[]);
    assert_eq!(polite.rest(), b"");
    let mut asking = enter("wills/asking");
    asking.leave5(ReasonCode::DisconnectWithWill, &[]);
    assert_eq!(asking.rest(), b"");
    // A session ends with its connection, and then the will is due, whatever its delay.
    let came = watcher.came5();
    assert_eq!((&*came.topic, &*came.payload), ("wills/asking", "bye"));
    assert_eq!(came.properties, ["User((\"a\", \"1\"))", "ContentType(\"t\")"]);
    let mut reviving = enter("wills/reviving");
    reviving.leave5(ReasonCode::Success, &[Property::SessionExpiry(5)]);
    assert_eq!(reviving.parting().0, ReasonCode::ProtocolError);
    assert_eq!(watcher.came5().topic, "wills/reviving");
}

#[test]
fn a_server_that_ends_says_so_and_names_others() {
    let server = server("", "");
    let mut peer = Peer::connect5(address(&server), "p");
    server.signal(Signal::TERM);
    assert_eq!(peer.parting(), (ReasonCode::ServerShuttingDown, Vec::new()));
    let lame = "lame_duck_duration: 30s, lame_duck_grace_period: 1s";
    let server = start(Setup::default().flags(&["-DV"]), "server_reference: \"other:1883\"", lame);
    let mut peer = Peer::connect5(address(&server), "p");
    server.signal(Signal::USR2);
    let named = vec!["ServerReference(\"other:1883\")".to_owned()];
    assert_eq!(peer.parting(), (ReasonCode::UseAnotherServer, named));
}

#[test]
fn messages_of_qos_2_under_way_are_counted() {
    let server = server("", "");
    let mut peer = Peer::connect5(address(&server), "greedy");
    let publish = |number| {
        ClientPacket::Publish(PublishPacket {
            exchange: Exchange::ExactlyOnce(id(number)),
            ..message("a", b"")
        })
    };
    for number in 1..=1024 {
        assert_eq!(peer.exchange5(&publish(number)), ("PUBREC", ReasonCode::Success));
    }
    // One that is under way already may come again.
    assert_eq!(peer.exchange5(&publish(1)).0, "PUBREC");
    let release = |number| ClientPacket::PubRel(AckPacket::success(id(number)));
    assert_eq!(peer.exchange5(&release(1)), ("PUBCOMP", ReasonCode::Success));
    assert_eq!(peer.exchange5(&release(1)), ("PUBCOMP", ReasonCode::PacketIdNotFound));
    assert_eq!(peer.exchange5(&publish(2000)).0, "PUBREC");
    peer.send(&publish(2001));
    assert_eq!(peer.parting().0, ReasonCode::ReceiveMaximumExceeded);
}

#[test]
fn packets_are_as_small_as_a_client_wants_them() {
    let server = server("", "");
    let at = address(&server);
    let mut small = Peer::dial(at);
    let size = NonZeroU32::new(30).map(Property::MaximumPacketSize);
    assert_eq!(small.greet5(&hello5("small"), size.as_slice()).0, ReasonCode::Success);
    small.listen5(&["t"]);
    let mut publisher = Peer::enter(at, &hello("publisher"));
    // First byte, length, topic with its length, length of the properties.
    publisher.publish("t", &"x".repeat(30 - 6 + 1));
    publisher.publish("t", &"y".repeat(30 - 6));
    assert_eq!(small.came5().payload, "y".repeat(24));
}
