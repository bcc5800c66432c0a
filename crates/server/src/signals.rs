//! Signals of the operating system: those sent to this server, and those that `--signal` sends to
//! another.
//!
//! What a signal does is decided elsewhere; this room only says which one came.

mod delivery;

use std::fmt;
use std::io;

use tokio::signal::unix::{self, SignalKind};

pub use delivery::deliver;

/// Request that a signal makes of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End. SIGTERM is to be ignored in lame duck mode, SIGINT is not.
    Shutdown(Stop),
    /// Open the log file again (SIGUSR1).
    Reopen,
    /// Let clients leave, then end (SIGUSR2).
    LameDuck,
    /// Read the configuration again (SIGHUP).
    Reload,
}

/// Which of the two signals that end a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl fmt::Display for Signal {
    /// The reference's word for the signal, as in its line `Trapped "interrupt" signal`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shutdown(Stop::Interrupt) => "interrupt",
            Self::Shutdown(Stop::Terminate) => "terminated",
            Self::Reopen => "user defined signal 1",
            Self::LameDuck => "user defined signal 2",
            Self::Reload => "hangup",
        })
    }
}

/// The signals sent to this process, as they come.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    user1: unix::Signal,
    user2: unix::Signal,
    hangup: unix::Signal,
}

impl Signals {
    /// Takes the five signals over for the rest of the process's life; call it inside a tokio
    /// runtime, as early as possible: before, they end the process.
    ///
    /// # Errors
    /// When the operating system refuses a handler.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            user1: unix::signal(SignalKind::user_defined1())?,
            user2: unix::signal(SignalKind::user_defined2())?,
            hangup: unix::signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. Equal signals that come faster than they are taken may arrive as
    /// one; dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Shutdown(Stop::Interrupt),
            _ = self.terminate.recv() => Signal::Shutdown(Stop::Terminate),
            _ = self.user1.recv() => Signal::Reopen,
            _ = self.user2.recv() => Signal::LameDuck,
            _ = self.hangup.recv() => Signal::Reload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_signal_arrives_as_what_it_means() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut signals = Signals::install().unwrap();
            let me = std::process::id();
            let expected = [
                ("quit", Signal::Shutdown(Stop::Interrupt), "interrupt"),
                ("term", Signal::Shutdown(Stop::Terminate), "terminated"),
                ("reopen", Signal::Reopen, "user defined signal 1"),
                ("ldm", Signal::LameDuck, "user defined signal 2"),
                ("reload", Signal::Reload, "hangup"),
            ];
            for (command, signal, name) in expected {
                deliver(&format!("{command}={me}")).unwrap();
                let came = tokio::time::timeout(Duration::from_secs(10), signals.next()).await;
                assert_eq!(came, Ok(signal), "{command}");
                assert_eq!(signal.to_string(), name);
            }
        });
    }
}
