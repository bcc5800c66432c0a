//! `bench js ordered|consume|fetch`: messages of a stream through a pull consumer, and
//! `bench oldjs` through those of older days.
//!
//! `ordered` and `consume` keep a number of messages asked for and ask for more when half of them
//! are there; `fetch` asks for a batch and waits for its end; of the older ones `pull` does the
//! same, and `push` and `ordered` are sent what there is, and answer what the server asks about how
//! far they are. The time is that from asking for the first message to having done the last; the
//! original's begins with the first message, which many may come with. Owns acknowledgements in all
//! modes, and the proof that an ordered consumer delivers without a gap.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::admin::answered;
use crate::client_pool::inbox::Message;
use crate::client_pool::outbox::Outbox;
use crate::client_pool::sample::{Latencies, Sample};
use crate::client_pool::{NextStep, Waits, Work};
use crate::connection::write_message;
use crate::error::BenchError;
use crate::jetstream::consumers::delivery::Delivery;
use crate::workloads::Replies;

/// Numbers of the reply subjects for other things than messages; requests for those are counted
/// from one, by whom no consumer is made.
const CONFIRMING: u64 = 0;
const CREATING: u64 = 1;

/// How long a request for messages lives in the server, in nanoseconds.
const EXPIRES: u64 = 30_000_000_000;

/// Way in which a client gets messages of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Overlapping pulls, in order and without acknowledgements.
    Ordered,
    /// Overlapping pulls.
    Consume,
    /// Batch by batch, each of which is timed.
    Fetch,
    /// Batch by batch, without a look at how long each takes.
    Pull,
    /// The server sends what one of several clients is to have.
    Push,
    /// The server sends everything in order.
    OrderedPush,
}

impl Manner {
    fn is_ordered(self) -> bool {
        matches!(self, Self::Ordered | Self::OrderedPush)
    }

    fn is_pushed(self) -> bool {
        matches!(self, Self::Push | Self::OrderedPush)
    }
}

/// How messages are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// No message is acknowledged.
    No,
    /// Each message is acknowledged.
    Yes,
    /// Each message is acknowledged, and the server's confirmation awaited before the next one.
    Double,
}

/// Settings of one consuming client.
#[derive(Clone, Debug)]
pub struct ConsumeTerms {
    /// How messages come.
    pub manner: Manner,
    /// How messages are acknowledged.
    pub acks: Acks,
    /// Messages of this client.
    pub wanted: u64,
    /// Messages asked for at a time.
    pub batch: u64,
    /// Time to sleep over each message.
    pub sleep: Duration,
    /// Bytes that a message counts for.
    pub size: u64,
    /// The subject that asks for messages.
    pub subject: String,
    /// Subject and body of the request for the consumer, of the client that has it made.
    pub create: Option<(String, Value)>,
}

/// Client that gets messages of a stream through a consumer.
#[derive(Debug)]
pub struct Consume {
    terms: ConsumeTerms,
    replies: Replies,
    requests: u64,
    /// Messages that were asked for and have not come.
    asked: u64,
    /// Messages that have come, done or not.
    arrived: u64,
    /// Messages that are done.
    done: u64,
    redelivered: u64,
    /// The consumer's number of the last message.
    last: u64,
    /// Reply subjects of messages that wait to be done, because of a sleep or a double
    /// acknowledgement.
    waiting: VecDeque<Vec<u8>>,
    awake: Option<Instant>,
    /// A double acknowledgement is unanswered.
    is_confirming: bool,
    /// The request for the consumer is unanswered.
    is_creating: bool,
    asked_at: Option<Instant>,
    first_asked: Option<Instant>,
    end: Option<Instant>,
    latencies: Latencies,
}

impl Consume {
    /// A client that has received nothing yet.
    pub fn new(terms: ConsumeTerms, inbox: &str) -> Self {
        Self {
            terms,
            replies: Replies::new(inbox),
            requests: 0,
            asked: 0,
            arrived: 0,
            done: 0,
            redelivered: 0,
            last: 0,
            waiting: VecDeque::new(),
            awake: None,
            is_confirming: false,
            is_creating: false,
            asked_at: None,
            first_asked: None,
            end: None,
            latencies: Latencies::new(),
        }
    }

