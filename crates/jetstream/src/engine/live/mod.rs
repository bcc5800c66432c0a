//! A stream that is open: its core inside a turn, and how work gets there.
//!
//! Publishing shards bring buffers and work them off themselves if the turn is free (house.md 3.2). What a thread that may
//! wait wants of the core (delete, update, purge: anything that touches files for long), it does with the core in its own
//! hands: [`LiveStream::borrow`]. Meanwhile publishes gather in the inbox. What a turn wants from others are effects,
//! which happen after it (3.3).

mod core_guard;
mod lost;
mod news;
mod repair;
mod turn;

use super::consumers::StreamConsumers;
use super::direct::DirectGets;
use super::host::Host;
use super::ordered_outbox::OrderedOutbox;
use super::sourcing::{Followers, Sourcing, identity};
use crate::api::info::{SourceInfo, StreamState};
use crate::config::{Storage, StreamConfig};
use crate::read::{Readable, contents};
use crate::stream::{StreamCore, refuse_overload};
use myelin_broker::{Account, Binding, MessageBuf, MessageRef, Role, Service, Shard, Traced};
use myelin_stdx::turn::Turn;
use myelin_store::{Lost, OnRelease, Reader, Seq, StreamId, Ticket, Timestamp};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use turn::{CoreSlot, TurnResult, Work};

pub use core_guard::CoreGuard;

/// What may wait for a stream before publishers are refused.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Messages.
    pub messages: usize,
    /// Bytes of all their parts.
    pub bytes: usize,
}

/// What is the same for all streams of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server<'a> {
    pub(super) name: &'a str,
    pub(super) id: &'a str,
    pub(super) domain: &'a str,
    pub(super) backlog: Backlog,
    pub(super) max_pending: i64,
}

/// See the head of this file.
pub struct LiveStream {
    name: Box<str>,
    domain: Box<str>,
    server_name: Box<str>,
    server_id: Box<str>,
    created: Timestamp,
    account: Arc<Account>,
    host: Arc<dyn Host>,
    backlog: Backlog,
    turn: Turn<CoreSlot, Work>,
    /// The core on its way back from a borrower.
    returned: Mutex<Option<Box<StreamCore>>>,
    config: Mutex<Arc<StreamConfig>>,
    reader: Mutex<Reader>,
    bindings: Mutex<Vec<Arc<Binding>>>,
    direct: Arc<DirectGets>,
    consumers: Arc<StreamConsumers>,
    /// The streams that it copies, and those that copy it.
    origins: Sourcing,
    followers: Followers,
    outbox: OrderedOutbox,
    /// Why the stream takes no messages, and whether it was opened anew before.
    failure: Mutex<Option<String>>,
    /// What was missing when its log was opened.
    lost: Mutex<Vec<Lost>>,
    /// When the host will wake it; `i64::MAX`: never.
    alarm: AtomicI64,
    /// Whether a wake-up is on its way or in the inbox.
    is_woken: AtomicBool,
    /// Whether a look is in the inbox.
    has_look: AtomicBool,
    /// Whether the stream was deleted.
    is_gone: AtomicBool,
    waiting: Waiting,
    /// Publishes that wait for what they count on from, and those behind them.
    held_up: Mutex<VecDeque<MessageBuf>>,
    /// When the last advisory about lost messages was.
    last_loss: AtomicI64,
    /// When the last advisory about a full disk was.
    last_full: AtomicI64,
    /// Whether messages were lost that no advisory has told of.
    has_untold: AtomicBool,
    /// When the stream was last opened anew.
    last_repair: Mutex<Option<Instant>>,
    /// When that is to be tried again, and how often it was in vain.
    repair_at: AtomicI64,
    tries: AtomicUsize,
    /// When the last warning about messages that found no room was.
    last_warning: AtomicI64,
    me: Weak<Self>,
}

/// What is in the inbox.
#[derive(Default)]
struct Waiting {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    /// Messages without a reply subject that found no room, and are not counted yet.
    lost: AtomicU64,
}

impl Waiting {
    fn add(&self, msgs: &MessageBuf) {
        self.bytes.fetch_add(msgs.bytes(), Relaxed);
        self.messages.fetch_add(msgs.len(), Relaxed);
    }

    fn forget(&self, msgs: &MessageBuf) {
        self.bytes.fetch_sub(msgs.bytes(), Relaxed);
        self.messages.fetch_sub(msgs.len(), Relaxed);
    }
}

