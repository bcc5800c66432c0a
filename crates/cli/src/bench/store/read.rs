//! Reading a stream from its first message to its last.

use std::hint::black_box;

use myelin_store::{Filter, Stream, StreamConfig, Wait};

use super::Settings;
use super::figure::Figure;
use super::ground::Ground;
use super::load::{Appender, Load};
use super::meter::{Clock, Meter};
use crate::bench::error::BenchError;
use crate::bench::scratch::Scratch;

/// Bytes of payload that are read in one measurement.
const BYTES: u64 = 512 << 20;
const SIZES: [(usize, &str); 3] = [(128, "128 B"), (1 << 10, "1 KiB"), (16 << 10, "16 KiB")];

/// From files that were just written, so that the page cache has them.
pub(crate) fn from_page_cache(settings: &Settings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (size, name) in SIZES {
        let room = scratch.room("read")?;
        let (ground, _) = Ground::open(room.path())?;
        let mut stream = ground.stream("S", StreamConfig::default())?;
        let appender = ground.appender();
        figures.push(measure(settings, (&mut stream, appender), ground.clock, (size, name), 1.5)?);
    }
    Ok(figures)
}

/// From a stream that is kept in memory.
pub(crate) fn from_memory(settings: &Settings, _: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (size, name) in SIZES {
        let clock = Clock::new();
        let mut stream = Stream::in_memory(StreamConfig::default(), 7, clock.now());
        figures.push(measure(settings, (&mut stream, Appender::default()), clock, (size, name), 3.0)?);
    }
    Ok(figures)
}

fn measure(
    settings: &Settings,
    (stream, mut appender): (&mut Stream, Appender),
    clock: Clock,
    (size, name): (usize, &str),
    goal: f64,
) -> Result<Figure, BenchError> {
    let load = Load::new(64, size);
    let messages = settings.divide(BYTES / size as u64);
    while stream.released() < messages {
        appender.append(stream, &load.batch(0, load.per_batch(), clock.now()), clock.now())?;
    }
    appender.settle(stream, clock.now())?;
    let rates = (0..settings.rounds).map(|_| read_all(stream)).collect::<Result<_, _>>()?;
    Ok(Figure::new(format!("payload of {name}"), "GB/s of CPU", rates).at_least(goal))
}

/// GB of payload for each second that this thread ran.
fn read_all(stream: &Stream) -> Result<f64, BenchError> {
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    let (mut count, mut bytes) = (0, 0);
    let meter = Meter::start();
    while let Some(message) =
        cursor.next(Wait::Allowed).map_err(|error| BenchError::Store(error.to_string()))?
    {
        count += 1;
        bytes += black_box(message.payload).len();
    }
    let spent = meter.spent();
    if count != stream.released() {
        return Err(BenchError::Lost(format!("{count} of {} messages were read", stream.released())));
    }
    Ok(bytes as f64 / spent.thread / 1e9)
}
