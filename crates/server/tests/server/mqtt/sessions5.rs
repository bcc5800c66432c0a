//! Sessions of MQTT 5: how long they last, who takes them up, and what is on its way to them.

use super::peer::{Peer, id, message};
use super::peer5::hello5;
use super::stored::Asking;
use super::{address, cluster, server};
use crate::eventually;
use crate::raw::Raw;
use myelin_mqtt::packet::{
    AckPacket, ClientPacket, ConnectPacket, Exchange, Property, ProtocolLevel, PublishPacket, Qos,
    ReasonCode, ServerPacket, SubscribeOptions,
};
use myelin_mqtt::records::session_hash;
use serde_json::{Value, json};
use std::io::Write;
use std::num::{NonZeroU16, NonZeroU32};

const LONG: Property<'static> = Property::SessionExpiry(1000);

fn receive_max(max: u16) -> Property<'static> {
    Property::ReceiveMaximum(NonZeroU16::new(max).expect("not zero"))
}

fn record(asking: &mut Asking) -> (String, Value) {
    let (headers, json) = asking.last("$MQTT_sess", "$MQTT.sess.>");
    (headers, serde_json::from_str(&json).unwrap_or_default())
}

#[test]
fn a_session_lasts_as_long_as_its_client_wants() {
    let server = server("", "");
    let at = address(&server);
    let (mut sub, is_present) = Peer::resume5(at, ("s", false), &[LONG]);
    assert!(!is_present);
    assert_eq!(sub.subscribe_with(&[("a/#", Qos::ExactlyOnce)]), [2]);
    let mut asking = Asking::new(&server);
    let (headers, before) = record(&mut asking);
    assert_eq!(
        (headers.contains("Nats-TTL"), &before["expiry"], &before["ends"]),
        (false, &json!(1000), &Value::Null)
    );
    sub.quit5(&[]);
    // From then on it is known when it ends, to the stream and to its consumers.
    eventually("the end is written", || record(&mut asking).1["ends"].is_u64());
    assert!(record(&mut asking).0.contains("Nats-TTL: 1000s"));
    let consumers = asking.ask("CONSUMER.LIST.$MQTT_msgs", "");
    assert_eq!(
        consumers["consumers"][0]["config"]["inactive_threshold"], 1_060_000_000_000_u64,
        "{consumers}"
    );
    let mut publisher = Peer::connect5(at, "p");
    publisher.send5(("a/b", "1"), (1, false), &[]);
    publisher.send5(("a", "2"), (2, false), &[]);
    let (mut sub, is_present) = Peer::resume5(at, ("s", false), &[LONG]);
    assert!(is_present);
    assert_eq!(record(&mut asking).1["ends"], Value::Null);
    assert_eq!(
        [sub.take5(), sub.take5()].map(|came| (came.payload, came.qos)),
        [("1".into(), 1), ("2".into(), 2)]
    );
    sub.quit5(&[]);
    // One that begins anew has nothing of it.
    let (mut sub, is_present) = Peer::resume5(at, ("s", true), &[]);
    assert!(!is_present);
    publisher.send5(("a", "3"), (1, false), &[]);
    assert!(sub.barrier().is_empty());
    sub.quit5(&[]);
    eventually("nothing is left", || {
        asking.messages("$MQTT_msgs") == 0 && asking.state("$MQTT_msgs")["consumer_count"] == 0
    });
}

#[test]
fn a_session_ends_by_itself() {
    let server = server("", "");
    let at = address(&server);
    let mut asking = Asking::new(&server);
    let (mut sub, _) = Peer::resume5(at, ("s", false), &[Property::SessionExpiry(1)]);
    sub.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    sub.quit5(&[]);
    eventually("the record is gone", || asking.messages("$MQTT_sess") == 0);
    let (mut sub, is_present) = Peer::resume5(at, ("s", false), &[Property::SessionExpiry(1)]);
    assert!(!is_present);
    // A client that leaves may say another time.
    sub.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    sub.quit5(&[Property::SessionExpiry(u32::MAX)]);
    eventually("the record says it", || record(&mut asking).1["expiry"] == u32::MAX);
    assert!(!record(&mut asking).0.contains("TTL"));
    let consumers = asking.ask("CONSUMER.LIST.$MQTT_msgs", "")["consumers"].clone();
    let thresholds: Vec<_> = consumers
        .as_array()
        .expect("a list")
        .iter()
        .map(|c| c["config"]["inactive_threshold"].clone())
        .collect();
    assert!(thresholds.contains(&Value::Null), "{thresholds:?}");
    let (sub, is_present) = Peer::resume5(at, ("s", false), &[LONG]);
    assert!(is_present);
    sub.quit5(&[Property::SessionExpiry(0)]);
    eventually("it is gone at once", || asking.messages("$MQTT_sess") == 0);
    assert!(!Peer::resume5(at, ("s", false), &[]).1);
}

