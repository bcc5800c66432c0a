//! Starting, ending and being told: flags, files, signals, exit codes.

use crate::eventually;
use crate::process::{PROGRAM, Server, Setup};
use crate::raw::Raw;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn minus_one_is_a_free_port() {
    let (one, other) = (Server::start(), Server::start());
    assert_ne!(one.address().port(), other.address().port());
    let mut raw = Raw::open(one.address());
    raw.send("PING\r\n");
    assert_eq!(raw.until_pong(), []);
}

/// Compat: the reference's wildcard host is both IP versions, on a system that has both.
#[test]
fn the_default_host_takes_clients_of_both_ip_versions() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return;
    }
    let server = Setup::default().flags(&["-a", "0.0.0.0"]).start();
    let port = server.address().port();
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let mut raw = Raw::open((ip, port).into());
        raw.send("PING\r\n");
        assert_eq!(raw.until_pong(), []);
    }
}

#[test]
fn signals_that_end_the_server_end_it_well() {
    for (signal, name) in [(Signal::TERM, "terminated"), (Signal::INT, "interrupt")] {
        let mut server = Server::start();
        let raw = Raw::connect(&server);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{signal:?}");
        server.wait_for_log(&format!("Trapped \"{name}\" signal"));
        server.wait_for_log("Server Exiting..");
        assert_eq!(raw.rest(), "");
    }
}

#[test]
fn a_new_server_takes_the_port_of_the_old_one_at_once() {
    let mut server = Server::start();
    for _ in 0..5 {
        // Connections that the old one closes leave their half of the port behind.
        let clients: Vec<Raw> = (0..10).map(|_| Raw::connect(&server)).collect();
        server.restart();
        drop(clients);
        Raw::connect(&server);
    }
}

#[test]
fn a_taken_port_is_said_and_fatal() {
    let server = Server::start();
    let port = server.address().port().to_string();
    let output = run(&["-a", "127.0.0.1", "-p", &port]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("Error listening on port") && said.contains(&port), "{said}");
}

#[test]
fn a_bad_configuration_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.conf");
    let file = path.display();
    for (text, place) in [
        ("port: 4222\nno_such_thing: 1\n", format!("{file}:2:1: ")),
        ("debug: true\nauthorization {\n  token: x\n  whatever: y\n}\n", format!("{file}:4:3: ")),
        ("port: \"many\n", format!("{file}:2:1: ")),
    ] {
        fs::write(&path, text).unwrap();
        let output = run(&["-c", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(stderr(&output).contains(&place), "{place}: {}", stderr(&output));
    }
    let output = run(&["-c", "/no/such/file.conf"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/no/such/file.conf"));
}

#[test]
fn a_configuration_can_be_tested_without_starting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good.conf");
    fs::write(&path, "port: 4222\n").unwrap();
    let output = run(&["-t", "-c", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("is valid"), "{}", stderr(&output));
}

#[test]
fn the_version_is_the_reference_level_and_our_own() {
    for flag in ["-v", "--version"] {
        let output = run(&[flag]);
        assert_eq!(output.status.code(), Some(0));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with("nats-server: v2.15.2\n"), "{said}");
        assert!(said.contains(concat!("myelin-server: v", env!("CARGO_PKG_VERSION"))), "{said}");
    }
}

#[test]
fn an_unknown_flag_prints_the_usage() {
    let output = run(&["--no-such-flag"]);
    // Compat: the reference calls this a success.
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("flag provided but not defined: -no-such-flag"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("--port"), "no usage");
}

#[test]
fn the_pid_file_names_the_process_and_takes_signals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.pid");
    let mut server = Setup::default().flags(&["-P", path.to_str().unwrap()]).start();
    assert_eq!(fs::read_to_string(&path).unwrap(), server.pid().to_string());
    let output = run(&["--signal", &format!("quit={}", path.display())]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(server.wait().code(), Some(0));
    server.wait_for_log("Trapped \"interrupt\" signal");
}

#[test]
fn a_server_that_cannot_start_touches_no_pid_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.pid");
    let file = path.to_str().unwrap();
    let server = Setup::default().flags(&["-P", file]).start();
    let port = server.address().port().to_string();
    for (name, expected) in [(file, Some(server.pid().to_string())), (&format!("{file}.new"), None)] {
        let output = run(&["-a", "127.0.0.1", "-p", &port, "-P", name]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(fs::read_to_string(name).ok(), expected, "{name}");
    }
}

#[test]
fn a_signal_reaches_the_process_by_its_number() {
    let mut server = Server::start();
    let output = run(&["-sl", &format!("term={}", server.pid())]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn lame_duck_mode_ends_early_on_an_interrupt_only() {
    let mut server = Server::with_config("lame_duck_duration: 60s\nlame_duck_grace_period: 50s\n");
    let mut client = Raw::connect(&server);
    client.barrier();
    let output = run(&["--signal", &format!("ldm={}", server.pid())]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    server.wait_for_log("Entering lame duck mode");
    let info = client.line();
    assert!(info.starts_with("INFO {") && info.contains("\"ldm\":true"), "{info}");
    server.signal(Signal::TERM);
    client.publish("still", "served");
    assert_eq!(client.barrier(), []);
    server.wait_for_log("Trapped \"terminated\" signal");
    let lines = server.reload("lame_duck_duration: 60s\nlame_duck_grace_period: 50s\nmax_payload: 77\n");
    assert!(lines.iter().any(|line| line.ends_with("Reloaded: max_payload = 77")), "{lines:#?}");
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
    server.wait_for_log("Trapped \"interrupt\" signal");
}

#[test]
fn nobody_has_to_read_what_is_printed() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (arguments, code) in [(&["--help"][..], 0), (&["-v"], 0), (&["--unheard"], 0), (&["-t"], 1)] {
        let status = Command::new(PROGRAM).args(arguments).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_server_outlives_the_reader_of_its_log_and_ends_well() {
    let mut child = Command::new(PROGRAM)
        .args(["-a", "127.0.0.1", "-p", "-1"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Server is ready") {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0);
    }
    drop(reader);
    assert!(run(&["--signal", &format!("term={}", child.id())]).status.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_log_goes_to_a_file_that_can_be_moved_away() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("server.log"), folder.path().join("server.log.old"));
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mut child = Command::new(PROGRAM)
        .args(["-a", "127.0.0.1", "-p", "-1", "-l", path.to_str().unwrap()])
        .spawn()
        .unwrap();
    eventually("it is ready", || read(&path).contains("Server is ready"));
    fs::rename(&path, &moved).unwrap();
    assert!(run(&["--signal", &format!("reopen={}", child.id())]).status.success());
    eventually("the new file is there", || read(&path).contains("File log re-opened"));
    assert!(run(&["--signal", &format!("term={}", child.id())]).status.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(read(&path).contains("Server Exiting.."), "{}", read(&path));
    assert!(!read(&moved).contains("Server Exiting.."));
}
