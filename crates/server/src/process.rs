//! Resources that this process uses: memory, processor time, cores, threads.
//!
//! It reads `/proc/self` and understands it; where there is none, everything reads as zero.

mod threads;

pub(crate) use threads::threads;

use myelin_monitor::RuntimeSnapshot;
use myelin_stdx::sync::lock;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The unit of processor time in `/proc`: USER_HZ, which Linux fixes at 100 for programs.
const TICKS_PER_SECOND: u32 = 100;

/// How often processor time is looked at; what is shown is the mean over this time.
const WINDOW: Duration = Duration::from_secs(1);

/// How far threads step back that shards must not wait for: between 0, not at all, and 19. At full
/// load of all cores they still get a tenth of one, so that pages arrive and whoever waits for a
/// lock of theirs does not wait long.
const NICENESS: i32 = 10;

/// Longest of the files that are read here, or nearly so.
const LONG: usize = 4000;

/// A file of the system, whose length it does not tell; empty where there is none.
///
/// Perf: a buffer that grows takes a page of the allocator for each of its lengths.
fn read(path: &str) -> String {
    let mut text = String::with_capacity(LONG);
    let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    if read.is_ok() { text } else { String::new() }
}

/// Gives the calling thread a lower priority. On Linux it belongs to a thread; without the right to
/// change it, or elsewhere, all is as before.
pub(crate) fn step_back() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

/// Measures this process.
#[derive(Debug)]
pub(crate) struct Meter {
    last: Mutex<CpuSample>,
    /// The bits of the percentage over the last window.
    percent: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct CpuSample {
    at: Instant,
    ticks: u64,
}

impl CpuSample {
    fn take() -> Self {
        let ticks = parse_cpu_ticks(&read("/proc/self/stat")).unwrap_or(0);
        Self { at: Instant::now(), ticks }
    }
}

/// One reading of a [`Meter`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProcessUsage {
    /// Bytes in memory.
    pub resident: u64,
    /// Percent of one core over the last full second, with one decimal.
    pub cpu_percent: f64,
}

impl Meter {
    /// A meter that has measured nothing yet; see [`run`](Self::run).
    #[must_use]
    pub(crate) fn start() -> Self {
        Self { last: Mutex::new(CpuSample::take()), percent: AtomicU64::new(0.0_f64.to_bits()) }
    }

    /// Measures once a second, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(WINDOW).await;
            self.measure(CpuSample::take());
        }
    }

    fn measure(&self, now: CpuSample) {
        let mut last = lock(&self.last);
        let used = percent(now.ticks.saturating_sub(last.ticks), now.at.saturating_duration_since(last.at));
        self.percent.store(used.to_bits(), Relaxed);
        *last = now;
    }

    /// Reads one small file; cheap enough for every `/varz`, not for a data path.
    #[must_use]
    pub(crate) fn read(&self) -> ProcessUsage {
        let status = read("/proc/self/status");
        ProcessUsage {
            resident: field(&status, "VmRSS:").and_then(kibibytes).unwrap_or(0),
            cpu_percent: f64::from_bits(self.percent.load(Relaxed)),
        }
    }
}

/// The cores that this process may use at the same time, at least 1: what shards are made for.
#[must_use]
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The cores that its threads may run on, whatever part of their time a container may take.
#[must_use]
pub(crate) fn cores_of_machine() -> usize {
    let status = read("/proc/self/status");
    field(&status, "Cpus_allowed_list:").and_then(count_list).unwrap_or_else(cores)
}

/// Bytes of memory that this machine has.
pub(crate) fn memory_of_machine() -> Option<u64> {
    let info = read("/proc/meminfo");
    field(&info, "MemTotal:").and_then(kibibytes)
}

