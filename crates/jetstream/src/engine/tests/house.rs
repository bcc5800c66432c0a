//! JetStream without sockets and threads: one shard, a disk in memory, and a host that does nothing
//! before it is told to.

pub(super) use super::listeners::Heard;
use super::listeners::{HeaderRecorder, Recorder, Subscriber};
use crate::engine::GroupClock;
use crate::engine::consumers::OwnStream;
use crate::engine::host::PlacementFacts;
use crate::engine::waits::block_on;
use crate::engine::{
    AccountStreams, ApiRequest, Backlog, CallScope, Host, JetStream, JetStreamSettings, LiveStream,
    ServerLimits, Task, Timer,
};
use myelin_auth::AuthConfig;
use myelin_broker::{Account, AccountConfig, Binding, Broker, Level, Log, Service, Shard};
use myelin_disk::Disk;
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{AccountLimits, Storage, StreamConfig, StreamSource};
use myelin_jsapi::consumer::config::{
    self as consumers, Action, ConsumerConfig, ConsumerConfigLimits, Created, MatchedRequest,
};
use myelin_stdx::sync::lock;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{StoreOptions, Timestamp};
use myelin_wire::info::Info;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Reads for clients that may wait.
pub(super) const MOST_READS: usize = 8;

const BEGAN: Timestamp = 1_700_000_000_000_000_000;

/// Work that was asked of the host and not done.
#[derive(Default)]
pub(super) struct TestHost {
    pub(super) now: AtomicI64,
    names: AtomicU64,
    pub(super) tasks: Mutex<VecDeque<(CallScope, Task)>>,
    /// Whether the thread of the API does none of these.
    pub(super) is_busy: AtomicBool,
    pub(super) reads: Mutex<VecDeque<Task>>,
    woken: Mutex<VecDeque<Arc<dyn Service>>>,
    jobs: Mutex<VecDeque<Task>>,
    alarms: Mutex<Vec<(Timestamp, Weak<dyn Timer>)>>,
    bufs: Mutex<VecDeque<(Arc<Account>, MessageBuf)>>,
    /// Panics that were caught, in words.
    pub(super) panics: Mutex<Vec<String>>,
    /// Lines of the log that an operator should look at.
    pub(super) warnings: Mutex<Vec<String>>,
    /// Other lines.
    infos: Mutex<Vec<String>>,
    /// Requests to the API, if it answers.
    pub(super) requests: Mutex<Option<VecDeque<ApiRequest>>>,
    /// Names are refused with a panic while this is set.
    pub(super) panics_at_names: AtomicBool,
    /// Reads and requests are done where they are asked for while this is set, as if the threads
    /// for them were faster than who asks.
    is_prompt: AtomicBool,
    /// Whether the threads for reads and backups are busy with something else.
    pub(super) are_reads_held: AtomicBool,
    /// By how much the clock that only goes forward is ahead of the process's.
    pub(super) ahead: Mutex<Duration>,
    /// Whether it goes on from the time that somebody keeps, as a server does.
    pub(super) keeps_time: AtomicBool,
    kept: GroupClock,
    /// How much faster the clock of the server goes than time does, in times: -1: it stands still.
    pub(super) gain: AtomicI64,
    /// Where the process's clock stands, if it does.
    stands: Mutex<Option<Instant>>,
    /// Whether what waits for a disk is done when somebody says so, not where it is asked for.
    pub(super) has_sync_thread: AtomicBool,
    pub(super) syncs: Mutex<VecDeque<Task>>,
    /// Facts by which streams are placed.
    pub(super) facts: Mutex<PlacementFacts>,
    /// The cluster of the server.
    pub(super) cluster: Mutex<String>,
    /// Streams that are to be opened anew: their accounts and names.
    pub(super) repairs: Mutex<Vec<(String, String)>>,
}

impl fmt::Debug for TestHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestHost").finish_non_exhaustive()
    }
}

impl TestHost {
    /// From now on time passes only where somebody [sleeps](Self::sleep).
    pub(super) fn stand_still(&self) {
        *lock(&self.stands) = Some(Instant::now());
    }

    /// Lines of the log with such words that no operator has to look at.
    pub(super) fn infos_with(&self, words: &str) -> usize {
        lock(&self.infos).iter().filter(|line| line.contains(words)).count()
    }

