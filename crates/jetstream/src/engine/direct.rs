//! Direct gets of one stream: answered on the shard that they came to, without the stream's turn.
//!
//! What is in memory is answered at once. An answer of many messages goes on slice by slice, so that the shard can write
//! what it has; what has to be read from the device goes on with a thread that may wait; what is not released yet waits
//! for the stream to say so.

use super::host::Host;
use super::live::lock;
use crate::read::{Batch, Progress, Readable, Requests, refuse};
use myelin_broker::{Account, MessageBuf, Service, Shard};
use myelin_store::{Ticket, Wait};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

/// Bytes of one slice of an answer.
const SLICE: usize = 128 * 1024;

/// Bytes of answers after which a shard sends them before it looks at more requests.
const TURN: usize = 512 * 1024;

/// See the head of this file.
pub struct DirectGets {
    account: Arc<Account>,
    host: Arc<dyn Host>,
    stream: Mutex<Readable>,
    /// Scratch; whoever finds it taken has its own.
    requests: Mutex<Requests>,
    /// Answers that wait for a message to be released.
    unreleased: Mutex<Vec<Batch>>,
    /// Whether an answer waits for a release.
    has_releases: AtomicBool,
    me: Weak<Self>,
}

/// Direct gets that are not done with. What comes of them must not overtake on another shard what there is already, and so
/// waits for the flush of the shard that sent it.
struct Rest {
    direct: Arc<DirectGets>,
    left: Mutex<Option<Left>>,
    me: Weak<Self>,
}

/// What is left.
enum Left {
    /// An answer that goes on here.
    Answer(Batch),
    /// An answer that goes on where one may wait.
    Cold(Batch),
    /// A slice that comes from there, and what is behind it.
    Slice(MessageBuf, Progress, Batch),
    /// Requests that were too many for one turn.
    Requests(MessageBuf),
}

impl Rest {
    fn of(direct: &Arc<DirectGets>, left: Left) -> Arc<Self> {
        let (direct, left) = (Arc::clone(direct), Mutex::new(Some(left)));
        Arc::new_cyclic(|me| Self { direct, left, me: Weak::clone(me) })
    }
}

impl Service for Rest {
    fn serve(&self, _: &mut MessageBuf, shard: &mut Shard) {
        let mut out = MessageBuf::default();
        match lock(&self.left).take() {
            Some(Left::Answer(batch)) => self.direct.go_on(batch, &mut out, shard),
            Some(Left::Slice(slice, progress, batch)) => {
                out = slice;
                self.direct.see_to(batch, progress, None, shard);
            }
            Some(Left::Requests(msgs)) => self.direct.ask(&msgs, shard),
            Some(Left::Cold(batch)) => self.direct.read_later(batch, shard),
            None => {}
        }
        self.direct.say(&mut out, shard);
    }

    fn flushed(&self, shard: &mut Shard) {
        let mut left = lock(&self.left);
        if let Some(Left::Cold(_)) = *left {
            if let Some(Left::Cold(batch)) = left.take() {
                drop(left);
                self.direct.read_later(batch, shard);
            }
        } else if let Some(me) = self.me.upgrade() {
            shard.wake(&(me as Arc<dyn Service>));
        }
    }
}

