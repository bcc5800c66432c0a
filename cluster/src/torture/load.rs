//! Load: publishers that try each message until it is acknowledged, and consumers that have their
//! acknowledgements confirmed, each over one connection to a random server.

use super::ledger::Ledger;
use super::{CONSUMED, CONSUMER};
use crate::requester::{Answer, Question, Requester};
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long publishers go on for what is not acknowledged, when all servers are there.
const LAST_PATIENCE: Duration = Duration::from_secs(60);
/// One in so many rounds leaves its server for another one.
const ROUNDS: u64 = 200;
/// Messages of a pull.
const BATCH: usize = 10;
/// Between two rounds of a publisher: everything has to be read in the end, three times.
const PACE: Duration = Duration::from_millis(50);

/// Parts that all of the load shares.
pub(super) struct Shared {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) ledger: Mutex<Ledger>,
    /// Streams of the load.
    pub(super) streams: &'static [&'static str],
    /// Whether so few servers are away at a time that what is in memory has to be there, too.
    pub(super) keeps_memory: bool,
    pub(super) is_over: AtomicBool,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }
}

/// One client, which is connected or not.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) rng: Rng,
    pub(super) requester: Option<Requester>,
}

impl Worker {
    pub(super) fn new(shared: &Arc<Shared>, seed: u64) -> Self {
        Self { shared: Arc::clone(shared), rng: Rng::seeded(seed), requester: None }
    }

    /// A connection to some server; none, a little later, where it takes none.
    fn connection(&mut self) -> Option<&mut Requester> {
        if self.rng.below(ROUNDS) == 0 {
            self.requester = None;
        }
        if self.requester.is_none() {
            let at = self.rng.below(self.shared.addresses.len() as u64) as usize;
            self.requester = Requester::connect(self.shared.addresses[at]).ok();
            if self.requester.is_none() {
                thread::sleep(Duration::from_millis(20));
            }
        }
        self.requester.as_mut()
    }

    /// Answers to each question. After a late answer the next connection is another one.
    pub(super) fn ask(&mut self, questions: &[Question]) -> Vec<Option<Answer>> {
        let Some(requester) = self.connection() else { return vec![None; questions.len()] };
        let (answers, is_whole) = requester.ask(questions, PATIENCE);
        if !is_whole {
            self.requester = None;
        }
        answers
    }

    /// Publishes to one subject, `window` messages at a time. With a window of 1 each message says
    /// what the last sequence of the subject is, when it is sent first: an attempt that nobody
    /// answered may have changed that, and the expectation is looked at before the id.
    pub(super) fn publish(mut self, stream: &'static str, name: &str, window: usize) {
        let subject = subject_of(stream, name);
        let (mut next, mut last, mut pending) = (0_u64, 0, Vec::<String>::new());
        let mut is_in_doubt = false;
        let mut given_up = None;
        loop {
            if self.shared.is_over() {
                let given_up = *given_up.get_or_insert_with(|| Instant::now() + LAST_PATIENCE);
                if pending.is_empty() || Instant::now() > given_up {
                    break;
                }
            }
            while pending.len() < window && !self.shared.is_over() {
                next += 1;
                pending.push(format!("{name}-{next}"));
            }
            let question = |id: &String| Question {
                subject: subject.clone(),
                headers: match window {
                    1 if !is_in_doubt => {
                        format!("Nats-Msg-Id: {id}\r\nNats-Expected-Last-Subject-Sequence: {last}\r\n")
                    }
                    _ => format!("Nats-Msg-Id: {id}\r\n"),
                },
                payload: payload_of(id),
            };
            let questions: Vec<Question> = pending.iter().map(question).collect();
            let answers = self.ask(&questions);
            let acknowledged: Vec<Option<u64>> = pending
                .iter()
                .zip(&answers)
                .map(|(id, answer)| self.judge(stream, id, answer.as_ref()?))
                .collect();
            is_in_doubt = acknowledged.iter().any(Option::is_none);
            last = acknowledged.iter().flatten().copied().max().unwrap_or(last);
            let mut kept = acknowledged.iter().map(Option::is_none);
            pending.retain(|_| kept.next().unwrap_or(true));
            thread::sleep(PACE);
        }
        if !pending.is_empty() {
            let text = format!("{stream}: {} messages of {name} were never acknowledged", pending.len());
            lock(&self.shared.ledger).fault(text);
        }
    }

