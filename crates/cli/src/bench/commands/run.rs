//! One run of a benchmark, from the banner to the summary, in the words of `nats bench`.
//!
//! Owns what is printed and where: figures and bars on the standard output, all else on the other
//! one. The clients are connected here and run by `fleet`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use myelin_loadgen::client_pool::pace::Pace;
use myelin_loadgen::client_pool::{self, Board, PoolOutcome, SilenceLimits, Work, sample};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::meter::{CpuTime, Meter};
use myelin_loadgen::target_server::Target;
use myelin_loadgen::token::unique;
use myelin_loadgen::units::{binary, grouped, human_time, log};
use myelin_loadgen::workloads::{Part, split};

use crate::bench::commands::arguments::{Common, Throttle};
use crate::bench::commands::progress::Progress;
use crate::screen::tell;

/// Which benchmark it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BenchmarkKind {
    /// Name in banner and summary.
    pub(crate) label: &'static str,
    /// Verb before the number of messages, in the line that announces a client.
    doing: &'static str,
    /// Activity on the bar of a client.
    state: &'static str,
    /// Start of the clients' names in the CSV.
    prefix: &'static str,
    /// Whether the messages are divided among the clients; otherwise each has all of them.
    is_split: bool,
}

impl BenchmarkKind {
    const fn publisher(label: &'static str) -> Self {
        Self { label, doing: "publishing", state: "Publishing", prefix: "P", is_split: true }
    }

    const fn consumer(label: &'static str, state: &'static str) -> Self {
        Self { label, doing: "expecting", state, prefix: "S", is_split: true }
    }

    const fn each(self) -> Self {
        Self { is_split: false, ..self }
    }

    pub(crate) const PUBLISH: Self = Self::publisher("Core NATS publisher");
    pub(crate) const SUBSCRIBE: Self = Self::consumer("Core NATS subscriber", "Receiving").each();
    pub(crate) const REQUEST: Self =
        Self { doing: "requesting", state: "Requesting", ..Self::publisher("Core NATS service requester") };
    pub(crate) const SERVE: Self = Self { prefix: "?", ..Self::publisher("Core NATS service server") };
    pub(crate) const SYNC: Self = Self::publisher("JetStream synchronous publisher");
    pub(crate) const ASYNC: Self = Self::publisher("JetStream asynchronous publisher");
    pub(crate) const ATOMIC: Self =
        Self { state: "Batching", ..Self::publisher("JetStream atomic batch publisher") };
    pub(crate) const FAST: Self =
        Self { state: "Batching", ..Self::publisher("JetStream fast batch publisher") };
    pub(crate) const ORDERED: Self =
        Self::consumer("JetStream ordered ephemeral consumer", "Receiving").each();
    pub(crate) const CONSUME: Self = Self::consumer("JetStream durable consumer (callback)", "Consuming");
    pub(crate) const FETCH: Self = Self::consumer("JetStream durable consumer (fetch)", "Fetching");
    pub(crate) const GET: Self = Self::consumer("JetStream synchronous getter", "Getting").each();
    pub(crate) const GET_BATCH: Self = Self::consumer("JetStream batched direct getter", "Getting").each();
    pub(crate) const OLD_ORDERED: Self =
        Self::consumer("JetStream ordered ephemeral consumer (old API)", "Receiving").each();
    pub(crate) const OLD_PUSH: Self =
        Self::consumer("JetStream durable push consumer (old API)", "Receiving");
    pub(crate) const OLD_PULL: Self = Self::consumer("JetStream durable pull consumer (old API)", "Fetching");
    pub(crate) const PUT: Self = Self { state: "Putting", ..Self::publisher("JetStream KV putter") };
    pub(crate) const GET_KEY: Self =
        Self { doing: "trying to get", ..Self::consumer("JetStream KV getter", "Getting") };
}

/// Context of one run, which all benchmarks need.
pub(crate) struct BenchmarkRun<'a> {
    kind: BenchmarkKind,
    common: &'a Common,
    pub(crate) target: Target,
    pub(crate) clients: usize,
    messages: u64,
    sleep: Duration,
    throttle: Throttle,
}

