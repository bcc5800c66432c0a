//! The page's socket: a client like others, for pages from here only.

use super::{ACCOUNTS, pages, start};
use crate::eventually;
use crate::jetstream::Home;
use crate::process::{PROGRAM, Server, Setup};
use crate::tls::Lab;
use crate::websocket::peer::{Peer, UPGRADE, dial, read_head};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Command;

/// The page's socket, open and greeted by the server.
fn open(server: &Server) -> Peer {
    Peer::over_path(dial(pages(server)), "/ui/nats", "Origin: http://localhost\r\n")
}

/// The page's socket, signed in.
pub(super) fn sign_in(server: &Server, user: &str) -> Peer {
    let mut peer = open(server);
    let answers = ",\"headers\":true,\"no_responders\":true";
    peer.greet(&format!("{answers},\"user\":\"{user}\",\"pass\":\"{user}'s\""));
    peer.say("SUB _INBOX.x.> 1\r\n");
    peer
}

/// The answer to a request; nothing where the server has refused it, with its words.
pub(super) fn request(peer: &mut Peer, subject: &str, body: &Value) -> Result<Value, String> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    peer.say(&format!("PUB {subject} _INBOX.x.1 {}\r\n{body}\r\nPING\r\n", body.len()));
    loop {
        let line = peer.line();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["MSG", .., len] => {
                let body = peer.take(len.parse::<usize>().expect("a length") + 2);
                return Ok(serde_json::from_slice(&body).expect("JSON"));
            }
            ["HMSG", ..] => return Err("no responders".to_owned()),
            ["-ERR", ..] => return Err(line),
            _ => {}
        }
    }
}

fn names(peer: &mut Peer) -> Value {
    request(peer, "$JS.API.STREAM.NAMES", &Value::Null).expect("an answer")["streams"].clone()
}

#[test]
fn a_user_sees_its_own_account_and_nothing_of_others() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let (mut ann, mut bob) = (sign_in(&server, "ann"), sign_in(&server, "bob"));
    for (peer, stream) in [(&mut ann, "OF_A"), (&mut bob, "OF_B")] {
        let config = json!({ "name": stream, "subjects": ["s"] });
        let made = request(peer, &format!("$JS.API.STREAM.CREATE.{stream}"), &config).expect("an answer");
        assert_eq!(made["config"]["name"], stream, "{made}");
    }
    assert_eq!(names(&mut ann), json!(["OF_A"]));
    assert_eq!(names(&mut bob), json!(["OF_B"]));
    let theirs = request(&mut ann, "$JS.API.STREAM.INFO.OF_B", &Value::Null).expect("an answer");
    assert_eq!(theirs["error"]["code"], 404, "{theirs}");
    // Requests to the system account are not for users of other accounts.
    for subject in ["$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.ACCOUNT.B.CONNZ", "$SYS.REQ.SERVER.PING.JSZ"] {
        let answer = request(&mut ann, subject, &Value::Null);
        assert_eq!(answer, Err("no responders".to_owned()), "{subject}");
    }
    let own = request(&mut ann, "$SYS.REQ.ACCOUNT.PING.CONNZ", &json!({ "auth": true })).expect("an answer");
    let users = own["data"]["connections"].as_array().expect("a list");
    assert!(!users.is_empty() && users.iter().all(|conn| conn["account"] == "A"), "{own}");
    // What a user may not ask, it may not ask here either.
    let mut amy = sign_in(&server, "amy");
    assert_eq!(names(&mut amy), json!(["OF_A"]));
    let refused = request(&mut amy, "$JS.API.STREAM.PURGE.OF_A", &Value::Null).expect_err("it is refused");
    assert!(refused.contains("Permissions Violation"), "{refused}");
}

