//! One origin of a stream: finding it, reading it, and coming again when it has more.
//!
//! A source reader is woken like a consumer, on the shard of whoever published. It goes into the
//! turn of the stream that copies, reads a run of the origin there and has it stored. There is
//! never more than a run in memory; a stream that is full, or that others hold, is not read for.
//! What has to wait for a disk does so on threads that may.

use super::origin_search::OriginSearch;
use super::positions::{Positions, SourcePosition};
use super::read_state::{Feed, OriginLink, ReadState, RunEnd, SPARE_BYTES};
use super::remote_origin::RemoteSearch;
use super::render::{SourceRenderer, index_name};
use super::source_consumer::SourceConsumer;
use super::status::SourceStatus;
use crate::engine::host::{Host, Timer};
use crate::engine::live::{Downstream, NextAction, SourceRun};
use crate::engine::wakeup::Wakeup;
use crate::engine::{JetStream, LiveStream};
use myelin_broker::{Account, Binding, Level, Service, ServiceBatch, ServiceShard};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::info::SourceInfo;
use myelin_jsapi::config::StreamSource;
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use myelin_store::{ReadError, Seq, Timestamp};
use myelin_streams::stream::{Effects, SourcedMsgs, SourcedResult, StreamCore};
use myelin_wire::error::Quoted;
use myelin_wire::message_buf::MessageBuf;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, SeqCst};
use std::sync::{Arc, Mutex, Weak};

const SECOND: Timestamp = 1_000_000_000;
/// How far the next message is looked for, to tell how old it is: publishers wait meanwhile.
const FARTHEST: u64 = 100_000;
/// Errors of a stream that is full.
const FULL: [&str; 2] = ["maximum messages", "maximum bytes"];
/// When a message that the stream did not take is tried again, and what could not be read. Longer
/// each time, up to eight times that; when something goes from the stream, at once.
const RETRY: Timestamp = SECOND / 4;
/// When a stream that cannot seal as fast as it is filled is copied to again.
const BEHIND: Timestamp = SECOND / 100;

/// Reader of one origin: of the mirror's, or of one of the sources.
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
    pub(super) read_state: Mutex<ReadState>,
    pub(super) status: Mutex<SourceStatus>,
    pub(super) search: OriginSearch,
    /// The search for an origin on another server.
    pub(super) remote: Mutex<RemoteSearch>,
    /// Wakeup by `StreamWork::Copy` in the inbox of the stream, and by what is due.
    pub(super) wakeup: Wakeup,
    /// Bindings by which the stream answers direct gets for its origin, as a mirror that may.
    pub(super) direct: Mutex<Vec<Arc<Binding>>>,
    /// Whether it was at the origin's end, or nearly. It stays so while the origin is searched for.
    pub(super) is_current: AtomicBool,
    pub(super) me: Weak<Self>,
}

