//! `bench service serve`: answers requests until somebody stops it, and says what service it is.
//!
//! Owns the answers of the service protocol (PING, INFO, STATS), by which `nats micro ls` finds it.
//! Requests are answered in order; with a sleep, one after the other.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client_pool::inbox::Message;
use crate::client_pool::outbox::Outbox;
use crate::client_pool::sample::{Latencies, Sample};
use crate::client_pool::{NextStep, Waits, Work};
use crate::connection::write_message;
use crate::error::BenchError;
use crate::token::unique;

const NAME: &str = "nats-bench-service";
const VERSION: &str = "1.0.0";

/// Requests of the service protocol, as the `type` of an answer names them.
const TYPES: [&str; 3] = ["ping", "info", "stats"];

/// Service that answers every request with one payload.
#[derive(Debug)]
pub struct Serve {
    subject: String,
    id: String,
    answer: Vec<u8>,
    sleep: Duration,
    /// Reply subjects whose answers are held back, and when the first of them is due.
    held: VecDeque<Vec<u8>>,
    due: Option<Instant>,
    answered: u64,
    start: Instant,
    began: String,
}

impl Serve {
    /// A service that answers every request with `answer`, `sleep` after it came.
    pub fn new(subject: &str, answer: Vec<u8>, sleep: Duration, began: String) -> Self {
        Self {
            subject: subject.to_owned(),
            id: unique(22),
            answer,
            sleep,
            held: VecDeque::new(),
            due: None,
            answered: 0,
            start: Instant::now(),
            began,
        }
    }

    /// Subscribes to requests, as one of a group, and to questions about the service.
    pub fn subscriptions(&self) -> Vec<u8> {
        let mut lines = format!("SUB {} q 1\r\n", self.subject);
        let mut sid = 1;
        for verb in TYPES.map(str::to_uppercase) {
            for end in [String::new(), format!(".{NAME}"), format!(".{NAME}.{}", self.id)] {
                sid += 1;
                lines += &format!("SUB $SRV.{verb}{end} {sid}\r\n");
            }
        }
        lines.into_bytes()
    }

    fn about(&self, subject: &[u8]) -> Option<Value> {
        let verb = subject.strip_prefix(b"$SRV.")?.split(|&byte| byte == b'.').next()?;
        let kind = TYPES.into_iter().find(|kind| kind.as_bytes().eq_ignore_ascii_case(verb))?;
        let mut answer = json!({
            "name": NAME, "id": self.id, "version": VERSION, "metadata": {},
            "type": format!("io.nats.micro.v1.{kind}_response"),
        });
        let endpoint = json!({"name": "default", "subject": self.subject, "queue_group": "q"});
        match kind {
            "info" => {
                answer["description"] = "".into();
                answer["endpoints"] = json!([endpoint]);
            }
            "stats" => {
                let mut endpoint = endpoint;
                for (field, figure) in [("num_requests", self.answered), ("num_errors", 0)] {
                    endpoint[field] = figure.into();
                }
                let busy = self.sleep.as_nanos() as u64;
                endpoint["last_error"] = "".into();
                endpoint["processing_time"] = (busy * self.answered).into();
                endpoint["average_processing_time"] = busy.into();
                answer["started"] = self.began.as_str().into();
                answer["endpoints"] = json!([endpoint]);
            }
            _ => {}
        }
        Some(answer)
    }

    fn respond(&mut self, reply: &[u8], out: &mut Outbox) {
        let mut frames = out.frames();
        frames.extend_from_slice(b"PUB ");
        frames.extend_from_slice(reply);
        frames.push(b' ');
        crate::client_pool::message_writer::push_number(&mut frames, self.answer.len() as u64, 1);
        frames.extend_from_slice(b"\r\n");
        frames.extend_from_slice(&self.answer);
        frames.extend_from_slice(b"\r\n");
        self.answered += 1;
    }
}

impl Work for Serve {
    fn fill(&mut self, out: &mut Outbox, now: Instant) -> Result<NextStep, BenchError> {
        while let Some(due) = self.due {
            if due > now {
                return Ok(NextStep::At(due));
            }
            if let Some(reply) = self.held.pop_front() {
                self.respond(&reply, out);
            }
            self.due = (!self.held.is_empty()).then_some(due + self.sleep);
        }
        Ok(NextStep::Wait)
    }

    fn take(&mut self, message: &Message<'_>, out: &mut Outbox, now: Instant) -> Result<(), BenchError> {
        if message.reply.is_empty() {
            return Ok(());
        }
        if let Some(about) = self.about(message.subject) {
            let reply = String::from_utf8_lossy(message.reply);
            write_message(&mut out.frames(), &reply, None, "", about.to_string().as_bytes());
        } else if self.sleep.is_zero() {
            self.respond(message.reply, out);
        } else {
            self.held.push_back(message.reply.to_vec());
            self.due.get_or_insert(now + self.sleep);
        }
        Ok(())
    }

    fn messages(&self) -> u64 {
        self.answered
    }

    fn waits_for(&self) -> Waits {
        Waits::ForEver
    }

    fn into_sample(self) -> Sample {
        let end = Instant::now();
        Sample { messages: self.answered, bytes: 0, start: self.start, end, latencies: Latencies::new() }
    }
}
