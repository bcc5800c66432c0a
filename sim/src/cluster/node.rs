//! One server of a simulated cluster: broker, JetStream with its API and its members of groups.
//! Its threads are parts that go on when the seed says so; what it sends leaves as letters.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use myelin_auth::AuthConfig;
use myelin_broker::{Account, AccountConfig, Broker, Service, ServiceBatch, ServiceShard, Shard};
use myelin_disk::faulty::FaultyDisk;
use myelin_jetstream::{
    ApiCalls, Backlog, GroupSettings, GroupView, Host, JetStream, JetStreamSettings, KeptLogBounds,
    LiveStream, ServerLimits, peer_id,
};
use myelin_jsapi::config::AccountLimits;
use myelin_jsapi::consumer::config::ServerConsumerLimits;
use myelin_replica::Peer;
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use myelin_store::StoreOptions;
use myelin_store::entropy::SeededEntropy;
use myelin_streams::stream::batch::BatchLimits;
use myelin_wire::info::Info;
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::plan::ClusterPlan;
use crate::clock::Clock;
use crate::host::{Call, Mail, Silent, SimHost};

/// The account of clients.
const ACCOUNT: &str = "$G";
/// Accounts of a server: that of clients, of frames, and of what is large.
const ACCOUNTS: [&str; 3] = [ACCOUNT, "$RAFT", "$BULK"];
/// The account of clients, by its place.
pub(super) const CLIENTS: usize = 0;
/// The account of what is large.
pub(super) const BULK: usize = 2;
/// Beginning of subjects of the meta group.
pub(super) const META: &[u8] = b"_meta_.";
/// Names of servers.
pub(super) const NAMES: [&str; 5] = ["n1", "n2", "n3", "n4", "n5"];
/// How long the thread of the watermarks sleeps between two turns of work.
const WATERMARK_PAUSE: u64 = 10_000_000;
/// Room for all that can go on at once.
const PARTS: usize = 12;

/// The server with this number, as groups call it.
pub(super) fn peer(number: usize) -> Peer {
    peer_id(NAMES[number]).expect("eight characters")
}

/// Message that leaves a server, or comes to one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Letter {
    /// Place of its account.
    pub(super) account: usize,
    pub(super) subject: Vec<u8>,
    pub(super) reply: Vec<u8>,
    pub(super) headers: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

/// Letters that have left a server, in order.
type Outbox = Arc<Mutex<Vec<Letter>>>;

/// Receiver of what leaves a server in one account.
struct Post(usize, Outbox);

impl Service for Post {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let letters = msgs.iter().map(|msg| Letter {
            account: self.0,
            subject: inbox_of(msg.subject).unwrap_or_else(|| msg.subject.to_vec()),
            reply: msg.reply.to_vec(),
            headers: msg.headers.to_vec(),
            payload: msg.payload.to_vec(),
        });
        lock(&self.1).extend(letters);
        msgs.clear();
    }
}

/// Inbox of a delivery, which shows where its message was stored: there is one for each stream.
fn inbox_of(subject: &[u8]) -> Option<Vec<u8>> {
    let stream = std::str::from_utf8(subject).ok()?.strip_prefix('S')?.split('.').next()?;
    stream.parse::<u64>().ok().map(|stream| format!("D.{stream}").into_bytes())
}

/// Something that can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Flush,
    Mail,
    Wakes,
    Api,
    Answers,
    Reads,
    Upkeep,
    Due,
    Syncs,
    Alarms,
    Round,
    Watermarks,
}

impl Part {
    const ALL: [Self; PARTS] = [
        Self::Flush,
        Self::Mail,
        Self::Wakes,
        Self::Api,
        Self::Answers,
        Self::Reads,
        Self::Upkeep,
        Self::Due,
        Self::Syncs,
        Self::Alarms,
        Self::Round,
        Self::Watermarks,
    ];

    fn needs_disk(self) -> bool {
        matches!(self, Self::Syncs | Self::Round | Self::Upkeep | Self::Watermarks)
    }
}

/// Work that waits in a server, as long as nobody does anything there.
///
/// Perf: who goes on next is drawn some hundred thousand times in a run, of servers that mostly
/// were not touched since the last time.
#[derive(Clone, Copy)]
struct Waiting {
    /// Whether there is work for each part that waits for no time.
    work: [bool; PARTS],
    /// The times of day at which an alarm goes off, and at which a round is due.
    alarm: Option<i64>,
    round: Option<i64>,
}

