//! A push consumer as official clients build it: the inbox first, then the consumer, then flow
//! control in its place.
//!
//! Budget per message: two numbers compared; for an acknowledgement its line appended. Owns the
//! proof that the consumer's sequence has no hole and the stream's grows. A flow control request is
//! answered when everything before it has been taken, and so is a heartbeat that says that the
//! consumer stalls.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::admin::{self, answered};
use crate::client_pool::inbox::Message;
use crate::error::BenchError;
use crate::jetstream::consumers::delivery::{Delivery, acknowledge};
use crate::jetstream::consumers::latency::Arrivals;
use crate::jetstream::consumers::ledger::Expected;
use crate::jetstream::consumers::receiving::Actor;
use crate::token;

/// Settings of a client of a push consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) stream: &'a str,
    pub(crate) filter: Option<&'a str>,
    pub(crate) policy: &'a str,
    /// Whether messages are acknowledged, by a durable consumer.
    pub(crate) has_acks: bool,
    /// Bytes of each payload.
    pub(crate) size: usize,
    pub(crate) expected: &'a Expected,
    /// Whether the whole is to be had again and again, each time from a new consumer, until this
    /// says that it is enough.
    pub(crate) enough: Option<&'a AtomicBool>,
}

/// Client of a push consumer, which it makes itself, on one connection.
#[derive(Debug)]
pub(crate) struct Push<'a> {
    wish: Wish<'a>,
    inbox: String,
    /// Consumers made so far.
    turns: u64,
    name: String,
    /// Start of the reply subjects of this consumer's messages.
    start: Vec<u8>,
    /// Messages of this consumer.
    received: u64,
    /// Messages of those before it.
    received_before: u64,
    stream_sequence: u64,
    is_over: bool,
    arrivals: Option<Arrivals>,
}

/// The subscription of answers to requests; those of messages follow.
const API_SID: u64 = 1;

impl<'a> Push<'a> {
    /// A client with a new inbox.
    pub(crate) fn new(wish: Wish<'a>) -> Self {
        Self {
            wish,
            inbox: token::inbox(),
            turns: 0,
            name: String::new(),
            start: Vec::new(),
            received: 0,
            received_before: 0,
            stream_sequence: 0,
            is_over: false,
            arrivals: None,
        }
    }

    /// Notes how long each message has been on its way.
    pub(crate) fn timed(self, arrivals: Arrivals) -> Self {
        Self { arrivals: Some(arrivals), ..self }
    }

    pub(crate) fn into_arrivals(self) -> Option<Arrivals> {
        self.arrivals
    }

    /// The consumer's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn configuration(&self) -> Value {
        let mut configuration = json!({
            "name": self.name,
            "deliver_subject": format!("{}.{}", self.inbox, self.turns),
            "deliver_policy": self.wish.policy,
            "replay_policy": "instant",
            "flow_control": true,
            "idle_heartbeat": 5_000_000_000_u64,
            "num_replicas": 1,
        });
        if let Some(filter) = self.wish.filter {
            configuration["filter_subject"] = filter.into();
        }
        if self.wish.has_acks {
            configuration["durable_name"] = self.name.as_str().into();
            configuration["ack_policy"] = "explicit".into();
        } else {
            configuration["ack_policy"] = "none".into();
            configuration["max_deliver"] = 1.into();
            configuration["ack_wait"] = 79_200_000_000_000_u64.into();
            configuration["mem_storage"] = true.into();
            configuration["inactive_threshold"] = 30_000_000_000_u64.into();
        }
        configuration
    }

    /// Makes a consumer, and forgets the one before.
    fn create(&mut self, out: &mut Vec<u8>) {
        self.turns += 1;
        self.name = format!("C{}", token::unique(8));
        self.start = format!("$JS.ACK.{}.{}.", self.wish.stream, self.name).into_bytes();
        self.received_before += self.received;
        (self.received, self.stream_sequence) = (0, 0);
        let (subject, body) = admin::create(self.wish.stream, &self.configuration(), "create");
        let inbox = format!("{}.{}", self.inbox, self.turns);
        out.extend_from_slice(format!("SUB {inbox} {}\r\n", API_SID + self.turns).as_bytes());
        self.request(&subject, &body.to_string(), out);
    }

    fn delete(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("UNSUB {}\r\n", API_SID + self.turns).as_bytes());
        self.request(&format!("CONSUMER.DELETE.{}.{}", self.wish.stream, self.name), "", out);
    }

    fn request(&self, subject: &str, body: &str, out: &mut Vec<u8>) {
        let line = format!("PUB $JS.API.{subject} {}.api {}\r\n{body}\r\n", self.inbox, body.len());
        out.extend_from_slice(line.as_bytes());
    }

    fn deliver(
        &mut self,
        delivery: Delivery,
        message: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), BenchError> {
        let follows = delivery.consumer_sequence == self.received + 1
            && delivery.stream_sequence > self.stream_sequence
            && delivery.times == 1;
        if !follows || message.payload.len() != self.wish.size {
            let text = format!("{delivery:?} after {} messages and {}", self.received, self.stream_sequence);
            return Err(BenchError::Lost(text));
        }
        self.received += 1;
        self.stream_sequence = delivery.stream_sequence;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.note(message.payload)?;
        }
        if self.wish.has_acks {
            acknowledge(message.reply, out);
        }
        if self.received == self.wish.expected.get()
            && let Some(enough) = self.wish.enough
        {
            self.is_over = enough.load(Ordering::Relaxed);
            if !self.is_over {
                self.delete(out);
                self.create(out);
            }
        }
        Ok(())
    }
}

