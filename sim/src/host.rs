//! The embedder's side of JetStream: what are threads in production are queues here, and nothing is
//! done before the scheduler says so.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use myelin_broker::{Account, Level, Log, Service};
use myelin_jetstream::{ApiRequest, CallScope, Host, Task, Timer};
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_wire::message_buf::MessageBuf;

use crate::clock::Clock;
use crate::watch::PLANNED;

/// Reads for clients that may wait at once.
const READ_LIMIT: usize = 64;

/// Order to the thread that answers requests.
pub(crate) enum Call {
    Answer(ApiRequest),
    /// Account and stream.
    Repair(String, String),
    Run(CallScope, Task),
    /// Calls that wait may go on.
    Resume,
}

/// Order to the shard.
pub(crate) enum Mail {
    Serve(Arc<dyn Service>),
    Publish(Arc<Account>, MessageBuf),
}

/// First in, first out: one of these for each thread of the server. Nothing is left of one that is
/// over, and nothing comes in any more.
pub(crate) struct Queue<T>(Mutex<Option<VecDeque<T>>>);

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self(Mutex::new(Some(VecDeque::new())))
    }
}

impl<T> Queue<T> {
    fn put(&self, item: T) {
        // What is refused is dropped without the lock.
        let _refused = match &mut *lock(&self.0) {
            Some(items) => {
                items.push_back(item);
                None
            }
            None => Some(item),
        };
    }

    /// The next one. The lock is given back before it is worked on.
    pub(crate) fn take(&self) -> Option<T> {
        lock(&self.0).as_mut()?.pop_front()
    }

    fn end(&self) -> Option<VecDeque<T>> {
        lock(&self.0).take()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.0).as_ref().map_or(0, VecDeque::len)
    }
}

/// Queues of one server, its clocks, and what it has to say.
pub(crate) struct SimHost {
    pub(crate) clock: Arc<Clock>,
    pub(crate) api: Queue<Call>,
    pub(crate) reads: Queue<Task>,
    pub(crate) backups: Queue<Task>,
    pub(crate) upkeep: Queue<Task>,
    pub(crate) due: Queue<Arc<dyn Timer>>,
    /// Work that waits for a disk, where the server has a thread for it.
    pub(crate) syncs: Queue<Task>,
    /// Whether it is a server of a cluster: its calls wait for other servers, and nothing is synced
    /// where it is asked for.
    is_member: bool,
    /// Orders to the shard that keep their order.
    pub(crate) mail: Queue<Mail>,
    /// Services that were woken: in production on any shard, so at any time.
    pub(crate) wakes: Queue<Arc<dyn Service>>,
    /// In the order in which they are due; of equal times the first that was set comes first.
    alarms: Mutex<BTreeMap<(Timestamp, u64), Weak<dyn Timer>>>,
    alarm_count: AtomicU64,
    names: AtomicU64,
    panics: Mutex<Vec<String>>,
    /// Lines of errors and warnings, in a cluster all lines, for whoever looks at a failed seed.
    lines: Mutex<Vec<String>>,
}

impl SimHost {
    /// `life`: how many servers of the run came before, so that names are unique in it.
    pub(crate) fn new(clock: Arc<Clock>, life: u64) -> Self {
        Self::with(clock, life, false)
    }

    /// As [`new`](Self::new), of a server in a cluster.
    pub(crate) fn of_member(clock: Arc<Clock>, life: u64) -> Self {
        Self::with(clock, life, true)
    }

    fn with(clock: Arc<Clock>, life: u64, is_member: bool) -> Self {
        Self {
            clock,
            syncs: Queue::default(),
            is_member,
            api: Queue::default(),
            reads: Queue::default(),
            backups: Queue::default(),
            upkeep: Queue::default(),
            due: Queue::default(),
            mail: Queue::default(),
            wakes: Queue::default(),
            alarms: Mutex::default(),
            alarm_count: AtomicU64::new(0),
            names: AtomicU64::new(life << 32),
            panics: Mutex::default(),
            lines: Mutex::default(),
        }
    }

    /// When the next alarm is due. Whether somebody is still there whom it wakes does not count: a
    /// cache that forgets at random may be what holds it.
    pub(crate) fn next_alarm(&self) -> Option<Timestamp> {
        lock(&self.alarms).first_key_value().map(|((at, _), _)| *at)
    }

