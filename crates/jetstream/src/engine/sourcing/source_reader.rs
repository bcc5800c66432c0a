//! One origin of a stream: finding it, reading it, and coming again when it has more.
//!
//! A feed is woken like a consumer, on the shard of whoever published. It goes into the turn of the stream that copies, reads
//! a run of the origin there and has it stored. There is never more than a run in memory; a stream that is full, or that
//! others hold, is not read for. What has to wait for a disk does so on threads that may.

use super::positions::{Position, Positions};
use super::read_state::{End, ReadState, SPARE_BYTES};
use super::render::{Rendering, index_name};
use super::status::SourceStatus;
use crate::api::info::SourceInfo;
use crate::config::StreamSource;
use crate::consumer::account_hash as hash;
use crate::engine::host::{Alarmed, Host};
use crate::engine::live::lock;
use crate::engine::{JetStream, LiveStream};
use crate::error::ApiError;
use crate::stream::{Cold, Copied, Copies, Effects, StreamCore};
use myelin_broker::{Account, Binding, Level, MessageBuf, Service, Shard};
use myelin_stdx::rng::Rng;
use myelin_store::{ReadError, Seq, Timestamp};
use myelin_wire::error::Quoted;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex, Weak};

const SECOND: Timestamp = 1_000_000_000;
/// What a stream says that is full.
const FULL: [&str; 2] = ["maximum messages", "maximum bytes"];
/// When a message that the stream did not take is tried again, and what could not be read. Longer each time, up to eight times
/// that; when something goes from the stream, at once.
const AGAIN: Timestamp = SECOND / 4;

/// See the head of this file.
pub(in crate::engine) struct SourceReader {
    pub(super) source: StreamSource,
    pub(super) index: String,
    pub(super) is_mirror: bool,
    /// The stream that copies.
    pub(super) stream: Weak<LiveStream>,
    pub(super) account: Arc<Account>,
    pub(super) host: Arc<dyn Host>,
    pub(super) jetstream: Weak<JetStream>,
    pub(super) positions: Positions,
    pub(super) seat: Mutex<ReadState>,
    pub(super) standing: Mutex<SourceStatus>,
    /// Whether it is in the inbox of the stream.
    pub(super) is_queued: AtomicBool,
    /// Whether it is about to look for its origin.
    pub(super) is_connecting: AtomicBool,
    /// Whether the origin was not there.
    pub(super) is_seeking: AtomicBool,
    pub(super) is_over: AtomicBool,
    /// When the host will ring; `i64::MAX`: never.
    pub(super) alarm: AtomicI64,
    /// What the stream receives for its origin, as a mirror that may.
    pub(super) direct: Mutex<Vec<Arc<Binding>>>,
    /// Whether it was at the origin's end, or nearly.
    pub(super) is_current: AtomicBool,
    pub(super) me: Weak<Self>,
}

/// What a feed wants after the turn.
pub(in crate::engine) enum Next {
    /// Nothing: somebody else sees to it.
    Nothing,
    /// Another turn.
    More,
    /// To hear when the origin has more than this.
    Park(Seq),
    /// What follows is to be brought into memory.
    Cold(Seq),
    /// What the run counts on from is to be brought into memory.
    Count(Cold),
    /// To come again after so many nanoseconds.
    Later(Timestamp),
    /// To look where the origin is.
    Seek,
}

impl SourceReader {
    pub(super) fn new(
        stream: &Arc<LiveStream>,
        source: &StreamSource,
        is_mirror: bool,
        jetstream: &Weak<JetStream>,
        positions: &Positions,
    ) -> Arc<Self> {
        let seat = ReadState {
            log: 0,
            link: None,
            position: None,
            past: VecDeque::new(),
            rendering: Rendering::new(source, is_mirror),
            msgs: MessageBuf::default(),
            stamps: Vec::new(),
            largest: 0,
            unsettled: VecDeque::new(),
            rng: Rng::seeded(jetstream.upgrade().map_or(0, |jetstream| jetstream.seed())),
            refusals: 0,
        };
        Arc::new_cyclic(|me| Self {
            source: source.clone(),
            index: index_name(source),
            is_mirror,
            stream: Arc::downgrade(stream),
            account: Arc::clone(stream.account()),
            host: Arc::clone(stream.host()),
            jetstream: Weak::clone(jetstream),
            positions: positions.clone(),
            seat: Mutex::new(seat),
            standing: Mutex::default(),
            is_queued: AtomicBool::new(false),
            is_connecting: AtomicBool::new(false),
            is_seeking: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            alarm: AtomicI64::new(i64::MAX),
            direct: Mutex::default(),
            is_current: AtomicBool::new(false),
            me: Weak::clone(me),
        })
    }

