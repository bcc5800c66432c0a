//! Sessions that last: what is delivered to whom, how often, and after what.

use super::peer::{Peer, hello, id, lasting, publish_1};
use super::stored::Asking;
use super::{address, cluster, server, servers};
use crate::eventually;
use crate::process::Server;
use myelin_mqtt::packet::{
    AckPacket, ClientPacket, ConnectPacket, DisconnectPacket, Properties, ProtocolLevel, Qos, ReasonCode,
};
use myelin_mqtt::records::session_hash;
use serde_json::{Value, json};

/// Connects with a session that lasts, and says whether it was there.
fn resume(server: &Server, client_id: &str) -> (Peer, bool) {
    let mut peer = Peer::dial(address(server));
    let is_present = peer.resume(&lasting(client_id));
    (peer, is_present)
}

/// Another connection takes a session over, with what is in flight, on the same server or `two`.
fn taken_over(one: &Server, two: &Server) {
    let (mut first, _) = resume(one, "same");
    first.subscribe_with(&[("take/over", Qos::AtLeastOnce)]);
    let mut peer = Peer::connect(address(two), "pub");
    peer.publish_1("take/over", "x");
    let (text, number) = first.came();
    assert_eq!(text, "PUBLISH take/over x q1");
    let (mut second, is_present) = resume(two, "same");
    assert!(is_present);
    assert_eq!(first.rest(), b"");
    assert_eq!(second.came(), ("PUBLISH take/over x q1 dup".to_owned(), number));
    second.puback(number);
    peer.publish_1("take/over", "y");
    let (text, number) = second.came();
    assert_eq!(text, "PUBLISH take/over y q1");
    second.puback(number);
    assert_eq!(second.all_came(), []);
}

fn leave(mut peer: Peer) {
    peer.disconnect();
    peer.rest();
}

#[test]
fn a_session_gets_what_was_published_without_it() {
    for server in &servers("", "") {
        let (mut sub, is_present) = resume(server, "sub");
        assert!(!is_present);
        let filters = [("a/#", Qos::AtLeastOnce), ("b/+", Qos::ExactlyOnce), ("c", Qos::AtMostOnce)];
        assert_eq!(sub.subscribe_with(&filters), [1, 2, 0]);
        leave(sub);
        let mut peer = Peer::connect(address(server), "pub");
        peer.publish_1("a", "1");
        peer.publish_2("a/x", "2");
        peer.publish_1("b/x", "3");
        peer.publish_2("b/y", "4");
        peer.publish_1("c", "lost");
        peer.publish("a/x", "lost too");
        peer.publish_1("elsewhere", "for nobody");
        let (mut sub, is_present) = resume(server, "sub");
        assert!(is_present);
        let mut came: Vec<_> = (0..4).map(|_| sub.came()).collect();
        came.sort();
        let texts: Vec<_> = came.iter().map(|(text, _)| text.as_str()).collect();
        let wanted = ["PUBLISH a 1 q1", "PUBLISH a/x 2 q1", "PUBLISH b/x 3 q1", "PUBLISH b/y 4 q2"];
        assert_eq!(texts, wanted);
        (0..3).for_each(|at| sub.puback(came[at].1));
        sub.pubrec(came[3].1);
        assert_eq!(sub.came(), ("PUBREL".to_owned(), came[3].1));
        sub.pubcomp(came[3].1);
        assert_eq!(sub.all_came(), []);
        let mut asking = Asking::new(server);
        eventually("nothing is kept that all have", || {
            ["$MQTT_msgs", "$MQTT_out"].iter().all(|stream| asking.messages(stream) == 0)
        });
        leave(sub);
        // What was acknowledged does not come again.
        let (mut sub, _) = resume(server, "sub");
        assert_eq!(sub.all_came(), []);
    }
}

#[test]
fn nothing_is_lost_or_repeated_by_a_restart() {
    let mut server = server("", "");
    let (mut sub, _) = resume(&server, "sub");
    sub.subscribe_with(&[("kept/#", Qos::AtLeastOnce)]);
    let (mut peer, _) = resume(&server, "pub");
    for number in 0..20 {
        peer.publish_1("kept/x", &number.to_string());
    }
    for number in 0..20 {
        let (text, id) = sub.came();
        assert_eq!(text, format!("PUBLISH kept/x {number} q1"));
        sub.puback(id);
    }
    sub.all_came();
    let mut asking = Asking::new(&server);
    eventually("all are acknowledged", || asking.messages("$MQTT_msgs") == 0);
    leave(sub);
    for number in 20..40 {
        peer.publish_1("kept/x", &number.to_string());
    }
    server.server.restart();
    let (mut sub, is_present) = resume(&server, "sub");
    assert!(is_present);
    for number in 20..40 {
        let (text, id) = sub.came();
        assert_eq!(text, format!("PUBLISH kept/x {number} q1"));
        sub.puback(id);
    }
    assert_eq!(sub.all_came(), []);
}

