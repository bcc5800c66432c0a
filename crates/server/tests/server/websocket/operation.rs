//! Operation of WebSocket: pages, the log, files, reload, lame duck, the end.

use super::peer::{Peer, dial};
use super::{address, config, server, servers};
use crate::eventually;
use crate::process::{PROGRAM, Server};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Read as _;
use std::process::Command;

#[test]
fn info_is_about_this_listener() {
    for server in &servers("", "") {
        let info = Peer::open(address(server), "").info();
        let at = address(server);
        assert_eq!((&info["host"], &info["port"]), (&json!("127.0.0.1"), &json!(at.port())));
        assert_eq!(info["client_ip"], "127.0.0.1");
        let absent = ["tls_required", "tls_available", "connect_urls", "ws_connect_urls", "auth_required"];
        assert!(absent.iter().all(|name| info[name].is_null()), "{info}");
    }
}

#[test]
fn pages_show_it_like_the_references() {
    let block = "compression: true, same_origin: true, allowed_origins: [\"http://a\", \"https://b\"], \
                 advertise: \"c.com:90\", handshake_timeout: \"3s\", no_auth_user: u, \
                 authorization { timeout: 1.5 }";
    let around = "accounts { A { users [ {user: u, password: p} ] } }";
    for (block, around) in [(block, around), ("", "")] {
        let pages: Vec<Value> = servers(block, around)
            .iter()
            .map(|server| {
                let mut page = server.page("/varz");
                assert_eq!(page["websocket"]["port"], address(server).port());
                page["websocket"]["port"] = Value::Null;
                page["websocket"].take()
            })
            .collect();
        if let [ours, reference] = &pages[..] {
            let names = |page: &Value| page.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!((ours, names(ours)), (reference, names(reference)));
        }
    }
    let plain = Server::start();
    assert_eq!(plain.page("/varz")["websocket"], json!({}));
}

#[test]
fn open_and_closed_connections_say_what_they_are() {
    let server = server("", "");
    let mut peer = Peer::connect(address(&server), ",\"name\":\"me\"");
    let conn = &server.page("/connz?subs=1")["connections"][0];
    assert_eq!(
        (&conn["kind"], &conn["type"], &conn["name"]),
        (&json!("Client"), &json!("websocket"), &json!("me"))
    );
    peer.send(&super::peer::frame(super::peer::CLOSE, b"\x03\xe8"));
    assert_eq!(peer.rest().closed_with(), Some((1000, String::new())));
    eventually("a closed connection", || {
        let page = server.page("/connz?state=closed");
        let conn = &page["connections"][0];
        conn["type"] == "websocket" && conn["reason"] == "Client Closed"
    });
}

#[test]
fn the_log_has_names_for_them() {
    for server in &servers("", "") {
        let mut peer = Peer::open(address(server), "X-Forwarded-For: 1.2.3.4\r\n");
        let port = peer.socket().local_addr().unwrap().port();
        peer.info();
        server.wait_for_log(&format!("[DBG] 1.2.3.4/127.0.0.1:{port} - wid:"));
        let mut six = Peer::open(address(server), "X-Forwarded-For: ::1\r\n");
        six.info();
        let port = six.socket().local_addr().unwrap().port();
        server.wait_for_log(&format!("[DBG] [::1]/127.0.0.1:{port} - wid:"));
        drop(six);
        server.wait_for_log("Client connection closed: Client Closed");
        server.wait_for_log("[WRN] Websocket not configured with TLS. DO NOT USE IN PRODUCTION!");
        // Monitoring knows the socket.
        assert_eq!(server.page("/connz")["connections"][0]["ip"], "127.0.0.1");
    }
}

#[test]
fn a_port_that_is_taken_ends_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let text = format!("websocket {{ host: \"127.0.0.1\", port: {port}, no_tls: true }}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.conf");
    std::fs::write(&file, text).unwrap();
    let output =
        Command::new(PROGRAM).args(["-a", "127.0.0.1", "-p", "-1", "-c"]).arg(file).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let expected = format!(
        "[FTL] Unable to listen for websocket connections: listen tcp 127.0.0.1:{port}: bind: address already in use"
    );
    assert!(log.contains(&expected) && output.status.code() == Some(1), "{log}");
}

