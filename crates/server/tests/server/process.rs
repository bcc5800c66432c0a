//! A server process for one test: started on a free port, watched through its log, ended for sure.

use crate::{PATIENCE, eventually};
use myelin_stdx::sync::lock;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_myelin-server");

/// How to start a server.
#[derive(Debug, Default, Clone)]
pub(crate) struct Setup {
    /// Instead of ours.
    program: Option<PathBuf>,
    config: Option<String>,
    flags: Vec<String>,
    open_files: Option<u32>,
    port: Option<u16>,
    /// No plain monitoring: the configuration asks for HTTPS.
    is_secure: bool,
    /// Where it runs.
    folder: Option<PathBuf>,
    /// Its folder for what may go.
    temporary: Option<PathBuf>,
    /// File of the system's authorities.
    authorities: Option<PathBuf>,
    /// Where files say which of its parts are to panic.
    panics: Option<PathBuf>,
    /// Socket of a service manager, which wants to hear that it lives.
    manager: Option<PathBuf>,
}

impl Setup {
    /// Runs this program instead of ours: the reference, to compare with.
    pub(crate) fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Leaves monitoring to the configuration.
    pub(crate) fn secure(mut self) -> Self {
        self.is_secure = true;
        self
    }

    /// Runs it there: relative names mean files in it.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Gives it this folder for what may go.
    pub(crate) fn temporary(mut self, folder: &Path) -> Self {
        self.temporary = Some(folder.to_owned());
        self
    }

    /// Has it take the authorities in this file for those of the system.
    pub(crate) fn authorities(mut self, file: &Path) -> Self {
        self.authorities = Some(file.to_owned());
        self
    }

    /// Has a part of it panic when a file of the part's name is put there. Only builds with debug
    /// assertions do.
    #[cfg(debug_assertions)]
    pub(crate) fn panics(mut self, folder: &Path) -> Self {
        self.panics = Some(folder.to_owned());
        self
    }

    /// Runs it for the service manager behind this socket, which believes it dead if it is silent
    /// for 300 ms.
    pub(crate) fn managed(mut self, socket: &Path) -> Self {
        self.manager = Some(socket.to_owned());
        self
    }

    pub(crate) fn config(mut self, text: &str) -> Self {
        self.config = Some(text.to_owned());
        self
    }

    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self
    }

    /// Limits the process to so many file descriptors.
    pub(crate) fn open_files(mut self, limit: u32) -> Self {
        self.open_files = Some(limit);
        self
    }

    /// Starts the program and waits until it is ready. Without a port of its own it gets a random
    /// one.
    pub(crate) fn start(self) -> Server {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut child = self.command(folder.path()).spawn().expect("the program starts");
        let log = Log::follow(child.stderr.take().expect("stderr was piped"));
        let server = Server { child, log, folder, address: None, setup: self };
        server.ready()
    }

    fn command(&self, folder: &Path) -> Command {
        let program = self.program.as_deref().unwrap_or(Path::new(PROGRAM));
        let mut command = match self.open_files {
            None => Command::new(program),
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]).arg(program);
                shell
            }
        };
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some(folder) = &self.temporary {
            command.env("TMPDIR", folder);
        }
        if let Some(file) = &self.authorities {
            command.env("SSL_CERT_FILE", file);
        }
        if let Some(folder) = &self.panics {
            command.env("MYELIN_TEST_PANIC", folder);
        }
        if let Some(socket) = &self.manager {
            command.env("NOTIFY_SOCKET", socket).env("WATCHDOG_USEC", "300000");
        }
        let port = self.port.map_or_else(|| "-1".to_owned(), |port| port.to_string());
        command.args(["-a", "127.0.0.1", "-p", &port]).args(&self.flags);
        if !self.is_secure {
            command.args(["-m", "-1"]);
        }
        if let Some(text) = &self.config {
            let path = folder.join("server.conf");
            fs::write(&path, text).expect("the folder takes files");
            command.arg("-c").arg(path);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    log: Arc<Log>,
    /// Holds the configuration as long as the server lives.
    folder: TempDir,
    address: Option<SocketAddr>,
    setup: Setup,
}

impl Server {
    /// One without a configuration file.
    pub(crate) fn start() -> Self {
        Setup::default().start()
    }

    /// One with this configuration file.
    pub(crate) fn with_config(text: &str) -> Self {
        Setup::default().config(text).start()
    }