/// The name that this program was started by, which a link may have given it.
pub(crate) fn called() -> String {
    let name = std::env::args_os().next().map(PathBuf::from);
    let name = name.as_deref().and_then(Path::file_name);
    name.map_or_else(|| "myelin-server".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The arguments, program included, without their secrets. Compat: the reference shows them as they
/// are.
fn command_line() -> Vec<String> {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    myelin_conf::redacted_args(&arguments.collect::<Vec<_>>())
}

/// Command line of the process, and the memory that it holds.
pub(crate) fn runtime() -> RuntimeSnapshot {
    let status = read("/proc/self/status");
    let bytes = |name| field(&status, name).and_then(kibibytes).unwrap_or(0);
    RuntimeSnapshot {
        command_line: command_line(),
        mapped: bytes("VmSize:"),
        data: bytes("VmData:"),
        resident_data: bytes("RssAnon:"),
        stack: bytes("VmStk:"),
        ..RuntimeSnapshot::default()
    }
}

/// Value behind `name` in its line of a `status` file.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The bytes in `1234 kB`.
fn kibibytes(text: &str) -> Option<u64> {
    let kibibytes: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// How many numbers are in a list such as `0-3,8`.
fn count_list(text: &str) -> Option<usize> {
    text.split(',').try_fold(0, |sum: usize, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// User and system time from a `stat` line, in ticks.
///
/// The second field is the program's name in parentheses; it may contain blanks and parentheses, so
/// fields are counted from the last `)` on.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    times.next()?.ok()?.checked_add(times.next()?.ok()?)
}

fn percent(ticks: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "2^53 ticks are three million years")]
    let seconds = ticks as f64 / f64::from(TICKS_PER_SECOND);
    (seconds / elapsed.as_secs_f64() * 1000.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_status_are_found() {
        let status = "Name:\tmyelin\nVmHWM:\t    9000 kB\nVmRSS:\t    5120 kB\nThreads:\t4\n";
        assert_eq!(field(status, "VmRSS:").and_then(kibibytes), Some(5_242_880));
        assert_eq!(field(status, "VmData:"), None);
        assert_eq!(kibibytes("many kB"), None);
        assert_eq!(kibibytes("18446744073709551615 kB"), None);
    }

    #[test]
    fn lists_of_cores_are_counted() {
        for (text, count) in [("0", Some(1)), ("0-3", Some(4)), ("0-1,4,6-7", Some(5))] {
            assert_eq!(count_list(text), count, "{text}");
        }
        for text in ["", "a", "3-1", "0-18446744073709551615"] {
            assert_eq!(count_list(text), None, "{text}");
        }
    }

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 40 2 13 14";
        assert_eq!(parse_cpu_ticks(&format!("77 (myelin-server) {rest}")), Some(42));
        assert_eq!(parse_cpu_ticks(&format!("77 (a) b) (c) {rest}")), Some(42));
        assert_eq!(parse_cpu_ticks("77 (short) S 1 2"), None);
        assert_eq!(parse_cpu_ticks("no name"), None);
    }

    #[test]
    fn percent_has_one_decimal() {
        assert_eq!(percent(100, Duration::from_secs(1)), 100.0);
        assert_eq!(percent(1, Duration::from_secs(3)), 0.3);
        assert_eq!(percent(400, Duration::from_secs(2)), 200.0);
        assert_eq!(percent(5, Duration::ZERO), 0.0);
    }

    #[test]
    fn the_percentage_is_that_of_the_last_window() {
        let meter = Meter::start();
        assert_eq!(meter.read().cpu_percent, 0.0);
        let first = *meter.last.lock().unwrap();
        let after = |seconds, ticks| CpuSample {
            at: first.at + Duration::from_secs(seconds),
            ticks: first.ticks + ticks,
        };
        meter.measure(after(1, 100));
        assert_eq!(meter.read().cpu_percent, 100.0);
        meter.measure(after(3, 101));
        assert_eq!(meter.read().cpu_percent, 0.5);
    }

    #[test]
    fn this_process_has_memory_and_cores() {
        let usage = Meter::start().read();
        assert!(usage.resident > 100_000, "{usage:?}");
        assert!(cores() >= 1 && cores_of_machine() >= cores());
        let runtime = runtime();
        assert!(runtime.mapped > runtime.data && runtime.resident_data > 0, "{runtime:?}");
        assert!(!runtime.command_line.is_empty());
    }
}
