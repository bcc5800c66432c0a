//! Sparkplug B: certificates of births, and the time in deaths that are stored.

use super::peer::{Peer, hello, id, message, will};
use super::peer5::{hello5, with};
use super::stored::Asking;
use super::{address, server, servers};
use crate::eventually;
use myelin_mqtt::packet::{
    ClientPacket, ConnectPacket, Exchange, Property, PublishPacket, Qos, ServerPacket, Will,
};

const CERTIFICATES: &str = "$sparkplug/certificates/#";

fn birth(node: &str) -> String {
    format!("spBv1.0/g/NBIRTH/{node}")
}

/// A certificate as a subscriber gets it.
fn certificate(node: &str, payload: &str, qos: u8) -> String {
    format!("PUBLISH $sparkplug/certificates/{} {payload} q{qos} retain", birth(node))
}

/// Texts of the next packets, in order of text: what is stored has a way of its own.
fn next(peer: &mut Peer, count: usize) -> Vec<String> {
    let came = |_| {
        let (text, number) = peer.came();
        if number > 0 {
            peer.puback(number);
        }
        text
    };
    let mut texts: Vec<_> = (0..count).map(came).collect();
    texts.sort();
    texts
}

/// Payload of the next message.
fn payload(peer: &mut Peer) -> Vec<u8> {
    let payload = peer.with_packet(|packet| match packet {
        ServerPacket::Publish(publish) => publish.payload.to_vec(),
        other => panic!("{other:?}"),
    });
    payload.expect("the connection is open")
}

fn publish_0(peer: &mut Peer, topic: &str, payload: &str, retain: bool) {
    peer.send(&ClientPacket::Publish(PublishPacket { retain, ..message(topic, payload.as_bytes()) }));
}

#[test]
fn births_are_kept_as_certificates() {
    for server in &servers("", "") {
        let mut watcher = Peer::connect(address(server), "watcher");
        watcher.subscribe_with(&[("spBv1.0/#", Qos::AtLeastOnce), (CERTIFICATES, Qos::AtLeastOnce)]);
        let mut node = Peer::connect(address(server), "node");
        publish_0(&mut node, &birth("q0"), "b0", false);
        assert_eq!(
            next(&mut watcher, 2),
            [certificate("q0", "b0", 0), format!("PUBLISH {} b0 q0", birth("q0"))]
        );
        node.publish_1(&birth("q1"), "b1");
        assert_eq!(
            next(&mut watcher, 2),
            [certificate("q1", "b1", 0), format!("PUBLISH {} b1 q1", birth("q1"))]
        );
        node.publish_2(&birth("q2"), "b2");
        assert_eq!(
            next(&mut watcher, 2),
            [certificate("q2", "b2", 0), format!("PUBLISH {} b2 q1", birth("q2"))]
        );
        // One that is to be retained is not, and has no certificate.
        node.retain(&birth("kept"), "k");
        assert_eq!(next(&mut watcher, 1), [format!("PUBLISH {} k q1", birth("kept"))]);
        // An empty one removes the certificate.
        node.publish_1(&birth("gone"), "here");
        next(&mut watcher, 2);
        node.publish_1(&birth("gone"), "");
        assert_eq!(next(&mut watcher, 1), [format!("PUBLISH {}  q1", birth("gone"))]);
        // A will is a message like others.
        let topic = birth("will");
        let left = will(&topic, "w").map(|will| Will { qos: Qos::AtLeastOnce, ..will });
        drop(Peer::enter(address(server), &ConnectPacket { will: left, ..hello("w") }));
        assert_eq!(next(&mut watcher, 2), [certificate("will", "w", 0), format!("PUBLISH {topic} w q1")]);
        let mut asking = Asking::new(server);
        eventually("four are kept", || asking.messages("$MQTT_rmsgs") == 4);
        let mut late = Peer::connect(address(server), "late");
        late.subscribe_with(&[("spBv1.0/#", Qos::AtLeastOnce), (CERTIFICATES, Qos::AtLeastOnce)]);
        let told = next(&mut late, 4);
        let kept = [("q0", "b0", 0), ("q1", "b1", 1), ("q2", "b2", 1), ("will", "w", 1)];
        assert_eq!(told, kept.map(|(node, payload, qos)| certificate(node, payload, qos)));
    }
}

#[test]
fn births_of_mqtt_5_are_kept_as_certificates() {
    let server = server("", "");
    let at = address(&server);
    let mut watcher = Peer::connect(at, "watcher");
    watcher.subscribe(&[CERTIFICATES]);
    let mut node = Peer::connect5(at, "node");
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
        let exchange =
            if qos == Qos::AtMostOnce { Exchange::AtMostOnce } else { Exchange::AtLeastOnce(id(7)) };
        let topic = birth("five");
        node.send(&ClientPacket::Publish(PublishPacket { exchange, ..message(&topic, b"5") }));
        assert_eq!(next(&mut watcher, 1), [certificate("five", "5", 0)]);
    }
    // A will that waits is published by nobody's session.
    let delay = with(&[Property::WillDelay(1)]);
    let expiry = with(&[Property::SessionExpiry(100)]);
    let topic = birth("delayed");
    let left = will(&topic, "d").map(|will| Will { properties: delay.properties(), ..will });
    let connect = ConnectPacket { will: left, properties: expiry.properties(), ..hello5("delayed") };
    drop(Peer::enter(at, &connect));
    assert_eq!(next(&mut watcher, 1), [certificate("delayed", "d", 0)]);
    let mut late = Peer::connect(at, "late");
    eventually("both are kept", || {
        late.unsubscribe(&[CERTIFICATES]);
        late.subscribe(&[CERTIFICATES]);
        late.all_came().len() == 2
    });
}

/// A death that is stored has the time of its delivery; one that is retained stays.
#[test]
fn stored_deaths_have_the_time_of_their_delivery() {
    let topic = "spBv1.0/g/NDEATH/e";
    // Field 1, a varint: 1; field 3: 7.
    let sent = [8, 1, 0x18, 7];
    for server in &servers("", "") {
        let mut watcher = Peer::connect(address(server), "watcher");
        watcher.subscribe_with(&[("spBv1.0/#", Qos::AtLeastOnce)]);
        let mut node = Peer::connect(address(server), "node");
        let exchange = Exchange::AtLeastOnce(id(7));
        let death = PublishPacket { exchange, retain: true, ..message(topic, &sent) };
        assert_eq!(node.exchange(&ClientPacket::Publish(death)), ("PUBACK", 7));
        let came = payload(&mut watcher);
        assert!(came.len() > 6 && came[0] == 8 && came.ends_with(&[0x18, 7]), "{came:?}");
        let mut late = Peer::connect(address(server), "late");
        late.subscribe_with(&[("spBv1.0/#", Qos::AtLeastOnce)]);
        assert_eq!(payload(&mut late), sent);
    }
}
