//! Trusted proxies: what monitoring shows, and a reload that trusts one no more. And what a reload
//! would do, asked before.

use crate::process::{PROGRAM, Server, Setup};
use crate::raw::Raw;
use myelin_auth::KeyPair;
use myelin_stdx::nkey::Role;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::process::Command;

pub(crate) fn key(n: u8) -> KeyPair {
    KeyPair::from_bytes(Role::Server, &[n; 32]).expect("a role that signs")
}

fn trusting(keys: &[u8]) -> String {
    let keys: Vec<String> = keys.iter().map(|&n| format!("{{key: {}}}", key(n).public())).collect();
    format!(
        "proxies {{ trusted: [{}] }}\nauthorization {{ users: [{{user: a, password: p, proxy_required: true}}, {{user: b, password: p}}] }}",
        keys.join(", ")
    )
}

/// A client of this user that comes through the proxy with this key.
fn through(server: &Server, user: &str, n: u8) -> Raw {
    let mut raw = Raw::over(TcpStream::connect(server.address()).expect("the server listens"));
    let line = raw.line();
    let info: Value = serde_json::from_str(line.strip_prefix("INFO ").expect("INFO")).expect("JSON");
    let signature = key(n).sign(info["nonce"].as_str().expect("a nonce").as_bytes());
    raw.send(&format!(
        "CONNECT {{\"user\":\"{user}\",\"pass\":\"p\",\"proxy_sig\":\"{signature}\",\"verbose\":false}}\r\nPING\r\n"
    ));
    assert_eq!(raw.line(), "PONG");
    raw
}

#[test]
fn who_came_through_a_proxy_goes_with_it() {
    let server = Setup::default().config(&trusting(&[1, 2])).start();
    let (first, mut second) = (through(&server, "a", 1), through(&server, "a", 2));
    let mut free = Raw::open(server.address());
    free.send("CONNECT {\"user\":\"b\",\"pass\":\"p\",\"verbose\":false}\r\n");
    free.barrier();
    let page = server.page("/connz");
    assert_eq!(page["connections"][0]["proxy"], json!({"key": key(1).public()}), "{page}");
    assert!(page["connections"][2]["proxy"].is_null());
    let varz = server.page("/varz");
    assert_eq!(varz["proxies"]["trusted"], json!([{"key": key(1).public()}, {"key": key(2).public()}]));
    let lines = server.reload(&trusting(&[2, 3]));
    let said = |key: String, what: &str| format!("Reloaded: proxies trusted keys [{key:?}] were {what}");
    assert!(lines.iter().any(|line| line.contains(&said(key(1).public(), "removed"))), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(&said(key(3).public(), "added"))), "{lines:#?}");
    assert!(first.rest().contains("-ERR 'Authorization Violation'"));
    server.wait_for_close("Proxy Not Trusted");
    second.barrier();
    free.barrier();
    drop(through(&server, "a", 3));
}

/// Compat: also where no proxy is trusted any more, and nobody has to come through one.
#[test]
fn who_came_through_the_last_proxy_goes_with_it() {
    let server = Setup::default().config(&trusting(&[1])).start();
    let client = through(&server, "b", 1);
    let mut free = Raw::open(server.address());
    free.send("CONNECT {\"user\":\"b\",\"pass\":\"p\",\"verbose\":false}\r\n");
    free.barrier();
    let (_, users) =
        trusting(&[1]).split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("lines");
    server.reload(&users);
    assert!(client.rest().contains("-ERR 'Authorization Violation'"));
    server.wait_for_close("Proxy Not Trusted");
    free.barrier();
}

fn check(old: &str, new: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (from, to) = (folder.path().join("old.conf"), folder.path().join("new.conf"));
    std::fs::write(&from, old).expect("it takes text");
    std::fs::write(&to, new).expect("it takes text");
    let output = Command::new(PROGRAM).arg("-c").arg(from).arg("--check-reload").arg(to).output();
    let output = output.expect("the program starts");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_check_says_what_a_reload_would_do() {
    assert_eq!(check("max_payload: 5", "max_payload: 5"), (Some(0), "nothing changes\n".to_owned()));
    let (code, said) = check(&trusting(&[1]), &format!("{}\nmax_payload: 5", trusting(&[2])));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((code, lines.len()), (Some(0), 3), "{said}");
    assert_eq!(lines[0], "live       max_payload = 5");
    assert!(lines[1].starts_with("reconnect  proxies trusted keys"), "{said}");
    let (code, said) = check("port: 4222", "port: 4333, debug: true");
    let refused = "restart    config reload not supported for Port: old=4222, new=4333\n";
    assert_eq!((code, said), (Some(2), format!("{refused}live       debug = true\n")));
    assert_eq!(check("", "max_payload: x").0, Some(1));
}

/// A check foretells whether the reload is taken.
#[test]
fn a_check_and_a_reload_agree() {
    let old = "max_payload: 1000\nauthorization { users: [{user: a, password: p}] }";
    for new in ["max_payload: 2000", "max_pending: 99999", "accounts { A {} }\ndebug: true", "ping_max: 7"] {
        let server = Setup::default().config(old).start();
        let (code, _) = check(old, new);
        let lines = server.reload(new);
        let took = lines.iter().any(|line| line.contains("Reloaded server configuration"));
        assert_eq!(took, code == Some(0), "{new}: {lines:#?}");
    }
}
