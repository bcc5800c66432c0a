//! Subscriptions of MQTT 5: options, numbers, reasons, and groups with members of NATS.

use super::peer::Peer;
use super::peer5::hello5;
use super::{address, server};
use crate::raw::Raw;
use myelin_mqtt::packet::{ConnectPacket, SubscribeOptions};

const PLAIN: SubscribeOptions = SubscribeOptions {
    max_qos: myelin_mqtt::packet::Qos::AtMostOnce,
    no_local: false,
    retain_as_published: false,
    retain_handling: myelin_mqtt::packet::RetainHandling::Send,
};

#[test]
fn no_local_keeps_ones_own_messages_away() {
    let server = server("", "");
    let at = address(&server);
    let (mut peer, mut other) = (Peer::connect5(at, "p"), Peer::connect5(at, "o"));
    peer.subscribe5(&[("a/#", SubscribeOptions { no_local: true, ..PLAIN })], None);
    peer.publish5("a/b", "own", &[]);
    assert!(peer.barrier().is_empty());
    other.publish5("a/b", "other", &[]);
    assert_eq!(peer.came5().payload, "other");
    // Another subscription wants them; then the option is taken back.
    peer.listen5(&["a/b"]);
    peer.publish5("a/b", "own", &[]);
    assert_eq!(peer.came5().payload, "own");
    peer.unsubscribe5(&["a/b"]);
    peer.publish5("a/b", "own", &[]);
    assert!(peer.barrier().is_empty());
    peer.listen5(&["a/#"]);
    peer.publish5("a", "own", &[]);
    assert_eq!(peer.came5().payload, "own");
}

#[test]
fn messages_say_for_which_subscriptions_they_are() {
    let server = server("", "");
    let at = address(&server);
    let (mut peer, mut publisher) = (Peer::connect5(at, "p"), Peer::connect(at, "3"));
    peer.subscribe5(&[("a/b", PLAIN)], Some(2));
    peer.subscribe5(&[("a/#", PLAIN)], Some(268_435_455));
    peer.subscribe5(&[("c", PLAIN)], None);
    let mut ids = |topic: &str| {
        publisher.publish(topic, "m");
        let came = peer.came5();
        assert_eq!(came.topic, topic);
        let mut ids = came.properties;
        ids.sort();
        assert!(peer.barrier().is_empty(), "one message for all subscriptions");
        ids
    };
    let [two, many] = ["SubscriptionId(SubscriptionId(2))", "SubscriptionId(SubscriptionId(268435455))"];
    assert_eq!(ids("a/b"), [two, many]);
    assert_eq!(ids("a"), [many]);
    assert_eq!(ids("c"), Vec::<String>::new());
    // Subscribed again, with another number and then without.
    peer.subscribe5(&[("a/b", PLAIN)], Some(3));
    peer.subscribe5(&[("a/#", PLAIN)], None);
    publisher.publish("a/b", "m");
    assert_eq!(peer.came5().properties, ["SubscriptionId(SubscriptionId(3))"]);
}

#[test]
fn filters_are_refused_with_a_reason() {
    let users =
        "authorization { users: [ {user: u, password: p, permissions { subscribe { deny: denied } } } ] }";
    let server = server("", &format!("max_subscriptions: 3\n{users}"));
    let connect = ConnectPacket { user_name: Some("u"), password: Some(b"p"), ..hello5("u") };
    let mut peer = Peer::enter(address(&server), &connect);
    let filters = [
        "a",
        "denied",
        "a b",
        "a/#/b",
        "a#",
        "b+/c",
        "$MQTT/x",
        "$share/g",
        "$share//x",
        "$share/+/x",
        "a/+",
        "c",
    ];
    let codes = [0, 0x87, 0x8f, 0x8f, 0x8f, 0x8f, 0x87, 0x8f, 0x8f, 0x8f, 0, 0];
    assert_eq!(peer.listen5(&filters), codes);
    assert_eq!(peer.listen5(&["d"]), [0x97]);
    assert_eq!(peer.unsubscribe5(&["a", "a", "never", "a#"]), [0, 0x11, 0x11, 0x8f]);
    assert_eq!(peer.listen5(&["d"]), [0]);
}

#[test]
fn groups_are_queue_groups() {
    let server = server("", "");
    let at = address(&server);
    let (mut one, mut two, mut raw) =
        (Peer::connect5(at, "1"), Peer::connect5(at, "2"), Raw::connect(&server));
    assert_eq!(one.subscribe5(&[("$share/g/jobs/#", PLAIN)], Some(7)), [0]);
    assert_eq!(two.listen5(&["$share/g/jobs/#"]), [0]);
    raw.send("SUB jobs.> g 1\r\n");
    raw.barrier();
    let mut publisher = Peer::connect5(at, "p");
    for number in 0..200 {
        publisher.publish5("jobs/x", &number.to_string(), &[]);
    }
    publisher.barrier();
    let mut seen: Vec<String> = Vec::new();
    let mut counts = [0; 3];
    for message in raw.barrier() {
        counts[0] += 1;
        seen.push(message.text().rsplit("\r\n").next().unwrap_or_default().to_owned());
    }
    for (at, peer) in [&mut one, &mut two].into_iter().enumerate() {
        for message in peer.barrier() {
            counts[at + 1] += 1;
            seen.push(message.shown().1.to_owned());
        }
    }
    // Each message came to one of them, and each of them got some.
    seen.sort_by_key(|number| number.parse::<u32>().expect("a number"));
    assert_eq!(seen, (0..200).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
    // The level above belongs to the filter, and the number comes with what the group brings.
    two.unsubscribe5(&["$share/g/jobs/#"]);
    raw.send("UNSUB 1\r\n");
    raw.barrier();
    publisher.publish5("jobs", "last", &[]);
    let came = one.came5();
    assert_eq!(
        (&*came.payload, came.properties),
        ("last", vec!["SubscriptionId(SubscriptionId(7))".to_owned()])
    );
    assert_eq!(one.unsubscribe5(&["$share/g/jobs/#", "jobs/#"]), [0, 0x11]);
    publisher.publish5("jobs/x", "nobody", &[]);
    publisher.barrier();
    assert!(one.barrier().is_empty());
}

#[test]
fn groups_leave_out_topics_of_servers_as_others_do() {
    let server = server("", "");
    let (mut peer, mut raw) = (Peer::connect5(address(&server), "5"), Raw::connect(&server));
    assert_eq!(peer.listen5(&["$share/g/+"]), [0]);
    raw.publish("$x", "hidden");
    raw.publish("x", "seen");
    raw.barrier();
    assert_eq!(peer.came5().payload, "seen");
}

#[test]
fn in_version_3_a_share_is_a_topic() {
    let server = server("", "");
    let (mut three, mut raw) = (Peer::connect(address(&server), "3"), Raw::connect(&server));
    assert_eq!(three.subscribe(&["$share/g/x"]), [0]);
    raw.publish("$share.g.x", "plain");
    raw.barrier();
    assert_eq!(three.message().shown(), ("$share/g/x", "plain"));
}
