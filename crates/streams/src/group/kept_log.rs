//! How much of the log has to stay as it was written, for members that are behind.
//!
//! Owns for how long. Each member decides for itself, by what all have confirmed: whoever leads
//! next needs the entries as well.

use myelin_replica::Consensus;
use myelin_store::Timestamp;

/// A member that is behind for longer is not waited for.
const LONGEST: Timestamp = 600_000_000_000;
/// Nor is one that more bytes of entries have come for.
const MOST_BYTES: u64 = 1 << 30;

/// Since when a member is behind.
#[derive(Debug, Default)]
pub(super) struct KeptLog {
    /// Time at which one was seen to be that has not confirmed everything since, what it was to
    /// confirm, and bytes of entries that came since.
    behind: Option<(Timestamp, u64, u64)>,
}

impl KeptLog {
    /// An entry of so many bytes has come.
    pub(super) fn add(&mut self, bytes: usize) {
        if let Some((.., all)) = &mut self.behind {
            *all += bytes as u64;
        }
    }

    /// Index behind which entries are kept, if a member may need any.
    pub(super) fn behind(&mut self, consensus: &Consensus, now: Timestamp) -> Option<u64> {
        let (committed, confirmed) = (consensus.committed(), consensus.confirmed_by_all());
        if self.behind.is_none_or(|(_, wanted, _)| confirmed >= wanted) {
            self.behind = (confirmed < committed).then_some((now, committed, 0));
        }
        let is_waited_for =
            self.behind.is_none_or(|(since, _, bytes)| now - since <= LONGEST && bytes <= MOST_BYTES);
        is_waited_for.then_some(confirmed)
    }
}
