//! Mirrors and sources: a stream that is full is copied, one that grows is followed, many follow
//! one that rests.
//!
//! Owns the rows and when clock and meter run: from the request that makes the copy until
//! `STREAM.INFO` says that it has all, which is looked at every few milliseconds, of all servers
//! alike. Filling and deleting is beside the clock.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::admin::Admin;
use crate::connection::PATIENCE;
use crate::error::BenchError;
use crate::jetstream::SUBJECTS;
use crate::jetstream::consumers::run::{
    ConsumerOutcome, ConsumerRun, Filled, Scale, fill, fill_plain, new_stream, payloads, unique_stream,
};
use crate::jetstream::stream::LoadStorage;
use crate::meter::{CpuTime, Meter};
use crate::metric::Metric;

/// How often somebody who waits for a copy looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Origins of the row with many, and mirrors that rest.
const MANY: u64 = 16;
const RESTING: u64 = 1000;

/// How long those are watched, and how long they may take to come to rest.
const WATCHED: Duration = Duration::from_secs(5);
const SETTLING: Duration = Duration::from_secs(3);

/// Kind of copy, and the streams that it copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// A mirror of a stream that is full.
    Mirror,
    /// A source that is full.
    Source,
    /// A stream with 16 sources that are full.
    Sources,
    /// A source that is a full work queue, which is empty in the end.
    Queue,
    /// A mirror of a stream while that is filled.
    Live,
    /// 1,000 mirrors of a stream that rests.
    Resting,
}

/// Runs it once. `filled` is a stream that every run can copy.
pub(super) fn run(
    copying: Copying,
    filled: Option<&Filled>,
    scale: Scale,
    run: ConsumerRun<'_>,
) -> Result<ConsumerOutcome, BenchError> {
    let mut admin = Admin::open(run.address)?;
    match (copying, filled) {
        (Copying::Mirror, Some(filled)) => {
            let mirror = json!({ "mirror": { "name": filled.stream } });
            copy(&mut admin, &mirror, filled.messages, run)
        }
        (Copying::Source, Some(filled)) => {
            let sources = json!({ "sources": [{ "name": filled.stream }] });
            copy(&mut admin, &sources, filled.messages, run)
        }
        (Copying::Queue, _) => empty(&mut admin, scale.replayed() / 4, run),
        (Copying::Live, _) => follow(&mut admin, scale.replayed(), run),
        (Copying::Resting, _) => rest(&mut admin, run),
        (Copying::Sources | Copying::Mirror | Copying::Source, _) => {
            let each = (scale.replayed() / MANY).max(1);
            let origins: Result<Vec<_>, _> =
                (0..MANY).map(|_| fill_plain(run.address, LoadStorage::File, each)).collect();
            let origins = origins?;
            let names: Vec<Value> = origins.iter().map(|origin| json!({ "name": origin.stream })).collect();
            let outcome = copy(&mut admin, &json!({ "sources": names }), each * MANY, run)?;
            origins.iter().try_for_each(|origin| admin.delete_stream(&origin.stream))?;
            Ok(outcome)
        }
    }
}

/// Makes a stream that copies `messages`, over and over until the time is up.
fn copy(
    admin: &mut Admin,
    what: &Value,
    messages: u64,
    run: ConsumerRun<'_>,
) -> Result<ConsumerOutcome, BenchError> {
    let (mut total, mut elapsed, mut cpu) = (0, Duration::ZERO, run.meter.map(|_| CpuTime::default()));
    while !run.is_over(total, elapsed) || total == 0 {
        let (before, start) = (run.cpu()?, Instant::now());
        let name = begin(admin, what)?;
        wait(admin, &name, messages)?;
        (total, elapsed) = (total + messages, elapsed + start.elapsed());
        cpu = cpu.zip(run.cpu_since(before)?).map(|(sum, used)| sum.and(used));
        admin.delete_stream(&name)?;
    }
    Ok(ConsumerOutcome::of_messages(total, elapsed, cpu))
}

