//! Reading a filled stream from its start to its end, over and over until the time is up, each time
//! with a new consumer.
//!
//! Owns when clock and meter run: from the first request to the last message, the meter until the
//! last acknowledgement is settled as well. Making and deleting durable consumers is beside the
//! clock.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::admin::Admin;
use crate::connection::address::Address;
use crate::error::BenchError;
use crate::jetstream::consumers::ledger::{Expected, Ledger};
use crate::jetstream::consumers::pull::{self, Acks, How, Pull};
use crate::jetstream::consumers::push::{self, Push};
use crate::jetstream::consumers::receiving::{self, ReceivingClient};
use crate::jetstream::consumers::run::{
    BATCH, ConsumerOutcome, ConsumerRun, Filled, SIZE, fill, new_stream, payloads,
};
use crate::jetstream::stream::LoadStorage;
use crate::meter::CpuTime;
use crate::target_server::API;
use crate::token;

/// Unacknowledged messages that a pull consumer allows, as `nats bench` wants it.
const MAX_ACK_PENDING: u64 = 10_000;

/// One of this many messages passes the sparse filter.
const SPARSENESS: u64 = 10_000;

/// Runs `pass` until it has taken long enough. It gives its time and the CPU time of the server.
fn passes(
    messages: u64,
    run: ConsumerRun<'_>,
    mut pass: impl FnMut() -> Result<(Duration, Option<CpuTime>), BenchError>,
) -> Result<ConsumerOutcome, BenchError> {
    let (mut total, mut elapsed, mut cpu) = (0, Duration::ZERO, run.meter.map(|_| CpuTime::default()));
    while !run.is_over(total, elapsed) || total == 0 {
        let (time, used) = pass()?;
        total += messages;
        elapsed += time;
        cpu = cpu.zip(used).map(|(sum, used)| sum.and(used));
    }
    Ok(ConsumerOutcome::of_messages(total, elapsed, cpu))
}

/// Reads the stream with a push consumer: a durable one with acknowledgements, or an ordered one.
pub(super) fn push(
    filled: &Filled,
    has_acks: bool,
    run: ConsumerRun<'_>,
) -> Result<ConsumerOutcome, BenchError> {
    let expected = Expected::exactly(filled.messages);
    let wish = push::Wish {
        stream: &filled.stream,
        filter: None,
        policy: "all",
        has_acks,
        size: SIZE,
        expected: &expected,
        enough: None,
    };
    push_passes(wish, run)
}

fn push_passes(wish: push::Wish<'_>, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let mut admin = Admin::open(run.address)?;
    passes(wish.expected.get(), run, || {
        let mut clients = [ReceivingClient::open(run.address, Push::new(wish))?];
        let (before, start) = (run.cpu()?, Instant::now());
        let elapsed = receiving::run(&mut clients)? - start;
        let name = clients[0].actor.name();
        if wish.has_acks {
            admin.settle(wish.stream, name, wish.expected.get())?;
        }
        let cpu = run.cpu_since(before)?;
        admin.delete_consumer(wish.stream, name)?;
        Ok((elapsed, cpu))
    })
}

/// Reads the stream with clients of one durable pull consumer.
pub(super) fn pull(
    filled: &Filled,
    how: How,
    clients: usize,
    acks: Acks,
    run: ConsumerRun<'_>,
) -> Result<ConsumerOutcome, BenchError> {
    let mut admin = Admin::open(run.address)?;
    let (stream, expected) = (&filled.stream, Expected::exactly(filled.messages));
    passes(filled.messages, run, || {
        let name = format!("C{}", token::unique(8));
        let mut configuration = json!({
            "name": name, "durable_name": name, "ack_policy": "none", "deliver_policy": "all",
        });
        if acks != Acks::None {
            configuration["ack_policy"] = "explicit".into();
            configuration["max_ack_pending"] = MAX_ACK_PENDING.into();
        }
        admin.create_consumer(stream, &configuration)?;
        let ledger = RefCell::new(Ledger::default());
        let wish = pull::Wish {
            stream,
            consumer: &name,
            api: API,
            how,
            batch: BATCH,
            acks,
            size: SIZE,
            ledger: &ledger,
            expected: &expected,
        };
        let clients: Result<Vec<_>, _> =
            (0..clients).map(|_| ReceivingClient::open(run.address, Pull::new(wish))).collect();
        let (mut clients, before, start) = (clients?, run.cpu()?, Instant::now());
        let elapsed = receiving::run(&mut clients)? - start;
        if acks != Acks::None {
            admin.settle(stream, &name, filled.messages)?;
        }
        let cpu = run.cpu_since(before)?;
        admin.delete_consumer(stream, &name)?;
        Ok((elapsed, cpu))
    })
}

/// How many messages stand between two that pass the filter, in a stream of this many.
fn period(messages: u64) -> u64 {
    SPARSENESS.min(messages / 10)
}

/// A stream of which only the messages on `*.alarm` are read.
pub(super) fn fill_sparse(address: &Address, messages: u64) -> Result<Filled, BenchError> {
    let mut admin = Admin::open(address)?;
    let stream = new_stream(&mut admin, LoadStorage::File)?;
    let period = period(messages);
    let subjects = (1..=period).map(|number| {
        let what = if number == period { "alarm" } else { "data" };
        format!("{stream}.{}.{what}", number % 1000)
    });
    fill(address, &stream, payloads(subjects), messages)?;
    Ok(Filled { stream, messages })
}

/// Reads the stream with an ordered consumer whose filter hardly anything passes.
pub(super) fn sparse(filled: &Filled, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let expected = Expected::exactly(filled.messages / period(filled.messages));
    let filter = format!("{}.*.alarm", filled.stream);
    let wish = push::Wish {
        stream: &filled.stream,
        filter: Some(&filter),
        policy: "all",
        has_acks: false,
        size: SIZE,
        expected: &expected,
        enough: None,
    };
    push_passes(wish, run)
}
