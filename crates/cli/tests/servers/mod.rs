//! The programs that tests of `myelin` and `myelin-lab` run, and servers on free ports that end
//! with the test.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a test waits for a server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A program on the path, or where Go puts what it installs.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).map(|dir| dir.join(name)).collect();
    places.push(home.join("go/bin").join(name));
    places.into_iter().find(|program| program.is_file())
}

/// `None`, with a line that says so, where the reference cannot be found.
pub(crate) fn reference() -> Option<PathBuf> {
    let found = installed("nats-server");
    if found.is_none() {
        eprintln!("not run against the reference: nats-server was not found");
    }
    found
}

/// A program of ours where cargo puts it: beside the folder in which the test is.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join(name)
}

/// Our server as it was last built beside the program under test. Who tests the whole workspace has
/// it built anew.
pub(crate) fn beside() -> Option<PathBuf> {
    let program = program("myelin-server");
    if !program.is_file() {
        eprintln!("without ours: {} was not built", program.display());
    }
    Some(program).filter(|program| program.is_file())
}

/// Our server in any profile, the first of these that was built.
pub(crate) fn built(profiles: [&str; 3]) -> Option<PathBuf> {
    let program = program("myelin-server");
    let target = program.ancestors().nth(2)?;
    let places = profiles.map(|profile| target.join(profile).join("myelin-server"));
    places.into_iter().find(|program| program.is_file())
}

/// The reference where it is installed, else ours. `None`, with a line that says so, where there is
/// neither.
pub(crate) fn any() -> Option<PathBuf> {
    let found = installed("nats-server").or_else(|| built(["release", "quick", "debug"]));
    if found.is_none() {
        eprintln!("skipped: neither nats-server nor target/*/myelin-server was found");
    }
    found
}

/// A running server with a directory that goes with it.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
    directory: TempDir,
}

impl Server {
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Self {
        let (mut command, port) = listening(program);
        command.args(arguments);
        Self::run(command, port, tempfile::tempdir().unwrap(), false)
    }

    pub(crate) fn with_streams(program: &Path, arguments: &[&str]) -> Self {
        let (mut command, port) = listening(program);
        let directory = tempfile::tempdir().unwrap();
        command.args(["-js", "-sd"]).arg(directory.path()).args(arguments);
        Self::run(command, port, directory, false)
    }

    /// Waits until it greets, or behind TLS, where no server greets in clear, until it listens.
    pub(crate) fn run(mut command: Command, port: u16, directory: TempDir, is_tls_first: bool) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { child, port, directory };
        let deadline = Instant::now() + PATIENCE;
        while !server.listens(is_tls_first) {
            assert!(server.child.try_wait().unwrap().is_none(), "the server has ended: {command:?}");
            assert!(Instant::now() < deadline, "the server does not listen");
            std::thread::yield_now();
        }
        server
    }

    fn listens(&self, is_tls_first: bool) -> bool {
        let mut first = [0; 5];
        let Ok(mut socket) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        is_tls_first || socket.read_exact(&mut first).is_ok_and(|()| &first == b"INFO ")
    }

    pub(crate) fn url(&self) -> String {
        self.url_of("")
    }

    pub(crate) fn url_of(&self, user_info: &str) -> String {
        format!("nats://{user_info}127.0.0.1:{}", self.port)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A command that starts a program on a free port.
pub(crate) fn listening(program: &Path) -> (Command, u16) {
    let port = free_port();
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &port.to_string()]);
    (command, port)
}

/// `myelin bench` with these arguments.
pub(crate) fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(program("myelin"));
    command.arg("bench").args(arguments);
    command
}

/// A server with JetStream and this in its configuration, in this directory.
pub(crate) fn configured(program: &Path, directory: TempDir, text: &str, is_tls_first: bool) -> Server {
    let port = free_port();
    let file = directory.path().join("server.conf");
    let store = directory.path().join("store");
    // A text may say more about the streams.
    let streams = if text.contains("jetstream") { "" } else { "jetstream: enabled\n" };
    let listen =
        format!("listen: \"127.0.0.1:{port}\"\nstore_dir: {:?}\n{streams}", store.display().to_string());
    std::fs::write(&file, listen + text).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(&file);
    Server::run(command, port, directory, is_tls_first)
}
