//! `bench null`: what the driver itself costs, measured against a server that does nothing.
//!
//! Owns that server: a thread in this process that takes messages without looking at them, gives
//! prepared ones, or answers requests. Comparisons begin with such a run and report its figures,
//! and so does every load of `bench latency`, which asks `Answering`. The rest of the cost is the
//! driver and the kernel's loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::client_pool::message_writer::{Payload, Subjects, Writer};
use crate::client_pool::pace::Pace;
use crate::client_pool::sample::together;
use crate::client_pool::{self, Board, PoolOutcome, SilenceLimits, Work};
use crate::connection::address::Address;
use crate::connection::{Connection, PATIENCE};
use crate::error::BenchError;
use crate::units::grouped;
use crate::workloads::{BURST, Part, Replies, publish, request, subscribe};

const SUBJECT: &str = "null";
const INBOX: &str = "_INBOX.null";

/// A request is two wake-ups of two threads; so many messages are worth one of them.
const REQUEST_SHARE: u64 = 50;

/// Task of the server once a client is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duty {
    Discard,
    /// Send so many messages of this size.
    Blast {
        messages: u64,
        size: usize,
    },
    /// Answer each request.
    Answer,
}

/// Rate of the driver in one role, and the CPU time that it costs.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Role of the driver, in words.
    pub role: &'static str,
    /// Messages per second.
    pub rate: u64,
    /// Microseconds of the driver's CPU per message.
    pub cpu: f64,
}

/// Costs of the driver in each role, in one line, for the notes of a comparison.
pub fn summary() -> Result<String, BenchError> {
    const MESSAGES: u64 = 500_000;
    const SIZE: usize = 128;
    let costs = costs(MESSAGES, SIZE)?;
    let told = costs.iter().map(|Cost { role, rate, cpu }| {
        format!("{role} {} msgs/s at {cpu:.3} us of its CPU", grouped(*rate))
    });
    Ok(format!("{} ({SIZE} B)", told.collect::<Vec<_>>().join(", ")))
}

/// Measures every role with so many messages of `size` bytes; requests are fewer, for each costs
/// two wake-ups.
pub fn costs(messages: u64, size: usize) -> Result<Vec<Cost>, BenchError> {
    let part = |messages| {
        let pace = Pace::new(Duration::ZERO, 0, 1, 0);
        Part { messages, offset: 0, pace, size: size as u64 }
    };
    let writer = |subjects| Writer::new(subjects, "", Payload::of_size(size), 0);
    let one = || Subjects::One(SUBJECT.into());
    let many = || Subjects::Numbered { base: SUBJECT.into(), count: 100_000, is_random: false };
    let requests = (messages / REQUEST_SHARE).max(1);
    let lines = format!("SUB {SUBJECT} 1\r\n");
    let blast = Duty::Blast { messages, size };
    let answering = Replies::subscription(INBOX);
    let request = request::Request::new(part(requests), writer(one()), INBOX);
    [
        ("pub", run(Duty::Discard, b"", publish::Publish::new(part(messages), writer(one())))),
        (
            "pub --multisubject",
            run(Duty::Discard, b"", publish::Publish::new(part(messages), writer(many()))),
        ),
        ("sub", run(blast, lines.as_bytes(), subscribe::Subscribe::new(messages, size as u64, None))),
        ("service request", run(Duty::Answer, &answering, request)),
    ]
    .into_iter()
    .map(|(role, outcome)| cost(role, &outcome?))
    .collect()
}

fn cost(role: &'static str, outcome: &PoolOutcome) -> Result<Cost, BenchError> {
    let all = together(&outcome.samples).ok_or(BenchError::Aborted)?;
    let messages = all.messages.max(1) as f64;
    let seconds = all.end.saturating_duration_since(all.start).as_secs_f64().max(1e-9);
    Ok(Cost { role, rate: (messages / seconds) as u64, cpu: outcome.cpu.as_secs_f64() * 1e6 / messages })
}

fn run<W: Work>(duty: Duty, lines: &[u8], work: W) -> Result<PoolOutcome, BenchError> {
    let (listener, port) = listening()?;
    thread::scope(|scope| {
        let server = scope.spawn(move || serve(&listener, duty));
        let outcome = client(port, lines, work);
        let served = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let outcome = outcome?;
        served.map(|()| outcome).map_err(BenchError::io("serving the driver"))
    })
}

fn client<W: Work>(port: u16, lines: &[u8], work: W) -> Result<PoolOutcome, BenchError> {
    let mut connection = Connection::open(&Address::loopback(port))?;
    connection.begin(lines)?;
    let limits = SilenceLimits { answer: PATIENCE, others: Some(PATIENCE) };
    client_pool::run(vec![(connection, work)], limits, &Board::new(1))
}

/// Serves one client until it goes. Two PINGs come before the benchmark: behind CONNECT, and behind
/// subscriptions.
fn serve(listener: &TcpListener, duty: Duty) -> std::io::Result<()> {
    let (mut socket, _) = listener.accept()?;
    greet(&mut socket)?;
    for _ in 0..2 {
        pass_ping(&mut socket)?;
        socket.write_all(b"PONG\r\n")?;
    }
    match duty {
        Duty::Discard => discard(&mut socket),
        Duty::Blast { messages, size } => {
            let mut frame = format!("MSG {SUBJECT} 1 {size}\r\n").into_bytes();
            frame.resize(frame.len() + size, b'x');
            frame.extend_from_slice(b"\r\n");
            let together = (BURST / frame.len()).max(1);
            let burst = frame.repeat(together);
            for _ in 0..messages / together as u64 {
                socket.write_all(&burst)?;
            }
            socket.write_all(&burst[..frame.len() * (messages % together as u64) as usize])?;
            discard(&mut socket)
        }
        Duty::Answer => answer(&mut socket, false),
    }
}

