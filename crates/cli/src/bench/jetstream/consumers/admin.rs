//! What is asked of a server beside the clock: streams and consumers made, looked at and deleted.
//!
//! Owns the connection for it. Every answer with an error ends the run.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::address::Address;
use crate::bench::connection::{Connection, PATIENCE};
use crate::bench::error::BenchError;
use crate::bench::jetstream::stream::answered;

/// How often somebody who waits for acknowledgements looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct Admin {
    connection: Connection,
}

impl Admin {
    pub(crate) fn open(address: &Address) -> Result<Self, BenchError> {
        Ok(Self { connection: Connection::open(address)? })
    }

    fn ask(&mut self, subject: &str, body: &Value) -> Result<Value, BenchError> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        answered(subject, &self.connection.request(&format!("$JS.API.{subject}"), body.as_bytes())?)
    }

    pub(crate) fn create_stream(&mut self, configuration: &Value) -> Result<(), BenchError> {
        let name = configuration["name"].as_str().unwrap_or_default();
        self.ask(&format!("STREAM.CREATE.{name}"), configuration).map(drop)
    }

    pub(crate) fn delete_stream(&mut self, name: &str) -> Result<(), BenchError> {
        self.ask(&format!("STREAM.DELETE.{name}"), &Value::Null).map(drop)
    }

    /// How many messages a stream holds, and its last sequence.
    pub(crate) fn stream(&mut self, name: &str) -> Result<(u64, u64), BenchError> {
        let info = self.ask(&format!("STREAM.INFO.{name}"), &Value::Null)?;
        let state = |what: &str| info["state"][what].as_u64();
        state("messages")
            .zip(state("last_seq"))
            .ok_or_else(|| BenchError::Protocol(format!("the state of stream {name}: {info}")))
    }

    pub(crate) fn create_consumer(&mut self, stream: &str, configuration: &Value) -> Result<(), BenchError> {
        let (subject, body) = create(stream, configuration, "create");
        self.ask(&subject, &body).map(drop)
    }

    pub(crate) fn delete_consumer(&mut self, stream: &str, name: &str) -> Result<(), BenchError> {
        self.ask(&format!("CONSUMER.DELETE.{stream}.{name}"), &Value::Null).map(drop)
    }

    /// Waits until everything that was delivered is acknowledged, which must be `count` messages, the last of the
    /// stream among them and each delivered once.
    pub(crate) fn settle(&mut self, stream: &str, name: &str, count: u64) -> Result<(), BenchError> {
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

/// Subject (behind `$JS.API.`) and body of the request for a consumer, as official clients make it. An empty `action` also
/// changes one that is there.
pub(crate) fn create(stream: &str, configuration: &Value, action: &str) -> (String, Value) {
    let name = configuration["name"].as_str().unwrap_or_default();
    let filter =
        configuration["filter_subject"].as_str().map_or_else(String::new, |filter| format!(".{filter}"));
    let body = json!({ "stream_name": stream, "config": configuration, "action": action });
    (format!("CONSUMER.CREATE.{stream}.{name}{filter}"), body)
}
