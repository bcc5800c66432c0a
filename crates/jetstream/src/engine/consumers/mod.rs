//! The consumers of one stream: which there are, what they share, and how they hear that their
//! stream has more.
//!
//! Owns the log of their states and the index of their filters. Consumers have turns of their own;
//! nothing here takes one for longer than a look.
//!
//! # One delivery and its acknowledgement
//!
//! 1. `engine/live/turn.rs`, `wakeups`: the stream has released messages. Consumers that wait at
//!    its end are woken, those with filters only if a subject among the new ones is theirs.
//! 2. `live`: each consumer has a turn of its own, and any shard may hold it. A pull request
//!    arrives the same way, from its own subject.
//! 3. `streams/src/consumer/delivery.rs`: the loop. First what is to come again
//!    (`streams/src/consumer/redelivery.rs`), then what nobody has seen
//!    (`streams/src/consumer/stream_scan.rs`); who gets it (`consumer/{pull,waiting,pin,push}.rs`),
//!    and when (`streams/src/consumer/pacing.rs`).
//! 4. `streams/src/consumer/state_handle.rs`: each delivery is a change of the consumer's state; a
//!    slice of them is one write to the log that all consumers of a stream share
//!    (`store/src/consumer/`).
//! 5. `engine/ordered_outbox.rs`, `broker/src/shard/send.rs`: a delivery lies in its buffer as the
//!    frame that the client gets, but for the sid. The receivers of an address are found once for a
//!    buffer. A receiver that is behind stops its consumer until it has caught up
//!    (`Shard::is_congested`).
//! 6. `ack_service`: acknowledgements of all consumers of a stream come to one service, which sorts
//!    them.
//! 7. `streams/src/consumer/acks.rs`: what the acknowledgement means. One that wants an answer gets
//!    it when the log says so (`Consumers::is_released` of the store).
//! 8. `interest`, `streams/src/stream/interest_cleanup.rs`: where retention is not `limits`, the
//!    stream asks those who want the message (`want_index`) whether they still need it, and removes
//!    it with an entry in its own log.
//!
//! Each consumer has one alarm, for whatever is due first. Making, changing and ending consumers
//! happens on the thread of the API (`manage`), which acts on the core through the same turn. The
//! core never leaves that turn; it reads its stream through a `StreamReader` and never takes the
//! stream's turn. What becomes of them as their replica begins to lead, or to follow, is in `role`.
//!
//! The index of a stream's schedules is a consumer that no client can name (`schedule_index`). It
//! is written inside of the stream's turn, so that no message can be gone before.

mod ack_service;
mod active_times;
mod advisories;
mod dead_letter_service;
mod holding;
mod interest;
pub(in crate::engine) mod left_requests;
mod lifecycle;
mod listener;
mod live;
mod log_upkeep;
mod manage;
mod own_stream;
mod replicated;
mod reserved_names;
mod role;
mod schedule_index;
mod shard_env;
mod standing;
mod unused;
mod wakeups;
mod want_index;

use super::host::Host;
use myelin_broker::{Account, Binding, Level, Service, ServiceShard};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_stdx::sync::{lock, read_lock};
use myelin_store::consumer::{AckRules, ConsumerState, Consumers, Drawn, Flushed, GroupConsumers};
use myelin_store::entropy::Entropy;
use myelin_store::{Filter, ReadError, Seq, Store, StreamReader, Timestamp, Wait};
use myelin_streams::consumer::{StateHandle, account_hash};
use myelin_streams::stream::ConsumerActivity;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use holding::Proposing;
pub(super) use interest::StreamInterest;
pub(super) use listener::LogListener;
pub use live::LiveConsumer;
pub(super) use log_upkeep::Leadership;
use log_upkeep::LogUpkeep;
pub(super) use manage::{CreateContext, refuse_limits};
pub(super) use own_stream::OwnStream;
pub(super) use replicated::ReplicatedConsumer;
pub(super) use reserved_names::{POSITION_PREFIX, is_position};
use wakeups::Wakeups;

/// The exclusive work on one consumer.
type ConsumerTurn = myelin_stdx::turn::Turn<live::ConsumerSlot, live::ConsumerWork>;

