//! A server that was started out of a package.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Flags that leave the ports to the system and have them written into a folder.
pub(crate) fn any_ports(folder: &str) -> [String; 5] {
    ["-p=-1", "-m=-1", "--ports_file_dir", folder, "-T=false"].map(str::to_owned)
}

/// A server that ends with the test.
pub(crate) struct Running {
    child: Child,
    /// Addresses of clients and of monitoring, `HOST:PORT`.
    pub(crate) client: String,
    pub(crate) monitoring: String,
}

impl Running {
    /// Starts the server, which writes its ports into this folder.
    pub(crate) fn start(command: &mut Command, ports: &Path) -> Self {
        let mut child = command.spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(ports) = read(ports) {
                let address = |kind: &str| {
                    let url = ports[kind][0].as_str().unwrap_or_default();
                    url.rsplit('/').next().unwrap_or_default().to_owned()
                };
                let (client, monitoring) = (address("nats"), address("monitoring"));
                return Self { child, client, monitoring };
            }
            if let Some(status) = child.try_wait().unwrap() {
                panic!("{command:?} ended: {status}");
            }
            assert!(Instant::now() < until, "no ports from {command:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends the signal that orchestrators end a server with, and waits for the end.
    pub(crate) fn terminated(mut self) -> ExitStatus {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports that a server has written down, once that is whole.
fn read(folder: &Path) -> Option<Value> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let path = { files }.find(|path| path.extension().is_some_and(|end| end == "ports"))?;
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The standard output of a command that has to succeed.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout
}
