//! Request/reply: clients that always have one request outstanding, and the service that answers.
//!
//! All requesting clients share one thread, the service has another. Owns the latencies. Inboxes
//! are made the way official clients make them: one wildcard subscription per client, a token per
//! request.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::connection::address::Address;
use crate::connection::frame::{FrameCounter, Operation, WholeFrames};
use crate::connection::{Connection, PATIENCE};
use crate::error::BenchError;
use crate::meter::{CpuTime, Meter, cpu_of};
use crate::pubsub::publisher::Until;
use crate::pubsub::receiver::count_and_answer;
use crate::pubsub::script::{self, ScriptSubjects, Sizes};

const READ_SIZE: usize = 256 * 1024;

/// Nanoseconds; beyond our patience with a silent server.
const LONGEST_LATENCY: u64 = 60_000_000_000;

/// Figures of the requesting clients.
#[derive(Debug)]
pub struct RequestOutcome {
    /// Requests that were answered.
    pub requests: u64,
    /// Time from the first request to the last reply.
    pub elapsed: Duration,
    /// Nanoseconds from sending a request to having its whole reply.
    pub latencies: Histogram<u64>,
    /// The server's CPU time, where its process was known.
    pub cpu: Option<CpuTime>,
}

impl RequestOutcome {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }

    /// Microseconds of server CPU per request.
    pub fn cpu_per_request(&self) -> Option<f64> {
        Some(self.cpu?.scheduled.as_secs_f64() * 1e6 / self.requests as f64)
    }

    /// A latency in microseconds; `quantile` between 0 and 1.
    pub fn latency(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// An empty histogram of nanoseconds.
pub(crate) fn new_latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_LATENCY, 3)
        .expect("the bounds are ordered and 3 digits are allowed")
}

/// Payload of a service's answers.
#[derive(Clone, Copy, Debug)]
pub enum ServiceAnswer {
    /// The payload of the request.
    Echo,
}

/// Answers requests on `subject` as a member of the queue group `bench` until `stopped` says so,
/// which is asked after every read and every 50 ms. `ready` is called when requests will be
/// received.
pub fn serve(
    mut connection: Connection,
    subject: &str,
    answer: &ServiceAnswer,
    ready: impl FnOnce(),
    stopped: impl Fn() -> bool,
) -> Result<u64, BenchError> {
    connection.send(format!("SUB {subject} bench 1\r\n").as_bytes())?;
    connection.barrier()?;
    let (mut transport, mut pending) = connection.into_transport();
    let glance = Some(Duration::from_millis(50));
    transport.socket().set_read_timeout(glance).map_err(BenchError::io("setting a time-out"))?;
    ready();
    let mut buffer = vec![0; READ_SIZE];
    let mut served = 0;
    while !stopped() {
        match transport.recv(&mut buffer) {
            Ok(0) => return Err(BenchError::Closed),
            Ok(count) => pending.extend_from_slice(&buffer[..count]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => continue,
                ErrorKind::ConnectionReset => return Err(BenchError::Closed),
                _ => return Err(BenchError::Io("receiving requests", error)),
            },
        }
        let (answers, used, count) = answers(&pending, answer)?;
        pending.drain(..used);
        served += count;
        transport.send_all(&answers).map_err(BenchError::io("sending to the server"))?;
    }
    Ok(served)
}

/// The bytes to send for the whole frames in `pending`, how much of it they cover, and the number
/// of requests among them.
fn answers(pending: &[u8], answer: &ServiceAnswer) -> Result<(Vec<u8>, usize, u64), BenchError> {
    let mut frames = WholeFrames::new(pending);
    let mut out = Vec::new();
    let mut count = 0;
    while let Some(frame) = frames.next()? {
        match frame.operation {
            Operation::Message(head) => {
                let payload = match answer {
                    ServiceAnswer::Echo => &frame.payload[head.header_size..],
                };
                let Some(reply) = head.reply else { continue };
                out.extend_from_slice(format!("PUB {reply} {}\r\n", payload.len()).as_bytes());
                out.extend_from_slice(payload);
                out.extend_from_slice(b"\r\n");
                count += 1;
            }
            Operation::Ping => out.extend_from_slice(b"PONG\r\n"),
            Operation::Error(text) => return Err(BenchError::Refused(text.to_owned())),
            Operation::Pong | Operation::Info(_) | Operation::Okay => {}
        }
    }
    Ok((out, pending.len() - frames.rest().len(), count))
}