#[test]
fn strangers_see_nothing_and_wrong_passwords_are_told() {
    let home = Home::new();
    let server = start(&home, &format!("{ACCOUNTS}\nauthorization {{ timeout: 0.5 }}"));
    let mut wrong = open(&server);
    assert_eq!(wrong.info()["auth_required"], true);
    wrong.say("CONNECT {\"user\":\"ann\",\"pass\":\"<img src=x>\"}\r\nPING\r\n");
    assert_eq!(wrong.rest().lines(), ["-ERR 'Authorization Violation'"]);
    assert_eq!(
        open(&server).rest().lines().last().map(String::as_str),
        Some("-ERR 'Authentication Timeout'")
    );
    let mut eager = open(&server);
    eager.info();
    eager.say("SUB > 1\r\n");
    let lines = eager.rest().lines();
    assert!(lines.iter().all(|line| line.starts_with("-ERR")), "{lines:?}");
    assert_eq!(server.connections(), 0);
}

#[test]
fn only_a_page_from_here_may_open_it() {
    let server = Server::with_config("dashboard: true\n");
    let upgrade = |headers: &str| {
        let mut stream = dial(pages(&server));
        write!(stream, "GET /ui/nats HTTP/1.1\r\n{headers}\r\n").expect("the server reads");
        read_head(&mut stream).expect("the server answers").split("\r\n").next().map(str::to_owned)
    };
    for (headers, status) in [
        (format!("{UPGRADE}Origin: http://localhost\r\n"), "HTTP/1.1 101 Switching Protocols"),
        (format!("{UPGRADE}Origin: http://evil.example\r\n"), "HTTP/1.1 403 Forbidden"),
        (format!("{UPGRADE}Origin: https://localhost\r\n"), "HTTP/1.1 403 Forbidden"),
        (format!("{UPGRADE}Origin: null\r\n"), "HTTP/1.1 403 Forbidden"),
        ("Host: localhost\r\n".to_owned(), "HTTP/1.1 400 Bad Request"),
    ] {
        assert_eq!(upgrade(&headers).as_deref(), Some(status), "{headers}");
    }
}

/// A page of any site can have its name lead to this machine, so where nobody has to sign in the
/// name has to be the machine's own.
#[test]
fn where_everybody_is_let_in_only_our_own_names_may_open_it() {
    let upgrade = |server: &Server, host: &str| {
        let mut stream = dial(pages(server));
        let headers = UPGRADE.replace("Host: localhost", &format!("Host: {host}"));
        write!(stream, "GET /ui/nats HTTP/1.1\r\n{headers}Origin: http://{host}\r\n\r\n").expect("it reads");
        let answer = read_head(&mut stream).expect("the server answers");
        answer.split(' ').nth(1).map(str::to_owned)
    };
    let open = Server::with_config("dashboard: true\nclient_advertise: \"n1.example:4222\"\n");
    for host in ["127.0.0.1:8222", "[::1]:8222", "LocalHost:8222", "10.1.2.3", "n1.example:8222"] {
        assert_eq!(upgrade(&open, host).as_deref(), Some("101"), "{host}");
    }
    for host in ["evil.example:8222", "localhost.evil.example", "127.0.0.1.evil.example", "n1.example.com"] {
        assert_eq!(upgrade(&open, host).as_deref(), Some("403"), "{host}");
    }
    let users = "accounts { A { users: [{ user: a, password: b }] } }";
    let closed = Server::with_config(&format!("dashboard: true\n{users}\n"));
    assert_eq!(upgrade(&closed, "anything.example:8222").as_deref(), Some("101"));
    let as_one = Server::with_config(&format!("dashboard: true\nno_auth_user: a\n{users}\n"));
    assert_eq!(upgrade(&as_one, "evil.example:8222").as_deref(), Some("403"));
}

/// The page of HTTPS opens its socket over the same TLS, whole and in small pieces.
#[test]
fn it_is_encrypted_where_the_page_is() {
    let lab = Lab::new();
    let block = lab.block("");
    let server = Setup::default().config(&format!("https: \"127.0.0.1:-1\"\ndashboard: true\n{block}"));
    let server = server.secure().start();
    let at = server.monitor("Starting https monitor on ");
    let origin = "Origin: https://localhost\r\n";
    let mut peer = Peer::over_path(lab.shake(dial(at), None).into_stream(), "/ui/nats", origin);
    assert_eq!(peer.info()["tls_required"], true);
    peer.say("CONNECT {\"verbose\":false}\r\nSUB a 1\r\n");
    let payload = "x".repeat(300_000);
    peer.say(&format!("PUB a 300000\r\n{payload}\r\n"));
    assert_eq!(peer.line(), "MSG a 1 300000");
    assert_eq!(peer.take(300_002), format!("{payload}\r\n").as_bytes());
}

