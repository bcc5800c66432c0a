//! Times at which a stream has something to do of its own accord.

use myelin_store::{Seq, Timestamp};

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
