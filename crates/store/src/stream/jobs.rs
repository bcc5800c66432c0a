//! The two ends of a stream's upkeep that are on its turn: what there is to do, and taking over
//! what was done.
//!
//! One job of a stream is out at a time, so no job sees files of another one half-way. Choosing
//! costs a few comparisons while nothing has changed; finishing swaps a segment in the catalog.
//! Which work is due follows from sizes alone: no clock but for a pause after a failure.

use std::sync::{Arc, Weak};

use myelin_disk::is_full;

use crate::config::{Compression, Unsealed};
use crate::id::nanos;
use crate::jobs::{
    Compacted, Compaction, Done, Finished, Job, JobEnv, JobError, Merged, Merging, Overwriting, Packing,
    Removal, ReturnSlot, Sealed, Sealing, Task,
};
use crate::ranges::Ranges;
use crate::record::{self, HEAD_BYTES};
use crate::segment::{HEADER_BYTES, Slots};
use crate::{AppendFile, SegmentNo, Seq, Timestamp, WriteFailed};

use super::active::Active;
use super::catalog::{Catalog, Located};
use super::segment_view::{Segment, SegmentFile};
use super::{Removed, StoreError, Stream, Ticket};

/// Sealed segments behind the manifest that a restart may have to look at.
const MERGE_BEHIND: u64 = 8;
/// Segments sealed since the last merge after which one comes before the next seal, if it is due.
const MERGE_OVERDUE: u64 = 2 * MERGE_BEHIND;
/// Subjects changed behind the manifest that are not worth a merge, however small the base is.
const MERGE_SUBJECTS: u64 = 4096;
/// Segments that may be missing in a row. More are none that were lost: somebody gave a file a
/// strange number.
pub(super) const MISSING_MOST: u64 = 1024;
/// Bytes of retired segments that an empty stream gives back at once.
const PURGED_BYTES: u64 = 1 << 20;
/// How long upkeep rests after a failure that may pass, and after what does not pass by itself.
const REST: i64 = 1_000_000_000;
const REST_DAMAGED: i64 = 60 * REST;

/// Memory of a stream's upkeep.
#[derive(Debug, Default)]
pub(super) struct UpkeepState {
    out: Out,
    return_slot: ReturnSlot,
    /// When there was nothing to do, what it was that had been looked at.
    idle: Option<Sight>,
    paused_until: Timestamp,
    /// Files that no manifest lists.
    doomed: Removal,
    /// Segments worth compacting, once all have been looked at.
    sparse: Vec<SegmentNo>,
    is_surveyed: bool,
    erasures: Vec<Erasure>,
    /// Messages that are to be erased once their deletion is released.
    planned_erasures: Vec<PlannedErasure>,
    /// The rest of erasures, once nobody reads the old files.
    overwritings: Vec<Overwriting>,
    /// Subjects in footers behind the manifest.
    changed: u64,
    /// Segments sealed since the last merge.
    seals: u64,
    /// Whether so many subjects without messages wait for the last seal that nothing more should
    /// come before it.
    must_drain: bool,
    /// Whether the next manifest is written whatever it is worth.
    is_forced: bool,
    kept: KeptEntries,
    /// Index up to which segments were sealed, at most.
    sealed_through: u64,
}

/// Which job is out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Out {
    #[default]
    None,
    /// One that changes this segment's file.
    Segment(SegmentNo),
    /// Another one.
    Other,
}

/// Facts on which the choice of a job depends, besides what sets `idle` back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sight {
    active: SegmentNo,
    segments: usize,
    retired: usize,
    /// Of an empty stream, what the active segment holds, in units of what is worth giving back.
    purged: u64,
    /// Whether something waits for its release, behind which no segment is closed.
    has_unreleased: bool,
    /// Whether a manifest may list all sealed segments.
    is_end_kept: bool,
}

