//! Counts of what the journal did.
//!
//! Counters are atomics that rounds add to; a snapshot of them is what others see.

use std::sync::atomic::{AtomicU64, Ordering};

use myelin_stdx::histogram::{Histogram, HistogramCounts, Latencies, SIZES};

/// Statistics of the journal since it was opened. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Rounds that made something durable.
    pub rounds: u64,
    /// Syncs of files, of journal files and of directories.
    pub file_syncs: u64,
    /// Syncs of journal files.
    pub journal_syncs: u64,
    /// Bytes made durable by syncs of their own files.
    pub direct_bytes: u64,
    /// Bytes made durable by the journal, and bytes written to it for that.
    pub journaled_bytes: u64,
    /// Bytes of blocks, with headers and padding.
    pub block_bytes: u64,
    /// Syncs of files that only made room in the journal.
    pub settling_syncs: u64,
    /// Rounds that could not use the journal because the disk was full.
    pub full_rounds: u64,
    /// Files whose sync failed.
    pub failed_files: u64,
    /// Bytes of blocks that carried what the journal alone has of failed files into a newer journal
    /// file.
    pub carried_bytes: u64,
    /// How often there was no room on the disk for these.
    pub carries_refused: u64,
    /// How long rounds and their syncs took, and how much a round made durable.
    pub spread: RoundSpread,
    /// Messages that were released without being durable.
    pub loss: SyncLag,
    /// Changes of consumers' positions that are not durable: what a loss of power would have
    /// delivered again.
    pub positions: SyncLag,
    /// Files with something to make durable.
    pub dirty_files: usize,
    /// Bytes in the tails of append-only files.
    pub tail_bytes: u64,
}

/// How long something is not durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncLag {
    /// Age of the oldest that is not durable now; 0 if there is none.
    pub now: u64,
    /// The largest age that a round has ended.
    pub max: u64,
}

/// Durations and sizes of rounds since the journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundSpread {
    /// Nanoseconds that rounds took.
    pub rounds: HistogramCounts,
    /// Nanoseconds that rounds waited for single syncs: of a file, or of the journal.
    pub syncs: HistogramCounts,
    /// Bytes that rounds made durable.
    pub bytes: HistogramCounts,
}

pub(super) struct Histograms {
    rounds: Latencies,
    pub(super) syncs: Latencies,
    bytes: Histogram<{ SIZES.len() }>,
}

impl Default for Histograms {
    fn default() -> Self {
        let (rounds, syncs) = (Latencies::default(), Latencies::default());
        Self { rounds, syncs, bytes: Histogram::new(&SIZES) }
    }
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) rounds: AtomicU64,
    pub(super) file_syncs: AtomicU64,
    pub(super) journal_syncs: AtomicU64,
    pub(super) direct_bytes: AtomicU64,
    pub(super) journaled_bytes: AtomicU64,
    pub(super) block_bytes: AtomicU64,
    pub(super) settling_syncs: AtomicU64,
    pub(super) full_rounds: AtomicU64,
    pub(super) failed_files: AtomicU64,
    pub(super) carried_bytes: AtomicU64,
    pub(super) carries_refused: AtomicU64,
    pub(super) loss_window_max: AtomicU64,
    pub(super) positions_window_max: AtomicU64,
    /// When the oldest append came that the running round took; `u64::MAX` between rounds.
    pub(super) oldest_in_round: AtomicU64,
    /// When the oldest change of consumers' positions came that the running round took; `u64::MAX`
    /// between rounds.
    pub(super) oldest_positions: AtomicU64,
    pub(super) spread: Histograms,
}

impl Counters {
    pub(super) fn new() -> Self {
        let counters = Self::default();
        counters.oldest_in_round.store(u64::MAX, Ordering::Relaxed);
        counters.oldest_positions.store(u64::MAX, Ordering::Relaxed);
        counters
    }

    /// Counts a round that began and ended at these times, and made so many bytes durable.
    pub(super) fn count_round(&self, (began, ended): (u64, u64), bytes: u64) {
        self.spread.rounds.add(ended.saturating_sub(began));
        self.spread.bytes.add(bytes);
        add(&self.rounds, 1);
        let oldest = self.oldest_in_round.swap(u64::MAX, Ordering::Relaxed);
        if oldest != u64::MAX {
            self.loss_window_max.fetch_max(ended.saturating_sub(oldest), Ordering::Relaxed);
        }
        let oldest = self.oldest_positions.swap(u64::MAX, Ordering::Relaxed);
        if oldest != u64::MAX {
            self.positions_window_max.fetch_max(ended.saturating_sub(oldest), Ordering::Relaxed);
        }
    }

    pub(super) fn snapshot(&self) -> Statistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            rounds: get(&self.rounds),
            file_syncs: get(&self.file_syncs),
            journal_syncs: get(&self.journal_syncs),
            direct_bytes: get(&self.direct_bytes),
            journaled_bytes: get(&self.journaled_bytes),
            block_bytes: get(&self.block_bytes),
            settling_syncs: get(&self.settling_syncs),
            full_rounds: get(&self.full_rounds),
            failed_files: get(&self.failed_files),
            carried_bytes: get(&self.carried_bytes),
            carries_refused: get(&self.carries_refused),
            spread: RoundSpread {
                rounds: self.spread.rounds.counts(),
                syncs: self.spread.syncs.counts(),
                bytes: self.spread.bytes.counts(),
            },
            loss: SyncLag { now: 0, max: get(&self.loss_window_max) },
            positions: SyncLag { now: 0, max: get(&self.positions_window_max) },
            ..Statistics::default()
        }
    }
}

pub(super) fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}
