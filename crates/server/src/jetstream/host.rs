//! The embedder's side of JetStream: queues to its threads and mail to the shards.

use super::{alarms, disk};
use crate::logging::Logger;
use crate::shard::{Mail, Mailbox};
use myelin_broker::{Account, Broker, Level, Parcel, Service};
use myelin_jetstream::{Alarmed, Host, JetStream, LiveStream, Request, Task};
use myelin_store::{Job, Timestamp};
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

/// What the API's thread is asked.
enum Call {
    Answer(Request),
    Repair(Arc<LiveStream>),
    Run(Task),
    Stop,
}

/// What the threads that read, and that make and take in backups, are asked.
enum Read {
    Run(Task),
    Stop,
}

/// What the upkeep thread is asked.
enum Upkeep {
    Run(Arc<LiveStream>, Job),
    Stop,
}

/// Ways to the threads. See the head of this file.
pub(crate) struct Threads {
    mailboxes: Vec<Mailbox>,
    broker: Arc<Broker>,
    log: Arc<Logger>,
    calls: Sender<Call>,
    reads: Sender<Read>,
    backups: Sender<Read>,
    waiting: AtomicUsize,
    limit: usize,
    upkeep: Sender<Upkeep>,
    alarms: Sender<alarms::Order>,
    pub(super) is_stopping: AtomicBool,
}

/// The other ends, until the threads are started.
pub(super) struct Queues {
    threads: Arc<Threads>,
    calls: Receiver<Call>,
    reads: Receiver<Read>,
    backups: Receiver<Read>,
    upkeep: Receiver<Upkeep>,
    alarms: Receiver<alarms::Order>,
}

impl Threads {
    /// Ways to threads that are not started yet: what is asked of them waits.
    pub(super) fn new(
        broker: &Arc<Broker>,
        mailboxes: Vec<Mailbox>,
        log: &Arc<Logger>,
        limit: usize,
    ) -> (Arc<Self>, Queues) {
        let ((calls, call_queue), (upkeep, upkeep_queue)) = (channel(), channel());
        let ((alarms, alarm_queue), (reads, read_queue)) = (channel(), channel());
        let (backups, backup_queue) = channel();
        let threads = Arc::new(Self {
            mailboxes,
            broker: Arc::clone(broker),
            log: Arc::clone(log),
            calls,
            reads,
            backups,
            waiting: AtomicUsize::new(0),
            limit,
            upkeep,
            alarms,
            is_stopping: AtomicBool::new(false),
        });
        let queues = Queues {
            threads: Arc::clone(&threads),
            calls: call_queue,
            reads: read_queue,
            backups: backup_queue,
            upkeep: upkeep_queue,
            alarms: alarm_queue,
        };
        (threads, queues)
    }

    /// Requests to the API that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Tells all threads to end. The disk thread hears of it through the journal.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        // Those that have ended need not be told.
        let _ = self.calls.send(Call::Stop);
        let _ = self.reads.send(Read::Stop);
        let _ = self.backups.send(Read::Stop);
        let _ = self.upkeep.send(Upkeep::Stop);
        let _ = self.alarms.send(alarms::Order::Stop);
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
        let Self { threads, calls, reads, backups, upkeep, alarms } = self;
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let disk = disk::Rounds::new(jetstream, &threads, log);
        let answering = (Arc::clone(jetstream), Arc::clone(&threads));
        let [upkeeping, reading, hauling] = [&threads, &threads, &threads].map(Arc::clone);
        Ok(vec![
            named("js-disk").spawn(move || disk.run())?,
            named("js-upkeep").spawn(move || run_jobs(&upkeep, &upkeeping))?,
            named("js-reads").spawn(move || read(&reads, "a read", &reading))?,
            named("js-backups").spawn(move || read(&backups, "a backup", &hauling))?,
            named("js-alarms").spawn(move || alarms::run(&alarms))?,
            named("js-api").spawn(move || answer(&answering.0, &answering.1, &calls))?,
        ])
    }
}

fn answer(jetstream: &Arc<JetStream>, threads: &Threads, calls: &Receiver<Call>) {
    while let Ok(call) = calls.recv() {
        match call {
            Call::Answer(request) => {
                let account = Arc::clone(&request.account);
                let out = caught(threads, "a request to the API", || jetstream.answer(&request));
                threads.waiting.fetch_sub(1, Relaxed);
                threads.publish(&account, out.unwrap_or_default());
            }
            Call::Repair(stream) => drop(caught(threads, "a repair", || jetstream.repair(&stream))),
            Call::Run(task) => drop(caught(threads, "work on a consumer", task)),
            Call::Stop => return,
        }
    }
}

fn read(queue: &Receiver<Read>, what: &str, threads: &Threads) {
    while let Ok(Read::Run(task)) = queue.recv() {
        caught(threads, what, task);
    }
}

fn run_jobs(queue: &Receiver<Upkeep>, threads: &Threads) {
    while let Ok(Upkeep::Run(stream, job)) = queue.recv() {
        caught(threads, "upkeep", || stream.upkeep(job));
    }
}

/// Does one thing of many: a panic in it costs nobody else's, and is counted.
fn caught<T>(threads: &Threads, what: &str, act: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(act));
    let told = done.inspect_err(|_| {
        threads.broker.counters().panics.fetch_add(1, Relaxed);
        threads.log.error(format_args!("JetStream: a panic in {what}"));
    });
    told.ok()
}

/// The time of day in nanoseconds since 1970.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::try_from(since.as_nanos()).unwrap_or(Timestamp::MAX)
}

impl Host for Threads {
    fn now(&self) -> Timestamp {
        now()
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn wake(&self, service: Arc<dyn Service>) {
        // Always the same shard, so that wake-ups of many streams and consumers spread and those of one meet. Hashed, because
        // addresses of equal things are multiples of their size.
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(Arc::as_ptr(&service).addr());
        let at = (hash % self.mailboxes.len() as u64) as usize;
        self.mailboxes[at].post(Mail::Serve(service));
    }

    fn publish(&self, account: &Arc<Account>, parcel: Parcel) {
        if !parcel.is_empty() {
            self.mailboxes[0].post(Mail::Publish(Arc::clone(account), parcel));
        }
    }

    fn request(&self, request: Request) -> bool {
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

    fn read(&self, task: Task) {
        let _ = self.reads.send(Read::Run(task));
    }

    fn haul(&self, task: Task) {
        let _ = self.backups.send(Read::Run(task));
    }

    fn run(&self, task: Task) {
        let _ = self.calls.send(Call::Run(task));
    }

    fn repair(&self, stream: Arc<LiveStream>) {
        let _ = self.calls.send(Call::Repair(stream));
    }

    fn schedule(&self, at: Timestamp, sleeper: Weak<dyn Alarmed>) {
        let _ = self.alarms.send(alarms::Order::Ring(at, sleeper));
    }

    fn work(&self, stream: Arc<LiveStream>, job: Job) {
        let _ = self.upkeep.send(Upkeep::Run(stream, job));
    }

    fn system_account(&self) -> Option<Arc<Account>> {
        self.broker.system_account()
    }

    fn unique_id(&self) -> String {
        myelin_stdx::id::unique(22)
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
