//! A stream that was of no group becomes one: its server is the first member, and the only one.
//!
//! What it has stays as it is, and comes before the group's log: who becomes a member later gets it
//! as a whole.

use super::LiveStream;
use crate::engine::groups::Groups;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::Storage;
use myelin_replica::frame::GroupPlace;
use myelin_stdx::sync::lock;
use myelin_store::consumer::GroupConsumers;
use myelin_store::{GroupPosition, Store};
use myelin_streams::stream::storage_config;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Where the log of such a group begins. Not at the beginning of all: a member without a log would
/// be told from the first entry on, and have nothing of what was before.
const BEGINNING: GroupPosition = GroupPosition { epoch: 1, term: 1, index: 1, chain: 0, commit: 1 };

impl LiveStream {
    /// Notes that it is written down that its log is, or is to be, of a group, and whether that is
    /// lost.
    pub(in crate::engine) fn note_of_group(&self, has_lost_log: bool) {
        self.membership.origin.is_written.store(true, Release);
        self.membership.origin.has_lost_log.store(has_lost_log, Release);
    }

    /// Whether it is written down that its log is of a group.
    pub(in crate::engine) fn is_noted_of_group(&self) -> bool {
        self.membership.origin.is_written.load(Acquire)
    }

    /// Whether it was of a group, and damage has taken the log that says so: it is not served
    /// before it is a member again.
    pub(in crate::engine) fn has_lost_log(&self) -> bool {
        self.membership.origin.has_lost_log.load(Acquire) && !self.consumers.is_of_group()
    }

    /// Begins the log of its group anew, in the place of one that is lost: others have, or may
    /// have, what was in it. Only for threads that may wait.
    ///
    /// # Errors
    /// The stream is gone or has failed.
    pub(in crate::engine) fn begin_lost_log(&self, place: &GroupPlace) -> Result<(), ApiError> {
        self.begin_log(place, true)
    }

    /// Makes its log that of a group, and its consumers those of the group. It follows then, and
    /// what is published to it waits until it leads the group. Nothing is done where it is of a
    /// group already. Only for threads that may wait.
    ///
    /// # Errors
    /// The stream is gone or has failed, or the disk: it is to be tried again.
    pub(in crate::engine) fn found_group(
        self: &Arc<Self>,
        groups: &Groups,
        (store, is_synced): (&Store, bool),
    ) -> Result<(), ApiError> {
        if self.consumers.is_of_group() {
            return Ok(());
        }
        self.follow_to_found();
        // Before the log is left: the next start reads them from that.
        self.consumers.adopt_volatile();
        let config = self.config();
        let applied = match config.storage {
            Storage::Memory => GroupConsumers::in_memory(BEGINNING.index),
            Storage::File => {
                let id = self.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?.parts().0.store().id();
                let left = lock(&self.consumers.stored_states()).leave_log(self.scope.host.now());
                left.map_err(ApiError::stream_general)?;
                let durability = storage_config(&config, is_synced).durability;
                let opened = store.open_group_consumers(id, durability);
                opened.map_err(ApiError::stream_general)?.0
            }
        };
        let mut applied = applied;
        applied.take_over(&lock(&self.consumers.stored_states()), BEGINNING.index);
        self.join_group(BEGINNING, applied)?;
        // A group that nobody remembers would begin anew at another index.
        groups.sync_now();
        Ok(())
    }
}