#[test]
fn a_session_is_taken_over_on_another_server() {
    let servers = cluster();
    let [one, two] = [&servers[0].0, &servers[1].0].map(address);
    let (mut first, _) = Peer::resume5(one, ("same", false), &[LONG]);
    let options = SubscribeOptions { max_qos: Qos::AtLeastOnce, ..SubscribeOptions::default() };
    assert_eq!(first.subscribe5(&[("take/over", options)], Some(5)), [1]);
    let mut publisher = Peer::connect5(two, "pub");
    publisher.send5(("take/over", "x"), (1, false), &[Property::User(("k", "v"))]);
    let came = first.came5();
    let (mut second, is_present) = Peer::resume5(two, ("same", false), &[LONG]);
    assert!(is_present);
    assert_eq!(first.parting().0, ReasonCode::SessionTakenOver);
    let again = second.take5();
    assert_eq!((again.dup, again.number, again.properties), (true, came.number, came.properties.clone()));
    assert_eq!(came.properties, ["User((\"k\", \"v\"))", "SubscriptionId(SubscriptionId(5))"]);
    publisher.send5(("take/over", "y"), (1, false), &[]);
    assert_eq!(second.take5().payload, "y");
}

#[test]
fn a_client_gets_no_more_than_its_receive_maximum() {
    let server = server("", "");
    let at = address(&server);
    let mut publisher = Peer::connect5(at, "p");
    for number in 0..3 {
        publisher.send5((&format!("kept/{number}"), "r"), (1, true), &[]);
    }
    let (mut sub, _) = Peer::resume5(at, ("s", true), &[receive_max(2)]);
    sub.subscribe_with(&[("kept/+", Qos::AtLeastOnce)]);
    let two = [sub.came5(), sub.came5()];
    assert!(sub.barrier().is_empty());
    sub.puback(two[0].number);
    let third = sub.came5();
    assert!(third.retain && two.iter().all(|came| came.retain));
    [two[1].number, third.number].into_iter().for_each(|number| sub.puback(number));
    sub.subscribe_with(&[("a", Qos::ExactlyOnce)]);
    for payload in ["1", "2", "3", "4"] {
        publisher.send5(("a", payload), (2, false), &[]);
    }
    let (one, two) = (sub.came5(), sub.came5());
    assert_eq!((&*one.payload, &*two.payload), ("1", "2"));
    // An exchange of QoS 2 counts to its end.
    sub.pubrec(one.number);
    assert_eq!(sub.came(), ("PUBREL".to_owned(), one.number));
    assert_eq!(sub.all_came(), []);
    sub.pubcomp(one.number);
    assert_eq!(sub.came5().payload, "3");
    // One that the client does not want is over with that.
    let refusal = AckPacket { reason: ReasonCode::QuotaExceeded, ..AckPacket::success(id(two.number)) };
    sub.send(&ClientPacket::PubRec(refusal));
    assert_eq!(sub.take5().payload, "4");
}

#[test]
fn stored_messages_that_are_too_long_for_a_client_are_left_out() {
    let server = server("", "");
    let at = address(&server);
    let small = NonZeroU32::new(60).map(Property::MaximumPacketSize);
    let (mut sub, _) = Peer::resume5(at, ("s", true), small.as_slice());
    sub.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    let mut publisher = Peer::connect5(at, "p");
    publisher.send5(("a", &"x".repeat(60)), (1, false), &[]);
    publisher.send5(("a", "short"), (1, false), &[Property::User(("long", &"y".repeat(60)))]);
    publisher.send5(("a", "short"), (1, false), &[]);
    assert_eq!(sub.take5().payload, "short");
    assert_eq!(sub.all_came(), []);
    let mut asking = Asking::new(&server);
    eventually("they count as delivered", || asking.messages("$MQTT_msgs") == 0);
}

