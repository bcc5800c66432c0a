//! SIGHUP: what changes in a running server, what is refused, and what clients see of it.

use crate::eventually;
use crate::process::{PROGRAM, Server};
use crate::raw::Raw;
use std::fs;
use std::process::Command;

fn users(list: &[&str]) -> String {
    format!("authorization {{ users: [ {} ] }}", list.join(", "))
}

/// A client that has logged in.
fn login(server: &Server, user: &str, password: &str) -> Raw {
    let mut raw = Raw::open(server.address());
    raw.send(&format!("CONNECT {{\"verbose\":false,\"user\":\"{user}\",\"pass\":\"{password}\"}}\r\n"));
    raw.barrier();
    raw
}

fn assert_logged(lines: &[String], text: &str) {
    assert!(lines.iter().any(|line| line.ends_with(text)), "{text:?} is not in {lines:#?}");
}

#[test]
fn limits_change_for_old_and_new_connections() {
    let server = Server::with_config("max_payload: 1000");
    let mut old = Raw::connect(&server);
    let lines = server.reload("max_payload: 10\nping_interval: \"50s\"");
    assert_logged(&lines, "[INF] Reloaded: max_payload = 10");
    assert_logged(&lines, "[INF] Reloaded: ping_interval = 50s");
    assert_eq!(server.page("/varz")["max_payload"], 10);
    let mut new = Raw::over(std::net::TcpStream::connect(server.address()).unwrap());
    assert!(new.line().contains("\"max_payload\":10,"));
    for raw in [&mut old, &mut new] {
        raw.send("PUB a 11\r\n");
    }
    for raw in [old, new] {
        assert_eq!(raw.rest(), "-ERR 'Maximum Payload Violation'\r\n");
    }
}

#[test]
fn a_refused_reload_changes_nothing() {
    let server = Server::with_config("max_payload: 1000");
    let page = server.page("/varz");
    for (config, reason) in [
        (
            "max_payload: 10\nserver_name: other",
            "config reload not supported for ServerName: old=, new=other",
        ),
        ("max_payload: 10\nunheard_of: 1", "server.conf:2:1: unknown field \"unheard_of\""),
        (
            "max_payload: 10\nlog_file: \"/no/such/folder/log\"",
            "error opening file: open /no/such/folder/log: no such file or directory",
        ),
        (
            "max_payload: 10\nproxy_protocol: true",
            "config reload not supported for ProxyProtocol: old=false, new=true",
        ),
    ] {
        let lines = server.reload(config);
        assert!(
            lines.iter().any(|line| line.contains("Failed to reload") && line.contains(reason)),
            "{lines:#?}"
        );
        assert!(!lines.iter().any(|line| line.contains("Reloaded")), "{lines:#?}");
    }
    let after = server.page("/varz");
    for field in ["max_payload", "config_digest", "config_load_time", "server_name"] {
        assert_eq!(after[field], page[field], "{field}");
    }
    Raw::connect(&server).publish("a", &"x".repeat(500));
}

#[test]
fn a_file_that_cannot_be_written_does_not_refuse_a_reload() {
    let server = Server::with_config("max_payload: 1000");
    let lines = server.reload("max_payload: 10\npid_file: \"/no/such/pid\"\nports_file_dir: \"/no/such\"");
    let missing = "no such file or directory";
    assert_logged(&lines, &format!("[ERR] Failed to write pidfile: open /no/such/pid: {missing}"));
    let ports = lines.iter().find(|line| line.contains("ports file")).expect("a line about the ports file");
    assert!(
        ports.contains("[ERR] Error writing ports file (/no/such/") && ports.ends_with(missing),
        "{ports}"
    );
    assert_eq!(ports.matches("ports file").count(), 1, "{ports}");
    assert_eq!(server.page("/varz")["max_payload"], 10);
}

#[test]
fn a_server_without_a_file_has_nothing_to_reload() {
    let server = Server::start();
    server.signal(rustix::process::Signal::HUP);
    let line = server.wait_for_log("Failed to reload server configuration");
    assert!(line.ends_with("can only reload config when a file is provided using -c or --config"), "{line}");
    Raw::connect(&server);
}

