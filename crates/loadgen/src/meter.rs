//! CPU time and memory of a process, as the kernel accounts for them.
//!
//! Reads `/proc` and this process's limit of open files; owns nothing.

use std::time::Duration;
use std::{fs, thread};

use rustix::process::{Resource, Rlimit};

use crate::error::BenchError;

const TICKS_PER_SECOND: u32 = 100;

/// Time between two looks at a server that is to come to rest.
const REST: Duration = Duration::from_millis(500);
/// CPU time in `REST` below which a server rests.
const AT_REST: Duration = Duration::from_millis(5);
/// Looks after which a server counts as resting, however busy.
const LOOKS: usize = 10;

/// Raises this process's limit of open files (which servers inherit) as far as it is allowed to,
/// and returns it.
pub fn raise_file_limit() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    limit.current.unwrap_or(u64::MAX)
}

/// Reads what the kernel knows about a process.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    pid: u32,
}

/// CPU time used so far, from two sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// The scheduler's sum over the living threads: exact to the last tick.
    pub scheduled: Duration,
    /// User and system time of the process: in steps of 10 ms, but with ended threads.
    pub accounted: Duration,
}

impl Meter {
    /// A meter for a process that we did not start.
    pub fn of(pid: u32) -> Self {
        Self { pid }
    }

    /// CPU time of the process so far.
    pub fn cpu(self) -> Result<CpuTime, BenchError> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).map_err(self.gone())?;
        let mut nanoseconds = 0;
        for task in tasks.flatten() {
            // A thread may end between the listing and the reading: its time is in `accounted`.
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            nanoseconds += scheduled_nanoseconds(&text).unwrap_or(0);
        }
        let stat = self.read("stat")?;
        let ticks = accounted_ticks(&stat).ok_or_else(|| self.unreadable("stat"))?;
        let accounted = Duration::from_secs(ticks) / TICKS_PER_SECOND;
        Ok(CpuTime { scheduled: Duration::from_nanos(nanoseconds), accounted })
    }

    /// Resident memory, in bytes.
    pub fn resident(self) -> Result<u64, BenchError> {
        status_bytes(&self.read("status")?, "VmRSS:").ok_or_else(|| self.unreadable("status"))
    }

    /// The most resident memory that the process ever had, in bytes.
    pub fn most_resident(self) -> Result<u64, BenchError> {
        status_bytes(&self.read("status")?, "VmHWM:").ok_or_else(|| self.unreadable("status"))
    }

    /// Resident memory that no file backs, in bytes.
    pub fn anonymous(self) -> Result<u64, BenchError> {
        status_bytes(&self.read("status")?, "RssAnon:").ok_or_else(|| self.unreadable("status"))
    }

    /// Waits until a server uses less than one per cent of a core for half a second; at most 5
    /// seconds.
    pub fn rest(self) -> Result<(), BenchError> {
        let mut before = self.cpu()?;
        for _ in 0..LOOKS {
            thread::sleep(REST);
            let now = self.cpu()?;
            if now.since(before).scheduled < AT_REST {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Resident memory in bytes of a server that has come to rest.
    pub fn resident_at_rest(self) -> Result<u64, BenchError> {
        self.rest()?;
        self.resident()
    }

    fn read(self, file: &str) -> Result<String, BenchError> {
        fs::read_to_string(format!("/proc/{}/{file}", self.pid)).map_err(self.gone())
    }

    fn gone(self) -> impl FnOnce(std::io::Error) -> BenchError {
        move |error| BenchError::Process(format!("process {} cannot be read: {error}", self.pid))
    }

    fn unreadable(self, file: &str) -> BenchError {
        BenchError::Process(format!("/proc/{}/{file} has an unknown form", self.pid))
    }
}

/// CPU time of several processes together; none of none.
pub fn cpu_of(meters: &[Meter]) -> Result<Option<CpuTime>, BenchError> {
    let times = meters.iter().map(|meter| meter.cpu()).collect::<Result<Vec<_>, _>>()?;
    Ok(times.into_iter().reduce(CpuTime::and))
}

impl CpuTime {
    /// The time used since an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            scheduled: self.scheduled.saturating_sub(earlier.scheduled),
            accounted: self.accounted.saturating_sub(earlier.accounted),
        }
    }

    /// Both times together.
    pub fn and(self, other: Self) -> Self {
        Self { scheduled: self.scheduled + other.scheduled, accounted: self.accounted + other.accounted }
    }

    /// Whether the two sources differ by more than a fifth; short times are not judged, because the
    /// second source counts in steps of 10 ms.
    pub fn is_doubtful(self) -> bool {
        let larger = self.scheduled.max(self.accounted);
        larger > Duration::from_millis(300) && self.scheduled.abs_diff(self.accounted) > larger / 5
    }
}

/// The first field of `schedstat`: time on a CPU.
fn scheduled_nanoseconds(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// utime plus stime of `stat`. The program's name stands before them in parentheses and may contain
/// anything, so fields are counted from the last parenthesis.
fn accounted_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn status_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn proc_files_are_read() {
        assert_eq!(scheduled_nanoseconds("123456789 42 7\n"), Some(123_456_789));
        assert_eq!(scheduled_nanoseconds(""), None);
        let stat = "1234 (a (bad) name) S 1 1234 1234 0 -1 4194304 500 0 0 0 150 50 0 0 20 0 8 0 100 1 2";
        assert_eq!(accounted_ticks(stat), Some(200));
        assert_eq!(accounted_ticks("1234 (x) S 1"), None);
        let status = "Name:\tx\nVmHWM:\t  9999 kB\nVmRSS:\t    1536 kB\nThreads:\t3\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(1536 * 1024));
        assert_eq!(status_bytes(status, "VmHWM:"), Some(9999 * 1024));
        assert_eq!(status_bytes("Name:\tx\n", "VmRSS:"), None);
    }

    #[test]
    fn a_meter_sees_work_and_memory_of_this_process() {
        let meter = Meter::of(std::process::id());
        let before = meter.cpu().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut work = 1_u64;
        while meter.cpu().unwrap().since(before).scheduled < Duration::from_millis(20) {
            assert!(Instant::now() < deadline, "no CPU time was seen");
            (0..100_000).for_each(|i| work = work.wrapping_mul(31).wrapping_add(std::hint::black_box(i)));
        }
        assert!(work != 0 && meter.resident().unwrap() > 100_000);
    }

    #[test]
    fn sources_that_disagree_are_doubtful() {
        let time = |scheduled, accounted| CpuTime {
            scheduled: Duration::from_millis(scheduled),
            accounted: Duration::from_millis(accounted),
        };
        assert!(time(1000, 700).is_doubtful() && time(700, 1000).is_doubtful());
        assert!(!time(1000, 900).is_doubtful());
        assert!(!time(20, 0).is_doubtful());
    }
}
