//! Costs of a small server, and of one with thousands of streams that hold nothing or little: time
//! to make them, disk, restarts, memory at the start, and publishing while another process keeps
//! the disk busy.
//!
//! Each measurement starts a fresh server in a directory of its own.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use myelin_loadgen::admin::Admin;
use myelin_loadgen::connection::address::Address;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::stream::LoadStorage;
use myelin_loadgen::latency::{self, LatencyOutcome};
use myelin_loadgen::metric::Metric;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rows::latency::{FromTo, Latency};
use crate::servers::process::{Server, Syncing};
use crate::servers::scratch::Scratch;

/// Name of these rows for `--rows`.
pub(crate) const GROUP: &str = "small";

/// Streams of a full row, and how many of them get a consumer before a restart.
const STREAMS: usize = 5_000;
const CONSUMERS: usize = 900;
/// Clients that make streams at once.
pub(super) const TOGETHER: usize = 64;
/// How long a server may take to serve all streams after a restart.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes that the other process writes in a second, with a sync behind each piece.
const PRESSURE: u64 = 200_000_000;
const PIECE: usize = 4 << 20;
/// How long a full row publishes beside that: a shorter one says nothing of one in a thousand.
const PRESSED: Duration = Duration::from_secs(60);

/// Work that a fresh server gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SmallLoad {
    /// Makes streams, so many at once.
    Creation { together: usize },
    /// Starts with JetStream, and makes streams that stay empty: what the disk has of both.
    Disk,
    /// Starts again with streams and consumers, after a SIGKILL or a clean stop.
    Restart { is_killed: bool },
    /// A process that has just been started, with JetStream or without.
    Start { with_streams: bool },
    /// Publishes while the disk is busy for another.
    Pressure,
}

impl fmt::Display for SmallLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Creation { together: 1 } => f.write_str("file streams, made one after the other"),
            Self::Creation { together } => write!(f, "file streams, {together} made at once"),
            Self::Disk => f.write_str("disk of a fresh store, and of streams without messages"),
            Self::Restart { is_killed: true } => f.write_str("a restart with streams after SIGKILL"),
            Self::Restart { is_killed: false } => f.write_str("a restart with streams after a clean stop"),
            Self::Start { with_streams: true } => f.write_str("a process just started, with JetStream"),
            Self::Start { with_streams: false } => f.write_str("a process just started, without JetStream"),
            Self::Pressure => f.write_str("publishing beside a process that writes and syncs 200 MB/s"),
        }
    }
}

impl SmallLoad {
    /// Measures a fresh server. `share` is the part of a full row's streams that is made,
    /// `duration` how long is published where that is less than all.
    pub(crate) fn run(
        self,
        binary: &Path,
        scratch: &Scratch,
        share: f64,
        duration: Duration,
    ) -> Result<SmallOutcome, BenchError> {
        let count = |all: usize| ((all as f64 * share) as usize).max(TOGETHER);
        let server = || Server::with_streams(binary, scratch, Syncing::AsItLikes);
        let readings = match self {
            Self::Creation { together } => {
                let (server, count) = (server()?, count(STREAMS));
                let began = Instant::now();
                create(server.address(), count, together)?;
                vec![(Metric::StreamCreationRate, count as f64 / began.elapsed().as_secs_f64())]
            }
            Self::Disk => disk(&server()?, count(STREAMS))?,
            Self::Restart { is_killed } => {
                restart(server()?, binary, (count(STREAMS), count(CONSUMERS)), is_killed)?
            }
            Self::Start { with_streams } => {
                start(&if with_streams { server()? } else { Server::start(binary)? })?
            }
            Self::Pressure => {
                let duration = if share < 1.0 { duration } else { duration.max(PRESSED) };
                let outcome = pressure(&server()?, scratch, duration)?;
                return Ok(SmallOutcome::Latency(Box::new(outcome)));
            }
        };
        Ok(SmallOutcome::Readings(readings))
    }
}

/// Outcome of such a row.
pub(crate) enum SmallOutcome {
    Readings(Vec<(Metric, f64)>),
    Latency(Box<LatencyOutcome>),
}

/// Makes `count` streams, each of `together` connections its share one after the other.
fn create(address: &Address, count: usize, together: usize) -> Result<(), BenchError> {
    let make = |first: usize| {
        let mut admin = Admin::open(address)?;
        (first..count).step_by(together).try_for_each(|number| {
            let (name, subjects) = (format!("S{number}"), [format!("s{number}.>")]);
            admin.create_stream(&json!({ "name": name, "subjects": subjects, "storage": "file" }))
        })
    };
    thread::scope(|scope| {
        let makers: Vec<_> = (0..together).map(|first| scope.spawn(move || make(first))).collect();
        makers.into_iter().try_for_each(|maker| {
            maker.join().unwrap_or_else(|_| Err(BenchError::Process("a maker of streams panicked".into())))
        })
    })
}

