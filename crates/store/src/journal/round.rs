//! A round: makes what is dirty durable, by a sync of each file or by one block of the journal.
//!
//! Few files, or much of one file: the files themselves, so that nothing is written twice. Many
//! files with little each: the journal, because a sync costs the same for one file as for a block
//! with bytes of a thousand. A round holds the journal's lock of rounds; listeners are called after
//! it.

use crate::lengths::in_memory;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use myelin_disk::is_full;

use super::dirty::SyncUrgency;
use super::files::{Files, Writing};
use super::statistics::{Counters, add};
use super::{Journal, JournalConfig};
use crate::append_file::{RoundInput, WriteFailed};
use crate::{AppendFile, Durability, FileKind};

/// Summary of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundSummary {
    /// Files made durable by a sync of their own.
    pub direct: usize,
    /// Files made durable by the journal.
    pub journaled: usize,
    /// Files that failed.
    pub failed: usize,
    /// Bytes made durable.
    pub bytes: u64,
}

/// Notice to a listener after the round.
pub(super) enum FileNotice {
    Durable(Arc<AppendFile>, u64),
    Failed(Arc<AppendFile>, WriteFailed),
}

impl FileNotice {
    pub(super) fn deliver(self) {
        match self {
            Self::Durable(file, offset) => {
                if let Some(listener) = file.listener() {
                    listener.durable(file.id(), offset);
                }
            }
            Self::Failed(file, failed) => {
                if let Some(listener) = file.listener() {
                    listener.failed(file.id(), &failed.to_io());
                }
            }
        }
    }
}

impl Journal {
    /// How many files have failed in rounds so far.
    pub fn failed_files(&self) -> u64 {
        self.counters.failed_files.load(Ordering::Relaxed)
    }
}

/// One round while it runs.
pub(super) struct RunningRound<'a> {
    pub(super) journal: &'a Journal,
    pub(super) files: &'a mut Files,
    pub(super) notices: &'a mut Vec<FileNotice>,
    /// The clock by which syncs are timed, if they are.
    pub(super) clock: Option<&'a dyn Fn() -> u64>,
    pub(super) done: RoundSummary,
}