    /// Lines of the log with such words that an operator has to look at.
    pub(super) fn warnings_with(&self, words: &str) -> usize {
        lock(&self.warnings).iter().filter(|line| line.contains(words)).count()
    }

    /// Lets time pass for whoever looks at the time of day. Answers how late it is.
    fn go_on(&self, time: Timestamp) -> Timestamp {
        self.now.fetch_add(time * (1 + self.gain.load(Relaxed)), Relaxed);
        self.now()
    }

    /// Lets time pass for whoever looks at the clock that only goes forward.
    pub(super) fn sleep(&self, time: Duration) {
        *lock(&self.ahead) += time;
    }
}

impl Host for TestHost {
    fn now(&self) -> Timestamp {
        self.kept.now(|| self.instant(), || self.time_of_day())
    }

    fn time_of_day(&self) -> Timestamp {
        BEGAN + self.now.load(Relaxed)
    }

    fn keep_time(&self, at: Instant, time: Timestamp) {
        if self.keeps_time.load(Relaxed) {
            self.kept.keep(at, time);
        }
    }

    fn instant(&self) -> Instant {
        lock(&self.stands).unwrap_or_else(Instant::now) + *lock(&self.ahead)
    }

    fn wake(&self, service: Arc<dyn Service>) {
        lock(&self.woken).push_back(service);
    }

    fn publish(&self, account: &Arc<Account>, msgs: MessageBuf) {
        lock(&self.bufs).push_back((Arc::clone(account), msgs));
    }

    fn request(&self, request: ApiRequest) -> bool {
        lock(&self.requests).as_mut().map(|requests| requests.push_back(request)).is_some()
    }

    fn spawn_read(&self, task: Task) {
        match self.is_prompt.load(Relaxed) {
            true => task(),
            false => lock(&self.reads).push_back(task),
        }
    }

    fn try_spawn_read(&self, task: Task) -> bool {
        let has_room = lock(&self.reads).len() < MOST_READS;
        if has_room {
            self.spawn_read(task);
        }
        has_room
    }

    fn spawn_backup(&self, task: Task) {
        self.spawn_read(task);
    }

    fn spawn_api(&self, scope: CallScope, task: Task) {
        match self.is_prompt.load(Relaxed) {
            true => task(),
            false => lock(&self.tasks).push_back((scope, task)),
        }
    }

    fn spawn_sync(&self, task: Task) {
        match self.has_sync_thread.load(Relaxed) {
            true => lock(&self.syncs).push_back(task),
            false => task(),
        }
    }

    fn repair(&self, account: &str, stream: &str) {
        lock(&self.repairs).push((account.to_owned(), stream.to_owned()));
    }

    fn schedule(&self, at: Timestamp, timer: Weak<dyn Timer>) {
        lock(&self.alarms).push((at, timer));
    }

    fn spawn_upkeep(&self, task: Task) {
        lock(&self.jobs).push_back(task);
    }

    fn system_account(&self) -> Option<Arc<Account>> {
        None
    }

    fn placement_facts(&self) -> PlacementFacts {
        lock(&self.facts).clone()
    }

    fn cluster(&self) -> String {
        lock(&self.cluster).clone()
    }

    fn unique_id(&self) -> String {
        assert!(!self.panics_at_names.load(Relaxed), "a test asked for it");
        format!("{:022}", self.names.fetch_add(1, Relaxed))
    }

    fn panicked(&self, at: fmt::Arguments<'_>, _: &(dyn Any + Send), cost: fmt::Arguments<'_>) {
        lock(&self.panics).push(format!("{at}: {cost}"));
    }

    fn log(&self, level: Level, what: fmt::Arguments<'_>) {
        if matches!(level, Level::Error | Level::Warn) {
            lock(&self.warnings).push(what.to_string());
        } else {
            lock(&self.infos).push(what.to_string());
        }
    }
}

struct Silent;

impl Log for Silent {
    fn enabled(&self, _: Level) -> bool {
        false
    }

    fn write(&self, _: Level, _: fmt::Arguments<'_>) {}
}

/// JetStream without sockets and threads, for tests.
pub(super) struct House {
    pub(super) host: Arc<TestHost>,
    pub(super) account: Arc<Account>,
    /// An account that may not use JetStream before a test enables it.
    pub(super) other: Arc<Account>,
    pub(super) system: Arc<Account>,
    /// The account for frames between servers.
    pub(super) frames: Arc<Account>,
    /// The account for what is large between servers.
    pub(super) bulk: Arc<Account>,
    pub(super) jetstream: Arc<JetStream>,
    shard: Shard,
}

impl House {
    /// On a disk of its own.
    pub(super) fn new() -> Self {
        Self::on(&FaultyDisk::new(1))
    }