impl DirectGets {
    pub(super) fn new(account: &Arc<Account>, host: &Arc<dyn Host>, stream: Readable) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            account: Arc::clone(account),
            host: Arc::clone(host),
            stream: Mutex::new(stream),
            requests: Mutex::default(),
            unreleased: Mutex::default(),
            has_releases: AtomicBool::new(false),
            me: Weak::clone(me),
        })
    }

    /// Reads from another reader from now on.
    pub(super) fn set_reader(&self, reader: myelin_store::Reader) {
        lock(&self.stream).reader = reader;
    }

    /// More of the stream is released: answers that waited for it are gone on with.
    pub(super) fn released(&self) {
        if self.has_releases.swap(false, AcqRel)
            && let Some(me) = self.me.upgrade()
        {
            let stream = lock(&self.stream).clone();
            for mut batch in std::mem::take(&mut *lock(&self.unreleased)) {
                // The stream may have been opened anew. Nothing of the answer was sent yet.
                batch.set_stream(stream.clone());
                self.host.wake(Rest::of(&me, Left::Answer(batch)));
            }
        }
    }

    /// Adds one slice of an answer to `out` and sees to the rest.
    fn go_on(&self, mut batch: Batch, out: &mut MessageBuf, shard: &mut Shard) {
        let seen = self.released_so_far();
        let progress = batch.fill(out, SLICE, Wait::Forbidden);
        self.see_to(batch, progress, Some(seen), shard);
    }

    /// `seen`: what was released when the slice was made here. `None`: it comes from a thread that may wait, and so does
    /// the next one.
    fn see_to(&self, batch: Batch, progress: Progress, seen: Option<Ticket>, shard: &mut Shard) {
        let Some(me) = self.me.upgrade() else { return };
        match (progress, seen) {
            (Progress::Done, _) => {}
            // Nobody listens any more.
            _ if !self.account.has_interest(batch.reply()) => {}
            (Progress::More, Some(_)) => shard.after_flush(Rest::of(&me, Left::Answer(batch))),
            (Progress::More | Progress::Waits, _) => shard.after_flush(Rest::of(&me, Left::Cold(batch))),
            (Progress::Unreleased, seen) => self.await_release(batch, seen.unwrap_or(Ticket(0))),
        }
    }

    /// Where too many reads wait already, who asked is told so: clients may ask as often as they like.
    fn read_later(&self, batch: Batch, shard: &mut Shard) {
        let Some(me) = self.me.upgrade() else { return };
        let reply = batch.reply().to_vec();
        if !self.host.try_read(Box::new(move || me.read(batch))) {
            let mut out = MessageBuf::default();
            refuse(&mut out, &reply);
            self.say(&mut out, shard);
        }
    }

    /// Makes the next slice of an answer on a thread that may wait; a shard sends it and asks for the one behind it.
    fn read(&self, mut batch: Batch) {
        let mut out = MessageBuf::default();
        let progress = batch.fill(&mut out, SLICE, Wait::Allowed);
        if let Some(me) = self.me.upgrade() {
            self.host.wake(Rest::of(&me, Left::Slice(out, progress, batch)));
        }
    }

    /// Answers requests, as many as one turn of a shard should.
    fn ask(&self, msgs: &MessageBuf, shard: &mut Shard) {
        let stream = lock(&self.stream).clone();
        let (mut out, mut own) = (MessageBuf::default(), Requests::default());
        let mut shared = match self.requests.try_lock() {
            Ok(shared) => Some(shared),
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        };
        let requests = shared.as_deref_mut().unwrap_or(&mut own);
        let mut outbox = msgs.iter();
        let mut said = 0;
        for msg in outbox.by_ref() {
            if let Some(batch) = requests.ask(&stream, &msg, &mut out) {
                self.go_on(batch, &mut out, shard);
            }
            if out.bytes() >= SLICE {
                said += out.bytes();
                self.say(&mut out, shard);
            }
            if said >= TURN {
                break;
            }
        }
        let mut rest = MessageBuf::default();
        outbox.for_each(|msg| rest.push(msg));
        self.say(&mut out, shard);
        if !rest.is_empty()
            && let Some(me) = self.me.upgrade()
        {
            shard.after_flush(Rest::of(&me, Left::Requests(rest)));
        }
    }

    fn say(&self, out: &mut MessageBuf, shard: &mut Shard) {
        if !out.is_empty() {
            shard.send(&self.account, out, self.host.instant());
        }
    }

    /// Keeps an answer until more of the stream is released than was when it was looked at.
    fn await_release(&self, batch: Batch, seen: Ticket) {
        lock(&self.unreleased).push(batch);
        self.has_releases.store(true, Release);
        if self.released_so_far() != seen {
            self.released();
        }
    }

    fn released_so_far(&self) -> Ticket {
        lock(&self.stream).reader.release().ticket()
    }
}

impl Service for DirectGets {
    fn serve(&self, msgs: &mut MessageBuf, shard: &mut Shard) {
        self.ask(msgs, shard);
    }
}
