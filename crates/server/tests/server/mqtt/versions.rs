//! Clients of both versions beside each other: nothing of MQTT 5 is stored, and what is stored of
//! 3.1.1 is none of its business.

use super::peer::{Peer, hello, id, lasting, message, publish_1, will};
use super::peer5::hello5;
use super::stored::Asking;
use super::{address, cluster, server};
use crate::eventually;
use crate::raw::Raw;
use myelin_mqtt::packet::{ClientPacket, ConnectPacket, Exchange, PublishPacket, Qos, ReasonCode, Will};

#[test]
fn messages_of_both_versions_come_to_both_once() {
    let server = server("", "");
    let at = address(&server);
    let (mut three, mut five) = (Peer::connect(at, "3"), Peer::connect5(at, "5"));
    three.subscribe_with(&[("a/#", Qos::ExactlyOnce)]);
    five.listen5(&["a/#"]);
    let mut publisher = Peer::connect5(at, "p5");
    let once = PublishPacket { exchange: Exchange::ExactlyOnce(id(8)), ..message("a/2", b"2") };
    assert_eq!(publisher.exchange5(&publish_1("a/1", "1")), ("PUBACK", ReasonCode::Success));
    assert_eq!(publisher.exchange5(&ClientPacket::Publish(once)), ("PUBREC", ReasonCode::Success));
    let mut old = Peer::connect(at, "p3");
    old.publish_1("a/3", "3");
    old.publish_2("a/4", "4");
    // What a client of MQTT 5 publishes is not stored, so it comes live.
    assert_eq!([three.came().0, three.came().0], ["PUBLISH a/1 1 q0", "PUBLISH a/2 2 q0"]);
    for wanted in ["PUBLISH a/3 3 q1", "PUBLISH a/4 4 q2"] {
        let (text, number) = three.came();
        assert_eq!(text, wanted);
        if wanted.ends_with('1') { three.puback(number) } else { three.pubrec(number) }
    }
    let all: Vec<_> = five.barrier().into_iter().map(|came| came.payload).collect();
    assert_eq!(all, [b"1", b"2", b"3", b"4"]);
}

#[test]
fn a_message_of_mqtt_5_comes_to_a_reader_of_qos_1_on_another_server() {
    let servers = cluster();
    let mut reader = Peer::connect(address(&servers[1].0), "reader");
    reader.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    let mut publisher = Peer::connect5(address(&servers[0].0), "p");
    eventually("the subscription is known there", || {
        publisher.exchange5(&publish_1("a", "1")) == ("PUBACK", ReasonCode::Success)
    });
    assert_eq!(reader.came().0, "PUBLISH a 1 q0");
}

#[test]
fn a_will_of_mqtt_5_comes_to_a_reader_of_qos_1() {
    let server = server("", "");
    let mut reader = Peer::connect(address(&server), "reader");
    reader.subscribe_with(&[("gone", Qos::AtLeastOnce)]);
    let will = will("gone", "5").map(|will| Will { qos: Qos::AtLeastOnce, ..will });
    drop(Peer::enter(address(&server), &ConnectPacket { will, ..hello5("5") }));
    assert_eq!(reader.came().0, "PUBLISH gone 5 q0");
}

#[test]
fn a_session_that_lasts_outlives_a_client_of_mqtt_5_with_its_id() {
    let server = server("", "");
    let at = address(&server);
    let mut sub = Peer::enter(at, &lasting("id"));
    sub.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    let mut five = Peer::dial(at);
    assert!(!five.resume(&ConnectPacket { clean: false, ..hello5("id") }));
    assert_eq!(sub.rest(), b"");
    Peer::connect(at, "pub").publish_1("a", "1");
    // It has no subscription, and nothing of the session's.
    assert!(five.barrier().is_empty());
    five.disconnect();
    five.rest();
    let mut sub = Peer::dial(at);
    assert!(sub.resume(&lasting("id")));
    assert_eq!(sub.came().0, "PUBLISH a 1 q1");
}

#[test]
fn a_clean_session_leaves_nothing_to_a_client_of_mqtt_5() {
    let server = server("", "");
    let at = address(&server);
    let mut sub = Peer::enter(at, &hello("id"));
    sub.subscribe_with(&[("a", Qos::ExactlyOnce)]);
    let mut asking = Asking::new(&server);
    assert_eq!(asking.messages("$MQTT_sess"), 1);
    let _five = Peer::connect5(at, "id");
    assert_eq!(sub.rest(), b"");
    eventually("record and consumers are removed", || {
        let consumers = ["$MQTT_msgs", "$MQTT_out"].map(|stream| asking.state(stream)["consumer_count"] == 0);
        asking.messages("$MQTT_sess") == 0 && consumers == [true, true]
    });
}

#[test]
fn a_client_of_mqtt_5_needs_no_streams() {
    let server = server("", "");
    let mut five = Peer::connect5(address(&server), "5");
    five.listen5(&["a"]);
    Raw::connect(&server).publish("a", "hi");
    assert_eq!(five.came5().payload, "hi");
    let streams = Asking::new(&server).ask("STREAM.NAMES", "");
    assert_eq!(streams["total"], 0, "{streams}");
}
