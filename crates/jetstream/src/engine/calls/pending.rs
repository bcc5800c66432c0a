//! Calls that are under way: on the thread of the API, which does not wait for any of them.
//!
//! A call is polled when it begins, and again when what it waits for has come. Calls that are about
//! the same ([`keys_of`]) wait for each other, answers to one connection leave in the order in
//! which it has asked, and an answer that says that something was made leaves when that is durable:
//! one sync for all that have answered until it began ([`JetStream::settle`]).

use super::CallFuture;
use super::keys::{CallKey, keys_of};
use super::order::{Answer, AnswerOrder, CallPlace};
use crate::engine::host::{Host, Task};
use crate::engine::waits::{Promised, promise};
use crate::engine::{ApiRequest, JetStream};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageBuf;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Answers that wait for a sync, at most: then it begins, whatever else there is to do.
const MOST_TOGETHER: usize = 64;

/// The number under which a sync wakes.
const SYNC: u64 = 0;

/// Runs its argument and catches a panic: the call that panics is not answered.
pub type CallGuard = Box<dyn Fn(&mut dyn FnMut())>;

/// Calls that are under way, and what has come of them. For the thread of the API.
pub struct ApiCalls {
    jetstream: Arc<JetStream>,
    guard: CallGuard,
    woken: Arc<WokenCalls>,
    /// The number of the last call.
    last: u64,
    pending: BTreeMap<u64, PendingCall>,
    /// Calls that have something to themselves, and those that wait for it.
    lines: BTreeMap<CallKey, VecDeque<u64>>,
    order: AnswerOrder,
    /// Answers that wait for a sync, and tasks behind them.
    unsettled: VecDeque<Unsettled>,
    /// The sync that is under way, and how many of those it is for.
    sync: Option<(Promised<io::Result<()>>, usize)>,
    tasks: VecDeque<Task>,
    failure: Option<io::Error>,
}

struct PendingCall {
    place: CallPlace,
    request: Arc<ApiRequest>,
    keys: Vec<CallKey>,
    /// `None`: it has not begun, for others have what it needs.
    call: Option<CallFuture>,
}

enum Unsettled {
    Answer(CallPlace, Answer),
    Task(Task),
}

/// Numbers of calls that can go on.
struct WokenCalls {
    numbers: Mutex<BTreeSet<u64>>,
    host: Arc<dyn Host>,
}

struct CallWaker {
    number: u64,
    woken: Arc<WokenCalls>,
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        if lock(&self.woken.numbers).insert(self.number) {
            self.woken.host.resume_calls();
        }
    }
}

impl ApiCalls {
    /// No call is under way yet.
    pub fn new(jetstream: &Arc<JetStream>, guard: CallGuard) -> Self {
        let host = Arc::clone(&jetstream.host);
        Self {
            jetstream: Arc::clone(jetstream),
            guard,
            woken: Arc::new(WokenCalls { numbers: Mutex::default(), host }),
            last: SYNC,
            pending: BTreeMap::new(),
            lines: BTreeMap::new(),
            order: AnswerOrder::default(),
            unsettled: VecDeque::new(),
            sync: None,
            tasks: VecDeque::new(),
            failure: None,
        }
    }

    /// Begins with a request.
    pub fn begin(&mut self, request: ApiRequest) {
        self.last += 1;
        // Whoever asks without end keeps no answer waiting for good.
        if let Some(Unsettled::Answer(first, _)) = self.unsettled.front()
            && self.last - first.number >= MOST_TOGETHER as u64
        {
            self.flush();
        }
        let place =
            CallPlace { number: self.last, conn: request.origin.as_ref().map_or(0, |conn| conn.cid()) };
        let mut keys = keys_of(&request);
        if let Some(first) = self.order.holds_up(place.conn).and_then(|number| self.pending.get(&number)) {
            let more = first.keys.iter().filter(|key| !keys.contains(key)).cloned().collect::<Vec<_>>();
            keys.extend(more);
        }
        let request = Arc::new(request);
        let mut call = None;
        if !keys.iter().any(|key| self.lines.contains_key(key)) {
            match self.poll(place.number, self.jetstream.call(Arc::clone(&request))) {
                Ok(out) => return self.finish(place, &request, out, true),
                Err(waits) => call = Some(waits),
            }
        }
        for key in &keys {
            self.lines.entry(key.clone()).or_default().push_back(place.number);
        }
        self.order.enter(place);
        self.pending.insert(place.number, PendingCall { place, request, keys, call });
    }

    /// Goes on with calls that can: to be called after [`Host::resume_calls`].
    pub fn resume(&mut self) {
        let mut runnable: VecDeque<u64> =
            std::mem::take(&mut *lock(&self.woken.numbers)).into_iter().collect();
        while let Some(number) = runnable.pop_front() {
            if number == SYNC {
                self.look_at_sync();
            } else {
                self.go_on(number, &mut runnable);
            }
        }
    }