impl LiveStream {
    /// Takes a stream's core into service. Nothing reaches it before [`LiveStream::bind`].
    pub(super) fn new(
        name: &str,
        created: Timestamp,
        core: StreamCore,
        account: &Arc<Account>,
        host: &Arc<dyn Host>,
        consumers: &Arc<StreamConsumers>,
        server: Server<'_>,
    ) -> Arc<Self> {
        let Server { backlog, domain, max_pending, .. } = server;
        let readable = Readable { name: name.into(), reader: core.reader(), max_bytes: max_pending };
        Arc::new_cyclic(|me| Self {
            name: name.into(),
            created,
            account: Arc::clone(account),
            host: Arc::clone(host),
            backlog,
            config: Mutex::new(Arc::clone(core.config())),
            reader: Mutex::new(core.reader()),
            turn: Turn::new(CoreSlot::Here(Box::new(core))),
            returned: Mutex::new(None),
            bindings: Mutex::default(),
            direct: DirectGets::new(account, host, readable),
            consumers: Arc::clone(consumers),
            origins: Sourcing::default(),
            followers: Followers::default(),
            domain: domain.into(),
            server_name: server.name.into(),
            server_id: server.id.into(),
            outbox: OrderedOutbox::default(),
            failure: Mutex::default(),
            lost: Mutex::default(),
            alarm: AtomicI64::new(i64::MAX),
            is_woken: AtomicBool::new(false),
            has_look: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            waiting: Waiting::default(),
            held_up: Mutex::default(),
            last_loss: AtomicI64::new(0),
            last_full: AtomicI64::new(0),
            has_untold: AtomicBool::new(false),
            last_repair: Mutex::default(),
            repair_at: AtomicI64::new(0),
            tries: AtomicUsize::new(0),
            last_warning: AtomicI64::new(0),
            me: Weak::clone(me),
        })
    }

    /// The stream's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose it is.
    pub(super) fn account_name(&self) -> &str {
        self.account.name()
    }

    /// When it was created.
    pub fn created(&self) -> Timestamp {
        self.created
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<StreamConfig> {
        Arc::clone(&lock(&self.config))
    }

    /// Who reads it.
    pub fn consumers(&self) -> &Arc<StreamConsumers> {
        &self.consumers
    }

    /// Whose it is.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(super) fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// What it copies.
    pub(super) fn origins(&self) -> &Sourcing {
        &self.origins
    }

    /// Who copies it.
    pub(super) fn followers(&self) -> &Followers {
        &self.followers
    }

    /// What tells it from another stream of its name.
    pub(super) fn identity(&self) -> String {
        identity(self.created)
    }

    /// How far its mirror is, and its sources.
    pub fn origins_info(&self) -> (Option<SourceInfo>, Vec<SourceInfo>) {
        self.origins.info(&self.config())
    }

    /// Whether it was deleted.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Acquire)
    }

    /// The last message that can be read.
    pub(super) fn released(&self) -> Seq {
        lock(&self.reader).release().seq()
    }

    /// Tells consumers what can be read now.
    fn tell_consumers(&self, mut shard: Option<&mut Shard>) {
        let reader = self.reader();
        self.consumers.tell(reader.release().seq(), &reader, shard.as_deref_mut());
        // Behind the fence of what came before.
        self.followers.tell(shard);
    }

    /// A reader of what is released.
    pub fn reader(&self) -> Reader {
        lock(&self.reader).clone()
    }

    /// What it holds, as the API shows it, with the sequences of removed messages if asked for.
    pub fn state(&self, with_deleted: bool) -> StreamState {
        let contents = contents(&self.reader(), with_deleted);
        // Compat: a stream that never had a message nor another first sequence begins at 0.
        let is_fresh = contents.last_seq == 0;
        StreamState {
            messages: contents.messages,
            bytes: contents.bytes,
            first_seq: if is_fresh { 0 } else { contents.first_seq },
            first_ts: contents.first_time.unwrap_or(0),
            last_seq: contents.last_seq,
            last_ts: contents.last_time.unwrap_or(0),
            num_subjects: contents.subjects,
            num_deleted: contents.num_deleted,
            consumer_count: self.consumers.count() as u64,
            deleted: contents.deleted.into_iter().flatten().collect(),
            lost: self.lost(),
            ..StreamState::default()
        }
    }

    /// Whether it has files.
    pub fn is_stored(&self) -> bool {
        lock(&self.config).storage == Storage::File
    }

    /// Why it takes no messages any more, if it does not.
    pub fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Messages that wait for the holder of the turn, for monitoring.
    pub fn waiting(&self) -> usize {
        self.waiting.messages.load(Relaxed)
    }

    /// Receives what its subjects match from now on, and nothing else.
    pub(super) fn bind(&self) {
        let config = self.config();
        let Some(me) = self.me.upgrade() else { return };
        let service: Arc<dyn Service> = me;
        let bind =
            |subject: &str, to: &Arc<dyn Service>| self.account.bind(subject.as_bytes(), Arc::clone(to));
        // What the account imports comes in, too.
        let listen = |subject: &String| self.account.listen(subject.as_bytes(), Arc::clone(&service));
        let mut new: Vec<_> = config.subjects.iter().map(listen).collect();
        if config.allow_direct {
            let direct: Arc<dyn Service> = Arc::clone(&self.direct) as Arc<dyn Service>;
            new.extend(self.direct_subjects(&self.name).iter().map(|subject| bind(subject, &direct)));
        }
        // The old ones go when the new ones are there: no message may fall between. One that meets both is for one
        // service, which is called once.
        let old = std::mem::replace(&mut *lock(&self.bindings), new);
        old.iter().for_each(|binding| self.account.unbind(binding));
    }

