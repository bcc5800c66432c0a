//! Opening a store whose process was killed.
//!
//! One process fills a store and is killed in the middle of an append; a second one opens what it
//! left, and says how long that took and how much memory. The page cache still has the files: this
//! measures the store, not the device.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use clap::{Args, Subcommand};
use myelin_loadgen::error::BenchError;
use myelin_store::{Notice, StreamConfig};

use crate::servers::scratch::Scratch;
use crate::store::StoreSettings;
use crate::store::figure::{Figure, ratios};
use crate::store::ground::Ground;
use crate::store::load::AppendLoad;
use crate::store::meter::{ThreadMeter, resident};

/// Content of a store when its process is killed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Content {
    #[arg(long)]
    messages: u64,
    #[arg(long)]
    subjects: usize,
    #[arg(long)]
    size: usize,
}

/// Task of a process of its own: to fill a store, or to open it.
#[derive(Debug, Subcommand)]
pub(crate) enum RecoveryTask {
    /// Fills a store, says so, and goes on until it is killed.
    Fill {
        /// Directory of the store
        root: std::path::PathBuf,
        #[command(flatten)]
        content: Content,
    },
    /// Opens it.
    Open {
        /// Directory of the store
        root: std::path::PathBuf,
    },
}

const CONTENTS: [(&str, Content); 3] = [
    ("5 GB", Content { messages: 4_600_000, subjects: 64, size: 1024 }),
    ("10,000,000 messages", Content { messages: 10_000_000, subjects: 64, size: 16 }),
    ("1,000,000 subjects", Content { messages: 2_000_000, subjects: 1_000_000, size: 128 }),
];

/// Kills a process with a full store, and opens it again.
pub(crate) fn after_kill(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (name, content) in CONTENTS {
        let content = Content {
            messages: settings.divide(content.messages),
            subjects: (settings.divide(content.subjects as u64) as usize).max(64),
            ..content
        };
        let (mut seconds, mut steady, mut peak, mut after) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // What matters does not change from round to round, and filling takes long.
        for _ in 0..settings.rounds.min(3) {
            let room = scratch.room("recovery")?;
            steady.push(fill_and_kill(room.path(), content)? / MIB);
            let opened = open(room.path(), content)?;
            seconds.push(opened.seconds);
            peak.push(opened.peak / MIB);
            after.push(opened.resident / MIB);
        }
        let label = |figure: &str| format!("{name}: {figure}");
        figures.push(Figure::new(label("until the stream is open"), "s", seconds).at_most(1.0));
        let share = ratios(&peak, &steady);
        figures.push(Figure::new(label("peak memory over steady"), "x", share).at_most(1.2));
        figures.push(Figure::new(label("memory before the kill"), "MiB", steady));
        figures.push(Figure::new(label("memory when opened"), "MiB", after));
    }
    Ok(figures)
}

const MIB: f64 = 1_048_576.0;

/// A process of ours that does not outlive this.
struct Process {
    child: Child,
}

impl Process {
    /// Starts it; answers the numbers of the line that it prints.
    fn start(arguments: &[&str]) -> Result<(Self, Vec<f64>), BenchError> {
        let program = std::env::current_exe().map_err(BenchError::io("looking for this program"))?;
        let mut command = Command::new(program);
        command.arg("store-part").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(BenchError::io("starting this program again"))?;
        let output = child.stdout.take().map(BufReader::new);
        let process = Self { child };
        let line = output.and_then(|output| output.lines().next()).transpose();
        let line = line.map_err(BenchError::io("reading from a part of the benchmark"))?.unwrap_or_default();
        let numbers: Vec<f64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        if numbers.is_empty() {
            return Err(BenchError::Process(format!("store-part {} failed", arguments.join(" "))));
        }
        Ok((process, numbers))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Without warning, which is the point.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of memory before the kill.
fn fill_and_kill(root: &Path, content: Content) -> Result<f64, BenchError> {
    let [messages, subjects, size] =
        [content.messages, content.subjects as u64, content.size as u64].map(|number| number.to_string());
    let root = root.to_string_lossy();
    let arguments = ["fill", &root, "--messages", &messages, "--subjects", &subjects, "--size", &size];
    let (_process, numbers) = Process::start(&arguments)?;
    Ok(numbers[0])
}

struct Opened {
    seconds: f64,
    peak: f64,
    resident: f64,
}

fn open(root: &Path, content: Content) -> Result<Opened, BenchError> {
    let (_process, numbers) = Process::start(&["open", &root.to_string_lossy()])?;
    let [seconds, peak, resident, messages, subjects] = numbers[..] else {
        return Err(BenchError::Process("store-part open said too little".into()));
    };
    if messages < content.messages as f64 || subjects < content.subjects as f64 {
        return Err(BenchError::Lost(format!("{messages} messages of {subjects} subjects came back")));
    }
    Ok(Opened { seconds, peak, resident })
}

impl RecoveryTask {
    /// Runs in a process of its own.
    pub(crate) fn run(&self) -> Result<(), BenchError> {
        match self {
            Self::Fill { root, content } => fill(root, *content),
            Self::Open { root } => reopen(root),
        }
    }
}

fn fill(root: &Path, content: Content) -> Result<(), BenchError> {
    let (ground, _) = Ground::open(root)?;
    let mut stream = ground.stream("S", StreamConfig::default())?;
    let load = AppendLoad::new(content.subjects, content.size);
    let mut appender = ground.appender();
    let each = load.per_batch();
    for at in 0.. {
        let batch = load.batch(at * each, each, ground.clock.now());
        appender.append(&mut stream, &batch, ground.clock.now())?;
        let stored = (at + 1) * each;
        if stored as u64 >= content.messages && (at * each < content.messages as usize || at == 0) {
            appender.settle(&mut stream, ground.clock.now())?;
            println!("{} {stored}", resident().0);
        }
    }
    Ok(())
}

fn reopen(root: &Path) -> Result<(), BenchError> {
    let meter = ThreadMeter::start();
    let (ground, streams) = Ground::open(root)?;
    let found = streams.first().ok_or_else(|| BenchError::Lost("the stream is gone".into()))?;
    let opened = ground.store.open_stream(found.id, StreamConfig::default(), ground.clock.now());
    let (stream, report) = opened.map_err(|error| BenchError::Store(error.to_string()))?;
    let seconds = meter.spent().wall;
    // The batch that the kill came into is cut, which is right: nobody was told of it.
    let is_strange = |notice: &&Notice| !matches!(notice, Notice::Cut { .. });
    if let Some(notice) = report.notices.iter().find(is_strange) {
        return Err(BenchError::Lost(format!("{notice:?}")));
    }
    let (resident, peak) = resident();
    let state = stream.state();
    println!("{seconds} {peak} {resident} {} {}", state.totals.messages, state.subjects);
    Ok(())
}
