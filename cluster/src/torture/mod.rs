//! Torture: three servers that share JetStream, under load, of which one after the other is killed,
//! stopped or paused. Whatever they have acknowledged has to be there in the end, once, on all of
//! them.
//!
//! Of five servers members of groups change at the same time (`members.rs`). In `upgrade.rs`
//! servers are replaced by another version of the program instead, and back. The load is in
//! `load.rs` and `mqtt.rs`, what it was promised in `ledger.rs`, the judgement in `verify.rs`.

mod ledger;
mod load;
mod members;
mod mqtt;
mod upgrade;
mod verify;

pub use upgrade::{UpgradePlan, upgrade};

use crate::Error;
use crate::requester::Question;
use crate::server::Server;
use crate::trio::{SERVERS, Trio};
use crate::wait::wait_for;
use ledger::Ledger;
use load::{Shared, Worker};
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use verify::Verdict;

/// Streams of the load: two in files, and one in memory, which is only asked to go on.
const STREAMS: [&str; 3] = [CONSUMED, "STRICT", MEMORY];
/// Stream with a consumer.
const CONSUMED: &str = "PULLED";
const MEMORY: &str = "MEMORY";
/// Streams that servers have besides which are replaced: one with a single replica, and a bucket.
const SINGLE: &str = "SINGLE";
const BUCKET: &str = "KV_BUCKET";
/// Values that the bucket keeps of each key.
const HISTORY: usize = 5;
/// Publishers: the stream, a name that no other one has there, and how many messages at a time.
const PUBLISHERS: [Publisher; 5] =
    [(CONSUMED, "a", 16), (CONSUMED, "b", 8), ("STRICT", "a", 1), ("STRICT", "b", 1), (MEMORY, "a", 4)];
const CONSUMER: &str = "c";
/// How long a server stays away, in milliseconds: at least, and so much more at most.
const AWAY: (u64, u64) = (500, 4500);
const PAUSE: Duration = Duration::from_secs(3);
/// Words of a log line, in lower case, that a server in order does not write.
const ALARMS: [&str; 3] = ["[err]", "panic", "cannot"];

type Publisher = (&'static str, &'static str, usize);

/// How a life goes.
#[derive(Clone, Debug)]
pub struct TorturePlan {
    /// Program of the servers.
    pub program: PathBuf,
    /// For how long the load runs.
    pub duration: Duration,
    /// Time between the beginnings of two troubles.
    pub interval: Duration,
    /// Choices are made from it; the time that servers take is not.
    pub seed: u64,
    /// Whether all servers are killed together at times, too.
    pub kills_all: bool,
    /// Whether there are five servers, and members of groups change all the time.
    pub changes_members: bool,
}

/// Something that happens to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Kill,
    Stop,
    Pause,
    KillAll,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "SIGKILL",
            Self::Stop => "SIGINT",
            Self::Pause => "SIGSTOP for 3 s",
            Self::KillAll => "SIGKILL of all",
        })
    }
}

/// Lets three servers live under load and trouble, and prints what happens. Answers whether
/// everything that was promised was kept.
///
/// # Errors
/// A server does not start or stop, or the cluster does not come about.
pub fn torture(plan: &TorturePlan) -> Result<bool, Error> {
    let mut rng = Rng::seeded(plan.seed);
    let servers = if plan.changes_members { members::SERVERS } else { SERVERS };
    let mut trio = Trio::start_some(&plan.program, plan.seed, servers)?;
    let kept = trio.live(plan, &mut rng);
    trio.keep_unless(&kept);
    kept
}

