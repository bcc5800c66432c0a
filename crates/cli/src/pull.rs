//! Messages of a consumer, asked for as pull consumers are.
//!
//! Owns one subscription of the connection, and for messages that are only looked at a consumer
//! that ends with it. A message that is missing is an error, and nothing is passed over.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use myelin_loadgen::admin::Admin;
use myelin_loadgen::connection::{ReceivedMessage, write_message};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::consumers::delivery::Delivery;
use myelin_loadgen::token::unique;
use serde_json::{Value, json};

use crate::table::text;

/// The number of the subscription: requests have the first one.
const SID: u32 = 2;

/// How long a request waits at most. A server that says nothing for twice as long is gone.
const ROUND: Duration = Duration::from_secs(5);

/// Statuses of requests that end because the consumer is led by another server from now on: the
/// consumer itself goes on.
const MOVED: [&str; 2] = ["Leadership Change", "Server Shutdown"];

/// Longest time of a consumer without a leader, and the pause between two requests meanwhile.
const ELECTED_WITHIN: Duration = Duration::from_secs(30);
const BETWEEN_TRIES: Duration = Duration::from_millis(250);

/// Messages that one request for a consumer's asks for: each is acknowledged before the next comes.
const BATCH: u64 = 16;

/// A consumer nobody asks any more is removed by the server after this time.
const UNUSED: Duration = Duration::from_secs(60);

/// A consumer that is asked.
pub(crate) struct ConsumerReader<'a> {
    admin: &'a mut Admin,
    stream: String,
    name: String,
    inbox: String,
    /// Messages that one request asks for at most.
    batch: u64,
    /// How long a request waits at the server.
    round: Duration,
    /// Messages that are wanted still: no request asks for more.
    wanted: u64,
    /// Messages of the last request that have not come.
    outstanding: u64,
    /// Until when another leader is waited for, from the end of the last one to the next message.
    led_again: Option<Instant>,
    /// Messages that came while something else was waited for.
    kept: VecDeque<ReceivedMessage>,
    /// Where the consumer is of this process alone: deliveries until now.
    seen: Option<u64>,
    /// Messages that the consumer had for us when it was made.
    pub(crate) pending: u64,
}

/// A message with the numbers of its delivery.
pub(crate) struct Pulled {
    pub(crate) message: ReceivedMessage,
    pub(crate) numbers: Delivery,
}

impl<'a> ConsumerReader<'a> {
    /// Asks a consumer that is there for so many messages, by requests that its limits allow.
    pub(crate) fn of(admin: &'a mut Admin, info: &Value, wanted: u64) -> Result<Self, BenchError> {
        let (stream, name) = (text(&info["stream_name"]), text(&info["name"]));
        let limit = |name: &str| info["config"][name].as_u64().filter(|limit| *limit > 0);
        let batch = limit("max_batch").map_or(BATCH, |most| most.min(BATCH));
        let mut reader = Self::subscribe(admin, &stream, &name, wanted, batch)?;
        reader.round = limit("max_expires").map_or(ROUND, |most| ROUND.min(Duration::from_nanos(most)));
        Ok(reader)
    }

    fn subscribe(
        admin: &'a mut Admin,
        stream: &str,
        name: &str,
        wanted: u64,
        batch: u64,
    ) -> Result<Self, BenchError> {
        let inbox = admin.connection().new_inbox();
        admin.connection().begin(format!("SUB {inbox}.* {SID}\r\n").as_bytes())?;
        Ok(Self {
            admin,
            stream: stream.to_owned(),
            name: name.to_owned(),
            inbox,
            batch,
            round: ROUND,
            wanted,
            outstanding: 0,
            led_again: None,
            kept: VecDeque::new(),
            seen: None,
            pending: 0,
        })
    }

    /// Makes a consumer that only looks, with this in its configuration.
    pub(crate) fn looking(
        admin: &'a mut Admin,
        stream: &str,
        config: &Value,
        batch: u64,
    ) -> Result<Self, BenchError> {
        let mut whole = json!({
            "name": unique(12), "ack_policy": "none", "mem_storage": true, "num_replicas": 1,
            "inactive_threshold": UNUSED.as_nanos() as u64,
        });
        for (key, value) in config.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let (subject, body) = myelin_loadgen::admin::create(stream, &whole, "create");
        let made = admin.ask(&subject, &body)?;
        let name = whole["name"].as_str().unwrap_or_default();
        let mut pull = Self::subscribe(admin, stream, name, u64::MAX, batch)?;
        (pull.seen, pull.pending) = (Some(0), made["num_pending"].as_u64().unwrap_or_default());
        Ok(pull)
    }