#[test]
fn nothing_is_sent_twice_to_one_connection() {
    let server = server("ack_wait: 1s", "");
    let (mut sub, _) = Peer::resume5(address(&server), ("s", true), &[]);
    sub.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    Peer::connect5(address(&server), "p").send5(("a", "1"), (1, false), &[]);
    let came = sub.came5();
    let mut asking = Asking::new(&server);
    eventually("the consumer has delivered it again", || {
        let consumers = asking.ask("CONSUMER.LIST.$MQTT_msgs", "");
        consumers["consumers"][0]["num_redelivered"].as_u64().is_some_and(|number| number > 0)
    });
    assert_eq!(sub.all_came(), []);
    sub.puback(came.number);
    eventually("it has the acknowledgement", || asking.messages("$MQTT_msgs") == 0);
}

#[test]
fn unreleased_messages_end_with_their_session() {
    let server = server("", "");
    let at = address(&server);
    let held = PublishPacket { exchange: Exchange::ExactlyOnce(id(3)), ..message("a", b"old") };
    let release = ClientPacket::PubRel(AckPacket::success(id(3)));
    let mut asking = Asking::new(&server);
    let (mut peer, _) = Peer::resume5(at, ("p", true), &[LONG]);
    assert_eq!(peer.exchange5(&ClientPacket::Publish(held)).0, "PUBREC");
    peer.quit5(&[]);
    // The session goes on, and what was held is released.
    let mut watcher = Peer::connect5(at, "w");
    watcher.listen5(&["a"]);
    let (mut peer, is_present) = Peer::resume5(at, ("p", false), &[LONG]);
    assert!(is_present);
    assert_eq!(peer.exchange5(&release), ("PUBCOMP", ReasonCode::Success));
    assert_eq!(watcher.came5().payload, "old");
    assert_eq!(peer.exchange5(&ClientPacket::Publish(held)).0, "PUBREC");
    peer.quit5(&[]);
    // Another session begins.
    assert_eq!(asking.messages("$MQTT_qos2in"), 1);
    let (mut peer, _) = Peer::resume5(at, ("p", true), &[]);
    assert_eq!(asking.messages("$MQTT_qos2in"), 0);
    assert_eq!(peer.exchange5(&release), ("PUBCOMP", ReasonCode::PacketIdNotFound));
    assert!(watcher.barrier().is_empty());
    // One that ends with its connection takes them along.
    assert_eq!(peer.exchange5(&ClientPacket::Publish(held)).0, "PUBREC");
    peer.quit5(&[]);
    eventually("nothing is held", || asking.messages("$MQTT_qos2in") == 0);
}

#[test]
fn a_stream_that_is_full_is_said_in_the_acknowledgement() {
    let server = server("", "");
    let at = address(&server);
    let mut asking = Asking::new(&server);
    let config = json!({"name": "$MQTT_msgs", "subjects": ["$MQTT.msgs.>"], "retention": "limits",
        "storage": "file", "max_msgs": 1, "discard": "new"});
    asking.ask("STREAM.CREATE.$MQTT_msgs", &config.to_string());
    let mut peer = Peer::connect5(at, "p");
    assert_eq!(peer.send5(("a", "1"), (1, false), &[]), ReasonCode::Success);
    assert_eq!(peer.send5(("a", "2"), (1, false), &[]), ReasonCode::QuotaExceeded);
    peer.barrier();
}

#[test]
fn streams_that_others_have_made_get_lifetimes() {
    let server = server("", "");
    let mut asking = Asking::new(&server);
    let config = json!({"name": "$MQTT_sess", "subjects": ["$MQTT.sess.>"], "max_msgs_per_subject": 1, "storage": "file"});
    asking.ask("STREAM.CREATE.$MQTT_sess", &config.to_string());
    drop(Peer::enter(address(&server), &ConnectPacket { ..hello5("p") }));
    for stream in ["$MQTT_sess", "$MQTT_msgs", "$MQTT_rmsgs"] {
        assert_eq!(
            asking.ask(&format!("STREAM.INFO.{stream}"), "")["config"]["allow_msg_ttl"],
            true,
            "{stream}"
        );
    }
}

