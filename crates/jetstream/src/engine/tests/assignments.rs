//! The meta group: streams are made, changed and removed on all servers by one request.

use super::house::{House, stream};
use super::meta_cluster::MetaCluster;
use crate::engine::meta::{Assignment, peer_of};
use crate::engine::{ApiRequest, GroupSettings, KeptLogBounds};
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::ApiError;
use myelin_replica::GroupId;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const CREATE: &str = r#"{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":3}"#;

/// Servers whose meta group has a leader.
fn cluster() -> MetaCluster {
    let mut cluster = MetaCluster::with_meta(3);
    wait_for_leader(&mut cluster);
    cluster
}

fn wait_for_leader(cluster: &mut MetaCluster) {
    for _ in 0..200 {
        cluster.pass(1);
        if cluster.meta_leader().is_some() {
            return;
        }
    }
    panic!("nobody leads the meta group");
}

/// The one answer to a request.
fn ask(cluster: &mut MetaCluster, subject: &str, body: &str) -> String {
    cluster.answer_within(100, subject, body)
}

#[test]
fn a_stream_with_replicas_is_made_by_one_request() {
    let mut cluster = cluster();
    let answer = ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    assert!(answer.contains(r#""did_create":true"#), "{answer}");
    assert!(answer.contains(r#""raft_group":"S-R3F-"#), "{answer}");
    let leader = cluster.leader().expect("who answers leads");
    cluster.publish(leader, "one");
    assert_eq!(cluster.acks(), 1);
    cluster.pass(4);
    assert_eq!(cluster.contents(), [(1, 1); 3]);
    let info = ask(&mut cluster, "STREAM.INFO.S", "");
    assert!(info.contains(r#""messages":1"#), "{info}");
    assert_eq!(info.matches(r#""current":true"#).count(), 2, "{info}");
    let again = ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    assert!(!again.contains("did_create") && again.contains(r#""messages":1"#), "it was there: {again}");
    let names = ask(&mut cluster, "STREAM.NAMES", "");
    assert!(names.contains(r#""streams":["S"]"#), "{names}");
}

const CONSUMER: &str = r#"{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}"#;

#[test]
fn a_list_of_consumers_behind_the_last_one_counts_none() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let made = ask(&mut cluster, "CONSUMER.CREATE.S.C", CONSUMER);
    assert!(made.contains(r#""name":"C""#), "{made}");
    let all = ask(&mut cluster, "CONSUMER.LIST.S", "");
    assert!(all.contains(r#""total":1"#), "{all}");
    let none = ask(&mut cluster, "CONSUMER.LIST.S", r#"{"offset":7}"#);
    assert!(none.contains(r#""total":0"#), "{none}");
    let names = ask(&mut cluster, "CONSUMER.NAMES.S", r#"{"offset":7}"#);
    assert!(names.contains(r#""total":1"#), "{names}");
}

#[test]
fn a_list_of_streams_behind_the_last_one_counts_none() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let all = ask(&mut cluster, "STREAM.LIST", "");
    assert!(all.contains(r#""total":1"#), "{all}");
    let none = ask(&mut cluster, "STREAM.LIST", r#"{"offset":7}"#);
    assert!(none.contains(r#""total":0,"offset":1"#), "{none}");
    let names = ask(&mut cluster, "STREAM.NAMES", r#"{"offset":7}"#);
    assert!(names.contains(r#""total":1,"offset":1"#), "{names}");
}

#[test]
fn a_follower_that_is_alone_says_that_nobody_leads() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    ask(&mut cluster, "CONSUMER.CREATE.S.C", CONSUMER);
    cluster.pass(10);
    let leader = cluster.leader().expect("somebody leads");
    let alone = (leader + 1) % 3;
    (0..3).filter(|number| *number != alone).for_each(|number| cluster.kill(number));
    cluster.pass(400);
    let why = cluster.answer_within(100, "MYELIN.WHY.CONSUMER.S.C", "");
    assert!(why.contains(r#""no_quorum""#), "{why}");
}

/// Its members would wait for each other's logs if they might have had some on other disks: that
/// they had none is known soon, and not only when the observer looks, two seconds later.
#[test]
fn the_first_stream_of_a_new_cluster_has_a_leader_at_once() {
    let mut cluster = cluster();
    cluster.pass(4);
    let answer = cluster.answer_within(10, "STREAM.CREATE.S", CREATE);
    assert!(answer.contains(r#""did_create":true"#), "{answer}");
}

/// A decision may have to ask other servers first.
#[test]
fn what_was_decided_on_an_assignment_that_counts_no_more_is_not_taken() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let leader = cluster.meta_leader().expect("somebody leads");
    let meta = cluster.house(leader).jetstream.meta().expect("it has a meta group");
    let (known, on) = meta.known("$G", "S");
    let changed = Assignment { nonce: 7, ..(*known.expect("it is there")).clone() };
    ask(&mut cluster, "STREAM.DELETE.S", "");
    let mut proposal = Box::pin(meta.propose(&changed, on));
    let said = proposal.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(said, Poll::Ready(Err(ApiError::CLUSTER_NOT_AVAIL)), "nobody waits for it");
    drop(proposal);
    cluster.pass(10);
    assert!(meta.known("$G", "S").0.is_none(), "it was removed meanwhile");
    assert!((0..3).all(|number| cluster.house(number).streams().stream("S").is_none()));
}

#[test]
fn a_stream_is_removed_everywhere() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let answer = ask(&mut cluster, "STREAM.DELETE.S", "");
    assert!(answer.contains(r#""success":true"#), "{answer}");
    cluster.pass(4);
    assert!((0..3).all(|number| cluster.house(number).streams().stream("S").is_none()));
    let info = ask(&mut cluster, "STREAM.INFO.S", "");
    assert!(info.contains("stream not found"), "{info}");
    let again = ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    assert!(again.contains(r#""did_create":true"#), "{again}");
}

/// Its group agrees to nothing any more: whoever waited for that waited for ever.
#[test]
fn a_stream_is_removed_with_its_consumers() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let config = r#"{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}"#;
    let made = ask(&mut cluster, "CONSUMER.DURABLE.CREATE.S.C", config);
    assert!(made.contains(r#""raft_group":"C-R3F-"#), "{made}");
    cluster.pass(4);
    let answer = ask(&mut cluster, "STREAM.DELETE.S", "");
    assert!(answer.contains(r#""success":true"#), "{answer}");
    cluster.pass(4);
    assert!((0..3).all(|number| cluster.house(number).streams().stream("S").is_none()));
}

#[test]
fn what_is_wrong_is_refused_by_one_server() {
    let mut cluster = cluster();
    let answer = ask(&mut cluster, "STREAM.CREATE.S", &CREATE.replace(":3", ":5"));
    assert!(answer.contains(r#""err_code":10005"#), "{answer}");
    let answer = ask(&mut cluster, "STREAM.CREATE.T", CREATE);
    assert!(answer.contains("stream name in subject does not match request"), "{answer}");
    let answer = ask(&mut cluster, "STREAM.DELETE.S", "");
    assert!(answer.contains("stream not found"), "{answer}");
}

#[test]
fn a_changed_configuration_is_everywhere() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let changed = CREATE.replace("}", r#","max_msgs":7}"#);
    let answer = ask(&mut cluster, "STREAM.UPDATE.S", &changed);
    assert!(answer.contains(r#""max_msgs":7"#), "{answer}");
    cluster.pass(4);
    for number in 0..3 {
        assert_eq!(cluster.house(number).stream("S").config().max_msgs, 7);
    }
}

#[test]
fn streams_are_there_when_all_servers_come_back() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let leader = cluster.leader().expect("who answers leads");
    cluster.publish(leader, "one");
    cluster.pass(4);
    (0..3).for_each(|number| cluster.kill(number));
    (0..3).for_each(|number| cluster.begin(number));
    let leader = cluster.elect();
    cluster.publish(leader, "two");
    assert_eq!(cluster.acks(), 2);
    cluster.pass(4);
    assert_eq!(cluster.contents(), [(2, 2); 3]);
}

#[test]
fn a_server_that_was_away_makes_and_removes_what_was_assigned_meanwhile() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let away = (cluster.meta_leader().expect("it has one") + 1) % 3;
    cluster.pass(4);
    cluster.kill(away);
    cluster.pass(60);
    ask(&mut cluster, "STREAM.DELETE.S", "");
    ask(&mut cluster, "STREAM.CREATE.T", &CREATE.replace('S', "T"));
    cluster.begin(away);
    cluster.pass(60);
    let streams = cluster.house(away).streams();
    assert!(streams.stream("S").is_none());
    assert!(streams.stream("T").is_some());
}

#[test]
fn a_stream_that_was_there_before_is_assigned_to_its_server() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.house(1).create(stream("OLD"));
    cluster.house(1).publish("OLD.a");
    wait_for_leader(&mut cluster);
    cluster.pass(100);
    let names = ask(&mut cluster, "STREAM.NAMES", "");
    assert!(names.contains(r#""streams":["OLD"]"#), "{names}");
    let info = ask(&mut cluster, "STREAM.INFO.OLD", "");
    assert!(info.contains(r#""messages":1"#) && info.contains(r#""leader":"n2""#), "{info}");
}

#[test]
fn another_stream_of_an_assigned_name_stays_as_it_is_and_is_not_served() {
    let mut cluster = cluster();
    cluster.kill(2);
    cluster.pass(60);
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let mut alone = cluster.alone(2);
    alone.create(stream("S"));
    alone.publish("S.mine");
    drop(alone);
    cluster.begin(2);
    cluster.pass(60);
    let (leader, ours) = (cluster.leader().expect("two are enough"), cluster.house(2).stream("S"));
    assert!(leader != 2 && ours.group_status().is_none());
    let house = cluster.house(2);
    house.publish("S.more");
    assert_eq!(house.contents("S"), (1, 1), "it hears nothing, and keeps what it has");
    let health = house.jetstream.cluster_health().expect("it is in a cluster");
    let names_it = health.streams.iter().any(|one| one.stream == "S" && one.reason.contains("not served"));
    assert!(names_it, "{health:?}");
}

#[test]
fn a_list_has_the_streams_of_all_servers() {
    let mut cluster = cluster();
    for name in ["A", "B", "C", "D"] {
        let one = CREATE.replace('S', name).replace(":3", ":1");
        ask(&mut cluster, &format!("STREAM.CREATE.{name}"), &one);
    }
    let list = ask(&mut cluster, "STREAM.LIST", "");
    assert_eq!(list.matches(r#""created":"#).count(), 4, "{list}");
    assert!(!list.contains("missing"), "{list}");
    let leaders: std::collections::BTreeSet<_> =
        (1..4).filter(|number| list.contains(&format!(r#""leader":"n{number}""#))).collect();
    assert_eq!(leaders.len(), 3, "each has one: {list}");
    let away = (cluster.meta_leader().expect("it has one") + 1) % 3;
    cluster.kill(away);
    let list = ask(&mut cluster, "STREAM.LIST", "");
    assert!(list.contains("missing"), "{list}");
}

#[test]
fn a_server_whose_disk_is_another_one_votes_when_it_has_what_was_committed() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let leader = cluster.leader().expect("who answers leads");
    let (new, helper) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.pass(4);
    cluster.isolated.push(new);
    cluster.publish(leader, "one");
    assert_eq!(cluster.acks(), 1, "two have it");
    // One of these two has nothing any more; the other is away.
    cluster.kill(helper);
    cluster.replace_disk(helper);
    cluster.isolated = vec![leader];
    cluster.begin(helper);
    cluster.pass(200);
    assert_eq!(cluster.leader(), None, "nobody is elected with the word of who has forgotten");
    cluster.isolated.clear();
    cluster.pass(100);
    let leader = cluster.elect();
    cluster.publish(leader, "two");
    cluster.pass(60);
    assert_eq!((cluster.acks(), cluster.contents()), (2, vec![(2, 2); 3]));
}

/// Many changes of few streams: of the log of the meta group only the end is left.
#[test]
fn a_server_with_a_new_disk_gets_the_assignments_as_a_whole() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    for n in 0..14 {
        let note = "x".repeat(100_000);
        let config = format!(
            r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":3,"metadata":{{"n":"{n}","note":"{note}"}}}}"#
        );
        let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config);
        assert!(!answer.contains(r#""error""#), "{}", &answer[..200]);
        // Segments go when the header of the one behind them is durable.
        for number in 0..3 {
            cluster.house(number).jetstream.journal().round_now(&|| 1).expect("the disk works");
        }
    }
    cluster.pass(100);
    let new = (cluster.meta_leader().expect("it is there") + 1) % 3;
    cluster.kill(new);
    cluster.replace_disk(new);
    cluster.begin(new);
    cluster.pass(200);
    let installed = cluster.house(new).host.infos_with("_meta_' has all of its group's stream");
    assert_eq!(installed, 1, "{:?}", cluster.house(new).host.warnings);
    assert_eq!(cluster.house(new).stream("S").config().metadata["n"], "13");
    let answer = ask(&mut cluster, "STREAM.CREATE.T", &CREATE.replace('S', "T"));
    assert!(answer.contains(r#""did_create":true"#), "{answer}");
    cluster.pass(10);
    assert_eq!(cluster.house(new).stream("T").name(), "T");
}

#[test]
fn before_there_is_a_meta_group_nobody_decides() {
    let house = House::named(&FaultyDisk::new(1), "n1", 1);
    house.host.stand_still();
    let me = peer_of("n1").expect("a name");
    let (account, bulk) = (Arc::clone(&house.frames), Arc::clone(&house.bulk));
    let settings = GroupSettings { me, account, bulk, kept_log: KeptLogBounds::default() };
    house.jetstream.begin_groups(settings).expect("a healthy disk");
    let request = ApiRequest {
        account: Arc::clone(&house.account),
        subject: (*b"$JS.API.STREAM.CREATE.S").into(),
        reply: (*b"answers").into(),
        headers: Box::default(),
        payload: CREATE.replace(":3", ":1").into_bytes().into(),
        origin: None,
    };
    assert!(house.jetstream.answer(&request).is_empty(), "the group may still be formed");
    assert!(house.streams().stream("S").is_none());
    house.host.sleep(Duration::from_secs(10));
    let answer = house.jetstream.answer(&request);
    let text = answer.iter().map(|msg| String::from_utf8_lossy(msg.payload).into_owned()).collect::<String>();
    assert!(text.contains(r#""err_code":10008"#), "{text}");
}

/// Its first server is gone, and the other one knows it as well.
#[test]
fn a_list_has_a_stream_as_long_as_one_of_its_servers_is_there() {
    let mut cluster = MetaCluster::with_meta(5);
    wait_for_leader(&mut cluster);
    let leader = cluster.meta_leader().expect("it is there");
    let names = ["A", "B", "C", "D", "E", "F"];
    for name in names {
        let two = CREATE.replace('S', name).replace(":3", ":2");
        ask(&mut cluster, &format!("STREAM.CREATE.{name}"), &two);
    }
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    let me = format!("n{}", leader + 1);
    let of_others = |name: &&str| meta.view().get("$G", name).filter(|one| !one.is_on(&me));
    let elsewhere = names.iter().find_map(of_others).expect("some are on two others");
    drop(meta);
    let first = (0..5).find(|one| elsewhere.peers[0] == format!("n{}", one + 1)).expect("a server");
    cluster.kill(first);
    cluster.pass(100);
    let list = ask(&mut cluster, "STREAM.LIST", "");
    assert_eq!(list.matches(r#""created":"#).count(), 6, "{list}");
}

/// The decision may come to the stream's leader before it hears of who has asked: the answer waits
/// until there is interest in it.
#[test]
fn an_answer_waits_for_word_of_who_has_asked() {
    let mut cluster = cluster();
    cluster.hear_answers(false);
    cluster.ask("STREAM.CREATE.S", CREATE);
    cluster.wait_until("a leader", |cluster| cluster.leader().is_some());
    cluster.pass(2);
    cluster.hear_answers(true);
    cluster.pass(2);
    let answers = cluster.take_answers();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers[0].contains(r#""did_create":true"#), "{answers:?}");
    // Nobody waits so long.
    cluster.hear_answers(false);
    cluster.ask("STREAM.DELETE.S", "");
    cluster.pass(60);
    cluster.hear_answers(true);
    cluster.pass(2);
    assert_eq!(cluster.take_answers(), [""; 0]);
}

#[test]
fn nothing_is_kept_of_the_group_of_a_stream_that_is_removed() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    cluster.elect();
    let meta = cluster.house(0).jetstream.meta().expect("it has one");
    let group = GroupId(meta.view().get("$G", "S").expect("it is there").id);
    let groups = |cluster: &mut MetaCluster, number: usize| {
        Arc::clone(cluster.house(number).jetstream.cluster.groups.get().expect("it takes part in groups"))
    };
    let mut votes = 0;
    for number in 0..3 {
        let groups = groups(&mut cluster, number);
        votes += usize::from(groups.recall(group, true, true).vote.term > 0);
        groups.set_aside(group, "$G");
        groups.note_damaged(group);
    }
    assert!(votes >= 2, "a majority has voted");
    let deleted = ask(&mut cluster, "STREAM.DELETE.S", "");
    assert!(deleted.contains(r#""success":true"#), "{deleted}");
    cluster.pass(20);
    for number in 0..3 {
        let now = groups(&mut cluster, number);
        assert_eq!(now.recall(group, true, true).vote.term, 0, "n{}", number + 1);
        assert!(!now.is_aside(group) && now.note_damaged(group), "n{}", number + 1);
        cluster.kill(number);
        cluster.begin(number);
        assert_eq!(groups(&mut cluster, number).recall(group, true, true).vote.term, 0, "n{}", number + 1);
    }
}

#[test]
fn nothing_is_kept_of_the_group_of_a_stream_that_another_one_has_replaced() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    cluster.elect();
    cluster.pass(10);
    let leader = cluster.meta_leader().expect("it has one");
    let meta = cluster.house(leader).jetstream.meta().expect("it has one");
    let group = GroupId(meta.view().get("$G", "S").expect("it is there").id);
    let term = |cluster: &mut MetaCluster, number: usize| {
        let groups = cluster.house(number).jetstream.cluster.groups.get().expect("it takes part in groups");
        groups.recall(group, true, true).vote.term
    };
    let has_voted = (0..3).filter(|&number| number != leader).find(|&number| term(&mut cluster, number) > 0);
    let away = has_voted.expect("a majority has voted");
    cluster.kill(away);
    cluster.pass(60);
    ask(&mut cluster, "STREAM.DELETE.S", "");
    let made =
        ask(&mut cluster, "STREAM.CREATE.S", &CREATE.replace(r#""num_replicas":3"#, r#""num_replicas":1"#));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    cluster.begin(away);
    cluster.wait_until("one replica", |cluster| cluster.holders("S").len() == 1);
    cluster.pass(20);
    assert_eq!(term(&mut cluster, away), 0);
}

/// Tools tell groups by their names.
#[test]
fn each_consumer_has_a_group_of_its_own_name_everywhere() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    let group_of = |answer: &str| {
        let from = answer.find(r#""raft_group":"C-R3F-"#).expect("it has a group") + 14;
        answer[from..from + 14].to_owned()
    };
    let mut groups = Vec::new();
    for name in ["C", "D"] {
        let config =
            format!(r#"{{"stream_name":"S","config":{{"durable_name":"{name}","ack_policy":"explicit"}}}}"#);
        let made = ask(&mut cluster, &format!("CONSUMER.DURABLE.CREATE.S.{name}"), &config);
        let info = ask(&mut cluster, &format!("CONSUMER.INFO.S.{name}"), "");
        assert_eq!(group_of(&made), group_of(&info));
        groups.push(group_of(&made));
    }
    assert_ne!(groups[0], groups[1]);
    cluster.pass(4);
    for number in 0..3 {
        let (live, jetstream) =
            (cluster.house(number).stream("S"), Arc::clone(&cluster.house(number).jetstream));
        let place = jetstream.place_of(&live);
        let known = live.known_consumers();
        let placed = known.iter().filter_map(|info| jetstream.place_of_known((&place, &live.config()), info));
        assert_eq!(placed.map(|place| place.raft_group).collect::<Vec<_>>(), groups, "{number}");
        let named: Vec<_> =
            known.iter().filter_map(|info| jetstream.raft_group_of_consumer(&live, info)).collect();
        assert_eq!(named, groups, "{number}");
    }
}

/// As nats-server's page does.
#[test]
fn a_server_shows_the_replicas_beside_itself() {
    let mut cluster = cluster();
    ask(&mut cluster, "STREAM.CREATE.S", CREATE);
    cluster.pass(4);
    for number in 0..3 {
        let live = cluster.house(number).stream("S");
        let place = cluster.house(number).jetstream.place_of(&live);
        let shown: Vec<_> = place.replicas.iter().map(|replica| &*replica.name).collect();
        let others: Vec<_> =
            (0..3).filter(|other| *other != number).map(|other| format!("n{}", other + 1)).collect();
        assert_eq!(shown, others, "n{}, led by {}", number + 1, place.leader);
    }
}

/// Whoever is asked leads some of them at most.
#[test]
fn a_list_says_of_streams_what_their_leaders_say() {
    let mut cluster = cluster();
    let names = ["A", "B", "C", "D", "E", "F"];
    for name in names {
        let subjects = format!(r#""subjects":["{name}.>"]"#);
        let sources = r#""sources":[{"name":"A"}]"#;
        let of = if name == "A" { &subjects } else { sources };
        let create = format!(r#"{{"name":"{name}",{of},"storage":"file","num_replicas":3}}"#);
        ask(&mut cluster, &format!("STREAM.CREATE.{name}"), &create);
        let config = r#"{"config":{"durable_name":"D","ack_policy":"explicit"}}"#;
        let config = config.replace("{\"config", &format!(r#"{{"stream_name":"{name}","config"#));
        ask(&mut cluster, &format!("CONSUMER.DURABLE.CREATE.{name}.D"), &config);
    }
    cluster.pass(4);
    let meta = cluster.meta_leader().expect("it has one");
    for name in ["B", "D", "F"] {
        cluster.house(meta).stream(name).hand_over();
        cluster.wait_until("another leader", |cluster| {
            let leads = |number| cluster.house(number).stream(name).role().leads();
            (0..3).filter(|number| *number != meta).any(leads)
        });
    }
    cluster.pass(40);
    let list = ask(&mut cluster, "STREAM.LIST", "");
    let counts = list.matches(r#""consumer_count":1"#).count();
    let since = list.matches(r#""leader_since":"#).count();
    let sources = list.matches(r#""sources":[{"name":"A","lag":"#).count();
    assert_eq!((counts, since, sources), (6, 6, 5), "{list}");
    // Of one whose leader does not answer the replica here says what it knows.
    let names: Vec<_> =
        names.into_iter().filter(|name| !cluster.house(meta).stream(name).role().leads()).collect();
    let led_by = |cluster: &mut MetaCluster, number: usize| {
        names.iter().any(|name| cluster.house(number).stream(name).role().leads())
    };
    let away = (0..3).find(|number| *number != meta && led_by(&mut cluster, *number)).expect("it leads some");
    cluster.kill(away);
    let list = ask(&mut cluster, "STREAM.LIST", "");
    assert!(list.matches(r#""created":"#).count() == 6 && !list.contains("missing"), "{list}");
    assert_eq!(list.matches(r#""consumer_count":1"#).count(), 6, "{list}");
}
