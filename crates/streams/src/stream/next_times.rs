//! Times at which a stream has something to do of its own accord.

use myelin_store::{Seq, Timestamp};

use super::ttl::SECOND;

/// After a failure (a full disk, say), when to try again.
pub(super) const RETRY: i64 = SECOND;
/// Between two looks whether the store can give memory back: what is removed pays its share at
/// once, this is the rest.
pub(super) const TIDYING_EVERY: i64 = 2 * SECOND;
/// When to ask for a job again after one that failed: the store rests for a second.
pub(super) const JOB_RETRY: i64 = SECOND + SECOND / 20;

/// Times of the next upkeep of each kind; `None`: not before something changes.
#[derive(Default)]
pub(super) struct NextTimes {
    /// Time at which the next message expires; perhaps earlier.
    pub(super) expiry: Option<Timestamp>,
    /// Last sequence of the stream when some expired messages were left for later, if they were.
    pub(super) expiry_left_at: Option<Seq>,
    /// Search for lifetimes that only headers tell.
    pub(super) lifetimes: LifetimeSearch,
    /// Time to go on with rollups, tighter limits and the search for lifetimes, which are not
    /// through.
    pub(super) maintenance: Option<Timestamp>,
    /// Time to ask the store for a job again.
    pub(super) job: Option<Timestamp>,
    /// Time to have the store give memory back again.
    pub(super) tidying: Option<Timestamp>,
}

impl NextTimes {
    /// Answers the earliest of these times.
    pub(super) fn first(&self) -> Option<Timestamp> {
        [self.expiry, self.maintenance, self.job, self.tidying].into_iter().flatten().min()
    }

    /// Has nothing that was put off for a moment wait for longer: where the time of day was set
    /// back it would wait until that is there again.
    pub(super) fn follow_clock(&mut self, now: Timestamp) {
        no_later(&mut self.maintenance, now.saturating_add(RETRY));
        no_later(&mut self.job, now.saturating_add(JOB_RETRY));
        no_later(&mut self.tidying, now.saturating_add(TIDYING_EVERY));
    }
}

/// Has a time be no later than another one.
pub(super) fn no_later(at: &mut Option<Timestamp>, latest: Timestamp) {
    at.iter_mut().for_each(|at| *at = latest.min(*at));
}

/// Search for lifetimes in the headers of messages.
#[derive(Debug, Default)]
pub(super) struct LifetimeSearch {
    /// The message with which it goes on.
    pub(super) next: Seq,
    /// The last message that is looked at; 0: none.
    pub(super) until: Seq,
    /// The last message that has a lifetime, as far as is known; 0: none.
    pub(super) found: Seq,
    /// Whether messages are left that were not looked at.
    pub(super) goes_on: bool,
}
