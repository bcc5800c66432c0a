//! SUB/UNSUB churn on one connection while another publishes as fast as it can.
//!
//! Owns the pace of the churn. What is measured is how much of its rate the publisher keeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::connection::address::Address;
use crate::error::BenchError;
use crate::meter::Meter;
use crate::pubsub::publisher::Until;
use crate::pubsub::throughput::{self, Prepared, ThroughputOutcome};

/// SUB/UNSUB pairs per tick; at one tick per millisecond 10,000 pairs a second.
const PAIRS_PER_TICK: usize = 10;
const TICK: Duration = Duration::from_millis(1);

/// Different batches of pairs before the subjects repeat.
const BATCHES: usize = 500;

/// A publisher's figures without and with churn beside it.
#[derive(Clone, Copy, Debug)]
pub struct ChurnEffect {
    /// Messages per second.
    pub calm: f64,
    /// Messages per second with churn.
    pub churned: f64,
    /// SUB/UNSUB pairs per second that the server took.
    pub pairs: f64,
}

/// Runs the load four times, without churn, with, with, without, each for half of `duration`.
pub fn compare(
    load: &Prepared,
    address: &Address,
    duration: Duration,
    meter: Meter,
) -> Result<ChurnEffect, BenchError> {
    let until = Until::Elapsed(duration / 2);
    let run = || load.run(address, until, Some(meter), false);
    let first = run()?;
    let (second, pairs_before) = beside_churn(address, run)?;
    let (third, pairs_after) = beside_churn(address, run)?;
    let last = run()?;
    Ok(ChurnEffect {
        calm: mean_rate(&first, &last),
        churned: mean_rate(&second, &third),
        pairs: f64::midpoint(pairs_before, pairs_after),
    })
}

fn mean_rate(a: &ThroughputOutcome, b: &ThroughputOutcome) -> f64 {
    (a.messages + b.messages) as f64 / (a.elapsed + b.elapsed).as_secs_f64()
}

/// Runs `work` with churn beside it; also gives the pairs per second.
pub fn beside_churn<T>(
    address: &Address,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, f64), BenchError> {
    let stop = AtomicBool::new(false);
    let mut connection = Connection::open(address)?;
    thread::scope(|scope| {
        let churning = scope.spawn(|| churn(&mut connection, &stop));
        let outcome = work();
        stop.store(true, Ordering::Relaxed);
        let pairs = churning.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((outcome?, pairs?))
    })
}

/// Subscribes and unsubscribes at the pace until told to stop; gives the pairs per second, counted
/// until the server has taken the last.
fn churn(connection: &mut Connection, stop: &AtomicBool) -> Result<f64, BenchError> {
    let batches: Vec<Vec<u8>> = (0..BATCHES).map(batch).collect();
    let start = Instant::now();
    let mut ticks = 0;
    while !stop.load(Ordering::Relaxed) {
        connection.send(&batches[ticks as usize % BATCHES])?;
        connection.tend()?;
        ticks += 1;
        thread::sleep((TICK * ticks).saturating_sub(start.elapsed()));
    }
    connection.barrier()?;
    Ok(f64::from(ticks) * PAIRS_PER_TICK as f64 / start.elapsed().as_secs_f64())
}

/// Half of the subjects are inboxes, half share the first token with what is published (but match
/// none of it): a cache that forgets too much shows with either.
fn batch(number: usize) -> Vec<u8> {
    let first = number * PAIRS_PER_TICK;
    let pair = |sid: usize| match sid % 2 {
        0 => format!("SUB _INBOX.churn{sid} {sid}\r\nUNSUB {sid}\r\n"),
        _ => format!("SUB {}.churn.{sid} {sid}\r\nUNSUB {sid}\r\n", throughput::BASE),
    };
    (first..first + PAIRS_PER_TICK).map(|sid| pair(sid + 1)).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_its_number_of_pairs_in_both_kinds() {
        let text = String::from_utf8(batch(3)).unwrap();
        assert_eq!(text.matches("UNSUB ").count(), PAIRS_PER_TICK);
        assert_eq!(text.matches("SUB _INBOX.").count(), PAIRS_PER_TICK / 2);
        assert_eq!(text.matches("SUB bench.churn.").count(), PAIRS_PER_TICK / 2);
        assert!(text.starts_with("SUB bench.churn.31 31\r\nUNSUB 31\r\n"));
    }
}
