//! Publishers and readers of one stream at once: publishers on a thread of their own, readers on
//! another.
//!
//! Owns what is compared: deliveries with what was published, a publisher's rate beside readers
//! with its rate alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::admin::Admin;
use crate::connection::PATIENCE;
use crate::error::BenchError;
use crate::jetstream::consumers::ledger::Expected;
use crate::jetstream::consumers::push::{Push, Wish};
use crate::jetstream::consumers::receiving::{self, Actor, ReceivingClient};
use crate::jetstream::consumers::run::{
    ConsumerOutcome, ConsumerRun, SIZE, fill, new_stream, payloads, payloads_of, publisher,
};
use crate::jetstream::drive::{RequestingClient, Work, drive};
use crate::jetstream::publish::Publish;
use crate::jetstream::stream::LoadStorage;
use crate::jetstream::{SUBJECTS, WINDOW};
use crate::metric::Metric;
use crate::pubsub::publisher::Until;

/// Bytes that all subjects of a rotation may take, and messages on their way.
const ROTATION: usize = 16 << 20;
const UNDER_WAY: usize = 64 << 20;

/// Readers beside one publisher.
const READERS: usize = 100;

/// Settings of a reader of the whole stream: no filter, no acknowledgements.
fn ordered<'a>(stream: &'a str, expected: &'a Expected) -> Wish<'a> {
    Wish { stream, filter: None, policy: "all", has_acks: false, size: SIZE, expected, enough: None }
}

/// Runs `pairs` publishers and as many readers at once: every published message reaches every
/// reader.
pub(super) fn together(
    pairs: usize,
    storage: LoadStorage,
    size: usize,
    run: ConsumerRun<'_>,
) -> Result<ConsumerOutcome, BenchError> {
    let mut admin = Admin::open(run.address)?;
    let stream = new_stream(&mut admin, storage)?;
    let subjects = (ROTATION / size.max(1)).clamp(1, SUBJECTS);
    let window = (UNDER_WAY / size.max(1)).clamp(1, WINDOW);
    let rotation = payloads_of(size, (0..subjects).map(|number| format!("{stream}.{number}")));
    let publishers: Result<Vec<_>, _> =
        (0..pairs).map(|_| publisher(run.address, &stream, rotation.clone(), window)).collect();
    let (mut publishers, expected) = (publishers?, Expected::later());
    let wish = Wish { size, ..ordered(&stream, &expected) };
    let readers: Result<Vec<_>, _> =
        (0..pairs).map(|_| ReceivingClient::open(run.address, Push::new(wish))).collect();
    let (mut readers, before, start) = (readers?, run.cpu()?, Instant::now());
    let (published, last) = thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let published = publish(&mut publishers, run.until);
            // Readers that are told of nothing end with nothing.
            expected.set(published.as_ref().map_or(0, |published| published.0));
            published
        });
        let last = receiving::run(&mut readers);
        let published = publishing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        published.and_then(|published| Ok((published, last?)))
    })?;
    let cpu = run.cpu_since(before)?;
    check(&mut admin, &stream, published.0)?;
    admin.delete_stream(&stream)?;
    let mut outcome = ConsumerOutcome::of_messages(published.0 * pairs as u64, last - start, cpu);
    outcome.readings.push((Metric::PublishRate, published.0 as f64 / published.1.as_secs_f64()));
    Ok(outcome)
}

/// Publishes as much; gives the number of messages and the time until the last acknowledgement.
fn publish(
    publishers: &mut [RequestingClient<Publish>],
    until: Until,
) -> Result<(u64, Duration), BenchError> {
    let before: u64 = publishers.iter().map(|client| client.work.done().messages).sum();
    let elapsed = drive(publishers, until)?;
    let after: u64 = publishers.iter().map(|client| client.work.done().messages).sum();
    Ok((after - before, elapsed))
}

fn check(admin: &mut Admin, stream: &str, published: u64) -> Result<(), BenchError> {
    let stored = admin.counts(stream)?.messages;
    match stored == published {
        true => Ok(()),
        false => {
            Err(BenchError::Lost(format!("{published} messages were acknowledged and {stored} are stored")))
        }
    }
}

/// A publisher alone, beside 100 readers that read `stored` other messages of the stream again and
/// again, and alone again: what the machine does meanwhile is in both.
pub(super) fn beside(stored: u64, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let mut admin = Admin::open(run.address)?;
    let stream = new_stream(&mut admin, LoadStorage::File)?;
    let subjects = |kind: &str| payloads((0..SUBJECTS).map(|number| format!("{stream}.{kind}.{number}")));
    fill(run.address, &stream, subjects("old"), stored)?;
    let mut publisher = [publisher(run.address, &stream, subjects("new"), WINDOW)?];
    let until = Until::Elapsed(run.duration());
    let alone = publish(&mut publisher, until)?;
    let (expected, enough, filter) =
        (Expected::exactly(stored), AtomicBool::new(false), format!("{stream}.old.>"));
    let wish = Wish { filter: Some(&filter), enough: Some(&enough), ..ordered(&stream, &expected) };
    let readers: Result<Vec<_>, _> =
        (0..READERS).map(|_| ReceivingClient::open(run.address, Push::new(wish))).collect();
    let (mut readers, start) = (readers?, Instant::now());
    let has_begun = AtomicBool::new(false);
    let (crowded, last) = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            yield_to_others();
            receiving::run_watched(&mut readers, |readers| {
                if readers.iter().all(|reader| reader.actor.count() > 0) {
                    has_begun.store(true, Ordering::Relaxed);
                }
            })
        });
        let published = wait_until(&has_begun).and_then(|()| publish(&mut publisher, until));
        enough.store(true, Ordering::Relaxed);
        let last = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        last.and_then(|last| Ok((published?, last)))
    })?;
    let read: u64 = readers.iter().map(|reader| reader.actor.count()).sum();
    drop(readers);
    let again = publish(&mut publisher, until)?;
    check(&mut admin, &stream, stored + alone.0 + crowded.0 + again.0)?;
    admin.delete_stream(&stream)?;
    let alone = (alone.0 + again.0, alone.1 + again.1);
    let [alone, crowded] = [alone, crowded].map(|(count, time)| count as f64 / time.as_secs_f64());
    let mut outcome = ConsumerOutcome::of_messages(read, last - start, None);
    outcome.readings.push((Metric::RateKept, crowded / alone * 100.0));
    outcome.readings.push((Metric::PublishRate, crowded));
    Ok(outcome)
}

/// Gives this thread what the publisher and the server leave. Readers on the same two cores as
/// everybody else would otherwise take the publisher's time, and nothing could be said about the
/// server.
fn yield_to_others() {
    let _ = rustix::process::setpriority_process(None, 19);
}

fn wait_until(flag: &AtomicBool) -> Result<(), BenchError> {
    let start = Instant::now();
    while !flag.load(Ordering::Relaxed) {
        if start.elapsed() > PATIENCE {
            return Err(BenchError::Lost("not every reader has begun to read".into()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
