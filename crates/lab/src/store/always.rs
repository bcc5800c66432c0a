//! `sync_interval: always`: messages that count as stored when a sync has returned.
//!
//! Here the wall counts: a sync takes time, not CPU.

use std::time::{Duration, Instant};

use myelin_loadgen::error::BenchError;
use myelin_store::{Durability, NewMessage, Stream};

use crate::servers::scratch::Scratch;
use crate::store::StoreSettings;
use crate::store::figure::{Figure, ratios};
use crate::store::ground::{Ground, with};
use crate::store::load::{AppendLoad, Appender};
use crate::store::null::BareFile;

/// Messages that may wait for a sync, all streams together.
const IN_FLIGHT: u64 = 4096;
/// How long one measurement takes, at full size.
const SECONDS: f64 = 2.0;
/// Single synchronous messages of one measurement.
const SINGLES: u64 = 2000;
const STREAMS: u64 = 1000;

/// How a publisher behaves.
#[derive(Clone, Copy, Debug)]
struct Window {
    streams: u64,
    /// Messages of one stream that may wait.
    in_flight: u64,
    /// Messages of one append.
    batch: u64,
}

/// One stream: synced beside unsynced.
pub(crate) fn one_stream(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let load = AppendLoad::new(64, 128);
    let window = Window { streams: 1, in_flight: IN_FLIGHT, batch: load.per_batch() as u64 };
    let (mut synced, mut unsynced) = (Vec::new(), Vec::new());
    for round in 0..settings.rounds {
        for durability in in_turn(round, [Durability::Synced, Durability::Written]) {
            let rate = rate(settings, scratch, &load, (durability, window))?;
            if durability == Durability::Synced { &mut synced } else { &mut unsynced }.push(rate);
        }
    }
    let share = ratios(&synced, &unsynced).into_iter().map(|ratio| ratio * 100.0).collect();
    Ok(vec![
        Figure::new("of the unsynced rate", "%", share).at_least(70.0),
        Figure::new("records/s", "", synced),
        Figure::new("records/s, unsynced", "", unsynced),
    ])
}

/// A thousand streams beside one, with as many messages waiting in all; and with 64 in each.
pub(crate) fn many_streams(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let load = AppendLoad::new(64, 128);
    let streams = settings.divide(STREAMS).max(8);
    let one = Window { streams: 1, in_flight: IN_FLIGHT, batch: load.per_batch() as u64 };
    let few = IN_FLIGHT.div_ceil(streams).min(load.per_batch() as u64);
    let windows =
        [one, Window { streams, in_flight: few, batch: few }, Window { streams, in_flight: 64, batch: 64 }];
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..settings.rounds {
        for at in in_turn(round, [0, 1, 2]) {
            rates[at].push(rate(settings, scratch, &load, (Durability::Synced, windows[at]))?);
        }
    }
    let [one, few, more] = rates;
    let share = |rates: &[f64]| ratios(rates, &one).into_iter().map(|ratio| ratio * 100.0).collect();
    Ok(vec![
        Figure::new("of one stream's rate, 4 in flight in each", "%", share(&few)).at_least(70.0),
        Figure::new("of one stream's rate, 64 in flight in each", "%", share(&more)).at_least(70.0),
        Figure::new("records/s, 4 in flight in each", "", few),
        Figure::new("records/s, 64 in flight in each", "", more),
        Figure::new("records/s, one stream", "", one),
    ])
}

fn in_turn<T: Copy, const N: usize>(round: usize, mut items: [T; N]) -> [T; N] {
    items.rotate_left(round % N);
    items
}

/// Messages per second that were released to a publisher that never has more than its window
/// waiting.
fn rate(
    settings: &StoreSettings,
    scratch: &Scratch,
    load: &AppendLoad,
    (durability, window): (Durability, Window),
) -> Result<f64, BenchError> {
    let room = scratch.room("always")?;
    let (ground, _) = Ground::open(room.path())?;
    let streams = (0..window.streams).map(|n| ground.stream(&format!("S{n}"), with(durability)));
    let mut streams = streams.collect::<Result<Vec<_>, _>>()?;
    let batch = load.batch(0, window.batch as usize, ground.clock.now());
    let appenders = streams.iter().map(|_| ground.appender()).collect();
    let mut publisher = AlwaysPublisher { ground: &ground, window, batch: &batch, appenders };
    let warm = settings.time(SECONDS / 10.0);
    publisher.run(&mut streams, Instant::now() + warm)?;
    let before = released(&streams);
    let begin = Instant::now();
    publisher.run(&mut streams, begin + settings.time(SECONDS))?;
    let after = released(&streams);
    Ok((after - before) as f64 / begin.elapsed().as_secs_f64())
}

