//! Panics cost what has panicked and nothing else; failures are mended by a clock that nobody sets.

use super::house::{House, MOST_READS, copy, source, stream};
use crate::engine::host::Host;
use crate::engine::waits::block_on;
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig, PriorityPolicy};
use myelin_stdx::sync::lock;
use myelin_store::Purge;
use myelin_wire::message_buf::MessageBuf;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;

/// A stream with a consumer `C`, which asks the host for a name before it delivers its first
/// message, and a plain one `D`.
fn house() -> House {
    let mut house = House::new();
    house.create(stream("S"));
    let plain = |name: &str| ConsumerConfig {
        durable_name: name.into(),
        name: name.into(),
        ack_policy: AckPolicy::Explicit,
        ..ConsumerConfig::default()
    };
    let pinned = ConsumerConfig {
        priority_policy: PriorityPolicy::PinnedClient,
        priority_groups: vec!["A".into()],
        priority_timeout: 10 * SECOND,
        ..plain("C")
    };
    house.consume("S", pinned);
    house.consume("S", plain("D"));
    house.listen("inbox");
    house
}

fn ask(house: &mut House, consumer: &str) {
    let request = if consumer == "C" { r#"{"batch":1,"group":"A"}"# } else { r#"{"batch":1}"# };
    house.say(&format!("$JS.API.CONSUMER.MSG.NEXT.S.{consumer}"), "inbox", request);
    house.settle();
}

/// How many messages a consumer has delivered that await their acknowledgement.
fn pending(house: &House, consumer: &str) -> u64 {
    let live = house.stream("S");
    let consumer = live.consumers().find(consumer).expect("it is there");
    live.consumers().info(&consumer).expect("it lives").num_ack_pending
}

fn panics(house: &House) -> Vec<String> {
    lock(&house.host.panics).clone()
}

#[test]
fn a_consumer_that_panics_costs_itself_and_is_opened_anew() {
    let mut house = house();
    house.host.panics_at_names.store(true, Relaxed);
    ask(&mut house, "C");
    ask(&mut house, "D");
    house.publish("S.a");
    let [told] = &panics(&house)[..] else { panic!("once: {:?}", panics(&house)) };
    assert!(told.starts_with("in consumer '$G > S > C': it is opened anew"), "{told}");
    assert_eq!((pending(&house, "C"), pending(&house, "D")), (0, 1));
    house.host.panics_at_names.store(false, Relaxed);
    house.pass(1);
    ask(&mut house, "C");
    assert_eq!(pending(&house, "C"), 1);
    assert_eq!(panics(&house).len(), 1);
}

#[test]
fn a_consumer_that_panics_again_rests_for_a_minute() {
    let mut house = house();
    house.host.panics_at_names.store(true, Relaxed);
    house.publish("S.a");
    ask(&mut house, "C");
    house.pass(1);
    ask(&mut house, "C");
    let told = panics(&house);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("it delivers nothing for a minute"), "{told:?}");
    // It would panic at each look.
    ask(&mut house, "C");
    house.publish("S.b");
    house.pass(SECOND);
    ask(&mut house, "D");
    assert_eq!((panics(&house).len(), pending(&house, "C"), pending(&house, "D")), (2, 0, 1));
    house.host.panics_at_names.store(false, Relaxed);
    *lock(&house.host.ahead) = Duration::from_secs(61);
    house.pass(61 * SECOND);
    assert_eq!((panics(&house).len(), pending(&house, "C")), (2, 1));
}

fn fail_and_repair(house: &mut House) -> bool {
    let live = house.stream("S");
    if let Some(mut guard) = live.lock_core() {
        guard.parts().0.store().give_up("a test asked for it");
    }
    house.jetstream.repair(live.account_name(), live.name());
    house.settle();
    let before = house.contents("S").0;
    house.publish("S.x");
    house.contents("S").0 > before
}

#[test]
fn a_clock_that_is_set_back_keeps_no_stream_from_being_repaired() {
    let mut house = House::new();
    house.create(stream("S"));
    assert!(fail_and_repair(&mut house));
    house.set_clock_back(3600 * SECOND);
    *lock(&house.host.ahead) = Duration::from_secs(61);
    assert!(fail_and_repair(&mut house), "a minute later");
    assert!(!fail_and_repair(&mut house), "at once");
}

#[test]
fn who_asks_for_more_than_can_be_read_is_told_so() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(StreamConfig { allow_direct: true, ..stream("S") });
    house.publish("S.a");
    let heard = house.hear("inbox");
    disk.chill(true);
    for _ in 0..MOST_READS + 3 {
        house.say("$JS.API.DIRECT.GET.S", "inbox", r#"{"seq":1}"#);
        house.flush();
        house.flush();
    }
    let refused: Vec<_> = std::mem::take(&mut *lock(&heard));
    assert_eq!(refused, ["NATS/1.0 429 Too Many Requests\r\n\r\n"; 3]);
    disk.chill(false);
    house.settle();
    assert_eq!(lock(&heard).len(), MOST_READS, "all others are answered");
    assert!(lock(&heard).iter().all(|headers| headers.contains("Nats-Sequence: 1")));
}