/// The port of the pages asks for no certificate, and is no way around one.
#[test]
fn there_is_none_where_clients_have_to_show_certificates() {
    let lab = Lab::new();
    for demand in ["verify: true, ca_file: \"@ca.pem\"", "verify_and_map: true, ca_file: \"@ca.pem\""] {
        let config = lab.file("server.conf");
        let text = format!("port: -1\ndashboard: true\n{}", lab.block(demand));
        std::fs::write(&config, text).expect("the folder takes files");
        let output = Command::new(PROGRAM).arg("-c").arg(&config).output().expect("the program ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("dashboard is not possible where tls asks clients for certificates"), "{said}");
    }
}

#[test]
fn a_lame_duck_takes_nobody() {
    let server =
        Server::with_config("dashboard: true\nlame_duck_duration: 60s\nlame_duck_grace_period: 50s\n");
    let mut there = open(&server);
    there.greet("");
    server.signal(Signal::USR2);
    eventually("the socket is refused", || {
        let mut stream = dial(pages(&server));
        write!(stream, "GET /ui/nats HTTP/1.1\r\n{UPGRADE}Origin: http://localhost\r\n\r\n")
            .expect("it reads");
        let answer = read_head(&mut stream).expect("it answers");
        answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n")
    });
}

/// Connections of the page are shown as what they are, count as clients, and cost no place of
/// HTTP.
#[test]
fn it_counts_as_a_client_over_websocket() {
    let server = Server::with_config("dashboard: true\nmax_connections: 2\n");
    let mut first = open(&server);
    first.greet(",\"name\":\"<img src=x onerror=alert(1)>\"");
    let page = server.page("/connz");
    let shown = &page["connections"][0];
    assert_eq!(
        (&shown["type"], &shown["name"]),
        (&json!("websocket"), &json!("<img src=x onerror=alert(1)>"))
    );
    let mut second = open(&server);
    second.greet("");
    assert_eq!(open(&server).rest().lines(), ["-ERR 'maximum connections exceeded'"]);
    drop((first, second));
    eventually("both have left", || server.connections() == 0);
}

#[test]
fn operators_read_the_last_lines_of_the_log_while_there_is_a_dashboard() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut sys = sign_in(&server, "sys");
    let id = server.page("/varz")["server_id"].as_str().expect("an id").to_owned();
    let subject = format!("$SYS.REQ.SERVER.{id}.MYELIN.LOG");
    let all = request(&mut sys, &subject, &Value::Null).expect("an answer");
    let lines = all["data"]["lines"].as_array().expect("lines");
    let ready = lines.iter().find(|line| line["text"] == "Server is ready").expect("it was logged");
    assert_eq!(ready["level"], "INF");
    let last = lines.last().expect("there are some")["seq"].clone();
    let none = request(&mut sys, &subject, &json!({ "after": last })).expect("an answer");
    assert_eq!(none["data"]["lines"], json!([]));
    let wrong = request(&mut sys, &subject, &json!({ "after": -1 })).expect("an answer");
    assert_eq!(wrong["error"]["code"], 400);
    let mut ann = sign_in(&server, "ann");
    assert_eq!(request(&mut ann, &subject, &Value::Null), Err("no responders".to_owned()));
    let text = std::fs::read_to_string(server.config_file()).expect("the configuration");
    server.reload(&text.replace("dashboard: true", "dashboard: false"));
    assert_eq!(request(&mut sys, &subject, &Value::Null), Err("no responders".to_owned()));
    server.reload(&text);
    let again = request(&mut sys, &subject, &Value::Null).expect("an answer");
    assert_eq!(again["data"]["lines"].as_array().map(|lines| lines.len() < 5), Some(true), "{again}");
}
