//! Server processes: starting one on a free loopback port, and what the kernel knows about it.
//!
//! Owns the child, those that it started (some servers are shell scripts), and its log file. Reads `/proc`; never talks
//! to a server beyond waiting for its first bytes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal};

use crate::bench::address::Address;
use crate::bench::error::BenchError;
use crate::bench::scratch::Scratch;

const START_PATIENCE: Duration = Duration::from_secs(10);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const TICKS_PER_SECOND: u32 = 100;

/// A running server that ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    address: Address,
    ready_after: Duration,
    /// Where it keeps its streams; removed after it has ended.
    room: Option<Scratch>,
}

/// How a server is started, and when it is ready.
pub(crate) struct Launch {
    pub(crate) command: Command,
    pub(crate) port: u16,
    /// Where it keeps what it stores.
    pub(crate) room: Option<Scratch>,
    /// Whether who listens on the port is a server that serves.
    pub(crate) is_ready: fn(u16) -> bool,
    pub(crate) patience: Duration,
}

/// When a server with JetStream syncs its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncing {
    AsItLikes,
    /// Before it acknowledges.
    Always,
}

impl Server {
    /// Starts `binary -a 127.0.0.1 -p PORT` on a free port and waits until it greets a client.
    pub(crate) fn start(binary: &Path) -> Result<Self, BenchError> {
        Self::launch(binary, free_port()?, &[], None)
    }

    /// The same with JetStream, in a directory of its own.
    pub(crate) fn with_streams(
        binary: &Path,
        scratch: &Scratch,
        syncing: Syncing,
    ) -> Result<Self, BenchError> {
        let port = free_port()?;
        let room = scratch.room(&format!("server-{port}"))?;
        let streams = room.path().join("streams");
        let arguments = match syncing {
            Syncing::AsItLikes => vec!["-js".into(), "-sd".into(), streams.into_os_string()],
            Syncing::Always => {
                let file = room.path().join("server.conf");
                let text =
                    format!("jetstream {{ store_dir: {:?}, sync_interval: always }}\n", streams.display());
                fs::write(&file, text).map_err(BenchError::io("writing the server's configuration"))?;
                vec!["-c".into(), file.into_os_string()]
            }
        };
        Self::launch(binary, port, &arguments, Some(room))
    }

    /// With this configuration file, in a directory of its own.
    pub(crate) fn with_configuration(
        binary: &Path,
        port: u16,
        room: Scratch,
        text: &str,
    ) -> Result<Self, BenchError> {
        let file = room.path().join("server.conf");
        fs::write(&file, text).map_err(BenchError::io("writing the server's configuration"))?;
        Self::launch(binary, port, &["-c".into(), file.into_os_string()], Some(room))
    }

    /// Gives it another configuration file in the place of the one it was started with, and tells it so.
    pub(crate) fn reload(&self, text: &str) -> Result<(), BenchError> {
        let Some(room) = &self.room else {
            return Err(BenchError::Process("was started without a configuration".into()));
        };
        fs::write(room.path().join("server.conf"), text)
            .map_err(BenchError::io("writing the configuration"))?;
        signal(self.child.id(), Signal::HUP);
        Ok(())
    }

    fn launch(
        binary: &Path,
        port: u16,
        arguments: &[OsString],
        room: Option<Scratch>,
    ) -> Result<Self, BenchError> {
        let mut command = Command::new(binary);
        command.args(["-a", "127.0.0.1", "-p", &port.to_string()]).args(arguments);
        Self::run(Launch { command, port, room, is_ready: greets, patience: START_PATIENCE })
    }

    /// Starts a server of any kind and waits until it is ready.
    pub(crate) fn run(launch: Launch) -> Result<Self, BenchError> {
        let Launch { mut command, port, room, is_ready, patience } = launch;
        let log = std::env::temp_dir().join(format!("myelin-bench-{}-{port}.log", std::process::id()));
        let file = File::create(&log).map_err(BenchError::io("creating the server's log file"))?;
        let started = Instant::now();
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().map_err(|error| {
                let _ = fs::remove_file(&log);
                BenchError::Process(format!("cannot start {}: {error}", command.get_program().display()))
            })?;
        let address = Address::loopback(port);
        let mut server = Self { child, log, address, ready_after: Duration::ZERO, room };
        server.wait_until_ready(started, is_ready, patience)?;
        Ok(server)
    }

