//! Drives the built `myelin bench` against a real server: the reference where it is installed, else ours.
//!
//! Small counts: this proves that the commands work together, not how fast anything is.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod servers;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

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

    /// Its further output, when it has ended well.
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
fn a_table_is_made_and_every_message_verified() {
    let Some(program) = servers::any() else { return };
    let json = std::env::temp_dir().join(format!("myelin-table-{}.json", std::process::id()));
    let mut command = bench(&["table", "--quick", "--rounds", "1", "--seconds", "0.05"]);
    command.arg("--ours").arg(&program).arg("--reference").arg(&program).arg("--json").arg(&json);
    let names = ["pub-16", "1:4-128", "queue10-4K", "4x4-128", "100k-own", "request-50", "churn"];
    let output = command.args(["--verify", "--rows", &names.join(",")]).output().unwrap();
    let table: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    std::fs::remove_file(&json).unwrap();
    assert_eq!(output.status.code(), Some(1), "a server is not 3 times as fast as itself");
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
    for row in rows {
        assert_eq!(row["failures"].as_array().map(Vec::len), Some(0), "{row}");
        for side in ["reference", "ours", "control"] {
            let values = row["figures"][0][side].as_array().unwrap();
            assert!(values.len() == 1 && values.iter().all(|value| value.as_f64() > Some(0.0)), "{row}");
        }
    }
    let markdown = stdout(&output);
    assert!(names.iter().all(|name| markdown.contains(&format!("| {name} | msgs/s | "))), "{markdown}");
}

#[test]
fn a_program_that_is_no_server_fails_its_rows_only() {
    let Some(program) = servers::any() else { return };
    let mut command = bench(&["table", "--quick", "--rounds", "1", "--seconds", "0.05", "--rows", "pub-16"]);
    let output = command.arg("--ours").arg("/bin/false").arg("--reference").arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let markdown = stdout(&output);
    assert!(markdown.contains("- pub-16: ours failed: server process: ended with"), "{markdown}");
    assert!(markdown.contains("| **FAIL** |"), "{markdown}");
}

#[test]
fn the_store_is_measured_and_leaves_nothing_behind() {
    let parent = std::env::temp_dir().join(format!("myelin-bench-store-test-{}", std::process::id()));
    let mut command = bench(&["store", "--quick", "--divide", "500", "--rounds", "1", "--dir"]);
    let output = command.arg(&parent).output().unwrap();
    let left = std::fs::read_dir(&parent).unwrap().count();
    std::fs::remove_dir_all(&parent).unwrap();
    let table = stdout(&output);
    // Goals mean nothing at such sizes and in such a build: only that everything ran.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left, 0);
    assert!(!table.contains("failed: "), "{table}");
    let rows = ["append", "always-1", "always-1000", "always-single", "subjects", "read-file", "read-memory"];
    let others =
        ["recovery", "limit-messages", "limit-bytes", "limit-1-of-100k", "limit-10-of-20k", "expiry"];
    for row in rows.iter().chain(&others) {
        assert!(table.contains(&format!("| {row} | ")), "{row}: {table}");
    }
}

#[test]
fn a_store_benchmark_without_rows_says_which_there_are() {
    let output = bench(&["store", "--rows", "nothing"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("always-single"));
}
