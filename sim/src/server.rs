//! One server without sockets and threads: a shard of the broker, JetStream and its store, and the
//! connections of the run's clients. Which of its threads goes on next, the seed says.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use myelin_auth::AuthConfig;
use myelin_broker::{Account, Broker, Conn, Endpoint, Session, SessionStatus, Shard, Transport};
use myelin_disk::faulty::FaultyDisk;
use myelin_jetstream::{
    AccountStreams, ApiRequest, Backlog, Host, JetStream, JetStreamSettings, ServerLimits,
};
use myelin_jsapi::config::AccountLimits;
use myelin_jsapi::consumer::config::ServerConsumerLimits;
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use myelin_store::entropy::SeededEntropy;
use myelin_streams::stream::batch::BatchLimits;
use myelin_wire::info::Info;

use crate::clock::Clock;
use crate::host::{Call, Mail, Silent, SimHost};
use crate::plan::ServerPlan;
use crate::watch::{DiskWatch, PLANNED};

/// The only account.
const ACCOUNT: &str = "$G";
/// How long the thread of the watermarks sleeps between two turns of work.
const WATERMARK_PAUSE: u64 = 10_000_000;
/// Requests that share a sync, at most: as in the server.
const MOST_TOGETHER: u64 = 8;
/// One turn of a thread takes up to so many nanoseconds.
const STEP: u64 = 20_000;

/// How many of what has gone on last are kept.
const RECENT: usize = 24;
/// Room for all that can go on at once.
const PARTS: usize = 16;

/// Something that can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Input(usize),
    Flush,
    Mail,
    Wakes,
    Api,
    Reads,
    Backups,
    Upkeep,
    Due,
    Alarms,
    Round,
    Watermarks,
}

/// Connection of a client, seen from the server.
struct Port {
    session: Session,
    input: Vec<u8>,
    output: Arc<Mutex<Vec<u8>>>,
}

/// The server.
pub(crate) struct Server {
    pub(crate) host: Arc<SimHost>,
    jetstream: Arc<JetStream>,
    shard: Shard,
    ports: Vec<Port>,
    /// Whether something has changed since the watermarks were written, and when that was.
    watermarks: (bool, u64),
    watch: Arc<DiskWatch>,
    /// Parts that have gone on last.
    recent: VecDeque<Part>,
    /// Why the process has ended by itself.
    pub(crate) ended: Option<String>,
}

impl Server {
    /// Starts on what a disk holds, with connections for so many clients.
    pub(crate) fn start(
        disk: &FaultyDisk,
        plan: &ServerPlan,
        (clock, watch): (&Arc<Clock>, &Arc<DiskWatch>),
        (seed, life): (u64, u64),
        clients: usize,
    ) -> Result<Self, String> {
        // Numbers of two lives must have nothing in common: identities are drawn from them.
        let seed = Rng::seeded(Rng::seeded(seed).next_u64() ^ life).next_u64();
        let host = Arc::new(SimHost::new(Arc::clone(clock), life));
        let entropy = || Arc::new(SeededEntropy::new(seed));
        let broker = Broker::new(
            myelin_broker::Settings::default(),
            AuthConfig::open(),
            &[],
            None,
            Info::default(),
            entropy(),
            Arc::new(Silent),
        );
        let broker = broker.map_err(|error| format!("the broker does not start: {error:?}"))?;
        let jetstream = JetStream::open(
            settings(plan.is_always_synced),
            Arc::new(disk.clone()),
            plan.store_options(),
            entropy(),
            Arc::clone(&host) as Arc<dyn Host>,
        );
        let jetstream = jetstream.map_err(|error| format!("the store does not open: {error}"))?;
        let account = broker.account(ACCOUNT).ok_or("there is no account")?;
        let enabled = jetstream.enable(&account, Some(AccountLimits::default()));
        enabled.map_err(|error| format!("JetStream cannot be enabled: {error:?}"))?;
        let mut shard = Shard::new(&broker, seed);
        let ports = (0..clients).map(|_| connect(&broker, &mut shard, clock)).collect();
        let watch = Arc::clone(watch);
        Ok(Self {
            host,
            jetstream,
            shard,
            ports,
            watermarks: (true, 0),
            watch,
            recent: VecDeque::new(),
            ended: None,
        })
    }

    /// Bytes that a client sends, for more of them.
    pub(crate) fn input(&mut self, client: usize) -> &mut Vec<u8> {
        &mut self.ports[client].input
    }

    /// Adds the bytes that were written to a client's socket since the last call.
    pub(crate) fn take_output(&self, client: usize, to: &mut Vec<u8>) {
        to.append(&mut lock(&self.ports[client].output));
    }

