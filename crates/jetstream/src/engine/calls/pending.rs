//! Calls that are under way: on the thread of the API, which does not wait for any of them.
//!
//! A call is polled when it begins, and again when what it waits for has come. Calls that are about
//! the same ([`keys_of`]) wait for each other, answers to one connection leave in the order in
//! which it has asked, and an answer that says that something was made leaves when that is durable:
//! one sync for all that have answered until it began ([`JetStream::settle`]). What others leave to
//! that thread waits in the same lines, and for the answers before it.

use super::keys::{CallScope, NeededKey, key_of_server};
use super::lines::CallLines;
use super::order::{AccountAnswer, AnswerOrder, CallPlace};
use super::{CallFuture, CallOutput};
use crate::engine::host::{Host, Task};
use crate::engine::waits::{Promised, promise};
use crate::engine::{ApiRequest, JetStream};
use myelin_broker::Account;
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
    /// The number of the last call, or task.
    last: u64,
    pending: BTreeMap<u64, PendingCall>,
    /// Calls and tasks that have something to themselves, and those that wait for it.
    lines: CallLines,
    order: AnswerOrder,
    /// Answers that wait for a sync, and tasks behind them.
    unsettled: VecDeque<Unsettled>,
    /// The sync that is under way, and how many of those it is for.
    sync: Option<(Promised<io::Result<()>>, usize)>,
    /// Tasks that are to be done behind the answers that are ready, with the keys that they have.
    tasks: VecDeque<(u64, Vec<NeededKey>, Task)>,
    failure: Option<io::Error>,
}

struct PendingCall {
    keys: Vec<NeededKey>,
    work: PendingWork,
}

enum PendingWork {
    /// A call; without a future it has not begun, for others have what it needs.
    Call(CallPlace, Arc<ApiRequest>, Option<CallFuture>),
    /// A task for which others have what it needs.
    Task(Task),
}

enum Unsettled {
    Answer(CallPlace, AccountAnswer),
    Task(CallScope, Task),
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
        let mut numbers = lock(&self.woken.numbers);
        let is_first = numbers.is_empty();
        numbers.insert(self.number);
        drop(numbers);
        // Whoever is told of the first one takes all.
        if is_first {
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
            lines: CallLines::default(),
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
        let place = CallPlace { number: self.last, conn: self.line_of(&request) };
        let mut keys = self.keys_of(&CallScope::of(&request));
        if let Some(first) = self.order.holds_up(place.conn).and_then(|number| self.pending.get(&number)) {
            // To itself, even what it shares: it is to wait.
            for NeededKey { key, .. } in &first.keys {
                keys.retain(|one| one.key != *key);
                keys.push(NeededKey { key: key.clone(), is_shared: false });
            }
        }
        let request = Arc::new(request);
        let mut future = None;
        if self.lines.are_free(&keys) {
            match self.poll(place.number, self.jetstream.call(Arc::clone(&request))) {
                Ok(output) => return self.finish(place, &request, output, true),
                Err(waits) => future = Some(waits),
            }
        }
        self.order.enter(place);
        self.wait(place.number, keys, PendingWork::Call(place, request, future));
    }

    /// The line of answers that a request is in: that of its connection. Many clients are behind a
    /// link to another server, who do not wait for each other.
    fn line_of(&self, request: &ApiRequest) -> u64 {
        match &request.origin {
            Some(conn) if conn.is_link() => u64::MAX - self.last,
            Some(conn) => conn.cid(),
            None => 0,
        }
    }

    /// Keys of a scope, as things stand.
    fn keys_of(&self, scope: &CallScope) -> Vec<NeededKey> {
        let streams = |account: &str| -> Vec<Box<str>> {
            let streams = self.jetstream.account(account).map(|account| account.streams());
            streams.into_iter().flatten().map(|stream| stream.name().into()).collect()
        };
        let mut keys = scope.keys(streams, self.lines.keys());
        // Behind whoever waits for all there is.
        let of_server = key_of_server();
        let has_server = keys.iter().any(|needed| needed.key == of_server);
        if !keys.is_empty() && self.lines.contains(&of_server) && !has_server {
            keys.push(NeededKey { key: of_server, is_shared: false });
        }
        keys
    }

    /// Enters the lines of all that it needs, of which it may have all.
    fn wait(&mut self, number: u64, keys: Vec<NeededKey>, work: PendingWork) {
        self.lines.enter(number, &keys);
        self.pending.insert(number, PendingCall { keys, work });
    }