#[test]
fn what_waits_for_a_session_comes_although_it_subscribes_again() {
    for server in &servers("max_ack_pending: 2", "") {
        let filter = [("waits/#", Qos::AtLeastOnce)];
        let (mut sub, _) = resume(server, "sub");
        sub.subscribe_with(&filter);
        leave(sub);
        let (mut peer, _) = resume(server, "pub");
        (0..6).for_each(|number| peer.publish_1("waits/x", &number.to_string()));
        let (mut sub, is_present) = resume(server, "sub");
        assert!(is_present);
        let mut came = vec![sub.came(), sub.came()];
        assert_eq!(sub.subscribe_with(&filter), [1], "it knows nothing of its session");
        while came.len() < 6 {
            sub.puback(came[came.len() - 2].1);
            came.push(sub.came());
        }
        let texts: Vec<_> = came.into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, (0..6).map(|number| format!("PUBLISH waits/x {number} q1")).collect::<Vec<_>>());
    }
}

#[test]
fn what_was_not_acknowledged_comes_again_with_its_number() {
    let server = server("", "");
    let (mut sub, _) = resume(&server, "sub");
    sub.subscribe_with(&[("again/#", Qos::ExactlyOnce)]);
    let mut peer = Peer::connect(address(&server), "pub");
    peer.publish_1("again/1", "one");
    peer.publish_2("again/2", "two");
    peer.publish_2("again/3", "three");
    let came: Vec<_> = (0..3).map(|_| sub.came()).collect();
    // Of the last one the client has said that it has it, and not that it may be forgotten.
    sub.pubrec(came[2].1);
    assert_eq!(sub.came(), ("PUBREL".to_owned(), came[2].1));
    drop(sub);
    let (mut sub, is_present) = resume(&server, "sub");
    assert!(is_present);
    let mut again: Vec<_> = (0..3).map(|_| sub.came()).collect();
    again.sort();
    let wanted = [
        ("PUBLISH again/1 one q1 dup".to_owned(), came[0].1),
        ("PUBLISH again/2 two q2 dup".to_owned(), came[1].1),
        ("PUBREL".to_owned(), came[2].1),
    ];
    assert_eq!(again, wanted);
    sub.puback(came[0].1);
    sub.pubcomp(came[2].1);
    sub.pubrec(came[1].1);
    assert_eq!(sub.came(), ("PUBREL".to_owned(), came[1].1));
    sub.pubcomp(came[1].1);
    assert_eq!(sub.all_came(), []);
    let mut asking = Asking::new(&server);
    eventually("all is done", || {
        ["$MQTT_msgs", "$MQTT_out"].iter().all(|stream| asking.messages(stream) == 0)
    });
}

#[test]
fn another_connection_takes_over_what_is_in_flight() {
    let server = server("", "");
    taken_over(&server, &server);
}

#[test]
fn a_client_is_asked_again_when_it_does_not_acknowledge() {
    for server in &servers("ack_wait: 1s, max_ack_pending: 2", "") {
        let (mut sub, _) = resume(server, "slow");
        sub.subscribe_with(&[("slow", Qos::AtLeastOnce)]);
        let mut peer = Peer::connect(address(server), "pub");
        (0..3).for_each(|number| peer.publish_1("slow", &number.to_string()));
        let first = sub.came();
        let second = sub.came();
        assert_eq!((first.0.as_str(), second.0.as_str()), ("PUBLISH slow 0 q1", "PUBLISH slow 1 q1"));
        // No third one while two are on their way; these come again.
        let again = sub.came();
        assert_eq!(again, ("PUBLISH slow 0 q1 dup".to_owned(), first.1));
        sub.puback(first.1);
        sub.puback(second.1);
        eventually("the third one", || sub.all_came().iter().any(|(text, _)| text == "PUBLISH slow 2 q1"));
    }
}

