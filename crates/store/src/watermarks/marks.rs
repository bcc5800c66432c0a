//! Marks: up to which sequence each stream may have released messages that were not synced, stated
//! before it does.
//!
//! After a loss of power a stream goes on behind its mark, or, where none is stated, behind so many
//! sequences as the head says ([`WatermarkHead::ahead`](super::WatermarkHead)): so a new stream
//! needs no mark for its first messages. A mark moves ahead in steps, by the round that comes next,
//! with one write and one sync for all streams; a stream that waits for it must be told whatever
//! becomes of that. At rest it comes back to what was released, so that a stream at rest leaves no
//! gap.
//!
//! It must never be released ([`StreamShared::move_mark`]) what a loss of power could take out of
//! both files.

use std::io;
use std::sync::{Arc, MutexGuard};

use myelin_disk::File;
use myelin_stdx::sync::lock;

use crate::config::Durability;
use crate::journal;
use crate::stream::{MAX_SEQ, Need, StreamShared};
use crate::{Seq, StreamId};

use super::{WatermarkState, Watermarks};

/// The shortest step, and how far a mark is ahead of a stream that rests for a moment.
const LEAST: u64 = 4096;
/// The longest step: beyond, a gap would be longer than any disk makes others wait.
const MOST: u64 = 1 << 24;
const SECOND: u64 = 1_000_000_000;
/// Nanoseconds between two moves for which nobody waits.
const PAUSE: u64 = SECOND / 10;
/// How often it is looked whether streams rest.
const LOOK: u64 = SECOND;
/// How long a stream rests until its mark comes back all the way: the message after that has to
/// wait for a sync.
const LONG_REST: u64 = 60 * SECOND;

/// How a store keeps sequences from being given out twice after a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// Sequences are not kept from that.
    Nothing,
    /// By marks that are synced ahead. A stream that was opened gives out so many sequences before
    /// its first mark; with 0 it waits for it, and none is passed over where no mark was needed.
    Ahead(u64),
}

impl Default for Reserve {
    fn default() -> Self {
        Self::Ahead(LEAST)
    }
}

impl Reserve {
    pub(super) fn ahead(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Ahead(count) => count,
        }
    }
}

/// How a stream was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenedStream {
    /// The last sequence that its log had, durably.
    pub(crate) found: Seq,
    pub(crate) durability: Durability,
    /// The last sequence that a copy has perhaps shown and has not any more.
    pub(crate) owed: Option<Seq>,
}

/// State of a stream's mark besides what its slot says.
#[derive(Debug, Default)]
pub(super) struct MarkState {
    /// Where every loss of power leaves it, at least.
    durable: Seq,
    /// Where it stays at least, for a copy owes it: the next process must know of that, too.
    owed: Seq,
    /// Whether messages are released before they are synced.
    pub(super) is_lazy: bool,
    /// Where and when it was moved last.
    moved: Option<(Seq, u64)>,
    /// The last sequence, and since when it is that.
    seen: Option<(Seq, u64)>,
    /// Whether it was brought back as far as it goes.
    rests: bool,
}

impl MarkState {
    /// The mark that a stop leaves of a stream that has come to `last`: what the next process is to
    /// know.
    pub(super) fn at_stop(&self, last: Seq, mark: Option<Seq>) -> Option<Seq> {
        match self.owed {
            owed if owed > last => Some(owed),
            // It begins without waiting for a mark.
            _ if self.is_lazy => None,
            _ => mark,
        }
    }

    /// Of a stream that is not stated yet.
    pub(super) fn resting() -> Self {
        Self { rests: true, ..Self::default() }
    }
}

/// Requests of streams about their marks.
#[derive(Debug, Default)]
pub(super) struct MarkRequests {
    streams: Vec<StreamId>,
    /// Whether somebody waits.
    is_urgent: bool,
    /// When those for whom nobody waits have their turn.
    not_before: u64,
    /// When to look for streams that rest; `None`: all do.
    idle_check_at: Option<u64>,
}

impl MarkRequests {
    /// Nanoseconds until the streams have their turn. A clock that went back counts as due.
    fn due(&self, now: u64) -> Option<u64> {
        let rest = |at: u64, most: u64| at.checked_sub(now).filter(|rest| *rest <= most).unwrap_or(0);
        let asked =
            (!self.streams.is_empty()).then(|| if self.is_urgent { 0 } else { rest(self.not_before, PAUSE) });
        asked.into_iter().chain(self.idle_check_due(now)).min()
    }

    fn idle_check_due(&self, now: u64) -> Option<u64> {
        self.idle_check_at.map(|at| at.checked_sub(now).filter(|rest| *rest <= LOOK).unwrap_or(0))
    }
}

/// A mark on its way.
struct Raised {
    id: StreamId,
    stream: Arc<StreamShared>,
    mark: Seq,
}

