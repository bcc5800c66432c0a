//! Clients of both versions beside each other: each gets what the other publishes, and takes up
//! what the other has left.

use super::peer::{Peer, hello, lasting, will};
use super::peer5::hello5;
use super::stored::Asking;
use super::{address, cluster, server};
use crate::eventually;
use myelin_mqtt::packet::{ConnectPacket, Property, Qos, ReasonCode, Will};

#[test]
fn messages_of_both_versions_come_to_both_once() {
    let server = server("", "");
    let at = address(&server);
    let (mut three, mut five) = (Peer::connect(at, "3"), Peer::connect5(at, "5"));
    three.subscribe_with(&[("a/#", Qos::ExactlyOnce)]);
    five.listen5(&["a/#"]);
    let mut publisher = Peer::connect5(at, "p5");
    assert_eq!(publisher.send5(("a/1", "1"), (1, false), &[]), ReasonCode::Success);
    assert_eq!(publisher.send5(("a/2", "2"), (2, false), &[Property::User(("a", "b"))]), ReasonCode::Success);
    let mut old = Peer::connect(at, "p3");
    old.publish_1("a/3", "3");
    old.publish_2("a/4", "4");
    for wanted in ["PUBLISH a/1 1 q1", "PUBLISH a/2 2 q2", "PUBLISH a/3 3 q1", "PUBLISH a/4 4 q2"] {
        let (text, number) = three.came();
        assert_eq!(text, wanted);
        if wanted.ends_with('1') { three.puback(number) } else { three.pubrec(number) }
    }
    let all: Vec<_> = five.barrier().into_iter().map(|came| came.payload).collect();
    assert_eq!(all, [b"1", b"2", b"3", b"4"]);
}

#[test]
fn a_session_that_sleeps_gets_what_the_other_version_publishes() {
    let server = server("", "");
    let at = address(&server);
    let mut three = Peer::enter(at, &lasting("3"));
    three.subscribe_with(&[("a", Qos::ExactlyOnce)]);
    three.disconnect();
    three.rest();
    let (mut five, _) = Peer::resume5(at, ("5", true), &[Property::SessionExpiry(1000)]);
    assert_eq!(five.subscribe_with(&[("a", Qos::ExactlyOnce)]), [2]);
    five.quit5(&[]);
    Peer::connect5(at, "p5").send5(("a", "of 5"), (1, false), &[Property::ContentType("t")]);
    Peer::connect(at, "p3").publish_2("a", "of 3");
    let mut three = Peer::enter(at, &lasting("3"));
    assert_eq!([three.came().0, three.came().0], ["PUBLISH a of 5 q1", "PUBLISH a of 3 q2"]);
    let (mut five, is_present) = Peer::resume5(at, ("5", false), &[]);
    assert!(is_present);
    let came = [five.take5(), five.take5()].map(|came| (came.payload, came.qos, came.properties));
    let properties = vec!["ContentType(\"t\")".to_owned()];
    assert_eq!(came, [("of 5".to_owned(), 1, properties), ("of 3".to_owned(), 2, Vec::new())]);
}

#[test]
fn a_message_of_mqtt_5_comes_to_a_reader_of_qos_1_on_another_server() {
    let servers = cluster();
    let mut reader = Peer::connect(address(&servers[1].0), "reader");
    reader.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    let mut publisher = Peer::connect5(address(&servers[0].0), "p");
    publisher.send5(("a", "1"), (1, false), &[]);
    assert_eq!(reader.came().0, "PUBLISH a 1 q1");
    assert_eq!(reader.all_came(), []);
}

#[test]
fn a_will_of_mqtt_5_comes_to_a_reader_of_qos_1() {
    let server = server("", "");
    let mut reader = Peer::connect(address(&server), "reader");
    reader.subscribe_with(&[("gone", Qos::AtLeastOnce)]);
    let will = will("gone", "5").map(|will| Will { qos: Qos::AtLeastOnce, ..will });
    drop(Peer::enter(address(&server), &ConnectPacket { will, ..hello5("5") }));
    assert_eq!(reader.came().0, "PUBLISH gone 5 q1");
}

#[test]
fn a_session_goes_on_in_the_other_version() {
    let server = server("", "");
    let at = address(&server);
    let mut sub = Peer::enter(at, &lasting("id"));
    sub.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    let (mut five, is_present) = Peer::resume5(at, ("id", false), &[Property::SessionExpiry(1000)]);
    assert!(is_present);
    assert_eq!(sub.rest(), b"");
    let mut publisher = Peer::connect(at, "pub");
    publisher.publish_1("a", "1");
    let came = five.came5();
    assert_eq!((&*came.payload, came.qos, came.dup), ("1", 1, false));
    five.quit5(&[]);
    // What it has not acknowledged comes again, with the same number.
    let mut sub = Peer::dial(at);
    assert!(sub.resume(&lasting("id")));
    assert_eq!(sub.came(), ("PUBLISH a 1 q1 dup".to_owned(), came.number));
    sub.puback(came.number);
    assert_eq!(sub.all_came(), []);
    // It lasts like any of version 3.1.1 now.
    let record = Asking::new(&server).last("$MQTT_sess", "$MQTT.sess.>").1;
    assert!(!record.contains("expiry"), "{record}");
}

#[test]
fn a_clean_session_leaves_nothing_to_a_client_of_mqtt_5() {
    let server = server("", "");
    let at = address(&server);
    let mut sub = Peer::enter(at, &hello("id"));
    sub.subscribe_with(&[("a", Qos::ExactlyOnce)]);
    let mut asking = Asking::new(&server);
    let (five, is_present) = Peer::resume5(at, ("id", false), &[]);
    assert!(!is_present);
    assert_eq!(sub.rest(), b"");
    let mut consumers =
        || ["$MQTT_msgs", "$MQTT_out"].map(|stream| asking.state(stream)["consumer_count"].clone());
    eventually("the consumers are removed", || consumers() == [0, 0]);
    five.quit5(&[]);
    let mut asking = Asking::new(&server);
    eventually("so is the record", || asking.messages("$MQTT_sess") == 0);
}

#[test]
fn a_session_goes_on_in_the_other_version_on_another_server() {
    let servers = cluster();
    let [one, two] = [&servers[0].0, &servers[1].0].map(address);
    let mut three = Peer::dial(one);
    assert!(!three.resume(&lasting("id")));
    three.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    let (mut five, is_present) = Peer::resume5(two, ("id", false), &[Property::SessionExpiry(1000)]);
    assert!(is_present);
    assert_eq!(three.rest(), b"");
    Peer::connect(one, "pub").publish_1("a", "1");
    let came = five.came5();
    assert_eq!((&*came.payload, came.qos), ("1", 1));
    let mut three = Peer::dial(one);
    assert!(three.resume(&lasting("id")));
    assert_eq!(five.parting().0, ReasonCode::SessionTakenOver);
    assert_eq!(three.came(), ("PUBLISH a 1 q1 dup".to_owned(), came.number));
}
