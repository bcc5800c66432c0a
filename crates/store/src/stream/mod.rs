//! A stream: one log of messages and of everything that happened to them.
//!
//! [`Stream`] is the one writer and belongs to a turn; [`StreamReader`]s are cloned from it and
//! need none. Both share the [`Catalog`] and the release position. All that changes a stream is
//! first decided from the catalog, then written as one batch of entries, then done to the catalog,
//! then released; replay after a restart walks the same entries through the same catalog.
//!
//! Sealing, merging and compacting of segments happen elsewhere (`jobs`), on threads that the
//! embedder has for it; a stream only says what there is to do. Nothing here knows a clock.
//!
//! Segment files that are sealed never change; a rewritten one has a new generation, and a reader
//! that holds the old one can go on reading it.

mod active;
mod ahead;
mod append;
mod blocks;
mod bookmark;
mod catalog;
mod chain;
mod consumer_entries;
mod cursor;
mod decide;
mod decided_entry;
mod decision;
mod enter;
mod errors;
mod expire;
mod find;
mod group;
mod group_append;
mod group_consumers;
mod group_log;
mod install;
mod jobs;
mod log_places;
mod log_read;
mod lookup;
mod met;
mod new_message;
mod notes;
mod own;
mod packed_entries;
mod reader;
mod reclaim;
mod release;
mod remove;
mod roll;
mod search;
mod segment_storage;
mod segment_view;
mod shared;
mod state_digest;
mod table;
mod table_cache;
mod tables;
mod take_back;
#[cfg(test)]
mod tests;
mod tidy;
mod usage;
mod wait;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::{Durability, Storage, StreamConfig};
use crate::id::{StreamPart, nanos};
use crate::manifest::Manifest;
use crate::notes::Notes;
use crate::record::Control;
use crate::segment::Totals;
use crate::{SegmentNo, Seq, StreamId, Timestamp};

pub use catalog::Removed;
pub use cursor::Cursor;
pub use decided_entry::DecidedEntry;
pub use errors::{AppendRefusal, ReadError, StoreError};
pub use expire::{Expired, Marker, Markers};
pub use find::FoundMessage;
pub use group::ComingEntries;
pub use group_log::GroupPosition;
pub use install::{InstallPoint, InstallSource, InstallTarget};
pub use log_read::LogOutline;
pub use lookup::Filter;
pub use new_message::{Admission, AppendResult, GAP_MAX, NewMessage};
pub use reader::{Removals, StreamReader};
use release::Entered;
pub(crate) use release::Need;
pub use release::{OnRelease, Release, Ticket};
pub use remove::{MAX_SEQ, Purge, RemovalProgress};
pub use state_digest::StateDigest;
pub use take_back::TakenBack;
pub use usage::StreamUsage;
pub use wait::Wait;

pub(crate) use active::{Active, Closed, SegmentOrigin};
pub(crate) use append::SEGMENT_SPAN;
pub(crate) use blocks::Blocks;
use catalog::PlannedBatch;
pub(crate) use catalog::{Catalog, Fate, NextSegment, size_of};
pub(crate) use consumer_entries::ConsumerEntries;
pub(crate) use group_log::LogTail;
pub(crate) use packed_entries::each_entry;

pub(crate) use segment_storage::{Beginning, Claimed, Files, SegmentStorage, StoreEnv};
pub(crate) use segment_view::{
    Form, SealedFile, Segment, SegmentFile, SegmentView, Times, segment_name, segment_number,
};
use shared::ReleaseListener;
pub(crate) use shared::StreamShared;
pub(crate) use table::Rows;
pub(crate) use table_cache::TableCache;

/// Segments are closed at this size unless limits ask for smaller ones.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Segments in memory are closed at this size: memory of removed messages comes back by whole
/// segments, or by copying what is left of one.
const SEGMENT_BYTES_IN_MEMORY: u64 = 1 << 20;
/// No segment is closed before this size for the sake of limits.
const SEGMENT_BYTES_MIN: u64 = 128 << 10;

