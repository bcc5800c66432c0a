//! Drives the built `myelin bench` against a real server: the reference where it is installed, else
//! ours.
//!
//! Small counts: this proves that the commands work together, not how fast anything is.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod servers;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Instant;

use servers::{Server, bench};

fn start(arguments: &[&str]) -> Option<Server> {
    Some(Server::start(&servers::any()?, arguments))
}

/// A command that has said it is ready.
struct Ready {
    child: Child,
    /// Kept open: who writes to a closed pipe ends.
    _messages: BufReader<ChildStderr>,
}

impl Ready {
    fn start(arguments: &[&str], sign: &str, count: usize) -> Self {
        let mut child = bench(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut seen = 0;
        while seen < count {
            let mut line = String::new();
            assert!(messages.read_line(&mut line).unwrap() > 0, "ended before {sign:?}");
            seen += usize::from(line.contains(sign));
        }
        Self { child, _messages: messages }
    }

    /// Rest of the output of the process, which must end well.
    fn finish(mut self) -> String {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        text
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    stdout(&output)
}

#[test]
fn subscribers_verify_what_publishers_publish() {
    let Some(server) = start(&[]) else { return };
    let url = server.url_of("");
    for extra in [&[][..], &["--multisubject"]] {
        let common = [&["metrics", "--server", &url, "--clients", "3"], extra].concat();
        let sub = [&["sub", "--msgs", "5000", "--verify"], &common[..]].concat();
        let subscriber = Ready::start(&sub, "] Starting Core NATS subscriber", 3);
        let publish = [&["pub", "--msgs", "5000", "--size", "200"], &common[..]].concat();
        let published = succeed(&mut bench(&publish));
        assert!(published.contains("NATS Core NATS publisher aggregated stats: "), "{published}");
        assert!(published.contains("  [3] ") && published.contains("message rates min "), "{published}");
        let received = subscriber.finish();
        assert!(received.contains("NATS Core NATS subscriber aggregated stats: "), "{received}");
        assert_eq!(received.matches("(5,000 msgs)").count(), 3, "{received}");
    }
}

#[test]
fn a_verifying_subscriber_refuses_foreign_messages() {
    let Some(server) = start(&[]) else { return };
    let url = server.url_of("");
    let sub = ["sub", "orders", "--multisubject", "--server", &url, "--msgs", "10", "--verify"];
    let mut subscriber = Ready::start(&sub, "] Starting Core NATS subscriber", 1);
    // Same subjects as the subscriber expects, but with a payload that belongs to another number.
    succeed(&mut bench(&["pub", "orders.7", "--server", &url, "--msgs", "10"]));
    assert!(!subscriber.child.wait().unwrap().success());
}

#[test]
fn requests_are_answered_and_timed() {
    let Some(server) = start(&[]) else { return };
    let url = server.url_of("");
    let request = ["service", "request", "echo", "--server", &url, "--msgs", "600", "--clients", "4"];
    let alone = bench(&request).output().unwrap();
    assert!(String::from_utf8_lossy(&alone.stderr).contains("nobody answers"));
    let serve = ["service", "serve", "echo", "--server", &url, "--size", "32", "--clients", "2"];
    let _service = Ready::start(&serve, "] Starting Core NATS service server", 2);
    let pid = server.child.id().to_string();
    let output = succeed(bench(&request).args(["--server-pid", &pid]));
    assert!(output.contains("NATS Core NATS service requester aggregated stats: "), "{output}");
    assert!(output.contains("latencies per operation ") && output.contains("server CPU "), "{output}");
}

#[test]
fn credentials_are_presented() {
    let Some(server) = start(&["--user", "joe", "--pass", "s3cret"]) else { return };
    let publish = |user_info: &str| {
        bench(&["pub", "x", "--msgs", "10", "--server", &server.url_of(user_info)]).output().unwrap()
    };
    assert!(publish("joe:s3cret@").status.success());
    for user_info in ["joe:wrong@", "token@", ""] {
        let refused = publish(user_info);
        assert!(!refused.status.success());
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains("Authorization Violation"), "{user_info}: {error}");
    }
}

#[test]
fn a_token_is_presented() {
    let Some(server) = start(&["--auth", "t0ken"]) else { return };
    succeed(&mut bench(&["pub", "x", "--msgs", "10", "--server", &server.url_of("t0ken@")]));
}

#[test]
fn a_server_without_streams_is_told_from_a_slow_one() {
    let Some(program) = servers::reference() else { return };
    let server = Server::start(&program, &[]);
    let url = server.url();
    let output = bench(&["js", "pub", "async", "x", "--create", "--server", &url]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("JetStream is not enabled"), "{error}");
}

#[test]
fn what_has_moved_says_what_to_call_instead() {
    for command in ["table", "compare", "report", "store"] {
        for arguments in [&[][..], &["--help"], &["--rows", "pub-*", "-x", "file"]] {
            let output = bench(&[&[command], arguments].concat()).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains(&format!("call: myelin-lab {command}")), "{error}");
            assert!(stdout(&output).is_empty() && arguments.iter().all(|one| error.contains(one)), "{error}");
        }
    }
}

/// A server with a listener for MQTT, and where that is.
fn start_mqtt() -> Option<(Server, String)> {
    let mqtt = servers::free_port();
    let text = format!("server_name: bench\nmqtt {{ listen: \"127.0.0.1:{mqtt}\" }}\n");
    let server = servers::configured(&servers::any()?, tempfile::tempdir().unwrap(), &text, false);
    let deadline = Instant::now() + servers::PATIENCE;
    while TcpStream::connect(("127.0.0.1", mqtt)).is_err() {
        assert!(Instant::now() < deadline, "nobody listens for MQTT");
        std::thread::yield_now();
    }
    Some((server, format!("127.0.0.1:{mqtt}")))
}

#[test]
fn messages_of_every_qos_reach_all_subscribers_of_mqtt() {
    let Some((server, address)) = start_mqtt() else { return };
    let pid = server.child.id().to_string();
    for qos in ["0", "1", "2"] {
        let clients = ["--publishers", "2", "--subscribers", "3", "--msgs", "301", "--window", "7"];
        let common = ["mqtt", "messages", "--server", &address, "--server-pid", &pid, "--qos", qos];
        let text = succeed(&mut bench(&[&common[..], &clients].concat()));
        assert!(text.contains("2 publishers, 3 subscribers, MQTT, QoS "), "{text}");
        assert!(text.contains(" msgs/sec") && text.contains(" ~ server CPU "), "{text}");
        assert_eq!(text.contains(" ~ P50: "), qos != "0", "{text}");
        let text = succeed(&mut bench(&[&common[..], &["--msgs", "50", "--asleep"]].concat()));
        assert!(text.contains("1 publishers, a session whose client is not there, MQTT"), "{text}");
    }
}

#[test]
fn sessions_of_mqtt_are_made_and_retained_messages_read() {
    let Some((server, address)) = start_mqtt() else { return };
    let pid = server.child.id().to_string();
    let common = ["mqtt", "--server", &address, "--server-pid", &pid];
    let run = |load: &[&str]| succeed(&mut bench(&[&common[..], load].concat()));
    let text = run(&["sessions", "--count", "20", "--filters", "3", "--leave"]);
    assert!(text.contains(" sessions/sec, 3 filters each ~ server CPU "), "{text}");
    let text = run(&["retained", "--count", "1500"]);
    assert!(text.contains("1,500 retained messages: 1,000 in "), "{text}");
    let text = run(&["idle", "--count", "10"]);
    assert!(text.contains("10 idle connections ~ server memory "), "{text}");
}
