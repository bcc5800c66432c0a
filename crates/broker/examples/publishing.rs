//! Measures what it costs to route a message:
//! `cargo run --release -p myelin-broker --example publishing [ROW [ROUNDS]]`.
//!
//! Prints nanoseconds per message, from the bytes of a publisher to a socket that takes everything:
//! 16 bytes to each of 64 subjects in turn.

mod parts;

use bytes::Bytes;
use myelin_broker::{Session, Shard};
use parts::client;
use std::time::Instant;

/// Messages of one tick, and ticks of one round.
const TICK: usize = 2048;
const TICKS: usize = 8;
/// The best of these counts: short, so that some are not disturbed. Fewer are enough for
/// `callgrind`.
const ROUNDS: usize = 300;

/// Nanoseconds per message with a receiver for each of `listeners`, which say this when they
/// connect.
fn measure(listeners: &[String], rounds: usize) -> f64 {
    let broker = parts::broker();
    let mut shard = Shard::new(&broker, 7);
    let _listeners: Vec<Session> = listeners.iter().map(|says| client(&broker, &mut shard, says)).collect();
    let mut session = client(&broker, &mut shard, "");
    let ops: String =
        (0..TICK).map(|n| format!("PUB bench.orders.{} 16\r\n0123456789abcdef\r\n", n % 64)).collect();
    let tick = Bytes::from(ops);
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let now = Instant::now();
        for _ in 0..TICKS {
            let mut at = 0;
            while at < tick.len() {
                let consumed = session.ingest(&mut shard, &tick[at..], Some(&tick), now);
                at += consumed.bytes;
                shard.flush();
            }
        }
        best = best.min(now.elapsed().as_nanos() as f64 / (TICKS * TICK) as f64);
    }
    best
}

fn main() {
    let wanted = std::env::args().nth(1);
    let rounds = std::env::args().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let distinct = |receivers: usize| -> Vec<String> {
        (0..receivers).map(|n| format!("SUB bench.> {}\r\n", n + 1)).collect()
    };
    let rows = [
        ("nobody", vec![]),
        ("1:1", distinct(1)),
        ("1:4", distinct(4)),
        ("1:4, one sid", vec!["SUB bench.> 1\r\n".to_owned(); 4]),
        ("1:64, one sid", vec!["SUB bench.> 1\r\n".to_owned(); 64]),
        ("queue of 10", vec!["SUB bench.> q 1\r\n".to_owned(); 10]),
    ];
    for (name, listeners) in rows {
        if wanted.as_deref().is_none_or(|wanted| wanted == name) {
            println!("{name:>14}: {:6.1} ns per message", measure(&listeners, rounds));
        }
    }
}