    /// On what a disk holds.
    pub(super) fn on(disk: &FaultyDisk) -> Self {
        Self::with(disk, StoreOptions::new("/store"))
    }

    /// With a store that is opened so.
    pub(super) fn with(disk: &FaultyDisk, options: StoreOptions) -> Self {
        Self::begin(disk, options, 7, false)
    }

    /// On what a disk holds, where all other threads are fast while it is opened.
    pub(super) fn promptly_on(disk: &FaultyDisk) -> Self {
        Self::begin(disk, StoreOptions::new("/store"), 7, true)
    }

    /// On what a disk holds, with all that is random drawn from `seed`.
    pub(super) fn seeded(disk: &FaultyDisk, seed: u64) -> Self {
        Self::begin(disk, StoreOptions::new("/store"), seed, false)
    }

    /// On what a disk holds, as a server of this name with all that is random drawn from `seed`.
    pub(super) fn named(disk: &FaultyDisk, name: &str, seed: u64) -> Self {
        let settings = JetStreamSettings { server_name: name.into(), ..settings() };
        let host = Arc::<TestHost>::default();
        let options = StoreOptions { segment_bytes: Some(64 << 10), ..StoreOptions::new("/store") };
        Self::open(Arc::new(disk.clone()), &host, (options, settings), seed).settled()
    }

    fn begin(disk: &FaultyDisk, options: StoreOptions, seed: u64, is_prompt: bool) -> Self {
        let host = Arc::<TestHost>::default();
        host.is_prompt.store(is_prompt, Relaxed);
        let house = Self::open(Arc::new(disk.clone()), &host, (options, settings()), seed);
        host.is_prompt.store(false, Relaxed);
        house.settled()
    }

    /// As a server of a cluster: with all that is random drawn from `seed`, when so much time has
    /// passed.
    pub(super) fn member(
        disk: &FaultyDisk,
        (seed, now): (u64, i64),
        (sync_always, segment_bytes): (bool, Option<u32>),
    ) -> Self {
        let settings = JetStreamSettings { sync_always, ..settings() };
        let options = (StoreOptions { segment_bytes, ..StoreOptions::new("/store") }, settings);
        let host = Arc::<TestHost>::default();
        host.now.store(now, Relaxed);
        Self::open(Arc::new(disk.clone()), &host, options, seed).settled()
    }

    /// On any disk and with a host of the test's.
    pub(super) fn hosted(disk: Arc<dyn Disk>, host: &Arc<TestHost>, sync_always: bool) -> Self {
        let settings = JetStreamSettings { sync_always, ..settings() };
        Self::open(disk, host, (StoreOptions::new("/store"), settings), 7).settled()
    }

    fn settled(mut self) -> Self {
        self.settle();
        self
    }

    fn open(
        disk: Arc<dyn Disk>,
        host: &Arc<TestHost>,
        (options, settings): (StoreOptions, JetStreamSettings),
        seed: u64,
    ) -> Self {
        let broker = Broker::new(
            Default::default(),
            AuthConfig::open(),
            &["OTHER", "SYS", "RAFT", "BULK"].map(AccountConfig::named),
            Some("SYS"),
            Info::default(),
            Arc::new(SeededEntropy::new(seed)),
            Arc::new(Silent),
        );
        let broker = broker.expect("little is configured");
        let [account, other, system, frames, bulk] =
            ["$G", "OTHER", "SYS", "RAFT", "BULK"].map(|name| broker.account(name).expect("it is there"));
        let jetstream = JetStream::open(
            settings,
            disk,
            options,
            Arc::new(SeededEntropy::new(seed)),
            Arc::clone(host) as Arc<dyn Host>,
        );
        let jetstream = jetstream.expect("the store can be opened");
        jetstream.enable(&account, Some(AccountLimits::default())).expect("it is promised nothing");
        jetstream.enable(&system, None).expect("it is promised nothing");
        let shard = Shard::new(&broker, seed);
        Self { shard, host: Arc::clone(host), account, other, system, frames, bulk, jetstream }
    }

