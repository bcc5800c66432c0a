//! The embedder's side of JetStream: queues to its threads and mail to the shards.

use super::on_demand::OnDemand;
use super::{alarms, disk, spare_memory};
use crate::logging::Logger;
use crate::monitoring::Count;
use crate::shard::{Mail, Mailbox};
use crate::supervise::{self, JOURNAL_FAILED, SupervisedPart};
use myelin_broker::{Account, Broker, Level, Reach, Service};
use myelin_conf::options::JetStreamOptions;
use myelin_jetstream::{
    ApiCalls, ApiRequest, CallScope, GroupClock, Host, JetStream, PlacementFacts, Task, Timer,
};
use myelin_stdx::entropy::OsEntropy;
use myelin_store::Timestamp;
use myelin_wire::message_buf::MessageBuf;
use myelin_wire::peer::groups::RAFT_ACCOUNT;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

/// Order to the API's thread.
enum Call {
    Answer(ApiRequest),
    /// Account and stream.
    Repair(String, String),
    Run(CallScope, Task),
    /// A request that waited can go on.
    Resume,
    Stop,
}

/// Order to the upkeep thread.
enum UpkeepOrder {
    Run(Task),
    Stop,
}

/// Order to the thread that works on what is due.
pub(super) enum Due {
    Ring(Arc<dyn Timer>),
    Stop,
}

/// A way to a thread, with a count of what waits there.
pub(super) struct ThreadQueue<T> {
    sender: Sender<T>,
    waiting: AtomicUsize,
}

impl<T> ThreadQueue<T> {
    pub(super) fn new() -> (Self, Receiver<T>) {
        let (sender, receiver) = channel();
        (Self { sender, waiting: AtomicUsize::new(0) }, receiver)
    }

    /// Nothing is taken any more when the server ends.
    pub(super) fn put(&self, item: T) {
        self.put_below(usize::MAX, item);
    }

    /// False: so many wait already.
    pub(super) fn put_below(&self, limit: usize, item: T) -> bool {
        let is_put = self.waiting.fetch_add(1, Relaxed) < limit && self.sender.send(item).is_ok();
        if !is_put {
            self.taken();
        }
        is_put
    }

