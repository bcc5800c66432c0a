//! A server process for one conversation: started on a free port, watched through its log, ended
//! for sure.
//!
//! Owns the child, its temporary files and its log. Never speaks the protocol.

use crate::expect;
use crate::implementation::Implementation;
use crate::transcript::Setup;
use myelin_stdx::sync::lock;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take that a server is expected to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    folder: PathBuf,
}

impl Server {
    /// Starts a server as `setup` asks and waits until it says that it is ready.
    ///
    /// # Errors
    /// What prevented it, with what the server had to say.
    pub(crate) fn start(implementation: &Implementation, setup: &Setup) -> Result<Self, String> {
        let folder = scratch_folder().map_err(|e| format!("no scratch folder: {e}"))?;
        match Process::ready(implementation, setup, &folder) {
            Ok(process) => Ok(Self { process, folder }),
            Err(reason) => {
                // What cannot be removed is in nobody's way.
                let _ = fs::remove_dir_all(&folder);
                Err(reason)
            }
        }
    }

    /// Ends the process with the signal called `name` and starts another one over the same folder.
    /// It gets another port, since somebody else may have taken the old one.
    ///
    /// # Errors
    /// When it does not end, or what prevented the start.
    pub(crate) fn restart(
        &mut self,
        name: &str,
        implementation: &Implementation,
        setup: &Setup,
    ) -> Result<(), String> {
        self.signal(name)?;
        self.wait_for_end()?;
        self.process = Process::ready(implementation, setup, &self.folder)?;
        Ok(())
    }

    /// Has the server read `config` in place of its own, and waits until it says what came of that.
    ///
    /// # Errors
    /// When the file cannot be written, or nothing is said.
    pub(crate) fn reload(&self, config: &str) -> Result<(), String> {
        let file = self.folder.join("server.conf");
        fs::write(&file, config).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        let said = self.process.log.lock().lines.len();
        self.signal("HUP")?;
        self.process.log.wait_for_one(
            said,
            &[b"*Reloaded server configuration*", b"*Failed to reload server configuration*"],
        )
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.process.address
    }

