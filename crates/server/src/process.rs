//! What this process uses: resident memory, processor time, cores.
//!
//! It reads `/proc/self` and understands it; where there is none, everything reads as zero.

use std::fs;
use std::time::{Duration, Instant};

/// The unit of processor time in `/proc`: USER_HZ, which Linux fixes at 100 for programs.
const TICKS_PER_SECOND: u32 = 100;

/// Measures this process from the moment it was made.
#[derive(Debug)]
pub(crate) struct Meter {
    started: Instant,
    ticks_at_start: u64,
}

/// One reading of a [`Meter`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// Bytes in memory.
    pub resident: u64,
    /// Percent of one core, the mean since the meter was made, with one decimal.
    pub cpu_percent: f64,
}

impl Meter {
    /// Begins to measure.
    #[must_use]
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), ticks_at_start: cpu_ticks() }
    }

    /// Reads two small files; cheap enough for every `/varz`, not for a data path.
    #[must_use]
    pub(crate) fn read(&self) -> Usage {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Usage {
            resident: parse_resident(&status).unwrap_or(0),
            cpu_percent: percent(cpu_ticks().saturating_sub(self.ticks_at_start), self.started.elapsed()),
        }
    }
}

/// The cores this process may run on, at least 1.
#[must_use]
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn cpu_ticks() -> u64 {
    fs::read_to_string("/proc/self/stat").ok().and_then(|stat| parse_cpu_ticks(&stat)).unwrap_or(0)
}

/// The bytes in the line `VmRSS:   1234 kB`.
fn parse_resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// User and system time from a `stat` line, in ticks.
///
/// The second field is the program's name in parentheses; it may contain blanks and parentheses, so fields are
/// counted from the last `)` on.
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
    fn resident_memory_is_in_bytes() {
        let status = "Name:\tmyelin\nVmHWM:\t    9000 kB\nVmRSS:\t    5120 kB\nThreads:\t4\n";
        assert_eq!(parse_resident(status), Some(5_242_880));
        assert_eq!(parse_resident("VmRSS:\tmany kB\n"), None);
        assert_eq!(parse_resident("VmRSS:\t18446744073709551615 kB\n"), None);
        assert_eq!(parse_resident(""), None);
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
    fn this_process_has_memory_and_cores() {
        let usage = Meter::start().read();
        assert!(usage.resident > 100_000, "{usage:?}");
        assert!(usage.cpu_percent >= 0.0);
        assert!(cores() >= 1);
    }
}
