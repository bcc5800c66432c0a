//! Requests and answers, ours and the reference's.

use super::peer::{DEFLATE, Peer, UPGRADE, dial, read_head};
use super::{address, server, servers};
use crate::process::Server;
use std::io::{Read as _, Write as _};

/// The answer to a request, without what changes with the time.
fn ask(server: &Server, request: &str) -> (String, String) {
    let mut stream = dial(address(server));
    stream.write_all(request.as_bytes()).expect("an answer");
    let head = read_head(&mut stream).unwrap_or_default();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = Vec::new();
    match length.map(|length| length.parse().expect("an answer")) {
        Some(length) => drop(stream.take(length).read_to_end(&mut body).expect("an answer")),
        None if head.starts_with("HTTP/1.1 101") => {}
        None => drop(stream.read_to_end(&mut body)),
    }
    // The reference leaves connections open behind an error.
    let fleeting = ["Date: ", "Connection: close"];
    let lines = head.lines().filter(|line| !fleeting.iter().any(|start| line.starts_with(start)));
    // The reference speaks HTTP/1.0 with who does.
    (
        lines.collect::<Vec<_>>().join("\n").replace("HTTP/1.0 ", "HTTP/1.1 "),
        String::from_utf8_lossy(&body).into_owned(),
    )
}

#[test]
fn every_request_is_answered_like_the_reference() {
    let block = "compression: true, same_origin: true, allowed_origins: [\"http://localhost\", \"https://b\"], \
                 headers { \"X-Own\": \"some thing\" }";
    let servers = servers(block, "");
    let without = |name: &str| -> String {
        UPGRADE.split_inclusive("\r\n").filter(|line| !line.starts_with(name)).collect()
    };
    let mut requests = vec![
        "GARBAGE\r\n\r\n".to_owned(),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost x\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.0\r\n{}\r\n", without("Host")),
    ];
    for line in ["GET /", "GET /any/path?x=y", "GET /mqtt", "GET /a/mqtt?b", "GET /leafnode", "POST /"] {
        requests.push(format!("{line} HTTP/1.1\r\n{UPGRADE}\r\n"));
    }
    for name in ["Host", "Upgrade", "Connection", "Sec-WebSocket-Key", "Sec-WebSocket-Version"] {
        requests.push(format!("GET / HTTP/1.1\r\n{}\r\n", without(name)));
    }
    for headers in [
        DEFLATE,
        "Sec-WebSocket-Extensions: x, permessage-deflate; client_max_window_bits\r\n",
        "Sec-WebSocket-Extensions: deflate\r\n",
        "Nats-No-Masking: true\r\n",
        "Nats-No-Masking: yes\r\n",
        "Origin: http://localhost\r\n",
        "Origin: https://localhost\r\n",
        "Origin: http://localhost:81\r\n",
        "Origin: null\r\n",
        "Origin: https://b\r\n",
        "Sec-WebSocket-Origin: http://c\r\n",
        "Upgrade: h2c\r\n",
    ] {
        requests.push(format!("GET / HTTP/1.1\r\n{UPGRADE}{headers}\r\n"));
    }
    for (header, value) in [
        ("Upgrade", "h2c, WebSocket"),
        ("Connection", "keep-alive, upgrade"),
        ("Sec-WebSocket-Version", "12"),
        ("Sec-WebSocket-Version", "12, 13"),
        ("Sec-WebSocket-Key", "abc"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAAAA"),
    ] {
        requests.push(format!("GET / HTTP/1.1\r\n{}{header}: {value}\r\n\r\n", without(header)));
    }
    for request in &requests {
        let answers: Vec<_> = servers.iter().map(|server| ask(server, request)).collect();
        assert!(!answers[0].0.is_empty(), "{request}");
        if let [ours, reference] = &answers[..] {
            assert_eq!(ours, reference, "{request}");
        }
    }
    let refusals = |server: &Server| -> Vec<String> {
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("[ERR]"));
        lines.map(|line| line.split_once(" - ").map_or(line, |(_, text)| text).to_owned()).collect()
    };
    for server in &servers {
        // Requests are served side by side: the last line may come late.
        server.wait_for_log("Not configured to accept leaf node connections");
        server.wait_for_log("websocket handshake error: invalid websocket key");
    }
    if let [ours, reference] = &servers[..] {
        let sorted = |server| {
            let mut lines = refusals(server);
            lines.iter_mut().for_each(|line| {
                *line = line.rsplit_once("] ").map_or(line.clone(), |(_, text)| text.to_owned());
            });
            lines.sort();
            lines
        };
        crate::eventually("the same lines in both logs", || sorted(ours) == sorted(reference));
    }
}

#[test]
fn what_comes_too_early_or_too_late_ends_it() {
    let server = server("handshake_timeout: \"200ms\"", "");
    let mut eager = dial(address(&server));
    eager.write_all(format!("GET / HTTP/1.1\r\n{UPGRADE}\r\n\u{1}").as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = eager.read_to_end(&mut answer);
    assert_eq!(answer, b"");
    server.wait_for_log("websocket handshake error: client sent data before handshake is complete");
    let mut silent = dial(address(&server));
    silent.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
    let mut slow = dial(address(&server));
    slow.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
    let _ = slow.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 400 Bad Request\r\n"));
    Peer::open(address(&server), "").info();
}

#[test]
fn a_request_without_end_is_refused() {
    let server = server("", "");
    let mut stream = dial(address(&server));
    let line = format!("X: {}\r\n", "x".repeat(1000));
    let head = format!("GET / HTTP/1.1\r\n{}", line.repeat(40));
    let _ = stream.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // Long cookies are fine.
    let cookies = format!("Cookie: a={}\r\n", "x".repeat(20_000));
    Peer::open(address(&server), &cookies).info();
}
