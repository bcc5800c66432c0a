//! `myelin server info` and `server top`, over monitoring and through the system account.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use tempfile::tempdir;

use crate::server::{configured, programs};
use crate::servers::{Server, free_port};
use crate::{PATIENCE, fail, myelin, succeed};

/// A server with a system account, and where its monitoring listens.
fn watched(program: &std::path::Path) -> (Server, String) {
    let monitor = format!("127.0.0.1:{}", free_port());
    let config = format!(
        "http: \"{monitor}\"\nserver_name: n1\nsystem_account: SYS\nno_auth_user: a\n\
         accounts {{ SYS {{ users: [ {{ user: s, password: s }} ] }}, A {{ users: [ {{ user: a, password: a }} ] }} }}\n"
    );
    (configured(program, tempdir().unwrap(), &config, false), monitor)
}

#[test]
fn a_server_is_shown_through_both_ways() {
    for program in programs() {
        let (server, monitor) = watched(&program);
        let system = server.url_of("s:s@");
        for way in [&["--monitor", &monitor][..], &["-s", &system], &["n1", "-s", &system]] {
            let info = |more: &[&str]| succeed(&mut myelin(&[&["server", "info"], way, more].concat()));
            let said = info(&[]);
            assert!(said.contains("Server: n1 (N") && said.contains("Memory of streams: 0 B of "), "{said}");
            let json: Value = serde_json::from_str(&info(&["--json"])).unwrap();
            assert_eq!((&json["server_name"], &json["port"]), (&"n1".into(), &server.port.into()));
            let top = succeed(&mut myelin(&[&["server", "top", "--once", "-d", "100ms"], way].concat()));
            assert!(top.starts_with("n1, version 2.") && top.contains("\nCPU "), "{top}");
        }
        let listed = succeed(&mut myelin(&["server", "list", "1", "-s", &system]));
        assert!(listed.lines().nth(1).unwrap().starts_with("n1 ") && listed.contains("  yes  "), "{listed}");
        let json: Value =
            serde_json::from_str(&succeed(&mut myelin(&["server", "ls", "--json", "-s", &system]))).unwrap();
        assert_eq!(json[0]["server"]["name"], "n1");
        let missing = fail(&mut myelin(&["server", "list", "2", "-s", &system, "--timeout", "300ms"]));
        assert!(missing.contains("1 of 2 servers answer"), "{missing}");
        let said = fail(&mut myelin(&["server", "info", "-s", &server.url()]));
        assert!(said.contains("a user of the system account"), "{said}");
        let said = fail(&mut myelin(&["server", "info", "n2", "-s", &system, "--timeout", "300ms"]));
        assert!(said.contains("not answered"), "{said}");
    }
}

#[test]
fn connections_are_listed_without_a_terminal() {
    for program in programs() {
        let (server, monitor) = watched(&program);
        let hostile = "\u{1b}[2J";
        let mut client = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let hello =
            format!("CONNECT {{\"verbose\":false,\"name\":{}}}\r\nSUB x 1\r\nPING\r\n", Value::from(hostile));
        client.write_all(hello.as_bytes()).unwrap();
        let mut pong = [0; 4096];
        let mut said = String::new();
        while !said.contains("PONG") {
            let count = client.read(&mut pong).unwrap();
            said += &String::from_utf8_lossy(&pong[..count]);
        }
        let top = ["server", "top", "--monitor", &monitor, "--count", "2", "-d", "100ms", "--sort", "subs"];
        let said = succeed(&mut myelin(&top));
        assert_eq!(said.matches("sorted by subscriptions").count(), 2, "{said}");
        assert_eq!(said.matches("\\u{1b}[2J  A        127.0.0.1:").count(), 2, "{said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
}

/// The two ends of a terminal of this many columns and lines.
pub(crate) fn terminal(columns: u16, lines: u16) -> (File, OwnedFd) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let program = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&person, size).unwrap();
    (File::from(person), program)
}

/// Pieces of what a terminal shows, as they come.
pub(crate) fn shown_on(mut terminal: File) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            if send.send(String::from_utf8_lossy(&bytes[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    receive
}

#[track_caller]
pub(crate) fn wait_for(shown: &Receiver<String>, text: &str) {
    let (deadline, mut seen) = (Instant::now() + PATIENCE, String::new());
    while !seen.contains(text) {
        let left = deadline.saturating_duration_since(Instant::now());
        seen += &shown.recv_timeout(left).unwrap_or_else(|_| panic!("no {text:?} in {seen:?}"));
    }
}

#[test]
fn a_terminal_shows_the_table_until_somebody_ends_it() {
    for program in programs() {
        let (_server, monitor) = watched(&program);
        for end in [b'q', 3] {
            let (mut person, other) = terminal(60, 12);
            let same = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
            let mut top = myelin(&["server", "top", "--monitor", &monitor]);
            top.stdin(same(&other)).stdout(same(&other)).stderr(same(&other));
            let before = rustix::termios::tcgetattr(&other).unwrap().local_modes;
            let mut child = top.spawn().unwrap();
            let shown = shown_on(person.try_clone().unwrap());
            wait_for(&shown, "sorted by messages");
            wait_for(&shown, "sort by: m messages");
            person.write_all(b"s").unwrap();
            wait_for(&shown, "sorted by subscriptions");
            person.write_all(&[end]).unwrap();
            assert!(child.wait().unwrap().success());
            wait_for(&shown, "\u{1b}[?1049l");
            assert_eq!(rustix::termios::tcgetattr(&other).unwrap().local_modes, before);
        }
    }
}

#[test]
fn what_is_not_as_it_should_be_has_an_exit_code() {
    for program in programs() {
        let asked = crate::streams::Asked::of(&program);
        asked.said("stream add S --subjects a");
        asked.said("consumer add S C");
        asked.said("pub a x");
        let check = |line: &str| {
            let output = asked.line(&format!("server check {line}")).output().unwrap();
            (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
        };
        let (code, said) = check("connection");
        assert!(code == 0 && said.starts_with("OK Connection OK:connect time: "), "{said}");
        assert_eq!(check("connection --connect-warn 1ns").0, 1);
        assert_eq!(check("stream --stream S --msgs-warn 1"), (0, "OK S | messages=1\n".into()));
        assert_eq!(check("stream --stream S --msgs-warn 2").0, 1);
        let (code, said) = check("stream --stream S --msgs-critical 2 --peer-expect 1");
        assert_eq!(
            (code, &said[..]),
            (2, "CRITICAL S CRITICAL:messages: 1 OK:servers: 1 of 1 | messages=1\n")
        );
        let (code, said) = check("consumer --stream S --consumer C --unprocessed-critical 0");
        assert!(
            code == 2 && said.starts_with("CRITICAL S_C CRITICAL:unprocessed: 1 | ack_pending=0 "),
            "{said}"
        );
        let (code, said) = check("consumer --stream S --consumer C --last-delivery-critical 1h");
        assert!(code == 2 && said.contains("CRITICAL:no last delivery"), "{said}");
        asked.said("consumer next S C");
        assert_eq!(check("consumer --stream S --consumer C --last-delivery-critical 1h").0, 0);
        assert_eq!(check("consumer --stream S --consumer D").0, 2);
        asked.said("stream add M --mirror S");
        let (code, said) = check("stream --stream M --seen-critical 1ns");
        assert!(code == 2 && said.contains("CRITICAL:S "), "{said}");
    }
}
