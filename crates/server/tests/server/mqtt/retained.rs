//! Retained messages: who gets them, and how long they live.

use super::peer::{Peer, hello, id, lasting};
use super::stored::Asking;
use super::{address, server, servers};
use crate::eventually;
use myelin_mqtt::packet::{
    ClientPacket, ConnectPacket, Properties, ProtocolLevel, Qos, ServerPacket, SubscribeFilters,
    SubscribeOptions, SubscribePacket,
};

/// Messages that a subscription begins with, without numbers and in order.
fn told(peer: &mut Peer, filter: &str, qos: Qos) -> Vec<String> {
    let mut told = Vec::new();
    eventually("what is retained has come", || {
        peer.unsubscribe(&[filter]);
        peer.subscribe_with(&[(filter, qos)]);
        told = peer.all_came().into_iter().map(|(text, _)| text).collect();
        !told.is_empty()
    });
    told.sort();
    told
}

#[test]
fn a_subscriber_gets_the_last_message_of_each_topic() {
    for server in &servers("", "") {
        let mut peer = Peer::connect(address(server), "writer");
        for (topic, payload) in
            [("a/b", "old"), ("a/b", "new"), ("a", "above"), ("a//x.y", "odd"), ("$own", "own"), ("b", "b")]
        {
            peer.retain(topic, payload);
        }
        let mut sub = Peer::connect(address(server), "reader");
        let q0 = Qos::AtMostOnce;
        let shown = |list: &[&str]| -> Vec<String> {
            list.iter().map(|what| format!("PUBLISH {what} q0 retain")).collect()
        };
        assert_eq!(told(&mut sub, "a/b", q0), shown(&["a/b new"]));
        assert_eq!(told(&mut sub, "a/#", q0), shown(&["a above", "a//x.y odd", "a/b new"]));
        // nats-server forgets here that a wildcard at the beginning leaves `$own` out.
        let mut at_first_level = told(&mut sub, "+", q0);
        at_first_level.retain(|text| !server.is_reference || !text.contains("$own"));
        assert_eq!(at_first_level, shown(&["a above", "b b"]));
        assert_eq!(told(&mut sub, "$own", q0), shown(&["$own own"]));
        assert_eq!(told(&mut sub, "a/b", Qos::AtLeastOnce), ["PUBLISH a/b new q1 retain"]);
        // Who listens already gets it without the flag.
        sub.unsubscribe(&["a/b", "a/#", "+", "$own"]);
        sub.subscribe(&["live"]);
        peer.retain("live", "now");
        assert_eq!(sub.came().0, "PUBLISH live now q0");
        peer.retain("a/b", "");
        eventually("it is removed", || {
            sub.unsubscribe(&["a/#"]);
            sub.subscribe(&["a/#"]);
            let told: Vec<_> = sub.all_came().into_iter().map(|(text, _)| text).collect();
            !told.is_empty() && !told.iter().any(|text| text.contains("a/b"))
        });
        let mut asking = Asking::new(server);
        eventually("its record is gone", || asking.messages("$MQTT_rmsgs") == 5);
    }
}

#[test]
fn retained_messages_outlive_the_server() {
    let mut server = server("", "");
    let mut peer = Peer::connect(address(&server), "writer");
    peer.retain("kept", "still here");
    peer.retain("gone", "x");
    peer.retain("gone", "");
    server.server.restart();
    let mut sub = Peer::connect(address(&server), "reader");
    assert_eq!(told(&mut sub, "#", Qos::AtMostOnce), ["PUBLISH kept still here q0 retain"]);
}

