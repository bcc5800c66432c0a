//! Names, subjects, headers and values that strangers have chosen, in every verb that shows them:
//! none moves the cursor of a terminal, changes its colours, or makes a line that is not there.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::server::programs;
use crate::servers::{Server, beside};
use crate::{PATIENCE, myelin, succeed};

/// Text that clears the screen, changes the colour (by the one character of C1, too), and turns the
/// direction of writing.
const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{202e}";

/// Part of it that may be seen.
const SEEN: &str = "[2J";

fn is_harmless(said: &str) -> bool {
    !said.contains(|character: char| (character.is_control() && character != '\n') || character == '\u{202e}')
}

#[track_caller]
fn check(command: &mut Command) {
    let said = succeed(command);
    assert!(said.contains(SEEN) && is_harmless(&said), "{command:?}: {said:?}");
}

/// Publishes as clients may who check nothing.
fn publish(server: &Server, subject: &str, headers: &str, payload: &str) {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let block = format!("NATS/1.0\r\n{headers}\r\n");
    let (header_len, len) = (block.len(), block.len() + payload.len());
    let connect = r#"CONNECT {"verbose":false,"headers":true}"#;
    let text = format!("{connect}\r\nHPUB {subject} {header_len} {len}\r\n{block}{payload}\r\nPING\r\n");
    socket.write_all(text.as_bytes()).unwrap();
    assert_eq!(BufReader::new(socket).lines().nth(1).unwrap().unwrap(), "PONG");
}

#[test]
fn keys_and_objects_steer_no_terminal() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let words = |words: &[&str]| myelin(&[words, &["-s", &url]].concat());
        succeed(&mut words(&["kv", "add", "B", "--description", HOSTILE, "--history", "2"]));
        publish(&server, &format!("$KV.B.{HOSTILE}"), "", HOSTILE);
        publish(&server, "$KV.B.plain", "", HOSTILE);
        for line in
            ["ls", "ls B", "ls B -v", "ls B --display-value", "info B", "watch B --count 2", "ls B --json"]
        {
            check(&mut words(&[&["kv"], &line.split(' ').collect::<Vec<_>>()[..]].concat()));
        }
        check(&mut words(&["kv", "history", "B", "plain"]));
        let file = server.file("object");
        std::fs::write(&file, "content").unwrap();
        succeed(&mut words(&["object", "add", "O", "--description", HOSTILE]));
        let header = format!("K:{HOSTILE}");
        let more = ["--description", HOSTILE, "-H", &header, "--no-progress"];
        check(&mut words(&[&["object", "put", "O", &file, "--name", HOSTILE], &more[..]].concat()));
        for line in
            [&["ls"][..], &["ls", "O"], &["info", "O"], &["info", "O", HOSTILE], &["ls", "O", "--json"]]
        {
            check(&mut words(&[&["object"], line].concat()));
        }
    }
}

#[test]
fn messages_steer_no_terminal() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let mut listener = myelin(&["sub", "o.>", "--count", "1", "-s", &url]);
        let mut child = listener.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "nothing came");
            publish(&server, &format!("o.{HOSTILE}"), &format!("K: {HOSTILE}\r\n"), "m");
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(said.matches(SEEN).count() == 2 && is_harmless(&said), "{said:?}");
    }
}

#[test]
fn dead_letters_steer_no_terminal() {
    let Some(program) = beside() else { return };
    let server = Server::with_streams(&program, &[]);
    let url = server.url();
    let words = |words: &[&str]| myelin(&[words, &["-s", &url]].concat());
    let line = |line: &str| words(&line.split(' ').collect::<Vec<_>>());
    succeed(&mut line("stream add DEAD --subjects dlq.>"));
    succeed(&mut line("stream add ORDERS --subjects o.>"));
    publish(&server, &format!("o.{HOSTILE}"), &format!("K: {HOSTILE}\r\n"), "m");
    let consumer = "consumer add ORDERS C --pull --ack explicit --max-deliver 1 --wait 50ms --metadata";
    succeed(&mut line(&format!("{consumer} myelin.dlq.stream=DEAD")));
    check(&mut line("consumer next ORDERS C --no-ack"));
    let deadline = Instant::now() + PATIENCE;
    while !succeed(&mut line("dlq list DEAD")).contains("exhausted") {
        assert!(Instant::now() < deadline, "no letter");
    }
    check(&mut line("dlq list DEAD"));
    check(&mut line("dlq list DEAD --json"));
    check(&mut line("dlq show DEAD 1"));
}