    /// Asks for messages if it is time to.
    fn ask(&mut self, out: &mut Outbox, now: Instant) {
        if let Some((subject, body)) = self.terms.create.take() {
            self.is_creating = true;
            let reply = String::from_utf8_lossy(self.replies.at(CREATING)).into_owned();
            write_message(&mut out.frames(), &subject, Some(&reply), "", body.to_string().as_bytes());
        }
        let left = self.terms.wanted.saturating_sub(self.arrived + self.asked);
        let is_time = match self.terms.manner {
            Manner::Fetch | Manner::Pull => self.asked == 0,
            Manner::Ordered | Manner::Consume => self.asked <= self.terms.batch / 2,
            Manner::Push | Manner::OrderedPush => {
                self.first_asked.get_or_insert(now);
                false
            }
        };
        if left == 0 || !is_time {
            return;
        }
        let count = left.min(self.terms.batch - self.asked.min(self.terms.batch));
        // A silent server is known by missing heartbeats, except where a fetch ends anyway.
        let body = match self.terms.manner {
            Manner::Fetch | Manner::Pull => format!("{{\"batch\":{count},\"expires\":{EXPIRES}}}"),
            _ => {
                format!("{{\"batch\":{count},\"expires\":{EXPIRES},\"idle_heartbeat\":{}}}", EXPIRES / 2)
            }
        };
        self.requests += 1;
        let reply = String::from_utf8_lossy(self.replies.at(self.requests)).into_owned();
        write_message(&mut out.frames(), &self.terms.subject, Some(&reply), "", body.as_bytes());
        self.asked += count;
        self.asked_at = Some(now);
        self.first_asked.get_or_insert(now);
    }

    /// Does messages that wait, as far as they may be done now.
    fn do_waiting(&mut self, out: &mut Outbox, now: Instant) -> NextStep {
        while !self.is_confirming && !self.waiting.is_empty() {
            if let Some(awake) = self.awake.filter(|awake| *awake > now) {
                return NextStep::At(awake);
            }
            if let Some(reply) = self.waiting.pop_front() {
                self.acknowledge(&reply, out);
                if !self.is_confirming {
                    self.finish_one(now);
                }
            }
        }
        NextStep::Wait
    }

    fn acknowledge(&mut self, reply: &[u8], out: &mut Outbox) {
        let mut frames = out.frames();
        match self.terms.acks {
            Acks::No => return,
            Acks::Yes => {
                frames.extend_from_slice(b"PUB ");
                frames.extend_from_slice(reply);
            }
            Acks::Double => {
                frames.extend_from_slice(b"PUB ");
                frames.extend_from_slice(reply);
                frames.push(b' ');
                frames.extend_from_slice(self.replies.at(CONFIRMING));
                self.is_confirming = true;
            }
        }
        frames.extend_from_slice(b" 4\r\n+ACK\r\n");
    }

    /// A message is done; the next one sleeps from now on.
    fn finish_one(&mut self, now: Instant) {
        self.done += 1;
        if self.done == self.terms.wanted {
            self.end = Some(Instant::now());
        }
        if !self.terms.sleep.is_zero() {
            self.awake = Some(now + self.terms.sleep);
        }
    }

    /// A message without a reply: the server says something about a request.
    fn status(&mut self, message: &Message<'_>, status: u16, out: &mut Outbox) -> Result<(), BenchError> {
        match status {
            100 => {
                // A server that pushes asks how far we are, or says in a heartbeat that it waits
                // for the answer.
                let stalled = message.header_value("Nats-Consumer-Stalled").unwrap_or_default().as_bytes();
                let wanted = if message.reply.is_empty() { stalled } else { message.reply };
                if !wanted.is_empty() {
                    let mut frames = out.frames();
                    frames.extend_from_slice(b"PUB ");
                    frames.extend_from_slice(wanted);
                    frames.extend_from_slice(b" 0\r\n\r\n");
                }
                Ok(())
            }
            409 if self.terms.manner.is_pushed() => Err(BenchError::Refused(message.status_line())),
            404 | 408 | 409 if self.is_temporary(message, status) => {
                let pending =
                    message.header_value("Nats-Pending-Messages").and_then(|text| text.parse().ok());
                self.asked = self.asked.saturating_sub(pending.unwrap_or(self.asked));
                Ok(())
            }
            503 => Err(BenchError::NoResponder),
            _ => Err(BenchError::Refused(message.status_line())),
        }
    }

