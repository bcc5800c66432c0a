//! Batches that were written are entered into the order in which they are released.

use super::errors::{ReadError, StoreError};
use super::release::{Entered, Need};
use super::{Active, GroupPosition, Stream, StreamShared, append};
use crate::Seq;

impl Stream {
    /// Gives a batch that was written, and ends at `end`, its ticket: `last_seq` is the last
    /// sequence behind it. Under the lock of the catalog, which is told of the batch next.
    pub(super) fn enter<'s>(&self, shared: &'s StreamShared, end: u64, last_seq: Seq) -> Entered<'s> {
        self.enter_in(shared, &self.active, end, last_seq)
    }

    pub(super) fn enter_in<'s>(
        &self,
        shared: &'s StreamShared,
        open: &Active,
        end: u64,
        last_seq: Seq,
    ) -> Entered<'s> {
        let release = &shared.release;
        if let Some(group) = &self.group {
            release.proposed(group.position().index, group.tail.is_unfinished(), last_seq);
        } else if self.segment_storage.is_memory() || append::is_released_at_once(self.config.durability) {
            return release.at_once(last_seq);
        } else {
            release.appended(open.segment.no, end, last_seq);
        }
        Entered::Waits
    }

    /// Releases a batch that need not wait, which the catalog has followed or keeps, and whose lock
    /// was given back. One that the catalog could not follow is never released.
    pub(super) fn entered<T>(
        &self,
        entered: Entered<'_>,
        followed: Result<T, ReadError>,
    ) -> Result<T, StoreError> {
        if let Err(error) = followed {
            drop(entered);
            return Err(self.fail(&error.to_string()));
        }
        match entered {
            Entered::Passes(batch) => batch.release().into_iter().for_each(|need| self.need_mark(need)),
            Entered::Waits => self.wait_for_release(),
        }
        followed.map_err(StoreError::from)
    }

    /// Releases what need not wait: what a batch waits for may have come before it was entered.
    #[cold]
    pub(super) fn wait_for_release(&self) {
        if let Some(GroupPosition { commit, .. }) = self.group() {
            self.shared.committed_to(commit);
            return;
        }
        self.shared.durable_to(self.active.segment.no, self.active.file.durable());
        if let Some(need) = self.shared.release.need() {
            self.need_mark(need);
        }
    }

    /// Has the next round move the mark.
    #[cold]
    pub(super) fn need_mark(&self, need: Need) {
        if let Some(files) = self.segment_storage.files() {
            files.store_env.watermarks.need(self.shared.id, need);
            files.store_env.journal.wake();
        }
    }
}
