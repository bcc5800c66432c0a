//! Moments between two steps: a subscription that begins, a client that leaves before it is
//! answered, an acknowledgement that is lost.

use super::peer::{Peer, id, lasting, message};
use super::peer5::hello5;
use super::stored::Asking;
use super::{address, server};
use crate::eventually;
use crate::raw::Raw;
use myelin_mqtt::packet::{
    AckPacket, ClientPacket, ConnectPacket, DisconnectPacket, Exchange, Properties, Property, ProtocolLevel,
    PublishPacket, Qos, ReasonCode, RetainHandling, SubscribeFilters, SubscribeOptions, SubscribePacket,
};
use myelin_mqtt::records::session_hash;
use serde_json::json;

/// Packets of MQTT 3.1.1 in one segment.
fn together(packets: &[ClientPacket<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    packets.iter().for_each(|packet| packet.encode(ProtocolLevel::V3, &mut bytes));
    bytes
}

fn held(number: u16, payload: &str) -> ClientPacket<'_> {
    let exchange = Exchange::ExactlyOnce(id(number));
    ClientPacket::Publish(PublishPacket { exchange, ..message("two", payload.as_bytes()) })
}

/// Connects with a session of MQTT 3.1.1 that lasts.
fn resume(server: &crate::process::Server, client_id: &str) -> Peer {
    let mut peer = Peer::dial(address(server));
    peer.resume(&lasting(client_id));
    peer
}

/// Name of the one consumer of stored messages.
fn reader(asking: &mut Asking) -> String {
    let names = asking.ask("CONSUMER.NAMES.$MQTT_msgs", "")["consumers"].clone();
    names[0].as_str().expect("a name").to_owned()
}

/// A message that comes by the session's consumer does not come live, too, on whatever shard its
/// publisher is.
#[test]
fn no_message_of_qos_1_comes_with_qos_0_while_its_subscription_begins() {
    const MESSAGES: u32 = 1000;
    let server = server("", "");
    let at = address(&server);
    let mut sub = Peer::connect5(at, "sub");
    // Others behind it: the longer the packet, the longer it is a subscription without being
    // stored.
    let others: Vec<String> = (0..300).map(|number| format!("other/{number}")).collect();
    let mut raw = Vec::new();
    for (filter, max_qos) in std::iter::once(("often", Qos::AtLeastOnce))
        .chain(others.iter().map(|other| (other.as_str(), Qos::AtMostOnce)))
    {
        let retain_handling = RetainHandling::DontSend;
        let options = SubscribeOptions { max_qos, retain_handling, ..SubscribeOptions::default() };
        SubscribeFilters::push(filter, options, &mut raw);
    }
    let (properties, filters) = (Properties::EMPTY, SubscribeFilters::of(&raw));
    let subscribe = ClientPacket::Subscribe(SubscribePacket { packet_id: id(1), properties, filters });
    std::thread::scope(|scope| {
        let publishers = ["one", "two"].map(|client_id| {
            scope.spawn(move || {
                let mut publisher = Peer::connect(at, client_id);
                (0..MESSAGES).for_each(|number| publisher.publish_1("often", &number.to_string()));
            })
        });
        while publishers.iter().any(|publisher| !publisher.is_finished()) {
            sub.send(&subscribe);
            // It fails where a message has no number.
            sub.finish_all();
            sub.ask_to_leave("often");
            sub.finish_all();
        }
    });
}

/// A message that a PUBREL has stored is not held any more, whoever hears of it.
#[test]
fn what_is_released_by_a_publisher_that_leaves_is_not_held_any_more() {
    let server = server("", "");
    let mut sub = Peer::connect5(address(&server), "sub");
    assert_eq!(sub.subscribe_with(&[("two", Qos::AtLeastOnce)]), [1]);
    let mut asking = Asking::new(&server);
    for _ in 0..5 {
        let mut peer = resume(&server, "pub");
        for number in 1..=3 {
            assert_eq!(peer.exchange(&held(number, &number.to_string())), ("PUBREC", number));
        }
        let release = |number| ClientPacket::PubRel(AckPacket::success(id(number)));
        let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
        let bye = ClientPacket::Disconnect(DisconnectPacket { reason, properties });
        peer.send_bytes(&together(&[release(1), release(2), bye]));
        peer.rest();
        assert_eq!([sub.take5(), sub.take5()].map(|came| came.payload), ["1", "2"]);
        eventually("what is released is not held", || asking.messages("$MQTT_qos2in") == 1);
        assert_eq!(asking.last("$MQTT_qos2in", "$MQTT.qos2.in.pub.*").1, "3");
        // The client says it again.
        let mut peer = resume(&server, "pub");
        (1..=3).for_each(|number| assert_eq!(peer.exchange(&release(number)), ("PUBCOMP", number)));
        assert_eq!(sub.take5().payload, "3");
        assert_eq!(sub.all_came(), []);
        assert_eq!(asking.messages("$MQTT_qos2in"), 0);
    }
}