    /// The first of the alarms that are due.
    pub(crate) fn take_alarm(&self) -> Option<Arc<dyn Timer>> {
        let now = self.clock.now();
        let mut alarms = lock(&self.alarms);
        let first = alarms.first_entry().filter(|first| first.key().0 <= now)?;
        first.remove().upgrade()
    }

    /// Has all alarms go off, as the server's thread of alarms does where the time of day was set
    /// back: what was put off for a moment waits no longer.
    pub(crate) fn ring_all(&self) {
        let now = self.clock.now();
        let mut alarms = lock(&self.alarms);
        let all = std::mem::take(&mut *alarms).into_iter();
        *alarms = all.map(|((at, number), timer)| ((at.min(now), number), timer)).collect();
    }

    /// Has an alarm that may wait go off elsewhere.
    pub(crate) fn fire_elsewhere(&self, timer: Arc<dyn Timer>) {
        self.due.put(timer);
    }

    /// Panics that were caught since the last call.
    pub(crate) fn take_panics(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.panics))
    }

    /// Notes a panic that was planned and that the supervision has caught.
    pub(crate) fn plan_panic(&self) {
        lock(&self.panics).push(PLANNED.to_owned());
    }

    /// Forgets what was still to be done, and what others ask for from here on: the process is
    /// gone, and all of it has this host.
    pub(crate) fn end(&self) {
        let Self { api, reads, backups, upkeep, due, syncs, mail, wakes, .. } = self;
        drop((
            api.end(),
            syncs.end(),
            reads.end(),
            backups.end(),
            upkeep.end(),
            due.end(),
            mail.end(),
            wakes.end(),
        ));
    }

    /// Everything that was logged.
    pub(crate) fn lines(&self) -> Vec<String> {
        lock(&self.lines).clone()
    }
}

impl Host for SimHost {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn instant(&self) -> Instant {
        self.clock.instant()
    }

    fn wake(&self, service: Arc<dyn Service>) {
        self.wakes.put(service);
    }

    fn wake_behind(&self, service: Arc<dyn Service>) {
        self.mail.put(Mail::Serve(service));
    }

    fn publish(&self, account: &Arc<Account>, msgs: MessageBuf) {
        if !msgs.is_empty() {
            self.mail.put(Mail::Publish(Arc::clone(account), msgs));
        }
    }

    fn request(&self, request: ApiRequest) -> bool {
        self.api.put(Call::Answer(request));
        true
    }

    fn spawn_read(&self, task: Task) {
        self.reads.put(task);
    }

    fn try_spawn_read(&self, task: Task) -> bool {
        let has_room = self.reads.len() < READ_LIMIT;
        if has_room {
            self.reads.put(task);
        }
        has_room
    }

    fn spawn_backup(&self, task: Task) {
        self.backups.put(task);
    }

    fn spawn_api(&self, scope: CallScope, task: Task) {
        self.api.put(Call::Run(scope, task));
    }

    fn spawn_sync(&self, task: Task) {
        match self.is_member {
            true => self.syncs.put(task),
            false => task(),
        }
    }

    fn resume_calls(&self) {
        if self.is_member {
            self.api.put(Call::Resume);
        }
    }

    fn repair(&self, account: &str, stream: &str) {
        self.api.put(Call::Repair(account.to_owned(), stream.to_owned()));
    }

    fn schedule(&self, at: Timestamp, timer: Weak<dyn Timer>) {
        let number = self.alarm_count.fetch_add(1, Relaxed);
        lock(&self.alarms).insert((at, number), timer);
    }

    fn spawn_upkeep(&self, task: Task) {
        self.upkeep.put(task);
    }

    fn system_account(&self) -> Option<Arc<Account>> {
        None
    }

    fn cluster(&self) -> String {
        String::new()
    }

    fn unique_id(&self) -> String {
        format!("{:022}", self.names.fetch_add(1, Relaxed))
    }

    fn panicked(&self, at: fmt::Arguments<'_>, payload: &(dyn Any + Send), cost: fmt::Arguments<'_>) {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(no words)");
        lock(&self.panics).push(format!("{at}: {text} ({cost})"));
    }

    fn log(&self, level: Level, line: fmt::Arguments<'_>) {
        if self.is_member || matches!(level, Level::Error | Level::Warn) {
            lock(&self.lines).push(line.to_string());
        }
    }
}

/// The broker's log: nobody reads it.
pub(crate) struct Silent;

impl Log for Silent {
    fn enabled(&self, _: Level) -> bool {
        false
    }

    fn write(&self, _: Level, _: fmt::Arguments<'_>) {}
}
