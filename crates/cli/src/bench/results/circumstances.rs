//! Where and when a run was made: what a reader needs to know before comparing it with another.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Circumstances {
    /// RFC 3339, UTC.
    pub(crate) date: String,
    /// The processor's name.
    pub(crate) machine: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// `/proc/loadavg` before the run.
    pub(crate) load_before: String,
    /// The command line.
    pub(crate) command: String,
    /// The driver's own version.
    pub(crate) driver: String,
    /// Whatever else matters, with its name: rounds, the null run, how a server was set up.
    #[serde(default)]
    pub(crate) notes: BTreeMap<String, String>,
}

impl Circumstances {
    /// This machine, now.
    pub(crate) fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
        let now = Timestamp::now();
        Self {
            date: now.round(Unit::Second).unwrap_or(now).to_string(),
            machine: model.trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            load_before: read("/proc/loadavg"),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            driver: format!("myelin {}", env!("CARGO_PKG_VERSION")),
            notes: BTreeMap::new(),
        }
    }

    pub(crate) fn note(&mut self, name: &str, text: impl Into<String>) {
        self.notes.insert(name.to_owned(), text.into());
    }
}

/// What a program says to `--version`, on one line.
#[allow(dead_code, reason = "the comparison of programs asks them")]
pub(crate) fn program_version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().map(str::trim).collect::<Vec<_>>().join(", ")
}
