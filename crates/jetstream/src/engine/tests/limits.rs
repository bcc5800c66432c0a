//! Limits of an account count what all servers of a cluster have, together or by tier.

use super::meta_cluster::MetaCluster;
use crate::engine::ServerLimits;
use crate::engine::meta::peer_of;
use myelin_jsapi::config::AccountLimits;

const MESSAGE: &str = "0123456789012345678901234567890123456789012345678901234567890123456789";

fn cluster(limits: &AccountLimits) -> MetaCluster {
    let mut cluster = MetaCluster::with_meta(3);
    for number in 0..3 {
        let house = cluster.house(number);
        let account = house.account.clone();
        house.jetstream.enable(&account, Some(limits.clone())).expect("the disk has room");
    }
    cluster
}

fn by_tier(tiers: &[(&str, AccountLimits)]) -> AccountLimits {
    AccountLimits::by_tier(tiers.iter().map(|(name, limits)| ((*name).to_owned(), limits.clone())).collect())
}

fn create(cluster: &mut MetaCluster, name: &str, rest: &str) -> String {
    while cluster.meta_leader().is_none() {
        cluster.pass(1);
    }
    let config = format!(r#"{{"name":"{name}","subjects":["{name}.>"],"storage":"file",{rest}}}"#);
    cluster.answer_within(200, &format!("STREAM.CREATE.{name}"), &config)
}

fn is_refused(answer: &str, code: u32) -> bool {
    answer.contains(&format!(r#""err_code":{code},"#))
}

/// Publishes until that is refused. Answers how many were stored.
fn fill(cluster: &mut MetaCluster) -> u64 {
    let mut stored = 0;
    loop {
        let leader = cluster.elect();
        cluster.publish(leader, MESSAGE);
        // Long enough for servers to tell each other what they have.
        cluster.pass(60);
        let now = cluster.house(leader).stream("S").reader().state().totals.messages;
        if now == stored {
            return stored;
        }
        stored = now;
        assert!(stored < 100, "nothing is refused");
    }
}

#[test]
fn streams_are_counted_and_reserved_tier_by_tier() {
    let one = AccountLimits { max_streams: 1, max_storage: 1_000, ..AccountLimits::default() };
    let three = AccountLimits { max_streams: 2, max_storage: 3_000, ..AccountLimits::default() };
    let mut cluster = cluster(&by_tier(&[("R1", one), ("R3", three)]));
    let made = |answer: &str| answer.contains(r#""did_create":true"#);
    let answer = create(&mut cluster, "A", r#""num_replicas":1"#);
    assert!(made(&answer), "{answer}");
    let answer = create(&mut cluster, "B", r#""num_replicas":1"#);
    assert!(is_refused(&answer, 10027), "{answer}");
    // Once for all replicas.
    let answer = create(&mut cluster, "C", r#""num_replicas":3,"max_bytes":2000"#);
    assert!(made(&answer), "{answer}");
    let answer = create(&mut cluster, "D", r#""num_replicas":3,"max_bytes":1001"#);
    assert!(is_refused(&answer, 10047), "{answer}");
    let answer = create(&mut cluster, "D", r#""num_replicas":3,"max_bytes":1000"#);
    assert!(made(&answer), "{answer}");
    let answer = create(&mut cluster, "E", r#""num_replicas":2"#);
    assert!(is_refused(&answer, 10120), "{answer}");
    let info: serde_json::Value =
        serde_json::from_str(&cluster.answer_within(200, "INFO", "")).expect("it is JSON");
    let tiers = &info["tiers"];
    assert_eq!((&tiers["R1"]["streams"], &tiers["R3"]["streams"]), (&1.into(), &2.into()), "{info}");
    assert_eq!(tiers["R3"]["reserved_storage"], 3_000, "{info}");
    assert_eq!(tiers["R3"]["limits"]["max_storage"], 3_000, "{info}");
}

#[test]
fn a_stream_that_is_restored_is_held_against_its_own_tier() {
    let two = AccountLimits { max_streams: 2, max_storage: 3_000, ..AccountLimits::default() };
    let mut cluster = cluster(&by_tier(&[("R3", two)]));
    let made = create(&mut cluster, "A", r#""num_replicas":3,"max_bytes":2000"#);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let restore = |cluster: &mut MetaCluster, rest: &str| {
        let request = format!(r#"{{"config":{{"name":"B","subjects":["B.>"],"storage":"file",{rest}}}}}"#);
        cluster.answer_within(200, "STREAM.RESTORE.B", &request)
    };
    let answer = restore(&mut cluster, r#""num_replicas":1"#);
    assert!(is_refused(&answer, 10120), "there is no such tier: {answer}");
    let answer = restore(&mut cluster, r#""num_replicas":3,"max_bytes":1001"#);
    assert!(is_refused(&answer, 10047), "{answer}");
    let answer = restore(&mut cluster, r#""num_replicas":3,"max_bytes":1000"#);
    assert!(answer.contains("deliver_subject"), "{answer}");
}

#[test]
fn what_is_stored_counts_with_its_replicas_or_by_tier_without() {
    let storage = |max_storage| AccountLimits { max_storage, ..AccountLimits::default() };
    let mut whole = cluster(&storage(3_000));
    let mut tier = cluster(&by_tier(&[("R3", storage(1_000))]));
    let mut alone = cluster(&storage(1_000));
    let replicated = r#""num_replicas":3"#;
    for (cluster, replicas) in
        [(&mut whole, replicated), (&mut tier, replicated), (&mut alone, r#""num_replicas":1"#)]
    {
        let answer = create(cluster, "S", replicas);
        assert!(answer.contains(r#""did_create":true"#), "{answer}");
    }
    let (whole, tier, alone) = (fill(&mut whole), fill(&mut tier), fill(&mut alone));
    assert!(alone > 2 && whole.abs_diff(alone) <= 1 && tier.abs_diff(alone) <= 1, "{whole} {tier} {alone}");
}

/// Replicas of what was just stored count before their servers have said what they store.
#[test]
fn a_limit_holds_before_others_say_what_they_store() {
    for limits in [
        AccountLimits { max_storage: 3_000, ..AccountLimits::default() },
        by_tier(&[("R3", AccountLimits { max_storage: 1_000, ..AccountLimits::default() })]),
    ] {
        let mut cluster = cluster(&limits);
        let made = create(&mut cluster, "S", r#""num_replicas":3"#);
        assert!(made.contains(r#""did_create":true"#), "{made}");
        let leader = cluster.elect();
        (0..40).for_each(|_| cluster.publish(leader, MESSAGE));
        let bytes = cluster.house(leader).stream("S").reader().state().totals.bytes;
        assert!((850..=1_000).contains(&bytes), "a third of what there may be: {bytes}");
    }
}

#[test]
fn a_stream_that_gets_replicas_is_counted_in_its_new_tier() {
    let limits = |max_streams| AccountLimits { max_streams, ..AccountLimits::default() };
    let mut cluster = cluster(&by_tier(&[("R1", limits(10)), ("R3", limits(1))]));
    for (name, replicas) in [("A", 3), ("B", 1)] {
        let made = create(&mut cluster, name, &format!(r#""num_replicas":{replicas}"#));
        assert!(made.contains(r#""did_create":true"#), "{made}");
    }
    let answer = update(&mut cluster, "B", r#""num_replicas":3"#);
    assert!(is_refused(&answer, 10027), "{answer}");
    // That is no more of them.
    let answer = update(&mut cluster, "A", r#""num_replicas":3,"max_msgs":7"#);
    assert!(answer.contains(r#""max_msgs":7"#), "{answer}");
}

/// The meta leader knows no consumers: whoever leads the stream does.
#[test]
fn limits_for_consumers_do_not_fall_below_what_these_have() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let leader = cluster.meta_leader().expect("it is there");
    for (name, rest) in
        [("S", r#""num_replicas":3"#.to_owned()), ("T", on((leader + 1) % 3, 0)), ("U", on(leader, 0))]
    {
        let made = create(&mut cluster, name, &rest);
        assert!(made.contains(r#""did_create":true"#), "{made}");
        let consumer = format!(
            r#"{{"stream_name":"{name}","config":{{"durable_name":"C","ack_policy":"explicit","inactive_threshold":3600000000000,"max_ack_pending":500}}}}"#
        );
        let made = cluster.answer_within(200, &format!("CONSUMER.DURABLE.CREATE.{name}.C"), &consumer);
        assert!(made.contains(r#""name":"C""#), "{made}");
        for limits in [r#""inactive_threshold":60000000000"#, r#""max_ack_pending":499"#] {
            let limits = format!(r#"{rest},"consumer_limits":{{{limits}}}"#);
            let answer = update(&mut cluster, name, &limits);
            assert!(is_refused(&answer, 10069), "{name}: {answer}");
            assert!(answer.contains("change to limits violates consumers: C"), "{answer}");
        }
        let limits = format!(
            r#"{rest},"consumer_limits":{{"inactive_threshold":3600000000000,"max_ack_pending":500}}"#
        );
        let answer = update(&mut cluster, name, &limits);
        assert!(answer.contains(r#""max_ack_pending":500"#), "{answer}");
    }
}

/// Bytes of the gigabyte that a server has.
const MOST: u64 = 900 << 20;
const HALF: u64 = 500 << 20;

/// A stream of one server, with so many bytes.
fn on(server: usize, bytes: u64) -> String {
    let place = format!(r#""placement":{{"tags":["node:{}"]}}"#, server + 1);
    if bytes == 0 { place } else { format!(r#"{place},"max_bytes":{bytes}"#) }
}

fn update(cluster: &mut MetaCluster, name: &str, rest: &str) -> String {
    let config = format!(r#"{{"name":"{name}","subjects":["{name}.>"],"storage":"file",{rest}}}"#);
    cluster.answer_within(200, &format!("STREAM.UPDATE.{name}"), &config)
}

fn max_bytes(cluster: &mut MetaCluster, name: &str) -> i64 {
    let leader = cluster.meta_leader().expect("it is there");
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    let known = meta.view().get("$G", name).expect("it is there");
    known.config.max_bytes
}

#[test]
fn each_server_reserves_for_its_own_replica() {
    let mut cluster = MetaCluster::with_meta(3);
    let made = create(&mut cluster, "S", &format!(r#""num_replicas":3,"max_bytes":{HALF}"#));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let half = i64::try_from(HALF).expect("it is small");
    cluster.wait_until("all have a replica", |cluster| {
        [0, 1, 2].map(|at| cluster.house(at).jetstream.reserved()[1]) == [half; 3]
    });
    let again = create(&mut cluster, "T", &format!(r#""num_replicas":3,"max_bytes":{MOST}"#));
    assert!(is_refused(&again, 10005) || is_refused(&again, 10047), "{again}");
}

#[test]
fn the_servers_of_a_stream_have_to_have_room_for_its_update_and_not_the_meta_leader() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.pass(20);
    let leader = cluster.meta_leader().expect("it is there");
    let (full, free) = ((leader + 1) % 3, (leader + 2) % 3);
    for (name, server, bytes) in
        [("F", leader, MOST), ("G", full, MOST), ("S", full, 0), ("T", free, 0), ("U", leader, 0)]
    {
        let made = create(&mut cluster, name, &on(server, bytes));
        assert!(made.contains(r#""did_create":true"#), "{name}: {made}");
    }
    for (name, server) in [("S", full), ("U", leader)] {
        let answer = update(&mut cluster, name, &on(server, HALF));
        assert!(is_refused(&answer, 10047), "{answer}");
        cluster.pass(60);
        assert_eq!(max_bytes(&mut cluster, name), -1, "what was refused is not applied");
    }
    let answer = update(&mut cluster, "T", &on(free, HALF));
    assert!(answer.contains(&format!(r#""max_bytes":{HALF}"#)), "{answer}");
    assert_eq!(max_bytes(&mut cluster, "T"), i64::try_from(HALF).expect("it is small"));
}

/// A server that is asked for its room and is not there says later that it has none: others have
/// applied the update, and their leader has answered.
#[test]
fn an_update_of_a_group_is_answered_once_by_its_leader() {
    let mut cluster = MetaCluster::with_meta(3);
    let made = create(&mut cluster, "S", r#""num_replicas":3"#);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let leader = cluster.meta_leader().expect("it is there");
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    let first = meta.view().get("$G", "S").expect("it is there").peers[0].clone();
    let number = (0..3).find(|number| first == format!("n{}", number + 1)).expect("one of them");
    let made = create(&mut cluster, "F", &on(number, MOST));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    if leader == number {
        meta.live().hand_over_to(None);
    }
    cluster.elect();
    if cluster.leader() == Some(number) {
        let heir = peer_of(&format!("n{}", (number + 1) % 3 + 1));
        cluster.house(number).stream("S").hand_over_to(heir);
    }
    cluster.wait_until("others lead", |cluster| {
        let leads = [cluster.leader(), cluster.meta_leader()];
        leads.iter().all(|leader| leader.is_some_and(|leader| leader != number))
    });
    cluster.pass(20);
    cluster.isolated.push(number);
    let answer = update(&mut cluster, "S", &format!(r#""num_replicas":3,"max_bytes":{}"#, HALF / 2));
    assert!(answer.contains(&format!(r#""max_bytes":{}"#, HALF / 2)), "{answer}");
    cluster.isolated.clear();
    cluster.wait_until("the first one has heard of it", |cluster| {
        cluster.house(number).host.warnings_with("is not as it is assigned") > 0
    });
    cluster.pass(20);
    assert_eq!(cluster.take_answers(), Vec::<String>::new());
}

/// The meta group's log is none of the tenants': it takes nothing of what they may store, and a
/// tenant that fills a server keeps nobody from making room.
#[test]
fn a_meta_leader_whose_files_are_full_makes_and_removes_streams() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let leader = cluster.meta_leader().expect("it is there");
    for number in 0..3 {
        let house = cluster.house(number);
        let limits = ServerLimits { max_store: 20_000, ..(*house.jetstream.limits()).clone() };
        house.jetstream.set_limits(limits);
    }
    let made = create(&mut cluster, "S", &on(leader, 0));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let text = "x".repeat(1_000);
    (0..30).for_each(|_| cluster.publish(leader, &text));
    let (stored, _) = cluster.house(leader).contents("S");
    assert!((15..25).contains(&stored), "{stored} are within the limit");
    let made = create(&mut cluster, "T", &on((leader + 1) % 3, 0));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let removed = cluster.answer_within(100, "STREAM.DELETE.S", "");
    assert!(removed.contains(r#""success":true"#), "{removed}");
    let made = create(&mut cluster, "S", &on(leader, 0));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    cluster.publish(leader, &text);
    assert_eq!(cluster.house(leader).contents("S"), (1, 1), "there is room again");
    assert!(cluster.house(leader).jetstream.used()[1] < 2_000, "the meta group's log does not count");
}

/// More replicas are more of what an account may have, as a larger `max_bytes` is.
#[test]
fn a_stream_that_gets_replicas_reserves_more_of_its_account() {
    let mut cluster = cluster(&AccountLimits { max_storage: 50, ..AccountLimits::default() });
    for (name, rest) in [("A", r#""num_replicas":3,"max_bytes":6"#), ("B", r#""max_bytes":20"#)] {
        let made = create(&mut cluster, name, rest);
        assert!(made.contains(r#""did_create":true"#), "{made}");
    }
    let answer = update(&mut cluster, "B", r#""num_replicas":3,"max_bytes":20"#);
    assert!(is_refused(&answer, 10047), "18 + 60 of 50: {answer}");
    let answer = update(&mut cluster, "A", r#""num_replicas":3,"max_bytes":3"#);
    assert!(answer.contains(r#""max_bytes":3,"#), "{answer}");
    let answer = update(&mut cluster, "B", r#""num_replicas":2,"max_bytes":20"#);
    assert!(answer.contains(r#""num_replicas":2"#), "9 + 40 of 50: {answer}");
}

#[test]
fn consumers_count_in_the_tier_of_their_own_replicas() {
    let of = |max_consumers| AccountLimits { max_consumers, ..AccountLimits::default() };
    let mut cluster = cluster(&by_tier(&[("R1", of(1)), ("R3", of(2))]));
    let made = create(&mut cluster, "S", r#""num_replicas":3"#);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    cluster.elect();
    let consume = |cluster: &mut MetaCluster, name: &str, replicas: u32| {
        let config = format!(r#"{{"durable_name":"{name}","num_replicas":{replicas}}}"#);
        let request = format!(r#"{{"stream_name":"S","config":{config}}}"#);
        cluster.answer_within(200, &format!("CONSUMER.DURABLE.CREATE.S.{name}"), &request)
    };
    for (name, replicas, is_made) in [("a", 3, true), ("b", 0, true), ("c", 3, false), ("d", 1, true)] {
        let answer = consume(&mut cluster, name, replicas);
        assert_eq!(is_refused(&answer, 10026), !is_made, "{name}: {answer}");
    }
    let info: serde_json::Value =
        serde_json::from_str(&cluster.answer_within(200, "INFO", "")).expect("it is JSON");
    let counts = ["R1", "R3"].map(|tier| info["tiers"][tier]["consumers"].as_u64());
    assert_eq!(counts, [Some(1), Some(2)], "{info}");
}

#[test]
fn a_tier_that_is_taken_away_is_shown_and_stores_nothing_more() {
    let any = || AccountLimits::default();
    let mut cluster = cluster(&by_tier(&[("R1", any()), ("R3", any())]));
    let made = create(&mut cluster, "S", r#""num_replicas":3"#);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let leader = cluster.elect();
    cluster.publish(leader, MESSAGE);
    for number in 0..3 {
        let house = cluster.house(number);
        let limits = by_tier(&[("R1", any())]);
        house.jetstream.enable(&house.account, Some(limits)).expect("the disk has room");
    }
    cluster.house(leader).say("S.a", "answers", MESSAGE);
    cluster.settle();
    let answers = cluster.take_answers();
    assert!(answers.len() == 1 && is_refused(&answers[0], 10120), "{answers:?}");
    let info: serde_json::Value =
        serde_json::from_str(&cluster.answer_within(200, "INFO", "")).expect("it is JSON");
    let tier = &info["tiers"]["R3"];
    assert_eq!((&tier["streams"], &tier["limits"]["max_storage"]), (&1.into(), &0.into()), "{info}");
    assert!(tier["storage"].as_u64() > Some(0), "{info}");
}
