//! The golden files are what the real nats-server answers, where there is one.
//!
//! Without one the tests pass and say so. `MYELIN_RECORD=1` writes the files anew.

use myelin_compat::implementation::reference_program;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fixture::{Fixed, text};
use crate::golden::{REQUESTS, file, recorded};
use crate::shape::differences;

const CONFIG: &str = r#"
    listen: "127.0.0.1:-1"
    http: "127.0.0.1:-1"
    accounts { A { users [ { user: a, password: a } ] } }
"#;

pub(crate) struct Reference {
    process: Child,
    /// Kept open: the server would die of a line that it cannot write.
    log: BufReader<ChildStderr>,
    pub(crate) clients: String,
    monitor: String,
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the server and waits until it says that it is ready.
pub(crate) fn start(program: PathBuf, folder: &Path, config: &str) -> Reference {
    let file = folder.join("reference.conf");
    std::fs::write(&file, config).unwrap();
    let mut process = Command::new(program)
        .arg("-c")
        .arg(file)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let log = BufReader::new(process.stderr.take().unwrap());
    let mut reference = Reference { process, log, clients: String::new(), monitor: String::new() };
    for line in reference.log.by_ref().lines().map_while(Result::ok) {
        if let Some((_, address)) = line.split_once("http monitor on ") {
            reference.monitor = address.to_owned();
        } else if let Some((_, address)) = line.split_once("client connections on ") {
            reference.clients = address.to_owned();
        } else if line.contains("Server is ready") {
            return reference;
        }
    }
    panic!("the reference ended before it was ready");
}

impl Reference {
    /// Connects as user a, sends `commands` and waits until all are done.
    fn client(&self, connect: &str, commands: &str) -> TcpStream {
        let mut socket = TcpStream::connect(&self.clients).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(socket, "CONNECT {connect}\r\n{commands}PING\r\n").unwrap();
        let mut log = BufReader::new(socket.try_clone().unwrap());
        let mut line = String::new();
        while line.trim_end() != "PONG" {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the reference closed the connection");
        }
        socket
    }

    /// The head and the body of an answer.
    pub(crate) fn exchange(&self, target: &str) -> (String, String) {
        let mut socket = TcpStream::connect(&self.monitor).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(socket, "GET {target} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    pub(crate) fn get(&self, target: &str) -> Value {
        let (_, body) = self.exchange(target);
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{target}: {error}: {body}"))
    }
}

/// Takes out what differs between builds and runs: the commit, and the order of subscriptions,
/// which come out of a hash table.
fn settle(page: &mut Value) {
    if let Some(page) = page.as_object_mut() {
        page.shift_remove("git_commit");
    }
    let Some(rows) = page.get_mut("connections").and_then(Value::as_array_mut) else { return };
    for list in ["subscriptions_list", "subscriptions_list_detail"] {
        for row in rows.iter_mut() {
            if let Some(subs) = row.get_mut(list).and_then(Value::as_array_mut) {
                subs.sort_by_key(|sub| sub.get("sid").unwrap_or(sub).to_string());
            }
        }
    }
}

/// Requests whose answers hold nothing that differs between servers, so that every byte can be
/// compared.
const EXACT: &[&str] = &[
    "/nope",
    "/connz/",
    "/connz?auth=x%01%C3%A9%22%5C%09",
    "/connz?subs=x",
    "/connz?offset=99999999999999999999",
    "/connz?limit=-99999999999999999999",
    "/connz?limit=1_0",
    "/connz?limit=0x10",
    "/connz?limit=%20",
    "/connz?cid=-1",
    "/connz?cid=%2B1",
    "/connz?cid=18446744073709551616",
    "/connz?state=Foo",
    "/connz?sort=x%3C%22",
    "/connz?sort=stop",
    "/connz?sort=reason&state=all",
    "/connz?sort=x&limit=y&auth=z",
    "/subsz?subs=detail",
    "/subsz?test=a.*",
    "/subsz?test=a..b&subs=1",
    "/subsz?offset=1e3",
    "/healthz",
    "/healthz?details=true",
    "/healthz?details=x",
    "/healthz?js-server-only=2",
    "/healthz?account=nope",
    "/healthz?stream=x",
    "/healthz?stream=x&details=1",
    "/healthz?consumer=x&account=a",
    "/healthz?consumer=x&account=a&details=T",
    "/healthz?js-enabled-only=true",
    "/healthz?js-enabled=1&js-meta-only=1&account=A",
    "/healthz?js-meta-only=maybe&js-enabled=x",
    "/routez?subs=x",
    "/routez?subs=DETAILS",
    "/gatewayz?subs=x&accs=y",
    "/gatewayz?accs=y",
    "/leafz?subs=detail",
    "/accountz?acc=nope",
    "/accountz?acc=%3Cb%3E%20%22",
    "/accstatz?unused=x",
    "/jsz?accounts=x&streams=y",
    "/jsz?streams=y",
    "/jsz?consumers=y",
    "/jsz?direct-consumers=y",
    "/jsz?config=y&offset=z",
    "/jsz?offset=z",
    "/jsz?limit=1.5",
    "/jsz?limit=z&leader-only=z",
    "/jsz?leader-only=z",
    "/jsz?raft=z",
    "/jsz?stream-leader-only=z&leader-only=1",
    "/jsz?leader-only=1",
    "/raftz",
    "/raftz?acc=A&group=x",
    "/ipqueuesz",
    "/ipqueuesz?all=x",
    "/ipqueuesz?all=1&queues=nothing",
    "/debug",
    "/debug/vars/",
];

#[test]
fn errors_are_the_reference_to_the_byte() {
    let Some(program) = reference_program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let reference = start(program, folder.path(), CONFIG);
    let ours = Fixed::default();
    for request in EXACT {
        let (head, body) = reference.exchange(request);
        let answer = ours.ask(request);
        assert_eq!(text(&answer), body, "{request}");
        assert!(head.starts_with(&format!("HTTP/1.0 {} ", answer.status)), "{request}: {head}");
        let head = head.to_lowercase() + "\r\n";
        for (name, value) in answer.headers {
            assert!(head.contains(&format!("\r\n{name}: {value}\r\n")), "{request}: no {name} in {head}");
        }
        // Status line, date and length are not part of an answer of ours.
        assert_eq!(head.lines().count(), answer.headers.len() + 3, "{request}: {head}");
    }
}

#[test]
fn the_reference_still_answers_as_recorded() {
    let Some(program) = reference_program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let reference = start(program, folder.path(), CONFIG);
    let who = r#""user":"a","pass":"a","verbose":false"#;
    let _stays = reference.client(
        &format!(r#"{{{who},"name":"<one>&","lang":"rust","version":"1.2.3"}}"#),
        "SUB foo.* 1\r\nSUB bar q 2\r\nUNSUB 2 5\r\nPUB foo.x 2\r\nhi\r\n",
    );
    drop(reference.client(&format!("{{{who}}}"), "SUB z 1\r\n"));
    let end = Instant::now() + Duration::from_secs(10);
    while reference.get("/connz?state=closed")["total"] != 1 {
        assert!(Instant::now() < end, "the second client never left");
    }
    for (name, request) in REQUESTS {
        let mut page = reference.get(request);
        settle(&mut page);
        if std::env::var_os("MYELIN_RECORD").is_some() {
            std::fs::write(file(name), serde_json::to_string_pretty(&page).unwrap() + "\n").unwrap();
        } else {
            assert_eq!(differences(&page, &recorded(name)), Vec::<String>::new(), "{request}");
        }
    }
}
