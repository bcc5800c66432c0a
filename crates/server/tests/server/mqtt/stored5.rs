//! Stored messages of MQTT 5: their properties, and the options of the subscriptions that they are
//! for.

use super::peer::Peer;
use super::stored::Asking;
use super::{address, server};
use crate::eventually;
use crate::raw::Raw;
use myelin_mqtt::packet::{Property, Qos, ReasonCode, SubscribeOptions};
use std::num::NonZeroU16;

const SURE: SubscribeOptions = SubscribeOptions {
    max_qos: Qos::ExactlyOnce,
    no_local: false,
    retain_as_published: false,
    retain_handling: myelin_mqtt::packet::RetainHandling::Send,
};

#[test]
fn properties_go_through_the_store_as_they_are() {
    let server = server("", "");
    let at = address(&server);
    let mut sub = Peer::connect5(at, "s");
    assert_eq!(sub.subscribe5(&[("a/b", SURE)], None), [2]);
    let mut publisher = Peer::connect5(at, "p");
    let properties = [
        Property::PayloadFormat(true),
        Property::ContentType("text/plain"),
        Property::CorrelationData(b"data"),
        Property::User(("Color", "red")),
        Property::User(("Nats-Msg-Id", "not for the stream")),
        Property::User(("Nats-Rollup", "all")),
        Property::ResponseTopic("answers/here"),
        Property::MessageExpiry(60),
    ];
    let expected: Vec<_> = properties.iter().map(|property| format!("{property:?}")).collect();
    for qos in [1, 2] {
        assert_eq!(publisher.send5(("a/b", "hi"), (qos, false), &properties), ReasonCode::Success);
        let came = sub.take5();
        assert_eq!((came.qos, &*came.payload, came.properties), (qos, "hi", expected.clone()));
    }
}

#[test]
fn a_request_of_qos_1_is_answered_on_its_response_topic() {
    let server = server("", "");
    let at = address(&server);
    let (mut requester, mut service) = (Peer::connect5(at, "r"), Peer::connect5(at, "s"));
    let mut nats = Raw::connect(&server);
    nats.subscribe("time", 1);
    nats.barrier();
    requester.subscribe5(&[("answers/me", SURE)], Some(3));
    service.subscribe5(&[("time", SURE)], None);
    let request = [Property::ResponseTopic("answers/me"), Property::CorrelationData(b"7")];
    requester.send5(("time", "?"), (1, false), &request);
    let came = service.take5();
    assert_eq!(came.properties, ["CorrelationData([55])", "ResponseTopic(\"answers/me\")"]);
    service.send5(("answers/me", "now"), (1, false), &[request[1]]);
    let answer = requester.take5();
    let expected = ["CorrelationData([55])", "SubscriptionId(SubscriptionId(3))"];
    assert_eq!(
        (&*answer.payload, answer.qos, answer.properties),
        ("now", 1, expected.map(str::to_owned).to_vec())
    );
    // A NATS service answers it too, with the reply subject that it sees.
    let reply = nats.message().reply.expect("a reply subject");
    nats.publish(&reply, "later");
    let answer = requester.came5();
    assert_eq!((&*answer.topic, &*answer.payload, answer.qos), ("answers/me", "later", 0));
}

#[test]
fn messages_that_expire_are_nobodys() {
    let server = server("", "");
    let at = address(&server);
    let (mut sub, _) = Peer::resume5(at, ("s", true), &[Property::SessionExpiry(1000)]);
    sub.subscribe5(&[("a", SURE)], None);
    sub.quit5(&[]);
    let mut publisher = Peer::connect5(at, "p");
    publisher.send5(("a", "short"), (1, false), &[Property::MessageExpiry(1)]);
    publisher.send5(("a", "short too"), (2, false), &[Property::MessageExpiry(1)]);
    publisher.send5(("a", "long"), (2, false), &[Property::MessageExpiry(60)]);
    let mut asking = Asking::new(&server);
    assert!(asking.messages("$MQTT_msgs") <= 3);
    eventually("the stream removes them", || asking.messages("$MQTT_msgs") == 1);
    let (mut sub, _) = Peer::resume5(at, ("s", false), &[]);
    let came = sub.take5();
    let left: u32 = came.properties[0]
        .strip_prefix("MessageExpiry(")
        .and_then(|left| left.strip_suffix(')')?.parse().ok())
        .expect("an expiry");
    assert!(came.payload == "long" && (1..60).contains(&left), "{came:?}");
    assert_eq!(sub.all_came(), []);
}

