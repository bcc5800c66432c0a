//! Staging: what this shard has for each connection, until the next flush.
//!
//! Perf: a message to a subscriber is an index into a table and a copy into a chunk: no lock and no
//! atomic. Locks are taken once per receiver and tick, when a stage moves into the outbox.
//!
//! Order in a stage: a connection that shares a cohort's open block gets nothing of its own staged
//! before the block is sealed (`Staging::own_stage`).

use super::cohort::{CohortId, Cohorts};
use super::pool::Pool;
use crate::conn::Conn;
use crate::outbox::{AppendCounts, Segment, Staged};
use crate::settings::Settings;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Frames that one connection gets from this shard in this tick.
pub(super) struct Stage {
    pub(super) conn: Arc<Conn>,
    /// The chunk being filled; never grown, only replaced.
    chunk: Vec<u8>,
    pub(super) segments: Staged,
    load: AppendCounts,
    /// The cohort whose open block this connection shares: it must be sealed before anything else
    /// is staged here, or the order would break.
    pub(super) open: Option<CohortId>,
    /// The connection is far behind: its publishers pause, or it loses messages.
    pub(super) stalled: bool,
    /// Whether this tick's stall is counted already.
    stall_counted: bool,
    /// Bytes that may still be staged before the connection is too far behind.
    left: usize,
    /// More than `left` was to be staged: nothing more is, and the connection is too far behind.
    pub(super) overrun: bool,
    /// The connection is ending: nothing is staged.
    is_ending: bool,
}

impl Stage {
    fn new(conn: &Arc<Conn>, settings: &Settings) -> Self {
        let pending = conn.pending();
        let is_far_behind = pending > settings.max_pending / 4 * 3;
        let is_link = conn.link().is_some();
        Self {
            conn: Arc::clone(conn),
            chunk: Vec::new(),
            segments: Staged::new(),
            load: AppendCounts::default(),
            open: None,
            // A link loses no message, whatever is preferred for clients.
            stalled: is_far_behind && !(is_link && settings.no_fast_producer_stall),
            stall_counted: false,
            left: conn.max_pending(settings).saturating_sub(pending),
            overrun: false,
            is_ending: conn.close_requested().is_some(),
        }
    }

    /// Bytes of its own that wait for the flush.
    fn waiting(&self) -> usize {
        self.load.wire + self.chunk.len()
    }

    /// Takes `len` bytes from what may be staged; `false` when they are too many.
    #[inline]
    fn admit(&mut self, len: usize) -> bool {
        if self.is_ending {
            return false;
        }
        match self.left.checked_sub(len) {
            Some(left) if !self.overrun => {
                self.left = left;
                true
            }
            _ => {
                self.overrun = true;
                false
            }
        }
    }

    /// Whether a message of `len` bytes on the wire goes to the connection: then they are taken
    /// from what may be staged.
    #[inline(always)]
    fn place(&mut self, len: usize, settings: &Settings) -> Placed {
        // Perf: one look for what nearly all messages meet.
        let is_in_trouble = self.stalled | self.is_ending | self.overrun;
        match self.left.checked_sub(len) {
            Some(left) if !is_in_trouble => {
                self.left = left;
                Placed { stalled: false, dropped: false }
            }
            _ => self.place_in_trouble(len, settings),
        }
    }

    #[cold]
    fn place_in_trouble(&mut self, len: usize, settings: &Settings) -> Placed {
        let stalled = self.stalled;
        if stalled && !settings.no_fast_producer_stall {
            self.count_stall();
        }
        let dropped = (stalled && settings.no_fast_producer_stall) || !self.admit(len);
        Placed { stalled, dropped }
    }

    /// A chunk with room for `need` more bytes.
    #[inline(always)]
    fn room(&mut self, need: usize, pool: &mut Pool) -> &mut Vec<u8> {
        if self.chunk.capacity() - self.chunk.len() < need {
            self.next_chunk(need, pool);
        }
        debug_assert!(self.chunk.capacity() - self.chunk.len() >= need, "a chunk never grows");
        debug_assert!(self.open.is_none(), "a shared block is sealed before anything of one's own");
        &mut self.chunk
    }

    #[cold]
    fn next_chunk(&mut self, need: usize, pool: &mut Pool) {
        let small = self.chunk.capacity() == 0 && !matches!(self.segments.last(), Some(Segment::Own(_)));
        let full = std::mem::replace(&mut self.chunk, pool.get(need, small));
        self.push_own(full);
    }

    #[cold]
    fn count_stall(&mut self) {
        if !std::mem::replace(&mut self.stall_counted, true) {
            self.conn.traffic.stalls.fetch_add(1, Relaxed);
        }
    }