    /// The next message; `None` when there was none until `deadline`.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Result<Option<Pulled>, BenchError> {
        loop {
            if self.outstanding == 0 && !self.ask(deadline)? {
                return Ok(None);
            }
            let Some(message) = self.receive(deadline)? else {
                if self.outstanding == 0 {
                    continue;
                }
                return Ok(None);
            };
            match message.reply.as_deref().and_then(|reply| Delivery::read(reply.as_bytes())) {
                Some(numbers) => {
                    self.outstanding = self.outstanding.saturating_sub(1);
                    self.wanted = self.wanted.saturating_sub(1);
                    self.led_again = None;
                    self.count(&numbers)?;
                    return Ok(Some(Pulled { message, numbers }));
                }
                None => self.ended(&message)?,
            }
        }
    }

    /// Takes a status: a request has ended, or the consumer.
    fn ended(&mut self, status: &ReceivedMessage) -> Result<(), BenchError> {
        let text = status.status_line();
        let is_moved = || MOVED.iter().any(|words| text.contains(words));
        match status.status() {
            Some(404 | 408) => (self.outstanding, self.led_again) = (0, None),
            Some(409) if is_moved() && self.led_again.is_none() => self.ask_next_leader(),
            Some(code @ (409 | 503)) if self.is_led_soon() && (code == 503 || is_moved()) => {
                self.outstanding = 0;
                std::thread::sleep(BETWEEN_TRIES);
            }
            Some(503) => return Err(BenchError::NoResponder),
            Some(409 | 400) => return Err(BenchError::Refused(text)),
            _ => {}
        }
        Ok(())
    }

    /// Has the request made again, for whoever leads the consumer next.
    fn ask_next_leader(&mut self) {
        self.outstanding = 0;
        self.led_again.get_or_insert_with(|| Instant::now() + ELECTED_WITHIN);
    }

    fn is_led_soon(&self) -> bool {
        self.led_again.is_some_and(|until| Instant::now() < until)
    }

    /// Takes everything that the consumer had when it was made, in order, and ends it.
    pub(crate) fn each(
        mut self,
        mut take: impl FnMut(Pulled) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let mut left = self.pending;
        while left > 0 {
            let patience = Instant::now() + 2 * ROUND;
            let Some(pulled) = self.next(Some(patience))? else {
                return Err(BenchError::Lost(format!("messages of stream {} do not come", self.stream)));
            };
            left = pulled.numbers.pending;
            take(pulled)?;
        }
        self.end()
    }

    fn ask(&mut self, deadline: Option<Instant>) -> Result<bool, BenchError> {
        let left = deadline.map_or(self.round, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(false);
        }
        let expires = left.min(self.round).as_nanos() as u64;
        let subject = format!("{}.CONSUMER.MSG.NEXT.{}.{}", self.admin.api(), self.stream, self.name);
        let batch = self.batch.min(self.wanted);
        let body = json!({ "batch": batch, "expires": expires }).to_string();
        let mut frame = Vec::new();
        write_message(&mut frame, &subject, Some(&format!("{}.m", self.inbox)), "", body.as_bytes());
        self.admin.connection().send(&frame)?;
        self.outstanding = batch;
        Ok(true)
    }

    /// The next message of the subscription, whatever it is about. `None`, and nothing outstanding:
    /// the server that had the request is gone.
    fn receive(&mut self, deadline: Option<Instant>) -> Result<Option<ReceivedMessage>, BenchError> {
        if let Some(message) = self.kept.pop_front() {
            return Ok(Some(message));
        }
        // The server ends each request: nothing for longer than that is an end of another kind.
        let silence = Instant::now() + 2 * ROUND;
        let until = deadline.map_or(silence, |deadline| deadline.min(silence));
        let message = self.admin.connection().receive_until(Some(until))?;
        if message.is_none() && deadline.is_none_or(|deadline| deadline > until) {
            if self.led_again.is_some() && !self.is_led_soon() {
                return Err(BenchError::Lost(format!("consumer {} does not answer any more", self.name)));
            }
            self.ask_next_leader();
        }
        Ok(message)
    }

    fn count(&mut self, numbers: &Delivery) -> Result<(), BenchError> {
        let Some(seen) = &mut self.seen else { return Ok(()) };
        *seen += 1;
        match numbers.consumer_sequence == *seen {
            true => Ok(()),
            false => Err(BenchError::Lost(format!("a message of stream {} did not come", self.stream))),
        }
    }

    /// Acknowledges in these words, and returns when the consumer has heard it.
    pub(crate) fn settle(&mut self, pulled: &Pulled, words: &str) -> Result<(), BenchError> {
        let Some(reply) = &pulled.message.reply else { return Ok(()) };
        let heard = format!("{}.a", self.inbox);
        let mut frame = Vec::new();
        write_message(&mut frame, reply, Some(&heard), "", words.as_bytes());
        self.admin.connection().send(&frame)?;
        let deadline = Instant::now() + self.admin.timeout();
        loop {
            match self.admin.connection().receive_until(Some(deadline))? {
                None => return Err(BenchError::Lost(format!("{words} is not answered"))),
                Some(message) if message.subject == heard => return Ok(()),
                Some(message) => self.kept.push_back(message),
            }
        }
    }

    /// Ends the subscription, and the consumer where it is of this process alone.
    pub(crate) fn end(self) -> Result<(), BenchError> {
        self.admin.connection().begin(format!("UNSUB {SID}\r\n").as_bytes())?;
        match self.seen {
            Some(_) => self.admin.delete_consumer(&self.stream, &self.name),
            None => Ok(()),
        }
    }
}
