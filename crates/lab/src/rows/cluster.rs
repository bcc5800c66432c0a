//! Rows about several servers of a kind on loopback: clusters of three, told of each other, what
//! `leaf` says of hubs and leaf nodes, and `gateway` of clusters that are joined.
//!
//! Owns their configurations, and the wait until every server knows what clients of the others
//! want. CPU is that of all three together. Compression is off where a row does not say otherwise.

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use myelin_loadgen::admin::Admin;
use myelin_loadgen::connection::address::Address;
use myelin_loadgen::connection::{Connection, PATIENCE};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::{Extent, StreamLoad};
use myelin_loadgen::meter::{Meter, cpu_of};
use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::churn;
use myelin_loadgen::pubsub::publisher::Until;
use myelin_loadgen::pubsub::request::RequestLoad;
use myelin_loadgen::pubsub::throughput::{Prepared, RunEnds, ThroughputLoad};
use myelin_loadgen::target_server::Target;
use serde_json::json;

use crate::round::Round;
use crate::rows::gateway::{self, GatewayLoad};
use crate::rows::leaf::LeafLoad;
use crate::rows::probe::probe;
use crate::rows::subjects::SUBJECTS;
use crate::servers::process::{Server, Syncing, free_port};
use crate::servers::scratch::Scratch;

/// Name of the group for `--rows`.
pub(crate) const GROUP: &str = "cluster";

const SERVERS: usize = 3;

/// Connections that share them.
const SUBSCRIBERS: usize = 10;
/// How long an idle cluster is watched.
const WATCHED: Duration = Duration::from_secs(2);

/// How long clients are watched while a server joins, and how much longer for each subscription.
const PROBE_TIME: Duration = Duration::from_secs(3);
const PROBE_TIME_EACH: Duration = Duration::from_micros(7);

/// Which of three servers clients connect to, in turns.
type Places = &'static [usize];

/// Work of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterLoad {
    /// Messages from publishers to receivers.
    Throughput { load: ThroughputLoad, publishers: Places, receivers: Places },
    /// Messages from the first server to the second, compressed by `s2_fast`, with payloads like
    /// JSON.
    Compressed(ThroughputLoad),
    /// Requests from the first server to a service on the second.
    Requests { clients: usize, size: usize },
    /// A third server joins two, of which the first has so many subscriptions.
    Join { told: usize },
    /// Messages on the second server, while clients of the first come and go with interest.
    Churn(ThroughputLoad),
    /// Publishes to streams with a replica on each server, from a client of the first.
    Replicated(StreamLoad),
    /// Nothing.
    Idle,
    /// A hub and leaf nodes instead of a cluster.
    Leaf(LeafLoad),
    /// Two clusters of one server each.
    Gateway(GatewayLoad),
}

impl fmt::Display for ClusterLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput { load, publishers, receivers } => {
                write!(
                    f,
                    "{load}, of {SERVERS} servers publishers on {publishers:?}, others on {receivers:?}"
                )
            }
            Self::Compressed(load) => write!(f, "{load} like JSON, over a link with s2_fast"),
            Self::Requests { clients, size } => {
                write!(f, "{clients} clients request from a service on another server, {size} B")
            }
            Self::Join { told } => write!(f, "a server joins and is told of {told} subscriptions"),
            Self::Churn(load) => {
                write!(f, "{load} on a server, while another has 10,000 SUB/UNSUB pairs a second")
            }
            Self::Replicated(load) => write!(f, "{load}"),
            Self::Idle => write!(f, "{SERVERS} servers without clients"),
            Self::Leaf(load) => write!(f, "{load}"),
            Self::Gateway(load) => write!(f, "{load}"),
        }
    }
}

/// Context of a run, from the settings of the comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterContext<'a> {
    /// Whether receivers look at every payload.
    pub(crate) verify: bool,
    /// Subscriptions of rows that measure them.
    pub(crate) subscriptions: usize,
    /// Messages of a stream that is read, and subjects of one that has many.
    pub(crate) stored: u64,
    pub(crate) subjects: u64,
    pub(crate) scratch: &'a Scratch,
}

/// A load with its messages encoded.
pub(crate) struct PreparedCluster {
    load: ClusterLoad,
    messages: Option<Prepared>,
}

/// Servers that are linked with another.
pub(crate) struct Mates {
    servers: Vec<Server>,
    /// Ports of the pages of all, the first with them, where a row reads them.
    pages: Vec<u16>,
    /// Program of all of them.
    binary: PathBuf,
}

