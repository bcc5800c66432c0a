//! Consumers in memory of a stream on several servers: those that watch a bucket, say. They go on
//! with whoever leads.

use super::super::cluster::{Cluster, peer};
use super::super::house::{Heard, stream};
use super::consumers::{acknowledge, ask, cluster, consumer, hand_over};
use crate::engine::waits::block_on;
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SECOND: i64 = 1_000_000_000;

/// Consumer as clients make it that want messages in order.
fn watcher(name: &str) -> ConsumerConfig {
    ConsumerConfig {
        name: name.into(),
        deliver_subject: "to.me".into(),
        ack_policy: AckPolicy::None,
        max_deliver: 1,
        mem_storage: true,
        num_replicas: 1,
        idle_heartbeat: 5 * SECOND,
        flow_control: true,
        inactive_threshold: 2 * SECOND,
        ..ConsumerConfig::default()
    }
}

/// Sequences of the stream and of the consumer that deliveries have.
fn places(heard: &[Heard]) -> Vec<(u64, u64)> {
    let place = |one: &Heard| {
        let mut tokens = one.reply.strip_prefix("$JS.ACK.")?.split('.').skip(3);
        Some((tokens.next()?.parse().ok()?, tokens.next()?.parse().ok()?))
    };
    heard.iter().filter_map(place).collect()
}

fn delivered(cluster: &mut Cluster, number: usize) -> Vec<(u64, u64)> {
    places(&cluster.delivered(number))
}

/// When a consumer was made, as a server that leads has it.
fn created(cluster: &mut Cluster, number: usize, name: &str) -> i64 {
    let live = cluster.house(number).stream("S").consumers().find(name).expect("it is there");
    live.act(|core, _| core.created()).expect("nobody has its core")
}

/// Waits for another thread, for which the servers go on meanwhile.
fn join<T>(cluster: &mut Cluster, thread: JoinHandle<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !thread.is_finished() {
        assert!(Instant::now() < deadline, "it waits for something that does not come");
        cluster.settle();
    }
    thread.join().expect("it did not panic")
}

#[test]
fn a_watcher_goes_on_in_the_next_message_when_its_leader_hands_over() {
    let (mut cluster, first) = cluster(stream("S"), 0);
    cluster.house(first).consume("S", watcher("W"));
    let made = created(&mut cluster, first, "W");
    (0..3).for_each(|_| cluster.publish(first, "x"));
    assert_eq!(delivered(&mut cluster, first), [(1, 1), (2, 2), (3, 3)]);
    // Stored, but not committed before it hands over.
    cluster.house(first).say("S.a", "", "x");
    cluster.house(first).flush();
    let second = (first + 1) % 3;
    hand_over(&mut cluster, first, second);
    cluster.settle();
    let mut heard = delivered(&mut cluster, first);
    heard.extend(delivered(&mut cluster, second));
    assert_eq!(heard, [(4, 4)], "once");
    assert_eq!(created(&mut cluster, second, "W"), made);
    let config = cluster.house(second).stream("S").consumers().config("W").expect("it is there");
    assert_eq!((config.mem_storage, config.num_replicas, &*config.deliver_subject), (true, 1, "to.me"));
    cluster.publish(second, "x");
    assert_eq!(delivered(&mut cluster, second), [(5, 5)]);
}

/// Nobody is there to take over: what is held back meanwhile is delivered after all.
#[test]
fn a_watcher_goes_on_at_a_leader_that_could_not_hand_over() {
    let (mut cluster, first) = cluster(stream("S"), 0);
    cluster.house(first).consume("S", watcher("W"));
    cluster.publish(first, "x");
    assert_eq!(delivered(&mut cluster, first), [(1, 1)]);
    cluster.kill((first + 1) % 3);
    cluster.house(first).say("S.a", "", "x");
    cluster.house(first).stream("S").hand_over_to(Some(peer((first + 1) % 3)));
    cluster.settle();
    assert!(delivered(&mut cluster, first).is_empty());
    cluster.pass(30);
    assert!(cluster.leads(first));
    assert_eq!(delivered(&mut cluster, first), [(2, 2)]);
}