impl RunningRound<'_> {
    /// An error is one of the journal itself, and fatal. `now` is when the round began.
    pub(super) fn run(&mut self, taken: Vec<RoundInput>, now: u64) -> io::Result<()> {
        let (direct, journaled) = divide(&self.journal.config, self.journal.is_disk_slow(), taken);
        let mut left = Vec::new();
        for one in direct {
            left.extend(self.sync_directly(one));
        }
        left.extend(journaled);
        if left.is_empty() {
            return Ok(());
        }
        match self.write_block(&left) {
            Ok(writing) => {
                self.journal.retry.found_room();
                self.sync_block(&writing, left)
            }
            Err(error) if is_full(&error) => {
                add(&self.counters().full_rounds, 1);
                left.into_iter().for_each(|one| self.do_without_journal(one));
                self.journal.retry.refuse_block(now);
                Ok(())
            }
            Err(error) => {
                self.fail_all(left, &error);
                Err(error)
            }
        }
    }

    /// Gives back what has to go into the journal in any case: bytes that replace others.
    fn sync_directly(&mut self, mut taken: RoundInput) -> Option<RoundInput> {
        debug_assert!(taken.range.start <= taken.range.end, "what is durable was appended");
        let end = self.sync_file(&taken.file)?;
        debug_assert!(end >= taken.range.end, "a sync covers what was taken");
        add(&self.counters().direct_bytes, taken.pending());
        self.done.direct += 1;
        self.done.bytes += taken.pending();
        taken.range.start = taken.range.end.max(end);
        taken.range.end = taken.range.start;
        (!taken.patches.is_empty()).then_some(taken)
    }

    /// Syncs a file itself. `None` if that failed, which is known to whom it concerns then.
    pub(super) fn sync_file(&mut self, file: &Arc<AppendFile>) -> Option<u64> {
        add(&self.counters().file_syncs, 1);
        let began = self.clock.map(|clock| clock());
        let synced = file.sync_directly(&*self.files.disk, self.files.current());
        self.count_sync(began);
        match synced {
            Ok(end) => {
                self.notices.push(FileNotice::Durable(Arc::clone(file), end));
                Some(end)
            }
            Err(failed) => {
                self.fail(file, failed);
                None
            }
        }
    }

    pub(super) fn fail(&mut self, file: &Arc<AppendFile>, failed: WriteFailed) {
        file.lose(&failed);
        add(&self.counters().failed_files, 1);
        self.done.failed += 1;
        self.notices.push(FileNotice::Failed(Arc::clone(file), failed));
    }

    fn fail_all(&mut self, taken: Vec<RoundInput>, error: &io::Error) {
        for one in taken {
            let failed = WriteFailed::new(one.file.path(), error);
            self.fail(&one.file, failed);
        }
    }

    fn write_block(&mut self, taken: &[RoundInput]) -> io::Result<Writing> {
        let mut writing = self.files.begin_round();
        let outcome = self.fill(&mut writing, taken);
        match outcome {
            Ok(()) => Ok(writing),
            Err(error) => {
                self.files.abandon(&writing);
                Err(error)
            }
        }
    }

    fn fill(&mut self, writing: &mut Writing, taken: &[RoundInput]) -> io::Result<()> {
        for one in taken {
            let start = one.range.start;
            self.files.add(writing, &one.file, start, one.pending(), |range, target| {
                one.file.copy_into(start + range.start..start + range.end, target)
            })?;
            for patch in &one.patches {
                let length = patch.bytes.len() as u64;
                self.files.add(writing, &one.file, patch.offset, length, |range, target| {
                    target.extend_from_slice(&patch.bytes[in_memory(range.start)..in_memory(range.end)]);
                    Ok(())
                })?;
            }
        }
        self.files.finish(writing)
    }

    fn sync_block(&mut self, writing: &Writing, taken: Vec<RoundInput>) -> io::Result<()> {
        let began = self.clock.map(|clock| clock());
        let synced = self.files.sync(writing);
        self.count_sync(began);
        match synced {
            Ok(syncs) => {
                add(&self.counters().journal_syncs, syncs);
                add(&self.counters().block_bytes, writing.written);
            }
            Err(error) => {
                self.fail_all(taken, &error);
                return Err(error);
            }
        }
        for one in taken {
            self.complete(one);
        }
        Ok(())
    }

    fn complete(&mut self, taken: RoundInput) {
        let bytes = taken.pending();
        if let Err(failed) = taken.file.journaled(taken.range.end, &taken.patches) {
            return self.fail(&taken.file, failed);
        }
        self.done.journaled += 1;
        self.done.bytes += bytes;
        add(&self.counters().journaled_bytes, bytes);
        if self.journal.must_write_tails()
            && let Err(failed) = taken.file.launch_tail()
        {
            return self.fail(&taken.file, failed);
        }
        self.notices.push(FileNotice::Durable(taken.file, taken.range.end));
    }

    /// Replaced bytes have to wait until the journal has room: written in place they could be torn.
    fn do_without_journal(&mut self, taken: RoundInput) {
        let since = taken.since;
        let file = Arc::clone(&taken.file);
        let is_left = if taken.range.is_empty() { true } else { self.sync_directly(taken).is_some() };
        if is_left {
            self.journal.retry.put_off(file, since);
        }
    }

    /// Counts a sync that began then, successful or not.
    fn count_sync(&self, began: Option<u64>) {
        if let (Some(clock), Some(began)) = (self.clock, began) {
            self.counters().spread.syncs.add(clock().saturating_sub(began));
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.journal.counters
    }
}

/// Divides the files of a round into those that are synced themselves and those whose bytes go into
/// the journal.
///
/// Perf: whoever appends to a file that is being synced may wait for the lock of the file's last
/// page, which the kernel holds until the disk takes the page: 20 ms where others write much. So
/// where syncs are slow and nobody waits for them, files that are appended to are left alone.
fn divide(
    config: &JournalConfig,
    is_disk_slow: bool,
    taken: Vec<RoundInput>,
) -> (Vec<RoundInput>, Vec<RoundInput>) {
    let (mut direct, small): (Vec<_>, Vec<_>) =
        taken.into_iter().partition(|one| one.pending() >= config.direct_bytes_per_file);
    let is_left_alone = is_disk_slow && !small.iter().any(|one| is_urgent(&one.file));
    if small.len() > config.direct_files_max || is_left_alone {
        return (direct, small);
    }
    let (appended, replaced) = small.into_iter().partition(|one: &RoundInput| one.pending() > 0);
    direct.extend::<Vec<_>>(appended);
    debug_assert!(
        replaced.iter().all(|one: &RoundInput| !one.patches.is_empty()),
        "nothing is taken in vain"
    );
    (direct, replaced)
}

/// How soon it is to be durable.
pub(super) fn urgency(file: &AppendFile) -> SyncUrgency {
    match file.id().kind {
        _ if is_urgent(file) => SyncUrgency::Urgent,
        FileKind::Consumers(_) => SyncUrgency::Patient,
        FileKind::Segment(_) => SyncUrgency::Relaxed,
    }
}

/// Whether somebody waits for rounds of this file.
pub(super) fn is_urgent(file: &AppendFile) -> bool {
    file.durability() == Durability::Synced
}
