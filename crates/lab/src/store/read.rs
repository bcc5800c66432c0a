//! Reading a stream from its first message to its last.

use std::hint::black_box;

use myelin_loadgen::error::BenchError;
use myelin_store::{Filter, Stream, StreamConfig, Wait};

use crate::servers::scratch::Scratch;
use crate::store::StoreSettings;
use crate::store::figure::Figure;
use crate::store::ground::Ground;
use crate::store::load::{AppendLoad, Appender};
use crate::store::meter::{ThreadClock, ThreadMeter};

/// Bytes of payload that are read in one measurement.
const BYTES: u64 = 512 << 20;
const SIZES: [(usize, &str); 3] = [(128, "128 B"), (1 << 10, "1 KiB"), (16 << 10, "16 KiB")];

/// Reads from files that were just written, so that the page cache has them.
pub(crate) fn from_page_cache(
    settings: &StoreSettings,
    scratch: &Scratch,
) -> Result<Vec<Figure>, BenchError> {
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

/// Reads from a stream that is kept in memory.
pub(crate) fn from_memory(settings: &StoreSettings, _: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (size, name) in SIZES {
        let clock = ThreadClock::new();
        let mut stream = Stream::in_memory(StreamConfig::default(), 7, clock.now());
        figures.push(measure(settings, (&mut stream, Appender::default()), clock, (size, name), 3.0)?);
    }
    Ok(figures)
}

fn measure(
    settings: &StoreSettings,
    (stream, mut appender): (&mut Stream, Appender),
    clock: ThreadClock,
    (size, name): (usize, &str),
    goal: f64,
) -> Result<Figure, BenchError> {
    let load = AppendLoad::new(64, size);
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
    let meter = ThreadMeter::start();
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