    /// The account's streams.
    pub(crate) fn streams(&self) -> Arc<AccountStreams> {
        self.jetstream.account(ACCOUNT).expect("it was enabled")
    }

    /// Lets one of the threads that have something to do go on. `false`: all of them wait.
    pub(crate) fn step(&mut self, rng: &mut Rng) -> bool {
        self.host.clock.pass(rng.below(STEP));
        let (ready, count) = self.ready();
        if count == 0 {
            return false;
        }
        let part = ready[rng.below(count as u64) as usize];
        self.watermarks.0 |= part != Part::Watermarks;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(part);
        self.run_guarded(part, rng);
        true
    }

    /// Words for what is due next.
    pub(crate) fn due(&self) -> String {
        format!("{:?} {:?} {:?}", self.host.next_alarm(), self.round_due(), self.watermarks)
    }

    /// Word for the part that has gone on.
    pub(crate) fn latest(&self) -> String {
        self.recent.back().map(|part| format!("{part:?}")).unwrap_or_default()
    }

    /// Words for what has gone on last.
    pub(crate) fn recent(&self) -> String {
        format!("{:?}", self.recent)
    }

    /// Lets a thread go on as the server's supervision does: a panic that nobody has caught costs
    /// the work in hand, or the process.
    fn run_guarded(&mut self, part: Part, rng: &mut Rng) {
        let may_panic = matches!(part, Part::Input(_) | Part::Mail | Part::Wakes | Part::Api | Part::Round);
        self.watch.let_panic(may_panic);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run(part, rng)));
        self.watch.let_panic(false);
        let Err(payload) = outcome else { return };
        let text = payload.downcast_ref::<String>().map(String::as_str);
        if text.or_else(|| payload.downcast_ref::<&str>().copied()) != Some(PLANNED) {
            resume_unwind(payload);
        }
        match part {
            Part::Mail | Part::Api => self.host.plan_panic(),
            _ => self.ended = Some(PLANNED.to_owned()),
        }
    }

    /// The threads that have something to do, and how many they are.
    fn ready(&self) -> ([Part; PARTS], usize) {
        let host = &self.host;
        let (mut ready, mut count) = ([Part::Flush; PARTS], 0);
        let mut add = |part: Part, is_ready: bool| {
            if is_ready {
                ready[count] = part;
                count += 1;
            }
        };
        self.ports.iter().enumerate().for_each(|(at, port)| add(Part::Input(at), !port.input.is_empty()));
        add(Part::Flush, self.shard.is_dirty());
        add(Part::Mail, host.mail.len() > 0);
        add(Part::Wakes, host.wakes.len() > 0);
        add(Part::Api, host.api.len() > 0);
        add(Part::Reads, host.reads.len() > 0);
        add(Part::Backups, host.backups.len() > 0);
        add(Part::Upkeep, host.upkeep.len() > 0);
        add(Part::Due, host.due.len() > 0);
        add(Part::Alarms, host.next_alarm().is_some_and(|at| at <= host.now()));
        add(Part::Round, self.round_due() == Some(Duration::ZERO));
        add(Part::Watermarks, self.watermarks.0 && self.watermarks.1 <= host.clock.elapsed());
        (ready, count)
    }

    fn round_due(&self) -> Option<Duration> {
        self.jetstream.journal().next_due(self.host.now().unsigned_abs())
    }

    /// How long all threads wait, if nothing comes from outside.
    pub(crate) fn sleep(&self) -> Option<u64> {
        let until = |at: i64| at.saturating_sub(self.host.now()).unsigned_abs();
        let round = self.round_due().map(|due| u64::try_from(due.as_nanos()).unwrap_or(u64::MAX));
        let watermarks =
            self.watermarks.0.then(|| self.watermarks.1.saturating_sub(self.host.clock.elapsed()));
        [self.host.next_alarm().map(until), round, watermarks].into_iter().flatten().min()
    }

    fn run(&mut self, part: Part, rng: &mut Rng) {
        let host = Arc::clone(&self.host);
        match part {
            Part::Input(client) => self.ingest(client, rng),
            Part::Flush => self.shard.flush(),
            Part::Mail => match host.mail.take() {
                Some(Mail::Serve(service)) => self.shard.wake(&service),
                Some(Mail::Publish(account, msgs)) => self.publish(&account, msgs),
                None => {}
            },
            Part::Wakes => host.wakes.take().iter().for_each(|service| self.shard.wake(service)),
            Part::Api => self.call(rng),
            Part::Reads => host.reads.take().into_iter().for_each(|task| task()),
            Part::Backups => host.backups.take().into_iter().for_each(|task| task()),
            Part::Upkeep => host.upkeep.take().into_iter().for_each(|task| task()),
            Part::Due => host.due.take().iter().for_each(|timer| timer.fire()),
            Part::Alarms => match host.take_alarm() {
                Some(timer) if timer.may_wait() => host.fire_elsewhere(timer),
                Some(timer) => timer.fire(),
                None => {}
            },
            Part::Round => {
                let now = || host.now().unsigned_abs();
                if let Err(failed) = self.jetstream.journal().round(&now) {
                    self.ended = Some(format!("the journal: {failed}"));
                }
            }
            Part::Watermarks => {
                let is_left = self.jetstream.write_watermarks().is_err();
                self.watermarks = (is_left, host.clock.elapsed() + WATERMARK_PAUSE);
            }
        }
    }

    /// The shard reads from a socket: all that is there, or a part of it.
    fn ingest(&mut self, client: usize, rng: &mut Rng) {
        let now = self.host.clock.instant();
        let Self { shard, ports, .. } = self;
        let port = &mut ports[client];
        let whole = port.input.len() as u64;
        let length = if rng.below(4) == 0 { 1 + rng.below(whole) } else { whole } as usize;
        let bytes = Bytes::copy_from_slice(&port.input[..length]);
        let consumed = port.session.ingest(shard, &bytes, Some(&bytes), now);
        port.input.drain(..consumed.bytes);
        if consumed.bytes == 0 {
            // It has enough to send, or needs the rest of an operation.
            shard.flush();
            let bytes = Bytes::copy_from_slice(&port.input);
            let consumed = port.session.ingest(shard, &bytes, Some(&bytes), now);
            port.input.drain(..consumed.bytes);
        }
    }

    fn publish(&mut self, account: &Arc<Account>, mut msgs: myelin_wire::message_buf::MessageBuf) {
        let now = self.host.clock.instant();
        self.shard.send(account, &mut msgs, now);
    }

    /// The thread of the API: one call, or several requests that share a sync.
    fn call(&mut self, rng: &mut Rng) {
        let mut together = 1 + rng.below(MOST_TOGETHER);
        let mut answers = Vec::new();
        while let Some(call) = self.host.api.take() {
            let request: ApiRequest = match call {
                Call::Answer(request) => request,
                Call::Repair(account, stream) => {
                    self.jetstream.repair(&account, &stream);
                    break;
                }
                Call::Run(_, task) => {
                    task();
                    break;
                }
                Call::Resume => break,
            };
            let answer = self.jetstream.answer(&request);
            answers.push((Arc::clone(&request.account), answer));
            together -= 1;
            if together == 0 || !request.shares_sync() {
                break;
            }
        }
        if let Err(error) = self.jetstream.settle() {
            self.ended = Some(format!("streams and consumers cannot be made durable: {error}"));
            return;
        }
        for (account, answer) in answers {
            self.host.publish(&account, answer);
        }
    }

    /// Ends as an operator ends it.
    pub(crate) fn close(self) -> Result<(), String> {
        self.jetstream.close().map_err(|error| format!("it does not close: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.host.end();
    }
}

fn connect(broker: &Arc<Broker>, shard: &mut Shard, clock: &Clock) -> Port {
    let endpoint = Endpoint { peer: ([127, 0, 0, 1], 4).into(), start: SystemTime::UNIX_EPOCH };
    let output = Arc::<Mutex<Vec<u8>>>::default();
    let conn = broker.connect(endpoint, Box::new(Socket(Arc::clone(&output))));
    let (session, status) = Session::open(shard, conn, clock.instant());
    assert!(status == SessionStatus::Continue, "anybody may connect");
    Port { session, input: Vec::new(), output }
}

/// A socket that takes everything.
struct Socket(Arc<Mutex<Vec<u8>>>);

impl Transport for Socket {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut output = lock(&self.0);
        bufs.iter().for_each(|buf| output.extend_from_slice(buf));
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn wait_writable(&self, _: &Arc<Conn>) {}

    fn kick(&self, _: &Arc<Conn>) {}
}

fn settings(sync_always: bool) -> JetStreamSettings {
    JetStreamSettings {
        domain: String::new(),
        strict: false,
        server_name: "sim".into(),
        server_id: "sim".into(),
        sync_always,
        limits: ServerLimits {
            max_memory: 1 << 30,
            max_store: 1 << 30,
            is_store_of_disk: false,
            duplicate_window: None,
            batches: BatchLimits::default(),
            consumers: ServerConsumerLimits::default(),
        },
        backlog: Backlog { messages: 10_000, bytes: 128 << 20 },
        max_pending: 64 << 20,
        max_payload: 1 << 20,
        request_queue_limit: 10_000,
    }
}