impl Actor for Push<'_> {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("SUB {}.api {API_SID}\r\n", self.inbox).as_bytes());
        self.create(out);
    }

    fn take(&mut self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), BenchError> {
        if let Some(delivery) = Delivery::of(message.reply, &self.start) {
            return match message.sid == API_SID + self.turns {
                true => self.deliver(delivery, message, out),
                // Was on its way when its consumer was deleted.
                false => Ok(()),
            };
        }
        if message.sid == API_SID {
            return match message.status() == Some(503) {
                true => Err(BenchError::NoResponder),
                false => answered(&self.name, message.payload).map(drop),
            };
        }
        if message.status() != Some(100) {
            return Err(message.unexpected());
        }
        let stalled = message.header_value("Nats-Consumer-Stalled").unwrap_or_default().as_bytes();
        let reply = if message.reply.is_empty() { stalled } else { message.reply };
        if !reply.is_empty() {
            out.extend_from_slice(b"PUB ");
            out.extend_from_slice(reply);
            out.extend_from_slice(b" 0\r\n\r\n");
        }
        Ok(())
    }

    fn count(&self) -> u64 {
        self.received_before + self.received
    }

    fn is_done(&self) -> bool {
        match self.wish.enough {
            None => self.received >= self.wish.expected.get(),
            Some(_) => self.is_over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<'a>(sid: u64, reply: &'a str, header: &'a str, payload: &'a str) -> Message<'a> {
        let [reply, header, payload] = [reply, header, payload].map(str::as_bytes);
        Message { subject: b"", sid, reply, header, payload }
    }

    fn wish(expected: &Expected) -> Wish<'_> {
        Wish { stream: "S", filter: None, policy: "all", has_acks: true, size: 2, expected, enough: None }
    }

    fn begun<'a>(wish: Wish<'a>) -> (Push<'a>, String) {
        let (mut push, mut out) = (Push::new(wish), Vec::new());
        push.begin(&mut out);
        (push, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_consumer_is_subscribed_to_before_it_is_made() {
        let expected = Expected::exactly(2);
        let (push, text) = begun(Wish { filter: Some("S.a"), ..wish(&expected) });
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines[0], format!("SUB {}.api 1", push.inbox));
        assert_eq!(lines[1], format!("SUB {}.1 2", push.inbox));
        assert!(lines[2].starts_with(&format!("PUB $JS.API.CONSUMER.CREATE.S.{}.S.a ", push.name)), "{text}");
        assert!(
            lines[3].contains("\"flow_control\":true") && lines[3].contains("\"ack_policy\":\"explicit\"")
        );
    }

    #[test]
    fn messages_are_acknowledged_and_flow_control_is_answered() {
        let expected = Expected::exactly(2);
        let (mut push, _) = begun(wish(&expected));
        let first = format!("$JS.ACK.S.{}.1.1.1.7.1", push.name);
        let second = format!("$JS.ACK.S.{}.1.5.2.7.0", push.name);
        let mut out = Vec::new();
        push.take(&message(2, &first, "", "ab"), &mut out).unwrap();
        push.take(&message(2, "$JS.FC.S.C.x", "NATS/1.0 100 FlowControl Request\r\n\r\n", ""), &mut out)
            .unwrap();
        push.take(&message(2, "", "NATS/1.0 100 Idle Heartbeat\r\n\r\n", ""), &mut out).unwrap();
        let stalled = "NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: $JS.FC.y\r\n\r\n";
        push.take(&message(2, "", stalled, ""), &mut out).unwrap();
        let wanted = format!("PUB {first} 4\r\n+ACK\r\nPUB $JS.FC.S.C.x 0\r\n\r\nPUB $JS.FC.y 0\r\n\r\n");
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
        assert!(!push.is_done());
        push.take(&message(2, &second, "", "ab"), &mut Vec::new()).unwrap();
        assert!(push.is_done());
        assert!(push.take(&message(2, &second, "", "ab"), &mut Vec::new()).is_err());
    }

    #[test]
    fn holes_and_repetitions_fail_the_run() {
        let expected = Expected::exactly(9);
        for tail in ["1.2.2.7.0", "2.1.1.7.0", "1.0.1.7.0"] {
            let (mut push, _) = begun(wish(&expected));
            let reply = format!("$JS.ACK.S.{}.{tail}", push.name);
            assert!(push.take(&message(2, &reply, "", "ab"), &mut Vec::new()).is_err(), "{tail}");
        }
        let (mut push, _) = begun(wish(&expected));
        let deleted = message(2, "", "NATS/1.0 409 Consumer Deleted\r\n\r\n", "");
        assert!(push.take(&deleted, &mut Vec::new()).is_err());
        assert!(push.take(&message(1, "", "", "{\"error\":{\"code\":400}}"), &mut Vec::new()).is_err());
    }

    #[test]
    fn a_replay_begins_again_until_it_is_enough() {
        let (expected, enough) = (Expected::exactly(1), AtomicBool::new(false));
        let (mut push, _) = begun(Wish { has_acks: false, enough: Some(&enough), ..wish(&expected) });
        let first = format!("$JS.ACK.S.{}.1.1.1.7.0", push.name);
        let mut out = Vec::new();
        push.take(&message(2, &first, "", "ab"), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("UNSUB 2\r\nPUB $JS.API.CONSUMER.DELETE.S.C") && text.contains(".2 3\r\n"),
            "{text}"
        );
        push.take(&message(2, &first, "", "ab"), &mut Vec::new()).unwrap();
        assert_eq!((push.count(), push.is_done()), (1, false));
        enough.store(true, Ordering::Relaxed);
        let second = format!("$JS.ACK.S.{}.1.1.1.7.0", push.name);
        push.take(&message(3, &second, "", "ab"), &mut Vec::new()).unwrap();
        assert_eq!((push.count(), push.is_done()), (2, true));
    }
}