    pub(super) fn streams(&self) -> Arc<AccountStreams> {
        self.jetstream.account("$G").expect("it is enabled")
    }

    pub(super) fn stream(&self, name: &str) -> Arc<LiveStream> {
        self.streams().stream(name).unwrap_or_else(|| panic!("there is no stream {name}"))
    }

    /// Makes a stream, and does nothing of what follows from it.
    pub(super) fn make(&mut self, config: StreamConfig) {
        let now = self.host.now();
        self.streams().create(&self.jetstream, config, now).expect("it can be made");
        self.jetstream.settle().expect("a healthy disk");
    }

    pub(super) fn create(&mut self, config: StreamConfig) {
        self.make(config);
        self.settle();
    }

    pub(super) fn update(&mut self, config: StreamConfig) -> Result<(), ApiError> {
        let (streams, live) = (self.streams(), self.stream(&config.name));
        let updated = block_on(streams.update(&self.jetstream, &live, config));
        self.settle();
        updated
    }

    pub(super) fn delete(&mut self, name: &str) {
        let (streams, live) = (self.streams(), self.stream(name));
        block_on(streams.delete(&self.jetstream, &live, &mut MessageBuf::default()))
            .expect("it can be deleted");
        self.settle();
    }

    /// As [`delete`](Self::delete), where other threads do nothing before they are told to.
    pub(super) fn delete_and_wait(&mut self, name: &str) {
        let (streams, live) = (self.streams(), self.stream(name));
        let deleted = streams.delete_and_wait(&self.jetstream, &live, &mut MessageBuf::default());
        deleted.expect("it can be deleted");
        self.settle();
    }

    /// Makes a consumer of a stream.
    pub(super) fn consume(&mut self, stream: &str, config: ConsumerConfig) {
        self.try_consume(stream, config).expect("it can be made");
    }

    /// As [`consume`](Self::consume), of a stream that may refuse it.
    pub(super) fn try_consume(&mut self, stream: &str, config: ConsumerConfig) -> Result<(), ApiError> {
        let live = self.stream(stream);
        let (config_of_stream, limits) = (live.config(), ConsumerConfigLimits::default());
        let has_interest = |_: &str| false;
        let world = consumers::CheckContext {
            stream: &config_of_stream,
            consumers: &**live.consumers(),
            limits: &limits,
            has_interest: &has_interest,
        };
        let wanted = MatchedRequest { config, action: Action::CreateOrUpdate, pedantic: false };
        let Ok(Created::New(config)) = consumers::create(wanted, &world, &mut String::new) else {
            panic!("it is a new one")
        };
        let around = self.jetstream.create_context(&config_of_stream);
        let made = live.consumers().create(*config, &around, &mut MessageBuf::default());
        made?.wake_behind();
        // As who makes one waits for it.
        OwnStream::propose_soon(&*live);
        self.settle();
        Ok(())
    }

    /// The names of a stream's consumers.
    pub(super) fn consumers(&self, stream: &str) -> Vec<String> {
        self.stream(stream).consumers().all().iter().map(|live| live.name().to_owned()).collect()
    }

    /// Has somebody listen at a subject, from now on.
    pub(super) fn listen(&mut self, subject: &str) {
        let _ = self.account.bind(subject.as_bytes(), Arc::new(Subscriber));
    }

    /// Keeps the headers of what comes to a subject, from now on.
    pub(super) fn hear(&mut self, subject: &str) -> Arc<Mutex<Vec<String>>> {
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let _ = self.account.bind(subject.as_bytes(), Arc::new(HeaderRecorder(Arc::clone(&heard))));
        heard
    }

    /// Keeps what comes to a subject, from now on.
    pub(super) fn record(&mut self, subject: &str) -> Arc<Mutex<Vec<Heard>>> {
        self.record_until_unbound(subject).0
    }

    /// Keeps what comes to a subject, until the binding is undone.
    pub(super) fn record_until_unbound(&mut self, subject: &str) -> (Arc<Mutex<Vec<Heard>>>, Arc<Binding>) {
        let heard = Arc::<Mutex<Vec<Heard>>>::default();
        let binding = self.account.bind(subject.as_bytes(), Arc::new(Recorder(Arc::clone(&heard))));
        self.settle();
        (heard, binding)
    }

    /// Sets the time of day back.
    pub(super) fn set_clock_back(&self, by: Timestamp) {
        self.host.now.fetch_sub(by, Relaxed);
    }