#[test]
fn users_who_changed_have_to_connect_again() {
    let server = Server::with_config(&users(&[
        "{user: same, password: p}",
        "{user: changed, password: p}",
        "{user: gone, password: p}",
        "{user: moved, password: p}",
    ]));
    let [mut same, changed, gone, moved] =
        ["same", "changed", "gone", "moved"].map(|user| login(&server, user, "p"));
    same.subscribe("a", 1);
    let lines = server.reload(&format!(
        "{}\naccounts {{ A {{ users: [ {{user: moved, password: p}} ] }} }}",
        users(&["{user: same, password: p}", "{user: changed, password: other}"])
    ));
    assert_logged(&lines, "[INF] Reloaded: authorization users");
    assert_eq!(changed.rest(), "-ERR 'Authorization Violation'\r\n");
    assert_eq!(gone.rest(), "");
    assert_eq!(moved.rest(), "");
    same.publish("a", "still here");
    assert_eq!(same.message().text(), "still here");
    let _moved = login(&server, "moved", "p");
    login(&server, "changed", "other");
    assert_eq!(server.page("/connz?auth=1&user=moved")["connections"][0]["account"], "A");
}

/// Hashes are checked off the data path.
#[test]
fn hashed_passwords_are_checked_again_too() {
    const PA: &str = "$2a$04$HC3pb82UrzraClGLwypBgOiyUbVMgoaS1XYV5Dr5RzehWUR8aIg6K";
    let other = PA.replace("HC3pb82", "HC3pb83");
    let server = Server::with_config(&users(&[
        &format!("{{user: same, password: \"{PA}\"}}"),
        &format!("{{user: changed, password: \"{PA}\"}}"),
    ]));
    let (mut same, changed) = (login(&server, "same", "pa"), login(&server, "changed", "pa"));
    server.reload(&users(&[
        &format!("{{user: same, password: \"{PA}\", permissions: {{ publish: x }}}}"),
        &format!("{{user: changed, password: \"{other}\"}}"),
    ]));
    assert_eq!(changed.rest(), "-ERR 'Authorization Violation'\r\n");
    eventually("the new permissions hold", || {
        same.publish("y", "");
        same.send("PING\r\n");
        let mut refused = false;
        loop {
            match same.line() {
                line if line == "PONG" => return refused,
                line => refused |= line == "-ERR 'Permissions Violation for Publish to \"y\"'",
            }
        }
    });
}

#[test]
fn anonymous_clients_leave_when_credentials_are_required() {
    let server = Server::with_config("");
    let anonymous = Raw::connect(&server);
    let mut named = login(&server, "a", "p");
    server.reload(&users(&["{user: a, password: p}"]));
    assert_eq!(anonymous.rest(), "-ERR 'Authorization Violation'\r\n");
    assert_eq!(named.barrier(), []);
    let mut raw = Raw::over(std::net::TcpStream::connect(server.address()).unwrap());
    assert!(raw.line().contains("\"auth_required\":true"));
}

#[test]
fn new_permissions_end_subscriptions_and_deliveries() {
    let server = Server::with_config(&users(&["{user: a, password: p}", "{user: b, password: p}"]));
    let (mut a, mut b) = (login(&server, "a", "p"), login(&server, "b", "p"));
    a.send("SUB foo 1\r\nSUB bar 2\r\nSUB * 3\r\n");
    a.barrier();
    b.publish("bar", "");
    b.barrier();
    assert_eq!((a.message().sid, a.message().sid), ("2".to_owned(), "3".to_owned()));
    let permissions =
        "{user: a, password: p, permissions: { subscribe: { allow: [foo, \"*\"], deny: bar } } }";
    let lines = server.reload(&users(&[permissions, "{user: b, password: p}"]));
    assert_logged(&lines, "[INF] Reloaded: accounts");
    assert_eq!(a.line(), "-ERR 'Permissions Violation for Subscription to \"bar\" (sid \"2\")'");
    server.wait_for_log("Removed sub \"bar\" (sid \"2\") for User \"a\" - not authorized");
    b.publish("bar", "denied");
    b.publish("foo", "allowed");
    b.barrier();
    assert_eq!((a.message().subject, a.message().subject), ("foo".to_owned(), "foo".to_owned()));
    assert_eq!(a.barrier(), []);
}