fn send_all(stream: &TcpStream, mut bytes: &[u8]) -> Result<(), BenchError> {
    while !bytes.is_empty() {
        let sent = rustix::net::send(stream, bytes, SendFlags::NOSIGNAL)
            .map_err(BenchError::io("sending to the server"))?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Requesting clients that are connected and subscribed to their inboxes.
#[derive(Debug)]
pub(crate) struct Requesters {
    epoll: OwnedFd,
    clients: Vec<RequestClient>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct RequestClient {
    stream: TcpStream,
    counter: FrameCounter,
    /// Encoded requests with their payload sizes, used in turn.
    requests: Vec<(Vec<u8>, usize)>,
    sent: u64,
    sent_at: Instant,
}

impl Requesters {
    /// Connects `clients` clients, each of which will send the rotation of subjects and sizes.
    pub(crate) fn open(
        address: &Address,
        clients: usize,
        subjects: &ScriptSubjects,
        sizes: &Sizes,
    ) -> Result<Self, BenchError> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::io("creating an epoll"))?;
        let mut opened = Vec::with_capacity(clients);
        for number in 0..clients {
            let inbox = format!("_INBOX.bench{:x}c{number}", std::process::id());
            let client = RequestClient::open(address, &inbox, subjects, sizes)?;
            epoll::add(
                &epoll,
                &client.stream,
                epoll::EventData::new_u64(number as u64),
                epoll::EventFlags::IN,
            )
            .map_err(BenchError::io("watching a socket"))?;
            opened.push(client);
        }
        Ok(Self { epoll, clients: opened, buffer: vec![0; READ_SIZE] })
    }

    /// Keeps one request of every client outstanding; ends when every one that was sent is
    /// answered.
    pub(crate) fn run(&mut self, until: Until, meters: &[Meter]) -> Result<RequestOutcome, BenchError> {
        let mut latencies = new_latencies();
        let before = cpu_of(meters)?;
        let start = Instant::now();
        let mut budget = RequestBudget { until, start, sent: 0 };
        let mut outstanding = 0;
        for client in &mut self.clients {
            outstanding += usize::from(budget.take() && client.request()?);
        }
        let mut events = Vec::with_capacity(256);
        let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        while outstanding > 0 {
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&patience))
                .map_err(BenchError::io("waiting for replies"))?;
            if events.is_empty() {
                return Err(BenchError::Lost(format!("{outstanding} requests have no reply")));
            }
            for event in &events {
                let client = &mut self.clients[event.data.u64() as usize];
                let Some(latency) = client.reply(&mut self.buffer)? else { continue };
                latencies.saturating_record(latency.as_nanos() as u64);
                outstanding -= usize::from(!(budget.take() && client.request()?));
            }
        }
        let elapsed = start.elapsed();
        let cpu = cpu_of(meters)?;
        Ok(RequestOutcome {
            requests: budget.sent,
            elapsed,
            latencies,
            cpu: cpu.zip(before).map(|(after, before)| after.since(before)),
        })
    }
}

/// How many requests may still be sent.
struct RequestBudget {
    until: Until,
    start: Instant,
    sent: u64,
}

impl RequestBudget {
    fn take(&mut self) -> bool {
        let more = match self.until {
            Until::Messages(count) => self.sent < count,
            Until::Elapsed(duration) => self.start.elapsed() < duration,
        };
        self.sent += u64::from(more);
        more
    }
}

impl RequestClient {
    fn open(
        address: &Address,
        inbox: &str,
        subjects: &ScriptSubjects,
        sizes: &Sizes,
    ) -> Result<Self, BenchError> {
        let mut connection = Connection::open(address)?;
        connection.send(format!("SUB {inbox}.* 1\r\n").as_bytes())?;
        connection.barrier()?;
        let text = script::text(sizes.largest());
        let request = |(turn, (number, subject, size)): (usize, (usize, String, usize))| {
            let mut bytes = format!("PUB {subject} {inbox}.{turn} {size}\r\n").into_bytes();
            bytes.extend_from_slice(script::payload(&text, number, size));
            bytes.extend_from_slice(b"\r\n");
            (bytes, size)
        };
        let requests = script::rotation(subjects, sizes).enumerate().map(request).collect();
        let (stream, _nothing_asked_yet) = connection.into_parts()?;
        Ok(Self { stream, counter: FrameCounter::default(), requests, sent: 0, sent_at: Instant::now() })
    }

    /// Sends the next request; always true, for counting.
    fn request(&mut self) -> Result<bool, BenchError> {
        let (bytes, _) = &self.requests[self.sent as usize % self.requests.len()];
        self.sent += 1;
        self.sent_at = Instant::now();
        send_all(&self.stream, bytes)?;
        Ok(true)
    }