    pub(super) fn index(&self) -> &str {
        &self.index
    }

    pub(super) fn is_mirror(&self) -> bool {
        self.is_mirror
    }

    pub(super) fn is_seeking(&self) -> bool {
        self.is_seeking.load(Acquire)
    }

    /// The stream copies nothing for a while: how far it is is noted, and what it holds of its origin stays there.
    pub(super) fn rest(&self) {
        self.close();
        self.is_over.store(true, Release);
        self.answer_no_gets();
        lock(&self.seat).link = None;
    }

    /// It is not wanted any more: the stream copies something else, or is gone.
    pub(super) fn end(&self) {
        self.is_over.store(true, Release);
        self.answer_no_gets();
        let link = lock(&self.seat).link.take();
        if let Some(durable) = link.and_then(|link| link.durable) {
            durable.release();
        }
    }

    /// The same while the stream goes on: a source that comes again is found by what it has left in the stream.
    pub(super) fn forget(&self) {
        self.end();
        if !self.is_mirror {
            self.positions.remove(&self.index);
        }
    }

    /// The stream's log is another one: how far the feed is, is to be found out. Who is about to find out begins anew, too.
    pub(super) fn begin_anew(&self) {
        let mut seat = lock(&self.seat);
        seat.log += 1;
        (seat.link, seat.position) = (None, None);
        seat.unsettled.clear();
        seat.past.clear();
    }

    /// The origin is gone, or its log was opened anew.
    pub(super) fn lose_origin(&self) {
        lock(&self.seat).link = None;
        self.connect_soon();
    }

    /// Notes how far it is, for the next start.
    pub(super) fn close(&self) {
        let (Some(stream), seat) = (self.stream.upgrade(), lock(&self.seat)) else { return };
        if let Some(position) = seat.position.as_ref().filter(|_| !self.is_mirror) {
            let local = stream.reader().state().totals.last_seq;
            self.positions.write(&self.index, &Position { local, ..position.clone() });
        }
    }

    /// Has a shard come for it.
    pub(super) fn wake(&self) {
        if let Some(me) = self.me.upgrade() {
            self.host.wake(me);
        }
    }

    /// Copies a run, in the turn of the stream.
    pub(in crate::engine) fn copy(
        &self,
        core: &mut StreamCore,
        now: Timestamp,
        effects: &mut Effects,
    ) -> Next {
        self.is_queued.store(false, Release);
        if self.is_over.load(Acquire) {
            return Next::Nothing;
        }
        let mut seat = lock(&self.seat);
        let Some(link) = &mut seat.link else { return Next::Nothing };
        if link.origin.upgrade().is_none_or(|origin| origin.is_gone()) {
            seat.link = None;
            return Next::Seek;
        }
        if let Some(until) = link.durable.as_ref().and_then(|durable| durable.paused(now)) {
            return Next::Later(until - now);
        }
        if let Some(floor) = link.floor.take()
            && core.pass_to(floor, now).is_err()
        {
            link.floor = Some(floor);
            return Next::Later(AGAIN);
        }
        let end = seat.read();
        let ReadState { link: Some(link), msgs, stamps, .. } = &mut *seat else { return Next::Nothing };
        if let (Some(cold), Some(first)) = (core.cold(msgs), stamps.first()) {
            // It is read once more when that is in memory.
            link.cursor.skip_to(first.0);
            return Next::Count(cold);
        }
        let Copied { done, refused } = self.store(&mut seat, core, now, effects);
        self.note(&mut seat, core, done, now);
        let refused_at = seat.stamps.get(done).map(|stamp| stamp.0);
        if done > 0 {
            seat.refusals = 0;
        }
        let ReadState { link: Some(link), refusals, msgs, .. } = &mut *seat else { return Next::Nothing };
        match (refused, refused_at) {
            (Some(error), Some(seq)) => {
                link.cursor.skip_to(seq);
                let pause = AGAIN << (*refusals).min(3);
                *refusals += 1;
                if *refusals == 1 {
                    self.tell_of_refusal(&error);
                }
                if let Some(stream) = self.stream.upgrade() {
                    stream.origins().note_stalled(core.state().totals.bytes);
                }
                Next::Later(pause)
            }
            _ if end == End::Full => Next::More,
            _ if end == End::Cold => Next::Cold(link.cursor.position()),
            _ if end == End::Refused => Next::Later(AGAIN),
            // More may have come meanwhile; if not, the memory of this run is given back.
            _ if msgs.bytes() > SPARE_BYTES => Next::More,
            _ => {
                let position = link.cursor.position();
                seat.rest();
                Next::Park(position)
            }
        }
    }