/// Greets a client with INFO.
fn greet(socket: &mut TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(
        b"INFO {\"server_id\":\"null\",\"version\":\"0\",\"headers\":true,\"max_payload\":1073741824}\r\n",
    )
}

/// Reads up to the end of a PING.
fn pass_ping(socket: &mut TcpStream) -> std::io::Result<()> {
    let mut last = [0; 6];
    while &last != b"PING\r\n" {
        last.rotate_left(1);
        socket.read_exact(&mut last[5..])?;
    }
    Ok(())
}

/// Takes everything; answers a PING at the end of what came, which is where a client puts its last
/// one.
fn discard(socket: &mut TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; 4 * BURST];
    let mut last = [0; 6];
    loop {
        let count = match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            count => count?,
        };
        match buffer[..count].last_chunk::<6>() {
            Some(end) => last = *end,
            None => {
                last.rotate_left(count);
                last[6 - count..].copy_from_slice(&buffer[..count]);
            }
        }
        if &last == b"PING\r\n" {
            socket.write_all(b"PONG\r\n")?;
        }
    }
}

/// Answers requests, however many are under way, with `ok` or with what is in them, until the
/// client goes.
fn answer(socket: &mut TcpStream, is_echo: bool) -> std::io::Result<()> {
    let mut buffer = vec![0; BURST];
    let (mut pending, mut out) = (Vec::new(), Vec::new());
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            count => pending.extend_from_slice(&buffer[..count?]),
        }
        let mut done = 0;
        while let Some(length) = answer_one(&pending[done..], is_echo, &mut out) {
            done += length;
        }
        pending.drain(..done);
        socket.write_all(&out)?;
        out.clear();
    }
}

/// Appends the answer to the first operation, if all of it is here, and gives its length.
fn answer_one(bytes: &[u8], is_echo: bool, out: &mut Vec<u8>) -> Option<usize> {
    let line = bytes.iter().position(|&byte| byte == b'\n')? + 1;
    let text = std::str::from_utf8(&bytes[..line]).unwrap_or_default();
    let mut tokens = text.split_ascii_whitespace();
    match (tokens.next(), tokens.nth(1), tokens.next().and_then(|size| size.parse::<usize>().ok())) {
        (Some("PUB"), Some(reply), Some(size)) => {
            let payload = bytes.get(line..line + size + 2)?;
            let payload = if is_echo { payload } else { b"ok\r\n" };
            out.extend_from_slice(format!("MSG {reply} 1 {}\r\n", payload.len() - 2).as_bytes());
            out.extend_from_slice(payload);
            Some(line + size + 2)
        }
        (Some("PING"), ..) => {
            out.extend_from_slice(b"PONG\r\n");
            Some(line)
        }
        _ => Some(line),
    }
}

/// A server that sends back to any number of clients what is in their requests, until it is
/// dropped.
pub(crate) struct Answering {
    port: u16,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Answering {
    /// Starts the server on a free port.
    pub(crate) fn start() -> Result<Self, BenchError> {
        let (listener, port) = listening()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let is_over_here = Arc::clone(&is_over);
        let accepting = thread::spawn(move || {
            for client in listener.incoming() {
                if is_over_here.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(mut socket) = client else { continue };
                // A client that fails says so itself.
                thread::spawn(move || greet(&mut socket).and_then(|()| answer(&mut socket, true)));
            }
        });
        Ok(Self { port, is_over, accepting: Some(accepting) })
    }

    /// The port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Whoever waits for clients looks only when there is one.
        let knock = TcpStream::connect(("127.0.0.1", self.port));
        if let (Ok(_), Some(accepting)) = (knock, self.accepting.take()) {
            drop(accepting.join());
        }
    }
}

fn listening() -> Result<(TcpListener, u16), BenchError> {
    let doing = "listening on loopback";
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(BenchError::io(doing))?;
    let port = listener.local_addr().map_err(BenchError::io(doing))?.port();
    Ok((listener, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duty_is_done_to_the_last_message() {
        let part = Part { messages: 1000, offset: 0, pace: Pace::free(), size: 16 };
        let writer = |size| Writer::new(Subjects::One(SUBJECT.into()), "", Payload::of_size(size), 0);
        let work = publish::Publish::new(part.clone(), writer(16));
        assert_eq!(run(Duty::Discard, b"", work).unwrap().samples[0].messages, 1000);
        let duty = Duty::Blast { messages: 1000, size: 16 };
        let outcome = run(duty, b"SUB null 1\r\n", subscribe::Subscribe::new(1000, 16, None)).unwrap();
        assert_eq!(outcome.samples[0].messages, 1000);
        let work = request::Request::new(Part { messages: 50, ..part }, writer(100), INBOX);
        let outcome = run(Duty::Answer, &Replies::subscription(INBOX), work).unwrap();
        assert!(!outcome.samples[0].latencies.is_empty());
    }
}
