//! `myelin why`, against both servers: ours finds the causes, the other is judged by its infos.

use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::tempdir;

use crate::server::{configured, programs};
use crate::servers;
use crate::{fail, myelin, succeed};

#[test]
fn what_holds_back_is_told_with_its_remedy() {
    for program in programs() {
        let monitor = format!("127.0.0.1:{}", servers::free_port());
        let config = format!("http: \"{monitor}\"\n");
        let server = configured(&program, tempdir().unwrap(), &config, false);
        let url = server.url();
        let ask = |what: &str, body: &str| {
            let subject = format!("$JS.API.{what}");
            succeed(&mut myelin(&["request", &subject, body, "--raw", "-s", &url]))
        };
        ask("STREAM.CREATE.ORDERS", r#"{"name":"ORDERS","subjects":["o.>"],"max_msgs":1,"discard":"new"}"#);
        let consumer =
            r#"{"stream_name":"ORDERS","config":{"durable_name":"billing","ack_policy":"explicit"}}"#;
        ask("CONSUMER.DURABLE.CREATE.ORDERS.billing", consumer);
        succeed(&mut myelin(&["request", "o.new", "x", "--raw", "-s", &url]));
        let is_ours = program.ends_with("myelin-server");

        let why = |arguments: &[&str]| {
            let mut whole = vec!["why"];
            whole.extend(arguments);
            whole.extend(["-s", &url]);
            succeed(&mut myelin(&whole))
        };
        let said = why(&["consumer", "ORDERS", "billing"]);
        assert!(said.starts_with("Consumer ORDERS > billing, "), "{said}");
        assert!(said.contains("\n1. no_pull_waits (holds everything back)\n"), "{said}");
        assert!(said.contains("\n   Remedy: start the application"), "{said}");
        assert_eq!(said.contains("judged by its info"), !is_ours, "{said}");
        let said: Value = serde_json::from_str(&why(&["stream", "ORDERS", "--json"])).unwrap();
        let first = &said["causes"][0];
        assert_eq!((&first["cause"], &first["numbers"]["limit"]), (&"full".into(), &1.into()), "{said}");
        assert_eq!(said["judged_by"], if is_ours { Value::Null } else { "info".into() });

        let mut refused = myelin(&["why", "consumer", "ORDERS", "nobody", "-s", &url]);
        assert!(fail(&mut refused).contains("consumer not found"));
        // The connections of the commands above are closed. Their numbers are the server's.
        let deadline = Instant::now() + Duration::from_secs(20);
        let said = loop {
            let closed = |cid: u32| {
                let words = ["why", "connection", &cid.to_string(), "--monitor", &monitor, "--json"];
                let output = myelin(&words).output().expect("the program runs");
                let said: Value = serde_json::from_slice(&output.stdout).ok()?;
                (said["cid"] == cid && said["causes"][0]["cause"] == "closed").then_some(said)
            };
            if let Some(said) = (1..20).rev().find_map(closed) {
                break said;
            }
            assert!(Instant::now() < deadline, "no closed connection is known");
        };
        assert!(said["causes"][0]["numbers"]["reason"].is_string(), "{said}");
        let mut unknown = myelin(&["why", "connection", "999999", "--monitor", &monitor]);
        assert!(fail(&mut unknown).contains("knows no connection 999999"));
    }
}

/// Builds with debug assertions panic where a file asks them to.
#[test]
fn a_panic_of_a_consumer_is_named_first() {
    let Some(program) = servers::built(["debug", "debug", "debug"]) else {
        return eprintln!("skipped: target/debug/myelin-server was not found");
    };
    let folder = tempdir().unwrap();
    let monitor = format!("127.0.0.1:{}", servers::free_port());
    let (mut command, port) = servers::listening(&program);
    let directory = tempdir().unwrap();
    command.args(["-js", "-m", &monitor["127.0.0.1:".len()..], "-sd"]).arg(directory.path());
    command.env("MYELIN_TEST_PANIC", folder.path());
    let server = servers::Server::run(command, port, directory, false);
    let url = server.url();
    let ask = |what: &str, body: &str| {
        let subject = format!("$JS.API.{what}");
        succeed(&mut myelin(&["request", &subject, body, "--raw", "-s", &url]))
    };
    ask("STREAM.CREATE.S", r#"{"name":"S","subjects":["o.>"]}"#);
    let consumer = r#"{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit",
        "priority_policy":"pinned_client","priority_groups":["A"],"priority_timeout":60000000000}}"#;
    ask("CONSUMER.DURABLE.CREATE.S.C", consumer);
    succeed(&mut myelin(&["request", "o.new", "x", "--raw", "-s", &url]));
    let why = |words: &[&str]| {
        let more = ["--monitor", &monitor, "-s", &url];
        succeed(&mut myelin(&[&["why"], words, &more].concat()))
    };
    assert!(!why(&["consumer", "S", "C"]).contains("panicked"));
    std::fs::write(folder.path().join("js-consumer"), "").unwrap();
    // Nobody is answered: the pull request goes with the panic.
    let (next, pull) = ("$JS.API.CONSUMER.MSG.NEXT.S.C", r#"{"batch":1,"group":"A"}"#);
    fail(&mut myelin(&["request", next, pull, "--timeout", "1s", "-s", &url]));
    let deadline = std::time::Instant::now() + servers::PATIENCE;
    let said = loop {
        let said = why(&["consumer", "S", "C"]);
        if said.contains("panicked") {
            break said;
        }
        assert!(std::time::Instant::now() < deadline, "{said}");
    };
    assert!(
        said.contains("\n1. panicked (holds some back)\n   consumer '$G > S > C' has panicked once"),
        "{said}"
    );
    assert!(said.contains("it is opened anew") && said.contains("\n   Remedy: a bug of Myelin"), "{said}");
    assert!(why(&["stream", "S"]).contains("\n1. panicked (holds some back)\n"));
}
