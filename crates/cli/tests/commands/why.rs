//! `myelin why`, against both servers: ours finds the causes, the other is judged by its infos.

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
        // The connections of the commands above are closed.
        let closed = ["connection", "5", "--monitor", &monitor, "--json"];
        let said: Value = serde_json::from_str(&why(&closed)).unwrap();
        assert_eq!((&said["cid"], &said["causes"][0]["cause"]), (&5.into(), &"closed".into()), "{said}");
        let mut unknown = myelin(&["why", "connection", "999999", "--monitor", &monitor]);
        assert!(fail(&mut unknown).contains("knows no connection 999999"));
    }
}
