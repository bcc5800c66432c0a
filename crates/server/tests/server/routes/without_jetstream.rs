//! A server without JetStream in a cluster of nats-servers that have it: its clients reach streams,
//! consumers, buckets and the API as clients of the others do, and it is no part of their group.

use super::{Member, Ours, Reference, free_port, settle};
use crate::eventually;
use crate::raw::{Message, Raw};
use serde_json::{Value, json};

/// A client that asks, one question at a time; other messages are kept.
struct Asker {
    raw: Raw,
    asked: u32,
    others: Vec<Message>,
}

impl Asker {
    fn new(member: &Member) -> Self {
        let mut raw = member.client();
        raw.subscribe("answers.*", 1);
        raw.subscribe("$JS.EVENT.ADVISORY.STREAM.CREATED.>", 2);
        raw.subscribe("pushed", 3);
        raw.barrier();
        Self { raw, asked: 0, others: Vec::new() }
    }

    /// Asks until there is an answer that will do. Compat: streams and consumers answer their
    /// creation over one link, and their interest comes over another, or when they have a leader.
    fn ask_for(&mut self, subject: &str, body: &str, will_do: impl Fn(&Message) -> bool) -> Message {
        let mut found = None;
        eventually(subject, || {
            self.asked += 1;
            let reply = format!("answers.{}", self.asked);
            self.raw.send(&format!("PUB {subject} {reply} {}\r\n{body}\r\n", body.len()));
            for _ in 0..500 {
                for message in self.raw.barrier() {
                    // What a consumer delivers has the stream's subject.
                    let is_older = message.subject.starts_with("answers.") && message.subject != reply;
                    if message.sid == "1" && !is_older {
                        found = Some(message);
                    } else {
                        self.others.push(message);
                    }
                }
                if found.is_some() {
                    break;
                }
            }
            found = found.take().filter(|message| will_do(message));
            found.is_some()
        });
        found.expect("there was one")
    }

    fn ask(&mut self, subject: &str, body: &str) -> Message {
        let is_status = |message: &Message| {
            let text = message.text();
            ["503", "404", "408"].iter().any(|code| text.starts_with(&format!("NATS/1.0 {code}")))
        };
        self.ask_for(subject, body, |message| !is_status(message))
    }

    /// Asks the API; null where nobody answers.
    fn api(&mut self, what: &str, body: &Value) -> Value {
        let answer = self.ask(&format!("$JS.API.{what}"), &body.to_string());
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }

    /// Waits for a message that is no answer.
    fn wait_for(&mut self, subject: &str) -> Message {
        loop {
            if let Some(at) = self.others.iter().position(|message| message.subject == subject) {
                return self.others.remove(at);
            }
            let message = self.raw.message();
            self.others.push(message);
        }
    }
}

#[test]
fn clients_of_a_server_without_streams_reach_those_of_others() {
    let ports = [free_port(), free_port(), free_port()];
    let store = tempfile::tempdir().expect("a folder");
    let theirs = |at: usize| {
        let folder = store.path().join(at.to_string());
        let more = format!("jetstream {{ store_dir: \"{}\" }}", folder.display());
        Member::start(Reference, &format!("S{at}"), ports[at], &ports[..2], &more)
    };
    let (Some(one), Some(two)) = (theirs(0), theirs(1)) else { return };
    let ours = Member::start(Ours, "S2", ports[2], &ports[..2], "").expect("it starts");
    let members = [one, two, ours];
    settle(&members);
    // Without a leader nobody answers.
    let leader = |member: &Member| member.server.page("/jsz")["meta_cluster"]["leader"].clone();
    eventually("a leader", || members[..2].iter().all(|member| leader(member).is_string()));
    let mut client = Asker::new(&members[2]);

    let stream = json!({"name": "S", "subjects": ["s.*"], "num_replicas": 2, "allow_direct": true});
    client.ask_for("$JS.API.STREAM.CREATE.S", &stream.to_string(), |answer| {
        answer.text().contains("\"num_replicas\":2")
    });
    client.wait_for("$JS.EVENT.ADVISORY.STREAM.CREATED.S");
    let stored: Value = serde_json::from_slice(&client.ask("s.a", "hello").body).expect("JSON");
    assert_eq!(stored["stream"], "S", "{stored}");
    let direct = client.ask("$JS.API.DIRECT.GET.S", "{\"seq\":1}");
    // Of what is not there nobody answers, as with a nats-server.
    for subject in ["$JS.API.DIRECT.GET.NONE", "$JS.API.CONSUMER.MSG.NEXT.S.NONE"] {
        client.ask_for(subject, "", |answer| answer.text().starts_with("NATS/1.0 503"));
    }
    assert!(direct.text().contains("Nats-Stream: S") && direct.text().ends_with("hello"), "{direct:?}");

    let pull = json!({"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}});
    assert_eq!(client.api("CONSUMER.DURABLE.CREATE.S.C", &pull)["name"], "C");
    let next = client.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", "");
    assert_eq!((next.text(), next.reply.is_some()), ("hello", true));
    let acknowledged = client.ask(&next.reply.expect("a subject for it"), "+ACK");
    assert_eq!(acknowledged.text(), "");
    let info = client.api("CONSUMER.INFO.S.C", &json!({}));
    assert_eq!(info["ack_floor"]["stream_seq"], 1, "{info}");
    let push = json!({"stream_name": "S", "config": {"deliver_subject": "pushed", "ack_policy": "none"}});
    assert!(client.api("CONSUMER.CREATE.S", &push)["error"].is_null());
    // Its subject is that of the stream, and its subscription the one that was pushed to.
    assert_eq!(client.wait_for("s.a").sid, "3");

    let bucket = json!({"name": "KV_B", "subjects": ["$KV.B.>"], "max_msgs_per_subject": 1,
        "allow_direct": true, "allow_rollup_hdrs": true});
    assert!(client.api("STREAM.CREATE.KV_B", &bucket)["error"].is_null());
    for value in ["old", "new"] {
        assert!(client.ask("$KV.B.key", value).text().contains("\"stream\":\"KV_B\""));
    }
    assert!(client.ask("$JS.API.DIRECT.GET.KV_B.$KV.B.key", "").text().ends_with("new"));
    assert_eq!(client.api("STREAM.INFO.NONE", &json!({}))["error"]["err_code"], 10059);
    // Those that have streams form the group, and this server does not count.
    let group = members[0].server.page("/jsz")["meta_cluster"].clone();
    assert_eq!(group["cluster_size"], 2, "{group}");
}