#[test]
fn a_clean_session_leaves_nothing() {
    for server in &servers("", "") {
        let (mut lasting, _) = resume(server, "same");
        lasting.subscribe_with(&[("x", Qos::ExactlyOnce)]);
        leave(lasting);
        let mut asking = Asking::new(server);
        assert_eq!(asking.state("$MQTT_msgs")["consumer_count"], 1);
        Peer::connect(address(server), "pub").publish_1("x", "for nobody");
        let mut clean = Peer::dial(address(server));
        assert!(!clean.resume(&hello("same")));
        assert_eq!(clean.all_came(), []);
        clean.subscribe_with(&[("y", Qos::ExactlyOnce)]);
        Peer::connect(address(server), "pub").publish_1("y", "now");
        let (text, number) = clean.came();
        assert_eq!(text, "PUBLISH y now q1");
        clean.puback(number);
        leave(clean);
        eventually("everything is removed", || {
            let consumers =
                ["$MQTT_msgs", "$MQTT_out"].map(|stream| asking.state(stream)["consumer_count"].clone());
            consumers == [0, 0] && asking.messages("$MQTT_sess") == 0
        });
        let (_, is_present) = resume(server, "same");
        assert!(!is_present);
    }
}

#[test]
fn subscriptions_come_and_go() {
    for server in &servers("", "") {
        let mut peer = Peer::connect(address(server), "pub");
        let (mut other, _) = resume(server, "other");
        other.subscribe_with(&[("late", Qos::AtLeastOnce)]);
        peer.publish_1("late", "before");
        let (mut sub, _) = resume(server, "sub");
        sub.subscribe_with(&[("a/+", Qos::AtLeastOnce)]);
        // It overlaps, and is not contained.
        sub.subscribe_with(&[("+/b", Qos::AtLeastOnce), ("late", Qos::AtLeastOnce)]);
        peer.publish_1("x/y", "for nobody");
        peer.publish_1("x/b", "1");
        peer.publish_1("late", "2");
        peer.publish_1("a/x", "3");
        let mut came: Vec<_> = (0..3).map(|_| sub.came()).collect();
        came.iter().for_each(|(_, number)| sub.puback(*number));
        let mut wanted = ["PUBLISH x/b 1 q1", "PUBLISH late 2 q1", "PUBLISH a/x 3 q1"];
        if server.is_reference {
            // It has an order for each subscription.
            came.sort();
            wanted.sort_unstable();
        }
        assert_eq!(came.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(), wanted);
        sub.unsubscribe(&["+/b"]);
        peer.publish_1("x/b", "4");
        peer.publish_1("a/x", "5");
        let (text, number) = sub.came();
        assert_eq!(text, "PUBLISH a/x 5 q1");
        sub.puback(number);
        // With QoS 0 it is not stored any more.
        assert_eq!(sub.subscribe_with(&[("a/+", Qos::AtMostOnce)]), [0]);
        peer.publish_1("a/x", "6");
        assert_eq!(sub.came(), ("PUBLISH a/x 6 q0".to_owned(), 0));
        sub.unsubscribe(&["a/+", "late"]);
        leave(sub);
        peer.publish_1("a/x", "7");
        peer.publish_1("late", "8");
        let (mut sub, is_present) = resume(server, "sub");
        assert!(is_present);
        assert_eq!(sub.all_came(), []);
    }
}

#[test]
fn nats_messages_and_qos_0_come_live() {
    for server in &servers("", "") {
        let (mut sub, _) = resume(server, "sub");
        sub.subscribe_with(&[("live/#", Qos::ExactlyOnce)]);
        let mut peer = Peer::connect(address(server), "pub");
        peer.publish("live/x", "zero");
        assert_eq!(sub.came(), ("PUBLISH live/x zero q0".to_owned(), 0));
        let mut raw = crate::raw::Raw::connect(server);
        raw.publish("live.y", "nats");
        assert_eq!(sub.came(), ("PUBLISH live/y nats q0".to_owned(), 0));
    }
}