#[test]
fn a_watcher_whose_leader_is_killed_gets_what_it_may_have_got_already_again() {
    let (mut cluster, first) = cluster(stream("S"), 0);
    let config = ConsumerConfig { deliver_subject: "later".into(), inactive_threshold: 0, ..watcher("W") };
    cluster.house(first).consume("S", config);
    (0..3).for_each(|_| cluster.publish(first, "x"));
    cluster.pass(4);
    cluster.isolated.push(first);
    let at_first = cluster.house(first).record("later");
    cluster.settle();
    assert_eq!(places(&lock(&at_first)), [(1, 1), (2, 2), (3, 3)], "it waits for nobody");
    cluster.kill(first);
    cluster.isolated.clear();
    let second = cluster.elect();
    let at_second = cluster.house(second).record("later");
    cluster.settle();
    assert_eq!(places(&lock(&at_second)), [(1, 1), (2, 2), (3, 3)], "its client notices by the number");
    cluster.pass(4);
    cluster.kill(second);
    cluster.begin(first);
    let third = cluster.elect();
    let at_third = cluster.house(third).record("later");
    cluster.publish(third, "x");
    assert_eq!(places(&lock(&at_third)), [(4, 4)], "its place was told meanwhile");
}

/// Deliveries do not wait for other servers, and answers to acknowledgements do.
#[test]
fn what_a_consumer_in_memory_has_delivered_is_known_to_the_next_leader() {
    let (mut cluster, first) = cluster(stream("S"), 3);
    let config =
        ConsumerConfig { mem_storage: true, num_replicas: 1, ack_wait: 3600 * SECOND, ..consumer("M") };
    cluster.house(first).consume("S", config);
    cluster.isolated.push(first);
    ask(&mut cluster, first, "M", 2);
    cluster.settle();
    let heard = cluster.delivered(first);
    assert_eq!(places(&heard), [(1, 1), (2, 2)]);
    acknowledge(&mut cluster, first, &heard[0]);
    let confirmed = |cluster: &Cluster| {
        cluster.answers().iter().filter(|(subject, _)| subject == "acks.confirmed").count()
    };
    assert_eq!(confirmed(&cluster), 0);
    cluster.isolated.clear();
    cluster.pass(10);
    assert_eq!(confirmed(&cluster), 1);
    let second = (first + 1) % 3;
    hand_over(&mut cluster, first, second);
    ask(&mut cluster, second, "M", 9);
    cluster.pass(4);
    assert_eq!(delivered(&mut cluster, second), [(3, 3)]);
    let live = cluster.house(second).stream("S").consumers().find("M").expect("it is there");
    let info = cluster.house(second).stream("S").consumers().info(&live).expect("it leads");
    assert_eq!((info.num_ack_pending, info.ack_floor.stream_seq), (2, 1));
}

#[test]
fn a_watcher_that_is_deleted_after_a_change_is_gone_everywhere() {
    let (mut cluster, first) = cluster(stream("S"), 1);
    cluster.house(first).consume("S", watcher("W"));
    cluster.settle();
    let second = (first + 1) % 3;
    hand_over(&mut cluster, first, second);
    let consumers = std::sync::Arc::clone(cluster.house(second).stream("S").consumers());
    let live = consumers.find("W").expect("it has come along");
    let delete = std::thread::spawn(move || {
        let mut out = MessageBuf::default();
        block_on(consumers.delete(&live, &mut out))
    });
    assert_eq!(join(&mut cluster, delete), Ok(true));
    cluster.pass(4);
    for number in 0..3 {
        assert!(!cluster.house(number).stream("S").has_consumer("W"), "{number}");
    }
    hand_over(&mut cluster, second, first);
    assert_eq!(cluster.house(first).consumers("S"), ["C"], "it was there when this server led");
    (0..3).for_each(|number| cluster.kill(number));
    (0..3).for_each(|number| cluster.begin(number));
    let third = cluster.elect();
    assert_eq!(cluster.house(third).consumers("S"), ["C"]);
}

/// No image has them of a stream in memory, and no start would read them.
#[test]
fn records_of_consumers_of_a_stream_in_memory_are_kept_until_they_are_applied() {
    let config = StreamConfig { storage: Storage::Memory, ..stream("S") };
    let (mut cluster, first) = cluster(config, 0);
    cluster.house(first).consume("S", watcher("W"));
    for _ in 0..20 {
        cluster.publish(first, "x");
        cluster.pass(4);
    }
    assert_eq!(delivered(&mut cluster, first).last(), Some(&(20, 20)));
    for number in 0..3 {
        let live = cluster.house(number).stream("S");
        let mut guard = live.lock_core().expect("it is there");
        let (core, _) = guard.parts();
        assert!(core.store().committed_consumers(0).count() < 3, "{number}");
    }
    let second = (first + 1) % 3;
    hand_over(&mut cluster, first, second);
    cluster.publish(second, "x");
    assert_eq!(delivered(&mut cluster, second), [(21, 21)]);
}
