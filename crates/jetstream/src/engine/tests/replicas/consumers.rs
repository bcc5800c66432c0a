//! Consumers of a stream on several servers: what they have delivered and what was acknowledged
//! outlives the leader.

use super::super::cluster::{Cluster, peer};
use super::super::house::{Heard, stream};
use myelin_jsapi::config::{Retention, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig, DeliverPolicy};
use myelin_stdx::sync::lock;

const SECOND: i64 = 1_000_000_000;

pub(super) fn consumer(name: &str) -> ConsumerConfig {
    ConsumerConfig {
        name: name.into(),
        durable_name: name.into(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: SECOND,
        ..ConsumerConfig::default()
    }
}

/// Asks a consumer for messages, where it is served.
pub(super) fn ask(cluster: &mut Cluster, number: usize, name: &str, batch: u64) {
    let subject = format!("$JS.API.CONSUMER.MSG.NEXT.S.{name}");
    cluster.house(number).say(&subject, "to.me", &format!(r#"{{"batch":{batch},"expires":3600000000000}}"#));
}

/// Sequence of the stream that a delivery has; `None` for a status.
pub(super) fn seq_of(heard: &Heard) -> Option<u64> {
    heard.reply.split('.').nth(5)?.parse().ok()
}

fn seqs(heard: &[Heard]) -> Vec<u64> {
    heard.iter().filter_map(seq_of).collect()
}

/// Acknowledges a delivery, and waits for the answer.
pub(super) fn acknowledge(cluster: &mut Cluster, number: usize, heard: &Heard) {
    cluster.house(number).say(&heard.reply, "acks.confirmed", "+ACK");
    cluster.settle();
}

fn confirmed(cluster: &Cluster) -> usize {
    cluster.answers().iter().filter(|(subject, _)| subject == "acks.confirmed").count()
}

/// Three servers with so many messages and a consumer, and who leads.
pub(super) fn cluster(config: StreamConfig, messages: usize) -> (Cluster, usize) {
    let mut cluster = Cluster::with(3, config);
    let leader = cluster.elect();
    cluster.house(leader).consume("S", consumer("C"));
    cluster.settle();
    for n in 0..messages {
        cluster.publish(leader, &format!("m{n}"));
    }
    cluster.pass(2);
    (cluster, leader)
}

#[test]
fn nothing_is_delivered_of_which_nobody_else_knows() {
    let (mut cluster, leader) = cluster(stream("S"), 1);
    cluster.isolated.push(leader);
    ask(&mut cluster, leader, "C", 1);
    cluster.pass(2);
    assert!(seqs(&cluster.delivered(leader)).is_empty());
    cluster.isolated.clear();
    cluster.pass(10);
    let heard = cluster.delivered(leader);
    assert_eq!(seqs(&heard), [1]);
    cluster.isolated.push(leader);
    acknowledge(&mut cluster, leader, &heard[0]);
    assert_eq!(confirmed(&cluster), 0);
    cluster.isolated.clear();
    cluster.pass(10);
    assert_eq!(confirmed(&cluster), 1);
}

#[test]
fn another_leader_goes_on_where_the_last_one_has_ended() {
    let (mut cluster, first) = cluster(stream("S"), 5);
    ask(&mut cluster, first, "C", 4);
    cluster.settle();
    let heard = cluster.delivered(first);
    assert_eq!(seqs(&heard), [1, 2, 3, 4]);
    acknowledge(&mut cluster, first, &heard[0]);
    acknowledge(&mut cluster, first, &heard[2]);
    assert_eq!(confirmed(&cluster), 2);
    cluster.kill(first);
    let second = cluster.elect();
    ask(&mut cluster, second, "C", 9);
    cluster.pass(40);
    let mut again = seqs(&cluster.delivered(second));
    again.sort_unstable();
    again.dedup();
    assert_eq!(again, [2, 4, 5], "what was acknowledged does not come again");
    cluster.begin(first);
    cluster.pass(40);
    assert_eq!(cluster.contents(), [(5, 5); 3]);
}

#[test]
fn a_leader_that_hands_over_takes_along_what_was_acknowledged() {
    let (mut cluster, first) = cluster(stream("S"), 3);
    ask(&mut cluster, first, "C", 3);
    cluster.settle();
    let heard = cluster.delivered(first);
    assert_eq!(seqs(&heard), [1, 2, 3]);
    for delivery in &heard {
        cluster.house(first).say(&delivery.reply, "", "+ACK");
    }
    cluster.settle();
    cluster.house(first).stream("S").hand_over();
    let mut leader = first;
    for _ in 0..200 {
        cluster.pass(1);
        leader = cluster.elect();
        if leader != first {
            break;
        }
    }
    assert_ne!(leader, first, "it has handed over");
    ask(&mut cluster, leader, "C", 9);
    cluster.pass(40);
    assert!(seqs(&cluster.delivered(leader)).is_empty(), "nothing comes again");
}

#[test]
fn a_new_leader_knows_when_a_consumer_was_active_last() {
    let (mut cluster, first) = cluster(stream("S"), 3);
    let info = |cluster: &mut Cluster, leader: usize| {
        let consumers = std::sync::Arc::clone(cluster.house(leader).stream("S").consumers());
        let live = consumers.find("C").expect("it is there");
        let asked = consumers.ask_info(&live);
        cluster.settle();
        asked.wait().expect("it leads")
    };
    ask(&mut cluster, first, "C", 2);
    cluster.settle();
    let heard = cluster.delivered(first);
    let before = info(&mut cluster, first);
    let delivered = before.delivered.last_active.expect("it has delivered");
    assert_eq!(before.ack_floor.last_active, None);
    cluster.pass(3);
    acknowledge(&mut cluster, first, &heard[0]);
    let acked = info(&mut cluster, first).ack_floor.last_active.expect("it was acknowledged");
    assert!(acked > delivered);
    cluster.pass(4);
    cluster.kill(first);
    let second = cluster.elect();
    let after = info(&mut cluster, second);
    let near =
        |time: Option<i64>, then: i64| time.is_some_and(|time| (0..SECOND / 5).contains(&(time - then)));
    assert!(near(after.delivered.last_active, delivered), "{:?}, {delivered}", after.delivered);
    assert!(near(after.ack_floor.last_active, acked), "{:?}, {acked}", after.ack_floor);
}

#[test]
fn a_new_consumer_with_replicas_has_no_floor_before_its_first_delivery() {
    let (mut cluster, first) = cluster(stream("S"), 3);
    let late = ConsumerConfig { deliver_policy: DeliverPolicy::Last, ..consumer("L") };
    cluster.house(first).consume("S", late);
    cluster.settle();
    let floor = |cluster: &mut Cluster| {
        let consumers = std::sync::Arc::clone(cluster.house(first).stream("S").consumers());
        let live = consumers.find("L").expect("it is there");
        let asked = consumers.ask_info(&live);
        cluster.settle();
        let info = asked.wait().expect("it leads");
        (info.delivered.stream_seq, info.ack_floor.stream_seq)
    };
    assert_eq!(floor(&mut cluster), (2, 0));
    ask(&mut cluster, first, "L", 1);
    cluster.settle();
    assert_eq!(floor(&mut cluster), (3, 2));
}

#[test]
fn consumers_are_on_all_servers() {
    let (mut cluster, first) = cluster(stream("S"), 2);
    cluster.house(first).consume("S", consumer("D"));
    cluster.house(first).consume("S", consumer("E"));
    cluster.settle();
    let consumers = std::sync::Arc::clone(cluster.house(first).stream("S").consumers());
    let live = consumers.find("E").expect("it is there");
    let deleted = std::thread::spawn(move || {
        let mut out = myelin_wire::message_buf::MessageBuf::default();
        crate::engine::waits::block_on(consumers.delete(&live, &mut out))
    });
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !deleted.is_finished() {
        assert!(std::time::Instant::now() < deadline, "the group agrees");
        cluster.settle();
    }
    assert!(matches!(deleted.join(), Ok(Ok(true))));
    cluster.pass(4);
    let leads_in_turn = |cluster: &mut Cluster, leader: usize, why: &str| {
        let mut names = cluster.house(leader).consumers("S");
        names.sort();
        assert_eq!(names, ["C", "D"], "{why}");
        for name in ["C", "D"] {
            ask(cluster, leader, name, 2);
            cluster.settle();
            let heard = cluster.delivered(leader);
            if why == "another leader" {
                assert_eq!(seqs(&heard), [1, 2], "{name}, {why}");
            }
            heard
                .iter()
                .filter(|one| seq_of(one).is_some())
                .for_each(|one| acknowledge(cluster, leader, one));
        }
    };
    cluster.kill(first);
    let second = cluster.elect();
    leads_in_turn(&mut cluster, second, "another leader");
    cluster.begin(first);
    cluster.pass(40);
    (0..3).for_each(|number| cluster.kill(number));
    (0..3).for_each(|number| cluster.begin(number));
    let third = cluster.elect();
    leads_in_turn(&mut cluster, third, "all were begun anew");
}

#[test]
fn what_a_work_queue_has_settled_is_gone_on_all_servers() {
    let (mut cluster, first) = cluster(StreamConfig { retention: Retention::WorkQueue, ..stream("S") }, 3);
    ask(&mut cluster, first, "C", 2);
    cluster.settle();
    let heard = cluster.delivered(first);
    acknowledge(&mut cluster, first, &heard[0]);
    cluster.pass(4);
    assert_eq!((confirmed(&cluster), cluster.contents()), (1, vec![(2, 3); 3]));
    cluster.kill(first);
    let second = cluster.elect();
    ask(&mut cluster, second, "C", 5);
    cluster.pass(40);
    let heard = cluster.delivered(second);
    assert!(seqs(&heard).iter().all(|seq| [2, 3].contains(seq)), "{heard:?}");
    heard.iter().for_each(|one| acknowledge(&mut cluster, second, one));
    cluster.begin(first);
    cluster.pass(60);
    assert_eq!(cluster.contents(), [(0, 3); 3]);
}

#[test]
fn who_waits_at_a_leader_that_leads_no_more_is_told() {
    let (mut cluster, first) = cluster(stream("S"), 0);
    ask(&mut cluster, first, "C", 1);
    cluster.settle();
    cluster.isolated.push(first);
    cluster.elect();
    cluster.pass(20);
    let told: Vec<String> = cluster.delivered(first).into_iter().map(|heard| heard.headers).collect();
    assert_eq!(told, ["NATS/1.0 409 Leadership Change\r\n\r\n"]);
}

/// Has another server lead.
pub(super) fn hand_over(cluster: &mut Cluster, from: usize, to: usize) {
    cluster.house(from).stream("S").hand_over_to(Some(peer(to)));
    for _ in 0..200 {
        if cluster.leader() == Some(to) {
            return;
        }
        cluster.pass(1);
    }
    panic!("it has not handed over: {:?}", cluster.statuses());
}

/// A client that is told earlier asks somebody who is not there yet, and then waits until it misses
/// heartbeats.
#[test]
fn who_waits_at_a_leader_that_hands_over_is_told_when_the_next_one_hears() {
    let (mut cluster, first) = cluster(stream("S"), 0);
    let second = (first + 1) % 3;
    let waits = |cluster: &mut Cluster, reply: &str| {
        cluster.house(first).say("$JS.API.CONSUMER.MSG.NEXT.S.C", reply, r#"{"expires":60000000000}"#);
        cluster.settle();
    };
    let told = cluster.house(first).record("told.>");
    waits(&mut cluster, "told.first");
    hand_over(&mut cluster, first, second);
    assert!(!cluster.leads(first));
    waits(&mut cluster, "told.second");
    assert!(lock(&told).is_empty(), "neither that nor that nobody is there");
    // Nobody is heard of here, and after a while that is enough.
    cluster.pass(20);
    let said: Vec<_> = lock(&told).drain(..).map(|heard| (heard.subject, heard.headers)).collect();
    let expected = ["told.first", "told.second"].map(str::to_owned);
    assert_eq!(said, expected.map(|to| (to, "NATS/1.0 409 Leadership Change\r\n\r\n".to_owned())));
    waits(&mut cluster, "told.third");
    cluster.pass(20);
    assert!(lock(&told).is_empty(), "it receives no more");
}

/// Nobody but the first one has heard of the consumer that it made; its number was given out again.
#[test]
fn a_consumer_that_was_made_anew_elsewhere_has_the_time_of_that() {
    let (mut cluster, first) = cluster(stream("S"), 1);
    cluster.isolated.push(first);
    cluster.house(first).consume("S", consumer("D"));
    let second = cluster.elect();
    cluster.house(second).consume("S", consumer("D"));
    cluster.isolated.clear();
    cluster.pass(40);
    let created = |cluster: &mut Cluster, number: usize| {
        let live = cluster.house(number).stream("S").consumers().find("D").expect("it is there");
        live.act(|core, _| core.created()).expect("nobody has its core")
    };
    let there = created(&mut cluster, second);
    assert_ne!(created(&mut cluster, first), there);
    hand_over(&mut cluster, second, first);
    cluster.pass(4);
    assert_eq!(created(&mut cluster, first), there);
}

#[test]
fn the_last_messages_of_subjects_are_those_of_when_the_consumer_was_made_whoever_leads() {
    let (mut cluster, first) = cluster(stream("S"), 1);
    (0..5).for_each(|_| cluster.house(first).say("S.b", "", "x"));
    cluster.pass(2);
    let lasts = ConsumerConfig {
        deliver_policy: DeliverPolicy::LastPerSubject,
        filter_subject: "S.>".into(),
        ack_wait: 3600 * SECOND,
        ..consumer("L")
    };
    cluster.house(first).consume("S", lasts);
    ask(&mut cluster, first, "L", 1);
    cluster.pass(2);
    assert_eq!(seqs(&cluster.delivered(first)), [1]);
    let second = (first + 1) % 3;
    hand_over(&mut cluster, first, second);
    ask(&mut cluster, second, "L", 9);
    cluster.pass(2);
    assert_eq!(seqs(&cluster.delivered(second)), [6]);
}

/// In time, by what is next for a consumer and by what it has got and not acknowledged.
#[test]
fn messages_wait_for_a_consumer_since_they_were_stored_whoever_leads() {
    let (mut cluster, leader) = cluster(stream("S"), 1);
    for n in 1..4 {
        cluster.pass(1);
        cluster.house(leader).say(if n == 2 { "S.b" } else { "S.a" }, "", "x");
        cluster.settle();
    }
    let filtered = ConsumerConfig { filter_subject: "S.b".into(), ..consumer("F") };
    cluster.house(leader).consume("S", filtered);
    ask(&mut cluster, leader, "C", 2);
    cluster.pass(4);
    let heard = cluster.delivered(leader);
    assert_eq!(seqs(&heard), [1, 2]);
    acknowledge(&mut cluster, leader, &heard[0]);
    cluster.pass(4);
    for number in 0..3 {
        let live = cluster.house(number).stream("S");
        let time = |seq| live.reader().time_of(seq).expect("it can be read");
        assert!(time(1) < time(2) && time(2) < time(3) && time(3) < time(4), "{number}");
        let known = live.known_standings();
        let names: Vec<_> =
            known.iter().map(|(config, info)| (&*info.name, &*config.filter_subject)).collect();
        assert_eq!(names, [("C", ""), ("F", "S.b")], "{number}");
        let [of_all, of_filtered] = live.waiting_since(&known)[..] else { panic!("two consumers") };
        assert_eq!((of_all.delivery, of_all.acknowledgement), (time(3), time(2)), "{number}");
        assert_eq!((of_filtered.delivery, of_filtered.acknowledgement), (time(3), None), "{number}");
    }
    ask(&mut cluster, leader, "C", 9);
    cluster.settle();
    let live = cluster.house(leader).stream("S");
    let waiting = live.waiting_since(&live.known_standings());
    assert_eq!(waiting[0].delivery, None, "all is delivered");
}

/// Monitoring asks every server, and health checks do.
#[test]
fn a_follower_knows_the_consumers_of_its_group() {
    let (mut cluster, leader) = cluster(stream("S"), 3);
    cluster.house(leader).consume("S", consumer("D"));
    cluster.settle();
    ask(&mut cluster, leader, "C", 2);
    cluster.pass(4);
    let heard = cluster.delivered(leader);
    acknowledge(&mut cluster, leader, &heard[0]);
    cluster.pass(4);
    let expected = [("C", 2, 1, 1, 1), ("D", 0, 0, 0, 3)];
    for number in 0..3 {
        let live = cluster.house(number).stream("S");
        let known = live.known_consumers();
        let shown: Vec<_> = known
            .iter()
            .map(|info| {
                let (delivered, floor) = (info.delivered.stream_seq, info.ack_floor.stream_seq);
                (&*info.name, delivered, floor, info.num_ack_pending, info.num_pending)
            })
            .collect();
        assert_eq!(shown, expected, "{number}");
        let config = known[0].config.as_ref().expect("it is known everywhere");
        assert_eq!((&*config.durable_name, config.ack_wait), ("C", SECOND), "{number}");
        assert!(live.has_consumer("D") && !live.has_consumer("E"), "{number}");
        assert_eq!((live.state(false).consumer_count, live.consumer_count()), (2, 2), "{number}");
        assert_eq!(cluster.house(number).jetstream.ha_assets(), 3, "{number}");
    }
    let follower = cluster.house((leader + 1) % 3).stream("S");
    let guard = follower.lock_core();
    assert_eq!(follower.state(false).consumer_count, 2, "whoever has the core does not wait for it");
    drop(guard);
}