fn disk(server: &Server, count: usize) -> Result<Vec<(Metric, f64)>, BenchError> {
    let root = server.directory()?;
    // A store that is in use, as an operator finds it.
    Admin::open(server.address())?.ask("INFO", &Value::Null)?;
    thread::sleep(Duration::from_millis(500));
    let fresh = kibibytes(&root)?;
    create(server.address(), count, 1)?;
    thread::sleep(Duration::from_millis(500));
    let each = (kibibytes(&root)? - fresh) / count as f64;
    Ok(vec![(Metric::StreamDisk, each), (Metric::FreshDisk, fresh)])
}

/// Size of a directory, as `du` says it.
fn kibibytes(directory: &Path) -> Result<f64, BenchError> {
    let blocks = blocks(directory).map_err(BenchError::io("the disk that the store takes"))?;
    Ok(blocks as f64 / 2.0)
}

fn blocks(path: &Path) -> std::io::Result<u64> {
    let about = fs::symlink_metadata(path)?;
    let mut sum = about.blocks();
    if about.is_dir() {
        for entry in fs::read_dir(path)? {
            sum += blocks(&entry?.path())?;
        }
    }
    Ok(sum)
}

fn restart(
    server: Server,
    binary: &Path,
    (streams, consumers): (usize, usize),
    is_killed: bool,
) -> Result<Vec<(Metric, f64)>, BenchError> {
    create(server.address(), streams, 1)?;
    let mut admin = Admin::open(server.address())?;
    for number in 0..consumers {
        let config = json!({ "durable_name": "C", "ack_policy": "explicit" });
        let request = json!({ "stream_name": format!("S{number}"), "config": config });
        admin.ask(&format!("CONSUMER.DURABLE.CREATE.S{number}.C"), &request)?;
    }
    drop(admin);
    let room = server.stop(if is_killed { Signal::KILL } else { Signal::TERM })?;
    let began = Instant::now();
    let server = Server::in_room(binary, room, PATIENCE)?;
    let mut admin = Admin::open(server.address())?;
    loop {
        let info = admin.ask("INFO", &Value::Null)?;
        let counts = (info["streams"].as_u64(), info["consumers"].as_u64());
        if counts == (Some(streams as u64), Some(consumers as u64)) {
            break;
        }
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Lost(format!("{counts:?} streams and consumers are back")));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(vec![(Metric::RestartTime, began.elapsed().as_secs_f64() * 1e3)])
}

fn start(server: &Server) -> Result<Vec<(Metric, f64)>, BenchError> {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let resident = server.meter().resident_at_rest()?;
    Ok(vec![
        (Metric::AnonymousMemory, mebibytes(server.meter().anonymous()?)),
        (Metric::ProcessMemory, mebibytes(resident)),
    ])
}

fn pressure(server: &Server, scratch: &Scratch, duration: Duration) -> Result<LatencyOutcome, BenchError> {
    let load = Latency {
        from_to: FromTo::Ack,
        rate: 5_000,
        connections: 1,
        storage: LoadStorage::File,
        synced: false,
        size: 256,
    };
    let is_over = AtomicBool::new(false);
    let path = scratch.path().join("pressure");
    thread::scope(|scope| {
        let writer = scope.spawn(|| keep_busy(&path, &is_over));
        let outcome = latency::run(&load.settings(server.address(), duration, Some(server.meter())));
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap_or_else(|_| Err(std::io::Error::other("panicked")));
        written.map_err(BenchError::io("keeping the disk busy"))?;
        outcome
    })
}

/// Writes and syncs until it is over, at most as fast as it is meant to.
fn keep_busy(path: &Path, is_over: &AtomicBool) -> std::io::Result<()> {
    let piece = vec![0x5a; PIECE];
    let mut file = File::create(path)?;
    let (began, mut written) = (Instant::now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        // The file stays small: what counts is what reaches the disk.
        if written % (64 * PIECE as u64) == 0 {
            file = File::create(path)?;
        }
        file.write_all(&piece)?;
        file.sync_data()?;
        written += PIECE as u64;
        let due = Duration::from_secs_f64(written as f64 / PRESSURE as f64);
        thread::sleep(due.saturating_sub(began.elapsed()));
    }
    fs::remove_file(path)
}
