//! Shared subscriptions of MQTT 5 with QoS 1 and 2: members share what is stored.

use super::peer::{Peer, id};
use super::peer5::{Came, hello5};
use super::stored::Asking;
use super::{address, cluster, server};
use crate::eventually;
use crate::process::Server;
use crate::raw::Raw;
use myelin_mqtt::packet::{
    AckPacket, ClientPacket, ConnectPacket, Properties, Property, Qos, ReasonCode, ServerPacket,
    SubscribeFilters, SubscribeOptions, SubscribePacket, UnsubscribeFilters, UnsubscribePacket,
};
use std::net::SocketAddr;
use std::num::NonZeroU16;

const LONG: Property<'static> = Property::SessionExpiry(1000);

/// A share of which tests are members.
const JOBS: &str = "$share/g/jobs/#";

/// Connects, and becomes a member of the share with this QoS.
fn member(at: SocketAddr, client_id: &str, qos: Qos, properties: &[Property<'_>]) -> Peer {
    let (mut peer, is_present) = Peer::resume5(at, (client_id, true), properties);
    assert!(!is_present);
    assert_eq!(peer.subscribe_with(&[(JOBS, qos)]), [qos as u8]);
    peer
}

/// Publishes numbers, as fast as the server acknowledges.
fn publish(at: SocketAddr, numbers: impl IntoIterator<Item = u32>, qos: u8) {
    let mut publisher = Peer::connect5(at, "publisher");
    for number in numbers {
        publisher.send5(("jobs/x", &number.to_string()), (qos, false), &[]);
    }
    publisher.quit5(&[]);
}

/// Messages that come before the answer to a PINGREQ; none is acknowledged.
fn all(peer: &mut Peer) -> Vec<Came> {
    let mut all = Vec::new();
    peer.send(&ClientPacket::PingReq);
    while let Some(came) = peer.publish_or_ping() {
        all.push(came);
    }
    all
}

fn numbers(came: &[Came]) -> Vec<u32> {
    let mut numbers: Vec<u32> = came.iter().map(|came| came.payload.parse().expect("a number")).collect();
    numbers.sort_unstable();
    numbers
}

/// Consumers of stored messages.
fn consumers(server: &Server) -> u64 {
    let state = Asking::new(server).state("$MQTT_msgs");
    state["consumer_count"].as_u64().expect("a number")
}

/// Takes so many messages of two members, each as it comes, and acknowledges them.
fn take_all(peers: &mut [&mut Peer], count: usize) -> Vec<Vec<Came>> {
    let mut took: Vec<Vec<Came>> = peers.iter().map(|_| Vec::new()).collect();
    eventually("all have come", || {
        for (peer, took) in peers.iter_mut().zip(&mut took) {
            let came = all(peer);
            came.iter().for_each(|came| peer.puback(came.number));
            took.extend(came);
        }
        took.iter().map(Vec::len).sum::<usize>() >= count
    });
    took
}

#[test]
fn each_message_goes_to_one_member() {
    let server = server("", "");
    let at = address(&server);
    let mut one = member(at, "1", Qos::AtLeastOnce, &[]);
    let mut two = member(at, "2", Qos::AtLeastOnce, &[]);
    publish(at, 0..200, 1);
    let took = take_all(&mut [&mut one, &mut two], 200);
    assert_eq!(numbers(&took.concat()), (0..200).collect::<Vec<_>>());
    assert!(took.iter().all(|took| took.len() >= 40), "{:?}", [took[0].len(), took[1].len()]);
    assert!(took.concat().iter().all(|came| (came.qos, came.dup) == (1, false)));
    // Of messages of QoS 0 each comes to one, as it is.
    let mut publisher = Peer::connect5(at, "p");
    publisher.publish5("jobs/y", "now", &[]);
    publisher.barrier();
    let came = [all(&mut one), all(&mut two)].concat();
    assert_eq!(came.iter().map(|came| (&*came.payload, came.qos)).collect::<Vec<_>>(), [("now", 0)]);
    // The last one that leaves takes the consumer with it.
    assert_eq!(one.unsubscribe5(&[JOBS]), [0]);
    assert_eq!(consumers(&server), 1);
    two.quit5(&[]);
    eventually("the consumer is gone", || consumers(&server) == 0);
    let mut asking = Asking::new(&server);
    eventually("nothing is left", || {
        asking.messages("$MQTT_msgs") == 0 && asking.last("$MQTT_sess", "$MQTT.sess.$share.>").1.is_empty()
    });
}

#[test]
fn what_a_member_has_not_acknowledged_goes_to_another() {
    let server = server("", "");
    let at = address(&server);
    for expiry in [0, 1000] {
        let mut first = member(at, "first", Qos::AtLeastOnce, &[Property::SessionExpiry(expiry)]);
        publish(at, 0..10, 1);
        let mut came = Vec::new();
        eventually("they have come", || {
            came.extend(all(&mut first));
            came.len() == 10
        });
        came[..3].iter().for_each(|came| first.puback(came.number));
        first.barrier();
        let mut second = member(at, "second", Qos::AtLeastOnce, &[]);
        drop(first);
        let took = take_all(&mut [&mut second], 7);
        assert_eq!(numbers(&took[0]), (3..10).collect::<Vec<_>>(), "expiry {expiry}");
        assert!(took[0].iter().all(|came| !came.dup), "it is the first time for this client");
        second.quit5(&[]);
        drop(Peer::resume5(at, ("first", true), &[]));
        eventually("nothing is left", || consumers(&server) == 0);
    }
}

#[test]
fn what_comes_while_no_member_is_connected_is_kept_for_sessions_that_last() {
    let mut server = server("", "");
    let member = member(address(&server), "1", Qos::AtLeastOnce, &[LONG]);
    member.quit5(&[]);
    publish(address(&server), 0..5, 1);
    server.server.restart();
    let at = address(&server);
    publish(at, 5..10, 1);
    let (mut member, is_present) = Peer::resume5(at, ("1", false), &[LONG]);
    assert!(is_present);
    let took = take_all(&mut [&mut member], 10);
    assert_eq!(numbers(&took[0]), (0..10).collect::<Vec<_>>());
    member.quit5(&[Property::SessionExpiry(0)]);
    eventually("the consumer is gone", || consumers(&server) == 0);
    // Of members whose sessions have ended nothing is kept for a new one.
    publish(at, 10..20, 1);
    let mut new = self::member(at, "2", Qos::AtLeastOnce, &[]);
    publish(at, 20..21, 1);
    let took = take_all(&mut [&mut new], 1);
    assert_eq!(numbers(&took[0]), [20]);
    assert!(all(&mut new).is_empty());
}

#[test]
fn a_member_gets_no_more_than_it_takes() {
    let server = server("", "");
    let at = address(&server);
    let one = Property::ReceiveMaximum(NonZeroU16::MIN);
    let mut slow = member(at, "slow", Qos::AtLeastOnce, &[one]);
    let mut fast = member(at, "fast", Qos::AtLeastOnce, &[]);
    publish(at, 0..50, 1);
    let mut first = Vec::new();
    let took = take_all(&mut [&mut fast], 49);
    eventually("it has one", || {
        first.extend(all(&mut slow));
        !first.is_empty()
    });
    assert_eq!(first.len(), 1);
    assert_eq!(numbers(&[took.concat(), first.clone()].concat()), (0..50).collect::<Vec<_>>());
    assert!(all(&mut slow).is_empty());
    slow.puback(first[0].number);
    publish(at, 50..60, 1);
    let took = take_all(&mut [&mut slow, &mut fast], 10);
    assert_eq!(numbers(&took.concat()), (50..60).collect::<Vec<_>>());
}

#[test]
fn a_message_of_qos_2_stays_with_its_member() {
    let server = server("", "");
    let at = address(&server);
    let mut first = member(at, "first", Qos::ExactlyOnce, &[LONG]);
    let mut publisher = Peer::connect5(at, "p");
    publisher.send5(("jobs/x", "2"), (2, false), &[Property::User(("k", "v"))]);
    let came = first.came5();
    assert_eq!((&*came.topic, &*came.payload, came.qos), ("jobs/x", "2", 2));
    assert_eq!(came.properties, ["User((\"k\", \"v\"))"]);
    let mut second = member(at, "second", Qos::ExactlyOnce, &[]);
    first.quit5(&[]);
    // The other one gets what is published from then on, and nothing that the first one has.
    publisher.send5(("jobs/x", "3"), (2, false), &[]);
    assert_eq!(second.take5().payload, "3");
    publisher.send5(("jobs", "1"), (1, false), &[]);
    assert_eq!(second.take5().qos, 1);
    assert!(all(&mut second).is_empty());
    let (mut first, is_present) = Peer::resume5(at, ("first", false), &[LONG]);
    assert!(is_present);
    let again = first.take5();
    assert_eq!((&*again.topic, &*again.payload, again.qos, again.dup), ("jobs/x", "2", 2, true));
    assert_eq!(again.number, came.number);
    assert!(all(&mut first).is_empty());
    // A filter of everything does not see what is one member's.
    let mut watcher = Peer::connect5(at, "w");
    assert_eq!(watcher.subscribe_with(&[("#", Qos::ExactlyOnce)]), [2]);
    assert_eq!(second.unsubscribe5(&[JOBS]), [0]);
    publisher.send5(("jobs/x", "4"), (2, false), &[]);
    assert_eq!([first.take5(), watcher.take5()].map(|came| came.payload), ["4", "4"]);
    assert!(all(&mut watcher).is_empty());
    first.quit5(&[Property::SessionExpiry(0)]);
    watcher.quit5(&[]);
    second.quit5(&[]);
    eventually("nothing is left", || consumers(&server) == 0);
    assert_eq!(Asking::new(&server).messages("$MQTT_msgs"), 0);
}

/// A session may have a message by a share and by a subscription of its own.
#[test]
fn a_share_is_one_subscription_among_others() {
    let server = server("", "");
    let at = address(&server);
    let mut peer = member(at, "1", Qos::AtLeastOnce, &[]);
    let options = SubscribeOptions { max_qos: Qos::AtLeastOnce, ..SubscribeOptions::default() };
    assert_eq!(peer.subscribe5(&[("jobs/+", options)], Some(5)), [1]);
    assert_eq!(peer.subscribe5(&[("$share/other/jobs/x", options)], Some(6)), [1]);
    publish(at, 0..3, 1);
    let took = take_all(&mut [&mut peer], 9).concat();
    let mut came: Vec<_> = took.iter().map(|came| (came.payload.clone(), came.properties.join(""))).collect();
    came.sort();
    let own = |number: u32| {
        let id = |id: u32| format!("SubscriptionId(SubscriptionId({id}))");
        [String::new(), id(5), id(6)].map(|id| (number.to_string(), id))
    };
    assert_eq!(came, (0..3).flat_map(own).collect::<Vec<_>>());
    // With QoS 0 from now on: messages come as they are published, and nothing is stored.
    assert_eq!(peer.listen5(&["$share/other/jobs/x", JOBS]), [0, 0]);
    assert_eq!(peer.unsubscribe5(&["jobs/+"]), [0]);
    assert_eq!(consumers(&server), 0);
    publish(at, 3..4, 1);
    let came = all(&mut peer);
    assert_eq!(came.iter().map(|came| came.qos).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn members_for_which_nothing_is_stored_are_a_group_of_their_own() {
    let server = server("", "");
    let at = address(&server);
    let mut one = member(at, "1", Qos::AtLeastOnce, &[]);
    let mut two = member(at, "2", Qos::AtMostOnce, &[]);
    let mut raw = Raw::connect(&server);
    raw.send("SUB jobs.> g 1\r\n");
    raw.barrier();
    publish(at, 0..50, 1);
    assert_eq!(numbers(&take_all(&mut [&mut one], 50)[0]), (0..50).collect::<Vec<_>>());
    let (of_nats, came) = (raw.barrier().len(), all(&mut two));
    assert!(came.iter().all(|came| came.qos == 0), "{came:?}");
    assert_eq!(of_nats + came.len(), 50, "{of_nats} of them to the NATS client");
}

#[test]
fn what_a_client_refuses_goes_to_nobody() {
    let server = server("", "");
    let at = address(&server);
    let mut first = member(at, "1", Qos::AtLeastOnce, &[]);
    publish(at, 0..1, 1);
    let came = first.came5();
    let reason = ReasonCode::UnspecifiedError;
    first.send(&ClientPacket::PubAck(AckPacket { reason, ..AckPacket::success(id(came.number)) }));
    first.barrier();
    let mut second = member(at, "2", Qos::AtLeastOnce, &[]);
    drop(first);
    publish(at, 1..2, 1);
    let took = take_all(&mut [&mut second], 1);
    assert_eq!(numbers(&took[0]), [1]);
}

#[test]
fn shares_span_the_servers_of_a_cluster() {
    let servers = cluster();
    let [here, there] = [&servers[0].0, &servers[1].0].map(address);
    let mut one = member(here, "1", Qos::AtLeastOnce, &[LONG]);
    let mut two = member(there, "2", Qos::AtLeastOnce, &[LONG]);
    publish(there, 0..100, 1);
    let took = take_all(&mut [&mut one, &mut two], 100);
    assert_eq!(numbers(&took.concat()), (0..100).collect::<Vec<_>>());
    assert!(took.iter().all(|took| took.len() >= 10), "{:?}", [took[0].len(), took[1].len()]);
    // What the one has not acknowledged comes to the other, wherever that is.
    two.quit5(&[]);
    publish(there, 100..105, 1);
    let mut came = Vec::new();
    eventually("they have come", || {
        came.extend(all(&mut one));
        came.len() == 5
    });
    one.quit5(&[]);
    let (mut two, is_present) = Peer::resume5(here, ("2", false), &[LONG]);
    assert!(is_present);
    let took = take_all(&mut [&mut two], 5);
    assert_eq!(numbers(&took[0]), (100..105).collect::<Vec<_>>());
    assert_eq!(two.unsubscribe5(&[JOBS]), [0]);
    assert_eq!(consumers(&servers[1].0), 1, "the other session is a member");
    let (_one, is_present) = Peer::resume5(there, ("1", true), &[]);
    assert!(!is_present);
    eventually("the consumer is gone", || consumers(&servers[1].0) == 0);
}

#[test]
fn a_share_whose_consumer_is_removed_gets_it_again() {
    let server = server("", "");
    let at = address(&server);
    let mut peer = member(at, "1", Qos::AtLeastOnce, &[LONG]);
    let mut asking = Asking::new(&server);
    let names = asking.ask("CONSUMER.NAMES.$MQTT_msgs", "")["consumers"].clone();
    let name = names[0].as_str().expect("a name").to_owned();
    assert_eq!(asking.ask(&format!("CONSUMER.DELETE.$MQTT_msgs.{name}"), "")["success"], true);
    let info = format!("CONSUMER.INFO.$MQTT_msgs.{name}");
    eventually("it is there again", || asking.ask(&info, "")["error"].is_null());
    publish(at, 0..1, 1);
    assert_eq!(numbers(&take_all(&mut [&mut peer], 1)[0]), [0]);
    let info = asking.ask(&info, "");
    assert_eq!(info["config"]["inactive_threshold"], 1_060_000_000_000_u64, "{info}");
}

#[test]
fn a_share_is_refused_where_nothing_can_be_stored() {
    let limits = "jetstream { max_consumers: 1 }";
    let server = server("", &format!("accounts {{ A {{ {limits}, users: [{{user: u, password: p}}] }} }}"));
    let connect = ConnectPacket { user_name: Some("u"), password: Some(b"p"), ..hello5("1") };
    let mut peer = Peer::enter(address(&server), &connect);
    assert_eq!(peer.subscribe_with(&[("own", Qos::AtLeastOnce)]), [1]);
    assert_eq!(peer.subscribe_with(&[(JOBS, Qos::AtLeastOnce), ("now", Qos::AtMostOnce)]), [0x83, 0]);
    let mut asking = Asking::login(&server, r#","user":"u","pass":"p""#);
    eventually("it is no member", || asking.last("$MQTT_sess", "$MQTT.sess.$share.>").1.is_empty());
    assert_eq!(peer.unsubscribe5(&[JOBS, "own", "now"]), [0x11, 0, 0]);
    assert_eq!(peer.subscribe_with(&[(JOBS, Qos::AtLeastOnce)]), [1]);
}

/// A session asks all its shares together for no more than its client takes, and what it cannot
/// send goes to others at once.
#[test]
fn a_member_of_many_shares_keeps_nothing_from_others() {
    let server = server("ack_wait: \"5m\"", "");
    let at = address(&server);
    let filters = ["1", "2", "3", "4", "5"].map(|group| format!("$share/{group}/jobs/#"));
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let filters: Vec<_> = filters.iter().map(|filter| (filter.as_str(), qos)).collect();
        let codes = vec![qos as u8; filters.len()];
        let (mut slow, _) = Peer::resume5(at, ("slow", true), &[Property::ReceiveMaximum(NonZeroU16::MIN)]);
        assert_eq!(slow.subscribe_with(&filters), codes);
        publish(at, 0..1, 2);
        let first = slow.came5();
        let (mut fast, _) = Peer::resume5(at, ("fast", true), &[Property::ReceiveMaximum(NonZeroU16::MIN)]);
        assert_eq!(fast.subscribe_with(&filters), codes);
        for _ in 0..4 {
            let came = fast.take5();
            assert_eq!((&*came.payload, came.qos), ("0", qos as u8));
        }
        assert!(all(&mut slow).is_empty());
        // It gets what comes when it is done.
        assert_eq!(first.payload, "0");
        fast.quit5(&[]);
        slow.quit5(&[]);
        eventually("nothing is left", || consumers(&server) == 0);
    }
}

/// A member whose client answers nothing takes as many of QoS 2 as are on their way to it.
#[test]
fn a_stuck_member_leaves_the_rest_to_others() {
    let server = server("max_ack_pending: 5\nack_wait: \"5m\"", "");
    let at = address(&server);
    let mut stuck = member(at, "stuck", Qos::ExactlyOnce, &[LONG]);
    publish(at, 0..60, 2);
    let mut came = Vec::new();
    eventually("it has what it takes", || {
        came.extend(all(&mut stuck));
        came.len() == 5
    });
    let one = Property::ReceiveMaximum(NonZeroU16::MIN);
    let mut second = member(at, "second", Qos::ExactlyOnce, &[one]);
    let rest: Vec<_> = (0..40).map(|_| second.take5()).collect();
    assert_eq!(numbers(&[came, rest].concat()), (0..45).collect::<Vec<_>>());
    let mut asking = Asking::new(&server);
    let names = asking.ask("CONSUMER.NAMES.$MQTT_msgs", "")["consumers"].clone();
    let of_share = |name: &&serde_json::Value| name.as_str().is_some_and(|name| name.contains("SHARE"));
    let name = names.as_array().expect("names").iter().find(of_share).expect("the share's");
    let info = asking.ask(&format!("CONSUMER.INFO.$MQTT_msgs.{}", name.as_str().expect("text")), "");
    assert_eq!(info["config"]["max_ack_pending"], -1, "{info}");
}

/// Members leave while messages come: each of these goes to somebody who stays.
#[test]
fn a_member_that_leaves_takes_no_message_with_it() {
    let server = server("", "");
    let at = address(&server);
    let mut stays = member(at, "stays", Qos::ExactlyOnce, &[]);
    let mut took = Vec::new();
    std::thread::scope(|scope| {
        let publisher = scope.spawn(move || publish(at, 0..600, 2));
        // By an UNSUBSCRIBE, and by less QoS.
        let mut leaves = member(at, "leaves", Qos::ExactlyOnce, &[LONG]);
        let mut turn = 0;
        while !publisher.is_finished() {
            turn += 1;
            if turn % 2 == 0 {
                leaves.ask_to_leave(JOBS);
            } else {
                leaves.ask_for(JOBS, if turn % 4 == 1 { Qos::AtLeastOnce } else { Qos::ExactlyOnce });
            }
            took.extend(leaves.finish_all());
            took.extend(stays.finish_all());
        }
        eventually("all have come", || {
            took.extend(leaves.finish_all());
            took.extend(stays.finish_all());
            took.len() >= 600
        });
    });
    took.sort_unstable();
    assert_eq!(took, (0..600).collect::<Vec<_>>());
}

/// Members whose sessions end with their connections leave while messages are on their way: what
/// was not sent to them goes to others.
#[test]
fn what_was_not_sent_to_a_session_that_ends_goes_to_other_members() {
    let server = server("ack_wait: 5s", "");
    let at = address(&server);
    member(at, "stays", Qos::ExactlyOnce, &[LONG]).quit5(&[]);
    publish(at, 0..300, 2);
    let mut took = Vec::new();
    for turn in 0..12 {
        let few = Property::ReceiveMaximum(NonZeroU16::new(20).expect("not zero"));
        let mut ends = member(at, &format!("ends{turn}"), Qos::ExactlyOnce, &[few]);
        (0..turn % 4).for_each(|_| took.extend(numbers(&all(&mut ends))));
        took.extend(ends.end());
    }
    let (mut stays, is_present) = Peer::resume5(at, ("stays", false), &[LONG]);
    assert!(is_present);
    eventually("all have come", || {
        took.extend(stays.finish_all());
        took.len() >= 300
    });
    took.sort_unstable();
    assert_eq!(took, (0..300).collect::<Vec<_>>());
}

#[test]
fn a_session_gets_its_own_messages_in_order_beside_those_of_a_share() {
    let server = server("", "");
    let at = address(&server);
    let mut peer = member(at, "1", Qos::AtLeastOnce, &[]);
    let options = SubscribeOptions { max_qos: Qos::AtLeastOnce, ..SubscribeOptions::default() };
    assert_eq!(peer.subscribe5(&[("jobs/+", options)], Some(5)), [1]);
    publish(at, 0..30, 1);
    // None of them is acknowledged.
    let mut came = Vec::new();
    eventually("all have come", || {
        came.extend(all(&mut peer));
        came.len() == 60
    });
    let own = came.iter().filter(|came| !came.properties.is_empty());
    let own: Vec<u32> = own.map(|came| came.payload.parse().expect("a number")).collect();
    assert_eq!(own, (0..30).collect::<Vec<_>>());
    let mut ids: Vec<_> = came.iter().map(|came| came.number).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 60);
}

/// Messages that are a member's already come also when it has left the share and its connection.
#[test]
fn what_was_begun_with_qos_2_is_brought_to_its_end() {
    let server = server("", "");
    let at = address(&server);
    for leaves in [true, false] {
        let mut peer = member(at, "1", Qos::ExactlyOnce, &[LONG]);
        publish(at, 0..1, 2);
        let first = peer.came5();
        match leaves {
            true => assert_eq!(peer.unsubscribe5(&[JOBS]), [0]),
            false => assert_eq!(peer.subscribe_with(&[(JOBS, Qos::AtLeastOnce)]), [1]),
        }
        peer.quit5(&[]);
        let (mut peer, is_present) = Peer::resume5(at, ("1", false), &[LONG]);
        assert!(is_present);
        let again = peer.take5();
        assert_eq!((again.number, &*again.payload, again.qos), (first.number, "0", 2));
        peer.quit5(&[Property::SessionExpiry(0)]);
        eventually("nothing is left", || consumers(&server) == 0);
    }
}

#[test]
fn the_consumer_of_members_that_work_long_is_in_use() {
    let server = server("ack_wait: 1s, consumer_inactive_threshold: 2s", "");
    let at = address(&server);
    let one = Property::ReceiveMaximum(NonZeroU16::MIN);
    let mut peer = member(at, "1", Qos::AtLeastOnce, &[one]);
    publish(at, 0..5, 1);
    let first = peer.came5();
    // One that nobody uses, with more time.
    let mut asking = Asking::new(&server);
    let config = r#"{"name":"idle","durable_name":"idle","ack_policy":"explicit","filter_subject":"none",
        "inactive_threshold":6000000000}"#;
    let body = format!(r#"{{"stream_name":"$MQTT_out","config":{config}}}"#);
    let made = asking.ask("CONSUMER.CREATE.$MQTT_out.idle", &body);
    assert!(made["error"].is_null(), "{made}");
    eventually("its time is over", || !asking.ask("CONSUMER.INFO.$MQTT_out.idle", "")["error"].is_null());
    assert_eq!(consumers(&server), 1);
    peer.puback(first.number);
    let took = take_all(&mut [&mut peer], 4);
    assert_eq!(numbers(&took[0]), [1, 2, 3, 4]);
}

#[test]
fn whoever_begins_anew_leaves_the_shares_of_a_clean_session() {
    let server = server("", "");
    let at = address(&server);
    let _before = member(at, "1", Qos::AtLeastOnce, &[]);
    let (_after, is_present) = Peer::resume5(at, ("1", true), &[]);
    assert!(!is_present);
    assert!(Asking::new(&server).last("$MQTT_sess", "$MQTT.sess.$share.>").1.is_empty());
    assert_eq!(consumers(&server), 0);
}

#[test]
fn of_a_share_that_is_named_twice_the_last_counts() {
    let server = server("", "");
    let at = address(&server);
    let mut peer = Peer::connect5(at, "1");
    let twice = [(JOBS, Qos::AtLeastOnce), (JOBS, Qos::AtMostOnce)];
    assert_eq!(peer.subscribe_with(&twice), [1, 0]);
    assert_eq!(consumers(&server), 0);
    publish(at, 0..1, 1);
    assert_eq!(all(&mut peer).iter().map(|came| came.qos).collect::<Vec<_>>(), [0]);
    let twice = [(JOBS, Qos::AtMostOnce), (JOBS, Qos::AtLeastOnce)];
    assert_eq!(peer.subscribe_with(&twice), [0, 1]);
    assert_eq!(consumers(&server), 1);
}

impl Peer {
    /// UNSUBSCRIBE, whose answer comes among messages.
    pub(super) fn ask_to_leave(&mut self, filter: &str) {
        let mut raw = Vec::new();
        UnsubscribeFilters::push(filter, &mut raw);
        let (properties, filters) = (Properties::EMPTY, UnsubscribeFilters::of(&raw));
        self.send(&ClientPacket::Unsubscribe(UnsubscribePacket { packet_id: id(2), properties, filters }));
    }

    /// SUBSCRIBE, whose answer comes among messages.
    pub(super) fn ask_for(&mut self, filter: &str, max_qos: Qos) {
        let mut raw = Vec::new();
        SubscribeFilters::push(filter, SubscribeOptions { max_qos, ..SubscribeOptions::default() }, &mut raw);
        let (properties, filters) = (Properties::EMPTY, SubscribeFilters::of(&raw));
        self.send(&ClientPacket::Subscribe(SubscribePacket { packet_id: id(1), properties, filters }));
    }

    /// Ends the session, and says what comes before the end of the connection; nothing is answered.
    fn end(&mut self) -> Vec<u32> {
        let mut came = Vec::new();
        self.disconnect();
        while let Some(number) = self.with_packet(|packet| match packet {
            ServerPacket::Publish(publish) => {
                Some(std::str::from_utf8(publish.payload).expect("text").parse::<u32>().expect("a number"))
            }
            _ => None,
        }) {
            came.extend(number);
        }
        came
    }

    /// Answers what comes before the answer to a PINGREQ; the numbers in messages.
    pub(super) fn finish_all(&mut self) -> Vec<u32> {
        let mut came = Vec::new();
        self.send(&ClientPacket::PingReq);
        loop {
            let answer = self.with_packet(|packet| match packet {
                ServerPacket::Publish(publish) => {
                    came.push(std::str::from_utf8(publish.payload).expect("text").parse().expect("a number"));
                    let id = publish.exchange.packet_id().expect("it is stored");
                    let ack = AckPacket::success(id);
                    let is_twice = publish.exchange.qos() == Qos::ExactlyOnce;
                    Some(Some(if is_twice { ClientPacket::PubRec(ack) } else { ClientPacket::PubAck(ack) }))
                }
                ServerPacket::PubRel(ack) => {
                    Some(Some(ClientPacket::PubComp(AckPacket::success(ack.packet_id))))
                }
                ServerPacket::SubAck(_) | ServerPacket::UnsubAck(_) => Some(None),
                ServerPacket::PingResp => None,
                other => panic!("{other:?}"),
            });
            match answer.expect("the connection is open") {
                Some(answer) => answer.iter().for_each(|answer| self.send(answer)),
                None => return came,
            }
        }
    }
}