#[test]
fn too_many_connections_are_shed() {
    let server = Server::with_config("");
    let clients: Vec<Raw> = (0..5).map(|_| Raw::connect(&server)).collect();
    let lines = server.reload("max_connections: 2");
    assert_logged(&lines, "[INF] Closed 3 connections to fall within max_connections");
    assert_logged(&lines, "[INF] Reloaded: max_connections = 2");
    eventually("two connections are left", || server.connections() == 2);
    let stay = server.page("/connz")["connections"].as_array().map(Vec::len);
    assert_eq!(stay, Some(2));
    server.wait_for_close("Maximum Connections Exceeded");
    drop(clients);
}

#[test]
fn limits_of_accounts_change() {
    let config = |limits: &str| {
        format!("accounts {{ A {{ users: [ {{user: a, password: p}} ], limits: {{ {limits} }} }} }}")
    };
    let server = Server::with_config(&config("max_subs: 1"));
    let mut a = login(&server, "a", "p");
    a.send("SUB x 1\r\nSUB y 2\r\n");
    assert_eq!(a.line(), "-ERR 'maximum subscriptions exceeded'");
    server.reload(&config("max_subs: 2, max_connections: 1"));
    a.send("SUB y 2\r\n");
    assert_eq!(a.barrier(), []);
    let mut second = Raw::open(server.address());
    second.send("CONNECT {\"user\":\"a\",\"pass\":\"p\"}\r\n");
    assert_eq!(second.rest(), "-ERR 'maximum account active connections exceeded'\r\n");
    // Who is too many already has to go, the newest first.
    server.reload(&config("max_connections: 3"));
    let newer = [login(&server, "a", "p"), login(&server, "a", "p")];
    server.reload(&config("max_connections: 1"));
    for client in newer {
        assert_eq!(client.rest(), "-ERR 'maximum account active connections exceeded'\r\n");
    }
    assert_eq!(a.barrier(), []);
}

#[test]
fn the_log_follows_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let server = Server::with_config("");
    let mut raw = Raw::connect(&server);
    fs::write(&file, "").unwrap();
    // The answer comes in the new log, so what the server says on standard error cannot be waited
    // for.
    fs::write(server.config_file(), format!("log_file: \"{}\"\ntrace: true", file.display())).unwrap();
    server.signal(rustix::process::Signal::HUP);
    let log = || fs::read_to_string(&file).unwrap();
    eventually("the new log", || log().contains("Reloaded server configuration"));
    assert!(log().contains("[INF] Reloaded: trace = true\n"), "{}", log());
    raw.send("PUB traced 0\r\n\r\n");
    eventually("a trace", || log().contains("<<- [PUB traced 0]"));
}

#[test]
fn files_and_what_clients_are_told_follow() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let server = Server::with_config("client_advertise: \"1.2.3.4:5\"");
    let info = || {
        let mut raw = Raw::over(std::net::TcpStream::connect(server.address()).unwrap());
        raw.line()
    };
    assert!(info().contains("\"host\":\"1.2.3.4\",\"port\":5,"));
    let path = folder.path().display();
    server.reload(&format!("pid_file: \"{}\"\nports_file_dir: \"{path}\"", pid.display()));
    assert_eq!(fs::read_to_string(&pid).unwrap(), server.pid().to_string());
    let port = server.address().port();
    assert!(info().contains(&format!("\"host\":\"127.0.0.1\",\"port\":{port},")), "{}", info());
    let ports = folder.path().join(format!("myelin-server_{}.ports", server.pid()));
    assert!(fs::read_to_string(&ports).unwrap().contains(&port.to_string()));
    server.reload("");
    assert!(!ports.exists());
}

#[test]
fn flags_still_win_and_the_command_line_can_ask() {
    let server = Server::with_config("port: 4999\ndebug: false");
    let pid = server.pid().to_string();
    let status = Command::new(PROGRAM).args(["--signal", &format!("reload={pid}")]).status().unwrap();
    assert!(status.success());
    server.wait_for_log("Reloaded server configuration (sha256:");
    Raw::connect(&server);
}

#[test]
fn files_that_cannot_be_written_are_named_once() {
    let server = Server::with_config("");
    let lines = server.reload("pid_file: \"/no/such/pid\"\nports_file_dir: \"/no/such\"");
    assert_logged(&lines, "[ERR] Failed to write pidfile: open /no/such/pid: no such file or directory");
    let ports = lines.iter().find(|line| line.contains("ports file")).unwrap();
    assert_eq!(ports.matches("Error writing ports file").count(), 1, "{ports}");
}
