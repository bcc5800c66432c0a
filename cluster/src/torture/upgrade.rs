//! Upgrades: servers of one version, under load, are replaced by another version of the program one
//! after the other, in any order, and back, as docs/clustering.md says. The stores stay.
//!
//! The load is that of `mod.rs`, with a stream of one replica and a bucket besides, and with MQTT
//! clients. Clients may hear nothing but what says that a server is away ([`TELLS_OF_ABSENCE`]).

use super::load::{Shared, Worker};
use super::mqtt::MqttLoad;
use super::{
    BUCKET, CONSUMED, Ledger, PUBLISHERS, Publisher, SINGLE, STREAMS, begin_load, cost, make_streams, report,
    verify,
};
use crate::Error;
use crate::trio::{SERVERS, Trio};
use crate::wait::wait_for;
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// Streams of a server that stands alone: what is in memory ends with it.
const ALONE: [&str; 4] = [CONSUMED, "STRICT", SINGLE, BUCKET];
const TOGETHER: [&str; 5] = [CONSUMED, "STRICT", STREAMS[2], SINGLE, BUCKET];
/// Publishers of these streams.
const FURTHER: [Publisher; 4] =
    [(SINGLE, "a", 4), (SINGLE, "b", 1), (BUCKET, "key1", 1), (BUCKET, "key2", 1)];
/// Messages of each stream that are acknowledged between two steps, at least.
const STEP: usize = 20;
/// Answers that publishers may get: nobody responds, or the leader has left and it is not known
/// what became of the message.
const TELLS_OF_ABSENCE: [&str; 3] = ["status 503", "\"err_code\":10008", "\"err_code\":10009"];
/// Words of a server that cannot read a store.
const LATER: &str = "written by a later version";

/// How servers are replaced.
#[derive(Clone, Debug)]
pub struct UpgradePlan {
    /// The program that they begin with.
    pub before: PathBuf,
    /// The program that takes its place.
    pub after: PathBuf,
    /// How often all are replaced.
    pub rounds: u64,
    /// Choices are made from it; the time that servers take is not.
    pub seed: u64,
    /// Whether it is one server without a cluster, instead of three.
    pub is_alone: bool,
}

/// Which program a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Before,
    After,
}

impl Version {
    fn other(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::After => Self::Before,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "old",
            Self::After => "new",
        })
    }
}

/// A cluster that is upgraded.
struct Upgrade<'a> {
    plan: &'a UpgradePlan,
    trio: &'a mut Trio,
    shared: &'a Arc<Shared>,
    mqtt: &'a MqttLoad,
    runs: Vec<Version>,
    /// Whether the old program has refused a store that the new one had written.
    goes_back: bool,
}

/// Replaces servers under load, and prints what happens. Answers whether everything that was
/// promised was kept.
///
/// # Errors
/// A server does not start, is not well in time, or the cluster does not come about.
pub fn upgrade(plan: &UpgradePlan) -> Result<bool, Error> {
    let mut rng = Rng::seeded(plan.seed);
    let servers = if plan.is_alone { 1 } else { SERVERS };
    let mqtt = |server: &crate::server::Server| {
        let replicas = if plan.is_alone { 1 } else { SERVERS };
        format!("debug: true\nmqtt {{ listen: \"{}\", stream_replicas: {replicas} }}\n", server.ports.leafs)
    };
    let mut trio = Trio::start_with(&plan.before, plan.seed, servers, mqtt)?;
    let kept = live(&mut trio, plan, &mut rng);
    trio.keep_unless(&kept);
    kept
}

fn live(trio: &mut Trio, plan: &UpgradePlan, rng: &mut Rng) -> Result<bool, Error> {
    let streams: &'static [&'static str] = if plan.is_alone { &ALONE } else { &TOGETHER };
    let shared = Arc::new(Shared {
        addresses: trio.servers.iter().map(|server| server.ports.clients).collect(),
        ledger: Mutex::new(Ledger::new(streams)),
        streams,
        keeps_memory: true,
        is_over: AtomicBool::new(false),
    });
    let mut asker = Worker::new(&shared, rng.next_u64());
    make_streams(&mut asker, trio.servers.len())?;
    let publishers: Vec<Publisher> =
        PUBLISHERS.into_iter().chain(FURTHER).filter(|(stream, ..)| streams.contains(stream)).collect();
    let at: Vec<SocketAddr> = trio.servers.iter().map(|server| server.ports.leafs).collect();
    let mqtt = MqttLoad::begin(&shared, &at, rng)?;
    let workers = begin_load(&shared, &publishers, rng);
    let runs = vec![Version::Before; trio.servers.len()];
    let mut upgrade = Upgrade { plan, trio, shared: &shared, mqtt: &mqtt, runs, goes_back: true };
    let replaced = upgrade.replace_again_and_again(rng);
    shared.is_over.store(true, Relaxed);
    let ended = workers.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
    replaced?;
    mqtt.end(&shared);
    if ended > 0 {
        return Err("a client has panicked".into());
    }
    let verdict = verify::verify(&mut asker, &trio.names());
    wait_until_well(trio)?;
    trio.look_at_logs(&shared);
    look_at_refusals(&shared);
    report(&shared, &verdict);
    let is_kept = lock(&shared.ledger).fault_count == 0;
    Ok(is_kept)
}