    fn ready(mut self) -> Self {
        self.wait_for_log("Server is ready");
        self.address = Some(self.announced("Listening for client connections on "));
        self
    }

    /// The address at the end of the log line that contains `prefix`.
    fn announced(&self, prefix: &str) -> SocketAddr {
        let line = self.wait_for_log(prefix);
        let (_, address) = line.split_once(prefix).expect("the line was found by it");
        address.parse().expect("an address ends the line")
    }

    /// Where monitoring is, by the line that says so.
    pub(crate) fn monitor(&self, prefix: &str) -> SocketAddr {
        self.announced(prefix)
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("known since the start")
    }

    /// Where clients connect, as official clients take it.
    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the process is there");
    }

    /// Whether the process has not ended.
    #[cfg(debug_assertions)]
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_none()
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return status;
            }
            assert!(Instant::now() < deadline, "still running:\n{}", self.log.text());
            thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Kills it and starts it again on the same port.
    pub(crate) fn restart(&mut self) {
        let port = self.address().port();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let setup = Setup { port: Some(port), ..self.setup.clone() };
        *self = setup.start();
    }

    /// The first line of the log that contains `text`, once there is one.
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.log.lock().ended;
            if let Some(line) = self.log.lock().lines.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            let over = ended || Instant::now() > deadline;
            assert!(!over, "no line with {text:?} in the log:\n{}", self.log.text());
            thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Writes another configuration file in the place of the first, and waits until the server has
    /// taken it over, or said that it cannot. Answers the lines that it logged about it.
    pub(crate) fn reload(&self, text: &str) -> Vec<String> {
        fs::write(self.config_file(), text).expect("the folder takes files");
        let before = self.log.lock().lines.len();
        self.signal(Signal::HUP);
        let mut lines = Vec::new();
        eventually("an answer to SIGHUP", || {
            lines = self.log.lock().lines[before..].to_vec();
            lines.iter().any(|line| {
                line.contains("Reloaded server configuration") || line.contains("Failed to reload")
            })
        });
        lines
    }

    /// The configuration file.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.folder.path().join("server.conf")
    }

    /// Waits for a line with `text` behind the first `from` lines.
    pub(crate) fn wait_for_log_after(&self, from: usize, text: &str) {
        eventually(&format!("a line with {text:?} behind line {from} of the log"), || {
            self.log.lock().lines.iter().skip(from).any(|line| line.contains(text))
        });
    }

    /// How many lines are logged so far.
    pub(crate) fn log_len(&self) -> usize {
        self.log.lock().lines.len()
    }

    /// Everything logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// A monitoring page.
    pub(crate) fn page(&self, path: &str) -> serde_json::Value {
        let (_, body) = self.exchange(path);
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}: {body}"))
    }

    /// The head and the body of what monitoring answers.
    pub(crate) fn exchange(&self, path: &str) -> (String, String) {
        let address = self.announced("Starting http monitor on ");
        let mut stream = TcpStream::connect(address).expect("the monitor listens");
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("the monitor reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the monitor answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.to_owned(), body.to_owned())
    }

    /// Waits until a connection has ended for this reason, as `/connz` says it.
    pub(crate) fn wait_for_close(&self, reason: &str) {
        eventually(&format!("a connection closed with {reason:?}"), || {
            let page = self.page("/connz?state=closed");
            let closed = page["connections"].as_array().cloned().unwrap_or_default();
            closed.iter().any(|conn| conn["reason"] == reason)
        });
    }

    /// Open client connections.
    pub(crate) fn connections(&self) -> u64 {
        self.page("/varz")["connections"].as_u64().expect("a number")
    }

    /// Descriptors that the process holds.
    pub(crate) fn descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.pid());
        fs::read_dir(path).expect("the process runs").count()
    }

    /// Resident memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let path = PathBuf::from(format!("/proc/{}/status", self.pid()));
        let status = fs::read_to_string(path).expect("the process runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux says it");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
        kib * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let text = self.log.text();
            let lines: Vec<_> = text.lines().collect();
            eprintln!("the server's log ends with:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"));
        }
    }
}

/// Lines that a server has written so far; a thread of its own reads them, so that the pipe never
/// fills.
#[derive(Debug, Default)]
struct Log(Mutex<LogState>);

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
            }
            writer.lock().ended = true;
        });
        log
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        lock(&self.0)
    }

    fn text(&self) -> String {
        self.lock().lines.join("\n")
    }
}