#[test]
fn what_is_changed_by_the_api_is_changed_for_subscribers() {
    let server = server("", "");
    let mut peer = Peer::connect(address(&server), "writer");
    peer.retain("x/1", "one");
    peer.retain("x/2", "two");
    let mut sub = Peer::connect(address(&server), "reader");
    assert_eq!(told(&mut sub, "x/#", Qos::AtMostOnce).len(), 2);
    let mut asking = Asking::new(&server);
    let answer = asking.ask("STREAM.MSG.DELETE.$MQTT_rmsgs", r#"{"seq":1}"#);
    assert_eq!(answer["success"], true);
    assert_eq!(told(&mut sub, "x/#", Qos::AtMostOnce), ["PUBLISH x/2 two q0 retain"]);
}

#[test]
fn a_stream_that_nats_server_has_made_is_read() {
    let server = server("", "");
    let mut asking = Asking::new(&server);
    let config = r#"{"name":"$MQTT_rmsgs","subjects":["$MQTT.rmsgs.>"],"retention":"limits","storage":"file",
        "num_replicas":1,"max_msgs_per_subject":1,"discard":"old","allow_direct":false}"#;
    let made = asking.ask("STREAM.CREATE.$MQTT_rmsgs", &config.replace('\n', ""));
    assert_eq!(made["did_create"], true, "{made}");
    Peer::connect(address(&server), "writer").retain("old", "x");
    let mut sub = Peer::connect(address(&server), "reader");
    assert_eq!(told(&mut sub, "old", Qos::AtMostOnce), ["PUBLISH old x q0 retain"]);
}

#[test]
fn more_are_retained_than_are_read_at_once() {
    let server = server("", "");
    let mut peer = Peer::connect(address(&server), "writer");
    (0..600).for_each(|number| peer.retain(&format!("many/{number}"), "x"));
    let mut sub = Peer::connect(address(&server), "reader");
    sub.subscribe(&["many/+"]);
    let mut topics: Vec<_> = (0..600).map(|_| sub.came().0).collect();
    topics.sort();
    topics.dedup();
    assert_eq!(topics.len(), 600);
}

#[test]
fn permissions_are_asked_for_each_of_them() {
    let users = "authorization { users: [
        {user: w, password: p},
        {user: r, password: p, permissions { subscribe { deny: \"secret.>\" } } } ] }";
    for server in &servers("", users) {
        let login = |user| ConnectPacket { user_name: Some(user), password: Some(b"p"), ..hello(user) };
        let mut writer = Peer::enter(address(server), &login("w"));
        writer.retain("secret/x", "no");
        writer.retain("open/x", "yes");
        let mut reader = Peer::enter(address(server), &login("r"));
        assert_eq!(told(&mut reader, "#", Qos::AtMostOnce), ["PUBLISH open/x yes q0 retain"]);
    }
}

#[test]
fn a_session_that_comes_back_is_not_told_again() {
    for server in &servers("", "") {
        Peer::connect(address(server), "writer").retain("again", "x");
        let mut sub = Peer::dial(address(server));
        sub.resume(&lasting("sub"));
        assert_eq!(told(&mut sub, "again", Qos::AtMostOnce), ["PUBLISH again x q0 retain"]);
        sub.disconnect();
        sub.rest();
        let mut sub = Peer::dial(address(server));
        assert!(sub.resume(&lasting("sub")));
        assert_eq!(sub.all_came(), []);
    }
}

#[test]
fn thousands_of_retained_messages_come_at_the_pace_of_the_reader() {
    let server = server("", "max_payload: 64KB\nmax_pending: 256KB\n");
    let mut peer = Peer::connect(address(&server), "writer");
    let payload = "x".repeat(8 * 1024);
    for number in 0..2000 {
        peer.retain(&format!("many/{number}/x"), &payload);
    }
    for filter in ["#", "many/+/x", "many/7/+"] {
        let mut sub = Peer::connect(address(&server), "reader");
        let mut bytes = Vec::new();
        let mut raw = Vec::new();
        SubscribeFilters::push(filter, SubscribeOptions::default(), &mut raw);
        let filters = SubscribeFilters::of(&raw);
        let packet = SubscribePacket { packet_id: id(1), properties: Properties::EMPTY, filters };
        ClientPacket::Subscribe(packet).encode(ProtocolLevel::V3, &mut bytes);
        sub.send_bytes(&bytes);
        // Another client gets its answers, and the reader nothing that it did not read.
        (0..50).for_each(|_| assert!(peer.barrier().is_empty()));
        let expected = if filter == "many/7/+" { 1 } else { 2000 };
        assert_eq!(sub.with_packet(|packet| matches!(packet, ServerPacket::SubAck(_))), Some(true));
        let mut topics: Vec<String> = (0..expected).map(|_| sub.message().topic).collect();
        topics.sort();
        topics.dedup();
        assert_eq!(topics.len(), expected, "{filter}");
        assert!(sub.barrier().is_empty(), "{filter}");
    }
}
