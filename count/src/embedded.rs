//! A server without sockets, threads and a clock of its own: one shard, JetStream on a disk in
//! memory, and clients whose bytes are handed over. The same input takes the same instructions, but
//! for the seeds of hash tables.

mod linked;

use bytes::Bytes;
use myelin_auth::AuthConfig;
use myelin_broker::{Account, Broker, Conn, Endpoint, Level, Log, Service, Session, Shard, Transport};
use myelin_disk::memory::MemoryDisk;
use myelin_jetstream::{
    ApiRequest, Backlog, CallScope, Host, JetStream, JetStreamSettings, ServerLimits, Task, Timer,
};
use myelin_jsapi::config::AccountLimits;
use myelin_jsapi::consumer::config::ServerConsumerLimits;
use myelin_stdx::sync::lock;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{StoreOptions, Timestamp};
use myelin_streams::stream::batch::BatchLimits;
use myelin_wire::error::CloseReason;
use myelin_wire::info::Info;
use myelin_wire::message_buf::MessageBuf;
use std::any::Any;
use std::collections::VecDeque;
use std::fmt::{self, Arguments};
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};

/// When the clock begins, in nanoseconds since 1970.
pub(crate) const BEGINNING: Timestamp = 1_800_000_000_000_000_000;
/// By how much it goes on with each turn of the shard.
const TURN: Timestamp = 1_000_000;
/// How often the watermarks are written, in turns: as the server's thread does.
const TURNS_PER_WATERMARK: u64 = 40;

/// A client's connection, and what the server has sent to it.
pub(crate) struct Client {
    session: Session,
    received: Arc<AtomicU64>,
}

impl Client {
    /// Bytes that were sent to it.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }
}

/// The server.
pub(crate) struct Embedded {
    broker: Arc<Broker>,
    shard: Shard,
    jetstream: Arc<JetStream>,
    host: Arc<Waiting>,
    began: Instant,
    turns: u64,
}

impl Embedded {
    /// A server with one account, which may use JetStream.
    pub(crate) fn new() -> Self {
        let settings = myelin_broker::Settings::default();
        let log = Arc::new(Silence);
        let broker = Broker::new(
            settings,
            AuthConfig::open(),
            &[],
            None,
            Info::default(),
            Arc::new(SeededEntropy::new(1)),
            log,
        )
        .expect("there is one account");
        let host = Arc::<Waiting>::default();
        let jetstream = JetStream::open(
            jetstream_settings(),
            Arc::new(MemoryDisk::new()),
            StoreOptions::new("/store"),
            Arc::new(SeededEntropy::new(7)),
            Arc::clone(&host) as Arc<dyn Host>,
        )
        .expect("an empty disk is a store");
        let account = broker.account("$G").expect("the global account");
        jetstream.enable(&account, Some(AccountLimits::default())).expect("it is promised nothing");
        let shard = Shard::new(&broker, 7);
        let mut server = Self { broker, shard, jetstream, host, began: Instant::now(), turns: 0 };
        server.work();
        server
    }

    /// A client that has connected, and then sent `says`.
    pub(crate) fn client(&mut self, says: &str) -> Client {
        let endpoint = Endpoint { peer: ([127, 0, 0, 1], 4).into(), start: SystemTime::UNIX_EPOCH };
        let received = Arc::<AtomicU64>::default();
        let conn = self.broker.connect(endpoint, Box::new(Counted(Arc::clone(&received))));
        let now = self.instant();
        let (session, _) = Session::open(&mut self.shard, conn, now);
        let mut client = Client { session, received };
        let hello =
            "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n";
        self.send(&mut client, &Bytes::from(format!("{hello}{says}")));
        client
    }

    /// Takes what a client has sent, and does everything that follows from it.
    pub(crate) fn send(&mut self, client: &mut Client, bytes: &Bytes) {
        self.turns += 1;
        self.host.now.fetch_add(TURN, Relaxed);
        let now = self.instant();
        let mut at = 0;
        while at < bytes.len() {
            let consumed = client.session.ingest(&mut self.shard, &bytes[at..], Some(bytes), now);
            assert!(consumed.bytes > 0, "the server goes on reading");
            at += consumed.bytes;
            self.work();
        }
        if self.turns.is_multiple_of(TURNS_PER_WATERMARK) {
            self.jetstream.write_watermarks().expect("the disk is memory");
        }
    }

    /// Sends a request to the API of JetStream.
    pub(crate) fn ask(&mut self, client: &mut Client, subject: &str, body: &str) {
        let before = client.received();
        let request = format!("PUB $JS.API.{subject} _INBOX.api {}\r\n{body}\r\n", body.len());
        self.send(client, &Bytes::from(format!("SUB _INBOX.api 99\r\n{request}")));
        assert!(client.received() > before, "{subject} is answered");
        self.send(client, &Bytes::from_static(b"UNSUB 99\r\n"));
    }

    /// Ends a connection.
    pub(crate) fn end(&mut self, mut client: Client) {
        let now = self.instant();
        let _ = client.session.end(&mut self.shard, CloseReason::ClientClosed, now);
        self.work();
    }

    /// Messages that a stream has stored since it was made.
    pub(crate) fn stored(&self, stream: &str) -> u64 {
        let streams = self.jetstream.account("$G").expect("it is enabled");
        streams.stream(stream).expect("a row has made it").reader().state().totals.last_seq
    }

    fn instant(&self) -> Instant {
        self.began + Duration::from_nanos((self.host.now() - BEGINNING).unsigned_abs())
    }