/// The server.
pub(super) struct Node {
    pub(super) host: Arc<SimHost>,
    pub(super) jetstream: Arc<JetStream>,
    calls: ApiCalls,
    has_called: bool,
    shard: Shard,
    accounts: [Arc<Account>; 3],
    outbox: Outbox,
    /// Letters of other servers to whoever leads the meta group: they do not leave again.
    received: Vec<Letter>,
    /// Known while nobody has done anything here.
    waiting: Cell<Option<Waiting>>,
    /// Whether something has changed since the watermarks were written, and when that was.
    watermarks: (bool, u64),
    /// Until when the disk is busy, on the clock that only goes forward; and how long each piece of
    /// work keeps it so.
    pub(super) disk: (u64, u64),
    /// Why the process has ended by itself.
    pub(super) ended: Option<String>,
    /// Why a replica has failed that is opened anew.
    pub(super) failed: Option<String>,
}

impl Node {
    /// Starts on what a disk holds, as a server of a cluster.
    pub(super) fn start(
        disk: &FaultyDisk,
        plan: &ClusterPlan,
        clock: &Arc<Clock>,
        number: usize,
        (seed, life): (u64, u64),
    ) -> Result<Self, String> {
        // Numbers of two lives must have nothing in common: identities are drawn from them.
        let life = life * 8 + number as u64;
        let seed = Rng::seeded(Rng::seeded(seed).next_u64() ^ life).next_u64();
        let host = Arc::new(SimHost::of_member(Arc::clone(clock), life));
        let entropy = || Arc::new(SeededEntropy::new(seed));
        let broker = Broker::new(
            myelin_broker::Settings::default(),
            AuthConfig::open(),
            &[] as &[AccountConfig],
            None,
            Info::default(),
            entropy(),
            Arc::new(Silent),
        );
        let broker = broker.map_err(|error| format!("the broker does not start: {error:?}"))?;
        broker.make_internal_accounts(&ACCOUNTS[1..]);
        let client_account = broker.account(ACCOUNT).ok_or("there is no account")?;
        let internal = |at: usize| broker.internal_account(ACCOUNTS[at]).ok_or("an account is missing");
        let accounts = [client_account, internal(1)?, internal(2)?];
        let outbox = Outbox::default();
        listen(&accounts, number, plan.size, &outbox);
        let options = StoreOptions { segment_bytes: plan.segment_bytes, ..StoreOptions::new("/store") };
        let jetstream = JetStream::open(
            settings(number, plan.is_always_synced),
            Arc::new(disk.clone()),
            options,
            entropy(),
            Arc::clone(&host) as Arc<dyn Host>,
        );
        let jetstream = jetstream.map_err(|error| format!("the store does not open: {error}"))?;
        jetstream
            .enable(&accounts[CLIENTS], Some(AccountLimits::default()))
            .map_err(|error| format!("{error:?}"))?;
        join(&jetstream, &accounts, (number, plan))?;
        let shard = Shard::new(&broker, seed);
        let calls = ApiCalls::new(&jetstream, Box::new(|call| call()));
        let (watermarks, disk, ended, failed) = ((true, 0), (0, 0), None, None);
        let (received, has_called) = (Vec::new(), false);
        Ok(Self {
            host,
            jetstream,
            calls,
            has_called,
            shard,
            accounts,
            outbox,
            received,
            waiting: Cell::new(None),
            watermarks,
            disk,
            ended,
            failed,
        })
    }

    /// A letter has come.
    pub(super) fn receive(&mut self, letter: &Letter) {
        self.touch();
        let Letter { account, subject, reply, headers, payload } = letter;
        if *account != CLIENTS && subject.starts_with(META) {
            self.received.push(letter.clone());
        }
        let mut msgs = MessageBuf::default();
        msgs.push(MessageRef { subject, reply, headers, payload, ..MessageRef::default() });
        self.publish(&Arc::clone(&self.accounts[*account]), msgs);
    }

    /// Letters that have left since the last call.
    pub(super) fn take_letters(&mut self) -> Vec<Letter> {
        let mut letters = std::mem::take(&mut *lock(&self.outbox));
        if !self.received.is_empty() {
            letters.retain(|letter| {
                let at = self.received.iter().position(|received| received == letter);
                at.map(|at| self.received.remove(at)).is_none()
            });
        }
        letters
    }

