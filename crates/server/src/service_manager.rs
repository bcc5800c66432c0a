//! News for systemd: that the server is ready, reads its configuration again, stops, and lives.
//!
//! Each of these is a datagram of one line to the socket that `NOTIFY_SOCKET` names, which is all
//! of `sd_notify`. Without such a socket nothing is said to anybody.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// State of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceState {
    /// Clients are listened to, or the configuration was read again, with whatever result.
    Ready,
    /// The configuration is read again.
    Reloading,
    /// Clients are told to leave. That may take minutes, which the time to stop need not.
    LameDuck,
    /// The server has begun to stop.
    Stopping,
    /// The main thread goes on.
    Lives,
}

impl ServiceState {
    fn line(self) -> &'static str {
        match self {
            Self::Ready => "READY=1\nSTATUS=ready",
            Self::Reloading => "RELOADING=1\nSTATUS=reading the configuration again",
            Self::LameDuck => "STATUS=lame duck mode: clients are told to leave",
            Self::Stopping => "STOPPING=1\nSTATUS=stopping",
            Self::Lives => "WATCHDOG=1",
        }
    }
}

/// Tells the service manager, if there is one. Whether it listens is its own business.
pub(crate) fn tell(state: ServiceState) {
    if let Some(socket) = env::var_os("NOTIFY_SOCKET") {
        let _ = send(&socket, state.line());
    }
}

fn send(socket: &OsStr, line: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(line.as_bytes(), &address).map(drop)
}

/// Tells the service manager that the server lives and waits until that is due again; forever where
/// nobody wants to hear it.
pub(crate) async fn watch() {
    let Some(interval) = interval(env::var("WATCHDOG_PID").ok(), env::var("WATCHDOG_USEC").ok()) else {
        return std::future::pending().await;
    };
    tell(ServiceState::Lives);
    tokio::time::sleep(interval).await;
}

/// A third of the time after which the manager believes the process dead. `None`: it does not ask,
/// or not this process.
fn interval(pid: Option<String>, micros: Option<String>) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(std::process::id())) {
        return None;
    }
    let micros: u64 = micros?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros) / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reaches_sockets_of_both_kinds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("myelin-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let cases = [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into_os_string()),
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}").into()),
        ];
        for (listener, socket) in cases {
            send(&socket, "READY=1").unwrap();
            let mut line = [0; 64];
            let length = listener.recv(&mut line).unwrap();
            assert_eq!(&line[..length], b"READY=1");
        }
        assert!(send(OsStr::new("/nowhere/at/all"), "READY=1").is_err());
    }

    #[test]
    fn the_watchdog_is_told_in_time_if_it_asks_this_process() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(interval(None, text("30000000")), Some(Duration::from_secs(10)));
        assert_eq!(
            interval(text(&std::process::id().to_string()), text("3")),
            Some(Duration::from_micros(1))
        );
        for (pid, micros) in [(text("1"), text("30")), (None, None), (None, text("0")), (None, text("soon"))]
        {
            assert_eq!(interval(pid, micros), None);
        }
    }
}
