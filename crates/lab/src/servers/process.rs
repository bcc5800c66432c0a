//! Server processes: starting one on a free loopback port, and ending it.
//!
//! Owns the child, those that it started (some servers are shell scripts), and its log file. Never
//! talks to a server beyond waiting for its first bytes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use myelin_loadgen::connection::address::Address;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::meter::Meter;
use rustix::process::{Pid, Signal};

use crate::servers::scratch::Scratch;

const START_PATIENCE: Duration = Duration::from_secs(10);
const STOP_PATIENCE: Duration = Duration::from_secs(10);

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
    /// Whether the process that listens on the port is ready to serve.
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

    /// Starts the server with JetStream, its store in a directory of its own, on a free port, and
    /// waits until it greets a client.
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

    /// Starts the server with this configuration file, in a directory of its own.
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

    /// Gives it another configuration file in the place of the one it was started with, and tells
    /// it so.
    pub(crate) fn reload(&self, text: &str) -> Result<(), BenchError> {
        let Some(room) = &self.room else {
            return Err(BenchError::Process("was started without a configuration".into()));
        };
        fs::write(room.path().join("server.conf"), text)
            .map_err(BenchError::io("writing the configuration"))?;
        signal(self.child.id(), Signal::HUP);
        Ok(())
    }

    /// Starts the server with JetStream, in a directory that another server has left.
    pub(crate) fn in_room(binary: &Path, room: Scratch, patience: Duration) -> Result<Self, BenchError> {
        let port = free_port()?;
        let mut command = Command::new(binary);
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]);
        command.arg(room.path().join("streams"));
        Self::run(Launch { command, port, room: Some(room), is_ready: greets, patience })
    }

    /// Ends it with a signal, and gives what it has left.
    pub(crate) fn stop(mut self, with: Signal) -> Result<Scratch, BenchError> {
        signal(self.child.id(), with);
        self.child.wait().map_err(BenchError::io("waiting for the end of a server"))?;
        self.room.take().ok_or_else(|| BenchError::Process("was started without a directory".into()))
    }

    /// Where it keeps its streams.
    pub(crate) fn directory(&self) -> Result<PathBuf, BenchError> {
        let room = self.room.as_ref();
        let room = room.ok_or_else(|| BenchError::Process("was started without a directory".into()))?;
        Ok(room.path().join("streams"))
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

    /// Where its CPU time and memory can be read: of the largest process, where a script has
    /// started the server.
    pub(crate) fn meter(&self) -> Meter {
        let resident = |pid: &u32| Meter::of(*pid).resident().unwrap_or(0);
        let pid = family(self.child.id()).into_iter().max_by_key(resident);
        Meter::of(pid.unwrap_or(self.child.id()))
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_program_that_ends_at_once_is_reported() {
        let error = Server::start(Path::new("/bin/false")).unwrap_err();
        assert!(error.to_string().contains("ended with"), "{error}");
        let error = Server::start(Path::new("/no/such/program")).unwrap_err();
        assert!(error.to_string().contains("cannot start"), "{error}");
    }
}
