//! What durability costs: `always` with one and with many streams against the same appends without a sync.
//!
//! `cargo bench -p myelin-store --bench journal [-- DIRECTORY] [lone|one|many]`. A writer thread and a disk thread; the directory
//! (default: the system's for temporary files) has to be on a real disk. Records are 180 bytes with a checksum; per
//! record the writer spends about what a stream spends on its index. Medians of 5 runs, interleaved.

#![allow(clippy::unwrap_used)] // As in tests: whoever measures wants to see what went wrong.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use myelin_store::disk::Disk;
use myelin_store::disk::real::RealDisk;
use myelin_store::journal::{Journal, JournalConfig, Resolution};
use myelin_store::{
    AppendFile, AppendFileOptions, Durability, FileId, FileKind, OnDurable, SegmentNo, StreamId,
};

const RECORD: usize = 180;
const IN_FLIGHT: u64 = 4096;
const SEGMENT: u64 = 16 << 20;

/// Bytes made durable, of all streams together.
#[derive(Default)]
struct Durable {
    bytes: Mutex<u64>,
    moved: Condvar,
}

/// One stream's part of it.
struct Listener {
    total: Arc<Durable>,
    seen: AtomicU64,
}

impl OnDurable for Listener {
    fn durable(&self, _: FileId, offset: u64) {
        let before = self.seen.fetch_max(offset, Ordering::Relaxed);
        *self.total.bytes.lock().unwrap() += offset.saturating_sub(before);
        self.total.moved.notify_all();
    }

    fn failed(&self, _: FileId, error: &io::Error) {
        panic!("{error}");
    }
}

struct Bench {
    journal: Arc<Journal>,
    directory: PathBuf,
    durable: Arc<Durable>,
    began: Instant,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    files: Vec<(Arc<AppendFile>, u64)>,
    durability: Durability,
}

impl Bench {
    fn new(directory: &Path, config: JournalConfig, streams: u64, durability: Durability) -> Self {
        let _ = std::fs::remove_dir_all(directory);
        RealDisk.make_directory(&directory.join("data")).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let (journal, mut replay) = Journal::open(disk, &directory.join("journal"), config).unwrap();
        replay.run(&mut |_| Ok(Resolution::Unknown)).unwrap();
        let began = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (journal, stop) = (Arc::clone(&journal), Arc::clone(&stop));
            move || {
                let clock = || began.elapsed().as_nanos() as u64;
                while !stop.load(Ordering::Relaxed) {
                    journal.wait(journal.next_due(clock()).unwrap_or(Duration::from_millis(100)));
                    journal.round(&clock).unwrap();
                }
            }
        });
        let mut bench = Self {
            journal,
            directory: directory.to_path_buf(),
            durable: Arc::default(),
            began,
            stop,
            thread: Some(thread),
            files: Vec::new(),
            durability,
        };
        for stream in 0..streams {
            let file = bench.open(stream, 1);
            bench.files.push((file, 1));
        }
        bench
    }

    fn open(&self, stream: u64, number: u64) -> Arc<AppendFile> {
        let path = self.directory.join(format!("data/{stream}.{number}.seg"));
        let file = RealDisk.create(&path).unwrap();
        let listener = Listener { total: Arc::clone(&self.durable), seen: AtomicU64::new(0) };
        let file = AppendFile::new(
            &self.journal,
            AppendFileOptions {
                id: FileId { stream: StreamId(stream), kind: FileKind::Segment(SegmentNo(number)) },
                generation: 0,
                file,
                path,
                end: 0,
                is_new: true,
                durability: self.durability,
                bound: SEGMENT,
                on_durable: Some(Arc::new(listener)),
            },
        );
        file
    }

    fn append(&mut self, stream: usize, bytes: &[u8]) {
        let (file, number) = &self.files[stream];
        if file.end() + bytes.len() as u64 > SEGMENT {
            let number = number + 1;
            file.close().unwrap();
            let old = file.path().to_path_buf();
            self.files[stream] = (self.open(stream as u64, number), number);
            // Keeps the disk from filling: what is open stays readable.
            let _ = std::fs::remove_file(old);
        }
        let (file, _) = &self.files[stream];
        file.reserve(bytes.len() as u64).unwrap();
        file.append(bytes, self.began.elapsed().as_nanos() as u64).unwrap();
    }

    /// Waits until no more than `behind` of `bytes` are not durable.
    fn wait(&self, bytes: u64, behind: u64) {
        let mut durable = self.durable.bytes.lock().unwrap();
        while *durable + behind < bytes {
            durable = self.durable.moved.wait(durable).unwrap();
        }
    }

    fn finish(mut self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        self.journal.wake();
        self.thread.take().unwrap().join().unwrap();
        let statistics = self.journal.statistics(self.began.elapsed().as_nanos() as u64);
        self.files.clear();
        let _ = std::fs::remove_dir_all(&self.directory);
        format!(
            "rounds {} file syncs {} (settling {}) journal syncs {} direct {} MiB journaled {} MiB loss window {} us",
            statistics.rounds,
            statistics.file_syncs,
            statistics.settling_syncs,
            statistics.journal_syncs,
            statistics.direct_bytes >> 20,
            statistics.journaled_bytes >> 20,
            statistics.loss_window_max / 1000,
        )
    }
}

