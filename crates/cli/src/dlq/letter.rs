//! A dead letter as its stream has it: headers that say where it comes from, and its own.

use myelin_loadgen::admin::{Admin, answered};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::target_server::Target;
use myelin_stdx::base64;
use serde_json::{Value, json};

/// Beginning of the keys of headers that say where a letter comes from.
const ABOUT: &str = "Myelin-DLQ-";
/// Beginning of the keys under which its own are kept that would do something.
const KEPT: &str = "Myelin-DLQ-Kept-";
/// Beginnings of keys that a replay does not give back: they are about another time, and a rollup
/// would remove what came since.
const PAST: [&str; 4] = ["nats-msg-id", "nats-expected-", "nats-batch-", "nats-rollup"];

/// One dead letter.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    /// Sequence in the stream that has it.
    pub(super) seq: u64,
    pub(super) subject: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) payload: Vec<u8>,
}

impl Letter {
    pub(super) fn new(seq: u64, subject: &str, headers: &[u8], payload: Vec<u8>) -> Self {
        let text = String::from_utf8_lossy(headers);
        let lines = text.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        let headers = lines.map(|(key, value)| (key.to_owned(), value.trim_start().to_owned())).collect();
        Self { seq, subject: subject.to_owned(), headers, payload }
    }

    /// Value of one of the headers that begin with `Myelin-DLQ-`; empty where it is missing.
    pub(super) fn fact(&self, key: &str) -> &str {
        let is = |name: &str| name.strip_prefix(ABOUT) == Some(key);
        self.headers.iter().rfind(|(name, _)| is(name)).map_or("", |(_, value)| value)
    }

    /// Puts one header in the place of all with this key.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        let at = self.headers.iter().position(|(name, _)| name == key);
        let at = at.unwrap_or_else(|| self.headers.iter().take_while(|(name, _)| !is_about(name)).count());
        self.headers.retain(|(name, _)| name != key);
        self.headers.insert(at.min(self.headers.len()), (key.to_owned(), value.to_owned()));
    }

    /// Lines of headers with which it is published again, as the message that it was.
    pub(super) fn original_headers(&self) -> String {
        let is_past = |key: &str| {
            let key = key.to_ascii_lowercase();
            PAST.iter().any(|beginning| key.starts_with(beginning))
        };
        let own = self.headers.iter().filter_map(|(key, value)| match key.strip_prefix(KEPT) {
            Some(kept) if kept.starts_with(ABOUT) => None,
            Some(kept) => Some((kept, value)),
            None if is_about(key) => None,
            None => Some((key.as_str(), value)),
        });
        let lines = own.filter(|(key, _)| !is_past(key)).map(|(key, value)| format!("{key}: {value}\r\n"));
        // A replay that is begun anew because its answer was lost is none.
        lines.collect::<String>() + &format!("Nats-Msg-Id: replay:{}\r\n", self.subject)
    }

    /// Lines of headers with which it is stored again as a letter.
    pub(super) fn stored_headers(&self) -> String {
        let acts = |key: &str| key.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
        let stored = self.headers.iter().filter(|(key, _)| !acts(key));
        stored.map(|(key, value)| format!("{key}: {value}\r\n")).collect()
    }
}

fn is_about(key: &str) -> bool {
    key.starts_with(ABOUT)
}

/// Letters of one stream.
pub(super) struct Letters {
    admin: Admin,
    stream: String,
}

impl Letters {
    pub(super) fn open(target: &Target, stream: &str) -> Result<Self, BenchError> {
        Ok(Self { admin: Admin::open(target)?, stream: stream.to_owned() })
    }

    pub(super) fn stream(&self) -> &str {
        &self.stream
    }

    /// Reads the letter with this sequence.
    pub(super) fn get(&mut self, seq: u64) -> Result<Letter, BenchError> {
        self.ask(&json!({ "seq": seq }))
    }

    /// Visits all letters in the order of their stream.
    pub(super) fn each(
        &mut self,
        visit: &mut dyn FnMut(Letter) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let state = self.admin.stream(&self.stream)?["state"].clone();
        let (mut left, last) = (state["messages"].as_u64().unwrap_or(0), state["last_seq"].as_u64());
        let mut next = state["first_seq"].as_u64().unwrap_or(1);
        while left > 0 && Some(next) <= last {
            let letter = self.ask(&json!({ "seq": next, "next_by_subj": ">" }))?;
            (left, next) = (left - 1, letter.seq + 1);
            // What is no dead letter is none of ours.
            if !letter.fact("Subject").is_empty() {
                visit(letter)?;
            }
        }
        Ok(())
    }

    /// Publishes a message. Answers the sequence that a stream gives it.
    pub(super) fn publish(
        &mut self,
        subject: &str,
        headers: &str,
        payload: &[u8],
    ) -> Result<u64, BenchError> {
        let patience = self.admin.timeout();
        let answer = self.admin.connection().ask_within(subject, headers, payload, patience)?;
        if answer.is_from_nobody() {
            return Err(BenchError::Usage(format!("no stream takes {subject}")));
        }
        let stored = answered(subject, &answer.payload)?;
        stored["seq"]
            .as_u64()
            .ok_or_else(|| BenchError::Usage(format!("who answers on {subject} is no stream")))
    }

    /// Removes a letter.
    pub(super) fn remove(&mut self, seq: u64) -> Result<(), BenchError> {
        let body = json!({ "seq": seq, "no_erase": true });
        self.admin.ask(&format!("STREAM.MSG.DELETE.{}", self.stream), &body).map(drop)
    }

    fn ask(&mut self, body: &Value) -> Result<Letter, BenchError> {
        let answer = self.admin.ask(&format!("STREAM.MSG.GET.{}", self.stream), body)?;
        let message = &answer["message"];
        let bytes = |key: &str| {
            base64::decode(message[key].as_str().unwrap_or_default())
                .ok_or_else(|| BenchError::Protocol(format!("{key} of message {}", message["seq"])))
        };
        let seq = message["seq"].as_u64().unwrap_or(0);
        let subject = message["subject"].as_str().unwrap_or_default();
        Ok(Letter::new(seq, subject, &bytes("hdrs")?, bytes("data")?))
    }
}
