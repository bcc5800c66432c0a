//! Retained messages of MQTT 5: properties, expiry, and who wants them when.

use super::peer::{Peer, id, message};
use super::stored::Asking;
use super::{address, server};
use crate::eventually;
use crate::raw::Raw;
use myelin_mqtt::packet::{
    AckPacket, ClientPacket, Exchange, Property, PublishPacket, Qos, ReasonCode, RetainHandling,
    SubscribeOptions,
};

fn handling(retain_handling: RetainHandling) -> SubscribeOptions {
    SubscribeOptions { max_qos: Qos::ExactlyOnce, retain_handling, ..SubscribeOptions::default() }
}

#[test]
fn what_is_retained_keeps_its_properties() {
    let server = server("", "");
    let at = address(&server);
    let mut publisher = Peer::connect5(at, "p");
    let properties = [
        Property::ContentType("t"),
        Property::User(("a", "2")),
        Property::User(("Nats-Expected-Stream", "x")),
        Property::ResponseTopic("r"),
        Property::MessageExpiry(60),
    ];
    for qos in [0, 1, 2] {
        publisher.send5((&format!("kept/{qos}"), "x"), (qos, true), &properties);
    }
    let mut asking = Asking::new(&server);
    eventually("all are stored", || asking.messages("$MQTT_rmsgs") == 3);
    let mut sub = Peer::connect5(at, "s");
    assert_eq!(sub.subscribe5(&[("kept/+", handling(RetainHandling::Send))], Some(9)), [2]);
    let mut expected: Vec<_> = properties.iter().map(|property| format!("{property:?}")).collect();
    expected.push("SubscriptionId(SubscriptionId(9))".to_owned());
    let mut came = [sub.take5(), sub.take5(), sub.take5()];
    came.sort_by_key(|came| came.qos);
    for (qos, came) in came.into_iter().enumerate() {
        assert_eq!((usize::from(came.qos), came.retain, &*came.topic), (qos, true, &*format!("kept/{qos}")));
        assert_eq!(came.properties, expected);
    }
    // Who speaks 3.1.1 gets them without.
    let mut three = Peer::connect(at, "3");
    three.subscribe(&["kept/1"]);
    assert_eq!(three.came().0, "PUBLISH kept/1 x q0 retain");
    // An empty one removes it.
    publisher.send5(("kept/1", ""), (1, true), &[]);
    eventually("one is removed", || asking.messages("$MQTT_rmsgs") == 2);
}

#[test]
fn what_is_retained_expires() {
    let server = server("", "");
    let at = address(&server);
    Peer::connect5(at, "p").send5(("kept", "x"), (1, true), &[Property::MessageExpiry(1)]);
    let mut asking = Asking::new(&server);
    eventually("it is removed", || asking.messages("$MQTT_rmsgs") == 0);
    let mut sub = Peer::connect5(at, "s");
    sub.listen5(&["kept"]);
    assert!(sub.barrier().is_empty());
}

#[test]
fn subscribers_say_when_they_want_what_is_retained() {
    let server = server("", "");
    let at = address(&server);
    Peer::connect5(at, "p").send5(("kept", "x"), (1, true), &[]);
    let mut sub = Peer::connect5(at, "s");
    let mut came = |filter: &str, wish| {
        sub.subscribe5(&[(filter, handling(wish))], None);
        let all = sub.all_came();
        all.iter().for_each(|(_, number)| sub.puback(*number));
        all.len()
    };
    use RetainHandling::{DontSend, Send, SendIfNew};
    assert_eq!([came("kept", DontSend), came("kept", SendIfNew)], [0, 0]);
    assert_eq!([came("kept", Send), came("kept", Send)], [1, 1]);
    assert_eq!([came("+", SendIfNew), came("+", SendIfNew)], [1, 0]);
    assert_eq!(came("$share/g/kept", Send), 0);
}

#[test]
fn the_retain_flag_comes_as_published_to_who_wants_it() {
    let server = server("", "");
    let at = address(&server);
    let (mut wants, mut does_not) = (Peer::connect5(at, "w"), Peer::connect5(at, "d"));
    let as_published = SubscribeOptions { retain_as_published: true, ..SubscribeOptions::default() };
    wants.subscribe5(&[("a", as_published)], None);
    does_not.listen5(&["a"]);
    let (mut five, mut three) = (Peer::connect5(at, "5"), Peer::connect(at, "3"));
    five.send5(("a", "1"), (0, true), &[]);
    five.send5(("a", "2"), (1, true), &[]);
    three.retain("a", "3");
    five.send5(("a", "4"), (0, false), &[]);
    let flags = |peer: &mut Peer| -> Vec<bool> {
        let mut all = (0..4).map(|_| peer.came5()).collect::<Vec<_>>();
        all.sort_by(|one, other| one.payload.cmp(&other.payload));
        all.into_iter().map(|came| came.retain).collect()
    };
    assert_eq!(flags(&mut wants), [true, true, true, false]);
    assert_eq!(flags(&mut does_not), [false; 4]);
    // A NATS client sees it in the headers.
    let mut raw = Raw::connect(&server);
    raw.subscribe("a", 1);
    raw.barrier();
    five.send5(("a", "5"), (0, true), &[]);
    assert_eq!(raw.message().text(), "NATS/1.0\r\nNmqtt-Pub:0\r\nNmqtt-Retain: 1\r\n\r\n5");
}

#[test]
fn a_client_goes_on_whose_message_cannot_be_retained() {
    let server = server("", "");
    let at = address(&server);
    let mut three = Peer::connect(at, "3");
    three.retain("first", "x");
    let mut asking = Asking::new(&server);
    let mut full = |stream: &str| {
        let mut config = asking.ask(&format!("STREAM.INFO.{stream}"), "")["config"].clone();
        (config["max_msgs"], config["discard"]) = (1.into(), "new".into());
        let updated = asking.ask(&format!("STREAM.UPDATE.{stream}"), &config.to_string());
        assert!(updated["error"].is_null(), "{updated}");
    };
    full("$MQTT_rmsgs");
    let unretained = message("second", b"x");
    three.send(&ClientPacket::Publish(PublishPacket { retain: true, ..unretained }));
    let log = server.wait_for_log("MQTT storage: ");
    assert!(log.contains("(10077)"), "{log}");
    assert_eq!(three.all_came(), []);
    // One of QoS 2 is released.
    let mut five = Peer::connect5(at, "5");
    assert_eq!(five.send5(("second", "x"), (0, true), &[]), ReasonCode::Success);
    assert_eq!(five.send5(("second", "x"), (2, true), &[]), ReasonCode::Success);
    assert_eq!(five.all_came(), []);
    // A release that cannot be stored is not the client's fault.
    let (mut keeps, _) = Peer::resume5(at, ("keeps", true), &[Property::SessionExpiry(1000)]);
    assert_eq!(keeps.subscribe5(&[("kept", handling(RetainHandling::DontSend))], None), [2]);
    keeps.quit5(&[]);
    full("$MQTT_msgs");
    assert_eq!(five.send5(("kept", "1"), (2, false), &[]), ReasonCode::Success);
    let exchange = Exchange::ExactlyOnce(id(9));
    let (answer, _) =
        five.exchange5(&ClientPacket::Publish(PublishPacket { exchange, ..message("kept", b"2") }));
    assert_eq!(answer, "PUBREC");
    five.send(&ClientPacket::PubRel(AckPacket::success(id(9))));
    assert_eq!(five.parting().0, ReasonCode::QuotaExceeded);
}
