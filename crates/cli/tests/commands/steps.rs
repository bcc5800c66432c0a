//! The steps around a benchmark, what is ours alone, and runs that must fail.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;

use crate::server::programs;
use crate::servers::Server;
use crate::{PATIENCE, fail, myelin, succeed, texts};

/// A command that has said this on its other output.
pub(crate) fn ready(arguments: &[&str], sign: &str) -> Child {
    let mut child = myelin(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (send, receive) = mpsc::channel();
    let sign = sign.to_owned();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if line.contains(&sign) {
                let _ = send.send(());
            }
        }
    });
    receive.recv_timeout(PATIENCE).unwrap();
    child
}

#[test]
fn single_messages_are_published_received_and_answered() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let sub = ready(&["sub", "a.>", "--count", "2", "--server", &url], "Subscribing on a.>");
        succeed(&mut myelin(&[
            "--server", &url, "pub", "a.b", "hello", "-H", "K:v", "--reply", "r", "--count", "2",
        ]));
        let (seen, _) = texts(&sub.wait_with_output().unwrap());
        let one = |number| format!("[#{number}] Received on \"a.b\" with reply \"r\"\nK: v\n\nhello\n\n");
        assert_eq!(seen, one(1) + &one(2));
        assert!(fail(&mut myelin(&["request", "nobody", "x", "-s", &url])).contains("nobody answers"));
        let mut serve = ready(&["bench", "service", "serve", "svc", "-s", &url], "control-c");
        assert_eq!(succeed(&mut myelin(&["request", "svc", "x", "--raw", "-s", &url])), "ok\n");
        let info = succeed(&mut myelin(&["request", "$SRV.INFO", "", "--raw", "-s", &url]));
        assert!(
            info.contains("io.nats.micro.v1.info_response") && info.contains("\"subject\":\"svc\""),
            "{info}"
        );
        serve.kill().unwrap();
        serve.wait().unwrap();
    }
}

/// The other server has no such request.
#[test]
fn a_stream_is_read_when_somebody_asks() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let create =
            ["request", "$JS.API.STREAM.CREATE.S", r#"{"name":"S","subjects":["s"]}"#, "--raw", "-s", &url];
        succeed(&mut myelin(&create));
        succeed(&mut myelin(&["request", "s", "0123456789", "--raw", "-s", &url]));
        let mut scrub = myelin(&["stream", "scrub", "S", "-s", &url]);
        if program.ends_with("myelin-server") {
            let said = succeed(&mut scrub);
            assert!(said.ends_with(": all read (11 B), whole\n"), "{said}");
            assert!(fail(&mut myelin(&["stream", "scrub", "NONE", "-s", &url])).contains("stream not found"));
        } else {
            assert!(fail(&mut scrub).contains("when it begins only"));
        }
    }
}

#[test]
fn names_that_would_break_a_line_are_refused_before_anything_is_sent() {
    // Nothing listens there.
    for wrong in [
        &["pub", "a\r\nPUB b 0", "x"][..],
        &["pub", "a", "x", "--reply", ""],
        &["request", "a b", "x"],
        &["sub", "a", ""],
        &["sub", "a", "--queue", "q 7"],
        &["stream", "info", "a.b"],
        &["stream", "rm", "-f", "*"],
        &["stream", "purge", "-f", ""],
        &["stream", "purge", "-f", "S", "--subject", "a b"],
    ] {
        let said = fail(myelin(wrong).args(["-s", "127.0.0.1:1"]));
        assert!(said.contains("must not hold") || said.contains("is empty"), "{wrong:?}: {said}");
    }
}

