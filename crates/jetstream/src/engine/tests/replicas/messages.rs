//! Publishes, purges and deletions: what they leave on all servers.

use super::super::cluster::Cluster;
use super::super::house::stream;
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_store::Purge;

fn remembering() -> StreamConfig {
    StreamConfig { duplicate_window: 3_600_000_000_000, allow_atomic: true, ..stream("S") }
}

fn last_answer(cluster: &Cluster, to: &str) -> String {
    let mut found =
        cluster.answers().into_iter().filter(|(subject, _)| subject == to).map(|(_, payload)| payload);
    found.next_back().unwrap_or_default()
}

#[test]
fn ids_and_last_sequences_are_known_to_the_next_leader() {
    let mut cluster = Cluster::with(3, remembering());
    let first = cluster.elect();
    cluster.publish_with(first, "acks.1", "Nats-Msg-Id: one", "first");
    cluster.publish_with(first, "acks.2", "Nats-Expected-Last-Sequence: 1", "second");
    cluster.kill(first);
    let second = cluster.elect();
    cluster.publish_with(second, "acks.3", "Nats-Msg-Id: one", "first");
    assert_eq!(last_answer(&cluster, "acks.3"), r#"{"stream":"S","seq":1,"duplicate": true}"#);
    cluster.publish_with(second, "acks.4", "Nats-Expected-Last-Sequence: 1", "late");
    assert!(last_answer(&cluster, "acks.4").contains("10071"), "{}", last_answer(&cluster, "acks.4"));
    cluster.publish_with(second, "acks.5", "Nats-Expected-Last-Sequence: 2", "third");
    assert_eq!(last_answer(&cluster, "acks.5"), r#"{"stream":"S","seq":3}"#);
    cluster.begin(first);
    cluster.pass(60);
    assert_eq!(cluster.contents(), [(3, 3); 3]);
    // And to those that have begun anew.
    (0..3).for_each(|number| cluster.kill(number));
    (0..3).for_each(|number| cluster.begin(number));
    let third = cluster.elect();
    cluster.publish_with(third, "acks.6", "Nats-Msg-Id: one", "first");
    assert_eq!(last_answer(&cluster, "acks.6"), r#"{"stream":"S","seq":1,"duplicate": true}"#);
}

fn member(cluster: &mut Cluster, number: usize, reply: &str, seq: u64, more: &str) {
    let headers = format!("Nats-Batch-Id: b\r\nNats-Batch-Sequence: {seq}{more}");
    cluster.publish_with(number, reply, &headers, &format!("b{seq}"));
}

#[test]
fn an_atomic_batch_is_on_all_servers_or_on_none() {
    let mut cluster = Cluster::with(3, remembering());
    let first = cluster.elect();
    member(&mut cluster, first, "acks.1", 1, "");
    member(&mut cluster, first, "acks.2", 2, "\r\nNats-Batch-Commit: 1");
    assert_eq!(last_answer(&cluster, "acks.2"), r#"{"stream":"S","seq":2,"batch":"b","count":2}"#);
    cluster.pass(4);
    assert_eq!(cluster.contents(), [(2, 2); 3]);
    // Begun at a leader that ends.
    member(&mut cluster, first, "acks.3", 1, "");
    cluster.kill(first);
    let second = cluster.elect();
    member(&mut cluster, second, "acks.4", 2, "\r\nNats-Batch-Commit: 1");
    assert!(last_answer(&cluster, "acks.4").contains("error"), "{}", last_answer(&cluster, "acks.4"));
    // Decided at one that nobody hears.
    cluster.begin(first);
    cluster.pass(40);
    cluster.isolated.push(second);
    member(&mut cluster, second, "acks.5", 1, "");
    member(&mut cluster, second, "acks.6", 2, "\r\nNats-Batch-Commit: 1");
    let third = cluster.elect();
    cluster.publish(third, "other");
    cluster.isolated.clear();
    cluster.pass(60);
    assert_eq!(last_answer(&cluster, "acks.6"), "");
    assert_eq!(cluster.contents(), [(3, 3); 3]);
}

#[test]
fn purges_and_deletions_are_on_all_servers() {
    let mut cluster = Cluster::new(3);
    let first = cluster.elect();
    for n in 0..10 {
        cluster.publish(first, &format!("m{n}"));
    }
    let live = cluster.house(first).stream("S");
    let mut guard = live.lock_core().expect("it is there");
    let (core, effects) = guard.parts();
    let mut some = Purge { filter: None, below: 4, keep: 0, through: 0 };
    core.purge(&mut some, 0, effects).expect("it is healthy");
    assert!(core.delete(6, 0, effects).expect("it is healthy"));
    assert!(core.erase(8, 0, effects).expect("it is healthy"));
    drop(guard);
    cluster.pass(4);
    let expected: Vec<_> = [4, 5, 7, 9, 10].map(|seq| (seq, format!("m{}", seq - 1))).into();
    (0..3).for_each(|number| assert_eq!(cluster.payloads(number), expected, "server {number}"));
    // What a leader removes that nobody hears comes back.
    cluster.isolated.push(first);
    let mut guard = live.lock_core().expect("it is there");
    let (core, effects) = guard.parts();
    let mut all = Purge { filter: None, below: 0, keep: 0, through: 0 };
    core.purge(&mut all, 0, effects).expect("it is healthy");
    drop(guard);
    drop(live);
    cluster.settle();
    assert_eq!(cluster.payloads(first), expected, "nobody has agreed");
    cluster.elect();
    cluster.isolated.clear();
    cluster.pass(60);
    (0..3).for_each(|number| assert_eq!(cluster.payloads(number), expected, "server {number}"));
    (0..3).for_each(|number| cluster.kill(number));
    (0..3).for_each(|number| cluster.begin(number));
    cluster.elect();
    cluster.pass(4);
    (0..3).for_each(|number| assert_eq!(cluster.payloads(number), expected, "server {number}, anew"));
}

/// A stream in memory has nothing when its server begins anew, and must not help to elect somebody
/// who lacks what it had confirmed.
#[test]
fn a_stream_in_memory_is_given_everything_before_it_votes() {
    let mut cluster = Cluster::with(3, StreamConfig { storage: Storage::Memory, ..stream("S") });
    let first = cluster.elect();
    let (helper, away) = ((first + 1) % 3, (first + 2) % 3);
    cluster.publish(first, "zero");
    cluster.isolated.push(away);
    for n in 1..10 {
        cluster.publish(first, &format!("m{n}"));
    }
    assert_eq!(cluster.acks(), 10);
    cluster.isolated.push(first);
    cluster.kill(helper);
    cluster.begin(helper);
    cluster.isolated.retain(|number| *number != away);
    cluster.pass(100);
    assert!(!cluster.leads(helper) && !cluster.leads(away), "{:?}", cluster.statuses());
    cluster.isolated.clear();
    let leader = cluster.elect();
    cluster.publish(leader, "last");
    cluster.pass(60);
    assert_eq!((cluster.acks(), cluster.contents()), (11, vec![(11, 11); 3]));
    // It is a full member again.
    cluster.kill(away);
    cluster.kill(helper);
    cluster.begin(away);
    cluster.pass(60);
    cluster.begin(helper);
    cluster.elect();
    cluster.pass(60);
    assert_eq!(cluster.contents(), [(11, 11); 3]);
}