/// A life under load.
impl Trio {
    fn live(&mut self, plan: &TorturePlan, rng: &mut Rng) -> Result<bool, Error> {
        let shared = Arc::new(Shared {
            addresses: self.servers.iter().map(|server| server.ports.clients).collect(),
            ledger: Mutex::new(Ledger::new(&STREAMS)),
            streams: &STREAMS,
            keeps_memory: false,
            is_over: AtomicBool::new(false),
        });
        let mut asker = Worker::new(&shared, rng.next_u64());
        make_streams(&mut asker, SERVERS)?;
        let workers = begin_load(&shared, &PUBLISHERS, rng);
        let changer = plan.changes_members.then(|| Worker::new(&shared, rng.next_u64()));
        let changer = changer.map(|worker| thread::spawn(move || worker.change_members()));
        let began = Instant::now();
        let troubled = self.trouble(plan, &shared, rng);
        println!("the load ran for {} s and ends", began.elapsed().as_secs());
        shared.is_over.store(true, Relaxed);
        let ended = workers.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        let changes = changer.map(|changer| changer.join().map_err(|_| "changes have panicked"));
        troubled?;
        if let Some(changes) = changes.transpose()? {
            println!(
                "changes: {} accepted, {} refused, {} not answered",
                changes.accepted, changes.refused, changes.unanswered
            );
            members::gather(&mut asker)?;
        }
        if ended > 0 {
            return Err("a client has panicked".into());
        }
        let verdict = verify::verify(&mut asker, &self.names());
        self.look_at_logs(&shared);
        report(&shared, &verdict);
        let is_kept = lock(&shared.ledger).fault_count == 0;
        Ok(is_kept)
    }

    /// Leaves everything in its folder where something went wrong.
    fn keep_unless(&mut self, kept: &Result<bool, Error>) {
        if !matches!(kept, Ok(true)) {
            self.folder.disable_cleanup(true);
            println!("configurations, logs and stores: {}", self.folder.path().display());
        }
    }

    fn names(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.name.clone()).collect()
    }

    /// Lets the load run, with a trouble in each interval, and says what it cost.
    fn trouble(&mut self, plan: &TorturePlan, shared: &Shared, rng: &mut Rng) -> Result<(), Error> {
        let end = Instant::now() + plan.duration;
        thread::sleep(plan.interval.min(Duration::from_secs(5)));
        while Instant::now() < end {
            let next = Instant::now() + plan.interval;
            let (trouble, at) = choose(plan, self.servers.len(), rng);
            lock(&shared.ledger).begin_gap();
            let began = Instant::now();
            self.happen(trouble, at, rng)?;
            let away = began.elapsed();
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let cost = cost(shared);
            let name = &self.servers[at].name;
            println!("{trouble} of {name} (back after {} ms): {cost}", away.as_millis());
            self.all_run()?;
        }
        Ok(())
    }

    /// An error where a server has ended by itself.
    fn all_run(&mut self) -> Result<(), Error> {
        match self.servers.iter_mut().find_map(|one| one.has_crashed().then(|| one.name.clone())) {
            Some(crashed) => Err(format!("{crashed} has ended by itself").into()),
            None => Ok(()),
        }
    }

    fn happen(&mut self, trouble: Trouble, at: usize, rng: &mut Rng) -> Result<(), Error> {
        let away = Duration::from_millis(AWAY.0 + rng.below(AWAY.1));
        match trouble {
            Trouble::Pause => {
                self.servers[at].signal(Signal::STOP)?;
                thread::sleep(PAUSE);
                return self.servers[at].signal(Signal::CONT);
            }
            Trouble::Kill => self.servers[at].kill(),
            Trouble::Stop => self.servers[at].stop()?,
            Trouble::KillAll => self.servers.iter_mut().for_each(Server::kill),
        }
        thread::sleep(away);
        self.servers.iter_mut().filter(|server| !server.is_running()).try_for_each(Server::start)
    }

    /// Says what servers have logged that they should not have.
    fn look_at_logs(&self, shared: &Shared) {
        for server in &self.servers {
            let log = server.log();
            let is_alarming = |line: &&str| {
                let line = line.to_ascii_lowercase();
                line.contains("jetstream") && ALARMS.iter().any(|alarm| line.contains(alarm))
                    || line.contains("panic")
            };
            let lines: Vec<&str> = log.lines().filter(is_alarming).collect();
            let mut words: BTreeMap<&str, usize> = BTreeMap::new();
            for line in &lines {
                // Behind the process and the time.
                *words.entry(line.splitn(4, ' ').last().unwrap_or(line)).or_default() += 1;
            }
            let name = &server.name;
            words.iter().take(5).for_each(|(words, count)| println!("{name} logged {count} times: {words}"));
            if lines.iter().any(|line| line.contains("panic")) {
                lock(&shared.ledger).fault(format!("{} has panicked", server.name));
            }
        }
    }
}

