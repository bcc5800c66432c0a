//! Making room in the journal: syncs the files whose bytes its oldest file holds, a few after each
//! round.
//!
//! A thousand files take 85 ms to sync: in one go that would be a pause for every writer that waits
//! for a round.

use std::io;
use std::sync::Arc;

use myelin_disk::is_full;

use super::round::RunningRound;
use super::statistics::add;
use crate::AppendFile;

/// Files synced after one round, unless the journal is full.
const SLICE: u64 = 16;
const SLICE_WHEN_FULL: u64 = 128;
/// Files looked at after one round, whether they need no sync any more.
const LOOK: usize = 32;

impl RunningRound<'_> {
    /// Lets go of all files that others have settled, or removed.
    pub(super) fn forget_settled(&mut self) {
        self.files.forget_all_settled();
    }

    /// Syncs some files of the oldest journal file, as many as the pace of writing needs; `written`
    /// bytes went into the journal in this round, which began at `now`.
    pub(super) fn settle_slice(&mut self, written: u64, now: u64) -> io::Result<()> {
        self.files.forget_settled(LOOK);
        let is_soon_full = self.files.live.len() * 2 > self.files.wanted;
        if self.files.live.len() < 2 || !is_soon_full {
            return Ok(());
        }
        let pending = self.files.live.front().map_or(0, |live| live.holders.len() as u64);
        let room = self.files.room();
        let budget = match (pending * written).checked_div(room) {
            Some(share) => (share + 1).min(SLICE),
            None => SLICE_WHEN_FULL,
        };
        self.settle_oldest(budget, now)?;
        Ok(())
    }

    /// Syncs up to `budget` files of the oldest journal file. Lets go of that one if it is not
    /// needed any more.
    pub(super) fn settle_oldest(&mut self, budget: u64, now: u64) -> io::Result<()> {
        if !self.settle_front(budget) || self.files.live.len() < 2 {
            return Ok(());
        }
        if let Some(live) = self.files.live.front()
            && !live.lost.is_empty()
        {
            let lost = live.lost.clone();
            if !self.journal.retry.may_carry(now) {
                return Ok(());
            }
            match self.files.carry(&lost) {
                Ok((bytes, syncs)) => {
                    self.journal.retry.carried(true, now);
                    add(&self.counters().carried_bytes, bytes);
                    add(&self.counters().journal_syncs, syncs);
                }
                // It stays where it is until there is room.
                Err(error) if is_full(&error) => {
                    add(&self.counters().carries_refused, 1);
                    self.journal.retry.carried(false, now);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        debug_assert!(self.files.live.len() > 1, "the file that is written is needed");
        self.files.retire_oldest();
        Ok(())
    }

    /// Whether all files that could be synced were.
    fn settle_front(&mut self, mut budget: u64) -> bool {
        loop {
            let Some(live) = self.files.live.front_mut() else { return true };
            let number = live.number;
            // Those that were left or dropped since need nothing any more.
            live.lost.retain(|file| !file.is_settled(number));
            let Some(file) = live.holders.pop() else { return true };
            debug_assert!(
                !live.lost.iter().any(|lost| Arc::ptr_eq(lost, &file)),
                "a file whose sync failed is not waited for"
            );
            if file.leave_journal(number) {
                continue;
            }
            if budget == 0 {
                live.holders.push(file);
                return false;
            }
            budget -= 1;
            self.settle(file, number);
        }
    }

    /// The file is no holder of journal file `number` any more: if that one is still written, it
    /// enters it anew.
    fn settle(&mut self, file: Arc<AppendFile>, number: u64) {
        if !file.is_lost() {
            add(&self.counters().settling_syncs, 1);
            self.sync_file(&file);
        }
        if !file.leave_journal(number)
            && file.is_lost()
            && let Some(live) = self.files.live.front_mut()
        {
            live.lost.push(file);
        }
    }

    /// Syncs every file whose bytes the journal holds, and says in the journal that it is not
    /// needed. What could not be synced is left to the next start.
    pub(super) fn settle_all(&mut self) -> io::Result<()> {
        while self.settle_front(u64::MAX) && self.files.live.front().is_some_and(|live| live.lost.is_empty())
        {
            self.files.retire_oldest();
        }
        if self.files.live.is_empty() { self.files.begin_anew() } else { Ok(()) }
    }
}