    fn store(
        &self,
        seat: &mut ReadState,
        core: &mut StreamCore,
        now: Timestamp,
        effects: &mut Effects,
    ) -> Copied {
        if seat.stamps.is_empty() {
            return Copied::default();
        }
        let stamps = if self.is_mirror { seat.stamps.as_slice() } else { &[] };
        core.copy(&Copies { msgs: &seat.msgs, stamps }, now, effects)
    }

    /// Notes that the first `done` messages of the run are here.
    fn note(&self, seat: &mut ReadState, core: &StreamCore, done: usize, now: Timestamp) {
        let Some((seq, _)) = done.checked_sub(1).and_then(|at| seat.stamps.get(at)).copied() else { return };
        if !self.is_mirror {
            self.positions.write(&self.index, seat.come_to(seq, core.store()));
        }
        if seat.link.as_ref().is_some_and(|link| link.durable.is_some()) {
            let seqs = seat.stamps[..done].iter().map(|stamp| stamp.0).collect();
            seat.unsettled.push_back((core.store().ticket(), seqs));
            if let Some(stream) = self.stream.upgrade() {
                stream.origins().note_unsettled();
            }
        }
        let mut standing = lock(&self.standing);
        standing.seq = seq;
        standing.heard = Some(now);
    }

    /// Compat: that a stream is full which refuses what is new is nothing to be told.
    fn tell_of_refusal(&self, error: &ApiError) {
        let Some(stream) = self.stream.upgrade() else { return };
        let (text, account, to) = (error.to_string(), self.account.name(), stream.name());
        if FULL.iter().any(|full| text.contains(full)) {
            return;
        }
        if self.is_mirror {
            let what =
                format_args!("Error processing inbound mirror message for '{account}' > '{to}': {text}");
            self.host.log(Level::Warn, what);
        } else {
            let from = Quoted(self.index.as_bytes());
            let what =
                format_args!("Error processing inbound source {from} for '{account}' > '{to}': {text}");
            self.host.log(Level::Warn, what);
        }
    }

    /// The stream has room again: what was refused is tried at once.
    pub(super) fn try_again(&self) {
        if lock(&self.seat).refusals > 0 {
            self.wake();
        }
    }

    /// Does what it wants, after the turn.
    pub(in crate::engine) fn heed(&self, next: Next) {
        match next {
            Next::Nothing => {}
            Next::More => self.wake(),
            Next::Park(position) => {
                if self.is_mirror && !self.is_current.swap(true, AcqRel) {
                    self.settle_gets();
                }
                self.park(position);
            }
            Next::Cold(from) => self.warm(from),
            Next::Count(cold) => {
                let Some(me) = self.me.upgrade() else { return };
                self.host.read(Box::new(move || {
                    cold.warm();
                    me.wake();
                }));
            }
            Next::Later(pause) => self.ring_at(self.host.now() + pause),
            Next::Seek => self.connect_soon(),
        }
    }