    /// Reads once; gives the latency when the reply is complete.
    fn reply(&mut self, buffer: &mut [u8]) -> Result<Option<Duration>, BenchError> {
        match rustix::net::recv(&self.stream, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(BenchError::Closed),
            Ok((count, _)) => count_and_answer(&self.stream, &mut self.counter, &buffer[..count])?,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(BenchError::io("receiving replies")(error)),
        }
        let tally = self.counter.tally();
        match tally.messages {
            _ if tally.bare_headers > 0 => Err(BenchError::NoResponder),
            count if count > self.sent => Err(BenchError::Lost("a request was answered twice".into())),
            count => Ok((count == self.sent).then(|| self.sent_at.elapsed())),
        }
    }
}

/// Workload of requests: clients and echoing services on one server.
#[derive(Clone, Copy, Debug)]
pub struct RequestLoad {
    /// Clients that ask, each one request at a time.
    pub clients: usize,
    /// Echoing services, which share the requests.
    pub services: usize,
    /// Average payload of requests and replies, in bytes.
    pub size: usize,
    /// Subjects in rotation.
    pub subjects: usize,
}

impl RequestLoad {
    /// Runs clients and services once.
    pub fn run(
        &self,
        address: &Address,
        until: Until,
        meter: Option<Meter>,
    ) -> Result<RequestOutcome, BenchError> {
        self.between(address, address, until, meter)
    }

    /// Runs clients and services once, where the services have an address, and so a user, of their
    /// own.
    pub fn between(
        &self,
        services: &Address,
        clients: &Address,
        until: Until,
        meter: Option<Meter>,
    ) -> Result<RequestOutcome, BenchError> {
        self.over(services, clients, until, meter.as_slice(), || Ok(()))
    }

    /// Runs clients, and services on another server. `settled` returns when interest is known to
    /// both; `meters` are the processes of all servers.
    pub fn over(
        &self,
        services: &Address,
        clients: &Address,
        until: Until,
        meters: &[Meter],
        settled: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<RequestOutcome, BenchError> {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
        let (tell_ready, is_ready) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let serving = (0..self.services).map(|_| {
                let tell_ready = tell_ready.clone();
                let ready = move || tell_ready.send(()).unwrap_or(());
                scope.spawn(move || {
                    serve(Connection::open(services)?, "service.*", &ServiceAnswer::Echo, ready, stopped)
                })
            });
            let serving: Vec<_> = serving.collect();
            drop(tell_ready);
            let all_ready = (0..self.services).try_for_each(|_| is_ready.recv());
            let outcome = all_ready
                .map_err(|_| BenchError::Aborted)
                .and_then(|()| self.request(clients, until, meters, settled));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            for service in serving {
                let served = service.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                if let (Err(BenchError::Aborted), Err(error)) = (&outcome, served) {
                    return Err(error);
                }
            }
            outcome
        })
    }

    fn request(
        &self,
        address: &Address,
        until: Until,
        meters: &[Meter],
        settled: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<RequestOutcome, BenchError> {
        let subjects = ScriptSubjects::Rotating { base: "service".into(), first: 0, count: self.subjects };
        let sizes = Sizes::around(self.size, usize::MAX);
        let mut requesters = Requesters::open(address, self.clients, &subjects, &sizes)?;
        settled()?;
        let outcome = requesters.run(until, meters)?;
        requesters.check_payloads()?;
        Ok(outcome)
    }
}

impl Requesters {
    /// Checks that the replies of an echoing service have the sizes of the requests.
    fn check_payloads(&self) -> Result<(), BenchError> {
        for client in &self.clients {
            let sizes =
                client.requests.iter().cycle().take(client.sent as usize).map(|(_, size)| *size as u64);
            if sizes.sum::<u64>() != client.counter.tally().payload_bytes {
                return Err(BenchError::Lost("replies differ from requests in size".into()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_answers_whole_requests_and_keeps_the_rest() {
        let pending = b"MSG s.1 1 in.7 2\r\nhi\r\nPING\r\nMSG s.2 1 3\r\nnot\r\nHMSG s 1 in.8 12 14\r\n\
            NATS/1.0\r\n\r\nab\r\nMSG s.3 1 in.9 5\r\nhal";
        let (out, used, count) = answers(pending, &ServiceAnswer::Echo).unwrap();
        assert_eq!(out, b"PUB in.7 2\r\nhi\r\nPONG\r\nPUB in.8 2\r\nab\r\n");
        assert_eq!(count, 2);
        assert_eq!(&pending[used..], b"MSG s.3 1 in.9 5\r\nhal");
    }
}