/// Makes a stream with a name of its own.
fn begin(admin: &mut Admin, what: &Value) -> Result<String, BenchError> {
    let name = unique_stream();
    let mut configuration = what.clone();
    configuration["name"] = name.as_str().into();
    admin.create_stream(&configuration)?;
    Ok(name)
}

/// Waits until a stream has so many messages, and no more.
fn wait(admin: &mut Admin, name: &str, messages: u64) -> Result<(), BenchError> {
    let mut progress = (Instant::now(), 0);
    loop {
        let has = admin.counts(name)?.messages;
        if has > messages || (has < messages && has == progress.1 && progress.0.elapsed() > PATIENCE) {
            return Err(BenchError::Lost(format!("of {messages} messages the copy has {has}")));
        }
        if has == messages {
            return Ok(());
        }
        if has != progress.1 {
            progress = (Instant::now(), has);
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// A work queue is filled, then copied until it is empty.
fn empty(admin: &mut Admin, messages: u64, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let queue = unique_stream();
    admin.create_stream(&json!({
        "name": queue, "subjects": [format!("{queue}.>")], "retention": "workqueue",
    }))?;
    let subjects = (0..SUBJECTS).map(|number| format!("{queue}.{number}"));
    fill(run.address, &queue, payloads(subjects), messages)?;
    let (before, start) = (run.cpu()?, Instant::now());
    let name = begin(admin, &json!({ "sources": [{ "name": queue }] }))?;
    wait(admin, &name, messages)?;
    // The reference acknowledges by flow control, and the last of it not before its consumer has
    // more to say.
    let elapsed = start.elapsed();
    let cpu = run.cpu_since(before)?;
    admin.delete_stream(&name)?;
    admin.delete_stream(&queue)?;
    Ok(ConsumerOutcome::of_messages(messages, elapsed, cpu))
}

/// A mirror is there before the messages are.
fn follow(admin: &mut Admin, messages: u64, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let origin = new_stream(admin, LoadStorage::File)?;
    let name = begin(admin, &json!({ "mirror": { "name": origin } }))?;
    let subjects = (0..SUBJECTS).map(|number| format!("{origin}.{number}"));
    // The first one shows that both know of each other.
    fill(run.address, &origin, payloads(subjects.clone()), 1)?;
    wait(admin, &name, 1)?;
    let (before, start) = (run.cpu()?, Instant::now());
    fill(run.address, &origin, payloads(subjects), messages)?;
    wait(admin, &name, messages + 1)?;
    let elapsed = start.elapsed();
    let cpu = run.cpu_since(before)?;
    admin.delete_stream(&name)?;
    admin.delete_stream(&origin)?;
    Ok(ConsumerOutcome::of_messages(messages, elapsed, cpu))
}

/// Many mirrors with nothing to do. Deletes nothing: the server ends with the run.
fn rest(admin: &mut Admin, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let origin = fill_plain(run.address, LoadStorage::File, 1)?;
    let start = Instant::now();
    let mirror = json!({ "mirror": { "name": origin.stream }, "storage": "memory" });
    let names: Result<Vec<_>, _> = (0..RESTING).map(|_| begin(admin, &mirror)).collect();
    names?.iter().try_for_each(|name| wait(admin, name, 1))?;
    let made = start.elapsed();
    thread::sleep(SETTLING);
    let (before, start) = (run.cpu()?, Instant::now());
    thread::sleep(WATCHED);
    let cpu = run.cpu_since(before)?;
    let seconds = start.elapsed().as_secs_f64();
    let mut readings = vec![(Metric::CreationRate, RESTING as f64 / made.as_secs_f64())];
    readings.extend(cpu.map(|cpu| (Metric::IdleCpu, cpu.scheduled.as_secs_f64() * 1e3 / seconds)));
    let resident = run.meter.map(Meter::resident_at_rest).transpose()?;
    readings.extend(resident.map(|bytes| (Metric::ProcessMemory, bytes as f64 / f64::from(1 << 20))));
    Ok(ConsumerOutcome { readings, cpu: None })
}