    /// Tells the origin what this stream has released. Not inside a turn.
    pub(in crate::engine) fn settle(&self, mut shard: Option<&mut Shard>) {
        let Some(stream) = self.stream.upgrade() else { return };
        loop {
            let mut seat = lock(&self.seat);
            // With the seat in hand: tickets are of the log that is read now.
            let reader = stream.reader();
            match seat.unsettled.front() {
                Some((ticket, _)) if reader.release().is_released(*ticket) => {}
                Some(_) => return stream.origins().note_unsettled(),
                None => return,
            }
            let Some((_, seqs)) = seat.unsettled.pop_front() else { return };
            let durable = seat.link.as_ref().and_then(|link| link.durable.clone());
            drop(seat);
            if let Some(durable) = durable {
                durable.settle(seqs, shard.as_deref_mut());
            }
        }
    }

    fn park(&self, position: Seq) {
        let origin = lock(&self.seat).link.as_ref().and_then(|link| link.origin.upgrade());
        let (Some(origin), Some(me)) = (origin, self.me.upgrade()) else { return };
        origin.followers().park(&me);
        std::sync::atomic::fence(SeqCst);
        if origin.released() >= position || origin.is_gone() {
            self.wake();
        }
    }

    /// Brings what follows into memory, and goes on then.
    fn warm(&self, from: Seq) {
        let seat = lock(&self.seat);
        let Some(link) = &seat.link else { return };
        let (filter, origin) = (link.filter.clone(), link.origin.upgrade());
        drop(seat);
        let (Some(origin), Some(me)) = (origin, self.me.upgrade()) else { return };
        let reader = origin.reader();
        self.host.read(Box::new(move || {
            let warmed = reader.warm(&filter, from);
            if let Err(ReadError::Io(_)) = warmed {
                return me.ring_at(me.host.now() + AGAIN);
            }
            // What is damaged is told when it is read in earnest.
            let next = warmed.ok().flatten();
            if let Some(link) = &mut lock(&me.seat).link
                && let Some(next) = next
                && link.cursor.position() == from
            {
                link.cursor.skip_to(next);
            }
            me.wake();
        }));
    }

    pub(super) fn ring_at(&self, at: Timestamp) {
        if at < self.alarm.fetch_min(at, AcqRel) {
            self.host.schedule(at, Weak::clone(&self.me) as Weak<dyn Alarmed>);
        }
    }

    /// How it stands.
    pub(super) fn info(&self) -> SourceInfo {
        let lag = self.count_lag();
        let mut standing = lock(&self.standing);
        if let Some(lag) = lag {
            standing.lag = lag;
        }
        // Compat: a mirror shows its filter once it was about to read, and never how far it is.
        let shows_filter = !self.is_mirror || standing.was_tried;
        SourceInfo {
            name: self.source.name.clone(),
            external: self.source.external.clone(),
            lag: standing.lag,
            seq: if self.is_mirror { 0 } else { standing.seq },
            active: standing.active(self.host.now()),
            error: standing.error.clone(),
            filter_subject: if shows_filter { self.source.filter_subject.clone() } else { String::new() },
            subject_transforms: self.source.subject_transforms.clone(),
        }
    }

    /// Messages of the origin that are still to come.
    fn count_lag(&self) -> Option<u64> {
        let seat = lock(&self.seat);
        let link = seat.link.as_ref()?;
        let (from, filter, origin) = (link.cursor.position(), link.filter.clone(), link.origin.upgrade()?);
        drop(seat);
        let reader = origin.reader();
        reader.pending(&filter, from).ok()
    }
}

impl Service for SourceReader {
    fn serve(&self, _: &mut MessageBuf, shard: &mut Shard) {
        let (Some(stream), Some(me)) = (self.stream.upgrade(), self.me.upgrade()) else { return };
        if !self.is_queued.swap(true, AcqRel) {
            stream.copy(me, shard);
        }
    }
}

impl Alarmed for SourceReader {
    fn ring(&self) {
        self.alarm.store(i64::MAX, Release);
        if self.is_over.load(Relaxed) {
            return;
        }
        if lock(&self.seat).link.is_some() {
            self.wake();
        } else {
            self.connect_soon();
        }
    }
}

/// What tells a stream from another one of its name: the reference's hash of the time when it was made.
pub(in crate::engine) fn identity(created: Timestamp) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(created)).unwrap_or_default();
    hash(&time.to_string())
}
