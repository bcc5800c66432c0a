//! `MYELIN.WHY`: each cause is made on the real server, and named first.

mod consumers;
mod streams;

use super::{Asker, Home, publish};
use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use serde_json::{Value, json};

/// A server with JetStream, and who asks it.
struct Scene {
    server: Server,
    asker: Asker,
    _home: Home,
}

impl Scene {
    fn start() -> Self {
        Self::with("")
    }

    /// With these lines in the `jetstream` block.
    fn with(lines: &str) -> Self {
        let home = Home::new();
        let server = home.start(lines);
        let asker = Asker::connect(&server);
        Self { server, asker, _home: home }
    }

    fn consumer(&mut self, stream: &str, consumer: &str, config: Value) {
        let mut whole = json!({ "durable_name": consumer, "ack_policy": "explicit" });
        let more = config.as_object().expect("an object").clone();
        whole.as_object_mut().expect("an object").extend(more);
        let request = json!({ "stream_name": stream, "config": whole });
        self.asker.api(&format!("CONSUMER.DURABLE.CREATE.{stream}.{consumer}"), &request);
    }

    /// A stream in memory with so many messages of so many bytes.
    fn filled(&mut self, stream: &str, messages: usize, size: usize) {
        self.asker.create(stream, &json!({ "storage": "memory" }));
        for _ in 0..messages {
            self.asker.raw.send_bytes(&publish(&format!("{stream}.a"), "", "", &vec![b'x'; size]));
        }
        let asker = &mut self.asker;
        eventually("the stream is filled", || asker.number(stream, "messages") == messages as u64);
    }

    /// Asks for messages; they come to whoever listens to `reply`.
    fn pull(&mut self, stream: &str, consumer: &str, reply: &str, body: &Value) {
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        self.asker.raw.send_bytes(&publish(&next, reply, "", body.to_string().as_bytes()));
        self.asker.raw.barrier();
    }

    /// Takes one message; answers where its acknowledgement goes.
    fn take(&mut self, stream: &str, consumer: &str) -> String {
        let (next, inbox) = (format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"), self.asker.reply());
        self.asker.raw.send_bytes(&publish(&next, &inbox, "", b"1"));
        let reply = self.asker.raw.message().reply.expect("it wants an answer");
        assert!(reply.starts_with("$JS.ACK."), "{reply}");
        reply
    }

    /// Waits until this is the first cause, and answers it.
    fn first(&mut self, what: &str, (cause, holds): (&str, &str)) -> Value {
        let (mut first, asker) = (Value::Null, &mut self.asker);
        let mut said = Value::Null;
        let deadline = std::time::Instant::now() + crate::PATIENCE;
        while first["cause"] != cause || first["holds"] != holds {
            assert!(std::time::Instant::now() < deadline, "{cause} is not first: {said}");
            said = asker.api(&format!("MYELIN.WHY.{what}"), &Value::Null);
            first = said["causes"][0].clone();
        }
        assert!(first["says"].as_str().is_some_and(|text| text.len() > 10), "{first}");
        assert!(first["remedy"].as_str().is_some_and(|text| text.len() > 5), "{first}");
        first["numbers"].clone()
    }

    /// Words of all causes.
    fn words(&mut self, what: &str) -> Vec<String> {
        let said = self.asker.api(&format!("MYELIN.WHY.{what}"), &Value::Null);
        let causes = said["causes"].as_array().expect("a list").iter();
        causes.map(|cause| cause["cause"].as_str().expect("a word").to_owned()).collect()
    }
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let mut scene = Scene::start();
    scene.asker.create("S", &json!({}));
    let why = "io.myelin.jetstream.api.v1.why";
    for (what, body, kind, code) in [
        ("STREAM.NO", Value::Null, "stream", 10059),
        ("CONSUMER.NO.C", Value::Null, "consumer", 10059),
        ("CONSUMER.S.NO", Value::Null, "consumer", 10014),
        ("STREAM.S", json!({ "a": 1 }), "stream", 10038),
        ("CONSUMER.S.C", json!({ "a": 1 }), "consumer", 10038),
    ] {
        let said = scene.asker.try_api(&format!("MYELIN.WHY.{what}"), &body);
        assert_eq!(said["type"], format!("{why}_{kind}_response"), "{said}");
        assert_eq!(said["error"]["err_code"], code, "{said}");
        assert!(said.get("causes").is_none(), "{said}");
    }
    let said = scene.asker.api("MYELIN.WHY.STREAM.S", &Value::Null);
    assert_eq!(said["type"], format!("{why}_stream_response"));
    assert!(said["server"].is_string() && said["ts"].is_string() && said["stream"] == "S", "{said}");
}

/// The question has a permission of its own: that to look at consumers is not enough.
#[test]
fn it_needs_its_own_permission_and_goes_through_domains() {
    let home = Home::new();
    let users = "authorization { users: [
        {user: all, password: p}
        {user: looks, password: p, permissions: {publish: [\"$JS.API.CONSUMER.INFO.>\", \"$JS.API.STREAM.INFO.>\"]}}
        {user: asks, password: p, permissions: {publish: [\"$JS.API.MYELIN.WHY.>\", \"$JS.hub.API.MYELIN.WHY.>\"]}}
    ] }";
    let jetstream = format!("jetstream {{ store_dir: {:?}, domain: hub }}\n{users}\n", home.path());
    let server = Setup::default().config(&jetstream).start();
    let connect = |user: &str| {
        let mut raw = Raw::open(server.address());
        raw.send(&format!(
            "CONNECT {{\"verbose\":false,\"headers\":true,\"user\":\"{user}\",\"pass\":\"p\"}}\r\n"
        ));
        raw.subscribe("answers", 1);
        raw.barrier();
        raw
    };
    let mut all = connect("all");
    all.send_bytes(&publish("$JS.API.STREAM.CREATE.S", "answers", "", br#"{"name":"S"}"#));
    assert!(all.message().text().contains("stream_create_response"));
    let mut asks = connect("asks");
    for prefix in ["$JS.API", "$JS.hub.API"] {
        asks.send_bytes(&publish(&format!("{prefix}.MYELIN.WHY.STREAM.S"), "answers", "", b""));
        let said = asks.message().text().to_owned();
        assert!(said.contains("\"nothing_published\""), "{said}");
    }
    let mut looks = connect("looks");
    looks.send_bytes(&publish("$JS.API.MYELIN.WHY.STREAM.S", "answers", "", b""));
    let line = looks.line();
    assert!(line.starts_with("-ERR 'Permissions Violation for Publish to \"$JS.API.MYELIN.WHY"), "{line}");
}
