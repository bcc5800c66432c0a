//! The server process: started in a folder of its own, reloaded, ended for sure.
//!
//! Owns the child and the folder. The folder stays when the run has failed.

use crate::Error;
use crate::settings::{self, Ports, Variant};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a start or a stop may take.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// How often other ports are tried, when somebody else took one of them first.
const ATTEMPTS: u32 = 3;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    folder: TempDir,
    ports: Ports,
    is_myelin: bool,
}

impl Server {
    /// Starts `program` and waits until it is ready.
    pub(crate) fn start(program: &Path) -> Result<Self, Error> {
        let mut attempt = 1;
        loop {
            match Self::launch(program) {
                Err(why) if attempt < ATTEMPTS && is_taken(&why.to_string()) => attempt += 1,
                settled => return settled,
            }
        }
    }

    fn launch(program: &Path) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("myelin-soak-").tempdir()?;
        settings::write_certificates(folder.path())?;
        let is_myelin = is_myelin(program).map_err(|e| format!("cannot run {}: {e}", program.display()))?;
        let ports = Ports::free()?;
        fs::write(config_of(folder.path()), settings::text(ports, folder.path(), Variant::Plain))?;
        let log = File::create(log_of(folder.path()))?;
        let child = Command::new(program)
            // Of nats-server: little garbage, so that its memory says what it holds.
            .env("GOGC", "25")
            .arg("-c")
            .arg(config_of(folder.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let mut server = Self { child, folder, ports, is_myelin };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains("Server is ready") {
            if self.ended()?.is_some() || Instant::now() > deadline {
                return Err(format!("the server did not start:\n{}", self.log()).into());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_myelin(&self) -> bool {
        self.is_myelin
    }

    pub(crate) fn ports(&self) -> Ports {
        self.ports
    }

    /// Folder of the store, the configuration, the certificates and the log.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Everything logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read(log_of(self.folder.path()))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        Ok(self.child.try_wait()?)
    }

    /// Has it end in its own way, and waits for that.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus, Error> {
        // What has ended already needs no signal.
        if self.ended()?.is_none() {
            kill_process(Pid::from_child(&self.child), Signal::INT)?;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(format!("the server did not stop within {} s", PATIENCE.as_secs()).into());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Leaves the folder where it is.
    pub(crate) fn keep_folder(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Handle to ask a server for a reload while another holds it.
#[derive(Debug, Clone)]
pub(crate) struct Reloader {
    pid: Pid,
    folder: PathBuf,
    ports: Ports,
}

impl Reloader {
    /// A reloader of this server. Must not be used when the server has ended.
    pub(crate) fn of(server: &Server) -> Self {
        let pid = Pid::from_child(&server.child);
        Self { pid, folder: server.folder().to_owned(), ports: server.ports }
    }

    /// Writes this configuration and has the server read it. It answers at some time later.
    pub(crate) fn reload(&self, variant: Variant) -> Result<(), Error> {
        fs::write(config_of(&self.folder), settings::text(self.ports, &self.folder, variant))?;
        Ok(kill_process(self.pid, Signal::HUP)?)
    }
}

/// Whether the program says so of itself.
fn is_myelin(program: &Path) -> Result<bool, Error> {
    let said = Command::new(program).arg("-v").output()?;
    // Its first line is the reference's, so that tools which read that are content.
    Ok(String::from_utf8_lossy(&said.stdout).contains("myelin-server"))
}

fn config_of(folder: &Path) -> PathBuf {
    folder.join("server.conf")
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn is_taken(why: &str) -> bool {
    why.to_lowercase().contains("address already in use")
}
