//! `--signal command[=target]`: sends a signal to a running server and ends.
//!
//! The target is a pid, a pid file, or the beginning of pids followed by `*`; without one it is the
//! only server that runs. What counts as a server is told in [`is_server`].

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::os_error::words;
use myelin_wire::error::Quoted;
use rustix::process::{Pid, Signal, kill_process};

/// Name of the program that a target without a pid looks for, as the kernel has it.
const PROGRAM: &str = "myelin-server";

/// Why no signal was sent, or not to every target. The texts are the reference's, with our name.
#[derive(Debug, PartialEq, Eq)]
pub enum DeliveryError {
    /// More than one `=`; holds what follows the second.
    Parameters(Vec<String>),
    /// The target is neither a number nor a readable file with one.
    Pid(String),
    /// The first word is none of the commands.
    Command(String),
    /// No server runs.
    None,
    /// Several servers run and no target was given.
    Several(Vec<i32>),
    /// The operating system refused; one line per process.
    Refused(Vec<String>),
}

impl fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameters(rest) => write!(f, "invalid signal parameters: [{}]", rest.join(" ")),
            Self::Pid(text) => write!(f, "invalid pid: {text}"),
            Self::Command(text) => write!(f, "unknown signal {}", Quoted(text.as_bytes())),
            Self::None => write!(f, "no {PROGRAM} processes running"),
            Self::Several(pids) => {
                write!(f, "multiple {PROGRAM} processes running:")?;
                pids.iter().try_for_each(|pid| write!(f, "\n{pid}"))
            }
            Self::Refused(lines) => lines.iter().try_for_each(|line| write!(f, "\n{line}")),
        }
    }
}

impl std::error::Error for DeliveryError {}

/// Carries out the value of `--signal`, e.g. `reload`, `stop=1234`, `ldm=/run/server.pid`,
/// `quit=12*`.
///
/// # Errors
/// Nothing is sent unless the command and its target make sense; with several targets every one is
/// tried.
pub fn deliver(order: &str) -> Result<(), DeliveryError> {
    let mut parts = order.split('=');
    let command = parts.next().unwrap_or_default();
    let target = parts.next().map(pid_file_or_text).unwrap_or_default();
    let rest: Vec<String> = parts.map(str::to_owned).collect();
    if !rest.is_empty() {
        return Err(DeliveryError::Parameters(rest));
    }
    let pids = choose(&SignalTarget::parse(&target)?, running)?;
    let signal = named(command).ok_or_else(|| DeliveryError::Command(command.to_owned()))?;
    send(command, signal, &pids)
}

/// The contents of the file of this name, if there is one, else the text itself.
fn pid_file_or_text(text: &str) -> String {
    fs::read_to_string(text).map_or_else(|_| text.to_owned(), |contents| contents.trim().to_owned())
}

#[derive(Debug, PartialEq, Eq)]
enum SignalTarget {
    /// The only server that runs.
    Only,
    One(i32),
    /// All servers whose pid begins with these digits; with none, all.
    Beginning(String),
}

impl SignalTarget {
    fn parse(text: &str) -> Result<Self, DeliveryError> {
        let bad = || DeliveryError::Pid(text.trim_end_matches('*').to_owned());
        match text.strip_suffix('*') {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Ok(Self::Beginning(digits.to_owned()))
            }
            Some(_) => Err(bad()),
            None if text.is_empty() => Ok(Self::Only),
            // Zero and negative numbers mean whole groups of processes to the kernel: never sent
            // to.
            None => text.parse().ok().filter(|pid| *pid > 0).map(Self::One).ok_or_else(bad),
        }
    }
}

fn choose(target: &SignalTarget, running: impl Fn() -> Vec<i32>) -> Result<Vec<i32>, DeliveryError> {
    match target {
        SignalTarget::One(pid) => Ok(vec![*pid]),
        SignalTarget::Only => match running() {
            pids if pids.is_empty() => Err(DeliveryError::None),
            pids if pids.len() > 1 => Err(DeliveryError::Several(pids)),
            pids => Ok(pids),
        },
        SignalTarget::Beginning(digits) => match running() {
            pids if pids.is_empty() => Err(DeliveryError::None),
            // Compat: it is no error that servers run but none begins like this.
            pids => Ok(pids.into_iter().filter(|pid| pid.to_string().starts_with(digits)).collect()),
        },
    }
}

/// The pids of all servers but this process, ascending.
fn running() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let mut pids: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != me && is_server(*pid))
        .collect();
    pids.sort_unstable();
    pids
}

/// Whether a process is a server of ours: it is called `myelin-server`, or it runs the very file
/// that this process runs, whatever link it was started by.
///
/// The reference takes whatever has `nats-server` in its name. A link of that name to this program
/// is found here too, but never a real nats-server that runs beside: `stop` kills, and nobody asked
/// it to kill that.
fn is_server(pid: i32) -> bool {
    let is_named =
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == PROGRAM);
    is_named || runs_this_file(pid)
}

