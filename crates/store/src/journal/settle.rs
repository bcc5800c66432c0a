//! Making room in the journal: syncs the files whose bytes its oldest file holds, a few after each round.
//!
//! A thousand files take 85 ms to sync: in one go that would be a pause for every writer that waits for a round.

use std::io;
use std::sync::Arc;

use super::round::Running;
use super::statistics::add;
use crate::AppendFile;

/// Files synced after one round, unless the journal is full.
const SLICE: u64 = 16;
const SLICE_WHEN_FULL: u64 = 128;
/// Files looked at after one round, whether they need no sync any more.
const LOOK: usize = 32;

impl Running<'_> {
    /// Syncs some files of the oldest journal file, as many as the pace of writing needs; `written` bytes went into
    /// the journal in this round.
    pub(super) fn settle_slice(&mut self, written: u64) -> io::Result<()> {
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
        self.settle_oldest(budget)?;
        Ok(())
    }

    /// Syncs up to `budget` files of the oldest journal file; whether that one is not needed any more.
    pub(super) fn settle_oldest(&mut self, mut budget: u64) -> io::Result<bool> {
        loop {
            let Some(live) = self.files.live.front_mut() else { return Ok(false) };
            let number = live.number;
            let Some(file) = live.holders.pop() else { break };
            if !file.is_settled(number) {
                if budget == 0 {
                    live.holders.push(file);
                    return Ok(false);
                }
                budget -= 1;
                self.settle(&file);
            }
        }
        if self.files.live.len() > 1 && self.files.retire_oldest()? {
            add(&self.counters().kept_files, 1);
        }
        Ok(true)
    }

    fn settle(&mut self, file: &Arc<AppendFile>) {
        if !file.is_lost() {
            add(&self.counters().settling_syncs, 1);
            self.sync_file(file);
        }
        if file.is_lost()
            && let Some(live) = self.files.live.front_mut()
        {
            live.is_kept = true;
        }
    }
}

impl Running<'_> {
    /// Syncs every file whose bytes the journal holds, and says in the journal that it is not needed.
    pub(super) fn settle_all(&mut self) -> io::Result<()> {
        while self.files.live.len() > 1 {
            self.settle_oldest(u64::MAX)?;
        }
        self.settle_oldest(u64::MAX)?;
        while !self.files.live.is_empty() {
            self.files.retire_oldest()?;
        }
        self.files.begin_anew()
    }
}