/// Numbers follow from where messages are stored, and are taken by retained messages here.
#[test]
fn messages_whose_numbers_are_taken_come_in_their_order() {
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let server = server("", "");
        let mut asking = Asking::new(&server);
        let config = json!({"name": "$MQTT_msgs", "subjects": ["$MQTT.msgs.>"], "retention": "interest",
            "storage": "file", "first_seq": 65_532});
        let made = asking.ask("STREAM.CREATE.$MQTT_msgs", &config.to_string());
        assert!(made["error"].is_null(), "{made}");
        let at = address(&server);
        let (mut publisher, mut sub) = (Peer::connect5(at, "p"), Peer::connect5(at, "s"));
        for topic in ["kept/1", "kept/2"] {
            assert_eq!(publisher.send5((topic, "r"), (1, true), &[]), ReasonCode::Success);
        }
        assert_eq!(asking.state("$MQTT_msgs")["last_seq"], 65_533);
        assert_eq!(sub.subscribe_with(&[("kept/+", Qos::AtLeastOnce)]), [1]);
        let kept = [sub.came5(), sub.came5()].map(|came| came.number);
        assert_eq!(kept, [65_535, 65_534]);
        assert_eq!(sub.subscribe_with(&[("a", qos)]), [qos as u8]);
        for payload in ["0", "1", "2"] {
            assert_eq!(publisher.send5(("a", payload), (2, false), &[]), ReasonCode::Success);
        }
        let info = format!("CONSUMER.INFO.$MQTT_msgs.{}", reader(&mut asking));
        eventually("they are delivered to the session", || asking.ask(&info, "")["num_ack_pending"] == 3);
        if qos == Qos::ExactlyOnce {
            // A number that was sent with a message stays that message's.
            assert_eq!(sub.all_came(), []);
            kept.into_iter().for_each(|number| sub.puback(number));
        }
        let came = [sub.came5(), sub.came5(), sub.came5()];
        assert_eq!(came.each_ref().map(|came| &*came.payload), ["0", "1", "2"]);
        let numbers = came.map(|came| came.number);
        match qos {
            Qos::ExactlyOnce => assert_eq!(numbers, [65_534, 65_535, 1]),
            _ => assert_eq!(numbers, [65_533, 65_532, 1]),
        }
        numbers.into_iter().for_each(|number| match qos {
            Qos::ExactlyOnce => sub.pubrec(number),
            _ => sub.puback(number),
        });
        if qos == Qos::ExactlyOnce {
            for _ in 0..3 {
                let (text, number) = sub.came();
                assert_eq!(text, "PUBREL");
                sub.pubcomp(number);
            }
        }
        eventually("nothing is left", || {
            assert_eq!(sub.all_came(), []);
            asking.messages("$MQTT_msgs") == 0
        });
    }
}

/// A crash may lose that a consumer knew of an acknowledgement, behind a PUBREL that is stored.
#[test]
fn a_message_whose_pubrel_is_stored_does_not_come_again() {
    let mut server = server("ack_wait: 2s", "");
    let mut sub = resume(&server, "sub");
    assert_eq!(sub.subscribe_with(&[("two", Qos::ExactlyOnce)]), [2]);
    Peer::connect(address(&server), "pub").publish_2("two", "once");
    let (text, number) = sub.came();
    assert_eq!(text, "PUBLISH two once q2");
    server.server.restart();
    let mut asking = Asking::new(&server);
    let (name, sequence) = (reader(&mut asking), asking.state("$MQTT_msgs")["last_seq"].clone());
    let ack = format!("$JS.ACK.$MQTT_msgs.{name}.1.{sequence}.1.0.0");
    let block = format!("NATS/1.0\r\nNmqtt-PubRel:{number}\r\nNmqtt-Ack:{ack}\r\n\r\n");
    let stored = asking.publish_block(&format!("$MQTT.out.pubrel.{}", session_hash("sub")), &block);
    assert!(stored["error"].is_null(), "{stored}");
    let mut sub = resume(&server, "sub");
    assert_eq!(sub.came(), ("PUBREL".to_owned(), number));
    sub.pubcomp(number);
    asking.until_all_is_settled(&mut sub);
}