/// Steps after which a house that still has something to do never rests.
const MOST_STEPS: usize = 10_000;

/// A disk, and how many of its points are left until one panics; 0: none does.
fn panicking_disk() -> (FaultyDisk, Arc<AtomicU64>) {
    let left = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&left);
    let disk = FaultyDisk::new(1).watched(Arc::new(move |_| {
        let before = counted.load(Relaxed);
        counted.store(before.saturating_sub(1), Relaxed);
        assert!(before != 1, "a test asked for it");
    }));
    (disk, left)
}

/// Deletes `S`, which has a consumer and is copied to `K`, on a disk whose so-manyth point from
/// there on panics. `None`: the deletion has come to its end before.
fn panic_while_deleting(points: u64) -> Option<House> {
    let (disk, left) = panicking_disk();
    let mut house = House::on(&disk);
    house.create(stream("S"));
    let plain = ConsumerConfig { durable_name: "C".into(), name: "C".into(), ..ConsumerConfig::default() };
    house.consume("S", plain);
    house.create(copy("K", &[source("S", "")]));
    house.publish("S.a");
    house.settle();
    left.store(points, Relaxed);
    let (streams, live) = (house.streams(), house.stream("S"));
    let delete = || block_on(streams.delete(&house.jetstream, &live, &mut MessageBuf::default()));
    let deleted = catch_unwind(AssertUnwindSafe(delete));
    let has_panicked = left.swap(0, Relaxed) == 0;
    assert_eq!(deleted.is_err(), has_panicked);
    has_panicked.then_some(house)
}

#[test]
fn a_stream_whose_deletion_panics_is_gone_or_can_be_deleted() {
    for points in 1.. {
        let Some(mut house) = panic_while_deleting(points) else {
            assert!(points > 2, "there are points at which it panics");
            return;
        };
        let mut steps = 0..MOST_STEPS;
        while house.step_without_jobs() || house.run_job() {
            assert!(steps.next().is_some(), "who copies it seeks it for ever, after a panic at {points}");
        }
        if house.streams().stream("S").is_some() {
            house.delete("S");
        }
        house.create(stream("S"));
        // Another stream of the name: a copy goes on behind the sequence that it has.
        house.publish("S.b");
        house.publish("S.c");
        house.pass(20 * SECOND);
        assert_eq!(house.contents("K").0, 2, "it is copied again, after a panic at {points}");
    }
}

#[test]
fn publishes_that_were_held_do_not_wait_for_ever_behind_one_that_panics() {
    let (disk, left) = panicking_disk();
    let mut house = House::on(&disk);
    house.create(stream("S"));
    let live = house.stream("S");
    live.hold_publishes();
    for _ in 0..3 {
        house.say("S.a", "", &"x".repeat(300_000));
        house.settle();
    }
    assert_eq!(live.waiting(), 3);
    left.store(1, Relaxed);
    live.store_held();
    left.store(0, Relaxed);
    assert_eq!((panics(&house).len(), live.waiting()), (1, 0));
    house.run_repairs();
    house.publish("S.b");
    assert_eq!(house.contents("S").1, 1);
}

/// Longest that a core which nobody has may be waited for.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_core_comes_back_whatever_panics_on_its_way() {
    let mut on_the_way = 0;
    for points in 1.. {
        let (disk, left) = panicking_disk();
        let mut house = House::on(&disk);
        house.create(stream("S"));
        for _ in 0..30 {
            house.say("S.a", "", &"x".repeat(100_000));
            house.settle();
        }
        let live = house.stream("S");
        let mut guard = live.lock_core().expect("it is there");
        left.store(points, Relaxed);
        let purge = || {
            let (core, effects) = guard.parts();
            let all = &mut Purge { filter: None, below: 0, keep: 0, through: 0 };
            core.purge(all, house.host.now(), effects).is_ok()
        };
        let purged = catch_unwind(AssertUnwindSafe(purge));
        let returned = catch_unwind(AssertUnwindSafe(|| drop(guard)));
        let has_panicked = left.swap(0, Relaxed) == 0;
        on_the_way += u32::from(purged.is_ok() && returned.is_err());
        let (sender, receiver) = channel();
        let waiting = Arc::clone(&live);
        let waits = std::thread::spawn(move || sender.send(waiting.lock_core().is_some()));
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(true), "after a panic at {points}");
        waits.join().expect("it has told").expect("somebody listens");
        if !has_panicked {
            break;
        }
    }
    assert!(on_the_way > 0, "there is work on the way back");
}
