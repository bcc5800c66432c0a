//! The consumers of one stream: which there are, what they share, and how their stream's news reach them.
//!
//! Owns the log of their states and the index of their filters. Consumers have turns of their own; nothing here takes one for
//! longer than a look.

mod ack_service;
mod interest;
mod listener;
mod live;
mod manage;
mod schedules;
mod told;
mod wakeups;

use super::host::Host;
use super::live::lock;
use super::{JetStream, LiveStream, sourcing};
use crate::consumer::config::ConsumerConfig;
use crate::consumer::{Record, account_hash};
use crate::error::ApiError;
use myelin_broker::{Account, Binding, Level, Service, Shard};
use myelin_store::consumer::{ConsumerState, Consumers, Drawn, Flushed, Rules};
use myelin_store::{Done, Filter, Job, Reader, Seq, Timestamp};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Release},
};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

pub(super) use interest::StreamInterest;
pub(super) use listener::LogListener;
pub use live::LiveConsumer;
pub(super) use manage::CreateContext;
use wakeups::Wakeups;

/// The pause between two slices of a log that is written anew.
const BETWEEN_SLICES: Duration = Duration::from_micros(100);

/// See the head of this file.
pub struct StreamConsumers {
    stream: Box<str>,
    domain: Box<str>,
    account: Arc<Account>,
    host: Arc<dyn Host>,
    jetstream: Weak<JetStream>,
    /// Those that outlive the process, and those that need not.
    stored: Arc<Mutex<Consumers>>,
    volatile: Arc<Mutex<Consumers>>,
    live: RwLock<BTreeMap<String, Arc<LiveConsumer>>>,
    /// Their configurations, for those who decide about others.
    configs: RwLock<BTreeMap<String, Arc<ConsumerConfig>>>,
    interest: Arc<StreamInterest>,
    news: Wakeups,
    /// Consumers that have something to say when the log is released.
    unreleased: Mutex<Vec<Weak<LiveConsumer>>>,
    has_unreleased: AtomicBool,
    /// Whether a position could not be written.
    has_unwritten: AtomicBool,
    /// Whether it is asked for already that the log is written anew.
    is_tidying: AtomicBool,
    /// Always the same: what meets an old binding and a new one comes once.
    door: Arc<dyn Service>,
    bindings: Mutex<Vec<Arc<Binding>>>,
    of: Mutex<Weak<LiveStream>>,
    me: Weak<Self>,
}

impl StreamConsumers {
    /// The consumers that `stored` holds, none of which is open yet.
    pub(super) fn new(
        stream: &str,
        jetstream: &Arc<JetStream>,
        account: &Arc<Account>,
        stored: Consumers,
    ) -> Arc<Self> {
        let (stored, volatile) = (Arc::new(Mutex::new(stored)), Arc::new(Mutex::new(Consumers::in_memory())));
        Arc::new_cyclic(|me| Self {
            stream: stream.into(),
            domain: jetstream.settings.domain.as_str().into(),
            account: Arc::clone(account),
            host: Arc::clone(&jetstream.host),
            jetstream: Arc::downgrade(jetstream),
            interest: Arc::new(StreamInterest::new(&stored, &volatile)),
            stored,
            volatile,
            live: RwLock::default(),
            configs: RwLock::default(),
            news: Wakeups::default(),
            unreleased: Mutex::default(),
            has_unreleased: AtomicBool::new(false),
            has_unwritten: AtomicBool::new(false),
            is_tidying: AtomicBool::new(false),
            door: ack_service::AckService::to(me),
            bindings: Mutex::default(),
            of: Mutex::default(),
            me: Weak::clone(me),
        })
    }

    /// Belongs to this stream from now on.
    pub(super) fn attach(&self, stream: &Arc<LiveStream>) {
        *lock(&self.of) = Arc::downgrade(stream);
    }

    /// The stream, once it is there.
    fn stream(&self) -> Result<Arc<LiveStream>, ApiError> {
        lock(&self.of).upgrade().ok_or(ApiError::STREAM_NOT_FOUND)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<LiveConsumer>>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
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
        let configs = self.configs.read().unwrap_or_else(PoisonError::into_inner);
        configs.values().filter(|config| !config.direct).count()
    }

    /// The consumers that clients have made, with all that was applied to their states.
    pub(super) fn states(&self) -> Vec<(ConsumerConfig, ConsumerState)> {
        let mut found = Vec::new();
        for live in self.all() {
            let Some(config) = self.config(live.name()).filter(|config| !config.direct) else { continue };
            let state = live.ask(|core, _| {
                let record = core.record();
                let states = record.lock();
                states.get(record.id()).map(|consumer| consumer.state().clone())
            });
            if let Some(state) = state.flatten() {
                found.push(((*config).clone(), state));
            }
        }
        found
    }

    /// What the stream asks about interest.
    pub(super) fn interest(&self) -> &Arc<StreamInterest> {
        &self.interest
    }

    /// Whether the log of a consumer is in files.
    fn is_stored(&self, record: &Record) -> bool {
        record.is_of(&self.stored)
    }

    /// Writes what consumers have changed. Answers what must be released before it counts as stored, if that is to be known;
    /// `None`: nothing.
    fn flush(&self, record: &Record, is_awaited: bool, now: Timestamp) -> io::Result<Option<Flushed>> {
        if !self.is_stored(record) {
            return Ok(None);
        }
        let mut states = record.lock();
        // Another consumer may have written it along with its own.
        if !states.is_dirty() && !is_awaited {
            return Ok(None);
        }
        let flushed = states.flush(now)?;
        if states.checkpoint_due() {
            self.tidy_later();
        }
        Ok(flushed)
    }

