//! News that systemd hears of a server that it runs, and the unit with which it does.

use crate::process::Setup;
use rustix::process::Signal;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A service manager that has nothing to do but listen.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("a free path");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time above zero");
        Self(socket)
    }

    /// The first line of the next datagram.
    fn heard(&self) -> String {
        let mut datagram = [0; 256];
        let length = self.0.recv(&mut datagram).expect("the server says something in time");
        let text = String::from_utf8_lossy(&datagram[..length]).into_owned();
        text.lines().next().unwrap_or_default().to_owned()
    }

    /// The next that is not the watchdog's.
    fn news(&self) -> String {
        loop {
            let line = self.heard();
            if line != "WATCHDOG=1" {
                return line;
            }
        }
    }

    fn wait_for(&self, line: &str) {
        while self.heard() != line {}
    }
}

#[test]
fn a_service_manager_hears_of_start_life_reload_and_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("notify");
    let manager = Manager::at(&socket);
    let mut server = Setup::default().config("debug: false\n").managed(&socket).start();
    assert_eq!(manager.news(), "READY=1");
    for _ in 0..3 {
        manager.wait_for("WATCHDOG=1");
    }
    server.reload("debug: true\n");
    assert_eq!([manager.news(), manager.news()], ["RELOADING=1", "READY=1"]);
    // One that fails is over, too.
    server.reload("max_payload: nonsense\n");
    assert_eq!([manager.news(), manager.news()], ["RELOADING=1", "READY=1"]);
    manager.wait_for("WATCHDOG=1");
    server.signal(Signal::TERM);
    assert_eq!(manager.news(), "STOPPING=1");
    server.wait();
}

/// With `systemd-analyze`; without, the test says so.
#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/myelin-server.service");
    let unit = std::fs::read_to_string(unit).expect("the unit is in the repository");
    let installed = "/usr/bin/myelin-server";
    assert!(unit.contains(installed));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("myelin-server.service");
    std::fs::write(&copy, unit.replace(installed, env!("CARGO_BIN_EXE_myelin-server")))
        .expect("it takes files");
    let Ok(checked) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output() else {
        println!("no systemd-analyze: the unit is not checked with it");
        return;
    };
    let complaints = String::from_utf8_lossy(&checked.stderr);
    let of_ours: Vec<_> = complaints.lines().filter(|line| line.contains("myelin-server")).collect();
    assert_eq!(of_ours, Vec::<&str>::new());
}