    /// A stream of the clients' account.
    pub(super) fn stream(&self, name: &str) -> Option<Arc<LiveStream>> {
        self.jetstream.account(ACCOUNT)?.stream(name)
    }

    /// Whether a stream is led here, as far as this server knows.
    pub(super) fn leads(&self, name: &str) -> bool {
        self.stream(name).is_some_and(|live| self.jetstream.leads(&live))
    }

    /// Takes no lead from now on, or may again.
    pub(super) fn set_aside(&self, is_aside: bool) {
        let jetstream = Arc::clone(&self.jetstream);
        self.host.spawn_sync(Box::new(move || match is_aside {
            true => jetstream.set_aside_in(ACCOUNT),
            false => jetstream.lead_again_in(ACCOUNT),
        }));
    }

    /// Groups that it is a member of.
    pub(super) fn groups(&self) -> Vec<GroupView> {
        self.jetstream.groups().unwrap_or_default()
    }

    /// Somebody may have done something here, or set the time of day.
    pub(super) fn touch(&self) {
        self.waiting.set(None);
    }

    fn waiting(&self) -> Waiting {
        if let Some(known) = self.waiting.get() {
            return known;
        }
        let host = &self.host;
        let mut work = [false; PARTS];
        let mut add = |part: Part, is_there: bool| work[part as usize] = is_there;
        add(Part::Flush, self.shard.is_dirty());
        add(Part::Mail, host.mail.len() > 0);
        add(Part::Wakes, host.wakes.len() > 0);
        add(Part::Api, host.api.len() > 0);
        add(Part::Answers, self.has_called && host.api.len() == 0);
        add(Part::Reads, host.reads.len() + host.backups.len() > 0);
        add(Part::Upkeep, host.upkeep.len() > 0);
        add(Part::Due, host.due.len() > 0);
        add(Part::Syncs, host.syncs.len() > 0);
        let round = self.jetstream.journal().next_due(host.now().unsigned_abs());
        let at = |wait: Duration| host.now().saturating_add(wait.as_nanos().try_into().unwrap_or(i64::MAX));
        let waiting = Waiting { work, alarm: host.next_alarm(), round: round.map(at) };
        self.waiting.set(Some(waiting));
        waiting
    }

    /// The threads that have something to do.
    fn ready(&self) -> ([Part; PARTS], usize) {
        let Waiting { mut work, alarm, round } = self.waiting();
        let (now, elapsed) = (self.host.now(), self.host.clock.elapsed());
        work[Part::Alarms as usize] = alarm.is_some_and(|at| at <= now);
        work[Part::Round as usize] = round.is_some_and(|at| at <= now);
        work[Part::Watermarks as usize] = self.watermarks.0 && self.watermarks.1 <= elapsed;
        let is_disk_free = self.disk.0 <= elapsed;
        let (mut ready, mut count) = ([Part::Flush; PARTS], 0);
        for part in Part::ALL {
            if work[part as usize] && (is_disk_free || !part.needs_disk()) {
                ready[count] = part;
                count += 1;
            }
        }
        (ready, count)
    }

    /// Whether a thread has something to do.
    pub(super) fn is_ready(&self) -> bool {
        self.ended.is_none() && self.ready().1 > 0
    }

    /// How long all threads wait, if nothing comes from outside.
    pub(super) fn sleep(&self) -> Option<u64> {
        let Waiting { work, alarm, round } = self.waiting();
        let (now, elapsed) = (self.host.now(), self.host.clock.elapsed());
        let until = |at: i64| at.saturating_sub(now).max(0).unsigned_abs();
        let disk = self.disk.0.saturating_sub(elapsed);
        let round = round.map(|at| until(at).max(disk));
        let watermarks = self.watermarks.0.then(|| self.watermarks.1.saturating_sub(elapsed).max(disk));
        let is_work = work[Part::Syncs as usize] || work[Part::Upkeep as usize];
        [alarm.map(until), round, watermarks, is_work.then_some(disk)].into_iter().flatten().min()
    }

    /// Lets one of the threads go on that have something to do. `None`: all of them wait.
    pub(super) fn step(&mut self, rng: &mut Rng) -> Option<u64> {
        let (ready, count) = self.ready();
        if count == 0 {
            return None;
        }
        let part = ready[rng.below(count as u64) as usize];
        self.watermarks.0 |= part != Part::Watermarks;
        self.touch();
        self.run(part, rng);
        if part.needs_disk() {
            self.disk.0 = self.host.clock.elapsed() + self.disk.1;
        }
        Some(part as u64)
    }

