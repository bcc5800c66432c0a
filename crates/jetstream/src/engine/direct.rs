//! Direct gets of one stream: answered on the shard that they came to, without the stream's turn.
//!
//! What is in memory is answered at once. An answer of many messages goes on slice by slice, so
//! that the shard can write what it has; what has to be read from the device goes on with a thread
//! that may wait.

use super::host::Host;
use myelin_broker::{Account, Reach, Service, ServiceBatch, ServiceShard};
use myelin_stdx::sync::lock;
use myelin_store::Wait;
use myelin_streams::read::{AnswerProgress, Readable, Requests, SlicedAnswer, refuse};
use myelin_wire::message_buf::MessageBuf;
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

/// Bytes of one slice of an answer.
const SLICE: usize = 128 * 1024;

/// Bytes of answers after which a shard sends them before it looks at more requests.
const TURN_BYTES: usize = 512 * 1024;

/// Direct gets of one stream, answered without the stream's turn.
pub struct DirectGets {
    account: Arc<Account>,
    host: Arc<dyn Host>,
    stream: Mutex<Readable>,
    /// Scratch; whoever finds it taken has its own.
    requests: Mutex<Requests>,
    me: Weak<Self>,
}

/// Direct gets that are not done with. What comes of them must not overtake on another shard what
/// there is already, and so waits for the flush of the shard that sent it.
struct Continuation {
    direct: Arc<DirectGets>,
    left: Mutex<Option<NextStep>>,
    me: Weak<Self>,
}

/// Step that is left.
enum NextStep {
    /// An answer that goes on here.
    Answer(SlicedAnswer),
    /// An answer that goes on where one may wait.
    Cold(SlicedAnswer),
    /// A slice that comes from there, and what is behind it.
    Slice(MessageBuf, AnswerProgress, SlicedAnswer),
    /// Requests that were too many for one turn.
    Requests(MessageBuf),
}

impl Continuation {
    fn of(direct: &Arc<DirectGets>, left: NextStep) -> Arc<Self> {
        let (direct, left) = (Arc::clone(direct), Mutex::new(Some(left)));
        Arc::new_cyclic(|me| Self { direct, left, me: Weak::clone(me) })
    }
}

impl Service for Continuation {
    fn serve(&self, _: &mut ServiceBatch, shard: &mut ServiceShard) {
        let mut out = MessageBuf::default();
        match lock(&self.left).take() {
            Some(NextStep::Answer(batch)) => self.direct.continue_answer(batch, &mut out, shard),
            Some(NextStep::Slice(slice, progress, batch)) => {
                out = slice;
                self.direct.continue_later(batch, progress, false, shard);
            }
            Some(NextStep::Requests(msgs)) => self.direct.ask(&msgs, shard),
            Some(NextStep::Cold(batch)) => self.direct.read_later(batch, shard),
            None => {}
        }
        self.direct.send(&mut out, shard);
    }

    fn flushed(&self, shard: &mut ServiceShard) {
        let mut left = lock(&self.left);
        if let Some(NextStep::Cold(_)) = *left {
            if let Some(NextStep::Cold(batch)) = left.take() {
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
            me: Weak::clone(me),
        })
    }

    /// Reads from another reader from now on.
    pub(super) fn set_reader(&self, reader: myelin_store::StreamReader) {
        lock(&self.stream).reader = reader;
    }

    /// Adds one slice of an answer to `out` and sees to the rest.
    fn continue_answer(&self, mut batch: SlicedAnswer, out: &mut MessageBuf, shard: &mut ServiceShard) {
        let progress = batch.fill(out, SLICE, Wait::Forbidden);
        self.continue_later(batch, progress, true, shard);
    }

    /// `is_here`: the slice was made here. Else it comes from a thread that may wait, and so does
    /// the next one.
    fn continue_later(
        &self,
        batch: SlicedAnswer,
        progress: AnswerProgress,
        is_here: bool,
        shard: &mut ServiceShard,
    ) {
        let Some(me) = self.me.upgrade() else { return };
        match (progress, is_here) {
            (AnswerProgress::Done, _) => {}
            // Nobody listens any more.
            _ if !self.account.has_interest(batch.reply()) => {}
            (AnswerProgress::More, true) => shard.after_flush(Continuation::of(&me, NextStep::Answer(batch))),
            (AnswerProgress::More | AnswerProgress::Waits, _) => {
                shard.after_flush(Continuation::of(&me, NextStep::Cold(batch)))
            }
        }
    }

    /// Where too many reads wait already, who asked is told so: clients may ask as often as they
    /// like.
    fn read_later(&self, batch: SlicedAnswer, shard: &mut ServiceShard) {
        let Some(me) = self.me.upgrade() else { return };
        let reply = batch.reply().to_vec();
        if !self.host.try_spawn_read(Box::new(move || me.read(batch))) {
            let mut out = MessageBuf::default();
            refuse(&mut out, &reply);
            self.send(&mut out, shard);
        }
    }

    /// Makes the next slice of an answer on a thread that may wait; a shard sends it and asks for
    /// the one behind it.
    fn read(&self, mut batch: SlicedAnswer) {
        let mut out = MessageBuf::default();
        let progress = batch.fill(&mut out, SLICE, Wait::Allowed);
        if let Some(me) = self.me.upgrade() {
            self.host.wake(Continuation::of(&me, NextStep::Slice(out, progress, batch)));
        }
    }

    /// Answers requests, as many as one turn of a shard should.
    fn ask(&self, msgs: &MessageBuf, shard: &mut ServiceShard) {
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
                self.continue_answer(batch, &mut out, shard);
            }
            if out.bytes() >= SLICE {
                said += out.bytes();
                self.send(&mut out, shard);
            }
            if said >= TURN_BYTES {
                break;
            }
        }
        let mut rest = MessageBuf::default();
        outbox.for_each(|msg| rest.push(msg));
        self.send(&mut out, shard);
        if !rest.is_empty()
            && let Some(me) = self.me.upgrade()
        {
            shard.after_flush(Continuation::of(&me, NextStep::Requests(rest)));
        }
    }

    fn send(&self, out: &mut MessageBuf, shard: &mut ServiceShard) {
        if !out.is_empty() {
            shard.send(&self.account, out, self.host.instant());
        }
    }
}

impl Service for DirectGets {
    fn reach(&self) -> Reach {
        self.host.reach()
    }

    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        self.ask(msgs, shard);
    }
}
