//! Key-value as official clients do it: a put is a publish with an acknowledgement, a get asks for
//! the last message of a subject, a watch is an ordered consumer of the last message of each.
//!
//! Owns the bucket and the proof that every get is answered with its own key and every watch sees
//! every key.

use std::time::Instant;

use serde_json::json;

use crate::admin::{Admin, Counts};
use crate::connection::address::Address;
use crate::error::BenchError;
use crate::jetstream::WINDOW;
use crate::jetstream::consumers::ledger::Expected;
use crate::jetstream::consumers::push::{Push, Wish};
use crate::jetstream::consumers::receiving::{self, Actor, ReceivingClient};
use crate::jetstream::consumers::run::{
    ConsumerOutcome, ConsumerRun, Filled, SIZE, fill as publish, payloads, publisher,
};
use crate::jetstream::drive::{Done, RequestingClient, SendBudget, Stopwatch, Work, drive};
use crate::jetstream::encoded_frames::{EncodedFrames, OutgoingMessage};
use crate::jetstream::envelope::Envelope;
use crate::jetstream::link::RequestLink;
use crate::jetstream::window::Window;
use crate::metric::Metric;
use crate::pubsub::publisher::Until;
use crate::pubsub::script;
use crate::token;

const CLIENTS: usize = 16;

/// A bucket in which every key has a value.
pub(super) fn fill(address: &Address, keys: u64) -> Result<Filled, BenchError> {
    let bucket = format!("B{}", token::unique(8));
    let stream = format!("KV_{bucket}");
    Admin::open(address)?.create_stream(&json!({
        "name": stream,
        "subjects": [format!("$KV.{bucket}.>")],
        "max_msgs_per_subject": 1,
        "discard": "new",
        "storage": "file",
        "num_replicas": 1,
        "duplicate_window": 120_000_000_000_u64,
        "deny_delete": true,
        "allow_rollup_hdrs": true,
        "allow_direct": true,
    }))?;
    let filled = Filled { stream, messages: keys };
    publish(address, &filled.stream, payloads(subjects(&filled, 0)), keys)?;
    Ok(filled)
}

/// Every key once, in an order without locality that is another for every client.
fn subjects(filled: &Filled, client: usize) -> impl Iterator<Item = String> {
    let (keys, stride) = (filled.messages, script::stride(filled.messages as usize) as u64);
    let bucket = filled.stream.trim_start_matches("KV_").to_owned();
    let first = keys / CLIENTS as u64 * client as u64;
    (0..keys).map(move |turn| format!("$KV.{bucket}.key.{}", (first + turn * stride) % keys))
}

/// Runs the clients, and shows what they did together.
fn measure<W: Work>(
    clients: &mut [RequestingClient<W>],
    run: ConsumerRun<'_>,
) -> Result<(ConsumerOutcome, Done), BenchError> {
    let before = run.cpu()?;
    let elapsed = drive(clients, run.until)?;
    let cpu = run.cpu_since(before)?;
    let done = clients.iter().map(|client| client.work.done()).fold(Done::default(), Done::and);
    let mut outcome = ConsumerOutcome::of_messages(done.messages, elapsed, cpu);
    if let Some(latencies) = &done.latencies {
        let quantiles = [(Metric::LatencyMedian, 0.5), (Metric::Latency99, 0.99)];
        let reading = |(metric, quantile)| (metric, latencies.value_at_quantile(quantile) as f64 / 1e3);
        outcome.readings.extend(quantiles.map(reading));
    }
    Ok((outcome, done))
}

/// 16 clients put, each one after the other.
pub(super) fn put(filled: &Filled, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let mut admin = Admin::open(run.address)?;
    let base = admin.counts(&filled.stream)?.last;
    let clients: Result<Vec<_>, _> = (0..CLIENTS)
        .map(|client| publisher(run.address, &filled.stream, payloads(subjects(filled, client)), 1))
        .collect();
    let (outcome, done) = measure(&mut clients?, run)?;
    let Counts { messages: stored, last, .. } = admin.counts(&filled.stream)?;
    let sum = |last: u64| u128::from(last) * u128::from(last + 1) / 2;
    let is_complete = done.sequences == Some(sum(last) - sum(base)) && last - base == done.messages;
    match is_complete && stored == filled.messages {
        true => Ok(outcome),
        false => {
            let text = format!("{} puts after {base}, and the last is {last} of {stored}", done.messages);
            Err(BenchError::Lost(text))
        }
    }
}

/// 16 clients get, each one after the other.
pub(super) fn get(filled: &Filled, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let clients: Result<Vec<_>, BenchError> = (0..CLIENTS)
        .map(|client| {
            let link = RequestLink::open(run.address, token::inbox())?;
            let work = Gets::new(filled, link.inbox(), client);
            Ok(RequestingClient::new(link, work))
        })
        .collect();
    Ok(measure(&mut clients?, run)?.0)
}