    /// The sequence in an acknowledgement.
    fn judge(&self, stream: &'static str, id: &str, answer: &Answer) -> Option<u64> {
        let mut ledger = lock(&self.shared.ledger);
        let ack = answer.json();
        let seq = ack.as_ref().and_then(|ack| ack["seq"].as_u64()).filter(|seq| *seq > 0);
        let error = ack.as_ref().and_then(|ack| ack.get("error"));
        if let (Some(seq), None, Some(ack)) = (seq, error, &ack) {
            ledger.acknowledge(stream, id, seq, ack["duplicate"] == true);
            return Some(seq);
        }
        let words = match (error, answer.status()) {
            (Some(error), _) => error.to_string(),
            (None, Some(status)) => format!("status {status}"),
            (None, None) => String::from_utf8_lossy(&answer.payload).into_owned(),
        };
        // Only one client publishes to the subject, and one message at a time.
        if error.is_some_and(|error| error["err_code"] == 10071) {
            ledger.fault(format!("{stream}: {id}: {words}"));
        }
        *ledger.refusals.entry(words).or_default() += 1;
        None
    }

    /// Takes messages of the consumer and has their acknowledgements confirmed.
    pub(super) fn consume(mut self) {
        while !self.shared.is_over() {
            self.consume_some();
        }
    }

    /// Takes up to a batch. Answers how many came.
    pub(super) fn consume_some(&mut self) -> usize {
        let asked = Instant::now();
        let came = self.pull();
        let mut acks = Vec::new();
        for message in &came {
            let Some((seq, subject)) =
                message.reply.as_ref().and_then(|reply| Some((stream_seq(reply)?, reply)))
            else {
                continue;
            };
            let id = message.header("Nats-Msg-Id").unwrap_or_default();
            let mut ledger = lock(&self.shared.ledger);
            ledger.deliver(seq, asked);
            if message.payload != payload_of(id) {
                ledger.fault(format!("{CONSUMED}: {seq} was delivered as {id} with another payload"));
            }
            drop(ledger);
            acks.push((
                seq,
                Question { subject: subject.clone(), payload: b"+ACK".to_vec(), ..Question::default() },
            ));
        }
        let questions: Vec<Question> = acks.iter().map(|(_, question)| question.clone()).collect();
        let answers = if questions.is_empty() { Vec::new() } else { self.ask(&questions) };
        let mut ledger = lock(&self.shared.ledger);
        for ((seq, _), answer) in acks.iter().zip(answers) {
            // Who has no responder is told so with a status.
            if answer.is_some_and(|answer| answer.status().is_none()) {
                ledger.confirm(*seq);
            }
        }
        came.len()
    }

    fn pull(&mut self) -> Vec<Answer> {
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{CONSUMED}.{CONSUMER}");
        let body = format!("{{\"batch\":{BATCH},\"expires\":1000000000}}");
        let mut came = Vec::new();
        let Some(requester) = self.connection() else { return came };
        let deadline = Instant::now() + PATIENCE;
        let mut gather = || {
            let number = requester.pull(&subject, &body)?;
            while came.len() < BATCH {
                let answer = requester.next(deadline)?;
                // What is of an earlier pull may come late, and is judged by nobody.
                if answer.number != number {
                    continue;
                }
                if answer.status().is_some() {
                    break;
                }
                came.push(answer);
            }
            requester.end_pull(number)
        };
        if gather().is_err() {
            self.requester = None;
        }
        came
    }
}

/// Subject of messages for a stream; in a bucket each name is a key.
pub(super) fn subject_of(stream: &str, name: &str) -> String {
    match stream.strip_prefix("KV_") {
        Some(bucket) => format!("$KV.{bucket}.{name}"),
        None => format!("{stream}.{name}"),
    }
}

/// Payload of the message with this id: some hundred bytes that no other one has.
pub(super) fn payload_of(id: &str) -> Vec<u8> {
    let mut rng = Rng::seeded(
        id.bytes().fold(7, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte))),
    );
    let size = 32 + rng.below(500) as usize;
    id.bytes().chain(*b"|").cycle().take(size).collect()
}

/// The stream sequence in the reply subject of a delivery.
fn stream_seq(reply: &str) -> Option<u64> {
    let tokens: Vec<&str> = reply.split('.').collect();
    let at = if tokens.len() > 9 { 7 } else { 5 };
    tokens.get(at)?.parse().ok()
}