/// The one writer of a stream.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<StreamShared>,
    config: StreamConfig,
    segment_storage: SegmentStorage,
    active: Active,
    /// Segments that were closed and wait to be sealed.
    closed: Vec<Closed>,
    /// Segments before the active one that the catalog has not closed yet, because what is in them
    /// waits for its release, or whose closing was not taken over yet.
    rolled: Vec<Active>,
    /// Manifest as the files on disk said it last; `None` before the first merge.
    manifest: Option<Arc<Manifest>>,
    upkeep: jobs::UpkeepState,
    /// Up to where a copy may have shown sequences before a loss of power.
    owed: Option<Seq>,
    /// Where the log last said that it is synced.
    durable_mark: (u64, u64),
    /// Buffers kept between batches.
    buffer: Vec<u8>,
    /// Decision on the last append.
    decision: decision::Decision,
    /// The log of its group, if it has one.
    group: Option<Box<group_log::GroupLog>>,
    /// Whether memory can be given back, and the last sequence when that was last looked at.
    is_untidy: bool,
    tidied_at: Seq,
}

/// A stream in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// Messages, bytes, first and last.
    pub totals: Totals,
    /// Distinct subjects.
    pub subjects: u64,
    /// Sequences between first and last without a message.
    pub deleted: u64,
    /// Up to here messages are released.
    pub released: Seq,
}

/// An end that a stream's log had: see [`Stream::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    segment: SegmentNo,
    offset: u64,
}

impl LogEnd {
    /// Whether both are in the same file.
    #[must_use]
    pub fn shares_file(self, other: Self) -> bool {
        self.segment == other.segment
    }
}

impl Stream {
    /// Puts a stream together from a catalog with an active segment.
    pub(crate) fn assemble(
        shared: Arc<StreamShared>,
        config: StreamConfig,
        segment_storage: SegmentStorage,
        active: Active,
        closed: Vec<Closed>,
        manifest: Option<Manifest>,
    ) -> Self {
        let durable_mark = (active.segment.no.0, active.file.durable());
        if !segment_storage.is_memory() {
            let to_be_sealed = |no| closed.iter().any(|one| one.active.segment.no == no);
            shared.catalog_mut().note_walked(to_be_sealed);
        }
        Self {
            shared,
            config,
            segment_storage,
            active,
            closed,
            rolled: Vec::new(),
            manifest: manifest.map(Arc::new),
            upkeep: jobs::UpkeepState::default(),
            owed: None,
            durable_mark,
            buffer: Vec::new(),
            decision: decision::Decision::default(),
            group: None,
            // There may be subjects that died while the log was read.
            is_untidy: true,
            tidied_at: 0,
        }
    }

    /// A new stream that keeps its messages in memory and needs no store.
    #[must_use]
    pub fn in_memory(config: StreamConfig, seed: u64, now: Timestamp) -> Self {
        let config = StreamConfig { storage: Storage::Memory, ..config };
        let mut catalog = Catalog::in_memory(seed, config.first_seq);
        let (id, no) = (StreamId(0), SegmentNo(1));
        let active = segment_storage::begin_in_memory(id, Beginning::anew(no, catalog.next_seq()), now);
        catalog.begin_segment(Arc::clone(&active.segment));
        let shared = StreamShared::new(id, Storage::Memory, catalog, Arc::new(Blocks::new(0)));
        Self::assemble(shared, config, SegmentStorage::Memory, active, Vec::new(), None)
    }