    /// The log is mostly history: has it written anew where one may wait.
    fn tidy_later(&self) {
        let Some(me) = self.me.upgrade() else { return };
        if self.is_tidying.swap(true, AcqRel) {
            return;
        }
        self.host.haul(Box::new(move || {
            me.is_tidying.store(false, Release);
            if me.stream().map_or(true, |stream| stream.is_gone()) {
                return;
            }
            if let Err(error) = me.write_anew() {
                let what = format_args!(
                    "JetStream: consumers of stream '{} > {}' could not be written anew: {error}",
                    me.account.name(),
                    me.stream
                );
                me.host.log(Level::Warn, what);
            }
            if let Some(jetstream) = me.jetstream.upgrade() {
                for notice in jetstream.store.put_away(&mut lock(&me.stored)) {
                    me.host.log(Level::Warn, format_args!("JetStream: {notice}"));
                }
            }
        }));
    }

    /// Consumers and schedules go on meanwhile: who holds a turn of theirs must not wait for the disk.
    fn write_anew(&self) -> io::Result<()> {
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
                // A lock is not fair by itself: without a pause, who waits for it would wait for all slices.
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
        lock(&self.unreleased).push(Weak::clone(consumer));
        self.has_unreleased.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    /// The log may have been released.
    fn log_released(&self) {
        if self.has_unreleased.swap(false, AcqRel) {
            for consumer in std::mem::take(&mut *lock(&self.unreleased)).iter().filter_map(Weak::upgrade) {
                consumer.wake();
            }
        }
    }

    /// A consumer needs messages no more.
    fn settled(&self, seqs: Vec<Seq>, shard: &mut Shard) {
        if let Ok(stream) = self.stream() {
            stream.acknowledged(seqs, shard);
        }
    }

    /// The same on a thread that may wait.
    fn settled_elsewhere(&self, seqs: Vec<Seq>) {
        if let Ok(stream) = self.stream() {
            stream.acknowledged_elsewhere(seqs);
        }
    }

    /// Keeps something under a name that no consumer can have, in the log of consumers; `None`: no longer. The write is the
    /// system's when this returns.
    ///
    /// # Errors
    /// It is kept in memory alone: the next write that succeeds writes it, too.
    pub(super) fn note_position(&self, name: &str, rules: Rules, blob: Option<&[u8]>) -> io::Result<()> {
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
            self.tidy_later();
        }
        noted.map_err(io::Error::other)?;
        flushed.map(drop)
    }

    /// Tells the operator when positions can no longer be written, and when they can again.
    pub(super) fn tell_of_positions(&self, noted: &io::Result<()>) {
        if self.has_unwritten.swap(noted.is_err(), AcqRel) == noted.is_err() {
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

    /// What is kept under names with this prefix, as far as `read` understands it, by the rest of the names.
    pub(super) fn positions<T>(&self, prefix: &str, read: impl Fn(&[u8]) -> Option<T>) -> Vec<(String, T)> {
        let states = lock(&self.stored);
        let kept = states.iter().filter_map(|(_, kept)| {
            let name = kept.name().strip_prefix(prefix)?;
            Some((name.to_owned(), read(kept.config())?))
        });
        kept.collect()
    }

    /// Does a job of the stream. Only for threads that may wait. `None`: the server is ending.
    pub(super) fn upkeep(&self, job: Job) -> Option<Done> {
        let jetstream = self.jetstream.upgrade()?;
        Some(sourcing::upkeep(job, &self.stored, jetstream.journal(), self.host.now()))
    }

    /// What a consumer reads next is brought into memory, and the consumer goes on then.
    fn warm(&self, filter: Filter, seq: Seq, consumer: Arc<LiveConsumer>) {
        let Ok(stream) = self.stream() else { return };
        let reader: Reader = stream.reader();
        self.host.read(Box::new(move || {
            // What cannot be read is told when it is read in earnest.
            let next = reader.warm(&filter, seq).ok().flatten();
            consumer.act(move |core, _| core.warmed(seq, next));
        }));
    }

    /// The stream was opened anew.
    pub(super) fn set_reader(&self, reader: &Reader) {
        for consumer in self.all() {
            let reader = reader.clone();
            consumer.act(move |core, _| core.set_reader(reader));
        }
    }

    /// Receives acknowledgements and answers to flow control.
    pub(super) fn bind(&self) {
        let stream = &self.stream;
        let domain = if self.domain.is_empty() { "_" } else { &*self.domain };
        let account = account_hash(self.account.name());
        let subjects = [
            format!("$JS.ACK.{stream}.>"),
            format!("$JS.ACK.{domain}.{account}.{stream}.>"),
            format!("$JS.FC.{stream}.>"),
        ];
        let bind = |subject: &String| self.account.bind(subject.as_bytes(), Arc::clone(&self.door));
        let old = std::mem::replace(&mut *lock(&self.bindings), subjects.iter().map(bind).collect());
        old.iter().for_each(|binding| self.account.unbind(binding));
    }

    /// Receives nothing any more.
    pub(super) fn unbind(&self) {
        std::mem::take(&mut *lock(&self.bindings)).iter().for_each(|binding| self.account.unbind(binding));
    }
}