impl Upgrade<'_> {
    /// All servers get the new program, then the old one again, and so on. Which one they have in
    /// the end is drawn.
    fn replace_again_and_again(&mut self, rng: &mut Rng) -> Result<(), Error> {
        self.wait_for_load()?;
        let ends_after = rng.below(2) == 0;
        for round in 0..self.plan.rounds {
            self.replace_all(Version::After, rng)?;
            if round + 1 < self.plan.rounds || !ends_after {
                self.replace_all(Version::Before, rng)?;
            }
        }
        Ok(())
    }

    /// One server after the other, in an order that is drawn; at times one goes back meanwhile.
    fn replace_all(&mut self, to: Version, rng: &mut Rng) -> Result<(), Error> {
        let mut left: Vec<usize> = (0..self.runs.len()).collect();
        while !left.is_empty() {
            let at = left.swap_remove(rng.below(left.len() as u64) as usize);
            self.replace(at, to, rng)?;
            if rng.below(4) == 0 {
                self.replace(at, to.other(), rng)?;
                self.replace(at, to, rng)?;
            }
        }
        Ok(())
    }

    /// Gives a server the other program, as an operator does.
    fn replace(&mut self, at: usize, to: Version, rng: &mut Rng) -> Result<(), Error> {
        if self.runs[at] == to || (to == Version::Before && !self.goes_back) {
            return Ok(());
        }
        let server = &mut self.trio.servers[at];
        wait_for(&format!("/stopz of {}", server.name), || is_ok(server.page("/stopz")))?;
        lock(&self.shared.ledger).begin_gap();
        let is_killed = rng.below(4) == 0;
        if is_killed {
            server.kill()
        } else {
            server.stop()?
        }
        let program = self.program(to).to_owned();
        self.trio.servers[at].replace(&program);
        let began = Instant::now();
        if let Err(why) = self.trio.servers[at].start() {
            self.hear_refusal(at, to, why)?;
        } else {
            self.runs[at] = to;
        }
        wait_until_well(self.trio)?;
        let took = began.elapsed().as_millis();
        self.wait_for_load()?;
        self.trio.all_run()?;
        let how = if is_killed { "SIGKILL" } else { "SIGINT" };
        let runs: Vec<String> = self.runs.iter().map(Version::to_string).collect();
        let (now, runs, cost) = (self.runs[at], runs.join(" "), cost(self.shared));
        let name = &self.trio.servers[at].name;
        let mqtt = self.mqtt.acknowledged();
        println!("{name}: {how}, then {now} ({runs}): well after {took} ms, {cost}, {mqtt} of MQTT");
        Ok(())
    }

    fn program(&self, of: Version) -> &std::path::Path {
        match of {
            Version::Before => &self.plan.before,
            Version::After => &self.plan.after,
        }
    }

    /// A server does not start. That may be so where the old program says that the store is not for
    /// it; then the new one goes on with that store, and nobody goes back any more.
    fn hear_refusal(&mut self, at: usize, to: Version, why: Error) -> Result<(), Error> {
        let why = why.to_string();
        let Some(line) = why.lines().find(|line| line.contains(LATER)) else { return Err(why.into()) };
        if to == Version::After {
            return Err(why.into());
        }
        println!("{}: the old program refuses the store: {line}", self.trio.servers[at].name);
        self.goes_back = false;
        let program = self.program(Version::After).to_owned();
        let server = &mut self.trio.servers[at];
        server.replace(&program);
        server.start()
    }

    /// Waits until each stream, the bucket and the consumer go on. MQTT need not: on a machine that
    /// is too busy its clients are not let in for a while (docs/reliability.md).
    fn wait_for_load(&self) -> Result<(), Error> {
        let counts = || {
            let ledger = lock(&self.shared.ledger);
            let streams = ledger.streams.values().map(|stream| stream.acknowledged.len());
            streams.chain([ledger.consumer.confirmed.len()]).collect::<Vec<_>>()
        };
        let before = counts();
        let goes_on = || {
            let now = counts();
            let all = now.iter().zip(&before).all(|(now, before)| *now >= before + STEP);
            all.then_some(())
        };
        wait_for("a load that goes on", goes_on).map_err(|why| {
            format!("{why}: {before:?}, and now {:?}; MQTT: {}", counts(), self.mqtt.errors()).into()
        })
    }
}

/// Waits until `/healthz` of all servers says that they are well.
fn wait_until_well(trio: &Trio) -> Result<(), Error> {
    for server in &trio.servers {
        let mut said = String::new();
        wait_for(&format!("/healthz of {}", server.name), || {
            let page = server.page("/healthz");
            said = format!("{page:?}");
            is_ok(page)
        })
        .map_err(|why| format!("{why}; {said}"))?;
    }
    Ok(())
}

fn is_ok(page: Result<serde_json::Value, Error>) -> Option<()> {
    page.is_ok_and(|page| page["status"] == "ok").then_some(())
}

/// A publisher that heard of anything but an absence is a fault.
fn look_at_refusals(shared: &Shared) {
    let mut ledger = lock(&shared.ledger);
    let is_other = |words: &&String| !TELLS_OF_ABSENCE.iter().any(|known| words.contains(known));
    let others: Vec<String> = ledger.refusals.keys().filter(is_other).cloned().collect();
    others.into_iter().for_each(|words| ledger.fault(format!("a publisher was told {words}")));
}
