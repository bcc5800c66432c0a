//! A publisher that goes on until its server is gone, and what it may then expect of the stream.
//!
//! One thread writes, another reads the acknowledgements: between them is a window of messages that
//! nobody knows the fate of, and that is what the tests are about. Message N of a stream always has
//! the same subject and payload, and sequence N.

use super::{Stored, publish};
use crate::PATIENCE;
use crate::process::Server;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Messages of an atomic batch.
pub(super) const BATCH: u64 = 40;
/// Messages of a fast batch.
const FAST_BATCH: u64 = 1000;
/// Messages between two acknowledgements of a fast batch.
const FLOW: u64 = 200;
/// Messages that are written at once.
const CHUNK: u64 = 40;
/// Messages that may be on their way.
const WINDOW: u64 = 1200;

/// How messages are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    Atomic,
    Fast,
}

impl Way {
    /// Configuration that a stream needs for this way.
    pub(super) fn config(self) -> serde_json::Value {
        match self {
            Self::Plain => serde_json::json!({}),
            Self::Atomic => serde_json::json!({ "allow_atomic": true }),
            Self::Fast => serde_json::json!({ "allow_batched": true }),
        }
    }
}

/// Message `n` of stream `LOAD`.
pub(super) fn message(n: u64) -> Stored {
    let payload = format!("{n:010}{}", "x".repeat(usize::try_from(n * 37 % 300).expect("small")));
    Stored { seq: n, subject: format!("LOAD.{}", n % 10), payload: payload.into_bytes() }
}

/// The bytes that publish message `n` of a run that began with message `first`.
fn operation(way: Way, first: u64, n: u64) -> Vec<u8> {
    let Stored { subject, payload, .. } = message(n);
    match way {
        Way::Plain => publish(&subject, &format!("acks.{n}"), "", &payload),
        Way::Atomic => {
            let (batch, at) = ((n - first) / BATCH, (n - first) % BATCH + 1);
            let commit = if at == BATCH { "Nats-Batch-Commit: 1\r\n" } else { "" };
            let headers = format!("Nats-Batch-Id: b{first}-{batch}\r\nNats-Batch-Sequence: {at}\r\n{commit}");
            let reply = if at == 1 || at == BATCH { "acks.0" } else { "" };
            publish(&subject, reply, &headers, &payload)
        }
        Way::Fast => {
            let (batch, at) = ((n - first) / FAST_BATCH, (n - first) % FAST_BATCH + 1);
            let act = if at == 1 { 0 } else { 1 + u64::from(at == FAST_BATCH) };
            // The batch's name is the number of the message before its first.
            let base = first + batch * FAST_BATCH - 1;
            publish(&subject, &format!("acks.{base}.{FLOW}.ok.{at}.{act}.$FI"), "", &payload)
        }
    }
}

/// Sequences that a publisher knows at the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// The last message that was written, perhaps.
    pub(super) written: u64,
    /// The last message that was acknowledged.
    pub(super) acked: u64,
}

/// State that the writing and the reading thread share.
struct Shared {
    written: AtomicU64,
    acked: AtomicU64,
    has_ended: AtomicBool,
}

/// Publishes from message `first` on until the connection ends; calls `strike` once `enough`
/// messages are acknowledged.
pub(super) fn run(server: &Server, way: Way, first: u64, enough: u64, strike: impl FnOnce()) -> Known {
    let mut socket = TcpStream::connect(server.address()).expect("the server listens");
    socket.set_nodelay(true).expect("a TCP socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a positive time");
    socket.set_write_timeout(Some(PATIENCE)).expect("a positive time");
    let connect = "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB acks.> 1\r\n";
    socket.write_all(connect.as_bytes()).expect("the server reads");
    let reading = BufReader::new(socket.try_clone().expect("descriptors are left"));
    let shared = Shared {
        written: AtomicU64::new(first - 1),
        acked: AtomicU64::new(first - 1),
        has_ended: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(socket, way, first, &shared));
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            read(reading, &shared, first + enough - 1, strike);
        }));
        // Whatever became of the reader: the writer must not wait for it.
        shared.has_ended.store(true, Relaxed);
        if let Err(panic) = read {
            std::panic::resume_unwind(panic);
        }
    });
    Known { written: shared.written.load(Relaxed), acked: shared.acked.load(Relaxed) }
}

fn write(mut socket: TcpStream, way: Way, first: u64, shared: &Shared) {
    let mut next = first;
    let deadline = Instant::now() + PATIENCE;
    while !shared.has_ended.load(Relaxed) && Instant::now() < deadline {
        if next - shared.acked.load(Relaxed) > WINDOW {
            std::thread::yield_now();
            continue;
        }
        let chunk: Vec<u8> = (next..next + CHUNK).flat_map(|n| operation(way, first, n)).collect();
        next += CHUNK;
        shared.written.store(next - 1, Relaxed);
        if socket.write_all(&chunk).is_err() {
            return;
        }
    }
}

fn read(mut reading: BufReader<TcpStream>, shared: &Shared, enough: u64, strike: impl FnOnce()) {
    let mut strike = Some(strike);
    let mut line = String::new();
    loop {
        line.clear();
        match reading.read_line(&mut line) {
            Ok(n) if n > 0 => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no acknowledgement came"),
            _ => return,
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["MSG", subject, _, size] = words[..] else {
            assert!(!line.starts_with("-ERR"), "{line}");
            continue;
        };
        let mut body = vec![0; size.parse::<usize>().expect("sizes are digits") + 2];
        if reading.read_exact(&mut body).is_err() {
            return;
        }
        let Some(acked) = acknowledged(subject, &body) else { continue };
        let before = shared.acked.swap(acked, Relaxed);
        assert!(acked >= before, "message {before} was acknowledged before {acked}");
        if acked >= enough
            && let Some(strike) = strike.take()
        {
            strike();
        }
    }
}

/// The last message that an answer acknowledges; none where a batch begins.
fn acknowledged(subject: &str, body: &[u8]) -> Option<u64> {
    let answer: serde_json::Value = serde_json::from_slice(body.trim_ascii()).ok()?;
    assert!(answer.get("error").is_none() && answer["type"] != "gap", "{subject}: {answer}");
    let seq = answer["seq"].as_u64().expect("a sequence");
    let words: Vec<&str> = subject.split('.').collect();
    match words[..] {
        ["acks", n] => {
            assert!(n == "0" || n == seq.to_string(), "{subject}: {answer}");
            Some(seq)
        }
        // An answer within a batch counts from its beginning.
        ["acks", base, ..] if answer["type"] == "ack" => Some(base.parse::<u64>().expect("a number") + seq),
        _ => Some(seq),
    }
}
