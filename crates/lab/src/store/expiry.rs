//! Messages that all end at times of their own, while others are appended.

use myelin_loadgen::error::BenchError;
use myelin_store::{Stream, StreamConfig, Timestamp};

use crate::servers::scratch::Scratch;
use crate::store::StoreSettings;
use crate::store::figure::Figure;
use crate::store::ground::Ground;
use crate::store::load::{AppendLoad, shuffle};
use crate::store::meter::{Spent, ThreadMeter};

const MESSAGES: u64 = 1_000_000;
/// Messages that one call may remove.
const SLICE: usize = 1000;
/// Messages end this long after each other.
const STEP: Timestamp = 1000;

/// The longest that a stream stands still.
pub(crate) fn pauses(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let mut worst = Worst::default();
    for _ in 0..settings.rounds {
        let room = scratch.room("expiry")?;
        let (ground, _) = Ground::open(room.path())?;
        let mut stream = ground.stream("S", StreamConfig::default())?;
        worst.begin();
        worst.run(&ground, &mut stream, settings.divide(MESSAGES))?;
    }
    Ok(vec![
        Figure::new("longest slice of 1,000 messages", "ms", worst.slice).at_most(10.0),
        Figure::new("longest append of 64 KiB in between", "ms", worst.append).at_most(10.0),
        Figure::new("longest append of 64 KiB with lifetimes", "ms", worst.entering).at_most(10.0),
        Figure::new("longest slice, CPU", "ms", worst.slice_cpu),
        Figure::new("longest append in between, CPU", "ms", worst.append_cpu),
        Figure::new("CPU of an expired message", "ns", worst.each),
    ])
}

/// The longest calls of each round.
#[derive(Debug, Default)]
struct Worst {
    slice: Vec<f64>,
    slice_cpu: Vec<f64>,
    append: Vec<f64>,
    append_cpu: Vec<f64>,
    entering: Vec<f64>,
    each: Vec<f64>,
}

impl Worst {
    fn begin(&mut self) {
        let Self { slice, slice_cpu, append, append_cpu, entering, each } = self;
        for list in [slice, slice_cpu, append, append_cpu, entering, each] {
            list.push(0.0);
        }
    }

    fn run(&mut self, ground: &Ground, stream: &mut Stream, messages: u64) -> Result<(), BenchError> {
        let clock = ground.clock;
        let begin = clock.now() + 3_600_000_000_000;
        self.enter(ground, stream, messages, begin)?;
        let load = AppendLoad::new(64, 128);
        let batch = load.batch(0, load.per_batch(), clock.now());
        let mut appender = ground.appender();
        let mut now = begin;
        let mut removed = 0;
        while removed < messages {
            now += 2 * SLICE as Timestamp * STEP;
            loop {
                let meter = ThreadMeter::start();
                let expired =
                    stream.expire(now, SLICE, None).map_err(|error| BenchError::Store(error.to_string()))?;
                self.slice(meter.spent(), messages);
                removed += expired.removed.messages;
                let meter = ThreadMeter::start();
                appender.append(stream, &batch, clock.now())?;
                note(&mut self.append, meter.spent().wall * 1e3);
                note(&mut self.append_cpu, meter.spent().thread * 1e3);
                if !expired.more {
                    break;
                }
            }
            if now > begin + (messages as Timestamp + 10 * SLICE as Timestamp) * STEP {
                return Err(BenchError::Lost(format!("{removed} of {messages} messages have ended")));
            }
        }
        Ok(())
    }

    /// Appends all messages, whose ends are in no order.
    fn enter(
        &mut self,
        ground: &Ground,
        stream: &mut Stream,
        messages: u64,
        begin: Timestamp,
    ) -> Result<(), BenchError> {
        let clock = ground.clock;
        let load = AppendLoad::new(1000, 128);
        let mut ends: Vec<Timestamp> = (0..messages as Timestamp).map(|n| begin + n * STEP).collect();
        shuffle(&mut ends);
        let mut appender = ground.appender();
        for (at, ends) in ends.chunks(load.per_batch()).enumerate() {
            let mut batch = load.batch(at * load.per_batch(), ends.len(), clock.now());
            for (message, &end) in batch.iter_mut().zip(ends) {
                message.expires = Some(end);
            }
            let meter = ThreadMeter::start();
            appender.append(stream, &batch, clock.now())?;
            note(&mut self.entering, meter.spent().wall * 1e3);
        }
        appender.settle(stream, clock.now())
    }

    fn slice(&mut self, spent: Spent, messages: u64) {
        note(&mut self.slice, spent.wall * 1e3);
        note(&mut self.slice_cpu, spent.thread * 1e3);
        if let Some(each) = self.each.last_mut() {
            *each += spent.nanos_each(messages);
        }
    }
}

/// The longest so far of this round.
fn note(round: &mut [f64], value: f64) {
    if let Some(longest) = round.last_mut() {
        *longest = longest.max(value);
    }
}
