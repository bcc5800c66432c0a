//! Life of a store: the number by which other servers tell it from earlier ones, and which groups
//! may be older than its disk.
//!
//! Each start takes a number greater than that of the life before, which the disk knows. A disk
//! that is new knows nothing: the time of day stands in, and where that is behind, other servers
//! say which life they have heard of. Groups that were made before the disk came may have a vote
//! and a log of this server that are gone with the disk before it.

use super::Groups;
use myelin_broker::Level;
use myelin_replica::Vote;
use myelin_replica::hard_state::{HardState, OF_STORE};
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_streams::group::GroupVotes;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Instant;

/// Any group may be older than the disk.
const ANY: u64 = u64::MAX;

/// This life of the store.
pub(super) struct StoreLife {
    /// A number that grows with each start.
    incarnation: AtomicU64,
    pub(super) began: Instant,
    /// Whether what members had confirmed in the life before may be lost.
    pub(super) is_amnesiac: bool,
    /// Groups of streams that were made up to this time, by the clocks of who made them, may be
    /// older than the disk; 0: none is.
    groups_until: AtomicU64,
}

impl StoreLife {
    /// Of what a start has found and written.
    pub(super) fn of(state: &HardState, is_amnesiac: bool, began: Instant) -> Self {
        let (incarnation, groups_until) = (state.incarnation.into(), state.vote.term.into());
        Self { incarnation, began, is_amnesiac, groups_until }
    }

    /// Its number.
    pub(super) fn number(&self) -> u64 {
        self.incarnation.load(Acquire)
    }

    /// Its number as frames have it: the low half.
    pub(super) fn short(&self) -> u32 {
        (self.number() & u64::from(u32::MAX)) as u32
    }
}

impl Groups {
    /// Others have heard of this server in a life that is later than this one: it begins one behind
    /// that, durably. Until then nobody hears it.
    pub(super) fn outlive(&self, known: u64) {
        let Some(groups) = self.me_weak.upgrade() else { return };
        self.host.spawn_sync(Box::new(move || {
            let next = known.saturating_add(1);
            if next <= groups.incarnation() {
                return;
            }
            let written = groups.votes.set_store(|state| state.incarnation = state.incarnation.max(next));
            match written {
                Ok(()) => {
                    groups.lived.incarnation.store(next, Release);
                    lock(&groups.peers).begin_life(next);
                    let line = "JetStream: other servers know of a later life of this one: its disk is \
                                another one, and its clock was behind";
                    groups.host.log(Level::Warn, format_args!("{line}"));
                }
                Err(error) => groups.host.log(
                    Level::Error,
                    format_args!("JetStream: the number of its life cannot be written: {error}"),
                ),
            }
        }));
    }

    /// Whether the disk may be younger than any group of a stream, as far as is known.
    pub(in crate::engine) fn is_disk_unknown(&self) -> bool {
        self.lived.groups_until.load(Acquire) == ANY
    }

    /// All groups are known that were made before the disk came: up to this time, by the clocks of
    /// who made them. Only for threads that may wait.
    pub(in crate::engine) fn note_old_groups(&self, until: Timestamp) {
        let until = u64::try_from(until).unwrap_or(0);
        if self.votes.set_store(|state| state.vote.term = until).is_ok() {
            let _ = self.lived.groups_until.compare_exchange(ANY, until, AcqRel, Acquire);
        }
    }

    /// Whether a group is younger than the disk: without a vote, this server has confirmed nothing
    /// in it.
    pub(in crate::engine) fn is_younger_than_disk(&self, made: Timestamp) -> bool {
        let until = self.lived.groups_until.load(Acquire);
        u64::try_from(made).is_ok_and(|made| made > until)
    }
}

/// Begins a life, durably. Answers the record of the store, and whether what was confirmed in the
/// life before may be lost: the machine runs anew, and that life did not end with everything
/// synced. `has_lost_votes`: the file was damaged, and the record of any group may be gone with
/// what it said.
pub(super) fn begin(
    votes: &mut GroupVotes,
    (boot, has_lost_votes): (Option<u64>, bool),
    now: Timestamp,
) -> io::Result<(HardState, bool)> {
    let known = votes.get(OF_STORE);
    let before = known.unwrap_or_default();
    let is_other_run = boot.is_none_or(|boot| before.membership != boot);
    let is_amnesiac = before.is_amnesiac && is_other_run;
    // With the power a group's record may be lost, too, and with that its age.
    let is_unsure = known.is_none() || has_lost_votes || is_amnesiac;
    let groups_until = if is_unsure { ANY } else { before.vote.term };
    let state = HardState {
        // Greater than that of any life on a disk that is gone, if the clock is not behind.
        incarnation: (before.incarnation + 1).max(now.unsigned_abs() / 1_000_000_000),
        membership: boot.unwrap_or(0),
        is_amnesiac: true,
        vote: Vote { term: groups_until, voted_for: None },
        ..HardState::default()
    };
    let of_groups = votes.iter().filter(|&(group, _)| group != OF_STORE && is_amnesiac);
    let forgetful = of_groups.map(|(group, state)| (group, HardState { is_amnesiac, ..state }));
    let changes: Vec<_> = forgetful.chain([(OF_STORE, state)]).collect();
    votes.set(&changes)?;
    Ok((state, is_amnesiac))
}
