//! A client of a pull consumer, as the official ones work: consuming with pulls that overlap, or
//! fetching batches.
//!
//! Budget per message: two numbers, one bit of the ledger; for an acknowledgement its line
//! appended. Consuming asks for `batch` messages and, as soon as less than half of it is under way,
//! for what is missing, always on one inbox. Fetching asks on a new inbox for each batch, when the
//! one before has come. The consumer must exist.

use std::cell::RefCell;

use crate::client_pool::inbox::Message;
use crate::error::BenchError;
use crate::jetstream::consumers::delivery::{Delivery, acknowledge};
use crate::jetstream::consumers::latency::Arrivals;
use crate::jetstream::consumers::ledger::{Expected, Ledger};
use crate::jetstream::consumers::receiving::Actor;

#[cfg(test)]
use crate::target_server::API;
use crate::token;

/// Settings of a client of a pull consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) stream: &'a str,
    pub(crate) consumer: &'a str,
    /// Start of the subjects of the JetStream API, without the dot.
    pub(crate) api: &'a str,
    pub(crate) how: How,
    pub(crate) batch: u64,
    pub(crate) acks: Acks,
    /// Bytes of each payload.
    pub(crate) size: usize,
    /// Messages that all clients have received.
    pub(crate) ledger: &'a RefCell<Ledger>,
    /// Number of messages to come in all.
    pub(crate) expected: &'a Expected,
}

/// Way in which a client of a pull consumer asks for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Pulls that overlap, on one inbox.
    Consume,
    /// Batch after batch, each on a new inbox.
    Fetch,
}

/// Treatment of acknowledgements by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The consumer wants none.
    None,
    /// Each message is acknowledged when it is there.
    Explicit,
    /// Reply subjects are kept, for acknowledgements later.
    Kept,
}

/// Client of a pull consumer, on one connection.
#[derive(Debug)]
pub(crate) struct Pull<'a> {
    wish: Wish<'a>,
    inbox: String,
    /// Start of the reply subjects of this consumer's messages.
    start: Vec<u8>,
    /// The subscription in use, which is also the number of the inbox.
    sid: u64,
    /// Messages that were asked for and are still to come.
    asked: u64,
    received: u64,
    kept: Vec<Vec<u8>>,
    arrivals: Option<Arrivals>,
}

impl<'a> Pull<'a> {
    /// A client with a new inbox.
    pub(crate) fn new(wish: Wish<'a>) -> Self {
        Self::on(wish, token::inbox())
    }