/// The pause between two slices of a log that is written anew.
const BETWEEN_SLICES: Duration = Duration::from_micros(100);
/// Consumers that go on in the flush in which their group has agreed.
const AT_ONCE: usize = 8;

/// Parts of the server that all consumers work with.
#[derive(Clone, Copy)]
pub(super) struct ServerParts<'a> {
    pub(super) domain: &'a str,
    pub(super) host: &'a Arc<dyn Host>,
    pub(super) store: &'a Arc<Store>,
    pub(super) entropy: &'a Arc<dyn Entropy>,
}

/// Consumers of a stream that was opened.
pub(in crate::engine) struct OpenedConsumers {
    /// States that its turns change.
    pub(in crate::engine) states: Consumers,
    /// States that its group has agreed to, if it is in one.
    pub(in crate::engine) applied: Option<GroupConsumers>,
}

impl OpenedConsumers {
    /// Consumers of a stream that is in no group.
    pub(in crate::engine) fn alone(states: Consumers) -> Self {
        Self { states, applied: None }
    }
}

/// Consumers of one stream, with the log and the index that they share.
pub struct StreamConsumers {
    stream: Box<str>,
    domain: Box<str>,
    account: Arc<Account>,
    host: Arc<dyn Host>,
    /// The store, while the server runs.
    store: Weak<Store>,
    entropy: Arc<dyn Entropy>,
    /// States of consumers that outlive the process. Those of the others are with `interest`.
    stored: Arc<Mutex<Consumers>>,
    live: RwLock<BTreeMap<String, Arc<LiveConsumer>>>,
    /// Their configurations, for those who decide about others.
    configs: RwLock<BTreeMap<String, Arc<ConsumerConfig>>>,
    interest: Arc<StreamInterest>,
    wakeups: Wakeups,
    log: LogUpkeep,
    /// Always the same: what meets an old binding and a new one comes once.
    ack_service: Arc<dyn Service>,
    bindings: Mutex<Vec<Arc<Binding>>>,
    of: OnceLock<Weak<dyn OwnStream>>,
    me: Weak<Self>,
}

impl StreamConsumers {
    /// The consumers that `stored` holds, none of which is open yet.
    pub(super) fn new(
        stream: &str,
        server: ServerParts<'_>,
        account: &Arc<Account>,
        stored: Consumers,
    ) -> Arc<Self> {
        let stored = Arc::new(Mutex::new(stored));
        Arc::new_cyclic(|me| Self {
            stream: stream.into(),
            domain: server.domain.into(),
            account: Arc::clone(account),
            host: Arc::clone(server.host),
            store: Arc::downgrade(server.store),
            entropy: Arc::clone(server.entropy),
            interest: Arc::new(StreamInterest::new(&stored)),
            stored,
            live: RwLock::default(),
            configs: RwLock::default(),
            wakeups: Wakeups::default(),
            log: LogUpkeep::default(),
            ack_service: ack_service::AckService::to(me),
            bindings: Mutex::default(),
            of: OnceLock::new(),
            me: Weak::clone(me),
        })
    }

    /// Belongs to this stream, and to no other one ever.
    pub(super) fn attach(&self, stream: &Arc<dyn OwnStream>) {
        let is_first = self.of.set(Arc::downgrade(stream)).is_ok();
        debug_assert!(is_first, "consumers belong to one stream");
    }