impl SourceReader {
    pub(super) fn new(
        stream: &Arc<LiveStream>,
        source: &StreamSource,
        is_mirror: bool,
        jetstream: &Weak<JetStream>,
        positions: &Positions,
    ) -> Arc<Self> {
        let read_state = ReadState {
            log: 0,
            link: None,
            position: None,
            past: VecDeque::new(),
            renderer: SourceRenderer::new(source, is_mirror),
            msgs: MessageBuf::default(),
            stamps: Vec::new(),
            largest: 0,
            unacked: VecDeque::new(),
            questions: VecDeque::new(),
            asked_for: String::new(),
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
            read_state: Mutex::new(read_state),
            status: Mutex::default(),
            search: OriginSearch::new(),
            remote: Mutex::default(),
            wakeup: Wakeup::default(),
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
        self.search.is_in_vain()
    }

    /// The stream copies nothing for a while: how far it is is noted, and what it holds of its
    /// origin stays there.
    pub(super) fn suspend(&self) {
        self.close();
        self.search.end();
        self.stop_asking();
        self.stop_direct_gets();
        self.unlink();
    }

    /// Takes nothing any more from where it did. Answers whether it has. Not inside a turn.
    pub(super) fn unlink(&self) -> bool {
        let Some(link) = lock(&self.read_state).link.take() else { return false };
        link.source_consumer().into_iter().for_each(SourceConsumer::release);
        true
    }

    /// Ends the source reader: the stream copies something else, or is gone.
    pub(super) fn end(&self) {
        self.search.end();
        self.stop_asking();
        self.stop_direct_gets();
        let link = lock(&self.read_state).link.take();
        match link.map(|link| link.feed) {
            Some(Feed::Log(log)) => log.source_consumer.iter().for_each(|one| self.let_go_of(one)),
            Some(Feed::Remote { consumer, .. }) => self.delete_remote(&consumer),
            // It may be there though there is no way to it at the moment.
            None => self.delete_asked(),
        }
    }

    /// Ends the source reader while its stream goes on: a source that comes again is found by what
    /// it has left in the stream.
    pub(super) fn forget(&self) {
        self.end();
        if !self.is_mirror {
            self.positions.remove(&self.index);
        }
    }

    /// The stream's log is another one: how far it has copied is to be found out. Who is about to
    /// find out begins anew, too.
    pub(super) fn reset(&self) {
        let mut read_state = lock(&self.read_state);
        read_state.log += 1;
        (read_state.link, read_state.position) = (None, None);
        read_state.unacked.clear();
        read_state.questions.clear();
        read_state.past.clear();
    }

    /// Notes how far it is, for the next start.
    pub(super) fn close(&self) {
        let (Some(stream), read_state) = (self.stream.upgrade(), lock(&self.read_state)) else { return };
        if let Some(position) = read_state.position.as_ref().filter(|_| !self.is_mirror) {
            let local = stream.reader().last_logged();
            self.positions.write(&self.index, &SourcePosition { local, ..position.clone() });
        }
    }

    fn store(
        &self,
        read_state: &mut ReadState,
        core: &mut StreamCore,
        now: Timestamp,
        effects: &mut Effects,
    ) -> SourcedResult {
        if read_state.stamps.is_empty() {
            return SourcedResult::default();
        }
        let stamps = if self.is_mirror { read_state.stamps.as_slice() } else { &[] };
        core.copy(&SourcedMsgs { msgs: &read_state.msgs, stamps }, now, effects)
    }

    /// Notes that the first `done` messages of the run are here.
    fn note(&self, read_state: &mut ReadState, core: &StreamCore, done: usize, now: Timestamp) {
        let Some((seq, stored)) = done.checked_sub(1).and_then(|at| read_state.stamps.get(at)).copied()
        else {
            return;
        };
        if !self.is_mirror {
            self.positions.write(&self.index, read_state.come_to(seq, core.store()));
        }
        if read_state.link.as_ref().is_some_and(|link| link.source_consumer().is_some()) {
            let seqs = read_state.stamps[..done].iter().map(|stamp| stamp.0).collect();
            debug_assert!(
                read_state.unacked.back().is_none_or(|(last, _)| *last <= core.store().ticket()),
                "what waits for its release is in the order of tickets"
            );
            read_state.unacked.push_back((core.store().ticket(), seqs));
            if let Some(stream) = self.stream.upgrade() {
                stream.sourcing_marks().note_unacked();
            }
        }
        let mut status = lock(&self.status);
        (status.seq, status.last_stored) = (seq, Some(stored));
        status.heard = Some(now);
    }

    /// Compat: that a stream is full which refuses what is new is nothing to be told.
    fn log_refusal(&self, error: &ApiError) {
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
    pub(super) fn retry_refused(&self) {
        if lock(&self.read_state).refusals > 0 {
            self.wake();
        }
    }

    /// Tells the origin what this stream has released. Not inside a turn.
    pub(in crate::engine) fn acknowledge(&self, mut shard: Option<&mut ServiceShard>) {
        let Some(stream) = self.stream.upgrade() else { return };
        self.answer_questions(&stream);
        loop {
            let mut read_state = lock(&self.read_state);
            // With the lock in hand: tickets are of the log that is read now.
            let reader = stream.reader();
            match read_state.unacked.front() {
                Some((ticket, _)) if reader.release().is_released(*ticket) => {}
                Some(_) => return stream.sourcing_marks().note_unacked(),
                None => return,
            }
            let Some((_, seqs)) = read_state.unacked.pop_front() else { return };
            let source_consumer = read_state.link.as_ref().and_then(|link| link.source_consumer().cloned());
            drop(read_state);
            if let Some(source_consumer) = source_consumer {
                source_consumer.acknowledge(seqs, shard.as_deref_mut());
            }
        }
    }

    fn park(&self, position: Seq) {
        let read_state = lock(&self.read_state);
        let log = read_state.link.as_ref().and_then(OriginLink::log);
        let origin = log.and_then(|log| log.origin.upgrade());
        drop(read_state);
        let (Some(origin), Some(me)) = (origin, self.me.upgrade()) else { return };
        origin.downstreams().park(&(Arc::clone(&me) as Arc<dyn Downstream>));
        std::sync::atomic::fence(SeqCst);
        if origin.released() >= position || origin.is_gone() {
            self.wake();
        }
    }

    /// Brings what follows into memory, and goes on then.
    fn warm(&self, from: Seq) {
        let read_state = lock(&self.read_state);
        let Some(log) = read_state.link.as_ref().and_then(OriginLink::log) else { return };
        let (filter, warmed_of) = (log.filter.clone(), Weak::clone(&log.origin));
        drop(read_state);
        let (Some(origin), Some(me)) = (warmed_of.upgrade(), self.me.upgrade()) else { return };
        let reader = origin.reader();
        self.host.spawn_read(Box::new(move || {
            let warmed = reader.warm(&filter, from);
            if let Err(ReadError::Io(_)) = warmed {
                return me.schedule_at(me.host.now() + RETRY);
            }
            // What is damaged is told when it is read in earnest.
            let next = warmed.ok();
            if let Some(OriginLink { feed: Feed::Log(log), .. }) = &mut lock(&me.read_state).link
                && let Some(next) = next
                // Another origin may have been found meanwhile.
                && Weak::ptr_eq(&log.origin, &warmed_of)
                && log.cursor.position() == from
            {
                log.cursor.skip_to(next);
            }
            me.wake();
        }));
    }

    pub(super) fn schedule_at(&self, at: Timestamp) {
        self.wakeup.arm(at, &*self.host, &self.me);
    }

    /// How it stands.
    pub(super) fn info(&self) -> SourceInfo {
        let (lag, heard) = (self.count_lag(), self.heard_elsewhere());
        let mut status = lock(&self.status);
        if let Some((lag, next)) = lag {
            (status.lag, status.next_stored) = (lag, next);
        }
        status.heard = status.heard.max(heard);
        // Compat: a mirror shows its filter once it was about to read, and never how far it is.
        let shows_filter = !self.is_mirror || status.was_tried;
        SourceInfo {
            name: self.source.name.clone(),
            external: self.source.external.clone(),
            lag: status.lag,
            seq: if self.is_mirror { 0 } else { status.seq },
            active: status.active(self.host.now()),
            waits_since: status.waits_since(),
            error: status.error.clone(),
            filter_subject: if shows_filter { self.source.filter_subject.clone() } else { String::new() },
            subject_transforms: self.source.subject_transforms.clone(),
        }
    }

    /// When something came of an origin on another server.
    fn heard_elsewhere(&self) -> Option<Timestamp> {
        Some(lock(&self.read_state).link.as_ref()?.remote()?.heard())
    }

    /// Messages of the origin that are still to come, and when the first of them was stored there.
    fn count_lag(&self) -> Option<(u64, Option<Timestamp>)> {
        let read_state = lock(&self.read_state);
        let link = read_state.link.as_ref()?;
        if let Some(remote) = link.remote() {
            return Some((remote.lag(), remote.next_stored()));
        }
        let log = link.log()?;
        let (from, filter, origin) = (log.cursor.position(), log.filter.clone(), log.origin.upgrade()?);
        drop(read_state);
        let reader = origin.reader();
        let lag = reader.pending(&filter, from).ok()?;
        let until = if lag > 0 { from.saturating_add(FARTHEST) } else { 0 };
        let next = reader.next_seq_until(&filter, from, until).ok().flatten();
        Some((lag, next.and_then(|next| reader.time_of(next).ok().flatten())))
    }

    /// Ends a run: what was not taken is tried again, and else what is there is read.
    fn next_action(
        &self,
        read_state: &mut ReadState,
        core: &StreamCore,
        end: RunEnd,
        refused: Option<(ApiError, Seq)>,
    ) -> NextAction {
        let ReadState { link: Some(link), refusals, msgs, .. } = &mut *read_state else {
            return NextAction::Nothing;
        };
        if let Some((error, seq)) = refused {
            link.go_back(seq);
            let pause = RETRY << (*refusals).min(3);
            *refusals += 1;
            if *refusals == 1 {
                self.log_refusal(&error);
            }
            if let Some(stream) = self.stream.upgrade() {
                stream.sourcing_marks().note_stalled(core.store().totals().bytes);
            }
            return NextAction::Later(pause);
        }
        match (&link.feed, end) {
            (_, RunEnd::Full) => NextAction::More,
            (_, RunEnd::Refused) => NextAction::Later(RETRY),
            (Feed::Log(log), RunEnd::Cold) => NextAction::Cold(log.cursor.position()),
            // More may have come meanwhile; if not, the memory of this run is given back.
            _ if msgs.bytes() > SPARE_BYTES => NextAction::More,
            (Feed::Log(log), _) => {
                let position = log.cursor.position();
                read_state.shrink();
                NextAction::Park(position)
            }
            (Feed::Remote { origin, .. }, _) => {
                let (patience, is_current) = (origin.patience(), origin.lag() == 0);
                read_state.shrink();
                NextAction::Await { patience, is_current }
            }
        }
    }

    /// The mirror is as its origin, or nearly.
    fn note_current(&self) {
        if self.is_mirror && !self.is_current.swap(true, AcqRel) {
            self.update_direct_gets();
        }
    }
}

impl SourceRun for SourceReader {
    fn copy(&self, core: &mut StreamCore, now: Timestamp, effects: &mut Effects) -> NextAction {
        self.wakeup.dequeue();
        // What a follower stores is taken back, and the origin would hear that it is here.
        if self.search.is_over() || !core.role().leads() {
            return NextAction::Nothing;
        }
        let mut read_state = lock(&self.read_state);
        let Some(link) = &mut read_state.link else { return NextAction::Nothing };
        if link.is_over(now) {
            read_state.link = None;
            return NextAction::Seek;
        }
        if let Some(until) = paused(link, core, now) {
            return NextAction::Later(until - now);
        }
        if let Some(floor) = link.floor.take()
            && core.pass_to(floor, now).is_err()
        {
            link.floor = Some(floor);
            return NextAction::Later(RETRY);
        }
        let end = read_state.read();
        let ReadState { link: Some(link), msgs, stamps, .. } = &mut *read_state else {
            return NextAction::Nothing;
        };
        if let (Some(cold), Some(first)) = (core.cold(msgs), stamps.first()) {
            // It is read once more when that is in memory.
            link.go_back(first.0);
            return NextAction::Count(cold);
        }
        let SourcedResult { done, refused } = self.store(&mut read_state, core, now, effects);
        self.note(&mut read_state, core, done, now);
        self.note_remote(&mut read_state, core, done);
        let refused_at = read_state.stamps.get(done).map(|stamp| stamp.0);
        if done > 0 {
            read_state.refusals = 0;
        }
        self.next_action(&mut read_state, core, end, refused.zip(refused_at))
    }

    fn apply_effects(&self, next: NextAction) {
        match next {
            NextAction::Nothing => {}
            NextAction::More => self.wake(),
            NextAction::Park(position) => {
                self.note_current();
                self.park(position);
            }
            NextAction::Await { patience, is_current } => {
                if is_current {
                    self.note_current();
                }
                self.schedule_at(patience);
            }
            NextAction::Cold(from) => self.warm(from),
            NextAction::Count(cold) => {
                let Some(me) = self.me.upgrade() else { return };
                self.host.spawn_read(Box::new(move || {
                    cold.warm();
                    me.wake();
                }));
            }
            NextAction::Later(pause) => self.schedule_at(self.host.now() + pause),
            NextAction::Seek => self.connect_soon(),
        }
    }
}

impl Service for SourceReader {
    fn serve(&self, _: &mut ServiceBatch, shard: &mut ServiceShard) {
        let (Some(stream), Some(me)) = (self.stream.upgrade(), self.me.upgrade()) else { return };
        if self.wakeup.enqueue() {
            stream.copy(me, shard);
        }
    }
}

impl Timer for SourceReader {
    fn fire(&self) {
        self.wakeup.fired();
        if self.search.is_over() {
            return;
        }
        if lock(&self.read_state).link.is_some() {
            return self.wake();
        }
        // This alarm may have been set for the answer to a request that was refused since.
        let not_before = lock(&self.status).not_before;
        if self.host.now() < not_before { self.schedule_at(not_before) } else { self.connect_soon() }
    }
}

/// Until when nothing is copied: the source consumer says so, or the stream has much to seal.
fn paused(link: &OriginLink, core: &StreamCore, now: Timestamp) -> Option<Timestamp> {
    let paused = link.source_consumer().and_then(|source_consumer| source_consumer.paused(now));
    paused.or_else(|| core.is_behind().then_some(now + BEHIND))
}