/// Names and values in the banner.
pub(crate) type Facts = Vec<(&'static str, String)>;

impl<'a> BenchmarkRun<'a> {
    pub(crate) fn new(
        kind: BenchmarkKind,
        common: &'a Common,
        sleep: Duration,
        throttle: Option<Throttle>,
    ) -> Result<Self, BenchError> {
        let throttle = throttle.unwrap_or_default();
        let messages = match (throttle.throughput, throttle.duration.0) {
            (_, Duration::ZERO) => common.msgs,
            (0, _) => return Err(BenchError::Usage("--duration requires --throughput".into())),
            (rate, duration) => (rate as f64 * duration.as_secs_f64()).round() as u64,
        };
        if messages == 0 || common.clients == 0 {
            return Err(BenchError::Usage("--clients and the number of messages must be at least 1".into()));
        }
        let most = usize::try_from(messages).unwrap_or(usize::MAX);
        let is_publisher = kind.prefix == "P";
        let clients = if is_publisher { common.clients.min(most) } else { common.clients };
        let target = common.flags.target()?;
        Ok(Self { kind, common, target, clients, messages, sleep, throttle })
    }

    /// Prints the banner.
    pub(crate) fn announce(&self, mut facts: Facts) {
        facts.push(("msgs", grouped(self.messages)));
        facts.push(("msg-size", binary(self.common.size.0 as f64)));
        facts.push(("clients", grouped(self.clients as u64)));
        if self.kind != BenchmarkKind::SUBSCRIBE {
            facts.push(("sleep", human_time(self.sleep)));
        }
        if self.throttle.throughput > 0 {
            facts.push(("throughput", grouped(self.throttle.throughput)));
            if !self.throttle.duration.0.is_zero() {
                facts.push(("duration", human_time(self.throttle.duration.0)));
            }
        }
        facts.sort();
        let facts: Vec<String> = facts.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        log(&format!("Starting {} benchmark [{}]", self.kind.label, facts.join(", ")));
    }

    /// The parts of all clients.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let parts = match self.kind.is_split {
            true => split(self.messages, self.clients),
            false => vec![(self.messages, 0); self.clients],
        };
        let pace = |client| Pace::new(self.sleep, self.throttle.throughput, self.clients, client);
        let size = self.common.size.0;
        let part = |(client, (messages, offset))| Part { messages, offset, pace: pace(client), size };
        parts.into_iter().enumerate().map(part).collect()
    }

    /// A subject for the answers to one client, without the end that `Replies` gives it.
    pub(crate) fn inbox(&self) -> String {
        self.target.inbox()
    }

    /// Connects the clients, each with the lines that it begins with, runs them and prints the
    /// summary.
    pub(crate) fn go<W: Work>(&self, works: Vec<(Vec<u8>, W)>) -> Result<(), BenchError> {
        let totals: Vec<u64> = self.parts().iter().map(|part| part.messages).collect();
        let mut clients = Vec::with_capacity(works.len());
        for (number, (lines, work)) in works.into_iter().enumerate() {
            let mut connection = self.target.connect()?;
            connection.begin(&lines)?;
            clients.push((connection, work));
            let what = match self.kind {
                BenchmarkKind::SERVE => "hit control-c to stop".to_owned(),
                kind => format!("{} {} messages", kind.doing, grouped(totals[number])),
            };
            log(&format!("[{}] Starting {}, {what}", number + 1, self.kind.label));
        }
        let patience = self.common.patience.0;
        let others = (!patience.is_zero()).then_some(patience);
        let limits = SilenceLimits { answer: self.target.timeout, others };
        let meter = self.common.server_pid.map(Meter::of);
        let before = meter.map(Meter::cpu).transpose()?;
        let outcome = self.drive(clients, limits, &totals)?;
        let after = meter.map(Meter::cpu).transpose()?;
        self.print(&outcome, after.zip(before).map(|(after, before)| after.since(before)))
    }

    fn drive<W: Work>(
        &self,
        clients: Vec<(myelin_loadgen::connection::Connection, W)>,
        limits: SilenceLimits,
        totals: &[u64],
    ) -> Result<PoolOutcome, BenchError> {
        let board = Board::new(clients.len());
        if self.common.no_progress || self.kind == BenchmarkKind::SERVE {
            return client_pool::run(clients, limits, &board);
        }
        let is_over = AtomicBool::new(false);
        let progress = Progress { board: &board, totals, doing: self.kind.state, start: Instant::now() };
        let outcome = thread::scope(|scope| {
            progress.show(scope, &is_over);
            let outcome = client_pool::run(clients, limits, &board);
            is_over.store(true, Ordering::SeqCst);
            outcome
        });
        progress.finish();
        outcome
    }

    fn print(&self, outcome: &PoolOutcome, server: Option<CpuTime>) -> Result<(), BenchError> {
        let PoolOutcome { samples, cpu } = outcome;
        tell(&sample::report(self.kind.label, samples));
        let messages = samples.iter().map(|sample| sample.messages).sum::<u64>().max(1) as f64;
        let per_message = |time: Duration| time.as_secs_f64() * 1e6 / messages;
        log(&format!("Client CPU: {:.3}s ~ {:.3}us/msg", cpu.as_secs_f64(), per_message(*cpu)));
        if let Some(server) = server {
            let doubt = if server.is_doubtful() { " (doubtful: schedstat and stat differ)" } else { "" };
            let (time, each) = (server.scheduled.as_secs_f64(), per_message(server.scheduled));
            tell(&format!(" server CPU {time:.3}s ~ {each:.3}us/msg{doubt}\n"));
        }
        if let Some(file) = &self.common.csv {
            let text = sample::csv(&unique(22), self.kind.prefix, samples);
            std::fs::write(file, text).map_err(BenchError::io("writing the CSV"))?;
            tell(&format!("Saved metric data in csv file {}\n", file.display()));
        }
        Ok(())
    }
}
