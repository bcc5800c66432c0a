//! Everything that servers have promised: what was acknowledged, and which acknowledgements of
//! consumers were confirmed; and for how long nothing was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Faults that are kept with their words, at most.
const MOST_FAULTS: usize = 40;

/// Knowledge of one stream.
#[derive(Debug, Default)]
pub(super) struct StreamLedger {
    /// Sequences, by message id.
    pub(super) acknowledged: BTreeMap<String, u64>,
    /// Acknowledgements that said that the message was there already.
    pub(super) duplicates: u64,
    last: Option<Instant>,
    longest: Duration,
}

/// Knowledge of the consumer.
#[derive(Debug, Default)]
pub(super) struct ConsumerLedger {
    /// Stream sequences that came at least once.
    pub(super) delivered: BTreeSet<u64>,
    /// Stream sequences whose acknowledgement was confirmed, and when.
    pub(super) confirmed: BTreeMap<u64, Instant>,
    /// Deliveries of what had come before.
    pub(super) again: u64,
}

/// Everything that is known.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) streams: BTreeMap<&'static str, StreamLedger>,
    pub(super) consumer: ConsumerLedger,
    /// Refusals of publishes that were tried again, by their words.
    pub(super) refusals: BTreeMap<String, u64>,
    faults: Vec<String>,
    pub(super) fault_count: u64,
    any: StreamLedger,
}

impl Ledger {
    pub(super) fn new(streams: &[&'static str]) -> Self {
        Self {
            streams: streams.iter().map(|name| (*name, StreamLedger::default())).collect(),
            consumer: ConsumerLedger::default(),
            refusals: BTreeMap::new(),
            faults: Vec::new(),
            fault_count: 0,
            any: StreamLedger::default(),
        }
    }

    /// Something is wrong.
    pub(super) fn fault(&mut self, what: String) {
        self.fault_count += 1;
        if self.faults.len() < MOST_FAULTS {
            eprintln!("FAULT: {what}");
            self.faults.push(what);
        }
    }

    pub(super) fn acknowledge(&mut self, stream: &'static str, id: &str, seq: u64, is_duplicate: bool) {
        let now = Instant::now();
        self.any.note(now);
        let Some(ledger) = self.streams.get_mut(stream) else { return };
        ledger.note(now);
        ledger.duplicates += u64::from(is_duplicate);
        let before = ledger.acknowledged.insert(id.to_owned(), seq);
        if let Some(before) = before.filter(|before| *before != seq) {
            self.fault(format!("{stream}: {id} was acknowledged as {before} and as {seq}"));
        }
    }

    /// A message came, asked for at `asked`.
    pub(super) fn deliver(&mut self, seq: u64, asked: Instant) {
        if !self.consumer.delivered.insert(seq) {
            self.consumer.again += 1;
        }
        if self.consumer.confirmed.get(&seq).is_some_and(|confirmed| *confirmed < asked) {
            self.fault(format!("the acknowledgement of {seq} was confirmed, and then it came again"));
        }
    }

    pub(super) fn confirm(&mut self, seq: u64) {
        self.consumer.confirmed.entry(seq).or_insert_with(Instant::now);
    }

    /// Begins to measure anew.
    pub(super) fn begin_gap(&mut self) {
        let now = Instant::now();
        for ledger in self.streams.values_mut().chain([&mut self.any]) {
            ledger.longest = Duration::ZERO;
            ledger.last.get_or_insert(now);
        }
    }

    /// The longest time since then without an acknowledgement: of any stream, and of each.
    pub(super) fn gaps(&self) -> (Duration, Vec<(&'static str, Duration)>) {
        let now = Instant::now();
        let each = self.streams.iter().map(|(name, ledger)| (*name, ledger.gap(now)));
        (self.any.gap(now), each.collect())
    }
}

impl StreamLedger {
    fn note(&mut self, now: Instant) {
        self.longest = self.gap(now);
        self.last = Some(now);
    }

    fn gap(&self, now: Instant) -> Duration {
        let open = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.longest.max(open)
    }
}
