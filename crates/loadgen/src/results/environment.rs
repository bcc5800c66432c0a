//! Where and when a run was made: what a reader needs to know before comparing it with another.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};

/// Circumstances of a run: time, machine, load, command line and version of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// RFC 3339, UTC.
    pub date: String,
    /// The processor's name.
    pub machine: String,
    /// Processors that the machine has.
    pub cores: usize,
    /// The kernel with its version.
    pub kernel: String,
    /// `/proc/loadavg` before the run.
    pub load_before: String,
    /// The command line, without secrets.
    pub command: String,
    /// The driver's own version.
    pub driver: String,
    /// Whatever else matters, with its name: rounds, the null run, how a server was set up.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
}

impl Environment {
    /// The environment of this process, now.
    pub fn now() -> Self {
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
            command: told(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())),
            driver: format!("myelin {}", env!("CARGO_PKG_VERSION")),
            notes: BTreeMap::new(),
        }
    }

    /// Adds a line, or replaces the one of this name.
    pub fn note(&mut self, name: &str, text: impl Into<String>) {
        self.notes.insert(name.to_owned(), text.into());
    }
}

/// Flags whose values may be secrets, also where they should be names of files: people mix them up.
const SECRET: [&str; 8] =
    ["--password", "--token", "--jwt", "--seed", "--user", "--creds", "--nkey", "--socks-proxy"];

/// Replacement for text that is left out.
const HIDDEN: &str = "…";

/// A command line as it may be shown to anybody: without users and secrets.
fn told(arguments: impl Iterator<Item = String>) -> String {
    let mut is_value_secret = false;
    let shown = arguments.map(|argument| {
        let is_secret = std::mem::replace(&mut is_value_secret, SECRET.contains(&argument.as_str()));
        if is_secret { HIDDEN.to_owned() } else { without_secret(&argument) }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// One argument without the value of a secret flag, and without what stands in front of its last
/// `@`. That can be more than the user of a URL: a password may have commas in it, which also
/// separate servers.
fn without_secret(argument: &str) -> String {
    let (flag, value) = match argument.find('=') {
        Some(equals) if argument.starts_with("--") => argument.split_at(equals + 1),
        _ if argument.starts_with("-s") => argument.split_at("-s".len()),
        _ => ("", argument),
    };
    if SECRET.contains(&flag.trim_end_matches('=')) {
        return format!("{flag}{HIDDEN}");
    }
    let Some((user, host)) = value.rsplit_once('@') else {
        return argument.to_owned();
    };
    let scheme = ["nats://", "tls://"].into_iter().find(|scheme| user.starts_with(scheme));
    format!("{flag}{}{HIDDEN}@{host}", scheme.unwrap_or_default())
}

/// Output of `program --version`, on one line.
pub fn program_version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().map(str::trim).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &[&str]) -> String {
        told(line.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn a_command_line_is_told_without_secrets() {
        for flag in SECRET {
            assert_eq!(shown(&["x", flag, "sEcret", "y"]), format!("x {flag} … y"));
            assert_eq!(shown(&["x", &format!("{flag}=sEcret=@"), "y"]), format!("x {flag}=… y"));
        }
        for (argument, expected) in [
            ("nats://sEcret:sEcret@h:1", "nats://…@h:1"),
            ("tls://sEcret@h", "tls://…@h"),
            ("sEcret:sEcret@h", "…@h"),
            ("sEcret:sEcret=@h", "…@h"),
            ("--server=nats://u:sEcret=://,@sEcret@h", "--server=nats://…@h"),
            ("nats://u:sEcret,sEcret@h,nats://u:sEcret@i", "nats://…@i"),
            ("-su:sEcret@h", "-s…@h"),
            ("-snats://u:sEcret@h", "-snats://…@h"),
        ] {
            assert_eq!(shown(&[argument]), expected);
        }
        let harmless = "myelin bench latency -s nats://h:1 --rates 50,3000 --user-story --json=a.json";
        assert_eq!(shown(&harmless.split(' ').collect::<Vec<_>>()), harmless);
    }
}
