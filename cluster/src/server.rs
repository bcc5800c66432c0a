//! A server process: its ports and names stay when it is started again.

use crate::wait::wait_for;
use crate::{Error, pages};
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Ports that this process has given away.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Bytes of a greeting, at most.
const LONGEST_INFO: u64 = 64 << 10;

/// Where everything of one server listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) clients: SocketAddr,
    pub(crate) routes: SocketAddr,
    pub(crate) leafs: SocketAddr,
    pub(crate) gateways: SocketAddr,
    pub(crate) monitor: SocketAddr,
}

impl Ports {
    /// Five that are free now, below those that the system gives to outgoing connections: a server
    /// that comes back must find its own free.
    pub(crate) fn free(rng: &mut Rng) -> Result<Self, Error> {
        let mut held = Vec::new();
        while held.len() < 5 {
            let port = 12_000 + rng.below(20_000) as u16;
            // Clusters of one process run side by side, and servers are down at times.
            let is_new = lock(&GIVEN).insert(port);
            if is_new && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                held.push(listener);
            }
        }
        let at = |n: usize| held[n].local_addr();
        Ok(Self { clients: at(0)?, routes: at(1)?, monitor: at(2)?, leafs: at(3)?, gateways: at(4)? })
    }
}

/// A server, which runs or not.
#[derive(Debug)]
pub(crate) struct Server {
    program: PathBuf,
    pub(crate) name: String,
    pub(crate) ports: Ports,
    config: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

impl Server {
    pub(crate) fn new(program: &Path, name: String, ports: Ports, folder: &Path) -> Self {
        let (config, log) = (folder.join(format!("{name}.conf")), folder.join(format!("{name}.log")));
        Self { program: program.to_owned(), name, ports, config, log, child: None }
    }

    /// Writes the configuration: name and ports for clients and monitoring, and this behind it.
    pub(crate) fn configure(&self, more: &str) -> Result<(), Error> {
        let Ports { clients, monitor, .. } = self.ports;
        let text = format!(
            "server_name: {}\nlisten: \"{clients}\"\nhttp: \"{monitor}\"\nlogtime: true\n{more}",
            self.name
        );
        Ok(fs::write(&self.config, text)?)
    }

    /// Changes the program that the next start runs.
    pub(crate) fn replace(&mut self, program: &Path) {
        program.clone_into(&mut self.program);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts the program and waits until it greets clients.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        let before = self.log().len();
        let has_routes = fs::read_to_string(&self.config)?.contains("\ncluster {");
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(&self.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", self.program.display()))?;
        self.child = Some(child);
        let ready = wait_for("a server that greets", || {
            let has_ended = self.has_crashed();
            // Other servers are let in after clients, or that port is not free and it ends.
            let is_ready = !has_ended
                && greets(self.ports.clients, &self.name)
                && (!has_routes
                    || self.log().get(before..).is_some_and(|log| log.contains("for route connections")));
            (has_ended || is_ready).then_some(is_ready)
        });
        match ready {
            Ok(true) => Ok(()),
            _ => {
                self.kill();
                let log = self.log();
                Err(format!("{} did not start:\n{}", self.name, log.get(before..).unwrap_or(&log)).into())
            }
        }
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends the process a signal, if it runs.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        if let Some(child) = &mut self.child
            && child.try_wait()?.is_none()
        {
            kill_process(Pid::from_child(child), signal)?;
        }
        Ok(())
    }

    /// Has the process end in its own way, and waits for that.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.signal(Signal::INT)?;
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let ended = wait_for("a server that stops", || child.try_wait().ok().flatten());
        if ended.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        ended.map(drop)
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_crashed(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }

    pub(crate) fn page(&self, path: &str) -> Result<Value, Error> {
        pages::page(self.ports.monitor, path)
    }

    /// Everything logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether it is the server of this name that listens: while one is down, any other program may
/// take its port.
fn greets(address: SocketAddr, name: &str) -> bool {
    let Ok(stream) = TcpStream::connect(address) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut info = String::new();
    let read = BufReader::new(stream.take(LONGEST_INFO)).read_line(&mut info);
    read.is_ok() && info.starts_with("INFO ") && info.contains(&format!("\"server_name\":\"{name}\""))
}