#[test]
fn a_session_goes_on_at_another_server_of_a_cluster() {
    let servers = cluster();
    let [(one, _), (two, _)] = &servers;
    let (mut sub, _) = resume(one, "roaming");
    assert_eq!(sub.subscribe_with(&[("far/#", Qos::ExactlyOnce)]), [2]);
    let mut peer = Peer::connect(address(two), "pub");
    peer.publish_1("far/1", "one");
    let (text, first) = sub.came();
    assert_eq!(text, "PUBLISH far/1 one q1");
    peer.publish_2("far/2", "two");
    let (text, second) = sub.came();
    assert_eq!(text, "PUBLISH far/2 two q2");
    sub.puback(first);
    leave(sub);
    peer.publish_1("far/3", "three");
    let (mut sub, is_present) = resume(two, "roaming");
    assert!(is_present);
    let mut came = [sub.came(), sub.came()];
    came.sort();
    assert_eq!(came[0], ("PUBLISH far/2 two q2 dup".to_owned(), second));
    // It may have been on its way to the first server when the session left that.
    assert_eq!(came[1].0.trim_end_matches(" dup"), "PUBLISH far/3 three q1");
    sub.puback(came[1].1);
    sub.pubrec(second);
    assert_eq!(sub.came(), ("PUBREL".to_owned(), second));
    sub.pubcomp(second);
    let mut asking = Asking::new(two);
    eventually("all is done", || {
        ["$MQTT_msgs", "$MQTT_out"].iter().all(|stream| asking.messages(stream) == 0)
    });
    // Retained messages are those of all servers.
    Peer::connect(address(one), "writer").retain("kept", "everywhere");
    let mut reader = Peer::connect(address(two), "reader");
    eventually("the retained message", || {
        reader.unsubscribe(&["kept"]);
        reader.subscribe(&["kept"]);
        reader.all_came() == [("PUBLISH kept everywhere q0 retain".to_owned(), 0)]
    });
}

#[test]
fn a_session_has_one_connection_in_a_cluster() {
    let servers = cluster();
    let [(one, _), (two, _)] = &servers;
    taken_over(one, two);
}

/// Two subscriptions as nats-server keeps them, with a consumer for each.
#[test]
fn a_session_of_nats_server_goes_on() {
    let server = server("", "");
    Peer::connect(address(&server), "first").barrier();
    let mut asking = Asking::new(&server);
    let hash = session_hash("moved");
    let mut cons = serde_json::Map::new();
    for (pattern, name) in [("f.*", "one"), ("g", "two")] {
        let config = json!({"durable_name": format!("{hash}_{name}"), "deliver_policy": "new",
            "ack_policy": "explicit", "ack_wait": 30_000_000_000_u64, "replay_policy": "instant",
            "filter_subject": format!("$MQTT.msgs.{pattern}"), "max_ack_pending": 1024,
            "deliver_subject": format!("$MQTT.sub.{name}"), "num_replicas": 0});
        let request = json!({"stream_name": "$MQTT_msgs", "config": config}).to_string();
        let made = asking.ask(&format!("CONSUMER.DURABLE.CREATE.$MQTT_msgs.{hash}_{name}"), &request);
        assert_eq!(made["error"], Value::Null, "{made}");
        cons.insert(pattern.to_owned(), config);
    }
    let record = json!({"origin": "RMLnaEVd", "id": "moved", "subs": {"f.*": 1, "g": 1}, "cons": cons});
    let stored = asking.publish(&format!("$MQTT.sess.{hash}"), &record.to_string());
    assert_eq!(stored["error"], Value::Null, "{stored}");
    let mut peer = Peer::connect(address(&server), "pub");
    peer.publish_1("f/x", "1");
    peer.publish_1("g", "2");
    let (mut sub, is_present) = resume(&server, "moved");
    assert!(is_present);
    for wanted in ["PUBLISH f/x 1 q1", "PUBLISH g 2 q1"] {
        let (text, number) = sub.came();
        assert_eq!(text, wanted);
        sub.puback(number);
    }
    assert_eq!(sub.all_came(), []);
    assert_eq!(asking.state("$MQTT_msgs")["consumer_count"], 1);
    eventually("nothing is kept", || asking.messages("$MQTT_msgs") == 0);
}

#[test]
fn a_filter_without_a_consumer_is_refused() {
    let accounts = "accounts { A { jetstream { max_consumers: 1 }, users: [{user: a, password: p}] } }";
    for server in &servers("", accounts) {
        let login = |client_id| {
            let (user_name, password) = (Some("a"), Some(&b"p"[..]));
            let mut peer = Peer::dial(address(server));
            peer.resume(&ConnectPacket { user_name, password, ..lasting(client_id) });
            peer
        };
        let (mut first, mut second) = (login("first"), login("second"));
        assert_eq!(first.subscribe_with(&[("a", Qos::AtLeastOnce)]), [1]);
        let filters = [("a", Qos::AtLeastOnce), ("b", Qos::AtMostOnce)];
        assert_eq!(second.subscribe_with(&filters), [0x80, 0]);
        first.publish_1("b", "x");
        assert_eq!(second.came(), ("PUBLISH b x q0".to_owned(), 0));
        first.send(&publish_1("a", "y"));
        let mut came = [first.came().0, first.came().0];
        came.sort();
        assert_eq!(came, ["PUBACK", "PUBLISH a y q1"]);
        assert_eq!(second.all_came(), []);
    }
}

