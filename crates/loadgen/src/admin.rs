//! Administration of JetStream outside of the measured time: streams, consumers and buckets are
//! made, inspected, emptied and removed.
//!
//! Owns one connection that asks JetStream's API, and what errors of that API look like to a
//! person. Every answer with an error ends what was going on. Nothing here is measured.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connection::{Connection, PATIENCE, ReceivedMessage};
use crate::error::BenchError;
use crate::target_server::Target;
use crate::units::log;

/// How often somebody who waits for acknowledgements looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Error of the API for a message that is not there.
const NO_MESSAGE: u64 = 10037;

/// A connection on which JetStream is asked.
#[derive(Debug)]
pub struct Admin {
    connection: Connection,
    api: String,
    timeout: Duration,
    is_traced: bool,
}

impl Admin {
    /// Connects to a target, or to an address and asks by the usual subjects.
    pub fn open(server: impl Into<Target>) -> Result<Self, BenchError> {
        let target = server.into();
        let connection = target.connect()?;
        let Target { api, timeout, is_traced, .. } = target;
        Ok(Self { connection, api, timeout, is_traced })
    }

    /// Asks, for example, `STREAM.INFO.name`; an empty body is `null`.
    pub fn ask(&mut self, what: &str, body: &Value) -> Result<Value, BenchError> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.request(&format!("{}.{what}", self.api), "", body.as_bytes())?;
        told(what, &answer)
    }

    /// Asks a subject outside of the API, or one that does not answer in JSON.
    pub fn request(
        &mut self,
        subject: &str,
        headers: &str,
        payload: &[u8],
    ) -> Result<ReceivedMessage, BenchError> {
        if self.is_traced {
            log(&format!(">>> {subject}\n{}", String::from_utf8_lossy(payload)));
        }
        let answer = self.connection.ask_within(subject, headers, payload, self.timeout)?;
        if self.is_traced {
            log(&format!("<<< {subject}\n{}", String::from_utf8_lossy(&answer.payload)));
        }
        Ok(answer)
    }

    /// Publishes into a stream and gives the acknowledgement.
    pub fn publish(&mut self, subject: &str, headers: &str, payload: &[u8]) -> Result<Value, BenchError> {
        let answer = self.request(subject, headers, payload)?;
        if answer.is_from_nobody() {
            return Err(BenchError::Refused(format!("no stream takes messages on {subject:?}")));
        }
        answered(subject, &answer.payload)
    }

    /// The connection, for messages beside requests. Those that come while a request waits are
    /// dropped.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Start of the subjects of the API, without the dot.
    pub fn api(&self) -> &str {
        &self.api
    }

    /// How long an answer may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// INFO of the server that was connected to.
    pub fn info(&self) -> &Value {
        self.connection.info()
    }

    /// Name of the account that the connection is in; `None` where the server does not say it.
    pub fn account(&mut self) -> Option<String> {
        let patience = self.timeout.min(Duration::from_secs(2));
        let answer = self.connection.ask_within("$SYS.REQ.USER.INFO", "", b"", patience).ok()?;
        let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
        answer["data"]["account"].as_str().map(str::to_owned)
    }

    /// Whether the server is Myelin, which answers more than others.
    pub fn is_myelin(&self) -> bool {
        self.connection.info()["go"].as_str().is_some_and(|language| language.starts_with("myelin "))
    }

    /// Fails unless the server speaks this level of the API.
    pub fn require_level(&self, level: u64, why: &str) -> Result<(), BenchError> {
        match self.connection.info()["api_lvl"].as_u64().unwrap_or(0) {
            low if low < level => Err(BenchError::Usage(why.to_owned())),
            _ => Ok(()),
        }
    }

    /// Makes a stream with this configuration.
    pub fn create_stream(&mut self, config: &Value) -> Result<(), BenchError> {
        let name = config["name"].as_str().unwrap_or_default();
        self.ask(&format!("STREAM.CREATE.{name}"), config).map(drop)
    }

    /// Deletes the stream of this name.
    pub fn delete_stream(&mut self, name: &str) -> Result<(), BenchError> {
        self.ask(&format!("STREAM.DELETE.{name}"), &Value::Null).map(drop)
    }

    /// The stream's information as JSON, with configuration and state.
    pub fn stream(&mut self, name: &str) -> Result<Value, BenchError> {
        self.ask(&format!("STREAM.INFO.{name}"), &Value::Null)
    }

    /// The stored message that `body` asks for, as the API gives it; `None` where there is none.
    pub fn stored(&mut self, stream: &str, body: &Value) -> Result<Option<Value>, BenchError> {
        let subject = format!("{}.STREAM.MSG.GET.{stream}", self.api);
        let answer = self.request(&subject, "", body.to_string().as_bytes())?;
        let error =
            serde_json::from_slice(&answer.payload).map(|answer: Value| answer["error"]["err_code"].clone());
        match error {
            Ok(code) if code == NO_MESSAGE => Ok(None),
            _ => told(&subject, &answer).map(Some),
        }
    }

    /// How many messages a stream holds, their subjects, and its last sequence.
    pub fn counts(&mut self, name: &str) -> Result<Counts, BenchError> {
        let info = self.stream(name)?;
        let count = |what: &str| info["state"][what].as_u64();
        match (count("messages"), count("last_seq")) {
            (Some(messages), Some(last)) => {
                Ok(Counts { messages, subjects: count("num_subjects").unwrap_or(0), last })
            }
            _ => Err(BenchError::Protocol(format!("the state of stream {name}: {info}"))),
        }
    }

    /// Removes all messages, or those that `body` says; gives their number.
    pub fn purge(&mut self, stream: &str, body: &Value) -> Result<u64, BenchError> {
        Ok(self.ask(&format!("STREAM.PURGE.{stream}"), body)?["purged"].as_u64().unwrap_or_default())
    }

    /// The names or the infos of all streams (`NAMES`, `LIST`), page by page.
    pub fn streams(&mut self, verb: &str) -> Result<Vec<Value>, BenchError> {
        self.listed(&format!("STREAM.{verb}"), "streams", &json!({}))
    }

    /// The names or the infos of all consumers of a stream (`NAMES`, `LIST`), page by page.
    pub fn consumers(&mut self, verb: &str, stream: &str) -> Result<Vec<Value>, BenchError> {
        self.listed(&format!("CONSUMER.{verb}.{stream}"), "consumers", &json!({}))
    }

    /// Rows under this key of all pages of an answer; each is asked for with this body.
    pub fn listed(&mut self, what: &str, key: &str, body: &Value) -> Result<Vec<Value>, BenchError> {
        let mut all = Vec::new();
        let mut body = body.clone();
        loop {
            body["offset"] = all.len().into();
            let page = self.ask(what, &body)?;
            let rows = page[key].as_array().cloned().unwrap_or_default();
            let is_last = rows.is_empty();
            all.extend(rows);
            if is_last || all.len() as u64 >= page["total"].as_u64().unwrap_or_default() {
                return Ok(all);
            }
        }
    }

    /// The stream that has messages on a subject.
    pub fn stream_with(&mut self, subject: &str) -> Result<String, BenchError> {
        let page = self.ask("STREAM.NAMES", &json!({"subject": subject}))?;
        let name = page["streams"][0].as_str().map(str::to_owned);
        name.ok_or_else(|| BenchError::Usage(format!("no stream matches subject {subject:?}")))
    }

    /// Makes a consumer, or changes it to be like this.
    pub fn create_consumer(&mut self, stream: &str, config: &Value) -> Result<(), BenchError> {
        let (subject, body) = create(stream, config, "");
        self.ask(&subject, &body).map(drop)
    }

    /// Removes a consumer of a stream.
    pub fn delete_consumer(&mut self, stream: &str, name: &str) -> Result<(), BenchError> {
        self.ask(&format!("CONSUMER.DELETE.{stream}.{name}"), &Value::Null).map(drop)
    }

    /// Waits until everything that was delivered is acknowledged, which must be `count` messages,
    /// the last of the stream among them and each delivered once.
    pub fn settle(&mut self, stream: &str, name: &str, count: u64) -> Result<(), BenchError> {
        let mut last = (Instant::now(), Value::Null);
        loop {
            let info = self.ask(&format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null)?;
            let (delivered, floor) = (&info["delivered"], &info["ack_floor"]);
            let is_settled = info["num_ack_pending"] == 0
                && delivered["consumer_seq"] == count
                && floor["consumer_seq"] == count;
            if is_settled && info["num_redelivered"] == 0 {
                return Ok(());
            }
            if info["num_ack_pending"] != last.1 {
                last = (Instant::now(), info["num_ack_pending"].clone());
            } else if is_settled || last.0.elapsed() > PATIENCE {
                return Err(BenchError::Lost(format!("of {count} acknowledgements: {info}")));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }
}

/// Message and subject counts of a stream, and its last sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub(crate) messages: u64,
    pub(crate) subjects: u64,
    /// The last sequence that was given.
    pub(crate) last: u64,
}