impl ClusterLoad {
    /// How streams of the servers are synced, where they have any.
    fn syncing(self) -> Option<Syncing> {
        let Self::Replicated(load) = self else { return None };
        Some(if load.synced { Syncing::Always } else { Syncing::AsItLikes })
    }

    /// Whether payloads are like JSON: then nobody looks at each.
    fn is_json(self) -> bool {
        match self {
            Self::Compressed(_) => true,
            Self::Leaf(load) => load.is_json(),
            _ => false,
        }
    }

    pub(crate) fn prepare(self, max_payload: usize, backlog: u64) -> PreparedCluster {
        let messages = match self {
            Self::Throughput { load, .. } | Self::Churn(load) => {
                Some(Prepared::new(load, max_payload, backlog))
            }
            Self::Compressed(load) => Some(Prepared::of_json(load, max_payload, backlog)),
            Self::Leaf(load) => load.messages().map(|messages| {
                let prepare = if load.is_json() { Prepared::of_json } else { Prepared::new };
                prepare(messages, max_payload, backlog)
            }),
            Self::Gateway(load) => {
                load.messages().map(|messages| Prepared::new(messages, max_payload, backlog))
            }
            Self::Requests { .. } | Self::Join { .. } | Self::Replicated(_) | Self::Idle => None,
        };
        PreparedCluster { load: self, messages }
    }
}

impl PreparedCluster {
    /// Whether every round starts servers of its own.
    pub(crate) fn wants_fresh_servers(&self) -> bool {
        match self.load {
            ClusterLoad::Join { .. } => true,
            ClusterLoad::Leaf(load) => load.is_played(),
            ClusterLoad::Gateway(load) => load.is_played(),
            _ => false,
        }
    }

    /// Starts the servers and waits until they are linked.
    pub(crate) fn servers(&self, binary: &Path, scratch: &Scratch) -> Result<(Server, Mates), BenchError> {
        let mode = if matches!(self.load, ClusterLoad::Compressed(_)) { "s2_fast" } else { "off" };
        let plan = ClusterPorts::free(SERVERS)?;
        // The row about joining starts its own, and only needs one to stand for them.
        let count = if self.wants_fresh_servers() { 1 } else { SERVERS };
        let mut pages = Vec::new();
        let mut servers = match self.load {
            ClusterLoad::Leaf(load) => load.servers(binary, scratch)?,
            ClusterLoad::Gateway(load) => {
                let (servers, ports) = load.servers(binary, scratch)?;
                pages = ports;
                servers
            }
            _ => (0..count)
                .map(|number| plan.start(number, binary, scratch, mode, self.load.syncing()))
                .collect::<Result<Vec<_>, _>>()?,
        };
        settle(&servers.iter().map(|server| server.address().clone()).collect::<Vec<_>>())?;
        let first = servers.remove(0);
        if let ClusterLoad::Replicated(_) = self.load {
            serve_streams(first.address())?;
        }
        Ok((first, Mates { servers, pages, binary: binary.to_owned() }))
    }

