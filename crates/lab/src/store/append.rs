//! Appending: beside the null store, and at limits beside no limits.

use std::hint::black_box;

use myelin_loadgen::error::BenchError;
use myelin_store::{Limits, StreamConfig};

use crate::servers::scratch::Scratch;
use crate::store::StoreSettings;
use crate::store::figure::{Figure, ratios};
use crate::store::ground::Ground;
use crate::store::load::AppendLoad;
use crate::store::meter::{Spent, ThreadMeter};
use crate::store::null::NullStore;

/// Bytes of log of one measurement.
const BYTES: u64 = 512 << 20;
/// Messages that a stream at its limit keeps.
const KEPT: u64 = 200_000;

/// Measures appends side by side with a null store, which only writes the bytes.
pub(crate) fn beside_null(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let load = AppendLoad::new(64, 128);
    let (mut ours, mut null) = (Sample::default(), Sample::default());
    for round in 0..settings.rounds {
        let records = settings.divide(BYTES / load.entry_bytes() as u64);
        let one = |is_ours: bool| {
            let room = scratch.room("append")?;
            if is_ours {
                fill(&room, &load, StreamConfig::default(), (0, records))
            } else {
                write(&room, &load, records)
            }
        };
        for is_ours in if round % 2 == 0 { [true, false] } else { [false, true] } {
            let (count, spent) = one(is_ours)?;
            if is_ours { &mut ours } else { &mut null }.add(count, spent);
        }
    }
    Ok(vec![
        Figure::new("CPU of a record over the null store's", "x", ratios(&ours.nanos, &null.nanos))
            .at_most(3.0),
        Figure::new("CPU of a record", "ns", ours.nanos),
        Figure::new("CPU of a record, null store", "ns", null.nanos),
        Figure::new("with the disk thread", "ns", ours.process),
        Figure::new("with the disk thread, null store", "ns", null.process),
        Figure::new("records/s", "", ours.rate),
        Figure::new("records/s, null store", "", null.rate),
    ])
}

/// Values of one side, one from each round.
#[derive(Debug, Default)]
struct Sample {
    nanos: Vec<f64>,
    process: Vec<f64>,
    rate: Vec<f64>,
}

impl Sample {
    fn add(&mut self, count: u64, spent: Spent) {
        self.nanos.push(spent.nanos_each(count));
        self.process.push(spent.process * 1e9 / count as f64);
        self.rate.push(count as f64 / spent.wall);
    }
}

/// Appends `unmeasured` messages to a new stream, then about `records` more. Only the stream's own
/// work is measured.
pub(super) fn fill(
    room: &Scratch,
    load: &AppendLoad,
    config: StreamConfig,
    (unmeasured, records): (u64, u64),
) -> Result<(u64, Spent), BenchError> {
    let (ground, _) = Ground::open(room.path())?;
    let mut stream = ground.stream("S", config)?;
    let mut appender = ground.appender();
    let mut spent = Spent::default();
    let (mut at, mut count) = (0, 0);
    while count < records {
        let batch = load.batch(at as usize, load.per_batch(), ground.clock.now());
        let meter = ThreadMeter::start();
        appender.append(&mut stream, &batch, ground.clock.now())?;
        at += batch.len() as u64;
        if at > unmeasured {
            spent += meter.spent();
            count += batch.len() as u64;
        }
    }
    Ok((count, spent))
}

/// Writes the bytes of about `records` messages.
fn write(room: &Scratch, load: &AppendLoad, records: u64) -> Result<(u64, Spent), BenchError> {
    let mut null = NullStore::open(room.path())?;
    let each = load.per_batch();
    let batch: Vec<u8> = (0..each * load.entry_bytes()).map(|n| n as u8).collect();
    let mut spent = Spent::default();
    let mut count = 0;
    while count < records {
        let meter = ThreadMeter::start();
        null.append(black_box(&batch)).map_err(BenchError::io("the null store"))?;
        spent += meter.spent();
        count += each as u64;
    }
    Ok((count, spent))
}

/// Streams at their limits, which remove as much as they store, beside one without.
pub(crate) fn at_messages(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let limits = Limits { messages: Some(settings.divide(KEPT)), ..Limits::default() };
    limited(settings, scratch, &AppendLoad::new(64, 128), (limits, KEPT))
}

pub(crate) fn at_bytes(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let limits = Limits { bytes: Some(settings.divide(KEPT) * 178), ..Limits::default() };
    limited(settings, scratch, &AppendLoad::new(64, 128), (limits, KEPT))
}

/// One message of each of 100,000 subjects.
pub(crate) fn at_newest(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    limited(
        settings,
        scratch,
        &AppendLoad::random(settings.divide(100_000) as usize, 128),
        (of_each(1), 300_000),
    )
}

/// One message of each of a million subjects.
pub(crate) fn at_newest_of_many(
    settings: &StoreSettings,
    scratch: &Scratch,
) -> Result<Vec<Figure>, BenchError> {
    limited(
        settings,
        scratch,
        &AppendLoad::random(settings.divide(1_000_000) as usize, 128),
        (of_each(1), 3_000_000),
    )
}

/// Ten messages of each of 20,000 subjects.
pub(crate) fn at_history(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    limited(
        settings,
        scratch,
        &AppendLoad::random(settings.divide(20_000) as usize, 128),
        (of_each(10), 400_000),
    )
}

fn of_each(most: u64) -> Limits {
    Limits { messages_per_subject: Some(most), ..Limits::default() }
}

/// A stream with limits beside one without, after so many messages that the limits are reached.
fn limited(
    settings: &StoreSettings,
    scratch: &Scratch,
    load: &AppendLoad,
    (limits, unmeasured): (Limits, u64),
) -> Result<Vec<Figure>, BenchError> {
    let unmeasured = settings.divide(unmeasured);
    let records = settings.divide(BYTES / load.entry_bytes() as u64);
    let (mut limited, mut unlimited) = (Sample::default(), Sample::default());
    for round in 0..settings.rounds {
        for is_limited in if round % 2 == 0 { [true, false] } else { [false, true] } {
            let room = scratch.room("limit")?;
            let limits = if is_limited { limits } else { Limits::default() };
            let (count, spent) =
                fill(&room, load, StreamConfig { limits, ..StreamConfig::default() }, (unmeasured, records))?;
            if is_limited { &mut limited } else { &mut unlimited }.add(count, spent);
        }
    }
    let rate = ratios(&unlimited.nanos, &limited.nanos).into_iter().map(|ratio| ratio * 100.0).collect();
    Ok(vec![
        Figure::new("rate of the unlimited (by CPU)", "%", rate).at_least(80.0),
        Figure::new("CPU of a record", "ns", limited.nanos),
        Figure::new("CPU of a record, unlimited", "ns", unlimited.nanos),
        Figure::new("with the disk thread", "ns", limited.process),
        Figure::new("with the disk thread, unlimited", "ns", unlimited.process),
    ])
}