    /// Publishes, and does nothing of what follows from it.
    pub(super) fn say(&mut self, subject: &str, reply: &str, payload: &str) {
        let (subject, reply, payload) = (subject.as_bytes(), reply.as_bytes(), payload.as_bytes());
        self.send(MessageRef { subject, reply, payload, ..MessageRef::default() });
    }

    pub(super) fn send(&mut self, msg: MessageRef<'_>) {
        let mut msgs = MessageBuf::default();
        msgs.push(msg);
        self.shard.send(&self.account, &mut msgs, Instant::now());
    }

    /// Publishes in another account than the usual one, and does nothing of what follows from it.
    pub(super) fn send_in(&mut self, account: &Arc<Account>, msgs: &mut MessageBuf) {
        self.shard.send(account, msgs, Instant::now());
    }

    /// Ends a tick of the shard, and does nothing else.
    pub(super) fn flush(&mut self) {
        self.shard.flush();
    }

    pub(super) fn publish(&mut self, subject: &str) {
        self.say(subject, "", "x");
        self.settle();
    }

    /// Runs one task that waits for the disk. Answers whether there was one.
    pub(super) fn run_sync(&mut self) -> bool {
        let task = lock(&self.host.syncs).pop_front();
        task.map(|task| task()).is_some()
    }

    /// Opens the streams anew that have failed. Answers whether there were any.
    pub(super) fn run_repairs(&mut self) -> bool {
        let repairs = std::mem::take(&mut *lock(&self.host.repairs));
        repairs.iter().for_each(|(account, stream)| self.jetstream.repair(account, stream));
        !repairs.is_empty()
    }

    /// Lets go of all work that was asked for: its process has ended.
    pub(super) fn end(self) {
        let TestHost { tasks, reads, woken, jobs, alarms, bufs, syncs, .. } = &*self.host;
        drop(std::mem::take(&mut *lock(tasks)));
        [reads, jobs, syncs].into_iter().for_each(|tasks| drop(std::mem::take(&mut *lock(tasks))));
        drop(std::mem::take(&mut *lock(woken)));
        drop(std::mem::take(&mut *lock(alarms)));
        drop(std::mem::take(&mut *lock(bufs)));
    }

    /// Messages that a stream holds, and the last sequence that it gave out.
    pub(super) fn contents(&self, stream: &str) -> (u64, u64) {
        let totals = self.stream(stream).reader().state().totals;
        (totals.messages, totals.last_seq)
    }

    /// Does what there is to do, until there is nothing.
    pub(super) fn settle(&mut self) {
        loop {
            if self.step_without_jobs() || self.run_job() {
                continue;
            }
            if !self.state_first_marks() {
                return;
            }
        }
    }

    /// Has the journal state how far streams may come of which the first messages wait for that.
    /// Answers whether there were any.
    pub(super) fn state_first_marks(&self) -> bool {
        let waits = |live: &Arc<LiveStream>| {
            let reader = live.reader();
            reader.release().seq() == 0 && reader.last_logged() > 0
        };
        let now = self.host.now().unsigned_abs();
        let is_stated = || self.jetstream.journal().round(&|| now).is_ok();
        self.streams().streams().iter().any(waits)
            && is_stated()
            && !self.streams().streams().iter().any(waits)
    }

    fn next_read(&self) -> Option<Task> {
        let is_held = self.host.are_reads_held.load(Relaxed);
        if is_held { None } else { lock(&self.host.reads).pop_front() }
    }

    /// Runs one job of a store. Answers whether there was one.
    pub(super) fn run_job(&mut self) -> bool {
        let job = lock(&self.host.jobs).pop_front();
        job.map(|job| job()).is_some()
    }

    /// Does one thing of what there is to do besides jobs of stores. Answers whether there may be
    /// more.
    pub(super) fn step_without_jobs(&mut self) -> bool {
        self.shard.flush();
        let is_busy = self.host.is_busy.load(Relaxed);
        let next = || lock(&self.host.tasks).pop_front().map(|(_, task)| task);
        let task = if is_busy { None } else { next() };
        if let Some(task) = task.or_else(|| self.next_read()) {
            task();
            return true;
        }
        let request = lock(&self.host.requests).as_mut().and_then(VecDeque::pop_front);
        if let Some(request) = request {
            self.host.publish(&self.account, self.jetstream.answer(&request));
            return true;
        }
        let woken = lock(&self.host.woken).pop_front();
        if let Some(service) = woken {
            self.shard.wake(&service);
            return true;
        }
        let msgs = lock(&self.host.bufs).pop_front();
        if let Some((account, mut msgs)) = msgs {
            self.shard.send(&account, &mut msgs, Instant::now());
            return true;
        }
        self.shard.is_dirty()
    }

