//! Members that may have lost what they have confirmed: a stream in memory that begins anew, one in
//! files that were not synced when power was lost.
//!
//! Owns when such a member may vote again. Until then it takes entries: nobody is elected with its
//! vote who lacks what is committed with its word.

use myelin_replica::{Consensus, RaftMessage, RaftMessageKind};
use std::time::Duration;

/// Nothing is heard of a leader for so long while all members are there: those that remember are no
/// majority. What is lost is lost.
const ALL_THERE: Duration = Duration::from_secs(10);
/// Nothing is heard of a leader for so long while somebody is not there, who may remember.
const SOME_AWAY: Duration = Duration::from_secs(60);

/// How far a member has come that may have lost what it has confirmed.
#[derive(Debug)]
pub(super) struct Amnesia {
    /// Since when it has heard of no leader, in nanoseconds.
    leaderless_since: u64,
    /// Index behind which it has all that it can have confirmed.
    enough: Option<u64>,
}

impl Amnesia {
    pub(super) fn new(now: u64) -> Self {
        Self { leaderless_since: now, enough: None }
    }

    /// Another member has said something.
    pub(super) fn hear(&mut self, message: &RaftMessage, consensus: &Consensus, now: u64) {
        let is_append = message.kind == RaftMessageKind::Append;
        let is_of_leader = is_append || message.kind == RaftMessageKind::Heartbeat;
        if !is_of_leader || message.term < consensus.term() {
            return;
        }
        self.leaderless_since = now;
        // A leader that begins where this log ends knows what is left of it. All that it has
        // committed with the word of an earlier life is committed now.
        if is_append && message.index <= consensus.status().last && self.enough.is_none() {
            self.enough = Some(message.commit);
        }
    }

    /// Whether the member has everything that was committed when its life began.
    pub(super) fn is_over(&self, consensus: &Consensus) -> bool {
        self.enough.is_some_and(|enough| consensus.committed() >= enough)
    }

    /// Whether nobody can be waited for any longer.
    pub(super) fn is_in_vain(&self, now: u64, are_all_there: bool) -> bool {
        let longest = if are_all_there { ALL_THERE } else { SOME_AWAY };
        u128::from(now.saturating_sub(self.leaderless_since)) >= longest.as_nanos()
    }
}