    /// One less waits.
    pub(super) fn taken(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

/// Channels to JetStream's threads, and how much waits in them.
pub(crate) struct Threads {
    mailboxes: Vec<Mailbox>,
    broker: Arc<Broker>,
    /// Whether the servers of the cluster share JetStream.
    is_clustered: bool,
    /// Placement as options have it.
    placement: OnceLock<PlacementFacts>,
    log: Arc<Logger>,
    calls: Sender<Call>,
    /// Requests to the API that wait.
    waiting: AtomicUsize,
    /// How many of those may, and how many reads for clients.
    limit: usize,
    reads: OnDemand,
    /// Makes backups and takes them in.
    backups: OnDemand,
    /// Waits for syncs of the API.
    syncs: OnDemand,
    upkeep: ThreadQueue<UpkeepOrder>,
    pub(super) due: ThreadQueue<Due>,
    alarms: Sender<alarms::AlarmOrder>,
    pub(super) is_stopping: AtomicBool,
    clock: GroupClock,
}

/// The other ends, until the threads are started.
pub(super) struct Queues {
    threads: Arc<Threads>,
    calls: Receiver<Call>,
    upkeep: Receiver<UpkeepOrder>,
    due: Receiver<Due>,
    alarms: Receiver<alarms::AlarmOrder>,
}

impl Threads {
    /// Ways to threads that are not started yet: what is asked of them waits.
    pub(super) fn new(
        broker: &Arc<Broker>,
        mailboxes: Vec<Mailbox>,
        log: &Arc<Logger>,
        limit: usize,
    ) -> (Arc<Self>, Queues) {
        let ((calls, call_queue), (alarms, alarm_queue)) = (channel(), channel());
        let ((upkeep, upkeep_queue), (due, due_queue)) = (ThreadQueue::new(), ThreadQueue::new());
        let on_demand = |part| OnDemand::new(part, log);
        let threads = Arc::new(Self {
            mailboxes,
            is_clustered: broker.internal_account(RAFT_ACCOUNT).is_some(),
            placement: OnceLock::new(),
            broker: Arc::clone(broker),
            log: Arc::clone(log),
            calls,
            waiting: AtomicUsize::new(0),
            limit,
            reads: on_demand(SupervisedPart::JsReads),
            backups: on_demand(SupervisedPart::JsBackups),
            syncs: on_demand(SupervisedPart::JsSync),
            upkeep,
            due,
            alarms,
            is_stopping: AtomicBool::new(false),
            clock: GroupClock::default(),
        });
        let queues = Queues {
            threads: Arc::clone(&threads),
            calls: call_queue,
            upkeep: upkeep_queue,
            due: due_queue,
            alarms: alarm_queue,
        };
        (threads, queues)
    }

    /// Keeps what options say of placement.
    pub(super) fn set_placement(&self, options: &JetStreamOptions) {
        let _ = self.placement.set(PlacementFacts {
            unique_prefix: options.unique_tag.clone().unwrap_or_default(),
            max_ha_assets: options.limits.max_ha_assets.map_or(0, i64::from),
            ..PlacementFacts::default()
        });
    }

    /// Lengths of the queues of all threads, by the name that monitoring shows.
    pub(super) fn queues(self: &Arc<Self>) -> Vec<(&'static str, Count)> {
        let counting = |count: fn(&Self) -> usize| -> Count {
            let threads = Arc::clone(self);
            Box::new(move || count(&threads))
        };
        vec![
            // Compat: the reference's name.
            ("JetStream API queue", counting(|threads| threads.waiting.load(Relaxed))),
            ("JetStream reads queue", counting(|threads| threads.reads.waiting())),
            ("JetStream backups queue", counting(|threads| threads.backups.waiting())),
            ("JetStream syncs queue", counting(|threads| threads.syncs.waiting())),
            ("JetStream upkeep queue", counting(|threads| threads.upkeep.waiting())),
            ("JetStream due queue", counting(|threads| threads.due.waiting())),
        ]
    }

    /// Has an alarm that may wait go off on the thread for those.
    pub(super) fn fire_elsewhere(&self, timer: Arc<dyn Timer>) {
        self.due.put(Due::Ring(timer));
    }

    /// Ends the threads that begin on demand, and waits for them. Those that ask them for something
    /// must have ended.
    pub(super) fn end_on_demand(&self) -> std::thread::Result<()> {
        [&self.reads, &self.backups, &self.syncs].into_iter().try_for_each(OnDemand::end)
    }

    /// Tells all threads to end, but for that of syncs, which [ends last](Self::end_on_demand). The
    /// disk thread hears of it through the journal.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        // Those that have ended need not be told.
        let _ = self.calls.send(Call::Stop);
        self.reads.stop();
        self.backups.stop();
        self.upkeep.put(UpkeepOrder::Stop);
        self.due.put(Due::Stop);
        let _ = self.alarms.send(alarms::AlarmOrder::Stop);
    }
}

impl Queues {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives none.
    pub(super) fn start(
        self,
        jetstream: &Arc<JetStream>,
        log: &Arc<Logger>,
    ) -> io::Result<Vec<JoinHandle<()>>> {
        let Self { threads, calls, upkeep, due, alarms } = self;
        let disk = disk::Rounds::new(jetstream, &threads, log);
        let marks = disk::Watermarks::new(jetstream, &threads, log);
        let answering = (Arc::clone(jetstream), Arc::clone(&threads));
        let [upkeeping, ringing, waiting] = [(); 3].map(|()| Arc::clone(&threads));
        Ok(vec![
            supervise::thread(SupervisedPart::JsDisk, move || disk.run())?,
            supervise::thread(SupervisedPart::JsUpkeep, move || run_jobs(&upkeep, &upkeeping))?,
            supervise::thread(SupervisedPart::JsMarks, move || marks.run())?,
            supervise::thread(SupervisedPart::JsAlarms, move || alarms::run(&alarms, &ringing))?,
            supervise::thread(SupervisedPart::JsDue, move || alarms::fire_all(&due, &waiting))?,
            supervise::thread(SupervisedPart::JsApi, move || answer(&answering.0, &answering.1, &calls))?,
        ])
    }
}

/// Answers requests; waits for nothing but the next one, or for a turn.
fn answer(jetstream: &Arc<JetStream>, threads: &Threads, orders: &Receiver<Call>) {
    // What came of it is for the calls to see.
    let guard = |work: &mut dyn FnMut()| {
        let _ = supervise::guard(SupervisedPart::JsApi, work);
    };
    let mut calls = ApiCalls::new(jetstream, Box::new(guard));
    loop {
        let order = match orders.try_recv() {
            Ok(order) => order,
            // There is nothing else to do: what was made is made durable.
            Err(_) => {
                calls.flush();
                send_answers(threads, &mut calls);
                let Ok(order) = orders.recv() else { return };
                order
            }
        };
        match order {
            Call::Answer(request) => calls.begin(request),
            Call::Resume => {
                calls.resume();
                // Long work wakes itself again before there is ever nothing else to do.
                calls.flush();
            }
            Call::Repair(account, stream) => {
                // A panic was logged, and there is no answer to give.
                let _ = supervise::guard(SupervisedPart::JsApi, || jetstream.repair(&account, &stream));
            }
            Call::Run(scope, task) => calls.enter_task(scope, task),
            Call::Stop => return,
        }
        send_answers(threads, &mut calls);
    }
}

/// Sends answers that may leave, and does what there is to do behind them.
fn send_answers(threads: &Threads, calls: &mut ApiCalls) {
    if let Some(error) = calls.failure() {
        // Nobody knows what the disk has of it.
        threads.log.error(format_args!(
            "JetStream cannot make streams and consumers durable, the server ends: {error}"
        ));
        threads.log.flush();
        std::process::exit(JOURNAL_FAILED);
    }
    loop {
        while let Some((account, out)) = calls.next_answer() {
            threads.waiting.fetch_sub(1, Relaxed);
            threads.publish(&account, out);
        }
        if !calls.run_task() {
            return;
        }
    }
}

fn run_jobs(queue: &Receiver<UpkeepOrder>, threads: &Threads) {
    let mut next = queue.recv();
    while let Ok(UpkeepOrder::Run(task)) = next {
        threads.upkeep.taken();
        supervise::guard(SupervisedPart::JsUpkeep, task);
        next = spare_memory::receive(queue);
    }
}

/// The time of day in nanoseconds since 1970.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::try_from(since.as_nanos()).unwrap_or(Timestamp::MAX)
}