fn released(streams: &[Stream]) -> u64 {
    streams.iter().map(Stream::released).sum()
}

struct AlwaysPublisher<'a> {
    ground: &'a Ground,
    window: Window,
    batch: &'a [NewMessage<'a>],
    appenders: Vec<Appender>,
}

impl AlwaysPublisher<'_> {
    fn run(&mut self, streams: &mut [Stream], until: Instant) -> Result<(), BenchError> {
        while Instant::now() < until {
            let seen = self.ground.rounds()?;
            if !self.append_where_room(streams)? {
                self.ground.wait(seen)?;
            }
        }
        Ok(())
    }

    /// One batch for each stream that has room for it. False if none has.
    fn append_where_room(&mut self, streams: &mut [Stream]) -> Result<bool, BenchError> {
        let mut any = false;
        let now = self.ground.clock.now();
        for (stream, appender) in streams.iter_mut().zip(&mut self.appenders) {
            let waiting = stream.state().totals.last_seq - stream.released();
            if waiting + self.window.batch <= self.window.in_flight {
                appender.append(stream, self.batch, now)?;
                any = true;
            }
        }
        Ok(any)
    }
}

/// One message at a time, beside a sync of a file that is allocated ahead.
pub(crate) fn one_writer(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let load = AppendLoad::new(64, 128);
    let singles = settings.divide(SINGLES);
    let (mut ours, mut bare, mut own) = (Latency::default(), Latency::default(), Latency::default());
    for round in 0..settings.rounds {
        for side in in_turn(round, [0, 1, 2]) {
            match side {
                0 => ours.add(singly(scratch, &load, singles, false)?),
                1 => own.add(singly(scratch, &load, singles, true)?),
                _ => bare.add(barely(scratch, &load, singles)?),
            }
        }
    }
    let over = |ours: &[f64], bare: &[f64]| ours.iter().zip(bare).map(|(ours, bare)| ours - bare).collect();
    Ok(vec![
        Figure::new("p50 above a bare sync's", "us", over(&ours.p50, &bare.p50)).at_most(50.0),
        Figure::new("mean above a bare sync's", "us", over(&ours.mean, &bare.mean)).at_most(50.0),
        Figure::new(
            "p50 above a bare sync's, rounds on the writer's thread",
            "us",
            over(&own.p50, &bare.p50),
        ),
        Figure::new("p50", "us", ours.p50),
        Figure::new("p50, bare sync", "us", bare.p50),
        Figure::new("mean", "us", ours.mean),
        Figure::new("mean, bare sync", "us", bare.mean),
    ])
}

/// Microseconds, of each round.
#[derive(Debug, Default)]
struct Latency {
    p50: Vec<f64>,
    mean: Vec<f64>,
}

impl Latency {
    fn add(&mut self, mut times: Vec<Duration>) {
        times.sort_unstable();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        self.p50.push(times.get(times.len() / 2).copied().map_or(0.0, micros));
        self.mean.push(micros(times.iter().sum::<Duration>()) / times.len().max(1) as f64);
    }
}

/// Appends one message after the other, each when the one before is released. `is_own`: rounds are
/// run here, and the disk thread finds nothing to do.
fn singly(
    scratch: &Scratch,
    load: &AppendLoad,
    count: u64,
    is_own: bool,
) -> Result<Vec<Duration>, BenchError> {
    let room = scratch.room("single")?;
    let (mut ground, _) = Ground::open(room.path())?;
    if is_own {
        ground.stop();
    }
    let mut stream = ground.stream("S", with(Durability::Synced))?;
    let mut appender = ground.appender();
    let mut times = Vec::with_capacity(count as usize);
    for number in 0..count as usize {
        let begin = Instant::now();
        let now = ground.clock.now();
        appender.append(&mut stream, &[load.message(number, now)], now)?;
        if is_own {
            let round = ground.store.journal().round(&|| ground.clock.nanos());
            round.map_err(|error| BenchError::Store(error.to_string()))?;
        }
        let ticket = stream.ticket();
        loop {
            let seen = ground.rounds()?;
            if stream.release().is_released(ticket) {
                break;
            }
            ground.wait(seen)?;
        }
        times.push(begin.elapsed());
    }
    Ok(times)
}

fn barely(scratch: &Scratch, load: &AppendLoad, count: u64) -> Result<Vec<Duration>, BenchError> {
    let room = scratch.room("bare")?;
    let bytes = vec![7; load.entry_bytes()];
    let mut file = BareFile::allocate(&room.path().join("file"), 4 << 20)?;
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let begin = Instant::now();
        file.append_and_sync(&bytes).map_err(BenchError::io("a bare sync"))?;
        times.push(begin.elapsed());
    }
    Ok(times)
}