    /// Where clients ask for a WebSocket, as the log says.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) fn websocket_address(&self) -> Result<SocketAddr, String> {
        self.said("Listening for websocket clients on ws://")
    }

    /// Where other servers connect, as the log says.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) fn route_address(&self) -> Result<SocketAddr, String> {
        self.said("Listening for route connections on ")
    }

    /// Where the server listens for other clusters: its log says.
    ///
    /// # Errors
    /// When it does not say so.
    pub(crate) fn gateway_address(&self) -> Result<SocketAddr, String> {
        self.said("Listening for gateways connections on ")
    }

    /// Where the server listens for leaf nodes: its log says.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) fn leaf_address(&self) -> Result<SocketAddr, String> {
        self.said("Listening for leafnode connections on ")
    }

    /// The address at the end of the last line that has these words before it.
    fn said(&self, words: &str) -> Result<SocketAddr, String> {
        self.process.log.wait_for(format!("*{words}*").as_bytes())?;
        let state = self.process.log.lock();
        let address = state.lines.iter().rev().find_map(|line| line.split_once(words)?.1.parse().ok());
        address.ok_or_else(|| format!("no address behind {words:?}"))
    }

    /// Sends the signal called `name`, without `SIG`.
    ///
    /// # Errors
    /// When `kill` knows no such signal or the process is gone.
    pub(crate) fn signal(&self, name: &str) -> Result<(), String> {
        let id = self.process.child.id().to_string();
        let status = Command::new("kill").args([format!("-{name}"), id]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("kill -{name}: {status}")),
            Err(e) => Err(format!("kill: {e}")),
        }
    }

    /// Waits until the process has ended.
    ///
    /// # Errors
    /// When it is still running after [`PATIENCE`].
    pub(crate) fn wait_for_end(&mut self) -> Result<ExitStatus, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.process.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                Ok(None) => return Err("the server is still running".into()),
                Err(e) => return Err(format!("cannot wait for the server: {e}")),
            }
        }
    }

    /// Waits until a line of the log fits `pattern`.
    ///
    /// # Errors
    /// When none does within [`PATIENCE`], or the log ends without it.
    pub(crate) fn wait_for_log(&self, pattern: &[u8]) -> Result<(), String> {
        self.process.log.wait_for(pattern)
    }

    /// The last lines of the log, for a failure to show.
    pub(crate) fn log_tail(&self) -> String {
        let state = self.process.log.lock();
        let from = state.lines.len().saturating_sub(6);
        state.lines[from..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.end();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// One life of a server.
#[derive(Debug)]
struct Process {
    child: Child,
    address: SocketAddr,
    log: Arc<Log>,
}

impl Process {
    /// Starts one that is ready. A free port may be taken by somebody else before the server has
    /// it: then it is tried again with another one.
    fn ready(implementation: &Implementation, setup: &Setup, folder: &Path) -> Result<Self, String> {
        let mut left = 3;
        loop {
            let process = Self::launch(implementation, setup, folder)?;
            left -= 1;
            match process.log.wait_for(b"*Server is ready*") {
                Ok(()) => return Ok(process),
                Err(reason) if left > 0 && reason.to_lowercase().contains("address already in use") => {}
                Err(reason) => return Err(reason),
            }
        }
    }

    /// Starts the process on a free port, with its configuration and its store in `folder`.
    fn launch(implementation: &Implementation, setup: &Setup, folder: &Path) -> Result<Self, String> {
        let port = free_port().map_err(|e| format!("no free port: {e}"))?;
        let program = std::path::absolute(&implementation.program)
            .map_err(|e| format!("no way to {}: {e}", implementation.program.display()))?;
        let mut command = Command::new(program);
        // Relative paths of a configuration are in there.
        command.current_dir(folder);
        command.args(["-a", "127.0.0.1", "-p", &port.to_string()]).args(&setup.flags);
        if setup.jetstream {
            command.args(["-js", "-sd"]).arg(folder.join("store"));
        }
        if let Some(config) = &setup.config {
            let file = folder.join("server.conf");
            fs::write(&file, config).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
            command.arg("-c").arg(file);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", implementation.program.display()))?;
        let log = Log::follow(child.stderr.take().expect("stderr was piped"));
        Ok(Self { child, address: (Ipv4Addr::LOCALHOST, port).into(), log })
    }

    /// Makes sure that it has ended.
    fn end(&mut self) {
        // It may be gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Log of a server so far; a thread of its own reads it, so that the pipe never fills.
#[derive(Debug, Default)]
struct Log {
    state: Mutex<LogState>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct LogState {
    lines: Vec<String>,
    ended: bool,
}

impl Log {
    fn follow(pipe: ChildStderr) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let writer = Arc::clone(&log);
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                writer.lock().lines.push(line);
                writer.grown.notify_all();
            }
            writer.lock().ended = true;
            writer.grown.notify_all();
        });
        log
    }

    /// Waits until a line fits `pattern`; an error when none does within [`PATIENCE`], or the log
    /// ends.
    fn wait_for(&self, pattern: &[u8]) -> Result<(), String> {
        self.wait_for_one(0, &[pattern])
    }

    /// Waits until a line from number `first` on fits one of `patterns`; an error when none does
    /// within [`PATIENCE`], or the log ends.
    fn wait_for_one(&self, first: usize, patterns: &[&[u8]]) -> Result<(), String> {
        let fits = |line: &String| patterns.iter().any(|pattern| expect::glob(pattern, line.as_bytes()));
        let mut state = self.lock();
        let deadline = Instant::now() + PATIENCE;
        while !state.lines.iter().skip(first).any(fits) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.ended {
                let pattern = String::from_utf8_lossy(patterns[0]);
                return Err(format!("no line like {pattern:?} in the log:\n{}", state.lines.join("\n")));
            }
            state = self.grown.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LogState> {
        lock(&self.state)
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn scratch_folder() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("myelin-compat-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