    /// Does it once.
    pub(crate) fn run(
        &self,
        first: &Server,
        mates: &Mates,
        until: Until,
        context: ClusterContext<'_>,
    ) -> Result<Round, BenchError> {
        let servers: Vec<&Server> = [first].into_iter().chain(&mates.servers).collect();
        let addresses: Vec<Address> = servers.iter().map(|server| server.address().clone()).collect();
        let meters: Vec<Meter> = servers.iter().map(|server| server.meter()).collect();
        // Where it is counted what crosses, nothing else is to.
        let is_counted = matches!(self.load, ClusterLoad::Gateway(GatewayLoad::Unwanted(_)));
        let settled = || if is_counted { Ok(()) } else { settle(&addresses) };
        let verify = context.verify && !self.load.is_json();
        let messages = |publishers: Places, receivers: Places| {
            let at =
                |places: Places| places.iter().map(|place| addresses[*place].clone()).collect::<Vec<_>>();
            let (publishers, receivers) = (at(publishers), at(receivers));
            let ends = RunEnds { publishers: &publishers, receivers: &receivers, meters: &meters };
            let prepared = self.messages.as_ref().expect("loads with messages have them encoded");
            prepared.between(&ends, until, verify, settled)
        };
        let crossed = || gateway::crossed(&mates.pages, &meters);
        Ok(match self.load {
            ClusterLoad::Throughput { publishers, receivers, .. } => {
                Round::of_throughput(&messages(publishers, receivers)?)
            }
            ClusterLoad::Compressed(_) => Round::of_throughput(&messages(&[0], &[1])?),
            ClusterLoad::Churn(_) => {
                let (outcome, pairs) = churn::beside_churn(&addresses[0], || messages(&[1], &[1]))?;
                let mut round = Round::of_throughput(&outcome);
                round.readings.push((Metric::ChurnRate, pairs));
                round
            }
            ClusterLoad::Leaf(LeafLoad::Down(..)) => Round::of_throughput(&messages(&[0], &[1])?),
            ClusterLoad::Leaf(LeafLoad::Up(..)) => Round::of_throughput(&messages(&[1], &[0])?),
            ClusterLoad::Gateway(GatewayLoad::Across(_)) => Round::of_throughput(&messages(&[0], &[1])?),
            ClusterLoad::Gateway(GatewayLoad::Unwanted(_)) => {
                let before = crossed()?;
                let mut round = Round::of_throughput(&messages(&[0], &[0])?);
                round.readings.push((Metric::LinkBytes, crossed()?.saturating_sub(before) as f64));
                round
            }
            ClusterLoad::Requests { clients, size }
            | ClusterLoad::Leaf(LeafLoad::Requests { clients, size })
            | ClusterLoad::Gateway(GatewayLoad::Requests { clients, size }) => {
                let load = RequestLoad { clients, services: 1, size, subjects: SUBJECTS };
                Round::of_requests(&load.over(&addresses[1], &addresses[0], until, &meters, settled)?)
            }
            ClusterLoad::Replicated(load) => {
                let ClusterContext { stored, subjects, .. } = context;
                let extent = Extent { until, stored, subjects };
                Round::of_streams(&load.run(&addresses[0], extent, &meters)?)
            }
            ClusterLoad::Idle => Round::without_cpu(vec![(Metric::IdleCpu, idle(&meters)?)]),
            ClusterLoad::Leaf(load) => Round::without_cpu(load.play(&mates.binary, context.scratch)?),
            ClusterLoad::Gateway(load) => Round::without_cpu(load.play(&mates.binary, context.scratch)?),
            ClusterLoad::Join { told } => Round::without_cpu(join(told, &mates.binary, context)?),
        })
    }
}

/// Milliseconds of CPU time per second of servers that have nothing to do.
fn idle(meters: &[Meter]) -> Result<f64, BenchError> {
    let (before, start) = (cpu_of(meters)?.unwrap_or_default(), Instant::now());
    thread::sleep(WATCHED);
    let used = cpu_of(meters)?.unwrap_or_default().since(before);
    Ok(used.scheduled.as_secs_f64() * 1e3 / start.elapsed().as_secs_f64())
}

/// Ports of the servers of a cluster.
struct ClusterPorts(Vec<[u16; 3]>);

impl ClusterPorts {
    fn free(servers: usize) -> Result<Self, BenchError> {
        let ports = || Ok([free_port()?, free_port()?, free_port()?]);
        (0..servers).map(|_| ports()).collect::<Result<_, _>>().map(Self)
    }

    /// Starts the server with this number, which knows all others.
    fn start(
        &self,
        number: usize,
        binary: &Path,
        scratch: &Scratch,
        mode: &str,
        syncing: Option<Syncing>,
    ) -> Result<Server, BenchError> {
        let [port, routes, http] = self.0[number];
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != number);
        let urls: Vec<String> =
            others.map(|(_, [_, routes, _])| format!("\"nats-route://127.0.0.1:{routes}\"")).collect();
        let mut text = format!(
            "server_name: bench-{number}-{routes}\nhttp: \"127.0.0.1:{http}\"\ncluster {{ name: bench, \
             listen: \"127.0.0.1:{routes}\", compression: {mode}, routes: [{}] }}\n",
            urls.join(", ")
        );
        let room = scratch.room(&format!("server-{port}"))?;
        if let Some(syncing) = syncing {
            let interval = if syncing == Syncing::Always { ", sync_interval: always" } else { "" };
            let streams = room.path().join("streams");
            text.push_str(&format!("jetstream {{ store_dir: {:?}{interval} }}\n", streams.display()));
        }
        Server::with_configuration(binary, port, room, &text)
    }
}

/// Waits until streams with three replicas can be made.
fn serve_streams(address: &Address) -> Result<(), BenchError> {
    let deadline = Instant::now() + 2 * PATIENCE;
    // Before there is a meta leader nobody answers.
    let mut target = Target::from(address);
    target.timeout = Duration::from_secs(2);
    let stream = json!({ "name": "SETTLED", "num_replicas": SERVERS });
    loop {
        let made = Admin::open(&target).and_then(|mut admin| {
            admin.create_stream(&stream)?;
            admin.delete_stream("SETTLED")
        });
        match made {
            Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(50)),
            made => return made,
        }
    }
}

