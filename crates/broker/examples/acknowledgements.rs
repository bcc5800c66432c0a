//! Measures what it costs to route acknowledgements, none of whose subjects comes twice, to the
//! service that takes them: `cargo run --release -p myelin-broker --example acknowledgements`.
//!
//! Prints nanoseconds per message, from the bytes of a client to the buffer of the service, and the
//! same for one subject.

mod parts;

use bytes::Bytes;
use myelin_broker::{Account, Broker, Service, ServiceBatch, ServiceShard, Session, Shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Messages of one tick, and ticks of one round.
const TICK: usize = 256;
const TICKS: usize = 8;
/// The best of these counts: short, so that some are not disturbed.
const ROUNDS: usize = 500;

/// Counts what it gets.
#[derive(Default)]
struct AckCount(AtomicUsize);

impl Service for AckCount {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        self.0.fetch_add(msgs.len(), Relaxed);
    }
}

/// An account with streams, and a client.
struct Bench {
    broker: Arc<Broker>,
    account: Arc<Account>,
    acks: Arc<AckCount>,
}

impl Bench {
    fn new(streams: usize) -> Self {
        let broker = parts::broker();
        let account = broker.account("$G").expect("the global account");
        let acks = Arc::new(AckCount::default());
        for stream in 0..streams {
            for subject in [
                format!("$JS.ACK.S{stream}.>"),
                format!("$JS.ACK.*.*.S{stream}.>"),
                format!("$JS.FC.S{stream}.>"),
                format!("S{stream}.>"),
            ] {
                account.bind(subject.as_bytes(), Arc::clone(&acks) as Arc<dyn Service>);
            }
        }
        Self { broker, account, acks }
    }

    fn client(&self, shard: &mut Shard, says: &str) -> Session {
        parts::client(&self.broker, shard, says)
    }

    /// Nanoseconds per message on one of `threads`.
    fn measure(&self, threads: usize, listeners: &str, subject: impl Fn(usize) -> String + Sync) -> f64 {
        let of_thread = |thread: usize| {
            let mut shard = Shard::new(&self.broker, 7);
            let listener = self.client(&mut shard, listeners);
            let mut session = self.client(&mut shard, "");
            let mut best = f64::MAX;
            for round in 0..ROUNDS {
                let ticks: Vec<Bytes> = (0..TICKS)
                    .map(|tick| {
                        let first = ((thread * ROUNDS + round) * TICKS + tick) * TICK;
                        let ops = (first..first + TICK).map(|n| format!("PUB {} 0\r\n\r\n", subject(n)));
                        Bytes::from(ops.collect::<String>())
                    })
                    .collect();
                let now = Instant::now();
                for tick in &ticks {
                    let consumed = session.ingest(&mut shard, tick, Some(tick), now);
                    assert_eq!(consumed.bytes, tick.len());
                    shard.flush();
                }
                best = best.min(now.elapsed().as_nanos() as f64 / (TICKS * TICK) as f64);
            }
            drop(listener);
            best
        };
        let before = self.acks.0.load(Relaxed);
        let slowest = std::thread::scope(|scope| {
            let of_thread = &of_thread;
            let all: Vec<_> = (0..threads).map(|thread| scope.spawn(move || of_thread(thread))).collect();
            all.into_iter().map(|one| one.join().expect("no panic")).fold(0.0, f64::max)
        });
        let served = self.acks.0.load(Relaxed) - before;
        assert_eq!(served, threads * ROUNDS * TICKS * TICK, "the service gets everything");
        slowest
    }
}

/// The acknowledgement of message `n`, of the time when it was stored.
fn ack(stream: usize, n: usize) -> String {
    format!(
        "$JS.ACK.S{stream}.worker.1.{n}.{n}.{}.{}",
        1_763_000_000_000_000_000 + n * 1001,
        1_000_000 - n % 9
    )
}

fn main() {
    let report = |what: &str, bench: &Bench, listeners: &str| {
        for threads in [1, 2] {
            let one = bench.measure(threads, listeners, |n| ack(0, n % 2));
            let many = bench.measure(threads, listeners, |n| ack(0, n));
            println!(
                "{what}, {threads} threads: {one:6.1} ns for one subject, {many:6.1} ns for distinct ones"
            );
        }
    };
    let inboxes: String = (0..1000).map(|n| format!("SUB _INBOX.{n:022}.* {n}\r\n")).collect();
    report("one stream, no subscription", &Bench::new(1), "");
    report("one stream, 1,000 inboxes", &Bench::new(1), &inboxes);
    report("100 streams, 1,000 inboxes", &Bench::new(100), &inboxes);
    report("one stream, a `*.*.x` listener", &Bench::new(1), "SUB *.*.x 1\r\n");
    let many = Bench::new(100);
    let other = many.measure(1, &inboxes, |n| format!("S0.orders.{}", n % 100));
    println!("100 other subjects in turn: {other:6.1} ns");
    let spread = many.measure(1, &inboxes, |n| ack(n % 100, n));
    println!("100 streams in turn: {spread:6.1} ns for distinct subjects");
    drop(many.account);
}