    /// The stream, once it is there.
    fn stream(&self) -> Result<Arc<dyn OwnStream>, ApiError> {
        self.of.get().and_then(Weak::upgrade).ok_or(ApiError::STREAM_NOT_FOUND)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<LiveConsumer>>> {
        read_lock(&self.live)
    }

    /// A consumer by name.
    pub fn find(&self, name: &str) -> Option<Arc<LiveConsumer>> {
        self.read().get(name).cloned()
    }

    /// All consumers, by name.
    pub fn all(&self) -> Vec<Arc<LiveConsumer>> {
        self.read().values().cloned().collect()
    }

    /// How many there are that clients have made.
    pub fn count(&self) -> usize {
        let configs = read_lock(&self.configs);
        configs.values().filter(|config| !config.direct).count()
    }

    /// How many there are that clients have made, by the replicas that they are to have.
    pub(in crate::engine) fn count_by_replicas(&self, stream: &StreamConfig) -> BTreeMap<i64, u64> {
        let mut counts = BTreeMap::new();
        for config in read_lock(&self.configs).values().filter(|config| !config.direct) {
            *counts.entry(config.replicas(stream)).or_default() += 1;
        }
        counts
    }

    /// The consumers that clients have made, with all that was applied to their states.
    pub(super) fn states(&self) -> Vec<(ConsumerConfig, ConsumerState)> {
        let mut found = Vec::new();
        for live in self.all() {
            let Some(config) = self.config(live.name()).filter(|config| !config.direct) else { continue };
            let state = live.query_soon(|core, _| {
                let state_handle = core.state_handle();
                let states = state_handle.lock();
                states.get(state_handle.id()).map(|consumer| consumer.state().clone())
            });
            if let Some(state) = state.wait().flatten() {
                found.push(((*config).clone(), state));
            }
        }
        found
    }

    /// Interest, as the stream asks for it.
    pub(super) fn interest(&self) -> &Arc<StreamInterest> {
        &self.interest
    }

    /// Whether the log of a consumer is in files.
    fn is_stored(&self, state_handle: &StateHandle) -> bool {
        state_handle.is_of(&self.stored)
    }

    /// Has what changes go to the group of the stream from here on: answers the states that its
    /// leader decides on.
    pub(in crate::engine) fn join_group(&self) -> Arc<Mutex<Consumers>> {
        self.log.join_group();
        Arc::clone(&self.stored)
    }

    /// Told of what the group's consumers do.
    pub(in crate::engine) fn activity(&self) -> Arc<dyn ConsumerActivity> {
        Arc::clone(self.log.active_times(&self.host)) as Arc<dyn ConsumerActivity>
    }

    /// States of the consumers that are stored.
    pub(in crate::engine) fn stored_states(&self) -> Arc<Mutex<Consumers>> {
        Arc::clone(&self.stored)
    }

    /// Whether a consumer changes by what its stream's group agrees to.
    ///
    /// Perf: what a turn of a consumer without a group pays for those with one.
    fn is_in_group(&self, state_handle: &StateHandle) -> bool {
        self.log.is_of_group() && self.is_stored(state_handle)
    }

    /// Leadership that a call has to know before it decides something that it
    /// [waits](Self::agreed) for.
    ///
    /// # Errors
    /// Another replica leads the group of the stream.
    pub(in crate::engine) fn leadership(&self) -> Result<Leadership, ApiError> {
        self.log.leadership()
    }

    /// Whether the stream is in a group.
    pub(in crate::engine) fn is_of_group(&self) -> bool {
        self.log.is_of_group()
    }

    /// Whether this replica leads since then.
    pub(in crate::engine) fn leads_since(&self, leadership: Leadership) -> bool {
        self.log.leads_since(leadership)
    }

    /// Waits until the group of the stream has all that consumers have decided so far, among it
    /// what was decided since `leadership` was asked for. Nothing is waited for without a group.
    ///
    /// # Errors
    /// Another replica leads, or did meanwhile: whether the group has it is not known.
    pub(in crate::engine) async fn agreed(&self, leadership: Leadership) -> Result<(), ApiError> {
        if !self.log.is_of_group() {
            return Ok(());
        }
        let position = lock(&self.stored).flush(self.host.now()).unwrap_or_default();
        self.settled_off_shard(Vec::new(), Proposing::Now);
        let outcome = || {
            let is_agreed = position.is_none_or(|position| lock(&self.stored).is_released(position));
            // In this order: numbers of another time are not those that were decided on.
            let leads = self.log.leads_since(leadership);
            if leads { is_agreed.then_some(Ok(())) } else { Some(Err(ApiError::CLUSTER_NOT_AVAIL)) }
        };
        self.log.agreements().until(outcome).await.unwrap_or(Err(ApiError::CLUSTER_NOT_AVAIL))
    }

    /// Writes what consumers have changed. Answers what must be released before it counts as
    /// stored, if that is to be known; `None`: nothing.
    fn flush(
        &self,
        state_handle: &StateHandle,
        is_awaited: bool,
        now: Timestamp,
    ) -> io::Result<Option<Flushed>> {
        if !self.is_stored(state_handle) {
            return Ok(None);
        }
        let mut states = state_handle.lock();
        // Another consumer may have written it along with its own.
        if !states.is_dirty() && !is_awaited {
            return Ok(None);
        }
        let flushed = states.flush(now)?;
        if states.checkpoint_due() {
            self.rewrite_later();
        }
        Ok(flushed)
    }

    /// Writes nothing to the log any more: the stream is being removed.
    pub(in crate::engine) fn suspend_log(&self) {
        lock(&self.stored).suspend_log();
    }

    /// Lets go of the log: the stream is gone.
    pub(in crate::engine) fn end_log(&self) {
        lock(&self.stored).end_log();
    }

    /// Goes on with the log, for the stream stays after all.
    pub(in crate::engine) fn resume_log(&self) {
        lock(&self.stored).resume_log();
        self.write_restored();
    }

    /// Writes the log anew that cannot be gone on with (it is encrypted, was torn at its end, or
    /// was let go of): here it keeps no shard waiting. What cannot be written now is written with
    /// what changes next.
    pub(in crate::engine) fn write_restored(&self) {
        let mut states = lock(&self.stored);
        if states.is_dirty()
            && let Err(error) = states.flush(self.host.now())
        {
            let what = format_args!("JetStream: consumers of '{}' were not written: {error}", self.stream);
            self.host.log(Level::Warn, what);
        }
    }

    /// Writes the log anew, if a round could not make it durable. What is written then is durable.
    pub(in crate::engine) fn write_failed(&self) -> io::Result<()> {
        let written = lock(&self.stored).flush_failed(self.host.now());
        written.map_err(|error| {
            let what = format!("consumers of stream '{} > {}': {error}", self.account.name(), self.stream);
            io::Error::new(error.kind(), what)
        })
    }

    /// Writes a consumer that was made. A log that is begun for it is there for good with
    /// [`JetStream::settle`](crate::JetStream::settle), before the answer.
    ///
    /// # Errors
    /// As [`flush_changed`](Self::flush_changed).
    fn flush_new(&self, state_handle: &StateHandle, now: Timestamp) -> io::Result<()> {
        let mut states = state_handle.lock();
        if self.is_stored(state_handle) && states.is_dirty() {
            states.flush_noted(now)?;
        }
        answerable(&states)
    }

    /// Writes that a consumer was changed or has ended, before that is answered.
    ///
    /// # Errors
    /// Of the disk; and while the stream is being removed, because it may stay, with its consumers
    /// as they were.
    fn flush_changed(&self, state_handle: &StateHandle) -> io::Result<()> {
        self.flush(state_handle, false, self.host.now())?;
        answerable(&state_handle.lock())
    }

    /// The log is mostly history: has it written anew where one may wait.
    pub(in crate::engine) fn rewrite_later(&self) {
        let Some(me) = self.me.upgrade() else { return };
        if !self.log.order_rewrite() {
            return;
        }
        self.host.spawn_backup(Box::new(move || {
            me.log.rewrite_begins();
            let is_of_group = me.log.is_of_group();
            let written = if is_of_group { me.write_image() } else { me.rewrite_log() };
            if let Err(error) = written {
                let what = format_args!(
                    "JetStream: consumers of stream '{} > {}' could not be written anew: {error}",
                    me.account.name(),
                    me.stream
                );
                me.host.log(Level::Warn, what);
            }
            let obsolete = match me.stream().ok().filter(|_| is_of_group) {
                Some(stream) => stream.take_obsolete_images(),
                None => lock(&me.stored).take_obsolete(),
            };
            if let Some(store) = me.store.upgrade() {
                for notice in store.put_away_files(obsolete) {
                    me.host.log(Level::Warn, format_args!("JetStream: {notice}"));
                }
            }
        }));
    }

    /// The group goes on meanwhile: whoever holds the stream's turn must not wait for the disk.
    fn write_image(&self) -> io::Result<()> {
        let Ok(stream) = self.stream() else { return Ok(()) };
        stream.draw_image().map_or(Ok(()), |drawn| stream.image_written(drawn.write()))
    }

    /// Consumers and schedules go on meanwhile: who holds a turn of theirs must not wait for the
    /// disk.
    fn rewrite_log(&self) -> io::Result<()> {
        let begun = {
            let mut states = lock(&self.stored);
            if !states.checkpoint_due() {
                return Ok(());
            }
            states.begin_rewrite(self.host.now())?
        };
        let Some(mut rewrite) = begun else { return Ok(()) };
        loop {
            let drawn = lock(&self.stored).draw(&mut rewrite, self.host.now())?;
            match drawn {
                // A lock is not fair by itself: without a pause, who waits for it would wait for
                // all slices.
                Drawn::More => std::thread::sleep(BETWEEN_SLICES),
                Drawn::Whole => break,
                Drawn::Overtaken => return Ok(()),
            }
        }
        let file = rewrite.write();
        lock(&self.stored).finish_rewrite(rewrite, file, self.host.now()).map(drop)
    }

    /// A consumer has something to say when the log is released.
    fn await_release(&self, consumer: &Weak<LiveConsumer>) {
        self.log.await_release(consumer);
    }

    /// The log may have been released, or proposals be committed.
    pub(in crate::engine) fn log_released(&self) {
        self.log.take_waiting().iter().for_each(|consumer| consumer.wake());
        self.wake_calls();
    }

    /// As [`log_released`](Self::log_released), on a shard: consumers go on in this flush, without
    /// another thread in between. Where many have waited others take their part.
    pub(in crate::engine) fn log_released_on(&self, shard: &mut ServiceShard) {
        for (at, consumer) in self.log.take_waiting().into_iter().enumerate() {
            if at < AT_ONCE {
                shard.wake(&(consumer as Arc<dyn Service>));
            } else {
                consumer.wake();
            }
        }
        self.wake_calls();
    }

    /// Has calls look that wait until the group has agreed.
    fn wake_calls(&self) {
        if self.log.is_of_group() {
            self.log.agreements().wake();
        }
    }

    /// A consumer needs messages no more, or has decided something that the group has to agree to.
    fn settled(&self, seqs: Vec<Seq>, proposing: Proposing, shard: &mut ServiceShard) {
        let Ok(stream) = self.stream() else { return };
        if !seqs.is_empty() {
            stream.acknowledged(seqs, shard);
        }
        match proposing {
            Proposing::Never => {}
            Proposing::Later | Proposing::MuchLater => stream.propose_within(proposing.gathered()),
            Proposing::Now => stream.propose(shard),
        }
    }

    /// As [`settled`](Self::settled), on a thread that may wait.
    fn settled_off_shard(&self, seqs: Vec<Seq>, proposing: Proposing) {
        let Ok(stream) = self.stream() else { return };
        if !seqs.is_empty() {
            stream.acknowledged_off_shard(seqs);
        }
        match proposing {
            Proposing::Never => {}
            Proposing::Later | Proposing::MuchLater => stream.propose_within(proposing.gathered()),
            Proposing::Now => stream.propose_soon(),
        }
    }

    /// Keeps something under a name that no consumer can have, in the log of consumers; `None`: no
    /// longer. The write is the system's when this returns.
    ///
    /// # Errors
    /// It is kept in memory alone: the next write that succeeds writes it, too.
    pub(super) fn note_position(&self, name: &str, rules: AckRules, blob: Option<&[u8]>) -> io::Result<()> {
        let now = self.host.now();
        let mut states = lock(&self.stored);
        let noted = match (states.find(name), blob) {
            (Some(id), Some(blob)) => states.update(id, rules, blob),
            (None, Some(blob)) => states.create(name, rules, blob).map(drop),
            (Some(id), None) => states.remove(id).map(drop),
            (None, None) => Ok(()),
        };
        let flushed = states.flush(now);
        if states.checkpoint_due() {
            drop(states);
            self.rewrite_later();
        }
        noted.map_err(io::Error::other)?;
        flushed.map(drop)
    }

    /// Tells the operator when positions can no longer be written, and when they can again.
    pub(super) fn report_position_writes(&self, noted: &io::Result<()>) {
        if !self.log.note_write(noted.is_err()) {
            return;
        }
        let stream = format_args!("JetStream stream '{} > {}'", self.account.name(), self.stream);
        match noted {
            Ok(()) => {
                self.host.log(Level::Info, format_args!("{stream} notes again how far its sources are"))
            }
            Err(error) => self.host.log(
                Level::Error,
                format_args!(
                    "{stream} cannot note how far its sources are: {error}. After a crash they are looked \
                     for in its messages"
                ),
            ),
        }
    }

    /// Values under names with this prefix, as far as `read` understands them, by the rest of the
    /// names.
    pub(super) fn positions<T>(&self, prefix: &str, read: impl Fn(&[u8]) -> Option<T>) -> Vec<(String, T)> {
        let states = lock(&self.stored);
        let kept = states.iter().filter_map(|(_, kept)| {
            let name = kept.name().strip_prefix(prefix)?;
            Some((name.to_owned(), read(kept.config())?))
        });
        kept.collect()
    }

    /// The log of those that outlive the process, with the store that it is in. `None`: the server
    /// is ending.
    pub(super) fn log(&self) -> Option<(&Mutex<Consumers>, Arc<Store>)> {
        Some((&self.stored, self.store.upgrade()?))
    }

    /// A number that nobody can guess.
    fn seed(&self) -> u64 {
        let mut seed = [0; 8];
        self.entropy.fill(&mut seed);
        u64::from_le_bytes(seed)
    }

    /// Brings into memory what a consumer reads next; it goes on then.
    fn warm(&self, filter: Filter, seq: Seq, consumer: Arc<LiveConsumer>) {
        let Ok(stream) = self.stream() else { return };
        let reader: StreamReader = stream.reader();
        self.host.spawn_read(Box::new(move || {
            // What is damaged is told when it is read in earnest. What is delivered again, or last
            // of its subject, need not pass the filter.
            let read = reader.get(seq, Wait::Allowed, &mut Vec::new()).map(drop);
            let next = reader.warm(&filter, seq);
            let has_failed = [read.as_ref().err(), next.as_ref().err()]
                .into_iter()
                .flatten()
                .any(|error| matches!(error, ReadError::Io(_)));
            let next = next.ok();
            consumer.act(move |core, turn| {
                core.warmed(seq, next);
                if has_failed {
                    core.hold_reads(turn.now);
                }
            });
        }));
    }

    /// The stream was opened anew.
    pub(super) fn set_reader(&self, reader: &StreamReader) {
        for consumer in self.all() {
            let reader = reader.clone();
            consumer.act(move |core, _| core.set_reader(reader));
        }
    }

    /// Receives acknowledgements and answers to flow control, once there are consumers.
    fn bind(&self) {
        let mut bindings = lock(&self.bindings);
        if !bindings.is_empty() {
            return;
        }
        let stream = &self.stream;
        let domain = if self.domain.is_empty() { "_" } else { &*self.domain };
        let account = account_hash(self.account.name());
        let subjects = [
            format!("$JS.ACK.{stream}.>"),
            format!("$JS.ACK.{domain}.{account}.{stream}.>"),
            format!("$JS.FC.{stream}.>"),
        ];
        let bind = |subject: &String| self.account.bind(subject.as_bytes(), Arc::clone(&self.ack_service));
        bindings.extend(subjects.iter().map(bind));
    }

    /// Receives nothing any more.
    pub(super) fn unbind(&self) {
        std::mem::take(&mut *lock(&self.bindings)).iter().for_each(|binding| self.account.unbind(binding));
    }
}

/// Whether what was flushed is in the log, so that it may be answered for.
fn answerable(states: &Consumers) -> io::Result<()> {
    if states.is_suspended() { Err(io::Error::other("the stream is being removed")) } else { Ok(()) }
}