/// Subject (behind the prefix of the API) and body of the request for a consumer, as official
/// clients make it. An empty `action` also changes one that is there.
pub fn create(stream: &str, config: &Value, action: &str) -> (String, Value) {
    let name = config["name"].as_str().unwrap_or_default();
    let filter = config["filter_subject"].as_str().map_or_else(String::new, |filter| format!(".{filter}"));
    let body = json!({ "stream_name": stream, "config": config, "action": action });
    (format!("CONSUMER.CREATE.{stream}.{name}{filter}"), body)
}

/// Body of an API response, or the error that it holds. A response that says that nobody listens
/// means that JetStream is not enabled. `what` names the request in errors.
fn told(what: &str, answer: &ReceivedMessage) -> Result<Value, BenchError> {
    match answer.is_from_nobody() {
        true => Err(BenchError::Refused("JetStream is not enabled for this account".into())),
        false => answered(what, &answer.payload),
    }
}

/// Body of an API response from its payload alone, however that was received. An `error` in it
/// becomes [`BenchError::Refused`]; `what` names the request in errors.
pub fn answered(what: &str, payload: &[u8]) -> Result<Value, BenchError> {
    let answer: Value = serde_json::from_slice(payload)
        .map_err(|error| BenchError::Protocol(format!("the answer to {what}: {error}")))?;
    granted(&answer)?;
    Ok(answer)
}