    fn push_own(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.load.wire += bytes.len();
            self.load.own += bytes.len();
            self.segments.push(Segment::Own(bytes));
        }
    }

    /// Stages bytes that other connections share, behind what is staged already.
    pub(super) fn push_shared(&mut self, bytes: Bytes, msgs: u64, payload: u64) {
        let chunk = std::mem::take(&mut self.chunk);
        self.push_own(chunk);
        debug_assert!(payload as usize <= bytes.len(), "a payload is within its frame");
        self.load.wire += bytes.len();
        self.load.msgs += msgs;
        self.load.payload += payload;
        self.segments.push(Segment::Shared(bytes));
    }

    /// Closes the last chunk and says what is staged.
    pub(super) fn close_chunk(&mut self) -> AppendCounts {
        let chunk = std::mem::take(&mut self.chunk);
        self.push_own(chunk);
        debug_assert!(self.open.is_none(), "blocks are sealed before a flush");
        debug_assert!(self.load.own <= self.load.wire, "own bytes are bytes on the wire");
        debug_assert!(!self.is_ending || self.load.msgs == 0, "a connection that ends gets no messages");
        self.load
    }
}

/// The bytes of one frame: head and tail, and how its body counts.
#[derive(Clone, Copy)]
pub(super) struct FrameParts<'a> {
    pub(super) head: &'a [u8],
    pub(super) tail: &'a [u8],
    /// The tail again where it stands in shared memory, for bodies too large to copy.
    pub(super) shared_tail: Option<&'a Bytes>,
    /// Bytes of the body.
    pub(super) payload: usize,
}

impl FrameParts<'_> {
    fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }
}

/// Fate of a message for one connection.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    /// The connection is far behind.
    pub(super) stalled: bool,
    /// The receiver does not get the message.
    pub(super) dropped: bool,
}

/// How much more a shared byte counts towards a flush than one for a single receiver: every
/// member's socket must take all of them.
///
/// Perf: row 1:64 loses half its rate when a socket gets 1 MiB per flush; 256 and 512 KiB are
/// alike.
const SHARED_WEIGHT: usize = 2;

/// All stages of a shard.
#[derive(Default)]
pub(super) struct Staging {
    /// By connection slot.
    stages: Vec<Option<Box<Stage>>>,
    dirty: Vec<u32>,
    cohorts: Cohorts,
    bytes: usize,
    /// A number that no other shard has.
    shard: usize,
}

impl Staging {
    /// Stages of a shard; no other shard has the number.
    pub(super) fn new(shard: usize) -> Self {
        Self { shard, ..Self::default() }
    }