    /// Lets time pass, and all alarms ring that are due then.
    pub(super) fn pass(&mut self, time: Timestamp) {
        self.ring(time);
        self.settle();
    }

    /// Lets time pass, has all alarms ring that are due then, and does nothing of what follows.
    pub(super) fn ring(&mut self, time: Timestamp) {
        let now = self.host.go_on(time);
        let due: Vec<_> = lock(&self.host.alarms).extract_if(.., |(at, _)| *at <= now).collect();
        due.iter().filter_map(|(_, timer)| timer.upgrade()).for_each(|timer| timer.fire());
    }

    /// Lets time pass, and those alarms ring alone that wait for nothing: the others' thread waits
    /// for a disk.
    pub(super) fn ring_without_waiting(&mut self, time: Timestamp) {
        let now = self.host.go_on(time);
        let rings = |(at, timer): &mut (Timestamp, Weak<dyn Timer>)| {
            *at <= now && timer.upgrade().is_some_and(|timer| !timer.may_wait())
        };
        let due: Vec<_> = lock(&self.host.alarms).extract_if(.., rings).collect();
        due.iter().filter_map(|(_, timer)| timer.upgrade()).for_each(|timer| timer.fire());
    }

    /// Lets time pass while all other threads are busy. Returns how many requests wait for the
    /// API's, and how many alarms are due again.
    pub(super) fn pass_while_busy(&mut self, time: Timestamp) -> (usize, usize) {
        self.ring(time);
        let now = BEGAN + self.host.now.load(Relaxed);
        loop {
            self.shard.flush();
            let woken = lock(&self.host.woken).pop_front();
            match woken {
                Some(service) => self.shard.wake(&service),
                None if self.shard.is_dirty() => {}
                None => break,
            }
        }
        let is_due = |(at, timer): &&(Timestamp, Weak<dyn Timer>)| *at <= now && timer.strong_count() > 0;
        (lock(&self.host.tasks).len(), lock(&self.host.alarms).iter().filter(is_due).count())
    }
}

fn settings() -> JetStreamSettings {
    JetStreamSettings {
        domain: String::new(),
        strict: false,
        server_name: "js".into(),
        server_id: "id".into(),
        sync_always: false,
        limits: ServerLimits {
            max_memory: 1 << 30,
            max_store: 1 << 30,
            is_store_of_disk: false,
            duplicate_window: None,
            batches: Default::default(),
            consumers: consumers::ServerConsumerLimits::default(),
        },
        backlog: Backlog { messages: 10_000, bytes: 1 << 20 },
        max_pending: 64 << 20,
        max_payload: 1 << 20,
        request_queue_limit: 100,
    }
}

/// A stream of everything below its name.
pub(super) fn stream(name: &str) -> StreamConfig {
    StreamConfig {
        name: name.into(),
        subjects: vec![format!("{name}.>")],
        storage: Storage::File,
        max_consumers: -1,
        max_msgs: -1,
        max_bytes: -1,
        max_msgs_per_subject: -1,
        max_msg_size: -1,
        num_replicas: 1,
        ..StreamConfig::default()
    }
}

pub(super) fn source(name: &str, filter: &str) -> StreamSource {
    StreamSource { name: name.into(), filter_subject: filter.into(), ..StreamSource::default() }
}

/// A stream of nothing but what it copies.
pub(super) fn copy(name: &str, sources: &[StreamSource]) -> StreamConfig {
    StreamConfig { subjects: Vec::new(), sources: sources.to_vec(), ..stream(name) }
}

/// Has a disk refuse to read segments, or read them again.
pub(super) fn refuse_reads(disk: &FaultyDisk, refuses: bool) {
    let segments = disk.files().into_keys().filter(|path| path.extension().is_some_and(|end| end == "seg"));
    for path in segments {
        disk.fail_reads(&path, 0..if refuses { u64::MAX } else { 0 }).expect("it is there");
    }
}
