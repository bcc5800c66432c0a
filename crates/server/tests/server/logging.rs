//! The log, line by line, against nats-server's: the same bytes are sent to both, and what both say
//! of it with `-DV` must be the same but for what is listed in [`DIFFERENCES`].
//!
//! Without a nats-server the comparison is skipped, and says so.

use crate::process::{PROGRAM, Server, Setup};
use crate::raw::Raw;
use crate::{PATIENCE, eventually};
use myelin_compat::implementation;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where our log differs on purpose: what the reference's line contains, what ours has there, and
/// why. Without a replacement the line is missing on our side.
const DIFFERENCES: [(&str, Option<&str>, &str); 4] = [
    ("ACCOUNT - ", None, "the traffic of the reference's own client for system events is not there yet"),
    (r#""[REDACTED]"cret,d}""#, Some(r#""[REDACTED]""#), "the reference shows the end of some secrets"),
    (
        r#""50%!d(string=<<-)" - x MSG_PAYLOAD: [%!q(MISSING)]"#,
        Some(r#""50%d" - <<- MSG_PAYLOAD: ["x"]"#),
        "what a client says of itself is no format",
    ),
    (
        r#""50[%!d(string=PUB) %!d(string=a 1)]" - <<- %!s(MISSING)"#,
        Some(r#""50%d" - <<- [PUB a 1]"#),
        "what a client says of itself is no format",
    ),
];

/// Lines whose moment is not in our hands: left out unless a test is about them.
const TIMERS: [&str; 3] = ["Client Ping Timer", "->> [PING]", "Delaying PING"];

/// A step of a conversation: who speaks, what, and what the log then says last.
type Step = (&'static str, &'static str, &'static str);

/// A client that sends nothing more.
const LEAVE: &str = "leave";

const HELLO: &str = concat!(
    r#"CONNECT {"verbose":false,"pedantic":false,"protocol":1,"headers":true,"no_responders":true,"#,
    r#""name":"app","lang":"go","version":"1.2"}"#,
    "\r\nPING\r\n"
);

/// The log of a conversation, from the first client on.
fn conversation(program: &Path, setup: &Setup, steps: &[Step]) -> Vec<String> {
    let server = setup.clone().program(program).start();
    let begin = server.log_len();
    let mut clients = HashMap::new();
    for (client, bytes, until) in steps {
        let from = server.log_len();
        if *bytes == LEAVE {
            clients.remove(client);
        } else {
            let raw = clients.entry(*client).or_insert_with(|| Raw::open(server.address()));
            // The server may close in the middle of it.
            let _ = raw.try_send(bytes.as_bytes());
        }
        server.wait_for_log_after(from, until);
    }
    server.log().lines().skip(begin).map(str::to_owned).collect()
}

/// Lines without what differs from run to run: process, time, addresses and client ids.
fn normalise(lines: &[String]) -> Vec<String> {
    let mut clients: Vec<String> = Vec::new();
    let mut normal: Vec<String> = Vec::new();
    for line in lines {
        let at = line.find("] [").map_or(0, |at| at + 2).max(line.find(" [").map_or(0, |at| at + 1));
        let line = &line[at..];
        let Some((level, text)) = line.split_once(' ') else { continue };
        let named = text.split_once(" - cid:").map(|(address, rest)| {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            (format!("{address}/{}", &rest[..digits]), &rest[digits..])
        });
        let text = match named {
            None => text.to_owned(),
            Some((client, rest)) => {
                let known = clients.iter().position(|c| *c == client);
                let number = known.unwrap_or_else(|| {
                    clients.push(client);
                    clients.len() - 1
                });
                format!("client {number}{rest}")
            }
        };
        normal.push(format!("{level} {text}"));
    }
    // Subscriptions of one client end in any order.
    for run in normal.chunk_by_mut(|a, b| a.contains("DELSUB") && b.contains("DELSUB")) {
        run.sort();
    }
    normal
}

/// The reference's lines as ours should be.
fn expected(reference: Vec<String>) -> Vec<String> {
    let known = |line: String| {
        let difference = DIFFERENCES.iter().find(|(theirs, _, _)| line.contains(theirs));
        match difference {
            None => Some(line),
            Some((theirs, ours, _reason)) => ours.map(|ours| line.replace(theirs, ours)),
        }
    };
    reference.into_iter().filter_map(known).collect()
}

/// Holds the same conversation with both servers and compares what they log of it; what ours says.
fn compare(setup: Setup, steps: &[Step], also_timers: bool) -> Vec<String> {
    let setup = setup.flags(&["-DV"]);
    let keep = |lines: Vec<String>| -> Vec<String> {
        let is_timer = |line: &String| TIMERS.iter().any(|timer| line.contains(timer));
        lines.into_iter().filter(|line| also_timers || !is_timer(line)).collect()
    };
    let ours = keep(normalise(&conversation(Path::new(PROGRAM), &setup, steps)));
    match implementation::reference() {
        Ok(reference) => {
            let theirs = conversation(&reference.program, &setup, steps);
            let theirs = keep(expected(normalise(&theirs)));
            assert_eq!(ours.join("\n"), theirs.join("\n"), "ours, then nats-server's");
        }
        Err(why) => eprintln!("not compared: {why}"),
    }
    ours
}

#[test]
fn a_life_with_messages() {
    let steps = [
        ("a", HELLO, "->> [PONG]"),
        ("a", "SUB foo  1\r\nSUB bar q 2\r\nsub\tbaz 3\r\nPING\r\n", "[PONG]"),
        ("a", "PUB foo 2\r\nhi\r\n", "->> MSG_PAYLOAD"),
        ("a", "PUB  foo   rep 2\r\nhi\r\n", "->> MSG_PAYLOAD"),
        ("a", "HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", "->> MSG_PAYLOAD"),
        ("a", "PUB foo 0\r\n\r\n", "->> [MSG foo 1 0]"),
        ("a", "PUB bar 3\r\n\x01\"\\\r\n", "->> MSG_PAYLOAD"),
        ("a", "PUB foo 5\r\n", "<<- [PUB foo 5]"),
        ("a", "hello\r\n", "->> MSG_PAYLOAD: [\"hello\"]"),
        ("a", "UNSUB 1 2\r\n", "<-> [DELSUB 1]"),
        ("a", "UNSUB 2\r\n", "<-> [DELSUB 2]"),
        (
            "a",
            "UNSUB 3 2\r\nPUB baz 1\r\na\r\nPUB baz 1\r\nb\r\nPUB baz 1\r\nc\r\n",
            "<<- MSG_PAYLOAD: [\"c\"]",
        ),
        ("a", "UNSUB 77\r\n+OK\r\nPONG\r\nINFO {}\r\nPUB req rep 1\r\na\r\nPING\r\n", "->> [PONG]"),
        ("a", "SUB rep 9\r\nPUB req rep 1\r\na\r\nPING\r\n", "->> [PONG]"),
        ("b", "CONNECT {\"verbose\":false,\"echo\":false,\"name\":\"other\"}\r\nSUB > x\r\n", "[SUB > x]"),
        ("a", "PUB one 3\r\nall\r\nPING\r\n", "->> [PONG]"),
        ("a", "HPUB one r 12 15\r\nNATS/1.0\r\n\r\nall\r\nPING\r\n", "->> [PONG]"),
        ("b", "PUB own 1\r\nx\r\nPING\r\n", "->> [PONG]"),
        ("b", LEAVE, "<-> [DELSUB x]"),
        ("a", LEAVE, "<-> [DELSUB 9]"),
    ];
    let ours = compare(Setup::default(), &steps, false);
    let text = ours.join("\n");
    assert!(
        text.contains("[DBG] client 0 - \"v1.2:go:app\" - Auto-unsubscribe limit of 2 reached for sid '3'")
    );
    assert!(text.contains("[TRC] client 1 - \"other\" - ->> [MSG one x r 3]"), "{text}");
}

#[test]
fn what_is_refused() {
    let steps = [
        ("a", "CONNECT {\"verbose\":true,\"pedantic\":true,\"user\":\"joe\"}\r\n", "[OK]"),
        ("a", "SUB foo..x 2\r\nPUB foo.* 1\r\na\r\nPING\r\n", "[PONG]"),
        ("a", "PUB foo\r\n", "closed: Protocol Violation"),
        ("b", "SUB a 1\r\nPUB a 1\r\nx\r\nGARBAGE\r\n", "<-> [DELSUB 1]"),
        ("c", "CONNECT {}\r\nSUB a\r\n", "closed: Protocol Violation"),
        ("d", "CONNECT {\"protocol\":7}\r\n", "- invalid client protocol"),
        ("e", "CONNECT {\"no_responders\":true}\r\n", "- no responders requires headers support"),
        ("f", "-ERR 'foo'\r\n", "closed: Parse Error"),
        ("g", "CONNECT {\"a\":\r\n", "closed: Protocol Violation"),
        ("h", "HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", "closed: Protocol Violation"),
        ("i", "PUB foo 9999999\r\n", "closed: Maximum Message Payload Exceeded"),
        ("j", "PING\r\nCONNECT {\"account\":\"X\"}\r\n", "closed: Authentication Failure"),
        ("k", "PUB foo 2\r\nhixx", "closed: Protocol Violation"),
        ("l", "UNSUB\r\n", "closed: Protocol Violation"),
        ("m", "CONNECT {\"verbose\":1}\r\n", "closed: Protocol Violation"),
        ("n", "CONNECT []\r\n", "closed: Protocol Violation"),
        ("o", "INFO xx\r\n", "closed: Protocol Violation"),
        ("p", "CONNECT {\"headers\":true}\r\nHPUB a 3 2\r\n", "closed: Protocol Violation"),
        ("q", "UNSUB 1 2 3\r\n", "closed: Protocol Violation"),
        ("r", "PUB a b c 1\r\n", "closed: Protocol Violation"),
    ];
    compare(Setup::default(), &steps, false);
}

#[test]
fn a_control_line_that_is_too_long() {
    let steps =
        [("a", "SUB aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1\r\n", "- maximum control line")];
    compare(Setup::default().config("max_control_line: 32\n"), &steps, false);
}

#[test]
fn names_and_secrets() {
    let steps = [
        ("a", "CONNECT {\"verbose\":false,\"version\":\"1\"}\r\nSUB a 1\r\n", "[SUB a 1]"),
        ("a", "CONNECT {\"name\":\"second\"}\r\nPING\r\n", "[PONG]"),
        ("b", "CONNECT {\"lang\":\"x\",\"user\":\"u\",\"pass\":\"se\\\"cret,d}\",\"sig\":\"s\"}\r\n", "[OK]"),
        ("c", "CONNECT {\"auth_token\" : \"t\",\"name\":\"a b\",\"nkey\":\"k\",\"jwt\":\"j\"}\r\n", "[OK]"),
        ("d", "CONNECT {\"verbose\":false,\"name\":\"50%d\"}\r\nPUB a 1\r\nx\r\n", "MSG_PAYLOAD"),
        ("e", "PING\r\nCONNECT {\"name\":\"late \\\"quoted\\\" \\u00e9\"}\r\nPING\r\n", "->> [OK]"),
    ];
    compare(Setup::default(), &steps, false);
}

const ACCOUNTS: &str = r#"
accounts {
  A {
    users: [{ user: a, password: a, permissions: {
      publish: { allow: ["ok.>"] }, subscribe: { allow: ["in.>", "q v1"], deny: ["in.no"] }
    } }]
    limits { max_conn: 1, max_subs: 2, max_payload: 10 }
  }
  B { users: [{ user: b, password: b }], limits { max_subs: 20, max_payload: 2000 } }
}
max_payload: 1000, max_subs: 10, max_sub_tokens: 4
"#;

#[test]
fn rights_and_limits() {
    let a = "CONNECT {\"verbose\":false,\"user\":\"a\",\"pass\":\"a\",\"name\":\"app\"}\r\nPING\r\n";
    let steps = [
        ("a", a, "[PONG]"),
        ("a", "PUB no 1\r\nx\r\n", "Publish Violation - Subject \"no\""),
        ("a", "PUB ok.1 1\r\nx\r\nPUB ok.1 _R_.x 1\r\nx\r\n", "Publish Violation - Reply \"_R_.x\""),
        ("a", "SUB no 1\r\nSUB no qq 1\r\n", "Queue: \"qq\", SID 1"),
        ("a", "SUB in.x _sys_ 4\r\nSUB in.b.c.d.e 4\r\n", "Too Many Tokens - Subject \"in.b.c.d.e\", SID 4"),
        ("a", "SUB in.> 5\r\nSUB q v1 8\r\nSUB in.c 6\r\n", "->> [-ERR maximum subscriptions exceeded]"),
        ("a", "SUB in.d 7\r\n", "->> [-ERR maximum subscriptions exceeded]"),
        ("a", "PUB $NRG.x 1\r\nx\r\n", "Publish Violation - Subject \"$NRG.x\""),
        ("b", "CONNECT {\"verbose\":false,\"user\":\"b\",\"pass\":\"b\"}\r\nPING\r\n", "[PONG]"),
        ("c", a, "Maximum Account Connections Exceeded"),
        ("d", "CONNECT {\"user\":\"a\",\"pass\":\"wrong\"}\r\n", "closed: Authentication Failure"),
        ("e", "CONNECT {\"auth_token\":\"wrong\"}\r\n", "closed: Authentication Failure"),
        ("f", "CONNECT {\"nkey\":\"wrong\"}\r\n", "closed: Authentication Failure"),
        ("g", "PING\r\n", "closed: Authentication Failure"),
        ("a", "PUB ok.1 11\r\nhello hello\r\n", "<-> [DELSUB 8]"),
    ];
    compare(Setup::default().config(ACCOUNTS), &steps, false);
}

#[test]
fn too_many_connections() {
    let steps = [
        ("a", "CONNECT {\"verbose\":false}\r\nPING\r\n", "[PONG]"),
        ("b", "", "closed: Maximum Connections Exceeded"),
    ];
    compare(Setup::default().config("max_connections: 1\n"), &steps, false);
}

#[test]
fn who_logs_in_without_credentials_has_a_name() {
    let config = "accounts { A { users: [{ user: a, password: a }] } }\nno_auth_user: a\n";
    let steps = [
        ("a", "CONNECT {\"verbose\":false,\"name\":\"x\"}\r\nPING\r\n", "[PONG]"),
        ("b", "SUB a 1\r\n", "[OK]"),
        ("b", "CONNECT {\"name\":\"y\"}\r\nPING\r\n", "[PONG]"),
    ];
    compare(Setup::default().config(config), &steps, false);
}

#[test]
fn timers() {
    let config = "ping_interval: \"300ms\", ping_max: 1\nauthorization { token: t, timeout: 0.2 }\n";
    let steps = [
        ("a", "", "closed: Authentication Timeout"),
        ("b", "CONNECT {\"verbose\":false,\"auth_token\":\"t\"}\r\nPING\r\n", "closed: Stale Connection"),
    ];
    compare(Setup::default().config(config), &steps, true);
}

#[test]
fn headers_only() {
    compare(Setup::default().config("trace_headers: true\n"), &traced_messages(), false);
}

#[test]
fn payloads_are_cut() {
    compare(Setup::default().config("max_traced_msg_len: 5\n"), &traced_messages(), false);
}

fn traced_messages() -> [Step; 5] {
    [
        ("a", "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB foo 1\r\nPING\r\n", "[PONG]"),
        ("a", "PUB foo 1\r\na\r\nPUB foo 6\r\n\"aaaaa\r\nPUB foo 5\r\naaaaa\r\nPING\r\n", "[PONG]"),
        ("a", "HPUB foo 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\nPING\r\n", "[PONG]"),
        ("a", "HPUB foo 0 2\r\nhi\r\nHPUB foo 12 12\r\nNATS/1.0\r\n\r\n\r\nPING\r\n", "[PONG]"),
        ("a", LEAVE, "DELSUB"),
    ]
}

#[test]
fn a_slow_consumer() {
    let config = "max_pending: 1000, max_payload: 1000\n";
    let blow = "PUB foo 990\r\n";
    let body = "x".repeat(990);
    let blow: &'static str = Box::leak(format!("{blow}{body}\r\n").repeat(3).into_boxed_str());
    let steps = [
        ("a", "CONNECT {\"verbose\":false}\r\nSUB foo 1\r\nPING\r\n", "[PONG]"),
        ("b", "CONNECT {\"verbose\":false}\r\nPING\r\n", "[PONG]"),
        ("b", blow, "closed: Slow Consumer (Pending Bytes)"),
    ];
    // What is traced before the end differs: only what is said of the slow one is compared.
    let setup = Setup::default().config(config).flags(&["-DV"]);
    let about = |program: &Path| -> Vec<String> {
        let lines = normalise(&conversation(program, &setup, &steps));
        lines.into_iter().filter(|line| line.contains("Slow Consumer")).collect()
    };
    let ours = about(Path::new(PROGRAM));
    let expected = [
        "[INF] client 0 - Slow Consumer Detected: MaxPending of 1000 Exceeded",
        "[DBG] client 0 - Client connection closed: Slow Consumer (Pending Bytes)",
    ];
    assert_eq!(ours, expected);
    if let Ok(reference) = implementation::reference() {
        assert_eq!(about(&reference.program), expected);
    }
}

/// A server that logs into a file, ended for sure.
struct Quiet(Child);

impl Quiet {
    fn start(program: &Path, args: &[&str]) -> Self {
        let command = Command::new(program)
            .args(["-a", "127.0.0.1", "-p", "-1"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Self(command.expect("the program starts"))
    }

    /// Text on standard error until the process ends by itself.
    fn last_words(mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        while self.0.try_wait().expect("our child").is_none() {
            assert!(Instant::now() < deadline, "it did not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::io::read_to_string(self.0.stderr.take().expect("it was piped")).expect("text")
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ours, and the reference where there is one.
pub(crate) fn programs() -> Vec<PathBuf> {
    let reference = implementation::reference();
    if let Err(why) = &reference {
        eprintln!("not compared: {why}");
    }
    std::iter::once(PathBuf::from(PROGRAM)).chain(reference.ok().map(|found| found.program)).collect()
}

/// A log file that is too large at the start: what is left of it, and of two older ones of which
/// one may stay.
#[test]
fn rotation() {
    for program in programs() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("n.log");
        let old = |day: u32| folder.path().join(format!("n.log.2020.01.0{day}.00.00.00.000000000"));
        fs::write(&path, "x".repeat(3000) + "\n").expect("a folder of ours");
        (1..=2).for_each(|day| fs::write(old(day), "old").expect("a folder of ours"));
        let config = folder.path().join("server.conf");
        let text = format!("log_file: {path:?}\nlog_size_limit: 2500\nlog_max_num: 3\n");
        fs::write(&config, text).expect("a folder of ours");
        let _server = Quiet::start(&program, &["-c", config.to_str().expect("text")]);
        let log = || fs::read_to_string(&path).unwrap_or_default();
        eventually("the server is ready", || log().contains("Server is ready"));
        let backups: Vec<_> = fs::read_dir(folder.path()).expect("a folder of ours").flatten().collect();
        let is_new = |name: &str| name.starts_with("n.log.2") && !name.starts_with("n.log.2020");
        let names = backups.iter().map(|entry| entry.path());
        let new = names
            .clone()
            .find(|path| is_new(&path.file_name().expect("it has one").to_string_lossy()))
            .expect("a backup");
        let backup = fs::read_to_string(&new).expect("a backup");
        assert!(backup.ends_with("[INF] Rotating logfile...\n"), "{backup}");
        let log = log();
        let mut lines = log.split_inclusive('\n').map(|line| line.split_once("[INF] ").expect("info").1);
        assert_eq!(lines.next(), Some(format!("Rotated log, backup saved as {new:?}\r\n").as_str()));
        // The reference does not know yet how many to keep when it rotates at the start.
        if program == Path::new(PROGRAM) {
            let purged = "Purged log file \"n.log.2020.01.01.00.00.00.000000000\"\r\n";
            assert_eq!(lines.next(), Some(purged));
            assert!(!old(1).exists() && old(2).exists());
        }
    }
}

#[test]
fn a_log_file_that_cannot_be_opened() {
    for program in programs() {
        let said = Quiet::start(&program, &["-l", "/no/such/folder/log"]).last_words();
        let words = "error opening file: open /no/such/folder/log: no such file or directory";
        assert!(said.contains(words), "{program:?}: {said}");
    }
}

/// `-D` says nothing of messages, `-V` nothing of lives, and by default neither is said.
#[test]
fn levels() {
    for (flags, debug, trace) in [
        (&["-D"][..], true, false),
        (&["-V"], false, true),
        (&["-VV"], false, true),
        (&["-DV"], true, true),
        (&["-DVV"], true, true),
        (&[], false, false),
    ] {
        for program in programs() {
            let server: Server = Setup::default().flags(flags).program(&program).start();
            let mut client = Raw::open(server.address());
            client.send("CONNECT {}\r\nPING\r\n-ERR 'bye'\r\n");
            server.wait_for_log("Client Error 'bye'");
            let log = server.log();
            assert_eq!(log.contains("[DBG] 127.0.0.1:"), debug, "{program:?} {flags:?}\n{log}");
            assert_eq!(log.contains("[TRC] 127.0.0.1:"), trace, "{program:?} {flags:?}\n{log}");
        }
    }
}
