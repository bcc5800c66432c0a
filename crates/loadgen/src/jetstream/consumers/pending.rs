//! Many messages delivered and unacknowledged, then acknowledged in an order without locality.
//!
//! Owns the two figures: what each pending acknowledgement adds to the resident size of the server,
//! and how many are acknowledged per second, until the consumer says that none is left. Every run
//! has a server of its own.

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::admin::Admin;
use crate::connection::Connection;
use crate::error::BenchError;
use crate::jetstream::consumers::delivery::acknowledge;
use crate::jetstream::consumers::ledger::{Expected, Ledger};
use crate::jetstream::consumers::pull::{Acks, How, Pull, Wish};
use crate::jetstream::consumers::receiving::{self, ReceivingClient};
use crate::jetstream::consumers::run::{ConsumerOutcome, ConsumerRun, SIZE, fill_plain};
use crate::jetstream::stream::LoadStorage;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::pubsub::script;
use crate::target_server::API;

/// Messages of a pull.
const BATCH: u64 = 5000;

/// Acknowledgements that are sent at once.
const PIECE: usize = 1000;

/// Time per message for a server to give back what it read, beside that which every row about
/// memory gives it.
const REST: Duration = Duration::from_micros(2);

/// Runs once: `count` messages are delivered, then acknowledged in an order without locality.
pub(super) fn run(count: u64, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let filled = fill_plain(run.address, LoadStorage::File, count)?;
    let mut admin = Admin::open(run.address)?;
    let before = resident(count, run)?;
    admin.create_consumer(
        &filled.stream,
        &json!({
            "name": "C",
            "durable_name": "C",
            "ack_policy": "explicit",
            "ack_wait": 3_600_000_000_000_u64,
            "max_ack_pending": count,
        }),
    )?;
    let replies = deliver(&filled.stream, count, run)?;
    let after = resident(count, run)?;
    let frames = shuffled(&replies);
    let mut connection = Connection::open(run.address)?;
    let (cpu, start) = (run.cpu()?, Instant::now());
    for frame in &frames {
        connection.send(frame)?;
        connection.tend()?;
    }
    admin.settle(&filled.stream, "C", count)?;
    let elapsed = start.elapsed();
    let mut outcome = ConsumerOutcome::of_messages(count, elapsed, run.cpu_since(cpu)?);
    let grown = after.zip(before).map(|(after, before)| after.saturating_sub(before) as f64 / count as f64);
    outcome.readings.extend(grown.map(|grown| (Metric::PendingMemory, grown)));
    Ok(outcome)
}

fn resident(count: u64, run: ConsumerRun<'_>) -> Result<Option<u64>, BenchError> {
    let Some(meter) = run.meter else { return Ok(None) };
    thread::sleep(REST.mul_f64(count as f64));
    Meter::resident_at_rest(meter).map(Some)
}

/// Pulls everything and gives the replies.
fn deliver(stream: &str, count: u64, run: ConsumerRun<'_>) -> Result<Vec<Vec<u8>>, BenchError> {
    let (ledger, expected) = (RefCell::new(Ledger::default()), Expected::exactly(count));
    let wish = Wish {
        stream,
        consumer: "C",
        api: API,
        how: How::Consume,
        batch: BATCH,
        acks: Acks::Kept,
        size: SIZE,
        ledger: &ledger,
        expected: &expected,
    };
    let mut clients = [ReceivingClient::open(run.address, Pull::new(wish))?];
    receiving::run(&mut clients)?;
    let [client] = clients;
    Ok(client.actor.into_kept())
}

/// Frames with the acknowledgements of all, in an order without locality.
fn shuffled(replies: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let stride = script::stride(replies.len());
    let order: Vec<usize> = (0..replies.len()).map(|turn| turn * stride % replies.len()).collect();
    let frame = |piece: &[usize]| {
        let mut out = Vec::new();
        piece.iter().for_each(|&place| acknowledge(&replies[place], &mut out));
        out
    };
    order.chunks(PIECE).map(frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_acknowledged_once_and_not_in_order() {
        let replies: Vec<Vec<u8>> = (0..2500).map(|number| format!("r.{number}").into_bytes()).collect();
        let frames = shuffled(&replies);
        assert_eq!(frames.len(), 3);
        let text = String::from_utf8(frames.concat()).unwrap();
        let order: Vec<&str> =
            text.split("PUB ").skip(1).map(|frame| frame.strip_suffix(" 4\r\n+ACK\r\n").unwrap()).collect();
        let all: std::collections::BTreeSet<&str> = order.iter().copied().collect();
        assert!(all.len() == 2500 && order.len() == 2500);
        assert_ne!(order[1], "r.1");
    }
}
