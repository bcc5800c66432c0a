//! Statistics of the journal of JetStream's store.

use myelin_stdx::histogram::HistogramCounts;
use serde::Serialize;

/// How much a loss of power would take, and would have taken: times in nanoseconds. With the
/// store's default mode; what is acknowledged when it is durable is in none of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct JournalSnapshot {
    /// Age of the oldest message that is acknowledged and not durable; 0 if there is none.
    pub loss_window: u64,
    /// The largest such age since the start.
    pub loss_window_max: u64,
    /// Age of the oldest change of a consumer's position that is not durable; 0 if there is none.
    pub positions_window: u64,
    /// The largest such age since the start: deliveries of that time would have come again.
    pub positions_window_max: u64,
    /// Rounds that made something durable since the start.
    pub rounds: u64,
    /// Files with bytes of erased messages that stay until the disk has room; 0 if there are none.
    pub waiting_erasures: usize,
    /// How often since the start the disk had no room for what the journal alone has of files that
    /// failed.
    pub carries_refused: u64,
    /// Nanoseconds that syncs took in rounds: of a file, or of the journal.
    #[serde(skip)]
    pub sync_times: HistogramCounts,
    /// Nanoseconds that rounds took.
    #[serde(skip)]
    pub round_times: HistogramCounts,
    /// Bytes that rounds made durable.
    #[serde(skip)]
    pub round_bytes: HistogramCounts,
}