    fn wait_until_ready(
        &mut self,
        started: Instant,
        is_ready: fn(u16) -> bool,
        patience: Duration,
    ) -> Result<(), BenchError> {
        while started.elapsed() < patience {
            if is_ready(self.address.port) {
                self.ready_after = started.elapsed();
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(BenchError::Process(format!("ended with {status}: {}", self.log_tail())));
            }
            // One that takes seconds is not looked at thousands of times.
            std::thread::sleep((started.elapsed() / 100).max(Duration::from_micros(200)));
        }
        Err(BenchError::Process(format!("does not listen: {}", self.log_tail())))
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Time from the start of the process until a client was greeted.
    pub(crate) fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Where its CPU time and memory can be read: of the largest process, where a script has started the server.
    pub(crate) fn meter(&self) -> Meter {
        let resident = |pid: &u32| Meter { pid: *pid }.resident().unwrap_or(0);
        let pid = family(self.child.id()).into_iter().max_by_key(resident);
        Meter { pid: pid.unwrap_or(self.child.id()) }
    }
}

/// A process and all that descend from it, itself first.
fn family(first: u32) -> Vec<u32> {
    let stat = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(u32, u32)> = processes.filter_map(|entry| parent(&stat(entry)?)).collect();
    let mut members = vec![first];
    let mut looked_at = 0;
    while let Some(&member) = members.get(looked_at) {
        members.extend(parents.iter().filter(|(_, parent)| *parent == member).map(|(pid, _)| pid));
        looked_at += 1;
    }
    members
}

/// A process and its parent, from its `stat`.
fn parent(stat: &str) -> Option<(u32, u32)> {
    let pid = stat.split_once(' ')?.0.parse().ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some((pid, fields.split_ascii_whitespace().nth(1)?.parse().ok()?))
}

/// Whether a process is there and not only waiting for its parent to take notice of its end.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

impl Drop for Server {
    /// Asks politely, then insists; neither the child nor what it started outlives this.
    fn drop(&mut self) {
        let family = family(self.child.id());
        family.iter().for_each(|&pid| signal(pid, Signal::TERM));
        let asked = Instant::now();
        while asked.elapsed() < STOP_PATIENCE {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Numbers of processes that have ended meanwhile are not given away this soon.
        family[1..].iter().for_each(|&pid| signal(pid, Signal::KILL));
        // What they keep in their room cannot be removed while they still write.
        let asked = Instant::now();
        while family[1..].iter().any(|&pid| is_running(pid)) && asked.elapsed() < STOP_PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = fs::remove_file(&self.log);
    }
}

pub(crate) fn free_port() -> Result<u16, BenchError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(BenchError::io("looking for a free port"))?;
    Ok(listener.local_addr().map_err(BenchError::io("looking for a free port"))?.port())
}

fn greets(port: u16) -> bool {
    let mut first = [0; 5];
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    stream.set_read_timeout(Some(Duration::from_secs(2))).is_ok()
        && stream.read_exact(&mut first).is_ok()
        && &first == b"INFO "
}

/// Raises this process's limit of open files (which servers inherit) as far as it is allowed to,
/// and returns it.
pub(crate) fn raise_file_limit() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    limit.current.unwrap_or(u64::MAX)
}

/// Reads what the kernel knows about a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    pid: u32,
}

/// CPU time used so far, from two sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// The scheduler's sum over the living threads: exact to the last tick.
    pub(crate) scheduled: Duration,
    /// User and system time of the process: in steps of 10 ms, but with ended threads.
    pub(crate) accounted: Duration,
}

impl Meter {
    /// A meter for a process that we did not start.
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid }
    }

    pub(crate) fn cpu(self) -> Result<CpuTime, BenchError> {
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
    pub(crate) fn resident(self) -> Result<u64, BenchError> {
        resident_bytes(&self.read("status")?).ok_or_else(|| self.unreadable("status"))
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

impl CpuTime {
    /// The time used since an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            scheduled: self.scheduled.saturating_sub(earlier.scheduled),
            accounted: self.accounted.saturating_sub(earlier.accounted),
        }
    }

    /// Both times together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { scheduled: self.scheduled + other.scheduled, accounted: self.accounted + other.accounted }
    }

    /// Whether the two sources differ by more than a fifth; short times are not judged, because the
    /// second source counts in steps of 10 ms.
    pub(crate) fn is_doubtful(self) -> bool {
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

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        assert_eq!(scheduled_nanoseconds("123456789 42 7\n"), Some(123_456_789));
        assert_eq!(scheduled_nanoseconds(""), None);
        let stat = "1234 (a (bad) name) S 1 1234 1234 0 -1 4194304 500 0 0 0 150 50 0 0 20 0 8 0 100 1 2";
        assert_eq!(accounted_ticks(stat), Some(200));
        assert_eq!(accounted_ticks("1234 (x) S 1"), None);
        let status = "Name:\tx\nVmHWM:\t  9999 kB\nVmRSS:\t    1536 kB\nThreads:\t3\n";
        assert_eq!(resident_bytes(status), Some(1536 * 1024));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
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
    fn a_family_is_found_and_ends_with_its_first() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 1000 & wait"]);
        let is_ready = |_| true;
        let launch =
            Launch { command, port: free_port().unwrap(), room: None, is_ready, patience: START_PATIENCE };
        let server = Server::run(launch).unwrap();
        let first = server.child.id();
        let deadline = Instant::now() + Duration::from_secs(20);
        while family(first).len() < 2 {
            assert!(Instant::now() < deadline, "the shell has started nothing");
        }
        let members = family(first);
        drop(server);
        assert!(!is_running(members[1]), "{members:?}");
        assert_eq!(parent("12 (a (b) c) S 7 1"), Some((12, 7)));
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

    #[test]
    fn a_program_that_ends_at_once_is_reported() {
        let error = Server::start(Path::new("/bin/false")).unwrap_err();
        assert!(error.to_string().contains("ended with"), "{error}");
        let error = Server::start(Path::new("/no/such/program")).unwrap_err();
        assert!(error.to_string().contains("cannot start"), "{error}");
    }
}