/// A message whose bytes have to go out of a sealed file, or of one that is to be sealed.
#[derive(Debug)]
struct Erasure {
    no: SegmentNo,
    seq: Seq,
    /// Where the log says that the message is deleted: that has to be durable first. Once nobody
    /// has it, it is: another file, or a manifest, has taken its place. Not kept: until its turn
    /// comes, the file may be removed.
    log: Weak<AppendFile>,
    end: u64,
    /// Index of the log entry that says it; 0 without a group. It has to be committed first.
    index: u64,
    /// Not before: its segment is damaged.
    paused_until: Timestamp,
}

/// A message whose deletion waits for its release.
#[derive(Debug)]
struct PlannedErasure {
    ticket: Ticket,
    located: Located,
    erasure: Erasure,
}

/// Entries of the group's log that replicas may need.
#[derive(Debug, Default)]
struct KeptEntries {
    /// Entries behind this one; `None`: nobody needs any.
    behind: Option<u64>,
    /// Whether segments with entries behind that are sealed without being compressed.
    keeps_form: bool,
}

impl Erasure {
    fn is_ready(&self, now: Timestamp) -> bool {
        self.log.upgrade().is_none_or(|log| log.durable() >= self.end) && self.paused_until <= now
    }
}

impl UpkeepState {
    /// Whether a job works on files of the stream.
    pub(super) fn is_out(&self) -> bool {
        self.out != Out::None
    }

    /// A start has found a log that ends with the entry `index`: any of them may be sealed.
    pub(super) fn found(&mut self, index: u64) {
        self.sealed_through = index;
    }

    /// Whether something waits for others, so that a job may become due without any change of the
    /// stream: for a round, or for those who read what is to be overwritten.
    pub(super) fn waits_for_others(&self) -> bool {
        !self.erasures.is_empty() || !self.overwritings.is_empty() || !self.planned_erasures.is_empty()
    }
}

impl Stream {
    /// Has entries of the group's log behind the index `through` stay as they were written, for
    /// replicas that may need them ([`Stream::read_log`]), until it is told otherwise. As long as
    /// some of them are in sealed segments, none of these is compacted, and files of removed
    /// messages stay; what is erased goes. `None`: nobody needs any.
    pub fn keep_log_behind(&mut self, through: Option<u64>) {
        let was_kept = self.is_log_kept();
        self.upkeep.kept.behind = through;
        if was_kept && !self.is_log_kept() {
            self.upkeep.idle = None;
        }
    }

    /// Has segments with entries that are [kept](Self::keep_log_behind) be sealed as they were
    /// written, also where the stream compresses, until it is told otherwise: a replica is on its
    /// way that needs them.
    pub fn keep_log_form(&mut self, keeps_form: bool) {
        self.upkeep.kept.keeps_form = keeps_form;
    }

    /// Whether a replica is on its way that needs entries as they were written.
    pub(super) fn is_form_kept(&self) -> bool {
        self.upkeep.kept.keeps_form && self.upkeep.kept.behind.is_some()
    }

    /// Whether sealed segments have entries that a replica may need.
    fn is_log_kept(&self) -> bool {
        self.upkeep.kept.behind.is_some_and(|through| through < self.upkeep.sealed_through)
    }

    /// The next piece of upkeep, if any is due. To be asked after appends and removals, and after
    /// [`Stream::finish`]; costs little when there is nothing. While a job is out there is no other
    /// one.
    pub fn next_job(&mut self, now: Timestamp) -> Option<Job> {
        let files = self.segment_storage.files()?.clone();
        self.take_closed();
        if self.erase_released(now).is_err() {
            return None;
        }
        if let Some(task) = self.upkeep.return_slot.take() {
            self.upkeep.out = Out::None;
            let _ = self.job_failed(task, JobError::Left, now);
        }
        if self.upkeep.out != Out::None || now < self.upkeep.paused_until || self.shared.failure().is_some() {
            return None;
        }
        let sight = self.sight();
        let is_waiting = !self.closed.is_empty()
            || self.upkeep.erasures.iter().any(|erasure| erasure.is_ready(now))
            || self.upkeep.overwritings.iter().any(Overwriting::is_free);
        if self.upkeep.idle == Some(sight) && !is_waiting {
            return None;
        }
        let task = self.next_task(now).or_else(|| self.close_for_removal(now));
        let Some(task) = task else {
            self.upkeep.idle = Some(sight);
            return None;
        };
        self.upkeep.idle = None;
        debug_assert!(self.upkeep.out == Out::None, "one job of a stream is out at a time");
        self.upkeep.out = match &task {
            Task::Seal(sealing) => Out::Segment(sealing.closed.active.segment.no),
            Task::Compact(compaction) => Out::Segment(compaction.segment.no),
            Task::Merge(_) | Task::Overwrite(_) | Task::Remove(_) | Task::WriteNotes(_) => Out::Other,
        };
        let guard = self.upkeep.return_slot.send(task);
        Some(Job { env: JobEnv { files, shared: Arc::clone(&self.shared) }, guard })
    }