/// Waits until each server delivers to clients of each other, and so knows of all interest that
/// there was before.
fn settle(addresses: &[Address]) -> Result<(), BenchError> {
    let deadline = Instant::now() + PATIENCE;
    for (to, receiver) in addresses.iter().enumerate() {
        let mut probe = Connection::open(receiver)?;
        probe.send(format!("SUB settled.{to} 1\r\n").as_bytes())?;
        probe.barrier()?;
        for (from, sender) in addresses.iter().enumerate().filter(|(from, _)| *from != to) {
            let mut sender = Connection::open(sender)?;
            let mark = from.to_string();
            loop {
                sender.send(format!("PUB settled.{to} {}\r\n{mark}\r\n", mark.len()).as_bytes())?;
                sender.begin(b"")?;
                let soon = Instant::now() + Duration::from_millis(20);
                let message = probe.receive_until(Some(soon))?;
                if message.is_some_and(|message| message.payload == mark.as_bytes()) {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(BenchError::Lost(format!("server {from} does not reach server {to}")));
                }
            }
        }
    }
    Ok(())
}

/// Has a third server join two: how long it takes until it knows all interest, what it costs there,
/// and what clients of the first see meanwhile.
fn join(told: usize, binary: &Path, context: ClusterContext<'_>) -> Result<Vec<(Metric, f64)>, BenchError> {
    let told = told.min(context.subscriptions);
    let watched = PROBE_TIME + PROBE_TIME_EACH * told as u32;
    let plan = ClusterPorts::free(SERVERS)?;
    let start = |number| plan.start(number, binary, context.scratch, "off", None);
    let (first, second) = (start(0)?, start(1)?);
    let before = {
        let third = start(2)?;
        settle(&[first.address().clone(), second.address().clone(), third.address().clone()])?;
        third.meter().resident_at_rest()?
    };
    let subscribed = subscribe(first.address(), told)?;
    settle(&[first.address().clone(), second.address().clone()])?;
    let [_, _, http] = plan.0[2];
    let (outcome, joined) = thread::scope(|scope| {
        let joining = scope.spawn(|| {
            thread::sleep(PROBE_TIME / 3);
            let start_of_third = Instant::now();
            let third = start(2)?;
            while subscriptions(http).unwrap_or(0) < told as u64 {
                if start_of_third.elapsed() > PATIENCE {
                    return Err(BenchError::Lost("a server that joins is not told of all interest".into()));
                }
                thread::sleep(Duration::from_millis(1));
            }
            let took = start_of_third.elapsed();
            Ok((took, third.meter().resident_at_rest()?))
        });
        let outcome = probe(first.address(), watched);
        let joined = joining.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, BenchError>((outcome?, joined?))
    })?;
    drop(subscribed);
    let (took, after) = joined;
    let of = |quantile| outcome.from_planned.microseconds(quantile);
    Ok(vec![
        (Metric::JoinTime, took.as_secs_f64() * 1e3),
        (Metric::SubscriptionMemory, after.saturating_sub(before) as f64 / told as f64),
        (Metric::Latency99, of(0.99)),
        (Metric::LatencyMost, of(1.0)),
    ])
}

/// Opens connections with `count` subscriptions on different literal subjects.
fn subscribe(address: &Address, count: usize) -> Result<Vec<Connection>, BenchError> {
    let mut connections = Vec::new();
    for first in 0..SUBSCRIBERS {
        let mut connection = Connection::open(address)?;
        let mine: Vec<usize> = (first..count).step_by(SUBSCRIBERS).collect();
        for some in mine.chunks(2000) {
            let line = |n: &usize| format!("SUB orders.{}.{} {}\r\n", n % 1000, n / 1000, n + 1);
            connection.send(some.iter().map(line).collect::<String>().as_bytes())?;
        }
        connection.barrier()?;
        connections.push(connection);
    }
    Ok(connections)
}

/// Subscriptions that a server knows, those of other servers with them, as `/varz` says.
fn subscriptions(http: u16) -> Option<u64> {
    page(http, "/varz")?["subscriptions"].as_u64()
}

/// A page of a server.
pub(crate) fn page(http: u16, path: &str) -> Option<serde_json::Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", http)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}
