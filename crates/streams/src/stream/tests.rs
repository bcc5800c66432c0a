//! Streams in memory, spoken to in buffers.

mod batches;
mod copies;
mod counters;
mod headers;
mod interest;
mod interest_cleanup;
mod limits;
mod publish;
pub(super) mod release;
mod republish;
mod role;
mod runs;
mod schedule_index;
mod schedules;
mod upkeep;
mod why;

use std::sync::Arc;

use myelin_store::{Stream, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::{Effects, StreamCore, StreamSettings, storage_config};
use myelin_jsapi::config::{Storage, StreamConfig};

pub(crate) const NOW: Timestamp = 1_700_000_000_000_000_000;

/// The defaults that the API fills in.
pub(crate) fn config() -> StreamConfig {
    StreamConfig {
        name: "S".into(),
        subjects: vec![">".into()],
        storage: Storage::Memory,
        max_consumers: -1,
        max_msgs: -1,
        max_bytes: -1,
        max_msgs_per_subject: -1,
        max_msg_size: -1,
        num_replicas: 1,
        duplicate_window: 120_000_000_000,
        ..StreamConfig::default()
    }
}

/// A stream and its answers.
pub(super) struct Bench {
    pub(super) core: StreamCore,
    pub(super) now: Timestamp,
    pub(super) effects: Effects,
}

impl Bench {
    pub(super) fn new(config: StreamConfig) -> Self {
        Self::with(config, StreamSettings::default())
    }

    pub(super) fn with(config: StreamConfig, settings: StreamSettings) -> Self {
        let store = Stream::in_memory(storage_config(&config, false), 1, NOW);
        let core = StreamCore::new(Arc::new(config), store, settings, NOW);
        Self { core, now: NOW, effects: Effects::default() }
    }

    /// Publishes messages as one buffer; answers what came out, as `subject payload`.
    pub(super) fn msgs(&mut self, refs: &[MessageRef<'_>]) -> Vec<String> {
        let mut msgs = MessageBuf::default();
        refs.iter().for_each(|&msg| msgs.push(msg));
        self.core.publish(&msgs, self.now, &mut self.effects);
        self.said()
    }

    /// Messages that came out since the last call.
    pub(super) fn said(&mut self) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let line = |msg: MessageRef<'_>| {
            let parts = [msg.subject, msg.headers, msg.payload];
            parts.map(text).into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
        };
        let said = self.effects.out.iter().map(line).collect();
        self.effects.clear();
        said
    }

    /// Publishes one message with these header lines; answers the payload of the reply.
    pub(super) fn publish(&mut self, subject: &str, headers: &[&str], payload: &str) -> String {
        let block = block(headers);
        let msg = MessageRef {
            subject: subject.as_bytes(),
            reply: b"r",
            headers: block.as_bytes(),
            payload: payload.as_bytes(),
            ..MessageRef::default()
        };
        let said = self.msgs(&[msg]);
        assert_eq!(said.len(), 1, "{said:?}");
        said[0].strip_prefix("r ").expect("replies go to the reply subject").to_owned()
    }

    pub(super) fn last(&self) -> u64 {
        self.core.state().totals.last_seq
    }
}

/// A follower in no group.
pub(crate) fn follower() -> StreamCore {
    let settings = StreamSettings { role: crate::ReplicaRole::Follower, ..StreamSettings::default() };
    Bench::with(config(), settings).core
}

pub(crate) fn block(headers: &[&str]) -> String {
    if headers.is_empty() {
        return String::new();
    }
    format!("NATS/1.0\r\n{}\r\n\r\n", headers.join("\r\n"))
}

pub(super) fn msg<'a>(subject: &'a str, reply: &'a str) -> MessageRef<'a> {
    MessageRef {
        subject: subject.as_bytes(),
        reply: reply.as_bytes(),
        payload: b"hello",
        ..MessageRef::default()
    }
}

/// Payload with which the reference answers an error.
pub(super) fn error(code: u16, err_code: u16, description: &str) -> String {
    format!(
        r#"{{"error":{{"code":{code},"err_code":{err_code},"description":"{description}"}},"stream":"S","seq":0}}"#
    )
}