#[test]
fn the_ports_file_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let around = format!("ports_file_dir: \"{}\"", dir.path().display());
    for server in &servers("", &around) {
        let found = || {
            let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
            files
                .into_iter()
                .find(|path| path.to_string_lossy().contains(&format!("_{}.ports", server.pid())))
        };
        eventually("a ports file", || {
            let text = found().map(|path| std::fs::read_to_string(path).unwrap()).unwrap_or_default();
            text.contains(&format!("\"websocket\":[\"ws://{}\"]", address(server)))
        });
    }
}

#[test]
fn a_reload_changes_nothing_of_it() {
    for server in &servers("compression: true", "") {
        let mut peer = Peer::connect(address(server), "");
        let lines = server.reload(&config("compression: false", ""));
        let refused = "config reload not supported for Websocket: old=";
        assert!(lines.iter().any(|line| line.contains(refused)), "{lines:?}");
        let lines = server.reload(&config("compression: true", "max_payload: 1000"));
        assert!(lines.iter().any(|line| line.contains("Reloaded: max_payload")), "{lines:?}");
        peer.say("PING\r\n");
        while peer.line() != "PONG" {}
    }
}

#[test]
fn a_reload_checks_who_is_there() {
    let users = |names: &[&str]| {
        let users: Vec<_> = names.iter().map(|name| format!("{{user: {name}, password: p}}")).collect();
        config("no_auth_user: w", &format!("accounts {{ A {{ users [ {} ] }} }}", users.join(", ")))
    };
    let server = Server::with_config(&users(&["a", "w"]));
    let leaving = Peer::connect(address(&server), ",\"user\":\"a\",\"pass\":\"p\"");
    let mut staying = Peer::connect(address(&server), "");
    server.reload(&users(&["w"]));
    assert_eq!(leaving.rest().closed_with(), Some((1000, "Client Closed".to_owned())));
    staying.say("PING\r\n");
    assert_eq!(staying.line(), "PONG");
}

#[test]
fn a_lame_duck_says_so_and_takes_nobody() {
    let around = "lame_duck_duration: \"30s\"\nlame_duck_grace_period: \"100ms\"";
    for server in &mut servers("", around) {
        let at = address(server);
        let mut peer = Peer::connect(at, ",\"protocol\":1");
        // The second INFO.
        assert!(peer.line().contains("\"connect_info\":true"));
        server.signal(Signal::USR2);
        let info = peer.line();
        assert!(info.contains("\"ldm\":true"), "{info}");
        let mut refused = Vec::new();
        if let Ok(mut stream) = std::net::TcpStream::connect(at) {
            let _ = stream.read_to_end(&mut refused);
        }
        assert!(refused.is_empty());
        assert_eq!(peer.rest().closed_with(), Some((1001, "Server Shutdown".to_owned())));
        server.wait();
    }
}

#[test]
fn the_end_of_the_server_is_told() {
    for server in &mut servers("", "") {
        let peer = Peer::connect(address(server), "");
        // Who is in the middle of an upgrade does not hold it up.
        let _waiting = dial(address(server));
        server.signal(Signal::TERM);
        assert_eq!(peer.rest().closed_with(), Some((1001, "Server Shutdown".to_owned())));
        server.wait();
    }
}

#[test]
fn pings_have_their_own_interval() {
    for server in &servers("ping_interval: \"100ms\"", "ping_max: 1") {
        let peer = Peer::connect(address(server), "");
        let rest = peer.rest();
        assert_eq!(rest.lines(), ["PING", "-ERR 'Stale Connection'"]);
        assert_eq!(rest.closed_with(), Some((1001, "Stale Connection".to_owned())));
    }
}