    /// Does what there is to do, until there is nothing.
    fn work(&mut self) {
        loop {
            self.shard.flush();
            let journal = self.jetstream.journal();
            let clock = || self.host.now().unsigned_abs();
            if journal.next_due(clock()) == Some(Duration::ZERO) {
                journal.round(&clock).expect("the disk is memory");
                continue;
            }
            if !self.work_off() && !self.shard.is_dirty() {
                return;
            }
        }
    }

    /// Does one thing that JetStream has put off. `false`: there is none.
    fn work_off(&mut self) -> bool {
        let host = Arc::clone(&self.host);
        if let Some(request) = take(&host.requests) {
            let mut answer = self.jetstream.answer(&request);
            let now = self.instant();
            self.shard.send(&request.account, &mut answer, now);
        } else if let Some(task) = take(&host.tasks) {
            task();
        } else if let Some(service) = take(&host.woken) {
            self.shard.wake(&service);
        } else if let Some(job) = take(&host.jobs) {
            job();
        } else if let Some((account, mut messages)) = take(&host.messages) {
            let now = self.instant();
            self.shard.send(&account, &mut messages, now);
        } else {
            return self.fire();
        }
        true
    }

    /// Lets the alarms go off that are due.
    fn fire(&self) -> bool {
        let now = self.host.now();
        if self.host.next_alarm.load(Relaxed) > now {
            return false;
        }
        let (due, earliest) = {
            let mut alarms = lock(&self.host.alarms);
            let due: Vec<_> = alarms.extract_if(.., |(at, _)| *at <= now).collect();
            (due, alarms.iter().map(|(at, _)| *at).min())
        };
        self.host.next_alarm.store(earliest.unwrap_or(Timestamp::MAX), Relaxed);
        due.iter().filter_map(|(_, alarmed)| alarmed.upgrade()).for_each(|alarmed| alarmed.fire());
        !due.is_empty()
    }
}

/// Work that JetStream has put off, for [`Embedded`] to do.
struct Waiting {
    now: AtomicI64,
    names: AtomicU64,
    requests: Mutex<VecDeque<ApiRequest>>,
    tasks: Mutex<VecDeque<Task>>,
    woken: Mutex<VecDeque<Arc<dyn Service>>>,
    jobs: Mutex<VecDeque<Task>>,
    alarms: Mutex<Vec<(Timestamp, Weak<dyn Timer>)>>,
    next_alarm: AtomicI64,
    messages: Mutex<VecDeque<(Arc<Account>, MessageBuf)>>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            now: AtomicI64::new(BEGINNING),
            names: AtomicU64::default(),
            requests: Mutex::default(),
            tasks: Mutex::default(),
            woken: Mutex::default(),
            jobs: Mutex::default(),
            alarms: Mutex::default(),
            next_alarm: AtomicI64::new(Timestamp::MAX),
            messages: Mutex::default(),
        }
    }
}

impl Host for Waiting {
    fn now(&self) -> Timestamp {
        self.now.load(Relaxed)
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn wake(&self, service: Arc<dyn Service>) {
        lock(&self.woken).push_back(service);
    }

    fn publish(&self, account: &Arc<Account>, messages: MessageBuf) {
        lock(&self.messages).push_back((Arc::clone(account), messages));
    }

    fn request(&self, request: ApiRequest) -> bool {
        lock(&self.requests).push_back(request);
        true
    }

    fn spawn_read(&self, task: Task) {
        lock(&self.tasks).push_back(task);
    }

    fn try_spawn_read(&self, task: Task) -> bool {
        self.spawn_read(task);
        true
    }

    fn spawn_backup(&self, task: Task) {
        self.spawn_read(task);
    }

    fn spawn_api(&self, _: CallScope, task: Task) {
        self.spawn_read(task);
    }

    fn repair(&self, _: &str, _: &str) {}

    fn schedule(&self, at: Timestamp, alarmed: Weak<dyn Timer>) {
        lock(&self.alarms).push((at, alarmed));
        self.next_alarm.fetch_min(at, Relaxed);
    }

    fn spawn_upkeep(&self, task: Task) {
        lock(&self.jobs).push_back(task);
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

    fn panicked(&self, at: Arguments<'_>, _: &(dyn Any + Send), cost: Arguments<'_>) {
        eprintln!("{at}: {cost}");
    }

    fn log(&self, level: Level, line: Arguments<'_>) {
        if matches!(level, Level::Error | Level::Warn) {
            eprintln!("{line}");
        }
    }
}

/// A socket that takes everything and counts it.
struct Counted(Arc<AtomicU64>);

impl Transport for Counted {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        self.0.fetch_add(bytes as u64, Relaxed);
        Ok(bytes)
    }

    fn wait_writable(&self, _: &Arc<Conn>) {}

    fn kick(&self, _: &Arc<Conn>) {}
}

struct Silence;

impl Log for Silence {
    fn enabled(&self, _: Level) -> bool {
        false
    }

    fn write(&self, _: Level, _: fmt::Arguments<'_>) {}
}

fn jetstream_settings() -> JetStreamSettings {
    JetStreamSettings {
        domain: String::new(),
        strict: false,
        server_name: "count".into(),
        server_id: "count".into(),
        sync_always: false,
        limits: ServerLimits {
            max_memory: 1 << 30,
            max_store: 1 << 30,
            duplicate_window: None,
            batches: BatchLimits::default(),
            consumers: ServerConsumerLimits::default(),
            is_store_of_disk: false,
        },
        backlog: Backlog { messages: 10_000, bytes: 128 << 20 },
        max_pending: 64 << 20,
        max_payload: 1 << 20,
        request_queue_limit: 10_000,
    }
}

/// The lock is given back before what was taken is worked on.
fn take<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    lock(queue).pop_front()
}
