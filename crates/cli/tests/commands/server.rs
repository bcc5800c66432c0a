//! Servers on free ports that end with the test: ours, and the reference where it is installed.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::PATIENCE;

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    directory: TempDir,
}

/// The programs that were found, with a line that says which were not.
pub(crate) fn programs() -> Vec<PathBuf> {
    let found: Vec<PathBuf> = [ours(), reference()].into_iter().flatten().collect();
    if found.is_empty() {
        eprintln!("skipped: neither nats-server nor target/*/myelin-server was found");
    }
    found
}

/// Our server, if it was built beside the tests.
fn ours() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_myelin")).ancestors().nth(2)?;
    let places = ["debug", "quick", "release"].map(|profile| target.join(profile).join("myelin-server"));
    let found = places.into_iter().find(|program| program.is_file());
    let found = found.or_else(|| std::env::var_os("MYELIN_SERVER").map(PathBuf::from));
    if found.is_none() {
        eprintln!("not run against our server: target/*/myelin-server was not found");
    }
    found
}

pub(crate) fn reference() -> Option<PathBuf> {
    let found = installed("nats-server");
    if found.is_none() {
        eprintln!("not run against the reference: nats-server was not found");
    }
    found
}

/// A program on the path, or where Go puts what it installs.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).map(|dir| dir.join(name)).collect();
    places.push(home.join("go/bin").join(name));
    places.into_iter().find(|program| program.is_file())
}

impl Server {
    /// With JetStream, in a directory that goes with it.
    pub(crate) fn start(program: &Path) -> Self {
        Self::configured(program, tempfile::tempdir().unwrap(), "", false)
    }

    /// With this in its configuration, in this directory. Behind TLS no server greets in clear.
    pub(crate) fn configured(program: &Path, directory: TempDir, text: &str, is_tls_first: bool) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = directory.path().join("server.conf");
        let store = directory.path().join("store");
        let listen = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {:?} }}\n",
            store.display().to_string()
        );
        fs::write(&file, listen + text).unwrap();
        let mut command = Command::new(program);
        let child = command.arg("-c").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { child, port, directory };
        let deadline = Instant::now() + PATIENCE;
        while !server.listens(is_tls_first) {
            assert!(server.child.try_wait().unwrap().is_none(), "the server has ended: {text}");
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
        format!("nats://127.0.0.1:{}", self.port)
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