impl journal::Marks for Watermarks {
    fn due(&self, now: u64) -> Option<u64> {
        self.asked().due(now)
    }

    fn advance(&self, now: u64, with_all: bool) {
        let _turn = lock(&self.turn);
        let Some((streams, looks)) = self.take(now, with_all) else { return };
        let asked = AskAgain(self, &streams);
        let (raised, files) = {
            let mut state = self.lock();
            let raised = state.raise(&streams, now);
            let has_lowered = looks && self.rest(&mut state, now);
            if raised.is_empty() && !has_lowered {
                return;
            }
            let written = self.write_out(&mut state);
            (raised, written.map(|()| state.copies.files()))
        };
        // Without the lock: what is stated every 50 ms does not wait for this.
        match files.and_then(|files| self.sync_one(&files)) {
            Ok(()) => self.moved(&raised),
            Err(error) => self.could_not_move(&raised, error),
        }
        drop(asked);
    }
}

/// Has a round that panics leave its requests to the next one: who waits for a mark would wait for
/// ever.
struct AskAgain<'a>(&'a Watermarks, &'a [StreamId]);

impl Drop for AskAgain<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.1.iter().for_each(|id| self.0.need(*id, Need::Now));
            self.0.asked().idle_check_at.get_or_insert(0);
        }
    }
}

impl Watermarks {
    /// A stream has come near its mark, or waits for it.
    pub(crate) fn need(&self, id: StreamId, need: Need) {
        let mut asked = self.asked();
        asked.is_urgent |= need == Need::Now;
        asked.streams.push(id);
        debug_assert!(need != Need::Now || asked.due(0) == Some(0), "what is waited for is due at once");
    }

    /// How far a stream that was opened may go for now. `before`: as it was in this process before.
    pub(super) fn begin_mark(
        &self,
        state: &mut WatermarkState,
        at: usize,
        (stream, opened): (&Arc<StreamShared>, OpenedStream),
        before: Option<&MarkState>,
    ) -> MarkState {
        let owed = opened.owed.unwrap_or(0).max(before.map_or(0, |before| before.owed));
        let Reserve::Ahead(ahead) = self.reserve else {
            return MarkState { owed, rests: true, ..MarkState::default() };
        };
        let has_begun = state.has_begun;
        let slot = &mut state.slots[at];
        let unstated = opened.found.saturating_add(ahead);
        let is_stated = slot.reserved.is_some();
        let durable = match (slot.reserved, before) {
            // Of an earlier process the head may still say that it was stopped.
            _ if !has_begun => 0,
            // The slot may be on its way to the disk.
            (Some(_), Some(before)) => before.durable.min(unstated),
            (Some(mark), None) => mark,
            (None, _) => unstated,
        };
        let is_lazy = opened.durability != Durability::Synced;
        let release = &stream.release;
        let durable = if is_lazy { durable } else { durable.min(opened.found) };
        if !is_lazy {
            // Whatever is released from now on is found.
            slot.reserved = Some(release.seq());
        }
        if is_lazy && !is_stated && has_begun {
            release.begin_mark(opened.found, ahead);
        } else {
            let has_released = release.set_mark(durable);
            debug_assert!(!has_released, "nothing waits yet that somebody would have to be told of");
        }
        slot.reserved = slot.reserved.max(Some(owed).filter(|owed| *owed > 0));
        self.asked().idle_check_at.get_or_insert(0);
        // One that syncs first needs no mark.
        MarkState { durable, owed, is_lazy, rests: !is_lazy, ..MarkState::default() }
    }

    /// Takes the requests that are due, and tells whether to look for streams that rest.
    fn take(&self, now: u64, with_all: bool) -> Option<(Vec<StreamId>, bool)> {
        let mut asked = self.asked();
        let looks = asked.idle_check_due(now) == Some(0);
        let is_due = with_all || asked.due(now) == Some(0);
        if !is_due {
            return None;
        }
        if looks {
            asked.idle_check_at = None;
        }
        asked.is_urgent = false;
        asked.not_before = now.saturating_add(PAUSE);
        let streams = std::mem::take(&mut asked.streams);
        (looks || !streams.is_empty()).then_some((streams, looks))
    }

    /// Brings back marks of streams that rest. Answers whether there were any.
    fn rest(&self, state: &mut WatermarkState, now: u64) -> bool {
        let mut lowered = Vec::new();
        let mut is_any_awake = false;
        for (id, open) in &mut state.open {
            let Some(stream) = open.stream.upgrade().filter(|_| !open.marked.rests) else { continue };
            lowered.extend(open.marked.rest(&stream, now).map(|mark| (*id, mark)));
            is_any_awake |= !open.marked.rests;
        }
        if is_any_awake {
            self.asked().idle_check_at = Some(now.saturating_add(LOOK));
        }
        lowered.sort_unstable_by_key(|(id, _)| *id);
        for (id, mark) in &lowered {
            state.reserve(*id, *mark);
        }
        !lowered.is_empty()
    }