/// Adds `count` records, with about the work that a stream has per record.
fn records(batch: &mut Vec<u8>, count: usize, seed: &mut u64) {
    batch.clear();
    for _ in 0..count {
        for _ in 0..25 {
            *seed = std::hint::black_box(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        let start = batch.len();
        batch.resize(start + RECORD, *seed as u8);
        let crc = crc32c::crc32c(&batch[start + 8..]);
        batch[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Records per second with `IN_FLIGHT` records of all streams together in flight, and what the journal says.
fn throughput(
    directory: &Path,
    config: JournalConfig,
    streams: u64,
    durability: Durability,
    per_batch: usize,
) -> (f64, String) {
    let mut bench = Bench::new(directory, config, streams, durability);
    let (mut batch, mut seed, mut bytes) = (Vec::new(), 1, 0_u64);
    let began = Instant::now();
    let mut stream = 0;
    while began.elapsed() < Duration::from_millis(1500) {
        records(&mut batch, per_batch, &mut seed);
        bench.append(stream, &batch);
        bytes += batch.len() as u64;
        stream = (stream + 1) % streams as usize;
        if durability == Durability::Synced {
            bench.wait(bytes, (IN_FLIGHT - per_batch as u64) * RECORD as u64);
        }
    }
    if durability == Durability::Synced {
        bench.wait(bytes, 0);
    }
    let rate = bytes as f64 / RECORD as f64 / began.elapsed().as_secs_f64();
    (rate, bench.finish())
}

/// Microseconds of one append until it is durable, p50 and p99.
fn lone(directory: &Path, config: JournalConfig, count: usize) -> (f64, f64, String) {
    let mut bench = Bench::new(directory, config, 1, Durability::Synced);
    let (mut batch, mut seed, mut bytes) = (Vec::new(), 1, 0);
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        records(&mut batch, 1, &mut seed);
        let began = Instant::now();
        bench.append(0, &batch);
        bytes += RECORD as u64;
        bench.wait(bytes, 0);
        times.push(began.elapsed().as_nanos() as f64 / 1000.0);
    }
    let text = bench.finish();
    (percentile(&mut times, 50), percentile(&mut times, 99), text)
}

/// The same writes and syncs by one thread, without anything of ours.
fn raw(directory: &Path, count: usize) -> (f64, f64) {
    RealDisk.make_directory(directory).unwrap();
    let path = directory.join("raw");
    let file = RealDisk.create(&path).unwrap();
    file.allocate(4 << 20).unwrap();
    let mut times = Vec::with_capacity(count);
    for n in 0..count {
        let began = Instant::now();
        file.write_at(&[n as u8; RECORD], (n * RECORD) as u64).unwrap();
        file.sync().unwrap();
        times.push(began.elapsed().as_nanos() as f64 / 1000.0);
    }
    RealDisk.remove_file(&path).unwrap();
    (percentile(&mut times, 50), percentile(&mut times, 99))
}

fn percentile(times: &mut [f64], percent: usize) -> f64 {
    times.sort_by(f64::total_cmp);
    times[(times.len() - 1) * percent / 100]
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let directory = arguments.iter().find(|argument| argument.contains('/')).map(PathBuf::from);
    let directory =
        directory.unwrap_or_else(std::env::temp_dir).join(format!("journal-{}", std::process::id()));
    let wants = |name: &str| {
        let names: Vec<_> = arguments.iter().filter(|argument| !argument.contains('/')).collect();
        names.is_empty() || names.iter().any(|wanted| *wanted == name)
    };
    let config = JournalConfig::default();
    let always_journal = JournalConfig { direct_files_max: 0, ..config };
    let runs = 5;
    for _ in 0..if wants("lone") { runs } else { 0 } {
        println!("raw              {:?}", raw(&directory, 2000));
        println!("lone             {:?}", lone(&directory, config, 2000));
        println!("lone, journal    {:?}", lone(&directory, always_journal, 2000));
    }
    for _ in 0..runs {
        let run = |name: &str, config, streams, durability, per_batch| {
            let (rate, text) = throughput(&directory, config, streams, durability, per_batch);
            println!("{name:24} {rate:9.0} records/s  {text}");
        };
        if wants("one") {
            run("one, unsynced", config, 1, Durability::Written, 360);
            run("one, always", config, 1, Durability::Synced, 360);
            run("one, always, small", config, 1, Durability::Synced, 32);
            run(
                "one, always, journal",
                JournalConfig { direct_bytes_per_file: u64::MAX, ..always_journal },
                1,
                Durability::Synced,
                360,
            );
        }
        if wants("many") {
            run("1,000, unsynced", config, 1000, Durability::Written, 4);
            run("1,000, always", config, 1000, Durability::Synced, 4);
            run("1,000, 8 files", JournalConfig { files: 8, ..config }, 1000, Durability::Synced, 4);
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
}