#[test]
fn large_messages_come_as_fast_as_they_are_acknowledged() {
    let server = &server("", "max_pending: 4MB");
    let (mut sub, _) = resume(server, "large");
    sub.subscribe_with(&[("large", Qos::AtLeastOnce)]);
    leave(sub);
    let mut peer = Peer::connect(address(server), "pub");
    let payload = "x".repeat(500_000);
    (0..20).for_each(|_| peer.publish_1("large", &payload));
    let (mut sub, _) = resume(server, "large");
    for _ in 0..20 {
        let (text, number) = sub.came();
        assert_eq!(text.len(), payload.len() + "PUBLISH large  q1".len());
        sub.puback(number);
    }
    assert_eq!(sub.all_came(), []);
}

#[test]
fn qos_2_may_be_downgraded() {
    for server in &servers("downgrade_qos2_subscribe: true", "") {
        let (mut sub, _) = resume(server, "sub");
        assert_eq!(sub.subscribe_with(&[("d", Qos::ExactlyOnce)]), [1]);
        Peer::connect(address(server), "pub").publish_2("d", "x");
        assert_eq!(sub.came().0, "PUBLISH d x q1");
    }
}

#[test]
fn a_message_that_has_come_does_not_come_to_whoever_leaves_behind_its_pubrec() {
    let server = server("", "");
    let (mut sub, _) = resume(&server, "sub");
    sub.subscribe_with(&[("two", Qos::ExactlyOnce)]);
    Peer::connect(address(&server), "pub").publish_2("two", "once");
    let (text, number) = sub.came();
    assert_eq!(text, "PUBLISH two once q2");
    // Both come at once.
    let bye = DisconnectPacket { reason: ReasonCode::Success, properties: Properties::EMPTY };
    let mut bytes = Vec::new();
    for packet in [ClientPacket::PubRec(AckPacket::success(id(number))), ClientPacket::Disconnect(bye)] {
        packet.encode(ProtocolLevel::V3, &mut bytes);
    }
    sub.send_bytes(&bytes);
    sub.rest();
    let (mut sub, is_present) = resume(&server, "sub");
    assert!(is_present);
    assert_eq!(sub.came(), ("PUBREL".to_owned(), number));
    sub.pubcomp(number);
    Asking::new(&server).until_all_is_settled(&mut sub);
}

/// Large messages wait until others are acknowledged: those are asked for again meanwhile.
#[test]
fn large_messages_of_qos_2_come_once_to_a_client_that_is_slow() {
    let server = server("ack_wait: 2s", "");
    let (mut sub, _) = resume(&server, "sub");
    sub.subscribe_with(&[("large", Qos::ExactlyOnce)]);
    let mut publisher = Peer::connect(address(&server), "pub");
    let payload = |number: u32| format!("{number:03}{}", "x".repeat(100_000));
    (0..20).for_each(|number| publisher.publish_2("large", &payload(number)));
    let mut came = sub.all_came();
    assert!((1..20).contains(&came.len()), "{} at once", came.len());
    let mut asking = Asking::new(&server);
    let names = asking.ask("CONSUMER.NAMES.$MQTT_msgs", "")["consumers"].clone();
    let info = format!("CONSUMER.INFO.$MQTT_msgs.{}", names[0].as_str().expect("a name"));
    eventually("they are asked for again", || {
        asking.ask(&info, "")["num_redelivered"].as_u64() >= Some(came.len() as u64)
    });
    // What the client has begun, and how often it has taken each for new.
    let (mut begun, mut taken) = (std::collections::BTreeSet::new(), vec![0; 20]);
    eventually("all are taken", || {
        came.append(&mut sub.all_came());
        for (text, number) in came.drain(..) {
            if text == "PUBREL" {
                begun.remove(&number);
                sub.pubcomp(number);
                continue;
            }
            let place = text["PUBLISH large ".len()..][..3].parse::<usize>().expect("a number");
            taken[place] += usize::from(begun.insert(number));
            sub.pubrec(number);
        }
        begun.is_empty() && asking.messages("$MQTT_msgs") == 0
    });
    assert_eq!(taken, vec![1; 20]);
}