#[test]
fn options_of_subscriptions_hold_for_what_is_stored() {
    let server = server("", "");
    let at = address(&server);
    let (mut sub, _) = Peer::resume5(at, ("s", true), &[Property::SessionExpiry(1000)]);
    let mut other = Peer::connect5(at, "o");
    let no_local = SubscribeOptions { no_local: true, ..SURE };
    let as_published = SubscribeOptions { retain_as_published: true, ..SURE };
    assert_eq!(sub.subscribe5(&[("a/b", no_local)], Some(1)), [2]);
    assert_eq!(sub.subscribe5(&[("a/#", no_local)], Some(2)), [2]);
    assert_eq!(sub.subscribe5(&[("kept", as_published)], None), [2]);
    sub.send5(("a/b", "own"), (1, false), &[]);
    sub.send5(("a/b", "own"), (2, false), &[]);
    assert_eq!(sub.all_came(), []);
    // They are those of the session, also when it goes on.
    sub.quit5(&[]);
    other.send5(("a/b", "other"), (1, false), &[]);
    other.send5(("kept", "1"), (1, true), &[]);
    other.send5(("kept", "2"), (1, true), &[]);
    other.send5(("kept", "3"), (1, false), &[]);
    let (mut sub, _) = Peer::resume5(at, ("s", false), &[]);
    let came = sub.take5();
    let mut ids = came.properties;
    ids.sort();
    assert_eq!(
        (&*came.payload, ids),
        ("other", [1, 2].map(|id| format!("SubscriptionId(SubscriptionId({id}))")).to_vec())
    );
    let kept = [sub.take5(), sub.take5(), sub.take5()].map(|came| (came.payload, came.retain));
    assert_eq!(kept, [("1".to_owned(), true), ("2".to_owned(), true), ("3".to_owned(), false)]);
    sub.send5(("a/b", "own"), (1, false), &[]);
    assert_eq!(sub.all_came(), []);
    // Without the option its own messages come.
    sub.subscribe5(&[("a/b", SURE)], None);
    sub.send5(("a/b", "own"), (0, false), &[]);
    assert_eq!(sub.came5().payload, "own");
}

#[test]
fn stored_messages_use_the_aliases_of_others() {
    let server = server("", "");
    let at = address(&server);
    let (mut sub, _) = Peer::resume5(at, ("s", true), &[Property::TopicAliasMaximum(5)]);
    sub.subscribe5(&[("long/topic", SURE)], None);
    for number in 0..3 {
        Peer::connect5(at, &format!("p{number}")).send5(("long/topic", "x"), (1, false), &[]);
    }
    let alias = NonZeroU16::new(1).map(|alias| format!("{:?}", Property::TopicAlias(alias)));
    let mut topics = Vec::new();
    for _ in 0..3 {
        let came = sub.take5();
        assert_eq!(came.properties, alias.as_slice());
        topics.push(came.topic);
    }
    assert_eq!(topics, ["long/topic", "", ""]);
}

#[test]
fn a_member_of_a_group_is_one_again_when_its_session_goes_on() {
    let server = server("", "");
    let at = address(&server);
    let (mut sub, _) = Peer::resume5(at, ("s", true), &[Property::SessionExpiry(1000)]);
    // With QoS 0 they get what is published now.
    assert_eq!(sub.subscribe5(&[("$share/g/a/#", SubscribeOptions::default())], Some(4)), [0]);
    sub.quit5(&[]);
    let (mut sub, is_present) = Peer::resume5(at, ("s", false), &[Property::SessionExpiry(1000)]);
    assert!(is_present);
    let mut publisher = Peer::connect5(at, "p");
    publisher.send5(("a", "x"), (1, false), &[]);
    let came = sub.came5();
    assert_eq!((came.qos, came.properties), (0, vec!["SubscriptionId(SubscriptionId(4))".to_owned()]));
    assert_eq!(sub.unsubscribe5(&["$share/g/a/#"]), [0]);
    sub.quit5(&[]);
    let (mut sub, _) = Peer::resume5(at, ("s", false), &[]);
    publisher.send5(("a", "x"), (1, false), &[]);
    assert_eq!(sub.all_came(), []);
}

/// Without a pause for publishers a client that is far behind loses messages; none that is stored.
#[test]
fn a_client_that_is_far_behind_loses_nothing_that_is_stored() {
    let around = "no_fast_producer_stall: true\nmax_pending: 1MB\nmax_payload: 64KB\nwrite_deadline: 60s";
    let server = server("", around);
    let at = address(&server);
    let (mut sub, _) = Peer::resume5(at, ("behind", true), &[Property::TopicAliasMaximum(5)]);
    assert_eq!(sub.subscribe5(&[("sure", SURE)], None), [2]);
    assert_eq!(sub.listen5(&["flood"]), [0]);
    let mut publisher = Peer::connect5(at, "p");
    let payload = "x".repeat(60_000);
    let pending = || {
        let page = server.page("/connz?mqtt_client=behind");
        page["connections"][0]["pending_bytes"].as_u64().expect("a number")
    };
    eventually("it is far behind", || {
        publisher.publish5("flood", &payload, &[]);
        publisher.barrier();
        pending() > 800_000
    });
    for number in 0..3 {
        assert_eq!(publisher.send5(("sure", &number.to_string()), (1, false), &[]), ReasonCode::Success);
    }
    let mut asking = Asking::new(&server);
    let name = asking.ask("CONSUMER.NAMES.$MQTT_msgs", "")["consumers"][0].as_str().expect("one").to_owned();
    eventually("they are delivered to the session", || {
        asking.ask(&format!("CONSUMER.INFO.$MQTT_msgs.{name}"), "")["num_ack_pending"] == 3
    });
    assert!(pending() > 800_000, "it has read nothing");
    publisher.barrier();
    let mut sure = Vec::new();
    while sure.len() < 3 {
        let came = sub.came5();
        if came.qos > 0 {
            sub.puback(came.number);
            sure.push((came.topic, came.payload, came.dup));
        }
    }
    let expected = [("sure", "0"), ("", "1"), ("", "2")];
    assert_eq!(sure, expected.map(|(topic, number)| (topic.to_owned(), number.to_owned(), false)));
}