    /// Writes a new base and a new manifest now, whatever they are worth, and does all upkeep that
    /// is due.
    ///
    /// # Errors
    /// Of the disk. It may be repeated.
    pub(crate) fn renew(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let covers = self.covers();
        let is_behind = self.shared.catalog().mergeable(covers).iter().any(|segment| segment.no > covers);
        if self.active.file.end() > HEADER_BYTES as u64 || !is_behind {
            self.roll(now)?;
        }
        self.upkeep.is_forced = true;
        self.upkeep.idle = None;
        while let Some(job) = self.next_job(now) {
            self.finish(job.run(), now)?;
        }
        Ok(())
    }

    /// Whether sealing or the disk's syncs cannot keep up with what is appended: who appends should
    /// wait for [`Stream::finish`] or the next release, or closed segments, and what waits for its
    /// release, grow without a bound. Not while nothing works on it, because a job or the stream
    /// has failed: no waiting would help then. Costs comparisons while at most one segment waits,
    /// and all is released.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        let has_too_much = self.upkeep.must_drain || (self.closed.len() > 1 && self.has_much_unsealed());
        (has_too_much && self.upkeep.is_out()) || self.has_much_unreleased()
    }

    /// Whether as many messages wait for their release as may wait to be sealed.
    fn has_much_unreleased(&self) -> bool {
        let release = &self.shared.release;
        release.ticket() != release.last_ticket()
            && self.shared.failure().is_none()
            && self.shared.catalog().unreleased_messages() >= self.most_unsealed().messages
    }

    fn most_unsealed(&self) -> Unsealed {
        self.segment_storage.files().map_or_else(Unsealed::default, |files| files.store_env.unsealed)
    }

    fn has_much_unsealed(&self) -> bool {
        let messages = self.closed.iter().map(|closed| closed.rows.len()).sum::<usize>();
        let bytes = self.closed.iter().map(|closed| closed.active.file.end()).sum::<u64>();
        let most = self.most_unsealed();
        messages >= most.messages || bytes >= most.bytes
    }

    fn sight(&self) -> Sight {
        let catalog = self.shared.catalog();
        let purged = if catalog.totals().messages == 0 { self.active.file.end() / PURGED_BYTES } else { 0 };
        let (segments, retired) = (catalog.segments().len(), catalog.retired().len());
        let (has_unreleased, is_end_kept) = (catalog.has_unreleased(), self.is_end_kept());
        Sight { active: self.active.segment.no, segments, retired, purged, has_unreleased, is_end_kept }
    }

    /// Seals come first, for all else is about sealed segments. But in a rush there is always one
    /// more to seal: what waits for a merge, files and texts of subjects that nobody needs, must
    /// not grow meanwhile.
    fn next_task(&mut self, now: Timestamp) -> Option<Task> {
        if !self.upkeep.doomed.is_empty() {
            return Some(Task::Remove(std::mem::take(&mut self.upkeep.doomed)));
        }
        if !self.closed.is_empty() {
            let merge = if self.upkeep.seals >= MERGE_OVERDUE { self.merge() } else { None };
            return merge.or_else(|| self.seal());
        }
        if let Some(at) = self.upkeep.overwritings.iter().position(Overwriting::is_free) {
            return Some(Task::Overwrite(self.upkeep.overwritings.swap_remove(at)));
        }
        self.erasure(now).or_else(|| self.merge()).or_else(|| self.compaction())
    }

    /// Seals the oldest closed segment, unless a group could still take back what is in it.
    fn seal(&mut self) -> Option<Task> {
        if let Some(image) = self.notes_to_write() {
            return Some(Task::WriteNotes(image));
        }
        let sealable = self.sealable_index();
        let closed = self.closed.extract_if(..1, |closed| closed.last_index <= sealable).next()?;
        debug_assert!(
            self.closed.first().is_none_or(|next| closed.active.segment.no < next.active.segment.no),
            "segments are sealed in order"
        );
        self.upkeep.sealed_through = self.upkeep.sealed_through.max(closed.last_index);
        let is_retired =
            self.shared.catalog().retired().iter().any(|retired| retired.no == closed.active.segment.no);
        // The file of a retired segment is soon removed: only its footer is needed.
        // What is packed cannot be read as a part of the log.
        let is_needed = self.upkeep.kept.keeps_form
            && self.upkeep.kept.behind.is_some_and(|kept| kept < closed.last_index);
        let packing = match self.config.compression {
            Compression::S2 if !is_retired && !is_needed => Packing::Packed,
            _ => Packing::Plain,
        };
        Some(Task::Seal(Box::new(Sealing { closed, packing })))
    }

    pub(super) fn covers(&self) -> SegmentNo {
        self.manifest.as_ref().map_or(SegmentNo(0), |manifest| manifest.covers)
    }

    /// Whether a segment behind the sealed ones says, even after a loss of power, where the log of
    /// the group goes on: nothing else does when a manifest lists all of them.
    fn is_end_kept(&self) -> bool {
        let is_kept = |open: &Active| open.file.durable() >= HEADER_BYTES as u64;
        self.group.is_none() || self.open_segments().any(is_kept)
    }

    fn merge(&self) -> Option<Task> {
        if self.is_log_kept() || !self.is_end_kept() {
            return None;
        }
        let catalog = self.shared.catalog();
        let covers = self.covers();
        let mut segments = catalog.mergeable(covers);
        // A packed one that has lost its footer waits for a new one.
        let unsealed = self.closed.iter().map(|closed| closed.active.segment.no).min();
        segments.retain(|segment| unsealed.is_none_or(|first| segment.no < first));
        let behind = segments.iter().filter(|segment| segment.no > covers).count() as u64;
        let last = segments.last().map_or(covers, |segment| segment.no);
        let retired = catalog
            .retired()
            .iter()
            .filter(|retired| retired.no <= last)
            .map(|retired| retired.file_bytes())
            .sum::<u64>();
        let is_due = self.upkeep.is_forced
            || behind >= MERGE_BEHIND
            || self.upkeep.changed > MERGE_SUBJECTS.max(catalog.index().len() as u64)
            || self.is_much(&catalog, retired);
        if behind == 0 || !is_due {
            return None;
        }
        let survey = !self.upkeep.is_surveyed;
        Some(Task::Merge(Box::new(Merging {
            stream: self.id(),
            old: self.manifest.clone(),
            segments,
            survey,
        })))
    }

    /// Whether so many bytes of retired segments are worth a manifest.
    fn is_much(&self, catalog: &Catalog, retired: u64) -> bool {
        if catalog.totals().messages == 0 {
            return retired >= PURGED_BYTES;
        }
        let live = catalog.segments().iter().map(|view| view.segment.file_bytes()).sum::<u64>();
        retired > (live / 10).max(2 * self.segment_bytes())
    }

    /// Closes the active segment where it may hold what removed their messages, which is in no
    /// footer then: so a merge can cover it. After a purge of everything the active segment is
    /// itself what is to go.
    fn close_for_removal(&mut self, now: Timestamp) -> Option<Task> {
        let end = self.active.file.end();
        let catalog = self.shared.catalog();
        if end <= HEADER_BYTES as u64 || catalog.has_unreleased() {
            return None;
        }
        let retired = catalog.retired().iter().map(|retired| retired.file_bytes()).sum::<u64>();
        let own = if catalog.totals().messages == 0 { end } else { 0 };
        let is_due = self.is_much(&catalog, retired + own) && catalog.is_sealed_behind(self.covers());
        drop(catalog);
        if !is_due {
            return None;
        }
        // It makes room, as a merge does.
        if self.or_from_headroom(|stream| stream.roll(now)).is_err() {
            self.rest(now, REST);
            return None;
        }
        self.shared.catalog_mut().retire_emptied();
        self.seal()
    }

    fn compaction(&mut self) -> Option<Task> {
        if self.is_log_kept() {
            return None;
        }
        let catalog = self.shared.catalog();
        while let Some(no) = self.upkeep.sparse.pop() {
            // One that is retired is removed as a whole.
            if let Some(view) =
                catalog.segments().iter().find(|view| view.segment.no == no && view.segment.is_sealed())
            {
                let segment = Arc::clone(&view.segment);
                let (manifest, erased) = (self.manifest.clone(), Ranges::new());
                return Some(Task::Compact(Box::new(Compaction { segment, manifest, erased })));
            }
        }
        None
    }

    fn erasure(&mut self, now: Timestamp) -> Option<Task> {
        let committed = self.group.as_ref().map_or(u64::MAX, |group| group.tail.releasable());
        let is_ready = |erasure: &Erasure| erasure.is_ready(now) && erasure.index <= committed;
        let catalog = self.shared.catalog();
        let segment = loop {
            let at = self.upkeep.erasures.iter().position(is_ready)?;
            let no = self.upkeep.erasures[at].no;
            match catalog.all_sealed().find(|segment| segment.no == no) {
                Some(segment) => break Arc::clone(segment),
                // Its file is gone, or doomed.
                None => drop(self.upkeep.erasures.remove(at)),
            }
        };
        let mine = |erasure: &mut Erasure| erasure.no == segment.no && is_ready(erasure);
        let erased = self.upkeep.erasures.extract_if(.., mine).map(|erasure| erasure.seq).collect();
        let erased = Ranges::from_unsorted(erased);
        Some(Task::Compact(Box::new(Compaction { segment, manifest: self.manifest.clone(), erased })))
    }

    fn rest(&mut self, now: Timestamp, time: i64) {
        self.upkeep.paused_until = now.saturating_add(time);
    }

    /// Takes over what a job did.
    ///
    /// # Errors
    /// The job failed. The stream is as before and tries again after a pause, unless it has failed
    /// itself.
    pub fn finish(&mut self, done: Done, now: Timestamp) -> Result<(), StoreError> {
        self.upkeep.out = Out::None;
        let task = done.guard.end();
        match done.result {
            Ok(Finished::Sealed(sealed)) => {
                if let Task::Seal(sealing) = &task {
                    sealing.leave(&sealed.segment);
                }
                self.sealed(*sealed);
            }
            Ok(Finished::Merged(merged)) => self.merged(*merged),
            Ok(Finished::Compacted(compacted)) => self.compacted(*compacted),
            Ok(Finished::Overwritten | Finished::Removed) => {}
            Ok(Finished::WroteNotes(through)) => self.notes_written(through),
            Err(error) => return Err(self.job_failed(task, error, now)),
        }
        Ok(())
    }

    fn sealed(&mut self, sealed: Sealed) {
        let Sealed { segment, slots, subjects, appended } = sealed;
        self.upkeep.changed += subjects;
        self.upkeep.seals += 1;
        self.shared.durable_to(segment.no, appended);
        self.replace(segment, slots);
        let most = self.most_unsealed().messages;
        let mut catalog = self.shared.catalog_mut();
        catalog.sealed_one();
        // Subjects are given back while no segment waits, and in a rush there is always one.
        self.upkeep.must_drain = catalog.numbers_are_out() && catalog.index().backlog() >= most;
    }

    fn compacted(&mut self, compacted: Compacted) {
        self.replace(compacted.segment, compacted.slots);
        self.upkeep.overwritings.extend(compacted.rest);
    }

    fn replace(&mut self, segment: Arc<Segment>, slots: Arc<Slots>) {
        let Some(files) = self.segment_storage.files() else { return };
        files.store_env.slots.insert(&segment, slots);
        let before = self.shared.catalog_mut().replace(segment);
        if let Some(before) = before.filter(|before| before.is_sealed()) {
            files.store_env.slots.forget(&before);
            files.store_env.blocks.forget(&before);
        }
    }

    fn merged(&mut self, merged: Merged) {
        let Merged { manifest, retired, old_base, sparse } = merged;
        // Before the files go, nobody is to find them any more.
        let segments = self.shared.catalog_mut().forget(&retired);
        self.upkeep.doomed = Removal { segments, numbers: retired, files: old_base.into_iter().collect() };
        self.upkeep.changed = 0;
        self.upkeep.seals = 0;
        self.upkeep.is_forced = false;
        self.upkeep.is_surveyed = true;
        self.upkeep.sparse.extend(sparse);
        self.upkeep.sparse.sort_unstable();
        self.upkeep.sparse.dedup();
        self.manifest = Some(manifest);
    }

    fn job_failed(&mut self, task: Task, error: JobError, now: Timestamp) -> StoreError {
        // What panics once does so again.
        let is_damaged = matches!(error, JobError::Damage(..) | JobError::Left);
        // A merge gives space back, and needs some itself: at once, before publishers take what is
        // given up here.
        let is_full = matches!(&error, JobError::Io(error) if is_full(error));
        let has_room_now = is_full && self.release_headroom();
        // An erasure rests by itself: other upkeep need not wait for it.
        let is_erasing = matches!(&task, Task::Compact(compaction) if !compaction.erased.is_empty());
        if !has_room_now {
            self.rest(now, if is_damaged && !is_erasing { REST_DAMAGED } else { REST });
        }
        match task {
            Task::Seal(sealing) => {
                if let JobError::Lost(error) = &error {
                    let file = &sealing.closed.active.file;
                    file.lose(&WriteFailed::new(file.path(), error));
                    return self.fail(&format!("{} could not be synced: {error}", file.path().display()));
                }
                self.closed.insert(0, sealing.closed);
            }
            Task::Overwrite(overwriting) => self.upkeep.overwritings.push(overwriting),
            Task::Remove(removal) => self.upkeep.doomed = removal,
            Task::Compact(compaction) if compaction.erased.is_empty() => {
                if !is_damaged {
                    self.upkeep.sparse.push(compaction.segment.no);
                }
            }
            // What should be erased is still there, whatever the reason.
            Task::Compact(compaction) => self.erase_again(&compaction, now, is_damaged),
            Task::Merge(_) | Task::WriteNotes(_) => {}
        }
        error.into_store_error()
    }

    fn erase_again(&mut self, compaction: &Compaction, now: Timestamp, is_damaged: bool) {
        let no = compaction.segment.no;
        let paused_until = if is_damaged { now.saturating_add(REST_DAMAGED) } else { now };
        // That they are deleted is durable, wherever it was written.
        let log = &self.active.file;
        let seqs = compaction.erased.iter().flatten();
        let again =
            seqs.map(|seq| Erasure { no, seq, log: Arc::downgrade(log), end: 0, index: 0, paused_until });
        self.upkeep.erasures.extend(again);
    }

    /// Removes one message as [`Stream::delete`] does, and its bytes from the disk. Nothing is
    /// removed if there is none with this sequence.
    ///
    /// When the deletion is released nobody sees the message any more. Its bytes are overwritten
    /// with the next round if its segment is the one that grows; else when a job has written the
    /// segment anew, which begins once it is sealed and the deletion is durable:
    /// [`Stream::erasing`] says how many still wait. In a compressed segment a last job follows,
    /// when no cursor stands in the old file any more. A loss of power, or a restart, before that
    /// leaves the bytes where they are, in a message that is deleted (or in blocks that belong to
    /// no file): a stream that is opened cannot tell what was to be erased from what was deleted,
    /// and does not go on with it. Copies in the journal, and in file systems that write elsewhere,
    /// are overwritten when their space is used again, not before.
    ///
    /// # Errors
    /// The message is still there, unless the stream has failed.
    pub fn erase(&mut self, seq: Seq, now: Timestamp) -> Result<Removed, StoreError> {
        self.check()?;
        let Some(located) = self.shared.catalog().decided().locate(seq)? else {
            return Ok(Removed::default());
        };
        let removed = self.delete(seq, now)?;
        // The log may have gone on elsewhere by the time that the deletion is released.
        let erasure = Erasure {
            no: located.segment.no,
            seq,
            log: Arc::downgrade(&self.active.file),
            end: self.active.file.end(),
            index: self.index(),
            paused_until: Timestamp::MIN,
        };
        self.upkeep.planned_erasures.push(PlannedErasure { ticket: self.ticket(), located, erasure });
        self.erase_released(now)?;
        Ok(removed)
    }

    /// Forgets erasures of messages whose deletion was taken back: log entries from `first` on.
    pub(super) fn forget_erasures(&mut self, first: u64) {
        self.upkeep.planned_erasures.retain(|planned| planned.erasure.index < first);
        self.upkeep.erasures.retain(|erasure| erasure.index < first);
    }

    /// Erases messages whose deletion is released.
    fn erase_released(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if self.upkeep.planned_erasures.is_empty() {
            return Ok(());
        }
        let release = &self.shared.release;
        let released =
            self.upkeep.planned_erasures.extract_if(.., |planned| release.is_released(planned.ticket));
        for PlannedErasure { located, erasure, .. } in released.collect::<Vec<_>>() {
            self.erase_located(&located, erasure, now)?;
        }
        Ok(())
    }

    fn erase_located(
        &mut self,
        located: &Located,
        erasure: Erasure,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let segment = &located.segment;
        // It may have been sealed meanwhile.
        let is_sealed = segment.is_sealed() || self.is_sealed(segment.no);
        let waits = is_sealed || self.is_deleted_elsewhere(segment, &erasure);
        if !waits
            && let SegmentFile::Appended(file) = &segment.source
            && let Err(error) = erase_appended(segment, file, located.offset, now)
        {
            return Err(self.fail(&format!("erasing failed: {error}")));
        }
        // A job may have copied it already.
        if waits || self.upkeep.out == Out::Segment(segment.no) {
            self.upkeep.erasures.push(erasure);
        }
        Ok(())
    }

    /// Whether a later file says that a message of this one is deleted. This one gets a footer that
    /// knows nothing of it, and that a loss of power may leave without the other file: then the
    /// message counts, and has to be there.
    fn is_deleted_elsewhere(&self, segment: &Segment, erasure: &Erasure) -> bool {
        let SegmentFile::Appended(file) = &segment.source else { return false };
        self.segment_storage.files().is_some() && !std::ptr::eq(erasure.log.as_ptr(), Arc::as_ptr(file))
    }

    /// Whether a segment has its footer, or is not there any more.
    fn is_sealed(&self, no: SegmentNo) -> bool {
        let catalog = self.shared.catalog();
        let visible = catalog.segments().iter().map(|view| &view.segment);
        visible
            .chain(catalog.retired())
            .find(|segment| segment.no == no)
            .is_none_or(|found| found.is_sealed())
    }

    /// Messages that were erased since the stream was opened, and whose bytes are still in a sealed
    /// file, or in one that was replaced.
    #[must_use]
    pub fn erasing(&self) -> usize {
        let replaced = self.upkeep.overwritings.iter().map(|rest| rest.messages as usize).sum::<usize>();
        self.upkeep.erasures.len() + self.upkeep.planned_erasures.len() + replaced
    }
}

fn erase_appended(
    segment: &Segment,
    file: &Arc<AppendFile>,
    offset: u64,
    now: Timestamp,
) -> std::io::Result<()> {
    let invalid = || std::io::Error::other("the message cannot be read");
    let mut head = [0; HEAD_BYTES];
    let read = file.read_at(&mut head, offset)?;
    let head = record::peek(&head[..read]).ok_or_else(invalid)?;
    let mut entry = vec![0; head.size()];
    let read = file.read_at(&mut entry, offset)?;
    entry.truncate(read);
    record::erase(&mut entry, &segment.context).map_err(|_| invalid())?;
    file.overwrite(offset, &entry, nanos(now))?;
    Ok(())
}