#[test]
fn a_session_whose_record_changes_while_it_is_taken_up_is_read_again() {
    let server = server("", "");
    let at = address(&server);
    let (mut sub, _) = Peer::resume5(at, ("s", false), &[LONG]);
    sub.subscribe_with(&[("a", Qos::AtLeastOnce)]);
    sub.quit5(&[]);
    let mut asking = Asking::new(&server);
    eventually("the end is written", || record(&mut asking).1["ends"].is_u64());
    let before = record(&mut asking).1.to_string();
    let mut raw = Raw::connect(&server);
    raw.subscribe("$JS.API.CONSUMER.CREATE.$MQTT_msgs.>", 1);
    raw.barrier();
    let mut sub = Peer::dial(at);
    sub.set_level(ProtocolLevel::V5);
    sub.send(&ClientPacket::Connect(ConnectPacket { clean: false, ..hello5("s") }));
    // The record is read by now, and not written yet.
    raw.message();
    raw.publish(&format!("$MQTT.sess.{}", session_hash("s")), &before);
    let ack = sub.with_packet(|packet| match packet {
        ServerPacket::ConnAck(ack) => (ack.reason, ack.session_present),
        other => panic!("{other:?}"),
    });
    assert_eq!(ack, Some((ReasonCode::Success, true)));
    Peer::connect5(at, "p").send5(("a", "1"), (1, false), &[]);
    assert_eq!(sub.take5().payload, "1");
}

#[test]
fn only_another_server_that_takes_a_session_up_ends_the_connection_here() {
    let server = server("", "");
    let (mut sub, _) = Peer::resume5(address(&server), ("s", false), &[LONG]);
    let mut asking = Asking::new(&server);
    let subject = format!("$MQTT.sess.{}", session_hash("s"));
    // The last word of a server that the client has left.
    asking.publish(&subject, r#"{"origin":"other","id":"s","ends":9999999999}"#);
    assert_eq!(sub.all_came(), []);
    asking.publish(&subject, r#"{"origin":"other","id":"s"}"#);
    assert_eq!(sub.parting().0, ReasonCode::SessionTakenOver);
}

#[test]
fn retained_messages_wait_for_a_client_that_takes_few() {
    let server = server("", "");
    let at = address(&server);
    let mut publisher = Peer::connect5(at, "p");
    for number in 0..300 {
        publisher.send5((&format!("kept/{number}"), "r"), (1, true), &[]);
    }
    let (mut sub, _) = Peer::resume5(at, ("s", true), &[receive_max(1)]);
    sub.subscribe_with(&[("kept/+", Qos::AtLeastOnce)]);
    let first = sub.came5();
    assert_eq!(sub.all_came(), []);
    sub.puback(first.number);
    let mut topics: Vec<_> = (1..300).map(|_| sub.take5().topic).collect();
    topics.push(first.topic);
    topics.sort();
    topics.dedup();
    assert_eq!(topics.len(), 300);
    assert_eq!(sub.all_came(), []);
}

#[test]
fn who_still_sends_hears_why_the_connection_ends() {
    let server = server("", "");
    let mut peer = Peer::connect5(address(&server), "greedy");
    for number in 1..=1025 {
        let exchange = Exchange::ExactlyOnce(id(number));
        peer.send(&ClientPacket::Publish(PublishPacket { exchange, ..message("a", b"x") }));
    }
    let (mut said, mut writer) = (None, peer.writer());
    while said.is_none() {
        let number = peer.with_packet(|packet| match packet {
            ServerPacket::PubRec(ack) => Some(ack.packet_id.get()),
            ServerPacket::Disconnect(packet) => {
                said = Some(packet.reason);
                None
            }
            ServerPacket::PubComp(_) => None,
            other => panic!("{other:?}"),
        });
        if let Some(number) = number.expect("the connection is open until that was said") {
            let [high, low] = number.to_be_bytes();
            writer.write_all(&[0x62, 2, high, low]).expect("nothing is reset");
        }
    }
    assert_eq!(said, Some(ReasonCode::ReceiveMaximumExceeded));
}