    /// Takes what others have left to do: behind the answers that wait for a sync, and behind what
    /// has a part of its scope.
    pub fn enter_task(&mut self, scope: CallScope, task: Task) {
        if !self.unsettled.is_empty() {
            self.unsettled.push_back(Unsettled::Task(scope, task));
            return;
        }
        self.last += 1;
        let (number, keys) = (self.last, self.keys_of(&scope));
        if self.lines.are_free(&keys) {
            self.lines.enter(number, &keys);
            self.tasks.push_back((number, keys, task));
        } else {
            self.wait(number, keys, PendingWork::Task(task));
        }
    }

    /// Goes on with calls that can: to be called after [`Host::resume_calls`].
    pub fn resume(&mut self) {
        let woken = std::mem::take(&mut *lock(&self.woken.numbers));
        self.go_on_all(woken.into_iter().collect());
    }

    fn go_on_all(&mut self, mut runnable: VecDeque<u64>) {
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

    /// The next answer that may leave, and the account for it.
    pub fn next_answer(&mut self) -> Option<(Arc<Account>, MessageBuf)> {
        let AccountAnswer { account, out, then } = self.order.next_ready()?;
        self.tasks.extend(then.into_iter().map(|task| (SYNC, Vec::new(), task)));
        Some((account, out))
    }

    /// Does a task that was [left](Self::enter_task), or that an answer leads to: when all answers
    /// that may leave are on their way. Answers whether there was one.
    pub fn run_task(&mut self) -> bool {
        let Some((number, keys, task)) = self.tasks.pop_front() else { return false };
        let mut task = Some(task);
        (self.guard)(&mut || task.take().into_iter().for_each(|task| task()));
        let runnable = self.lines.leave(number, &keys);
        self.go_on_all(runnable.into_iter().collect());
        true
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

    /// Polls a call: what comes of it, or the call if it waits.
    fn poll(&self, number: u64, mut call: CallFuture) -> Result<CallOutput, CallFuture> {
        let waker = Waker::from(Arc::new(CallWaker { number, woken: Arc::clone(&self.woken) }));
        let mut polled = None;
        (self.guard)(&mut || {
            polled = Some(Pin::new(&mut call).poll(&mut Context::from_waker(&waker)));
        });
        match polled {
            Some(Poll::Ready(output)) => Ok(output),
            Some(Poll::Pending) => Err(call),
            // It panicked: nobody is answered.
            None => Ok(CallOutput::default()),
        }
    }

    /// Goes on with a call or task, or begins with it. Those that can go on because of it come into
    /// `runnable`.
    fn go_on(&mut self, number: u64, runnable: &mut VecDeque<u64>) {
        let Some(PendingCall { keys, work }) = self.pending.remove(&number) else { return };
        if !self.lines.has_all(number, &keys) {
            self.pending.insert(number, PendingCall { keys, work });
            return;
        }
        let (place, request, future) = match work {
            PendingWork::Call(place, request, future) => (place, request, future),
            PendingWork::Task(task) => return self.tasks.push_back((number, keys, task)),
        };
        let future = future.unwrap_or_else(|| self.jetstream.call(Arc::clone(&request)));
        match self.poll(number, future) {
            Ok(output) => {
                runnable.extend(self.lines.leave(number, &keys));
                self.finish(place, &request, output, false);
            }
            Err(waits) => {
                let work = PendingWork::Call(place, request, Some(waits));
                self.pending.insert(number, PendingCall { keys, work });
            }
        }
    }

    fn finish(&mut self, place: CallPlace, request: &ApiRequest, output: CallOutput, is_new: bool) {
        let CallOutput { out, then } = output;
        let answer = AccountAnswer { account: Arc::clone(&request.account), out, then };
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
        let mut unsettled = std::mem::take(&mut self.unsettled);
        let mut covered = 0;
        while let Some(next) = unsettled.pop_front() {
            match next {
                Unsettled::Answer(place, answer) if covered < covers => self.order.answer(place, answer),
                // A task waits for nothing but the answers before it.
                Unsettled::Task(scope, task) => self.enter_task(scope, task),
                next @ Unsettled::Answer(..) => {
                    unsettled.push_front(next);
                    break;
                }
            }
            covered += 1;
        }
        self.unsettled = unsettled;
    }
}