    /// A client with an inbox that the caller has chosen.
    pub(crate) fn on(wish: Wish<'a>, inbox: String) -> Self {
        Self {
            wish,
            inbox,
            start: format!("$JS.ACK.{}.{}.", wish.stream, wish.consumer).into_bytes(),
            sid: 0,
            asked: 0,
            received: 0,
            kept: Vec::new(),
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

    /// The replies of unacknowledged messages.
    pub(crate) fn into_kept(self) -> Vec<Vec<u8>> {
        self.kept
    }

    fn subscribe(&mut self, out: &mut Vec<u8>) {
        if self.sid > 0 {
            out.extend_from_slice(format!("UNSUB {}\r\n", self.sid).as_bytes());
        }
        self.sid += 1;
        out.extend_from_slice(format!("SUB {}.{} {}\r\n", self.inbox, self.sid, self.sid).as_bytes());
    }

    /// Asks for what is missing, if enough is.
    fn ask(&mut self, out: &mut Vec<u8>) {
        let Wish { stream, consumer, api, how, batch, .. } = self.wish;
        let is_due = match how {
            How::Consume => self.asked * 2 < batch,
            How::Fetch => self.asked == 0,
        };
        if !is_due || self.is_done() {
            return;
        }
        let body = match how {
            How::Consume => format!(
                "{{\"expires\":30000000000,\"batch\":{},\"idle_heartbeat\":15000000000}}",
                batch - self.asked
            ),
            How::Fetch => format!("{{\"expires\":30000000000,\"batch\":{batch}}}"),
        };
        if how == How::Fetch || self.sid == 0 {
            self.subscribe(out);
        }
        let line = format!(
            "PUB {api}.CONSUMER.MSG.NEXT.{stream}.{consumer} {}.{} {}\r\n{body}\r\n",
            self.inbox,
            self.sid,
            body.len()
        );
        out.extend_from_slice(line.as_bytes());
        self.asked = batch;
    }

    fn deliver(
        &mut self,
        delivery: Delivery,
        message: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), BenchError> {
        if delivery.times != 1 || message.payload.len() != self.wish.size || self.asked == 0 {
            let size = message.payload.len();
            return Err(BenchError::Lost(format!("{delivery:?} of {size} bytes, asked for {}", self.asked)));
        }
        self.wish.ledger.borrow_mut().mark(delivery.stream_sequence)?;
        self.received += 1;
        self.asked -= 1;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.note(message.payload)?;
        }
        match self.wish.acks {
            Acks::None => {}
            Acks::Explicit => acknowledge(message.reply, out),
            Acks::Kept => self.kept.push(message.reply.to_vec()),
        }
        self.ask(out);
        Ok(())
    }
}

impl Actor for Pull<'_> {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.ask(out);
    }

    fn take(&mut self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), BenchError> {
        if let Some(delivery) = Delivery::of(message.reply, &self.start) {
            return self.deliver(delivery, message, out);
        }
        if message.status() == Some(100) || message.sid != self.sid {
            return Ok(());
        }
        if !matches!(message.status(), Some(404 | 408)) {
            return Err(message.unexpected());
        }
        // The pull has ended early; what it leaves open is asked for anew.
        let open = message.header_value("Nats-Pending-Messages").and_then(|value| value.parse().ok());
        self.asked =
            if self.wish.how == How::Fetch { 0 } else { self.asked.saturating_sub(open.unwrap_or(0)) };
        self.ask(out);
        Ok(())
    }

    fn count(&self) -> u64 {
        self.received
    }

    fn is_done(&self) -> bool {
        self.wish.ledger.borrow().count() >= self.wish.expected.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered<'a>(sid: u64, reply: &'a str) -> Message<'a> {
        Message { subject: b"", sid, reply: reply.as_bytes(), header: b"", payload: b"ab" }
    }

    fn wish<'a>(how: How, ledger: &'a RefCell<Ledger>, expected: &'a Expected) -> Wish<'a> {
        Wish {
            stream: "S",
            consumer: "C",
            api: API,
            how,
            batch: 4,
            acks: Acks::Explicit,
            size: 2,
            ledger,
            expected,
        }
    }

    fn text(out: &mut Vec<u8>) -> String {
        String::from_utf8(std::mem::take(out)).unwrap()
    }

    #[test]
    fn consuming_asks_again_when_less_than_half_is_under_way() {
        let (ledger, expected) = (RefCell::default(), Expected::exactly(9));
        let (mut pull, mut out) = (Pull::new(wish(How::Consume, &ledger, &expected)), Vec::new());
        pull.begin(&mut out);
        let asks = text(&mut out);
        assert!(
            asks.contains("PUB $JS.API.CONSUMER.MSG.NEXT.S.C ") && asks.contains("\"batch\":4"),
            "{asks}"
        );
        for (sequence, asked) in [(1, None), (2, None), (3, Some("\"batch\":3")), (4, None)] {
            let reply = format!("$JS.ACK.S.C.1.{sequence}.{sequence}.7.0");
            pull.take(&delivered(1, &reply), &mut out).unwrap();
            let said = text(&mut out);
            assert!(said.starts_with(&format!("PUB {reply} 4\r\n+ACK\r\n")), "{said}");
            assert_eq!(said.contains("batch"), asked.is_some(), "{sequence}");
            assert!(asked.is_none_or(|asked| said.contains(asked)), "{said}");
        }
        assert!(pull.take(&delivered(1, "$JS.ACK.S.C.1.4.5.7.0"), &mut out).is_err(), "twice");
        assert!(pull.take(&delivered(1, "$JS.ACK.S.C.2.9.5.7.0"), &mut out).is_err(), "redelivered");
    }

    #[test]
    fn fetching_uses_an_inbox_for_each_batch() {
        let (ledger, expected) = (RefCell::default(), Expected::exactly(5));
        let (mut pull, mut out) = (Pull::new(wish(How::Fetch, &ledger, &expected)), Vec::new());
        pull.begin(&mut out);
        assert!(text(&mut out).contains(" 1\r\nPUB "));
        for sequence in 1..=5 {
            let reply = format!("$JS.ACK.S.C.1.{sequence}.{sequence}.7.0");
            pull.take(&delivered(1, &reply), &mut out).unwrap();
            assert_eq!(text(&mut out).contains("UNSUB 1\r\nSUB "), sequence == 4);
        }
        assert!(pull.is_done());
    }

    #[test]
    fn a_pull_that_ended_is_followed_by_another() {
        let (ledger, expected) = (RefCell::default(), Expected::exactly(5));
        for how in [How::Consume, How::Fetch] {
            let (mut pull, mut out) = (Pull::new(wish(how, &ledger, &expected)), Vec::new());
            pull.begin(&mut out);
            out.clear();
            let header = b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 4\r\n\r\n";
            let status = Message { header, reply: b"", ..delivered(1, "") };
            pull.take(&status, &mut out).unwrap();
            assert!(text(&mut out).contains("\"batch\":4"));
            let deleted = Message { header: b"NATS/1.0 409 Consumer Deleted\r\n\r\n", ..status };
            assert!(pull.take(&Message { sid: pull.sid, ..deleted }, &mut out).is_err());
        }
    }
}