    /// The number of the shard.
    pub(super) fn shard(&self) -> usize {
        self.shard
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Bytes that are staged since the last flush, as one receiver gets them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn take_bytes(&mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn cohorts(&mut self) -> &mut Cohorts {
        &mut self.cohorts
    }

    /// The next stage that has something.
    pub(super) fn pop(&mut self) -> Option<Box<Stage>> {
        let slot = self.dirty.pop()?;
        let stage = self.stages.get_mut(slot as usize)?.take();
        debug_assert!(
            stage.as_ref().is_some_and(|stage| stage.conn.slot() == slot),
            "what is listed has a stage, at the slot of its connection"
        );
        stage
    }

    /// Bytes that are staged for `conn`.
    pub(super) fn staged(&mut self, conn: &Conn) -> usize {
        let Some(Some(stage)) = self.stages.get(conn.slot() as usize) else { return 0 };
        stage.waiting() + stage.open.map_or(0, |cohort| self.cohorts.filled(cohort))
    }

    /// The stage of `conn`, whatever it shares at the moment.
    #[inline(always)]
    fn stage(&mut self, conn: &Arc<Conn>, settings: &Settings) -> &mut Stage {
        let slot = conn.slot() as usize;
        if !matches!(self.stages.get(slot), Some(Some(_))) {
            self.begin(conn, settings);
        }
        let stage = self.stages[slot].as_deref_mut().expect("it was there, or has begun");
        debug_assert!(Arc::ptr_eq(&stage.conn, conn), "a slot names one living connection");
        stage
    }

    /// Perf: once per connection and tick, and a call for that; what all messages do is to find the
    /// stage.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, conn: &Arc<Conn>, settings: &Settings) {
        let slot = conn.slot();
        if slot as usize >= self.stages.len() {
            self.stages.resize_with(slot as usize + 1, || None);
        }
        debug_assert!(self.stages[slot as usize].is_none(), "a connection is listed once, with its stage");
        self.stages[slot as usize] = Some(Box::new(Stage::new(conn, settings)));
        self.dirty.push(slot);
    }

    /// The stage of `conn`, ready for bytes of its own.
    #[inline(always)]
    fn own_stage(&mut self, conn: &Arc<Conn>, settings: &Settings) -> &mut Stage {
        if let Some(cohort) = self.stage(conn, settings).open {
            self.seal(cohort);
        }
        self.stage(conn, settings)
    }

    /// Has the next flush look at a connection.
    pub(super) fn touch(&mut self, conn: &Arc<Conn>, settings: &Settings) {
        self.stage(conn, settings);
    }

    /// Stages bytes that are no message.
    pub(super) fn line(&mut self, conn: &Arc<Conn>, line: &[u8], pool: &mut Pool, settings: &Settings) {
        self.bytes += line.len();
        self.own_stage(conn, settings).room(line.len(), pool).extend_from_slice(line);
    }

    /// Stages one message for one connection.
    #[inline]
    pub(super) fn frame(
        &mut self,
        conn: &Arc<Conn>,
        frame: FrameParts<'_>,
        pool: &mut Pool,
        settings: &Settings,
    ) -> Placed {
        let Some(shared) = frame.shared_tail else {
            return self.parts(conn, [frame.head, frame.tail], frame.payload, pool, settings);
        };
        let stage = self.own_stage(conn, settings);
        let placed = stage.place(frame.len(), settings);
        if !placed.dropped {
            stage.room(frame.head.len(), pool).extend_from_slice(frame.head);
            stage.push_shared(shared.clone(), 1, frame.payload as u64);
            self.bytes += frame.len();
        }
        placed
    }

    /// Stages a frame in parts, all of which are copied.
    #[inline(always)]
    pub(super) fn parts<const N: usize>(
        &mut self,
        conn: &Arc<Conn>,
        parts: [&[u8]; N],
        payload: usize,
        pool: &mut Pool,
        settings: &Settings,
    ) -> Placed {
        let stage = self.own_stage(conn, settings);
        let len = parts.iter().map(|part| part.len()).sum();
        let placed = stage.place(len, settings);
        if placed.dropped {
            return placed;
        }
        let chunk = stage.room(len, pool);
        // Perf: a loop over the array, which is unrolled; as `for_each` it was a call.
        for part in parts {
            chunk.extend_from_slice(part);
        }
        stage.load.msgs += 1;
        stage.load.payload += payload as u64;
        self.bytes += len;
        placed
    }

    /// Adds one message to the block that a cohort shares. `None` when the members cannot share now
    /// and each must get its own frame; else whether any of them is far behind.
    ///
    /// Perf: inlined into its one caller (row `1:64` of docs/count.md).
    #[inline(always)]
    pub(super) fn cohort_frame(
        &mut self,
        id: CohortId,
        frame: FrameParts<'_>,
        settings: &Settings,
    ) -> Option<bool> {
        if frame.shared_tail.is_some() {
            return None;
        }
        if !self.cohorts.is_open(id) && !self.open(id, settings) {
            return None;
        }
        self.bytes += frame.len() * SHARED_WEIGHT;
        let (full, stalled) = self.cohorts.extend(id, frame.head, frame.tail, frame.payload);
        if full {
            self.seal(id);
        }
        Some(stalled)
    }

    /// Opens a block for a cohort: every member shares it from now on. `false` when a member must
    /// lose messages that others get.
    fn open(&mut self, id: CohortId, settings: &Settings) -> bool {
        let members = self.cohorts.members(id);
        let mut stalled = false;
        for conn in members.iter() {
            let stage = self.own_stage(conn, settings);
            if stage.stalled {
                stage.count_stall();
                stalled = true;
            }
        }
        if stalled && settings.no_fast_producer_stall {
            return false;
        }
        for conn in members.iter() {
            let stage = self.stage(conn, settings);
            debug_assert!(stage.open.is_none(), "a connection shares one block at a time");
            stage.open = Some(id);
        }
        self.cohorts.open(id, stalled);
        true
    }

    /// Closes a cohort's block and hands it to every member.
    fn seal(&mut self, id: CohortId) {
        let Some(block) = self.cohorts.seal(id) else { return };
        let members = self.cohorts.members(id);
        for conn in members.iter() {
            if let Some(Some(stage)) = self.stages.get_mut(conn.slot() as usize) {
                debug_assert!(stage.open == Some(id), "members share the block until it is sealed");
                stage.open = None;
                if stage.admit(block.bytes.len()) {
                    stage.push_shared(block.bytes.clone(), block.msgs, block.payload);
                }
            }
        }
        self.cohorts.release_if_unused(id);
    }

    /// Closes all blocks, before a flush.
    pub(super) fn seal_cohorts(&mut self) {
        while let Some(id) = self.cohorts.any_open() {
            self.seal(id);
            debug_assert!(!self.cohorts.is_listed_open(id), "a sealed block is not open");
        }
    }
}