    fn run(&mut self, part: Part, rng: &mut Rng) {
        let host = Arc::clone(&self.host);
        match part {
            Part::Flush => self.shard.flush(),
            Part::Mail => match host.mail.take() {
                Some(Mail::Serve(service)) => self.shard.wake(&service),
                Some(Mail::Publish(account, msgs)) => self.publish(&account, msgs),
                None => {}
            },
            Part::Wakes => host.wakes.take().iter().for_each(|service| self.shard.wake(service)),
            Part::Api => self.call(rng),
            Part::Answers => self.end_calls(),
            Part::Reads => {
                let task = host.reads.take().or_else(|| host.backups.take());
                task.into_iter().for_each(|task| task());
            }
            Part::Upkeep => host.upkeep.take().into_iter().for_each(|task| task()),
            Part::Syncs => host.syncs.take().into_iter().for_each(|task| task()),
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

    fn publish(&mut self, account: &Arc<Account>, mut msgs: MessageBuf) {
        self.shard.send(account, &mut msgs, self.host.clock.instant());
    }

    /// The thread of the API takes one order.
    fn call(&mut self, rng: &mut Rng) {
        match self.host.api.take() {
            Some(Call::Answer(request)) => self.calls.begin(request),
            Some(Call::Resume) => {
                self.calls.resume();
                self.calls.flush();
            }
            Some(Call::Repair(account, stream)) => {
                let live = self.jetstream.account(&account).and_then(|account| account.stream(&stream));
                self.failed = live.and_then(|live| live.failure()).map(|why| format!("{stream}: {why}"));
                self.jetstream.repair(&account, &stream);
            }
            Some(Call::Run(scope, task)) => self.calls.enter_task(scope, task),
            None => {}
        }
        self.has_called = true;
        if rng.below(2) == 0 {
            self.send_answers();
        }
    }

    /// The thread of the API has nothing else to do.
    fn end_calls(&mut self) {
        self.calls.flush();
        self.send_answers();
        self.has_called = false;
    }

    fn send_answers(&mut self) {
        if let Some(error) = self.calls.failure() {
            self.ended = Some(format!("streams and consumers cannot be made durable: {error}"));
            return;
        }
        loop {
            while let Some((account, out)) = self.calls.next_answer() {
                self.host.publish(&account, out);
            }
            if !self.calls.run_task() {
                return;
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.host.end();
    }
}

/// Has everything leave that is for other servers, or for clients.
fn listen(accounts: &[Arc<Account>; 3], number: usize, size: usize, outbox: &Outbox) {
    let post = |account: usize| Arc::new(Post(account, Arc::clone(outbox))) as Arc<dyn Service>;
    for other in (0..size).filter(|&other| other != number) {
        let subject = format!("{}.*", peer(other));
        for account in [1, 2] {
            let _ = accounts[account].bind(subject.as_bytes(), post(account));
        }
    }
    for subject in ["_meta_.>", "_ask_.*", "_asked_.*", "_answer_.>"] {
        let _ = accounts[1].bind(subject.as_bytes(), post(1));
    }
    // One service for both, so that what is said first is heard first.
    let clients = post(CLIENTS);
    for subject in ["R.>", "D.>"] {
        let _ = accounts[CLIENTS].bind(subject.as_bytes(), Arc::clone(&clients));
    }
}

/// Has JetStream take part in its cluster.
fn join(
    jetstream: &Arc<JetStream>,
    accounts: &[Arc<Account>; 3],
    (number, plan): (usize, &ClusterPlan),
) -> Result<(), String> {
    jetstream.begin_groups(GroupSettings {
        me: peer(number),
        account: Arc::clone(&accounts[1]),
        bulk: Arc::clone(&accounts[2]),
        kept_log: plan.kept_log.unwrap_or_default(),
    })?;
    let is_known = jetstream.has_meta(ACCOUNTS[1]);
    let servers = if is_known { &[] } else { &NAMES[..plan.size] };
    jetstream.begin_meta(&servers.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
}

/// Nothing of the log stays for servers that are behind.
pub(super) const LEAN: KeptLogBounds = KeptLogBounds { longest: 0, bytes: 0 };

fn settings(number: usize, sync_always: bool) -> JetStreamSettings {
    JetStreamSettings {
        domain: String::new(),
        strict: false,
        server_name: NAMES[number].into(),
        server_id: NAMES[number].into(),
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