    /// Has a sync begin if answers wait for one, or something else does: when there is nothing else
    /// to do.
    pub fn flush(&mut self) {
        let owes = self.jetstream.store.owes();
        if self.sync.is_some() || (self.unsettled.is_empty() && !owes) {
            return;
        }
        let (promise, promised) = promise();
        let jetstream = Arc::clone(&self.jetstream);
        self.sync = Some((promised, self.unsettled.len()));
        self.jetstream.host.spawn_sync(Box::new(move || promise.keep(jetstream.settle())));
        self.look_at_sync();
    }

    /// Takes what another thread, or a call, has left to do, behind the answers that wait for a
    /// sync. Answers whether it is to be done now.
    pub fn defer(&mut self, task: Task) -> Option<Task> {
        if self.unsettled.is_empty() {
            return Some(task);
        }
        self.unsettled.push_back(Unsettled::Task(task));
        None
    }

    /// The next answer that may leave.
    pub fn next_answer(&mut self) -> Option<Answer> {
        self.order.next_ready()
    }

    /// The next task that was [put off](Self::defer) and is to be done now, behind the answers.
    pub fn next_task(&mut self) -> Option<Task> {
        self.tasks.pop_front()
    }

    /// Answers that are kept because of others before them.
    #[cfg(test)]
    pub(in crate::engine) fn kept_answers(&self) -> usize {
        self.order.kept()
    }

    /// Why nobody knows what the disk has of what was made, if that is so: the server must end.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Polls a call: its messages, or the call if it waits.
    fn poll(&self, number: u64, mut call: CallFuture) -> Result<MessageBuf, CallFuture> {
        let waker = Waker::from(Arc::new(CallWaker { number, woken: Arc::clone(&self.woken) }));
        let mut polled = None;
        (self.guard)(&mut || {
            polled = Some(Pin::new(&mut call).poll(&mut Context::from_waker(&waker)));
        });
        match polled {
            Some(Poll::Ready(out)) => Ok(out),
            Some(Poll::Pending) => Err(call),
            // It panicked: nobody is answered.
            None => Ok(MessageBuf::default()),
        }
    }

    /// Goes on with a call, or begins with it. Calls that can go on because of it come into
    /// `runnable`.
    fn go_on(&mut self, number: u64, runnable: &mut VecDeque<u64>) {
        let Some(mut pending) = self.pending.remove(&number) else { return };
        let has_its_keys =
            |key| self.lines.get(key).and_then(|line: &VecDeque<u64>| line.front()) == Some(&number);
        if !pending.keys.iter().all(has_its_keys) {
            self.pending.insert(number, pending);
            return;
        }
        let call = pending.call.take().unwrap_or_else(|| self.jetstream.call(Arc::clone(&pending.request)));
        match self.poll(number, call) {
            Ok(out) => {
                for key in &pending.keys {
                    runnable.extend(self.leave(key));
                }
                self.finish(pending.place, &pending.request, out, false);
            }
            Err(waits) => {
                pending.call = Some(waits);
                self.pending.insert(number, pending);
            }
        }
    }

    /// The first of a line is through. Answers who is first now.
    fn leave(&mut self, key: &CallKey) -> Option<u64> {
        let line = self.lines.get_mut(key)?;
        line.pop_front();
        let next = line.front().copied();
        if next.is_none() {
            self.lines.remove(key);
        }
        next
    }

    fn finish(&mut self, place: CallPlace, request: &ApiRequest, out: MessageBuf, is_new: bool) {
        let answer = (Arc::clone(&request.account), out);
        // What another has made may be what this one has found.
        if self.jetstream.store.owes() || (self.sync.is_some() && request.shares_sync()) {
            if is_new {
                self.order.enter(place);
            }
            self.unsettled.push_back(Unsettled::Answer(place, answer));
            if self.unsettled.len() >= MOST_TOGETHER {
                self.flush();
            }
        } else if is_new {
            self.order.answer_now(place, answer);
        } else {
            self.order.answer(place, answer);
        }
    }

    fn look_at_sync(&mut self) {
        let Some((promised, covers)) = &mut self.sync else { return };
        let waker = Waker::from(Arc::new(CallWaker { number: SYNC, woken: Arc::clone(&self.woken) }));
        let Poll::Ready(settled) = Pin::new(promised).poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let covers = *covers;
        self.sync = None;
        if let Err(error) = settled.unwrap_or_else(|| Err(io::Error::other("a panic while it was synced"))) {
            self.failure = Some(error);
            return;
        }
        let mut covered = 0;
        while let Some(next) = self.unsettled.pop_front() {
            match next {
                Unsettled::Answer(place, answer) if covered < covers => self.order.answer(place, answer),
                // A task waits for nothing but the answers before it.
                Unsettled::Task(task) => self.tasks.push_back(task),
                next @ Unsettled::Answer(..) => {
                    self.unsettled.push_front(next);
                    break;
                }
            }
            covered += 1;
        }
    }
}