/// The shard that publishes for the threads of JetStream: so what one of them says keeps its order.
const PUBLISHES: usize = 0;

impl Host for Threads {
    fn now(&self) -> Timestamp {
        self.clock.now(Instant::now, now)
    }

    fn time_of_day(&self) -> Timestamp {
        now()
    }

    fn keep_time(&self, at: Instant, time: Timestamp) {
        self.clock.keep(at, time);
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn wake(&self, service: Arc<dyn Service>) {
        // Always the same shard, so that wake-ups of many streams and consumers spread and those of
        // one meet. Hashed, because addresses of equal things are multiples of their size.
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(Arc::as_ptr(&service).addr());
        let at = (hash % self.mailboxes.len() as u64) as usize;
        self.mailboxes[at].post(Mail::Serve(service));
    }

    fn wake_behind(&self, service: Arc<dyn Service>) {
        self.mailboxes[PUBLISHES].post(Mail::Serve(service));
    }

    fn publish(&self, account: &Arc<Account>, msgs: MessageBuf) {
        if !msgs.is_empty() {
            self.mailboxes[PUBLISHES].post(Mail::Publish(Arc::clone(account), msgs));
        }
    }

    fn request(&self, request: ApiRequest) -> bool {
        if self.waiting.fetch_add(1, Relaxed) >= self.limit {
            self.waiting.fetch_sub(1, Relaxed);
            return false;
        }
        let sent = self.calls.send(Call::Answer(request)).is_ok();
        if !sent {
            self.waiting.fetch_sub(1, Relaxed);
        }
        sent
    }

    fn spawn_read(&self, task: Task) {
        self.reads.put(task);
    }

    fn try_spawn_read(&self, task: Task) -> bool {
        self.reads.put_below(self.limit, task)
    }

    fn spawn_backup(&self, task: Task) {
        self.backups.put(task);
    }

    fn spawn_api(&self, scope: CallScope, task: Task) {
        let _ = self.calls.send(Call::Run(scope, task));
    }

    fn spawn_sync(&self, task: Task) {
        self.syncs.put(task);
    }

    fn resume_calls(&self) {
        let _ = self.calls.send(Call::Resume);
    }

    fn repair(&self, account: &str, stream: &str) {
        let _ = self.calls.send(Call::Repair(account.to_owned(), stream.to_owned()));
    }

    fn schedule(&self, at: Timestamp, timer: Weak<dyn Timer>) {
        let _ = self.alarms.send(alarms::AlarmOrder::Ring(at, timer));
    }

    fn spawn_upkeep(&self, task: Task) {
        self.upkeep.put(UpkeepOrder::Run(task));
    }

    fn reach(&self) -> Reach {
        if self.is_clustered { Reach::Everywhere } else { Reach::Offered }
    }

    fn system_account(&self) -> Option<Arc<Account>> {
        self.broker.system_account()
    }

    fn cluster(&self) -> String {
        self.broker.cluster().to_string()
    }

    fn other_clusters(&self) -> Vec<String> {
        self.broker.other_clusters()
    }

    fn seek_account(&self, name: &str) {
        self.broker.trusted().into_iter().for_each(|trusted| trusted.seek(name));
    }

    fn placement_facts(&self) -> PlacementFacts {
        let facts = self.placement.get().cloned().unwrap_or_default();
        PlacementFacts { tags: self.broker.labels().tags.clone(), ..facts }
    }

    /// Panics here where a test has asked the part to: consumers guard themselves, and one that
    /// pins clients asks for names in the middle of its turn.
    fn unique_id(&self) -> String {
        supervise::point(SupervisedPart::JsConsumer);
        myelin_stdx::id::unique(&OsEntropy, 22)
    }

    fn panicked(&self, at: fmt::Arguments<'_>, payload: &supervise::Payload, cost: fmt::Arguments<'_>) {
        supervise::report_panic(at, payload, cost);
    }

    fn log(&self, level: Level, line: fmt::Arguments<'_>) {
        match level {
            Level::Error => self.log.error(line),
            Level::Warn => self.log.warn(line),
            Level::Info => self.log.info(line),
            Level::Debug | Level::Trace => self.log.debug(line),
        }
    }
}