/// Fails with [`BenchError::Refused`] where an API response, already read, holds an `error`.
pub fn granted(answer: &Value) -> Result<(), BenchError> {
    match &answer["error"] {
        Value::Null => Ok(()),
        error => {
            let text = error["description"].as_str().unwrap_or("unknown error");
            let (code, number) = (&error["code"], &error["err_code"]);
            Err(BenchError::Refused(format!("{text} (code {code}, error {number})")))
        }
    }
}

/// Whether this is the error of JetStream's API with this number.
pub fn is_api_error(error: &BenchError, number: u64) -> bool {
    matches!(error, BenchError::Refused(text) if text.ends_with(&format!("error {number})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_api_is_told_in_its_own_words() {
        let error = br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        let told = answered("STREAM.INFO.S", error).unwrap_err().to_string();
        assert_eq!(told, "the server refused: stream not found (code 404, error 10059)");
        let numbers = [10059, 59].map(|number| is_api_error(&answered("x", error).unwrap_err(), number));
        assert_eq!(numbers, [true, false]);
        assert_eq!(answered("x", b"{\"a\":1}").unwrap()["a"], 1);
        assert!(matches!(answered("x", b"{"), Err(BenchError::Protocol(_))));
    }

    #[test]
    fn a_consumer_is_asked_for_by_its_filter_too() {
        let (subject, body) = create("S", &json!({"name": "C", "filter_subject": "a.b"}), "create");
        assert_eq!(subject, "CONSUMER.CREATE.S.C.a.b");
        assert_eq!((&body["action"], &body["stream_name"]), (&json!("create"), &json!("S")));
    }
}
