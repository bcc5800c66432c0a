//! Feed of an origin on another server: what its consumer has sent and is not stored here yet.
//!
//! Whoever follows the origin hands over what comes, reads runs from the front and says how much of
//! a run is stored. Deliveries are counted: one that is missing breaks the feed, which takes
//! nothing any more, and whoever follows asks for another consumer behind what is stored. A message
//! is taken once, in the order of the origin. A question of flow control is answered when all that
//! came before it is stored, so what waits here is bounded by what the consumer sends unasked; one
//! that asks nothing breaks its feed.

use myelin_store::{Message, Seq, Timestamp};
use myelin_streams::consumer::DeliveryTokens;
use myelin_wire::header;
use myelin_wire::message_buf::MessageRef;
use std::collections::VecDeque;

/// Bytes that may wait: twice the largest window of flow control.
const MOST_BYTES: usize = 64 << 20;
/// Questions that may wait: a consumer asks the next one when it has an answer.
const MOST_QUESTIONS: usize = 64;
/// Beginning of messages that are none of the stream.
const CONTROL: &[u8] = b"NATS/1.0 100";

/// A message that has come and is not stored.
struct Arrival {
    tokens: DeliveryTokens,
    subject: usize,
    headers: usize,
    /// Subject, headers and payload.
    bytes: Box<[u8]>,
}

impl Arrival {
    fn new(tokens: DeliveryTokens, msg: &MessageRef<'_>) -> Self {
        let bytes = [msg.subject, msg.headers, msg.payload].concat().into_boxed_slice();
        Self { tokens, subject: msg.subject.len(), headers: msg.headers.len(), bytes }
    }

    fn message(&self) -> Message<'_> {
        let (subject, rest) = self.bytes.split_at(self.subject);
        let (headers, payload) = rest.split_at(self.headers);
        let DeliveryTokens { seq, timestamp, .. } = self.tokens;
        Message { seq, timestamp, expires: None, subject, headers, payload }
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

/// A question of flow control, with how far the feed was when it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowQuestion {
    /// Where the answer goes.
    pub(super) subject: Box<[u8]>,
    /// The last delivery, and the last message, before it.
    pub(super) delivery: u64,
    pub(super) seq: Seq,
}

impl FlowQuestion {
    /// Headers of the answer: a consumer that wants to know counts them as acknowledged.
    pub(super) fn answer(&self) -> String {
        let Self { delivery, seq, .. } = self;
        format!("NATS/1.0\r\nNats-Last-Consumer: {delivery}\r\nNats-Last-Stream: {seq}\r\n\r\n")
    }
}

/// Messages that one consumer on another server has sent, and that are not stored here.
pub(super) struct RemoteFeed {
    /// The last delivery that has come, and the last message.
    delivery: u64,
    seq: Seq,
    /// Messages behind it that the consumer has still to deliver.
    pending: u64,
    arrivals: VecDeque<Arrival>,
    bytes: usize,
    questions: VecDeque<FlowQuestion>,
    is_broken: bool,
}

impl RemoteFeed {
    /// The feed of a consumer that has made `delivery` deliveries. Messages up to `seq` are here
    /// already, or not wanted.
    pub(super) fn new(delivery: u64, seq: Seq, pending: u64) -> Self {
        let (arrivals, questions) = (VecDeque::new(), VecDeque::new());
        Self { delivery, seq, pending, arrivals, bytes: 0, questions, is_broken: false }
    }

    /// Takes what has come. What is no delivery of a stream is passed over.
    pub(super) fn take(&mut self, msg: &MessageRef<'_>) {
        if self.is_broken {
            return;
        }
        let Some(tokens) = DeliveryTokens::read(msg.reply) else {
            if msg.payload.is_empty() && msg.headers.starts_with(CONTROL) {
                self.take_control(msg);
            }
            return;
        };
        if tokens.delivery <= self.delivery {
            return;
        }
        if tokens.delivery != self.delivery + 1 || self.bytes > MOST_BYTES {
            self.is_broken = true;
            return;
        }
        (self.delivery, self.pending) = (tokens.delivery, tokens.pending);
        if tokens.seq > self.seq {
            self.seq = tokens.seq;
            let arrival = Arrival::new(tokens, msg);
            self.bytes += arrival.size();
            self.arrivals.push_back(arrival);
        }
    }