/// A crash leaves both on their way: had the message come first, the client would take it for
/// another one.
#[test]
fn a_pubrel_comes_before_its_message_does_again_after_a_crash() {
    let mut server = server("ack_wait: \"5m\"", "");
    let mut sub = resume(&server, "sub");
    assert_eq!(sub.subscribe_with(&[("two", Qos::ExactlyOnce)]), [2]);
    Peer::connect(address(&server), "pub").publish_2("two", "once");
    let (text, number) = sub.came();
    assert_eq!(text, "PUBLISH two once q2");
    sub.pubrec(number);
    assert_eq!(sub.came(), ("PUBREL".to_owned(), number));
    server.server.restart();
    let mut sub = resume(&server, "sub");
    assert_eq!(sub.came(), ("PUBREL".to_owned(), number), "nobody waits five minutes for it");
    sub.pubcomp(number);
    Asking::new(&server).until_all_is_settled(&mut sub);
}

/// The consumer of a message may have no leader just then, or lose an acknowledgement with one.
#[test]
fn a_pubrel_is_kept_until_the_consumer_of_its_message_has_confirmed() {
    let server = server("", "");
    let mut sub = resume(&server, "sub");
    assert_eq!(sub.subscribe_with(&[("two", Qos::ExactlyOnce)]), [2]);
    let mut asking = Asking::new(&server);
    let block = "NATS/1.0\r\nNmqtt-PubRel:7\r\nNmqtt-Ack:$JS.ACK.away.name.1.5.1.0.0\r\n\r\n";
    asking.publish_block(&format!("$MQTT.out.pubrel.{}", session_hash("sub")), block);
    assert_eq!(sub.came(), ("PUBREL".to_owned(), 7));
    sub.pubcomp(7);
    assert_eq!(sub.all_came(), []);
    let mut leader = Raw::connect(&server);
    leader.subscribe("$JS.ACK.away.>", 1);
    let ack = leader.message();
    assert_eq!((ack.text(), asking.messages("$MQTT_out")), ("+ACK", 1), "it is said again");
    leader.publish(&ack.reply.expect("an answer is awaited"), "");
    eventually("it is over", || asking.messages("$MQTT_out") == 0);
    assert_eq!(sub.all_came(), []);
}

/// A CONNECT that begins anew, and fails before the session before is removed, leaves it known.
#[test]
fn a_session_that_could_not_be_removed_is_removed_later() {
    let server = server("", "");
    let at = address(&server);
    let mut asking = Asking::new(&server);
    let (mut before, _) = Peer::resume5(at, ("s", true), &[Property::SessionExpiry(1000)]);
    assert_eq!(before.subscribe_with(&[("a", Qos::ExactlyOnce)]), [2]);
    before.quit5(&[]);
    eventually("its end is stored", || asking.last("$MQTT_sess", "$MQTT.sess.>").1.contains("ends"));
    // A CONNECT asks this stream what is held, and fails where it is gone; the next one makes it.
    for expiry in [1000, 0] {
        let mut other = Peer::connect5(at, "other");
        assert_eq!(asking.ask("STREAM.DELETE.$MQTT_qos2in", "")["success"], true);
        let mut anew = Peer::dial(at);
        let connect = ConnectPacket { clean: true, ..hello5("s") };
        let (reason, _) = anew.greet5(&connect, &[Property::SessionExpiry(expiry)]);
        assert_eq!(reason, ReasonCode::ServerUnavailable);
        assert_eq!(anew.rest(), b"");
        other.barrier();
    }
    let (_anew, is_present) = Peer::resume5(at, ("s", true), &[]);
    assert!(!is_present);
    let left = ["$MQTT_msgs", "$MQTT_out"].map(|stream| asking.state(stream)["consumer_count"].clone());
    assert_eq!(left, [0, 0]);
}