    /// Syncs the files; one of them is enough, the other is written anew.
    fn sync_one(&self, files: &[Arc<dyn File>]) -> io::Result<()> {
        let outcomes: Vec<io::Result<()>> = files.iter().map(|file| file.sync()).collect();
        let is_one_synced = outcomes.iter().any(Result::is_ok);
        let Some(error) = outcomes.into_iter().find_map(Result::err) else { return Ok(()) };
        let mut state = self.lock();
        // A second sync would say nothing of what was written before the first one.
        let all = 0..state.slots.len();
        state.unwritten.extend(all);
        state.must_write_head = true;
        if is_one_synced {
            state.trouble = Some(error);
            return Ok(());
        }
        Err(error)
    }

    fn moved(&self, raised: &[Raised]) {
        let mut state = self.lock();
        for Raised { id, stream, mark } in raised {
            if let Some(open) = state.open.get_mut(id).filter(|open| is_same(open, stream)) {
                open.marked.durable = *mark;
            }
        }
        drop(state);
        if !raised.is_empty() {
            self.asked().idle_check_at.get_or_insert(0);
        }
        for Raised { id, stream, mark } in raised.iter().filter(|one| one.stream.failure().is_none()) {
            if let Some(need) = stream.move_mark(*mark) {
                self.need(*id, need);
            }
        }
    }

    /// Tells those who wait that a mark could not be moved; for the others it is tried again.
    fn could_not_move(&self, raised: &[Raised], error: io::Error) {
        for Raised { id, stream, .. } in raised {
            if stream.release.waits_for_mark() {
                stream.fail(&format!("how far it may have come could not be stated: {error}"));
            } else {
                self.need(*id, Need::Soon);
            }
        }
        self.lock().trouble = Some(error);
    }

    fn asked(&self) -> MutexGuard<'_, MarkRequests> {
        lock(&self.asked)
    }
}

fn is_same(open: &super::OpenStream, stream: &Arc<StreamShared>) -> bool {
    std::ptr::eq(open.stream.as_ptr(), Arc::as_ptr(stream))
}

impl WatermarkState {
    /// Moves marks ahead, in the slots.
    fn raise(&mut self, streams: &[StreamId], now: u64) -> Vec<Raised> {
        let mut raised: Vec<Raised> = Vec::new();
        for id in streams {
            let Some(open) = self.open.get_mut(id) else { continue };
            let is_known = raised.iter().rev().any(|one| one.id == *id);
            let Some(stream) = open.stream.upgrade().filter(|stream| stream.failure().is_none() && !is_known)
            else {
                continue;
            };
            let mark = open.marked.raise(stream.release.last_seq(), now);
            self.reserve(*id, mark);
            raised.push(Raised { id: *id, stream, mark });
        }
        raised
    }

    fn reserve(&mut self, id: StreamId, mark: Seq) {
        if let Some(&at) = self.slot_of.get(&id)
            && self.slots[at].reserved != Some(mark)
        {
            self.slots[at].reserved = Some(mark);
            self.mark_unwritten(at);
        }
    }
}

impl MarkState {
    /// Where the mark goes when messages up to `last` were appended: ahead by what comes in about a
    /// second.
    fn raise(&mut self, last: Seq, now: u64) -> Seq {
        let step = self.moved.map_or(0, |(from, since)| {
            let used = u128::from(last.saturating_sub(from));
            let nanos = now.saturating_sub(since).max(SECOND / 1000);
            u64::try_from(used * u128::from(SECOND) / u128::from(nanos)).unwrap_or(MOST)
        });
        self.moved = Some((last, now));
        self.rests = false;
        self.seen = None;
        last.saturating_add(step.clamp(LEAST, MOST)).min(MAX_SEQ.max(last)).max(self.durable).max(self.owed)
    }

    /// Brings it back if the stream rests. Answers where it is then.
    fn rest(&mut self, stream: &StreamShared, now: u64) -> Option<Seq> {
        let last = stream.release.last_seq();
        let since = match self.seen {
            Some((seen, since)) if seen == last && since <= now => since,
            _ => {
                self.seen = Some((last, now));
                now
            }
        };
        let idle = now - since;
        let ahead = if idle >= LONG_REST { 0 } else { LEAST };
        if idle < LOOK || stream.failure().is_some() {
            return None;
        }
        let lowered = stream.release.lower_mark(ahead);
        if let Some(mark) = lowered {
            self.durable = mark;
        }
        self.rests = ahead == 0 && !stream.release.waits_for_mark();
        lowered.map(|mark| mark.max(self.owed))
    }
}