    /// The stream's number; 0 in memory.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.shared.id
    }

    /// Configuration of the stream.
    #[must_use]
    pub fn config(&self) -> &StreamConfig {
        &self.config
    }

    /// State that its readers see, for a check of it.
    pub(crate) fn shared(&self) -> &Arc<StreamShared> {
        &self.shared
    }

    /// The stream in numbers, behind everything in its log, released or not: what is decided next
    /// follows on that. A [`StreamReader`] says how much of it is released.
    #[must_use]
    pub fn state(&self) -> StreamState {
        let released = self.released();
        let catalog = self.shared.catalog();
        let stream = catalog.decided();
        state_of(stream.totals(), stream.subjects(), released)
    }

    /// The sums of [`Stream::state`], without its subjects, which take a look at all that waits.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.shared.catalog().decided().totals()
    }

    /// Up to which sequence messages are stored as the stream's durability asks.
    #[must_use]
    pub fn released(&self) -> Seq {
        self.shared.release.seq()
    }

    /// Names everything that was done so far: it is safe once [`Release::is_released`] says so of
    /// this ticket.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.shared.release.last_ticket()
    }

    /// Where the log ends now.
    #[must_use]
    pub fn end(&self) -> LogEnd {
        LogEnd { segment: self.active.segment.no, offset: self.active.file.end() }
    }

    /// Whether all that was before `end` survives a loss of power, whatever the stream's durability
    /// asks.
    #[must_use]
    pub fn is_synced(&self, end: LogEnd) -> bool {
        let mut before = self.open_segments().filter(|open| open.segment.no <= end.segment);
        // What is sealed was synced for that.
        before.all(|Active { segment, file }| {
            let needed = if segment.no == end.segment { end.offset } else { file.end() };
            file.durable() >= needed
        })
    }

    /// Segments whose entries are in files that are not sealed, oldest first.
    fn open_segments(&self) -> impl Iterator<Item = &Active> {
        let closed = self.closed.iter().map(|closed| &closed.active);
        closed.chain(&self.rolled).chain([&self.active])
    }

    /// The release position, to wait for.
    #[must_use]
    pub fn release(&self) -> &Release {
        &self.shared.release
    }

    /// Has `listener` told when batches that had to wait are released. Before the first append; the
    /// first one stays. [`Store::reopen_stream`](crate::store::Store::reopen_stream) gives it to
    /// the stream that it opens.
    pub fn on_release(&self, listener: Arc<dyn OnRelease>) {
        let _ = self.shared.on_release.set(ReleaseListener(listener));
    }

    /// Goes on in the log of a group, where the stream was found.
    pub(crate) fn resume_group(&mut self, tail: Option<LogTail>, consumers: ConsumerEntries, notes: Notes) {
        self.upkeep.found(tail.as_ref().map_or(0, |tail| tail.position().index));
        self.group = tail.map(|tail| Box::new(group_log::GroupLog::new(tail, consumers, notes)));
        self.release_notes();
    }

    /// Names the batches that recovery has found and that are not known to be committed.
    pub(crate) fn hold_back(&mut self) {
        let catalog = self.shared.catalog_mut();
        self.rolled = catalog.rolled();
        for (index, last_seq) in catalog.waiting() {
            let is_part = self.group.as_ref().is_some_and(|group| group.tail.is_part(index));
            self.shared.release.proposed(index, is_part, last_seq);
        }
    }

    /// Hands the listener, and what it owes, on to the stream that takes the place of this one.
    pub(crate) fn hand_on(&self, to: &mut Self) {
        to.owed = self.owed.max(to.owed);
        if let Some(ReleaseListener(listener)) = self.shared.on_release.get() {
            to.on_release(Arc::clone(listener));
        }
    }

    /// Notes that a copy had perhaps shown sequences up to `last`, some of which it has not any
    /// more.
    pub(crate) fn owe(&mut self, last: Seq) {
        self.owed = Some(last);
    }

    /// Marks the stream as failed: its embedder has lost track of what it did, by a panic for
    /// instance.
    pub fn give_up(&self, why: &str) {
        self.shared.fail(why);
    }

    /// Why the stream has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.shared.failure()
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.shared.failure() {
            Some(why) => Err(StoreError::Failed(why.to_owned())),
            None => Ok(()),
        }
    }

    /// Whether the catalog shows all that is released: what is decided on it may be written.
    fn check_followed(&self) -> Result<(), StoreError> {
        if !self.shared.has_stopped() {
            return Ok(());
        }
        self.check()?;
        Err(StoreError::Failed("the stream is about to fail".to_owned()))
    }

    /// The catalog was changed and the log was not: only opening the stream anew makes them agree.
    fn fail(&self, why: &str) -> StoreError {
        self.shared.fail(why);
        StoreError::Failed(why.to_owned())
    }

    /// Writes a finished batch; returns where the log ends behind it. What the batch says happens
    /// to the catalog next, and then the batch counts as [`Stream::written`].
    fn write(&self, batch: &[u8], now: Timestamp) -> Result<u64, StoreError> {
        // Else it was decided on a catalog that lacks what is released: sequences would come twice.
        self.check_followed()?;
        self.active
            .file
            .append(batch, nanos(now))
            .map_err(|error| self.fail(&format!("a write failed: {error}")))
    }

    /// Index of the last entry in the log of the group; 0 without one.
    fn index(&self) -> u64 {
        self.group.as_ref().map_or(0, |group| group.position().index)
    }

    /// A segment that a stream in files shows as long as it has stored nothing.
    pub(crate) fn placeholder(id: StreamId, at: Beginning, now: Timestamp) -> Active {
        segment_storage::begin_in_memory(id, at, now)
    }

    /// Whether the active segment is a [`Stream::placeholder`].
    fn has_placeholder(&self) -> bool {
        self.active.file.is_in_memory() && !self.segment_storage.is_memory()
    }

    /// Begins the first segment in a file: something is to be stored.
    fn begin_first(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let Segment { no, first_seq, .. } = *self.active.segment;
        debug_assert!(self.active.file.end() == crate::segment::HEADER_BYTES as u64, "it takes nothing");
        let at = Beginning {
            group: self.group(),
            is_within: self.is_within_decision(),
            ..Beginning::anew(no, first_seq)
        };
        let begun = self.begin_segment(at, now)?;
        self.shared.catalog_mut().replace_active(Arc::clone(&begun.segment));
        self.durable_mark = (no.0, 0);
        self.active = begun;
        Ok(())
    }

    /// Sees to it that the active segment takes `bytes` more, of something that is decided here.
    fn make_room(&mut self, bytes: u64, now: Timestamp) -> Result<(), StoreError> {
        if self.is_unfinished() {
            self.abort_unfinished(now)?;
        }
        self.reserve_room(bytes, now)
    }

    /// Sees to it that the active segment takes `bytes` more.
    fn reserve_room(&mut self, bytes: u64, now: Timestamp) -> Result<(), StoreError> {
        // Tables say in 32 bits where an entry begins.
        if bytes > u64::from(u32::MAX) - crate::segment::HEADER_BYTES as u64 {
            return Err(StoreError::TooLarge);
        }
        if self.has_placeholder() {
            self.begin_first(now)?;
        }
        let end = self.active.file.end();
        let span = self.shared.catalog().next_decided() - self.active.segment.first_seq;
        let is_used = end > crate::segment::HEADER_BYTES as u64;
        if is_used && (end + bytes > self.segment_bytes() || span >= append::SEGMENT_SPAN) {
            self.roll(now)?;
        }
        let has_grown = self.active.file.reserve(bytes).map_err(StoreError::from_io)?;
        if has_grown && let Some(files) = self.segment_storage.files() {
            // Before what is appended takes all the room that has come back.
            files.store_env.headroom.restore();
        }
        Ok(())
    }

    fn segment_bytes(&self) -> u64 {
        if let Some(bytes) = self.config.segment_bytes {
            return u64::from(bytes);
        }
        let most = if self.segment_storage.is_memory() { SEGMENT_BYTES_IN_MEMORY } else { SEGMENT_BYTES };
        let by_limit = self.config.limits.bytes.map_or(u64::MAX, |max| max / 8);
        by_limit.clamp(SEGMENT_BYTES_MIN, most)
    }

    /// An entry that says how far the log is synced, if it has grown by `step` since the last one.
    fn take_durable_mark(&mut self, step: u64) -> Option<Control<'static>> {
        if self.segment_storage.is_memory() {
            return None;
        }
        let segment = self.active.segment.no;
        let offset = self.active.file.durable();
        let (marked_segment, marked) = self.durable_mark;
        if segment.0 == marked_segment && offset < marked + step {
            return None;
        }
        self.durable_mark = (segment.0, offset);
        let before = self.rolled.last().or(self.closed.last().map(|closed| &closed.active));
        match before.filter(|_| segment.0 != marked_segment) {
            // Of a new segment nothing is synced yet. That the one before is shows what it is,
            // should its header be lost.
            Some(Active { segment, file }) => {
                Some(Control::Durable { segment: segment.no, offset: file.durable() })
            }
            None => Some(Control::Durable { segment, offset }),
        }
    }

    /// Changes limits and the like from here on; what exceeds new limits goes with
    /// [`Stream::enforce`].
    ///
    /// `storage` and `first_seq` of a stream stay as they were, and `segment_bytes` unless another
    /// is given.
    ///
    /// # Errors
    /// Another durability needs a new segment, and it could not be made: nothing has changed.
    pub fn set_config(&mut self, config: StreamConfig, now: Timestamp) -> Result<(), StoreError> {
        if !config.is_copy {
            self.take_up_own_sequences(now)?;
        }
        let StreamConfig { storage, first_seq, .. } = self.config;
        let segment_bytes = config.segment_bytes.or(self.config.segment_bytes);
        let new = StreamConfig { storage, first_seq, segment_bytes, ..config };
        let before = std::mem::replace(&mut self.config, new);
        if before.durability != config.durability && !self.segment_storage.is_memory() {
            let old = self.active.clone();
            if let Err(error) = self.roll(now) {
                self.config = before;
                return Err(error);
            }
            self.wait_for(&old);
            // Rolling has written what was in memory.
            if append::is_released_at_once(config.durability) {
                self.shared.weaken();
                self.wait_for_release();
            }
        }
        Ok(())
    }

    /// A copy that has become a stream of its own does not give out what its origin had given out
    /// through it before a loss of power.
    fn take_up_own_sequences(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let Some(last) = self.owed else { return Ok(()) };
        self.skip(last, now)?;
        self.owed = None;
        Ok(())
    }

    /// Makes the new segment wait for the old one: what is synced of it counts only once the old
    /// one is synced, for after a loss of power the log ends where the first of both does. In a
    /// group the commit alone is what is waited for.
    fn wait_for(&self, old: &Active) {
        if self.group.is_none() && self.config.durability == Durability::Synced {
            let (no, release) = (old.segment.no, &self.shared.release);
            let mut catalog = self.shared.catalog_mut();
            release.appended(no, old.file.end(), release.last_seq());
            let batch = PlannedBatch { index: self.index(), plans: Vec::new() };
            let kept = catalog.put(batch, &Entered::Waits);
            drop(catalog);
            if let Err(error) = kept {
                self.fail(&error.to_string());
            }
            self.shared.durable_to(no, old.file.durable());
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        self.config.durability
    }

    /// Nothing of this stream is written any more.
    pub(crate) fn abandon(&mut self) {
        self.give_up("the stream was deleted");
        self.open_segments().for_each(|open| open.file.abandon());
    }

    /// Lets go of the files, so that another can open them. All that was released is in them then,
    /// and this stream releases nothing more. May be repeated after an error.
    pub(crate) fn leave(&mut self) -> Result<(), StoreError> {
        self.shared.fail("the stream was opened anew");
        let Some(files) = self.segment_storage.files() else { return Ok(()) };
        let own = self.open_segments().map(|open| &open.file);
        let left =
            files.store_env.journal.leave(self.shared.id, StreamPart::Messages, own.cloned().collect());
        left.map_err(|error| StoreError::from_io(error.to_io()))?;
        self.shared.is_left.store(true, Ordering::Release);
        Ok(())
    }

    /// Where its files are; `None` in memory.
    pub(crate) fn files(&self) -> Option<&Files> {
        self.segment_storage.files()
    }

    /// Whether a job works on its files.
    pub(crate) fn has_job_out(&self) -> bool {
        self.upkeep.is_out()
    }

    /// Gives memory of the tail to the operating system: what was appended in
    /// [`Durability::Memory`] is written.
    ///
    /// # Errors
    /// The stream has failed.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.check()?;
        self.active.file.flush().map_err(|error| self.fail(&format!("a write failed: {error}")))
    }
}

fn state_of(totals: Totals, subjects: u64, released: Seq) -> StreamState {
    // What was lost to damage may be counted in one of them only.
    let deleted = (totals.last_seq + 1 - totals.first_seq).saturating_sub(totals.messages);
    StreamState { totals, subjects, deleted, released }
}
