//! Streams on the built server, and what becomes of them when something goes wrong.
//!
//! A [`Home`] is a folder that outlives the servers that store in it; an [`Asker`] talks to the API
//! byte by byte, so that tests can say what no library would.

mod backup;
mod batches;
mod consumers;
mod copies;
mod counters;
mod damage;
pub(crate) mod disk;
mod faults;
mod flood;
mod hostile;
mod import;
pub(crate) mod kept;
mod kill;
mod library;
mod listeners;
mod load;
mod measures;
mod origins;
mod reload;
mod restart;
mod schedules;
mod waiting;
mod why;

use crate::process::{Server, Setup};
use crate::raw::{Message, Raw};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tempfile::TempDir;

/// Where servers store, one after the other.
#[derive(Debug)]
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A server here, with these lines in its `jetstream` block.
    pub(crate) fn setup(&self, lines: &str) -> Setup {
        setup_in(self.path(), lines)
    }

    fn start(&self, lines: &str) -> Server {
        self.setup(lines).start()
    }
}

fn setup_in(folder: &Path, lines: &str) -> Setup {
    Setup::default().config(&format!("jetstream {{\nstore_dir: {folder:?}\n{lines}\n}}\n"))
}

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) seq: u64,
    pub(crate) subject: String,
    pub(crate) payload: Vec<u8>,
}

/// A client of the API. Its answers come to subscription 1, and to nobody else.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) raw: Raw,
    /// The first word of the subjects of its answers.
    inbox: String,
    asked: u64,
}

impl Asker {
    pub(crate) fn connect(server: &Server) -> Self {
        static ASKERS: AtomicU64 = AtomicU64::new(0);
        let inbox = format!("answers{}", ASKERS.fetch_add(1, Relaxed));
        let mut raw = Raw::connect(server);
        raw.subscribe(&format!("{inbox}.>"), 1);
        raw.barrier();
        Self { raw, inbox, asked: 0 }
    }

    /// A subject for the next answer.
    pub(crate) fn reply(&mut self) -> String {
        self.asked += 1;
        format!("{}.{}", self.inbox, self.asked)
    }

    /// Publishes with a reply subject and answers what comes to it.
    pub(crate) fn ask(&mut self, subject: &str, body: &str) -> Message {
        self.ask_with("", subject, body)
    }

    /// Publishes with a reply subject and lines of headers, each with its end, and returns what
    /// comes to it.
    fn ask_with(&mut self, headers: &str, subject: &str, body: &str) -> Message {
        let reply = self.reply();
        self.raw.send_bytes(&publish(subject, &reply, headers, body.as_bytes()));
        loop {
            let message = self.raw.message();
            if message.subject == reply {
                return message;
            }
        }
    }

    /// Publishes a message to a stream; answers its acknowledgement.
    pub(crate) fn publish(&mut self, subject: &str, body: &str) -> Value {
        as_json(&self.ask(subject, body))
    }

    fn publish_with(&mut self, headers: &str, subject: &str, body: &str) -> Value {
        as_json(&self.ask_with(headers, subject, body))
    }

    /// Asks the API, which may refuse.
    pub(crate) fn try_api(&mut self, operation: &str, request: &Value) -> Value {
        let request = if request.is_null() { String::new() } else { request.to_string() };
        as_json(&self.ask(&format!("$JS.API.{operation}"), &request))
    }

    /// Asks the API, which must not refuse.
    pub(crate) fn api(&mut self, operation: &str, request: &Value) -> Value {
        let answer = self.try_api(operation, request);
        assert!(answer.get("error").is_none(), "{operation} {request}: {answer}");
        answer
    }

    /// Makes a stream of everything below its name, whose other settings are `config`.
    pub(crate) fn create(&mut self, name: &str, config: &Value) {
        let mut whole = json!({ "name": name, "subjects": [format!("{name}.>")], "allow_direct": true });
        let more = config.as_object().cloned().unwrap_or_default();
        whole.as_object_mut().expect("it was made as one").extend(more);
        self.api(&format!("STREAM.CREATE.{name}"), &whole);
    }

    fn state(&mut self, stream: &str) -> Value {
        self.api(&format!("STREAM.INFO.{stream}"), &Value::Null)["state"].clone()
    }

    pub(crate) fn number(&mut self, stream: &str, what: &str) -> u64 {
        self.state(stream)[what].as_u64().expect("a number")
    }

    /// All messages of a stream.
    pub(crate) fn read_all(&mut self, stream: &str) -> Vec<Stored> {
        let mut all = Vec::new();
        let mut from = 1;
        while self.read_some(stream, from, &mut all) {
            from = all.last().map_or(1, |message: &Stored| message.seq + 1);
        }
        all
    }

    /// Adds a thousand messages from a sequence on; answers whether there are more.
    fn read_some(&mut self, stream: &str, from: u64, all: &mut Vec<Stored>) -> bool {
        let request = json!({ "seq": from, "batch": 1000 }).to_string();
        let reply = self.reply();
        let subject = format!("$JS.API.DIRECT.GET.{stream}");
        self.raw.send_bytes(&publish(&subject, &reply, "", request.as_bytes()));
        loop {
            let message = self.raw.message();
            let text = String::from_utf8_lossy(&message.body);
            if text.starts_with("NATS/1.0 404") {
                return false;
            }
            if text.starts_with("NATS/1.0 204") {
                return header(&text, "Nats-Num-Pending") != Some("0");
            }
            assert!(text.starts_with("NATS/1.0\r\n"), "{text}");
            let seq = header(&text, "Nats-Sequence").and_then(|seq| seq.parse().ok()).expect("a sequence");
            let subject = header(&text, "Nats-Subject").expect("a subject").to_owned();
            let end = text.find("\r\n\r\n").expect("headers end");
            all.push(Stored { seq, subject, payload: message.body[end + 4..].to_vec() });
        }
    }
}

fn header<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn as_json(message: &Message) -> Value {
    // What is refused for want of room has headers in front.
    let text = message.text();
    let body =
        if text.starts_with("NATS/1.0") { text.split_once("\r\n\r\n").map_or("", |(_, b)| b) } else { text };
    serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The bytes of a publish.
pub(crate) fn publish(subject: &str, reply: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = if headers.is_empty() {
        format!("PUB {subject} {reply} {}\r\n", body.len()).into_bytes()
    } else {
        let head = format!("NATS/1.0\r\n{headers}\r\n");
        let (inner, all) = (head.len(), head.len() + body.len());
        format!("HPUB {subject} {reply} {inner} {all}\r\n{head}").into_bytes()
    };
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Mebibytes that a server holds.
fn mebibytes(server: &Server) -> u64 {
    server.memory() >> 20
}