#[test]
fn streams_are_listed_shown_emptied_and_removed() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let stream = |arguments: &[&str]| myelin(&[&["stream"], arguments, &["-s", &url]].concat());
        assert_eq!(succeed(&mut stream(&["ls"])), "No streams\n");
        let fill = [
            "bench",
            "js",
            "pub",
            "async",
            "x",
            "--create",
            "--msgs",
            "1200",
            "--stream",
            "S",
            "--no-progress",
        ];
        succeed(&mut myelin(&[&fill[..], &["-s", &url, "--multisubject"]].concat()));
        assert_eq!(succeed(&mut stream(&["ls", "--names"])), "S\n");
        assert!(
            succeed(&mut stream(&["ls"]))
                .lines()
                .nth(1)
                .unwrap()
                .starts_with("S     file     1         1,200")
        );
        assert!(succeed(&mut stream(&["info", "S"])).contains("Subjects: x.*\n"));
        let info: serde_json::Value =
            serde_json::from_str(&succeed(&mut stream(&["info", "S", "--json"]))).unwrap();
        assert_eq!(info["state"]["messages"], 1200);
        assert!(fail(stream(&["rm", "S"]).stdin(Stdio::null())).contains("--force"));
        assert!(succeed(&mut stream(&["purge", "S", "-f", "--keep", "200"])).starts_with("1,000 messages"));
        assert!(succeed(&mut stream(&["purge", "S", "-f"])).starts_with("200 messages"));
        succeed(&mut stream(&["rm", "S", "-f"]));
        assert!(fail(&mut stream(&["info", "S"])).contains("stream not found"));
    }
}

#[test]
fn fast_batches_have_every_form_that_the_protocol_has() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let fast = |more: &[&str]| {
            let common =
                ["bench", "js", "pub", "fast", "x", "--create", "--purge", "--msgs", "1000", "-s", &url];
            succeed(&mut myelin(&[&common[..], &["--no-progress"], more].concat()));
            let info = succeed(&mut myelin(&["stream", "info", "benchstream", "--json", "-s", &url]));
            let info: serde_json::Value = serde_json::from_str(&info).unwrap();
            assert_eq!(info["state"]["messages"], 1000, "{more:?}");
        };
        fast(&["--end", "commit", "--flow", "10", "--max-outstanding-acks", "3"]);
        fast(&["--end", "close", "--batch-length", "7", "--gap", "ok", "--clients", "3"]);
        fast(&["--end", "commit", "--batch-length", "1", "--ack-timeout", "3s"]);
    }
}

#[test]
fn what_is_lost_or_refused_fails_the_run() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let bench =
            |arguments: &[&str]| myelin(&[&["bench"], arguments, &["--no-progress", "-s", &url]].concat());
        let sub =
            ["bench", "sub", "few", "--msgs", "100", "--patience", "200ms", "--no-progress", "-s", &url];
        let mut waiting = ready(&sub, "[1] Starting");
        succeed(&mut bench(&["pub", "few", "--msgs", "50"]));
        assert_eq!(waiting.wait().unwrap().code(), Some(1), "half of the messages are missing");
        let small = ["js", "pub", "async", "x", "--create", "--maxbytes", "1K", "--msgs", "100"];
        assert!(fail(&mut bench(&small)).contains("maximum bytes exceeded"));
        assert!(fail(&mut bench(&["js", "ordered", "--stream", "none"])).contains("stream not found"));
        assert!(fail(&mut bench(&["js", "get", "sync", "--msgs", "1000"])).contains("is not there"));
        assert!(fail(&mut bench(&["kv", "get"])).contains("stream not found"));
        assert!(fail(&mut bench(&["service", "request", "none", "--msgs", "1"])).contains("nobody answers"));
        assert!(fail(&mut bench(&["pub", "x", "--duration", "1s"])).contains("--throughput"));
        let large = ["pub", "x", "--msgs", "1", "--size", "2MB"];
        assert!(fail(&mut bench(&large)).contains("Maximum Payload Violation"));
    }
}

#[test]
fn a_stream_with_too_few_messages_fails_its_consumers() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let bench = |arguments: &[&str]| {
            myelin(&[&["bench", "js"], arguments, &["--no-progress", "-s", &url]].concat())
        };
        for manner in ["ordered", "consume", "fetch"] {
            succeed(&mut bench(&["pub", "async", "x", "--create", "--purge", "--msgs", "500"]));
            let short = [manner, "--msgs", "1000", "--patience", "300ms"];
            assert!(fail(&mut bench(&short)).contains("messages are missing"), "{manner}");
        }
    }
}

#[test]
fn the_driver_measures_itself() {
    let text = succeed(&mut myelin(&["bench", "null", "--msgs", "1000", "--size", "16B"]));
    let rows = ["pub ", "pub --multisubject", "sub ", "service request"];
    for row in rows {
        let line = text.lines().find(|line| line.trim_start().starts_with(row));
        assert!(line.is_some_and(|line| line.contains("msgs/sec ~ client CPU ")), "{row}: {text}");
    }
}