fn runs_this_file(pid: i32) -> bool {
    let file = |process: &str| fs::metadata(format!("/proc/{process}/exe")).ok().map(|m| (m.dev(), m.ino()));
    file(&pid.to_string()).is_some_and(|theirs| Some(theirs) == file("self"))
}

fn named(command: &str) -> Option<Signal> {
    Some(match command {
        "stop" => Signal::KILL,
        "quit" => Signal::INT,
        "term" => Signal::TERM,
        "reopen" => Signal::USR1,
        "reload" => Signal::HUP,
        "ldm" => Signal::USR2,
        _ => return None,
    })
}

fn send(command: &str, signal: Signal, pids: &[i32]) -> Result<(), DeliveryError> {
    let refused: Vec<String> = pids
        .iter()
        .filter_map(|&pid| {
            let target = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
            let error = target.and_then(|target| kill_process(target, signal)).err()?;
            Some(format!("signal {command:?} {pid}: {}", words(&error.into())))
        })
        .collect();
    if refused.is_empty() { Ok(()) } else { Err(DeliveryError::Refused(refused)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn a_pid_gets_the_signal() {
        // SIGINT is not among them: a test run in the background ignores it, and so do its
        // children.
        for (command, number) in [("stop", 9), ("term", 15)] {
            let mut child = sleeper();
            deliver(&format!("{command}={}", child.id())).unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(number), "{command}");
        }
    }

    #[test]
    fn a_pid_file_names_the_target() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.pid");
        let mut child = sleeper();
        fs::write(&path, format!("{}\n", child.id())).unwrap();
        deliver(&format!("stop={}", path.display())).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_process_that_is_gone_is_reported() {
        let mut child = sleeper();
        child.kill().unwrap();
        child.wait().unwrap();
        let error = deliver(&format!("reload={}", child.id())).unwrap_err();
        assert_eq!(error.to_string(), format!("\nsignal \"reload\" {}: no such process", child.id()));
    }

    #[test]
    fn targets_are_numbers_or_beginnings() {
        assert_eq!(SignalTarget::parse(""), Ok(SignalTarget::Only));
        assert_eq!(SignalTarget::parse("12"), Ok(SignalTarget::One(12)));
        assert_eq!(SignalTarget::parse("12*"), Ok(SignalTarget::Beginning("12".to_owned())));
        assert_eq!(SignalTarget::parse("*"), Ok(SignalTarget::Beginning(String::new())));
        for text in ["x", "0", "-1", "1x", "99999999999"] {
            assert_eq!(SignalTarget::parse(text), Err(DeliveryError::Pid(text.to_owned())));
        }
        assert_eq!(SignalTarget::parse("x*").unwrap_err().to_string(), "invalid pid: x");
    }

    #[test]
    fn without_a_target_exactly_one_server_must_run() {
        assert_eq!(choose(&SignalTarget::Only, || vec![7]), Ok(vec![7]));
        assert_eq!(
            choose(&SignalTarget::Only, Vec::new).unwrap_err().to_string(),
            "no myelin-server processes running"
        );
        let several = choose(&SignalTarget::Only, || vec![7, 8]).unwrap_err();
        assert_eq!(several.to_string(), "multiple myelin-server processes running:\n7\n8");
    }

    #[test]
    fn a_beginning_picks_among_the_servers() {
        let pids = || vec![12, 120, 21];
        assert_eq!(choose(&SignalTarget::Beginning("12".to_owned()), pids), Ok(vec![12, 120]));
        assert_eq!(choose(&SignalTarget::Beginning(String::new()), pids), Ok(vec![12, 120, 21]));
        assert_eq!(choose(&SignalTarget::Beginning("9".to_owned()), pids), Ok(vec![]));
        assert_eq!(choose(&SignalTarget::Beginning("9".to_owned()), Vec::new), Err(DeliveryError::None));
    }

    #[test]
    fn nonsense_sends_nothing() {
        let mut child = sleeper();
        let pid = child.id();
        assert_eq!(deliver(&format!("dance={pid}")).unwrap_err().to_string(), "unknown signal \"dance\"");
        let error = deliver(&format!("stop={pid}=a=b")).unwrap_err();
        assert_eq!(error.to_string(), "invalid signal parameters: [a b]");
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn servers_are_found_by_their_name() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("myelin-server");
        let sleep =
            ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| fs::exists(path).unwrap()).unwrap();
        // A link, not a copy: a file that was just written may still be open in a process that
        // another test has begun.
        std::os::unix::fs::symlink(sleep, &program).unwrap();
        let mut child = Command::new(&program).arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        // The process has its name a moment after it was started.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let mut found = running();
        while !found.contains(&pid) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
            found = running();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&pid), "{pid} is not in {found:?}");
        assert!(!running().contains(&pid));
    }
}
