//! Files of the page: where they are, with which headers, and what leads to none.

use super::pages;
use crate::process::Server;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Answer to this request line and these headers.
fn ask(server: &Server, line: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(pages(server)).expect("the pages are served");
    write!(stream, "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
        .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).expect("a status")
}

#[test]
fn there_is_none_unless_the_configuration_says_so_and_a_reload_changes_that() {
    let paths = ["/ui", "/ui/", "/ui/app.js", "/ui/nats"];
    let server = Server::with_config("server_name: x\n");
    let absent = ask(&server, "GET /no-such-page", "").split_once("Date").expect("a date").0.to_owned();
    for path in paths {
        assert!(ask(&server, &format!("GET {path}"), "").starts_with(&absent), "{path}");
    }
    let lines = server.reload("server_name: x\ndashboard: true\n");
    assert!(lines.iter().any(|line| line.ends_with("Reloaded: dashboard")), "{lines:?}");
    assert_eq!(
        paths.map(|path| status(&ask(&server, &format!("GET {path}"), "")).to_owned()),
        ["308", "200", "200", "400"]
    );
    server.reload("server_name: x\ndashboard: false\n");
    for path in paths {
        assert!(ask(&server, &format!("GET {path}"), "").starts_with(&absent), "{path}");
    }
}

#[test]
fn every_answer_has_the_strict_headers() {
    let server = Server::with_config("dashboard: true\n");
    for line in ["GET /ui", "GET /ui/", "GET /ui/app.js", "GET /ui/none", "GET /ui/nats", "POST /ui/"] {
        let answer = ask(&server, line, "");
        for header in [
            "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n",
            "X-Content-Type-Options: nosniff\r\n",
            "X-Frame-Options: DENY\r\n",
            "Referrer-Policy: no-referrer\r\n",
            "Cross-Origin-Opener-Policy: same-origin\r\n",
            "Cache-Control: no-cache\r\n",
        ] {
            assert!(answer.contains(header), "{line}: {header}: {answer}");
        }
        assert!(!answer.contains("Access-Control"), "{answer}");
    }
    let page = ask(&server, "GET /ui/", "");
    assert!(page.contains("Content-Type: text/html; charset=utf-8\r\n") && page.contains("<!doctype html>"));
    assert!(ask(&server, "GET /ui/app.js", "").contains("Content-Type: text/javascript; charset=utf-8\r\n"));
    let head = ask(&server, "HEAD /ui/style.css", "");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    let posted = ask(&server, "POST /ui/", "Content-Length: 0\r\n");
    assert!(status(&posted) == "405" && posted.contains("Allow: GET, HEAD\r\n"), "{posted}");
}

#[test]
fn a_browser_that_has_the_files_is_told_so() {
    let server = Server::with_config("dashboard: true\n");
    let page = ask(&server, "GET /ui/app.js", "");
    let tag = page.split("Etag: ").nth(1).and_then(|rest| rest.split("\r\n").next()).expect("a tag");
    for known in [tag.to_owned(), format!("W/{tag}"), format!("\"x\", {tag}")] {
        let answer = ask(&server, "GET /ui/app.js", &format!("If-None-Match: {known}\r\n"));
        assert!(status(&answer) == "304" && answer.ends_with("\r\n\r\n"), "{known}: {answer}");
    }
    assert_eq!(status(&ask(&server, "GET /ui/app.js", "If-None-Match: \"x\"\r\n")), "200");
}

/// Paths that a scanner tries.
#[test]
fn paths_lead_to_files_of_the_page_only() {
    let server = Server::with_config("dashboard: true\n");
    for path in [
        "/ui/../etc/passwd",
        "/ui/..%2f..%2fetc/passwd",
        "/ui/%2e%2e/%2e%2e/etc/passwd",
        "/ui/....//....//etc/passwd",
        "/ui/..\\..\\etc\\passwd",
        "/ui//etc/passwd",
        "/ui/index.html",
        "/ui/views/",
        "/ui/views",
        "/ui/app.js/",
        "/ui/app.js%00.html",
        "/ui/%61pp.js",
        "/ui/APP.JS",
        "/ui/.git/config",
        "/ui/<script>alert(1)</script>",
        "/ui/?x=<script>alert(1)</script>",
        "/uix",
        "/UI/",
    ] {
        let answer = ask(&server, &format!("GET {path}"), "");
        assert!(!answer.contains("root:") && !answer.contains("<script>alert"), "{path}: {answer}");
        match path {
            "/ui/?x=<script>alert(1)</script>" => assert_eq!(status(&answer), "200"),
            _ => assert!(["404", "307", "308", "400"].contains(&status(&answer)), "{path}: {answer}"),
        }
    }
}

#[test]
fn the_page_is_below_the_base_path() {
    let server = Server::with_config("http_base_path: mon\ndashboard: true\n");
    assert!(ask(&server, "GET /mon/ui", "").contains("Location: /mon/ui/\r\n"));
    assert_eq!(status(&ask(&server, "GET /mon/ui/", "")), "200");
    assert_eq!(status(&ask(&server, "GET /ui/", "")), "404");
}
