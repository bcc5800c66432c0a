//! Cost of a delivery and of an acknowledgement, and their bytes on disk. Not a test: run it by
//! name, with `cargo test --release -p myelin-store consumer_speed -- --ignored --nocapture`.

use std::time::Instant;

use myelin_disk::faulty::FaultyDisk;
use myelin_disk::memory::MemoryDisk;

use super::*;

const ROUNDS: u64 = 2_000_000;

fn measure(name: &str, count: u64, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    println!("{name:52} {:7.1} ns", start.elapsed().as_nanos() as f64 / count as f64);
}

fn open(disk: Arc<dyn Disk>, rules: AckRules) -> (Consumers, ConsumerId) {
    let (mut consumers, _) = Consumers::open(place(disk, None)).expect("there is nothing");
    let id = consumers.create("a", rules, b"").expect("it is new");
    consumers.flush(0).expect("healthy");
    (consumers, id)
}

/// Deliveries with `window` pending, acknowledged in the order that `pick` says, a flush per 256.
fn windowed(name: &str, window: u64, pick: impl Fn(u64) -> u64, logged: bool) {
    let (mut consumers, id) = if logged {
        open(Arc::new(MemoryDisk::new()), AckRules::default())
    } else {
        let mut consumers = Consumers::in_memory();
        let id = consumers.create("a", AckRules::default(), b"").expect("it is new");
        (consumers, id)
    };
    for seq in 1..=window {
        consumers.apply_one(id, delivered(seq, seq)).expect("it exists");
    }
    consumers.flush(0).expect("healthy");
    let start = consumers.flush(0).expect("healthy").map_or(0, |at| at.end);
    measure(&format!("{name}, deliver + acknowledge"), ROUNDS, || {
        for round in 0..ROUNDS {
            let next = window + round + 1;
            let deliver = Delta::Delivered { delivery: DeliverySeq(next), seq: next, count: 1, timestamp: 7 };
            consumers.apply_one(id, deliver).expect("it exists");
            let acked = pick(round) + 1;
            assert_eq!(consumers.apply_one(id, acknowledged(acked, acked)), Ok(Applied::Changed));
            if round % 256 == 0 {
                consumers.flush(0).expect("healthy");
            }
        }
    });
    let end = consumers.flush(0).expect("healthy").map_or(0, |at| at.end);
    println!("{:52} {:7.2} bytes per message", "", (end - start) as f64 / ROUNDS as f64);
}

fn bytes_of_one() {
    let disk = FaultyDisk::new(0);
    let (mut consumers, id) = open(Arc::new(disk), AckRules::default());
    let mut at = consumers.flush(0).expect("healthy").expect("a file").end;
    let base = 1_000_000;
    consumers.apply_one(id, Delta::Reset { seq: base }).expect("it exists");
    for (what, delta) in [
        ("a reset", None),
        ("one delivery, flushed", Some(delivered(1, base + 1))),
        ("one acknowledgement, flushed", Some(acknowledged(1, base + 1))),
    ] {
        if let Some(delta) = delta {
            consumers.apply_one(id, delta).expect("it exists");
        }
        let end = consumers.flush(0).expect("healthy").expect("a file").end;
        println!("{what:52} {:7} bytes", end - at);
        at = end;
    }
}

#[test]
#[ignore = "a measurement"]
fn consumer_speed() {
    let shuffled = |window: u64| move |round: u64| round / window * window + (round * 7919 + 13) % window;
    windowed("memory, 65,536 pending, in order", 65_536, |round| round, false);
    windowed("memory, 65,536 pending, shuffled", 65_536, shuffled(65_536), false);
    windowed("file, 1 pending", 1, |round| round, true);
    windowed("file, 1,000 pending, in order", 1_000, |round| round, true);
    windowed("file, 65,536 pending, in order", 65_536, |round| round, true);
    windowed("file, 65,536 pending, shuffled", 65_536, shuffled(65_536), true);
    bytes_of_one();
    checkpoint();
}

fn checkpoint() {
    let (mut consumers, id) = open(Arc::new(MemoryDisk::new()), AckRules::default());
    for seq in 1..=65_536 {
        consumers.apply_one(id, delivered(seq, seq)).expect("it exists");
    }
    let mut end = 0;
    measure("checkpoint of 65,536 pending, per message", 65_536, || {
        end = consumers.checkpoint().expect("healthy").expect("a file").end;
    });
    println!("{:52} {:7.2} bytes per message", "", end as f64 / 65_536.0);
}
