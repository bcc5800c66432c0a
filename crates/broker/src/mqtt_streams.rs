//! Streams of MQTT that an account is known to have, and whose turn it is to ask for the others.
//!
//! One session of a server asks, and the others that connect meanwhile wait for it: a fleet that
//! comes back at once is one request for each stream, not one for each client. What is known stays
//! known until an answer says that a stream is gone; that somebody had no answer in time says
//! nothing about streams.

use myelin_mqtt::streams::{self, MqttStream};
use serde_json::Value;
use std::collections::VecDeque;

/// A request of a session: its connection, and the request's number.
pub(crate) type SessionRequest = (u64, u64);

/// Streams of one account.
#[derive(Default)]
pub(crate) struct MqttStreams {
    /// Whether each of [`streams::ALL`] is there.
    known: [bool; streams::ALL.len()],
    /// The connection whose session asks for the others.
    asker: Option<u64>,
    /// Sessions that wait until it knows.
    waiting: VecDeque<SessionRequest>,
}

/// Task of a session that needs the streams.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamsTurn {
    /// None: all are there.
    Known,
    /// Asks for these.
    Ask(Vec<MqttStream>),
    /// Waits until its request is answered, and looks again.
    Wait,
}

impl MqttStreams {
    /// Task of a session, which waits under the number of its request if another one asks.
    pub(crate) fn turn(&mut self, (cid, number): SessionRequest) -> StreamsTurn {
        if self.has_all() {
            return StreamsTurn::Known;
        }
        if *self.asker.get_or_insert(cid) != cid {
            self.waiting.push_back((cid, number));
            return StreamsTurn::Wait;
        }
        let all = streams::ALL.into_iter().zip(self.known);
        StreamsTurn::Ask(all.filter(|(_, is_known)| !is_known).map(|(stream, _)| stream).collect())
    }

    /// A stream is there. Answers the sessions that have waited, if it was the last one.
    pub(crate) fn found(&mut self, stream: MqttStream) -> VecDeque<SessionRequest> {
        let mut all = streams::ALL.into_iter().zip(&mut self.known);
        if let Some((_, is_known)) = all.find(|(other, _)| *other == stream) {
            *is_known = true;
        }
        if !self.has_all() {
            return VecDeque::new();
        }
        self.asker = None;
        std::mem::take(&mut self.waiting)
    }

    /// A session has ended. If it was the one that asks, it is the turn of the next that waits,
    /// which this answers.
    pub(crate) fn leave(&mut self, cid: u64) -> Option<SessionRequest> {
        debug_assert!(self.asker.is_some() || self.waiting.is_empty(), "who waits does so for somebody");
        if self.asker != Some(cid) {
            return None;
        }
        let next = self.waiting.pop_front();
        self.asker = next.map(|(cid, _)| cid);
        next
    }

    /// Streams are gone: whoever comes next asks which.
    pub(crate) fn forget(&mut self) {
        self.known = Default::default();
    }

    /// Whether all streams are known to be there.
    pub(crate) fn has_all(&self) -> bool {
        self.known.iter().all(|is_known| *is_known)
    }
}

/// Configuration with which a stream gets what it lacks, that nats-server has made: direct gets, by
/// which retained messages are read, and lifetimes of messages. `None`: it lacks nothing.
pub(crate) fn amended(stream: MqttStream, mut config: Value) -> Option<Value> {
    let is_read_directly = stream != streams::RETAINED || config["allow_direct"] == true;
    let has_lifetimes = !stream.has_lifetimes() || config["allow_msg_ttl"] == true;
    if (is_read_directly && has_lifetimes) || !config.is_object() {
        return None;
    }
    if !is_read_directly {
        config["allow_direct"] = true.into();
    }
    config["allow_msg_ttl"] = true.into();
    Some(config)
}

/// The stream whose configuration an answer says, if it lacks nothing.
pub(crate) fn stream_found(answer: &[u8]) -> Option<MqttStream> {
    let config = serde_json::from_slice::<Value>(answer).ok()?["config"].take();
    let stream = streams::ALL.into_iter().find(|stream| config["name"] == stream.name)?;
    amended(stream, config).is_none().then_some(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_which_stream_lacks_nothing() {
        let of = |config: &str| stream_found(format!("{{\"config\":{{{config}}}}}").as_bytes());
        assert_eq!(of(r#""name":"$MQTT_out""#), Some(streams::OUT));
        assert_eq!(of(r#""name":"$MQTT_sess","allow_msg_ttl":true"#), Some(streams::SESSIONS));
        assert_eq!(of(r#""name":"$MQTT_rmsgs","allow_msg_ttl":true"#), None);
        assert_eq!(of(r#""name":"$MQTT_sess""#), None);
        assert_eq!((of(r#""name":"other""#), stream_found(b"")), (None, None));
    }

    fn ask_all() -> StreamsTurn {
        StreamsTurn::Ask(streams::ALL.to_vec())
    }

    #[test]
    fn one_session_asks_and_the_others_wait_for_it() {
        let mut all = MqttStreams::default();
        assert_eq!(all.turn((1, 1)), ask_all());
        assert!([(2, 1), (3, 1)].into_iter().all(|request| all.turn(request) == StreamsTurn::Wait));
        // It has asked, and has had no answer in time: what it knows by then stays known.
        assert_eq!(all.found(streams::SESSIONS), []);
        assert_eq!(all.leave(3), None);
        assert_eq!(all.leave(1), Some((2, 1)));
        assert_eq!(all.turn((2, 2)), StreamsTurn::Ask(streams::ALL[1..].to_vec()));
        let woken: Vec<_> = streams::ALL.into_iter().flat_map(|stream| all.found(stream)).collect();
        assert_eq!(woken, [(3, 1)]);
        assert_eq!(all.turn((4, 1)), StreamsTurn::Known);
        all.forget();
        assert_eq!(all.turn((5, 1)), ask_all());
        assert_eq!((all.leave(5), all.turn((6, 1))), (None, ask_all()));
    }
}