    /// A sign of life says how many deliveries there were.
    fn take_control(&mut self, msg: &MessageRef<'_>) {
        let said = |key: &[u8]| header::get(msg.headers, key);
        if !msg.reply.is_empty() {
            return self.ask(msg.reply);
        }
        let last = said(b"Nats-Last-Consumer").and_then(|last| std::str::from_utf8(last).ok());
        match last.and_then(|last| last.parse::<u64>().ok()) {
            Some(last) if last > 0 && last != self.delivery => self.is_broken = true,
            // The answer was lost: it is given once more.
            _ => said(b"Nats-Consumer-Stalled").into_iter().for_each(|subject| self.ask(subject)),
        }
    }

    fn ask(&mut self, subject: &[u8]) {
        if self.questions.iter().all(|question| *question.subject != *subject) {
            if self.questions.len() >= MOST_QUESTIONS {
                self.is_broken = true;
                return;
            }
            let (delivery, seq) = (self.delivery, self.seq);
            self.questions.push_back(FlowQuestion { subject: subject.into(), delivery, seq });
        }
    }

    /// Visits the messages from the front until `visit` says that it is enough. Returns whether
    /// there are more.
    pub(super) fn read(&self, mut visit: impl FnMut(&Message<'_>) -> bool) -> bool {
        self.arrivals.iter().any(|arrival| !visit(&arrival.message()))
    }

    /// The first `count` messages are stored here, or need not be.
    pub(super) fn stored(&mut self, count: usize) {
        for arrival in self.arrivals.drain(..count) {
            self.bytes -= arrival.size();
        }
    }

    /// Takes out the next question before which everything is stored.
    pub(super) fn answerable(&mut self) -> Option<FlowQuestion> {
        let stored = self.arrivals.front().map_or(self.delivery, |next| next.tokens.delivery - 1);
        self.questions.pop_front_if(|question| question.delivery <= stored)
    }

    /// Whether something was lost on the way, and all that had come before is stored.
    pub(super) fn is_over(&self) -> bool {
        self.is_broken && self.arrivals.is_empty()
    }

    /// Messages of the origin that are not stored here.
    pub(super) fn lag(&self) -> u64 {
        self.pending + self.arrivals.len() as u64
    }

    /// When the first of those was stored there, if it has come.
    pub(super) fn next_stored(&self) -> Option<Timestamp> {
        self.arrivals.front().map(|arrival| arrival.tokens.timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliver(feed: &mut RemoteFeed, delivery: u64, seq: Seq, pending: u64) {
        let reply = format!("$JS.ACK.O.c.1.{seq}.{delivery}.{}.{pending}", seq * 10);
        let payload = format!("m{seq}");
        feed.take(&MessageRef {
            subject: b"o.a",
            reply: reply.as_bytes(),
            headers: b"NATS/1.0\r\nA: b\r\n\r\n",
            payload: payload.as_bytes(),
            ..MessageRef::default()
        });
    }

    fn control(feed: &mut RemoteFeed, reply: &str, headers: &str) {
        let headers = format!("NATS/1.0 100 {headers}\r\n\r\n");
        feed.take(&MessageRef {
            reply: reply.as_bytes(),
            headers: headers.as_bytes(),
            ..MessageRef::default()
        });
    }

    /// Sequences that wait.
    fn waiting(feed: &RemoteFeed) -> Vec<Seq> {
        let mut all = Vec::new();
        feed.read(|message| {
            all.push(message.seq);
            true
        });
        all
    }

    #[test]
    fn messages_wait_as_they_are_at_the_origin() {
        let mut feed = RemoteFeed::new(0, 0, 2);
        assert_eq!(feed.lag(), 2);
        deliver(&mut feed, 1, 4, 1);
        deliver(&mut feed, 2, 9, 0);
        let mut first = None;
        let has_more = feed.read(|message| {
            first.get_or_insert((message.seq, message.timestamp, message.subject.to_vec()));
            assert_eq!(message.headers, b"NATS/1.0\r\nA: b\r\n\r\n");
            message.seq == 4
        });
        assert!(has_more, "it was ended at the second");
        assert_eq!((first, feed.lag()), (Some((4, 40, b"o.a".to_vec())), 2));
        feed.stored(1);
        assert_eq!((waiting(&feed), feed.lag()), (vec![9], 1));
        feed.stored(1);
        assert_eq!((waiting(&feed), feed.lag(), feed.bytes), (vec![], 0, 0));
    }

    #[test]
    fn what_is_here_already_is_not_taken_again() {
        let mut feed = RemoteFeed::new(0, 5, 0);
        deliver(&mut feed, 1, 5, 1);
        deliver(&mut feed, 2, 6, 0);
        deliver(&mut feed, 2, 6, 0);
        deliver(&mut feed, 1, 7, 0);
        assert_eq!(waiting(&feed), [6]);
    }

    #[test]
    fn a_delivery_that_is_missing_ends_it_behind_what_has_come() {
        let mut feed = RemoteFeed::new(3, 0, 0);
        deliver(&mut feed, 4, 1, 0);
        deliver(&mut feed, 6, 3, 0);
        deliver(&mut feed, 5, 2, 0);
        assert_eq!((waiting(&feed), feed.is_over()), (vec![1], false));
        feed.stored(1);
        assert!(feed.is_over());
    }

    #[test]
    fn a_sign_of_life_tells_of_what_did_not_come() {
        let mut feed = RemoteFeed::new(0, 0, 0);
        deliver(&mut feed, 1, 1, 0);
        feed.stored(1);
        control(&mut feed, "", "Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1");
        control(&mut feed, "", "Idle Heartbeat\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 0");
        control(&mut feed, "", "Idle Heartbeat");
        assert!(!feed.is_over());
        control(&mut feed, "", "Idle Heartbeat\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2");
        assert!(feed.is_over());
    }

    #[test]
    fn so_many_questions_wait_and_no_more() {
        let mut feed = RemoteFeed::new(0, 0, 0);
        deliver(&mut feed, 1, 1, 0);
        for number in 0..=MOST_QUESTIONS {
            assert!(!feed.is_broken, "question {number}");
            control(&mut feed, &format!("fc.{number}"), "FlowControl Request");
        }
        assert_eq!((feed.is_broken, feed.questions.len()), (true, MOST_QUESTIONS));
    }

    #[test]
    fn a_question_is_answered_when_what_came_before_is_stored() {
        let mut feed = RemoteFeed::new(0, 0, 0);
        deliver(&mut feed, 1, 1, 0);
        deliver(&mut feed, 2, 2, 0);
        control(&mut feed, "fc.1", "FlowControl Request");
        deliver(&mut feed, 3, 3, 0);
        control(&mut feed, "fc.2", "FlowControl Request");
        assert_eq!(feed.answerable(), None);
        feed.stored(1);
        assert_eq!(feed.answerable(), None);
        feed.stored(1);
        let first = feed.answerable().expect("what came before is stored");
        assert_eq!(first.answer(), "NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n");
        assert_eq!((&*first.subject, feed.answerable()), (&b"fc.1"[..], None));
        feed.stored(1);
        assert_eq!(feed.answerable().map(|question| question.delivery), Some(3));
    }

    #[test]
    fn an_answer_that_was_lost_is_given_again() {
        let mut feed = RemoteFeed::new(0, 0, 0);
        deliver(&mut feed, 1, 1, 0);
        feed.stored(1);
        let stalled = "Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Consumer-Stalled: fc.1";
        for _ in 0..2 {
            control(&mut feed, "", stalled);
            control(&mut feed, "", stalled);
            assert_eq!(feed.answerable().map(|question| question.subject), Some(b"fc.1"[..].into()));
            assert_eq!(feed.answerable(), None);
        }
    }

    #[test]
    fn what_is_no_delivery_is_passed_over() {
        let mut feed = RemoteFeed::new(0, 0, 0);
        for reply in ["", "inbox", "$JS.ACK.O.c.1.x.1.1.1"] {
            feed.take(&MessageRef { subject: b"o", reply: reply.as_bytes(), ..MessageRef::default() });
        }
        deliver(&mut feed, 1, 1, 0);
        assert_eq!(waiting(&feed), [1]);
    }

    #[test]
    fn one_that_sends_more_than_may_wait_is_ended() {
        let mut feed = RemoteFeed::new(0, 0, 0);
        let payload = vec![0; MOST_BYTES / 2];
        for at in 1..=4 {
            let reply = format!("$JS.ACK.O.c.1.{at}.{at}.1.0");
            let (reply, payload) = (reply.as_bytes(), payload.as_slice());
            feed.take(&MessageRef { subject: b"o", reply, payload, ..MessageRef::default() });
        }
        assert_eq!(waiting(&feed), [1, 2]);
        feed.stored(2);
        assert!(feed.is_over());
    }
}
