//! How much of the log has to stay as it was written, for members that are behind.
//!
//! Owns for how long. Each member decides for itself, by what all have confirmed: whoever leads
//! next needs the entries as well.

use myelin_replica::{Consensus, Peer};
use myelin_store::Timestamp;

/// Bounds of what is kept for members that are behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptLogBounds {
    /// A member that is behind for more nanoseconds is not waited for.
    pub longest: Timestamp,
    /// Nor is one that more bytes of entries have come for.
    pub bytes: u64,
}

impl Default for KeptLogBounds {
    /// 10 minutes, 1 GiB.
    fn default() -> Self {
        Self { longest: 600_000_000_000, bytes: 1 << 30 }
    }
}

/// An install of which nobody has heard for so long holds nothing back.
const HELD: Timestamp = 30_000_000_000;

/// Since when a member is behind.
#[derive(Debug, Default)]
pub(super) struct KeptLog {
    /// Time at which one was seen to be that has not confirmed everything since, what it was to
    /// confirm, and bytes of entries that came since.
    behind: Option<(Timestamp, u64, u64)>,
    /// Members that are given the stream as a whole: as of which entry, and when there was news of
    /// that.
    installs: Vec<(Peer, u64, Timestamp)>,
    bounds: KeptLogBounds,
}

impl KeptLog {
    pub(super) fn new(bounds: KeptLogBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// An entry of so many bytes has come.
    pub(super) fn add(&mut self, bytes: usize) {
        if let Some((.., all)) = &mut self.behind {
            *all += bytes as u64;
        }
    }

    /// A member gets the stream as of the entry `index`, or still does: it needs those behind that.
    pub(super) fn hold(&mut self, peer: Peer, index: u64, now: Timestamp) {
        self.installs.retain(|&(other, ..)| other != peer);
        self.installs.push((peer, index, now));
    }

    /// Whether a member gets the whole stream, as far as is known.
    pub(super) fn has_installs(&self) -> bool {
        !self.installs.is_empty()
    }

    /// Index behind which entries are kept, if a member may need any.
    pub(super) fn behind(&mut self, consensus: &Consensus, now: Timestamp) -> Option<u64> {
        let (committed, confirmed) = (consensus.committed(), consensus.confirmed_by_all());
        if self.behind.is_none_or(|(_, wanted, _)| confirmed >= wanted) {
            self.behind = (confirmed < committed).then_some((now, committed, 0));
        }
        let KeptLogBounds { longest, bytes: most } = self.bounds;
        let is_waited_for =
            self.behind.is_none_or(|(since, _, bytes)| now - since <= longest && bytes <= most);
        let kept = is_waited_for.then_some(confirmed);
        if !self.installs.is_empty() {
            let members = consensus.status().members;
            let has = |peer, index| members.iter().any(|one| one.peer == peer && one.matched >= index);
            self.installs.retain(|&(peer, index, heard)| now - heard <= HELD && !has(peer, index));
        }
        let held = self.installs.iter().map(|&(_, index, _)| index);
        kept.into_iter().chain(held).min()
    }
}