    /// Whether asking again may help.
    fn is_temporary(&self, message: &Message<'_>, status: u16) -> bool {
        let line = message.status_line();
        status != 409
            || line.contains("Leadership")
            || line.contains("Server Shutdown")
            || line.contains("MaxBytes")
    }

    fn check(&mut self, reply: &[u8]) -> Result<(), BenchError> {
        let Some(delivery) = Delivery::read(reply) else {
            let reply = String::from_utf8_lossy(reply);
            return Err(BenchError::Protocol(format!("a message of a consumer with the reply {reply:?}")));
        };
        self.redelivered += u64::from(delivery.times > 1);
        let sequence = delivery.consumer_sequence;
        if self.terms.manner.is_ordered() && sequence != self.last + 1 {
            let text = format!("message {sequence} of the consumer came behind message {}", self.last);
            return Err(BenchError::Lost(text));
        }
        self.last = sequence;
        Ok(())
    }
}

impl Work for Consume {
    fn fill(&mut self, out: &mut Outbox, now: Instant) -> Result<NextStep, BenchError> {
        let next = self.do_waiting(out, now);
        if self.done >= self.terms.wanted && !self.is_confirming {
            return Ok(NextStep::Done);
        }
        self.ask(out, now);
        Ok(next)
    }

    fn take(&mut self, message: &Message<'_>, out: &mut Outbox, now: Instant) -> Result<(), BenchError> {
        if let Some(status) = message.status().filter(|_| message.payload.is_empty()) {
            return self.status(message, status, out);
        }
        if message.reply.is_empty() {
            match self.replies.number(message.subject) {
                Some(CREATING) if self.is_creating => {
                    self.is_creating = false;
                    return answered("the request for a consumer", message.payload).map(drop);
                }
                Some(CONFIRMING) if self.is_confirming => {}
                _ => return Err(BenchError::Protocol("an answer to nothing".into())),
            }
            self.is_confirming = false;
            self.finish_one(now);
            self.do_waiting(out, now);
            return Ok(());
        }
        self.check(message.reply)?;
        self.arrived += 1;
        self.asked = self.asked.saturating_sub(1);
        if self.terms.manner == Manner::Fetch
            && self.asked == 0
            && let Some(asked_at) = self.asked_at.take()
        {
            self.latencies.record(now.saturating_duration_since(asked_at));
        }
        if self.terms.sleep.is_zero() && self.terms.acks != Acks::Double {
            self.acknowledge(message.reply, out);
            self.finish_one(now);
        } else {
            if self.awake.is_none() && !self.terms.sleep.is_zero() {
                self.awake = Some(now + self.terms.sleep);
            }
            self.waiting.push_back(message.reply.to_vec());
            self.do_waiting(out, now);
        }
        Ok(())
    }

    fn messages(&self) -> u64 {
        self.done.min(self.terms.wanted)
    }

    fn waits_for(&self) -> Waits {
        match self.arrived {
            _ if self.is_confirming || self.is_creating => Waits::Answer,
            _ if !self.waiting.is_empty() => Waits::ForEver,
            0 => Waits::ForEver,
            _ => Waits::Others,
        }
    }

    fn into_sample(self) -> Sample {
        if self.redelivered > 0 {
            eprintln!("WARNING: {} messages had been delivered before", self.redelivered);
        }
        let now = Instant::now();
        Sample {
            messages: self.terms.wanted,
            bytes: self.terms.wanted * self.terms.size,
            start: self.first_asked.unwrap_or(now),
            end: self.end.unwrap_or(now),
            latencies: self.latencies,
        }
    }
}