fn choose(plan: &TorturePlan, servers: usize, rng: &mut Rng) -> (Trouble, usize) {
    let kinds = [Trouble::Kill, Trouble::Stop, Trouble::Pause, Trouble::KillAll];
    let many = if plan.kills_all { kinds.len() } else { kinds.len() - 1 };
    (kinds[rng.below(many as u64) as usize], rng.below(servers as u64) as usize)
}

/// Asks the API until it answers without an error.
fn api(asker: &mut Worker, operation: &str, body: &Value) -> Result<Value, Error> {
    let payload = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let question = Question { subject: format!("$JS.API.{operation}"), payload, ..Question::default() };
    let mut last = String::new();
    wait_for(operation, || {
        let answer = asker.ask(std::slice::from_ref(&question)).pop()??.json()?;
        if let Some(error) = answer.get("error") {
            last = error.to_string();
            return None;
        }
        Some(answer)
    })
    .map_err(|why| format!("{why}; {last}").into())
}

/// Cost of a trouble for those who publish.
fn cost(shared: &Shared) -> String {
    let ledger = lock(&shared.ledger);
    let (any, each) = ledger.gaps();
    let each: Vec<_> = each.iter().map(|(name, gap)| format!("{name} {} ms", gap.as_millis())).collect();
    let total: usize = ledger.streams.values().map(|stream| stream.acknowledged.len()).sum();
    format!("longest gap {} ms ({}); {total} acknowledged so far", any.as_millis(), each.join(", "))
}

fn make_streams(asker: &mut Worker, servers: usize) -> Result<(), Error> {
    for name in asker.shared.streams {
        let config = members::config_of(name, replicas_of(name, servers));
        api(asker, &format!("STREAM.CREATE.{name}"), &config)?;
    }
    let config = json!({
        "durable_name": CONSUMER, "ack_policy": "explicit", "deliver_policy": "all",
        "ack_wait": 5_000_000_000_u64, "max_ack_pending": 1000,
    });
    let request = json!({ "stream_name": CONSUMED, "config": config });
    api(asker, &format!("CONSUMER.DURABLE.CREATE.{CONSUMED}.{CONSUMER}"), &request)?;
    Ok(())
}

/// Replicas of a stream on so many servers.
fn replicas_of(stream: &str, servers: usize) -> usize {
    if stream == SINGLE { 1 } else { servers }
}

fn begin_load(shared: &Arc<Shared>, publishers: &[Publisher], rng: &mut Rng) -> Vec<JoinHandle<()>> {
    let mut workers = Vec::new();
    for &(stream, name, window) in publishers {
        let worker = Worker::new(shared, rng.next_u64());
        workers.push(thread::spawn(move || worker.publish(stream, name, window)));
    }
    for _ in 0..3 {
        let worker = Worker::new(shared, rng.next_u64());
        workers.push(thread::spawn(move || worker.consume()));
    }
    workers
}

fn report(shared: &Shared, verdict: &Verdict) {
    let ledger = lock(&shared.ledger);
    for (name, stream) in &ledger.streams {
        let found = verdict.stored.get(name).copied().unwrap_or(0);
        println!(
            "{name}: {} acknowledged ({} as duplicates), {found} stored, {} lost, {} twice",
            stream.acknowledged.len(),
            stream.duplicates,
            verdict.lost.get(name).copied().unwrap_or(0),
            verdict.twice.get(name).copied().unwrap_or(0)
        );
    }
    let consumer = &ledger.consumer;
    println!(
        "consumer: {} delivered, {} confirmed, {} deliveries again",
        consumer.delivered.len(),
        consumer.confirmed.len(),
        consumer.again
    );
    ledger.refusals.iter().for_each(|(words, count)| println!("refused {count} times: {words}"));
    println!("faults: {}", ledger.fault_count);
}