    /// Answers direct gets that are for its origin, as a mirror may.
    pub(super) fn bind_as_mirror(&self, origin: &str) -> Vec<Arc<Binding>> {
        let direct: Arc<dyn Service> = Arc::clone(&self.direct) as Arc<dyn Service>;
        let bind = |subject: &String| self.account.bind(subject.as_bytes(), Arc::clone(&direct));
        self.direct_subjects(origin).iter().map(bind).collect()
    }

    /// Where direct gets from `stream` are asked for.
    fn direct_subjects(&self, stream: &str) -> Vec<String> {
        let mut prefixes = vec!["$JS.API".to_owned()];
        if !self.domain.is_empty() {
            prefixes.push(format!("$JS.{}.API", self.domain));
        }
        let both = |prefix: &String| {
            let subject = format!("{prefix}.DIRECT.GET.{stream}");
            [format!("{subject}.>"), subject]
        };
        prefixes.iter().flat_map(both).collect()
    }

    /// Receives nothing any more.
    pub(super) fn unbind(&self) {
        std::mem::take(&mut *lock(&self.bindings)).iter().for_each(|binding| self.account.unbind(binding));
    }

    /// Whether a message of so many bytes may still wait: with what the stream has to say and could not say yet.
    fn has_room(&self, bytes: usize) -> bool {
        self.waiting.messages.load(Relaxed) < self.backlog.messages
            && self.waiting.bytes.load(Relaxed) + self.outbox.bytes() + bytes <= self.backlog.bytes
    }

    /// Leaves messages for the holder of the turn, and works them off if there is none.
    /// `out`: memory for what there is to say.
    fn publish(&self, msgs: MessageBuf, out: MessageBuf) -> TurnResult {
        self.waiting.add(&msgs);
        self.submit(Work::Publish(msgs), out)
    }

    /// The same for messages that may not all find room.
    #[cold]
    fn publish_what_fits(&self, msgs: &MessageBuf) -> TurnResult {
        let (mut taken, mut refused) = (MessageBuf::default(), MessageBuf::default());
        let mut dropped = 0;
        for (at, msg) in msgs.iter().enumerate() {
            let MessageRef { subject, reply, headers, payload, .. } = msg;
            if self.has_room(subject.len() + reply.len() + headers.len() + payload.len()) {
                taken.push_traced(msg, msgs.trace(at));
                continue;
            }
            msgs.trace(at).into_iter().for_each(|trace| self.give_up_trace(trace, "too many requests"));
            if reply.is_empty() {
                dropped += 1;
            } else {
                refuse_overload(&self.name, reply, &mut refused);
            }
        }
        self.warn_of_overload();
        if dropped > 0 {
            // Whoever has the turn next counts them; somebody will have it.
            self.waiting.lost.fetch_add(dropped, Relaxed);
            self.wake();
        }
        let mut after =
            if taken.is_empty() { TurnResult::default() } else { self.publish(taken, MessageBuf::default()) };
        after.has_letters |= self.outbox.add(&mut refused);
        after
    }
}

impl LiveStream {
    /// Ends traces of messages that the stream does not look at.
    #[cold]
    fn give_up_traces(&self, msgs: &MessageBuf) {
        msgs.traces().for_each(|trace| self.give_up_trace(trace, "stream closed"));
    }

    fn give_up_trace(&self, traced: &Traced, why: &str) {
        if traced.settled(Err(why.to_owned())) {
            self.host.wake(Arc::clone(traced.trace()) as Arc<dyn Service>);
        }
    }
}

impl Service for LiveStream {
    fn role(&self) -> Role<'_> {
        Role::Stream(&self.name)
    }

    fn serve(&self, msgs: &mut MessageBuf, shard: &mut Shard) {
        if msgs.is_empty() || self.is_woken.load(Acquire) {
            // A wake-up may come with messages.
            let after = self.look();
            self.deliver(after, shard);
        }
        if msgs.is_empty() {
            return;
        }
        let after = if self.has_room(msgs.bytes()) {
            self.publish(std::mem::take(msgs), shard.spare_buf())
        } else {
            self.publish_what_fits(msgs)
        };
        let spare = self.deliver(after, shard);
        if msgs.is_empty() {
            *msgs = spare;
        }
    }

    fn flushed(&self, shard: &mut Shard) {
        if self.outbox.flushed() {
            self.send_letters(shard);
        }
    }
}

/// Tells a stream that a round has released what waits: a wake-up, whatever the number of batches.
pub(super) struct Listener(pub(super) Mutex<Weak<LiveStream>>);

impl OnRelease for Listener {
    fn released(&self, _: StreamId, _: Seq, _: Ticket) {
        self.wake();
    }

    fn failed(&self, _: StreamId, _: &str) {
        self.wake();
    }
}

impl Listener {
    fn wake(&self) {
        if let Some(stream) = lock(&self.0).upgrade() {
            stream.wake();
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