/// A watch of all values, and then of an update of each.
pub(super) fn watch(filled: &Filled, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let mut admin = Admin::open(run.address)?;
    let bucket = filled.stream.trim_start_matches("KV_");
    let (filter, expected) = (format!("$KV.{bucket}.>"), Expected::exactly(filled.messages));
    let wish = Wish {
        stream: &filled.stream,
        filter: Some(&filter),
        policy: "last_per_subject",
        has_acks: false,
        size: SIZE,
        expected: &expected,
        enough: None,
    };
    let mut writer = [publisher(run.address, &filled.stream, payloads(subjects(filled, 1)), WINDOW)?];
    let mut clients = [ReceivingClient::open(run.address, Push::new(wish))?];
    let (before, start) = (run.cpu()?, Instant::now());
    receiving::run(&mut clients)?;
    expected.set(2 * filled.messages);
    let last = std::thread::scope(|scope| {
        let writing = scope.spawn(|| drive(&mut writer, Until::Messages(filled.messages)));
        let last = receiving::go_on(&mut clients);
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(last)
    })?;
    let cpu = run.cpu_since(before)?;
    admin.delete_consumer(&filled.stream, clients[0].actor.name())?;
    Ok(ConsumerOutcome::of_messages(clients[0].actor.count(), last - start, cpu))
}

/// Gets of the last message of a subject, one after the other.
#[derive(Debug)]
struct Gets {
    frames: EncodedFrames,
    subjects: Vec<String>,
    place: usize,
    window: Window,
    stopwatch: Stopwatch,
}

impl Gets {
    fn new(filled: &Filled, inbox: &str, client: usize) -> Self {
        let subjects: Vec<String> = subjects(filled, client).collect();
        let reply = format!("{inbox}.{}", token::BLANK);
        let mut frames = EncodedFrames::default();
        for subject in &subjects {
            let subject = format!("$JS.API.DIRECT.GET.{}.{subject}", filled.stream);
            frames.push(OutgoingMessage {
                subject: &subject,
                reply: Some(&reply),
                headers: None,
                payload: b"",
            });
        }
        Self { frames, subjects, place: 0, window: Window::new(1), stopwatch: Stopwatch::new() }
    }
}

impl Work for Gets {
    fn frames(&mut self) -> &mut EncodedFrames {
        &mut self.frames
    }

    fn fill(&mut self, budget: &mut SendBudget) {
        if self.window.room(1) == 0 || budget.take(1) == 0 {
            return;
        }
        let token = self.window.send(self.place as u64);
        self.frames.mark(self.place, token);
        self.frames.stage(self.place..self.place + 1);
        self.place = (self.place + 1) % self.frames.len();
        self.stopwatch.start();
    }

    fn take(&mut self, envelope: &Envelope<'_>) -> Result<(), BenchError> {
        self.stopwatch.stop();
        let wanted = &self.subjects[self.window.answer(envelope.tail)? as usize];
        let mut lines = envelope.header.split(|&byte| byte == b'\n');
        let subject = lines.find_map(|line| line.strip_prefix(b"Nats-Subject: ")?.strip_suffix(b"\r"));
        if subject == Some(wanted.as_bytes()) && envelope.payload.len() == SIZE {
            return Ok(());
        }
        let header = String::from_utf8_lossy(envelope.header);
        Err(BenchError::Lost(format!("{} bytes with {header:?} for {wanted}", envelope.payload.len())))
    }

    fn is_settled(&self) -> bool {
        self.window.is_settled()
    }

    fn done(&self) -> Done {
        let messages = self.window.answered();
        Done {
            messages,
            payload_bytes: messages * SIZE as u64,
            sequences: None,
            latencies: Some(self.stopwatch.latencies()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Filled {
        Filled { stream: "KV_B".into(), messages: 100 }
    }

    #[test]
    fn every_client_uses_every_key() {
        for client in [0, 1, 15] {
            let keys: std::collections::BTreeSet<String> = subjects(&filled(), client).collect();
            assert!(keys.len() == 100 && keys.contains("$KV.B.key.0") && keys.contains("$KV.B.key.99"));
        }
        assert_ne!(subjects(&filled(), 0).next(), subjects(&filled(), 1).next());
    }

    #[test]
    fn a_get_wants_its_own_key() {
        let value = [b'x'; SIZE];
        for (header, size, is_right) in [
            (
                "NATS/1.0\r\nNats-Stream: KV_B\r\nNats-Subject: $KV.B.key.0\r\nNats-Sequence: 1\r\n\r\n",
                SIZE,
                true,
            ),
            ("NATS/1.0\r\nNats-Subject: $KV.B.key.1\r\n\r\n", SIZE, false),
            ("NATS/1.0\r\nNats-Subject: $KV.B.key.0\r\n\r\n", SIZE - 1, false),
            ("NATS/1.0 404 Message Not Found\r\n\r\n", 0, false),
        ] {
            let mut gets = Gets::new(&filled(), "_INBOX.x", 0);
            gets.fill(&mut SendBudget::new(Until::Messages(1)));
            let text = String::from_utf8_lossy(gets.frames.unsent()).into_owned();
            assert_eq!(text, "PUB $JS.API.DIRECT.GET.KV_B.$KV.B.key.0 _INBOX.x.000000 0\r\n\r\n");
            let payload = &value[..size];
            let answer = Envelope { tail: b"000000", header: header.as_bytes(), payload };
            assert_eq!(gets.take(&answer).is_ok(), is_right, "{header}");
        }
    }
}
